"""What a sink raises in a task, beside the producer's own errors.

    KafkaError
      ColumnError (ValueError)    the columns, or a value in one, do not fit the contract
      RowsFailedError             some rows were not stored: how many, which first, and that failure as the cause

Road:    schema, columns, delivery -> [errors] -> Spark's task failure
Thread:  values.
Source:  ours; the sentences of ColumnError are those of Spark's KafkaWriter and KafkaRowWriter (4.0).
"""

from __future__ import annotations

from pyproducer.common.errors import KafkaError


class ColumnError(KafkaError, ValueError):
    """The columns, or a value in one of them, do not fit the contract of the sink. The row was not sent."""


class RowsFailedError(KafkaError):
    """Some rows of a task were not stored; the first failure is `__cause__`.

    Args:
        message: How many rows failed, the first failure in words, and what is in the log.
        sent_count: Rows that were handed to the producer, the failed one included.
        failed_count: Rows of those that were not acknowledged.
        topic: Of the first row that failed; None when the row names none.
        partition: Of that row; -1 when none was chosen, or it is not told: rows that go one by one tell what they name.
        attempt: Which attempt of the task this was, from 0 on.
    """

    partition: int

    def __init__(self, message: str, *, sent_count: int, failed_count: int, topic: str | None = None,
                 partition: int = -1, attempt: int = 0) -> None:
        super().__init__(message)
        self.sent_count = sent_count
        self.failed_count = failed_count
        self.topic = topic
        self.partition = partition
        self.attempt = attempt
