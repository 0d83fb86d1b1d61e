"""What a broker must still know when it was stopped and started again: each API as before, over the same folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.cluster import TopicPartition
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import build_batch
from tests.support.raw_client import list_offsets_body, produce_body
from tests.unit.broker.apis.stage import ApiStage

EARLIEST, LATEST = -2, -1


OpenStage = Callable[[], ApiStage]


@pytest.fixture
def open_stage(tmp_path: Path) -> Iterator[OpenStage]:
    """Start a broker over the test's folder; what still runs at the end is closed."""
    stages: list[ApiStage] = []

    def start() -> ApiStage:
        stages.append(ApiStage(tmp_path))
        return stages[-1]

    yield start
    for stage in stages:
        stage.close()


def produce(stage: ApiStage, value: bytes, count: int = 3) -> None:
    records = build_batch([(stage.state.clock.timestamp_ms(), None, value, ())] * count)
    answer = stage.ask(ApiKeys.PRODUCE, 12, {**produce_body("orders", 0, bytes(records)), "transactional_id": None})
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0


def offset(stage: ApiStage, which: int) -> int:
    answer = stage.ask(ApiKeys.LIST_OFFSETS, 1, list_offsets_body("orders", 0, which))
    found: int = answer["topics"][0]["partitions"][0]["offset"]
    return found


def delete_records(stage: ApiStage, before: int) -> Any:
    answer = stage.ask(ApiKeys.DELETE_RECORDS, 2, {"timeout_ms": 1000, "topics": [
        {"name": "orders", "partitions": [{"partition_index": 0, "offset": before}]}]})
    [row] = answer["topics"][0]["partitions"]
    return row["error_code"], row["low_watermark"]


def first_offset_read(stage: ApiStage) -> int | None:
    partition = stage.state.topics.partition(*TopicPartition("orders", 0))
    assert partition is not None
    data = partition.log.read(partition.log.log_start_offset, 1 << 20, at_least_one=True)
    offsets = [record.offset for batch in read_batches(data) for record in batch
               if record.offset >= partition.log.log_start_offset]
    return offsets[0] if offsets else None


@pytest.mark.parametrize("before", [1, 3, 4, 9, -1], ids=["in a batch", "between two", "in the next", "all", "-1"])
def test_delete_records_when_the_broker_is_restarted_then_they_do_not_come_back(
        open_stage: OpenStage, before: int) -> None:
    """Records that were deleted, for a customer who had asked for it, were served again after the next restart."""
    stage = open_stage()
    stage.state.topic_life.create_topic("orders", 1, {})
    for number in range(3):
        produce(stage, b"%d" % number)
    start = 9 if before < 0 else before
    assert delete_records(stage, before) == (0, start)
    assert (offset(stage, EARLIEST), offset(stage, LATEST)) == (start, 9)
    stage.close()
    for _ in range(2):
        stage = open_stage()
        assert (offset(stage, EARLIEST), offset(stage, LATEST)) == (start, 9)
        assert first_offset_read(stage) == (None if start == 9 else start)
        stage.close()


def test_delete_records_when_the_broker_dies_right_after_its_answer_then_they_do_not_come_back(
        open_stage: OpenStage, tmp_path: Path) -> None:
    """What was answered is on disk: no later moment, such as an orderly stop, is waited for."""
    stage = open_stage()
    stage.state.topic_life.create_topic("orders", 1, {})
    produce(stage, b"v", 5)
    assert delete_records(stage, 2) == (0, 2)
    assert "orders 0 2" in (tmp_path / "log-start-offset-checkpoint").read_text()
    stage.close()
