"""A waiting room for senders that tests put together by hand."""

from __future__ import annotations

from typing import Any

from pyproducer.accumulator.life import UNOWNED, Life
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.producer.partitioners import DefaultPartitioner
from pyproducer.producer.waiting_room import Choose, WaitingRoom


def choose_by_default(partitioner: DefaultPartitioner) -> Choose:
    """What Partitioning.choose does with a partitioner that keeps to the rules."""
    return lambda topic, key, key_bytes, value, value_bytes, cluster, _count: partitioner.partition(
        topic, key, key_bytes, value, value_bytes, cluster)


def make_room(metadata: Any, accumulator: RecordAccumulator, *, clock: Clock | None = None, life: Life = UNOWNED,
              choose: Choose | None = None, **settings: Any) -> WaitingRoom:
    """Make one over an accumulator; nobody moves its records on unless the test does."""
    defaults: dict[str, Any] = {"batch_size_bytes": 16_384, "delivery_timeout_ms": 120_000, "max_block_ms": 60_000,
                                "on_append": None, "wakeup_sender": lambda: None}
    return WaitingRoom(metadata=metadata, accumulator=accumulator, clock=clock or SystemClock(), life=life,
                       choose_partition=choose or choose_by_default(DefaultPartitioner()), **{**defaults, **settings})
