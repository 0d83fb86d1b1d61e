"""A group's time, and what is left of a group that is gone. No connection, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

SESSION_MS, DELAY_MS = 10_000, 3000


@pytest.fixture(params=[0, DELAY_MS], ids=["no delay", "delay"])
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path, {"group.initial.rebalance.delay.ms": request.param})
    made.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    yield made
    made.close()


def advance(stage: ApiStage, ms: int) -> None:
    stage.state.clock.advance(ms)  # type: ignore[attr-defined]  # the test's own
    stage.state.timer.run_due()


def begin_join(stage: ApiStage) -> None:
    stage.later.clear()
    stage.ask(ApiKeys.JOIN_GROUP, 3, {
        "group_id": "g", "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": 60_000, "member_id": "",
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]})


def become_stable(stage: ApiStage) -> str:
    """Be the group's only member, with all partitions; return its id."""
    begin_join(stage)
    advance(stage, DELAY_MS)
    (joined,) = stage.later
    member_id = str(joined["member_id"])  # type: ignore[index]  # an answer, no outcome
    stage.ask(ApiKeys.SYNC_GROUP, 3, {
        "group_id": "g", "generation_id": 1, "member_id": member_id, "group_instance_id": None,
        "assignments": [{"member_id": member_id, "assignment": b"all"}]})
    return member_id


def leave(stage: ApiStage, member_id: str) -> None:
    assert stage.ask(ApiKeys.LEAVE_GROUP, 2, {"group_id": "g", "member_id": member_id})["error_code"] == 0


def delete(stage: ApiStage) -> None:
    assert stage.ask(ApiKeys.DELETE_GROUPS, 2, {"groups_names": ["g"]})["results"][0]["error_code"] == 0


def expire(stage: ApiStage) -> None:
    """Look for what nobody has needed for long: a group without members and offsets goes at once."""
    stage.state.group_coordinator.expire_offsets(stage.state.clock.timestamp_ms())


def members(stage: ApiStage) -> list[str]:
    found = stage.state.group_coordinator.describe("g")
    assert found is not None
    return [member.member_id for member in found.members]


@pytest.mark.parametrize("end", [delete, expire])
@pytest.mark.parametrize("pause_ms", [1, SESSION_MS - 1], ids=["soon", "later"])
def test_group_when_it_is_made_again_then_it_has_a_time_of_its_own(
        stage: ApiStage, end: Callable[[ApiStage], None], pause_ms: int) -> None:
    """An alarm of the one that was gone counted as the new one's: who joined got no answer, and the dead stayed."""
    leave(stage, become_stable(stage))
    end(stage)
    assert stage.state.group_coordinator.describe("g") is None
    advance(stage, pause_ms)  # the old alarm is not due yet, and may be before the new one
    member_id = become_stable(stage)
    assert members(stage) == [member_id]
    for _ in range(5):
        advance(stage, SESSION_MS // 4)
    assert members(stage) == []


@pytest.mark.parametrize("end", [delete, expire])
def test_group_when_it_is_gone_then_nothing_is_kept_of_it(
        stage: ApiStage, end: Callable[[ApiStage], None]) -> None:
    leave(stage, become_stable(stage))
    end(stage)
    assert stage.state.group_coordinator._timer_tasks == {}
