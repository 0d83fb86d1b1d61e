"""The codecs by each of their packages in turn: what a test of compression runs over.

Source:  ours.
"""

from __future__ import annotations

import importlib
import sys

import pytest

from pyproducer.record import decompression
from pyproducer.record.compression import PACKAGES, package_for

EVERY_CHOICE = {
    "as it is here": {},
    "Python's own": {"gzip": "zlib", "zstd": "compression.zstd"},
    "cramjam": {"lz4": "cramjam", "zstd": "cramjam"},
    "others": {"gzip": "isal.isal_zlib", "lz4": "lz4.frame", "zstd": "zstandard"},
}


def choose(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Have the packages of one row serve their codecs; return what serves which codec then."""
    if EVERY_CHOICE[name].get("zstd") == "compression.zstd" and sys.version_info < (3, 14):
        # The same code, for older Pythons.
        monkeypatch.setitem(sys.modules, "compression.zstd", importlib.import_module("backports.zstd"))
    for codec, package in EVERY_CHOICE[name].items():
        assert package in PACKAGES[codec]
        try:
            importlib.import_module(package)
        except ImportError as cause:
            pytest.skip(f"{package} is not here: {cause}")
        monkeypatch.setitem(PACKAGES, codec, (package,))
    decompression._decoder.cache_clear()
    return {codec: package_for(codec).imported_as for codec in PACKAGES}
