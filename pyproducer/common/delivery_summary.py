"""What became of all records of a producer, as close() tells.

Road:    [tally] -> close() -> [summary] -> application
Thread:  values.
Source:  ours; Java's close() returns nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyproducer.common.errors import OUTCOMES

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_TOPICS = 10_000
"""Of so many topics failures are counted apart. An application may take names from its users, and each that is not
allowed, or does not exist, would leave a line behind for ever."""
OTHER_TOPICS = "(others)"
"""Where those of all others are counted; no topic can have that name."""


def no_failures() -> dict[str, int]:
    """Return how many records failed of each outcome where none did."""
    return dict.fromkeys(OUTCOMES, 0)


class _TopicFields(NamedTuple):
    delivered: int
    failed: dict[str, int]


class TopicDeliveries(_TopicFields):
    """What became of the records of one topic.

    Attributes:
        delivered: How many were stored; with acks=0, how many were sent.
        failed: How many were not, by outcome; all three are there.
    """

    __slots__ = ()

    def __new__(cls, delivered: int = 0, failed: dict[str, int] | None = None) -> Self:
        """Count none where nothing is given."""
        return super().__new__(cls, delivered, no_failures() if failed is None else failed)


class _SummaryFields(NamedTuple):
    delivered: int
    failed: dict[str, int]
    topics: dict[str, TopicDeliveries]


class DeliverySummary(_SummaryFields):
    """What became of the records of a producer since it was made; true where none failed.

        if not producer.close():
            ...

    Records are counted when they are decided, each once: rows of send_batch(), parts of split batches and records that
    waited for their topic included. One that send() refused by raising was never taken, and is not counted; one for
    which send() returned a future that had failed counts as "not_sent".

    Attributes:
        delivered: How many were stored; with acks=0, how many were sent.
        failed: How many were not, by outcome; all three are there.
        topics: The same for each topic. Failures of the first 10,000 topics that had any are told apart; those of
            others are all under "(others)".
    """

    __slots__ = ()

    def __new__(cls, delivered: int = 0, failed: dict[str, int] | None = None,
                topics: dict[str, TopicDeliveries] | None = None) -> Self:
        """Count none where nothing is given."""
        return super().__new__(cls, delivered, no_failures() if failed is None else failed,
                               {} if topics is None else topics)

    def __bool__(self) -> bool:
        return not any(self.failed.values())

    def __repr__(self) -> str:
        failed = ", ".join(f"{outcome}={count}" for outcome, count in self.failed.items() if count) or "none"
        return f"<DeliverySummary delivered={self.delivered} failed: {failed}; topics={len(self.topics)}>"
