"""What is kept of a cluster beside its logs, and the one way to change it.

Road:    topic life, leaders, producer ids, dynamic configs -> [cluster store] -> cluster file
Thread:  any; a change holds `lock` until memory says what the file says. Reading `content` takes none.
Source:  ours; what Java's controllers write to the metadata log.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyproducer.broker.cluster.cluster_file import (
    FILE_NAME,
    ClusterFile,
    LinesFile,
    TopicEntry,
    line_of,
    new_cluster_id,
)
from pyproducer.common.errors import ConfigError

_logger = logging.getLogger(__name__)


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
        self._path = data_dir / FILE_NAME
        self._file: LinesFile | None = None
        self._is_closed = False
        try:
            if self._path.exists():
                self._file = LinesFile(self._path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError("data_dir", str(data_dir), f"{self._path} cannot be read: {error}") from error
        self.content: ClusterFile = ClusterFile(new_cluster_id()) if self._file is None else self._file.content

    def write_first(self) -> None:
        """Write the file of a new cluster. One that is there stays, whatever happens.

        Raises:
            OSError: It cannot be written.
        """
        if self._file is None:
            self._write_anew(self.content)
        elif self._file.is_long:
            self._try_to_shorten()

    def save(self, **changes: Any) -> None:
        """Add a line with some changes.

        Raises:
            OSError: It cannot be written; nothing has changed.
        """
        self._add(line_of(changes), replace(self.content, **changes))

    def save_topics(self, entries: Mapping[str, TopicEntry | None]) -> None:
        """Add a line with some topics that are new, others, or deleted (None).

        Raises:
            OSError: It cannot be written; nothing has changed.
        """
        topics = {**self.content.topics, **{name: entry for name, entry in entries.items() if entry is not None}}
        for name, entry in entries.items():
            if entry is None:
                topics.pop(name, None)
        self._add(line_of({"topics": entries}), replace(self.content, topics=topics))

    def close(self) -> None:
        """Close the file; harmless when closed. Nothing is saved any more: the directory may be another broker's."""
        self._is_closed = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def _add(self, line: bytes, content: ClusterFile) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self._path))
        if self._file is None:
            self._write_anew(content)
        else:
            self._file.add(line)
        self.content = content
        if self._file is not None and self._file.is_long:
            self._try_to_shorten()

    def _write_anew(self, content: ClusterFile) -> None:
        fresh = LinesFile.write(self._path, content)
        if self._file is not None:
            self._file.close()
        self._file = fresh

    def _try_to_shorten(self) -> None:
        try:
            self._write_anew(self.content)
        except OSError as error:  # it is only long: another time
            _logger.warning("%s could not be shortened: %s", self._path, error)
