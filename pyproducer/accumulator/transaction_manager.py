"""Producer id and epoch: whose the sequence numbers are that make retries neither duplicate nor reorder records.

The numbers themselves are each partition's (partition_sequence.py, with the table of their states); the
transactions of a producer that has a transactional id are transaction/transactions.py's.

Road:    beside it: drain asks whether there is an id, the sender's turn begins epochs
Thread:  sender thread only; no sockets, no clock.
Source:  Java TransactionManager (4.1); KIP-98, KIP-360 (epoch bump instead of death).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyproducer.common.errors import KafkaError
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.record.layout import MAX_EPOCH, NO_PRODUCER, NO_PRODUCER_ID, ProducerIdAndEpoch
from pyproducer.transaction.transactions import Transactions

if TYPE_CHECKING:
    from pyproducer.accumulator.partition_sequence import PartitionSequence

log: SenderLog = sender_log(__name__)

SILENCE_LIMIT_MS = 300_000
"""For so long a broker is taken to know a producer that it has heard of: far below producer.id.expiration.ms (a day),
and far above what lies between two batches of a partition that is busy."""

ID_EXPIRATION_MS = 86_400_000
"""producer.id.expiration.ms of brokers, which is not told to clients: Kafka's default. A broker counts it from the
newest timestamp in a producer's last batch, so records with old timestamps are forgotten while they are written."""


class TransactionManager:
    """The idempotent producer's state; one for each producer with enable.idempotence.

    Args:
        silence_limit_ms: See the attribute.
        id_expiration_ms: producer.id.expiration.ms of the brokers.
        transactions: See the attribute.

    Attributes:
        transactions: The transactional half; None without a transactional id.
        producer_id_and_epoch: Of what is numbered from now on.
        fatal_error: Why nothing is sent any more.
        refusal: Why the broker gives no id for now; the sender fails with it what waits, and forgets it.
        disturbed: The partitions in which nothing new is numbered. They enter by themselves.
        silence_limit_ms: How long a broker knows us without hearing of us.
        memory_ms: How long a broker surely knows a batch again that it has stored, if it stores nothing else of us.
    """

    def __init__(self, silence_limit_ms: int | None = None, id_expiration_ms: int | None = None,
                 transactions: Transactions | None = None) -> None:
        self.transactions: Transactions | None = transactions
        self.producer_id_and_epoch: ProducerIdAndEpoch = NO_PRODUCER
        self.fatal_error: KafkaError | None = None
        self.refusal: KafkaError | None = None
        self.disturbed: dict[PartitionSequence, None] = {}
        self.silence_limit_ms: int = SILENCE_LIMIT_MS if silence_limit_ms is None else silence_limit_ms
        expiration_ms = ID_EXPIRATION_MS if id_expiration_ms is None else id_expiration_ms
        self.memory_ms: int = expiration_ms - self.silence_limit_ms

    # The producer id.

    @property
    def has_producer_id(self) -> bool:
        """Whether there is an id to send with."""
        return self.producer_id_and_epoch.is_valid and self.fatal_error is None

    @property
    def is_undisturbed(self) -> bool:
        """Whether there is an id, no batch's fate that others wait for, and no transaction that may want something."""
        return self.has_producer_id and not self.disturbed and self.transactions is None

    @property
    def needs_producer_id(self) -> bool:
        """Whether InitProducerId must be sent before any batch."""
        return self.producer_id_and_epoch.producer_id <= NO_PRODUCER_ID and self.fatal_error is None

    def on_producer_id(self, producer_id: int, epoch: int) -> None:
        """Take the id that the broker gave."""
        self.producer_id_and_epoch = ProducerIdAndEpoch(producer_id, epoch)
        log.info("Producer id set to %d with epoch %d", producer_id, epoch)

    def on_fatal_error(self, error: KafkaError) -> None:
        """Stop: the broker refuses to give this producer an id. Batches are failed by the sender."""
        self.fatal_error = error

    def forget_producer_id(self) -> None:
        """Have no id: another transactional id asks for its own."""
        self.producer_id_and_epoch = NO_PRODUCER

    def known_for_ms(self, newest_timestamp_age_ms: int) -> int:
        """Return how long from now on a broker knows us that has just stored a batch; 0 where it may forget us now.

        Args:
            newest_timestamp_age_ms: How old the newest timestamp in that batch is; negative when it is to come.
        """
        return max(0, min(self.silence_limit_ms, self.memory_ms - newest_timestamp_age_ms))

    # Transactions.

    @property
    def is_sure_of_first(self) -> bool:
        """Whether a broker takes no other number than 0 as the first one of an epoch, whatever it knows (KIP-890)."""
        return self.transactions is not None and self.transactions.is_v2

    def on_disturbed(self, sequence: PartitionSequence) -> None:
        """Nothing new is numbered in a partition: of a transaction that is the end, for no epoch begins within one."""
        self.disturbed[sequence] = None
        if self.transactions is not None:
            self.transactions.on_disturbed(f"the sequence numbers of a partition do not go on: {sequence!r}")

    # Epochs.

    def settle(self) -> None:
        """Look at what waits for the fate of batches, before anything is drained, and begin epochs that are due.

        The epoch is raised by the client itself, as Java does for a producer that has no transactional id: a broker
        accepts a higher epoch of a known id when its first sequence number is 0. After the last epoch, a new id. One
        epoch serves all partitions that are due, and those that meet a newer one than theirs need no other. With a
        transactional id its coordinator alone gives epochs, and they begin when one came.

        Source: Java TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded (4.1).
        """
        due: list[PartitionSequence] = []
        for sequence in list(self.disturbed):
            if sequence.is_disturbed:
                sequence.settle()
            if sequence.is_bump_due:
                due.append(sequence)
            elif not sequence.is_disturbed:
                del self.disturbed[sequence]
        if self.transactions is not None:
            due = [sequence for sequence in due if sequence.owner != self.producer_id_and_epoch]
        if not due or not self.has_producer_id:
            return
        producer_id, epoch = self.producer_id_and_epoch
        if any(sequence.owner == self.producer_id_and_epoch for sequence in due):
            if epoch >= MAX_EPOCH:
                self.producer_id_and_epoch = NO_PRODUCER  # what is due begins when the new id has come
                return
            self.producer_id_and_epoch = ProducerIdAndEpoch(producer_id, epoch + 1)
            log.info("Producer id %d goes on with epoch %d", producer_id, epoch + 1)
        for sequence in due:
            sequence.begin(self.producer_id_and_epoch)
            self.disturbed.pop(sequence, None)
