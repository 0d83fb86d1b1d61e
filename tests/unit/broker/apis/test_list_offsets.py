"""ListOffsets over records that must be expanded for it. No connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyproducer.broker.apis import list_offsets
from pyproducer.broker.storage.expansion import Expansion
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_batch
from tests.support.raw_client import produce_body
from tests.unit.broker.apis.stage import ApiStage

NOW = 1_700_000_000_000
LARGE = bytes(build_batch([(NOW, None, bytes(100_000), ()), (NOW + 1, None, b"", ())], compression="gzip"))
SMALL = bytes(build_batch([(NOW, None, b"", ()), (NOW + 1, None, b"", ())], compression="gzip"))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    made.state.topic_life.create_topic("orders", 3, {})
    for partition, records in enumerate((LARGE, SMALL, LARGE)):
        made.ask(ApiKeys.PRODUCE, 9, produce_body("orders", partition, records))
    yield made
    made.close()


def looked_up(stage: ApiStage, *timestamps: int) -> list[tuple[int, int, int, int]]:
    """Return code, time, offset and epoch for each partition, which is asked for a time of its own."""
    (topic,) = stage.ask(ApiKeys.LIST_OFFSETS, 6, {"replica_id": -1, "isolation_level": 0, "topics": [
        {"name": "orders", "partitions": [{"partition_index": index, "timestamp": timestamp}
                                          for index, timestamp in enumerate(timestamps)]}]})["topics"]
    assert [found["partition_index"] for found in topic["partitions"]] == list(range(len(timestamps)))
    return [(found["error_code"], found["timestamp"], found["offset"], found["leader_epoch"])
            for found in topic["partitions"]]


def test_time_when_there_is_no_room_to_expand_records_then_that_partition_alone_is_asked_for_again(
        stage: ApiStage, monkeypatch: pytest.MonkeyPatch) -> None:
    expansion = Expansion(small_bytes=10_000, most_waiting=0)
    monkeypatch.setattr(list_offsets, "EXPANSION", expansion)
    found, end = (0, NOW + 1, 1, 0), (0, -1, 2, 0)
    with expansion.expanded(RecordBatch(LARGE)):
        assert looked_up(stage, NOW + 1, NOW + 1, list_offsets.LATEST) == [
            (ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1, -1), found, end]
    assert looked_up(stage, NOW + 1, NOW + 1, list_offsets.LATEST) == [found, found, end], "there is room again"
