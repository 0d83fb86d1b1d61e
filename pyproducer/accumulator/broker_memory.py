"""What the leader of one partition remembers of this producer, as far as a client can tell.

For each producer id that writes to a partition a broker keeps its epoch and its newest five batches, until
producer.id.expiration.ms after the newest timestamp of the last one. It keeps nothing in a topic that was made anew,
and perhaps nothing where another leader was elected. Who is forgotten may begin with any number. So three things hang
on it: whether a batch may go beside others, what a refusal of its numbers proves, and whether a batch that may be in
the log is sent again.

Road:    beside it: partition_sequence.py and sender/completion.py ask
Thread:  sender thread only.
Source:  Kafka's ProducerStateManager and ProducerStateEntry (4.1), measured: docs/decisions/producer_ids.md. A Java
         producer keeps no account of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from pyproducer.common.cluster import Cluster
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.layout import NO_SEQUENCE, increment_sequence, is_earlier

if TYPE_CHECKING:
    from pyproducer.accumulator.producer_batch import ProducerBatch
    from pyproducer.accumulator.transaction_manager import TransactionManager

NO_OFFSET = -1
# So many answers in a row must tell of another topic of that name before a batch in doubt is given up for it: a broker
# that lags behind is contradicted meanwhile. client/metadata_response.py believes older leader epochs after as many.
_MOST_LAGGING = 5
_NO_OTHER = (-1, 0)


class BrokerMemory:
    """What was stored last in a partition, and how long it is remembered.

    Args:
        batches: The partition's list, which is read here and never written.
        manager: Knows how long brokers keep producer ids.

    Attributes:
        last_acked_sequence: The highest number of this epoch that was stored; -1 before.
        until_ms: Until when the leader remembers us for certain, in monotonic ms.
    """

    __slots__ = ("_another_topic", "_batches", "_end_offset", "_leader_epoch", "_manager", "_topic_id",
                 "last_acked_sequence", "until_ms")

    def __init__(self, batches: list[ProducerBatch], manager: TransactionManager) -> None:
        self._batches = batches
        self._manager = manager
        self.last_acked_sequence: int = NO_SEQUENCE
        self.until_ms: int = 0
        # What the batch that was stored last was sent to, and where it ends.
        self._topic_id: UUID | None = None
        self._leader_epoch: int = -1
        self._end_offset: int = NO_OFFSET
        # The last answer by which the batch in doubt that is next would go to another topic than it was sent to, and
        # how many in a row said so. Snapshots that other news made have it from the same answer.
        self._another_topic: tuple[int, int] = _NO_OTHER

    # What is heard.

    def on_stored(self, batch: ProducerBatch, now_ms: int, newest_timestamp_age_ms: int, base_offset: int) -> None:
        """A batch is in the log; see PartitionSequence.on_stored."""
        last = increment_sequence(batch.base_sequence, batch.record_count - 1)
        if self.last_acked_sequence == NO_SEQUENCE or is_earlier(self.last_acked_sequence, last):
            self.last_acked_sequence = last
            self._topic_id, self._leader_epoch = batch.topic_id, batch.leader_epoch
            self._end_offset = base_offset + batch.record_count if base_offset >= 0 else NO_OFFSET
            self.until_ms = now_ms + self._manager.known_for_ms(newest_timestamp_age_ms)

    def on_end(self) -> None:
        """A batch ended: what is next is asked about anew."""
        self._another_topic = _NO_OTHER

    def end_at(self, now_ms: int) -> None:
        """From then on the leader may have forgotten us."""
        self.until_ms = min(self.until_ms, now_ms)

    # What follows.

    def is_certain(self, batch: ProducerBatch, now_ms: int) -> bool:
        """Whether the leader that a batch goes to knows us now.

        Not after silence, nor another leader, nor in another topic of that name. Brokers before 2.8 tell no topic ids,
        and those before 2.1 no leader epochs: there silence alone is seen.
        """
        return (now_ms < self.until_ms and batch.leader_epoch == self._leader_epoch
                and (batch.topic_id is self._topic_id or batch.topic_id == self._topic_id))

    def is_known_to(self, batch: ProducerBatch) -> bool:
        """Whether the broker certainly knew us when a batch was sent first: what stands before that was stored lately.

        The batch has numbers, and was not stored by what was heard so far.
        """
        return (self.last_acked_sequence != NO_SEQUENCE and is_earlier(self.last_acked_sequence, batch.base_sequence)
                and batch.topic_id == self._topic_id
                and batch.first_sent_ms is not None and batch.first_sent_ms < self.until_ms)

    def doubt_left(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> str | None:
        """Say why a refusal proves nothing of a batch, by what its broker may have forgotten; None where it does.

        See PartitionSequence.doubt_left, which looks at the batches beside it.
        """
        me = f"producer id {batch.producer_id}"
        if code is ErrorCode.INVALID_PRODUCER_EPOCH:
            return f"the broker knows a later epoch of {me} than {batch.producer_epoch}, and looks at no numbers then"
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            # Of brokers before 2.5. With the batch it would know us, unless all that we have there was deleted.
            is_proof = self.is_known_to(batch) and NO_OFFSET < log_start_offset <= self._end_offset
            return None if is_proof else f"the broker has forgotten {me}"
        if batch in batch.parts_in_doubt:
            return "the larger batch that these records were split from may be in the log"
        if self.is_known_to(batch):
            return None
        if self.last_acked_sequence != NO_SEQUENCE and is_earlier(batch.base_sequence, self.last_acked_sequence):
            return f"the broker had forgotten {me}, for it has stored later numbers"
        return f"the broker may have forgotten {me}, of which it had not stored anything lately"

    def may_go_again(self, batch: ProducerBatch, now_ms: int, cluster: Cluster) -> bool | None:
        """Whether a batch that waits and may be in the log may be sent again; None where only other answers can tell.

        One answer may be that of a broker that lags behind, and what may be in the log is given up for none of these.
        """
        topic_id = cluster.table(batch.topic_partition.topic).topic_id
        if self.why_not_again(batch, now_ms, topic_id) is None:
            self._another_topic = _NO_OTHER
            return True
        last, count = self._another_topic
        if cluster.answer_count != last:
            count += 1
            self._another_topic = cluster.answer_count, count
        return False if count >= _MOST_LAGGING or self._is_forgotten(batch, now_ms) else None

    def why_not_again(self, batch: ProducerBatch, now_ms: int, topic_id: UUID | None) -> str | None:
        """Say why a batch that waits and may be in the log is not sent again; None where it may be.

        By its numbers no broker would know it again, and it would be stored a second time, or before others. A topic
        that was made anew is seen where brokers tell topic ids.

        Args:
            batch: The batch; it says which topic it was sent to last.
            now_ms: Monotonic time, in ms.
            topic_id: The topic that it would be sent to now; None where that is not known.
        """
        if self._is_forgotten(batch, now_ms):
            return ("it may be in the log, and was sent first so long ago that brokers may have forgotten producer id "
                    f"{batch.producer_id} by now, and would store it a second time")
        if topic_id is not None and batch.topic_id is not None and topic_id != batch.topic_id:
            # A topic that was made anew knows no numbers, and takes any as the first.
            for other in self._batches:
                if other is batch:
                    break
                if other.base_sequence == NO_SEQUENCE and not other.is_done:
                    return ("it may be in the log of the topic of that name that was deleted, and in the new one it "
                            "would overtake records before it, which wait for another epoch")
        return None

    def _is_forgotten(self, batch: ProducerBatch, now_ms: int) -> bool:
        return batch.first_sent_ms is not None and now_ms - batch.first_sent_ms >= self._manager.memory_ms
