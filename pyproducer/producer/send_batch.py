"""send_batch by columns: choose partitions, encode into the open batches, no Python object for a row.

Road:    send_batch() -> [columns, partitions] -> RecordAccumulator
Thread:  any caller.
Source:  ours. What becomes of a row is defined by RecordSender: the same as if it had been sent alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Any

from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.producer_batch import BatchRows
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import PartitionTable
from pyproducer.common.errors import (
    ApiError,
    AuthenticationError,
    BufferExhaustedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
)
from pyproducer.common.records import to_topic
from pyproducer.hotpath import sort_rows
from pyproducer.producer.columns import Columns, read_columns
from pyproducer.producer.do_send import UNKNOWN_PARTITION, RecordSender
from pyproducer.producer.partitioners import DefaultPartitioner
from pyproducer.producer.send_rows import send_rows

# Rows that are there already need not be cut into 16 KiB: a request costs the sender as much as a thousand rows, and a
# quarter of max.request.size lets a request carry several partitions. batch.size wins where it was set on purpose.
LARGE_BATCH_BYTES = 256 * 1024
# Each partition of a call may have a batch open while as many are on the wire as are allowed in flight, and some more.
_BATCHES_PER_PARTITION = 8


class BatchSender:
    """Takes columns from callers and hands them to the accumulator.

    Args:
        record_sender: Does the same for single records.
        accumulator: Where rows go.
        clock: For the deadline.
        life: The producer's.
        wakeup_sender: Wakes the sender; called when a batch is opened or full.
        max_block_ms: Longest wait of a call.
        batch_size_bytes: batch.size.
        large_batch_bytes: How large a batch of rows may be, where memory and the topic allow it.
        buffer_memory_bytes: buffer.memory.
    """

    def __init__(self, *, record_sender: RecordSender, accumulator: RecordAccumulator, clock: Clock, life: Life,
                 wakeup_sender: Callable[[], None], max_block_ms: int, batch_size_bytes: int, large_batch_bytes: int,
                 buffer_memory_bytes: int) -> None:
        self._record_sender = record_sender
        self._accumulator = accumulator
        self._clock = clock
        self._life = life
        self._wakeup_sender = wakeup_sender
        self._max_block_ms = max_block_ms
        self._batch_size_bytes = batch_size_bytes
        self._large_batch_bytes = large_batch_bytes
        self._buffer_memory_bytes = buffer_memory_bytes

    def send(self, topic: str, values: Any, keys: Any, headers: Any, timestamps: Any, partitions: Any) -> BatchFuture:
        """Take the columns of a call; see KafkaProducer.send_batch."""
        sender = self._record_sender
        self._life.ensure_open()
        topic = to_topic(topic)
        created = self._clock.timestamp_ms()
        deadline_ms = self._clock.now_ms() + self._max_block_ms
        partitioner = sender.partitioner
        if (sender.interceptors or sender.key_serializer is not None or sender.value_serializer is not None
                or type(partitioner) is not DefaultPartitioner):
            return send_rows(sender, topic, values, keys, headers, timestamps, partitions, self._clock, self._life,
                             created, deadline_ms)
        columns = read_columns(values, keys, headers, timestamps, partitions, created,
                               lambda part, data: sender.serialize_part(None, topic, [], data, part))
        for chunk in columns.chunks:
            row = chunk.first_above(sender.max_record_bytes)
            if row >= 0:
                raise sender.too_large(topic, chunk.size_upper_bound(row), f"Row {row}: ")
        future = BatchFuture(topic, columns.partitions, columns.timestamps, self._life)
        if columns.chunks:
            try:
                self._send(topic, columns, partitions is not None, partitioner, future, deadline_ms)
            except BaseException:
                self._wakeup_sender()  # as in RecordSender.append_within
                raise
        future.on_handed_over()
        return future

    def _send(self, topic: str, columns: Columns, has_partitions: bool, partitioner: DefaultPartitioner,
              future: BatchFuture, deadline_ms: int) -> None:
        places = columns.partitions
        try:
            cluster = self._record_sender.known_cluster(topic, None, self._left_ms(deadline_ms))
        except (KafkaTimeoutError, ApiError, AuthenticationError) as error:
            _fail(future, range(len(places)), error)
            return
        unknown: set[int] = set()  # partitions that stayed unknown; their rows have failed
        table = cluster.table(topic)
        if has_partitions and (max(places) >= table.count or table.has_gaps):
            table = self._await_partitions(topic, table, future, places, unknown, deadline_ms)
        self._choose_partitions(topic, columns, partitioner, table)
        if table.has_gaps:
            # A key may have been hashed to a partition that is missing.
            table = self._await_partitions(topic, table, future, places, unknown, deadline_ms)
        for number, chunk in enumerate(columns.chunks):
            order, starts = sort_rows(places, chunk.first_row, chunk.row_count, table.count)
            rows = BatchRows(future, chunk, columns.timestamps, order, self._batch_bytes(len(table.in_order)))
            rest = self._append(topic, rows, starts, unknown, deadline_ms)
            if rest is not None:
                why, refused = rest
                if number + 1 < len(columns.chunks):
                    refused.extend(row for row in range(columns.chunks[number + 1].first_row, len(places))
                                   if places[row] not in unknown)
                _fail(future, refused, why)
                return

    def _await_partitions(self, topic: str, table: PartitionTable, future: BatchFuture, places: array[int],
                          unknown: set[int], deadline_ms: int) -> PartitionTable:
        """Wait for the partitions of rows that are not known yet, and fail the rows of those that stay unknown.

        Returns:
            The topic's partitions as they are known after the wait.
        """
        errors: dict[int, KafkaError] = {}
        for partition in sorted(set(places).difference(table.by_index, unknown, (UNKNOWN_PARTITION,))):
            try:
                table = self._record_sender.known_cluster(topic, partition, self._left_ms(deadline_ms)).table(topic)
            except (KafkaTimeoutError, ApiError, AuthenticationError) as error:
                errors[partition] = error
        if errors:
            unknown.update(errors)
            rows = [row for row, partition in enumerate(places) if partition in errors]
            future.on_failed(rows, lambda position: errors[places[rows[position]]])
        return table

    def _choose_partitions(self, topic: str, columns: Columns, partitioner: DefaultPartitioner,
                           table: PartitionTable) -> None:
        available = array("i", (info.partition for info in table.available or table.in_order))
        for chunk in columns.chunks:
            turn_count = chunk.turn_count(columns.partitions)
            chunk.assign(columns.partitions, table.count, available,
                         partitioner.take_turns(topic, turn_count) if turn_count else 0)

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
                except (BufferExhaustedError, IllegalStateError) as error:
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
        share_bytes = self._buffer_memory_bytes // (_BATCHES_PER_PARTITION * partition_count)
        return max(self._batch_size_bytes, min(self._large_batch_bytes, share_bytes))

    def _left_ms(self, deadline_ms: int) -> int:
        return max(0, deadline_ms - self._clock.now_ms())


def _fail(future: BatchFuture, rows: Iterable[int], error: KafkaError) -> None:
    future.on_failed(rows, lambda _position: error)
