from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyproducer.broker.cluster_state import PRODUCER_ID_BLOCK_SIZE, ClusterState
from pyproducer.broker.config import BrokerConfig
from pyproducer.broker.storage.log import AppendResult
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_batch
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
    created = state.create_topic("orders", 3, {"max.message.bytes": "100"})
    assert created is not None
    cluster_id = state.cluster_id
    again = open_state()
    found = again.topic("orders")
    assert found is not None
    assert (found.topic_id, len(found.partitions)) == (created.topic_id, 3)
    assert found.config.rules.max_message_bytes == 100
    assert again.topic_by_id(created.topic_id) is found
    assert again.cluster_id == cluster_id
    assert len(cluster_id) == 22


def test_create_topic_twice_is_none(open_state: Open) -> None:
    state = open_state()
    assert state.create_topic("orders", 1, {}) is not None
    assert state.create_topic("orders", 5, {}) is None
    assert state.partition("orders", 0) is not None
    assert state.partition("orders", 1) is None
    assert state.partition("orders", -1) is None


def test_create_topic_with_a_wrong_setting_leaves_nothing(open_state: Open) -> None:
    state = open_state()
    with pytest.raises(ConfigError):
        state.create_topic("orders", 1, {"nonsense": "1"})
    assert state.topic("orders") is None
    assert not (state.data_dir.path / "orders-0").exists()


def test_delete_topic_removes_its_files_for_good(open_state: Open) -> None:
    state = open_state()
    state.create_topic("orders", 2, {})
    assert state.delete_topic("orders")
    assert not state.delete_topic("orders")
    assert not (state.data_dir.path / "orders-0").exists()
    assert open_state().topic("orders") is None


def test_create_topic_starts_empty_where_an_earlier_one_left_files(open_state: Open) -> None:
    state = open_state()
    leftover = state.data_dir.path / "orders-0" / "00000000000000000000.log"
    leftover.parent.mkdir()
    leftover.write_bytes(b"what a crash left")
    assert state.create_topic("orders", 1, {}) is not None
    assert leftover.read_bytes() == b""


def test_producer_ids_are_never_given_twice(open_state: Open) -> None:
    state = open_state()
    first = [state.next_producer_id() for _ in range(PRODUCER_ID_BLOCK_SIZE + 5)]
    assert first == list(range(PRODUCER_ID_BLOCK_SIZE + 5))
    assert open_state().next_producer_id() > first[-1]


def test_a_data_directory_has_one_owner(open_state: Open) -> None:
    state = open_state()
    with pytest.raises(ConfigError, match="another broker uses this directory"):
        ClusterState(state.data_dir.path, BrokerConfig(), ManualClock())
    assert state.create_topic("orders", 1, {}) is not None


def test_a_cluster_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"version": 1}', "utf-8")
    with pytest.raises(ConfigError, match=r"cluster\.json cannot be read"):
        ClusterState(tmp_path, BrokerConfig(), ManualClock())


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
    state.create_topic("orders", 1, {})
    assert state.create_partitions("orders", 3)
    assert not state.create_partitions("orders", 3)
    assert not state.create_partitions("no such topic", 3)
    assert state.alter_topic_configs("orders", {"retention.ms": "5"})
    assert not state.alter_topic_configs("no such topic", {})
    state.alter_broker_configs("", {"log.retention.bytes": "1000"})
    state.alter_broker_configs("1", {"log.segment.bytes": "2000"})
    for seen in (state, open_state()):
        topic = seen.topic("orders")
        assert topic is not None
        assert len(topic.partitions) == 3
        for partition in topic.partitions:
            assert partition.config is topic.config
            assert partition.log.config[:1] == (2000,)
            assert (partition.log.config.retention_ms, partition.log.config.retention_bytes) == (5, 1000)
        assert seen.dynamic_configs == {"": {"log.retention.bytes": "1000"}, "1": {"log.segment.bytes": "2000"}}


def test_settings_that_make_no_sense_change_nothing(open_state: Open) -> None:
    state = open_state()
    state.create_topic("orders", 1, {"retention.ms": "5"})
    with pytest.raises(ConfigError):
        state.alter_topic_configs("orders", {"retention.ms": "x"})
    with pytest.raises(ConfigError):
        state.alter_broker_configs("", {"num.partitions": "7"})
    for seen in (state, open_state()):
        topic = seen.topic("orders")
        assert topic is not None
        assert topic.config.log.retention_ms == 5
        assert not any(seen.dynamic_configs.values())


def test_start_offsets_survive_a_restart_and_go_with_their_topic(open_state: Open) -> None:
    state = open_state()
    state.create_topic("orders", 1, {})
    state.start_offsets.put(TopicPartition("orders", 0), 7)
    state = open_state()
    assert state.start_offsets.get(TopicPartition("orders", 0)) == 7
    assert (state.data_dir.path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 7\n"
    state.delete_topic("orders")
    assert open_state().start_offsets.get(TopicPartition("orders", 0)) == 0


def test_log_manager_deletes_what_retention_lets_go(open_state: Open) -> None:
    state = open_state()
    state.create_topic("orders", 2, {"retention.ms": "1000", "segment.bytes": "100"})
    partition = state.partition("orders", 1)
    assert partition is not None
    for number in range(3):
        batch = RecordBatch(build_batch([(number, b"key", b"value", ())]))
        assert isinstance(partition.log.append(batch, leader_epoch=0), AppendResult)
    assert state.log_manager.run_retention(1001) == 1
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (1, 3)
