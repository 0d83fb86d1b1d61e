"""Runs what was chosen, on the twins that matter; builds the compiled one where its text is newer.

Road:    choose -> [run] -> session, in a process for each twin
Source:  ours.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.near.choose import HOTPATH, Choice
from tests.support.compiler import missing_for_compiling

NATIVE, TEXT = "native", "python"


FIRST_FILES = 6  # pytest reads all files of a run before the first test: the nearest few are a run of their own
SHARE_OF_FIRST = 2 / 3  # of the time: the twin that changed


@dataclass
class Ended:
    """What became of the tests on one twin."""

    twin: str
    status: int = 0
    ran: int = 0
    seconds: float = 0.0
    failed: list[str] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)


def run(root: Path, choice: Choice, *, seconds: float, to_the_end: bool) -> list[Ended]:
    """Run the tests, the twin first that changed; stop at the first failure unless told not to."""
    ended: list[Ended] = []
    wanted = twins(root, choice)
    for number, twin in enumerate(wanted, 1):
        left_s = seconds if number == len(wanted) else seconds * SHARE_OF_FIRST
        ended.append(_run(root, choice.entries, twin, seconds=left_s, to_the_end=to_the_end))
        seconds -= ended[-1].seconds
        if ended[-1].status and not to_the_end:
            break
    return ended


def stages(entries: Sequence[str]) -> list[list[str]]:
    """Return the tests of the first few files, and the others."""
    files = list(dict.fromkeys(entry.split("::", 1)[0] for entry in entries))
    first = set(files[:FIRST_FILES])
    parts = [[entry for entry in entries if (entry.split("::", 1)[0] in first) is is_first]
             for is_first in (True, False)]
    return [part for part in parts if part]


def twins(root: Path, choice: Choice) -> list[str]:
    """Return the twins to run; builds the compiled one in place where it is older than its sources."""
    wanted = os.environ.get("PYPRODUCER_IMPL")
    if wanted:
        return [wanted]
    state = why_not_compiled(root)
    if state and (choice.compiled_changed or compiled_files(root)):
        state = build(root)
    if state:
        print(f"near: {state}: on the Python text alone", flush=True)
        return [TEXT]
    if choice.text_changed:
        return [TEXT, NATIVE]
    return [NATIVE, TEXT] if choice.compiled_changed else [NATIVE]


def compiled_files(root: Path) -> list[Path]:
    """Return the compiled twin's files that this Python loads."""
    return sorted((root / HOTPATH).glob(f"_native*{sysconfig.get_config_var('EXT_SUFFIX')}"))


def why_not_compiled(root: Path) -> str | None:
    """Why the compiled twin cannot run as it lies there; None when it can."""
    built = [path.stat().st_mtime for path in compiled_files(root)]
    sources = [path.stat().st_mtime for path in (root / HOTPATH).glob("_native*.p*") if path.suffix in (".pyx", ".pxd")]
    if not built:
        return "the compiled twin was not built here"
    return "the compiled twin is older than its sources" if min(built) < max(sources, default=0.0) else None


def build(root: Path) -> str | None:
    """Build the compiled twin in place; return why that was not possible.

    Raises:
        SystemExit: It does not compile.
    """
    missing = missing_for_compiling()
    if missing:
        return missing
    if not all(map(importlib.util.find_spec, ("Cython", "setuptools"))):
        return "the compiled twin is older than its sources, and Cython is not in this environment (`make lint` has it)"
    started = time.monotonic()
    ended = subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=root, text=True,
                           env={**os.environ, "PYPRODUCER_IMPL": NATIVE}, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, check=False)
    if ended.returncode:
        print(ended.stdout, file=sys.stderr)
        raise SystemExit("near: the compiled twin does not compile")
    # Only what changed was built; the others are as new as that (tests/conftest.py compares with the newest source).
    for path in compiled_files(root):
        os.utime(path)
    print(f"near: built the compiled twin in place: {time.monotonic() - started:.1f} s", flush=True)
    return None


def _run(root: Path, entries: Sequence[str], twin: str, *, seconds: float, to_the_end: bool) -> Ended:
    whole = Ended(twin)
    for stage in stages(entries):
        if whole.seconds > seconds:
            whole.not_run += stage
            continue
        status, told = _run_stage(root, stage, twin, seconds=seconds - whole.seconds, to_the_end=to_the_end)
        whole.status = whole.status or status
        whole.ran += told["ran"]
        whole.seconds += told["seconds"]
        whole.failed += told["failed"]
        whole.not_run += told["not_run"]
        if status and not to_the_end:
            break
    return whole


def _run_stage(root: Path, entries: Sequence[str], twin: str, *, seconds: float,
               to_the_end: bool) -> tuple[int, dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="pyproducer-near-") as folder:
        job, result = Path(folder, "job.json"), Path(folder, "result.json")
        job.write_text(json.dumps({"entries": list(entries), "seconds": seconds, "stop": not to_the_end,
                                   "result": str(result)}))
        # What hangs is told in a minute where somebody waits for it; a busy machine has as long as it needs.
        patience = {} if "CI" in os.environ else {"PYPRODUCER_TEST_PATIENCE_S": "60"}
        variables = {"PYPRODUCER_TEST_CLUSTERS": "embedded", **patience, **os.environ, "PYPRODUCER_IMPL": twin}
        ended = subprocess.run([sys.executable, "-m", "tests.near.session", str(job)], cwd=root, env=variables,
                               check=False)
        nothing = {"ran": 0, "failed": [], "not_run": [], "seconds": 0.0}
        return ended.returncode, json.loads(result.read_text()) if result.exists() else nothing
