"""What goes into the next request of a node."""

from __future__ import annotations

import pytest

from pyproducer.accumulator.drain import drain_node
from pyproducer.accumulator.partition_queue import PartitionQueue
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import TopicPartition

SIZE_BYTES = 61 + 47  # a batch of one record of 40 bytes


def queue_of(partition: int, count: int) -> PartitionQueue:
    queue = PartitionQueue(TopicPartition("t", partition))
    for number in range(count):
        batch = ProducerBatch(queue.topic_partition, created_ms=0, write_limit_bytes=100, reserved_bytes=0)
        batch.try_append(0, None, bytes([number]) * 40, (), None)
        queue.add(batch)
    return queue


def queues_of(*counts: int) -> list[PartitionQueue]:
    return [queue_of(partition, count) for partition, count in enumerate(counts)]


def drained_partitions(queues: list[PartitionQueue], start: int, max_size_bytes: int) -> tuple[list[int], int]:
    drained, following = drain_node(queues, start, max_size_bytes, 0, None)
    return [batch.topic_partition.partition for batch in drained], following


class Refusing:
    """SequenceKeeper that lets no batch of some partitions go."""

    def __init__(self, *partitions: int) -> None:
        self.partitions = partitions
        self.drained: list[ProducerBatch] = []

    def can_send(self, batch: ProducerBatch) -> bool:
        return batch.topic_partition.partition not in self.partitions

    def on_drained(self, batch: ProducerBatch) -> None:
        assert batch.open.is_closed
        self.drained.append(batch)


def test_size_when_it_is_as_the_test_says() -> None:
    assert queue_of(0, 1).batches[0].size_bytes == SIZE_BYTES


@pytest.mark.parametrize(("max_size_bytes", "expected"), [
    (3 * SIZE_BYTES, [0, 1, 2]), (3 * SIZE_BYTES - 1, [0, 1]), (2 * SIZE_BYTES, [0, 1]), (2 * SIZE_BYTES - 1, [0]),
    (SIZE_BYTES, [0]), (SIZE_BYTES - 1, [0]), (1, [0])])
def test_request_when_it_is_full_then_takes_no_more_but_one_batch_always(
        max_size_bytes: int, expected: list[int]) -> None:
    partitions, following = drained_partitions(queues_of(1, 1, 1), 0, max_size_bytes)
    assert partitions == expected
    assert following == (1 if len(expected) == 3 else len(expected)), "who did not fit is the first next time"


@pytest.mark.parametrize("start", [0, 1, 2])
def test_start_when_it_moves_then_each_partition_is_first_once(start: int) -> None:
    partitions, following = drained_partitions(queues_of(1, 1, 1), start, 10_000)
    assert partitions == [[0, 1, 2], [1, 2, 0], [2, 0, 1]][start]
    assert following == [1, 2, 0][start]


def test_partitions_when_requests_are_small_then_none_starves() -> None:
    queues, start, seen = queues_of(3, 3, 3), 0, []
    for _ in range(9):
        partitions, start = drained_partitions(queues, start, SIZE_BYTES)
        seen += partitions
    assert seen == [0, 1, 2] * 3


def test_partition_when_it_is_muted_empty_or_in_backoff_then_the_others_go() -> None:
    queues = queues_of(2, 0, 2, 2, 1)
    queues[0].is_muted = True
    queues[2].batches[0].on_reenqueued(50)
    assert drained_partitions(queues, 0, 10_000)[0] == [3, 4]
    assert len(queues[2].batches) == 2, "nothing overtakes the one that waits"
    queues[0].is_muted = False
    assert [batch.topic_partition.partition for batch in drain_node(queues, 0, 10_000, 50, None)[0]] == [0, 2, 3]


def test_partition_when_its_sequence_must_wait_then_the_others_go_and_are_numbered_in_order() -> None:
    keeper = Refusing(1)
    queues = queues_of(1, 1, 1)
    drained, _ = drain_node(queues, 0, 10_000, 7, keeper)
    assert keeper.drained == drained
    assert [batch.topic_partition.partition for batch in drained] == [0, 2]
    assert [batch.drained_ms for batch in drained] == [7, 7]
    assert len(queues[1].batches) == 1


def test_batch_when_it_was_drained_then_takes_no_record_any_more() -> None:
    (queue,) = queues_of(1)
    (batch,), _ = drain_node([queue], 0, 10_000, 0, None)
    assert batch.try_append(0, None, b"", (), None) is None
    assert not queue.batches


def test_no_partitions_when_drained_then_nothing() -> None:
    assert drain_node([], 0, 100, 0, None) == ([], 0)
