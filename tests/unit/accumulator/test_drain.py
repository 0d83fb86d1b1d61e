"""What goes into the next request of a node."""

from __future__ import annotations

import pytest

from pyproducer.accumulator.batch_state import BatchState, move
from pyproducer.accumulator.drain import choose_batches
from pyproducer.accumulator.partition import Partition
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.waiting import SYSTEM_LOCKS

SIZE_BYTES = 61 + 47  # a batch of one record of 40 bytes


def queue_of(partition: int, count: int) -> Partition:
    queue = Partition(TopicPartition("t", partition), SYSTEM_LOCKS.rlock)
    for number in range(count):
        batch = ProducerBatch(queue.topic_partition, created_ms=0, write_limit_bytes=100, reserved_bytes=0)
        batch.try_append(0, None, bytes([number]) * 40, (), None)
        queue.batches.append(batch)
    return queue


def queues_of(*counts: int) -> list[Partition]:
    return [queue_of(partition, count) for partition, count in enumerate(counts)]


def drained_partitions(queues: list[Partition], start: int, max_size_bytes: int) -> tuple[list[int], int]:
    chosen, following = choose_batches(queues, start, max_size_bytes, 0, None)
    for batch in chosen:
        move(batch, BatchState.DRAINED)
    return [batch.topic_partition.partition for batch in chosen], following


class Refusing:
    """SequenceKeeper that lets no batch of some partitions go."""

    def __init__(self, *partitions: int) -> None:
        self.partitions = partitions

    def can_send(self, batch: ProducerBatch) -> bool:
        return batch.topic_partition.partition not in self.partitions

    def on_drained(self, batch: ProducerBatch) -> None:
        raise AssertionError("it is not compressed yet")


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


def test_partition_when_it_is_empty_or_in_backoff_then_the_others_go() -> None:
    queues = queues_of(0, 2, 2, 1)
    assert drained_partitions(queues[1:2], 0, 10_000)[0] == [1]
    first = queues[1].batches[0]
    move(first, BatchState.RETRY)
    first.on_reenqueued(50)
    assert drained_partitions(queues, 0, 10_000)[0] == [2, 3]
    assert [batch.state for batch in queues[1].batches] == [BatchState.RETRY, BatchState.OPEN], "nothing overtakes it"
    assert [batch.topic_partition.partition for batch in choose_batches(queues, 0, 10_000, 50, None)[0]] == [1, 2]


def test_partition_when_its_sequence_must_wait_then_the_others_go() -> None:
    queues = queues_of(1, 1, 1)
    chosen, _ = choose_batches(queues, 0, 10_000, 7, Refusing(1))
    assert [batch.topic_partition.partition for batch in chosen] == [0, 2]
    assert [batch.state for batch in queues[1].batches] == [BatchState.OPEN]


def test_batch_when_it_was_chosen_then_takes_no_record_any_more_and_stays_in_its_place() -> None:
    (queue,) = queues_of(1)
    (batch,), _ = choose_batches([queue], 0, 10_000, 0, None)
    assert batch.try_append(0, None, b"", (), None) is None
    assert queue.batches == [batch]
    assert batch.state is BatchState.QUEUED


def test_no_partitions_when_drained_then_nothing() -> None:
    assert choose_batches([], 0, 100, 0, None) == ([], 0)
