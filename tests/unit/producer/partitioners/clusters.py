"""Clusters for partitioner tests."""

from __future__ import annotations

from collections.abc import Collection

from pyproducer.common.cluster import Cluster, Node, PartitionInfo

NODE = Node(0, "localhost", 9092)
TOPIC = "t"


def cluster_of(partition_count: int, *, leaderless: Collection[int] = ()) -> Cluster:
    """A cluster with one topic; some of its partitions may have no leader."""
    return Cluster(nodes=[NODE], partitions=[
        PartitionInfo(TOPIC, partition, None if partition in leaderless else NODE)
        for partition in range(partition_count)])
