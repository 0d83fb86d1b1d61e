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

A signal's handler, or a finalizer, may come in the middle of a call of this producer, and call it again on the same
thread. There close() begins to close and returns, and every other call raises IllegalStateError: what it interrupted
has a lock, or a place among those who wait, and goes on only when it returns. So each call that takes a lock or waits
is noted in `inside` for its thread, and each is refused where its thread is noted. What send() calls of the
application's (interceptors, serializers, a partitioner) is not inside, nor is a callback.

Road:    beside it; KafkaProducer, the accumulator's waits and the sender's thread ask it.
Thread:  any; `_lock` guards every move and the deadline. Innermost.
Source:  ours; Java KafkaProducer.close, Sender.initiateClose, forceClose (4.1) know two flags.
"""

from __future__ import annotations

import enum
import threading
from _thread import LockType, RLock, allocate_lock
from collections.abc import Callable
from typing import Any, TypeVar

from pyproducer.accumulator.delivery_tally import DeliveryTally, NoTally
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.errors import (
    UNKNOWN,
    ForkedProducerError,
    IllegalStateError,
    ProducerClosedError,
    ProducerDeadError,
)
from pyproducer.common.loop_inbox import LoopInbox
from pyproducer.common.timeouts import checked_timeout
from pyproducer.common.waiting import SYSTEM_LOCKS, Cell, Locks, Waiters, is_owned, release_in_child
from pyproducer.hotpath import Role

_NOBODY = 0
T = TypeVar("T")


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
        client_id: Whose.
        locks: What was given.
        state: Where it is; written here only.
        sender_ident: The ident of the sender thread, 0 before it runs and when it did its last act.
        sender_cpu_clock: The number of the clock of its CPU time; None where there is none, before and after as above.
        cause: Why it died, or None.
        is_over: Whether the sender thread did its last act: every outcome is decided, every part closed.
        inside: By ident the threads that are in the middle of a call, while they have the lock. Written here only.
        futures_lock: Guards what callers add to futures, and what these count, against the sender; innermost.
        can_be_rebuilt: In a child process: whether the producer's next use there gives it another life.
        loop_ident: The ident of the thread whose event loop sends with this producer, and must not be held up; or 0.
        loop_inbox: What brings calls into that loop, or None: there done callbacks run.
        loop_bell: What the task waits in whose record that thread hands over now, or None: it keeps its place in the
            line for memory from one try to the next.
        loop_deadline_ms: Until when that record may wait, by the clock; or None.
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
        self.inside: dict[int, LockType] = {}
        self.can_be_rebuilt: bool = False
        self.role: Role = Role()
        self.take_turn: Callable[[Any, int | None], None] | None = None
        self._clock = clock
        self._lock = locks.rlock()  # a finalizer may close in the middle of a move
        # One for all: it is held for a moment, and can be asked for, whichever future it is about.
        self.futures_lock: RLock = locks.rlock()
        self.loop_ident: int = _NOBODY
        self.loop_inbox: LoopInbox | None = None
        self.loop_bell: object | None = None
        self.loop_deadline_ms: int | None = None
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

    @property
    def is_on_loop(self) -> bool:
        """Whether the current thread's event loop sends with this producer, and runs: nothing may hold it up."""
        if self.loop_ident == _NOBODY or threading.get_ident() != self.loop_ident:
            return False
        inbox = self.loop_inbox
        return inbox is not None and inbox.loop_runs

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
        self.take_turn = None  # a future that the application keeps has this life, and shall not keep the sender by it
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
        self.sender_ident = self.loop_ident = _NOBODY
        self.sender_cpu_clock = None
        self._over.ring()

    def release_locks_in_child(self) -> None:
        """In a child process: release what another thread held; of a life that is over, too, whose futures are left."""
        own = self.inside.pop(threading.get_ident(), None)
        self.inside.clear()  # the others are not here, and a thread that begins here may get an ident of theirs
        if own is not None:
            self.inside[threading.get_ident()] = own
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

    def begin_wait(self, call: str, timeout: float | None) -> int | None:
        """Return when a wait of `timeout` seconds for the sender thread is over, in ms; None for one without a limit.

        Raises:
            IllegalStateError: The call may not wait: see `ensure_may_wait`.
            TypeError: The timeout is not a number.
            ValueError: The timeout is NaN.
        """
        self.ensure_may_wait(call)
        if self.loop_ident and self.is_on_loop and timeout != 0:
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

    # Calls in the middle of others.

    def run(self, call: str, step: Callable[..., T], *arguments: Any) -> T:
        """Do what a call does that takes locks, or waits, and note meanwhile that the current thread is inside.

        It is so while it has the lock that is noted, which is its alone: that is taken and released by `with`, in one
        step for whatever comes from outside.

        Args:
            call: Its name, for the error.
            step: What it does.
            arguments: The step's.

        Raises:
            IllegalStateError: The thread is inside: this is a signal's handler, a finalizer. Nothing was sent.
        """
        if self.is_inside_call:
            raise self.nested(call)
        ident, note = threading.get_ident(), allocate_lock()
        try:
            with note:
                self.inside[ident] = note  # now: a note that nobody has is taken for one that was left
                return step(*arguments)
        finally:
            self.inside.pop(ident, None)

    @property
    def is_inside_call(self) -> bool:
        """Whether the current thread is in a signal's handler, or a finalizer, in the middle of a call."""
        ident = threading.get_ident()
        note = self.inside.get(ident)
        if note is not None:
            if note.locked():
                return True
            self.inside.pop(ident, None)  # who was interrupted twice did not
        return is_owned(self.futures_lock)  # what is done with futures is not noted: it may be asked for in a call

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
                or self.is_inside_call):
            hindrance = self._hindrance(call)
            hindrance.outcome = UNKNOWN  # the records that it asks for go their way, a child's in the parent
            raise hindrance

    def _hindrance(self, call: str) -> IllegalStateError:
        if self.state is LifeState.FORKED:
            return self._forked()
        if self.is_on_sender_thread and not self.role.caller:
            return IllegalStateError(f"{call} inside a callback would wait for itself: callbacks run on the producer's "
                                     "own thread, which does the work that it waits for. Call it from another thread")
        return self.nested(call)

    @staticmethod
    def nested(call: str) -> IllegalStateError:
        """Return the error for a call out of a signal's handler, or a finalizer, in the middle of a call of ours."""
        return IllegalStateError(f"{call} was called in the middle of another call of this producer, by a signal's "
                                 "handler or a finalizer on the same thread, and would wait for what it interrupted: "
                                 "set a flag there, and act on it in the main program")

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


UNOWNED = Life("", SystemClock(), tally=NoTally())
"""That of records which no producer took: they failed before."""
