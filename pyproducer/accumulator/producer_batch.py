"""One batch of records of one partition, from its first record to its outcome.

Road:    append -> [batch] -> drain -> request -> completion
Thread:  appended to under the partition's lock; after it is closed for appends the sender thread owns it.
Source:  Java ProducerBatch (4.1). Differs from Java: records are compressed once, when the batch is drained, and not
         while they are appended; so buffer.memory really bounds memory; see `_grow` for batch.size.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from pyproducer.accumulator.batch_future import BatchFuture, RowRange
from pyproducer.accumulator.batch_state import READ_BY_A_REQUEST, BatchState, move
from pyproducer.accumulator.failure import Failure
from pyproducer.accumulator.life import UNOWNED, Life, LifeState
from pyproducer.accumulator.produce_result import (
    ProduceRequestResult,
    fail_future,
    move_future,
    on_raised,
)
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import KafkaError
from pyproducer.common.records import RecordMetadata
from pyproducer.hotpath import ColumnChunk, FutureRecordMetadata, OpenBatch, Story, run_callbacks
from pyproducer.record.batch_writer import close_records, write_header
from pyproducer.record.compression import Compressor
from pyproducer.record.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, increment_sequence
from pyproducer.record.record_reader import decode_open_batch


class BatchRows(NamedTuple):
    """Rows of one send_batch whose columns lie in one piece, ordered by partition.

    Attributes:
        future: Told what becomes of them.
        chunk: The columns.
        timestamps: Epoch ms of every row of the call.
        order: Numbers of rows of the call.
        batch_size_bytes: How large a batch is that is opened for them.
    """

    future: BatchFuture
    chunk: ColumnChunk
    timestamps: array[int]
    order: array[int]
    batch_size_bytes: int


class ProducerBatch:
    """Records of one partition that travel, succeed and fail together."""

    __slots__ = (
        "_life",
        "attempts",
        "base_sequence",
        "codec_id",
        "created_ms",
        "encoded",
        "first_sent_ms",
        "full_bytes",
        "grown_future_count",
        "is_transactional",
        "last_error",
        "leader_epoch",
        "leader_epoch_at_last_attempt",
        "may_be_in_log",
        "open",
        "parts",
        "parts_in_doubt",
        "producer_epoch",
        "producer_id",
        "ranges",
        "record_count",
        "reserved_bytes",
        "result",
        "retry_at_ms",
        "row_count",
        "skips_linger",
        "state",
        "story",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, *, created_ms: int, write_limit_bytes: int,
                 reserved_bytes: int, is_split_batch: bool = False, life: Life = UNOWNED) -> None:
        self.topic_partition: TopicPartition = topic_partition
        self.created_ms: int = created_ms
        self.story: Story = Story(created_ms)  # for those who ask why; nothing here reads it
        # Of buffer.memory; given back when the batch leaves its partition's list.
        self.reserved_bytes: int = reserved_bytes
        # Where it is; see batch_state.py, whose `move` alone writes it from here on.
        self.state = BatchState.RETRY if is_split_batch else BatchState.OPEN
        # The batch as it is sent; None before close(). Slots go in the order of their names: this one before `open`,
        # whose storage is used again when it is the last.
        self.encoded: bytearray | None = None
        self.codec_id: int = 0
        self.result: ProduceRequestResult = ProduceRequestResult(topic_partition, life)
        self._life = life
        self.open: OpenBatch = OpenBatch(self.result, write_limit_bytes)
        self.full_bytes: int = write_limit_bytes  # from here on it does not linger, also where it may grow
        self.grown_future_count: int = 0  # so many futures were charged for when it grew; see Partition
        self.record_count: int = 0  # how many records it holds; known when it is sealed
        self.ranges: list[RowRange] = []  # rows of send_batch; the other records have futures
        self.row_count: int = 0  # how many rows that is; known when the batch is done, too
        self.skips_linger: bool = False  # somebody waits for a record of it: it does not linger
        self.is_transactional: bool = False
        self.attempts: int = 0
        self.last_error: KafkaError | None = None  # of the last failed attempt; told when the delivery times out
        # An attempt ended without an answer, and nothing since has proved that it stored nothing.
        self.may_be_in_log: bool = False
        self.parts: list[ProducerBatch] = []  # that take its place when it is split
        # All parts of a batch that was split and whose whole may be in the log; empty again once one of them is stored.
        self.parts_in_doubt: list[ProducerBatch] = []
        self.retry_at_ms: int = created_ms  # end of the backoff; drawn once for each failed attempt, jitter included
        self.producer_id: int = NO_PRODUCER_ID
        self.producer_epoch: int = NO_PRODUCER_EPOCH
        self.base_sequence: int = NO_SEQUENCE
        self.first_sent_ms: int | None = None  # when it was drained first with the numbers that it has
        # The partition that it is sent to next, or was sent to last, as metadata has it.
        self.topic_id: UUID | None = None
        self.leader_epoch: int = -1
        self.leader_epoch_at_last_attempt: int = -1

    def append(self, record: SerializedRecord) -> FutureRecordMetadata | None:
        """Add a record and return its future; None when there is no room. The first record always has room."""
        return self.open.try_append(record.timestamp, record.key_bytes, record.value_bytes, record.headers,
                                    record.on_completion)

    def append_rows(self, rows: BatchRows, start: int, end: int) -> int:
        """Add rows of a send_batch until there is no room; return how many. The first record always has room."""
        index, count = rows.chunk.append_to(self.open, rows.timestamps, rows.order, start, end)
        if count:
            self.ranges.append(RowRange(rows.future, index, rows.order, start, count))
            self.row_count += count
        return count

    def seal(self) -> None:
        """Let no record in any more. With the partition's lock held; again is no error."""
        self.open.is_closed = True
        self.record_count = self.open.record_count
        if self.state is BatchState.OPEN:
            move(self, BatchState.QUEUED)

    @property
    def is_done(self) -> bool:
        """Whether the outcome of its records is decided, or is that of the batches which took its place."""
        return self.result.is_set or self.state in (BatchState.SPLIT, BatchState.DONE)

    @property
    def is_in_flight(self) -> bool:
        """Whether a request may read its bytes."""
        return self.state in READ_BY_A_REQUEST

    @property
    def has_grown(self) -> bool:
        """Whether it may take more than a batch should have."""
        return self.open.write_limit_bytes > self.full_bytes

    @property
    def is_full(self) -> bool:
        """Whether it is sealed, or has as much as a batch should have."""
        return self.open.is_closed or self.open.size_bytes >= self.full_bytes

    @property
    def future_count(self) -> int:
        """How many records have, or had, a future."""
        return self.open.record_count - self.row_count

    @property
    def size_bytes(self) -> int:
        """Bytes on the wire once closed; before that, uncompressed."""
        encoded = self.encoded
        return self.open.size_bytes if encoded is None else len(encoded)

    @property
    def has_sequence(self) -> bool:
        """Whether sequence numbers were given; a retry keeps them."""
        return self.base_sequence != NO_SEQUENCE

    def close(self, compressor: Compressor) -> None:
        """Compress the records of a sealed batch. Calling it again does nothing.

        Raises:
            Exception: The codec's own, or MemoryError; the batch is as it was.
        """
        if self.encoded is None:
            self.codec_id = compressor.codec_id  # first: who finds it encoded finds its codec
            self.encoded = close_records(self.open.buffer, compressor)

    def set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int, *,
                           is_transactional: bool = False) -> None:
        """Give the batch its place in the producer's sequence."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional

    def write_header(self) -> None:
        """Write the batch's header with its checksum, as it now is. Only while it is not on the wire."""
        encoded, records = self.encoded, self.open
        assert encoded is not None, "a batch is closed before its header is written"
        write_header(encoded, codec_id=self.codec_id, record_count=self.record_count,
                     base_timestamp=records.base_timestamp, max_timestamp=records.max_timestamp,
                     producer_id=self.producer_id, producer_epoch=self.producer_epoch,
                     base_sequence=self.base_sequence, is_transactional=self.is_transactional)

    def has_reached_delivery_timeout(self, delivery_timeout_ms: int, now_ms: int) -> bool:
        """Whether delivery.timeout.ms passed since the batch was created."""
        return now_ms - self.created_ms >= delivery_timeout_ms

    def on_reenqueued(self, retry_at_ms: int) -> None:
        """Count a failed attempt; the next one is not before `retry_at_ms`."""
        self.attempts += 1
        self.retry_at_ms = retry_at_ms
        self.leader_epoch_at_last_attempt = self.leader_epoch

    def backoff_left_ms(self, now_ms: int) -> int:
        """How long the batch still waits after a failed attempt; 0 when a newer leader is known (KIP-951)."""
        if self.attempts == 0 or self.leader_epoch > self.leader_epoch_at_last_attempt >= 0:
            return 0
        return max(self.retry_at_ms - now_ms, 0)

    def complete(self, base_offset: int, log_append_time: int = NO_TIMESTAMP,
                 error_for: Callable[[int], KafkaError] | None = None) -> bool:
        """Decide the outcome and tell the futures: the records are stored; False when the batch was done already.

        Args:
            base_offset: Of the first record, or -1 when it is not known.
            log_append_time: The broker's time in epoch ms, or -1 where the records' own timestamps hold.
            error_for: Where they failed: see `fail`.
        """
        if self.is_done:
            return False
        failure = None if error_for is None else Failure(
            *self.topic_partition, self.record_count, error_for(0), watched=self.future_count)
        # The outcome is decided by this one call. Whatever may interrupt what follows, `resume` can do it again.
        self.result.set(base_offset, log_append_time, error_for, failure)
        self.resume()
        return True

    def fail(self, error_for: Callable[[int], KafkaError]) -> bool:
        """Tell the futures that the records failed; False when the batch was done already.

        Args:
            error_for: Gives the error of the record at an index of the batch.
        """
        return self.complete(-1, NO_TIMESTAMP, error_for)

    def split(self, split_size_bytes: int) -> list[ProducerBatch]:
        """Build smaller batches of the records of one that the broker found too large; see `move_futures`.

        Args:
            split_size_bytes: Bytes of a new batch, uncompressed. When that gives back a single batch, half is tried.

        Returns:
            New batches in order, sealed, with the sequence numbers of their records. This one is as it was.

        Source: Java ProducerBatch.split (4.1); KIP-126.
        """
        assert self.encoded is not None, "only a batch that was sent is split"
        records = [(record.timestamp, record.key, record.value, record.headers)
                   for record in decode_open_batch(self.open)]
        batches = self._distribute(records, split_size_bytes)
        while len(batches) == 1 and len(records) > 1:
            split_size_bytes = max(1, batches[0].open.size_bytes // 2)
            batches = self._distribute(records, split_size_bytes)
        futures, begin = deque(self.open.futures), 0
        sequence = self.base_sequence
        share_bytes = self.reserved_bytes // len(batches)
        for batch in batches:
            batch.seal()
            batch.story.follow(self.story)
            batch.attempts = self.attempts
            batch.may_be_in_log = self.may_be_in_log
            batch.topic_id = self.topic_id
            batch.retry_at_ms = self.retry_at_ms
            batch.reserved_bytes = share_bytes
            end = begin + batch.record_count
            moved: list[FutureRecordMetadata] = []
            while futures and futures[0]._index < end:
                moved.append(futures.popleft())
            batch.open.futures = moved
            batch.ranges = [part for rows in self.ranges if (part := rows.part(begin, end)) is not None]
            batch.row_count = sum(part.row_count for part in batch.ranges)
            if self.has_sequence:
                batch.set_producer_state(self.producer_id, self.producer_epoch, sequence,
                                         is_transactional=self.is_transactional)
                sequence = increment_sequence(sequence, batch.record_count)
            begin = end
        batches[-1].reserved_bytes += self.reserved_bytes - share_bytes * len(batches)
        if self in self.parts_in_doubt:  # a part that is split again: the same list, with its parts in its place
            in_doubt = self.parts_in_doubt
            place = in_doubt.index(self)
            in_doubt[place:place + 1] = batches
        else:  # never a list that was emptied: other parts of that time still look into it
            in_doubt = batches[:] if self.may_be_in_log else []
        for batch in batches:
            batch.parts_in_doubt = in_doubt
        return batches

    def move_futures(self) -> None:
        """Let the futures look into `parts`, which follow this batch in the list.

        Again, after an exception half way, is no error.
        """
        begin = 0
        for part in self.parts:
            for future in part.open.futures:
                if future._result is self.result:
                    move_future(future, part.result, future._index - begin)
            begin += part.record_count
        self.open.futures, self.ranges = [], []
        self.result.split(tuple(part.result for part in self.parts))

    def _distribute(self, records: Sequence[tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]],
                    split_size_bytes: int) -> list[ProducerBatch]:
        batches: list[ProducerBatch] = []
        for timestamp, key, value, headers in records:
            if not batches or batches[-1].open.try_append(timestamp, key, value, headers, None) is None:
                batch = ProducerBatch(self.topic_partition, created_ms=self.created_ms,
                                      write_limit_bytes=split_size_bytes, reserved_bytes=0, is_split_batch=True,
                                      life=self._life)
                batch.open.try_append(timestamp, key, value, headers, None)
                batches.append(batch)
        return batches

    def has_callbacks(self) -> bool:
        """Whether telling the outcome calls anything of the application's, or may do so."""
        if self.ranges:
            return True
        for future in self.open.futures:
            if future._on_completion is not None or future._done_callbacks is not None:
                return True
        return False

    def on_forked(self) -> None:
        """In a child process: its records are the parent's. No callback of theirs runs here; let who waits look."""
        for future in self.open.futures:
            future._on_completion = None
            future._done_callbacks = None
        for rows in self.ranges:
            rows.future.on_forked()
        self.result.on_forked()

    def resume(self) -> bool:
        """Tell the outcome, or go on after that was interrupted; False when none is decided yet.

        Where a caller takes this turn, callbacks are left to the sender thread, which he rings.
        """
        if self.result.is_set and not (self._life.role.caller and self.has_callbacks()):
            self._tell()
        return self.result.is_set

    def _tell(self) -> None:
        self.open.is_closed = True
        outcome = self.result
        base_offset, log_append_time, error_for = outcome.base_offset, outcome.log_append_time, outcome.error_for
        futures = self.open.futures  # who was told has no callback any more
        if error_for is None:
            topic, partition = self.topic_partition
            self._life.tally.stored(outcome, topic, self.record_count)
            run_callbacks(futures, RecordMetadata, topic, partition, base_offset, log_append_time, on_raised)
        else:
            assert outcome.failure is not None, "written with the error"
            self._life.tally.failed(outcome.failure, outcome)
            self.open.result = None  # a route keeps the last batch, and is nobody who will look at its futures
            for future in futures:
                fail_future(future, error_for(future._index))
        self.open.futures = []
        while self.ranges:
            rows = self.ranges[0]
            if error_for is None:
                rows.future.on_stored(rows, base_offset, log_append_time)
            else:
                rows.fail(error_for)
            del self.ranges[0]
        outcome.notify()
        if self._life.state is LifeState.FORKED:  # by a callback: in the child the sender thread ends, see IoThread
            raise SystemExit

    def __repr__(self) -> str:
        return (f"<ProducerBatch {self.topic_partition} {self.state.value} records={self.open.record_count} "
                f"bytes={self.size_bytes} attempts={self.attempts} sequence={self.base_sequence}>")
