"""The hand-over between the callers and the sender thread: open batches per partition, bounded by buffer.memory.

Road:    send() -> [RecordAccumulator] | Sender
Thread:  append, append_rows, begin_flush: any caller. All else: the sender thread. Locks, in order: one
         partition's, then the pool's; never two partitions at once.
Source:  Java RecordAccumulator (4.1). Differs from Java: a batch stays in its partition's list until done, so what
         flush() waits for, what expires and what holds memory are the same batches; batch_state.py says where each is.
"""

from __future__ import annotations

from _thread import RLock
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple, TypeVar

from pyproducer.accumulator.append_result import AppendResult, AppendRowsResult
from pyproducer.accumulator.batch_state import WAITING, BatchState, move
from pyproducer.accumulator.buffer_pool import BufferPool, Place
from pyproducer.accumulator.life import UNOWNED, Life
from pyproducer.accumulator.partition import FUTURE_BYTES, Partition
from pyproducer.accumulator.partition_sequence import PartitionSequence, SequenceEvent
from pyproducer.accumulator.producer_batch import BatchRows, ProducerBatch
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.accumulator.waiting_records import WaitingRecord, WaitingRecords
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import NEVER_MS, Clock
from pyproducer.common.cluster import Cluster, Node, TopicPartition
from pyproducer.common.errors import NOT_SENT, UNKNOWN, KafkaError, with_outcome
from pyproducer.common.limited_log import LimitedLog
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.common.waiting import is_owned, release_in_child
from pyproducer.hotpath import HEADER_SIZE_BYTES, ORDER, Ledger
from pyproducer.record.compression import Compressor, NoCompressor
from pyproducer.record.layout import NO_SEQUENCE
from pyproducer.transaction.transactions import OpenTransaction

log: SenderLog = sender_log(__name__)

_SURPLUS_BYTES = 75
"""What record_size_upper_bound has above the smallest record: a batch's header of 61 and 14 for longer varints."""

_WAITING_SHARE = 4
"""A quarter of buffer.memory at most is for records that wait for metadata, so that a misspelt topic does not stop the
others."""

_NUMBER = attrgetter("number")

NO_LIMIT_BYTES = 2**62

_SPREAD_DIVISOR = 64
"""A batch expires with its oldest record: it grows beyond batch.size only within this part of delivery.timeout.ms."""

BATCHES_OF_ROWS = 8
"""How many large batches of rows memory has room for, for each partition: one open, as many on the wire as are
allowed in flight, and some more."""

_UNCOMPRESSED = NoCompressor()

Appended = TypeVar("Appended", AppendResult, AppendRowsResult)


class ReadyCheckResult(NamedTuple):
    """What a look at all partitions gave.

    Attributes:
        expired: Batches whose delivery.timeout.ms passed, wherever they are, and those in doubt that no broker would
            know again; they are sealed. With any, look again when they are told: of their partitions the rest says
            nothing.
        next_expiry_delay_ms: Until the next one expires; never less than a batch opened now has.
        ready_nodes: Those that lead a partition with something to send now.
        partitions: For each node the partitions that it leads and that hold something to send, now or later.
        next_ready_check_delay_ms: Until another may be ready.
        unknown_leader_topics: Those of partitions with something to send that nobody leads.
    """

    expired: list[ProducerBatch]
    next_expiry_delay_ms: int
    ready_nodes: dict[int, Node]
    partitions: dict[int, list[Partition]]
    next_ready_check_delay_ms: int
    unknown_leader_topics: set[str]


class RecordAccumulator:
    """Batches of records that wait for the sender, by partition.

    Args:
        batch_size_bytes: batch.size.
        linger_ms: linger.ms.
        delivery_timeout_ms: delivery.timeout.ms.
        largest_batch_bytes: How far a batch grows beyond batch.size while another one of its partition waits before it;
            None for not at all.
        largest_uncompressed_bytes: The same as long as it is estimated to be batch.size when compressed; None for not
            at all.
        in_flight_bytes: What one node's requests in flight hold at most: batches grow only as long as each partition
            that is busy has a share of it.
        pool: See the attribute.
        compressor: Of closed batches.
        retry_backoff: How long a batch waits before another attempt.
        clock: For the time a batch was opened.
        life: The producer's.
        sends_one_at_a_time: Whether one batch of a partition is on the wire at most.
        lingers_for_waiters: Whether a batch that somebody waits for lingers all the same.
        on_linger_ended: Told when a batch stops to linger, because a caller waits for it.
        transaction_manager: Whose sequence numbers batches get; None without idempotence.
        ledger: Told of each batch that ends.

    Attributes:
        busy: The partitions that hold batches, and for a moment one that does not any more: what the sender looks at in
            each turn. Whoever brings one meanwhile rings the sender. Written here only, with the partition's lock held.
        largest_batch_bytes: See the argument.
        pool: buffer.memory.
        codec_lines: What is written of batches that could not be compressed.
    """

    def __init__(self, *, batch_size_bytes: int, linger_ms: int, delivery_timeout_ms: int, pool: BufferPool,
                 compressor: Compressor, retry_backoff: ExponentialBackoff, clock: Clock, life: Life = UNOWNED,
                 sends_one_at_a_time: bool = False, lingers_for_waiters: bool = True,
                 on_linger_ended: Callable[[], None] = lambda: None,
                 transaction_manager: TransactionManager | None = None,
                 largest_batch_bytes: int | None = None, largest_uncompressed_bytes: int | None = None,
                 in_flight_bytes: int = NO_LIMIT_BYTES,
                 ledger: Ledger | None = None) -> None:
        self._ledger = Ledger() if ledger is None else ledger
        self._batch_size_bytes = batch_size_bytes
        self._in_flight_bytes = in_flight_bytes
        self._spread_ms = delivery_timeout_ms // _SPREAD_DIVISOR
        self.largest_batch_bytes: int = batch_size_bytes if largest_batch_bytes is None else largest_batch_bytes
        self._largest_uncompressed_bytes = largest_uncompressed_bytes or batch_size_bytes
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self.pool: BufferPool = pool
        self._compressor = compressor
        self._retry_backoff = retry_backoff
        self._clock = clock
        self._life = life
        self._sends_one_at_a_time = sends_one_at_a_time
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._make_sequence: Callable[[list[ProducerBatch]], PartitionSequence] | None = (
            None if transaction_manager is None else partial(PartitionSequence, manager=transaction_manager))
        self._transactions = None if transaction_manager is None else transaction_manager.transactions
        self.codec_lines: LimitedLog = LimitedLog(log, "%d more batches, of %d records, went out uncompressed")
        self.busy: dict[Partition, None] = {}
        # The records that are in no batch yet; see producer/waiting_room.py.
        self.waiting: WaitingRecords = WaitingRecords(pool, pool.total_bytes // _WAITING_SHARE, life, self._is_in_list)
        self.is_closed: bool = False
        self._on_linger_ended = on_linger_ended
        self.lingers_for_waiters = lingers_for_waiters
        self.has_split: bool = False  # a broker found a batch too large; written by the sender thread
        # Sender thread only: per node, the number of the partition where the next drain begins, or of one that is not
        # waiting then: each time others are.
        self._drain_start: dict[int, int] = {}

    # The callers' side.

    def append(self, record: SerializedRecord, partition: int, max_block_ms: int,
               place: Place | None = None) -> AppendResult:
        """Add one serialized record to the open batch of its partition.

        Blocks the caller while buffer.memory is exhausted; never does I/O.

        Args:
            record: The record.
            partition: Its partition, which is known.
            max_block_ms: Longest wait for memory, in ms.
            place: A task's, which waits for memory already; it is kept.

        Raises:
            BufferExhaustedError: No memory within max_block_ms. Not sent.
            LoopWaitError: The same, of an event loop, which waits itself. Not sent.
            ProducerClosedError: The producer is closed. Not sent.
        """
        topic = record.topic
        owner = self._partitions.get((topic, partition)) or self._create_partition(topic, partition)
        return self._run("send()", owner, partial(self._append_record, owner, record), max_block_ms, place)

    def _append_record(self, owner: Partition, record: SerializedRecord, place: Place | None) -> AppendResult | int:
        """Append to the open batch, or to a new one; see `_append`. With the partition's lock held."""
        self.ensure_takes_records(record.within)
        last, size_bytes = owner.open_batch(), record.size_bytes
        if last is not None:
            future = last.append(record)
            if future is None and self._grow(owner, last, size_bytes):
                future = last.append(record)
            if future is not None:
                return AppendResult(future, last, last.open.is_full, False)
            last.seal()
        # A partition's first batch is taken to become full of records like this one.
        like_this = 1 + self._batch_size_bytes // (size_bytes - _SURPLUS_BYTES)
        batch = self._new_batch(owner, max(self._batch_size_bytes, size_bytes), like_this, self._batch_size_bytes)
        future = batch.append(record)
        assert future is not None, "the first record of a batch always has room"
        if not self.pool.charge(batch, owner.batches, place):
            return batch.reserved_bytes
        return AppendResult(future, batch, batch.open.is_full, True)

    def _grow(self, owner: Partition, batch: ProducerBatch, size_bytes: int) -> bool:
        """Let the open batch of a partition take twice as much, where it could not leave now anyway.

        It could not while another one waits before it: for an answer, or for the sender's thread. What is one batch
        then costs a request's share once. All busy partitions of a node still fit into its requests in flight, so that
        none waits longer for its turn. Differs from Java, which closes it at batch.size; where that was set, this does
        so, too: as Java, when it is estimated to be so large compressed. With the partition's lock held.
        """
        batches, limit_bytes = owner.batches, batch.open.write_limit_bytes
        largest_bytes = max(self.largest_batch_bytes, self._estimated_bytes(owner))
        if (limit_bytes >= largest_bytes or len(batches) < 2 or batches[-2].state not in WAITING
                or self.has_split):  # then some topic's max.message.bytes is small
            return False
        new_limit_bytes = min(2 * limit_bytes, largest_bytes)
        if (batch.open.size_bytes + size_bytes > new_limit_bytes
                or new_limit_bytes * len(self.busy) > self._in_flight_bytes
                or self._clock.now_ms() - batch.created_ms > self._spread_ms):
            return False
        more_bytes = new_limit_bytes - limit_bytes
        # For records like those that it has.
        more_futures = batch.future_count * more_bytes // (batch.open.size_bytes - HEADER_SIZE_BYTES)
        if not self.pool.extend(batch, more_bytes + FUTURE_BYTES * more_futures):
            return False
        batch.grown_future_count += more_futures
        batch.full_bytes = min(batch.full_bytes, batch.open.size_bytes)  # it would have been sealed
        batch.open.write_limit_bytes = new_limit_bytes
        return True

    def _estimated_bytes(self, owner: Partition) -> int:
        """Return how many bytes of a partition's records are estimated to be batch.size when they are compressed."""
        return min(owner.uncompressed_bytes(self._batch_size_bytes), self._largest_uncompressed_bytes)

    def append_rows(self, topic: str, partition: int, rows: BatchRows, start: int, end: int,
                    max_block_ms: int) -> AppendRowsResult:
        """Add rows of a send_batch to the open batch of their partition, or to a new one: as many as one batch takes.

        Blocks the caller while buffer.memory is exhausted; never does I/O.

        Args:
            topic: Topic of the destination.
            partition: Partition, already chosen.
            rows: The rows, none of them above buffer.memory.
            start: Where in `rows.order` to begin.
            end: Where in `rows.order` to end; above `start`.
            max_block_ms: Longest wait for memory, in ms.

        Returns:
            How many rows were added, at least one.

        Raises:
            BufferExhaustedError: No memory within max_block_ms. Not sent.
            ProducerClosedError: The producer is closed. Not sent.
        """
        owner = self._partitions.get((topic, partition)) or self._create_partition(topic, partition)
        return self._run("send_batch()", owner, partial(self._append_rows, owner, rows, start, end), max_block_ms)

    def _append_rows(self, owner: Partition, rows: BatchRows, start: int, end: int,
                     place: Place | None) -> AppendRowsResult | int:
        """Append to the open batch, or to a new one; see `_append`. With the partition's lock held."""
        self.ensure_takes_records(rows.future.within)
        last = owner.open_batch()
        if last is not None:
            count = last.append_rows(rows, start, end)
            if start + count < end:
                last.seal()
            if count:
                return AppendRowsResult(count, last, last.open.is_full, False)
        limit_bytes = rows.batch_size_bytes
        estimated_bytes = self._estimated_bytes(owner)
        share_bytes = min(self._in_flight_bytes, self.pool.total_bytes // BATCHES_OF_ROWS) // (1 + len(self.busy))
        if not self.has_split and estimated_bytes <= share_bytes:
            limit_bytes = max(limit_bytes, estimated_bytes)
        size_bytes = max(limit_bytes, rows.chunk.size_upper_bound(rows.order[start]))
        batch = self._new_batch(owner, size_bytes, 0, limit_bytes)
        count = batch.append_rows(rows, start, end)
        if start + count < end:
            batch.seal()
        if not self.pool.charge(batch, owner.batches, place):
            return batch.reserved_bytes
        return AppendRowsResult(count, batch, batch.open.is_full, True)

    def _run(self, call: str, owner: Partition, attempt: Callable[[Place | None], Appended | int],
             max_block_ms: int, place: Place | None = None) -> Appended:
        self.ensure_in_no_step(call, owner.lock)
        appended: Appended = self._life.calls.run(call, self._append, owner, attempt, max_block_ms, place)
        return appended

    def ensure_takes_records(self, within: OpenTransaction | None) -> None:
        """Do nothing while records are taken; with the lock held of what takes the record.

        Args:
            within: The transaction that it belongs to, as a row of a send_batch() does; None for a send().

        Raises:
            IllegalStateError: The producer is closed, or no transaction is open, or another one. Not sent.
        """
        if self.is_closed:
            raise self._life.refusal()
        if self._transactions is not None:
            self._transactions.ensure_may_send(within)

    def ensure_in_no_step(self, call: str, *locks: RLock) -> None:
        """Refuse a call out of a finalizer that came in the middle of a step of the sender's; that is not noted.

        Raises:
            IllegalStateError: The sender thread has a lock that the call needs: one of `locks`, or memory's. Not sent.
        """
        life = self._life
        if life.is_on_sender_thread and any(map(is_owned, (*locks, self.pool.lock, self.waiting.lock))):
            raise life.calls.nested(call)

    def _append(self, partition: Partition, attempt: Callable[[Place | None], Appended | int],
                max_block_ms: int, given: Place | None) -> Appended:
        """Call `attempt` with the partition's lock held until it appended; each time but the first with memory.

        Args:
            partition: Where to.
            attempt: Appends to the open batch, which another caller may have opened meanwhile, or opens one: from what
                is free, or from a place among those who wait. Without memory it says how much a new batch takes.
            max_block_ms: Longest wait for memory.
            given: A place that the caller keeps, or None.
        """
        place = given
        try:
            while True:
                with partition.lock:
                    result = attempt(place)
                if not isinstance(result, int):
                    if place is not None:
                        result.batch.story.memory_ms = place.waited_ms
                    return result
                if place is None:
                    place = self.pool.enter(result, max_block_ms)
                place.wait()
        finally:
            if place is not None and place is not given:
                place.leave()

    def _new_batch(self, partition: Partition, size_bytes: int, first_future_count: int,
                   limit_bytes: int) -> ProducerBatch:
        """Make a batch that takes so many bytes; see Partition.bookkeeping_bytes. With the partition's lock held."""
        self.busy[partition] = None  # first: a partition without batches does no harm there
        # Never more than there is: what fits alone must not wait for ever for what is kept beside it.
        reserved_bytes = min(size_bytes + partition.bookkeeping_bytes(first_future_count), self.pool.total_bytes)
        batch = ProducerBatch(partition.topic_partition, created_ms=self._clock.now_ms(),
                              write_limit_bytes=limit_bytes, reserved_bytes=reserved_bytes, life=self._life)
        if partition.batches:
            partition.batches[-1].story.due_ms = batch.created_ms
        if not self.lingers_for_waiters:
            batch.result.end_linger = partial(self._end_linger, batch)
        return batch

    def begin_flush(self) -> list[ProducerBatch]:
        """Let no batch linger of those that are not done now, and return them; the futures of some may be told."""
        batches = self.batches()
        for batch in batches:
            batch.skips_linger = True
        return batches

    def close(self) -> None:
        """Refuse records from now on; those accepted are still sent."""
        self.is_closed = True
        self.pool.close()
        self.waiting.close()
        # A caller that saw is_closed False holds its partition's lock until its record is in a batch. Taking each lock
        # once makes sure that such a record is visible to whoever drains after close().
        for partition in list(self._partitions.values()):
            with partition.lock:
                pass

    def close_off(self) -> None:
        """Let no record into any batch that is there, and none linger; the sender's, once no more records are taken.

        As in `close`: who saw that records are taken holds a lock until his record is in a batch, or in the waiting
        room. The compiled road takes none, but what it appends to is sealed here.
        """
        for partition in list(self._partitions.values()):
            with partition.lock:
                last = partition.open_batch()
                if last is not None:
                    last.seal()
        with self.waiting.lock:
            pass
        self.begin_flush()

    def on_forked(self) -> None:
        """In a child process: refuse records, and wake those who wait. What is in here is the parent's.

        A caller whose signal's handler forked goes on in the middle of append; no lock stops him that another thread of
        the parent had taken.
        """
        for partition in list(self._partitions.values()):
            release_in_child(partition.lock)
        self.pool.on_forked()
        self.waiting.on_forked()
        for batch in self.batches():
            batch.on_forked()
        self.close()

    def incomplete(self) -> list[ProducerBatch]:
        """Return the batches whose outcome is not decided, in order of each partition."""
        return [batch for partition in list(self.busy) for batch in list(partition.batches) if not batch.is_done]

    def has_incomplete(self) -> bool:
        """Whether any record's outcome is not known yet."""
        for partition in list(self.busy):
            for batch in list(partition.batches):
                if not batch.is_done:
                    return True
        return self.waiting.has_any()

    def incomplete_record_count(self) -> int:
        """How many records' outcomes are not known yet."""
        return len(self.waiting.incomplete()) + sum(batch.open.record_count for batch in self.incomplete())

    # The sender's side.

    def ready(self, cluster: Cluster, now_ms: int) -> ReadyCheckResult:
        """Look at all partitions that hold batches: what has expired, which nodes can be drained, when to look again.

        A partition is ready when its first waiting batch is full, lingered long enough or finished its backoff, when
        somebody waits for a record of it, or when memory is exhausted, a flush waits for it or the producer closes.

        Source: Java RecordAccumulator.ready, partitionReady, batchReady (4.1).
        """
        expired: list[ProducerBatch] = []
        ready_nodes: dict[int, Node] = {}
        partitions: dict[int, list[Partition]] = {}
        unknown_leader_topics: set[str] = set()
        next_check_delay_ms = NEVER_MS
        next_expiry_ms = now_ms + self._delivery_timeout_ms
        is_hurried = self._is_hurried()
        for partition in list(self.busy):
            batches = partition.batches
            if not batches:  # a caller got no memory for its first batch
                with partition.lock:
                    if not batches:
                        self.busy.pop(partition, None)
                continue
            expiry_ms = batches[0].created_ms + self._delivery_timeout_ms
            if expiry_ms <= now_ms:
                found = len(expired)
                expiry_ms = self._seal_expired(partition, now_ms, expired)
                if len(expired) > found:
                    continue  # what waits behind them is looked at when they are told
            next_expiry_ms = min(next_expiry_ms, expiry_ms)
            last = batches[-1]
            if last.has_grown and now_ms - last.created_ms > self._spread_ms and last.state is BatchState.OPEN:
                with partition.lock:
                    last.seal()  # what comes now shall not expire with what it began with
            first = partition.head()
            if first is None:
                continue
            topic, index = partition.topic_partition
            table = cluster.tables.get(topic)
            sequence = partition.sequence
            if first.may_be_in_log and sequence is not None:
                may_go = sequence.memory.may_go_again(first, now_ms, cluster)
                if may_go is False:
                    expired.append(first)
                    continue
                if may_go is None:
                    unknown_leader_topics.add(topic)  # of the topic that it was sent to no leader is known
                    continue
            info = None if table is None else table.by_index.get(index)
            if table is None or info is None or info.leader is None:
                unknown_leader_topics.add(topic)
                continue
            partition.leader_epoch = first.leader_epoch = info.leader_epoch
            partition.topic_id = table.topic_id
            node_id = info.leader.node_id
            partitions.setdefault(node_id, []).append(partition)
            wait_ms = self._wait_ms(batches, first, now_ms, is_hurried=is_hurried)
            if wait_ms == 0:
                ready_nodes[node_id] = info.leader
            else:
                # The delay is a guess, as in Java: another record may make the batch ready earlier, and wakes the
                # sender.
                next_check_delay_ms = min(next_check_delay_ms, wait_ms)
        return ReadyCheckResult(expired, next_expiry_ms - now_ms, ready_nodes, partitions, next_check_delay_ms,
                                unknown_leader_topics)

    def _is_hurried(self) -> bool:
        """Whether nothing lingers: the producer closes, or callers wait for memory."""
        return self.is_closed or (self._linger_ms > 0 and self.pool.queued_count > 0)

    def _wait_ms(self, batches: list[ProducerBatch], first: ProducerBatch, now_ms: int, *, is_hurried: bool) -> int:
        """Return how long the first waiting batch of a partition lingers, or backs off, from now on; 0 when it may go.

        Source: Java RecordAccumulator.batchReady (4.1).
        """
        if first.attempts:
            return first.backoff_left_ms(now_ms)
        if is_hurried or first.skips_linger or batches[-1] is not first or first.is_full:
            return 0
        return max(0, first.created_ms + self._linger_ms - now_ms)

    def _seal_expired(self, partition: Partition, now_ms: int, expired: list[ProducerBatch]) -> int:
        """Seal the batches of a partition whose delivery.timeout.ms passed, wherever they are, and note them.

        Returns:
            When the next one expires, in monotonic ms.
        """
        for batch in list(partition.batches):
            if batch.is_done:
                continue
            if not batch.has_reached_delivery_timeout(self._delivery_timeout_ms, now_ms):
                return batch.created_ms + self._delivery_timeout_ms  # behind it are only younger ones
            with partition.lock:
                batch.seal()
            expired.append(batch)
        return NEVER_MS

    def drain(self, node_id: int, partitions: list[Partition], max_size_bytes: int, now_ms: int, *,
              only_due: bool = False) -> tuple[list[ProducerBatch], bool]:
        """Make one request's worth of batches ready for a node: sealed, compressed, numbered, with headers.

        Args:
            node_id: A node that takes a request.
            partitions: What waits for it, as `ready` found it; one or more. They are put in order.
            max_size_bytes: max.request.size; a single batch above it goes alone.
            now_ms: Monotonic time, in ms.
            only_due: Whether what lingers stays, although a request leaves that would take it along.

        Returns:
            At most one batch of each partition; and whether there is more for another request.

        Source: Java RecordAccumulator.drain, drainBatchesForOneNode (4.1).
        """
        compressor = self._compressor
        timestamp_ms = self._clock.timestamp_ms()
        drained: list[ProducerBatch] = []
        size_bytes = 0
        has_more = False
        is_hurried = only_due and self._is_hurried()
        count = len(partitions)
        start = 0
        if count > 1:  # so that no partition starves while requests are full
            partitions.sort(key=_NUMBER)
            start = bisect_left(partitions, self._drain_start.get(node_id, 0), key=_NUMBER) % count
            self._drain_start[node_id] = partitions[start].number + 1
        for step in range(count):
            partition = partitions[(start + step) % count]
            first = partition.head()
            if first is None or (first.attempts and first.backoff_left_ms(now_ms)):
                continue
            if only_due and self._wait_ms(partition.batches, first, now_ms, is_hurried=is_hurried):
                continue
            if first.base_sequence == NO_SEQUENCE:  # else they say where its last attempt went, until it goes again
                first.leader_epoch, first.topic_id = partition.leader_epoch, partition.topic_id
            if drained and size_bytes + first.size_bytes > max_size_bytes:
                self._drain_start[node_id] = partition.number  # it is the first next time
                return drained, True
            sequence = partition.sequence
            if sequence is not None and not sequence.can_send(first, now_ms):
                first.story.reason = ORDER
                continue
            with partition.lock:
                first.seal()
            batch_bytes, is_new = first.size_bytes, first.encoded is None
            if drained and size_bytes + batch_bytes > max_size_bytes:  # callers appended until it was sealed
                self._drain_start[node_id] = partition.number
                return drained, True
            has_more = has_more or partition.batches[-1] is not first
            try:
                first.close(compressor)
            except Exception as cause:  # a codec's, without memory for one
                self.codec_lines.warning(
                    now_ms, first.record_count, "%s could not compress %d record(s) for %s, which go out "
                    "uncompressed: %r", compressor.name, first.record_count, partition.topic_partition, cause)
                first.close(_UNCOMPRESSED)
            if is_new:  # a retry was compressed before
                partition.on_compressed(first.size_bytes / batch_bytes)
            if sequence is not None:
                sequence.on_drained(first, now_ms, timestamp_ms - first.open.max_timestamp)
            first.write_header()
            first.leader_epoch, first.topic_id = partition.leader_epoch, partition.topic_id
            move(first, BatchState.DRAINED)
            size_bytes += batch_bytes
            drained.append(first)
        return drained, has_more

    def reenqueue(self, batch: ProducerBatch, now_ms: int) -> None:
        """Let a batch wait for another attempt, in its place."""
        batch.on_reenqueued(now_ms + self._retry_backoff.backoff_ms(batch.attempts))
        move(batch, BatchState.RETRY)

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Replace a batch that was too large for the broker by smaller ones, in its place.

        Returns:
            The new batches in order. They keep the sequence numbers, so the caller tracks them as in flight.
        """
        self.has_split = True
        batch.parts = batch.split(self._batch_size_bytes)
        move(batch, BatchState.SPLIT)
        self._let_parts_follow(batch)
        return batch.parts

    def resume(self, batch: ProducerBatch) -> bool:
        """Go on with what was decided of a batch, after an exception ended that half way; False when nothing was."""
        if batch.state is BatchState.SPLIT:
            self._let_parts_follow(batch)
        elif batch.resume() or batch.state is BatchState.DONE:
            self.finish(batch)
        else:
            return False
        return True

    def _let_parts_follow(self, batch: ProducerBatch) -> None:
        """Put the parts of a batch behind it, let the futures look there, let it go; each step may be done again."""
        partition = self._partitions[batch.topic_partition]
        with partition.lock:
            # The shares of its parts sum to what it had.
            self.pool.split_reservation(batch, batch.parts, partition.batches)
        batch.move_futures()
        batch.story.is_told = True  # how it ended is told by its parts
        self.finish(batch)

    def append_waiting(self, batch: ProducerBatch, records: Sequence[WaitingRecord]) -> None:
        """Put a sealed batch of records that waited behind those of its partition, with the memory that they have."""
        topic_partition = batch.topic_partition
        partition = self._partitions.get(topic_partition) or self._create_partition(*topic_partition)
        with partition.lock:
            last = partition.open_batch()
            if last is not None:  # of a time when the topic was known; what it takes now would overtake these
                last.seal()
            self.busy[partition] = None
            self._ledger.waited_outside(batch.story, self._clock.now_ms())
            self.waiting.move_reservations(records, batch, partition.batches)

    def on_suspended(self, slept_ms: int) -> None:
        """The machine slept for so long, and its clock with it: it is so much longer ago that batches were sent."""
        for batch in self.batches():
            if batch.first_sent_ms is not None:
                batch.first_sent_ms -= slept_ms

    def sequence_of(self, batch: ProducerBatch) -> PartitionSequence | None:
        """Return the numbers of a batch's partition; None without idempotence."""
        return self._partitions[batch.topic_partition].sequence

    def on_recovered(self) -> None:
        """Believe nothing of what was known of brokers, also where nothing is on its way."""
        for partition in list(self._partitions.values()):
            if partition.sequence is not None:
                partition.sequence.on_recovered()

    def move_deadlines(self, gap_ms: int, now_ms: int) -> None:
        """Let every record have so much longer, in ms, for nobody could send it; what came meanwhile counts from now.

        Also what lingers does so for longer, never beyond linger.ms from now. A caller may have been stopped between
        his look at the clock and the list, with the lock: his batch is waited for.
        """
        for partition in list(self.busy):
            with partition.lock:
                for batch in partition.batches:
                    batch.created_ms = max(batch.created_ms, min(batch.created_ms + gap_ms, now_ms))
        self.waiting.move_deadlines(gap_ms, now_ms)

    def seal(self, batch: ProducerBatch) -> None:
        """Let no record into a batch any more."""
        with self._partitions[batch.topic_partition].lock:
            batch.seal()

    def finish(self, batch: ProducerBatch) -> None:
        """Let a batch go that is decided and not read by any request: out of its list, its memory given back.

        What is not told yet stays: it goes on, or a caller takes this turn, and the sender thread tells it.
        """
        if not batch.result.is_told:
            if batch.is_done and batch.state in WAITING:
                move(batch, BatchState.DONE)  # it is decided: nobody sends it any more
            return
        if batch.state is not BatchState.DONE:
            move(batch, BatchState.DONE)
        partition = self._partitions[batch.topic_partition]
        with partition.lock:
            batches = partition.batches
            if batch in batches:
                if batches[-1] is batch:
                    partition.last_future_count = batch.record_count - batch.row_count - batch.grown_future_count
                self._ledger.on_end(batch.story, batch.topic_partition, batch.encoded, batch.record_count,
                                    batch.attempts, batch.open.size_bytes, batch.result.failure is None)
                self.pool.release(batch, batches)
            if not batches:
                self.busy.pop(partition, None)  # it is looked at no more

    def abort_batches(self, error: KafkaError, *, only_undrained: bool = False, of_transaction: bool = False,
                      explain: Callable[[str, ProducerBatch | None], KafkaError] | None = None) -> int:
        """Fail what is incomplete: batches, and the records that wait for metadata.

        Args:
            error: What their futures get; with outcome unknown where the records may be in the log.
            explain: Gives the error of its own that a batch gets in its place, or records without a batch, by their
                topic.
            only_undrained: Only batches that are not on the wire. Else nothing is there any more: it was discarded.
            of_transaction: As `only_undrained`, and records that wait for metadata, too: their transaction is given up.

        Returns:
            How many records failed.
        """
        aborted = 0
        only_undrained |= of_transaction
        fails_waiting = of_transaction or not only_undrained
        if fails_waiting:
            self.waiting.resume()  # first: a batch tells the futures that look into it
        for batch in self.batches():
            if not (only_undrained and batch.is_in_flight):
                self.resume(batch)
        for partition in list(self.busy):
            for batch in list(partition.batches):
                if only_undrained and batch.is_in_flight:
                    continue
                with partition.lock:
                    batch.seal()
                aborted += batch.record_count
                if of_transaction and partition.sequence is not None:  # else nothing is numbered behind it
                    partition.sequence.on_end(
                        batch, SequenceEvent.UNKNOWN if batch.may_be_in_log else SequenceEvent.FAILED)
                own = error if explain is None else explain(partition.topic_partition.topic, batch)
                if batch.may_be_in_log or batch.state is BatchState.ON_WIRE:
                    own = with_outcome(own, UNKNOWN)
                elif not batch.attempts:  # whatever was refused, the producer's id for one, these records were not
                    own = with_outcome(own, NOT_SENT)
                batch.fail(partial(_same, own))
                self.finish(batch)
        if not fails_waiting:
            return aborted
        return aborted + self.waiting.fail_all(lambda topic: error if explain is None else explain(topic, None))

    @property
    def compresses(self) -> bool:
        """Whether batches are compressed."""
        return self._compressor.codec_id != 0

    def batches(self) -> list[ProducerBatch]:
        """Return every batch that is not done, in order of each partition; a LATE one, too."""
        return [batch for partition in list(self.busy) for batch in list(partition.batches)]

    def only_batch(self) -> ProducerBatch | None:
        """Return the batch that is not done, where there is one alone, and no record that waits for metadata."""
        if len(self.busy) == 1 and not self.waiting.queues:
            for partition in list(self.busy):
                if len(partition.batches) == 1:
                    return partition.batches[0]
        return None

    def is_empty(self) -> bool:
        """Whether there is no record: none that is not done, none that is not told, none that a request reads."""
        return not any(partition.batches for partition in list(self.busy)) and not self.waiting.has_any()

    def waiting_partitions(self) -> list[TopicPartition]:
        """Return the partitions that hold batches which are not done."""
        return [partition.topic_partition for partition in list(self.busy)
                if any(not batch.is_done for batch in list(partition.batches))]

    def has_undrained(self) -> bool:
        """Whether any partition holds a batch that waits to be sent."""
        return any(partition.waiting_count for partition in list(self.busy))

    def queue_sizes(self) -> dict[str, list[tuple[int, int]]]:
        """Return, for each topic, how many batches wait for each partition that was ever used: (partition, batches)."""
        sizes: dict[str, list[tuple[int, int]]] = {}
        for partition in list(self._partitions.values()):
            topic, number = partition.topic_partition
            sizes.setdefault(topic, []).append((number, partition.waiting_count))
        return sizes

    def count_held(self) -> int:
        """Count what the batches in all lists, and the records that wait, reserve of buffer.memory, in bytes."""
        return self.waiting.count_held() + sum(
            batch.reserved_bytes for partition in list(self.busy) for batch in partition.batches)

    def _is_in_list(self, batch: ProducerBatch) -> bool:
        partition = self._partitions.get(batch.topic_partition)
        return partition is not None and any(other is batch for other in list(partition.batches))

    def _end_linger(self, batch: ProducerBatch) -> None:
        if not batch.skips_linger:
            batch.skips_linger = True
            self._on_linger_ended()

    def _create_partition(self, topic: str, partition: int) -> Partition:
        topic_partition = TopicPartition(topic, partition)
        # One step: the first one stays.
        return self._partitions.setdefault(topic_partition, Partition(
            topic_partition, self._life.locks.rlock, sends_one_at_a_time=self._sends_one_at_a_time,
            make_sequence=self._make_sequence))


def _same(error: KafkaError, _index: int) -> KafkaError:
    return error
