"""Records as serializers leave them, for those who test what comes behind."""

from __future__ import annotations

from pyproducer.accumulator.append_result import AppendResult
from pyproducer.accumulator.produce_result import OnCompletion
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.hotpath import record_size_upper_bound


def record_of(topic: str, partition: int | None, timestamp: int, value: bytes | None, key: bytes | None = None,
              on_completion: OnCompletion | None = None) -> SerializedRecord:
    """Return a record without headers."""
    return SerializedRecord(topic, partition, timestamp, key, key, value, value, (), on_completion,
                            record_size_upper_bound(key, value, ()))


def append(accumulator: RecordAccumulator, topic: str, partition: int, timestamp: int, value: bytes | None,
           key: bytes | None = None, on_completion: OnCompletion | None = None,
           max_block_ms: int = 0) -> AppendResult:
    """Append a record without headers to its partition's batch."""
    return accumulator.append(record_of(topic, partition, timestamp, value, key, on_completion), partition,
                              max_block_ms)
