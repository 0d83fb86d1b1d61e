"""A part of buffer.memory that some of its holders may use, with a line of its own.

Road:    send() -> [memory of the waiting room] -> waiting records
Thread:  any; a lock of its own, taken before that of the whole.
Source:  ours.

Who waits for the part stands in the part's line and in no other, so that records for a topic that nobody knows do not
stop those for the topics beside it. What the part holds counts in the whole, too: both are charged in one step, and
whoever finds either dirty counts the lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyproducer.accumulator.buffer_pool import BufferPool, H, Holder, Holders, Place
from pyproducer.accumulator.life import UNOWNED, Life
from pyproducer.common.clock import Clock


class PartPool(BufferPool):
    """At most so many bytes of a whole; a holder above that is let in when there is no other.

    Args:
        whole: The producer's memory.
        total_bytes: The part.
        clock: For deadlines.
        life: The producer's.
        count_held: Counts what the part's lists hold, in bytes.
    """

    def __init__(self, whole: BufferPool, total_bytes: int, clock: Clock, life: Life = UNOWNED, *,
                 count_held: Callable[[], int]) -> None:
        super().__init__(total_bytes, clock, life, count_held=count_held, why=whole.why)
        self.whole = whole

    def charge(self, batch: H, batches: Holders[H], place: Place | None = None,
               place_in_whole: Place | None = None) -> bool:
        """Put a holder into a list and take its memory, if it is its turn and there is enough, in part and whole.

        Args:
            batch: What reserves the memory.
            batches: Where it is appended.
            place: The caller's among those who wait for the part, or None.
            place_in_whole: The same for the whole.

        Raises:
            IllegalStateError: The producer was closed, or died. Not sent.
        """
        with self.lock:
            if not self.has_room(batch.reserved_bytes, place):
                return False
            self._is_dirty = True
            is_charged = self.whole.charge(batch, batches, place_in_whole)
            if is_charged:
                self._held_bytes += batch.reserved_bytes
            self._is_dirty = False
            return is_charged

    def has_room(self, size_bytes: int, place: Place | None) -> bool:
        """Whether it is a caller's turn here, and there is enough: then it is the whole that lacks."""
        with self.lock:
            return self._is_turn_of(place) and self._available() >= min(size_bytes, self.total_bytes)

    def release(self, batch: H, batches: Holders[H]) -> None:
        """Take a holder out of its list and give its memory back."""
        with self.lock:
            self._available()  # counts what an interrupted caller left, before the step below, which ends clean
            size_bytes = batch.reserved_bytes
            self._is_dirty = True
            self.whole.release(batch, batches)
            self._held_bytes -= size_bytes
            self._is_dirty = False
            self._ring_first()

    def hand_over(self, givers: Sequence[Holder], taker: H, takers: Holders[H]) -> None:
        """Let a holder outside of the part have what some inside have; see BufferPool.hand_over."""
        with self.lock:
            self._available()
            size_bytes = sum(giver.reserved_bytes for giver in givers)
            self._is_dirty = True
            self.whole.hand_over(givers, taker, takers)
            self._held_bytes -= size_bytes
            self._is_dirty = False
            self._ring_first()

    def forget(self, holders: Sequence[Holder]) -> None:
        """Have holders inside hold nothing; see BufferPool.forget."""
        with self.lock:
            self._is_dirty = True
            self.whole.forget(holders)

    def move(self, holder: H, holders: Holders[H], to: Holders[H]) -> None:
        """Take a holder out of one list of the part into another."""
        with self.lock:
            self._available()
            self._is_dirty = True
            self.whole.move(holder, holders, to)
            self._is_dirty = False

    def describe(self) -> str:
        """Say how much is held and who waits, for errors."""
        return (f"{self.total_bytes - self.available_bytes} of {self.total_bytes} bytes, the part of buffer.memory "
                f"for records whose topic or partition is not known yet, are used, and {self.queued_count} callers "
                "wait")
