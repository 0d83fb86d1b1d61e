import uuid

import pytest

from pyproducer.client.metadata_response import Merged, merge_response, with_leaders, without_leaders
from pyproducer.common.cluster import Cluster, Node, TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import RemoteProtocolError
from tests.unit.client.scripted_cluster import topic_row

T0 = TopicPartition("t", 0)
OTHER_ID = uuid.UUID(int=7)


def response(*topics, nodes=(1, 2)):
    return {"brokers": [{"node_id": node, "host": f"host-{node}", "port": 9092, "rack": None} for node in nodes],
            "cluster_id": "c", "controller_id": nodes[0], "topics": list(topics), "error_code": 0}


def merge(body, previous: Merged | None = None, *, version=13, retain=lambda topic: True, is_partial=False,
          is_new_start=False) -> Merged:
    return merge_response(body, version, previous=previous.cluster if previous else Cluster(),
                          topic_errors=previous.topic_errors if previous else {}, retain=retain, is_partial=is_partial,
                          is_new_start=is_new_start)


def leader(merged: Merged) -> int | None:
    node = merged.cluster.leader_for(T0)
    return None if node is None else node.node_id


def epoch(merged: Merged) -> int:
    return merged.cluster.partition(T0).leader_epoch


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
    assert epoch(stale) == 5
    assert not stale.made_progress


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_merge_when_one_partitions_epoch_is_older_then_the_others_are_taken_whatever_their_order(order):
    known = merge(response(topic_row("t", 1, 1, 1, epoch=5)))
    row = topic_row("t", 2, 2, 2, epoch=6)
    row["partitions"][1]["leader_epoch"] = 4
    row["partitions"] = [row["partitions"][index] for index in order]
    mixed = merge(response(row), known)
    assert [(info.leader.node_id, info.leader_epoch) for info in mixed.cluster.partitions_for_topic("t")] == [
        (2, 6), (1, 5), (2, 6)]


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
    assert (leader(recreated), epoch(recreated)) == (2, 0)
    assert recreated.cluster.topic_id("t") == OTHER_ID


def indices(merged: Merged) -> list[int]:
    return [info.partition for info in merged.cluster.partitions_for_topic("t")]


WITH_IDS = pytest.mark.parametrize("version", [13, 9])


def answer(*leaders, version, **more):
    """An answer about topic t, with an id where the version has one."""
    row = topic_row("t", *leaders, **more)
    if version < 10:
        del row["topic_id"]
    return response(row)


@WITH_IDS
def test_merge_when_an_answer_leaves_partitions_out_then_they_stay_and_the_count_does_not_fall(version):
    """A broker that lags behind tells of the partitions that it knows. Keys went to other partitions meanwhile."""
    known = merge(answer(1, 2, 1, 2, version=version, epoch=5), version=version)
    body = answer(2, 2, version=version, epoch=4)
    body["brokers"][1]["host"] = "moved"
    stale = merge(body, known, version=version)
    assert indices(stale) == [0, 1, 2, 3]
    assert stale.cluster.partition_count_for_topic("t") == 4
    assert leader(stale) == 1
    assert stale.cluster.leader_for(("t", 3)) == Node(2, "moved", 9092)
    none_left = merge(answer(version=version), stale, version=version)
    assert indices(none_left) == [0, 1, 2, 3]


def test_merge_when_a_broker_tells_no_id_then_the_topic_is_the_same_until_another_id_is_told():
    known = merge(answer(1, 2, version=13, epoch=5))
    stale = merge(answer(2, version=9, epoch=4), known, version=9)
    assert (indices(stale), leader(stale), stale.cluster.topic_id("t")) == ([0, 1], 1, None)
    again = merge(answer(2, version=13, epoch=4), stale)
    assert (indices(again), leader(again)) == ([0, 1], 1)
    assert again.cluster.topic_id("t") == known.cluster.topic_id("t")
    other = merge(answer(2, version=13, epoch=0, topic_id=OTHER_ID), stale)
    assert (indices(other), leader(other), epoch(other)) == ([0], 2, 0)


def test_merge_when_an_id_is_told_for_the_first_time_then_it_counts_from_then_on():
    known = merge(answer(1, 2, version=9, epoch=5), version=9)
    told = merge(answer(1, 2, version=13, epoch=5), known)
    assert indices(told) == [0, 1]
    assert indices(merge(answer(1, version=13, epoch=0, topic_id=OTHER_ID), told)) == [0]


def test_merge_when_the_topic_was_created_again_then_its_partitions_are_those_of_the_answer():
    known = merge(answer(1, 2, 1, version=13, epoch=5))
    recreated = merge(answer(1, 2, version=13, topic_id=OTHER_ID), known)
    assert indices(recreated) == [0, 1]
    assert recreated.cluster.partition_count_for_topic("t") == 2


@WITH_IDS
def test_merge_when_the_topic_was_away_for_an_answer_then_a_broker_that_lags_behind_leaves_no_gap(version):
    """The partition with the older epoch was left out, and what the snapshot had of it was lost: 0 and 2 of three. The
    compiled send() took an index for a place and read behind the list."""
    known = merge(answer(1, 2, 1, version=version, epoch=5), version=version)
    away = merge(answer(version=version, error=3), known, version=version)
    assert away.cluster.topics == set()
    body = answer(1, 2, 1, version=version, epoch=5)
    body["topics"][0]["partitions"][1]["leader_epoch"] = 4
    assert indices(merge(body, away, version=version)) == [0, 1, 2]


@pytest.mark.parametrize("row", [{"version": 9}, {"version": 13, "topic_id": OTHER_ID}])
def test_merge_when_another_cluster_answers_then_nothing_of_the_old_one_is_kept(row):
    known = merge(answer(1, 2, 1, version=row["version"], epoch=5), version=row["version"])
    other = merge(answer(2, epoch=1, **row), known, version=row["version"], is_new_start=True)
    assert (indices(other), leader(other), epoch(other)) == ([0], 2, 1)


def test_merge_when_the_same_cluster_answers_after_a_new_start_then_partitions_stay_and_lower_epochs_count():
    known = merge(answer(1, 2, 1, version=13, epoch=5))
    again = merge(answer(2, version=13, epoch=1), known, is_new_start=True)
    assert (indices(again), leader(again), epoch(again)) == ([0, 1, 2], 2, 1)


@pytest.mark.parametrize("index", [-1, -(2**31), 1_000_000, 2**31 - 1])
def test_merge_when_an_index_is_impossible_then_the_answer_is_refused(index):
    body = answer(1, 2, version=13)
    body["topics"][0]["partitions"][1]["partition_index"] = index
    with pytest.raises(RemoteProtocolError, match=f"partition {index} of topic 't': .* must be from 0 to 999999"):
        merge(body)
    assert merge(body, retain=lambda topic: topic == "u").cluster.topics == set(), "nobody wants to know"


def test_merge_when_partitions_are_missing_then_the_count_is_that_of_the_highest_and_twice_told_is_once():
    body = answer(1, 2, 1, version=13)
    for row, index in zip(body["topics"][0]["partitions"], (999_999, 3, 3), strict=True):
        row["partition_index"] = index
    merged = merge(body)
    assert indices(merged) == [3, 999_999]
    assert merged.cluster.partition_count_for_topic("t") == 1_000_000
    assert len(merged.cluster.available_partitions_for_topic("t")) == 2
    assert merged.cluster.partition(("t", 0)) is None


def test_merge_when_nothing_changed_then_the_partitions_are_the_same_objects():
    """A refresh of many partitions is not to cost what it cost to learn them."""
    body = response(topic_row("t", 1, 2, epoch=5), topic_row("u", 1, epoch=5))
    known = merge(body)
    again = merge(body, known)
    assert again.cluster.table("t") is known.cluster.table("t")
    assert not again.made_progress
    moved = merge(response(topic_row("t", 1, 1, epoch=5), topic_row("u", 1, epoch=5)), known)
    assert moved.cluster.partition(T0) is known.cluster.partition(T0)
    assert moved.cluster.leader_for(("t", 1)).node_id == 1
    assert moved.cluster.table("u") is known.cluster.table("u")
    partial = merge(response(topic_row("v", 1)), known, is_partial=True)
    assert partial.cluster.table("t") is known.cluster.table("t")


def test_merge_when_metadata_is_older_than_version_9_then_epochs_are_not_trusted():
    known = merge(response(topic_row("t", 1, epoch=5)))
    old = merge(response(topic_row("t", 2, epoch=4)), known, version=8)
    assert leader(old) == 2
    assert epoch(old) == -1
    first_trusted = merge(response(topic_row("t", 2, epoch=4)), known, version=9)
    assert (leader(first_trusted), epoch(first_trusted)) == (1, 5)


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


def test_merge_when_a_topic_is_not_wanted_any_more_then_dropped():
    known = merge(response(topic_row("t", 1, epoch=5), topic_row("u", 1)))
    merged = merge(response(topic_row("t", 1, epoch=5), topic_row("u", 1)), known, retain=lambda topic: topic == "u")
    assert merged.cluster.topics == {"u"}
    assert merged.topics_answered == {"u"}


def test_merge_when_partial_then_the_others_stay_with_new_addresses():
    known = merge(response(topic_row("t", 1, epoch=5), topic_row("gone", error=3), topic_row("idle", 1)))
    body = response(topic_row("new", 2))
    body["brokers"][0]["host"] = "moved"
    merged = merge(body, known, is_partial=True, retain=lambda topic: topic != "idle")
    assert merged.cluster.topics == {"t", "new"}
    assert merged.cluster.leader_for(T0) == Node(1, "moved", 9092)
    assert merged.cluster.topic_id("t") is not None
    assert merged.topic_errors == {"gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert epoch(merged) == 5


def test_merge_when_a_topic_has_no_name_then_passed_over():
    row = topic_row("t", 1)
    row["name"] = None
    assert merge(response(row)).cluster.topics == set()


def test_with_leaders_when_newer_then_only_those_change():
    known = merge(response(topic_row("t", 1, 1, 1, epoch=5)))
    t1, t2 = TopicPartition("t", 1), TopicPartition("t", 2)
    cluster, updated = with_leaders(
        known.cluster, {T0: (3, 6), t1: (2, 5), t2: (4, 9), TopicPartition("u", 0): (1, 1)},
        [Node(3, "host-3", 9092)])
    assert updated == {T0}
    assert cluster.leader_for(T0) == Node(3, "host-3", 9092)
    assert cluster.leader_for(t1).node_id == 1
    assert cluster.partition(T0).leader_epoch == 6
    assert cluster.topic_id("t") == known.cluster.topic_id("t")
    assert cluster.nodes[3].host == "host-3"


def test_with_leaders_when_a_known_node_is_named_then_its_new_address_counts():
    known = merge(response(topic_row("t", 1, epoch=5)))
    cluster, updated = with_leaders(known.cluster, {T0: (2, 6)}, [Node(2, "moved", 9999)])
    assert updated == {T0}
    assert cluster.leader_for(T0) == cluster.nodes[2] == Node(2, "moved", 9999)
    assert cluster.partition(T0).leader_epoch == 6
    assert cluster.nodes[1] == Node(1, "host-1", 9092)


def test_with_leaders_when_nothing_is_newer_then_the_same_snapshot():
    known = merge(response(topic_row("t", 1, epoch=5)))
    cluster, updated = with_leaders(known.cluster, {T0: (-1, -1)}, [])
    assert cluster is known.cluster
    assert updated == set()


def test_without_leaders_when_called_then_partitions_stay():
    known = merge(response(topic_row("t", 1, 2, epoch=5)))
    cluster = without_leaders(known.cluster, [Node(-1, "boot", 1)])
    assert cluster.partition_count_for_topic("t") == 2
    assert cluster.available_partitions_for_topic("t") == ()
    assert set(cluster.nodes) == {-1}
    assert {info.leader_epoch for info in cluster.partitions_for_topic("t")} == {-1}
