"""One partition of the model: who leads it, its log, and what it remembers of each producer.

Replicas do not appear: whoever leads has the whole log and knows every producer, as after a clean election.

Thread:  pure; whoever steps the model.
Source:  Kafka's answers to repeated, missing and old batches as measured on 4.1; KIP-98, KIP-360, KIP-679.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple
from uuid import UUID

from tests.simulation.model_batch import (
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
        data: The bytes as they were sent: base offset 0, whatever the log gave.
    """

    __slots__ = ("base_offset", "base_sequence", "crc", "data", "headers", "keys", "max_timestamp", "node_id", "now_ms",
                 "producer_epoch", "producer_id", "timestamps", "values")

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
        self.data = batch.data
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


class Appended(NamedTuple):
    """What became of a batch.

    Attributes:
        error_code: 0 when the log has it, now or since an earlier attempt.
        base_offset: Where the log has it, else -1.
        is_duplicate: It was there before.
        duplicate_timestamp: Its max timestamp if it was there before, else -1.
    """

    error_code: int
    base_offset: int = -1
    is_duplicate: bool = False
    duplicate_timestamp: int = -1


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


    def on_stranger(self) -> None:
        """See that a batch came for a topic or partition that there is not."""


class ModelPartition:
    """A partition: its leader, its log, its producers.

    Attributes:
        log_start_offset: What is before it was deleted by retention; the model's readers see it all the same.
        expired_count: How often a producer was forgotten because it had been silent for too long.
    """

    __slots__ = ("batches", "end_offset", "expired_count", "index", "leader_epoch", "leader_id", "log_start_offset",
                 "producers", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: UUID, index: int, leader_id: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_id = leader_id
        self.leader_epoch = 0
        self.batches: list[StoredBatch] = []
        self.end_offset = 0
        self.log_start_offset = 0
        self.expired_count = 0
        self.producers: dict[int, ProducerState] = {}

    def append(self, batch: ProducedBatch, *, node_id: int, now_ms: int, max_message_bytes: int,
               idempotence: Idempotence, producer_expiration_ms: int | None = None) -> Appended:
        """Store a batch, find it stored already, or refuse it; a batch that is refused changes nothing.

        Args:
            batch: The batch.
            node_id: Who leads.
            now_ms: The time.
            max_message_bytes: Of the topic.
            idempotence: How numbers are judged.
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
            state = self.producers.get(producer_id)
            if (state is not None and producer_expiration_ms is not None
                    and now_ms - state.stored_ms > producer_expiration_ms):
                del self.producers[producer_id]
                self.expired_count += 1
                state = None
            if state is not None:
                known = self._find(state, batch)
                if known is not None:
                    return Appended(NONE, known.base_offset, True, known.max_timestamp)
            error_code = self._check(state, batch, idempotence)
            if error_code:
                return Appended(error_code)
            if state is None:
                state = self.producers[producer_id] = ProducerState(batch.producer_epoch)
            elif state.epoch != batch.producer_epoch:
                state.epoch = batch.producer_epoch
                state.batches.clear()
                state.record_count = 0
        stored = StoredBatch(batch, self.end_offset, node_id, now_ms)
        self.batches.append(stored)
        self.end_offset += batch.count
        if state is not None:
            state.batches.append(stored)
            state.record_count += batch.count
            state.stored_ms = now_ms
        return Appended(NONE, stored.base_offset)

    def fence(self, producer_id: int, epoch: int) -> None:
        """Let a producer id have a newer epoch here, of which nothing is stored: older ones are 47, the next number 0.

        Raises:
            ValueError: The epoch is not newer than the one that is known.
        """
        state = self.producers.get(producer_id)
        if state is not None and epoch <= state.epoch:
            raise ValueError(f"producer {producer_id} has epoch {state.epoch}, which {epoch} does not fence")
        fenced = self.producers[producer_id] = ProducerState(epoch)
        if state is not None:
            fenced.stored_ms = state.stored_ms

    def _find(self, state: ProducerState, batch: ProducedBatch) -> StoredBatch | None:
        """Return the batch that this one repeats, if it is among those remembered.

        Raises:
            ClientBug: It has that batch's numbers and other records.
        """
        if state.epoch != batch.producer_epoch:
            return None
        for stored in state.batches:
            if stored.base_sequence == batch.base_sequence and len(stored.values) == batch.count:
                if stored.crc != batch.crc and records_as_written(stored.data) != records_as_written(batch.data):
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
