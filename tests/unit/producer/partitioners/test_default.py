"""DefaultPartitioner does what the first Java producers did (seed 001)."""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter

import pytest

from pyproducer.common.cluster import Cluster
from pyproducer.common.errors import IllegalStateError
from pyproducer.producer.partitioners import DefaultPartitioner, partition_for
from tests.unit.producer.partitioners.clusters import TOPIC, cluster_of

# BuiltInPartitioner.partitionForKey(key, 10007) of kafka-clients 4.1.0.
JAVA = {b"": 3866, b"a": 3941, b"ab": 4283, b"abc": 4716, b"21": 429, b"foobar": 1826,
        b"a-little-bit-long-string": 9636, b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": 4693,
        bytes(range(256)): 7081}


def without_key(partitioner: DefaultPartitioner, cluster: Cluster, topic: str = TOPIC) -> int:
    return partitioner.partition(topic, None, None, "v", b"v", cluster)


@pytest.mark.parametrize(("key", "partition"), JAVA.items())
def test_key_when_given_then_javas_partition(key: bytes, partition: int) -> None:
    assert DefaultPartitioner().partition(TOPIC, "ignored", key, None, None, cluster_of(10007)) == partition
    assert partition_for(key, 10007) == partition


def test_key_when_its_partition_has_no_leader_then_still_there() -> None:
    cluster = cluster_of(10007, leaderless=[JAVA[b"abc"]])
    assert DefaultPartitioner().partition(TOPIC, None, b"abc", None, None, cluster) == JAVA[b"abc"]


def test_no_key_when_all_are_available_then_round_robin() -> None:
    partitioner, cluster = DefaultPartitioner(), cluster_of(4)
    partitions = [without_key(partitioner, cluster) for _ in range(40)]
    assert Counter(partitions) == dict.fromkeys(range(4), 10)
    assert all((after - before) % 4 == 1 for before, after in itertools.pairwise(partitions))


def test_no_key_when_some_have_no_leader_then_round_robin_over_the_others() -> None:
    partitioner, cluster = DefaultPartitioner(), cluster_of(5, leaderless=[0, 3])
    partitions = [without_key(partitioner, cluster) for _ in range(30)]
    assert Counter(partitions) == {1: 10, 2: 10, 4: 10}
    following = {1: 2, 2: 4, 4: 1}
    assert all(following[before] == after for before, after in itertools.pairwise(partitions))


def test_no_key_when_none_has_a_leader_then_round_robin_over_all() -> None:
    partitioner, cluster = DefaultPartitioner(), cluster_of(3, leaderless=[0, 1, 2])
    assert Counter(without_key(partitioner, cluster) for _ in range(30)) == dict.fromkeys(range(3), 10)


def test_counter_when_it_passes_javas_largest_int_then_it_wraps_as_in_java() -> None:
    partitioner, cluster = DefaultPartitioner(lambda: 2**31 - 2), cluster_of(10)
    # Java: 2147483646, 2147483647, then -2147483648 and -2147483647, which toPositive makes 0 and 1.
    assert [without_key(partitioner, cluster) for _ in range(4)] == [6, 7, 0, 1]


def test_topics_when_several_then_each_counts_for_itself() -> None:
    partitioner = DefaultPartitioner(lambda: 0)
    cluster = cluster_of(3)
    assert [without_key(partitioner, cluster) for _ in range(2)] == [0, 1]
    with pytest.raises(IllegalStateError, match="no partition of topic 'other'"):
        without_key(partitioner, cluster, "other")
    assert without_key(partitioner, cluster) == 2


def test_start_when_many_partitioners_then_random() -> None:
    cluster = cluster_of(1000)
    assert len({without_key(DefaultPartitioner(), cluster) for _ in range(20)}) > 1


def test_threads_when_they_share_it_then_no_number_is_lost_or_used_twice() -> None:
    partitioner, cluster = DefaultPartitioner(), cluster_of(4)
    found: list[list[int]] = [[] for _ in range(4)]
    start = threading.Barrier(4)

    def run(mine: list[int]) -> None:
        start.wait()
        mine.extend(without_key(partitioner, cluster) for _ in range(2000))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(mine,)) for mine in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert Counter(itertools.chain(*found)) == dict.fromkeys(range(4), 2000)


def test_topic_when_not_known_then_an_error_says_what_is_missing() -> None:
    with pytest.raises(IllegalStateError, match="wait for metadata"):
        DefaultPartitioner().partition("other", None, b"k", None, None, cluster_of(3))


def test_partition_for_when_misused_then_it_says_how() -> None:
    assert partition_for(bytearray(b"abc"), 10007) == JAVA[b"abc"]
    with pytest.raises(TypeError, match="must be bytes as they are sent, got str"):
        partition_for("abc", 3)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ValueError, match="at least 1, got 0"):
        partition_for(b"abc", 0)
