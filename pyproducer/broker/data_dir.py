"""The directory of a cluster: locked while it is in use, marked when it was left in order.

Road:    EmbeddedBroker -> [data dir] -> logs
Thread:  the one that starts and stops the broker.
Source:  Java LogManager: .lock and .kafka_cleanshutdown (4.1).
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from pyproducer.broker.storage.recovery import CLEAN_SHUTDOWN_FILE
from pyproducer.common.errors import ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows
    fcntl = None  # type: ignore[assignment]  # the lock is then left out

_logger = logging.getLogger(__name__)


class DataDir:
    """Owns a data directory.

    Attributes:
        was_clean: Whether the broker that had it before was stopped in order.

    Raises:
        ConfigError: The directory cannot be made, or another broker has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
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

        self.was_clean = (path / CLEAN_SHUTDOWN_FILE).exists()

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
            os.close(self._lock_fd)
            self._lock_fd = -1
