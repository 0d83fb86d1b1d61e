"""One record on its way from the serializers into a batch, or into the waiting room.

Road:    serializers -> [serialized record] -> RecordAccumulator, WaitingRoom
Thread:  any caller; it is never changed.
Source:  ours; Java passes its parts one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyproducer.accumulator.produce_result import OnCompletion
from pyproducer.common.records import Header
from pyproducer.transaction.transactions import OpenTransaction


class SerializedRecord(NamedTuple):
    """What a batch takes of a record, and what a partitioner may still want to see of it.

    Attributes:
        topic: Its topic.
        partition: Its partition; None while none is chosen.
        timestamp: Epoch ms.
        key: The key as the application gave it, for the partitioner.
        key_bytes: The serialized key.
        value: The value as the application gave it.
        value_bytes: The serialized value.
        headers: Pairs of str and bytes or None.
        on_completion: Called with (metadata, None) or (None, exception) on the sender thread.
        size_bytes: Its `record_size_upper_bound`.
        within: The transaction that it belongs to; None where that is the one that is open when a batch takes it.
    """

    topic: str
    partition: int | None
    timestamp: int
    key: Any
    key_bytes: bytes | None
    value: Any
    value_bytes: bytes | None
    headers: tuple[Header, ...]
    on_completion: OnCompletion | None
    size_bytes: int
    within: OpenTransaction | None = None
