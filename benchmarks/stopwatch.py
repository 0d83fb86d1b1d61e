"""Wall time, CPU time and memory of this process, between two moments.

Source:  getrusage(2): all threads of the process are counted, compiled clients' threads too.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path


class Stopwatch:
    """`start()` when the client is connected and knows the topic, `stop()` when the last record is answered."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    def start(self) -> None:
        """Begin to count."""
        self._wall, self._cpu = time.perf_counter(), _cpu_seconds()

    def stop(self) -> None:
        """End; closing the client is not counted."""
        self.seconds = time.perf_counter() - self._wall
        self.cpu_seconds = _cpu_seconds() - self._cpu


def peak_memory_bytes() -> int:
    """Return the largest resident size of this process so far.

    Linux's ru_maxrss begins with that of the process which started this one; VmHWM begins with exec.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines()
                    if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts KiB, macOS bytes


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
