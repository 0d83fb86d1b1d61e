"""The outcome of one batch, and the futures of its records that look into it.

Road:    append -> [future] ... completion -> [outcome] -> result(), callback
Thread:  the sender thread sets an outcome once; any thread waits for it.
Source:  Java ProduceRequestResult, FutureRecordMetadata (4.1). Differs from Java: a future reads its batch's outcome
         by index, so a record costs one small object and no lock; a split batch moves its futures to new outcomes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyproducer.accumulator.concurrent_futures import ConcurrentState
from pyproducer.accumulator.failure import Failure, place
from pyproducer.accumulator.life import UNOWNED, Life
from pyproducer.common.callback import ensure_done_callback
from pyproducer.common.cluster import UNKNOWN_PARTITION, TopicPartition
from pyproducer.common.errors import NOT_SENT, KafkaError, KafkaTimeoutError, with_outcome
from pyproducer.common.loop_inbox import LoopInbox, Wake
from pyproducer.common.records import RecordMetadata
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.waiting import Waiters
from pyproducer.hotpath import Acknowledgement, FutureRecordMetadata
from pyproducer.record.layout import NO_TIMESTAMP

if TYPE_CHECKING:
    from pyproducer.accumulator.batch_future import BatchFuture

log: SenderLog = sender_log(__name__)

OnCompletion = Callable[["RecordMetadata | None", "KafkaError | None"], object]
"""What a callback is: it gets where its record was stored, or why not."""
DoneCallback = Callable[["FutureRecordMetadata"], object]
E = TypeVar("E", bound=BaseException)


class Observer:
    """Sees an outcome beside the application, as a span does: that it is told is not somebody's look at the record.

    It stands where a callback of the application's would, on_completion or done callback, and has that one in it.

    Args:
        tell: Told first. What it raises keeps nothing from the application's callback.
        on_completion: The application's callback, or None.
    """

    __slots__ = ("on_completion", "tell")

    def __init__(self, tell: Callable[..., object], on_completion: OnCompletion | None = None) -> None:
        self.tell: Callable[..., object] = tell
        self.on_completion: OnCompletion | None = on_completion

    def __call__(self, *outcome: Any) -> None:
        """Tell both."""
        try:
            self.tell(*outcome)
        finally:
            if self.on_completion is not None:
                self.on_completion(*outcome)


class RowCallback:
    """The on_completion of a row that has a future of its own: it tells that of the call, and may be called again.

    Args:
        future: The call's.
        row: Its number there.
    """

    __slots__ = ("_future", "_row")

    def __init__(self, future: BatchFuture, row: int) -> None:
        self._future = future
        self._row = row

    def __call__(self, metadata: RecordMetadata | None, exception: KafkaError | None) -> None:
        """Tell what became of the row."""
        if metadata is not None:
            self._future.on_row(self._row, metadata.partition, metadata.offset, metadata.timestamp)
        elif exception is not None:
            self._future.on_failed((self._row,), lambda _position: exception)


class ProduceRequestResult:
    """What became of a batch: its base offset and append time, or an error for each record.

    The fields are written before `is_set` becomes true and never after, so a reader that saw `is_set` needs no lock.

    Attributes:
        failure: What the producer's tally has of it, where it is an error.
        is_set: The outcome is decided.
        is_told: Callbacks ran, and whoever waited was rung; or the futures moved.
        is_counted: The tally has counted what was stored.
        waiters: Who waits until it is told.
    """

    __slots__ = (
        "__weakref__",
        "_life",
        "_lock",
        "base_offset",
        "end_linger",
        "error_for",
        "failure",
        "is_counted",
        "is_set",
        "is_told",
        "log_append_time",
        "successors",
        "topic_partition",
        "waiters",
    )

    def __init__(self, topic_partition: TopicPartition, life: Life = UNOWNED) -> None:
        self.topic_partition: TopicPartition = topic_partition
        self.base_offset: int = -1
        self.log_append_time: int = NO_TIMESTAMP
        self.error_for: Callable[[int], KafkaError] | None = None
        self.failure: Failure | None = None
        self.is_counted: bool = False
        self.is_set: bool = False
        self.successors: tuple[ProduceRequestResult, ...] = ()  # where the futures went when the batch was split
        # Told when somebody begins to wait: to linger for company then only costs time.
        self.end_linger: Callable[[], None] | None = None
        self._life = life
        self.is_told: bool = False
        # Guards the adding of done callbacks against `set` and `split`; never held while calling out.
        self._lock = life.futures_lock
        self.waiters: Waiters = Waiters(life.locks.cell)

    def set(self, base_offset: int, log_append_time: int, error_for: Callable[[int], KafkaError] | None,
            failure: Failure | None = None) -> None:
        """Write the outcome. Waiters are woken by `notify`, after the callbacks ran."""
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.error_for = None if error_for is None else _Placed(error_for, self.topic_partition)
        self.failure = failure
        self.end_linger = None
        # Under the lock: whoever adds a done callback and saw no outcome has added it when this returns, so the
        # callbacks can be run without a lock for each record.
        with self._lock:
            self.is_set = True

    def notify(self) -> None:
        """Wake everybody who waits."""
        self.is_told = True
        self.waiters.ring()

    def split(self, successors: tuple[ProduceRequestResult, ...]) -> None:
        """Say that the futures moved to other outcomes, and wake the waiters so that they look there."""
        self.successors = successors
        self.notify()

    def on_wait(self) -> None:
        """Somebody begins to wait, however he does it: what he waits for does not linger for company."""
        end_linger = self.end_linger
        if end_linger is not None:
            end_linger()
        self._life.role.ring()  # where the sender's thread stands aside, it comes: nobody here takes its turn

    def wait(self, deadline_ms: int | None) -> bool:
        """Wait until the callbacks ran or the futures moved; False when the time is over first. None is no limit."""
        cell = self.waiters.enter()
        if self.is_told:
            return True
        return self._life.wait(cell, deadline_ms)

    def look(self, index: int) -> None:
        """Note that somebody learns of a record; one that did not fail is nobody's concern."""
        failure = self.failure
        if failure is not None:
            self._life.tally.look(failure, index)

    def on_forked(self) -> None:
        """In a child process: it is the parent's to decide; let who waits look."""
        self.waiters.ring()

    # What the futures of the batch's records do; hotpath's FutureRecordMetadata calls these.

    def result_of(self, future: FutureRecordMetadata, timeout: float | None) -> RecordMetadata:
        """Wait for a record and return where it was stored, or raise its error."""
        outcome = self._outcome_of(future, timeout)
        if outcome.error_for is None:
            topic, partition = outcome.topic_partition
            offset, append_time = outcome.base_offset, outcome.log_append_time
            return RecordMetadata(topic, partition, offset + future._index if offset >= 0 else -1,
                                  append_time if append_time >= 0 else future._timestamp,
                                  future.serialized_key_size, future.serialized_value_size)
        error = outcome._error_of(future)
        try:
            raise error
        finally:
            del error  # else its traceback, with the caller's frames, and it would keep each other

    def exception_of(self, future: FutureRecordMetadata, timeout: float | None) -> KafkaError | None:
        """Wait for a record and return its error, or None when it was stored."""
        outcome = self._outcome_of(future, timeout)
        return None if outcome.error_for is None else outcome._error_of(future)

    def _error_of(self, future: FutureRecordMetadata) -> KafkaError:
        """Look at a record that failed, and return its error for who looks."""
        assert self.error_for is not None, "it failed"
        self.look(future._index)
        return own_copy(self.error_for(future._index))

    def _outcome_of(self, future: FutureRecordMetadata, timeout: float | None) -> ProduceRequestResult:
        """Wait until a record is done, and return its outcome; where that was done already, nothing is asked."""
        outcome: ProduceRequestResult = future._result
        if outcome.is_set:
            return outcome
        life = outcome._life
        deadline_ms = life.begin_wait("result()", timeout)
        return life.calls.run("result()", self._await_outcome, future, timeout, deadline_ms)

    def _await_outcome(self, future: FutureRecordMetadata, timeout: float | None,
                       deadline_ms: int | None) -> ProduceRequestResult:
        outcome: ProduceRequestResult = future._result
        life = outcome._life
        waiting, key = life.tally.waiting, object()
        try:
            waiting[key] = future  # a producer that is closed meanwhile does not say that nobody looked
            while True:
                end_linger, take_turn = outcome.end_linger, life.take_turn
                if end_linger is not None:
                    end_linger()
                if take_turn is not None:
                    take_turn(outcome, deadline_ms)
                if not outcome.is_set and not outcome.wait(deadline_ms):
                    raise KafkaTimeoutError(
                        f"The record for {place(outcome.topic_partition)} was not done within {timeout} s; it is still "
                        f"on its way{life.why_not_done(outcome.topic_partition)}", phase="future", outcome="unknown")
                outcome = future._result  # another one when the batch was split
                if outcome.is_set:
                    if outcome.failure is not None:
                        outcome.look(future._index)
                    return outcome
        finally:
            waiting.pop(key, None)

    def add_done_callback(self, future: FutureRecordMetadata, fn: DoneCallback) -> None:
        """Call `fn(future)` once a record is done; at once when it is done already.

        That of a producer which belongs to an event loop is called by the loop, never at once.

        Raises:
            TypeError: It cannot be called, or it is a coroutine function. The record is on its way as before.
            ForkedProducerError: It is not done, and this is a child process: nobody would call.
        """
        outcome = future._result
        if type(fn) is not Wake:  # each await's, made here
            ensure_done_callback(fn)
            inbox = outcome._life.loop.inbox
            if inbox is not None:
                fn = partial(_call_in_loop, inbox, fn, copy_context())
        if outcome._life.is_forked and not outcome.is_set:
            outcome._life.ensure_may_wait("a done callback")
        outcome.on_wait()
        self._add_done_callback(future, fn)

    def _add_done_callback(self, future: FutureRecordMetadata, fn: DoneCallback) -> None:
        while True:
            outcome = future._result
            with outcome._lock:
                # A split moves the future under this same lock, so the callback cannot be left behind.
                if outcome is not future._result:
                    continue
                if not outcome.is_set:
                    # One write: a signal's handler that comes in the middle may add one, too.
                    future._done_callbacks = [*(future._done_callbacks or ()), fn]
                    return
            break
        if is_heard(fn):
            outcome.look(future._index)
        call_done_callback(fn, future)

    def remove_done_callback(self, future: FutureRecordMetadata, fn: DoneCallback) -> int:
        """Forget a callback that was added and not called; return how many times it was there."""
        while True:
            outcome = future._result
            with outcome._lock:
                if outcome is not future._result:
                    continue
                callbacks: list[DoneCallback] = future._done_callbacks or []
                left = [added for added in callbacks if _of_application(added) != fn]
                # A signal's handler that came in the middle may have added one; none comes between look and write.
                if (future._done_callbacks or callbacks) is callbacks:
                    future._done_callbacks = left or None
                    return len(callbacks) - len(left)

    def concurrent_state_of(self, future: FutureRecordMetadata) -> ConcurrentState:
        """Return where those meet who wait for a record among others, as concurrent.futures.wait() does."""
        outcome = future._result
        if not outcome._life.is_forked:  # what lingers is the parent's
            outcome.on_wait()
        while True:
            outcome = future._result
            with outcome._lock:
                if outcome is not future._result:
                    continue
                callbacks: list[DoneCallback] | None = future._done_callbacks
                for fn in callbacks or ():
                    if type(fn) is ConcurrentState:
                        return fn
                state = ConcurrentState(is_done=outcome.is_set, life=outcome._life)
                added = [*(callbacks or ()), state]
                # A signal's handler that came in the middle may have added one; none comes between look and write.
                if future._done_callbacks is callbacks:
                    future._done_callbacks = added
                    return state

    def run_done_callbacks(self, future: FutureRecordMetadata) -> None:
        """Call what was added to a record that is done now; the sender's. It may be done again, after an exception.

        The application's are forgotten one by one before they are called, ours when all were called.
        """
        if self.failure is not None and any(map(is_heard, future._done_callbacks or ())):
            self.look(future._index)
        called = 0  # so many of ours, which stay: the first ones
        while not self._life.is_forked:  # by the one before: the rest is the parent's
            with self._lock:  # against concurrent_state_of and remove_done_callback
                callbacks = future._done_callbacks or []
                if called == len(callbacks):
                    future._done_callbacks = [fn for fn in callbacks if type(fn) is ConcurrentState] or None
                    return
                is_ours = type(callbacks[called]) in _OURS
                fn = callbacks[called] if is_ours else callbacks.pop(called)
            call_done_callback(fn, future, BaseException)  # no signal arrives there
            called += is_ours

    def await_of(self, future: FutureRecordMetadata) -> Generator[Any, None, RecordMetadata]:
        """Wait for a record in an event loop."""
        outcome: ProduceRequestResult = future._result
        life = outcome._life
        # In the loop that sends no signal's handler awaits in the middle of a send(): a loop does not run in another.
        if not outcome.is_set and (life.is_forked or not life.loop.is_here):
            life.ensure_may_wait("await")
        wake = Wake(life.loop.inbox)
        self._add_done_callback(future, wake)
        # Once for all tasks of this turn of the loop: their records go together, and the sender is woken once.
        wake.inbox.call_after_turn(outcome.on_wait)
        yield from wake.waiter
        return self.result_of(future, 0)

    def describe(self, future: FutureRecordMetadata) -> str:
        """Return a record's state in words."""
        outcome: ProduceRequestResult = future._result
        state = "pending" if not outcome.is_set else "failed" if outcome.error_for is not None else "done"
        return f"<FutureRecordMetadata {outcome.topic_partition} {state}>"


def move_future(future: FutureRecordMetadata, outcome: ProduceRequestResult, index: int) -> None:
    """Let a future look into another outcome from now on (the batch was split)."""
    with future._result._lock:
        future._index, future._result = index, outcome  # one step: who moves futures may have to do it again


class _Placed:
    """Gives the error of a record its topic and partition, for those who count failures by them.

    One error may be that of many batches, so it is copied, once for all records that share it.
    """

    __slots__ = ("_error_for", "_given", "_own", "_place")

    def __init__(self, error_for: Callable[[int], KafkaError], place: TopicPartition) -> None:
        self._error_for = error_for
        self._place = place
        self._given: object = None
        self._own: KafkaError | None = None

    def __call__(self, index: int) -> KafkaError:
        given = self._error_for(index)
        topic, partition = self._place
        known = None if partition == UNKNOWN_PARTITION else partition
        if given.topic == topic and given.partition == known:
            return given
        own = self._own
        if own is None or given is not self._given:
            own = own_copy(given)
            own.topic, own.partition = topic, known
            self._given, self._own = given, own
        return own


def fail_future(future: FutureRecordMetadata, error: KafkaError) -> None:
    """Run the callbacks of a record that failed; again, after an exception half way, is no error."""
    on_completion = future._on_completion
    if on_completion is not None:
        if _tells_application(on_completion):
            future._result.look(future._index)
        own = own_copy(error)
        future._on_completion = None  # last: who is told is not told again
        try:
            on_completion(None, own)
        except BaseException as raised:  # whatever a callback raises changes nothing; no signal arrives on this thread
            on_raised(future, on_completion, raised)
    if future._done_callbacks is not None:
        future._result.run_done_callbacks(future)


def on_raised(future: FutureRecordMetadata, on_completion: OnCompletion | None, raised: BaseException) -> None:
    """Log what the application's on_completion raised; the other records are told all the same.

    Raises:
        BaseException: It was raised where a row tells its call: that is called again when this is recovered from.
    """
    while type(on_completion) is Acknowledgement or type(on_completion) is Observer:
        on_completion = on_completion.on_completion
    if type(on_completion) is RowCallback:
        future._on_completion = on_completion  # alone: interceptors and observers were told
        try:
            raise raised
        finally:
            del raised
    log_raised(future._result.topic_partition, raised)


def log_raised(topic_partition: TopicPartition, raised: BaseException) -> None:
    """Log what an on_completion raised."""
    log.error("on_completion of a record for %s raised", topic_partition, exc_info=raised)


def failed_future(topic_partition: TopicPartition, error: KafkaError, on_completion: OnCompletion | None,
                  life: Life = UNOWNED) -> FutureRecordMetadata:
    """Return a future that failed before hand-over, its callback already run in the caller's thread.

    Args:
        topic_partition: Where the record was to go.
        error: Why it does not.
        on_completion: The application's callback.
        life: The producer's.
    """
    told = with_outcome(error, NOT_SENT)
    life.on_not_taken(told)
    own = _Placed(lambda _index: own_copy(told), topic_partition)(0)
    result = ProduceRequestResult(topic_partition, life)
    failure = Failure(*topic_partition, 1, own, watched=0 if _tells_application(on_completion) else 1,
                      is_accepted=False)
    result.set(-1, NO_TIMESTAMP, lambda _index: own, failure)
    life.tally.failed(failure, result)
    if on_completion is not None:
        try:
            on_completion(None, own_copy(own))
        except Exception as raised:  # what is no Exception may come from outside, as Ctrl-C does, and is the caller's
            log_raised(topic_partition, raised)
    return FutureRecordMetadata(result, 0, NO_TIMESTAMP, -1, -1, None)


def is_heard(fn: Callable[[Any], object]) -> bool:
    """Whether a done callback tells somebody of the outcome; that of an await that was given up does not."""
    return type(fn) not in _DEAF and (type(fn) is not Wake or not fn.waiter.done())


def _tells_application(on_completion: OnCompletion | None) -> bool:
    """Whether a callback is the application's, or has that in it.

    Interceptors and observers hear of every record; that is not the application looking at this one.
    """
    while type(on_completion) is Acknowledgement or type(on_completion) is Observer:
        on_completion = on_completion.on_completion
    return on_completion is not None


_DEAF = frozenset({ConcurrentState, Observer})
"""Done callbacks that are nobody's look."""
_OURS = frozenset({ConcurrentState, Wake})
"""Done callbacks that may be called again, and call nothing of the application's."""


def wait_in_loop(add_done_callback: Callable[[Callable[[Any], None]], None]) -> Generator[Any, None, None]:
    """Wait in the running event loop until the callback that is added here was called."""
    wake = Wake()
    add_done_callback(wake)
    yield from wake.waiter


def own_copy(error: E) -> E:
    """Return a new exception for one caller, so that tracebacks of several threads do not pile up on one object."""
    try:
        own = copy.copy(error)
    except Exception:  # of a class of the application's, which cannot be made of its `args`
        return error
    if error.__cause__ is not None:
        own.__cause__ = error.__cause__
    return own


def _of_application(added: DoneCallback) -> object:
    """Return what was given as a done callback, of what was added for it."""
    return added.args[1] if type(added) is partial and added.func is _call_in_loop else added


def _call_in_loop(inbox: LoopInbox, fn: DoneCallback, context: Context, future: FutureRecordMetadata) -> None:
    inbox.put(partial(context.run, call_done_callback, fn, future))  # as asyncio's futures do


def call_done_callback(fn: Callable[[Any], object], future: object, caught: type[BaseException] = Exception) -> None:
    """Call a done callback of a record, or of columns; what the application's raises is logged.

    Args:
        fn: The callback.
        future: Whose it is.
        caught: What of the application's is caught: in a caller's thread what is no Exception may come from outside.

    Raises:
        BaseException: One of ours was not called to its end, and may be called again.
    """
    if type(fn) in _OURS:
        fn(future)
        return
    try:
        fn(future)
    except caught:
        log.exception("a done callback of %r raised", future)
