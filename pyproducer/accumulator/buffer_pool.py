"""buffer.memory: how much the producer may hold, given out fairly.

Road:    append -> [memory] ... completion -> [memory back]
Thread:  any; one lock, and one cell for each waiting caller, in order of arrival.
Source:  Java BufferPool (4.1). Differs from Java: counts bytes and keeps no free buffers, because a bytearray is grown
         by the batch itself; memory is given back when a batch is complete and not on the wire any more (KAFKA-19012).
         Counted is what a batch may grow to, the batch itself and its records' futures (partition.py), which
         are more than the bytes of small records. Not counted are callbacks, and compressed copies of what is counted.

Held is what the batches in the partitions' lists have reserved: entering a list and being charged is one step, so a
caller who is interrupted anywhere (Ctrl-C) has charged nothing that is in no list. Between the two writes of that step
the pool is dirty, and whoever finds it so counts the lists.
"""

from __future__ import annotations

import weakref
from _thread import RLock
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from pyproducer.accumulator.life import UNOWNED, Life
from pyproducer.common.clock import Clock
from pyproducer.common.errors import BufferExhaustedError
from pyproducer.common.waiting import Waiters, release_in_child

# A caller who was rung in time may come to look so much later, on a machine that is busy; after that he is gone.
_LATEST_MS = 1000


class Bell(Protocol):
    """What a caller waits in: a Cell, or what wakes a task of an event loop."""

    def locked(self) -> bool:
        """Whether it is still closed."""

    def release(self) -> None:
        """Open it."""


class Holder(Protocol):
    """What holds memory: a ProducerBatch, a WaitingRecord."""

    reserved_bytes: int


H = TypeVar("H", bound=Holder)
H_in = TypeVar("H_in", bound=Holder, contravariant=True)


class Holders(Protocol[H_in]):
    """Where holders are: a list, a deque."""

    def append(self, holder: H_in, /) -> None:
        """Add one at the end."""

    def remove(self, holder: H_in, /) -> None:
        """Take one out."""


class LoopWaitError(Exception):
    """There is no memory now, and it is an event loop that asks: a task may wait for it. Never shown.

    Attributes:
        size_bytes: How much is wanted.
        door: Rung when it is worth to ask again; None where the caller waits in the line for memory.
    """

    def __init__(self, message: str, size_bytes: int, door: Waiters | None) -> None:
        super().__init__(message)
        self.size_bytes = size_bytes
        self.door = door


class BufferPool:
    """A bounded number of bytes; the caller who waits longest is served first, so large requests do not starve.

    Args:
        total_bytes: buffer.memory.
        clock: For deadlines.
        life: The producer's: its sender thread does not wait for memory that only it can give back.
        count_held: Counts what all lists hold, in bytes.
        on_exhausted: Told when a caller begins to wait: what lingers should go now.
        max_block_ms: The setting, for errors: a call of many records has less of it with each. None where all waits
            have it whole.
        why: Says what keeps records from being stored, for errors; "" where nothing is known.
    """

    def __init__(self, total_bytes: int, clock: Clock, life: Life = UNOWNED, *,
                 count_held: Callable[[], int], on_exhausted: Callable[[], None] = lambda: None,
                 max_block_ms: int | None = None, why: Callable[[], str] = str) -> None:
        self.total_bytes = total_bytes
        self._why = why
        self._max_block_ms = max_block_ms
        self._count_held = count_held
        self._on_exhausted = on_exhausted
        self._clock = clock
        self._life = life
        # Guards all fields below; taken after a partition's lock, never before.
        self.lock: RLock = life.locks.rlock()
        self._held_bytes = 0
        self._is_dirty = False  # a step is in the middle, or was left there
        # Weakly: who was interrupted and could not leave his place is gone with it.
        self._waiters: deque[weakref.ref[Place]] = deque()
        self._closed = False
        self._waited_ms = 0

    @property
    def available_bytes(self) -> int:
        """Bytes not given out; a waiting caller's share may be in it."""
        if self._is_dirty:  # this thread may be in the middle of that step, so that it must not write
            return self.total_bytes - self._count_held()
        return self.total_bytes - self._held_bytes

    @property
    def queued_count(self) -> int:
        """How many callers wait; above zero the accumulator sends every batch at once."""
        return len(self._waiters) and sum(waiter() is not None for waiter in list(self._waiters))

    @property
    def waited_ms(self) -> int:
        """How long callers have waited for memory in all, without those who still do."""
        return self._waited_ms

    def charge(self, batch: H, batches: Holders[H], place: Place | None = None) -> bool:
        """Put a batch into a list and take the memory that it reserves, if it is the caller's turn and there is enough.

        Args:
            batch: What reserves the memory; never above `total_bytes` (send() refuses such a record first).
            batches: Where it is appended.
            place: The caller's among those who wait, None when he did not wait yet.

        Raises:
            IllegalStateError: The producer was closed, or died. Not sent.
        """
        with self.lock:
            if self._closed:
                raise self._life.refusal()
            if not self._has_room(batch.reserved_bytes, place):
                return False
            self._begin()
            batches.append(batch)
            self._end(batch.reserved_bytes)
            return True

    def extend(self, batch: Holder, more_bytes: int) -> bool:
        """Have a batch in a list reserve more, if there is enough and nobody waits; it is never waited for."""
        with self.lock:
            if self._waiters or self._available() < more_bytes:
                return False
            self._begin()
            batch.reserved_bytes += more_bytes
            self._end(more_bytes)
            return True

    def release(self, batch: H, batches: Holders[H]) -> None:
        """Take a batch out of its list and its memory back, and wake the caller who waits longest."""
        with self.lock:
            self._begin()
            batches.remove(batch)
            self._end(-batch.reserved_bytes)
            batch.reserved_bytes = 0
            if self._waiters:
                self._ring_first()

    def split_reservation(self, giver: H, takers: Sequence[H], holders: list[H]) -> None:
        """Put holders behind one that gives them what it has reserved, in its list; again is no error.

        Args:
            giver: It stays, with nothing; what it has is the sum of what they reserve.
            takers: One or more.
            holders: The list.
        """
        with self.lock:
            new = [] if takers[0] in holders else takers
            more_bytes = sum(taker.reserved_bytes for taker in new) - giver.reserved_bytes
            self._begin()
            place = holders.index(giver) + 1
            holders[place:place] = new
            giver.reserved_bytes = 0
            self._end(more_bytes)

    def move_reservations(self, givers: Sequence[Holder], taker: H, takers: Holders[H]) -> None:
        """Put a holder into a list; it takes over what others have, which then have nothing.

        Args:
            givers: They stay in their lists.
            taker: What it reserves is the sum of theirs.
            takers: Where it is appended.
        """
        with self.lock:
            self._begin()
            takers.append(taker)
            for giver in givers:
                giver.reserved_bytes = 0
            self._end(0)

    def rearrange(self, change: Callable[[], object]) -> None:
        """Have lists changed, or what is reserved there, where that happens rarely: after it they are counted."""
        with self.lock:
            self._is_dirty = True
            change()

    def take_out(self, holder: H, holders: Holders[H]) -> None:
        """Take a holder that has nothing any more out of its list, while nobody counts the lists."""
        with self.lock:
            holders.remove(holder)

    def enter(self, size_bytes: int, max_block_ms: int, since_ms: int | None = None, cell: Bell | None = None) -> Place:
        """Begin to wait for memory; `leave` must follow, whatever happens.

        Args:
            size_bytes: How much is wanted.
            max_block_ms: Longest wait in ms; 0 means do not wait.
            since_ms: When that began; None for now.
            cell: What is opened when it is worth to ask again, where nobody sleeps in it; None for one of our own.

        Raises:
            BufferExhaustedError: A callback cannot wait: it runs on the thread that gives memory back. Not sent.
            LoopWaitError: An event loop cannot wait either. Not sent.
        """
        if cell is None:
            self.ensure_may_wait(size_bytes, self.describe)
        return Place(self, size_bytes, max_block_ms, self._clock.now_ms() if since_ms is None else since_ms,
                     self._life.locks.cell() if cell is None else cell)

    def ensure_may_wait(self, size_bytes: int, describe: Callable[[], str], door: Waiters | None = None) -> None:
        """Do nothing where the caller may sleep until there is memory; `describe` says for errors what uses it.

        Raises:
            BufferExhaustedError: A callback cannot wait: it runs on the thread that gives memory back. Not sent.
            LoopWaitError: An event loop cannot wait either. Not sent.
        """
        if self._life.loop.is_here:
            raise LoopWaitError(f"No {size_bytes} bytes of buffer.memory are free, and an event loop does not wait for "
                                f"them: {describe()}. Await send(), which waits for its turn, or raise buffer.memory",
                                size_bytes, door)
        if self._life.is_on_sender_thread:
            raise BufferExhaustedError(
                f"No {size_bytes} bytes of buffer.memory are free, and a callback cannot wait for them: it runs on the "
                f"producer's own thread, which gives memory back: {describe()}. Send from another thread, or "
                "raise buffer.memory")

    def exhausted(self, size_bytes: int, max_block_ms: int, held: str) -> BufferExhaustedError:
        """Return the error of a caller who waited for so many ms in vain; `held` says what uses the memory."""
        setting_ms = max_block_ms if self._max_block_ms is None else self._max_block_ms
        left = "" if setting_ms <= max_block_ms else f", of which {max_block_ms} ms were left in this call"
        return BufferExhaustedError(
            f"No {size_bytes} bytes of buffer.memory became free within max.block.ms = {setting_ms} ms{left}: "
            f"{held}{self._why()}. Send more slowly, or raise buffer.memory or max.block.ms")

    def close(self) -> None:
        """Refuse new callers and wake those who wait; memory may still be given back."""
        with self.lock:
            self._closed = True
            for waiter in self._waiters:
                _open(waiter())

    def on_forked(self) -> None:
        """In a child process: release the lock, if another thread held it."""
        release_in_child(self.lock)

    def _begin(self) -> None:
        """Begin a step that changes lists; an exception before its end leaves the pool dirty. With the lock held."""
        self._available()  # counts what an interrupted caller left: this step ends clean
        self._is_dirty = True

    def _end(self, more_bytes: int) -> None:
        """End it, with so many bytes more that are held."""
        self._held_bytes += more_bytes
        self._is_dirty = False

    def _available(self) -> int:
        if self._is_dirty:  # count the lists, after whoever was interrupted in the middle of a step
            self._held_bytes = self._count_held()
            self._is_dirty = False
        return self.total_bytes - self._held_bytes

    def _first(self) -> Place | None:
        """Return the place of the caller who waits longest. With the lock held.

        Who was interrupted may have one for ever: the traceback of his Ctrl-C keeps it, as an interactive interpreter
        does. But who was rung comes to look, or is gone.
        """
        while self._waiters:
            waiter = self._waiters[0]
            place = waiter()
            if place is not None and (
                    place.cell.locked() or self._clock.now_ms() < place.deadline_ms + _LATEST_MS):
                return place
            with suppress(ValueError):  # a handler in an event loop's thread took him out, and the next is another
                self._waiters.remove(waiter)
        return None

    def _has_room(self, size_bytes: int, place: Place | None) -> bool:
        return (not self._waiters or self._is_turn_of(place)) and (
            self._available() >= min(size_bytes, self.total_bytes))

    def _is_turn_of(self, place: Place | None) -> bool:
        """Whether nobody waits before the caller. With the lock held."""
        first = self._first()
        return first is None or first is place

    def _ring_first(self) -> None:
        if self._available() > 0:
            _open(self._first())

    def describe(self) -> str:
        """Say how much is held and who waits, for errors."""
        return (f"{self.total_bytes - self.available_bytes} of {self.total_bytes} bytes hold records that are not "
                f"acknowledged yet, and {self.queued_count} callers wait")


class Place:
    """A caller's place among those who wait for memory."""

    __slots__ = ("__weakref__", "_has_left", "_max_block_ms", "_pool", "_size_bytes", "cell", "deadline_ms")

    def __init__(self, pool: BufferPool, size_bytes: int, max_block_ms: int, since_ms: int, cell: Bell) -> None:
        self._pool = pool
        self._size_bytes = size_bytes
        self._max_block_ms = max_block_ms
        self.deadline_ms: int = since_ms + max_block_ms
        self._has_left: bool = False
        self.cell: Bell = cell
        with pool.lock:
            pool._waiters.append(weakref.ref(self))
            # What came back between the charge that failed and this line rang nobody: the first wait looks again.
            pool._ring_first()
        pool._on_exhausted()

    def wait(self) -> None:
        """Wait until it is worth to ask for memory again.

        Raises:
            BufferExhaustedError: Not enough became free in time. Not sent.
            LoopWaitError: It is a task's place: who hands its record over does not wait. Not sent.
        """
        pool = self._pool
        pool.ensure_may_wait(self._size_bytes, pool.describe)
        left_ms = self.deadline_ms - pool._clock.now_ms()
        if left_ms <= 0:
            raise pool.exhausted(self._size_bytes, self._max_block_ms, pool.describe())
        pool._clock.wait(self.cell, left_ms / 1000)  # type: ignore[arg-type]  # one of our own

    @property
    def waited_ms(self) -> int:
        """How long the caller has waited, in ms."""
        return self._pool._clock.now_ms() - self.deadline_ms + self._max_block_ms

    def leave(self) -> None:
        """Give the place up, whether memory was had or not; again is no error."""
        pool = self._pool
        waited_ms = self.waited_ms
        with pool.lock:
            with suppress(ValueError):  # taken out as one who is gone
                pool._waiters.remove(weakref.ref(self))
            if not self._has_left:
                self._has_left = True
                pool._waited_ms += waited_ms
            # Who leaves the head passes the turn on; otherwise memory left over would wait for the next give-back.
            pool._ring_first()


def _open(place: Place | None) -> None:
    """Open a waiter's cell, if he is there and it is not open. With the pool's lock held."""
    if place is not None and place.cell.locked():
        with suppress(RuntimeError):  # a handler in between that forked, and this is the child, has opened it
            place.cell.release()
