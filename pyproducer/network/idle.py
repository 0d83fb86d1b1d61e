"""Which connections have done nothing for too long.

Road:    Selector.poll -> [idle]
Thread:  the thread that polls the selector.
Source:  Java Selector.IdleExpiryManager (4.1). Differs from Java: all that have expired are closed in one poll; they
         are found by a scan when the oldest may have expired, which makes noting an activity an append.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyproducer.common.clock import NEVER_MS
from pyproducer.network.channel import KafkaChannel


class IdleExpiry:
    """The times of last activity.

    Args:
        connections_max_idle_ms: How long is too long; negative for never.

    Attributes:
        touched: Channels that did something since `stamp`; the selector appends to it.
        next_check_ms: When to look next.
    """

    def __init__(self, connections_max_idle_ms: int) -> None:
        self.touched: list[KafkaChannel] = []
        self.next_check_ms = NEVER_MS
        self._max_idle_ms = connections_max_idle_ms

    def add(self, channel: KafkaChannel, now_ms: int) -> None:
        """Begin to watch a channel."""
        channel.last_active_ms = now_ms
        if self._max_idle_ms >= 0:
            self.next_check_ms = min(self.next_check_ms, now_ms + self._max_idle_ms)

    def stamp(self, now_ms: int) -> None:
        """Take what was touched as active now.

        What happened in a poll is stamped with the time of the next one: a poll knows when it began, and it may have
        slept for long before something happened.
        """
        for channel in self.touched:
            channel.last_active_ms = now_ms
        self.touched.clear()

    def take_expired(self, channels: Iterable[KafkaChannel], now_ms: int) -> list[KafkaChannel]:
        """Return the channels that are idle for too long; one that waits for somebody here is not idle."""
        expired = []
        oldest_ms = now_ms
        for channel in channels:
            if channel.is_muted or channel.is_busy:
                channel.last_active_ms = now_ms
            elif now_ms - channel.last_active_ms >= self._max_idle_ms:
                expired.append(channel)
            else:
                oldest_ms = min(oldest_ms, channel.last_active_ms)
        self.next_check_ms = oldest_ms + max(1, self._max_idle_ms)
        return expired
