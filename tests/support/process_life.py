"""Runs a program with a producer in a process of its own, and ends it when the test does.

Thread:  the test's.
Source:  ours.

No import of pytest.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

from tests.support.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]


class Program:
    """A Python program whose lines are read as they come; what it says of errors is kept.

    Args:
        source: Its text.
        arguments: Those of its command line.
        warnings_shown: Whether it runs with `-W always`.
    """

    def __init__(self, source: str, *arguments: object, warnings_shown: bool = False) -> None:
        shown = ["-W", "always"] if warnings_shown else []
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, *shown, "-c", source, *map(str, arguments)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path})
        self.errors = ""
        self._reader = threading.Thread(target=self._read_errors, name="errors of a program")
        self._reader.start()
        self._feeder: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def line(self) -> str:
        """Wait for its next line; fails when it ends before."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.wait()
            raise AssertionError(f"it ended early: {self.errors[-3000:]}")
        return line.rstrip("\n")

    def kill(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def rest(self) -> list[str]:
        """Wait for its end; return the lines that are left."""
        assert self._process.stdout is not None
        return self._process.stdout.read().split()

    def feed(self, text: str) -> None:
        """Write to its standard input, as far as it reads that, beside the test."""
        self._feeder = threading.Thread(target=self._feed, args=(text,), name="input of a program")
        self._feeder.start()

    def end_input(self) -> None:
        """Close its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> int:
        """Wait for its end; return its exit code."""
        code = self._process.wait(PROGRAM_S)
        self._reader.join(PROGRAM_S)
        return code

    def __enter__(self) -> Program:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()
        if self._feeder is not None:
            self._feeder.join(PROGRAM_S)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it did not read all
            self._process.stdin.close()
        self._process.stdout.close()

    def _feed(self, text: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ends when the test says so
            self._process.stdin.write(text)
            self._process.stdin.flush()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self.errors += line
