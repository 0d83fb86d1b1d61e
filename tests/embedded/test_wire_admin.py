"""Admin requests, byte by byte: against our broker, and against Apache Kafka where KAFKA_REFERENCE=host:port is set."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.decompression import CODEC_IDS
from tests.embedded.conftest import WireTarget
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import (
    RawClient,
    fetch_body,
    fetched,
    list_offsets_body,
    metadata_body,
    produce_body,
    produced,
)

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC, DYNAMIC_DEFAULT_BROKER, DEFAULT = 1, 3, 5


def create_partitions(client: RawClient, *topics: tuple[str, int, list[list[int]] | None], version: int = 3,
                      validate_only: bool = False) -> list[tuple[int, str | None]]:
    answer = client.request(ApiKeys.CREATE_PARTITIONS, version, {
        "timeout_ms": 5000, "validate_only": validate_only, "topics": [
            {"name": name, "count": count, "assignments": None if assignments is None else [
                {"broker_ids": broker_ids} for broker_ids in assignments]} for name, count, assignments in topics]})
    return [(result["error_code"], result["error_message"]) for result in answer["results"]]


def partition_count(client: RawClient, topic: str) -> int:
    return len(client.request(ApiKeys.METADATA, 12, metadata_body(topic))["topics"][0]["partitions"])


def eventually(check: Callable[[], bool], *, within_s: float = GIVE_UP_S) -> None:
    """Kafka's brokers learn of a change a moment after the controller said yes."""
    deadline = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_create_partitions_grows_a_topic_and_says_why_not(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        assert create_partitions(client, (topic, 3, None)) == [
            (ErrorCode.INVALID_PARTITIONS, "Topic already has 3 partition(s).")]
        for count in (2, 0, -1):
            assert create_partitions(client, (topic, count, None)) == [(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic} currently has 3 partition(s); {count} would not be an increase.")]
        assert create_partitions(client, (topic, 4, []), version=0) == [(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.")]
        for broker_ids in ([], [1, 1], [99]):
            assert create_partitions(client, (topic, 4, [broker_ids]))[0][0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert create_partitions(client, ("no-such-topic", 4, None), version=1) == [
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)]
        assert create_partitions(client, (topic, 4, None), (topic, 5, None), version=2) == [
            (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")]
        assert create_partitions(client, (topic, 4, None), validate_only=True) == [(0, None)]
        assert partition_count(client, topic) == 3
        assert create_partitions(client, (topic, 5, None)) == [(0, None)]
        eventually(lambda: partition_count(client, topic) == 5)
    eventually(lambda: wire.end_offset(topic, 4) == 0)


def fill(client: RawClient, topic: str, batches: int = 10) -> None:
    now_ms = int(time.time() * 1000)
    for number in range(batches):
        batch = build_batch([(now_ms + number, b"k", b"%d" % number, ())] * 3)
        assert produced(client.request(ApiKeys.PRODUCE, 9, produce_body(topic, 0, batch)))["error_code"] == 0


def delete_records(client: RawClient, topic: str, partition: int, offset: int, version: int = 2) -> tuple[int, int]:
    answer = client.request(ApiKeys.DELETE_RECORDS, version, {"timeout_ms": 5000, "topics": [
        {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]})
    found = answer["topics"][0]["partitions"][0]
    return found["error_code"], found["low_watermark"]


def test_delete_records_moves_the_start_and_never_back(wire: WireTarget, topic: str) -> None:
    def start() -> int:
        answer = client.request(ApiKeys.LIST_OFFSETS, 1, list_offsets_body(topic, 0, -2))
        offset: int = answer["topics"][0]["partitions"][0]["offset"]
        return offset

    with wire.connect() as client:
        fill(client, topic)
        assert delete_records(client, topic, 0, 5) == (0, 5)
        assert start() == 5
        assert delete_records(client, topic, 0, 3, version=1) == (0, 5)
        for offset in (31, -2):
            assert delete_records(client, topic, 0, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert delete_records(client, topic, 0, 7) == (0, 7)
        twice = client.request(ApiKeys.DELETE_RECORDS, 2, {"timeout_ms": 5000, "topics": [
            {"name": topic, "partitions": [{"partition_index": 0, "offset": offset} for offset in (20, 8)]}]})
        assert [(found["error_code"], found["low_watermark"]) for found in twice["topics"][0]["partitions"]] == [(0, 8)]
        assert delete_records(client, topic, 0, -1, version=0) == (0, 30)
        assert (start(), wire.end_offset(topic)) == (30, 30)
        assert delete_records(client, topic, 9, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert delete_records(client, "no-such-topic", 0, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_delete_records_is_refused_where_nothing_is_deleted(wire: WireTarget, topic_name: str) -> None:
    wire.create_topic(topic_name, 1, {"cleanup.policy": "compact"})
    with wire.connect() as client:
        fill(client, topic_name)
        assert delete_records(client, topic_name, 0, 5) == (ErrorCode.POLICY_VIOLATION, -1)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_offset_for_leader_epoch_tells_where_an_epoch_ends(wire: WireTarget, topic: str, version: int) -> None:
    def ask(name: str, partition: int, current_leader_epoch: int, leader_epoch: int) -> tuple[int, int, int]:
        answer = client.request(ApiKeys.OFFSET_FOR_LEADER_EPOCH, version, {
            **({"replica_id": -1} if version >= 3 else {}), "topics": [{"topic": name, "partitions": [
                {"partition": partition, "current_leader_epoch": current_leader_epoch,
                 "leader_epoch": leader_epoch}]}]})
        found = answer["topics"][0]["partitions"][0]
        return found["error_code"], found["leader_epoch"], found["end_offset"]

    with wire.connect() as client:
        assert ask(topic, 0, -1, 0) == (0, 0, 0)
        fill(client, topic)
        assert ask(topic, 0, -1, 0) == (0, 0, 30)
        assert ask(topic, 0, 0, 0) == (0, 0, 30)
        assert ask(topic, 0, 1, 0) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
        assert ask(topic, 0, -2, 0) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
        for unknown in (5, -1):
            assert ask(topic, 0, -1, unknown) == (0, -1, -1)
        assert ask("no-such-topic", 0, 0, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
        assert ask(topic, 50, 0, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


def test_list_partition_reassignments_finds_none(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        for topics in (None, [{"name": topic, "partition_indexes": [0, 7]}, {"name": "no", "partition_indexes": [0]}]):
            answer = client.request(ApiKeys.LIST_PARTITION_REASSIGNMENTS, 0, {"timeout_ms": 5000, "topics": topics})
            assert (answer["error_code"], answer["error_message"], answer["topics"]) == (0, None, [])


def reassign(client: RawClient, name: str, *partitions: tuple[int, list[int] | None], version: int = 1,
             **fields: bool) -> list[tuple[int, str | None]]:
    answer = client.request(ApiKeys.ALTER_PARTITION_REASSIGNMENTS, version, {
        "timeout_ms": 5000, **fields, "topics": [{"name": name, "partitions": [
            {"partition_index": index, "replicas": replicas} for index, replicas in partitions]}]})
    assert answer["error_code"] == 0
    (topic,) = answer["responses"]
    return [(found["error_code"], found["error_message"]) for found in topic["partitions"]]


def test_alter_partition_reassignments_when_the_brokers_are_not_others_then_nothing_happens_and_faults_are_named(
        wire: WireTarget, topic: str) -> None:
    wrong, unknown = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assignment = "The manual partition assignment includes"
    with wire.connect() as client:
        assert reassign(client, topic, (0, [1]), (1, [1]), version=0) == [(0, None), (0, None)]
        assert reassign(client, topic, (0, None), (9, None)) == [
            (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None), (unknown, f"Unable to find partition {topic}:9.")]
        assert reassign(client, topic, (0, []), (1, [1, 1]), (2, [1, 7]), allow_replication_factor_change=False) == [
            (wrong, f"{assignment} an empty replica list."),
            (wrong, f"{assignment} the broker 1 more than once."),
            (wrong, f"{assignment} broker 7, but no such broker is registered.")]
        assert reassign(client, "no-such-topic", (0, [1])) == [(unknown, "Unable to find a topic named no-such-topic.")]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_elect_leaders_when_all_are_led_then_none_is_needed(wire: WireTarget, topic: str, version: int) -> None:
    def elect(topics: list[tuple[str, list[int]]] | None, kind: int) -> Struct:
        return client.request(ApiKeys.ELECT_LEADERS, version, {
            **({"election_type": kind} if version else {}), "timeout_ms": 5000,
            "topic_partitions": topics and [{"topic": name, "partitions": indexes} for name, indexes in topics]})

    def results(answer: Struct) -> dict[str, list[tuple[int, int, str | None]]]:
        return {found["topic"]: [(one["partition_id"], one["error_code"], one["error_message"])
                                 for one in found["partition_result"]] for found in answer["replica_election_results"]}

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with wire.connect() as client:
        for kind in (0, 1):
            assert results(elect([(topic, [0, 9]), ("no-such-topic", [0])], kind)) == {
                topic: [(0, ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
                        (9, unknown, f"No such partition as {topic}-9")],
                "no-such-topic": [(0, unknown, "No such topic as no-such-topic")]}
        assert results(elect(None, 0))[topic] == []  # of all, those that were not needed are not told
        if version:
            answer = elect([(topic, [0])], 5)
            assert answer["error_code"] == ErrorCode.INVALID_REQUEST
            assert results(answer) == {topic: [(0, ErrorCode.INVALID_REQUEST, "Unknown election type 5")]}


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_describe_log_dirs_tells_sizes(wire: WireTarget, topic: str, version: int) -> None:
    def describe(topics: list[tuple[str, list[int]]] | None) -> Struct:
        answer = client.request(ApiKeys.DESCRIBE_LOG_DIRS, version, {
            "topics": topics and [{"topic": name, "partitions": indexes} for name, indexes in topics]})
        (found,) = answer["results"]
        assert (answer.get("error_code", 0), found["error_code"]) == (0, 0)
        return found

    def sizes(found: Struct) -> dict[str, dict[int, int]]:
        return {one["name"]: {partition["partition_index"]: partition["partition_size"]
                              for partition in one["partitions"]} for one in found["topics"]}

    with wire.connect() as client:
        fill(client, topic, 2)
        found = describe([(topic, [0, 1, 9]), (topic, [1]), ("no-such-topic", [0])])
        size = sizes(found)[topic][0]
        assert sizes(found) == {topic: {0: size, 1: 0}}
        assert size > 100
        assert sizes(describe(None))[topic] == {0: size, 1: 0, 2: 0}
        if version >= 4:
            assert 0 < found["usable_bytes"] < found["total_bytes"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_quorum_has_one_voter(wire: WireTarget, version: int) -> None:
    def ask(*names: str) -> Any:
        answer = client.request(ApiKeys.DESCRIBE_QUORUM, version, {"topics": [
            {"topic_name": name, "partitions": [{"partition_index": 0}]} for name in names]})
        assert answer["error_code"] == 0
        return [topic["partitions"][0] for topic in answer["topics"]]

    with wire.connect() as client:
        (partition,) = ask("__cluster_metadata")
        assert (partition["error_code"], partition["leader_id"], partition["observers"]) == (0, 1, [])
        assert [voter["replica_id"] for voter in partition["current_voters"]] == [1]
        for names in (("elsewhere",), ("__cluster_metadata", "elsewhere")):
            assert {found["error_code"] for found in ask(*names)} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_list_config_resources_names_brokers_and_topics(wire: WireTarget, topic: str) -> None:
    def ask(*kinds: int) -> tuple[int, list[tuple[int, str]]]:
        answer = client.request(ApiKeys.LIST_CONFIG_RESOURCES, 1, {"resource_types": list(kinds)})
        return answer["error_code"], [(found["resource_type"], found["resource_name"])
                                      for found in answer["config_resources"]]

    with wire.connect() as client:
        assert client.request(ApiKeys.LIST_CONFIG_RESOURCES, 0, {})["config_resources"] == []
        for kinds in ((), (TOPIC, BROKER)):
            code, found = ask(*kinds)
            assert code == 0
            assert {(BROKER, "1"), (TOPIC, topic)} <= set(found)
        assert ask(BROKER) == (0, [(BROKER, "1")])
        for kinds in ((16,), (32,)):
            assert ask(*kinds) == (0, [])
        for kinds in ((1,), (BROKER, 99)):
            assert ask(*kinds) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_describe_topic_partitions_gives_pages(wire: WireTarget, topic: str) -> None:
    def ask(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Struct:
        return client.request(ApiKeys.DESCRIBE_TOPIC_PARTITIONS, 0, {
            "topics": [{"name": name} for name in names], "response_partition_limit": limit,
            "cursor": None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}})

    def indexes(answer: Struct) -> list[list[int]]:
        return [[partition["partition_index"] for partition in found["partitions"]] for found in answer["topics"]]

    def next_cursor(answer: Struct) -> tuple[str, int] | None:
        cursor = answer["next_cursor"]
        return None if cursor is None else (cursor["topic_name"], cursor["partition_index"])

    with wire.connect() as client:
        answer = ask(topic, "~wrong", "0-unknown", topic)
        assert [(found["name"], found["error_code"]) for found in answer["topics"]] == [
            ("0-unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (topic, 0),
            ("~wrong", ErrorCode.INVALID_TOPIC_EXCEPTION)]
        assert {found["topic_authorized_operations"] for found in answer["topics"]} == {3576}
        (partition, *_) = answer["topics"][1]["partitions"]
        assert [partition[name] for name in ("error_code", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes",
                                             "eligible_leader_replicas", "last_known_elr", "offline_replicas")] == [
            0, 1, 0, [1], [1], [], [], []]
        assert (indexes(answer)[1], next_cursor(answer)) == ([0, 1, 2], None)
        page = ask(topic, limit=2)
        assert (indexes(page), next_cursor(page)) == ([[0, 1]], (topic, 2))
        page = ask(topic, limit=2, cursor=(topic, 2))
        assert (indexes(page), next_cursor(page)) == ([[2]], None)
        page = ask(topic, limit=0)
        assert (indexes(page), next_cursor(page)) == ([[0]], (topic, 1))
        for cursor in (("zz-not-asked-for", 0), (topic, -1)):
            answer = ask(topic, cursor=cursor)
            assert [found["error_code"] for found in answer["topics"]] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_cluster_names_the_brokers(wire: WireTarget, version: int) -> None:
    def ask(endpoint_type: int = 1, **fields: Any) -> Struct:
        return client.request(ApiKeys.DESCRIBE_CLUSTER, version, {
            **({"endpoint_type": endpoint_type} if version else {}), "include_cluster_authorized_operations": False,
            **fields})

    with wire.connect() as client:
        answer = ask()
        assert (answer["error_code"], answer["controller_id"]) == (0, 1)
        (broker,) = answer["brokers"]
        assert (broker["broker_id"], broker["host"], broker["port"]) == (1, *wire.address)
        assert answer["cluster_authorized_operations"] == -2**31
        assert ask(include_cluster_authorized_operations=True)["cluster_authorized_operations"] == 8096
        if version:
            answer = ask(endpoint_type=2)
            assert (answer["error_code"], answer["error_message"]) == (
                ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
            answer = ask(endpoint_type=5)
            assert (answer["error_code"], answer["error_message"]) == (
                ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 5")


def test_sasl_on_a_plaintext_listener_is_an_illegal_state(wire: WireTarget) -> None:
    with wire.connect() as client:
        for version in (0, 1):
            answer = client.request(ApiKeys.SASL_HANDSHAKE, version, {"mechanism": "PLAIN"})
            assert (answer["error_code"], answer["mechanisms"]) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        answer = client.request(ApiKeys.SASL_AUTHENTICATE, 1, {"auth_bytes": b"x"})
        assert answer["error_code"] == ErrorCode.ILLEGAL_SASL_STATE
        assert answer["error_message"] == "SaslAuthenticate request received after successful authentication"


# ---- settings

def describe(client: RawClient, kind: int, name: str, keys: list[str] | None = None, *, version: int = 4,
             synonyms: bool = False, documentation: bool = False) -> Struct:
    body: dict[str, Any] = {"include_synonyms": synonyms, "resources": [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys}]}
    if version >= 3:
        body["include_documentation"] = documentation
    (result,) = client.request(ApiKeys.DESCRIBE_CONFIGS, version, body)["results"]
    assert (result["resource_type"], result["resource_name"]) == (kind, name)
    return result  # type: ignore[no-any-return]  # a Struct has any


def values(result: Struct) -> dict[str, tuple[str | None, int]]:
    assert result["error_code"] == 0
    return {config["name"]: (config["value"], config["config_source"]) for config in result["configs"]}


def alter(client: RawClient, kind: int, name: str, *configs: tuple[str, int, str | None], version: int = 1,
          validate_only: bool = False) -> tuple[int, str | None]:
    (answer,) = client.request(ApiKeys.INCREMENTAL_ALTER_CONFIGS, version, {
        "validate_only": validate_only, "resources": [{"resource_type": kind, "resource_name": name, "configs": [
            {"name": key, "config_operation": operation, "value": value} for key, operation, value in configs]}],
    })["responses"]
    assert (answer["resource_type"], answer["resource_name"]) == (kind, name)
    return answer["error_code"], answer["error_message"]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_describe_configs_of_a_topic(wire: WireTarget, topic_name: str, version: int) -> None:
    wire.create_topic(topic_name, 1, {"retention.ms": "1000000"})
    with wire.connect() as client:
        found = values(describe(client, TOPIC, topic_name, version=version))
        assert found["retention.ms"] == ("1000000", DYNAMIC_TOPIC)
        assert found["cleanup.policy"] == ("delete", DEFAULT)
        assert found["max.message.bytes"] == ("1048588", DEFAULT)
        assert found["min.cleanable.dirty.ratio"] == ("0.5", DEFAULT)
        assert values(describe(client, TOPIC, topic_name, ["retention.ms", "nope"], version=version)) == {
            "retention.ms": ("1000000", DYNAMIC_TOPIC)}
        assert len(values(describe(client, TOPIC, topic_name, [], version=version))) == len(found)
        result = describe(client, TOPIC, topic_name, ["retention.ms", "cleanup.policy", "max.message.bytes"],
                          version=version, synonyms=True, documentation=True)
        by_name = {config["name"]: config for config in result["configs"]}
        synonyms = [(synonym["name"], synonym["source"]) for synonym in by_name["retention.ms"]["synonyms"]]
        assert synonyms[0] == ("retention.ms", DYNAMIC_TOPIC)
        assert synonyms[-1][1] == DEFAULT
        assert [(synonym["name"], synonym["value"], synonym["source"])
                for synonym in by_name["max.message.bytes"]["synonyms"]] == [("message.max.bytes", "1048588", DEFAULT)]
        if version >= 3:
            assert {name: config["config_type"] for name, config in by_name.items()} == {
                "retention.ms": 5, "cleanup.policy": 7, "max.message.bytes": 3}
            assert all(config["documentation"] for config in by_name.values())
        unknown = describe(client, TOPIC, "no-such-topic", version=version)
        assert (unknown["error_code"], unknown["error_message"]) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        assert describe(client, TOPIC, "a/b", version=version)["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_describe_configs_of_a_broker(wire: WireTarget) -> None:
    with wire.connect() as client:
        result = describe(client, BROKER, "1", synonyms=True)
        by_name = {config["name"]: config for config in result["configs"]}
        assert by_name["message.max.bytes"]["read_only"] is False
        assert by_name["num.partitions"]["read_only"] is True
        password = by_name["ssl.key.password"]
        assert (password["value"], password["is_sensitive"], password["config_type"]) == (None, True, 9)
        assert by_name["auto.create.topics.enable"]["value"] in ("true", "false")
        for name, message in (("7", "Unexpected broker id, expected 1 or empty string, but received 7"),
                              ("x", "Broker id must be an integer, but it is: x")):
            result = describe(client, BROKER, name)
            assert (result["error_code"], result["error_message"]) == (ErrorCode.INVALID_REQUEST, message)
        assert describe(client, 99, "x")["error_code"] == ErrorCode.INVALID_REQUEST


def test_incremental_alter_configs_of_a_topic(wire: WireTarget, topic: str) -> None:
    def shows(name: str, value: str, source: int) -> None:
        eventually(lambda: values(describe(client, TOPIC, topic, [name])) == {name: (value, source)})

    with wire.connect() as client:
        assert alter(client, TOPIC, topic, ("retention.ms", SET, "5000000"), version=0) == (0, None)
        shows("retention.ms", "5000000", DYNAMIC_TOPIC)
        assert alter(client, TOPIC, topic, ("retention.ms", SET, "77"), validate_only=True) == (0, None)
        assert alter(client, TOPIC, topic, ("cleanup.policy", APPEND, "compact")) == (0, None)
        shows("cleanup.policy", "delete,compact", DYNAMIC_TOPIC)  # behind the default, which nobody had set
        assert alter(client, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
        shows("cleanup.policy", "compact", DYNAMIC_TOPIC)
        assert alter(client, TOPIC, topic, ("cleanup.policy", DELETE, None), ("no.such", DELETE, None)) == (0, None)
        shows("cleanup.policy", "delete", DEFAULT)
        shows("retention.ms", "5000000", DYNAMIC_TOPIC)
        assert alter(client, TOPIC, topic) == (0, None)


@pytest.mark.parametrize(("config", "error_code", "message"), [
    (("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG, "Invalid value x for configuration retention.ms: "),
    (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms"),
    (("no.such", SET, "1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
    (("cleanup.policy", APPEND, "bogus"), ErrorCode.INVALID_CONFIG, "Invalid value "),
    (("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG,
     "Can't APPEND to key retention.ms because its type is not LIST."),
    (("retention.ms", 9, "5"), ErrorCode.UNKNOWN_SERVER_ERROR, None),
    (("min.insync.replicas", SET, "0"), ErrorCode.INVALID_CONFIG, "Invalid value 0 for configuration min.insync."),
    (("segment.bytes", SET, "3"), ErrorCode.INVALID_CONFIG, "Invalid value 3 for configuration segment.bytes: "),
    (("compression.type", SET, "zstdx"), ErrorCode.INVALID_CONFIG, "Invalid value zstdx for configuration compression"),
])
def test_incremental_alter_configs_refuses(wire: WireTarget, topic: str, config: tuple[str, int, str | None],
                                           error_code: ErrorCode, message: str | None) -> None:
    with wire.connect() as client:
        answer = alter(client, TOPIC, topic, config)
        assert answer[0] == error_code
        assert answer[1] is None if message is None else str(answer[1]).startswith(message)


def test_incremental_alter_configs_refuses_resources(wire: WireTarget, topic: str) -> None:
    setting = ("retention.ms", SET, "77")
    with wire.connect() as client:
        assert alter(client, TOPIC, topic, setting, setting) == (
            ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        assert alter(client, TOPIC, "no-such-topic", setting) == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'no-such-topic' does not exist.")
        assert alter(client, TOPIC, "", setting) == (
            ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        assert alter(client, TOPIC, "a/b", setting)[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert alter(client, BROKER, "9", setting) == (
            ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 9")
        assert alter(client, BROKER, "1", ("num.partitions", SET, "3")) == (
            ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: Set(num.partitions)")
        assert alter(client, 99, "x", setting) == (ErrorCode.INVALID_REQUEST, "Unknown resource type 99")
        answer = client.request(ApiKeys.INCREMENTAL_ALTER_CONFIGS, 0, {"validate_only": False, "resources": [
            {"resource_type": TOPIC, "resource_name": topic, "configs": []}] * 2})
        assert [(found["error_code"], found["error_message"]) for found in answer["responses"]] == [
            (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")] * 2


def replace(client: RawClient, kind: int, name: str, *configs: tuple[str, str | None], version: int = 2,
            validate_only: bool = False) -> tuple[int, str | None]:
    (answer,) = client.request(ApiKeys.ALTER_CONFIGS, version, {"validate_only": validate_only, "resources": [
        {"resource_type": kind, "resource_name": name,
         "configs": [{"name": key, "value": value} for key, value in configs]}]})["responses"]
    assert (answer["resource_type"], answer["resource_name"]) == (kind, name)
    return answer["error_code"], answer["error_message"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_alter_configs_of_a_topic(wire: WireTarget, topic: str, version: int) -> None:
    def shows(**expected: tuple[str, int]) -> None:
        wanted = {name.replace("_", "."): value for name, value in expected.items()}
        eventually(lambda: values(describe(client, TOPIC, topic, list(wanted))) == wanted)

    with wire.connect() as client:
        assert replace(client, TOPIC, topic, ("retention.ms", "5000000"), ("cleanup.policy", "compact"),
                       version=version) == (0, None)
        shows(retention_ms=("5000000", DYNAMIC_TOPIC), cleanup_policy=("compact", DYNAMIC_TOPIC))
        assert replace(client, TOPIC, topic, version=version, validate_only=True) == (0, None)
        assert replace(client, TOPIC, topic, ("retention.ms", "6000000"), version=version) == (0, None)
        shows(retention_ms=("6000000", DYNAMIC_TOPIC), cleanup_policy=("delete", DEFAULT))
        assert replace(client, TOPIC, topic, version=version) == (0, None)
        eventually(lambda: values(describe(client, TOPIC, topic, ["retention.ms"]))["retention.ms"][1] != DYNAMIC_TOPIC)


def test_alter_configs_of_a_broker(wire: WireTarget) -> None:
    """It is left as it was found: other tests have the same cluster."""
    def is_altered(name: str) -> bool:
        return values(describe(client, BROKER, name)).get("message.max.bytes", ("", 0))[0] == "2000000"

    with wire.connect() as client:
        # For all brokers Apache Kafka has min.insync.replicas set, and lets nobody take that away.
        for name in ("1",) if wire.is_reference else ("1", ""):
            assert replace(client, BROKER, name, ("message.max.bytes", "2000000"), validate_only=True) == (0, None)
            assert not is_altered(name)
            assert replace(client, BROKER, name, ("message.max.bytes", "2000000")) == (0, None)
            eventually(partial(is_altered, name))
            assert replace(client, BROKER, name) == (0, None)
            eventually(lambda name=name: not is_altered(name))  # type: ignore[misc]


def test_alter_configs_refuses(wire: WireTarget, topic: str) -> None:
    setting = ("retention.ms", "77")
    with wire.connect() as client:
        assert alter(client, TOPIC, topic, ("retention.ms", SET, "5000000")) == (0, None)
        for validate_only in (True, False):
            error_code, message = replace(client, TOPIC, topic, ("retention.ms", "x"), validate_only=validate_only)
            assert error_code == ErrorCode.INVALID_CONFIG
            assert str(message).startswith("Invalid value x for configuration retention.ms: ")
            assert replace(client, TOPIC, topic, ("no.such", "1"), validate_only=validate_only) == (
                ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such")
        assert replace(client, TOPIC, topic, ("retention.ms", None)) == (
            ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms")
        assert replace(client, TOPIC, topic, setting, setting) == (
            ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        assert replace(client, TOPIC, "no-such-topic", setting) == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'no-such-topic' does not exist.")
        assert replace(client, TOPIC, "", setting) == (
            ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        assert replace(client, TOPIC, "a/b", setting)[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert replace(client, BROKER, "9", setting) == (
            ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 9")
        assert replace(client, BROKER, "1", ("num.partitions", "3")) == (
            ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: Set(num.partitions)")
        for kind in (8, 99):
            assert replace(client, kind, "1", setting) == (
                ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
        if not wire.is_reference:  # which never answers
            answer = client.request(ApiKeys.ALTER_CONFIGS, 0, {"validate_only": False, "resources": [
                {"resource_type": TOPIC, "resource_name": topic, "configs": []}] * 2})
            assert [(found["error_code"], found["error_message"]) for found in answer["responses"]] == [
                (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")] * 2
        assert values(describe(client, TOPIC, topic, ["retention.ms"])) == {
            "retention.ms": ("5000000", DYNAMIC_TOPIC)}


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_compression_type_of_a_topic_is_what_its_batches_are_stored_with(
        wire: WireTarget, topic_name: str, codec: str) -> None:
    wire.create_topic(topic_name, 1, {"compression.type": codec})
    now_ms = int(time.time() * 1000)
    sent = [(now_ms + number, b"k", b"%d" % number * 50, ()) for number in range(3)]
    with wire.connect() as client:
        for number, sent_with in enumerate(("none", "gzip", "lz4")):
            batch = build_batch(sent, compression=sent_with, producer_id=7, producer_epoch=0, base_sequence=3 * number)
            answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body(topic_name, 0, batch)))
            assert (answer["error_code"], answer["base_offset"]) == (0, 3 * number)
        answer = fetched(client.request(ApiKeys.FETCH, 11, fetch_body(11, topic_name, 0, 0)))
        batches = list(read_batches(answer["records"]))
    for number, batch in enumerate(batches):
        batch.ensure_valid()
        assert batch.codec_id == CODEC_IDS["none" if codec == "uncompressed" else codec]
        assert (batch.base_offset, batch.producer_id, batch.base_sequence) == (3 * number, 7, 3 * number)
        assert [(record.timestamp, record.key, record.value) for record in batch] == [
            (timestamp, key, value) for timestamp, key, value, _ in sent]
    assert len(batches) == 3


def test_incremental_alter_configs_of_all_brokers_changes_the_defaults_of_topics(
        wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        assert alter(client, BROKER, "", ("log.retention.bytes", SET, "3000000000")) == (0, None)
        try:
            eventually(lambda: values(describe(client, TOPIC, topic, ["retention.bytes"])) == {
                "retention.bytes": ("3000000000", DYNAMIC_DEFAULT_BROKER)})
            assert values(describe(client, BROKER, "", ["log.retention.bytes"])) == {
                "log.retention.bytes": ("3000000000", DYNAMIC_DEFAULT_BROKER)}
        finally:
            assert alter(client, BROKER, "", ("log.retention.bytes", DELETE, None)) == (0, None)
        eventually(lambda: values(describe(client, TOPIC, topic, ["retention.bytes"])) == {
            "retention.bytes": ("-1", DEFAULT)})


@pytest.mark.parametrize("name", ["", "1"])
def test_incremental_alter_configs_of_a_broker_when_it_only_validates_then_it_says_what_is_wrong_and_changes_nothing(
        wire: WireTarget, topic: str, name: str) -> None:
    """A tool that asked whether it might had changed the brokers' settings."""
    wrong = ("log.retention.bytes", SET, "x")
    with wire.connect() as client:
        before = values(describe(client, BROKER, "1", ["log.retention.bytes"]))
        assert alter(client, BROKER, name, ("log.retention.bytes", SET, "4000000000"), validate_only=True) == (0, None)
        for validate_only in (True, False):
            code, message = alter(client, BROKER, name, wrong, validate_only=validate_only)
            assert code == ErrorCode.INVALID_REQUEST, "40 is a topic's"
            assert str(message).startswith("Invalid value x for configuration log.retention.bytes: ")
        refused = alter(client, TOPIC, topic, ("retention.ms", SET, "x"), validate_only=True)
        assert refused[0] == ErrorCode.INVALID_CONFIG
        # What is set behind it is seen, and so what was set before it would be.
        assert alter(client, TOPIC, topic, ("retention.ms", SET, "5000000")) == (0, None)
        eventually(lambda: values(describe(client, TOPIC, topic, ["retention.ms"])) == {
            "retention.ms": ("5000000", DYNAMIC_TOPIC)})
        assert values(describe(client, BROKER, "1", ["log.retention.bytes"])) == before
