"""A disk that is full: groups and producers are told to come again, and go on when there is space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

RETRIABLE = ErrorCode.NOT_COORDINATOR


class Disk:
    """Writes to segments and to the cluster file, which fail while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def fill(self) -> None:
        def refuse(*_arguments: object, **_fields: object) -> None:
            raise OSError(28, "No space left on device")

        self._monkeypatch.setattr("pyproducer.broker.storage.file_handle.FileHandle.write", refuse)
        self._monkeypatch.setattr("pyproducer.broker.cluster.cluster_store.ClusterStore.save", refuse)

    def free(self) -> None:
        self._monkeypatch.undo()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    made.state.topic_life.create_topic("orders", 1, {})
    for key_type in (0, 1):
        made.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": key_type, "coordinator_keys": ["g"]})
    yield made
    made.close()


def join(stage: ApiStage, member_id: str = "") -> Any:
    stage.later.clear()
    stage.ask(ApiKeys.JOIN_GROUP, 3, {
        "group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": member_id,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]})
    return stage.later[-1] if stage.later else None


def sync(stage: ApiStage, joined: Any, *members: str) -> list[int]:
    stage.later.clear()
    stage.ask(ApiKeys.SYNC_GROUP, 3, {
        "group_id": "g", "generation_id": joined["generation_id"], "member_id": joined["member_id"],
        "group_instance_id": None, "assignments": [{"member_id": member, "assignment": b"a"} for member in members]})
    return [answer["error_code"] for answer in stage.later]


def commit(stage: ApiStage, version: int = 8) -> int:
    answer = stage.ask(ApiKeys.OFFSET_COMMIT, version, {
        "group_id": "h", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "topics": [
            {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1,
                                               "committed_leader_epoch": -1, "committed_metadata": ""}]}]})
    return int(answer["topics"][0]["partitions"][0]["error_code"])


def test_offsets_when_the_disk_is_full_then_they_are_committed_another_time(stage: ApiStage, disk: Disk) -> None:
    """-1 is fatal to consumers: the group was lost with a disk that was full for a moment."""
    disk.fill()
    assert commit(stage) == RETRIABLE
    disk.free()
    assert commit(stage) == 0


def test_member_when_the_disk_is_full_then_it_joins_and_syncs_another_time(stage: ApiStage, disk: Disk) -> None:
    disk.fill()
    assert join(stage)["error_code"] == RETRIABLE
    disk.free()
    leader = join(stage)
    assert leader["error_code"] == 0
    disk.fill()
    assert sync(stage, leader, leader["member_id"]) == [RETRIABLE]
    assert stage.state.group_coordinator.describe("g").state.name == "PREPARING_REBALANCE"  # type: ignore[union-attr]
    disk.free()
    again = join(stage, leader["member_id"])
    assert again["error_code"] == 0
    assert sync(stage, again, again["member_id"]) == [0]


def test_other_members_when_the_leaders_assignment_cannot_be_written_then_they_are_told_too(
        stage: ApiStage, disk: Disk) -> None:
    """Their answers were lost with it: they waited for ever."""
    first = join(stage)
    assert join(stage) is None, "the second waits for the first to come again"
    stage.ask(ApiKeys.JOIN_GROUP, 3, {
        "group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": first["member_id"],
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]})
    joined = {answer["member_id"]: answer for answer in stage.later}
    assert len(joined) == 2
    leader = joined.pop(first["leader"])
    (follower,) = joined.values()
    assert sync(stage, follower) == []
    disk.fill()
    stage.ask(ApiKeys.SYNC_GROUP, 3, {
        "group_id": "g", "generation_id": leader["generation_id"], "member_id": leader["member_id"],
        "group_instance_id": None, "assignments": []})
    assert [answer["error_code"] for answer in stage.later] == [RETRIABLE, RETRIABLE]


def test_group_when_the_disk_is_full_then_it_is_not_deleted(stage: ApiStage, disk: Disk) -> None:
    assert commit(stage) == 0
    disk.fill()
    body = {"groups_names": ["h"]}
    assert stage.ask(ApiKeys.DELETE_GROUPS, 2, body)["results"][0]["error_code"] == RETRIABLE
    disk.free()
    assert stage.state.group_coordinator.describe("h") is not None
    assert stage.ask(ApiKeys.DELETE_GROUPS, 2, body)["results"][0]["error_code"] == 0


@pytest.mark.parametrize("transactional_id", [None, "t"])
def test_producer_when_no_ids_can_be_reserved_then_it_asks_again(
        stage: ApiStage, disk: Disk, transactional_id: str | None) -> None:
    body = {"transactional_id": transactional_id, "transaction_timeout_ms": 1000, "producer_id": -1,
            "producer_epoch": -1}
    disk.fill()
    assert stage.ask(ApiKeys.INIT_PRODUCER_ID, 4, body)["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    disk.free()
    assert stage.ask(ApiKeys.INIT_PRODUCER_ID, 4, body)["error_code"] == 0
