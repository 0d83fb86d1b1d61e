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
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.archives import unpack
from tests.support.patience import GIVE_UP_S
from tests.support.spark_cluster import SparkCluster

STEP_S = 1200  # the longest that one step of a story may take
# The Python that this environment was made of: of its packages it has none.
BARE_PYTHON = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")


def stored_count(bootstrap_servers: str, topic: str, partition_count: int) -> int:
    """Return how many records a topic has."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "counts", "log_level": 0})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=GIVE_UP_S)[1]
                   for number in range(partition_count))
    finally:
        consumer.close()


@contextmanager
def submitted(cluster: SparkCluster, archive: Path, folder: Path, program: Path, *arguments: str
              ) -> Iterator[subprocess.Popen[str]]:
    """The program, which runs with what is in the archive; its log is `folder`/driver.log.

    Args:
        cluster: Where its tasks run.
        archive: What `pack` made.
        folder: Its own.
        program: Called with the cluster's address, the archive, the Python of the tasks, and the arguments.
        arguments: The program's own.
    """
    if not (folder / "dep").exists():
        unpack(archive, folder / "dep")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with (folder / "driver.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(program), cluster.url, str(archive), str(BARE_PYTHON), *arguments], cwd=folder,
            env={**variables, "PYTHONPATH": str(folder / "dep")}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=log, text=True)
        try:
            yield process
        finally:
            end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Kill a program and its JVM; again is no error."""
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    process.communicate()
    for child in below:  # the driver's JVM
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
