"""These unit tests do use sockets, on the loopback: none may be left open."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_DESCRIPTORS = Path("/proc/self/fd")


def _open_sockets() -> set[str]:
    names = set()
    for descriptor in _DESCRIPTORS.iterdir() if _DESCRIPTORS.exists() else ():
        try:
            names.add(os.readlink(descriptor))
        except FileNotFoundError:  # the one that lists the folder
            continue
    return {name for name in names if name.startswith(("socket:", "anon_inode:[event"))}


@pytest.fixture(autouse=True)
def no_open_sockets() -> Iterator[None]:
    before = _open_sockets()
    yield
    left = _open_sockets() - before
    if left:
        gc.collect()  # a socket that was lost in a cycle warns here, and a warning is an error
        left &= _open_sockets()  # what a thread was just closing, of another test's, is gone
    assert not left, f"the test left {sorted(left)} open"
