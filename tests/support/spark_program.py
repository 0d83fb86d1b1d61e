"""A program that is submitted to a Spark cluster on which nobody installed anything, and what its topic has by then.

Thread:  one test thread; the program is a child process.
Source:  ours.

No import of pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.support.archives import unpack
from tests.support.log_checker import iter_topic
from tests.support.patience import GIVE_UP_S
from tests.support.spark_cluster import SparkCluster

STEP_S = 1200  # the longest that one step of a story may take
PROGRAM = Path(__file__).parents[1] / "spark" / "cluster_program.py"
# The Python that this environment was made of: of its packages it has none.
BARE_PYTHON = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")


def row_counts(bootstrap_servers: str, topic: str, row_count: int) -> bytearray:
    """Return how often each row is in a topic; its key is its number."""
    seen = bytearray(row_count)
    for record in iter_topic(bootstrap_servers, topic, timeout_s=STEP_S):
        seen[int(record.key or b"")] += 1
    return seen


def ensure_told(told: dict[str, Any], seen: bytearray, task_count: int) -> list[int]:
    """Check that each row is there, more than once only where its task ran again; return which are.

    Args:
        told: What the program said of its write.
        seen: How often each row is in the topic.
        task_count: How many tasks wrote them, in order.
    """
    row_count = len(seen)
    assert (told["rows"], told["total"], told["is_delivered"]) == (row_count, row_count, True)
    assert seen.count(0) == 0, f"{seen.count(0)} rows are missing"
    doubled = [number for number, count in enumerate(seen) if count > 1] if seen.count(1) < row_count else []
    assert {number * task_count // row_count for number in doubled} <= repeated_tasks(told)
    return doubled


def repeated_tasks(told: dict[str, Any]) -> set[int]:
    """Return the tasks that ran again, as was told."""
    return {int(task) for task, attempt in told["attempts"].items() if attempt}


@contextmanager
def submitted(cluster: SparkCluster, archive: Path, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program, which runs with what is in the archive; its log is `folder`/driver.log.

    Args:
        cluster: Where its tasks run.
        archive: What `pack` made.
        folder: Its own.
        arguments: What the program takes behind the cluster's address, the archive and the Python of the tasks.
    """
    if not (folder / "dep").exists():
        unpack(archive, folder / "dep")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with (folder / "driver.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), cluster.url, str(archive), str(BARE_PYTHON), *arguments], cwd=folder,
            env={**variables, "PYTHONPATH": str(folder / "dep")}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=log, text=True)
        try:
            yield process
        finally:
            end(process)


def give_sign(process: subprocess.Popen[str]) -> None:
    """Let happen what the program waits for."""
    assert process.stdin is not None
    process.stdin.write("now\n")
    process.stdin.flush()


def end(process: subprocess.Popen[str]) -> None:
    """Kill a program and its JVM; again is no error."""
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    process.communicate()
    for child in below:  # the driver's JVM, unless it went with its driver
        with suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(below, GIVE_UP_S)


def until(condition: Callable[[], object], what: str, process: subprocess.Popen[str], log: Path) -> None:
    """Wait for a condition while the program runs."""
    deadline = time.monotonic() + STEP_S
    while not condition():
        said = log.read_text(errors="replace")[-3000:]
        assert process.poll() is None, f"the program ended before {what}: {said}"
        assert time.monotonic() < deadline, f"{what} did not come: {said}"
        time.sleep(0.05)
