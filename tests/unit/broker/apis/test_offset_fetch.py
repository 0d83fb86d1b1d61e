"""OffsetFetch while a transaction has offsets of the group that do not count yet. No connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    made.state.topic_life.create_topic("orders", 4, {})
    for key_type, key in ((0, "g"), (1, "t")):
        made.ask(ApiKeys.FIND_COORDINATOR, 4, {"key_type": key_type, "coordinator_keys": [key]})
    yield made
    made.close()


def offsets(**partitions: int) -> list[dict[str, Any]]:
    return [{"name": "orders", "partitions": [
        {"partition_index": int(name.removeprefix("p")), "committed_offset": offset, "committed_leader_epoch": -1,
         "committed_metadata": ""} for name, offset in partitions.items()]}]


def commit(stage: ApiStage, topics: list[dict[str, Any]]) -> None:
    stage.ask(ApiKeys.OFFSET_COMMIT, 8, {
        "group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
        "topics": topics})


def begin(stage: ApiStage, topics: list[dict[str, Any]]) -> dict[str, Any]:
    """Commit offsets in a transaction that stays open; return whose it is."""
    made = stage.ask(ApiKeys.INIT_PRODUCER_ID, 4, {
        "transactional_id": "t", "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1})
    producer = {"transactional_id": "t", **{name: made[name] for name in ("producer_id", "producer_epoch")}}
    assert stage.ask(ApiKeys.ADD_OFFSETS_TO_TXN, 3, {**producer, "group_id": "g"})["error_code"] == 0
    answer = stage.ask(ApiKeys.TXN_OFFSET_COMMIT, 3, {
        **producer, "group_id": "g", "generation_id": -1, "member_id": "", "group_instance_id": None,
        "topics": topics})
    assert {found["error_code"] for found in answer["topics"][0]["partitions"]} == {0}
    return producer


def fetch(stage: ApiStage, version: int, *, partitions: list[int] | None, require_stable: bool,
          ) -> dict[int, tuple[int, int]]:
    """Return offset and code of each partition that is answered."""
    topics = None if partitions is None else [{"name": "orders", "partition_indexes": partitions}]
    asked = {"group_id": "g", "topics": topics}
    answer = stage.ask(ApiKeys.OFFSET_FETCH, version, {
        "require_stable": require_stable, **({"groups": [asked]} if version >= 8 else asked)})
    (topic,) = (answer["groups"][0] if version >= 8 else answer)["topics"]
    return {found["partition_index"]: (found["committed_offset"], found["error_code"])
            for found in topic["partitions"]}


@pytest.mark.parametrize("version", [7, 8, 9])
def test_stable_offsets_when_a_transaction_is_open_then_its_partitions_alone_are_to_be_asked_for_again(
        stage: ApiStage, version: int) -> None:
    commit(stage, offsets(p0=5, p1=6))
    producer = begin(stage, offsets(p1=60, p2=70))
    before = {0: (5, 0), 1: (6, 0), 2: (-1, 0), 3: (-1, 0)}
    every = [0, 1, 2, 3]
    assert fetch(stage, version, partitions=every, require_stable=False) == before
    assert fetch(stage, version, partitions=every, require_stable=True) == {**before, 1: UNSTABLE, 2: UNSTABLE}
    assert fetch(stage, version, partitions=None, require_stable=True) == {0: (5, 0), 1: UNSTABLE}
    stage.ask(ApiKeys.END_TXN, 3, {**producer, "committed": True})
    assert fetch(stage, version, partitions=every, require_stable=True) == {**before, 1: (60, 0), 2: (70, 0)}
