"""Four Spark workers under one quota of Apache Kafka: each one's buffer takes longer than its timeout to go out."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

from pyproducer import KafkaProducer
from pyproducer.spark import KafkaSink
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import read_topic
from tests.support.patience import GIVE_UP_S
from tests.unit.spark.doubles import FakeRow

WORKERS = 4
ROWS = 5_000
ROW_BYTES = 1_000


def work(servers: str, topic: str, client_id: str, worker: int, road: str) -> int:
    """What a task does in a worker of Spark's."""
    sink = KafkaSink({"bootstrap.servers": servers, "client.id": client_id, "buffer.memory": 4 << 20,
                      "delivery.timeout.ms": 30_000, "request.timeout.ms": 20_000, "linger.ms": 5}, topic=topic)
    values = [b"%d-%d-" % (worker, row) + b"x" * ROW_BYTES for row in range(ROWS)]
    if road == "rows":
        return sink.send_rows(FakeRow(value=value) for value in values).row_count
    import pyarrow

    table = pyarrow.table({"value": values})
    return sink.send_record_batches(table.to_batches(max_chunksize=500)).row_count


def await_quota(servers: str, topic: str) -> None:
    """A new quota takes a while to be known."""
    ends = time.monotonic() + GIVE_UP_S
    with KafkaProducer({"bootstrap.servers": servers, "client.id": "quota"}) as producer:
        while not producer.metrics()["produce-throttle-time-total"]:
            assert time.monotonic() < ends, "never throttled"
            for _ in range(300):
                producer.send(topic, b"x" * ROW_BYTES)
            producer.flush(GIVE_UP_S)


@pytest.mark.soak
@pytest.mark.parametrize("road", ["columns", "rows"])
def test_quota_when_four_workers_share_it_then_all_rows_are_stored_once(
        road: str, own_kafka: KafkaServer, topic_name: str) -> None:
    """Each worker has 4 MiB of buffer and 100 KB/s: 42 s, where delivery.timeout.ms is 30 s. All tasks failed."""
    own_kafka.create_topic(topic_name, 3)
    own_kafka.run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", own_kafka.bootstrap_servers, "--alter",
                       "--add-config", "producer_byte_rate=400000", "--entity-type", "clients",
                       "--entity-name", "quota")
    await_quota(own_kafka.bootstrap_servers, own_kafka.create_topic("before", 3))
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as workers:
        counts = [future.result() for future in [
            workers.submit(work, own_kafka.bootstrap_servers, topic_name, "quota", worker, road)
            for worker in range(WORKERS)]]
    assert counts == [ROWS] * WORKERS
    found = [record.value for record in read_topic(own_kafka.bootstrap_servers, topic_name)]
    assert len(found) == len(set(found)) == WORKERS * ROWS
