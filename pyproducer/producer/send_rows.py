"""send_batch row by row: where serializers, interceptors or another partitioner must see each record.

Road:    send_batch() -> [rows] -> RecordSender.enqueue
Thread:  any caller.
Source:  ours. Differs from send() in a loop: every row is serialized and checked before the first one is handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.produce_result import OnCompletion, ProduceRequestResult, RowCallback
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import UNKNOWN_PARTITION
from pyproducer.common.errors import (
    AbortableTransactionError,
    BufferExhaustedError,
    FatalProducerError,
    IllegalStateError,
    KafkaError,
)
from pyproducer.common.records import Header, ProducerRecord, given_time
from pyproducer.producer import arrow_columns
from pyproducer.producer.columns import ensure_length, int_column, to_items, to_rows
from pyproducer.producer.do_send import RecordSender
from pyproducer.transaction.transactions import OpenTransaction

# What concerns all rows that were not handed over yet: no memory, and a producer or a transaction that takes none.
REFUSES_THE_REST = (BufferExhaustedError, IllegalStateError, AbortableTransactionError, FatalProducerError)
_NO_PAIR = {"key": None, "value": None}


class _Row(NamedTuple):
    """A record as interceptors left it, and its bytes."""

    record: ProducerRecord
    key_bytes: bytes | None
    value_bytes: bytes | None
    headers: tuple[Header, ...]
    size_bytes: int
    on_completion: OnCompletion


def send_rows(sender: RecordSender, topic: str, values: Any, keys: Any, headers: Any, timestamps: Any, partitions: Any,
              clock: Clock, life: Life, created: int, deadline_ms: int, within: OpenTransaction | None) -> BatchFuture:
    """Send columns row by row; see KafkaProducer.send_batch.

    Args:
        sender: Whose interceptors, serializers and partitioner are asked.
        topic: Name of the topic.
        values: A column.
        keys: A column or None.
        headers: A column or None.
        timestamps: A column or None.
        partitions: A column or None.
        clock: For the deadline.
        life: The producer's.
        created: Epoch ms of the call.
        deadline_ms: Monotonic ms at which waiting ends.
        within: The transaction that the rows belong to, or None.

    Raises:
        SerializationError: A serializer failed. Nothing was sent.
        RecordTooLargeError: A row is above max.request.size or buffer.memory. Nothing was sent.
        TypeError: A column or an item has the wrong type. Nothing was sent.
        ValueError: Columns have different lengths, or a number is out of range. Nothing was sent.
    """
    value_items = to_rows("values", values, is_text=sender.value_serializer is not None)
    count = len(value_items)
    places = int_column("partitions", partitions, count, UNKNOWN_PARTITION)
    times = int_column("timestamps", timestamps, count, -1)
    key_items = [None] * count if keys is None else to_rows("keys", keys, is_text=sender.key_serializer is not None)
    header_items = [None] * count if headers is None else _header_rows(headers)
    for name, column in (("keys", key_items), ("headers", header_items), ("timestamps", times), ("partitions", places)):
        ensure_length(name, len(column), count)
    records = []
    for row in range(count):
        try:
            records.append(ProducerRecord(
                topic, value_items[row], key_items[row], headers=header_items[row],
                partition=None if places[row] < 0 else places[row],
                timestamp=None if times[row] < 0 else given_time(times[row])))
        except (TypeError, ValueError) as error:
            raise type(error)(f"headers, row {row}: {error}") from None
        if times[row] < 0:
            times[row] = created
    future = BatchFuture(topic, places, times, life, within)
    rows = _serialize(sender, records, future)
    row = 0
    try:
        for row, prepared in enumerate(rows):
            # What is caught is what the road itself raises: any other exception comes from outside, as an alarm does,
            # and a row that was handed over must not be told a second time.
            try:
                outcome = _enqueue(sender, prepared, clock, created, deadline_ms, within,
                                   partial(places.__setitem__, row))
                partition = outcome.topic_partition.partition
                if partition != UNKNOWN_PARTITION:
                    places[row] = partition
                    future.on_appended(partition, outcome)
            except REFUSES_THE_REST as error:
                for refused in range(row, count):
                    _refuse(sender, future, refused, rows[refused], error)
                break
            except KafkaError as error:
                _refuse(sender, future, row, prepared, error)
    except Exception as error:  # from outside: interceptors hear of what was not handed over, as the caller does
        for left in rows[row:]:
            _tell_interceptors(sender, left, error)
        raise
    future.on_handed_over()
    return future


def _serialize(sender: RecordSender, records: Sequence[ProducerRecord], future: BatchFuture) -> list[_Row]:
    """Return what is to be sent. When a row fails, the interceptors of those before it hear of it, and it is raised."""
    rows: list[_Row] = []
    for number, record in enumerate(records):
        on_completion: OnCompletion = RowCallback(future, number)
        try:
            if sender.is_intercepted:
                record, on_completion = sender.intercept(record, on_completion)
            parts = sender.to_bytes(record, number)
        except Exception as error:
            for row in rows:
                _tell_interceptors(sender, row, error)
            sender.tell_interceptors(error, record.topic, record.partition, on_completion)
            raise
        rows.append(_Row(record, *parts, on_completion))
    return rows


def _enqueue(sender: RecordSender, row: _Row, clock: Clock, created: int, deadline_ms: int,
             within: OpenTransaction | None, on_chosen: Callable[[int], None]) -> ProduceRequestResult:
    """Hand a row over; return the outcome of the batch that it is in, or of the row alone while it waits for one."""
    record = row.record

    def choose(*arguments: Any) -> int:
        partition = sender.partitioning.choose_in_call(*arguments)
        on_chosen(partition)
        return partition

    future = sender.enqueue(SerializedRecord(
        record.topic, record.partition, created if record.timestamp is None else record.timestamp, record.key,
        row.key_bytes, record.value, row.value_bytes, row.headers, row.on_completion, row.size_bytes, within),
        _left_ms(clock, deadline_ms), choose)
    outcome: ProduceRequestResult = future._result
    return outcome


def _refuse(sender: RecordSender, future: BatchFuture, number: int, row: _Row, error: KafkaError) -> None:
    _tell_interceptors(sender, row, error)
    future.on_refused((number,), error)


def _tell_interceptors(sender: RecordSender, row: _Row, error: Exception) -> None:
    """Tell interceptors that a row was not handed over, unless they were told already what became of it."""
    sender.tell_interceptors(error, row.record.topic, row.record.partition, row.on_completion)


def _header_rows(column: Any) -> list[Any]:
    """Return the headers of each row; Arrow gives lists of {"key": ..., "value": ...}, whose text is UTF-8."""
    if not arrow_columns.is_arrow(column):
        return to_items("headers", column)
    return [item and [_header(**pair or _NO_PAIR) for pair in item]
            for item in arrow_columns.items_of("headers", arrow_columns.header_chunks(column))]


def _header(key: str | None, value: bytes | str | None) -> tuple[str | None, bytes | None]:
    return key, value.encode() if isinstance(value, str) else value


def _left_ms(clock: Clock, deadline_ms: int) -> int:
    return max(0, deadline_ms - clock.now_ms())
