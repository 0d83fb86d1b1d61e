"""A process that has imported what tests need, but nothing of ours, and forks for each run of tests.

Road:    run -> [a job, one line of JSON on stdin] -> a fork that runs pytest -> [a result, one line on stdout]
Thread:  one; a fork lasts until its tests end or its time is over, and its process group is ended with it.
Source:  ours. A fork saves the import of pytest and of the packages that tests use; the sources are imported in the
         fork, from the worker's own copy of the tree, where one file may be mutated.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.coverage_map import file_of
from tests.mutants.plugin import Chosen, arguments

PRELOADED = ("asyncio", "click", "concurrent.futures", "crc32c", "cramjam", "cryptography.x509", "ctypes", "decimal",
             "fastcrc.crc32", "hypothesis", "hypothesis.strategies", "importlib.metadata", "javaproperties",
             "lz4.frame", "mmh3", "multiprocessing", "numpy", "psutil", "pyarrow", "ssl", "unittest.mock", "uuid",
             "xml.etree.ElementTree", "zstandard")
MEMORY_LIMIT_BYTES = 6 << 30  # of a fork: a mutant that never stops appending must not end the machine
FILE_LIMIT_BYTES = 1 << 29


def main() -> int:
    """Serve jobs until stdin ends."""
    for name in () if "--bare" in sys.argv else PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    home = Path.cwd()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(serve(home, json.loads(line))), flush=True)
    return 0


def serve(home: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Run one job in a fork.

    Args:
        home: The worker's copy of the tree.
        job: `tests`, ids in order; `deadline_s` of the whole run; `timeout_s` of one test; `environment` to add.

    Returns:
        `outcome` "passed", "failed" or "hung"; the test, and what it said; how many tests were begun.
    """
    scratch = home / "tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    notes = scratch / "notes.json"
    started = time.monotonic()
    spent = _cpu_of_forks_s()
    pid = os.fork()
    if not pid:
        _run_tests(home, job, notes)
    try:
        status = _wait(pid, started + job["deadline_s"])
    finally:
        _end_group(pid)
    said = json.loads(notes.read_text() or "{}") if notes.exists() else {}
    result = {"test": said.get("test", ""), "message": said.get("message", ""), "ran": said.get("ran", 0),
              "seconds": round(time.monotonic() - started, 2), "cpu_s": round(_cpu_of_forks_s() - spent, 2)}
    if status is None:
        return result | {"outcome": "hung"}
    code = os.waitstatus_to_exitcode(status)
    if code == pytest.ExitCode.OK:
        return result | {"outcome": "passed"}
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        return result | {"outcome": "empty"}
    if said.get("state") == "running" or not said:
        # It died in the middle of a test, or before the first one: what it printed last says why.
        lines = (scratch / "output.txt").read_text(errors="replace").strip().splitlines()
        result["message"] = f"exit status {code}: {lines[-1][:160] if lines else ''}"
    return result | {"outcome": "failed"}


def _cpu_of_forks_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run_tests(home: Path, job: dict[str, Any], notes: Path) -> None:
    code = 70
    try:
        os.setpgid(0, 0)
        nothing, output = os.open(os.devnull, os.O_RDONLY), os.open(
            home / "tmp" / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, FILE_LIMIT_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ.update(job.get("environment", {}))
        sys.dont_write_bytecode = not job.get("may_write_bytecode", False)
        sys.stdin = open(os.devnull)  # noqa: SIM115 - of the process, until it ends
        files = list(dict.fromkeys(map(file_of, job["tests"])))
        code = int(pytest.main(["-x", *arguments(job["timeout_s"]), *files], plugins=[Chosen(job["tests"], notes)]))
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 71
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, deadline: float) -> int | None:
    """Return the fork's status, or None when its time was over first."""
    pause_s = 0.002
    parent = os.getppid()
    while time.monotonic() < deadline and os.getppid() == parent:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.3, 0.05)
    _end_group(pid)
    os.waitpid(pid, 0)
    return None


def _end_group(pid: int) -> None:
    """End the fork and what it started: nobody else is in its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
        return
    # No such group: it has ended, or has not come so far as to make one.
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        if os.waitpid(pid, os.WNOHANG) == (0, 0):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
