"""What is kept of a cluster beside its logs, and the one way to change it.

Road:    topic life, leaders, producer ids, dynamic configs -> [cluster store] -> cluster file
Thread:  any; a change holds `lock` until memory says what the file says. Reading `content` takes none.
Source:  ours; what Java's controllers write to the metadata log.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyproducer.broker.cluster.cluster_file import (
    FILE_NAME,
    ClusterFile,
    TopicEntry,
    read_cluster_file,
    write_cluster_file,
)


class ClusterStore:
    """Owns the cluster file of a data directory.

    Attributes:
        lock: Held by whoever calls `save`, until what it made true in memory is there too.
        content: What the file says. Replaced, never changed.

    Raises:
        ConfigError: The file exists and cannot be read.
    """

    def __init__(self, data_dir: Path) -> None:
        self.lock: threading.Lock = threading.Lock()  # guards the file, content, and what is in memory of both
        self._data_dir = data_dir
        self.content: ClusterFile = read_cluster_file(data_dir)

    def write_first(self) -> None:
        """Write the file of a new cluster. One that is there stays: a full disk must not keep a broker from starting.

        Raises:
            OSError: It cannot be written.
        """
        if not (self._data_dir / FILE_NAME).exists():
            write_cluster_file(self._data_dir, self.content)

    def save(self, **changes: Any) -> None:
        """Write the file with some of its fields changed.

        Raises:
            OSError: It cannot be written; nothing has changed.
        """
        changed = replace(self.content, **changes)
        write_cluster_file(self._data_dir, changed)
        self.content = changed

    def save_topics(self, entries: Mapping[str, TopicEntry]) -> None:
        """Write the file with some topics added or replaced.

        Raises:
            OSError: It cannot be written; nothing has changed.
        """
        self.save(topics={**self.content.topics, **entries})
