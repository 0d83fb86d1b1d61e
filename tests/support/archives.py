"""Unpacks archives of our own, on Pythons that have no filter for them, too: Debian 12's is 3.11.2."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar file into a folder."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, **SAFELY)
