"""Admin clients move partitions between brokers and ask who has them; what one broker says is in test_wire_admin.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def broker(start_broker: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    """Three brokers; partition i of "orders" is led by broker i + 1."""
    return start_broker(brokers=3, topics={"orders": 3})


def ask(broker: EmbeddedBroker, node_id: int, api_key: ApiKeys, version: int, body: dict[str, Any]) -> Any:
    host, port = broker.bootstrap_servers.split(",")[node_id - 1].split(":")
    with RawClient((host, int(port))) as client:
        return client.request(api_key, version, body)


def reassign(broker: EmbeddedBroker, replicas: list[int], **fields: bool) -> tuple[int, str | None]:
    answer = ask(broker, 1, ApiKeys.ALTER_PARTITION_REASSIGNMENTS, 1, {"timeout_ms": 5000, **fields, "topics": [
        {"name": "orders", "partitions": [{"partition_index": 0, "replicas": replicas}]}]})
    (found,) = answer["responses"][0]["partitions"]
    return found["error_code"], found["error_message"]


def elect(broker: EmbeddedBroker, kind: int, partition: int = 1) -> list[tuple[int, str | None]]:
    answer = ask(broker, 1, ApiKeys.ELECT_LEADERS, 2, {
        "election_type": kind, "timeout_ms": 5000, "topic_partitions": [
            {"topic": "orders", "partitions": [partition]}]})
    return [(found["error_code"], found["error_message"])
            for found in answer["replica_election_results"][0]["partition_result"]]


def placed(broker: EmbeddedBroker, node_id: int) -> list[int]:
    """Return the partitions of "orders" that a broker says it has."""
    answer = ask(broker, node_id, ApiKeys.DESCRIBE_LOG_DIRS, 4, {"topics": None})
    return [partition["partition_index"] for topic in answer["results"][0]["topics"] if topic["name"] == "orders"
            for partition in topic["partitions"]]


def test_partition_when_it_is_reassigned_then_the_new_broker_leads_it_and_has_it(broker: EmbeddedBroker) -> None:
    assert [placed(broker, node_id) for node_id in (1, 2, 3)] == [[0], [1], [2]]
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        assert producer.send("orders", b"before", partition=0).result(GIVE_UP_S).offset == 0
        assert reassign(broker, [3]) == (0, None)
        assert broker.leader_of("orders", 0) == (3, 1)
        assert producer.send("orders", b"after", partition=0).result(GIVE_UP_S).offset == 1
    assert [placed(broker, node_id) for node_id in (1, 2, 3)] == [[], [1], [0, 2]]
    assert [record.value for record in broker.records("orders")] == [b"before", b"after"]


def test_partition_when_its_broker_is_among_the_new_ones_then_it_stays(broker: EmbeddedBroker) -> None:
    assert reassign(broker, [2, 1]) == (0, None)
    assert broker.leader_of("orders", 0) == (1, 0)
    assert broker.describe_partition("orders", 0) == (1, 0, (2, 1), (1, 2))
    assert reassign(broker, [2, 1, 3], allow_replication_factor_change=False) == (
        ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 2 to 3")
    assert elect(broker, PREFERRED, 0) == [(0, None)]
    assert broker.describe_partition("orders", 0) == (2, 1, (2, 1), (1, 2))
    assert elect(broker, PREFERRED, 0) == [
        (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")]
    assert [placed(broker, node_id) for node_id in (1, 2, 3)] == [[0], [0, 1], [2]]


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_partition_when_nobody_leads_it_then_an_election_makes_its_broker_the_leader(
        broker: EmbeddedBroker, kind: int) -> None:
    broker.move_leader("orders", 1, None)
    assert elect(broker, kind) == [(0, None)]
    assert broker.leader_of("orders", 1) == (2, 2)


@pytest.mark.parametrize(("kind", "code", "message"), [
    (PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    (UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")])
def test_partition_when_its_broker_is_down_then_nobody_can_be_elected(
        broker: EmbeddedBroker, kind: int, code: ErrorCode, message: str) -> None:
    broker.stop_node(2)
    assert elect(broker, kind) == [(code, message)]


def test_quorum_when_there_are_three_brokers_then_two_observe(broker: EmbeddedBroker) -> None:
    answer = ask(broker, 2, ApiKeys.DESCRIBE_QUORUM, 2, {"topics": [
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]})
    (partition,) = answer["topics"][0]["partitions"]
    assert partition["leader_id"] == 1
    assert [state["replica_id"] for state in partition["observers"]] == [2, 3]
