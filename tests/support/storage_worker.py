"""A process that appends to logs, on a disk that fails, until it is told to stop or dies in the middle of a write.

    python -m tests.support.storage_worker <data dir> <seed> <how the disk fails> <how it ends>

Each line of its output is one thing that it was told is done:
    A <partition> <offset> <number>    a record, whose value is `value_of(number)`, has this offset
    S <partition> <offset>             the log begins here from now on, or soon

Shape:   the disk: "well"; "short" takes each write in pieces; "failing" takes a part of some writes, of batches and of
         small files, and then says ENOSPC or EIO, and sometimes cannot cut either.
         The end: "stop" in order; "torn" dies with half a batch written; "killed" goes on until it is killed.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.storage.log import AppendResult
from pyproducer.common.clock import SystemClock
from pyproducer.record.batch_writer import build_batch

TOPIC = "orders"
PARTITIONS = 2
SETTINGS = {"log.segment.bytes": 20_000, "log.index.interval.bytes": 500}
APPENDS = 150
TIMESTAMP_MS = 1_700_000_000_000


def value_of(number: int) -> bytes:
    """Return the value of a record: none is like another, and some are larger than what is left of a segment."""
    seeded = random.Random(number)
    return b"%d:" % number + seeded.randbytes(seeded.choice([5, 50, 500, 500, 5000]))


class Disk:
    """Stands in front of the system's calls."""

    def __init__(self, kind: str, seeded: random.Random) -> None:
        self._kind = kind
        self._random = seeded
        self.dies_at = -1  # the number of the write in which the process dies
        self._writes = 0
        self._writev, self._ftruncate = os.writev, os.ftruncate
        self._write_bytes, self._write_text = Path.write_bytes, Path.write_text
        os.writev = self._on_writev  # type: ignore[assignment]  # stands in front of it
        os.ftruncate = self._on_ftruncate  # type: ignore[assignment]  # stands in front of it
        Path.write_bytes = lambda path, data: self._on_file(path, bytes(data))  # type: ignore[method-assign,misc]
        Path.write_text = lambda path, text, *_: self._on_file(path, text.encode())  # type: ignore[method-assign,misc]

    def _on_writev(self, fd: int, chunks: Sequence[bytes]) -> int:
        data = b"".join(chunks)
        self._writes += 1
        if self._writes == self.dies_at:
            os.write(fd, data[:self._random.randrange(len(data))])
            os.kill(os.getpid(), signal.SIGKILL)
        if self._kind == "short":
            return os.write(fd, data[:self._random.randrange(1, len(data) + 1)])
        if self._fails(0.1):
            os.write(fd, data[:self._random.randrange(len(data))])
            self._fail()
        return self._writev(fd, chunks)

    def _on_ftruncate(self, fd: int, size_bytes: int) -> None:
        if self._fails(0.4):
            self._fail()
        self._ftruncate(fd, size_bytes)

    def _on_file(self, path: Path, data: bytes) -> int:
        if self._fails(0.1):
            self._write_bytes(path, data[:self._random.randrange(len(data) + 1)])
            self._fail()
        return self._write_bytes(path, data)

    def _fails(self, share: float) -> bool:
        return self._kind == "failing" and self._random.random() < share

    def _fail(self) -> None:
        code = self._random.choice([errno.ENOSPC, errno.EIO])
        raise OSError(code, os.strerror(code))


def say(*words: object) -> None:
    """Write one line at once: the process may be dead before the next one."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def append(partition: Partition, number: int) -> None:
    """Append a batch of one to three records."""
    count = 1 + number % 3
    records = build_batch([(TIMESTAMP_MS + number, None, value_of(number * 10 + index), ()) for index in range(count)])
    result = partition.append(records, produce_version=9, timestamp_ms=TIMESTAMP_MS + number)
    assert isinstance(result, AppendResult), result
    for index in range(count):
        say("A", partition.topic_partition.partition, result.base_offset + index, number * 10 + index)


def make_room(state: ClusterState, partition: Partition) -> None:
    """Delete the older half of a log, as DeleteRecords does."""
    log = partition.log
    start = (log.log_start_offset + log.log_end_offset) // 2
    say("S", partition.topic_partition.partition, start)  # before: it may be done half-way
    log.increment_log_start_offset(start)
    state.topic_life.checkpoint_start(partition, start)


def main(data_dir: str, seed: str, disk_kind: str, end: str) -> None:
    """Do as the module says."""
    seeded = random.Random(int(seed))
    state = ClusterState(Path(data_dir), BrokerConfig(SETTINGS), SystemClock())
    if state.topics.find(TOPIC) is None:
        state.topic_life.create_topic(TOPIC, PARTITIONS, {})
    disk = Disk(disk_kind, seeded)
    if end == "torn":
        disk.dies_at = seeded.randrange(1, APPENDS // 2)
    number = int(seed) * 100_000
    while end == "killed" or number < int(seed) * 100_000 + APPENDS:
        number += 1
        partition = state.topics[TOPIC].partitions[seeded.randrange(PARTITIONS)]
        try:
            append(partition, number)
        except OSError as error:
            if error.errno == errno.ENOSPC and seeded.random() < 0.3:
                try:
                    make_room(state, partition)
                except OSError:
                    continue
    state.close()
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
