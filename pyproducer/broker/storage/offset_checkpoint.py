"""An offset of each partition in one file for the whole data directory: where logs begin, and where they ended.

    log-start-offset-checkpoint         where logs begin that DeleteRecords has cut inside a segment
    recovery-point-offset-checkpoint    where logs ended when the broker was stopped in order

Road:    DeleteRecords, cluster state -> [offset checkpoint] -> disk; read at start
Thread:  any; one lock guards the table and the file.
Shape:   Kafka's checkpoint file: "0", the number of entries, then "<topic> <partition> <offset>" on each line.
Source:  Java OffsetCheckpointFile, LogManager.checkpointLogStartOffsets, checkpointLogRecoveryOffsets (4.1).
         Differs from Java: starts are written at once, not every minute, so that deleted records never come back; ends
         only when the broker stops, for nothing is ever flushed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError

START_OFFSETS_FILE = "log-start-offset-checkpoint"
END_OFFSETS_FILE = "recovery-point-offset-checkpoint"


class OffsetCheckpoint:
    """One such file.

    Raises:
        ConfigError: The file exists and cannot be read.
    """

    def __init__(self, data_dir: Path, file_name: str) -> None:
        self._path = data_dir / file_name
        self._lock = threading.Lock()  # guards _offsets and the file
        self._offsets = self._read()

    def get(self, topic_partition: TopicPartition) -> int | None:
        """Return the offset that was written last, or None."""
        return self._offsets.get(topic_partition)

    def put(self, topic_partition: TopicPartition, offset: int) -> None:
        """Write the offset of one partition."""
        with self._lock:
            self._write({**self._offsets, topic_partition: offset})

    def replace(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the offsets of all partitions."""
        with self._lock:
            self._write(dict(offsets))

    def forget(self, topic: str) -> None:
        """Forget a topic that is deleted: one of the same name begins at 0."""
        with self._lock:
            kept = {key: offset for key, offset in self._offsets.items() if key.topic != topic}
            if len(kept) != len(self._offsets):
                self._write(kept)

    def _read(self) -> dict[TopicPartition, int]:
        try:
            lines = self._path.read_text("ascii").splitlines()
        except FileNotFoundError:
            return {}
        offsets = {}
        try:
            if lines[0] != "0" or int(lines[1]) != len(lines) - 2:
                raise ValueError("its first lines are not a version and the number of the others")
            for line in lines[2:]:
                topic, partition, offset = line.split(" ")
                offsets[TopicPartition(topic, int(partition))] = int(offset)
        except (ValueError, IndexError) as error:
            raise ConfigError("data_dir", str(self._path.parent), f"{self._path} cannot be read: {error}") from error
        return offsets

    def _write(self, offsets: dict[TopicPartition, int]) -> None:
        lines = ["0", str(len(offsets)),
                 *(f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))]
        temporary = self._path.with_name(self._path.name + ".tmp")
        temporary.write_text("\n".join(lines) + "\n", "ascii")
        os.replace(temporary, self._path)
        self._offsets = offsets  # last: what could not be written is not known either
