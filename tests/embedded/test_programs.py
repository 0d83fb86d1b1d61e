"""Programs of other clients' users, rewritten (programs/), do what they did; docs/migration.md tells what changed."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyproducer import KafkaError, KafkaProducer, RecordMetadata
from pyproducer.broker import EmbeddedBroker
from tests.embedded.programs import of_aiokafka, of_confluent_kafka, of_kafka_python
from tests.support.patience import GIVE_UP_S
from tests.support.process_life import Program

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "orders"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={TOPIC: 3}) as broker:
        yield broker


@pytest.fixture
def servers(broker: EmbeddedBroker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def values(broker: EmbeddedBroker) -> Callable[[], list[bytes]]:
    return lambda: sorted(record.value for record in broker.records(TOPIC))


def test_delivery_reports(servers: str, values: Callable[[], list[bytes]]) -> None:
    reports: list[str] = []
    of_confluent_kafka.delivery_reports(servers, TOPIC, [f"line {number}" for number in range(30)], reports.append)
    assert len(reports) == 30
    assert all(report.startswith("orders [") for report in reports)
    assert values() == sorted(b"line %d" % number for number in range(30))


def test_back_pressure(servers: str, values: Callable[[], list[bytes]]) -> None:
    of_confluent_kafka.back_pressure(servers, TOPIC, [b"%03d" % number + b"." * 20_000 for number in range(50)])
    assert [int(value[:3]) for value in values()] == list(range(50))


def test_json_objects(broker: EmbeddedBroker, servers: str) -> None:
    of_confluent_kafka.json_objects(servers, TOPIC, {"1": of_confluent_kafka.User("Ann", 7)})
    (record,) = broker.records(TOPIC)
    assert (record.key, json.loads(record.value)) == (b"1", {"name": "Ann", "favorite_number": 7})


def test_headers_of_text(broker: EmbeddedBroker, servers: str) -> None:
    assert of_confluent_kafka.headers_of_text(servers, TOPIC, "4711").offset == 0
    assert [tuple(header) for header in broker.records(TOPIC)[0].headers] == [("trace", b"4711")]


def test_safe_settings(servers: str, values: Callable[[], list[bytes]]) -> None:
    assert of_confluent_kafka.safe_settings(servers, TOPIC, b"v")["record-send-total"] == 1
    assert values() == [b"v"]


def test_event_writer(servers: str) -> None:
    writer = of_confluent_kafka.EventWriter(servers, TOPIC)
    try:
        for number in range(10):
            writer.write({"id": number})
    finally:
        writer.close()
    assert writer.states == dict.fromkeys(range(10), "stored")


def test_wait_for_each(servers: str) -> None:
    assert of_kafka_python.wait_for_each(servers, TOPIC).offset == 0


def test_json_values(broker: EmbeddedBroker, servers: str) -> None:
    of_kafka_python.json_values(servers, TOPIC, [{"id": "a", "n": 1}, {"id": "b", "n": 2}])
    assert {record.key: json.loads(record.value)["n"] for record in broker.records(TOPIC)} == {b"a": 1, b"b": 2}


def test_callbacks_with_partial(servers: str) -> None:
    paid: dict[int, RecordMetadata] = {}
    failed: dict[int, KafkaError] = {}
    of_kafka_python.callbacks_with_partial(servers, TOPIC, range(10), paid.__setitem__, failed.__setitem__)
    assert sorted(paid) == list(range(10))
    assert not failed
    of_kafka_python.callbacks_with_partial(servers, "no/topic", [3], paid.__setitem__, failed.__setitem__)
    assert sorted(failed) == [3]


def test_custom_partitioner(servers: str) -> None:
    assert of_kafka_python.custom_partitioner(servers, TOPIC, [b"\x00", b"\x01", b"\x05"]) == [0, 1, 2]


def test_web_app(servers: str, values: Callable[[], list[bytes]]) -> None:
    app = of_kafka_python.WebApp(servers, TOPIC)
    serving = threading.Thread(target=app.server.serve_forever)
    serving.start()
    url = f"http://127.0.0.1:{app.server.server_address[1]}/"

    def post(number: int) -> int:
        with urllib.request.urlopen(url, b"%d" % number, GIVE_UP_S) as answer:
            return json.load(answer)["offset"]  # type: ignore[no-any-return]

    try:
        with ThreadPoolExecutor(8) as pool:
            assert min(pool.map(post, range(40))) == 0
    finally:
        app.server.shutdown()
        serving.join()
        app.close()
    assert values() == sorted(b"%d" % number for number in range(40))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_prefork() -> None:
    with EmbeddedBroker(topics={TOPIC: 3}, separate_process=True) as broker:
        of_kafka_python.prefork(broker.bootstrap_servers, TOPIC, 3)
        found = sorted(record.value for record in broker.records(TOPIC))
    assert found == [b"parent", b"parent again", b"worker 0", b"worker 1", b"worker 2"]


def test_service_that_is_told_to_end(servers: str, values: Callable[[], list[bytes]]) -> None:
    with Program(of_kafka_python.SERVICE, servers, TOPIC) as service:
        assert service.line() == "sent"
        service.kill(signal.SIGTERM)
        assert service.line() == "1000"
        assert service.wait() == 0
    assert len(values()) == 1000


def run(program: Any) -> Any:
    return asyncio.run(asyncio.wait_for(program, GIVE_UP_S))


def test_send_and_wait(servers: str) -> None:
    assert run(of_aiokafka.send_and_wait(servers, TOPIC)).offset == 0


def test_gather(servers: str, values: Callable[[], list[bytes]]) -> None:
    assert len(run(of_aiokafka.gather(servers, TOPIC, 200))) == 200
    assert values() == sorted(b"%d" % number for number in range(200))


def test_fire_and_look_later(servers: str) -> None:
    assert run(of_aiokafka.fire_and_look_later(servers, TOPIC, [b"v"] * 100)) == 100


def test_batch_by_hand(broker: EmbeddedBroker, servers: str) -> None:
    assert run(of_aiokafka.batch_by_hand(servers, TOPIC, [b"a", b"b", b"c"])) == 0
    assert [(record.partition, record.value) for record in broker.records(TOPIC)] == [(1, b"a"), (1, b"b"), (1, b"c")]


def test_lifespan_app(servers: str, values: Callable[[], list[bytes]]) -> None:
    async def serve() -> list[Any]:
        app, told = of_aiokafka.LifespanApp(servers, TOPIC), list[Any]()
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        started = asyncio.Event()

        async def on_life(message: dict[str, Any]) -> None:
            told.append(message["type"])
            started.set()

        life = asyncio.create_task(app({"type": "lifespan"}, events.get, on_life))
        events.put_nowait({"type": "lifespan.startup"})
        await started.wait()

        async def request(body: bytes) -> None:
            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": body}

            async def send(message: dict[str, Any]) -> None:
                told.append(message.get("status"))

            await app({"type": "http", "path": "/orders"}, receive, send)

        await asyncio.gather(*(request(b"%d" % number) for number in range(5)))
        events.put_nowait({"type": "lifespan.shutdown"})
        await life
        return told

    told = run(serve())
    assert (told[0], told[-1]) == ("lifespan.startup.complete", "lifespan.shutdown.complete")
    assert told.count(200) == 5
    assert values() == [b"0", b"1", b"2", b"3", b"4"]


def test_beside_other_work(servers: str, values: Callable[[], list[bytes]]) -> None:
    async def feed() -> int:
        events: asyncio.Queue[bytes | None] = asyncio.Queue()
        for event in (b"a", b"b", None):
            events.put_nowait(event)
        return await of_aiokafka.beside_other_work(servers, TOPIC, events)

    assert run(feed()) == 2
    assert values() == [b"a", b"b"]


def test_fixture_in_a_users_test(kafka_broker: EmbeddedBroker) -> None:
    """A test of a user's own; with the others it needed a container, or a mock of the client."""
    kafka_broker.create_topic(TOPIC, 1)
    with KafkaProducer({"bootstrap.servers": kafka_broker.bootstrap_servers}) as producer:
        producer.send(TOPIC, b"paid")
    assert [record.value for record in kafka_broker.records(TOPIC)] == [b"paid"]


def test_migration_page_when_a_program_is_added_then_it_is_told_there() -> None:
    told = (ROOT / "docs" / "migration.md").read_text(encoding="ascii")
    for module in (of_confluent_kafka, of_kafka_python, of_aiokafka):
        assert f"tests/embedded/programs/{os.path.basename(inspect.getfile(module))}" in told
        for name, program in vars(module).items():
            if getattr(program, "__module__", None) == module.__name__ and "    " in (program.__doc__ or ""):
                assert f"`{name}`" in told, f"docs/migration.md does not tell of {name}"
