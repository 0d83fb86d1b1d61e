"""Metadata: which topics make a whole request wrong, and which are only not made. No connection."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

NO_ID = uuid.UUID(int=0)
SOME_ID = uuid.UUID(int=7)


def ask(stage: ApiStage, version: int, *topics: tuple[str | None, uuid.UUID]) -> Any:
    return stage.ask(ApiKeys.METADATA, version, {
        "topics": [{"name": name, **({"topic_id": topic_id} if version >= 10 else {})} for name, topic_id in topics],
        "allow_auto_topic_creation": True})


@pytest.mark.parametrize(("version", "name", "topic_id", "code"), [
    *((version, None, NO_ID, ErrorCode.INVALID_REQUEST) for version in (10, 11)),
    *((version, None, SOME_ID, ErrorCode.INVALID_REQUEST) for version in (10, 11)),
    *((version, "named", SOME_ID, ErrorCode.INVALID_REQUEST) for version in (10, 11)),
    *((version, None, NO_ID, ErrorCode.UNKNOWN_SERVER_ERROR) for version in (12, 13))])
def test_metadata_when_a_topic_is_named_as_it_cannot_be_then_nothing_of_the_request_is_done(
        tmp_path: Path, version: int, name: str | None, topic_id: uuid.UUID, code: ErrorCode) -> None:
    stage = ApiStage(tmp_path)
    try:
        answer = ask(stage, version, ("orders", NO_ID), (name, topic_id))
        assert (answer["brokers"], answer["cluster_id"], answer["controller_id"]) == ([], None, -1)
        assert [(topic["error_code"], topic["name"], topic["topic_id"]) for topic in answer["topics"]] == [
            (code, "orders", NO_ID), (code, name or "", topic_id)]
        assert stage.state.topics.find("orders") is None
    finally:
        stage.close()


def test_topic_when_its_defaults_cannot_be_met_then_it_is_unknown_and_the_brokers_log_says_why(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = ApiStage(tmp_path, {"default.replication.factor": 3})
    try:
        stage.state.topic_life.create_topic("orders", 1, {}, replication_factor=1)
        with caplog.at_level(logging.WARNING):
            answer = ask(stage, 9, ("new", NO_ID), ("orders", NO_ID))
        assert [(topic["name"], topic["error_code"], len(topic["partitions"])) for topic in answer["topics"]] == [
            ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0), ("orders", 0, 1)]
        (message,) = caplog.messages
        assert message.startswith("The topic new is not created: ")
        assert "only 1 broker(s) are registered" in message
    finally:
        stage.close()


def test_topic_when_its_name_collides_with_anothers_then_it_is_unknown_and_the_brokers_log_says_why(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = ApiStage(tmp_path)
    try:
        with caplog.at_level(logging.WARNING):
            answer = ask(stage, 9, ("a.b", NO_ID), ("a_b", NO_ID), ("a-b", NO_ID), ("a.b", NO_ID))
        assert [(topic["name"], topic["error_code"]) for topic in answer["topics"]] == [
            ("a.b", 0), ("a_b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("a-b", 0)]
        assert caplog.messages == ["The topic a_b is not created: it collides with the topic a.b"]
        assert sorted(stage.state.topics) == ["a-b", "a.b"]
    finally:
        stage.close()
