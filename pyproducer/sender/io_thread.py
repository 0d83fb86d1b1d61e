"""The one background thread of a producer: it loops, everything below it steps.

Road:    beside it.
Thread:  this is the sender thread.
Source:  Java Sender.run, KafkaThread (4.1). Differs from Java: whatever a turn raises goes through one recovery; where
         that does not help either, the producer is dead, and every future and every caller is told.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyproducer.accumulator.life import Life, LifeState
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.common.clock import NEVER_MS, Clock, cpu_clock_of_this_thread
from pyproducer.common.errors import ProducerClosedError
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.threads import StartThread, start_daemon

if TYPE_CHECKING:
    from pyproducer.client.wire import Wire
    from pyproducer.sender.sender import Sender

log: SenderLog = sender_log(__name__)

# After an error that nobody expected: long enough not to fill a log, short enough to be a hiccup.
_PAUSE_AFTER_BUG_SECONDS = 0.1
_MOST_FAILED_TURNS = 10


class IoThread:
    """Runs the sender until it is told to close; then sends what was accepted, closes every part, and ends.

    Args:
        sender: Takes the turns.
        wire: Woken to close, and closed at the end.
        accumulator: What is left in it at the end fails.
        life: The producer's.
        clock: For the turns.
        refuse: Has every road take no more records. When it returns, what was accepted is in the accumulator.
        close_parts: Closes what the application gave.
        on_end: Told when everything else is done.
        on_end_in_child: Told when a callback came back in a child process: there this thread is the only one, and the
            process ends with it, without exit handlers.
        start_thread: Starts the thread.
        stand_aside: Lets callers take the sender's turns for a while, if they want to; see turns.py.
    """

    def __init__(self, sender: Sender, wire: Wire, accumulator: RecordAccumulator, life: Life,
                 clock: Clock, refuse: Callable[[], None], close_parts: Callable[[], None] = lambda: None,
                 on_end: Callable[[Life], None] = lambda _life: None,
                 start_thread: StartThread = start_daemon,
                 stand_aside: Callable[[], None] = lambda: None,
                 on_end_in_child: Callable[[], None] = lambda: None) -> None:
        self._sender = sender
        self._wire = wire
        self._accumulator = accumulator
        self._life = life
        self._clock = clock
        self._refuse = refuse
        self._close_parts = close_parts
        self._on_end = on_end
        self._start_thread = start_thread
        self._stand_aside = stand_aside
        self._has_refused = False  # the sender thread's
        self._on_end_in_child = on_end_in_child
        self._failed_turns = 0  # in a row; the sender thread's
        self._first = life.locks.lock()  # taken by who comes first, for good: the thread, or who gave it up

    def start(self) -> None:
        """Start the thread."""
        self._start_thread(self._run, f"kafka-producer-network-thread | {self._life.client_id}")

    def abandon(self, *, keeps_parts: bool = False) -> None:
        """Close every part without a thread: none could be had, or the one who starts it was interrupted meanwhile.

        Args:
            keeps_parts: Leave what the application gave as it is, for another producer that is made of it.
        """
        if keeps_parts:
            self._close_parts = _close_none
        self._life.begin_closing("its constructor failed", 0)
        if self._first.acquire(blocking=False):
            self._end()
        else:
            self._wire.wakeup()

    def close(self, by: str, timeout_s: float | None) -> None:
        """Refuse new records; send those that were accepted, then end. Again only brings the deadline nearer.

        Args:
            by: Who wants it.
            timeout_s: After that many seconds what is not done fails.
        """
        self.begin_close(by, timeout_s)
        self._refuse()  # the thread does it, too, but may be in a callback that takes long

    def begin_close(self, by: str, timeout_s: float | None) -> None:
        """Do as `close`, but leave it to the thread to refuse: takes no lock that an interrupted caller may hold.

        The garbage collector runs finalizers in the middle of any line, the sender thread's with a partition's lock
        included.
        """
        self._life.begin_closing(by, timeout_s)
        self._wire.wakeup()

    def _run(self) -> None:
        if not self._first.acquire(blocking=False) or self._life.state is LifeState.FORKED:
            return
        self._life.sender_ident = threading.get_ident()
        self._life.sender_cpu_clock = cpu_clock_of_this_thread()
        try:
            while self.take_turn():
                if self._life.take_turn is not None:
                    self._stand_aside()
        except BaseException as cause:  # nothing ends this thread in silence
            if not self._life.is_forked:
                self._life.die(cause)  # first: a handler of the application's log may raise, too
                log.error("The sender thread of %s cannot go on: its records fail, and it takes no more",
                          self._life.client_id, exc_info=True)
        finally:
            # A callback that forked came back in the child: what is here is the parent's, sockets and all.
            if self._life.is_forked:
                self._on_end_in_child()
            else:
                self._end()

    def take_turn(self) -> bool:
        """Take one turn of the loop, and recover where it ends half way; False when none is left to be taken.

        Raises:
            BaseException: Ten turns in a row failed, or a recovery did by anything else than the system's refusal. The
                records' outcomes are decided by the end.
        """
        now_ms = self._clock.now_ms()
        forced_ms = None
        if self._life.state is LifeState.FORKED:
            return False
        try:
            if self._life.state is not LifeState.OPEN:
                forced_ms = self._life.ms_to_forced_end(now_ms)
                if not self._has_refused:
                    self._refuse()  # who closes may not have come so far
                    self._has_refused = True  # once is enough: it takes each partition's lock
                if forced_ms == 0:
                    return False
                if not self._accumulator.has_incomplete():
                    left_ms = self._sender.ms_to_go_on(now_ms)
                    if left_ms == 0:
                        self._sender.say_goodbye(now_ms)
                        return False
                    forced_ms = left_ms if forced_ms is None else min(forced_ms, left_ms)
            if self._life.role.is_torn:
                self._life.role.is_torn = False
                self._sender.recover(now_ms)  # a caller's step, see turns.py
            self._sender.run_once(now_ms, NEVER_MS if forced_ms is None else forced_ms)
            self._failed_turns = 0
        except BaseException:  # a bug, a codec without memory: the batches have an owner, and none is lost
            if self._life.is_forked:
                raise
            log.exception("Uncaught error in the sender thread")
            self._failed_turns += 1
            if self._failed_turns >= _MOST_FAILED_TURNS:
                raise
            try:
                self._sender.recover(self._clock.now_ms())
            except OSError:  # no descriptor is free for the new sockets, which may be over with the pause
                log.exception("The sender thread cannot recover yet")
                self._life.role.is_torn = True
            self._clock.wait(self._life.locks.cell(), _PAUSE_AFTER_BUG_SECONDS)
        return True

    def _end(self) -> None:
        """Decide what is left, close every part, tell those who wait. Whatever one step raises, the next is done."""
        try:
            with contextlib.ExitStack() as steps:  # the last that is named is the first that is done
                # In this order: a child that is forked in between finds it over, or marks it, and does not wait.
                steps.callback(self._on_end, self._life)
                steps.callback(self._life.end)
                for step in (self._close_parts, self._give_up, self._wire.close, self._refuse):
                    steps.callback(step)
        except BaseException:
            log.exception("Uncaught error at the end of the sender thread")

    def _give_up(self) -> None:
        if self._life.state is LifeState.DEAD:
            error = self._life.refusal()
        else:
            error = ProducerClosedError(f"The producer {self._life.client_id} was closed before the record was "
                                        "acknowledged")
        aborted = self._sender.abort(error)
        if aborted and self._life.state is not LifeState.DEAD:
            log.warning("close() gave up on %d records that were not acknowledged in time", aborted)


def _close_none() -> None:
    """Leave the application's parts as they are."""
