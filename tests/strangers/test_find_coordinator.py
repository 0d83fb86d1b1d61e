"""Clients ask any node for their coordinator, with a type and a key, and go to it."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.control.observations import LoggedRequest
from pyproducer.protocol.apis import ApiKeys
from tests.support.patience import GIVE_UP_S

GROUP, TRANSACTION = 0, 1


@pytest.fixture
def brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3, topics={"orders": 3}, separate_process=True, log_requests=True) as brokers:
        yield brokers


def asked(brokers: EmbeddedBroker) -> set[tuple[int, str]]:
    """Return type and key of every coordinator that was asked for; up to version 3 there is one key."""
    return {(request.body["key_type"], key) for request in brokers.requests(ApiKeys.FIND_COORDINATOR)
            for key in request.body.get("coordinator_keys") or [request.body["key"]]}


def nodes_of(requests: list[LoggedRequest]) -> set[int]:
    return {request.node_id for request in requests}


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_librdkafka_when_it_looks_for_a_transactions_coordinator_then_it_asks_with_type_1_and_its_id(
        brokers: EmbeddedBroker, node_id: int) -> None:
    brokers.move_coordinator("shop", node_id, key_type="transaction")
    brokers.clear_requests()
    producer = confluent_kafka.Producer({"bootstrap.servers": brokers.bootstrap_servers, "transactional.id": "shop"})
    producer.init_transactions(GIVE_UP_S)
    assert asked(brokers) == {(TRANSACTION, "shop")}
    assert nodes_of(brokers.requests(ApiKeys.INIT_PRODUCER_ID)) == {node_id}
    producer.begin_transaction()
    producer.produce("orders", b"v")
    moved = node_id % 3 + 1
    brokers.move_coordinator("shop", moved, key_type="transaction")
    producer.commit_transaction(GIVE_UP_S)
    assert moved in nodes_of(brokers.requests(ApiKeys.END_TXN)), "it has asked again"
    assert [record.value for record in brokers.records("orders")] == [b"v"]


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_librdkafka_when_it_looks_for_a_groups_coordinator_then_it_asks_with_type_0_and_the_group(
        brokers: EmbeddedBroker, node_id: int) -> None:
    brokers.move_coordinator("readers", node_id)
    brokers.clear_requests()
    consumer = confluent_kafka.Consumer({"bootstrap.servers": brokers.bootstrap_servers, "group.id": "readers"})
    try:
        consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 7)], asynchronous=False)
        assert asked(brokers) == {(GROUP, "readers")}
        assert nodes_of(brokers.requests(ApiKeys.OFFSET_COMMIT)) == {node_id}
    finally:
        consumer.close()
