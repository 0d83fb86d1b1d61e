"""Channels whose peer is gone while frames that had arrived complete are not handed out yet (the broker's side).

A producer with acks=0 writes its last requests and hangs up: they count all the same, one by one and in order.

Road:    Selector (a channel ended) -> [closing] -> completed_receives, at last disconnected
Thread:  the thread that polls the selector.
Source:  Java Selector.closingChannels, maybeReadFromClosingChannel (4.1). Differs from Java: a response that cannot be
         written does not discard the requests behind it, because they were received before the connection broke.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pyproducer.network.channel import KafkaChannel
from pyproducer.network.receive import NetworkReceive

_logger = logging.getLogger(__name__)


class ClosingChannels:
    """The channels by id, with the reason of their end."""

    def __init__(self) -> None:
        self._channels: dict[str, tuple[KafkaChannel, Exception | None]] = {}

    def __contains__(self, connection_id: str) -> bool:
        return connection_id in self._channels

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._channels))

    def __len__(self) -> int:
        return len(self._channels)

    def add(self, channel: KafkaChannel, error: Exception | None) -> None:
        """Keep a channel until its frames are handed out."""
        self._channels[channel.id] = channel, error

    def get(self, connection_id: str) -> KafkaChannel | None:
        """Return a channel, or None."""
        found = self._channels.get(connection_id)
        return None if found is None else found[0]

    def pop(self, connection_id: str) -> KafkaChannel | None:
        """Forget a channel and return it, or None."""
        found = self._channels.pop(connection_id, None)
        return None if found is None else found[0]

    def go_on(self) -> tuple[list[NetworkReceive], list[tuple[KafkaChannel, Exception | None]]]:
        """Take the next frame of each channel that is not muted.

        Returns:
            The frames, and the channels that have none left, with the reason of their end; those are forgotten.
        """
        receives: list[NetworkReceive] = []
        ended: list[tuple[KafkaChannel, Exception | None]] = []
        for channel, error in list(self._channels.values()):
            if channel.is_muted:
                continue
            found = self._read(channel)
            if found:
                receives += found
            else:
                del self._channels[channel.id]
                ended.append((channel, error))
        return receives, ended

    def _read(self, channel: KafkaChannel) -> list[NetworkReceive]:
        try:
            return channel.read()
        except Exception as error:
            _logger.debug("Nothing more to read from %s, which is closing: %s", channel.id, error)
            return []
