"""The body of a Produce request, and the highest version that it may have."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import Cluster, TopicPartition
from pyproducer.sender.produce_request import produce_request

IDS = {"a": uuid.UUID(int=1), "b": uuid.UUID(int=2)}


def batches_of(*places: tuple[str, int]) -> list[ProducerBatch]:
    return [ProducerBatch(TopicPartition(*place), created_ms=0, write_limit_bytes=100, reserved_bytes=0)
            for place in places]


def partitions_by_topic(body: Mapping[str, Any], key: str) -> dict[Any, list[int]]:
    return {topic[key]: [row["index"] for row in topic["partition_data"]] for topic in body["topic_data"]}


def test_request_when_every_topic_has_an_id_then_any_version_will_do_and_topics_are_grouped() -> None:
    build, max_version, topic_names = produce_request(batches_of(("a", 1), ("b", 0), ("a", 0)), Cluster(topic_ids=IDS),
                                                      acks=-1, timeout_ms=500, transactional_id=None,
                                                      highest_version=None)
    assert max_version is None
    assert topic_names == {IDS["a"]: "a", IDS["b"]: "b"}
    assert partitions_by_topic(build(13), "topic_id") == {IDS["a"]: [1, 0], IDS["b"]: [0]}
    assert partitions_by_topic(build(12), "name") == {"a": [1, 0], "b": [0]}
    assert {name: build(12)[name] for name in ("transactional_id", "acks", "timeout_ms")} == {
        "transactional_id": None, "acks": -1, "timeout_ms": 500}


@pytest.mark.parametrize("known", ["", "a", "b"])
def test_request_when_one_of_its_topics_has_no_id_then_all_are_named(known: str) -> None:
    """Version 13 has nothing but ids: one topic without an id decides for the whole request."""
    cluster = Cluster(topic_ids={name: IDS[name] for name in known})
    build, max_version, _ = produce_request(batches_of(("a", 0), ("b", 0)), cluster, acks=1, timeout_ms=500,
                                            transactional_id=None, highest_version=None)
    assert max_version == 12
    assert partitions_by_topic(build(12), "name") == {"a": [0], "b": [0]}


@pytest.mark.parametrize(("known", "highest", "expected"), [
    ("ab", 11, 11), ("a", 11, 11), ("ab", 13, 13), ("a", 13, 12), ("ab", None, None)])
def test_request_when_a_transaction_sends_then_it_is_named_and_its_version_bounded(
        known: str, highest: int | None, expected: int | None) -> None:
    cluster = Cluster(topic_ids={name: IDS[name] for name in known})
    build, max_version, _ = produce_request(batches_of(("a", 0), ("b", 0)), cluster, acks=-1, timeout_ms=500,
                                            transactional_id="shop", highest_version=highest)
    assert max_version == expected
    assert build(11)["transactional_id"] == "shop"
