"""What a consumer has read, and as whom: what a transaction commits beside its records.

Road:    consumer -> [these] -> send_offsets_to_transaction() -> TxnOffsetCommit
Thread:  values.
Source:  Java ConsumerGroupMetadata, OffsetAndMetadata (4.1).
"""

from __future__ import annotations

from typing import NamedTuple

NO_GENERATION = -1
NO_LEADER_EPOCH = -1


class ConsumerGroupMetadata(NamedTuple):
    """Who consumes; with generation and member a coordinator refuses the offsets of a member that was replaced.

    Attributes:
        group_id: group.id.
        generation_id: Of the group, since its last rebalance; -1 for a consumer that assigns partitions by itself.
        member_id: Given by the group's coordinator; "" for a consumer that assigns partitions by itself.
        group_instance_id: group.instance.id of a static member, or None.
    """

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndMetadata(NamedTuple):
    """Up to where a partition was consumed.

    Attributes:
        offset: Of the next record to read; 0 or more.
        metadata: What the application wants to find beside it, 4,096 bytes by default at most.
        leader_epoch: Of the leader that the last record was read from; -1 where it is not known.
    """

    offset: int
    metadata: str | None = ""
    leader_epoch: int = NO_LEADER_EPOCH
