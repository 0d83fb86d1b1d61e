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


def test_node_prints_its_address_with_brackets_for_ipv6():
    assert str(NODE) == "127.0.0.1:9092 (node 1)"
    assert str(Node(2, "::1", 9)) == "[::1]:9 (node 2)"
    assert str(TopicPartition("t", 3)) == "t-3"
