"""The broker that the wire tests talk to: ours, or Apache Kafka where KAFKA_REFERENCE=host:port is set."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, list_offsets_body, metadata_body
from tests.support.raw_transactions import RawTransactions


class WireTarget:
    """A broker to speak to byte by byte. Only what any broker can do: no look inside."""

    def __init__(self, address: tuple[str, int], *, is_reference: bool) -> None:
        self.address = address
        self.is_reference = is_reference

    def connect(self, *, timeout_s: float = GIVE_UP_S) -> RawClient:
        return RawClient(self.address, timeout_s=timeout_s)

    def create_topic(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        """Create a topic and wait until it has leaders."""
        with self.connect() as client:
            created = client.request(ApiKeys.CREATE_TOPICS, 7, {"timeout_ms": 10_000, "topics": [
                {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [],
                 "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()]}]})
            assert created["topics"][0]["error_code"] == 0, created
            deadline = time.monotonic() + GIVE_UP_S
            while not self._is_served(client, name, partitions):
                assert time.monotonic() < deadline, f"{name} has no leaders"
                time.sleep(0.02)
        return name

    def _is_served(self, client: RawClient, topic: str, partitions: int) -> bool:
        """Whether metadata and the leader itself know the topic; in Kafka the leader is the later one."""
        (found,) = client.request(ApiKeys.METADATA, 12, metadata_body(topic))["topics"]
        if found["error_code"] or any(partition["leader_id"] < 0 for partition in found["partitions"]):
            return False
        answers = [client.request(ApiKeys.LIST_OFFSETS, 1, list_offsets_body(topic, partition, -1))
                   for partition in range(partitions)]
        return all(answer["topics"][0]["partitions"][0]["error_code"] == 0 for answer in answers)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        with self.connect() as client:
            answer = client.request(ApiKeys.LIST_OFFSETS, 1, list_offsets_body(topic, partition, -1))
        offset: int = answer["topics"][0]["partitions"][0]["offset"]
        return offset

    def await_end_offset(self, expected: int, topic: str, partition: int = 0, *, within_s: float = GIVE_UP_S) -> None:
        deadline = time.monotonic() + within_s
        while (found := self.end_offset(topic, partition)) != expected:
            assert time.monotonic() < deadline, f"end offset {found}, expected {expected}"
            time.sleep(0.01)


@pytest.fixture(scope="session")
def wire() -> Iterator[WireTarget]:
    reference = os.environ.get("KAFKA_REFERENCE")
    if reference:
        host, _, port = reference.rpartition(":")
        yield WireTarget((host, int(port)), is_reference=True)
        return
    # In a process of its own: what it has open is not what a test left open.
    with EmbeddedBroker(separate_process=True) as broker:
        yield WireTarget(("127.0.0.1", broker.port), is_reference=False)


@pytest.fixture
def topic(wire: WireTarget, topic_name: str) -> str:
    """A topic of three partitions that no other test uses."""
    return wire.create_topic(topic_name, 3)


@pytest.fixture
def wire_client(wire: WireTarget) -> Iterator[RawClient]:
    with wire.connect() as connected:
        yield connected


@pytest.fixture
def begin(wire_client: RawClient, topic_name: str) -> Callable[..., RawTransactions]:
    """Initialize transactional ids that no other test uses; the arguments are those of `init`."""
    numbers = itertools.count()

    def begin_one(**fields: object) -> RawTransactions:
        transactions = RawTransactions(wire_client, f"{topic_name}-{next(numbers)}")
        transactions.find_coordinator()
        transactions.init(**fields)
        return transactions

    return begin_one


@pytest.fixture
def start_broker() -> Iterator[Callable[..., EmbeddedBroker]]:
    """Start brokers of one's own; they are stopped at the end of the test."""
    brokers: list[EmbeddedBroker] = []

    def start(**arguments: object) -> EmbeddedBroker:
        broker = EmbeddedBroker(**arguments)  # type: ignore[arg-type]  # passed on as given
        broker.start()
        brokers.append(broker)
        return broker

    yield start
    for broker in brokers:
        broker.stop()
