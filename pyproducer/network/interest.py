"""Which sockets are watched for what, and the one call that sleeps.

Road:    Selector.poll -> [interest] -> the operating system's select
Thread:  the thread that polls.
Source:  Java SelectionKey.interestOps (seeds 001, 004). Differs from Java: Python's `selectors` has no empty interest,
         so a socket without one is unregistered, which is what Java's epoll selector does inside.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable, Iterable
from typing import Any

from pyproducer.network.channel import KafkaChannel
from pyproducer.network.wakeup import Wakeup

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Interest:
    """The watched sockets.

    Args:
        waker: Ends the sleep; it is not closed here.
        make_poller: Makes what asks the operating system.

    Attributes:
        select_count: How often select was called.
        longest_ms: For how long the last one would have slept at most.
    """

    def __init__(self, waker: Wakeup, make_poller: Callable[[], Any]) -> None:
        self.select_count: int = 0
        self.longest_ms: int = 0
        self._waker = waker
        self._writer_count = 0  # channels that wait to write
        self._selector: selectors.BaseSelector = make_poller()
        self._selector.register(self._waker.receiver, READ, None)

    def update(self, channel: KafkaChannel) -> None:
        """Watch a channel's socket for what the channel waits for now."""
        events = 0
        if channel.is_connected and not channel.is_muted:
            events = READ
        if channel.wants_write:
            events |= WRITE
        if events != channel.registered_events:
            self._register(channel, events)

    def forget(self, channel: KafkaChannel) -> None:
        """Stop watching a channel's socket; must come before the socket is closed."""
        if channel.registered_events:
            self._register(channel, 0)

    def is_alone(self, channel: KafkaChannel) -> bool:
        """Whether no other channel waits to write."""
        return self._writer_count == bool(channel.registered_events & WRITE)

    def _register(self, channel: KafkaChannel, events: int) -> None:
        sock = channel.transport.sock
        if not channel.registered_events:
            self._selector.register(sock, events, channel)
        elif events:
            self._selector.modify(sock, events, channel)
        else:
            self._selector.unregister(sock)
        self._writer_count += bool(events & WRITE) - bool(channel.registered_events & WRITE)
        channel.registered_events = events

    def select(self, timeout_ms: int) -> list[tuple[KafkaChannel, int]]:
        """Sleep until a channel is ready, somebody wakes us, or the time is over; return what is ready."""
        self.select_count += 1
        waker = self._waker  # in the order that wakeup.py proves
        waker.is_sleeping = True
        if waker.is_requested:
            timeout_ms = 0
        self.longest_ms = timeout_ms
        ready = []
        is_rung = False
        try:
            for key, mask in self._selector.select(timeout_ms / 1000):
                if key.data is None:
                    is_rung = True
                else:
                    ready.append((key.data, mask))
        finally:
            waker.is_sleeping = False
            if is_rung:
                waker.drain()
            waker.is_requested = False
        return ready

    def close(self, channels: Iterable[KafkaChannel]) -> None:
        """Watch nothing any more, whatever of these channels is watched; their sockets may be closed then."""
        for channel in channels:
            channel.registered_events = 0
        self._writer_count = 0
        self._selector.close()
