"""The error with which a log that lost acknowledged records is not opened.

Road:    recovery, swap, cluster state -> [damage] -> who starts the broker
Thread:  the one that opens the logs.
Source:  ours.
"""

from __future__ import annotations

from pathlib import Path

from pyproducer.common.errors import ConfigError


def damaged(path: Path, why: str) -> ConfigError:
    """Return the error that says which file of a log, in its directory in the data directory, is to blame."""
    return ConfigError(
        "data_dir", str(path.parent.parent),
        f"{path} is damaged: {why}. Records that were acknowledged would be lost, so the broker does not start, and no "
        f"file was changed. Put the file back from a copy, or move {path.parent} elsewhere and take its topic out of "
        "cluster.json.")
