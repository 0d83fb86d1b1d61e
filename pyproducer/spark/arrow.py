"""Arrow record batches of one task into a producer, column by column: no Python object for a row.

Road:    Spark's Arrow batch -> [arrow] -> send_batch
Thread:  the task's.
Source:  ours; the column contract is that of columns.py, checked by schema.py on the driver before any task.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pyproducer.common.errors import DeliveryFailedError, KafkaError
from pyproducer.spark.byte_count import byte_count
from pyproducer.spark.columns import ColumnContract
from pyproducer.spark.delivery import TaskDelivery
from pyproducer.spark.errors import ColumnError
from pyproducer.spark.row_producer import RowProducer, RowsFuture, is_transactional
from pyproducer.spark.task_numbers import TaskMeter, TaskNumbers, this_task
from pyproducer.spark.window import Unanswered, Window

PIECE_BYTES = 8 * 1024 * 1024
"""So much goes into one call: max.block.ms bounds a call's waits for buffer.memory, and a batch of 10,000 large rows
may be a gigabyte. Rows of common size stay in one call, and a piece has room for batches of many partitions."""

NULL_HEADER = "Null header keys are not permitted"

_ROW = re.compile(r"(?P<before>Row |(?:values|keys|headers|timestamps|partitions), row )(?P<row>\d+)")
"""How send_batch() begins what it says of one row."""


def send_record_batches(batches: Iterable[Any], producer: RowProducer, fixed_topic: str | None,
                        window: Window | None = None, *, timestamp_name: str | None = None,
                        is_task: bool = True) -> TaskNumbers:
    """Send the record batches of one task, stop at the first failure, flush, and tell of every row not stored.

    Args:
        batches: pyarrow RecordBatches, whose schema schema.py has found to fit; those without headers may lack that
            column.
        producer: Where they go; it is flushed here and not closed.
        fixed_topic: The topic of every row, or None for the column.
        window: How many rows may wait for answers; None for one of this task alone.
        timestamp_name: The column of timestamps, or None.
        is_task: Whether Spark runs this, again where it fails; errors and progress say so.

    Returns:
        How many rows were stored, and what that took.

    Raises:
        RowsFailedError: A row did not fit, or was not acknowledged. The rows before it may be in the log: the task
            is retried as a whole, so delivery is at least once.
        DeliveryFailedError: With pyproducer.on.unretrieved=raise: all rows here are stored, and records that others
            gave the producer are not.
    """
    delivery = TaskDelivery(in_transaction=is_transactional(producer))
    meter = TaskMeter(producer, is_task=is_task)
    unanswered = Unanswered(window or Window.of(producer.config()), producer.flush)
    pending: deque[RowsFuture] = deque()
    contract: ColumnContract | None = None
    given: list[str] = []
    names: list[str] = []
    try:
        rest = (batch for batch in batches if batch.num_rows)
        for batch in rest:
            if contract is None or batch.schema.names != given:
                given = batch.schema.names
                names = ColumnContract.of(given, fixed_topic, timestamp_name).taken()
                contract = ColumnContract.of(names, fixed_topic, timestamp_name)
            _send(batch, names, contract, producer, pending, delivery, unanswered, is_task)
            meter.tick(delivery.sent_count, unanswered.held_ms)
            # buffer.memory bounds what is on its way, and so what is left here.
            while pending and pending[0].done():
                _collect(pending.popleft(), delivery)
            if delivery.first_error is not None:
                delivery.cut_short(rest)
                break
    finally:
        # Also when the rows themselves raise: no answer may arrive after the task has ended.
        try:
            meter.flush()
        except DeliveryFailedError as error:
            # With pyproducer.on.unretrieved=raise. Those of the task are counted below, with what was stored beside.
            unanswered.failures = error
    while pending:
        _collect(pending.popleft(), delivery)
    delivery.ensure_all_stored(this_task().attempt if is_task else None)
    if unanswered.failures is not None:  # all rows here are stored, so it is of others
        raise unanswered.failures
    return meter.numbers(delivery.sent_count, unanswered.held_ms)


def _send(batch: Any, names: list[str], contract: ColumnContract, producer: RowProducer, pending: deque[RowsFuture],
          delivery: TaskDelivery, unanswered: Unanswered, is_task: bool) -> None:
    """Hand over one record batch; rows that cannot be handed over are failures in `delivery`."""
    topic = contract.fixed_topic
    before_count = delivery.sent_count
    try:
        for topic, rows, places, piece_bytes in _pieces(_by_topic(_taken(batch, names), contract), unanswered.window):
            delivery.sent_count += rows.num_rows
            try:
                pending.append(producer.send_batch(
                    topic, rows.column(contract.value),
                    keys=None if contract.key is None else rows.column(contract.key),
                    timestamps=None if contract.timestamp is None else rows.column(contract.timestamp),
                    partitions=None if contract.partition is None else rows.column(contract.partition),
                    headers=None if contract.headers is None else rows.column(contract.headers)))
                unanswered.add(pending[-1], piece_bytes)
            except (KafkaError, TypeError, ValueError) as error:
                # None of these rows was sent; the error names the first that could not be.
                _name_row(error, before_count, places, is_task)
                delivery.fail(error, topic, row_count=rows.num_rows)
                return
    except ColumnError as error:
        delivery.sent_count += batch.num_rows
        delivery.fail(error, topic, row_count=batch.num_rows)


def _name_row(error: Exception, before_count: int, places: Sequence[int], is_task: bool) -> None:
    """Put the row's number among all rows that were given into an error: a call counts its own, which nobody knows.

    Args:
        error: What the call raised.
        before_count: Rows before the record batch.
        places: Where in the record batch the rows of the call are.
        is_task: Whether all rows are those of a task's partition.
    """
    text = error.args[0] if error.args else None
    named = _ROW.match(text) if isinstance(text, str) else None
    if named is not None and int(named["row"]) < len(places):
        row = before_count + places[int(named["row"])]
        whose = " of the task's partition" if is_task else ""
        error.args = f"{named['before']}{row}{whose}{named.string[named.end():]}", *error.args[1:]


def _taken(batch: Any, names: list[str]) -> Any:
    """Return the columns that are sent, as send_batch takes them; the others cost nothing from here on.

    Raises:
        ColumnError: A header's key is null. No row of the batch was sent.
    """
    import pyarrow

    as_sent = {"key": _bytes, "value": _bytes, "headers": _headers, "topic": _topics}
    columns = [batch.column(name) for name in names]
    return pyarrow.RecordBatch.from_arrays(
        [as_sent[name](column) if name in as_sent else column for name, column in zip(names, columns, strict=True)],
        names=names)


class _Piece(NamedTuple):
    """Rows that go in one call, and where in the record batch they are."""

    topic: str
    rows: Any
    places: Sequence[int]
    byte_count: int


def _pieces(parts: Iterable[tuple[str, Any, Sequence[int]]], window: Window) -> Iterator[_Piece]:
    """Cut the rows of each topic into what one call takes, by their mean size."""
    for topic, rows, places in parts:
        all_bytes = byte_count(rows)
        mean_bytes = all_bytes / rows.num_rows
        first_row = 0
        while first_row < rows.num_rows:
            count = max(1, int(min(PIECE_BYTES, window.limit_bytes) / max(mean_bytes, 1)))
            piece = rows.slice(first_row, count)
            yield _Piece(topic, piece, places[first_row:first_row + count],
                         all_bytes if piece.num_rows == rows.num_rows else byte_count(piece))
            first_row += count


def _by_topic(batch: Any, contract: ColumnContract) -> Iterator[tuple[str, Any, Sequence[int]]]:
    """Cut a record batch into the rows of each topic, in their order, each part with their places in the batch.

    Raises:
        ColumnError: A topic is null or empty. No row of the batch was sent.
    """
    if contract.fixed_topic is not None:
        yield contract.fixed_topic, batch, range(batch.num_rows)
        return
    topics = batch.column(contract.topic)
    if topics.null_count:
        raise ColumnError("null topic present in the data. Use the topic option for setting a default topic.")
    coded = topics.dictionary_encode()
    names = coded.dictionary.to_pylist()
    counts = {count["values"]: count["counts"] for count in coded.indices.value_counts().to_pylist()}
    if any(not names[number] for number in counts):
        raise ColumnError("empty topic present in the data. Use the topic option for setting a default topic.")
    if len(counts) == 1:
        yield names[next(iter(counts))], batch, range(batch.num_rows)
        return
    import pyarrow.compute

    # A stable sort brings the rows of a topic together in one pass, however many topics there are.
    order = pyarrow.compute.array_sort_indices(coded.indices)
    together = batch.take(order)
    places = memoryview(order.buffers()[1]).cast("Q")
    first_row = 0
    for number in sorted(counts):  # a dictionary may have names of which there is no row
        yield (names[number], together.slice(first_row, counts[number]),
               places[first_row:first_row + counts[number]])
        first_row += counts[number]


def _bytes(column: Any) -> Any:
    """Return a column as bytes, where it lies: interceptors and partitioners of the application's go row by row."""
    import pyarrow
    from pyarrow import types

    if types.is_string(column.type):
        return column.view(pyarrow.binary())
    if types.is_large_string(column.type):
        return column.view(pyarrow.large_binary())
    return column.cast(pyarrow.large_binary()) if _is_view(column) else column


def _topics(column: Any) -> Any:
    import pyarrow

    return column.cast(pyarrow.large_string()) if _is_view(column) else column


def _is_view(column: Any) -> bool:
    """Whether a column is of a type of which Arrow cannot bring rows together; pyarrow 15 has no name for it."""
    return str(column.type).endswith("_view")


def _headers(column: Any) -> Any:
    """Return a column of headers with the names of fields that send_batch knows.

    Spark compares the names without case, unless it was told otherwise; so a struct of KEY and VALUE fits.

    Raises:
        ColumnError: A header's key is null. Not sent.
    """
    pair = column.type.value_type
    keys = column.flatten().flatten()[0]
    if keys.null_count:
        raise ColumnError(NULL_HEADER)
    if [field.name for field in pair] == ["key", "value"]:
        return column
    import pyarrow

    items = column.values
    validity, offsets = column.buffers()[:2]
    renamed = pyarrow.StructArray.from_arrays([items.field(0), items.field(1)], names=["key", "value"])
    kind = pyarrow.large_list if pyarrow.types.is_large_list(column.type) else pyarrow.list_
    return pyarrow.Array.from_buffers(kind(renamed.type), len(column), [validity, offsets], offset=column.offset,
                                      children=[renamed])


def _collect(future: RowsFuture, delivery: TaskDelivery) -> None:
    """Count the rows of one send_batch, all of which have their answer or wait for none after flush()."""
    answer = future.result()
    errors = answer.errors
    stored = Counter(answer.partitions)
    for row, error in errors.items():
        partition = answer.partitions[row]
        stored[partition] -= 1
        delivery.fail(error, answer.topic, partition)
    delivery.add_stored(answer.topic, +stored)
