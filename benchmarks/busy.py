"""What computes without a pause beside a measured caller: a thread of its process, or processes of their own.

`python -m benchmarks.busy` is one such process: it says `busy` when it computes, and ends with its standard input.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READY_LINE = "busy\n"


def compute(ended: threading.Event) -> None:
    """Run Python until the event is set."""
    number = 0
    while not ended.is_set():
        for _ in range(1000):
            number = (number * 31 + 7) % 1_000_003


@contextmanager
def busy_thread(wanted: bool) -> Iterator[None]:
    """Run a thread that computes in Python until the block ends."""
    ended = threading.Event()
    thread = threading.Thread(target=compute, args=(ended,), name="busy")
    if wanted:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if wanted:
            thread.join()


@contextmanager
def busy_processes(count: int) -> Iterator[list[int]]:
    """Run so many processes that compute until the block ends; yields their ids.

    They end with the block, whatever ends it. Where this process is killed, the system closes their standard input, and
    they end too.

    Raises:
        RuntimeError: One of them did not begin, or did not last until the block's end: nothing computed beside it.
    """
    with ExitStack() as stack:
        processes = []
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-m", "benchmarks.busy"], text=True,
                                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT))
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != READY_LINE:
                raise RuntimeError(f"busy process {process.pid} did not begin")
        yield [process.pid for process in processes]
        for process in processes:
            if process.poll() is not None:
                raise RuntimeError(f"busy process {process.pid} ended before what it was to disturb")


def main() -> None:
    """Compute until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, who ends this process
    # Only this thread runs Python: the main thread waits for the system and asks for nothing.
    threading.Thread(target=compute, args=(threading.Event(),), name="busy", daemon=True).start()
    print(READY_LINE, end="", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
