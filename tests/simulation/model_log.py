"""One partition of the model: who leads it, its log, and what it remembers of each producer.

Whoever leads has the whole log and knows every producer, as after a clean election; but a replica may have forgotten
some, as one whose snapshot of producers was lost, and remembers from then on what it gets from the leader.

Thread:  pure; whoever steps the model.
Source:  Kafka's answers to repeated, missing and old batches as measured on 4.1; KIP-98, KIP-360, KIP-679.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tests.simulation.model_batch import (
    CODEC_MASK,
    MAX_SEQUENCE,
    NO_PRODUCER_ID,
    ProducedBatch,
    bug,
    records_as_written,
)

BATCHES_REMEMBERED = 5  # of each producer; why a client may have at most five requests in flight
NO_LEADER = -1

NONE = 0
MESSAGE_TOO_LARGE = 10
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47
UNKNOWN_PRODUCER_ID = 59


class StoredBatch:
    """A batch in a log.

    Attributes:
        base_offset: Offset of its first record.
        values, keys, headers, timestamps: The records' values, in order of their offsets, and what else they have.
        producer_id, producer_epoch, base_sequence: -1 each without idempotence.
        node_id: Who led the partition and stored it.
        now_ms: When.
        codec: The number of its codec, 0 for none.
        data: The bytes as they were sent: base offset 0, whatever the log gave.
        is_transactional: Whether it belongs to a transaction.
    """

    __slots__ = ("base_offset", "base_sequence", "codec", "crc", "data", "headers", "is_transactional", "keys",
                 "max_timestamp", "node_id", "now_ms", "producer_epoch", "producer_id", "timestamps", "values")

    def __init__(self, batch: ProducedBatch, base_offset: int, node_id: int, now_ms: int) -> None:
        self.base_offset = base_offset
        self.values = batch.values
        self.keys = batch.keys
        self.headers = batch.headers
        self.timestamps = batch.timestamps
        self.producer_id = batch.producer_id
        self.producer_epoch = batch.producer_epoch
        self.base_sequence = batch.base_sequence
        self.max_timestamp = batch.max_timestamp
        self.node_id = node_id
        self.now_ms = now_ms
        self.codec = batch.attributes & CODEC_MASK
        self.data = batch.data
        self.is_transactional = batch.is_transactional
        self.crc = batch.crc

    @property
    def last_sequence(self) -> int:
        """The number of the last record, or -1."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + len(self.values) - 1) & MAX_SEQUENCE

    @property
    def next_offset(self) -> int:
        """The offset behind the last record."""
        return self.base_offset + len(self.values)

    def __repr__(self) -> str:
        return (f"StoredBatch({self.base_offset}..{self.next_offset - 1}, producer {self.producer_id}/"
                f"{self.producer_epoch}, sequence {self.base_sequence}, node {self.node_id}, at {self.now_ms} ms)")


class Marker(NamedTuple):
    """The end of a transaction in a log, where it takes one offset."""

    offset: int
    producer_id: int
    is_commit: bool


class Appended(NamedTuple):
    """What became of a batch.

    Attributes:
        error_code: 0 when the log has it, now or since an earlier attempt.
        base_offset: Where the log has it, else -1.
        is_duplicate: It was there before.
        duplicate_timestamp: Its max timestamp, as stored, if it was there before, else -1.
        log_start_offset: Told with a refusal that is about numbers, else -1.
    """

    error_code: int
    base_offset: int = -1
    is_duplicate: bool = False
    duplicate_timestamp: int = -1
    log_start_offset: int = -1


class ProducerState:
    """What a partition remembers of one producer id.

    Attributes:
        epoch: The newest epoch that wrote.
        batches: The last five batches of this epoch.
        record_count: Records of this epoch, all of them: they have the numbers before the next one.
        stored_ms: When its last batch was stored.
    """

    __slots__ = ("batches", "epoch", "record_count", "stored_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[StoredBatch] = deque(maxlen=BATCHES_REMEMBERED)
        self.record_count = 0
        self.stored_ms = 0

    def add(self, stored: StoredBatch) -> None:
        """Remember a batch, whatever its number: a replica takes what the leader took."""
        if self.epoch != stored.producer_epoch:
            self.epoch = stored.producer_epoch
            self.batches.clear()
            self.record_count = 0
        self.batches.append(stored)
        self.record_count += len(stored.values)
        self.stored_ms = stored.now_ms

    def copy(self) -> ProducerState:
        """Return what another replica remembers."""
        other = ProducerState(self.epoch)
        other.batches.extend(self.batches)
        other.record_count = self.record_count
        other.stored_ms = self.stored_ms
        return other

    @property
    def last_timestamp(self) -> int:
        """By which a broker sees how old it is: the last batch's, as it was stored; -1 without a batch."""
        return self.batches[-1].max_timestamp if self.batches else -1


class Idempotence(NamedTuple):
    """How brokers of some release answer; the defaults are those of Kafka 4.1.

    Attributes:
        refuses_unknown_producer: A producer that is not known here must begin with 0, else 59 (brokers below 2.4);
            newer ones take any number, because the records may have been deleted.
        knows_old_duplicates: A batch that was stored before the last five is 46; newer brokers say 45.
    """

    refuses_unknown_producer: bool = False
    knows_old_duplicates: bool = False


KAFKA_4_1 = Idempotence()
KAFKA_BEFORE_2_4 = Idempotence(refuses_unknown_producer=True, knows_old_duplicates=True)


class Witness:
    """Sees what becomes of each batch that reaches a partition."""

    def on_batch(self, partition: ModelPartition, batch: ProducedBatch, stored: StoredBatch | None,
                 code: int | None) -> None:
        """See one.

        Args:
            partition: Where it came to.
            batch: As it was sent.
            stored: As it is in the log, if it was not there before.
            code: What is answered; None for nothing.
        """


    def on_blamed(self, batch: ProducedBatch, code: int, record_errors: Sequence[Mapping[str, Any]]) -> None:
        """See that a batch is refused because of some of its records, and what is said of each."""

    def on_stranger(self, batch: ProducedBatch, code: int) -> None:
        """See that a batch came for a topic or partition that there is not, and what is answered."""


class ModelPartition:
    """A partition: its leader, its log, its producers.

    Attributes:
        producers: What the replicas remember, but those that have a memory of their own.
        start_offset: Where the log begins; `batches` has what was deleted before it, too.
        expired_count: How often a producer was forgotten because it had been silent for too long.
        markers: The ends of transactions, in order.
    """

    __slots__ = ("_apart", "batches", "end_offset", "expired_count", "index", "leader_epoch", "leader_id", "markers",
                 "producers", "start_offset", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: UUID, index: int, leader_id: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_id = leader_id
        self.leader_epoch = 0
        self.batches: list[StoredBatch] = []
        self.end_offset = 0
        self.start_offset = 0
        self.expired_count = 0
        self.markers: list[Marker] = []
        self.producers: dict[int, ProducerState] = {}
        self._apart: dict[int, dict[int, ProducerState]] = {}  # by node

    def known_to(self, node_id: int) -> dict[int, ProducerState]:
        """Return what one replica remembers, by producer id."""
        return self._apart.get(node_id, self.producers)

    def forget(self, producer_id: int, node_id: int | None = None) -> bool:
        """Let all replicas forget a producer, or one of them alone; return whether it was known there."""
        if node_id is not None and node_id not in self._apart:
            self._apart[node_id] = {known_id: state.copy() for known_id, state in self.producers.items()}
        memories = [self.producers, *self._apart.values()] if node_id is None else [self._apart[node_id]]
        return sum(memory.pop(producer_id, None) is not None for memory in memories) > 0

    def append(self, batch: ProducedBatch, *, node_id: int, now_ms: int, max_message_bytes: int,
               idempotence: Idempotence, blames_reuse: bool = True, has_log_time: bool = False,
               producer_expiration_ms: int | None = None) -> Appended:
        """Store a batch, find it stored already, or refuse it; a batch that is refused changes nothing.

        Args:
            batch: The batch.
            node_id: Who leads.
            now_ms: When.
            max_message_bytes: The largest batch.
            idempotence: How repeated and missing batches are answered.
            blames_reuse: Whether numbers that were given to other records are a bug; else they are answered as Kafka
                answers them, which is that the records are stored.
            has_log_time: Whether the batch gets the time of the append in place of its own.
            producer_expiration_ms: A producer of which nothing was stored for longer is not known any more; None: all
                are known for ever.

        Raises:
            ClientBug: Numbers that stand for stored records were given to others.
        """
        if len(batch.data) > max_message_bytes:
            return Appended(MESSAGE_TOO_LARGE)
        producer_id = batch.producer_id
        state: ProducerState | None = None
        if producer_id != NO_PRODUCER_ID:
            state = self.known_to(node_id).get(producer_id)
            if (state is not None and producer_expiration_ms is not None
                    and now_ms - state.stored_ms > producer_expiration_ms):
                self.forget(producer_id)
                self.expired_count += 1
                state = None
            if state is not None:
                known = self._find(state, batch, blames_reuse=blames_reuse)
                if known is not None:
                    return Appended(NONE, known.base_offset, True, known.max_timestamp)
            error_code = self._check(state, batch, idempotence)
            if error_code:
                return Appended(error_code, log_start_offset=self.start_offset)
        stored = StoredBatch(batch, self.end_offset, node_id, now_ms)
        if has_log_time:
            stored.max_timestamp = now_ms
        self.batches.append(stored)
        self.end_offset += batch.count
        if producer_id != NO_PRODUCER_ID:
            for memory in (self.producers, *self._apart.values()):
                state = memory.get(producer_id)
                if state is None:
                    state = memory[producer_id] = ProducerState(batch.producer_epoch)
                state.add(stored)
        return Appended(NONE, stored.base_offset)

    def fence(self, producer_id: int, epoch: int) -> None:
        """Let a producer id have a newer epoch here, of which nothing is stored: older ones are 47, the next number 0.

        Raises:
            ValueError: The epoch is not newer than the one that is known.
        """
        state = self.producers.get(producer_id)
        if state is not None and epoch <= state.epoch:
            raise ValueError(f"producer {producer_id} has epoch {state.epoch}, which {epoch} does not fence")
        for memory in (self.producers, *self._apart.values()):
            fenced = memory[producer_id] = ProducerState(epoch)
            if state is not None:
                fenced.stored_ms = state.stored_ms

    def end_transaction(self, producer_id: int, epoch: int, *, is_commit: bool) -> None:
        """Write the marker of a transaction's end; older epochs of the producer are 47 from now on."""
        self.markers.append(Marker(self.end_offset, producer_id, is_commit))
        self.end_offset += 1
        for memory in (self.producers, *self._apart.values()):
            state = memory.get(producer_id)
            if state is None or epoch > state.epoch:
                memory[producer_id] = ProducerState(epoch)

    def is_committed(self, stored: StoredBatch) -> bool | None:
        """Whether a batch of a transaction is committed; False where it is aborted, None where neither is known."""
        return next((marker.is_commit for marker in self.markers
                     if marker.producer_id == stored.producer_id and marker.offset > stored.base_offset), None)

    def restart(self) -> None:
        """Let every replica restart: of each producer the last batch alone is remembered, the snapshots have no more.

        What was stored before it and is sent again is 45, although the log has it.
        """
        for memory in (self.producers, *self._apart.values()):
            for state in memory.values():
                state.batches = deque(list(state.batches)[-1:], BATCHES_REMEMBERED)

    def _find(self, state: ProducerState, batch: ProducedBatch, *, blames_reuse: bool) -> StoredBatch | None:
        """Return the batch that this one repeats, if it is among those remembered.

        Raises:
            ClientBug: It has that batch's numbers and other records.
        """
        if state.epoch != batch.producer_epoch:
            return None
        for stored in state.batches:
            if stored.base_sequence == batch.base_sequence and len(stored.values) == batch.count:
                if blames_reuse and stored.crc != batch.crc and (
                        records_as_written(stored.data) != records_as_written(batch.data)):
                    bug(f"{self.topic}-{self.index}: {stored!r} was sent again with other records: the broker would "
                        "call them stored, and they are not")
                return stored
        return None

    @staticmethod
    def _check(state: ProducerState | None, batch: ProducedBatch, idempotence: Idempotence) -> int:
        sequence = batch.base_sequence
        if state is None:
            return UNKNOWN_PRODUCER_ID if idempotence.refuses_unknown_producer and sequence != 0 else NONE
        if batch.producer_epoch < state.epoch:
            return INVALID_PRODUCER_EPOCH
        if batch.producer_epoch > state.epoch or not state.batches:
            return NONE if sequence == 0 else OUT_OF_ORDER_SEQUENCE_NUMBER
        if sequence == (state.batches[-1].last_sequence + 1) & MAX_SEQUENCE:
            return NONE
        if idempotence.knows_old_duplicates:
            # How far the batch begins before the oldest one that is remembered, on the ring of numbers; all of these
            # numbers must have been stored in this epoch.
            before = (state.batches[0].base_sequence - sequence) & MAX_SEQUENCE
            forgotten = state.record_count - sum(len(stored.values) for stored in state.batches)
            if batch.count <= before <= forgotten:
                return DUPLICATE_SEQUENCE_NUMBER
        return OUT_OF_ORDER_SEQUENCE_NUMBER
