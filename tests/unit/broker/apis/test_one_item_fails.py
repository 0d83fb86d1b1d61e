"""A request names many things; one that fails in a way that nobody expected must not take the others with it.

A batch in a codec whose package was missing made the whole Produce request fail with UNKNOWN_SERVER_ERROR, although
another partition of it was stored already: the client sent both again, and the stored one was there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyproducer.broker.apis import fetch, find_coordinator
from pyproducer.broker.apis.kafka_apis import KafkaApis
from pyproducer.broker.apis.services import Outcome
from pyproducer.broker.cluster.cluster_file import LinesFile
from pyproducer.broker.cluster.coordinator.group.coordinator import GroupCoordinator
from pyproducer.broker.cluster.coordinator.transaction.coordinator import TransactionCoordinator
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.cluster.replicas import NO_LEADER, Leadership
from pyproducer.broker.cluster.standard_authorizer import StandardAuthorizer
from pyproducer.broker.cluster.topic_life import TopicLife
from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.broker.network.request_channel import Request, RequestChannel, StartThrottlingResponse
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import SchemaError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.broker_request import broker_request
from tests.support.raw_client import fetch_body, produce_body
from tests.unit.broker.apis.stage import ApiStage

BATCH = bytes(build_batch([(1_700_000_000_000, b"k", b"v", ())]))
GOOD, BAD = "good", "bad"


class BugError(RuntimeError, ValueError, TypeError, LookupError, ArithmeticError):
    """Whatever kind of error is expected somewhere, a bug may raise one of it."""


class OtherError(Exception):
    """A bug may raise what nobody has thought of, too."""


BUGS = [BugError, OtherError]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    made.state.topic_life.create_topic("orders", 2, {})
    yield made
    made.close()


def break_for(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, is_bad: Callable[..., bool],
              error: Exception | None = None) -> None:
    """Let a method raise for some arguments; it is otherwise as it was."""
    original = getattr(owner, name)
    found = original.fget if isinstance(original, property) else original

    def broken(*arguments: Any, **more: Any) -> Any:
        if is_bad(*arguments, **more):
            raise error or BugError("a bug")
        return found(*arguments, **more)

    monkeypatch.setattr(owner, name, property(broken) if isinstance(original, property) else broken)


def partitions_body(**fields: Any) -> dict[str, Any]:
    return {"topics": [{"name": "orders", "partitions": [{"partition_index": index, **fields} for index in (0, 1)]}]}


def two_partitions() -> dict[str, Any]:
    body = produce_body("orders", 0, BATCH)
    body["topic_data"][0]["partition_data"].append({"index": 1, "records": BATCH})
    return body


def is_partition_1(partition: Partition, *_: object, **__: object) -> bool:
    return partition.topic_partition.partition == 1


class Case(NamedTuple):
    """An API asked for two things, the second of which fails, and where its answer has the two."""

    api_key: ApiKeys
    version: int
    body: dict[str, Any]
    answers: Callable[[Any], list[Any]]
    owner: type
    method: str
    is_bad: Callable[..., bool]


def of_bad(*arguments: Any, **_: Any) -> bool:
    return BAD in arguments


CASES = [
    Case(ApiKeys.PRODUCE, 9, two_partitions(), lambda answer: answer["responses"][0]["partition_responses"],
         Partition, "append", is_partition_1),
    Case(ApiKeys.FETCH, 12, {**fetch_body(12, "orders", 0, 0), "topics": [{"topic": "orders", "partitions": [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": 100} for index in (0, 1)]}]},
        lambda answer: answer["responses"][0]["partitions"], Partition, "check_leader", is_partition_1),
    Case(ApiKeys.LIST_OFFSETS, 6, {"replica_id": -1, "isolation_level": 0, **partitions_body(timestamp=-1)},
         lambda answer: answer["topics"][0]["partitions"], Partition, "check_leader", is_partition_1),
    Case(ApiKeys.METADATA, 9, {"topics": [{"name": GOOD}, {"name": BAD}], "allow_auto_topic_creation": True},
         lambda answer: answer["topics"], TopicLife, "create_topic", of_bad),
    Case(ApiKeys.CREATE_TOPICS, 5, {"timeout_ms": 1, "topics": [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        for name in (GOOD, BAD)]}, lambda answer: answer["topics"], TopicLife, "create_topic", of_bad),
    Case(ApiKeys.DELETE_TOPICS, 5, {"timeout_ms": 1, "topic_names": ["orders", "payments"]},
         lambda answer: answer["responses"], TopicLife, "delete_topic", lambda _, name, _id: name == "payments"),
    Case(ApiKeys.CREATE_PARTITIONS, 3, {"timeout_ms": 1, "validate_only": False, "topics": [
        {"name": name, "count": 3, "assignments": None} for name in ("orders", "payments")]},
        lambda answer: answer["results"], TopicLife, "create_partitions",
        lambda _, name, *_rest: name == "payments"),
    Case(ApiKeys.DELETE_RECORDS, 2, {"timeout_ms": 1, **partitions_body(offset=0)},
         lambda answer: answer["topics"][0]["partitions"], TopicTable, "partition",
         lambda _, topic, index: index == 1),
    Case(ApiKeys.ALTER_PARTITION_REASSIGNMENTS, 0, {"timeout_ms": 1, "topics": [{"name": "orders", "partitions": [
        {"partition_index": index, "replicas": [1]} for index in (0, 1)]}]},
        lambda answer: answer["responses"][0]["partitions"], TopicTable, "partition",
        lambda _, topic, index: index == 1),
    Case(ApiKeys.ELECT_LEADERS, 2, {"election_type": 0, "timeout_ms": 1, "topic_partitions": [
        {"topic": "orders", "partitions": [0, 1]}]},
        lambda answer: answer["replica_election_results"][0]["partition_result"], TopicTable, "partition",
        lambda _, topic, index: index == 1),
    Case(ApiKeys.DESCRIBE_PRODUCERS, 0, {"topics": [{"name": "orders", "partition_indexes": [0, 1]}]},
         lambda answer: answer["topics"][0]["partitions"], TopicTable, "partition",
         lambda _, topic, index: index == 1),
    Case(ApiKeys.OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": [{"topic": "orders", "partitions": [
        {"partition": index, "current_leader_epoch": -1, "leader_epoch": 0} for index in (0, 1)]}]},
        lambda answer: answer["topics"][0]["partitions"], Partition, "check_leader", is_partition_1),
    Case(ApiKeys.DESCRIBE_CONFIGS, 4, {"include_synonyms": False, "include_documentation": False, "resources": [
        {"resource_type": 2, "resource_name": name, "configuration_keys": None} for name in ("orders", "payments")]},
        lambda answer: answer["results"], TopicTable, "find", lambda _, name: name == "payments"),
    Case(ApiKeys.INCREMENTAL_ALTER_CONFIGS, 1, {"validate_only": False, "resources": [
        {"resource_type": 2, "resource_name": name, "configs": [
            {"name": "retention.ms", "config_operation": 0, "value": "1000"}]} for name in ("orders", "payments")]},
        lambda answer: answer["responses"], TopicLife, "alter_topic_configs",
        lambda _, name, altered: name == "payments"),
    Case(ApiKeys.ALTER_CONFIGS, 2, {"validate_only": False, "resources": [
        {"resource_type": 2, "resource_name": name, "configs": [{"name": "retention.ms", "value": "1000"}]}
        for name in ("orders", "payments")]},
        lambda answer: answer["responses"], TopicLife, "alter_topic_configs",
        lambda _, name, altered: name == "payments"),
    Case(ApiKeys.DESCRIBE_GROUPS, 5, {"groups": [GOOD, BAD], "include_authorized_operations": False},
         lambda answer: answer["groups"], GroupCoordinator, "describe", of_bad),
    Case(ApiKeys.DELETE_GROUPS, 2, {"groups_names": [GOOD, BAD]}, lambda answer: answer["results"],
         GroupCoordinator, "delete", of_bad),
    Case(ApiKeys.OFFSET_FETCH, 8, {"require_stable": False, "groups": [
        {"group_id": name, "topics": None} for name in (GOOD, BAD)]}, lambda answer: answer["groups"],
        GroupCoordinator, "fetch_offsets", of_bad),
    Case(ApiKeys.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [GOOD, BAD]},
         lambda answer: answer["transaction_states"], TransactionCoordinator, "describe", of_bad),
    Case(ApiKeys.ADD_PARTITIONS_TO_TXN, 4, {"transactions": [
        {"transactional_id": name, "producer_id": 1, "producer_epoch": 0, "verify_only": False,
         "topics": [{"name": "orders", "partitions": [0]}]} for name in (GOOD, BAD)]},
        lambda answer: [{"error_code": transaction["topic_results"][0]["results_by_partition"][0][
            "partition_error_code"]} for transaction in answer["results_by_transaction"]],
        TransactionCoordinator, "add_partitions", of_bad),
]


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.api_key.title)
def test_request_when_one_of_its_things_fails_unexpectedly_then_that_one_alone_is_answered_so(
        stage: ApiStage, monkeypatch: pytest.MonkeyPatch, case: Case, bug: type[Exception]) -> None:
    stage.state.topic_life.create_topic("payments", 1, {})
    for name in (GOOD, BAD):  # a coordinator for groups and transactions
        stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [name]})
        stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": [name]})
    undisturbed = case.answers(stage.ask(case.api_key, case.version, case.body)) if (
        case.method in ("append", "describe", "fetch_offsets", "check_leader", "partition", "add_partitions", "delete",
                        "find")) else None
    break_for(monkeypatch, case.owner, case.method, case.is_bad, bug("a bug"))
    good, bad = case.answers(stage.ask(case.api_key, case.version, case.body))
    assert bad["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert good["error_code"] == (0 if undisturbed is None else undisturbed[0]["error_code"])


def leaders_case(kind: ApiKeys) -> tuple[ApiKeys, int, dict[str, Any], Callable[[Any], Any]]:
    """Return a request about partition 0 of "orders", twenty times, and about 1 and 9, and where its answers are."""
    if kind is ApiKeys.ELECT_LEADERS:
        return kind, 2, {"election_type": 0, "timeout_ms": 1, "topic_partitions": [
            {"topic": "orders", "partitions": [*[0] * 20, 1, 9]}]}, (
            lambda answer: answer["replica_election_results"][0]["partition_result"])
    return kind, 0, {"timeout_ms": 1, "topics": [{"name": "orders", "partitions": [
        *({"partition_index": 0, "replicas": [2 - number % 2]} for number in range(20)),
        {"partition_index": 1, "replicas": [2]}, {"partition_index": 9, "replicas": [1]}]}]}, (
        lambda answer: answer["responses"][0]["partitions"])


@pytest.mark.parametrize("kind", [ApiKeys.ELECT_LEADERS, ApiKeys.ALTER_PARTITION_REASSIGNMENTS],
                         ids=lambda kind: kind.title)
@pytest.mark.parametrize("is_full", [False, True], ids=["written", "no space"])
def test_leaders_when_a_request_changes_many_then_they_are_written_once_or_none_is_changed(
        stage: ApiStage, monkeypatch: pytest.MonkeyPatch, kind: ApiKeys, is_full: bool) -> None:
    """One write for each would let a request that names a partition 50,000 times hold a handler for minutes."""
    stage.state.brokers.register(BrokerInfo(2, {}, None))
    nobody = TopicPartition("orders", 0), TopicPartition("orders", 1)
    stage.state.leaders.change_leaders(dict.fromkeys(nobody, NO_LEADER))
    before = [stage.state.topics.partition(*topic_partition).leadership for topic_partition in nobody]
    written = []

    def add(_file: LinesFile, _line: bytes) -> None:
        written.append(1)
        if is_full:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(LinesFile, "add", add)
    api_key, version, body, answers = leaders_case(kind)
    codes = [found["error_code"] for found in answers(stage.ask(api_key, version, body))]
    assert len(written) == 1
    code = ErrorCode.KAFKA_STORAGE_ERROR if is_full else ErrorCode.NONE
    assert codes[-2:] == [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    after = [stage.state.topics.partition(*topic_partition).leadership for topic_partition in nobody]
    assert (after == before) is is_full
    if not is_full:
        assert after[0].leader_epoch - before[0].leader_epoch in (0, 1)
        assert after[1] == Leadership(1 if kind is ApiKeys.ELECT_LEADERS else 2, before[1].leader_epoch + 1)


@pytest.mark.parametrize("bug", BUGS)
def test_find_coordinator_when_one_key_fails_then_the_others_are_found(
        stage: ApiStage, monkeypatch: pytest.MonkeyPatch, bug: type[Exception]) -> None:
    original = find_coordinator.partition_for

    def partition_for(key: str, count: int) -> int:
        if key == BAD:
            raise bug("a bug")
        return original(key, count)

    monkeypatch.setattr(find_coordinator, "partition_for", partition_for)
    answer = stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [GOOD, BAD]})
    assert [found["error_code"] for found in answer["coordinators"]] == [0, ErrorCode.UNKNOWN_SERVER_ERROR]


@pytest.mark.parametrize("api_key", [ApiKeys.PRODUCE, ApiKeys.CREATE_TOPICS, ApiKeys.METADATA],
                         ids=lambda api_key: api_key.title)
def test_request_when_the_disk_refuses_one_of_its_things_then_that_one_has_a_storage_error(
        stage: ApiStage, monkeypatch: pytest.MonkeyPatch, api_key: ApiKeys) -> None:
    (case,) = (case for case in CASES if case.api_key is api_key)
    break_for(monkeypatch, case.owner, case.method, case.is_bad, OSError(24, "Too many open files"))
    good, bad = case.answers(stage.ask(case.api_key, case.version, case.body))
    assert [good["error_code"], bad["error_code"]] == [0, ErrorCode.KAFKA_STORAGE_ERROR]


FULL = OSError(28, "No space left on device")


def of_users(*names: str) -> dict[str, Any]:
    return {"deletions": [], "upsertions": [
        {"name": name, "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"} for name in names]}


def of_rules(*names: str) -> dict[str, Any]:
    return {"creations": [
        {"resource_type": 2, "resource_name": name, "resource_pattern_type": 3, "principal": "User:a", "host": "*",
         "operation": 3, "permission_type": 3} for name in names]}


@pytest.mark.parametrize(("api_key", "version", "body", "refused"), [
    (ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, 0, of_users("alice", "", "bob"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    (ApiKeys.CREATE_ACLS, 3, of_rules("orders", "", "payments"), ErrorCode.INVALID_REQUEST)], ids=["users", "rules"])
def test_users_and_rules_when_the_disk_is_full_then_the_good_ones_have_a_storage_error_and_are_not_kept(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_key: ApiKeys, version: int, body: dict[str, Any],
        refused: ErrorCode) -> None:
    stage = ApiStage(tmp_path, {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS"})
    try:
        with monkeypatch.context() as full:
            break_for(full, LinesFile, "add", lambda *_: True, FULL)
            codes = [found["error_code"] for found in stage.ask(api_key, version, body)["results"]]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, refused, ErrorCode.KAFKA_STORAGE_ERROR]
        assert stage.state.scram_credentials.users == {}
        assert isinstance(stage.state.authorizer, StandardAuthorizer)
        assert list(stage.state.authorizer.acls) == []
        codes = [found["error_code"] for found in stage.ask(api_key, version, body)["results"]]
        assert codes == [0, refused, 0], "there is space again"
    finally:
        stage.close()


def test_delete_acls_when_the_disk_is_full_then_filters_that_mean_rules_have_a_storage_error_and_the_rules_stay(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = ApiStage(tmp_path, {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS"})
    body = {"filters": [
        {"resource_type_filter": 2, "resource_name_filter": name, "pattern_type_filter": 3, "principal_filter": None,
         "host_filter": None, "operation": 1, "permission_type": 1} for name in ("orders", "unknown", "payments")]}

    def delete() -> list[tuple[int, str | None, list[str]]]:
        return [(found["error_code"], found["error_message"], [acl["resource_name"] for acl in found["matching_acls"]])
                for found in stage.ask(ApiKeys.DELETE_ACLS, 3, body)["filter_results"]]

    try:
        stage.ask(ApiKeys.CREATE_ACLS, 3, of_rules("orders", "payments"))
        assert isinstance(stage.state.authorizer, StandardAuthorizer)
        before = list(stage.state.authorizer.acls)
        with monkeypatch.context() as full:
            break_for(full, LinesFile, "add", lambda *_: True, FULL)
            assert delete() == [
                (ErrorCode.KAFKA_STORAGE_ERROR, None, []), (0, None, []), (ErrorCode.KAFKA_STORAGE_ERROR, None, [])]
        assert list(stage.state.authorizer.acls) == before
        assert delete() == [(0, None, ["orders"]), (0, None, []), (0, None, ["payments"])], "there is space again"
        assert list(stage.state.authorizer.acls) == []
        with monkeypatch.context() as full:
            break_for(full, LinesFile, "add", lambda *_: True, FULL)
            assert delete() == [(0, None, [])] * 3, "nothing is left to be deleted, so nothing is written"
    finally:
        stage.close()


def test_log_dir_when_the_system_does_not_tell_its_room_then_it_has_a_storage_error_and_no_sizes(
        stage: ApiStage, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk_usage(_path: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("shutil.disk_usage", disk_usage)
    (found,) = stage.ask(ApiKeys.DESCRIBE_LOG_DIRS, 4, {"topics": None})["results"]
    assert (found["error_code"], found["topics"]) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


def test_produce_when_a_waiting_fetch_fails_then_the_batch_is_acknowledged_all_the_same(
        stage: ApiStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch was stored, and its producer told that it was not: it would send it again."""
    body = fetch_body(12, "orders", 0, 0, max_wait_ms=60_000)
    assert stage.ask(ApiKeys.FETCH, 12, body) is Outcome.LATER
    break_for(monkeypatch, fetch.FetchPass, "is_ready", lambda _: True)
    (stored,) = stage.ask(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))["responses"][0]["partition_responses"]
    assert (stored["error_code"], stored["base_offset"]) == (0, 0)
    assert len(stage.later) == 1, "the fetch is answered, whatever its look at the log said"


def test_answer_when_it_does_not_fit_its_schema_then_the_request_is_counted_and_throttled_once(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was to be throttled twice at once was closed."""
    channel = RequestChannel(10)
    throttles: list[object] = []
    sent: list[Any] = []

    def send_body(_request: Request, body: Any) -> None:
        if not sent:
            sent.append(body)
            raise SchemaError("it does not fit")
        sent.append(body)

    monkeypatch.setattr(channel, "send_body", send_body)
    monkeypatch.setattr(channel, "send_response", throttles.append)
    stage = ApiStage(tmp_path, {"quota.requests.per.second": 1})
    try:
        apis = KafkaApis(1, stage.state, channel, stage.state.clock)
        request = broker_request(ApiKeys.LIST_GROUPS, 4, {"states_filter": []})
        for _ in range(3):
            apis.handle(request)
    finally:
        stage.close()
    assert [(body["error_code"], body["throttle_time_ms"]) for body in sent] == [
        (0, 0), (ErrorCode.UNKNOWN_SERVER_ERROR, 0), (0, 1000), (0, 2000)]
    assert [type(response) for response in throttles] == [StartThrottlingResponse] * 2


def test_later_answer_when_it_does_not_fit_its_schema_then_the_request_that_completed_it_goes_on(
        stage: ApiStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is built on the thread of the append that completes it, which must be answered with its own outcome."""
    channel = RequestChannel(10)
    sent: list[Any] = []

    def send_body(_request: Request, body: Any) -> None:
        if "nonsense" in body:
            raise SchemaError("it does not fit")
        sent.append(body)

    monkeypatch.setattr(channel, "send_body", send_body)
    apis = KafkaApis(1, stage.state, channel, stage.state.clock)
    request = broker_request(ApiKeys.HEARTBEAT, 4, {
        "group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None})
    apis.services.respond(request, {"nonsense": 1})
    assert [body["error_code"] for body in sent] == [ErrorCode.UNKNOWN_SERVER_ERROR]
