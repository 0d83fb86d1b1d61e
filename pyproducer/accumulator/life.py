"""The life of a producer: one state, one table, joined by every call that waits.

    OPEN -> CLOSING -> CLOSED      close(), the end of its last reference, the interpreter's exit
    OPEN, CLOSING -> DEAD          the sender thread cannot go on: recovery failed, or ten turns in a row did
    any -> FORKED                  in a child process, where no sender thread runs

With pyproducer.fork=rebuild a producer that was OPEN has another life in the child, from its first use there. What the
table says of FORKED then goes for the records that were handed over before the fork: they are the parent's.

    call                  OPEN        CLOSING                 CLOSED    FORKED         DEAD
    send, partitions_for, works       ProducerClosedError     the same  ForkedProdu..  ProducerDeadError
      check
    result                waits       waits                   decided   Forked.., or   decided
                                                                        decided
    flush                 waits       waits                   returns   ForkedProdu..  ProducerDeadError
    close                 waits       lowers the deadline,    returns   returns        returns
                                      waits
    dropped               CLOSING for -                       -         -              -
                          10 s
    interpreter's exit    CLOSING,    waits                   -         -              -
                          waits 10 s

In a callback close() moves the life and returns; what would have to wait for the sender thread, on the sender thread,
raises IllegalStateError.

What is a call in the middle of another, out of a signal's handler or a finalizer, calls.py says; there close() begins
to close and returns, and every other call raises IllegalStateError. What an event loop sends with, loop_side.py says.

Road:    beside it; KafkaProducer, the accumulator's waits and the sender's thread ask it.
Thread:  any; `_lock` guards every move and the deadline. Innermost.
Source:  ours; Java KafkaProducer.close, Sender.initiateClose, forceClose (4.1) know two flags.
"""

from __future__ import annotations

import enum
import threading
from _thread import RLock
from collections.abc import Callable
from typing import Any

from pyproducer.accumulator.calls import Calls
from pyproducer.accumulator.delivery_tally import DeliveryTally
from pyproducer.accumulator.loop_side import LoopSide
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import (
    UNKNOWN,
    ForkedProducerError,
    IllegalStateError,
    ProducerClosedError,
    ProducerDeadError,
)
from pyproducer.common.waiting import SYSTEM_LOCKS, Cell, Locks, Waiters, checked_timeout, release_in_child
from pyproducer.hotpath import Role

_NOBODY = 0


class LifeState(enum.Enum):
    """See the table above."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    FORKED = "forked"
    DEAD = "dead"


_MOVES: dict[LifeState, tuple[LifeState, ...]] = {
    LifeState.OPEN: (LifeState.CLOSING, LifeState.DEAD),
    LifeState.CLOSING: (LifeState.CLOSED, LifeState.DEAD),
    LifeState.CLOSED: (),
    LifeState.DEAD: (),
    LifeState.FORKED: (),
}


class Life:
    """One producer's life.

    Args:
        client_id: Whose.
        clock: For deadlines, and where callers wait.
        locks: Makes the locks and cells of all that has this life.
        tally: See the attribute; made unless given.

    Attributes:
        tally: Counts what becomes of the records.
        role: Who takes the sender's turns; see sender/turns.py.
        take_turn: Told of an outcome that a caller begins to wait for, and until when (ms, or None): he may take a
            turn of the sender himself. None where the sender's thread takes every turn.
        why_not_done: Says why the records of a partition (UNKNOWN_PARTITION: any of the topic) are not done, and which
            setting bounds that, for the end of an error's text.
        client_id: Whose.
        locks: What was given.
        state: Where it is; written here only.
        sender_ident: The ident of the sender thread, 0 before it runs and when it did its last act.
        sender_cpu_clock: The number of the clock of its CPU time; None where there is none, before and after as above.
        cause: Why it died, or None.
        is_over: Whether the sender thread did its last act: every outcome is decided, every part closed.
        calls: Which threads are in the middle of a call.
        loop: The event loop that sends with this producer, if one does.
        futures_lock: Guards what callers add to futures, and what these count, against the sender; innermost.
        can_be_rebuilt: In a child process: whether the producer's next use there gives it another life.
        on_not_taken: Told of a record that was not taken, and whose future tells so, before the future does.
    """

    def __init__(self, client_id: str, clock: Clock, locks: Locks = SYSTEM_LOCKS,
                 tally: DeliveryTally | None = None) -> None:
        self.client_id = client_id
        self.locks = locks
        self.tally: DeliveryTally = DeliveryTally(locks=locks) if tally is None else tally
        self.state: LifeState = LifeState.OPEN
        self.sender_ident: int = _NOBODY
        self.sender_cpu_clock: int | None = None
        self.cause: BaseException | None = None
        self.is_over: bool = False
        self.can_be_rebuilt: bool = False
        self.role: Role = Role()
        self.take_turn: Callable[[Any, int | None], None] | None = None
        self.why_not_done: Callable[[TopicPartition], str] = _no_reason
        self._clock = clock
        self._lock = locks.rlock()  # a finalizer may close in the middle of a move
        # One for all: it is held for a moment, and can be asked for, whichever future it is about.
        self.futures_lock: RLock = locks.rlock()
        self.calls: Calls = Calls(self.futures_lock)
        self.loop: LoopSide = LoopSide()
        self.on_not_taken: Callable[[Any], None] = _nothing
        self._force_at_ms: int | None = None
        self._closed_by = ""
        self._is_in_child = False
        self._is_rebuilding = False  # a child, which rebuilds what it uses
        self._is_closed_in_child = False
        self._over = Waiters(locks.cell)
        self._asleep: set[Cell] = set()  # what callers sleep in; changed in single steps

    @property
    def is_open(self) -> bool:
        """Whether records are taken."""
        return self.state is LifeState.OPEN

    @property
    def is_forked(self) -> bool:
        """Whether this is a child process, and the producer its parent's."""
        return self.state is LifeState.FORKED

    @property
    def is_on_sender_thread(self) -> bool:
        """Whether the current thread takes the sender's turns: it is in a callback, or in a signal's handler."""
        return threading.get_ident() in (self.sender_ident, self.role.caller)

    # Moves.

    def begin_closing(self, by: str, timeout_s: float | None) -> bool:
        """Begin to close, or hurry a closing that runs; the earliest deadline of all counts.

        Args:
            by: Who wants it, for the errors of later calls.
            timeout_s: How long records may take; None until delivery.timeout.ms.

        Returns:
            Whether this call was the first.
        """
        force_at_ms = None if timeout_s is None else self._clock.now_ms() + int(min(max(timeout_s, 0), 2**40) * 1000)
        with self._lock:
            if force_at_ms is not None and (self._force_at_ms is None or force_at_ms < self._force_at_ms):
                self._force_at_ms = force_at_ms
            if not self._move(LifeState.CLOSING):
                return False
            self._closed_by = by
            return True

    def die(self, cause: BaseException) -> None:
        """The sender thread cannot go on."""
        with self._lock:
            self.cause = cause
            self._move(LifeState.DEAD)

    def end(self) -> None:
        """The sender thread did its last act: whoever waits for the end may go on. Again is no error."""
        with self._lock:
            self._move(LifeState.CLOSED)
            self.is_over = True
        # Before who waits goes on: the next thread that begins may get this ident, and is in no callback.
        self.sender_ident, self.sender_cpu_clock = _NOBODY, None
        # A future that the application keeps has this life, and shall not keep the sender by it.
        self.take_turn, self.why_not_done = None, _no_reason
        self._over.ring()

    def mark_forked(self, *, rebuilds: bool = False) -> None:
        """In a child process, whose one thread is the caller.

        Args:
            rebuilds: Whether a producer that is open gets another life here.
        """
        self.release_locks_in_child()
        self._is_in_child = True
        self._is_rebuilding = rebuilds
        self.can_be_rebuilt = rebuilds and self.is_open
        self._is_closed_in_child = rebuilds and not self.is_open
        self.state = LifeState.FORKED
        self.sender_ident = _NOBODY
        self.loop.leave()
        self.sender_cpu_clock = None
        self._over.ring()

    def release_locks_in_child(self) -> None:
        """In a child process: release what another thread held; of a life that is over, too, whose futures are left."""
        self.calls.forget_others()
        release_in_child(self._lock)
        release_in_child(self.futures_lock)
        self.tally.on_forked()

    def wake_in_child(self) -> None:
        """Let whoever waits look, whatever for: in a child process nobody else will ring him.

        After all others were rung, for a cell opens once.
        """
        for cell in list(self._asleep):
            if cell.locked():
                cell.release()

    def close_in_child(self, by: str) -> None:
        """Close a producer that was not used in this child process: it gets no other life."""
        if self.can_be_rebuilt:
            self._closed_by = by
            self._is_closed_in_child = True
            self.can_be_rebuilt = False

    @property
    def closed_in_child_by(self) -> str | None:
        """Who closed it in a child process before it was used there, or None."""
        return self._closed_by if self._is_closed_in_child else None

    def _move(self, to: LifeState) -> bool:
        if to not in _MOVES[self.state]:
            return False
        self.state = to
        if self._is_in_child:  # by a signal's handler between the look and the move
            self.state = LifeState.FORKED
            return False
        return True

    # Deadlines and waits.

    def ms_to_forced_end(self, now_ms: int) -> int | None:
        """How long until what is left is given up, in ms, not below 0; None when nobody set a limit."""
        force_at_ms = self._force_at_ms
        return None if force_at_ms is None else max(force_at_ms - now_ms, 0)

    def await_end(self, timeout_s: float | None) -> bool:
        """Wait until the sender thread did its last act; False when the time is over first.

        In a child process there is none: that returns at once.
        """
        cell = self._over.enter()
        try:
            self._asleep.add(cell)
            return self.is_over or self.is_forked or self._clock.wait(cell, timeout_s)
        finally:
            self._asleep.discard(cell)

    def begin_wait(self, call: str, timeout: float | None, *, is_awaited: bool = False) -> int | None:
        """Return when a wait of `timeout` seconds for the sender thread is over, in ms; None for one without a limit.

        Args:
            call: Its name, for the error.
            timeout: In seconds, or None.
            is_awaited: Whether a task awaits it, so that its thread goes on meanwhile.

        Raises:
            IllegalStateError: The call may not wait: see `ensure_may_wait`.
            TypeError: The timeout is not a number.
            ValueError: The timeout is NaN.
        """
        self.ensure_may_wait(call)
        if self.loop.is_here and timeout != 0 and not is_awaited:
            raise IllegalStateError(f"{call} would hold up the event loop of this producer: await it")
        longest = None if timeout is None else checked_timeout(timeout)
        return None if longest is None else self._clock.now_ms() + int(longest * 1000)

    def wait(self, cell: Cell, deadline_ms: int | None) -> bool:
        """Sleep until a cell opens; False when the time is over first. None is no limit.

        Raises:
            ForkedProducerError: A signal's handler forked in the middle, and this is the child.
        """
        try:
            self._asleep.add(cell)
            # A fork before that rang nobody, one after it does.
            has_opened = self.is_forked or self._clock.wait(
                cell, None if deadline_ms is None else (deadline_ms - self._clock.now_ms()) / 1000)
        finally:
            self._asleep.discard(cell)
        if self.is_forked:
            raise self._forked()
        return has_opened

    # What is allowed.

    def ensure_open(self) -> None:
        """Do nothing while records are taken.

        Raises:
            IllegalStateError: They are not: closed, forked or dead. Nothing was sent.
        """
        if self.state is not LifeState.OPEN:
            raise self.refusal()

    def ensure_may_wait(self, call: str) -> None:
        """Do nothing where a call may wait for the sender thread.

        Args:
            call: Its name, for the error.

        Raises:
            IllegalStateError: It is the sender thread that calls, out of a callback.
            ForkedProducerError: This is a child process: nothing would end the wait.
        """
        if (self.state is LifeState.FORKED or threading.get_ident() in (self.sender_ident, self.role.caller)
                or self.calls.is_nested):
            hindrance = self._hindrance(call)
            hindrance.outcome = UNKNOWN  # the records that it asks for go their way, a child's in the parent
            raise hindrance

    def _hindrance(self, call: str) -> IllegalStateError:
        if self.state is LifeState.FORKED:
            return self._forked()
        if self.is_on_sender_thread and not self.role.caller:
            return IllegalStateError(f"{call} inside a callback would wait for itself: callbacks run on the producer's "
                                     "own thread, which does the work that it waits for. Call it from another thread")
        return self.calls.nested(call)

    def refusal(self) -> IllegalStateError:
        """Return the error for a call that the state does not allow."""
        if self.state is LifeState.FORKED and not self._is_closed_in_child:
            return self._forked()
        if self.state is LifeState.DEAD:
            dead = ProducerDeadError(f"The sender thread of {self.client_id} could not go on and ended: "
                                     f"{self.cause!r}. Its records have failed; make a new producer")
            dead.__cause__ = self.cause
            return dead
        by = f" ({self._closed_by})" if self._closed_by else ""
        return ProducerClosedError(f"Cannot perform the operation: the producer {self.client_id} is closed{by}")

    def _forked(self) -> ForkedProducerError:
        if self._is_rebuilding:
            return ForkedProducerError("This was begun before the process was forked, so it is the parent's, which "
                                       "goes on with it: what becomes of it is not known here")
        return ForkedProducerError("This producer was made before the process was forked, and its sender thread does "
                                   "not exist here: make one after the fork, in the process that uses it, or set "
                                   "pyproducer.fork = rebuild")


def _nothing(_error: Any) -> None:
    """Tell nobody."""


def _no_reason(_topic_partition: TopicPartition) -> str:
    """Say nothing."""
    return ""


UNOWNED = Life("", SystemClock(), tally=DeliveryTally(is_off=True))
"""That of records which no producer took: they failed before."""
