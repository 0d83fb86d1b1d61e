"""Counts what became of the rows of one task, and says it when some were not stored.

Road:    rows, arrow -> [delivery] -> Spark's task failure
Thread:  the task's thread counts what is sent; answers come on the sender's thread, or are collected by the task's.
Source:  Spark's KafkaRowWriter (4.0), which keeps the first failure of a callback and raises it at the next row.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pyproducer.common.errors import NOT_SENT, UNKNOWN
from pyproducer.spark.errors import RowsFailedError

_PARTITIONS_TOLD = 10
"""So many partitions are named in an error; it ends in Spark's log with each attempt."""


class TaskDelivery:
    """The answers to the rows of one task.

    Args:
        in_transaction: Whether the rows are in a transaction, which is aborted where it is a task's that fails.
    """

    def __init__(self, *, in_transaction: bool = False) -> None:
        self._in_transaction = in_transaction
        self.first_error: BaseException | None = None
        self.sent_count = 0  # task's thread only
        self.is_cut_short: bool = False  # task's thread only: rows behind a failed one were not looked at
        # Of successes, by topic and partition. One thread only: the sender's for rows, the task's for columns.
        self._stored: Counter[tuple[str, int]] = Counter()
        self._first_place: tuple[str | None, int] = None, -1
        self._failed_count = 0
        self._unknown_count = 0
        self._lock = threading.Lock()  # guards the first error and counts of failures, which come on either thread

    @property
    def stored_count(self) -> int:
        """Rows that were acknowledged."""
        return sum(self._stored.values())

    def on_completion(self, topic: str, partition: int | None, metadata: Any, exception: BaseException | None) -> None:
        """Count one answer: the callback of every row, with the topic and partition that the row named.

        Of a row that failed there is no metadata; its partition is told only where the row named one.
        """
        if exception is None:
            place = metadata.topic, metadata.partition
            self._stored[place] = self._stored.get(place, 0) + 1  # a Counter's own += takes twice as long
        else:
            self.fail(exception, topic, -1 if partition is None else partition)

    def add_stored(self, topic: str, rows_by_partition: Counter[int]) -> None:
        """Count rows of one topic that were acknowledged."""
        for partition, count in rows_by_partition.items():
            self._stored[topic, partition] += count

    def cut_short(self, rest: Iterator[Any]) -> None:
        """Send nothing behind a failure; note whether anything is there."""
        try:
            self.is_cut_short = next(rest, None) is not None
        except Exception:  # the failure is to be told, and not that of rows which are not sent
            self.is_cut_short = True

    def fail(self, error: BaseException, topic: str | None = None, partition: int = -1, *, row_count: int = 1) -> None:
        """Count rows that will not be stored, or that nobody knows of."""
        with self._lock:
            self._failed_count += row_count
            if getattr(error, "outcome", NOT_SENT) == UNKNOWN:
                self._unknown_count += row_count
            if self.first_error is None:
                self.first_error, self._first_place = error, (topic, partition)

    def ensure_all_stored(self, attempt: int | None = 0) -> None:
        """Check after flush that each row sent was acknowledged.

        Args:
            attempt: Which attempt of the task this is, from 0 on; None where nobody runs it again.

        Raises:
            RowsFailedError: Some were not; the cause and the counts are in it. Unknown, Not sent or Rejected: as
                the cause's `outcome` says for the first of them; Unknown where no answer came.
        """
        unanswered_count = self.sent_count - self.stored_count - self._failed_count
        if self.first_error is None and unanswered_count <= 0:
            return
        failed_count = self.sent_count - self.stored_count
        cause = self.first_error
        topic, partition = self._first_place
        reason = f"{type(cause).__name__}: {cause}" if cause is not None else "no answer came before flush() returned"
        place = "" if topic is None else f" for {topic}-{partition}" if partition >= 0 else f" for {topic}"
        reason += "" if reason.endswith(".") else "."
        whole = "frame" if attempt is None else "partition"
        rest = f", and what follows them in the {whole} was not sent" if self.is_cut_short else ""
        error = RowsFailedError(
            f"{failed_count} of {self.sent_count} rows sent were not stored{rest}; the first failure{place}: {reason} "
            f"{self._left_behind(unanswered_count, attempt)}",
            sent_count=self.sent_count, failed_count=failed_count, topic=topic, partition=partition,
            attempt=attempt or 0)
        error.outcome = UNKNOWN if cause is None else getattr(cause, "outcome", NOT_SENT)
        error.retriable = getattr(cause, "retriable", False)
        raise error from cause

    def _left_behind(self, unanswered_count: int, attempt: int | None) -> str:
        """Say what this attempt leaves in the log: the next one writes it again."""
        if self._in_transaction and attempt is None:
            return (f"Of them {self.stored_count} rows are stored in the producer's transaction, which is open: abort "
                    "it, and no reader of committed records sees them")
        if self._in_transaction:
            return (f"The transaction of attempt {attempt} of the task is aborted: no reader of committed records sees "
                    "its rows")
        which = "them" if attempt is None else f"attempt {attempt} of the task"
        again = "a second write" if attempt is None else "another attempt"
        maybe_count = self._unknown_count + max(unanswered_count, 0)
        maybe = f", {maybe_count} more may be" if maybe_count else ""
        if not self._stored:
            return f"Of {which} no rows are known to be in the log{maybe}"
        places = [f"{topic}-{partition}: {count}" for (topic, partition), count in sorted(self._stored.items())]
        if len(places) > _PARTITIONS_TOLD:
            places[_PARTITIONS_TOLD:] = [f"{len(places) - _PARTITIONS_TOLD} other partitions"]
        return (f"Of {which} {self.stored_count} rows are in the log ({', '.join(places)}){maybe}; {again} "
                "stores them again")
