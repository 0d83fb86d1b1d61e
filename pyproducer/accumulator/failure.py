"""Records that failed together, and what many such failures are in all: numbers by topic, and one error that tells.

Road:    a batch's end, a record's that waited, a send that was refused -> [Failure] -> DeliveryTally
Thread:  a Failure is written by who made it, then by the tally; the rest is pure.
Source:  ours.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pyproducer.common.cluster import UNKNOWN_PARTITION, TopicPartition
from pyproducer.common.delivery_summary import MOST_TOPICS, OTHER_TOPICS
from pyproducer.common.errors import (
    OUTCOMES,
    DeliveryFailedError,
    FailedRecords,
    KafkaError,
    TransactionAbortedError,
)
from pyproducer.common.printable import LONGEST_NAME, printable
from pyproducer.common.secrets import shown_text

MOST_FIRST = 16
"""So many failures an error describes; the others it counts."""

Counts = tuple[int, int, int]
NO_COUNTS: Counts = (0, 0, 0)
_INDEX = {outcome: index for index, outcome in enumerate(OUTCOMES)}


class Failure:
    """Records that failed together.

    Attributes:
        topic: Their topic.
        partition: Their partition; UNKNOWN_PARTITION where none was chosen.
        count: How many.
        outcome: What became of them.
        error: That of the first, without traceback and causes.
        is_accepted: False where the caller was told by what send() returned.
        watched: How many futures tell of them: none for rows of a send_batch, whose future tells by itself.
        looked: The indices of the futures that somebody looked at.
        is_given_up: Whether they were given up with their transaction, of which the application is told.
        is_settled: Whether somebody was told of all of them.
        is_in: Whether the tally has it.
        is_counted: Whether it is in the tally's counts.
        period: Of which flush() it is.
    """

    __slots__ = ("count", "error", "is_accepted", "is_counted", "is_given_up", "is_in", "is_settled", "looked",
                 "outcome", "partition", "period", "topic", "watched")

    def __init__(self, topic: str, partition: int, count: int, error: KafkaError, *, watched: int,
                 is_accepted: bool = True) -> None:
        self.topic: str = topic
        self.partition: int = partition
        self.count: int = count
        self.outcome: str = error.outcome
        self.error: KafkaError = copy.copy(error)  # a traceback's frames hold records, and the producer itself
        self.is_accepted: bool = is_accepted
        self.watched: int = watched
        self.looked: set[int] = set()
        self.is_given_up: bool = isinstance(error, TransactionAbortedError)
        self.is_settled: bool = self.is_given_up
        self.is_in: bool = False
        self.is_counted: bool = False
        self.period: int = 0

    @property
    def unseen(self) -> int:
        """How many of its futures nobody looked at."""
        return 0 if self.is_settled else self.watched - len(self.looked)

    @property
    def words(self) -> str:
        """Its error, fit for a line of a log."""
        return _words(self.error)

    def told(self, count: int) -> FailedRecords:
        """Return what an error says of it, where so many of its records are told of."""
        return FailedRecords(self.topic, self.partition, count, self.outcome, self.error)


class FailureSums:
    """Adds up failures for one error.

    Args:
        counts: What there is already, by topic.
        first: The first failures that are in it.
    """

    def __init__(self, counts: Mapping[str, Counts] = MappingProxyType({}),
                 first: Sequence[FailedRecords] = ()) -> None:
        self.counts: dict[str, Counts] = dict(counts)
        self.first: list[FailedRecords] = [*first]

    def add(self, failure: Failure, count: int) -> None:
        """Add so many records of a failure."""
        topic = row_of(self.counts, failure.topic)
        self.counts[topic] = plus(self.counts.get(topic, NO_COUNTS), failure.outcome, count)
        if len(self.first) < MOST_FIRST:
            self.first.append(failure.told(count))

    def error(self, intro: str) -> DeliveryFailedError | None:
        """Return the error that tells of them; None where there are none."""
        failed = total(self.counts)
        count = sum(failed.values())
        if not count:
            return None
        outcomes = ", ".join(f"{number} {outcome}" for outcome, number in failed.items() if number)
        words = "".join(f"; {told.count} for {place(told)}: {_words(told.error)}" for told in self.first[:3])
        return DeliveryFailedError(f"{count} record(s) failed {intro} ({outcomes}){words}", failed=failed, topics={
            topic: by_outcome(counts) for topic, counts in self.counts.items()}, errors=tuple(self.first))


def row_of(rows: Mapping[str, object], topic: str) -> str:
    """Return where the failures of a topic are counted."""
    return topic if topic in rows or len(rows) < MOST_TOPICS else OTHER_TOPICS


def plus(counts: Counts, outcome: str, count: int) -> Counts:
    """Return counts with so many records more of an outcome."""
    index = _INDEX[outcome]
    added = [*counts]
    added[index] += count
    return added[0], added[1], added[2]


def difference(counts: Mapping[str, Counts], base: Mapping[str, Counts]) -> dict[str, Counts]:
    """Return what was counted since `base`, by topic."""
    found = {}
    for topic, (not_sent, rejected, unknown) in counts.items():
        before = base.get(topic, NO_COUNTS)
        if before != (not_sent, rejected, unknown):
            found[topic] = (not_sent - before[0], rejected - before[1], unknown - before[2])
    return found


def by_outcome(counts: Counts) -> dict[str, int]:
    """Return counts under the names of their outcomes."""
    return dict(zip(OUTCOMES, counts, strict=True))


def total(topics: Mapping[str, Counts]) -> dict[str, int]:
    """Return the counts of all topics together, under the names of their outcomes."""
    return {outcome: sum(counts[index] for counts in topics.values()) for outcome, index in _INDEX.items()}


def _words(error: KafkaError) -> str:
    return printable(shown_text(str(error)))


def place(failed: Failure | FailedRecords | TopicPartition) -> str:
    """Return where records were to go, for people."""
    topic = printable(failed.topic, LONGEST_NAME)
    return f"topic {topic}" if failed.partition == UNKNOWN_PARTITION else f"{topic}-{failed.partition}"
