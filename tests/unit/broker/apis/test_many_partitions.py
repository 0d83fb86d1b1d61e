"""How many partitions one request may make: as many as Kafka's controller takes in one batch, 10,000."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

TOO_MANY = (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def told(results: list[Any]) -> list[tuple[int, str | None]]:
    return [(result["error_code"], result["error_message"]) for result in results]


@pytest.mark.parametrize(("counts", "answer"), [
    ((10_000,), (0, None)), ((10_001,), TOO_MANY),
    ((4_000, 6_000), (0, None)), ((4_000, 6_001), TOO_MANY),
    ((-1, 9_999), (0, None)), ((-1, 10_000), TOO_MANY)])
def test_create_topics_when_more_than_10_000_partitions_are_asked_for_then_every_topic_is_refused(
        stage: ApiStage, counts: tuple[int, ...], answer: tuple[int, str | None]) -> None:
    body = {"timeout_ms": 1, "validate_only": True, "topics": [
        {"name": f"new-{count}", "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
        for count in counts]}
    assert told(stage.ask(ApiKeys.CREATE_TOPICS, 5, body)["topics"]) == [answer] * len(counts)


@pytest.mark.parametrize(("count", "answer"), [(10_001, (0, None)), (10_002, TOO_MANY)])
def test_create_partitions_when_more_than_10_000_come_to_a_topic_then_it_is_refused(
        stage: ApiStage, count: int, answer: tuple[int, str | None]) -> None:
    body = {"timeout_ms": 1, "validate_only": True, "topics": [
        {"name": "orders", "count": count, "assignments": None}]}
    assert told(stage.ask(ApiKeys.CREATE_PARTITIONS, 3, body)["results"]) == [answer]
