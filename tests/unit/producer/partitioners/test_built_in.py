"""BuiltInPartitioner's numbers are those of Java's class of the same name."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from pyproducer.producer.partitioners import BuiltInPartitioner
from tests.unit.producer.partitioners.clusters import TOPIC, cluster_of


def numbers(*values: int) -> Callable[[], int]:
    source: Iterator[int] = iter(values)
    return lambda: next(source)


def test_partition_when_sticky_then_kept_until_enough_bytes() -> None:
    cluster = cluster_of(4)
    partitioner = BuiltInPartitioner(TOPIC, 10, numbers(1, 3, 2))
    assert [partitioner.peek_current_partition(cluster) for _ in range(3)] == [1, 1, 1]
    partitioner.update_partition_info(1, 9, cluster)
    assert partitioner.peek_current_partition(cluster) == 1
    partitioner.update_partition_info(1, 1, cluster)
    assert partitioner.peek_current_partition(cluster) == 3
    partitioner.update_partition_info(3, 25, cluster)
    assert partitioner.peek_current_partition(cluster) == 2


def test_bytes_when_for_another_partition_or_before_the_first_choice_then_not_counted() -> None:
    cluster = cluster_of(4)
    partitioner = BuiltInPartitioner(TOPIC, 10, numbers(1, 3))
    partitioner.update_partition_info(1, 100, cluster)
    assert partitioner.peek_current_partition(cluster) == 1
    partitioner.update_partition_info(0, 100, cluster)
    assert partitioner.peek_current_partition(cluster) == 1


def test_switch_when_not_enabled_then_only_at_twice_the_size() -> None:
    cluster = cluster_of(4)
    partitioner = BuiltInPartitioner(TOPIC, 10, numbers(1, 3, 0))
    partitioner.peek_current_partition(cluster)
    partitioner.update_partition_info(1, 19, cluster, enable_switch=False)
    assert partitioner.peek_current_partition(cluster) == 1
    partitioner.update_partition_info(1, 1, cluster, enable_switch=False)
    assert partitioner.peek_current_partition(cluster) == 3
    partitioner.update_partition_info(3, 15, cluster, enable_switch=False)
    partitioner.update_partition_info(3, 0, cluster, enable_switch=True)
    assert partitioner.peek_current_partition(cluster) == 0


def test_partition_when_chosen_uniformly_then_among_those_with_a_leader() -> None:
    assert BuiltInPartitioner(TOPIC, 1, numbers(1)).peek_current_partition(cluster_of(4, leaderless=[0])) == 2
    assert BuiltInPartitioner(TOPIC, 1, numbers(6)).peek_current_partition(cluster_of(4, leaderless=range(4))) == 2


def test_partition_when_the_topic_has_it_no_more_then_another_is_chosen() -> None:
    """A topic that was created again with fewer partitions: every send() raised from then on, as its partition stayed
    the one that was gone."""
    partitioner = BuiltInPartitioner(TOPIC, 10, numbers(5, 1, 5, 5))
    assert partitioner.peek_current_partition(cluster_of(6)) == 5
    assert partitioner.peek_current_partition(cluster_of(4)) == 1
    partitioner.update_partition_load_stats([0, 5], [5, 4], 6)
    partitioner.update_partition_info(1, 10, cluster_of(6))
    assert partitioner.peek_current_partition(cluster_of(6)) == 5
    assert partitioner.peek_current_partition(cluster_of(4)) == 1


# The tables are those that kafka-clients 4.1.0 makes of the same input.
@pytest.mark.parametrize(("queue_sizes", "partition_ids", "partition_count", "table"), [
    ([0, 3, 1], [0, 1, 2], 3, (4, 5, 8)),
    ([1, 1, 1], [0, 1, 2], 3, None),
    ([1, 1], [0, 2], 3, (1, 2)),
    ([5], [1], 1, None),
    ([5], [1], 2, (1,)),
    ([0, 0, 0, 7], [3, 2, 1, 0], 4, (8, 16, 24, 25)),
    ([], [], 3, None),
    (None, [], 3, None),
])
def test_load_when_updated_then_javas_cumulative_frequencies(queue_sizes: list[int] | None, partition_ids: list[int],
                                                             partition_count: int,
                                                             table: tuple[int, ...] | None) -> None:
    partitioner = BuiltInPartitioner(TOPIC, 1)
    partitioner.update_partition_load_stats(queue_sizes, partition_ids, partition_count)
    stats = partitioner._load_stats
    assert (None if stats is None else stats.cumulative_frequency_table) == table
    if stats is not None:
        assert stats.partition_ids == tuple(partition_ids)


def test_partition_when_weighted_then_each_number_falls_where_java_says() -> None:
    found = []
    for number in range(8 * 2):
        partitioner = BuiltInPartitioner(TOPIC, 1, numbers(number))
        partitioner.update_partition_load_stats([0, 3, 1], [5, 6, 7], 3)
        found.append(partitioner.peek_current_partition(cluster_of(8)))
    assert found == [5, 5, 5, 5, 6, 7, 7, 7] * 2


def test_load_when_it_evens_out_then_uniform_again() -> None:
    partitioner = BuiltInPartitioner(TOPIC, 1, numbers(0, 3))
    partitioner.update_partition_load_stats([0, 3], [1, 2], 2)
    partitioner.update_partition_load_stats([3, 3], [1, 2], 2)
    assert partitioner._load_stats is None


def test_load_when_very_uneven_then_bytes_go_to_the_short_queues() -> None:
    cluster = cluster_of(3)
    partitioner = BuiltInPartitioner(TOPIC, 1)
    partitioner.update_partition_load_stats([0, 98, 49], [0, 1, 2], 3)  # weights 99, 1, 50
    counts: Counter[int] = Counter()
    for _ in range(15000):
        partition = partitioner.peek_current_partition(cluster)
        counts[partition] += 1
        partitioner.update_partition_info(partition, 1, cluster)
    assert 9400 < counts[0] < 10400
    assert 30 < counts[1] < 200
    assert 4500 < counts[2] < 5500


def test_size_when_below_one_then_refused_as_in_java() -> None:
    with pytest.raises(ValueError, match="sticky_batch_size_bytes must be >= 1 but got 0"):
        BuiltInPartitioner(TOPIC, 0)


def test_threads_when_they_share_it_then_bytes_are_spread_evenly() -> None:
    cluster = cluster_of(4)
    choices = iter([0, 1, 2, 3] * 5000)
    partitioner = BuiltInPartitioner(TOPIC, 10, lambda: next(choices))
    totals = [Counter[int]() for _ in range(4)]

    def run(mine: Counter[int]) -> None:
        for _ in range(2000):
            partition = partitioner.peek_current_partition(cluster)
            mine[partition] += 1
            partitioner.update_partition_info(partition, 1, cluster)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(mine,)) for mine in totals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    total = sum(totals, Counter[int]())
    assert sum(total.values()) == 8000
    assert all(1500 < count < 2500 for count in total.values()), total
