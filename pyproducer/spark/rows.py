"""Rows of one task into a producer, every answer counted.

Road:    Spark row -> columns -> [rows] -> producer
Thread:  the task's thread sends; answers arrive on the sender's thread.
Source:  Spark's KafkaRowWriter (4.0).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyproducer.spark.columns import (
    ColumnContract,
    column_bytes,
    column_headers,
    column_partition,
    column_timestamp,
    column_topic,
)
from pyproducer.spark.delivery import TaskDelivery
from pyproducer.spark.errors import ColumnError
from pyproducer.spark.row_producer import RowProducer, is_transactional
from pyproducer.spark.task_numbers import TaskMeter, TaskNumbers, this_task
from pyproducer.spark.window import Unanswered, Window

MAX_HELD_ROWS = 10_000
"""Rows of nulls that wait for a value which tells the column's type; beyond that a DataFrame of deletions is likely."""

MAX_HELD_BYTES = 32 << 20
"""What such rows may take of a worker's memory, as much as buffer.memory: they have keys, headers and other columns."""

_OBJECT_BYTES = 50
"""What a cell takes beside its text, about."""

_ROWS_PER_TICK = 64
"""After so many it is looked at the clock: nothing beside their work, and often enough where two come in a second."""

_PLACES_KNOWN = 256

_STEP_BYTES = 32 * 1024
"""So many bytes are handed over before it is looked at how many wait for answers."""

_ROW_BYTES = 50
"""What a row has beside its key, value and headers, about."""


def send_rows(rows: Iterable[Any], producer: RowProducer, contract: ColumnContract,
              window: Window | None = None, *, is_typed: bool = False) -> TaskNumbers:
    """Send the rows of one task, stop at the first failure, flush, and tell of every row that was not stored.

    Args:
        rows: pyspark Rows of one DataFrame.
        producer: Where they go; it is flushed here and not closed.
        contract: Where each column is in a row.
        window: How many rows may wait for answers; None for one of this task alone.
        is_typed: Whether the schema was checked; where it was not, rows of nulls wait for a value: see HeldRows.

    Returns:
        How many rows were stored, and what that took.

    Raises:
        RowsFailedError: A row did not fit, or was not acknowledged. The rows before it may be in the log: the task
            is retried as a whole, so delivery is at least once.
    """
    delivery = TaskDelivery(in_transaction=is_transactional(producer))
    meter = TaskMeter(producer)
    unanswered = Unanswered(window or Window.of(producer.config()), producer.flush)
    send_row = row_sender(producer, contract, delivery, unanswered, meter)
    try:
        send_up_to_a_failure(rows if is_typed else _after_their_type(rows, contract, delivery), send_row, delivery)
    finally:
        # Also when the rows themselves raise: no answer may arrive after the task has ended.
        meter.flush()
    delivery.ensure_all_stored(this_task().attempt)
    return meter.numbers(delivery.sent_count, unanswered.held_ms)


def send_up_to_a_failure(rows: Iterable[Any], send_row: Callable[[Any], None], delivery: TaskDelivery) -> None:
    """Send rows in order; none behind the first failure in `delivery`, which is told so."""
    rest = iter(rows)
    for row in rest:
        send_row(row)
        if delivery.first_error is not None:
            delivery.cut_short(rest)
            break


def row_sender(producer: RowProducer, contract: ColumnContract, delivery: TaskDelivery, unanswered: Unanswered,
               meter: TaskMeter) -> Callable[[Any], None]:
    """Return what sends one row; a row that cannot be sent is a failure in `delivery`, and raises nothing.

    It waits where too many rows have no answer yet, and has `meter` say now and then how far the task is.
    """
    send, on_completion = producer.send, delivery.on_completion
    topic, value, key = contract.topic, contract.value, contract.key
    partition, headers = contract.partition, contract.headers
    timestamp, timestamp_name = contract.timestamp, contract.timestamp_name or ""
    # One callback for all rows of a place: the producer looks at each that it does not know.
    telling = functools.lru_cache(_PLACES_KNOWN)(functools.partial(functools.partial, on_completion))

    byte_count = 0

    def send_row(row: Any) -> None:
        nonlocal byte_count
        delivery.sent_count += 1
        name = contract.fixed_topic
        try:
            # By position: finding a column by name costs about a microsecond each.
            name = name or column_topic(row[topic])
            place = None if partition is None else column_partition(row[partition])
            content = column_bytes("value", row[value])
            sent_key = None if key is None else column_bytes("key", row[key])
            pairs = None if headers is None else column_headers(row[headers])
            answer = send(name, content, key=sent_key, partition=place, headers=pairs,
                          timestamp=None if timestamp is None else column_timestamp(timestamp_name, row[timestamp]),
                          on_completion=telling(name, place))
            byte_count += _ROW_BYTES + len(content or b"") + len(sent_key or b"")
            if pairs:
                byte_count += sum(len(header.key) + len(header.value or b"") for header in pairs)
            if byte_count >= _STEP_BYTES:  # one row stands for those before it: answers of a partition come in order
                handed_over, byte_count = byte_count, 0
                unanswered.add(answer, handed_over)
        except Exception as error:  # what the application's partitioner raises may be anything
            delivery.fail(error, name)
        if not delivery.sent_count % _ROWS_PER_TICK:
            meter.tick(delivery.sent_count, unanswered.held_ms)

    return send_row


class HeldRows:
    """Rows whose value is null, held back until a value shows that the column's type fits.

    A row carries no schema: of a column of ints whose first thousand are null, a thousand tombstones were stored, in
    each attempt of the task, before the first int failed it. On a compacted topic they delete keys. A null key deletes
    nothing, so nobody waits for the type of that column.

    Args:
        contract: Where each column is in a row.
    """

    def __init__(self, contract: ColumnContract) -> None:
        self._value = contract.value
        self._held: list[Any] = []
        self._held_bytes = 0

    def take(self, row: Any) -> bool:
        """Add a row; return whether those that are held may go, and all behind them.

        Raises:
            ColumnError: Its value is of another type. Nothing that is held may go.
        """
        self._held.append(row)
        value = row[self._value]
        if value is not None:
            if not isinstance(value, str):  # text fits, also where it cannot be encoded
                column_bytes("value", value)
            return True
        self._held_bytes += _bytes_of(row)
        return len(self._held) >= MAX_HELD_ROWS or self._held_bytes >= MAX_HELD_BYTES

    def release(self) -> list[Any]:
        """Give back all that is held, in order."""
        held, self._held = self._held, []
        return held


def _bytes_of(cell: Any) -> int:
    """Return what a cell, or a row of them, takes of the memory, about."""
    if isinstance(cell, (str, bytes, bytearray)):
        return len(cell) + _OBJECT_BYTES
    if isinstance(cell, dict):
        return sum(map(_bytes_of, cell)) + sum(map(_bytes_of, cell.values()))
    return sum(map(_bytes_of, cell)) if isinstance(cell, (list, tuple)) else _OBJECT_BYTES


def fail_held(error: ColumnError, contract: ColumnContract, delivery: TaskDelivery) -> None:
    """Count a row whose type shows that none of the held ones may go: the task had it in hand, and sends no more."""
    delivery.sent_count += 1
    delivery.is_cut_short = True
    delivery.fail(error, contract.fixed_topic)


def _after_their_type(rows: Iterable[Any], contract: ColumnContract, delivery: TaskDelivery) -> Iterator[Any]:
    """Yield rows as soon as one tells the type of values; none, and a failure in `delivery`, where it does not fit."""
    held = HeldRows(contract)
    rows = iter(rows)
    for row in rows:
        try:
            if held.take(row):
                break
        except ColumnError as error:
            fail_held(error, contract, delivery)
            return
    yield from held.release()
    yield from rows


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
