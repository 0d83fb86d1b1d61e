"""Produce: what a partition says whose topic goes in the middle of a request. No connection, a clock that stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.storage.log import AppendResult
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.raw_client import produce_body
from tests.unit.broker.apis.stage import ApiStage

BATCH = bytes(build_batch([(1_700_000_000_000, b"k", b"v", ())]))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    made.state.topic_life.create_topic("orders", 1, {})
    yield made
    made.close()


@pytest.mark.parametrize(("version", "code"), [
    (12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)])
def test_produce_when_the_topic_is_deleted_meanwhile_then_the_code_is_that_of_how_it_was_named(
        stage: ApiStage, version: int, code: ErrorCode) -> None:
    """By its id a client asks for metadata anew: a topic of that name may be there again."""
    topic = stage.state.topics.find("orders")
    assert topic is not None
    append = topic.partitions[0].append

    def append_late(*arguments: Any, **named: Any) -> AppendResult | Any:
        stage.state.topic_life.delete_topic("orders")
        return append(*arguments, **named)

    body = produce_body("orders", 0, BATCH)
    if version >= 13:
        del body["topic_data"][0]["name"]
        body["topic_data"][0]["topic_id"] = topic.topic_id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic.partitions[0], "append", append_late)
        answer = stage.ask(ApiKeys.PRODUCE, version, body)
    (row,) = answer["responses"][0]["partition_responses"]
    assert (row["error_code"], row["base_offset"]) == (code, -1)
