"""Every API asks the authorizer, with Kafka's resource and operation, before it does or tells anything.

With an authorizer that denied everything, Produce, Fetch, Metadata with its creation of topics, CreateTopics and
DeleteTopics did what they were asked for: only groups and transactions asked. A new API without a row below fails here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyproducer.broker.apis.kafka_apis import HANDLERS
from pyproducer.broker.apis.services import Outcome
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.raw_client import fetch_body, list_offsets_body, metadata_body, produce_body
from tests.unit.broker.apis.stage import ApiStage

BATCH = bytes(build_batch([(1_700_000_000_000, b"k", b"v", ())]))
TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
Answers = Callable[[Any], Any]


def asked(words: str) -> tuple[str, str, str]:
    """Return a question, written as "WRITE TOPIC orders"."""
    operation, resource_type, name = words.split(" ")
    return operation, resource_type, name


class Case(NamedTuple):
    """A request, and what is answered when the authorizer says no to these questions and yes to all others."""

    version: int
    body: Mapping[str, Any]
    denials: Mapping[tuple[str, ...], ErrorCode]


def config_body(*resources: tuple[int, str], **fields: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name, **fields} for kind, name in resources]}


SET_RETENTION = {"configs": [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]}
IN_CLUSTER = "kafka-cluster"
GROUP_MEMBER = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
READ_GROUP = {("READ GROUP g",): GROUP}
ACL_FILTER = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
              "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
# What each API asks: requests, and the answer for each question that is denied. Java KafkaApis, ControllerApis (4.1).
ASKED: dict[ApiKeys, list[Case]] = {
    ApiKeys.PRODUCE: [
        Case(9, produce_body("orders", 0, BATCH), {("WRITE TOPIC orders",): TOPIC}),
        Case(9, produce_body("nowhere", 0, BATCH), {("WRITE TOPIC nowhere",): TOPIC}),
        Case(9, {**produce_body("orders", 0, bytes(build_batch(
            [(1_700_000_000_000, b"k", b"v", ())], is_transactional=True, producer_id=1, producer_epoch=0,
            base_sequence=0))), "transactional_id": "t"}, {("WRITE TRANSACTIONAL_ID t",): TRANSACTION})],
    ApiKeys.FETCH: [
        Case(12, fetch_body(12, "orders", 0, 0), {("READ TOPIC orders",): TOPIC}),
        Case(12, fetch_body(12, "nowhere", 0, 0), {("READ TOPIC nowhere",): TOPIC}),
        Case(12, {**fetch_body(12, "orders", 0, 0), "replica_id": 2}, {
            (f"CLUSTER_ACTION CLUSTER {IN_CLUSTER}",): TOPIC}),
        Case(15, {**fetch_body(15, uuid.UUID(int=1), 0, 0), "replica_state": {"replica_id": 2, "replica_epoch": 1}}, {
            (f"CLUSTER_ACTION CLUSTER {IN_CLUSTER}",): TOPIC})],
    ApiKeys.LIST_OFFSETS: [Case(1, list_offsets_body("orders", 0, -1), {("DESCRIBE TOPIC orders",): TOPIC})],
    ApiKeys.METADATA: [
        Case(9, metadata_body("orders"), {("DESCRIBE TOPIC orders",): TOPIC}),
        Case(9, {**metadata_body("new"), "allow_auto_topic_creation": True}, {
            ("DESCRIBE TOPIC new",): TOPIC, (f"CREATE CLUSTER {IN_CLUSTER}", "CREATE TOPIC new"): TOPIC})],
    ApiKeys.OFFSET_COMMIT: [Case(8, {
        "group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "topics": [
            {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1,
                                               "committed_leader_epoch": -1, "committed_metadata": ""}]}]},
        {("READ GROUP g",): GROUP, ("READ TOPIC orders",): TOPIC})],
    ApiKeys.OFFSET_FETCH: [
        Case(8, {"require_stable": False, "groups": [
            {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}]},
            {("DESCRIBE GROUP g",): GROUP, ("DESCRIBE TOPIC orders",): TOPIC}),
        Case(7, {"require_stable": False, "group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]},
             {("DESCRIBE GROUP g",): GROUP, ("DESCRIBE TOPIC orders",): TOPIC})],
    ApiKeys.FIND_COORDINATOR: [
        Case(4, {"key_type": 0, "coordinator_keys": ["g"]}, {("DESCRIBE GROUP g",): GROUP}),
        Case(4, {"key_type": 1, "coordinator_keys": ["t"]}, {("DESCRIBE TRANSACTIONAL_ID t",): TRANSACTION})],
    ApiKeys.JOIN_GROUP: [Case(7, {
        "group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "",
        "group_instance_id": None, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]},
        READ_GROUP)],
    ApiKeys.HEARTBEAT: [Case(4, GROUP_MEMBER, READ_GROUP)],
    ApiKeys.LEAVE_GROUP: [Case(4, {"group_id": "g", "members": [{"member_id": "m", "group_instance_id": None}]},
                               READ_GROUP)],
    ApiKeys.SYNC_GROUP: [Case(5, {**GROUP_MEMBER, "protocol_type": "consumer", "protocol_name": "range",
                                  "assignments": []}, READ_GROUP)],
    ApiKeys.DESCRIBE_GROUPS: [Case(5, {"groups": ["g"], "include_authorized_operations": False},
                                   {("DESCRIBE GROUP g",): GROUP})],
    ApiKeys.LIST_GROUPS: [Case(4, {"states_filter": []}, {})],  # leaves out: see below
    ApiKeys.DELETE_GROUPS: [Case(2, {"groups_names": ["g"]}, {("DELETE GROUP g",): GROUP})],
    ApiKeys.CREATE_TOPICS: [Case(5, {"timeout_ms": 1, "topics": [
        {"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}]}, {
            (f"CREATE CLUSTER {IN_CLUSTER}", "CREATE TOPIC new"): TOPIC,
            ("DESCRIBE_CONFIGS TOPIC new",): TOPIC})],
    ApiKeys.DELETE_TOPICS: [
        Case(5, {"timeout_ms": 1, "topic_names": ["orders"]}, {
            (f"DELETE CLUSTER {IN_CLUSTER}", "DELETE TOPIC orders"): TOPIC,
            (f"DELETE CLUSTER {IN_CLUSTER}", "DESCRIBE TOPIC orders"): TOPIC}),
        Case(5, {"timeout_ms": 1, "topic_names": ["nowhere"]}, {
            (f"DELETE CLUSTER {IN_CLUSTER}", "DESCRIBE TOPIC nowhere"): TOPIC})],
    ApiKeys.CREATE_PARTITIONS: [
        Case(3, {"timeout_ms": 1, "validate_only": False, "topics": [
            {"name": name, "count": 3, "assignments": None}]}, {(f"ALTER TOPIC {name}",): TOPIC})
        for name in ("orders", "nowhere")],
    ApiKeys.DELETE_RECORDS: [
        Case(2, {"timeout_ms": 1, "topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 1}]}]},
             {(f"DELETE TOPIC {name}",): TOPIC}) for name in ("orders", "nowhere")],
    ApiKeys.DESCRIBE_CONFIGS: [
        Case(4, {**config_body((2, "orders"), configuration_keys=None), "include_synonyms": False,
                 "include_documentation": False}, {("DESCRIBE_CONFIGS TOPIC orders",): TOPIC}),
        Case(4, {**config_body((4, "1"), configuration_keys=None), "include_synonyms": False,
                 "include_documentation": False}, {(f"DESCRIBE_CONFIGS CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.INCREMENTAL_ALTER_CONFIGS: [
        Case(1, {**config_body((2, "orders"), **SET_RETENTION), "validate_only": False},
             {("ALTER_CONFIGS TOPIC orders",): TOPIC}),
        Case(1, {**config_body((4, ""), configs=[{"name": "log.retention.ms", "config_operation": 0, "value": "9"}]),
                 "validate_only": False}, {(f"ALTER_CONFIGS CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.ALTER_CONFIGS: [
        Case(2, {**config_body((2, "orders"), configs=[{"name": "retention.ms", "value": "9"}]),
                 "validate_only": False}, {("ALTER_CONFIGS TOPIC orders",): TOPIC}),
        Case(2, {**config_body((4, ""), configs=[{"name": "log.retention.ms", "value": "9"}]), "validate_only": False},
             {(f"ALTER_CONFIGS CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.DESCRIBE_ACLS: [Case(3, ACL_FILTER, {(f"DESCRIBE CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.CREATE_ACLS: [Case(3, {"creations": [
        {"resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3, "principal": "User:a", "host": "*",
         "operation": 3, "permission_type": 3}]}, {(f"ALTER CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.DELETE_ACLS: [Case(3, {"filters": [ACL_FILTER]}, {(f"ALTER CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.DESCRIBE_CLIENT_QUOTAS: [
        Case(1, {"components": [], "strict": False}, {(f"DESCRIBE_CONFIGS CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS: [
        Case(0, {"users": None}, {(f"DESCRIBE CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.ALTER_USER_SCRAM_CREDENTIALS: [
        Case(0, {"deletions": [], "upsertions": [
            {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}]},
            {(f"ALTER CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.DESCRIBE_CLUSTER: [Case(1, {"include_cluster_authorized_operations": True}, {})],  # see below
    ApiKeys.DESCRIBE_TOPIC_PARTITIONS: [
        Case(0, {"topics": [{"name": "orders"}], "response_partition_limit": 10, "cursor": None},
             {("DESCRIBE TOPIC orders",): TOPIC})],
    ApiKeys.DESCRIBE_LOG_DIRS: [Case(4, {"topics": None}, {(f"DESCRIBE CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.ELECT_LEADERS: [Case(2, {"election_type": 0, "timeout_ms": 1, "topic_partitions": None}, {
        (f"ALTER CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.ALTER_PARTITION_REASSIGNMENTS: [Case(0, {"timeout_ms": 1, "topics": [{"name": "orders", "partitions": [
        {"partition_index": 0, "replicas": [1]}]}]}, {(f"ALTER CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.DESCRIBE_QUORUM: [Case(2, {"topics": []}, {(f"DESCRIBE CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.LIST_CONFIG_RESOURCES: [Case(1, {"resource_types": []}, {
        (f"DESCRIBE_CONFIGS CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.LIST_PARTITION_REASSIGNMENTS: [Case(0, {"timeout_ms": 1, "topics": None}, {
        (f"DESCRIBE CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.OFFSET_FOR_LEADER_EPOCH: [Case(4, {"replica_id": -1, "topics": [{"topic": "orders", "partitions": [
        {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]}, {
            (f"CLUSTER_ACTION CLUSTER {IN_CLUSTER}", "DESCRIBE TOPIC orders"): TOPIC})],
    ApiKeys.INIT_PRODUCER_ID: [
        Case(4, {"transactional_id": "t", "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1},
             {("WRITE TRANSACTIONAL_ID t",): TRANSACTION}),
        Case(4, {"transactional_id": None, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1},
             {(f"IDEMPOTENT_WRITE CLUSTER {IN_CLUSTER}", "WRITE TOPIC orders", "WRITE TOPIC __consumer_offsets",
               "WRITE TOPIC __transaction_state"): CLUSTER})],
    ApiKeys.ADD_PARTITIONS_TO_TXN: [
        Case(3, {"v3_and_below_transactional_id": "t", "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0,
                 "v3_and_below_topics": [{"name": "orders", "partitions": [0]}]},
             {("WRITE TRANSACTIONAL_ID t",): TRANSACTION, ("WRITE TOPIC orders",): TOPIC}),
        Case(4, {"transactions": [{"transactional_id": "t", "producer_id": 1, "producer_epoch": 0,
                                   "verify_only": False, "topics": [{"name": "orders", "partitions": [0]}]}]},
             {(f"CLUSTER_ACTION CLUSTER {IN_CLUSTER}",): CLUSTER})],
    ApiKeys.ADD_OFFSETS_TO_TXN: [Case(3, {
        "transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "group_id": "g"},
        {("WRITE TRANSACTIONAL_ID t",): TRANSACTION, ("READ GROUP g",): GROUP})],
    ApiKeys.END_TXN: [Case(3, {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "committed": True},
                           {("WRITE TRANSACTIONAL_ID t",): TRANSACTION})],
    ApiKeys.TXN_OFFSET_COMMIT: [Case(3, {
        "transactional_id": "t", "group_id": "g", "producer_id": 1, "producer_epoch": 0, "generation_id": -1,
        "member_id": "", "group_instance_id": None, "topics": [{"name": "orders", "partitions": [
            {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}]}]},
        {("WRITE TRANSACTIONAL_ID t",): TRANSACTION, ("READ GROUP g",): GROUP, ("READ TOPIC orders",): TOPIC})],
    ApiKeys.DESCRIBE_PRODUCERS: [Case(0, {"topics": [{"name": "orders", "partition_indexes": [0]}]},
                                      {("READ TOPIC orders",): TOPIC})],
    ApiKeys.DESCRIBE_TRANSACTIONS: [Case(0, {"transactional_ids": ["t"]}, {
        ("DESCRIBE TRANSACTIONAL_ID t",): TRANSACTION})],
    ApiKeys.LIST_TRANSACTIONS: [Case(0, {"state_filters": [], "producer_id_filters": []}, {})],  # see below
}
# These are how a client finds out what it may say at all, in Kafka too.
NEVER_ASK = {ApiKeys.API_VERSIONS, ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE,
             ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, ApiKeys.PUSH_TELEMETRY}
CASES = [pytest.param(api_key, case, id=f"{api_key.title}-{number}")
         for api_key, cases in ASKED.items() for number, case in enumerate(cases)]


class Stage(ApiStage):
    """A cluster with something of everything, and an authorizer that notes its questions."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.questions: list[tuple[str, str, str]] = []
        self.denied: set[tuple[str, str, str]] | None = set()
        self.state.topic_life.create_topic("orders", 1, {})
        for key_type, key in ((0, "g"), (1, "t")):
            self.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": key_type, "coordinator_keys": [key]})
        self.ask(ApiKeys.INIT_PRODUCER_ID, 4, {"transactional_id": "t", "transaction_timeout_ms": 1000,
                                               "producer_id": -1, "producer_epoch": -1})
        self.ask(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
        self.ask(ApiKeys.OFFSET_COMMIT, 8, ASKED[ApiKeys.OFFSET_COMMIT][0].body)
        self.state.authorizer = self._authorize

    def _authorize(self, _context: RequestContext, operation: AclOperation, resource_type: ResourceType,
                   name: str) -> bool:
        question = operation.value, resource_type.value, name
        self.questions.append(question)
        return self.denied is not None and question not in self.denied

    def deny(self, *questions: str) -> None:
        self.denied = {asked(words) for words in questions}

    def deny_everything(self) -> None:
        self.denied = None

    def contents(self) -> Any:
        """Return what a request could have changed."""
        state = self.state
        described = state.group_coordinator.describe("g")
        return ({name: (len(topic.partitions), topic.config.overrides,
                        [(partition.log.log_start_offset, partition.log.log_end_offset)
                         for partition in topic.partitions]) for name, topic in state.topics.items()},
                dict(state.dynamic_configs.by_broker), described and described.members,
                state.group_coordinator.fetch_offsets("g")[0],
                [found.state for found in state.transactions.list_transactions()], state.producer_ids._next)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


def error_codes(answer: Any) -> list[int]:
    """Return all codes of an answer, wherever they stand."""
    if isinstance(answer, Mapping):
        return [*(int(value) for key, value in answer.items() if key.endswith("error_code")),
                *(code for value in answer.values() for code in error_codes(value))]
    if isinstance(answer, list):
        return [code for value in answer for code in error_codes(value)]
    return []


def test_every_api_says_what_it_asks() -> None:
    assert set(ASKED) | NEVER_ASK == set(HANDLERS)
    assert not set(ASKED) & NEVER_ASK


@pytest.mark.parametrize(("api_key", "case"), CASES)
def test_request_when_everything_is_denied_then_nothing_is_done_and_it_was_asked(
        stage: Stage, api_key: ApiKeys, case: Case) -> None:
    before = stage.contents()
    stage.deny_everything()
    answer = stage.ask(api_key, case.version, case.body)
    assert stage.questions, "nobody was asked"
    assert stage.contents() == before
    if case.denials:
        assert set(error_codes(answer)) & {TOPIC, GROUP, CLUSTER, TRANSACTION}
        assert b"v" not in answer.get("records", b"")


@pytest.mark.parametrize(("api_key", "case", "questions"), [
    pytest.param(api_key, case, questions, id=f"{api_key.title}: {', '.join(questions)}")
    for api_key, cases in ASKED.items() for case in cases for questions in case.denials])
def test_request_when_one_thing_is_denied_then_the_answer_has_kafkas_code(
        stage: Stage, api_key: ApiKeys, case: Case, questions: tuple[str, ...]) -> None:
    stage.deny(*questions)
    body = case.body
    answer = stage.ask(api_key, case.version, body)
    assert case.denials[questions] in error_codes(answer)
    assert {asked(words) for words in questions} <= set(stage.questions)


def test_produce_when_one_topic_is_denied_then_the_other_is_stored(stage: Stage) -> None:
    stage.state.topic_life.create_topic("payments", 1, {})
    stage.deny("WRITE TOPIC orders")
    body = produce_body("orders", 0, BATCH)
    body["topic_data"] += produce_body("payments", 0, BATCH)["topic_data"]
    answer = stage.ask(ApiKeys.PRODUCE, 9, body)
    assert error_codes(answer) == [TOPIC, 0]


def test_produce_when_it_is_denied_and_nobody_waits_for_an_answer_then_the_connection_is_closed(stage: Stage) -> None:
    stage.deny_everything()
    assert stage.ask(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH, acks=0)) is Outcome.CLOSE_CONNECTION


@pytest.mark.parametrize("version", [12, 13])
def test_fetch_when_it_is_denied_then_it_is_answered_at_once_without_records(stage: Stage, version: int) -> None:
    topic = stage.state.topics.find("orders")
    assert topic is not None
    stage.deny("READ TOPIC orders")
    answer = stage.ask(ApiKeys.FETCH, version, fetch_body(version, topic.topic_id if version > 12 else "orders", 0, 0,
                                                          max_wait_ms=60_000))
    (partition,) = answer["responses"][0]["partitions"]
    assert (partition["error_code"], bytes(partition["records"])) == (TOPIC, b"")


def test_fetch_when_the_topics_id_is_unknown_then_that_is_said_and_nobody_is_asked(stage: Stage) -> None:
    stage.deny_everything()
    answer = stage.ask(ApiKeys.FETCH, 13, fetch_body(13, uuid.UUID(int=9), 0, 0))
    assert answer["responses"][0]["partitions"][0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID
    assert stage.questions == []


def test_metadata_when_all_topics_are_asked_for_then_those_that_are_denied_are_left_out(stage: Stage) -> None:
    stage.deny("DESCRIBE TOPIC orders", "DESCRIBE TOPIC __consumer_offsets")
    answer = stage.ask(ApiKeys.METADATA, 9, {"topics": None})
    assert [topic["name"] for topic in answer["topics"]] == ["__transaction_state"]


def test_metadata_when_a_topic_is_denied_by_its_id_then_its_name_is_not_told(stage: Stage) -> None:
    topic = stage.state.topics.find("orders")
    assert topic is not None
    stage.deny("DESCRIBE TOPIC orders")
    answer = stage.ask(ApiKeys.METADATA, 12, {"topics": [{"topic_id": topic.topic_id, "name": None}]})
    (found,) = answer["topics"]
    assert (found["error_code"], found["name"], found["topic_id"]) == (TOPIC, None, topic.topic_id)


@pytest.mark.parametrize("allowed", ["CREATE CLUSTER kafka-cluster", "CREATE TOPIC new"])
@pytest.mark.parametrize("api_key", [ApiKeys.METADATA, ApiKeys.CREATE_TOPICS], ids=lambda api_key: api_key.title)
def test_new_topic_when_the_cluster_or_the_topic_is_allowed_then_it_is_made(
        stage: Stage, api_key: ApiKeys, allowed: str) -> None:
    case = ASKED[api_key][-1]
    stage.deny(*({"CREATE CLUSTER kafka-cluster", "CREATE TOPIC new"} - {allowed}))
    assert set(error_codes(stage.ask(api_key, case.version, case.body))) == {0}
    assert stage.state.topics.find("new") is not None


def test_create_topics_when_its_settings_may_not_be_seen_then_it_is_made_and_they_are_not_told(stage: Stage) -> None:
    case = ASKED[ApiKeys.CREATE_TOPICS][0]
    stage.deny("DESCRIBE_CONFIGS TOPIC new")
    (result,) = stage.ask(ApiKeys.CREATE_TOPICS, case.version, case.body)["topics"]
    assert (result["error_code"], result["topic_config_error_code"]) == (0, TOPIC)
    assert (result["configs"], result["num_partitions"], result["replication_factor"]) == ([], -1, -1)


def test_delete_topics_when_a_topic_is_denied_by_its_id_then_its_name_is_told_to_who_may_see_it(stage: Stage) -> None:
    topic = stage.state.topics.find("orders")
    assert topic is not None
    body = {"timeout_ms": 1, "topics": [{"name": None, "topic_id": topic.topic_id}]}
    stage.deny("DELETE CLUSTER kafka-cluster", "DELETE TOPIC orders")
    (seen,) = stage.ask(ApiKeys.DELETE_TOPICS, 6, body)["responses"]
    stage.deny("DELETE CLUSTER kafka-cluster", "DELETE TOPIC orders", "DESCRIBE TOPIC orders")
    (unseen,) = stage.ask(ApiKeys.DELETE_TOPICS, 6, body)["responses"]
    assert [(found["error_code"], found["name"]) for found in (seen, unseen)] == [(TOPIC, "orders"), (TOPIC, None)]


def test_list_groups_when_the_cluster_is_denied_then_each_group_is_asked_for(stage: Stage) -> None:
    body = {"states_filter": []}
    stage.deny("DESCRIBE GROUP g")
    assert [group["group_id"] for group in stage.ask(ApiKeys.LIST_GROUPS, 4, body)["groups"]] == ["g"]
    stage.deny("DESCRIBE CLUSTER kafka-cluster", "DESCRIBE GROUP g")
    assert stage.ask(ApiKeys.LIST_GROUPS, 4, body)["groups"] == []


def test_list_transactions_when_one_is_denied_then_it_is_left_out(stage: Stage) -> None:
    body = {"state_filters": [], "producer_id_filters": []}
    assert len(stage.ask(ApiKeys.LIST_TRANSACTIONS, 0, body)["transaction_states"]) == 1
    stage.deny("DESCRIBE TRANSACTIONAL_ID t")
    assert stage.ask(ApiKeys.LIST_TRANSACTIONS, 0, body)["transaction_states"] == []


def test_offset_fetch_when_all_topics_are_asked_for_then_those_that_are_denied_are_left_out(stage: Stage) -> None:
    body = {"require_stable": False, "groups": [{"group_id": "g", "topics": None}]}
    assert [topic["name"] for topic in stage.ask(ApiKeys.OFFSET_FETCH, 8, body)["groups"][0]["topics"]] == ["orders"]
    stage.deny("DESCRIBE TOPIC orders")
    assert stage.ask(ApiKeys.OFFSET_FETCH, 8, body)["groups"][0]["topics"] == []


def test_offset_commit_when_one_topic_is_denied_then_the_offset_of_the_other_counts(stage: Stage) -> None:
    stage.state.topic_life.create_topic("payments", 1, {})
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {**ASKED[ApiKeys.OFFSET_COMMIT][0].body, "topics": [
        {"name": name, "partitions": [partition]} for name in ("orders", "payments")]}
    stage.deny("READ TOPIC orders")
    assert error_codes(stage.ask(ApiKeys.OFFSET_COMMIT, 8, body)) == [TOPIC, 0]
    offsets = stage.state.group_coordinator.fetch_offsets("g")[0]
    assert [offsets[TopicPartition(name, 0)].offset for name in ("orders", "payments")] == [1, 5]


def test_idempotent_producer_when_it_may_write_to_some_topic_then_it_gets_an_id(stage: Stage) -> None:
    """Kafka looks for any topic that the client might write to; here those that there are can be asked for."""
    stage.deny("IDEMPOTENT_WRITE CLUSTER kafka-cluster")
    case = ASKED[ApiKeys.INIT_PRODUCER_ID][1]
    assert stage.ask(ApiKeys.INIT_PRODUCER_ID, case.version, case.body)["error_code"] == 0


@pytest.mark.parametrize(("api_key", "version", "body", "found", "all_operations"), [
    (ApiKeys.DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": True},
     lambda answer: answer["cluster_authorized_operations"],
     "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"),
    (ApiKeys.DESCRIBE_GROUPS, 5, {"groups": ["g"], "include_authorized_operations": True},
     lambda answer: answer["groups"][0]["authorized_operations"],
     "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
    (ApiKeys.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": "orders"}], "response_partition_limit": 10,
                                            "cursor": None},
     lambda answer: answer["topics"][0]["topic_authorized_operations"],
     "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
], ids=lambda value: getattr(value, "title", None) if isinstance(value, ApiKeys) else "")
def test_authorized_operations_when_one_is_denied_then_they_are_the_others(
        stage: Stage, api_key: ApiKeys, version: int, body: dict[str, Any], found: Answers,
        all_operations: str) -> None:
    bits = {"READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8, "CLUSTER_ACTION": 9,
            "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12}  # Java AclOperation.code
    expected = sum(1 << bits[name] for name in all_operations.split())
    assert found(stage.ask(api_key, version, body)) == expected
    stage.denied = {("ALTER_CONFIGS", *question[1:]) for question in stage.questions}
    assert found(stage.ask(api_key, version, body)) == expected - (1 << bits["ALTER_CONFIGS"])


def test_describe_cluster_when_it_may_not_be_described_then_no_operation_is_told(stage: Stage) -> None:
    stage.deny("DESCRIBE CLUSTER kafka-cluster")
    answer = stage.ask(ApiKeys.DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": True})
    assert answer["cluster_authorized_operations"] == 0


def test_authorizer_when_it_raises_then_what_it_was_asked_for_is_not_done(stage: Stage) -> None:
    def authorize(*_: object) -> bool:
        raise RuntimeError("a bug of the user's")

    stage.state.authorizer = authorize
    before = stage.contents()
    with pytest.raises(RuntimeError):  # KafkaApis answers UNKNOWN_SERVER_ERROR
        stage.ask(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH))
    assert stage.contents() == before
