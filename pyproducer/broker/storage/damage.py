"""The error with which a log that lost acknowledged records is not opened.

Road:    recovery, swap, topic life -> [damage] -> who starts the broker, or salvage
Thread:  the one that opens the logs.
Source:  ours.
"""

from __future__ import annotations

from pathlib import Path

from pyproducer.common.errors import ConfigError


class DamagedLogError(ConfigError):
    """A log was not opened; all of its files are as they were.

    Args:
        path: The file that is to blame, in the log's directory in the data directory.
        what: What is wrong with it.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.what: str = f"{path} is damaged: {what}"
        super().__init__("data_dir", str(path.parent.parent), f"{self.what}. Records that were acknowledged "
                         "would be lost, so the broker does not start, and no file was changed. Put the file back from "
                         "a copy, or start with --salvage (salvage.damaged.logs): this log is then set aside under "
                         "another name, and its partition goes on empty where it ended.")
