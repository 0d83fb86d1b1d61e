"""How many partitions one request may make: as many as Kafka's controller takes in one batch, 10,000."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

TOO_MANY = (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
TOO_LARGE = (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
NOT_POSITIVE = (ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
TAKEN = (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists.")


def told(results: list[Any]) -> list[tuple[int, str | None]]:
    return [(result["error_code"], result["error_message"]) for result in results]


@pytest.mark.parametrize(("counts", "answers"), [
    ([9_999], [(0, None)]), ([10_000], [TOO_LARGE]), ([10_001], [TOO_MANY]),
    ([4_000, 5_998], [(0, None)] * 2), ([4_000, 5_999], [TOO_LARGE] * 2), ([4_000, 6_001], [TOO_MANY] * 2),
    ([-1, 9_997], [(0, None)] * 2), ([-1, 9_998], [TOO_LARGE] * 2), ([-1, 10_000], [TOO_MANY] * 2),
    ([9_999, -100], [(0, None), NOT_POSITIVE]), ([10_050, -100], [TOO_MANY] * 2)])
def test_create_topics_when_there_is_much_to_make_then_every_topic_is_refused_above_10_000_lines(
        stage: ApiStage, counts: list[int], answers: list[tuple[int, str | None]]) -> None:
    """A controller writes one record for each topic and each of its partitions and settings, in one batch."""
    assert told(stage.ask(ApiKeys.CREATE_TOPICS, 5, topics(*((f"new-{count}", count, 0) for count in counts)))[
        "topics"]) == answers


@pytest.mark.parametrize(("asked", "answers"), [
    ([("new", 9_998, 1)], [(0, None)]), ([("new", 9_999, 1)], [TOO_LARGE]),
    ([("new", 9_999, 0), ("orders", 1, 0)], [(0, None), TAKEN])])
def test_create_topics_when_settings_are_given_or_a_topic_is_refused_then_that_counts_or_does_not(
        stage: ApiStage, asked: list[tuple[str, int, int]], answers: list[tuple[int, str | None]]) -> None:
    assert told(stage.ask(ApiKeys.CREATE_TOPICS, 5, topics(*asked))["topics"]) == answers


@pytest.mark.parametrize(("counts", "answers"), [
    ([10_001], [(0, None)]), ([10_002], [TOO_MANY]), ([10_001, 2], [(0, None), TOO_MANY]),
    ([9_001, 1_001], [(0, None)] * 2), ([9_001, 1_002], [(0, None), TOO_MANY]),
    ([10_002, 1_002], [TOO_MANY, (0, None)])])
def test_create_partitions_when_more_than_10_000_come_in_one_request_then_who_is_above_is_refused(
        stage: ApiStage, counts: list[int], answers: list[tuple[int, str | None]]) -> None:
    names = ["orders", "bills"]
    stage.ask(ApiKeys.CREATE_TOPICS, 5, {**topics(("bills", 1, 0)), "validate_only": False})
    body = {"timeout_ms": 1, "validate_only": True, "topics": [
        {"name": name, "count": count, "assignments": None} for name, count in zip(names, counts, strict=False)]}
    assert told(stage.ask(ApiKeys.CREATE_PARTITIONS, 3, body)["results"]) == answers


def topics(*asked: tuple[str, int, int]) -> dict[str, Any]:
    """A request that only validates; of each topic the name, how many partitions, how many settings."""
    return {"timeout_ms": 1, "validate_only": True, "topics": [
        {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [],
         "configs": [{"name": "retention.ms", "value": "5"}] * settings} for name, count, settings in asked]}
