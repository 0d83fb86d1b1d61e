"""FindCoordinator: who coordinates a group or a transactional id.

The tests that take `wire` run against Apache Kafka too, with KAFKA_REFERENCE=host:port.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.coordinator.partition_for import partition_for
from pyproducer.broker.cluster.listener import EndPoint
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.cluster.replicas import NO_LEADER, Leadership
from pyproducer.broker.control.in_process import InProcessCluster
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_writer import build_batch
from tests.embedded.conftest import WireTarget
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, list_offsets_body, metadata_body, produce_body, produced

GROUP, TRANSACTION = 0, 1
NO_NODE = (-1, "", -1)
INVALID_REQUEST_TEXT = ("This most likely occurs because of a request being malformed by the client library or the "
                        "message was sent to an incompatible broker. See the broker logs for more details.")
CONSUMER_OFFSETS, TRANSACTION_STATE = "__consumer_offsets", "__transaction_state"
StartBroker = Callable[..., EmbeddedBroker]


def body_of(version: int, key_type: int, *keys: str) -> dict[str, Any]:
    body: dict[str, Any] = {"coordinator_keys": list(keys)} if version >= 4 else {"key": keys[0]}
    return {**body, "key_type": key_type} if version >= 1 else body


def find(client: RawClient, version: int, key_type: int, *keys: str) -> list[Struct]:
    """Return one answer for each key, whatever the version."""
    response = client.request(ApiKeys.FIND_COORDINATOR, version, body_of(version, key_type, *keys))
    return list(response["coordinators"]) if version >= 4 else [response]


def node_of(answer: Struct) -> tuple[int, str, int]:
    return answer["node_id"], answer["host"], answer["port"]


def code_of(client: RawClient, key: str, key_type: int = GROUP) -> int:
    code: int = find(client, 3, key_type, key)[0]["error_code"]
    return code


def await_coordinator(client: RawClient, key: str, key_type: int) -> None:
    """Kafka makes the topic behind its first answer, which is 15."""
    deadline = time.monotonic() + GIVE_UP_S
    while code_of(client, key, key_type):
        assert time.monotonic() < deadline, f"no coordinator of {key}"
        time.sleep(0.05)


def state_of(broker: EmbeddedBroker) -> ClusterState:
    assert isinstance(broker._cluster, InProcessCluster)
    return broker._cluster.state


def connect(broker: EmbeddedBroker) -> RawClient:
    return RawClient(("127.0.0.1", broker.port))


# ---- versions, types, layout

@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
@pytest.mark.parametrize("version", range(7))
def test_find_when_it_is_asked_in_any_version_then_a_node_is_found(
        wire: WireTarget, version: int, key_type: int) -> None:
    key_type = key_type if version else GROUP
    with wire.connect() as client:
        await_coordinator(client, "g", key_type)
        (answer,) = find(client, version, key_type, "g")
    assert answer["error_code"] == 0
    assert node_of(answer)[1:] == wire.address
    if version >= 1:
        assert answer["error_message"] == ("NONE" if version < 4 else "")


@pytest.mark.parametrize(("version", "key_type"), [(1, 9), (3, 2), (3, 5), (4, 9), (6, 9)])
def test_find_when_the_key_type_is_unknown_then_invalid_request(wire: WireTarget, version: int, key_type: int) -> None:
    with wire.connect() as client:
        (answer,) = find(client, version, key_type, "g")
    assert (answer["error_code"], node_of(answer)) == (42, NO_NODE)
    assert answer["error_message"] == INVALID_REQUEST_TEXT


@pytest.mark.parametrize("version", [4, 5, 6])
def test_find_when_the_key_type_is_share_and_the_key_is_none_then_invalid_request(
        wire: WireTarget, version: int) -> None:
    with wire.connect() as client:
        (answer,) = find(client, version, 2, "g")
    assert (answer["error_code"], node_of(answer)) == (42, NO_NODE)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_find_when_many_keys_are_asked_then_they_are_answered_in_that_order(wire: WireTarget, version: int) -> None:
    with wire.connect() as client:
        await_coordinator(client, "g", GROUP)
        answers = find(client, version, GROUP, "g", "h", "g", "")
        nothing = client.request(ApiKeys.FIND_COORDINATOR, version, body_of(version, GROUP))
    assert [answer["key"] for answer in answers] == ["g", "h", "g", ""]
    assert {answer["error_code"] for answer in answers} == {0}
    assert list(nothing["coordinators"]) == []
    assert nothing["throttle_time_ms"] == 0


def test_find_when_it_is_of_version_0_then_there_is_neither_message_nor_throttle(wire: WireTarget) -> None:
    with wire.connect() as client:
        await_coordinator(client, "g", GROUP)
        (answer,) = find(client, 0, GROUP, "g")
    assert set(answer) == {"error_code", "node_id", "host", "port"}


# ---- authorization

def test_find_when_it_is_denied_then_nothing_else_is_looked_at_or_made(start_broker: StartBroker) -> None:
    broker = start_broker()
    asked = []

    def authorizer(context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        asked.append((str(context.principal), operation, resource_type, name))
        return not name.endswith("-secret")

    broker.set_authorizer(authorizer)
    with connect(broker) as client:
        (group,) = find(client, 3, GROUP, "g-secret")
        (transaction,) = find(client, 3, TRANSACTION, "t-secret")
        assert (group["error_code"], group["error_message"], node_of(group)) == (
            30, "Group authorization failed.", NO_NODE)
        assert (transaction["error_code"], transaction["error_message"], node_of(transaction)) == (
            53, "Transactional Id authorization failed.", NO_NODE)
        assert broker.topics() == {}, "a denied request creates no internal topic"
        answers = find(client, 4, GROUP, "g", "g-secret")
        assert [answer["error_code"] for answer in answers] == [0, 30]
    assert asked[0] == ("User:ANONYMOUS", AclOperation.DESCRIBE, ResourceType.GROUP, "g-secret")
    assert asked[1] == ("User:ANONYMOUS", AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "t-secret")


# ---- the partition of a key

@pytest.mark.parametrize("group_id", ["alpha", "beta", "gamma-group", "\u6d88\u8d39\u8005\u7ec4", "\U0001f600grp",
                                      "polygenelubricants", "Zz-9"])
def test_offsets_when_a_group_commits_then_they_are_in_the_partition_of_its_hash(
        wire: WireTarget, topic: str, group_id: str) -> None:
    with wire.connect() as client:
        await_coordinator(client, group_id, GROUP)
        (metadata,) = client.request(ApiKeys.METADATA, 12, metadata_body(CONSUMER_OFFSETS))["topics"]
        count = len(metadata["partitions"])
        deadline = time.monotonic() + GIVE_UP_S
        while commit(client, group_id, topic) in (14, 15, 16):  # Kafka loads the partition first
            assert time.monotonic() < deadline
            time.sleep(0.05)
        moved = set(range(count))
        for _ in range(3):  # a group of another test may be written to, too, but not each time
            before = end_offsets(client, count)
            assert commit(client, group_id, topic) == 0
            after = end_offsets(client, count)
            moved &= {index for index in range(count) if after[index] != before[index]}
    assert moved == {partition_for(group_id, count)}


def commit(client: RawClient, group_id: str, topic: str) -> int:
    answer = client.request(ApiKeys.OFFSET_COMMIT, 8, {
        "group_id": group_id, "generation_id_or_member_epoch": -1, "member_id": "", "topics": [
            {"name": topic, "partitions": [
                {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}]})
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def end_offsets(client: RawClient, count: int) -> list[int]:
    return [client.request(ApiKeys.LIST_OFFSETS, 1, list_offsets_body(CONSUMER_OFFSETS, index, -1))
            ["topics"][0]["partitions"][0]["offset"] for index in range(count)]


# ---- internal topics

@pytest.mark.parametrize(("key_type", "name", "compression_type"), [
    (GROUP, CONSUMER_OFFSETS, "producer"), (TRANSACTION, TRANSACTION_STATE, "uncompressed")])
def test_find_when_the_internal_topic_is_missing_then_it_is_made_with_kafkas_settings(
        start_broker: StartBroker, key_type: int, name: str, compression_type: str) -> None:
    broker = start_broker()
    expected = {"cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024),
                "compression.type": compression_type, **({} if name == CONSUMER_OFFSETS else {
                    "min.insync.replicas": "1", "unclean.leader.election.enable": "false"})}
    with connect(broker) as client:
        assert list(client.request(ApiKeys.METADATA, 12, {"topics": None})["topics"]) == []
        assert code_of(client, "k", key_type) == 0
        (found,) = client.request(ApiKeys.METADATA, 12, {"topics": None})["topics"]
        (described,) = client.request(ApiKeys.DESCRIBE_CONFIGS, 4, {"resources": [
            {"resource_type": 2, "resource_name": name, "configuration_keys": list(expected)}]})["results"]
    assert (found["name"], found["is_internal"], len(found["partitions"])) == (name, True, 50)
    lines = [json.loads(line) for line in (broker.data_dir / "cluster.jsonl").read_text().splitlines()]
    (entry,) = [line["topics"][name] for line in lines if name in line.get("topics", ())]
    assert entry["configs"] == expected
    assert {config["name"]: config["value"] for config in described["configs"]} == expected


def test_metadata_when_the_internal_topic_is_missing_then_it_is_not_made(start_broker: StartBroker) -> None:
    with connect(start_broker()) as client:
        (found,) = client.request(ApiKeys.METADATA, 12, metadata_body(CONSUMER_OFFSETS))["topics"]
    assert found["error_code"] == 3


def test_internal_topics_when_their_partitions_are_set_then_they_have_so_many(start_broker: StartBroker) -> None:
    broker = start_broker(config={"offsets.topic.num.partitions": 4, "transaction.state.log.num.partitions": 2})
    with connect(broker) as client:
        code_of(client, "g", GROUP)
        code_of(client, "t", TRANSACTION)
    assert broker.topics() == {CONSUMER_OFFSETS: 4, TRANSACTION_STATE: 2}


def test_produce_when_the_topic_is_internal_then_it_is_refused(wire: WireTarget) -> None:
    records = build_batch([(int(time.time() * 1000), b"k", b"v", ())])
    with wire.connect() as client:
        await_coordinator(client, "g", GROUP)
        answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body(CONSUMER_OFFSETS, 0, records)))
    assert (answer["error_code"], answer["base_offset"]) == (17, -1)


# ---- no coordinator

def assert_not_available(client: RawClient, key: str) -> None:
    (answer,) = find(client, 3, GROUP, key)
    assert (answer["error_code"], node_of(answer)) == (15, NO_NODE)
    assert answer["error_message"] == "The coordinator is not available."
    (answer,) = find(client, 4, GROUP, key)
    assert (answer["error_code"], answer["error_message"], node_of(answer)) == (15, "", NO_NODE)


def test_find_when_the_internal_topic_is_being_made_then_not_available_until_it_is_there(
        start_broker: StartBroker) -> None:
    with connect(start_broker(config={"internal.topic.creation.delay.ms": 3_600_000})) as client:
        assert_not_available(client, "g")
    broker = start_broker(config={"internal.topic.creation.delay.ms": 200})
    with connect(broker) as client:
        started = time.monotonic()
        assert code_of(client, "g", GROUP) == 15
        await_coordinator(client, "g", GROUP)
        assert time.monotonic() - started >= 0.19
        assert broker.topics() == {CONSUMER_OFFSETS: 50}


def test_find_when_brokers_are_fewer_than_replicas_then_not_available(start_broker: StartBroker) -> None:
    broker = start_broker(config={"offsets.topic.replication.factor": 3})
    with connect(broker) as client:
        assert_not_available(client, "g")
        assert_not_available(client, "g")
    assert broker.topics() == {}


def test_find_when_the_partition_has_no_living_leader_then_not_available(start_broker: StartBroker) -> None:
    broker = start_broker(config={"offsets.topic.num.partitions": 4})
    with connect(broker) as client:
        assert code_of(client, "alpha") == 0
        partition = state_of(broker).topics.partition(CONSUMER_OFFSETS, partition_for("alpha", 4))
        assert partition is not None
        for leader_id in (NO_LEADER, 2):
            partition.leadership = Leadership(leader_id, 1)
            assert_not_available(client, "alpha")
            assert code_of(client, "beta") == 0, "it lives in another partition"
        state_of(broker).brokers.register(
            BrokerInfo(2, {"PLAINTEXT": EndPoint("PLAINTEXT", "PLAINTEXT", "h", 9)}, None))
        (answer,) = find(client, 3, GROUP, "alpha")
        assert node_of(answer) == (2, "h", 9)


# ---- listeners

def test_find_when_there_are_listeners_then_the_address_is_that_of_the_one_asked_on(start_broker: StartBroker) -> None:
    broker = start_broker(config={"listeners": "A://127.0.0.1:0,B://127.0.0.1:0", "offsets.topic.num.partitions": 1,
                                  "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"})
    ports = {name: int(broker.bootstrap_servers_of(name).rpartition(":")[2]) for name in "AB"}
    for port in ports.values():
        with RawClient(("127.0.0.1", port)) as client:
            assert node_of(find(client, 3, GROUP, "g")[0]) == (1, "127.0.0.1", port)
    state = state_of(broker)
    state.brokers.register(BrokerInfo(2, {"A": EndPoint("A", "PLAINTEXT", "h", 9)}, None))
    partition = state.topics.partition(CONSUMER_OFFSETS, 0)
    assert partition is not None
    partition.leadership = Leadership(2, 1)
    with RawClient(("127.0.0.1", ports["A"])) as client:
        assert node_of(find(client, 3, GROUP, "g")[0]) == (2, "h", 9)
    with RawClient(("127.0.0.1", ports["B"])) as client:
        assert_not_available(client, "g")


# ---- what the log says

def test_find_when_it_is_answered_then_a_line_is_logged_with_response_correlation_id_and_client(
        start_broker: StartBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pyproducer.broker.apis.find_coordinator")
    with connect(start_broker()) as client:
        find(client, 3, GROUP, "g")
    (line,) = [record.getMessage() for record in caplog.records if "FindCoordinator" in record.getMessage()]
    assert line.startswith("Sending FindCoordinator response {")
    assert "'node_id': 1" in line
    assert line.endswith("for correlation id 1 to client probe.")
