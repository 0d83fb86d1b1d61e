"""Rows of one task into a producer, every answer counted.

Road:    Spark row -> columns -> [rows] -> producer
Thread:  the task's thread sends; answers arrive on the sender's thread.
Source:  Spark's KafkaRowWriter (4.0): it keeps the first failure of a callback and raises it at the next row.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Protocol

from pyproducer.accumulator.produce_result import OnCompletion
from pyproducer.common.errors import NOT_SENT, KafkaError
from pyproducer.common.records import HeaderLike
from pyproducer.spark.columns import ColumnContract, column_bytes, column_headers, column_partition, column_topic
from pyproducer.spark.errors import ColumnError, RowsFailedError


class RowProducer(Protocol):
    """What a sink uses of KafkaProducer."""

    def send(self, topic: str, value: Any = None, *, key: Any = None, partition: int | None = None,
             headers: Iterable[HeaderLike] | None = None, on_completion: OnCompletion | None = None) -> object:
        """Hand over one record; the callback gets (metadata, exception)."""

    def flush(self) -> None:
        """Wait until every record handed over has its answer."""

    def close(self, timeout: float | None = None) -> object:
        """Close; the timeout is in seconds."""


class RowDelivery:
    """Counts the answers to the rows of one task and keeps the first failure."""

    def __init__(self) -> None:
        self.first_error: BaseException | None = None
        self.sent_count = 0  # task's thread only
        self._acknowledged_count = 0  # sender's thread only: a success is never told by another
        self._failed_count = 0
        self._lock = threading.Lock()  # guards first_error and _failed_count: a failure may come on either thread

    def on_completion(self, metadata: Any, exception: BaseException | None) -> None:
        """Count one answer: the callback of every row."""
        if exception is None:
            self._acknowledged_count += 1
        else:
            self.fail(exception)

    def fail(self, error: BaseException) -> None:
        """Count one row that will not be stored."""
        with self._lock:
            self._failed_count += 1
            if self.first_error is None:
                self.first_error = error

    def ensure_all_stored(self) -> None:
        """Check after flush that each row sent was acknowledged.

        Raises:
            RowsFailedError: Some were not; the cause and the counts are in it. Unknown, Not sent or Rejected: as
                the cause's `outcome` says for the first of them.
        """
        unanswered_count = self.sent_count - self._acknowledged_count - self._failed_count
        if self.first_error is None and unanswered_count <= 0:
            return
        failed_count = self.sent_count - self._acknowledged_count
        cause = self.first_error
        reason = f"{type(cause).__name__}: {cause}" if cause is not None else "no answer came before flush() returned"
        error = RowsFailedError(
            f"{failed_count} of {self.sent_count} rows sent were not stored, and the rest of the partition was not "
            f"sent; the first failure: {reason}", sent_count=self.sent_count, failed_count=failed_count)
        error.outcome = getattr(cause, "outcome", NOT_SENT)
        error.retriable = getattr(cause, "retriable", False)
        raise error from cause


def send_rows(rows: Iterable[Any], producer: RowProducer, contract: ColumnContract) -> int:
    """Send the rows of one task, stop at the first failure, flush, and tell of every row that was not stored.

    Args:
        rows: pyspark Rows of one DataFrame.
        producer: Where they go; it is flushed here and not closed.
        contract: Where each column is in a row.

    Returns:
        How many rows were stored.

    Raises:
        RowsFailedError: A row did not fit, or was not acknowledged. The rows before it may be in the log: the task
            is retried as a whole, so delivery is at least once.
    """
    delivery = RowDelivery()
    send, on_completion = producer.send, delivery.on_completion
    topic, value, key = contract.topic, contract.value, contract.key
    partition, headers = contract.partition, contract.headers
    try:
        for row in rows:
            delivery.sent_count += 1
            try:
                # By position: finding a column by name costs about a microsecond each.
                send(contract.fixed_topic or column_topic(row[topic]), column_bytes("value", row[value]),
                     key=None if key is None else column_bytes("key", row[key]),
                     partition=None if partition is None else column_partition(row[partition]),
                     headers=None if headers is None else column_headers(row[headers]),
                     on_completion=on_completion)
            except (KafkaError, TypeError, ValueError) as error:
                delivery.fail(error)
            if delivery.first_error is not None:
                break
    finally:
        # Also when the rows themselves raise: no answer may arrive after the task has ended.
        producer.flush()
    delivery.ensure_all_stored()
    return delivery.sent_count


def field_names(row: Any) -> list[str]:
    """Return the names of a row's columns.

    Raises:
        ColumnError: It is not a row of a DataFrame. Not sent.
    """
    names = getattr(row, "__fields__", None)
    if names is None:
        raise ColumnError(f"expected a row of a DataFrame with named columns, got {type(row).__name__}: "
                          "use df.foreachPartition(sink), or give the rows of an RDD names with toDF()")
    return list(names)
