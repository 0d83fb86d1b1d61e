"""The records in the waiting room: charged and in order, but not in a batch, for their partition is not known yet.

Road:    send() -> [waiting records] -> batches
Thread:  `lock` guards who enters, and which queues there are; taken before the pool's, which guards what is held here.
         Only the sender thread takes a record out, so it reads the queues without.
Source:  ours; Java's send() waits for metadata itself. producer/waiting_room.py says when records come and go.

A record is in its queue from the moment it is charged until it is in a batch, or failed and told. As with batches,
nothing else holds it, so flush(), expiry, memory and recovery all walk the same queues. Where an exception ended the
sender's turn while it took a record on, recovery finds it where it was, and does the rest (`resume`):

    waiting   reserved_bytes > 0, outcome not set
    moved     its batch is in the partition's list, and has its charge: reserved_bytes is 0; the future goes over next
    failed    outcome set; its callback is told next, then its waiters, then its memory comes back
"""

from __future__ import annotations

from _thread import RLock
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Union

from pyproducer.accumulator.buffer_pool import BufferPool, Place
from pyproducer.accumulator.failure import Failure
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.partition import BATCH_BYTES, FUTURE_BYTES
from pyproducer.accumulator.produce_result import ProduceRequestResult, fail_future, move_future
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import UNKNOWN_PARTITION, TopicPartition
from pyproducer.common.errors import NOT_SENT, KafkaError, with_outcome
from pyproducer.common.waiting import Waiters, release_in_child
from pyproducer.hotpath import HEADER_SIZE_BYTES, FutureRecordMetadata
from pyproducer.record.layout import NO_TIMESTAMP

CHARGE_BYTES = BATCH_BYTES + FUTURE_BYTES
"""What a record is charged for besides its bytes: as if it were alone in its batch, which it may come to be. That is
more than what is kept beside it while it waits: its outcome, and the objects that are its parts (measured)."""

Key = Union[str, "tuple[str, int]"]
"""What a queue waits for: a topic, or one partition of it."""


class WaitingRecord:
    """One record that waits.

    Attributes:
        serialized: The record.
        partition: Its partition; None until it is chosen.
        size_bytes: What it takes of a batch that it shares.
        sent_ms: When it came. Who lets it in writes this and the next one, with the room's lock held.
        deadline_ms: When it is given up.
        reserved_bytes: What it holds of buffer.memory; 0 once its batch has that.
        outcome: Its own, until it is in a batch.
        future: Its future.
        batch: The batch that it is, or is about to be, in.
        index: Its number there.
    """

    __slots__ = ("batch", "deadline_ms", "future", "index", "outcome", "partition", "reserved_bytes", "sent_ms",
                 "serialized", "size_bytes")

    def __init__(self, record: SerializedRecord, life: Life) -> None:
        key, value = record.key_bytes, record.value_bytes
        self.serialized: SerializedRecord = record
        self.partition: int | None = record.partition
        self.size_bytes: int = record.size_bytes - HEADER_SIZE_BYTES
        self.sent_ms: int = 0
        self.deadline_ms: int = NEVER_MS
        self.reserved_bytes: int = record.size_bytes + CHARGE_BYTES
        self.outcome: ProduceRequestResult = ProduceRequestResult(TopicPartition(
            record.topic, UNKNOWN_PARTITION if record.partition is None else record.partition), life)
        self.future: FutureRecordMetadata = FutureRecordMetadata(
            self.outcome, 0, record.timestamp, -1 if key is None else len(key), -1 if value is None else len(value),
            record.on_completion)
        self.batch: ProducerBatch | None = None
        self.index: int = 0

    @property
    def is_moved(self) -> bool:
        """Whether its batch is in its partition's list."""
        return not self.reserved_bytes


class WaitingQueue:
    """The records that wait for one topic, or one partition of it, in order.

    Attributes:
        topic: The topic.
        partition: The partition, None for the topic as a whole.
        records: First come, first served.
        opened_ms: When it was made, or all that waited was failed.
        metadata_version: Metadata has news for it above this one; -1 before it was asked.
        witnesses: Nodes that were asked and do not know its partition.
        fatal_seen: Errors of all metadata up to this one are not for those who wait here.
        first_deadline_ms: No record ends before this; written with the room's lock held.
        is_leaving: Whether what it waits for is known, and there were more records than one turn moves.
    """

    __slots__ = ("fatal_seen", "first_deadline_ms", "is_leaving", "metadata_version", "opened_ms", "partition",
                 "records", "topic", "witnesses")

    def __init__(self, topic: str, partition: int | None, now_ms: int) -> None:
        self.topic: str = topic
        self.partition: int | None = partition
        self.records: deque[WaitingRecord] = deque()
        self.opened_ms: int = now_ms
        self.metadata_version: int = -1
        self.witnesses: set[int] = set()
        self.fatal_seen: int = 0
        self.first_deadline_ms: int = NEVER_MS
        self.is_leaving: bool = False

    @property
    def key(self) -> Key:
        """Where it is among the queues."""
        return self.topic if self.partition is None else (self.topic, self.partition)

    def expect(self, record: WaitingRecord) -> bool:
        """Note when a record ends, before it comes; return whether that is earlier than was known.

        With the room's lock held. One that does not come after all does no harm: the sender looks too early, once.
        """
        is_first = record.deadline_ms < self.first_deadline_ms
        if is_first:
            self.first_deadline_ms = record.deadline_ms
        return is_first

    def find_first_deadline(self) -> None:
        """Look which record that is here ends first; of very many ones that takes a while.

        With the room's lock held, so that nobody comes meanwhile.
        """
        self.first_deadline_ms = min((record.deadline_ms for record in self.records), default=NEVER_MS)


class WaitingRecords:
    """All queues of a producer.

    Args:
        pool: The producer's memory.
        limit_bytes: So much of it is for them, or one record that is larger.
        life: The producer's.
        is_in_list: Whether a batch is in its partition's list.

    Attributes:
        door: Rung when records have left or metadata came, and at the end: who found the limit reached waits here.
        waited_ms: How long callers have waited there in all.
    """

    def __init__(self, pool: BufferPool, limit_bytes: int, life: Life,
                 is_in_list: Callable[[ProducerBatch], bool]) -> None:
        self._pool = pool
        self.limit_bytes = limit_bytes
        self._life = life
        self._is_in_list = is_in_list
        self.lock: RLock = life.locks.rlock()  # reentrant only so that a fork finds out whose it is
        self.queues: dict[Key, WaitingQueue] = {}
        self.door: Waiters = Waiters(life.locks.cell)
        self.waited_ms: int = 0
        # Both guarded by the pool's lock, for what changes them is a step of the pool's, too.
        self._held_bytes = 0
        self._is_dirty = False  # such a step is in the middle, or was left there

    def has_any(self) -> bool:
        """Whether a record is here."""
        return bool(self.queues) and any(queue.records for queue in list(self.queues.values()))

    def incomplete(self) -> list[WaitingRecord]:
        """Return the records that are in no batch, and whose outcome is not decided."""
        return [] if not self.queues else [
            record for record in self._all() if not record.is_moved and not record.outcome.is_set]

    def outcomes(self) -> list[ProduceRequestResult]:
        """Return the outcomes of all records that are here; those that move on have successors."""
        return [record.outcome for record in self._all()] if self.queues else []

    def count_held(self) -> int:
        """Count what they have reserved of buffer.memory, in bytes."""
        return sum(record.reserved_bytes for record in self._all()) if self.queues else 0

    def held_bytes(self) -> int:
        """Return what they have reserved of buffer.memory, in bytes; counted only after a step that ended half way."""
        with self._pool.lock:
            if self._is_dirty:
                self._held_bytes = self.count_held()
                self._is_dirty = False
            return self._held_bytes

    def has_room(self, size_bytes: int) -> bool:
        """Whether a record is within the limit, as one that is alone here always is.

        With the room's lock held, under which it is charged then: meanwhile nobody else comes.
        """
        held_bytes = self.held_bytes()
        return not held_bytes or held_bytes + size_bytes <= self.limit_bytes

    def charge(self, record: WaitingRecord, queue: WaitingQueue, place: Place | None = None) -> bool:
        """Put a record into a queue and take the memory that it reserves, see BufferPool.charge."""
        with self._pool.lock:
            self._begin()
            is_charged = self._pool.charge(record, queue.records, place)
            self._end(record.reserved_bytes if is_charged else 0)
            return is_charged

    def add_wait(self, waited_ms: int) -> None:
        """Count how long a caller has waited at the door."""
        with self.lock:
            self.waited_ms += waited_ms

    def describe(self) -> str:
        """Say how much is held and who waits, for errors."""
        return (f"{self.held_bytes()} of {self.limit_bytes} bytes, the part of buffer.memory for records whose topic "
                f"or partition is not known yet, are used, and {len(self.door)} callers wait")

    def close(self) -> None:
        """Wake who waits to come in; when it returns, whoever was let in is in a queue."""
        self.door.ring()
        with self.lock:
            pass

    def on_forked(self) -> None:
        """In a child process: release what another thread held. The records are the parent's: no callback runs here."""
        release_in_child(self.lock)
        for record in self._all():
            record.future._on_completion = None
            record.future._done_callbacks = None
            record.outcome.on_forked()

    # The sender's side.

    def resume(self) -> None:
        """Do the rest for records that were moved or failed when an exception ended that half way; ring the door."""
        queues = list(self.queues.values())
        of_partitions = {record for queue in queues if queue.partition is not None for record in list(queue.records)}
        for queue in queues:
            if queue.partition is None:
                for record in of_partitions.intersection(list(queue.records)):  # one, in the middle of `move_to`
                    self._pool.rearrange(partial(queue.records.remove, record))
            records = list(queue.records)
            moved = [record for record in records if record.batch is not None and self._is_in_list(record.batch)]
            if moved:  # the list is what counts: of their charges some may be theirs still
                self._pool.rearrange(partial(_take_charges, moved))
            for record in records:
                if record.is_moved:
                    self.let_go(queue, record)
                elif record.outcome.is_set:
                    self._tell(queue, record)
        with self._pool.lock:
            self._is_dirty = True
        self.door.ring()

    def move_deadlines(self, gap_ms: int, now_ms: int) -> None:
        """Let every record have so much longer, in ms; what came meanwhile counts from now."""
        for queue in list(self.queues.values()):
            with self.lock:
                for record in queue.records:
                    moved_ms = max(0, min(gap_ms, now_ms - record.sent_ms))
                    record.sent_ms += moved_ms
                    record.deadline_ms += moved_ms
                queue.opened_ms = max(queue.opened_ms, min(queue.opened_ms + gap_ms, now_ms))
                queue.find_first_deadline()

    def move_reservations(self, records: Sequence[WaitingRecord], batch: ProducerBatch,
                          batches: list[ProducerBatch]) -> None:
        """Put a batch of records into its partition's list; it takes over what they have reserved."""
        with self._pool.lock:
            self._begin()
            self._pool.move_reservations(records, batch, batches)
            self._end(-batch.reserved_bytes)

    def let_go(self, queue: WaitingQueue, record: WaitingRecord) -> None:
        """Let a record's future look into its batch, which is in its partition's list, and forget the record.

        Each step may be done again.
        """
        batch = record.batch
        assert batch is not None, "who is moved has a batch"
        if record.future._result is record.outcome:
            move_future(record.future, batch.result, record.index)
        record.outcome.split((batch.result,))
        self._pool.take_out(record, queue.records)

    def fail(self, queue: WaitingQueue, record: WaitingRecord, error: KafkaError) -> None:
        """Fail a record: its callback is told, then those who wait; then its memory comes back.

        It never left, whatever metadata or a partitioner was refused.
        """
        own = with_outcome(error, NOT_SENT)
        record.outcome.set(-1, NO_TIMESTAMP, lambda _index: own,
                           Failure(*record.outcome.topic_partition, 1, own, watched=1))
        self._tell(queue, record)

    def _tell(self, queue: WaitingQueue, record: WaitingRecord) -> None:
        error_for = record.outcome.error_for
        failure = record.outcome.failure
        assert error_for is not None, "nobody is stored here"
        assert failure is not None, "written with the error"
        self._life.tally.failed(failure, record.outcome)
        fail_future(record.future, error_for(0))
        record.outcome.notify()
        with self._pool.lock:
            self._begin()
            more_bytes = -record.reserved_bytes
            self._pool.release(record, queue.records)
            self._end(more_bytes)
        if self._life.is_forked:  # by a callback: in the child the sender thread goes no further, see IoThread
            raise SystemExit

    def move_to(self, queue: WaitingQueue, record: WaitingRecord, partition: int) -> None:
        """Let a record wait for its partition, now that its topic is known."""
        with self.lock:
            partition_queue = self.queues.get((queue.topic, partition))
            if partition_queue is None:
                partition_queue = self.queues[queue.topic, partition] = WaitingQueue(
                    queue.topic, partition, queue.opened_ms)
            partition_queue.expect(record)
        self._pool.rearrange(partial(_move, record, queue.records, partition_queue.records))

    def remove_if_empty(self, queue: WaitingQueue) -> bool:
        """Have later records go past, if nobody waits here; one step against whoever enters."""
        with self.lock:
            if queue.records:
                return False
            if self.queues.get(queue.key) is queue:
                del self.queues[queue.key]
            return True

    def fail_all(self, error_for: Callable[[str], KafkaError]) -> int:
        """Fail all records that wait, each with the error that `error_for` gives for its topic; return how many."""
        failed = 0
        for queue in list(self.queues.values()):
            error = error_for(queue.topic)
            while queue.records:
                self.fail(queue, queue.records[0], error)
                failed += 1
            self.remove_if_empty(queue)
        self.door.ring()
        return failed

    def _begin(self) -> None:
        """Begin a step that changes what is reserved; an exception before its end has that counted."""
        self.held_bytes()  # counts what was left: this step ends clean
        self._is_dirty = True

    def _end(self, more_bytes: int) -> None:
        self._held_bytes += more_bytes
        self._is_dirty = False

    def _all(self) -> list[WaitingRecord]:
        return [record for queue in list(self.queues.values()) for record in list(queue.records)]


def _move(record: WaitingRecord, records: deque[WaitingRecord], to: deque[WaitingRecord]) -> None:
    to.append(record)
    records.remove(record)


def _take_charges(records: Sequence[WaitingRecord]) -> None:
    for record in records:
        record.reserved_bytes = 0
