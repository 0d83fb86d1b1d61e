"""Consumers that ask who coordinates their group and never join it: told why they wait, and nobody else is."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

OFTEN = 20


def look_for(stage: ApiStage, group_id: str, times: int = 1, *, key_type: int = 0,
             client_id: str | None = "reader") -> None:
    for _ in range(times):
        (found,) = stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": key_type, "coordinator_keys": [group_id]},
                             client_id=client_id)["coordinators"]
        assert found["error_code"] == 0


def join(stage: ApiStage) -> None:
    stage.ask(ApiKeys.JOIN_GROUP, 3, {
        "group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "",
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]})
    assert stage.later[-1]["error_code"] == 0  # type: ignore[index]  # an answer, no outcome


def commit(stage: ApiStage) -> None:
    answer = stage.ask(ApiKeys.OFFSET_COMMIT, 8, {
        "group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "topics": [
            {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1,
                                               "committed_leader_epoch": -1, "committed_metadata": ""}]}]})
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0


def warning(client_id: str, group_id: str = "g") -> str:
    return (f"Client {client_id} has asked 4 times who coordinates group {group_id}, and did not join it: with "
            "group.protocol=consumer (KIP-848), which this broker does not have, it waits for ever: set "
            "group.protocol=classic")


def test_group_when_nobody_joins_it_then_who_asks_again_and_again_is_told_once(
        stage: ApiStage, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        look_for(stage, "g", 3)
        assert caplog.messages == [], "who waits for a coordinator may ask a few times"
        look_for(stage, "g", OFTEN)
        assert caplog.messages == [warning("reader")]
        look_for(stage, "g", OFTEN, client_id=None)
        look_for(stage, "h", OFTEN)
        assert caplog.messages == [warning("reader"), warning(""), warning("reader", "h")]


@pytest.mark.parametrize("settle", [join, commit], ids=["members", "offsets"])
def test_group_when_it_has_members_or_offsets_then_nobody_is_told(
        stage: ApiStage, caplog: pytest.LogCaptureFixture, settle: Callable[[ApiStage], None]) -> None:
    look_for(stage, "g", 3)
    settle(stage)
    with caplog.at_level(logging.WARNING):
        look_for(stage, "g", OFTEN)
    assert caplog.messages == []


def test_transactional_id_when_it_is_asked_for_again_and_again_then_it_is_no_group(
        stage: ApiStage, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        look_for(stage, "payments", OFTEN, key_type=1)
    assert caplog.messages == []
