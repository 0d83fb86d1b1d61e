"""A cluster that has not got us installed: a packed archive, many tasks, a broker and a worker that are killed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pyproducer.spark.packing import pack
from tests.support.log_checker import stored_count
from tests.support.spark_cluster import SparkCluster
from tests.support.spark_program import (
    BARE_PYTHON,
    STEP_S,
    ensure_told,
    repeated_tasks,
    row_counts,
    submitted,
    until,
)

if TYPE_CHECKING:
    from tests.support.kafka_server import KafkaServer

ROWS = int(os.environ.get("PYPRODUCER_SOAK_ROWS", "10000000"))
TASKS = 200
PARTITIONS = 12
OUTAGE_S = 6


class Workers:
    """What the cluster's Python processes were seen to take, by process id.

    Attributes:
        resident_bytes: The most memory of each.
        connections: The most connections of each to the broker.
    """

    def __init__(self, cluster: SparkCluster, port: int) -> None:
        self._cluster = cluster
        self._port = port
        self.resident_bytes: dict[int, int] = {}
        self.connections: dict[int, int] = {}

    def look(self) -> list[psutil.Process]:
        """Look at all; return those that are connected."""
        connected = []
        for process in self._cluster.python_workers():
            try:
                resident = process.memory_info().rss
                count = sum(bool(one.raddr) and one.raddr.port == self._port and one.status == psutil.CONN_ESTABLISHED
                            for one in process.net_connections("tcp"))
            except psutil.NoSuchProcess:
                continue
            self.resident_bytes[process.pid] = max(resident, self.resident_bytes.get(process.pid, 0))
            self.connections[process.pid] = max(count, self.connections.get(process.pid, 0))
            if count:
                connected.append(process)
        return connected


@pytest.mark.soak
@pytest.mark.timeout(6 * STEP_S)
def test_write_on_a_cluster_without_us_when_broker_and_worker_are_killed_then_every_row_is_there(
        own_kafka: KafkaServer, topic_name: str, tmp_path: Path) -> None:
    """Rows are stored more than once only where Spark ran their task again, and then that is told."""
    topic = own_kafka.create_topic(topic_name, PARTITIONS)
    archive = tmp_path / "dep.tar.gz"
    pack(archive, ["pyarrow"])
    log = tmp_path / "driver.log"

    def stored() -> int:
        return stored_count(own_kafka.bootstrap_servers, topic, PARTITIONS)

    with SparkCluster(tmp_path) as cluster:
        workers = Workers(cluster, own_kafka.port)
        began = time.monotonic()
        with submitted(cluster, archive, tmp_path, "places", own_kafka.bootstrap_servers, topic, str(ROWS),
                       str(TASKS)) as process:
            until(lambda: workers.look() and stored() > ROWS // 5, "a fifth of the rows", process, log)
            lost = 0
            while "Lost task" not in log.read_text(errors="replace"):
                # A worker may be between two tasks; then nothing was lost, and another one is taken.
                victims = workers.look()
                if victims:
                    victims[0].kill()
                    lost += 1
                patience = time.monotonic() + 10
                until(lambda: "Lost task" in log.read_text(errors="replace") or time.monotonic() > patience,  # noqa: B023 - called at once
                      "what Spark says of a worker that was killed", process, log)
            until(lambda: workers.look() and stored() > 2 * ROWS // 5, "two fifths of the rows", process, log)
            own_kafka.kill()
            time.sleep(OUTAGE_S)
            assert process.poll() is None
            own_kafka.restart()
            while process.poll() is None:
                workers.look()
                assert time.monotonic() - began < 4 * STEP_S, log.read_text(errors="replace")[-3000:]
                time.sleep(0.2)
            assert process.stdout is not None
            answer = process.stdout.read()
            seconds = time.monotonic() - began
            assert process.returncode == 0, log.read_text(errors="replace")[-3000:]
    where, told = map(json.loads, answer.splitlines())
    for python, place, implementation in where["places"]:
        assert python == str(BARE_PYTHON)
        assert Path(place).is_relative_to(tmp_path)
        assert implementation == "native"
    doubled = ensure_told(told, row_counts(own_kafka.bootstrap_servers, topic, ROWS), TASKS)
    repeated = repeated_tasks(told)
    assert repeated
    megabytes = sorted(size >> 20 for size in workers.resident_bytes.values())
    print(f"\n{ROWS} rows in {seconds:.0f} s, {len(doubled)} stored more than once, of {len(repeated)} tasks that were "
          f"run again, {lost} workers killed; workers: {megabytes} MiB, {sorted(workers.connections.values())} "
          f"connections at most; {told['line']}")
    assert megabytes[-1] < 400
    assert max(workers.connections.values()) <= 2
