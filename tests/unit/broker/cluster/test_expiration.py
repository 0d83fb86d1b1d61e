"""What a broker forgets after a time: producers of a log, committed offsets, transactional ids."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.coordinator.group.member import (
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)
from pyproducer.broker.cluster.coordinator.group.offsets import CommittedOffset
from pyproducer.broker.cluster.coordinator.internal_topics import (
    GROUP_METADATA_TOPIC_NAME,
    TRANSACTION_STATE_TOPIC_NAME,
)
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.storage.log import AppendResult
from pyproducer.common.clock import SystemClock
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.control import ControlRecordType
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S

ORDERS = TopicPartition("orders", 0)
GROUP = "readers"
HOUR_MS = 3_600_000
RETENTION_MS = 2 * HOUR_MS
SETTINGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1,
            "offsets.retention.minutes": 120, "transactional.id.expiration.ms": RETENTION_MS,
            "producer.id.expiration.ms": RETENTION_MS}


class Stage:
    """A cluster whose clock stands still; `restart` gives another one over the same files."""

    def __init__(self, data_dir: Path) -> None:
        self.clock = ManualClock()
        self._data_dir = data_dir
        self.state = self._open()
        self.state.topic_life.create_topic("orders", 1, {})
        for name in (GROUP_METADATA_TOPIC_NAME, TRANSACTION_STATE_TOPIC_NAME):
            assert self.state.internal_topics.get_or_create(name) is not None

    def _open(self) -> ClusterState:
        state = ClusterState(self._data_dir, BrokerConfig(SETTINGS), self.clock)
        state.brokers.register(BrokerInfo(1, {}, None))
        state.start()
        return state

    def restart(self) -> None:
        self.state.close()
        self.state = self._open()

    def commit(self, offset: int, partition: int = 0, *, member_id: str = "", generation_id: int = -1) -> None:
        assert self.state.group_coordinator.commit_offsets(GROUP, member_id, None, generation_id, {
            TopicPartition("orders", partition): CommittedOffset(
                offset, commit_timestamp_ms=self.clock.timestamp_ms())}) is ErrorCode.NONE

    def committed(self) -> dict[int, int]:
        offsets, _ = self.state.group_coordinator.fetch_offsets(GROUP)
        return {topic_partition.partition: offset.offset for topic_partition, offset in offsets.items()}

    def expire_offsets(self) -> int:
        return self.state.group_coordinator.expire_offsets(self.clock.timestamp_ms())

    def expire_ids(self) -> int:
        return self.state.transactions.expire_ids(self.clock.timestamp_ms())

    def join(self) -> str:
        """Be the only member of the group; return the member's id."""
        joined: list[JoinAnswer] = []
        synced: list[SyncAnswer] = []
        self.state.group_coordinator.join(JoinRequest(
            GROUP, "", None, "client", "host", 10_000, 10_000, "consumer", (("range", b""),),
            requires_known_member_id=False, supports_skipping_assignment=False), joined.append)
        member_id = joined[0].member_id
        self.state.group_coordinator.sync(SyncRequest(
            GROUP, joined[0].generation_id, member_id, None, "consumer", "range", {member_id: b""}), synced.append)
        assert synced[0].error_code is ErrorCode.NONE
        return member_id

    def leave(self, member_id: str) -> None:
        assert self.state.group_coordinator.leave(GROUP, [LeavingMember(member_id, None)]) == [ErrorCode.NONE]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "data")
    yield made
    made.state.close()


# ---- offsets

def test_offsets_of_a_group_without_members_when_they_are_old_then_they_go_and_the_group_after_them(
        stage: Stage) -> None:
    stage.commit(5, 0)
    stage.clock.advance(HOUR_MS)
    stage.commit(7, 1)
    stage.clock.advance(HOUR_MS - 1)
    assert (stage.expire_offsets(), stage.committed()) == (0, {0: 5, 1: 7})
    stage.clock.advance(1)
    assert (stage.expire_offsets(), stage.committed()) == (1, {1: 7})
    assert stage.state.group_coordinator.describe(GROUP) is not None
    stage.restart()
    assert stage.committed() == {1: 7}
    stage.clock.advance(HOUR_MS)
    assert (stage.expire_offsets(), stage.committed()) == (1, {})
    for _ in range(2):
        assert stage.state.group_coordinator.describe(GROUP) is None
        assert stage.committed() == {}
        stage.restart()


def test_offsets_of_a_group_that_had_members_when_the_last_one_has_left_then_they_count_from_there(
        stage: Stage) -> None:
    member_id = stage.join()
    stage.commit(5, member_id=member_id, generation_id=1)
    for _ in range(5):
        stage.clock.advance(HOUR_MS)
        assert stage.expire_offsets() == 0, "there is a member"
    stage.leave(member_id)
    stage.clock.advance(RETENTION_MS - 1)
    assert (stage.expire_offsets(), stage.committed()) == (0, {0: 5})
    stage.restart()
    assert (stage.expire_offsets(), stage.committed()) == (0, {0: 5})
    stage.clock.advance(1)
    assert (stage.expire_offsets(), stage.committed()) == (1, {})


def test_offsets_when_a_transaction_may_still_move_them_then_they_and_the_group_stay(stage: Stage) -> None:
    stage.commit(5)
    assert stage.state.group_coordinator.stage_offsets(GROUP, "", None, -1, producer_id=3, producer_epoch=0, offsets={
        ORDERS: CommittedOffset(6, commit_timestamp_ms=stage.clock.timestamp_ms())}) is ErrorCode.NONE
    stage.clock.advance(RETENTION_MS)
    assert (stage.expire_offsets(), stage.committed()) == (0, {0: 5})
    stage.state.group_coordinator.complete_transaction(3, committed=False)
    assert (stage.expire_offsets(), stage.committed()) == (1, {})


def test_offsets_when_their_end_cannot_be_written_then_they_stay(
        stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.commit(5)
    stage.clock.advance(RETENTION_MS)
    with monkeypatch.context() as patch:
        patch.setattr(stage.state.internal_topics, "partition_of", lambda *_: None)
        assert (stage.expire_offsets(), stage.committed()) == (0, {0: 5})
    assert (stage.expire_offsets(), stage.committed()) == (1, {})


# ---- transactional ids

def test_transactional_id_when_it_is_not_used_for_long_then_it_is_forgotten_for_good(stage: Stage) -> None:
    first = stage.state.transactions.initialize("shop", 60_000, None)
    assert first.error_code is ErrorCode.NONE
    stage.clock.advance(RETENTION_MS - 1)
    assert stage.expire_ids() == 0
    stage.clock.advance(1)
    assert stage.expire_ids() == 1
    for _ in range(2):
        assert stage.state.transactions.describe("shop") is None
        stage.restart()
    again = stage.state.transactions.initialize("shop", 60_000, None)
    assert (again.error_code, again.producer_epoch) == (ErrorCode.NONE, 0)
    assert again.producer_id != first.producer_id


def test_transactional_id_when_a_transaction_is_open_then_it_stays_until_that_has_ended(
        stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage.state.timer, "schedule", lambda *_: None)
    _, producer_id, epoch = stage.state.transactions.initialize("shop", 900_000, None)
    assert stage.state.transactions.add_partitions("shop", producer_id, epoch, [ORDERS],
                                                   client_transaction_version=1) is ErrorCode.NONE
    stage.clock.advance(RETENTION_MS)
    assert stage.expire_ids() == 0
    entry = stage.state.transactions._entries["shop"]
    entry.timeout_task = None
    assert stage.state.transactions.end("shop", producer_id, epoch, commit=True,
                                        client_transaction_version=1).error_code is ErrorCode.NONE
    assert stage.expire_ids() == 0
    stage.clock.advance(RETENTION_MS)
    assert stage.expire_ids() == 1


@pytest.mark.parametrize("operation", [
    lambda stage, producer_id, epoch: stage.state.transactions.add_partitions(
        "shop", producer_id, epoch, [ORDERS], client_transaction_version=1),
    lambda stage, producer_id, epoch: stage.state.transactions.verify_partition("shop", producer_id, epoch, ORDERS),
    lambda stage, producer_id, epoch: stage.state.transactions.end(
        "shop", producer_id, epoch, commit=True, client_transaction_version=1).error_code,
    lambda stage, producer_id, epoch: stage.state.transactions.end(
        "shop", producer_id, epoch, commit=True, client_transaction_version=2).error_code,
], ids=["add partitions", "verify", "end", "end V2"])
@pytest.mark.parametrize("comes_late", [False, True], ids=["after it", "in the middle of it"])
def test_transactional_id_when_it_expires_then_its_producer_is_told_that_nobody_knows_it(
        stage: Stage, operation: Callable[[Stage, int, int], ErrorCode], comes_late: bool) -> None:
    """In the middle: the request has found the id, and waits for its lock."""
    _, producer_id, epoch = stage.state.transactions.initialize("shop", 60_000, None)
    stage.clock.advance(RETENTION_MS)
    entry = stage.state.transactions._entries["shop"]
    assert stage.expire_ids() == 1
    if comes_late:
        stage.state.transactions._entries["shop"] = entry
    assert operation(stage, producer_id, epoch) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_initialize_when_the_id_expires_before_it_has_the_lock_then_a_new_one_is_made(stage: Stage) -> None:
    first = stage.state.transactions.initialize("shop", 60_000, None)
    stage.clock.advance(RETENTION_MS)
    answers = []
    entry = stage.state.transactions._entries["shop"]
    asking = threading.Thread(target=lambda: answers.append(
        stage.state.transactions.initialize("shop", 60_000, None)))
    with entry.lock:
        asking.start()
        assert stage.expire_ids() == 1
    asking.join(GIVE_UP_S)
    (second,) = answers
    assert (second.error_code, second.producer_epoch) == (ErrorCode.NONE, 0)
    assert second.producer_id != first.producer_id
    found = stage.state.transactions.describe("shop")
    assert found is not None
    assert found.producer_id == second.producer_id


# ---- producers of a log

def write(stage: Stage, producer_id: int, base_sequence: int, *, is_transactional: bool = False) -> ErrorCode:
    batch = RecordBatch(build_batch([(stage.clock.timestamp_ms(), b"k", b"v", ())], producer_id=producer_id,
                                    producer_epoch=0, base_sequence=base_sequence, is_transactional=is_transactional))
    result = stage.state.topics["orders"].partitions[0].log.append(batch, leader_epoch=0)
    return ErrorCode.NONE if isinstance(result, AppendResult) else result.error_code


def test_producer_when_it_has_not_written_for_long_then_it_is_forgotten_unless_its_transaction_is_open(
        stage: Stage) -> None:
    log = stage.state.topics["orders"].partitions[0].log

    def known() -> list[int]:
        return sorted(producer.producer_id for producer in log.producers.active_producers())

    assert write(stage, 1, 0) is ErrorCode.NONE
    assert write(stage, 2, 0, is_transactional=True) is ErrorCode.NONE
    stage.clock.advance(HOUR_MS)
    assert write(stage, 3, 0) is ErrorCode.NONE
    assert write(stage, 1, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    stage.clock.advance(HOUR_MS - 1)
    assert (stage.state.log_manager.run_producer_expiration(stage.clock.timestamp_ms()), known()) == (0, [1, 2, 3])
    stage.clock.advance(1)
    assert (stage.state.log_manager.run_producer_expiration(stage.clock.timestamp_ms()), known()) == (1, [2, 3])
    assert write(stage, 1, 5) is ErrorCode.NONE, "an unknown producer may begin anywhere"
    assert log.last_stable_offset == 1
    log.append_marker(ControlRecordType.COMMIT, producer_id=2, producer_epoch=0, coordinator_epoch=0, leader_epoch=0,
                      timestamp_ms=stage.clock.timestamp_ms())
    assert (stage.state.log_manager.run_producer_expiration(stage.clock.timestamp_ms()), known()) == (0, [1, 2, 3])
    stage.clock.advance(RETENTION_MS)
    assert (stage.state.log_manager.run_producer_expiration(stage.clock.timestamp_ms()), known()) == (3, [])


def test_log_manager_when_one_of_its_tasks_fails_then_the_others_have_their_turn(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    state = ClusterState(tmp_path / "data", BrokerConfig({
        "offsets.retention.check.interval.ms": 1,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 1}), SystemClock())
    done = threading.Event()

    def fail(_timestamp_ms: int) -> int:
        raise OSError("no space left, by the test")

    monkeypatch.setattr(state.group_coordinator, "expire_offsets", fail)
    monkeypatch.setattr(state.transactions, "expire_ids", lambda _: done.set())
    state.start()
    try:
        assert done.wait(GIVE_UP_S), "the other task never ran"
    finally:
        state.close()
    assert "Could not let go what is old" in caplog.text
