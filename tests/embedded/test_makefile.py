"""What is absent is said in one sentence that names what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed: apt-get install make")
@pytest.mark.parametrize(("script", "sentence"), [
    (None, "is not installed: install Python 3.10 or newer"),
    ("exit 1", "is older than 3.10: install Python 3.10 or newer"),
    ('test "$1" = -c', "cannot make a virtual environment: install its venv module"),
])
def test_make_demo_without_a_usable_python_says_what_to_install(tmp_path: Path, script: str | None,
                                                                sentence: str) -> None:
    for name in ("Makefile", "setup.cfg", "setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
        python.chmod(0o755)
    # As from a shell, also when these tests are run by make: it tells its children of itself.
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", "demo", f"PYTHON={python}"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=60, check=False, env=outer)
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(told) == 1
    assert sentence in told[0]
    assert not (tmp_path / ".venv").exists()
