"""buffer.memory: how much the producer may hold, given out fairly.

Road:    append -> [memory] ... completion -> [memory back]
Thread:  any; one lock, and one cell for each waiting caller, in order of arrival.
Source:  Java BufferPool (4.1). Differs from Java: counts bytes and keeps no free buffers, because a bytearray is grown
         by the batch itself; memory is given back when a batch is complete and not on the wire any more (KAFKA-19012).
         Counted is what a batch may grow to, the batch itself and its records' futures (partition_queue.py), which
         are more than the bytes of small records. Not counted are callbacks, and compressed copies of what is counted.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable

from pyproducer.accumulator.life import UNOWNED, Life
from pyproducer.common.clock import Clock
from pyproducer.common.errors import BufferExhaustedError
from pyproducer.common.waiting import Cell, new_cell


class BufferPool:
    """A bounded number of bytes; the caller who waits longest is served first, so large requests do not starve.

    Args:
        total_bytes: buffer.memory.
        clock: For deadlines.
        life: The producer's: its sender thread does not wait for memory that only it can give back.

    Attributes:
        on_exhausted: Told when a caller begins to wait: what lingers should go now.
    """

    def __init__(self, total_bytes: int, clock: Clock, life: Life = UNOWNED) -> None:
        self.total_bytes = total_bytes
        self.on_exhausted: Callable[[], None] = lambda: None
        self._clock = clock
        self._life = life
        self._lock = threading.Lock()  # guards all fields below; taken after a partition's lock, never before
        self._available_bytes = total_bytes
        # Weak, so that who was interrupted and could not leave his place is seen to be gone.
        self._waiters: deque[weakref.ref[Cell]] = deque()
        self._closed = False

    @property
    def available_bytes(self) -> int:
        """Bytes not given out; a waiting caller's share may be in it."""
        return self._available_bytes

    @property
    def queued_count(self) -> int:
        """How many callers wait; above zero the accumulator sends every batch at once."""
        return len(self._waiters) and sum(place() is not None for place in list(self._waiters))

    def allocate(self, size_bytes: int, max_block_ms: int) -> None:
        """Take bytes, waiting while there are not enough.

        Args:
            size_bytes: How many; never above `total_bytes` (send() refuses such a record first).
            max_block_ms: Longest wait in ms; 0 means do not wait.

        Raises:
            BufferExhaustedError: Not enough became free in time. Not sent.
            IllegalStateError: The producer was closed, or died, before or while waiting. Not sent.
        """
        with self._lock:
            if self._closed:
                raise self._life.refusal()
            if self._first() is None and self._available_bytes >= size_bytes:
                self._available_bytes -= size_bytes
                return
        if self._life.is_on_sender_thread:
            raise BufferExhaustedError(
                f"No {size_bytes} bytes of buffer.memory are free, and a callback cannot wait for them: it runs on the "
                f"producer's own thread, which gives memory back: {self._describe()}. Send from another thread, or "
                "raise buffer.memory")
        self._wait(size_bytes, max_block_ms)

    def deallocate(self, size_bytes: int) -> None:
        """Give bytes back and wake the caller who waits longest."""
        with self._lock:
            self._available_bytes += size_bytes
            self._ring_first()

    def close(self) -> None:
        """Refuse new callers and wake those who wait; memory may still be given back."""
        with self._lock:
            self._closed = True
            for place in self._waiters:
                _open(place())

    def _wait(self, size_bytes: int, max_block_ms: int) -> None:
        cell = new_cell()
        place = weakref.ref(cell)
        deadline_ms = self._clock.now_ms() + max_block_ms
        try:
            with self._lock:
                self._waiters.append(place)
            self.on_exhausted()
            while True:
                with self._lock:
                    if self._closed:
                        raise self._life.refusal()
                    if self._first() is cell and self._available_bytes >= size_bytes:
                        self._available_bytes -= size_bytes
                        return
                left_ms = deadline_ms - self._clock.now_ms()
                if left_ms <= 0:
                    raise BufferExhaustedError(
                        f"No {size_bytes} bytes of buffer.memory became free within max.block.ms = {max_block_ms} ms: "
                        f"{self._describe()}. Send more slowly, or raise buffer.memory or max.block.ms")
                self._clock.wait(cell, left_ms / 1000)
        finally:
            with self._lock:
                if place in self._waiters:
                    self._waiters.remove(place)
                # Who leaves the head passes the turn on; otherwise memory left over would wait for the next give-back.
                self._ring_first()

    def _first(self) -> Cell | None:
        """Return the cell of the caller who waits longest. With the lock held."""
        while self._waiters:
            cell = self._waiters[0]()
            if cell is not None:
                return cell
            self._waiters.popleft()
        return None

    def _ring_first(self) -> None:
        if self._available_bytes > 0:
            _open(self._first())

    def _describe(self) -> str:
        return (f"{self.total_bytes - self._available_bytes} of {self.total_bytes} bytes hold records that are not "
                f"acknowledged yet, and {self.queued_count} callers wait")


def _open(cell: Cell | None) -> None:
    """Open a waiter's cell, if he is there and it is not open. With the pool's lock held."""
    if cell is not None and cell.locked():
        cell.release()
