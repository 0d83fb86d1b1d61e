import uuid

from pyproducer.client.metadata_response import Merged, merge_response, with_leaders, without_leaders
from pyproducer.common.cluster import Cluster, Node, TopicPartition
from pyproducer.common.error_codes import ErrorCode
from tests.unit.client.scripted_cluster import topic_row

T0 = TopicPartition("t", 0)
OTHER_ID = uuid.UUID(int=7)


def response(*topics, nodes=(1, 2)):
    return {"brokers": [{"node_id": node, "host": f"host-{node}", "port": 9092, "rack": None} for node in nodes],
            "cluster_id": "c", "controller_id": nodes[0], "topics": list(topics), "error_code": 0}


def merge(body, previous: Merged | None = None, *, version=13, retain=lambda topic: True, is_partial=False) -> Merged:
    return merge_response(body, version, previous=previous.cluster if previous else Cluster(),
                          leader_epochs=previous.leader_epochs if previous else {},
                          topic_errors=previous.topic_errors if previous else {}, retain=retain, is_partial=is_partial)


def leader(merged: Merged) -> int | None:
    node = merged.cluster.leader_for(T0)
    return None if node is None else node.node_id


def test_merge_when_partitions_come_unordered_then_sorted_and_complete():
    row = topic_row("t", 1, 2, 9, epoch=3)
    row["partitions"].reverse()
    merged = merge(response(row))
    infos = merged.cluster.partitions_for_topic("t")
    assert [(info.partition, info.leader and info.leader.node_id, info.leader_epoch) for info in infos] == [
        (0, 1, 3), (1, 2, 3), (2, None, 3)]
    assert infos[2].replicas == (Node(9, "", -1),)
    assert merged.cluster.cluster_id == "c"
    assert merged.cluster.controller == Node(1, "host-1", 9092)
    assert merged.made_progress


def test_merge_when_the_epoch_is_older_then_the_known_leader_stays():
    known = merge(response(topic_row("t", 1, epoch=5)))
    stale = merge(response(topic_row("t", 2, epoch=4)), known)
    assert leader(stale) == 1
    assert stale.leader_epochs[T0] == 5
    assert not stale.made_progress


def test_merge_when_the_epoch_is_older_and_the_leader_moved_host_then_its_new_address_is_used():
    known = merge(response(topic_row("t", 1, epoch=5)))
    body = response(topic_row("t", 2, epoch=4))
    body["brokers"][0]["host"] = "moved"
    assert merge(body, known).cluster.leader_for(T0).host == "moved"


def test_merge_when_the_epoch_is_equal_or_newer_then_the_new_leader_is_taken():
    known = merge(response(topic_row("t", 1, epoch=5)))
    equal = merge(response(topic_row("t", 2, epoch=5)), known)
    assert (leader(equal), equal.made_progress) == (2, False)
    newer = merge(response(topic_row("t", 2, epoch=6)), known)
    assert (leader(newer), newer.made_progress) == (2, True)


def test_merge_when_the_topic_was_created_again_then_lower_epochs_count():
    known = merge(response(topic_row("t", 1, epoch=5)))
    recreated = merge(response(topic_row("t", 2, epoch=0, topic_id=OTHER_ID)), known)
    assert (leader(recreated), recreated.leader_epochs[T0]) == (2, 0)
    assert recreated.cluster.topic_id("t") == OTHER_ID


def test_merge_when_metadata_is_older_than_version_9_then_epochs_are_not_trusted():
    known = merge(response(topic_row("t", 1, epoch=5)))
    old = merge(response(topic_row("t", 2, epoch=4)), known, version=8)
    assert leader(old) == 2
    assert T0 not in old.leader_epochs
    assert old.cluster.partition(T0).leader_epoch == -1
    first_trusted = merge(response(topic_row("t", 2, epoch=4)), known, version=9)
    assert (leader(first_trusted), first_trusted.leader_epochs[T0]) == (1, 5)


def test_merge_when_one_topic_is_internal_then_only_that_is():
    row = topic_row("__consumer_offsets", 1)
    row["is_internal"] = True
    merged = merge(response(topic_row("t", 1), row))
    assert set(merged.cluster.internal_topics) == {"__consumer_offsets"}


def test_merge_when_topic_ids_are_missing_then_none_are_kept():
    row = topic_row("t", 1)
    del row["topic_id"]
    assert merge(response(row), version=9).cluster.topic_id("t") is None
    assert merge(response(topic_row("t", 1, topic_id=uuid.UUID(int=0)))).cluster.topic_id("t") is None


def test_merge_when_topics_have_errors_then_sorted_by_kind():
    merged = merge(response(topic_row("gone", error=3), topic_row("bad/name", error=17), topic_row("secret", error=29),
                            topic_row("odd", error=999)))
    assert merged.cluster.topics == set()
    assert merged.topic_errors["gone"] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert merged.cluster.invalid_topics == {"bad/name"}
    assert merged.cluster.unauthorized_topics == {"secret"}
    assert merged.topic_errors["odd"] is ErrorCode.UNKNOWN_SERVER_ERROR
    assert merged.needs_refresh


def test_merge_when_a_topic_is_refused_for_good_then_no_refresh():
    assert not merge(response(topic_row("bad/name", error=17), topic_row("secret", error=29))).needs_refresh


def test_merge_when_a_partition_has_no_leader_then_refresh_and_not_available():
    merged = merge(response(topic_row("t", -1, partition_error=5)))
    assert merged.needs_refresh
    assert merged.cluster.partition_count_for_topic("t") == 1
    assert merged.cluster.available_partitions_for_topic("t") == ()


def test_merge_when_a_topic_is_not_wanted_any_more_then_dropped_with_its_epochs():
    known = merge(response(topic_row("t", 1, epoch=5), topic_row("u", 1)))
    merged = merge(response(topic_row("t", 1, epoch=5), topic_row("u", 1)), known, retain=lambda topic: topic == "u")
    assert merged.cluster.topics == {"u"}
    assert set(merged.leader_epochs) == {TopicPartition("u", 0)}


def test_merge_when_partial_then_the_others_stay_with_new_addresses():
    known = merge(response(topic_row("t", 1, epoch=5), topic_row("gone", error=3), topic_row("idle", 1)))
    body = response(topic_row("new", 2))
    body["brokers"][0]["host"] = "moved"
    merged = merge(body, known, is_partial=True, retain=lambda topic: topic != "idle")
    assert merged.cluster.topics == {"t", "new"}
    assert merged.cluster.leader_for(T0) == Node(1, "moved", 9092)
    assert merged.cluster.topic_id("t") is not None
    assert merged.topic_errors == {"gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert merged.leader_epochs[T0] == 5


def test_merge_when_a_topic_has_no_name_then_passed_over():
    row = topic_row("t", 1)
    row["name"] = None
    assert merge(response(row)).cluster.topics == set()


def test_with_leaders_when_newer_then_only_those_change():
    known = merge(response(topic_row("t", 1, 1, 1, epoch=5)))
    epochs = dict(known.leader_epochs)
    t1, t2 = TopicPartition("t", 1), TopicPartition("t", 2)
    cluster, updated = with_leaders(
        known.cluster, {T0: (3, 6), t1: (2, 5), t2: (4, 9), TopicPartition("u", 0): (1, 1)}, epochs,
        [Node(3, "host-3", 9092)])
    assert updated == {T0}
    assert cluster.leader_for(T0) == Node(3, "host-3", 9092)
    assert cluster.leader_for(t1).node_id == 1
    assert epochs[T0] == 6
    assert cluster.topic_id("t") == known.cluster.topic_id("t")
    assert cluster.nodes[3].host == "host-3"


def test_with_leaders_when_a_known_node_is_named_then_its_new_address_counts():
    known = merge(response(topic_row("t", 1, epoch=5)))
    cluster, updated = with_leaders(known.cluster, {T0: (2, 6)}, dict(known.leader_epochs), [Node(2, "moved", 9999)])
    assert updated == {T0}
    assert cluster.leader_for(T0) == cluster.nodes[2] == Node(2, "moved", 9999)
    assert cluster.partition(T0).leader_epoch == 6
    assert cluster.nodes[1] == Node(1, "host-1", 9092)


def test_with_leaders_when_nothing_is_newer_then_the_same_snapshot():
    known = merge(response(topic_row("t", 1, epoch=5)))
    cluster, updated = with_leaders(known.cluster, {T0: (-1, -1)}, dict(known.leader_epochs), [])
    assert cluster is known.cluster
    assert updated == set()


def test_without_leaders_when_called_then_partitions_stay():
    known = merge(response(topic_row("t", 1, 2, epoch=5)))
    cluster = without_leaders(known.cluster, [Node(-1, "boot", 1)])
    assert cluster.partition_count_for_topic("t") == 2
    assert cluster.available_partitions_for_topic("t") == ()
    assert set(cluster.nodes) == {-1}
    assert {info.leader_epoch for info in cluster.partitions_for_topic("t")} == {-1}
