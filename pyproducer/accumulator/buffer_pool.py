"""buffer.memory: how much the producer may hold, given out fairly.

Road:    append -> [memory] ... completion -> [memory back]
Thread:  any; one lock, and one condition for each waiting caller, in order of arrival.
Source:  Java BufferPool (4.1). Differs from Java: counts bytes and keeps no free buffers, because a bytearray is grown
         by the batch itself; memory is given back when a batch is complete and not on the wire any more (KAFKA-19012).
         Counted is what a batch may grow to, the batch itself and its records' futures (partition_queue.py), which
         are more than the bytes of small records. Not counted are callbacks, and compressed copies of what is counted.
"""

from __future__ import annotations

import threading
from collections import deque

from pyproducer.common.clock import Clock
from pyproducer.common.errors import BufferExhaustedError, ProducerClosedError


class BufferPool:
    """A bounded number of bytes; the caller who waits longest is served first, so large requests do not starve."""

    def __init__(self, total_bytes: int, clock: Clock) -> None:
        self.total_bytes = total_bytes
        self._clock = clock
        self._lock = threading.Lock()  # guards all fields below; taken after a partition's lock, never before
        self._available_bytes = total_bytes
        self._waiters: deque[threading.Condition] = deque()
        self._closed = False

    @property
    def available_bytes(self) -> int:
        """Bytes not given out; a waiting caller's share may be in it."""
        return self._available_bytes

    @property
    def queued_count(self) -> int:
        """How many callers wait; above zero the accumulator sends every batch at once."""
        return len(self._waiters)

    def allocate(self, size_bytes: int, max_block_ms: int) -> None:
        """Take bytes, waiting while there are not enough.

        Args:
            size_bytes: How many; never above `total_bytes` (send() refuses such a record first).
            max_block_ms: Longest wait in ms; 0 means do not wait.

        Raises:
            BufferExhaustedError: Not enough became free in time. Not sent.
            ProducerClosedError: The producer was closed while waiting. Not sent.
        """
        with self._lock:
            if self._closed:
                raise ProducerClosedError("the producer is closed")
            if not self._waiters and self._available_bytes >= size_bytes:
                self._available_bytes -= size_bytes
                return
            self._wait(size_bytes, max_block_ms)

    def deallocate(self, size_bytes: int) -> None:
        """Give bytes back and wake the caller who waits longest."""
        with self._lock:
            self._available_bytes += size_bytes
            if self._waiters:
                self._waiters[0].notify()

    def close(self) -> None:
        """Refuse new callers and wake those who wait; memory may still be given back."""
        with self._lock:
            self._closed = True
            for waiter in self._waiters:
                waiter.notify()

    def _wait(self, size_bytes: int, max_block_ms: int) -> None:
        turn = threading.Condition(self._lock)
        self._waiters.append(turn)
        deadline_ms = self._clock.now_ms() + max_block_ms
        try:
            while self._waiters[0] is not turn or self._available_bytes < size_bytes:
                left_ms = deadline_ms - self._clock.now_ms()
                if left_ms <= 0:
                    raise BufferExhaustedError(
                        f"No {size_bytes} bytes of buffer.memory became free within max.block.ms = {max_block_ms} ms: "
                        f"{self.total_bytes - self._available_bytes} of {self.total_bytes} bytes hold records that are "
                        f"not acknowledged yet, and {len(self._waiters)} callers wait. Send more slowly, or raise "
                        "buffer.memory or max.block.ms")
                turn.wait(left_ms / 1000)
                if self._closed:
                    raise ProducerClosedError("the producer was closed while send() waited for buffer.memory")
            self._available_bytes -= size_bytes
        finally:
            self._waiters.remove(turn)
            # Whoever leaves the head passes the turn on; otherwise memory left over would wait for the next give-back.
            if self._waiters and self._available_bytes > 0:
                self._waiters[0].notify()
