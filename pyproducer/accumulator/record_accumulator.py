"""The hand-over between the callers and the sender thread: open batches per partition, bounded by buffer.memory.

Road:    send() -> [RecordAccumulator] | Sender
Thread:  append, flush: any caller. ready, drain, reenqueue, expired_batches: the sender thread. Locks, in order:
         the table's, then one partition's, then the pool's or the incomplete set's; never two partitions at once.
Source:  Java RecordAccumulator (4.1).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter

from pyproducer.accumulator.append_result import AppendResult, AppendRowsResult
from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.accumulator.drain import SequenceKeeper, drain_node
from pyproducer.accumulator.incomplete_batches import IncompleteBatches
from pyproducer.accumulator.life import UNOWNED, Life
from pyproducer.accumulator.partition_queue import PartitionQueue
from pyproducer.accumulator.produce_result import OnCompletion
from pyproducer.accumulator.producer_batch import BatchRows, ProducerBatch
from pyproducer.accumulator.ready import ReadyCheckResult, ready
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import Clock
from pyproducer.common.cluster import Cluster, Node, TopicPartition
from pyproducer.common.errors import UNKNOWN, KafkaError
from pyproducer.hotpath import record_size_upper_bound
from pyproducer.record.compression import Compressor

_SURPLUS_BYTES = 75
"""What record_size_upper_bound has above the smallest record: a batch's header of 61 and 14 for longer varints."""


class RecordAccumulator:
    """Batches of records that wait for the sender, by partition."""

    def __init__(self, *, batch_size_bytes: int, linger_ms: int, delivery_timeout_ms: int, pool: BufferPool,
                 compressor: Compressor, retry_backoff: ExponentialBackoff, clock: Clock,
                 life: Life = UNOWNED) -> None:
        self._batch_size_bytes = batch_size_bytes
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._pool = pool
        self._compressor = compressor
        self._retry_backoff = retry_backoff
        self._clock = clock
        self._life = life
        self._table_lock = threading.Lock()  # guards the creation of queues
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._incomplete = IncompleteBatches()
        self.is_closed = False
        # Told when a batch stops to linger, because a caller waits for it.
        self.on_hurried: Callable[[], None] = lambda: None
        self.lingers_for_waiters = True  # a batch that somebody waits for lingers all the same
        self.has_split = False  # a broker found a batch too large; written by the sender thread
        # Sender thread only: no batch that waits here expires before; and per node, where the next drain begins.
        self._next_expiry_ms = 0
        self._drain_start: dict[int, int] = {}

    # The callers' side.

    def append(self, topic: str, partition: int, timestamp: int, key: bytes | None, value: bytes | None,
               headers: Sequence[tuple[str, bytes | None]], on_completion: OnCompletion | None,
               max_block_ms: int) -> AppendResult:
        """Add one serialized record to the open batch of its partition.

        Blocks the caller while buffer.memory is exhausted; never does I/O.

        Args:
            topic: Topic of the destination.
            partition: Partition, already chosen.
            timestamp: Epoch ms.
            key: Serialized key or None.
            value: Serialized value or None.
            headers: Pairs of str and bytes or None.
            on_completion: Called with (metadata, None) or (None, exception) on the sender thread.
            max_block_ms: Longest wait for memory, in ms.

        Raises:
            BufferExhaustedError: No memory within max_block_ms. Not sent.
            ProducerClosedError: The producer is closed. Not sent.
        """
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = self._create_queue(TopicPartition(topic, partition))
        with queue.lock:
            if self.is_closed:
                raise self._life.refusal()
            future = queue.try_append(timestamp, key, value, headers, on_completion)
            if future is not None:
                batch = queue.batches[-1]
                return AppendResult(future, batch, batch.is_full, False)
        return self._append_to_new_batch(queue, timestamp, key, value, headers, on_completion, max_block_ms)

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
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = self._create_queue(TopicPartition(topic, partition))
        with queue.lock:
            result = self._append_rows(queue, rows, start, end)
        if result is not None:
            return result
        size_bytes = max(rows.batch_size_bytes, rows.chunk.size_upper_bound(rows.order[start]))
        # Never more than there is: what fits alone must not wait for ever for what is kept beside it.
        size_bytes = min(size_bytes + queue.bookkeeping_bytes(0), self._pool.total_bytes)
        self._pool.allocate(size_bytes, max_block_ms)
        try:
            now_ms = self._clock.now_ms()
            # Another caller may have opened a batch while this one waited for memory.
            with queue.lock:
                result = self._append_rows(queue, rows, start, end)
                if result is None:
                    batch = self._new_batch(queue, size_bytes, now_ms, rows.batch_size_bytes)
                    count = batch.append_rows(rows, start, end)
                    if start + count < end:
                        batch.close_for_appends()
                    size_bytes = 0
                    self._incomplete.add(batch)
                    queue.add(batch)
                    result = AppendRowsResult(count, batch, batch.is_full, True)
            return result
        finally:
            if size_bytes:
                self._pool.deallocate(size_bytes)

    def hurry_all(self) -> list[ProducerBatch]:
        """Let no batch linger of those that are incomplete now, and return them."""
        batches = self._incomplete.copy()
        for batch in batches:
            batch.is_hurried = True
        return batches

    def close(self) -> None:
        """Refuse records from now on; those accepted are still sent."""
        self.is_closed = True
        self._pool.close()
        # A caller that saw is_closed False holds its partition's lock until its record is in a batch. Taking each lock
        # once makes sure that such a record is visible to whoever drains after close().
        for queue in self._all_queues():
            with queue.lock:
                pass

    # The sender's side.

    def ready(self, cluster: Cluster, now_ms: int) -> ReadyCheckResult:
        """Find the nodes that can be drained; see ready.py."""
        return ready(self._all_queues(), cluster, now_ms, linger_ms=self._linger_ms,
                     is_exhausted=self._pool.queued_count > 0,
                     is_closing=self.is_closed)

    def drain(self, cluster: Cluster, nodes: Iterable[Node], max_size_bytes: int, now_ms: int,
              sequences: SequenceKeeper | None) -> dict[int, list[ProducerBatch]]:
        """Take one request's worth of batches for each node; see drain.py. Batches come closed and with headers."""
        led: dict[int, list[PartitionQueue]] = {node.node_id: [] for node in nodes}
        for queue in self._all_queues():
            if queue.batches:
                leader = cluster.leader_for(queue.topic_partition)
                if leader is not None and leader.node_id in led:
                    led[leader.node_id].append(queue)
        drained: dict[int, list[ProducerBatch]] = {}
        for node_id, queues in led.items():
            if not queues:
                continue
            start = self._drain_start.get(node_id, 0) % len(queues)
            batches, self._drain_start[node_id] = drain_node(
                queues, start, max_size_bytes, now_ms, sequences)
            for batch in batches:
                batch.close(self._compressor)
                batch.write_header()
            if batches:
                drained[node_id] = batches
        return drained

    def reenqueue(self, batch: ProducerBatch, now_ms: int, *, in_sequence: bool) -> None:
        """Put a batch back for another attempt."""
        batch.on_reenqueued(now_ms + self._retry_backoff.backoff_ms(batch.attempts))
        self.put_back(batch, in_sequence=in_sequence)

    def put_back(self, batch: ProducerBatch, *, in_sequence: bool) -> None:
        """Put a batch back to the front of its partition."""
        self._next_expiry_ms = 0
        self._queues[batch.topic_partition].put_back(batch, in_sequence)

    def split_and_reenqueue(self, batch: ProducerBatch, *, in_sequence: bool) -> list[ProducerBatch]:
        """Replace a batch that was too large for the broker by smaller ones, at the front of its partition.

        Returns:
            The new batches in order. They keep the sequence numbers, so the caller tracks them as in flight.
        """
        self.has_split = True
        batches = batch.split(self._batch_size_bytes)
        for new_batch in batches:
            self._incomplete.add(new_batch)
        for new_batch in reversed(batches):
            self.put_back(new_batch, in_sequence=in_sequence)
        self._incomplete.remove(batch)
        self._queues[batch.topic_partition].let_go(batch)
        return batches

    def expired_batches(self, now_ms: int) -> tuple[list[ProducerBatch], int]:
        """Take out the batches whose delivery.timeout.ms passed while they waited here.

        Returns:
            The batches, and how long until the next one expires, in ms.
        """
        expired: list[ProducerBatch] = []
        if now_ms < self._next_expiry_ms:
            return expired, self._next_expiry_ms - now_ms
        next_expiry_ms = now_ms + self._delivery_timeout_ms  # that of a batch opened now
        for queue in self._all_queues():
            while queue.batches:
                with queue.lock:
                    if not queue.batches:
                        break
                    first = queue.batches[0]
                    if not first.has_reached_delivery_timeout(self._delivery_timeout_ms, now_ms):
                        next_expiry_ms = min(next_expiry_ms, first.created_ms + self._delivery_timeout_ms)
                        break
                    queue.batches.popleft()
                    first.close_for_appends()
                expired.append(first)
        self._next_expiry_ms = next_expiry_ms
        return expired, next_expiry_ms - now_ms

    def mute(self, topic_partition: TopicPartition) -> None:
        """Send no further batch of a partition until `unmute`: where order asks for one batch in flight."""
        self._queues[topic_partition].is_muted = True

    def unmute(self, topic_partition: TopicPartition) -> None:
        """Let a partition be drained again."""
        self._queues[topic_partition].is_muted = False

    def unmute_all(self) -> None:
        """Let every partition be drained again: nothing is in flight."""
        for queue in self._all_queues():
            queue.is_muted = False

    def release(self, batch: ProducerBatch) -> None:
        """Forget a batch that is done and not on the wire any more, and give back its memory. Once is enough."""
        self._incomplete.remove(batch)
        self._queues[batch.topic_partition].let_go(batch)
        reserved_bytes, batch.reserved_bytes = batch.reserved_bytes, 0
        if reserved_bytes:
            self._pool.deallocate(reserved_bytes)

    def forget(self, batch: ProducerBatch) -> None:
        """Forget a batch that is done but may still be on the wire; `release` gives its memory back later."""
        self._incomplete.remove(batch)

    def abort_batches(self, error: KafkaError, *, only_undrained: bool = False) -> int:
        """Fail the batches that are incomplete.

        Args:
            error: What their futures get; with outcome unknown where the records may be in the log.
            only_undrained: Leave alone those that are in flight.

        Returns:
            How many records failed.
        """
        aborted = 0
        for batch in self._incomplete.copy():
            if only_undrained and batch.is_in_flight:
                continue
            queue = self._queues[batch.topic_partition]
            with queue.lock:
                batch.close_for_appends()
                is_waiting = batch in queue.batches
                if is_waiting:
                    queue.batches.remove(batch)
            aborted += batch.record_count
            # One that was finished for a request and is not back may be on the wire.
            if batch.may_be_in_log or (batch.payload is not None and not is_waiting):
                batch.fail(partial(_with_unknown_outcome, error))
            else:
                batch.fail(lambda _index: error)
            self.release(batch)
        return aborted

    def holds(self, batch: ProducerBatch) -> bool:
        """Whether a batch waits here to be sent (again)."""
        return batch in self._queues[batch.topic_partition].batches

    def has_undrained(self) -> bool:
        """Whether any partition holds a batch that is not in flight."""
        return any(map(attrgetter("batches"), self._all_queues()))

    def has_incomplete(self) -> bool:
        """Whether any record's outcome is not known yet."""
        return bool(self._incomplete.by_id)

    def incomplete_batch_count(self) -> int:
        """How many batches' outcomes are not known yet."""
        return len(self._incomplete.by_id)

    def take_stock(self) -> tuple[list[ProducerBatch], list[ProducerBatch]]:
        """Return all incomplete batches, oldest first, and those of them that do not wait here to be sent."""
        incomplete = self._incomplete.copy()
        return incomplete, [batch for batch in incomplete if not self.holds(batch)]

    def incomplete_record_count(self) -> int:
        """How many records' outcomes are not known yet."""
        return sum(batch.record_count for batch in self._incomplete.copy())

    def batch_count(self, topic_partition: TopicPartition) -> int:
        """How many batches of a partition wait here."""
        queue = self._queues.get(topic_partition)
        return 0 if queue is None else len(queue.batches)

    def queue_sizes(self) -> dict[str, list[tuple[int, int]]]:
        """Return, for each topic, how many batches wait for each partition that was ever used: (partition, batches)."""
        sizes: dict[str, list[tuple[int, int]]] = {}
        for queue in self._all_queues():
            topic, partition = queue.topic_partition
            sizes.setdefault(topic, []).append((partition, len(queue.batches)))
        return sizes

    def _all_queues(self) -> list[PartitionQueue]:
        return list(self._queues.values())  # a copy: callers add partitions meanwhile

    def _hurry(self, batch: ProducerBatch) -> None:
        if not batch.is_hurried:
            batch.is_hurried = True
            self.on_hurried()

    def _create_queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        with self._table_lock:
            queue = self._queues.get(topic_partition)
            if queue is None:
                queue = self._queues[topic_partition] = PartitionQueue(topic_partition)
            return queue

    def _append_to_new_batch(self, queue: PartitionQueue, timestamp: int, key: bytes | None, value: bytes | None,
                             headers: Sequence[tuple[str, bytes | None]], on_completion: OnCompletion | None,
                             max_block_ms: int) -> AppendResult:
        record_bytes = record_size_upper_bound(key, value, headers)
        size_bytes = max(self._batch_size_bytes, record_bytes)
        # A partition's first batch is taken to become full of records like this one.
        like_this = 1 + self._batch_size_bytes // (record_bytes - _SURPLUS_BYTES)
        size_bytes = min(size_bytes + queue.bookkeeping_bytes(like_this), self._pool.total_bytes)
        self._pool.allocate(size_bytes, max_block_ms)
        try:
            now_ms = self._clock.now_ms()
            with queue.lock:
                if self.is_closed:
                    raise self._life.refusal()
                # Another caller may have opened a batch while this one waited for memory.
                future = queue.try_append(timestamp, key, value, headers, on_completion)
                if future is not None:
                    batch = queue.batches[-1]
                    return AppendResult(future, batch, batch.is_full, False)
                batch = self._new_batch(queue, size_bytes, now_ms, self._batch_size_bytes)
                future = batch.try_append(timestamp, key, value, headers, on_completion)
                assert future is not None, "the first record of a batch always has room"
                size_bytes = 0
                self._incomplete.add(batch)
                queue.add(batch)
                return AppendResult(future, batch, batch.is_full, True)
        finally:
            if size_bytes:
                self._pool.deallocate(size_bytes)

    def _append_rows(self, queue: PartitionQueue, rows: BatchRows, start: int, end: int) -> AppendRowsResult | None:
        """Add rows to the open batch, or return None where no row has room. With the partition's lock held."""
        if self.is_closed:
            raise self._life.refusal()
        if not queue.batches:
            return None
        last = queue.batches[-1]
        count = last.append_rows(rows, start, end)
        if start + count < end:
            last.close_for_appends()
        return AppendRowsResult(count, last, last.is_full, False) if count else None

    def _new_batch(self, queue: PartitionQueue, size_bytes: int, now_ms: int, limit_bytes: int) -> ProducerBatch:
        batch = ProducerBatch(queue.topic_partition, created_ms=now_ms, write_limit_bytes=limit_bytes,
                              reserved_bytes=size_bytes, life=self._life)
        if not self.lingers_for_waiters:
            batch.result.hurry = partial(self._hurry, batch)
        return batch


def _with_unknown_outcome(error: KafkaError, _index: int) -> KafkaError:
    own = copy.copy(error)
    own.__cause__ = error.__cause__
    own.outcome = UNKNOWN
    return own
