"""What a sink uses of KafkaProducer.

Road:    pool -> [row producer] -> rows, arrow
Thread:  as KafkaProducer.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from pyproducer.accumulator.batch_future import BatchMetadata
    from pyproducer.accumulator.produce_result import OnCompletion
    from pyproducer.common.records import HeaderLike
    from pyproducer.spark.window import Answer


class RowsFuture(Protocol):
    """What became of the rows of a send_batch."""

    def done(self) -> bool:
        """Whether the outcome of every row is known."""

    def result(self) -> BatchMetadata:
        """Wait for all rows; those that failed are in its `errors`."""

    def exception(self) -> BaseException | None:
        """Wait for all rows; nothing is raised."""


class RowProducer(Protocol):
    """A producer of rows and of columns."""

    def send(self, topic: str, value: Any = None, *, key: Any = None, partition: int | None = None,
             headers: Iterable[HeaderLike] | None = None, timestamp: int | datetime | None = None,
             on_completion: OnCompletion | None = None) -> Answer:
        """Hand over one record; the callback gets (metadata, exception)."""

    def send_batch(self, topic: str, values: Any, *, keys: Any = None, headers: Any = None,
                   timestamps: Any = None, partitions: Any = None) -> RowsFuture:
        """Hand over columns."""

    def flush(self) -> None:
        """Wait until every record handed over has its answer."""

    def metrics(self) -> Mapping[str, float]:
        """Return counters under Java's names."""

    def config(self) -> Mapping[str, str | None]:
        """Return every setting and its value."""

    def close(self, timeout: float | None = None) -> object:
        """Close; the timeout is in seconds."""


def is_transactional(producer: RowProducer) -> bool:
    """Whether rows go in a transaction."""
    return bool(producer.config().get("transactional.id"))
