"""What goes into the next request of a node."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer.accumulator.batch_state import BatchState, move
from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.accumulator.partition import Partition
from pyproducer.accumulator.partition_sequence import PartitionSequence
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.waiting import SYSTEM_LOCKS
from pyproducer.record.compression import compressor_for
from tests.support.clock import ManualClock

SIZE_BYTES = 61 + 47  # a batch of one record of 40 bytes


def queue_of(partition: int, count: int) -> Partition:
    queue = Partition(TopicPartition("t", partition), SYSTEM_LOCKS.rlock)
    for number in range(count):
        batch = ProducerBatch(queue.topic_partition, created_ms=0, write_limit_bytes=100, reserved_bytes=0)
        batch.open.try_append(0, None, bytes([number]) * 40, (), None)
        queue.batches.append(batch)
    return queue


def queues_of(*counts: int) -> list[Partition]:
    return [queue_of(partition, count) for partition, count in enumerate(counts)]


class Node:
    """What goes to one node, request by request."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.accumulator = RecordAccumulator(
            batch_size_bytes=100, linger_ms=0, delivery_timeout_ms=1000,
            pool=BufferPool(10_000, clock, count_held=lambda: 0), compressor=compressor_for("none", None),
            retry_backoff=ExponentialBackoff(100, 1000, jitter=0), clock=clock)
        self.has_more = False

    def drain(self, queues: list[Partition], max_size_bytes: int = 10_000, now_ms: int = 0) -> list[ProducerBatch]:
        drained, self.has_more = self.accumulator.drain(0, queues, max_size_bytes, now_ms)
        return drained

    def drained_partitions(self, queues: list[Partition], max_size_bytes: int = 10_000, now_ms: int = 0) -> list[int]:
        return [batch.topic_partition.partition for batch in self.drain(queues, max_size_bytes, now_ms)]


class Refusing(PartitionSequence):
    """Lets no batch of its partition go."""

    def __init__(self) -> None:
        super().__init__([], TransactionManager())

    def can_send(self, batch: ProducerBatch, now_ms: int) -> bool:
        return False


def test_size_when_it_is_as_the_test_says() -> None:
    assert queue_of(0, 1).batches[0].size_bytes == SIZE_BYTES


@pytest.mark.parametrize(("max_size_bytes", "expected"), [
    (3 * SIZE_BYTES, [0, 1, 2]), (3 * SIZE_BYTES - 1, [0, 1]), (2 * SIZE_BYTES, [0, 1]), (2 * SIZE_BYTES - 1, [0]),
    (SIZE_BYTES, [0]), (SIZE_BYTES - 1, [0]), (1, [0])])
def test_request_when_it_is_full_then_takes_no_more_but_one_batch_always(
        max_size_bytes: int, expected: list[int]) -> None:
    node, queues = Node(), queues_of(1, 1, 1)
    assert node.drained_partitions(queues, max_size_bytes) == expected
    assert node.has_more == (len(expected) < 3)
    following = node.drained_partitions(queues, max_size_bytes)[:1]
    assert following == ([] if len(expected) == 3 else [len(expected)]), "who did not fit is the first next time"


def test_start_when_it_moves_then_each_partition_is_first_once() -> None:
    node, queues = Node(), queues_of(3, 3, 3)
    assert [(node.drained_partitions(queues), node.has_more) for _ in range(3)] == [
        ([0, 1, 2], True), ([1, 2, 0], True), ([2, 0, 1], False)]


def test_partitions_when_requests_are_small_then_none_starves() -> None:
    node, queues = Node(), queues_of(3, 3, 3)
    seen = [node.drained_partitions(queues, SIZE_BYTES) for _ in range(9)]
    assert seen == [[0], [1], [2]] * 3


def longest_wait(queues: list[Partition], batches_a_request: int, seed: int) -> int:
    """Return how many requests the longest batch waited at the head of its partition, while new ones come."""
    node, draw, open_count = Node(), random.Random(seed), 0
    since = dict.fromkeys(queues, 0)
    busy: dict[Partition, None] = {}
    longest = 0
    for request in range(2000):
        while open_count < 2 * len(queues) // 3:  # as many wait as are not waited for; which ones, chance says
            queue = draw.choice(queues)
            if queue.head() is None:
                since[queue] = request
            busy.setdefault(queue)
            queue.batches.extend(queue_of(queue.topic_partition.partition, 1).batches)
            open_count += 1
        for batch in node.drain([queue for queue in busy if queue.head() is not None], batches_a_request * SIZE_BYTES):
            queue = queues[batch.topic_partition.partition]
            longest = max(longest, request - since[queue])
            since[queue] = request + 1
            open_count -= 1
            queue.batches.remove(batch)  # it is answered at once
            if not queue.batches:
                del busy[queue]  # who comes again is the last that is looked at
    return longest


@pytest.mark.parametrize("batches_a_request", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_partition_when_others_come_and_go_then_each_goes_once_before_it_goes(
        batches_a_request: int, seed: int) -> None:
    """Where to begin was an index of a list, and the list is another in each request: of 50 partitions some waited for
    more than 200 requests while others went again and again."""
    partition_count = 50
    others = partition_count - 1
    assert longest_wait(queues_of(*[0] * partition_count), batches_a_request, seed) <= others // batches_a_request


def test_start_when_the_list_is_shorter_meanwhile_then_it_is_behind_those_that_went() -> None:
    node, queues = Node(), queues_of(3, 3, 3, 3, 3)
    assert node.drained_partitions(queues, 2 * SIZE_BYTES) == [0, 1]
    assert node.drained_partitions(queues[1:], 2 * SIZE_BYTES) == [2, 3]
    assert node.drained_partitions(queues[:2], 2 * SIZE_BYTES) == [0, 1], "the last one is not there: from the first"
    assert node.drained_partitions(queues[::-1], 2 * SIZE_BYTES) == [1, 2], "the order is that of their first records"


class Joined:
    """A partition's lock: before somebody takes it, another caller appends, whose append needs no lock."""

    def __init__(self, join: Callable[[], object]) -> None:
        self._join = join

    def __enter__(self) -> None:
        self._join()

    def __exit__(self, *_: Any) -> None:
        pass


def test_request_when_a_batch_grows_until_it_is_sealed_then_it_does_not_get_too_large() -> None:
    """What came between the look at a batch's size and its seal was not counted: the broker refused the request."""
    queues = queues_of(1, 1, 1)
    grown = ProducerBatch(queues[1].topic_partition, created_ms=0, write_limit_bytes=200, reserved_bytes=0)
    grown.open.try_append(0, None, bytes(40), (), None)
    queues[1].batches[:] = [grown]
    queues[1].lock = Joined(lambda: grown.open.try_append(0, None, b"more", (), None))  # type: ignore[assignment]
    node = Node()
    assert node.drained_partitions(queues, 2 * SIZE_BYTES) == [0]
    assert node.has_more
    assert node.drained_partitions(queues, grown.size_bytes + SIZE_BYTES) == [1, 2]
    assert grown.record_count == 2


def test_partition_when_it_is_empty_or_in_backoff_then_the_others_go() -> None:
    queues = queues_of(0, 2, 2, 1)
    assert Node().drained_partitions(queues[1:2]) == [1]
    first = queues[1].batches[0]
    move(first, BatchState.RETRY)
    first.on_reenqueued(50)
    assert Node().drained_partitions(queues) == [2, 3]
    assert [batch.state for batch in queues[1].batches] == [BatchState.RETRY, BatchState.OPEN], "nothing overtakes it"
    assert Node().drained_partitions(queues, now_ms=50) == [1, 2]


def test_partition_when_its_sequence_must_wait_then_the_others_go() -> None:
    queues = queues_of(1, 1, 1)
    queues[1].sequence = Refusing()
    assert Node().drained_partitions(queues, now_ms=7) == [0, 2]
    assert [batch.state for batch in queues[1].batches] == [BatchState.OPEN]


def test_batch_when_it_was_drained_then_takes_no_record_any_more_and_stays_in_its_place() -> None:
    (queue,) = queues_of(1)
    (batch,) = Node().drain([queue])
    assert batch.open.try_append(0, None, b"", (), None) is None
    assert queue.batches == [batch]
    assert batch.state is BatchState.DRAINED
