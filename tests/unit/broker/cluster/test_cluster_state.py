from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.cluster.acl_store import AclBinding
from pyproducer.broker.cluster.cluster_file import ClusterFile, LinesFile
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.cluster.producer_ids import PRODUCER_ID_BLOCK_SIZE
from pyproducer.broker.cluster.replicas import NO_LEADER
from pyproducer.broker.cluster.sasl.scram_credential import generate_credential
from pyproducer.broker.storage.log import AppendResult, Log
from pyproducer.broker.storage.offset_checkpoint import OffsetCheckpoint
from pyproducer.broker.storage.validation import BatchFault
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.network.sasl.scram_formatter import FORMATTERS
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.control import ControlRecordType
from tests.support.clock import ManualClock

Open = Callable[[], ClusterState]


@pytest.fixture
def open_state(tmp_path: Path) -> Iterator[Open]:
    states: list[ClusterState] = []

    def open_state() -> ClusterState:
        for earlier in states:
            earlier.close()
        states.clear()
        state = ClusterState(tmp_path / "data", BrokerConfig(), ManualClock())
        states.append(state)
        state.start()
        return state

    yield open_state
    for state in states:
        state.close()


def test_topics_and_ids_survive_a_restart(open_state: Open) -> None:
    state = open_state()
    created = state.topic_life.create_topic("orders", 3, {"max.message.bytes": "100"})
    assert created is not None
    cluster_id = state.cluster_id
    again = open_state()
    found = again.topics.find("orders")
    assert found is not None
    assert (found.topic_id, len(found.partitions)) == (created.topic_id, 3)
    assert found.config.rules.max_message_bytes == 100
    assert again.topics.find_by_id(created.topic_id) is found
    assert again.cluster_id == cluster_id
    assert len(cluster_id) == 22


def test_partitions_when_some_brokers_do_not_run_then_those_that_do_lead_and_are_in_sync(tmp_path: Path) -> None:
    state = ClusterState(tmp_path, BrokerConfig(), ManualClock(), node_ids=(1, 2, 3))
    state.start()
    state.brokers.register(BrokerInfo(1, {}, None))
    state.brokers.register(BrokerInfo(3, {}, None))
    try:
        topic = state.topic_life.create_topic("orders", 3, {}, replicas=[(2, 3, 1), (1, 2), (2,)])
        assert topic is not None
        assert state.topic_life.create_partitions("orders", 4, [(2, 1)])
        topic = state.topics.find("orders")
        assert topic is not None
        assert [(partition.leadership.leader_id, partition.replicas.assigned, partition.replicas.isr)
                for partition in topic.partitions] == [
            (3, (2, 3, 1), (3, 1)), (1, (1, 2), (1,)), (NO_LEADER, (2,), (2,)), (1, (2, 1), (1,))]
    finally:
        state.close()


def test_election_when_a_log_cannot_be_cut_then_every_partition_has_its_leader_all_the_same(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The file had the new leaders of all partitions by then, and memory those of the first ones."""
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    state = ClusterState(tmp_path, BrokerConfig(), ManualClock(), node_ids=(1, 2))
    state.start()
    try:
        for node_id in (1, 2):
            state.brokers.register(BrokerInfo(node_id, {}, None))
        topic = state.topic_life.create_topic("orders", 3, {"unclean.leader.election.enable": "true"},
                                              replicas=[(1, 2)] * 3)
        assert topic is not None
        state.leaders.stall(2, [partition.topic_partition for partition in topic.partitions], is_stalled=True)
        batch = RecordBatch(build_batch([(1000, b"k", b"v", ())]))
        for partition in topic.partitions:
            assert isinstance(partition.log.append(batch, leader_epoch=0), AppendResult)
        state.brokers.unregister(1)
        with monkeypatch.context() as patch:
            patch.setattr("pyproducer.broker.storage.file_handle.FileHandle.truncate", refuse)
            state.leaders.elect()
        assert [partition.leadership for partition in topic.partitions] == [(2, 1)] * 3
        assert [partition.log.log_end_offset for partition in topic.partitions] == [1] * 3
        assert caplog.messages == [
            f"orders-{index} is led by broker 2, which was not in sync, and its log could not be cut: "
            "[Errno 30] Read-only file system" for index in range(3)]
    finally:
        state.close()


def test_create_topic_twice_is_none(open_state: Open) -> None:
    state = open_state()
    assert state.topic_life.create_topic("orders", 1, {}) is not None
    assert state.topic_life.create_topic("orders", 5, {}) is None
    assert state.topics.partition("orders", 0) is not None
    assert state.topics.partition("orders", 1) is None
    assert state.topics.partition("orders", -1) is None


def test_create_topic_with_a_wrong_setting_leaves_nothing(open_state: Open) -> None:
    state = open_state()
    with pytest.raises(ConfigError):
        state.topic_life.create_topic("orders", 1, {"nonsense": "1"})
    assert state.topics.find("orders") is None
    assert not (state.data_dir.path / "orders-0").exists()


def test_delete_topic_removes_its_files_for_good(open_state: Open) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 2, {})
    assert state.topic_life.delete_topic("orders")
    assert not state.topic_life.delete_topic("orders")
    assert not (state.data_dir.path / "orders-0").exists()
    assert open_state().topics.find("orders") is None


def test_create_topic_starts_empty_where_an_earlier_one_left_files(open_state: Open) -> None:
    state = open_state()
    leftover = state.data_dir.path / "orders-0" / "00000000000000000000.log"
    leftover.parent.mkdir()
    leftover.write_bytes(b"what a crash left")
    assert state.topic_life.create_topic("orders", 1, {}) is not None
    assert leftover.read_bytes() == b""


def test_producer_ids_are_never_given_twice(open_state: Open) -> None:
    state = open_state()
    first = [state.producer_ids.next_producer_id() for _ in range(PRODUCER_ID_BLOCK_SIZE + 5)]
    assert first == list(range(PRODUCER_ID_BLOCK_SIZE + 5))
    assert open_state().producer_ids.next_producer_id() > first[-1]


def test_a_data_directory_has_one_owner(open_state: Open) -> None:
    state = open_state()
    with pytest.raises(ConfigError, match="another broker uses this directory"):
        ClusterState(state.data_dir.path, BrokerConfig(), ManualClock())
    assert state.topic_life.create_topic("orders", 1, {}) is not None


@pytest.mark.parametrize(("name", "text"), [
    ("cluster.jsonl", ""), ("cluster.jsonl", '{"version": 2}\n'),
    ("cluster.jsonl", '{"version": 3, "cluster_id": "x"}\n'), ("cluster.jsonl", '{"version": 2, "cluster_id": "x"}'),
    ("cluster.jsonl", '{"version": 2, "cluster_id": "x"}\n\n'),
    ("cluster.jsonl", '{"version": 2, "cluster_id": "x"}\n[]\n'),
    ("cluster.jsonl", '{"version": 2, "cluster_id": "x"}\n{"else": 1}\n')])
def test_a_cluster_file_that_cannot_be_read_is_a_config_error(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=rf"{re.escape(name)} cannot be read"):
        ClusterState(tmp_path, BrokerConfig(), ManualClock())
    assert (tmp_path / name).read_text("utf-8") == text


def test_a_clean_shutdown_is_marked(open_state: Open) -> None:
    state = open_state()
    mark = state.data_dir.path / ".kafka_cleanshutdown"
    assert not mark.exists()
    state.close()
    assert mark.exists()
    open_state()
    assert not mark.exists()


def test_partitions_and_settings_that_came_later_survive_a_restart(open_state: Open) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})
    assert state.topic_life.create_partitions("orders", 3)
    assert not state.topic_life.create_partitions("orders", 3)
    assert not state.topic_life.create_partitions("no such topic", 3)
    assert state.topic_life.alter_topic_configs("orders", lambda _: {"retention.ms": "5"})
    assert not state.topic_life.alter_topic_configs("no such topic", lambda _: {})
    state.dynamic_configs.alter_broker_configs("", lambda _: {"log.retention.bytes": "1000"})
    state.dynamic_configs.alter_broker_configs("1", lambda _: {"log.segment.bytes": "2000"})
    for seen in (state, open_state()):
        topic = seen.topics.find("orders")
        assert topic is not None
        assert len(topic.partitions) == 3
        for partition in topic.partitions:
            assert partition.config is topic.config
            assert partition.log.config[:1] == (2000,)
            assert (partition.log.config.retention_ms, partition.log.config.retention_bytes) == (5, 1000)
        assert seen.dynamic_configs.by_broker == {
            "": {"log.retention.bytes": "1000"}, "1": {"log.segment.bytes": "2000"}}


def test_settings_that_make_no_sense_change_nothing(open_state: Open) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 1, {"retention.ms": "5"})
    with pytest.raises(ConfigError):
        state.topic_life.alter_topic_configs("orders", lambda _: {"retention.ms": "x"})
    with pytest.raises(ConfigError):
        state.dynamic_configs.alter_broker_configs("", lambda _: {"num.partitions": "7"})
    for seen in (state, open_state()):
        topic = seen.topics.find("orders")
        assert topic is not None
        assert topic.config.log.retention_ms == 5
        assert not any(seen.dynamic_configs.by_broker.values())


def test_start_offsets_survive_a_restart_and_go_with_their_topic(open_state: Open) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})
    state.topic_life.start_offsets.put(TopicPartition("orders", 0), 7)
    state = open_state()
    assert state.topic_life.start_offsets.get(TopicPartition("orders", 0)) == 7
    assert (state.data_dir.path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 7\n"
    state.topic_life.delete_topic("orders")
    assert open_state().topic_life.start_offsets.get(TopicPartition("orders", 0)) is None


def test_log_manager_deletes_what_retention_lets_go(open_state: Open) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 2, {"retention.ms": "1000", "segment.bytes": "100"})
    partition = state.topics.partition("orders", 1)
    assert partition is not None
    for number in range(3):
        batch = RecordBatch(build_batch([(number, b"key", b"value", ())]))
        assert isinstance(partition.log.append(batch, leader_epoch=0), AppendResult)
    assert state.log_manager.run_retention(1001) == 1
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (1, 3)


# ---- files that are damaged, and a disk that is full

def append(state: ClusterState, partition: int = 0, *, topic: str = "orders") -> None:
    found = state.topics.partition(topic, partition)
    assert found is not None
    batch = RecordBatch(build_batch([(1, b"key", b"value", ())]))
    assert isinstance(found.log.append(batch, leader_epoch=0), AppendResult)


def test_start_when_the_last_batches_are_gone_after_a_clean_stop_then_it_is_refused(open_state: Open) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 2, {})
    for _ in range(3):
        append(state, 1)
    state.close()
    assert (state.data_dir.path / "recovery-point-offset-checkpoint").read_text() == "0\n2\norders 0 0\norders 1 3\n"
    path = state.data_dir.path / "orders-1" / "00000000000000000000.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:len(whole) // 3 * 2])
    with pytest.raises(ConfigError, match=f"{path} is damaged: the log ends at offset 2, .* it ended at 3"):
        open_state()
    path.write_bytes(whole)
    partition = open_state().topics.partition("orders", 1)
    assert partition is not None
    assert partition.log.log_end_offset == 3


def test_start_when_the_broker_was_killed_then_where_logs_ended_before_counts_for_nothing(
        open_state: Open, tmp_path: Path) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})
    append(state)
    state = open_state()
    append(state)
    copy = tmp_path / "killed"
    shutil.copytree(state.data_dir.path, copy)  # as a kill leaves it
    (copy / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    again = ClusterState(copy, BrokerConfig(), ManualClock())
    partition = again.topics.partition("orders", 0)
    assert partition is not None
    assert partition.log.log_end_offset == 2
    again.close()


def test_start_when_a_partitions_files_are_gone_then_it_is_refused(open_state: Open) -> None:
    """The partition was opened as an empty one."""
    state = open_state()
    state.topic_life.create_topic("orders", 2, {})
    append(state, 1)
    state.close()
    directory = state.data_dir.path / "orders-1"
    kept = directory.rename(state.data_dir.path / "kept")
    with pytest.raises(ConfigError, match=f"{directory}/0{{20}}.log is damaged: neither this file nor any other"):
        open_state()
    assert not directory.exists()
    kept.rename(directory)
    assert open_state().topics.partition("orders", 1) is not None


def damage_length(directory: Path) -> None:
    path = sorted(directory.glob("*.log"))[1]
    data = bytearray(path.read_bytes())
    data[8:12] = bytes(4)  # the length of the first of two batches
    path.write_bytes(data)


def damage_record(directory: Path) -> None:
    path = sorted(directory.glob("*.log"))[-1]
    data = bytearray(path.read_bytes())
    data[70] ^= 0xff  # in the first of two batches: only a start after a kill looks there
    path.write_bytes(data)


@pytest.mark.parametrize(("stop", "damage"), [
    ("in order", damage_length), ("killed", damage_length), ("killed", damage_record), ("in order", shutil.rmtree),
    ("in order", lambda directory: sorted(directory.glob("*.log"))[-1].unlink())])
def test_start_when_a_damaged_log_may_be_set_aside_then_its_partition_goes_on_where_it_ended_and_others_have_all(
        open_state: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture, stop: str,
        damage: Callable[[Path], None]) -> None:
    """One bad batch kept every topic down."""
    state = open_state()
    state.topic_life.create_topic("orders", 2, {"segment.bytes": "152"})
    for number in range(12):
        append(state, number % 2)
    directory = state.data_dir.path
    if stop == "killed":
        shutil.copytree(directory, tmp_path / "killed")
        directory = tmp_path / "killed"
    state.close()
    damage(directory / "orders-1")
    damaged = {path.name: path.read_bytes() for path in directory.glob("orders-1/*")}
    with pytest.raises(ConfigError, match="--salvage"):
        ClusterState(directory, BrokerConfig(), ManualClock())
    for expected, settings in ((6, {"salvage.damaged.logs": True}), (7, {})):
        again = ClusterState(directory, BrokerConfig(settings), ManualClock())
        again.start()
        logs = [partition.log for partition in again.topics["orders"].partitions]
        assert [(log.log_start_offset, log.log_end_offset) for log in logs] == [(0, 6), (6, expected)]
        append(again, 1)
        again.close()
    kept = [path for path in directory.iterdir() if path.name.endswith("-damaged")]
    assert [{path.name: path.read_bytes() for path in found.iterdir()} for found in kept] == [damaged] * bool(damaged)
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "orders-1 begins empty at offset 6, and what it had is kept in" in line


def test_start_when_a_log_was_set_aside_and_the_broker_died_then_it_still_goes_on_where_it_ended(
        open_state: Open, tmp_path: Path) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})
    for _ in range(3):
        append(state)
    killed = tmp_path / "killed"
    shutil.copytree(state.data_dir.path, killed)
    (killed / "orders-0").rename(killed / "orders-0.0123456789abcdef0123456789abcdef-damaged")
    with pytest.raises(ConfigError, match="is damaged: neither this file nor any other"):
        ClusterState(killed, BrokerConfig(), ManualClock())
    again = ClusterState(killed, BrokerConfig({"salvage.damaged.logs": True}), ManualClock())
    assert again.topics["orders"].partitions[0].log.log_start_offset == 3
    again.close()


def test_close_when_a_log_has_leftovers_of_a_failed_write_then_the_stop_is_no_clean_one(
        open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})
    append(state)
    write = os.write

    def fail(_fd: int, *_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    def fail_half_way(fd: int, chunks: list[bytes]) -> int:
        write(fd, b"".join(chunks)[:30])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", fail_half_way)
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(OSError, match="No space"):
            append(state)
        state.close()
    assert not (state.data_dir.path / ".kafka_cleanshutdown").exists()
    partition = open_state().topics.partition("orders", 0)
    assert partition is not None
    assert partition.log.log_end_offset == 1


class FullDisk:
    """Leaves no space for the small files, while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        write_text = Path.write_text

        def write(path: Path, text: str, *arguments: str) -> int:
            if self.is_full:
                write_text(path, text[:len(text) // 2], *arguments)
                raise OSError(errno.ENOSPC, "No space left on device")
            return write_text(path, text, *arguments)

        add, rewrite = LinesFile.add, LinesFile.write

        def add_half(file: LinesFile, line: bytes) -> None:
            if self.is_full:
                with monkeypatch.context() as patch:
                    patch.setattr(os, "writev", write_half)
                    add(file, line)
            add(file, line)

        def write_half(fd: int, chunks: tuple[bytes]) -> int:
            os.write(fd, chunks[0][:len(chunks[0]) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

        def write_all(path: Path, content: ClusterFile) -> LinesFile:
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return rewrite(path, content)

        monkeypatch.setattr(Path, "write_text", write)
        monkeypatch.setattr(LinesFile, "add", add_half)
        monkeypatch.setattr(LinesFile, "write", write_all)

    def refuses(self, operation: Callable[[], object]) -> None:
        self.is_full = True
        with pytest.raises(OSError, match="No space"):
            operation()
        self.is_full = False


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def test_producer_ids_when_there_is_no_space_to_reserve_them_then_none_is_given(
        open_state: Open, disk: FullDisk) -> None:
    """The second call gave ids of a block that was not reserved: after a restart others got the same ones."""
    state = open_state()
    for _ in range(2):
        disk.refuses(state.producer_ids.next_producer_id)
    given = [state.producer_ids.next_producer_id() for _ in range(3)]
    assert open_state().producer_ids.next_producer_id() not in given


def test_topics_when_there_is_no_space_for_a_change_then_it_is_not_made(open_state: Open, disk: FullDisk) -> None:
    state = open_state()
    orders = TopicPartition("orders", 0)
    state.topic_life.create_topic("orders", 1, {"retention.ms": "5"})
    append(state)
    disk.refuses(lambda: state.topic_life.create_topic("other", 1, {}))
    disk.refuses(lambda: state.topic_life.create_partitions("orders", 3))
    disk.refuses(lambda: state.topic_life.alter_topic_configs("orders", lambda _: {"retention.ms": "6"}))
    disk.refuses(lambda: state.dynamic_configs.alter_broker_configs("", lambda _: {"log.retention.bytes": "1000"}))
    disk.refuses(lambda: state.leaders.change_leaders({orders: 1}))
    disk.refuses(lambda: state.topic_life.delete_topic("orders"))
    assert sorted(path.name for path in state.data_dir.path.iterdir() if path.is_dir()) == ["orders-0"]
    for seen in (state, open_state()):
        assert list(seen.topics) == ["orders"]
        topic = seen.topics["orders"]
        assert (len(topic.partitions), topic.config.log.retention_ms, topic.config.log.retention_bytes) == (1, 5, -1)
        assert topic.partitions[0].leadership.leader_epoch == 0
        assert topic.partitions[0].log.log_end_offset == 1
        assert not any(seen.dynamic_configs.by_broker.values())
    again = open_state()
    assert again.topic_life.create_topic("other", 1, {}) is not None
    assert again.topic_life.create_partitions("orders", 2)
    assert again.topic_life.delete_topic("orders")


def test_delete_topic_when_its_start_offset_cannot_be_forgotten_then_one_of_its_name_begins_at_0_all_the_same(
        open_state: Open, disk: FullDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})
    state.topic_life.start_offsets.put(TopicPartition("orders", 0), 2)
    forget = OffsetCheckpoint.forget
    monkeypatch.setattr(OffsetCheckpoint, "forget", lambda checkpoint, topic: disk.refuses(
        lambda: forget(checkpoint, topic)))
    assert state.topic_life.delete_topic("orders")
    monkeypatch.undo()
    state.topic_life.create_topic("orders", 1, {})
    for _ in range(3):
        append(state)
    partition = open_state().topics.partition("orders", 0)
    assert partition is not None
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 3)


def test_close_when_the_disk_is_full_then_the_directory_is_given_back_and_the_next_start_finds_all(
        open_state: Open, disk: FullDisk) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})
    append(state)
    disk.is_full = True
    state.close()
    disk.is_full = False
    assert not (state.data_dir.path / ".kafka_cleanshutdown").exists()
    partition = open_state().topics.partition("orders", 0)
    assert partition is not None
    assert partition.log.log_end_offset == 1


def test_start_when_the_disk_is_full_then_the_broker_starts_and_makes_space(open_state: Open, disk: FullDisk) -> None:
    """It could not: small files were written that had not changed."""
    state = open_state()
    state.topic_life.create_topic("orders", 1, {"segment.bytes": "100"})
    for _ in range(3):
        append(state)
    state.topic_life.start_offsets.put(TopicPartition("orders", 0), 1)
    state.close()
    (state.data_dir.path / "orders-0" / "leader-epoch-checkpoint").unlink()
    disk.is_full = True
    again = open_state()
    disk.is_full = False
    partition = again.topics["orders"].partitions[0]
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (1, 3)
    assert partition.log.increment_log_start_offset(2) == 2
    assert len(list(partition.log.directory.glob("*.log"))) == 1


# ---- a topic is deleted, and another one of its name is made meanwhile

def test_delete_topic_when_its_name_is_taken_before_the_files_are_gone_then_the_new_files_stay(
        open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new topic's logs were opened in the old directories, which were then removed: what it acknowledged was
    written to files without a name, and gone at the next start."""
    state = open_state()
    state.topic_life.create_topic("orders", 2, {})
    append(state)
    rmtree = shutil.rmtree
    made: list[object] = []

    def remove(path: Path, **arguments: Any) -> None:
        if not made:
            made.append(state.topic_life.create_topic("orders", 3, {}))
            for partition in range(3):
                append(state, partition)
        rmtree(path, **arguments)

    monkeypatch.setattr(shutil, "rmtree", remove)
    assert state.topic_life.delete_topic("orders")
    assert made[0] is state.topics.find("orders") is not None
    for seen in (state, open_state()):
        assert sorted(path.name for path in seen.data_dir.path.iterdir() if path.is_dir()) == [
            "orders-0", "orders-1", "orders-2"]
        topic = seen.topics["orders"]
        assert [partition.log.log_end_offset for partition in topic.partitions] == [1, 1, 1]


def test_delete_topic_when_it_is_not_done_then_the_name_is_not_free(
        open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups forget their offsets in the old topic: those in the new one must not be there yet."""
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})
    is_taken: list[bool] = []
    monkeypatch.setattr(state.group_coordinator, "on_topic_deleted",
                        lambda _: is_taken.append(state.topic_life._life_lock.locked()))
    assert state.topic_life.delete_topic("orders")
    assert is_taken == [True]
    assert not state.topic_life._life_lock.locked()


ORDERS_0 = TopicPartition("orders", 0)
READ_ORDERS = AclBinding(2, "orders", 3, "User:ada", "*", 3, 3)


@pytest.mark.parametrize("change", [
    lambda state: state.topic_life.create_topic("other", 1, {}),
    lambda state: state.topic_life.create_partitions("orders", 3),
    lambda state: state.topic_life.alter_topic_configs("orders", lambda _: {"retention.ms": "6"}),
    lambda state: state.topic_life.delete_topic("orders"),
    lambda state: state.leaders.change_leaders({ORDERS_0: 1}),
    lambda state: state.leaders.reassign({ORDERS_0: [1, 2]}),
    lambda state: state.dynamic_configs.alter_broker_configs("", lambda _: {"log.retention.bytes": "1000"}),
    lambda state: state.producer_ids.next_producer_id(),
    lambda state: state.acls.add([READ_ORDERS]),
    lambda state: state.acls.remove([READ_ORDERS]),
    lambda state: state.scram_credentials.alter({
        ("ada", "SCRAM-SHA-256"): generate_credential(FORMATTERS["SCRAM-SHA-256"], "secret")}),
], ids=["create_topic", "create_partitions", "alter_topic_configs", "delete_topic", "change_leaders", "reassign",
        "alter_broker_configs", "next_producer_id", "add_acls", "remove_acls", "alter_scram"])
def test_change_when_it_is_written_then_no_other_one_can_be_made_meanwhile(
        open_state: Open, monkeypatch: pytest.MonkeyPatch, change: Callable[[ClusterState], object]) -> None:
    """Of two at once each would write what there was before the other one, and one would be forgotten."""
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})
    add = LinesFile.add
    is_held: list[bool] = []

    def add_and_look(file: LinesFile, line: bytes) -> None:
        is_held.append(state.store.lock.locked())
        add(file, line)

    monkeypatch.setattr(LinesFile, "add", add_and_look)
    change(state)
    assert is_held == [True]
    assert not state.store.lock.locked()


@pytest.mark.parametrize("operation", [
    pytest.param(lambda log: log.append(RecordBatch(build_batch([(1, None, b"v" * 500, ())])), leader_epoch=9),
                 id="append"),
    pytest.param(lambda log: log.append_marker(ControlRecordType.ABORT, producer_id=5, producer_epoch=0,
                                               coordinator_epoch=0, leader_epoch=9, timestamp_ms=1), id="marker"),
    pytest.param(lambda log: log.increment_log_start_offset(1), id="delete records"),
    pytest.param(lambda log: log.delete_old_segments(1 << 60), id="retention"),
    pytest.param(lambda log: log.close(), id="close"),
    pytest.param(lambda log: log.delete(), id="delete again"),
])
def test_log_when_its_topic_was_deleted_then_what_still_comes_leaves_the_new_topics_files_alone(
        open_state: Open, operation: Callable[[Log], object]) -> None:
    """A request that found the partition before was carried out after: in the directory of the new topic."""
    state = open_state()
    state.topic_life.create_topic("orders", 1, {"segment.bytes": "100"})
    for _ in range(3):
        append(state)
    old = state.topics["orders"].partitions[0].log
    state.topic_life.delete_topic("orders")
    state.topic_life.create_topic("orders", 1, {})
    append(state)
    directory = state.data_dir.path / "orders-0"
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    answer = operation(old)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert (old.log_start_offset, old.log_end_offset) == (0, 0)
    if isinstance(answer, BatchFault):
        assert answer.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        assert not isinstance(answer, AppendResult)


def test_delete_records_when_the_topic_was_made_anew_meanwhile_then_the_new_one_begins_at_0(open_state: Open) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})
    old = state.topics["orders"].partitions[0]
    state.topic_life.checkpoint_start(old, 2)
    assert state.topic_life.start_offsets.get(TopicPartition("orders", 0)) == 2
    state.topic_life.delete_topic("orders")
    state.topic_life.create_topic("orders", 1, {})
    state.topic_life.checkpoint_start(old, 2)
    assert state.topic_life.start_offsets.get(TopicPartition("orders", 0)) is None


def test_delete_topic_by_id_when_the_name_has_another_topic_by_now_then_that_stays(open_state: Open) -> None:
    state = open_state()
    first = state.topic_life.create_topic("orders", 1, {})
    assert first is not None
    assert state.topic_life.delete_topic("orders", first.topic_id)
    second = state.topic_life.create_topic("orders", 1, {})
    assert second is not None
    assert not state.topic_life.delete_topic("orders", first.topic_id)
    assert state.topics.find("orders") is second
    assert state.topic_life.delete_topic("orders", second.topic_id)


def test_topic_when_its_name_is_as_long_as_can_be_then_it_can_be_deleted(
        open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    state = open_state()
    renamed: list[Path] = []
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda path, target: (renamed.append(target), rename(path, target)))
    name = "x" * 249
    state.topic_life.create_topic(name, 12, {})
    assert state.topic_life.delete_topic(name)
    assert len(set(renamed)) == 12
    assert {len(path.name) for path in renamed} == {255}
    assert not [path for path in state.data_dir.path.iterdir() if path.is_dir()]


def test_delete_topic_when_the_directory_cannot_be_renamed_then_it_is_removed_before_the_name_is_free(
        open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    state = open_state()
    state.topic_life.create_topic("orders", 1, {})

    def fail(_path: Path, _target: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    there: list[bool] = []
    monkeypatch.setattr(Path, "rename", fail)
    monkeypatch.setattr(state.group_coordinator, "on_topic_deleted",
                        lambda _: there.append((state.data_dir.path / "orders-0").exists()))
    assert state.topic_life.delete_topic("orders")
    assert there == [False]


def test_start_when_the_broker_died_while_it_deleted_then_the_rest_is_removed_and_nothing_else(
        open_state: Open) -> None:
    state = open_state()
    state.topic_life.create_topic("a.0123456789abcdef0123456789abcdef-delete", 1, {})
    path = state.data_dir.path
    for name in ("orders-0.0123456789abcdef0123456789abcdef-delete", "orders-1.0123456789abcdef0123456789abcdef-stray",
                 "my-delete", "orders-0-delete"):
        (path / name).mkdir()
        (path / name / "00000000000000000000.log").write_bytes(b"records")
    open_state()
    assert sorted(found.name for found in path.iterdir() if found.is_dir()) == [
        "a.0123456789abcdef0123456789abcdef-delete-0", "my-delete", "orders-0-delete",
        "orders-1.0123456789abcdef0123456789abcdef-stray"]


@pytest.mark.parametrize("data", [b"records that somebody put there", b""], ids=["records", "nothing"])
def test_create_topic_when_there_is_a_directory_of_its_name_then_records_in_it_are_kept_aside(
        open_state: Open, caplog: pytest.LogCaptureFixture, data: bytes) -> None:
    """They were deleted without a word."""
    state = open_state()
    directory = state.data_dir.path / "orders-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(data)
    assert state.topic_life.create_topic("orders", 1, {}) is not None
    kept = [path for path in state.data_dir.path.iterdir() if path.name.endswith("-stray")]
    assert [(path / "00000000000000000000.log").read_bytes() for path in kept] == ([data] if data else [])
    assert [kept[0].name in record.getMessage() for record in caplog.records] == ([True] if data else [])
    assert state.topics["orders"].partitions[0].log.log_end_offset == 0
