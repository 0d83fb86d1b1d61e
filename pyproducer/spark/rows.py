"""Rows of one task into a producer, every answer counted.

Road:    Spark row -> columns -> [rows] -> producer
Thread:  the task's thread sends; answers arrive on the sender's thread.
Source:  Spark's KafkaRowWriter (4.0).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyproducer.common.errors import KafkaError
from pyproducer.spark.columns import ColumnContract, column_bytes, column_headers, column_partition, column_topic
from pyproducer.spark.delivery import TaskDelivery
from pyproducer.spark.errors import ColumnError
from pyproducer.spark.row_producer import RowProducer
from pyproducer.spark.task_numbers import TaskMeter, TaskNumbers, this_task

MAX_HELD_ROWS = 10_000
"""Rows of nulls that wait for a value which tells the column's type; beyond that a DataFrame of deletions is likely."""

_ROWS_PER_TICK = 4096
"""After so many, milliseconds of work, it is worth to look at the clock."""


def send_rows(rows: Iterable[Any], producer: RowProducer, contract: ColumnContract) -> TaskNumbers:
    """Send the rows of one task, stop at the first failure, flush, and tell of every row that was not stored.

    Args:
        rows: pyspark Rows of one DataFrame.
        producer: Where they go; it is flushed here and not closed.
        contract: Where each column is in a row.

    Returns:
        How many rows were stored, and what that took.

    Raises:
        RowsFailedError: A row did not fit, or was not acknowledged. The rows before it may be in the log: the task
            is retried as a whole, so delivery is at least once.
    """
    delivery = TaskDelivery()
    meter = TaskMeter(producer)
    send_row = row_sender(producer, contract, delivery)
    try:
        for row in _after_their_types(rows, contract, delivery):
            send_row(row)
            if not delivery.sent_count % _ROWS_PER_TICK:
                meter.tick(delivery.sent_count)
            if delivery.first_error is not None:
                delivery.is_cut_short = True
                break
    finally:
        # Also when the rows themselves raise: no answer may arrive after the task has ended.
        meter.flush()
    delivery.ensure_all_stored(this_task().attempt)
    return meter.numbers(delivery.sent_count)


def row_sender(producer: RowProducer, contract: ColumnContract, delivery: TaskDelivery) -> Callable[[Any], None]:
    """Return what sends one row; a row that cannot be sent is a failure in `delivery`, and raises nothing."""
    send, on_completion = producer.send, delivery.on_completion
    topic, value, key = contract.topic, contract.value, contract.key
    partition, headers = contract.partition, contract.headers

    def send_row(row: Any) -> None:
        delivery.sent_count += 1
        name = contract.fixed_topic
        try:
            # By position: finding a column by name costs about a microsecond each.
            name = name or column_topic(row[topic])
            place = None if partition is None else column_partition(row[partition])
            send(name, column_bytes("value", row[value]),
                 key=None if key is None else column_bytes("key", row[key]),
                 partition=place,
                 headers=None if headers is None else column_headers(row[headers]),
                 on_completion=functools.partial(on_completion, name, place))
        except (KafkaError, TypeError, ValueError) as error:
            delivery.fail(error, name)

    return send_row


def _after_their_types(rows: Iterable[Any], contract: ColumnContract, delivery: TaskDelivery) -> Iterator[Any]:
    """Hold back rows whose key or value is null until a value in that column shows that its type fits.

    A row carries no schema: of a column of ints whose first thousand are null, a thousand tombstones were stored, in
    each attempt of the task, before the first int failed it. On a compacted topic they delete keys.
    """
    untold = {"value": contract.value, **({} if contract.key is None else {"key": contract.key})}
    held: list[Any] = []
    rows = iter(rows)
    for row in rows:
        held.append(row)
        for name, index in list(untold.items()):
            if row[index] is not None:
                try:
                    column_bytes(name, row[index])
                except ColumnError as error:
                    # None of them is sent; they count as rows that the task had in hand.
                    delivery.sent_count += 1
                    delivery.is_cut_short = True
                    delivery.fail(error, contract.fixed_topic)
                    return
                del untold[name]
        if not untold or len(held) >= MAX_HELD_ROWS:
            break
    yield from held
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
