"""DescribeTopicPartitions: a client that follows the cursor sees each partition once, however small its pages are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

COUNTS = {"a": 5, "b": 1, "c": 3}
ALL = [(name, index) for name, count in COUNTS.items() for index in range(count)]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    for name, count in COUNTS.items():
        made.state.topic_life.create_topic(name, count, {})
    yield made
    made.close()


def pages(stage: ApiStage, limit: int, cursor: tuple[str, int] | None = None) -> Iterator[list[tuple[str, int]]]:
    body: dict[str, Any] = {
        "topics": [{"name": name} for name in COUNTS], "response_partition_limit": limit,
        "cursor": None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}}
    for _ in range(len(ALL) + 1):  # more than there can be
        answer = stage.ask(ApiKeys.DESCRIBE_TOPIC_PARTITIONS, 0, body)
        yield [(topic["name"], partition["partition_index"])
               for topic in answer["topics"] for partition in topic["partitions"]]
        if answer["next_cursor"] is None:
            return
        body["cursor"] = answer["next_cursor"]


@pytest.mark.parametrize("limit", range(1, len(ALL) + 2))
def test_pages_when_the_cursor_is_followed_then_each_is_full_and_each_partition_comes_once(
        stage: ApiStage, limit: int) -> None:
    assert list(pages(stage, limit)) == [ALL[begin:begin + limit] for begin in range(0, len(ALL), limit)]


@pytest.mark.parametrize("begin", range(len(ALL)))
def test_pages_when_a_client_begins_in_the_middle_then_it_gets_the_rest(stage: ApiStage, begin: int) -> None:
    assert [*pages(stage, 2, ALL[begin])] == [ALL[at:at + 2] for at in range(begin, len(ALL), 2)]
