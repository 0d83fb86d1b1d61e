"""A group's time, and what is left of a group that is gone. No connection, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyproducer.broker.cluster.coordinator.group.offsets import CommittedOffset
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.control import ControlRecordType
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


# ---- groups that are made by their first offsets

def commit(stage: ApiStage, *partitions: int, metadata: str = "", generation_id: int = -1) -> list[int]:
    answer = stage.ask(ApiKeys.OFFSET_COMMIT, 8, {
        "group_id": "g", "generation_id_or_member_epoch": generation_id, "member_id": "", "group_instance_id": None,
        "topics": [{"name": "orders", "partitions": [
            {"partition_index": partition, "committed_offset": 1, "committed_leader_epoch": -1,
             "committed_metadata": metadata} for partition in partitions]}]})
    return [partition["error_code"] for topic in answer["topics"] for partition in topic["partitions"]]


def groups(stage: ApiStage) -> list[str]:
    return [found["group_id"] for found in stage.ask(
        ApiKeys.LIST_GROUPS, 4, {"states_filter": []})["groups"]]


def test_group_when_none_of_its_first_offsets_is_accepted_then_there_is_none(stage: ApiStage) -> None:
    """A group without members and offsets was listed, and counted as one that somebody uses."""
    stage.state.topic_life.create_topic("orders", 1, {})
    assert commit(stage, 1, 2) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert commit(stage, 0, metadata="x" * 5000) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert commit(stage) == []
    assert commit(stage, 0, generation_id=3) == [ErrorCode.ILLEGAL_GENERATION]
    assert groups(stage) == []
    assert commit(stage, 0, 1) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert groups(stage) == ["g"]


def test_group_when_its_first_offsets_cannot_be_written_then_there_is_none(
        stage: ApiStage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_fields: object) -> None:
        raise OSError(28, "No space left on device")

    def stage_offsets() -> ErrorCode:
        return stage.state.group_coordinator.stage_offsets(
            "g", "", None, -1, producer_id=7, producer_epoch=0,
            offsets={TopicPartition("orders", 0): CommittedOffset(1)})

    stage.state.topic_life.create_topic("orders", 1, {})
    with monkeypatch.context() as patched:
        patched.setattr("pyproducer.broker.storage.file_handle.FileHandle.write", refuse)
        assert commit(stage, 0) == [ErrorCode.NOT_COORDINATOR]
        assert stage_offsets() is ErrorCode.NOT_COORDINATOR
    assert groups(stage) == []
    assert stage_offsets() is ErrorCode.NONE
    assert groups(stage) == ["g"]


# ---- offsets of open transactions

ORDERS = TopicPartition("orders", 0)


def stage_offset(stage: ApiStage, offset: int) -> None:
    assert stage.state.group_coordinator.stage_offsets(
        "g", "", None, -1, producer_id=7, producer_epoch=0, offsets={ORDERS: CommittedOffset(offset)}) is ErrorCode.NONE


def commit_transaction(stage: ApiStage) -> None:
    partition = stage.state.topics.partition("__consumer_offsets", 0)
    assert partition is not None
    partition.log.append_marker(ControlRecordType.COMMIT, producer_id=7, producer_epoch=0, coordinator_epoch=0,
                                leader_epoch=partition.leadership.leader_epoch, timestamp_ms=1000)
    stage.state.group_coordinator.complete_transaction(7, committed=True)


def committed(stage: ApiStage) -> dict[TopicPartition, int]:
    offsets, pending = stage.state.group_coordinator.fetch_offsets("g")
    assert not pending
    return {topic_partition: offset.offset for topic_partition, offset in offsets.items()}


def delete_topic(stage: ApiStage) -> None:
    """Delete the topic, and make one of its name."""
    stage.state.topic_life.delete_topic("orders")
    stage.state.topic_life.create_topic("orders", 1, {})


@pytest.mark.parametrize("end", [delete, delete_topic], ids=["of a group", "of a topic"])
@pytest.mark.parametrize("has_committed", [False, True], ids=["nothing before", "others before"])
def test_offsets_of_a_transaction_when_what_they_are_of_is_deleted_then_they_do_not_come_back(
        tmp_path: Path, end: Callable[[ApiStage], None], has_committed: bool) -> None:
    """A group or topic made under the same name went on at an offset of the deleted one: after the next start, and
    with a topic at once.
    """
    stage = ApiStage(tmp_path)
    stage.state.topic_life.create_topic("orders", 1, {})
    stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    if has_committed:
        assert commit(stage, 0) == [0]
    stage_offset(stage, 5)
    end(stage)
    commit_transaction(stage)
    found = [committed(stage)]
    for _ in range(2):
        stage.close()
        stage = ApiStage(tmp_path)
        found.append(committed(stage))
    stage.close()
    assert found == [{}, {}, {}]


def test_offsets_of_a_transaction_when_they_are_new_after_a_deletion_then_they_are_committed(tmp_path: Path) -> None:
    stage = ApiStage(tmp_path)
    stage.state.topic_life.create_topic("orders", 1, {})
    stage.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    stage_offset(stage, 5)
    delete(stage)
    stage_offset(stage, 6)
    commit_transaction(stage)
    found = [committed(stage)]
    stage.close()
    stage = ApiStage(tmp_path)
    found.append(committed(stage))
    stage.close()
    assert found == [{ORDERS: 6}, {ORDERS: 6}]
