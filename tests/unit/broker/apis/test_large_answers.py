"""A small request whose answer would be very large, or whose pattern would be matched for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.apis import answer_size
from pyproducer.broker.cluster.config import TOPIC_CONFIG
from pyproducer.broker.cluster.linear_pattern import LinearPattern
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

POLICY_VIOLATION = ErrorCode.POLICY_VIOLATION


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiStage]:
    monkeypatch.setattr(answer_size, "MOST_ELEMENTS", 100)
    monkeypatch.setattr(answer_size, "MOST_CONFIG_BYTES", 5000)
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


@pytest.mark.parametrize("keys", [["retention.ms"], None], ids=["one setting", "all settings"])
def test_describe_configs_when_there_are_very_many_topics_then_all_of_them_are_told(
        tmp_path: Path, keys: list[str] | None) -> None:
    """Topics from the 1,517th on were refused: all settings were counted, whatever was asked for."""
    stage = ApiStage(tmp_path)
    try:
        stage.state.topic_life.create_topic("orders", 1, {})
        stage.state.topic_life.create_topic("mine", 1, {"retention.ms": "7"})
        names = ["orders"] * 800 + ["mine"] * 800
        answer = stage.ask(ApiKeys.DESCRIBE_CONFIGS, 4, {
            "include_synonyms": True, "include_documentation": False, "resources": [
                {"resource_type": 2, "resource_name": name, "configuration_keys": keys} for name in names]})
        assert {result["error_code"] for result in answer["results"]} == {0}
        for name, result in zip(names, answer["results"], strict=True):
            assert len(result["configs"]) == (1 if keys else len(TOPIC_CONFIG))
            value = next(config["value"] for config in result["configs"] if config["name"] == "retention.ms")
            assert (result["resource_name"], value) == (name, "7" if name == "mine" else "604800000")
    finally:
        stage.close()


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

def list_transactions(stage: ApiStage, pattern: str | None) -> Any:
    return stage.ask(ApiKeys.LIST_TRANSACTIONS, 2, {
        "state_filters": [], "producer_id_filters": [], "duration_filter": -1, "transactional_id_pattern": pattern})


def init_ids(stage: ApiStage, *transactional_ids: str) -> None:
    stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["a"]})
    for transactional_id in transactional_ids:
        stage.ask(ApiKeys.INIT_PRODUCER_ID, 4, {"transactional_id": transactional_id, "transaction_timeout_ms": 1000,
                                                "producer_id": -1, "producer_epoch": -1})


@pytest.mark.parametrize("pattern", ["(a|a", "(a)\\1", "(?:a|b)", "a{3}", "a" * 1001])
def test_list_transactions_when_the_pattern_is_none_or_not_known_or_too_large_then_the_answer_says_so(
        stage: ApiStage, pattern: str) -> None:
    assert list_transactions(stage, pattern)["error_code"] == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_list_transactions_when_there_is_a_pattern_then_the_whole_id_must_match(stage: ApiStage) -> None:
    init_ids(stage, "a" * 100, "a" * 10_000, "b")
    for pattern, count in (("a.*", 2), ("a.*a.*", 2), ("[ab]+", 3), ("a?" * 100, 1), ("", 3), (None, 3)):
        assert len(list_transactions(stage, pattern)["transaction_states"]) == count


def test_list_transactions_when_a_pattern_would_backtrack_for_ever_then_it_is_answered(stage: ApiStage) -> None:
    """More than 2^60 ways to match: the whole process stood, and every program in it."""
    init_ids(stage, "a" * 60)
    answer = list_transactions(stage, "a*" * 40 + "x")
    assert answer["error_code"] == 0
    assert answer["transaction_states"] == []


def test_list_transactions_when_no_id_may_be_seen_then_none_is_matched(
        stage: ApiStage, monkeypatch: pytest.MonkeyPatch) -> None:
    init_ids(stage, "mine", "theirs")
    matched: list[str] = []
    monkeypatch.setattr(LinearPattern, "matches", lambda _self, text: matched.append(text) or True)
    stage.state.authorizer = lambda _context, _operation, _kind, name: name == "mine"
    assert [found["transactional_id"] for found in list_transactions(stage, ".*")["transaction_states"]] == ["mine"]
    assert matched == ["mine"]
