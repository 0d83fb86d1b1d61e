"""A log that was set aside: the one in its place begins behind every offset that anybody may have been told."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyproducer.broker.storage.salvage import end_offset_told
from tests.unit.broker.storage.test_recovery import stored, write

RUBBISH = bytes(range(100))
DAMAGED = stored(40)[:-1] + b"?"


@pytest.mark.parametrize(("segments", "end"), [
    ({}, 0),
    ({0: b""}, 0),
    ({40: b""}, 40),
    ({0: stored(0)}, 2),
    ({0: stored(0), 40: b""}, 40),
    ({0: stored(0), 40: RUBBISH}, 40),
    ({0: stored(0), 40: DAMAGED}, 40),
    ({0: stored(0), 40: DAMAGED + stored(42)}, 44),
    ({0: RUBBISH, 40: stored(40) + RUBBISH}, 42),
    ({0: stored(0) + stored(58), 40: stored(40)}, 60),
    ({0: stored(0), 9: RUBBISH, 100: RUBBISH}, 100),
], ids=["no file", "empty", "empty, not at 0", "sound", "last empty", "last rubbish", "last damaged",
        "sound behind the damage", "first rubbish", "first goes beyond the last", "several rubbish"])
def test_end_when_files_are_damaged_then_it_is_behind_their_names_and_their_sound_batches(
        tmp_path: Path, segments: dict[int, bytes], end: int) -> None:
    for base_offset, data in segments.items():
        write(tmp_path, base_offset, data)
    assert end_offset_told(tmp_path) == end
