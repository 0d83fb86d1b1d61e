"""A turn of a caller: who waits for the only batch on its way sends it, and reads the answer, by himself.

A caller who hands over and waits pays two hops between threads, and with a third thread busy each hop costs up to the
interpreter's switch interval of 5 ms. So, where callers wait for their records, the sender's thread stands aside for a
moment once it has nothing to do; the next caller who waits finds the role free and takes the step.

    sender thread   turn, turn, ... nothing to do, and somebody waited: aside ..... rung, or alone for 20 ms: turn, ...
    caller          send(), result(): the role is free -> one step, to the answer -> the role is free again

An exception from outside may look like a socket's or a codec's. So a caller takes no step where a signal may bring
another than KeyboardInterrupt: see common/threads.py. What PyThreadState_SetAsyncExc raises in other threads nobody can
foresee; below Exception it is logged and lost, or fails the record. The usual classes for that, as SystemExit, are not.
An error of our own, no memory for one, is not the record's outcome: it is logged as the thread's are, and the caller
waits on.

What a caller's step never does: connect, look names up, run a callback (the thread tells what has one), work for
others. Whatever ends it, an exception from outside included, the role comes back (hotpath's Role), and the thread,
which is rung, goes on from the state that each batch is in; after an exception it recovers first.

Road:    result() -> [turns] -> Sender.run_once
Thread:  `take` and `on_opened` are the callers'; `stand_aside` is the sender thread's.
Source:  ours (Java always hands over).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyproducer.accumulator.batch_state import BatchState
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.produce_result import ProduceRequestResult
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.common.clock import NEVER_MS, Clock
from pyproducer.common.sender_log import SenderLog, has_kept, sender_log, write_kept
from pyproducer.common.threads import only_ctrl_c_comes
from pyproducer.network.wakeup import Wakeup
from pyproducer.sender.freeze import Freeze

if TYPE_CHECKING:
    from pyproducer.accumulator.producer_batch import ProducerBatch
    from pyproducer.sender.sender import Sender

_LOG: SenderLog = sender_log("pyproducer")
# A batch that was opened while the thread stands aside waits so long for its caller to come back and take the step;
# then, or at the next look where callers took steps meanwhile, the thread sends it.
LOOK_S = 0.002
# Callers who wait less often than that pay the two hops, and the thread watches its sockets again.
ASIDE_MS = 20
# Of a batch with more records somebody is more likely to have a callback than to wait alone.
_MOST_RECORDS = 16


class SenderTurns:
    """Gives the role of the sender to one thread at a time.

    Args:
        sender: Takes the turns.
        accumulator: Where the batches are.
        life: The producer's; its `role` is what is given.
        clock: For the time, and where the thread stands aside.
        wakeup: Ends the sleep of whoever polls.
        freeze: Told when a turn is over, and when the role is taken again.
        is_safe_here: Whether nothing from outside can be mistaken for something else in the current thread.
    """

    def __init__(self, sender: Sender, accumulator: RecordAccumulator, life: Life, clock: Clock,
                 wakeup: Wakeup, freeze: Freeze, is_safe_here: Callable[[], bool] = only_ctrl_c_comes) -> None:
        self._sender = sender
        self._accumulator = accumulator
        self._life = life
        self._role = life.role
        self._clock = clock
        self._wakeup = wakeup
        self._freeze = freeze
        self.is_safe_here = is_safe_here
        self._somebody_waited = False
        # After a step that was not for a caller the next is none either: there are several, or they have callbacks.
        self._served_until_ms = -NEVER_MS

    # Any thread.

    def on_opened(self) -> None:
        """A batch was opened: have the sender look, unless its caller is likely to take the step himself."""
        self._wakeup.wakeup()
        if self._role.bell is not None and not self._role.is_free:
            self._role.ring()  # the thread is on its way back, or a caller at work, who leaves it this

    def take(self, outcome: ProduceRequestResult, deadline_ms: int | None) -> None:
        """Somebody waits for a record: let him take a step if the role is free.

        Raises:
            BaseException: What came from outside, Ctrl-C for one. The record is still on its way.
        """
        if not self.is_safe_here():
            self._role.ring()  # nobody did when his batch was opened
            return
        self._somebody_waited = True
        if self._role.is_free:
            try:
                self._role.run(self._step, outcome, deadline_ms)
            except Exception:
                if not self._life.is_forked:
                    _LOG.exception("Uncaught error in a turn of a caller who waits for his record; the sender thread "
                                   "goes on with it")
            finally:
                if self._life.is_forked and not outcome.is_set:  # by a signal's handler, and this is the child
                    self._life.ensure_may_wait("result()")
                if has_kept():
                    write_kept()  # the role is given back: who waits for a handler's lock here holds nobody up

    def _has_nothing(self) -> bool:
        return not self._accumulator.batches() and not self._accumulator.waiting.has_any()

    def _is_for_caller(self, batch: ProducerBatch, now_ms: int) -> bool:
        """Whether a step of a caller may send a batch."""
        return (self._life.is_open and batch.open.record_count <= _MOST_RECORDS and not batch.has_callbacks()
                and self._sender.can_send_at_once(batch, now_ms))

    # Callers.

    def _step(self, outcome: ProduceRequestResult, deadline_ms: int | None) -> bool:
        """Send the batch of an outcome and wait for its answer; False when that is not all, or not for a caller."""
        is_all_done = self._has_done_all(outcome, deadline_ms)
        if not is_all_done:
            self._served_until_ms = self._clock.now_ms() + ASIDE_MS
        return is_all_done

    def _has_done_all(self, outcome: ProduceRequestResult, deadline_ms: int | None) -> bool:
        sender, accumulator, clock = self._sender, self._accumulator, self._clock
        self._wakeup.acknowledge()  # before the look at what there is to do: whoever rings from now on is heard
        now_ms = clock.now_ms()
        self._freeze.end_rest(now_ms)  # after a freeze connections are made anew first, by the thread
        while not outcome.is_set:
            batch = accumulator.only_batch()
            if batch is None or batch.result is not outcome or not self._is_for_caller(batch, now_ms):
                return False
            left_ms = NEVER_MS if deadline_ms is None else deadline_ms - now_ms
            if left_ms <= 0:
                return False
            sender.run_once(now_ms, left_ms)
            now_ms = self._freeze.rested_ms = clock.now_ms()
            if not outcome.is_set and batch.state is not BatchState.OPEN:  # that one lingers, on purpose
                return False
        # Of another caller's batch, which came into this turn, the callbacks may be the thread's to call.
        return outcome.is_told and self._has_nothing()

    # The sender thread.

    def stand_aside(self) -> None:
        """Let callers take their steps, while they come; return with the role."""
        if not (self._somebody_waited and (now_ms := self._clock.now_ms()) >= self._served_until_ms
                and self._may_stand_aside()):
            return
        self._somebody_waited = False  # not above: he whose record is not done waits in the next turn, too
        self._freeze.rested_ms = now_ms
        role, locks = self._role, self._life.locks
        seen, alone_from_ms = role.step_count, now_ms
        bell = locks.cell()
        role.stand_aside(bell)
        # What was put down before the role was free rang nobody.
        is_needed = self._wakeup.is_requested or not self._may_stand_aside()
        is_slow = False  # the caller at work was so at the last look, too: his broker takes its time
        while not (is_needed and role.take_back()):
            role.rings_at_end = is_slow
            if role.caller or not role.is_called:  # at the end of his step a caller passes the ring on
                self._clock.wait(bell, ASIDE_MS / 1000 if is_slow and role.caller else LOOK_S)
            if role.caller or is_slow or role.step_count != seen:  # callers come: all is well
                is_slow = bool(role.caller) and role.step_count == seen
                seen, alone_from_ms = role.step_count, self._clock.now_ms()
                is_needed = role.is_called
            else:
                is_needed = (role.is_called or self._clock.now_ms() - alone_from_ms >= ASIDE_MS
                             or not self._may_stand_aside())
        self._freeze.end_rest(self._clock.now_ms())
        for batch in self._accumulator.batches():  # what a caller's step decided and left to be told
            if batch.state is BatchState.LATE:
                batch.resume()  # a request reads its bytes: it is let go when that ends
            else:
                self._accumulator.resume(batch)

    def _may_stand_aside(self) -> bool:
        return (self._life.is_open and not self._accumulator.has_incomplete() and not self._accumulator.is_closed
                and self._sender.has_nothing_under_way() and not _LOG.isEnabledFor(logging.DEBUG))


