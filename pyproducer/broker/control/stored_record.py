"""What is in a topic, for tests: read from the segment files, decoded.

Road:    data_dir -> [stored records] -> EmbeddedBroker.records
Thread:  any; reads the files as they are, also those of a broker in another process.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pyproducer.common.records import Header
from pyproducer.record.batch_reader import Record, read_batches


class StoredRecord(NamedTuple):
    """One record as the log has it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def read_topic_records(data_dir: Path, topic: str, partition_count: int) -> list[StoredRecord]:
    """Return all records of a topic, by partition and offset.

    Markers of transactions are left out; records of open and of aborted transactions are not.
    """
    return [record for partition in range(partition_count)
            for record in _read_partition(data_dir / f"{topic}-{partition}", topic, partition)]


def _read_partition(directory: Path, topic: str, partition: int) -> Iterator[StoredRecord]:
    for path in sorted(directory.glob("*.log")):
        record: Record
        for batch in read_batches(path.read_bytes()):  # leaves out a batch that is being written just now
            if batch.is_control:
                continue
            for record in batch:
                yield StoredRecord(topic, partition, record.offset, record.timestamp, record.key, record.value,
                                   record.headers)
