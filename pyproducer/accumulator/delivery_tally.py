"""What became of a producer's records: how many, since when, and which failures nobody looked at.

Road:    a batch's end, a record's that waited, a send that was refused -> [tally] -> close(), flush(), log, metrics
Thread:  `stored`, `step` and `end`: whoever takes the sender's turns. All else: any. What callers and finalizers add
         is put down in single steps, and only the sender takes it up; failures are counted, by it or by who tells of
         them, with the lock. Each step of a count may be done again: an exception from outside at any line loses and
         doubles none.
Source:  ours; Java counts in metrics only.

A failure is counted once, whatever happens to its futures. Beside that it is open until each of its futures was looked
at (result(), exception(), await, a callback), or a DeliveryFailedError told of it. It is unretrieved, counted and
logged, when that can not happen any more, or is not to be waited for:

    its futures are gone   after ten seconds, in which flush(raise_on_error=True) may come and tell of it; or sooner,
                           when another flush() ended the time that such a flush() speaks of
    the producer is closed at once

With `pyproducer.on.unretrieved=raise` it waits for the next flush() or close() instead, which raises.

What a flush() or close() raises is made first, and one write says that it is told. Who is interrupted before that tells
nobody, and the next one tells all; behind it there are a few steps to the raise.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from pyproducer.accumulator.failure import (
    MOST_FIRST,
    NO_COUNTS,
    Counts,
    Failure,
    FailureSums,
    by_outcome,
    difference,
    place,
    plus,
    row_of,
    total,
)
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.delivery_summary import (
    DeliverySummary,
    TopicDeliveries,
)
from pyproducer.common.errors import DeliveryFailedError, KafkaError
from pyproducer.common.limited_log import LimitedLog
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.waiting import SYSTEM_LOCKS, Locks, is_owned, release_in_child

log: SenderLog = sender_log(__name__)

GRACE_MS = 10_000
_MOST_GONE = 1000
"""So many failures without futures are kept apart; older ones are judged, whatever may still come."""

class Count(Protocol):
    """Is told of each failure once."""

    def __call__(self, topic: str, error: KafkaError, count: int, /, *, is_accepted: bool) -> object:
        """See DeliveryTally."""


def _nobody(*_: object, **__: object) -> None:
    """Nobody is told."""


class Period(NamedTuple):
    """The failures since a flush() ended.

    Attributes:
        number: Grows.
        base: What had failed before, by topic.
        first: The first failures in it.
    """

    number: int
    base: Mapping[str, Counts]
    first: list[Failure]


class DeliveryTally:
    """Counts the records of one producer.

    Args:
        raises: Whether flush() and close() raise for what nobody looked at.
        locks: Makes its one lock.
        wake: Has the sender take a turn; called from finalizers, too.
        count: Told of each failure once: topic, error, how many records, and whether send() had taken them.
        is_off: Whether nothing is counted: that of records which no producer took.

    Attributes:
        is_busy: Whether `step` has anything to do. Written here only.
        unretrieved_count: How many failed records nobody looked at.
        waiting: The futures that callers wait for now, each under a key of that caller's.
    """

    def __init__(self, *, raises: bool = False, locks: Locks = SYSTEM_LOCKS,
                 wake: Callable[[], object] = _nobody, count: Count = _nobody, is_off: bool = False) -> None:
        self.raises = raises
        self._is_off = is_off
        self.is_busy: bool = False
        self.unretrieved_count: int = 0
        self.waiting: dict[object, Any] = {}
        self._wake = wake
        self._tell_count = count
        # By topic: a count, and what was counted last. One write, so whoever was interrupted sees that he had done it.
        self._stored: dict[str, tuple[int, Any]] = {}
        self._failed: dict[str, tuple[Counts, Failure]] = {}
        self._inbox: dict[Failure, None] = {}  # failures that the sender has not taken in, in order
        self._open: dict[Failure, weakref.ref[Any]] = {}  # those with futures, and what holds these
        self._gone: deque[Failure] = deque()  # those whose futures went
        self._judged: deque[tuple[int, Failure]] = deque()  # the same, and when they are unretrieved; the sender's
        self._has_ended = False
        self._lock = locks.rlock()  # guards _failed and what follows
        self._period = Period(0, {}, [])
        self._left = FailureSums()  # unretrieved ones that the next flush() or close() raises for
        self._told: Sequence[Failure] = ()  # of which the last one has told, and which are not settled yet
        self._failures_log = LimitedLog(log, "%d more failures, of %d records, were left out here")
        self._unseen_log = LimitedLog(log, "%d more failures that nobody looked at, of %d records, were left out here")

    # The ends of records.

    def stored(self, outcome: Any, topic: str, count: int) -> None:
        """Count the records of a batch that are stored; again, with the same `outcome`, is no error."""
        if outcome.is_counted or self._is_off:
            return
        row = self._stored.get(topic)
        if row is None:
            self._stored[topic] = count, outcome
        elif row[1] is not outcome:
            row[1].is_counted = True  # whoever was interrupted before he wrote this finds it written
            self._stored[topic] = row[0] + count, outcome
        outcome.is_counted = True

    def failed(self, failure: Failure, holder: object) -> None:
        """Take in a failure, whose futures hold `holder`; again is no error. Thread: any."""
        if failure.is_in or self._is_off:
            return
        is_first = not self._inbox  # two that come at once find two there
        self._inbox[failure] = None
        self.is_busy = True
        self.watch(failure, holder)
        failure.is_in = True
        if not failure.is_accepted and (is_first or len(self._inbox) == 1):
            self._wake()  # of what fails on the sender's side it hears without

    def watch(self, failure: Failure, holder: object) -> None:
        """Note when the futures of a failure go before somebody looked at them. Thread: any."""
        if failure.unseen and not self._is_off:
            failure.period = self._period.number
            self._open[failure] = weakref.ref(holder, partial(self._on_gone, failure))

    def look(self, failure: Failure, index: int) -> None:
        """Somebody looked at one future. Thread: any."""
        failure.looked.add(index)
        if not failure.unseen:
            self._open.pop(failure, None)

    def settle(self, failure: Failure) -> None:
        """Somebody was told of all records of a failure. Thread: any."""
        failure.is_settled = True
        self._open.pop(failure, None)

    def _on_gone(self, failure: Failure, _holder: object) -> None:
        """The futures are gone; called in the middle of anything, so it takes no lock."""
        if self._has_ended or not failure.unseen:
            self._open.pop(failure, None)
        else:
            self._gone.append(failure)
            self.is_busy = True
            if len(self._gone) == 1:
                self._wake()

    # The sender's turns.

    def step(self, now_ms: int) -> int:
        """Count, log and judge what came since the last call; return how long until this must be called again."""
        self.is_busy = False  # first: what comes from now on is seen here, or sets it again
        self._take_in(now_ms)
        self._judge(now_ms)
        if self._judged or self._failures_log.left_out_count or self._unseen_log.left_out_count:
            self.is_busy = True
        due_ms = NEVER_MS if self.raises or not self._judged else max(0, self._judged[0][0] - now_ms)
        return min(due_ms, self._failures_log.step(now_ms), self._unseen_log.step(now_ms))

    def end(self, now_ms: int) -> None:
        """Judge all that is left: the producer ends, and every record is decided."""
        self._take_in(now_ms)
        self._has_ended = True
        self._wake = _nobody  # a future that is kept has this tally by its life, and shall not keep the sender by it
        self._note_who_waits()
        with self._lock:  # once: there may be many
            unseen = [(failure, self._end_watch(failure)) for failure in list(self._open)]
        for failure, count in unseen:
            self._tell_unseen(failure, count, now_ms)
        self._failures_log.tell_left_out()
        self._unseen_log.tell_left_out()

    def _take_in(self, now_ms: int) -> None:
        while self._inbox:
            for failure in list(self._inbox):
                with self._lock:
                    self._count(failure)
                del self._inbox[failure]
                self._tell_count(failure.topic, failure.error, failure.count, is_accepted=failure.is_accepted)
                if failure.is_accepted and not failure.is_given_up:
                    self._failures_log.warning(
                        now_ms, failure.count, "%d record(s) for %s failed, outcome %s: %s", failure.count,
                        place(failure), failure.outcome, failure.words)

    def _count(self, failure: Failure) -> None:
        """Count a failure; again is no error. With the lock held."""
        if failure.is_counted:
            return
        first = self._period.first
        if len(first) < MOST_FIRST and failure not in first:
            first.append(failure)
        topic = row_of(self._failed, failure.topic)
        counts, last = self._failed.get(topic, (NO_COUNTS, None))
        if last is not failure:  # whoever was interrupted behind the count comes with the same one
            self._failed[topic] = plus(counts, failure.outcome, failure.count), failure
        failure.is_counted = True

    def _so_far(self) -> dict[str, Counts]:
        """Return what failed so far, by topic, what the sender has not taken in included. With the lock held."""
        for failure in list(self._inbox):
            self._count(failure)
        return self._counts()

    def _counts(self) -> dict[str, Counts]:
        return {topic: counts for topic, (counts, _) in self._failed.items()}

    def _judge(self, now_ms: int) -> None:
        while self._gone:
            failure = self._gone.popleft()
            if failure in self._open:
                self._judged.append((now_ms + GRACE_MS, failure))
        while self._judged:
            due_ms, failure = self._judged[0]
            is_over = due_ms <= now_ms or failure.period < self._period.number
            if len(self._judged) <= _MOST_GONE and (self.raises or not is_over) and failure in self._open:
                break
            self._judged.popleft()
            with self._lock:
                count = self._end_watch(failure)
            self._tell_unseen(failure, count, now_ms)

    def _end_watch(self, failure: Failure) -> int:
        """Return how many of its futures nobody looked at, if nobody was told of it meanwhile. With the lock held."""
        self._settle_told()
        count: int = 0 if self._open.pop(failure, None) is None else failure.unseen
        if count and self.raises:
            self._left.add(failure, count)
        return count

    def _tell_unseen(self, failure: Failure, count: int, now_ms: int) -> None:
        if count:
            self.unretrieved_count += count
            self._unseen_log.warning(
                now_ms, count, "%d record(s) for %s failed, outcome %s, and nobody looked at their futures "
                "afterwards (result(), exception(), await, a callback): %s", count, place(failure), failure.outcome,
                failure.words)

    def on_forked(self) -> None:
        """In a child process: release the lock, if another thread held it."""
        release_in_child(self._lock)

    # flush() and close().

    @property
    def period(self) -> Period:
        """What a flush() that begins now is about."""
        return self._period

    def tell(self, since: Period | None, *, raises_all: bool = False) -> DeliveryFailedError | None:
        """Return what a flush() or close() raises, if anything; nobody else is to tell it.

        In a call of the life's, so that no finalizer waits in the middle for the sender, which may want the lock.

        Args:
            since: What `period` was when the flush() began, which ends now; None for a close().
            raises_all: Whether it raises for every failure, looked at or not.
        """
        error: DeliveryFailedError | None = None
        with self._lock:
            self._settle_told()
            period, left, opened = self._period, self._left, list(self._open)  # each of these is in what is seen next
            counts = self._so_far()
            if since is not None and raises_all:
                failed = difference(counts, since.base)
                first = since.first if since is period else [*since.first, *period.first]
                if not first:  # of a period in between, which two other flushes began and ended: the last ones, then
                    first = [self._failed[topic][1] for topic in failed]
                error = FailureSums(failed, [
                    failure.told(failure.count) for failure in first[:MOST_FIRST]]).error("since the last flush()")
                if error is not None:
                    opened = [failure for failure in opened if failure.period >= since.number]
            if error is None and self.raises:
                self._note_who_waits()
                sums = FailureSums(left.counts, left.first)
                for failure in opened:
                    count = failure.unseen
                    if count:
                        sums.add(failure, count)
                error = sums.error(
                    "and nobody looked at their futures afterwards (pyproducer.on.unretrieved is \"raise\")")
            if error is None:
                opened = []
            else:
                left = FailureSums()
            if since is not None:
                period = Period(period.number + 1, counts, [])
            self._period, self._left, self._told = period, left, opened  # it is told: nothing comes between these
        if not self.raises and (self._gone or self._judged):
            self._wake()  # nobody raises for these any more
        return error

    def on_aborted(self) -> None:
        """Have nobody told of what failed so far: who aborts its transaction knows that none of it is there.

        It may be done again.
        """
        with self._lock:
            opened = list(self._open)  # first, as above
            period = Period(self._period.number + 1, self._so_far(), [])
            self._period, self._left, self._told = period, FailureSums(), opened

    def _settle_told(self) -> None:
        """Settle what a flush() or close() has told; again is no error. With the lock held."""
        for failure in self._told:
            self.settle(failure)
        self._told = ()

    @property
    def stored_count(self) -> int:
        """How many records are stored so far. Thread: any."""
        return sum(count for count, _ in dict(self._stored).values())

    def summary(self) -> DeliverySummary:
        """Return what became of all records so far. Thread: any."""
        if is_owned(self._lock):  # a finalizer asks in the middle of a count, and must not count
            failed = self._counts()
        else:
            with self._lock:
                failed = self._so_far()
        stored = dict(self._stored)
        topics = {topic: TopicDeliveries(stored[topic][0] if topic in stored else 0,
                                         by_outcome(failed.get(topic, NO_COUNTS)))
                  for topic in sorted(stored.keys() | failed.keys())}
        return DeliverySummary(sum(topic.delivered for topic in topics.values()), total(failed), topics)

    def _note_who_waits(self) -> None:
        """Whoever waits for a future is about to look at it."""
        for future in list(self.waiting.values()):
            failure = future._result.failure
            if failure is not None:
                self.look(failure, future._index)
