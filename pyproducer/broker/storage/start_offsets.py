"""Where the logs begin that DeleteRecords has cut inside a segment, in one file for the whole data directory.

Road:    DeleteRecords -> [start offsets] -> log-start-offset-checkpoint; read at start
Thread:  any; one lock guards the table and the file.
Shape:   Kafka's checkpoint file: "0", the number of entries, then "<topic> <partition> <offset>" on each line.
Source:  Java OffsetCheckpointFile, LogManager.checkpointLogStartOffsets (4.1).
         Differs from Java: written at once, not every minute, so that deleted records never come back.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError

FILE_NAME = "log-start-offset-checkpoint"


class StartOffsets:
    """The starts that segments do not tell.

    Raises:
        ConfigError: The file exists and cannot be read.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE_NAME
        self._lock = threading.Lock()  # guards _offsets and the file
        self._offsets = self._read()

    def get(self, topic_partition: TopicPartition) -> int:
        """Return the start that was written last, or 0."""
        return self._offsets.get(topic_partition, 0)

    def put(self, topic_partition: TopicPartition, offset: int) -> None:
        """Write where a log begins from now on."""
        with self._lock:
            self._offsets[topic_partition] = offset
            self._write()

    def forget(self, topic: str) -> None:
        """Forget a topic that is deleted: one of the same name begins at 0."""
        with self._lock:
            kept = {key: offset for key, offset in self._offsets.items() if key.topic != topic}
            if len(kept) != len(self._offsets):
                self._offsets = kept
                self._write()

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

    def _write(self) -> None:
        lines = ["0", str(len(self._offsets)),
                 *(f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(self._offsets.items()))]
        temporary = self._path.with_name(FILE_NAME + ".tmp")
        temporary.write_text("\n".join(lines) + "\n", "ascii")
        os.replace(temporary, self._path)
