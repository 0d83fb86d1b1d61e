"""Who takes the sender's turns: its own thread, or for a moment the caller who waits for the only batch on its way.

A caller that hands over and waits pays two hops between threads, and with a third thread busy each hop costs up to the
interpreter's switch interval of 5 ms. So, where callers wait for their records, the sender's thread steps aside once
it has nothing to do; the next caller who waits finds the role free and sends, reads and completes by itself.

    sender thread   turn, turn, ... nothing to do and somebody waited lately: parked ......... rung or alone: turn, ...
    caller          send(), result(): the role is free -> turns until its record is done -> role free again

What other files call the sender thread is whoever has the role: the sender's own while it is not parked, else `_caller`
if there is one, else nobody. A turn of a caller may be interrupted (Ctrl-C); then the thread calls Sender.recover.

Road:    result() -> [SenderTurns] -> Sender.run_once
Thread:  `take_one` is the sender thread's; all else is for any thread.
Source:  ours (Java always hands over).
"""

from __future__ import annotations

import inspect
import logging
import sys
import threading
from types import CodeType
from typing import TYPE_CHECKING, Protocol

from pyproducer.accumulator.produce_result import ProduceRequestResult
from pyproducer.common.clock import Clock
from pyproducer.sender.sender import NEVER_MS

if TYPE_CHECKING:
    from pyproducer.client.kafka_client import KafkaClient
    from pyproducer.common.cluster import TopicPartition

log = logging.getLogger(__name__)

# How long a batch that was opened while the thread is parked may wait for its caller to come back and take the turn;
# then the thread sends it. Not above linger.ms's default, and once in a change from waiting to not waiting.
_LOOK_SECONDS = 0.005
# Callers who wait less often than that pay the two hops, and the thread watches its sockets again.
_PARKED_MS = 20
_NOBODY = 0
_GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class SteppedSender(Protocol):
    """What the turns need of the Sender."""

    @property
    def needs_its_thread(self) -> bool:
        """Whether there is work that only the sender's own thread does."""

    def connected_leader(self, topic_partition: TopicPartition, now_ms: int) -> int | None:
        """Return the node that takes the partition's batches, or None when it must be found or connected first."""

    def run_once(self, now_ms: int, longest_wait_ms: int | None = None, awaited_node_id: int | None = None) -> None:
        """Take one turn."""

    def recover(self, now_ms: int) -> None:
        """Go on after a turn that ended half way."""


class IncompleteWork(Protocol):
    """What the turns need of the RecordAccumulator."""

    def has_incomplete(self) -> bool:
        """Whether any record's outcome is not known yet."""

    def incomplete_batch_count(self) -> int:
        """How many batches' outcomes are not known yet."""


class SenderTurns:
    """Gives the role of the sender to one thread at a time."""

    def __init__(self, sender: SteppedSender, client: KafkaClient, accumulator: IncompleteWork, clock: Clock) -> None:
        self._sender = sender
        self._client = client
        self._accumulator = accumulator
        self._clock = clock
        self._lock = threading.Lock()  # guards _is_parked and _caller; innermost
        self._bell = threading.Lock()  # held but for the moment between a ring and its being heard
        self._bell.acquire()
        self._is_parked = False
        self._caller = _NOBODY  # ident of the thread that takes turns while the sender's is parked
        self._taken_count = 0  # how often a caller took the role, and what the sender thread saw of it last
        self._seen_count = 0
        self._left_ms = 0  # when the last caller gave the role back
        self._is_interrupted = False  # an exception from outside, Ctrl-C for one, ended a caller's turn half way
        self._somebody_waited = False
        self._is_wanted = False  # somebody wants the sender thread to look
        self._is_ending = False

    # Any thread.

    @property
    def is_mine(self) -> bool:
        """Whether the current thread takes turns as a caller: then it is in a callback."""
        # One who was interrupted while it gave the role back is in no callback, and may flush and close.
        return self._caller == threading.get_ident() and not self._is_abandoned()

    def wakeup(self) -> None:
        """Have the sender look at its work at once."""
        self._is_wanted = True
        self._client.wakeup()
        # The flag is written before the other is read, and the other way round in `_hand_back`: one of the two rings.
        if self._is_parked and self._caller == _NOBODY:
            self._ring()

    def on_opened(self) -> None:
        """A batch was opened: have the sender look, unless the caller is likely to take the turn by itself."""
        if not self._is_parked or self._caller != _NOBODY:
            self._client.wakeup()

    def on_wait(self, outcome: ProduceRequestResult, timeout: float | None, is_hurried: bool) -> float | None:
        """Somebody waits for a batch: let him take turns if the role is free.

        Args:
            outcome: Of the batch.
            timeout: Longest wait in seconds, None for any; 0 takes no turn.
            is_hurried: The batch lingered for company and now should not.

        Returns:
            What is left of the timeout.
        """
        if timeout != 0:  # who only looks will not take the turn: standing aside for him would delay his next record
            self._somebody_waited = True
            if self._is_parked and self._caller == _NOBODY:
                began_ms = self._clock.now_ms()
                # A timeout that makes no sense raises here, outside of any turn.
                longest_ms = NEVER_MS if timeout is None else int(min(timeout * 1000, NEVER_MS))
                if self._take_turns(outcome, began_ms + longest_ms):
                    return timeout and max(0.0, timeout - (self._clock.now_ms() - began_ms) / 1000)
            # The batch may have been opened in the hope that its caller takes the turn.
            is_hurried = is_hurried or self._is_parked
        if is_hurried:
            self.wakeup()
        return timeout

    def stop(self) -> None:
        """Give the role to callers no more: the producer closes."""
        self._is_ending = True
        self.wakeup()

    def mark_forked(self) -> None:
        """Give the role to nobody: this is a child process, and the connections are its parent's."""
        self._is_parked = False

    def _take_turns(self, outcome: ProduceRequestResult, deadline_ms: int) -> bool:
        """Take turns until the batch is done, others have work, or the time is over; False when the role was taken."""
        me = threading.get_ident()
        is_whole = False
        try:
            # An exception may come from outside between any two lines (Ctrl-C in the main thread), so the role is
            # recognized by who has it, and not by how far this function came.
            with self._lock:
                if not self._is_parked or self._caller != _NOBODY or self._is_interrupted or self._is_ending:
                    return False
                self._caller = me
                self._taken_count += 1
            self._run(outcome, deadline_ms)
            is_whole = True
            return True
        finally:
            if self._caller == me:
                self._hand_back(is_whole)

    def _run(self, outcome: ProduceRequestResult, deadline_ms: int) -> None:
        accumulator, clock = self._accumulator, self._clock
        now_ms = clock.now_ms()
        try:
            # With a second batch on its way the caller would work for others, and run their callbacks; without the
            # leader's connection it would have to make one, and a resolver knows no timeout.
            while (not outcome.is_set and accumulator.incomplete_batch_count() == 1 and not self._is_ending
                   and not self._sender.needs_its_thread):
                node_id = self._sender.connected_leader(outcome.topic_partition, now_ms)
                if node_id is None:
                    return
                self._sender.run_once(now_ms, max(deadline_ms - now_ms, 0), node_id)
                now_ms = clock.now_ms()
                if now_ms >= deadline_ms:
                    return
        except Exception:
            # As in the sender's thread: a bug in a turn leaves the record to delivery.timeout.ms.
            log.exception("Uncaught error in a turn of the sender")

    def _hand_back(self, is_whole: bool) -> None:
        if not is_whole:
            self._is_interrupted = True
        self._left_ms = self._clock.now_ms()
        self._caller = _NOBODY
        if self._is_interrupted or self._is_wanted or self._has_work():
            self._ring()

    def _has_work(self) -> bool:
        return self._accumulator.has_incomplete() or self._client.has_in_flight_requests()

    def _ring(self) -> None:
        try:
            self._bell.release()
        except RuntimeError:
            pass  # it was rung and is not heard yet

    # The sender thread.

    def take_one(self) -> None:
        """Take a turn; before it, stand aside while callers take theirs."""
        if self._somebody_waited and not (self._is_wanted or self._is_ending or self._has_work()):
            self._park()
        self._is_wanted = False  # before the look: who sets it after this has put his work where the next one sees it
        if self._is_interrupted:
            self._is_interrupted = False
            self._sender.recover(self._clock.now_ms())
        self._sender.run_once(self._clock.now_ms())

    def _park(self) -> None:
        self._bell.acquire(blocking=False)  # an old ring
        self._left_ms = self._clock.now_ms()
        self._is_parked = True
        # Who opened a batch or wanted a look before that did not ring: look once without waiting.
        is_rung = True
        while not self._may_go_on(is_rung):
            is_rung = self._bell.acquire(timeout=_LOOK_SECONDS)

    def _may_go_on(self, is_rung: bool) -> bool:
        if not is_rung and self._caller != _NOBODY and self._taken_count != self._seen_count:
            self._seen_count = self._taken_count
            return False  # a caller is at work who was not at the last look: all is well
        with self._lock:
            if self._caller != _NOBODY:
                if not self._is_abandoned():
                    return False
                self._is_interrupted = True
                self._caller = _NOBODY
            is_alone = self._clock.now_ms() - self._left_ms >= _PARKED_MS
            if not (self._is_wanted or self._is_interrupted or self._is_ending or is_alone or self._has_work()):
                return False
            self._is_parked = False
            self._somebody_waited = False
            return True

    def _is_abandoned(self) -> bool:
        """Whether a caller left without giving the role back: an exception from outside came while it did so."""
        frame, flags = sys._current_frames().get(self._caller), 0
        while frame is not None:
            if frame.f_code is _TURNS_OF_A_CALLER:
                return False
            flags = frame.f_code.co_flags
            frame = frame.f_back
        # No thread begins in a generator: this one has yielded since the look at its thread, and nothing is known.
        return not flags & _GENERATOR_FLAGS


_TURNS_OF_A_CALLER: CodeType = SenderTurns._take_turns.__code__
