from __future__ import annotations

from pathlib import Path

import pytest

from pyproducer.broker.storage.offset_checkpoint import START_OFFSETS_FILE as FILE_NAME
from pyproducer.broker.storage.offset_checkpoint import OffsetCheckpoint
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError

ORDERS, LATER, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 10), TopicPartition("other", 1)


def test_starts_when_written_then_the_file_is_kafkas_and_is_read_again(tmp_path: Path) -> None:
    offsets = OffsetCheckpoint(tmp_path, FILE_NAME)
    assert offsets.get(ORDERS) is None
    for topic_partition, offset in ((OTHER, 5), (LATER, 7), (ORDERS, 1), (ORDERS, 2)):
        offsets.put(topic_partition, offset)
    assert (tmp_path / FILE_NAME).read_text() == "0\n3\norders 0 2\norders 10 7\nother 1 5\n"
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    again = OffsetCheckpoint(tmp_path, FILE_NAME)
    assert [again.get(each) for each in (ORDERS, LATER, OTHER)] == [2, 7, 5]


def test_topic_when_forgotten_then_only_its_own_partitions_go(tmp_path: Path) -> None:
    offsets = OffsetCheckpoint(tmp_path, FILE_NAME)
    for topic_partition in (ORDERS, LATER, OTHER):
        offsets.put(topic_partition, 5)
    offsets.forget("orders")
    assert [offsets.get(each) for each in (ORDERS, LATER, OTHER)] == [None, None, 5]
    assert (tmp_path / FILE_NAME).read_text() == "0\n1\nother 1 5\n"


def test_topic_when_nothing_is_known_of_it_then_the_file_is_left_alone(tmp_path: Path) -> None:
    offsets = OffsetCheckpoint(tmp_path, FILE_NAME)
    offsets.forget("orders")
    assert not (tmp_path / FILE_NAME).exists()
    offsets.put(ORDERS, 5)
    (tmp_path / FILE_NAME).write_text("untouched")
    offsets.forget("other")
    assert (tmp_path / FILE_NAME).read_text() == "untouched"


@pytest.mark.parametrize("text", [
    "", "0\n", "1\n0\n", "0\n2\norders 0 5\n", "0\n0\norders 0 5\n", "0\nx\n", "0\n1\norders 0\n", "0\n1\norders 0 x\n",
    "0\n1\norders x 5\n", "0\n1\nor ders 0 5\n"])
def test_file_when_it_makes_no_sense_then_the_broker_says_which_and_does_not_start(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(ConfigError, match=rf"{FILE_NAME} cannot be read"):
        OffsetCheckpoint(tmp_path, FILE_NAME)
