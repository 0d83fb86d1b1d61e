"""Kills, cancels and restarts on a cluster of two workers: each row is there, and what is told is in the log."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pyproducer.spark.packing import pack
from tests.spark.cluster_program import CLIENT_ID, ROWS_A_MICRO_BATCH
from tests.support.kafka_jars import spark_connector_jars
from tests.support.log_checker import stored_count
from tests.support.spark_cluster import SparkCluster
from tests.support.spark_program import STEP_S, end, ensure_told, give_sign, row_counts, submitted, until

if TYPE_CHECKING:
    from pyproducer.broker import EmbeddedBroker
    from tests.support.kafka_server import KafkaServer

pytestmark = [pytest.mark.soak, pytest.mark.timeout(STEP_S)]

ROWS = 1_000_000
TASKS = 40
PARTITIONS = 6


class Stage:
    """A cluster, a topic, and the program that writes to it."""

    def __init__(self, cluster: SparkCluster, broker: EmbeddedBroker | KafkaServer, archive: Path, folder: Path,
                 topic: str, *, row_count: int = ROWS, task_count: int = TASKS) -> None:
        self.cluster = cluster
        self.folder = folder
        self.topic = topic
        self._row_count = row_count
        self._task_count = task_count
        self._archive = archive
        self._servers = broker.bootstrap_servers
        broker.create_topic(topic, PARTITIONS)

    @property
    def log(self) -> Path:
        return self.folder / "driver.log"

    def submitted(self, story: str, *rest: str) -> Any:
        return submitted(self.cluster, self._archive, self.folder, story, self._servers, self.topic,
                         str(self._row_count), str(self._task_count), *rest)

    def stored(self) -> int:
        return stored_count(self._servers, self.topic, PARTITIONS)

    def await_stored(self, count: int, process: subprocess.Popen[str]) -> None:
        until(lambda: self.stored() >= count, f"{count} records", process, self.log)

    def counts(self, row_count: int | None = None) -> bytearray:
        """How often each row is in the log."""
        return row_counts(self._servers, self.topic, row_count or self._row_count)

    def await_end(self, process: subprocess.Popen[str]) -> list[dict[str, Any]]:
        """What it said until it ended well."""
        answer = process.communicate(timeout=STEP_S)[0]
        assert process.returncode == 0, self.log.read_text(errors="replace")[-3000:]
        return [json.loads(line) for line in answer.splitlines()]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "dep.tar.gz"
    pack(path, ["pyarrow"])
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def stage(cluster: SparkCluster, embedded: EmbeddedBroker, archive: Path, tmp_path: Path, topic_name: str) -> Stage:
    return Stage(cluster, embedded, archive, tmp_path, topic_name)


def test_write_when_an_executor_is_killed_then_every_row_is_there(stage: Stage) -> None:
    with stage.submitted("write") as process:
        stage.await_stored(ROWS // 5, process)
        stage.cluster.executors()[0].kill()
        (told,) = stage.await_end(process)
    assert any(told["attempts"].values())
    ensure_told(told, stage.counts(), TASKS)


def test_write_when_spark_runs_a_copy_of_a_task_that_stands_still_then_every_row_is_there_and_a_warning(
        stage: Stage) -> None:
    """The copy ends the task, on the other node; what the one that stands still had sent is there twice."""
    with stage.submitted("copies") as process:
        stage.await_stored(ROWS // 5, process)
        standing = next(stage.cluster.python_workers())
        standing.suspend()
        try:
            (told,) = stage.await_end(process)
        finally:
            with suppress(psutil.NoSuchProcess):  # Spark killed it, with its attempt
                standing.resume()
    assert (told["rows"], told["total"], told["is_delivered"]) == (ROWS, ROWS, True)
    assert any(told["attempts"].values())
    seen = stage.counts()
    assert min(seen) == 1
    assert max(seen) <= 2
    assert "spark.speculation=true" in stage.log.read_text(errors="replace")


@pytest.fixture
def small_quota() -> Iterator[KafkaServer]:
    """An Apache Kafka that lets the programs' client id send 400 KB/s, counted over eleven seconds as by default."""
    from tests.support.kafka_server import KafkaServer

    server = KafkaServer()
    server.also_set({"quota.window.num": 11})
    with server:
        server.run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", server.bootstrap_servers, "--alter",
                        "--add-config", "producer_byte_rate=400000", "--entity-type", "clients",
                        "--entity-name", CLIENT_ID)
        yield server


def test_write_when_four_workers_share_a_small_quota_then_all_rows_are_stored_once_beside_sparks_own_sink(
        cluster: SparkCluster, small_quota: KafkaServer, archive: Path, tmp_path: Path, topic_name: str) -> None:
    """With the defaults, what a worker has to send fits into its buffer.memory, and takes 160 s at its 100 KB/s.

    delivery.timeout.ms is 120 s. Spark's own sink, which has one buffer for all tasks of an executor, runs beside it:
    its rows are there, and may be so more than once.
    """
    counts, seconds = {}, {}
    for story, rest in (("write", ()), ("connector", [",".join(map(str, spark_connector_jars()))])):
        (tmp_path / story).mkdir()
        stage = Stage(cluster, small_quota, archive, tmp_path / story, f"{topic_name}-{story}", row_count=600_000,
                      task_count=4)
        began = time.monotonic()
        with stage.submitted(story, *rest) as process:
            told = stage.await_end(process)
        counts[story], seconds[story] = stage.counts(), time.monotonic() - began
        if told:
            ensure_told(told[0], counts[story], 4)
            print(told[0]["line"])
    print({story: f"{seen.count(1)} rows once, {len(seen) - seen.count(1)} not, in {seconds[story]:.0f} s"
           for story, seen in counts.items()})
    assert (min(counts["write"]), max(counts["write"])) == (1, 1)
    assert min(counts["connector"]) == 1


def test_write_when_a_node_dies_then_every_row_is_there(stage: Stage) -> None:
    with stage.submitted("write") as process:
        stage.await_stored(ROWS // 5, process)
        stage.cluster.kill_worker()
        try:
            (told,) = stage.await_end(process)
        finally:
            stage.cluster.add_worker(f"again-{time.monotonic_ns()}")
    ensure_told(told, stage.counts(), TASKS)


def test_write_when_the_driver_is_interrupted_then_nothing_goes_on(stage: Stage) -> None:
    with stage.submitted("write") as process:
        stage.await_stored(ROWS // 5, process)
        process.send_signal(signal.SIGINT)
        told = stage.await_end(process)
    assert told == [{"ended_by": "KeyboardInterrupt"}]
    until_gone(stage.cluster)
    count = stage.stored()
    assert ROWS // 5 <= count < ROWS
    seen = stage.counts()
    assert max(seen) == 1
    assert sum(seen) == count


def until_gone(cluster: SparkCluster) -> None:
    """Wait until no executor is left, and so nobody who could write."""
    _gone, alive = psutil.wait_procs([*cluster.executors(), *cluster.python_workers()], STEP_S / 2)
    assert alive == []


def test_write_when_its_job_is_cancelled_then_it_says_so_and_the_next_one_is_whole(stage: Stage) -> None:
    """The workers live on, with their producers: what these had is either in the log or nowhere."""
    with stage.submitted("cancel") as process:
        stage.await_stored(ROWS // 5, process)
        give_sign(process)
        ended, told = stage.await_end(process)
    assert "cancel" in ended["ended_by"].lower()
    assert not any(told["attempts"].values())
    seen = stage.counts()
    assert (min(seen), max(seen)) == (1, 2)
    assert (told["rows"], told["total"]) == (ROWS, ROWS)
    assert not told["is_delivered"]  # what the sink delivered counts those tasks of the other job, too, that ended well


@pytest.mark.parametrize("road", ["format", "foreachBatch"])
def test_stream_when_its_driver_is_killed_then_it_goes_on_from_its_checkpoint(stage: Stage, road: str) -> None:
    """What had been written of the micro-batch in hand is there twice, and all others once."""
    checkpoint = str(stage.folder / "checkpoint")
    with stage.submitted(road, checkpoint) as process:
        stage.await_stored(4 * ROWS_A_MICRO_BATCH + ROWS_A_MICRO_BATCH // 3, process)
        end(process)
    until_gone(stage.cluster)
    before = stage.stored()
    with stage.submitted(road, checkpoint) as process:
        stage.await_stored(before + 3 * ROWS_A_MICRO_BATCH, process)
        give_sign(process)
        (told,) = stage.await_end(process)
    count = stage.stored()
    seen = stage.counts(count)
    finished = (told["batch_id"] + 1) * ROWS_A_MICRO_BATCH
    assert finished > before
    assert min(seen[:finished]) == 1
    doubled = {number // ROWS_A_MICRO_BATCH for number, times in enumerate(seen) if times > 1}
    assert len(doubled) <= 1
