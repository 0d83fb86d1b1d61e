"""A small request whose answer would be very large, or whose pattern would be matched for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyproducer.broker.apis import answer_size
from pyproducer.broker.apis.list_transactions import pattern_of
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

POLICY_VIOLATION = ErrorCode.POLICY_VIOLATION


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiStage]:
    monkeypatch.setattr(answer_size, "MOST_ELEMENTS", 100)
    made = ApiStage(tmp_path)
    made.state.topic_life.create_topic("orders", 60, {})
    yield made
    made.close()


def test_describe_configs_when_the_same_topic_is_asked_for_very_often_then_the_last_ones_are_refused(
        stage: ApiStage) -> None:
    """A hundred thousand times the same topic, two megabytes, are answered with half a gigabyte."""
    resource = {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}
    answer = stage.ask(ApiKeys.DESCRIBE_CONFIGS, 4, {
        "include_synonyms": False, "include_documentation": False, "resources": [resource] * 10})
    codes = [result["error_code"] for result in answer["results"]]
    assert codes[0] == 0, "one is always answered"
    assert codes[-1] == POLICY_VIOLATION
    assert codes == sorted(codes)
    assert answer["results"][-1]["configs"] == []


def test_describe_groups_when_members_are_told_very_often_then_the_last_ones_are_refused(stage: ApiStage) -> None:
    stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    stage.ask(ApiKeys.JOIN_GROUP, 3, {
        "group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "",
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]})
    answer = stage.ask(ApiKeys.DESCRIBE_GROUPS, 5, {"groups": ["g"] * 300, "include_authorized_operations": False})
    codes = [group["error_code"] for group in answer["groups"]]
    assert codes == [0] * 100 + [POLICY_VIOLATION] * 200


def test_offset_fetch_when_all_offsets_are_told_very_often_then_the_last_ones_are_refused(stage: ApiStage) -> None:
    stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    stage.ask(ApiKeys.OFFSET_COMMIT, 8, {
        "group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "topics": [
            {"name": "orders", "partitions": [
                {"partition_index": index, "committed_offset": 1, "committed_leader_epoch": -1,
                 "committed_metadata": ""} for index in range(60)]}]})
    answer = stage.ask(ApiKeys.OFFSET_FETCH, 8, {
        "require_stable": False, "groups": [{"group_id": "g", "topics": None}] * 3})
    assert [group["error_code"] for group in answer["groups"]] == [0, 0, POLICY_VIOLATION]
    assert [len(group["topics"]) for group in answer["groups"]] == [1, 1, 0]


def test_describe_producers_when_producers_are_told_very_often_then_the_last_ones_are_refused(stage: ApiStage) -> None:
    answer = stage.ask(ApiKeys.DESCRIBE_PRODUCERS, 0, {
        "topics": [{"name": "orders", "partition_indexes": [0] * 300}]})
    assert {found["error_code"] for found in answer["topics"][0]["partitions"]} == {0}, "nobody has written"


# ---- patterns

@pytest.mark.parametrize("pattern", ["", ".*", "orders-.*", ".*-v[0-9]+", "(a|b)-[cd]", "a{2,3}", "(?:ab)?c", "ab+?"])
def test_pattern_when_it_takes_time_in_proportion_then_it_is_taken(pattern: str) -> None:
    assert pattern_of(pattern) is not None


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*a){12}", "a*a*a*a*b", r"(a)\1", "(?=a)a", "(?<!a)b", "["])
def test_pattern_when_it_could_be_matched_for_ever_or_is_none_of_re2_then_it_is_refused(pattern: str) -> None:
    """Python's matcher tries all ways, and keeps every other thread of the process waiting for it meanwhile."""
    assert pattern_of(pattern) is None


def test_list_transactions_when_the_pattern_is_refused_then_the_answer_says_so(stage: ApiStage) -> None:
    answer = stage.ask(ApiKeys.LIST_TRANSACTIONS, 2, {
        "state_filters": [], "producer_id_filters": [], "duration_filter": -1, "transactional_id_pattern": "(a|a)*b"})
    assert answer["error_code"] == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_list_transactions_when_an_id_is_too_long_for_the_pattern_then_it_does_not_match(stage: ApiStage) -> None:
    stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["a"]})
    for transactional_id in ("a" * 100, "a" * 10_000):
        stage.ask(ApiKeys.INIT_PRODUCER_ID, 4, {"transactional_id": transactional_id, "transaction_timeout_ms": 1000,
                                                "producer_id": -1, "producer_epoch": -1})
    body = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
    for pattern, count in (("a.*", 2), ("a.*a.*", 1), (None, 2)):
        answer = stage.ask(ApiKeys.LIST_TRANSACTIONS, 2, {**body, "transactional_id_pattern": pattern})
        assert len(answer["transaction_states"]) == count
