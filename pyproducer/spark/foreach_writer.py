"""Rows of a stream, one after another: what `writeStream.foreach` takes, in every output mode and in real-time mode.

Road:    writeStream.foreach -> [foreach writer] -> rows -> producer
Thread:  one task at a time in a Spark Python worker; only settings travel there.
Source:  Spark's ForeachWriter (4.0): open, process for each row, close, with the error if there was one.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pyproducer.spark.delivery import TaskDelivery
from pyproducer.spark.errors import ColumnError
from pyproducer.spark.row_producer import RowProducer
from pyproducer.spark.rows import HeldRows, fail_held, row_sender, send_up_to_a_failure
from pyproducer.spark.task_numbers import TaskMeter, this_task
from pyproducer.spark.window import Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyproducer.spark.sink import KafkaSink


class ForeachWriter:
    """Sends the rows of a task while they come; close() waits until all are acknowledged.

    Made by `KafkaSink.foreach_writer()`. Spark gives each task a copy of its own.

    Args:
        sink: Where the rows go.
        is_typed: Whether the schema was checked. Where it was not, rows whose value is null wait for one that is not:
            sent at once, they would be tombstones of a column that may turn out to be of ints.
    """

    def __init__(self, sink: KafkaSink, *, is_typed: bool = False) -> None:
        self._sink = sink
        self._is_typed = is_typed

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Begin a task; no producer is made before the first row. All rows are wanted."""
        self._lease = ExitStack()
        self._delivery = TaskDelivery()
        self._producer: RowProducer | None = None
        self._meter: TaskMeter | None = None
        self._send_row: Callable[[Any], None] | None = None
        self._held: HeldRows | None = None
        return True

    def process(self, row: Any) -> None:
        """Send one row.

        Raises:
            ColumnError: The columns do not fit the contract. Not sent.
            RowsFailedError: This row, or one before it, was not stored.
        """
        if self._send_row is None:
            self._contract = self._sink.contract_of(row)
            self._producer, window = self._lease.enter_context(self._sink.lease())
            self._meter = TaskMeter(self._producer)
            self._unanswered = Unanswered(window, self._producer.flush)
            self._send_row = row_sender(self._producer, self._contract, self._delivery, self._unanswered, self._meter)
            self._held = None if self._is_typed else HeldRows(self._contract)
        if self._held is None:
            self._send_row(row)
        else:
            try:
                if self._held.take(row):
                    self._let_go()
            except ColumnError as error:
                fail_held(error, self._contract, self._delivery)
        if self._delivery.first_error is not None:
            self._delivery.is_cut_short = True
            self._end()

    def close(self, error: BaseException | None) -> None:
        """End a task: wait for all answers.

        Args:
            error: What process() or the query raised, if anything did. Spark raises it after this.

        Raises:
            RowsFailedError: A row was not stored, and `error` does not say so already.
        """
        if error is None and not isinstance(interruption := sys.exc_info()[1], Exception):
            error = interruption  # Spark catches an Exception only, and closes without a word where there is another
        if error is None:
            self._let_go()  # a column that is null in all rows of the task is taken for a string
            self._end()
        else:
            self._leave(error)

    def _let_go(self) -> None:
        """Send what waits for its type, in order, and hold nothing any more."""
        held, self._held = self._held, None
        if held is not None and self._send_row is not None:
            send_up_to_a_failure(held.release(), self._send_row, self._delivery)

    def _end(self) -> None:
        try:
            if self._meter is not None:
                self._meter.flush()
                self._delivery.ensure_all_stored(this_task().attempt)
                self._sink.tell(self._meter.numbers(self._delivery.sent_count, self._unanswered.held_ms))
        except BaseException as failure:
            self._leave(failure)
            raise
        self._lease.close()

    def _leave(self, failure: BaseException) -> None:
        """Give the producer back as one whose task failed, once."""
        producer, self._producer = self._producer, None
        try:
            if producer is not None:
                producer.flush()
        finally:
            self._lease.__exit__(type(failure), failure, failure.__traceback__)
