"""One namespace, and it is a list."""

from __future__ import annotations

import subprocess
import sys
import types

import pyproducer
from tests.support.patience import PROGRAM_S


def test_all_is_complete_and_has_no_duplicates():
    # That it is sorted is checked by ruff (RUF022).
    public = {name for name, member in vars(pyproducer).items()
              if not name.startswith("_") and not isinstance(member, types.ModuleType) and name != "annotations"}
    assert len(set(pyproducer.__all__)) == len(pyproducer.__all__)
    assert set(pyproducer.__all__) == public


def test_members_show_the_public_name():
    for name in pyproducer.__all__:
        member = getattr(pyproducer, name)
        if isinstance(member, type) and member.__module__ != "pyproducer.hotpath._native":
            assert member.__module__ == "pyproducer", name


def test_import_when_nothing_is_used_yet_then_costly_modules_are_not_loaded():
    rare = ["javaproperties", "http.client", "asyncio", "importlib.metadata", "json", "mmh3", "lz4", "zstandard",
            "cramjam", "crc32c", "isal", "pyarrow", "pandas", "ssl", "hashlib", "hmac", "difflib",
            "pyproducer.network.ssl_context", "pyproducer.network.sasl.scram",
            "pyproducer.protocol.straight_line", "pyproducer.protocol.messages.groups",
            "pyproducer.broker", "pyproducer.spark"]
    # What the interpreter loaded by itself, for an installation in place, is not ours.
    code = (f"import sys; before = set(sys.modules); import pyproducer; "
            f"print(*[name for name in {rare} if name in sys.modules and name not in before])")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PROGRAM_S, check=True)
    assert found.stdout.split() == []
