"""A cluster in a process of its own, so that it does not share the caller's GIL.

Road:    EmbeddedBroker(separate_process=True) -> [child process] -> child_main.py
Thread:  any; one question at a time, under a lock.
Source:  ours.

The two speak JSON lines over the child's stdin and stdout: first the options go down and the addresses come up, then
commands and their results. The child ends when an empty line tells it to, or when its stdin ends: that happens however
the parent dies, but not while another child lives that the parent has forked, for that has the pipe, too. It runs in a
session of its own, so that Ctrl-C reaches only the parent, which then stops it.

Questions have numbers, and answers those of their questions: a signal's handler may raise while one is written or
answered, as pytest-timeout's does, and its answer is not the next question's. Of an answer that is given up a part may
be lost, so each begins a line. What is only a part of a line is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyproducer.broker.control.in_process import ClusterOptions, directory_of
from pyproducer.broker.control.observations import from_json, to_json
from pyproducer.common.errors import ConfigError, IllegalStateError

# A stop closes logs and joins threads, which takes milliseconds; this long means that it hangs.
_STOP_TIMEOUT_S = 15
_READ_BYTES = 1 << 16
STOP = "\n"  # what is said instead of a question
PART_ENDS = b" \n"  # a line that is no question, and does not stop


def parsed(line: str | bytes) -> dict[str, Any] | None:
    """Return a question or an answer; None for a part of one."""
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return found


class ChildProcessCluster:
    """The parent's side."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._lock = threading.Lock()  # guards the pipes: one question at a time
        self._number = 0  # of the last question
        self._is_torn = False  # of the last question a part may be missing
        self._received = bytearray()  # what is no whole line yet
        self._process: subprocess.Popen[bytes] | None = None
        self._process_id = 0  # whose child that is
        self._addresses: dict[str, list[tuple[str, int]]] = {}
        self.data_dir: Path | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the child and wait until it listens.

        Raises:
            ConfigError: An option makes no sense, or an address or the data directory is in use.
            IllegalStateError: The child ended before it listened.
        """
        package_parent = str(Path(__file__).resolve().parents[3])
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package_parent, environment.get("PYTHONPATH"))))
        self._process_id = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyproducer.broker.control.child_main"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, bufsize=0, env=environment, start_new_session=True)
        self._is_torn = False
        self._received.clear()
        options = self._options
        try:
            started = self._ask({
                "brokers": options.brokers, "topics": dict(options.topics), "config": dict(options.config),
                "node_config": {node_id: dict(settings) for node_id, settings in options.node_config.items()},
                "log_requests": options.log_requests,
                "data_dir": None if options.data_dir is None else os.path.abspath(options.data_dir)})
        except BaseException:
            self.stop()
            raise
        self.data_dir = Path(started["data_dir"])
        self._addresses = {name: [(host, port) for host, port in addresses]
                           for name, addresses in started["addresses"].items()}

    def stop(self) -> None:
        """Stop the child and wait for it; a temporary folder is removed by the child.

        In a process that the parent has forked, the child is the parent's, and goes on.
        """
        if self._process_id != os.getpid():
            self._process = None
            if directory_of(self._options) is None:
                self.data_dir = None
            return
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.close()  # the child may be writing an answer that nobody reads
            try:
                self._write(process, STOP.encode())
            except OSError:
                pass  # it has gone already
            process.stdin.close()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if directory_of(self._options) is None:
            self.data_dir = None

    def addresses(self) -> dict[str, list[tuple[str, int]]]:
        """Return where clients may connect: listener name to (host, port) of each broker."""
        return self._addresses

    def ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        """Let the child run a command; see commands.py.

        Raises:
            ConfigError: What the command says.
            IllegalStateError: What the command says; or the child has ended.
        """
        if "function" in arguments.get("arguments", ()):
            raise ConfigError("fault", "call", "a function cannot go to the broker's own process; "
                                               "separate_process=False can do this")
        return from_json(self._ask({"command": command, "arguments": to_json(arguments)}))

    def _ask(self, question: Mapping[str, Any]) -> Any:
        with self._lock:
            process = self._process
            if process is None:
                raise IllegalStateError("The embedded broker is not running")
            self._number += 1
            try:
                self._write(process, json.dumps({**question, "number": self._number}).encode() + b"\n")
                while (answer := parsed(self._read_line(process))) is None or answer["number"] != self._number:
                    pass
            except OSError:
                raise IllegalStateError(f"The embedded broker's process {process.pid} has ended "
                                        f"(exit code {process.poll()}); its error output says why") from None
        if "config_error" in answer:
            key, value, why = answer["config_error"]
            raise ConfigError(key, value, why)
        if "error" in answer:
            raise IllegalStateError(answer["error"])
        return answer["result"]

    def _write(self, process: subprocess.Popen[bytes], line: bytes) -> None:
        assert process.stdin is not None
        if self._is_torn:
            line = PART_ENDS + line
        self._is_torn = True
        left = memoryview(line)
        while left:
            left = left[process.stdin.write(left):]
        self._is_torn = False

    def _read_line(self, process: subprocess.Popen[bytes]) -> bytes:
        """Raises OSError when there are no more."""
        assert process.stdout is not None
        looked_at = 0
        while (end := self._received.find(b"\n", looked_at)) < 0:
            looked_at = len(self._received)
            data = process.stdout.read(_READ_BYTES)
            if not data:
                raise OSError("the child has closed its end")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[:end + 1]
        return line
