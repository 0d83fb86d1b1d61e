"""A broker in a process of its own, and a thread there that sees for how long nobody else had a turn.

    python -m tests.support.watched_broker JSON     the arguments of EmbeddedBroker; prints where it listens, as JSON
    a line on stdin                                 prints the longest CPU time between two looks since the last line

Between two looks of a thread that wants one a millisecond the process computes some milliseconds: until a computing
thread gives the interpreter back, which Python asks for after five. A call into C that keeps it is as long as it takes.
CPU time is measured and not the clock, so that other processes of the machine change nothing.

Source:  ours. No import of pytest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any

from pyproducer.broker import EmbeddedBroker
from tests.support.patience import PROGRAM_S

_LOOK_S = 0.001


class _Watchdog:
    def __init__(self) -> None:
        self._longest_s = 0.0
        self._is_over = False
        self._thread = threading.Thread(target=self._watch, name="watchdog")
        self._thread.start()

    def _watch(self) -> None:
        last_s = time.process_time()
        while not self._is_over:
            time.sleep(_LOOK_S)
            now_s = time.process_time()
            self._longest_s = max(self._longest_s, now_s - last_s)
            last_s = now_s

    def take_longest_s(self) -> float:
        time.sleep(2 * _LOOK_S)  # so that the look is over that stands still now
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s

    def close(self) -> None:
        self._is_over = True
        self._thread.join()


def main() -> None:
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    with EmbeddedBroker(**arguments) as broker:
        watchdog = _Watchdog()
        print(json.dumps(broker._running().addresses()), flush=True)
        try:
            for _ in sys.stdin:
                print(json.dumps(watchdog.take_longest_s()), flush=True)
        finally:
            watchdog.close()


class WatchedBroker:
    """The other side: starts that process; a context manager."""

    def __init__(self, **arguments: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.watched_broker", json.dumps(arguments)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        try:
            found = self._line()
        except BaseException:
            self._end()
            raise
        self.addresses: dict[str, tuple[str, int]] = {name: tuple(addresses[0]) for name, addresses in found.items()}

    def _line(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process of the broker has ended; what it said of that stands above"
        return json.loads(line)

    def take_longest_s(self) -> float:
        """Return for how long, in seconds of CPU, no other thread had a turn since this was last asked."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line())

    def __enter__(self) -> WatchedBroker:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PROGRAM_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()


if __name__ == "__main__":
    main()
