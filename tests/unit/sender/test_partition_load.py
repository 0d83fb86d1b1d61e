"""What an adaptive partitioner is told of queues and slow brokers."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

from pyproducer.producer.partitioners import UniformStickyPartitioner
from pyproducer.sender.partition_load import PartitionLoad
from tests.support.serialized import append
from tests.unit.sender.stepped_producer import SteppedProducer, metadata_response


class Reports:
    """A producer whose records stay, and the last report that was made of them."""

    def __init__(self, partitions: int = 2) -> None:
        self.producer = SteppedProducer(linger=1000, partitions=partitions)
        self.made: list[tuple[Any, ...]] = []
        self.load = PartitionLoad(self.producer.accumulator, lambda *report: self.made.append(report))

    def report(self) -> tuple[Any, ...] | None:
        self.made.clear()
        self.load.report(self.producer.metadata.cluster)
        return self.made[0] if self.made else None


NONE = ("t", [], [], 2, [])
"""All are alike."""


def test_report_when_a_partition_was_never_used_then_all_are_alike() -> None:
    reports = Reports()
    assert reports.report() is None
    reports.producer.append(0)
    assert reports.report() == NONE
    reports.producer.append(1)
    assert reports.report() == ("t", [1, 1], [0, 1], 2, [0, 0])


def test_report_when_queues_differ_then_tells_the_batches_of_each() -> None:
    reports = Reports()
    for _ in range(5):
        reports.producer.append(1)
    reports.producer.append(0)
    assert reports.report() == ("t", [5, 1], [1, 0], 2, [0, 0])


def test_report_when_a_topic_is_not_known_or_not_used_up_then_the_others_are_still_told_of() -> None:
    reports = Reports()
    append(reports.producer.accumulator, "unknown", 0, 1000, b"v")
    reports.producer.append(0)
    reports.producer.append(1)
    assert reports.report() == ("t", [1, 1], [0, 1], 2, [0, 0])


def test_report_when_partitions_are_missing_then_those_that_are_there_are_all() -> None:
    reports = Reports()
    body = metadata_response(topic_id=uuid.UUID(int=78))
    body["topics"][0]["partitions"][1]["partition_index"] = 60
    reports.producer.metadata.update(body, 13, 0)
    reports.producer.append(0)
    assert reports.report() == NONE
    reports.producer.append(60)
    assert reports.report() == ("t", [1, 1], [0, 60], 2, [0, 0])


def test_turns_when_a_node_takes_nothing_then_the_partitioner_is_told_for_how_long() -> None:
    made: list[tuple[Any, ...]] = []
    producer = SteppedProducer(idempotent=False, update_load=lambda *report: made.append(report))
    producer.append(0)
    producer.append(1)
    producer.turn()
    producer.answer_all()
    producer.client.is_ready_now = False
    producer.append(0)
    producer.turn()
    producer.turn(advance=40)
    producer.turn(advance=5)
    assert made == [("t", [1, 1], [0, 1], 2, [0, 0]), ("t", [1, 0], [0, 1], 2, [0, 0]),
                    ("t", [1, 0], [0, 1], 2, [0, 0]), ("t", [1, 0], [0, 1], 2, [40, 40])]


def test_report_when_a_partition_has_no_leader_then_leaves_it_out() -> None:
    reports = Reports()
    reports.producer.append(0)
    reports.producer.append(1)
    response = metadata_response(epoch=2)
    response["topics"][0]["partitions"][1]["leader_id"] = -1
    reports.producer.metadata.update(response, 13, 0)
    assert reports.report() == ("t", [1], [0], 2, [0])


def test_latency_when_a_node_takes_nothing_then_is_the_time_since_it_last_could() -> None:
    reports = Reports()
    reports.producer.append(0)
    reports.producer.append(1)
    for now_ms, can_drain, latency_ms in ((100, False, 0), (150, False, 50), (200, True, 0), (450, False, 250),
                                          (900, False, 700), (901, True, 0)):
        reports.load.on_ready_node(1, now_ms, can_drain=can_drain)
        assert reports.report() == ("t", [1, 1], [0, 1], 2, [latency_ms, latency_ms])
    reports.load.on_ready_node(2, 5000, can_drain=False)
    reports.load.on_ready_node(2, 6000, can_drain=False)
    assert reports.report() == ("t", [1, 1], [0, 1], 2, [0, 0]), "another node's"


def test_topic_when_it_grows_then_its_new_partitions_are_used() -> None:
    """The weights of those that had been used stayed as they were, and no other partition was chosen any more."""
    numbers = itertools.count()
    partitioner = UniformStickyPartitioner(1, next_random=lambda: next(numbers))
    producer = SteppedProducer(linger=1000, partitions=2, update_load=partitioner.update_load)

    def chosen(count: int) -> set[int]:
        seen = set()
        for _ in range(count):
            partition = partitioner.partition("t", None, None, b"v", b"v", producer.metadata.cluster)
            seen.add(partition)
            partitioner.on_append("t", partition, 10, producer.metadata.cluster)
            producer.append(partition)
            producer.turn()
        return seen

    for _ in range(3):
        producer.append(1)
    assert chosen(50) == {0, 1}
    producer.metadata.update(metadata_response(partitions=6), 13, 0)
    assert chosen(200) == {0, 1, 2, 3, 4, 5}
