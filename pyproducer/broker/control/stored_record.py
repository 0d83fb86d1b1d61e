"""What is in a topic, for tests: read from the segment files, decoded.

Road:    data_dir -> [stored records] -> EmbeddedBroker.records
Thread:  any; reads the files as they are, also those of a broker in another process, which may delete segments or
         put compacted ones in their place meanwhile: then they are read again.
Source:  ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pyproducer.broker.storage.swap import SWAP_SUFFIX
from pyproducer.common.records import Header
from pyproducer.record.batch_reader import read_batches


class StoredRecord(NamedTuple):
    """One record as the log has it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def read_topic_records(data_dir: Path, topic: str,
                       log_start_offsets: Callable[[], Mapping[int, int]]) -> list[StoredRecord]:
    """Return all records of a topic, by partition and offset.

    Markers of transactions are left out; records of open and of aborted transactions are not.

    Args:
        data_dir: Where the broker has its logs.
        topic: Which.
        log_start_offsets: Asks the broker where each partition's log starts: what lies before it is deleted.
    """
    found: list[StoredRecord] = []
    for partition in sorted(log_start_offsets()):
        records: list[StoredRecord] | None = None
        # Asked each time: the broker may have ended meanwhile, which raises, and the topic may be gone.
        while records is None and (start_offset := log_start_offsets().get(partition)) is not None:
            records = _read_partition(data_dir / f"{topic}-{partition}", topic, partition, start_offset)
        found += records or ()
    return found


def _read_partition(directory: Path, topic: str, partition: int, start_offset: int) -> list[StoredRecord] | None:
    """Return the records of a partition; None when its segments changed under the reader."""
    try:
        names = _segments(directory)
        data = [(directory / name).read_bytes() for name in names]
        later = _segments(directory)
    except FileNotFoundError:
        return None
    if not set(names) <= set(later) or any(name.endswith(SWAP_SUFFIX) for name in (*names, *later)):
        return None
    return [StoredRecord(topic, partition, record.offset, record.timestamp, record.key, record.value, record.headers)
            for segment in data
            for batch in read_batches(segment)  # leaves out a batch that is being written just now
            if not batch.is_control
            for record in batch if record.offset >= start_offset]


def _segments(directory: Path) -> list[str]:
    return sorted(name for name in os.listdir(directory) if name.endswith((".log", SWAP_SUFFIX)))
