"""What became of a producer's records: how many, since when, and which failures nobody looked at.

Road:    a batch's end, a record's that waited, a send that was refused -> [tally] -> close(), flush(), log, metrics
Thread:  `stored`, `step` and `end`: whoever takes the sender's turns. All else: any. What callers and finalizers add
         goes through two deques, in single steps; only the sender takes out of them. So nobody waits for a lock here,
         and of the counts each step may be done again: an exception from outside at any line loses and doubles none.
Source:  ours; Java counts in metrics only.

A failure is counted once, whatever happens to its futures. Beside that it is open until each of its futures was looked
at (result(), exception(), await, a callback), or a DeliveryFailedError told of it. It is unretrieved, counted and
logged, when that can not happen any more, or is not to be waited for:

    its futures are gone   after ten seconds, in which flush(raise_on_error=True) may come and tell of it; or sooner,
                           when another flush() ended the time that such a flush() speaks of
    the producer is closed at once

With `pyproducer.on.unretrieved=raise` it waits for the next flush() or close() instead, which raises.
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
from pyproducer.common.errors import (
    DeliveryFailedError,
    FailedRecords,
    KafkaError,
)
from pyproducer.common.limited_log import LimitedLog
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.waiting import SYSTEM_LOCKS, Locks, release_in_child

log: SenderLog = sender_log(__name__)

GRACE_MS = 10_000
_MOST_GONE = 1000
"""So many failures without futures are kept apart; older ones are judged, whatever may still come."""

class Count(Protocol):
    """Is told of each failure once."""

    def __call__(self, topic: str, error: KafkaError, count: int, /, *, is_accepted: bool) -> object:
        """See DeliveryTally."""


class _Failures(NamedTuple):
    """What had failed at one moment.

    Attributes:
        counts: How many records, by topic.
        last_number: The number of the last failure, counted or not.
        uncounted: The last failures: those that the sender had not counted, or was counting, in order.
        counted_number: The number of the failure that it had counted last, or was counting.
    """

    counts: Mapping[str, Counts]
    last_number: int
    uncounted: list[Failure]
    counted_number: int


class Period:
    """The failures since a flush() ended.

    Attributes:
        number: Grows.
        base: What had failed before, by topic.
        base_number: The number of the last failure before.
        first: The first failures in it; the sender's, until it ends.
        following: The next period, once this one ended: a flush() that began earlier goes on there.
    """

    __slots__ = ("base", "base_number", "first", "following", "number")

    def __init__(self, number: int, base: Mapping[str, Counts], base_number: int) -> None:
        self.number: int = number
        self.base: Mapping[str, Counts] = base
        self.base_number: int = base_number
        self.first: list[Failure] = []
        self.following: Period | None = None

    def note(self, failure: Failure) -> None:
        """Keep a failure that is counted in it, if it is one of the first; again is no error."""
        if len(self.first) < MOST_FIRST and failure.number > self.base_number and failure not in self.first:
            self.first.append(failure)

    def end(self, seen: _Failures) -> None:
        """Keep those that the sender did not count yet, if they are among the first: it will not note them any more."""
        told_before = self.base_number - (seen.last_number - len(seen.uncounted))
        new = seen.uncounted[max(0, told_before):][:MOST_FIRST]
        self.first.extend(failure for failure in new if failure not in self.first)

    def first_of(self, seen: _Failures) -> list[FailedRecords]:
        """Return the first failures since it began, as far as they are among those that were seen."""
        first: list[Failure] = []
        period: Period | None = self
        while period is not None and len(first) < MOST_FIRST:
            first.extend(failure for failure in period.first if failure.number <= seen.last_number)
            period = period.following
        return [failure.told(failure.count) for failure in first[:MOST_FIRST]]


class Telling(NamedTuple):
    """What a flush() or close() is about to tell.

    Attributes:
        error: What it raises, if anything.
        following: The period behind those of which a flush() tells; None of a close().
        taken: What nobody looked at, in it, where that is raised.
        opened: The same, where it is logged.
    """

    error: DeliveryFailedError | None
    following: Period | None
    taken: FailureSums | None
    opened: Sequence[Failure] = ()


class DeliveryTally:
    """Counts the records of one producer.

    Args:
        raises: Whether flush() and close() raise for what nobody looked at.
        locks: Makes its one lock.
        wake: Has the sender take a turn; called from finalizers, too.
        count: Told of each failure once: topic, error, how many records, and whether send() had taken them.

    Attributes:
        is_busy: Whether `step` has anything to do. Written here only.
        unretrieved_count: How many failed records nobody looked at.
        waiting: The futures that callers wait for now, each under a key of that caller's.
    """

    def __init__(self, *, raises: bool = False, locks: Locks = SYSTEM_LOCKS,
                 wake: Callable[[], object] = lambda: None,
                 count: Count = lambda _topic, delivery_failed, _count, *, is_accepted: None) -> None:
        self.raises = raises
        self.is_busy: bool = False
        self.unretrieved_count: int = 0
        self.waiting: dict[object, Any] = {}
        self._wake = wake
        self._tell_count = count
        # By topic: a count, and what was counted last. One write, so whoever was interrupted sees that he had done it.
        self._stored: dict[str, tuple[int, Any]] = {}
        self._failed: dict[str, tuple[Counts, Failure]] = {}
        self._inbox: deque[Failure] = deque()  # failures that are not counted
        self._open: dict[Failure, weakref.ref[Any]] = {}  # those with futures, and what holds these
        self._gone: deque[Failure] = deque()  # those whose futures went
        self._judged: deque[tuple[int, Failure]] = deque()  # the same, and when they are unretrieved; the sender's
        self._counted_number = 0  # of the failure that was counted last; the sender's
        self._period = Period(0, {}, 0)
        self._has_ended = False
        self._lock = locks.rlock()  # guards what follows, and the change of _period
        self._left = FailureSums()  # unretrieved ones that the next flush() or close() raises for
        # What a call was about to take: all of it, or nothing.
        self._taking: tuple[list[Failure], FailureSums] | None = None
        self._taken = FailureSums()  # of a flush() or close() that has not told: interrupted, the next one tells it
        self._untold: Period | None = None  # of a flush() that has not told: interrupted, the next one begins there
        self._failures_log = LimitedLog(log, "%d more failures, of %d records, were left out here")
        self._unseen_log = LimitedLog(log, "%d more failures that nobody looked at, of %d records, were left out here")

    # The ends of records.

    def stored(self, outcome: Any, topic: str, count: int) -> None:
        """Count the records of a batch that are stored; again, with the same `outcome`, is no error."""
        if outcome.is_counted:
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
        if failure.is_in:
            return
        self._inbox.append(failure)
        self.is_busy = True
        self.watch(failure, holder)
        failure.is_in = True
        if not failure.is_accepted and len(self._inbox) == 1:
            self._wake()  # of what fails on the sender's side it hears without

    def watch(self, failure: Failure, holder: object) -> None:
        """Note when the futures of a failure go before somebody looked at them. Thread: any."""
        if failure.unseen:
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
        for failure in list(self._open):
            self._call_unretrieved(failure, now_ms)
        self._failures_log.tell_left_out()
        self._unseen_log.tell_left_out()

    def _take_in(self, now_ms: int) -> None:
        while self._inbox:
            failure = self._inbox[0]
            is_new = not failure.is_counted
            self._count(failure)
            self._inbox.popleft()
            if is_new and failure.is_accepted and not failure.is_given_up:
                self._failures_log.warning(
                    now_ms, failure.count, "%d record(s) for %s failed, outcome %s: %s", failure.count, place(failure),
                    failure.outcome, failure.words)

    def _count(self, failure: Failure) -> None:
        if failure.is_counted:
            return
        failure.number = failure.number or self._counted_number + 1
        self._counted_number = failure.number  # first: who ends the period meanwhile sees it, and looks once more
        self._period.note(failure)
        topic = row_of(self._failed, failure.topic)
        row = self._failed.get(topic)
        if row is None:
            self._failed[topic] = plus(NO_COUNTS, failure.outcome, failure.count), failure
        elif row[1] is not failure:  # whoever was interrupted behind the count comes with the same one
            self._failed[topic] = plus(row[0], failure.outcome, failure.count), failure
        failure.is_counted = True
        self._tell_count(failure.topic, failure.error, failure.count, is_accepted=failure.is_accepted)

    def _judge(self, now_ms: int) -> None:
        while self._gone:
            failure = self._gone.popleft()
            if failure in self._open:
                self._judged.append((now_ms + GRACE_MS, failure))
        while self._judged:
            due_ms, failure = self._judged[0]
            is_over = due_ms <= now_ms or failure.period < (self._untold or self._period).number
            if len(self._judged) <= _MOST_GONE and (self.raises or not is_over) and failure in self._open:
                break
            self._judged.popleft()
            self._call_unretrieved(failure, now_ms)

    def _call_unretrieved(self, failure: Failure, now_ms: int) -> None:
        if self.raises:
            with self._lock:
                self._end_taking()
                count = self._close(failure)
                if count:
                    self._left.add(failure, count)
        else:
            count = self._close(failure)
        if not count:
            return
        self.unretrieved_count += count
        self._unseen_log.warning(
            now_ms, count, "%d record(s) for %s failed, outcome %s, and nobody looked at their futures "
            "(result(), exception(), await, a callback): %s", count, place(failure), failure.outcome, failure.words)

    def _close(self, failure: Failure) -> int:
        """Return how many of its futures nobody looked at, if nobody was told of it meanwhile."""
        return 0 if self._open.pop(failure, None) is None else failure.unseen

    def on_forked(self) -> None:
        """In a child process: release the lock, if another thread held it."""
        release_in_child(self._lock)

    # flush() and close().

    @property
    def period(self) -> Period:
        """What a flush() that begins now is about."""
        with self._lock:  # not one that another flush() is about to end once more
            return self._period

    def end_flush(self, period: Period, *, raises_all: bool) -> Telling:
        """End the period of a flush(), and return what it raises, if anything.

        Until `on_told` it has not told: interrupted in between, the next flush() tells of it.

        Args:
            period: What `period` was when it began.
            raises_all: Whether it raises for every failure, looked at or not.
        """
        with self._lock:
            untold = self._untold
            if untold is None or period.number < untold.number:
                self._untold = period
            else:
                period = untold
            # All with the lock: what the sender finds unlooked at meanwhile is told of as well, or not taken.
            opened, counts, first, following = self.end_period(period)
            failed = None
            if raises_all:
                failed = FailureSums(difference(counts, period.base), first).error("since the last flush()")
            if failed is not None:
                opened = [failure for failure in opened if failure.period >= period.number]
                if not self.raises:
                    return Telling(failed, following, None, opened)
                return Telling(failed, following, self._take(opened))
        return self.take_unseen()._replace(following=following) if self.raises else Telling(None, following, None)

    def on_told(self, telling: Telling) -> DeliveryFailedError | None:
        """A flush() or close() is about to raise, or to return: nobody else is to tell it. Return what it raises."""
        following, none = telling.following, FailureSums()
        for failure in telling.opened:
            self.settle(failure)
        with self._lock:
            # Another call that has ended `following`, or taken more, meanwhile has told nobody, perhaps.
            untold, taken = self._untold, none if self._taken is telling.taken else self._taken
            if following is not None and untold is not None and untold.number < following.number:
                untold = None if self._period is following else following
            self._taken, self._untold = taken, untold
        if not self.raises and (self._gone or self._judged):
            self._wake()  # nobody raises for these any more
        return telling.error

    def tell_unseen(self) -> DeliveryFailedError | None:
        """Return what a close() raises."""
        return self.on_told(self.take_unseen())

    def on_aborted(self) -> None:
        """Have nobody told of what failed so far: who aborts its transaction knows that none of it is there.

        It may be done again.
        """
        opened, _, _, _ = self.end_period()
        for failure in opened:
            self.settle(failure)
        with self._lock:
            self._untold = None
            self._end_taking()
            self._left, self._taken = FailureSums(), FailureSums()

    def end_period(self, since: Period | None = None) -> tuple[list[Failure], Mapping[str, Counts],
                                                               list[FailedRecords], Period]:
        """Have the next flush() speak of what fails from now on.

        In a call of the life's, so that no finalizer waits in the middle for the sender, which may want the lock.

        Args:
            since: The period from which on the first failures are wanted; None for the one that ends.

        Returns:
            What is open, the counts so far, the first failures, and the period that begins.
        """
        with self._lock:  # one flush() after the other: what one told is not to be told by the next
            since = since or self._period
            while True:
                ending = self._period
                opened = list(self._open)  # first: each of these is in what is seen next
                seen = self._so_far()
                ending.following = self._period = Period(ending.number + 1, seen.counts, seen.last_number)
                ending.end(seen)
                if self._counted_number == seen.counted_number:
                    return opened, seen.counts, since.first_of(seen), self._period
                # The sender went on, and may have noted in what ended then a failure that is of the next period: so
                # that begins behind it, too.

    def take_unseen(self) -> Telling:
        """Return the error for all failures that nobody looked at so far, if there are any; they are settled.

        Until `on_told` they are told by the next one, too.
        """
        self._note_who_waits()
        with self._lock:
            sums = self._take(list(self._open))
        error = sums.error("and nobody looked at their futures (pyproducer.on.unretrieved is \"raise\")")
        return Telling(error, None, sums)

    def _take(self, opened: list[Failure]) -> FailureSums:
        """Settle these, and have the next call that takes tell of them until this one has. With the lock held."""
        self._end_taking()
        sums = self._taken.and_of(self._left)
        for failure in opened:
            count = failure.unseen
            if count:
                sums.add(failure, count)
        self._taking = opened, sums
        self._end_taking()
        return sums

    def _end_taking(self) -> None:
        """Take what is counted: also what a call had counted that was interrupted meanwhile. With the lock held."""
        taking = self._taking
        if taking is not None:
            opened, sums = taking
            for failure in opened:
                self.settle(failure)
            self._taken, self._left = sums, FailureSums()
            self._taking = None

    @property
    def stored_count(self) -> int:
        """How many records are stored so far. Thread: any."""
        return sum(count for count, _ in dict(self._stored).values())

    def summary(self) -> DeliverySummary:
        """Return what became of all records so far. Thread: any."""
        failed = self._so_far().counts
        stored = dict(self._stored)
        topics = {topic: TopicDeliveries(stored[topic][0] if topic in stored else 0,
                                         by_outcome(failed.get(topic, NO_COUNTS)))
                  for topic in sorted(stored.keys() | failed.keys())}
        return DeliverySummary(sum(topic.delivered for topic in topics.values()), total(failed), topics)

    def _so_far(self) -> _Failures:
        """Return what failed so far, what the sender did not count yet included."""
        while True:
            number = self._counted_number
            uncounted = [failure for failure in dict.fromkeys(list(self._inbox)) if not failure.is_counted]
            rows = dict(self._failed)
            if self._counted_number == number:
                break
        counts = {topic: row[0] for topic, row in rows.items()}
        for failure in uncounted:  # in the order in which the sender will count them, so each in the same row
            topic = row_of(counts, failure.topic)
            row = rows.get(topic)
            if row is None or row[1] is not failure:  # else the sender is, or was interrupted, behind the count
                counts[topic] = plus(counts.get(topic, NO_COUNTS), failure.outcome, failure.count)
        # One that the sender is in the middle of has its number already, perhaps.
        new_count = sum(not 0 < failure.number <= number for failure in uncounted)
        return _Failures(counts, number + new_count, uncounted, number)

    def _note_who_waits(self) -> None:
        """Whoever waits for a future is about to look at it."""
        for future in list(self.waiting.values()):
            failure = future._result.failure
            if failure is not None:
                self.look(failure, future._index)


class NoTally(DeliveryTally):
    """That of records which no producer took."""

    def stored(self, outcome: Any, topic: str, count: int) -> None:
        """Count nothing."""

    def failed(self, failure: Failure, holder: object) -> None:
        """Take in nothing."""

    def watch(self, failure: Failure, holder: object) -> None:
        """Watch nothing."""


def _nobody() -> None:
    """There is no sender any more."""
