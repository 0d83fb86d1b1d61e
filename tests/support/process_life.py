"""Runs a program with a producer in a process of its own, and ends it when the test does.

Thread:  the test's.
Source:  ours.

No import of pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
GIVE_UP_S = 120.0


class Program:
    """A Python program whose lines are read as they come; what it says of errors is kept.

    Args:
        source: Its text.
        arguments: Those of its command line.
        warnings_are_errors: Whether it runs with `-W error`.
    """

    def __init__(self, source: str, *arguments: object, warnings_are_errors: bool = False) -> None:
        strict = ["-W", "error"] if warnings_are_errors else []
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, *strict, "-c", source, *map(str, arguments)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path})
        self.errors = ""
        self._reader = threading.Thread(target=self._read_errors, name="errors of a program")
        self._reader.start()

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

    def end_input(self) -> None:
        """Close its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> int:
        """Wait for its end; return its exit code."""
        code = self._process.wait(GIVE_UP_S)
        self._reader.join(GIVE_UP_S)
        return code

    def __enter__(self) -> Program:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self.errors += line
