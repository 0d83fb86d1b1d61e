"""The snapshot answers by topic, partition, node and id."""

from __future__ import annotations

import uuid

from pyproducer.common.cluster import Cluster, Node, PartitionInfo, TopicPartition

NODE = Node(1, "127.0.0.1", 9092)


def test_cluster_sorts_partitions_and_knows_who_leads():
    topic_id = uuid.uuid4()
    cluster = Cluster(nodes=[NODE], partitions=[PartitionInfo("t", 1, NODE), PartitionInfo("t", 0, None)],
                      topic_ids={"t": topic_id})
    assert [info.partition for info in cluster.partitions_for_topic("t")] == [0, 1]
    assert [info.partition for info in cluster.available_partitions_for_topic("t")] == [1]
    assert cluster.partition_count_for_topic("t") == 2
    assert cluster.partition_count_for_topic("nope") is None
    assert cluster.leader_for(TopicPartition("t", 1)) is NODE
    assert cluster.leader_for(("t", 0)) is None
    assert cluster.topic_name(topic_id) == "t"
    assert cluster.node_by_id(1) is NODE


def test_cluster_when_partitions_are_missing_then_it_counts_up_to_the_highest_and_lists_what_is_there():
    cluster = Cluster(partitions=[PartitionInfo("t", 60, NODE), PartitionInfo("t", 2, None)])
    assert cluster.partition_count_for_topic("t") == 61
    assert [info.partition for info in cluster.partitions_for_topic("t")] == [2, 60]
    assert cluster.partition(("t", 60)) == PartitionInfo("t", 60, NODE)
    for absent in (("t", 0), ("t", 59), ("t", 61), ("t", -1), ("u", 2)):
        assert cluster.partition(absent) is None
        assert cluster.leader_for(absent) is None
    assert cluster.partitions_for_topic("u") == cluster.available_partitions_for_topic("u") == ()


def test_node_prints_its_address_with_brackets_for_ipv6():
    assert str(NODE) == "127.0.0.1:9092 (node 1)"
    assert str(Node(2, "::1", 9)) == "[::1]:9 (node 2)"
    assert str(TopicPartition("t", 3)) == "t-3"


def test_topic_ids_when_the_table_is_changed_then_the_snapshot_is_not():
    """It had become the snapshot's own table: who called it, as before, got a TypeError."""
    topic_id = uuid.uuid4()
    cluster = Cluster(topic_ids={"t": topic_id})
    table = cluster.topic_ids()
    assert table == {"t": topic_id}
    table.clear()
    assert cluster.topic_ids() == {"t": topic_id}
    assert cluster.topic_id("t") == topic_id
    assert cluster.topic_id("u") is None
    assert Cluster().topic_ids() == {}
