"""The directory of a cluster: locked while it is in use, marked when it was left in order; the logs' directories in it.

    <topic>-<partition>                    a log
    <topic>-<partition>.<32 hex>-delete    of a topic that was deleted, and nobody's; removed, at the next start at last
    <topic>-<partition>.<32 hex>-stray     a log of no topic that the broker knows; kept, and not looked at

Road:    EmbeddedBroker -> [data dir] -> logs
Thread:  the one that starts and stops the broker; a topic's directories under the lock of topics' life.
Source:  Java LogManager: .lock and .kafka_cleanshutdown; LocalLog.logDeleteDirName, logStrayDirName (4.1).
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from pyproducer.broker.cluster.cluster_file import FILE_NAME
from pyproducer.broker.storage.recovery import CLEAN_SHUTDOWN_FILE
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows
    fcntl = None  # type: ignore[assignment]  # the lock is then left out

_logger = logging.getLogger(__name__)
_FILE_OF_KAFKA = "meta.properties"
_DELETE_SUFFIX = "-delete"
_STRAY_SUFFIX = "-stray"
_DAMAGED_SUFFIX = "-damaged"
_DELETED_NAME = re.compile(r"-\d+\.[0-9a-f]{32}-delete$")
_MOST_CHARACTERS = 255  # of a file's name


class DataDir:
    """Owns a data directory.

    Attributes:
        was_clean: Whether the broker that had it before was stopped in order.

    Raises:
        ConfigError: The directory cannot be made, another broker has it, or Apache Kafka made it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if (path / _FILE_OF_KAFKA).exists() and not (path / FILE_NAME).exists():
            # A server.properties names it: new topics would set aside the logs that it has under their names.
            raise ConfigError("data_dir", str(path), f"it is Apache Kafka's own: it has a {_FILE_OF_KAFKA}; name "
                                                     "another directory")
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock_fd = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        except OSError as error:
            raise ConfigError("data_dir", str(path), f"cannot be used: {error}") from error
        if fcntl is not None:
            try:
                fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._lock_fd)
                raise ConfigError("data_dir", str(path), "another broker uses this directory") from None

        self.was_clean: bool = (path / CLEAN_SHUTDOWN_FILE).exists()

    def log_directory(self, topic_partition: TopicPartition) -> Path:
        """Return where the log of a partition lies."""
        return self.path / str(topic_partition)

    def deleted_directory(self, topic_partition: TopicPartition) -> Path:
        """Return a name that nobody has, for the log of a topic that is being deleted."""
        return self._unique(topic_partition, _DELETE_SUFFIX)

    def make_room(self, topic_partition: TopicPartition) -> None:
        """Give the directory of a partition that is about to be made its name: whatever has it goes out of the way.

        A broker leaves files there when it dies between making the logs and entering the topic, or while it deletes
        one. Records are kept all the same: somebody may have put them there.
        """
        directory = self.log_directory(topic_partition)
        if not directory.exists():
            return
        if any(path.stat().st_size for path in directory.glob("*.log")):
            stray = self._unique(topic_partition, _STRAY_SUFFIX)
            directory.rename(stray)
            _logger.warning("%s has records of no topic that the broker knows: it is kept as %s", directory, stray.name)
        else:
            shutil.rmtree(directory)

    def set_damaged_aside(self, topic_partition: TopicPartition) -> Path:
        """Give the directory of a damaged log another name, and return that; a directory that is gone has none.

        Raises:
            OSError: It cannot be renamed.
        """
        aside = self._unique(topic_partition, _DAMAGED_SUFFIX)
        with suppress(FileNotFoundError):
            self.log_directory(topic_partition).rename(aside)
        return aside

    def damaged_directories(self, topic_partition: TopicPartition) -> list[Path]:
        """Return what was set aside of a partition; where names are very long that of others, too."""
        prefix = self._unique(topic_partition, _DAMAGED_SUFFIX).name.rpartition(".")[0]
        return [path for path in self.path.iterdir()
                if path.name.startswith(f"{prefix}.") and path.name.endswith(_DAMAGED_SUFFIX)]

    def remove_deleted(self) -> None:
        """Remove what is left of topics that were deleted when the broker died."""
        for path in self.path.iterdir():
            if _DELETED_NAME.search(path.name):
                shutil.rmtree(path, ignore_errors=True)

    def _unique(self, topic_partition: TopicPartition, suffix: str) -> Path:
        suffix = f"-{topic_partition.partition}.{uuid.uuid4().hex}{suffix}"
        return self.path / (topic_partition.topic[:_MOST_CHARACTERS - len(suffix)] + suffix)

    def opened(self) -> None:
        """All logs are open: from now on, without `close`, the next start must look for a torn tail."""
        (self.path / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)

    def close(self, *, clean: bool) -> None:
        """Give the directory back; `clean` when every log was closed."""
        if self._lock_fd < 0:
            return
        try:
            if clean:
                (self.path / CLEAN_SHUTDOWN_FILE).write_text('{"version":0}', "utf-8")
        except OSError as error:
            _logger.warning("%s could not be marked as left in order: %s", self.path, error)
        finally:
            if fcntl is not None:
                # A close alone leaves the lock to the children that the program around the broker has forked.
                fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
            os.close(self._lock_fd)
            self._lock_fd = -1
