"""JoinGroup: what of the request counts for the group. No connection, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.apis.services import Outcome
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

SESSION_MS, REBALANCE_MS = 10_000, 25_000


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    made.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    yield made
    made.close()


def join(stage: ApiStage, version: int, **fields: Any) -> None:
    timeouts = {"session_timeout_ms": SESSION_MS, **({"rebalance_timeout_ms": REBALANCE_MS} if version else {})}
    assert stage.ask(ApiKeys.JOIN_GROUP, version, {
        "group_id": "g", "member_id": "", "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"orders"}], **timeouts}, **fields) is Outcome.LATER


def sync(stage: ApiStage, member_id: str) -> None:
    stage.ask(ApiKeys.SYNC_GROUP, 0, {"group_id": "g", "generation_id": 1, "member_id": member_id,
                                      "assignments": [{"member_id": member_id, "assignment": b"all"}]})


def taken(stage: ApiStage) -> list[Any]:
    """Return what was answered later since the last look."""
    answers = list(stage.later)
    stage.later.clear()
    return answers


@pytest.mark.parametrize(("version", "waited_ms"), [(0, SESSION_MS), (1, REBALANCE_MS), (3, REBALANCE_MS)])
def test_rebalance_when_a_member_only_sends_heartbeats_then_the_others_wait_as_long_as_it_said(
        stage: ApiStage, version: int, waited_ms: int) -> None:
    """Version 0 has no time of a rebalance: there the session's counts for both."""
    join(stage, version)
    (first,) = taken(stage)
    sync(stage, first["member_id"])
    taken(stage)
    join(stage, version)
    for _ in range(waited_ms // 1000):
        assert taken(stage) == []
        assert stage.ask(ApiKeys.HEARTBEAT, 0, {"group_id": "g", "generation_id": 1, "member_id": first["member_id"]})[
            "error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
        stage.state.clock.advance(1000)  # type: ignore[attr-defined]  # the test's own
        stage.state.timer.run_due()
    (second,) = taken(stage)
    assert (second["error_code"], second["generation_id"]) == (0, 2)
    assert [member["member_id"] for member in second["members"]] == [second["member_id"]] == [second["leader"]]


@pytest.mark.parametrize(("client_id", "shown"), [("reader", "reader"), ("", ""), (None, "")])
def test_member_when_its_group_is_described_then_it_is_as_it_joined(
        stage: ApiStage, client_id: str | None, shown: str) -> None:
    join(stage, 3, client_id=client_id)
    (joined,) = taken(stage)
    member_id = joined["member_id"]
    assert member_id.startswith(f"{shown}-")
    sync(stage, member_id)
    (group,) = stage.ask(ApiKeys.DESCRIBE_GROUPS, 5, {"groups": ["g"], "include_authorized_operations": False})[
        "groups"]
    assert (group["group_state"], group["protocol_type"], group["protocol_data"]) == ("Stable", "consumer", "range")
    assert group["members"] == [{
        "member_id": member_id, "group_instance_id": None, "client_id": shown, "client_host": "/",
        "member_metadata": b"orders", "member_assignment": b"all"}]
