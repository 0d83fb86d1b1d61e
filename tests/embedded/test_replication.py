"""Several replicas of a partition, on the wire: who is in sync, who leads, what acks=all is told, and what is lost.

All from outside; what is decided is in unit/broker/cluster/test_replicas.py, the stories in test_stories.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import build_batch
from tests.support.raw_client import RawClient, fetch_body, fetched, list_offsets_body, metadata_body, produce_body

StartBroker = Callable[..., EmbeddedBroker]
THREE = {"default.replication.factor": 3, "min.insync.replicas": 2}
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NOT_LEADER, TOO_FEW, TOO_FEW_AFTER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS,
                                      ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def ask(broker: EmbeddedBroker, node_id: int, api_key: ApiKeys, version: int, body: dict[str, Any]) -> Any:
    host, port = broker.bootstrap_servers.split(",")[node_id - 1].split(":")
    with RawClient((host, int(port))) as client:
        return client.request(api_key, version, body)


def partition_of(broker: EmbeddedBroker, node_id: int, index: int = 0) -> tuple[Any, ...]:
    """Return code, leader, epoch, replicas, ISR and those that are offline, as a node tells them."""
    (topic,) = ask(broker, node_id, ApiKeys.METADATA, 12, metadata_body("orders"))["topics"]
    (found,) = (one for one in topic["partitions"] if one["partition_index"] == index)
    return (found["error_code"], found["leader_id"], found["leader_epoch"], list(found["replica_nodes"]),
            list(found["isr_nodes"]), list(found["offline_replicas"]))


def produce(broker: EmbeddedBroker, node_id: int, value: bytes = b"v", *, acks: int = -1, topic: str = "orders") -> int:
    batch = bytes(build_batch([(1, b"k", value, ())]))
    answer = ask(broker, node_id, ApiKeys.PRODUCE, 9, {**produce_body(topic, 0, batch), "acks": acks})
    code: int = answer["responses"][0]["partition_responses"][0]["error_code"]
    return code


def fetch(broker: EmbeddedBroker, node_id: int, *, offset: int = 0, version: int = 12, rack: str = "",
          **fields: Any) -> Any:
    body = fetch_body(version, "orders", 0, offset, **fields)
    if version >= 11:
        body["rack_id"] = rack
    return fetched(ask(broker, node_id, ApiKeys.FETCH, version, body))


def values(answer: Any) -> list[bytes | None]:
    return [record.value for batch in read_batches(bytes(answer["records"])) for record in batch]


def assigned(*rows: list[int]) -> list[dict[str, Any]]:
    return [{"partition_index": index, "broker_ids": broker_ids} for index, broker_ids in reversed([*enumerate(rows)])]


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(brokers=3, topics={"orders": 3}, config=THREE)


def test_topic_when_it_is_made_then_its_replicas_are_spread_and_told_by_every_node(broker: EmbeddedBroker) -> None:
    """A replication factor of 3 was answered, and became 1."""
    for node_id in (1, 2, 3):
        assert partition_of(broker, node_id) == (0, 1, 0, [1, 2, 3], [1, 2, 3], [])
        assert partition_of(broker, node_id, 2) == (0, 3, 0, [3, 1, 2], [3, 1, 2], [])
    made = ask(broker, 1, ApiKeys.CREATE_TOPICS, 7, {"timeout_ms": 1000, "topics": [
        {"name": name, "num_partitions": count, "replication_factor": factor, "configs": [], "assignments": rows}
        for name, count, factor, rows in (
            ("two", 2, 2, []), ("default", -1, -1, []), ("four", 1, 4, []),
            ("mine", -1, -1, assigned([3, 2], [1, 3])), ("uneven", -1, -1, assigned([1], [2, 3])),
            ("nobody", -1, -1, assigned([9])))]})["topics"]
    assert [(topic["error_code"], topic["replication_factor"]) for topic in made] == [
        (0, 2), (0, 3), (38, -1), (0, 2), (39, -1), (39, -1)]
    assert broker.describe_partition("two", 1) == (2, 0, (2, 3), (2, 3))
    assert broker.describe_partition("mine", 0) == (3, 0, (3, 2), (3, 2))
    assert broker.describe_partition("mine", 1) == (1, 0, (1, 3), (1, 3))
    grown = ask(broker, 1, ApiKeys.CREATE_PARTITIONS, 3, {"timeout_ms": 1000, "validate_only": False, "topics": [
        {"name": "two", "count": 3, "assignments": None},
        {"name": "mine", "count": 3, "assignments": [{"broker_ids": [2, 1]}]},
        {"name": "orders", "count": 4, "assignments": [{"broker_ids": [2, 1]}]}]})["results"]
    assert [topic["error_code"] for topic in grown] == [0, 0, 39]
    assert broker.describe_partition("two", 2) == (3, 0, (3, 1), (3, 1))
    assert broker.describe_partition("mine", 2) == (2, 0, (2, 1), (2, 1))
    assert broker.create_topic("one", replication_factor=1)
    assert broker.describe_partition("one", 0) == (1, 0, (1,), (1,))
    with pytest.raises(ConfigError, match="only 3 broker"):
        broker.create_topic("much", replication_factor=4)


def test_broker_when_it_dies_then_another_leads_and_acks_all_needs_min_insync_replicas(broker: EmbeddedBroker) -> None:
    """min.insync.replicas had no effect, and a partition whose leader died had none until it was back."""
    broker.stop_node(1, kill=True)
    assert partition_of(broker, 2) == (0, 2, 1, [1, 2, 3], [2, 3], [1])
    assert partition_of(broker, 2, 1) == (0, 2, 0, [2, 3, 1], [2, 3], [1]), "its leader lives, the epoch is the same"
    assert produce(broker, 2) == 0
    broker.stop_node(3)
    assert partition_of(broker, 2) == (0, 2, 1, [1, 2, 3], [2], [1, 3])
    assert produce(broker, 2) == TOO_FEW
    assert broker.log_end_offsets("orders")[0] == 1
    assert produce(broker, 2, acks=1) == 0
    broker.start_node(3)
    assert partition_of(broker, 3) == (0, 2, 1, [1, 2, 3], [2, 3], [1])
    assert produce(broker, 2) == 0
    assert values(fetch(broker, 2)) == [b"v"] * 3
    broker.start_node(1)
    assert partition_of(broker, 1) == (0, 2, 1, [1, 2, 3], [2, 3, 1], [])
    answer = ask(broker, 1, ApiKeys.ELECT_LEADERS, 2, {
        "election_type": 0, "timeout_ms": 1000, "topic_partitions": None})
    assert {topic["topic"]: [found["partition_id"] for found in topic["partition_result"]]
            for topic in answer["replica_election_results"] if topic["partition_result"]} == {"orders": [0, 2]}
    assert partition_of(broker, 1) == (0, 1, 2, [1, 2, 3], [2, 3, 1], [])


def test_last_in_sync_when_it_dies_then_nobody_leads_though_others_live(broker: EmbeddedBroker) -> None:
    broker.stop_following(2, "orders", 0)
    broker.stop_following(3, "orders", 0)
    assert partition_of(broker, 1) == (0, 1, 0, [1, 2, 3], [1], [])
    assert produce(broker, 1, b"alone", acks=1) == 0
    broker.stop_node(1)
    assert partition_of(broker, 2) == (5, -1, 1, [1, 2, 3], [1], [1])
    assert produce(broker, 2) == NOT_LEADER
    broker.start_node(1)
    assert partition_of(broker, 2)[:5] == (0, 1, 2, [1, 2, 3], [1])
    broker.resume_following(2)
    broker.resume_following(3)
    assert partition_of(broker, 2) == (0, 1, 2, [1, 2, 3], [1, 2, 3], [])
    assert values(fetch(broker, 1)) == [b"alone"]


@pytest.mark.parametrize("way", ["topic setting", "altered", "asked for"])
def test_election_when_it_is_unclean_then_what_the_new_leader_lacks_is_lost_and_can_be_found_out(
        start_broker: StartBroker, way: str) -> None:
    broker = start_broker(brokers=2, topics={"orders": 1}, config={"default.replication.factor": 2})
    configs = [{"name": "unclean.leader.election.enable", "config_operation": 0, "value": "true"}]
    alter = {"validate_only": False, "resources": [
        {"resource_type": 2, "resource_name": "orders", "configs": configs}]}
    if way == "topic setting":
        ask(broker, 2, ApiKeys.INCREMENTAL_ALTER_CONFIGS, 1, alter)
    assert produce(broker, 1, b"both") == 0
    broker.stop_following(2)
    assert [produce(broker, 1, value, acks=1) for value in (b"lost", b"lost too")] == [0, 0]
    sizes = ask(broker, 2, ApiKeys.DESCRIBE_LOG_DIRS, 4, {"topics": [{"topic": "orders", "partitions": [0]}]})
    assert sizes["results"][0]["topics"][0]["partitions"][0]["offset_lag"] == 2
    broker.stop_node(1)
    if way == "altered":
        assert partition_of(broker, 2)[1] == -1
        ask(broker, 2, ApiKeys.INCREMENTAL_ALTER_CONFIGS, 1, alter)
    elif way == "asked for":
        answer = ask(broker, 2, ApiKeys.ELECT_LEADERS, 2, {
            "election_type": 1, "timeout_ms": 1000, "topic_partitions": [{"topic": "orders", "partitions": [0]}]})
        assert answer["replica_election_results"][0]["partition_result"][0]["error_code"] == 0
    epoch = 1 if way == "topic setting" else 2
    assert partition_of(broker, 2) == (0, 2, epoch, [1, 2], [2], [1])
    assert values(fetch(broker, 2)) == [b"both"]
    assert fetch(broker, 2, offset=3)["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert produce(broker, 2, b"after") == 0
    answer = ask(broker, 2, ApiKeys.OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": [
        {"topic": "orders", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]})
    found = answer["topics"][0]["partitions"][0]
    assert (found["leader_epoch"], found["end_offset"]) == (0, 1), "a consumer that has read to 3 learns so"
    broker.start_node(1)
    assert partition_of(broker, 1) == (0, 2, epoch, [1, 2], [2, 1], [])
    assert [record.value for record in broker.records("orders")] == [b"both", b"after"]


def test_replica_when_too_few_are_left_behind_an_append_then_20_is_told(
        broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    log = broker._running().state.topics.partition("orders", 0).log  # type: ignore[union-attr]  # in this process
    append = log.append

    def append_and_lose(*arguments: Any, **fields: Any) -> Any:
        result = append(*arguments, **fields)
        broker.stop_following(2, "orders")
        broker.stop_following(3, "orders", 0)
        return result

    broker.move_leader("orders", 1, 1)
    broker.move_leader("orders", 2, 1)
    monkeypatch.setattr(log, "append", append_and_lose)
    assert produce(broker, 1) == TOO_FEW_AFTER
    assert broker.log_end_offsets("orders")[0] == 1


def test_follower_when_a_consumer_reads_from_it_then_it_serves_what_it_has(broker: EmbeddedBroker) -> None:
    assert produce(broker, 1, b"old") == 0
    assert values(fetch(broker, 2)) == [b"old"]
    assert fetch(broker, 2, version=10)["error_code"] == NOT_LEADER, "older clients read from the leader alone"
    broker.stop_following(2, "orders", 0)
    assert produce(broker, 1, b"new") == 0
    found = fetch(broker, 2)
    assert (values(found), found["high_watermark"]) == ([b"old"], 1)
    assert fetch(broker, 2, offset=2)["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values(fetch(broker, 3)) == [b"old", b"new"]
    broker.resume_following(2, "orders", 0)
    assert values(fetch(broker, 2)) == [b"old", b"new"]
    answer = ask(broker, 2, ApiKeys.LIST_OFFSETS, 1, list_offsets_body("orders", 0, -1))
    assert answer["topics"][0]["partitions"][0]["error_code"] == NOT_LEADER, "only fetches go to followers"


def test_consumer_when_a_follower_is_in_its_rack_then_the_leader_sends_it_there(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=3, topics={"orders": 1}, config={**THREE, "replica.selector.class": RACK_AWARE},
                          node_config={node_id: {"broker.rack": f"r{node_id}"} for node_id in (1, 2, 3)})
    assert produce(broker, 1) == 0
    for rack, preferred in (("r1", -1), ("r2", 2), ("r3", 3), ("elsewhere", -1), ("", -1)):
        found = fetch(broker, 1, rack=rack)
        assert (found["preferred_read_replica"], bool(values(found))) == (preferred, preferred == -1)
    assert fetch(broker, 2, rack="r2")["preferred_read_replica"] == -1
    waiting = fetch(broker, 1, rack="r3", offset=1, max_wait_ms=600_000)
    assert waiting["preferred_read_replica"] == 3, "it does not wait to be sent there"
    broker.stop_following(2)
    assert fetch(broker, 1, rack="r2")["preferred_read_replica"] == -1, "it is not in sync"
    broker.stop_node(3)
    assert values(fetch(broker, 1, rack="r3")) == [b"v"]


def test_brokers_when_they_have_racks_then_replicas_are_in_different_ones(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=4, topics={"orders": 4}, config={"default.replication.factor": 2},
                          node_config={node_id: {"broker.rack": "ab"[node_id > 2]} for node_id in (1, 2, 3, 4)})
    for index in range(4):
        found = broker.describe_partition("orders", index)
        assert found is not None
        assert len({node_id > 2 for node_id in found.replicas}) == 2


def test_coordinator_when_its_node_dies_then_another_is_found_and_knows_the_group(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=3, topics={"orders": 1}, config=THREE)

    def coordinator() -> int:
        node_id = next(iter(broker.nodes()))
        found = ask(broker, node_id, ApiKeys.FIND_COORDINATOR, 3, {"key": "g", "key_type": 0})
        assert found["error_code"] == 0
        return int(found["node_id"])

    def commit(node_id: int, offset: int) -> int:
        answer = ask(broker, node_id, ApiKeys.OFFSET_COMMIT, 7, {
            "group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
            "topics": [{"name": "orders", "partitions": [
                {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1,
                 "committed_metadata": None}]}]})
        return int(answer["topics"][0]["partitions"][0]["error_code"])

    first = coordinator()
    assert commit(first, 5) == 0
    broker.stop_node(first)
    second = coordinator()
    assert second != first
    answer = ask(broker, second, ApiKeys.OFFSET_FETCH, 7, {
        "group_id": "g", "topics": None, "require_stable": False})
    assert answer["topics"][0]["partitions"][0]["committed_offset"] == 5
    assert commit(second, 6) == 0
    (third,) = set(broker.nodes()) - {second}
    broker.stop_node(third)
    assert commit(second, 7) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "__consumer_offsets has too few replicas in sync"
    broker.start_node(third)
    assert commit(second, 7) == 0


def test_partition_when_it_has_fewer_replicas_than_min_insync_replicas_then_all_of_them_are_enough(
        start_broker: StartBroker) -> None:
    """As topics and settings have it that were made for a cluster: Kafka stores the records, ours refused for ever."""
    broker = start_broker(topics={"orders": 1}, config={"min.insync.replicas": 2, "transaction.state.log.min.isr": 2})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"}) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"v")
    assert broker.log_end_offsets("orders") == {0: 2}


def test_transaction_when_too_few_replicas_are_in_sync_then_it_ends_when_they_are_again(
        start_broker: StartBroker) -> None:
    broker = start_broker(brokers=2, topics={"orders": 1}, config={
        "default.replication.factor": 2, "min.insync.replicas": 2})
    find = {"key": "t", "key_type": 1}
    node_id = int(ask(broker, 1, ApiKeys.FIND_COORDINATOR, 3, find)["node_id"])
    init = {"transactional_id": "t", "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    producer = ask(broker, node_id, ApiKeys.INIT_PRODUCER_ID, 4, init)
    ids = {"transactional_id": "t", **{name: producer[name] for name in ("producer_id", "producer_epoch")}}
    added = ask(broker, node_id, ApiKeys.ADD_PARTITIONS_TO_TXN, 3, {
        "v3_and_below_transactional_id": "t", "v3_and_below_producer_id": ids["producer_id"],
        "v3_and_below_producer_epoch": ids["producer_epoch"],
        "v3_and_below_topics": [{"name": "orders", "partitions": [0]}]})
    assert added["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"] == 0
    broker.stop_following(2, "orders", 0)
    assert ask(broker, node_id, ApiKeys.END_TXN, 3, {**ids, "committed": True})["error_code"] == 0
    assert broker.log_end_offsets("orders")[0] == 0, "its marker waits"
    broker.resume_following(2, "orders", 0)
    described = {"transactional_ids": ["t"]}
    while ask(broker, node_id, ApiKeys.DESCRIBE_TRANSACTIONS, 0, described)["transaction_states"][0][
            "transaction_state"] != "CompleteCommit":
        pass
    assert broker.log_end_offsets("orders")[0] == 1


def test_replicas_when_the_cluster_starts_again_then_they_are_those_of_before(
        start_broker: StartBroker, tmp_path: Any) -> None:
    first = start_broker(brokers=3, data_dir=tmp_path, topics={"orders": 2}, config=THREE)
    first.move_leader("orders", 1, 1)
    ask(first, 1, ApiKeys.ALTER_PARTITION_REASSIGNMENTS, 0, {"timeout_ms": 1000, "topics": [
        {"name": "orders", "partitions": [{"partition_index": 0, "replicas": [3, 1]}]}]})
    first.stop()
    again = start_broker(brokers=3, data_dir=tmp_path, config=THREE)
    assert again.describe_partition("orders", 0) == (3, 0, (3, 1), (3, 1))
    assert again.describe_partition("orders", 1) == (2, 1, (2, 3, 1), (2, 3, 1))
    again.stop()
    alone = start_broker(data_dir=tmp_path)
    assert alone.describe_partition("orders", 1) == (1, 1, (2, 3, 1), (1,))


def test_follower_when_it_leads_or_is_none_then_it_cannot_be_stalled(broker: EmbeddedBroker) -> None:
    broker.create_topic("alone", replication_factor=1)
    with pytest.raises(ConfigError, match="only a follower lags"):
        broker.stop_following(1, "orders", 0)
    with pytest.raises(ConfigError, match="has no replica"):
        broker.stop_following(2, "alone", 0)
    with pytest.raises(ConfigError, match="no such partition"):
        broker.stop_following(2, "orders", 9)
    with pytest.raises(ConfigError, match="there are 1, 2, 3"):
        broker.resume_following(4)
    with pytest.raises(ConfigError, match="of which topic"):
        broker.stop_following(2, partition=0)
