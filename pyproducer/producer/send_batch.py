"""send_batch by columns: choose partitions, encode into the open batches, no Python object for a row.

Road:    send_batch() -> [columns, partitions] -> RecordAccumulator
Thread:  any caller.
Source:  ours. What becomes of a row is defined by RecordSender: the same as if it had been sent alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.loop_side import BatchBeginning
from pyproducer.accumulator.produce_result import RowCallback
from pyproducer.accumulator.producer_batch import BatchRows
from pyproducer.accumulator.record_accumulator import BATCHES_OF_ROWS, RecordAccumulator
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import PartitionTable
from pyproducer.common.errors import (
    IllegalStateError,
    KafkaError,
    RecordTooLargeError,
    SerializationError,
)
from pyproducer.common.records import Header, to_topic
from pyproducer.hotpath import ColumnChunk, OpenBatch, sort_rows
from pyproducer.producer.columns import Columns, read_columns
from pyproducer.producer.do_send import TOLD_BY_THE_FUTURE, RecordSender
from pyproducer.producer.partitioners import DefaultPartitioner
from pyproducer.producer.partitioners.partitioner import choices
from pyproducer.producer.send_rows import REFUSES_THE_REST, send_rows
from pyproducer.record.record_reader import decode_open_batch

# Rows that are there already need not be cut into 16 KiB: a request costs the sender as much as a thousand rows, and a
# quarter of max.request.size lets a request carry several partitions. batch.size wins where it was set on purpose.
LARGE_BATCH_BYTES = 256 * 1024
# Rows that wait for metadata go one by one; so many, or so many bytes of them, are looked at together.
_ROWS_AT_ONCE = 100
_PIECE_BYTES = 64 * 1024


class BatchSender:
    """Takes columns from callers and hands them to the accumulator.

    Args:
        record_sender: Does the same for single records.
        metadata: What is known.
        accumulator: Where rows go.
        clock: For the deadline.
        life: The producer's.
        wakeup_sender: Wakes the sender; called when a batch is opened or full.
        max_block_ms: Longest wait of a call.
        batch_size_bytes: batch.size.
        large_batch_bytes: How large a batch of rows may be, where memory and the topic allow it.
        buffer_memory_bytes: buffer.memory.
    """

    def __init__(self, *, record_sender: RecordSender, metadata: ProducerMetadata, accumulator: RecordAccumulator,
                 clock: Clock, life: Life, wakeup_sender: Callable[[], None], max_block_ms: int, batch_size_bytes: int,
                 large_batch_bytes: int, buffer_memory_bytes: int) -> None:
        self._record_sender = record_sender
        self._metadata = metadata
        self._accumulator = accumulator
        self._clock = clock
        self._life = life
        self._wakeup_sender = wakeup_sender
        self._max_block_ms = max_block_ms
        self._batch_size_bytes = batch_size_bytes
        self._large_batch_bytes = large_batch_bytes
        self._buffer_memory_bytes = buffer_memory_bytes

    def begin(self) -> BatchBeginning:
        """Begin a call, which may be made later, by another thread.

        Raises:
            KafkaError: As RecordSender.begin_batch().
        """
        return BatchBeginning(self._record_sender.begin_batch(), self._clock.timestamp_ms(),
                              self._clock.now_ms() + self._max_block_ms)

    def send(self, topic: str, values: Any, keys: Any, headers: Any, timestamps: Any, partitions: Any) -> BatchFuture:
        """Take the columns of a call; see KafkaProducer.send_batch."""
        sender = self._record_sender
        begun = self._life.loop.batch
        if begun is not None:  # what has changed since
            sender.ensure_may_send(begun.within)
        within, created, deadline_ms = begun or self.begin()
        self._life.calls.ensure_not_nested("send_batch()")
        topic = to_topic(topic)
        partitioner = sender.partitioning.partitioner
        try:
            if (sender.interceptors or sender.key_serializer is not None or sender.value_serializer is not None
                    or type(partitioner) is not DefaultPartitioner):
                return send_rows(sender, topic, values, keys, headers, timestamps, partitions, self._clock, self._life,
                                 created, deadline_ms, within)
            columns = read_columns(values, keys, headers, timestamps, partitions, created,
                                   lambda part, data: sender.serialize_part(None, topic, [], data, part))
            for chunk in columns.chunks:
                row = chunk.first_above(sender.max_record_bytes)
                if row >= 0:
                    raise sender.too_large(topic, chunk.size_upper_bound(row), f"Row {row}: ")
        except (RecordTooLargeError, SerializationError) as error:
            sender.count_raised(error)
            raise
        future = BatchFuture(topic, columns.partitions, columns.timestamps, self._life, within)
        if columns.chunks:
            try:
                self._send(topic, columns, partitions is not None, partitioner, future, deadline_ms)
            except BaseException:
                self._wakeup_sender()  # as in RecordSender
                raise
        future.on_handed_over()
        return future

    def _send(self, topic: str, columns: Columns, has_partitions: bool, partitioner: DefaultPartitioner,
              future: BatchFuture, deadline_ms: int) -> None:
        for chunk in columns.chunks:
            row, end = chunk.first_row, chunk.first_row + chunk.row_count
            while row < end:
                cluster = self._metadata.cluster
                if not cluster.table(topic).count or self._record_sender.room.is_waiting(topic):
                    row = self._enter_room(topic, chunk, columns, row, future, deadline_ms)
                    if row < 0:
                        return
                    continue
                rest = chunk if row == chunk.first_row else columns.part(row, end - row)
                if not self._send_chunk(topic, rest, columns, has_partitions, partitioner, cluster.table(topic), future,
                                        deadline_ms):
                    return
                row = end

    def _enter_room(self, topic: str, chunk: ColumnChunk, columns: Columns, row: int, future: BatchFuture,
                    deadline_ms: int) -> int:
        """Let rows of a chunk wait one by one, from `row` on, while their topic is not known.

        Returns:
            The first row that need not wait; below 0 when the rest of the call failed.
        """
        end = chunk.first_row + chunk.row_count
        for waiting, record in _records(topic, chunk, columns, range(row, end), future):
            try:
                entered = self._record_sender.enter_room(record, self._left_ms(deadline_ms))
            except (*TOLD_BY_THE_FUTURE, IllegalStateError) as error:
                future.on_refused(range(waiting, len(columns.partitions)), error)
                return -1
            if entered is None:
                return waiting
        return end

    def _send_chunk(self, topic: str, chunk: ColumnChunk, columns: Columns, has_partitions: bool,
                    partitioner: DefaultPartitioner, table: PartitionTable, future: BatchFuture,
                    deadline_ms: int) -> bool:
        """Hand the rows of a chunk over; False when the rest of the call failed."""
        places, room = columns.partitions, self._record_sender.room
        first, end = chunk.first_row, chunk.first_row + chunk.row_count
        self._metadata.add(topic, self._clock.now_ms())
        self._choose_partitions(topic, chunk, places, partitioner, table)
        absent: set[int] = set()  # partitions that are not known, or whose earlier records still wait
        if has_partitions or table.has_gaps or room.queues:
            absent = {partition for partition in set(places[first:end])
                      if partition not in table.by_index or room.is_waiting(topic, partition)}
        waiting = [row for row in range(first, end) if places[row] in absent] if absent else []
        stopped = self._enqueue_rows(topic, chunk, columns, waiting, future, deadline_ms)
        order, starts = sort_rows(places, first, chunk.row_count, table.count)
        rows = BatchRows(future, chunk, columns.timestamps, order, self._batch_bytes(len(table.in_order)))
        if stopped is not None:
            why, refused = stopped
            refused.extend(row for row in range(first, end) if places[row] not in absent)
        else:
            rest = self._append(topic, rows, starts, absent, deadline_ms)
            if rest is None:
                return True
            why, refused = rest
        refused.extend(range(end, len(places)))
        future.on_refused(refused, why)
        return False

    def _enqueue_rows(self, topic: str, chunk: ColumnChunk, columns: Columns, waiting: list[int], future: BatchFuture,
                      deadline_ms: int) -> tuple[KafkaError, array[int]] | None:
        """Hand rows over one by one whose partition is not known; one that may not wait fails alone.

        Returns:
            None when no others are concerned; else why not, and which rows were not handed over.
        """
        sender = self._record_sender
        for position, (row, record) in enumerate(_records(topic, chunk, columns, waiting, future)):
            try:
                sender.enqueue(record, self._left_ms(deadline_ms))
            except REFUSES_THE_REST as error:
                return error, array("i", waiting[position:])
            except TOLD_BY_THE_FUTURE as error:
                future.on_refused((row,), error)
        return None

    def _choose_partitions(self, topic: str, chunk: ColumnChunk, places: array[int], partitioner: DefaultPartitioner,
                           table: PartitionTable) -> None:
        available = array("i", (info.partition for info in choices(table, partitioner.rack)))
        turn_count = chunk.turn_count(places)
        chunk.assign(places, table.count, available, partitioner.take_turns(topic, turn_count) if turn_count else 0)

    def _append(self, topic: str, rows: BatchRows, starts: array[int], unknown: set[int],
                deadline_ms: int) -> tuple[KafkaError, array[int]] | None:
        """Hand over the rows of a chunk, a batch of each partition in turns, so that requests carry all partitions.

        Returns:
            None when all rows were accepted; else why not, and which were not.
        """
        left = [(partition, starts[partition], starts[partition + 1]) for partition in range(len(starts) - 1)
                if starts[partition] < starts[partition + 1] and partition not in unknown]
        while left:
            next_left: list[tuple[int, int, int]] = []
            for position, (partition, start, end) in enumerate(left):
                try:
                    result = self._accumulator.append_rows(topic, partition, rows, start, end,
                                                           self._left_ms(deadline_ms))
                except REFUSES_THE_REST as error:
                    # All the rest, also what might find room in another partition: so nothing overtakes.
                    refused = array("i")
                    for _, refused_start, refused_end in (*left[position:], *next_left):
                        refused.extend(rows.order[refused_start:refused_end])
                    return error, refused
                rows.future.on_appended(partition, result.batch.result)
                if result.batch_is_full or result.new_batch_created:
                    self._wakeup_sender()
                if start + result.row_count < end:
                    next_left.append((partition, start + result.row_count, end))
            left = next_left
        return None

    def _batch_bytes(self, partition_count: int) -> int:
        if self._accumulator.has_split:
            return self._batch_size_bytes  # some topic's max.message.bytes is small: no more experiments
        share_bytes = self._buffer_memory_bytes // (BATCHES_OF_ROWS * partition_count)
        return max(self._batch_size_bytes, min(self._large_batch_bytes, share_bytes))

    def _left_ms(self, deadline_ms: int) -> int:
        return max(0, deadline_ms - self._clock.now_ms())


def _records(topic: str, chunk: ColumnChunk, columns: Columns, rows: Sequence[int],
             future: BatchFuture) -> Iterator[tuple[int, SerializedRecord]]:
    """Give rows of a chunk one by one, each with its record."""
    position = 0
    while position < len(rows):
        for key, value, headers in rows_of(chunk, columns.timestamps, array("i", rows[
                position:position + _ROWS_AT_ONCE])):
            row = rows[position]
            partition = columns.partitions[row]
            yield row, SerializedRecord(
                topic, None if partition < 0 else partition, columns.timestamps[row], key, key, value, value, headers,
                RowCallback(future, row), chunk.size_upper_bound(row), future.within)
            position += 1


def rows_of(chunk: ColumnChunk, timestamps: array[int], order: array[int]
            ) -> list[tuple[bytes | None, bytes | None, tuple[Header, ...]]]:
    """Return key, value and headers of rows of a chunk: as many of the first ones as fit into a piece, at least one."""
    piece = OpenBatch(None, _PIECE_BYTES)
    chunk.append_to(piece, timestamps, order, 0, len(order))
    return [(record.key, record.value, record.headers) for record in decode_open_batch(piece)]
