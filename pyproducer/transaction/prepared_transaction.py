"""A transaction that is neither committed nor aborted: what another process needs to know to end it.

Road:    prepare_transaction() -> [this] -> a database, a driver -> TransactionCompleter
Thread:  values.
Source:  ours; Java PreparedTxnState (KIP-939) has the producer id and the epoch alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyproducer.common.cluster import TopicPartition
from pyproducer.common.public import public


@public
class PreparedTransaction(NamedTuple):
    """A transaction all of whose records are stored, and which nobody can see before it is committed.

    It can be pickled, and be JSON. The coordinator aborts it after transaction.timeout.ms, and when anybody initialises
    its transactional id.

    Attributes:
        transactional_id: Whose it is.
        producer_id: With the epoch, which of that id's transactions it is.
        epoch: See there.
        partitions: Where its records are, in order.
        has_offsets: Whether it commits offsets of consumers, too.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...] = ()
    has_offsets: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to end: no coordinator knows of it."""
        return not self.partitions and not self.has_offsets

    def to_json(self) -> str:
        """Return it as JSON, an object on one line."""
        import json  # here: few need it

        return json.dumps({"transactional_id": self.transactional_id, "producer_id": self.producer_id,
                           "epoch": self.epoch, "partitions": [list(place) for place in self.partitions],
                           "has_offsets": self.has_offsets})

    @classmethod
    def from_json(cls, text: str) -> PreparedTransaction:
        """Return what `to_json` made JSON of.

        Raises:
            ValueError: It is no such JSON.
        """
        import json

        try:
            fields: Any = json.loads(text)
            return cls(str(fields["transactional_id"]), int(fields["producer_id"]), int(fields["epoch"]),
                       tuple(TopicPartition(str(topic), int(partition)) for topic, partition in fields["partitions"]),
                       bool(fields["has_offsets"]))
        except (KeyError, OverflowError, TypeError, ValueError) as cause:
            raise ValueError(f"this is no prepared transaction: {repr(text)[:200]}") from cause
