"""Metrics that Apache Kafka asks for (KIP-714): its plugin gets them, and OpenTelemetry's own messages read them."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer import KafkaProducer
from pyproducer.protocol.apis import ApiKeys
from tests.support.kafka_server import KafkaServer
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient

metrics_pb2 = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")

SINK = Path(__file__).resolve().parents[1] / "support" / "java" / "TelemetrySink.java"
CLIENT_METRICS = 16  # of resources that have settings
SENT = "org.apache.kafka.producer.record.send.total"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pushes")


@pytest.fixture(scope="module")
def kafka(folder: Path) -> Iterator[KafkaServer]:
    with KafkaServer(plugins=[SINK], settings={
            "metric.reporters": "TelemetrySink", "telemetry.sink.folder": folder,
            "auto.create.topics.enable": "true"}) as server:
        with RawClient(("127.0.0.1", server.port)) as client:
            answer = client.request(ApiKeys.INCREMENTAL_ALTER_CONFIGS, 1, {"validate_only": False, "resources": [
                {"resource_type": CLIENT_METRICS, "resource_name": "of-producers", "configs": [
                    {"name": name, "config_operation": 0, "value": value} for name, value in {
                        "metrics": "org.apache.kafka.producer.", "interval.ms": "200"}.items()]}]})
            assert [row["error_code"] for row in answer["responses"]] == [0], answer
        yield server


def until(found: Callable[[], Any]) -> Any:
    ends = time.monotonic() + GIVE_UP_S
    while not (value := found()):
        assert time.monotonic() < ends, "nothing came"
        time.sleep(0.05)
    return value


def read(path: Path) -> dict[str, Any]:
    """Return what a push has, by name; Kafka hands it over uncompressed."""
    data = metrics_pb2.MetricsData()
    data.ParseFromString(path.read_bytes())
    return {metric.name: (metric.sum if metric.HasField("sum") else metric.gauge)
            for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics}


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_push_when_kafka_subscribes_then_its_plugin_gets_the_producers_numbers_and_is_told_the_end(
        kafka: KafkaServer, folder: Path, codec: str) -> None:
    name = f"app-{codec}"

    def pushes(kind: str) -> list[Path]:
        return sorted(path for path in folder.iterdir() if path.name.split()[2:] == [name, kind])

    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": name,
                        "compression.type": codec}) as producer:
        for _ in range(3):
            producer.send("orders", b"v").result(GIVE_UP_S)
        first = until(lambda: pushes("on"))[0]
        given = base64.urlsafe_b64encode(producer.client_instance_id(GIVE_UP_S).bytes).decode().rstrip("=")
        producer.send("orders", b"v").result(GIVE_UP_S)
    (last,) = until(lambda: pushes("last"))
    assert [path.name.split()[1] for path in (first, last)] == [given] * 2
    told = [read(path) for path in (*pushes("on"), last)]
    assert sum(point.as_double for push in told if SENT in push for point in push[SENT].data_points) == 4
    assert all(name.startswith("org.apache.kafka.producer.") for push in told for name in push)
