"""Who leads and who is in sync when brokers come, go and fall behind; where new partitions go."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyproducer.broker.cluster.replicas import (
    NO_LEADER,
    Change,
    Leadership,
    Replicas,
    judged,
    led_by,
    placed,
    reassigned,
    stalled,
)

ALL = (1, 2, 3)
HEALTHY = Leadership(1, 5), Replicas(ALL, ALL)


def judge(leadership: Leadership, replicas: Replicas, *living: int, log_end: int = 100,
          unclean: bool = False) -> Change:
    return judged(leadership, replicas, living=living, log_end=log_end, allows_unclean=unclean)


def test_follower_when_it_is_gone_then_it_leaves_the_isr_and_the_epoch_stays() -> None:
    change = judge(*HEALTHY, 1, 3)
    assert change == (Leadership(1, 5), Replicas(ALL, (1, 3), {2: 100}), None)
    back = judge(change.leadership, change.replicas, 1, 2, 3, log_end=200)
    assert back == (Leadership(1, 5), Replicas(ALL, (1, 3, 2)), None), "it has all again, and is the last of the ISR"


def test_leader_when_it_is_gone_then_the_next_in_sync_leads_in_a_new_epoch() -> None:
    change = judge(*HEALTHY, 2, 3)
    assert change == (Leadership(2, 6), Replicas(ALL, (2, 3), {1: 100}), None)
    back = judge(change.leadership, change.replicas, 1, 2, 3)
    assert back.leadership == (2, 6), "who comes back does not take over"


def test_last_in_sync_when_it_is_gone_then_it_stays_in_the_isr_and_nobody_leads_until_it_is_back() -> None:
    change = judge(Leadership(1, 5), Replicas(ALL, (1,), {2: 10, 3: 20}))
    assert change == (Leadership(NO_LEADER, 6), Replicas(ALL, (1,), {2: 10, 3: 20}), None)
    others = judge(change.leadership, change.replicas, 2, 3)
    assert others == change, "they were not in sync"
    back = judge(others.leadership, others.replicas, 1, 2, 3)
    assert back == (Leadership(1, 7), Replicas(ALL, ALL), None)


def test_leader_when_none_in_sync_lives_and_unclean_elections_are_allowed_then_records_are_lost() -> None:
    change = judge(Leadership(1, 5), Replicas(ALL, (1,), {2: 10, 3: 20}), 2, 3, unclean=True)
    assert change == (Leadership(2, 6), Replicas(ALL, (2, 3), {1: 10}), 10)
    assert judge(Leadership(1, 5), Replicas(ALL, (1,), {2: 10, 3: 20}), unclean=True).leadership.leader_id == NO_LEADER
    assert judge(*HEALTHY, 3, unclean=True).truncate_to is None, "one in sync comes first"


def test_follower_when_it_is_stalled_then_it_lags_though_it_lives_until_it_is_not() -> None:
    change = stalled(2, *HEALTHY, is_stalled=True, living=ALL, log_end=7)
    assert change.replicas == Replicas(ALL, (1, 3), {2: 7}, frozenset({2}))
    later = judge(change.leadership, change.replicas, 1, 2, 3, log_end=50)
    assert later.replicas == change.replicas
    dead = judge(later.leadership, later.replicas, 2, log_end=50)
    assert dead.leadership == (NO_LEADER, 6)
    lost = judge(dead.leadership, dead.replicas, 2, log_end=50, unclean=True)
    assert (lost.leadership, lost.truncate_to, lost.replicas.stalled) == ((2, 7), 7, frozenset())
    again = stalled(2, later.leadership, later.replicas, is_stalled=False, living=ALL, log_end=60)
    assert again.replicas == Replicas(ALL, (1, 3, 2))


def test_leader_when_it_is_no_replica_then_it_takes_the_place_of_who_led() -> None:
    assert led_by(3, Leadership(1, 0), Replicas((1, 2), (1, 2)), living=ALL, log_end=9) == (
        Leadership(3, 1), Replicas((3, 2), (3, 2)), None)
    assert led_by(2, Leadership(NO_LEADER, 0), Replicas((1,), (1,)), living=(2,), log_end=9) == (
        Leadership(2, 1), Replicas((2,), (2,)), None)


def test_partition_when_it_is_reassigned_then_who_leads_goes_on_if_it_may() -> None:
    assert reassigned((3, 1), *HEALTHY, living=ALL, log_end=9) == (Leadership(1, 5), Replicas((3, 1), (1, 3)), None)
    assert reassigned((3, 4), *HEALTHY, living=(3, 4), log_end=9) == (Leadership(3, 6), Replicas((3, 4), (3, 4)), None)


def test_replicas_whatever_happens_then_what_kafka_promises_holds() -> None:
    """The ISR is never empty, a leader lives and is in it, epochs grow with leaders; unclean elections alone lose."""
    source = random.Random(7)
    for _ in range(400):
        leadership, replicas, log_end = *HEALTHY, 0
        living = set(ALL)
        for _ in range(12):
            log_end += source.randrange(3) if leadership.leader_id in living else 0
            node_id = source.choice(ALL)
            happening = source.randrange(5)
            before = leadership
            if happening == 0:
                living.discard(node_id)
            elif happening == 1:
                living.add(node_id)
            elif happening == 2 and node_id != leadership.leader_id:
                change = stalled(node_id, leadership, replicas, is_stalled=source.random() < 0.7, living=living,
                                 log_end=log_end)
                leadership, replicas = change.leadership, change.replicas
            unclean = source.random() < 0.2
            change = judged(leadership, replicas, living=living, log_end=log_end, allows_unclean=unclean)
            leadership, replicas = change.leadership, change.replicas
            assert replicas.isr
            assert set(replicas.isr) <= set(replicas.assigned)
            assert set(replicas.log_ends) == set(replicas.assigned) - set(replicas.isr)
            assert leadership.leader_epoch - before.leader_epoch == (leadership.leader_id != before.leader_id) or (
                leadership.leader_epoch > before.leader_epoch)
            if leadership.leader_id == NO_LEADER:
                assert not living.intersection(replicas.isr)
            else:
                assert leadership.leader_id in living.intersection(replicas.isr)
                assert all(other in replicas.isr or other in replicas.stalled for other in living)
            assert change.truncate_to is None or unclean
            log_end = log_end if change.truncate_to is None else change.truncate_to
            assert all(end <= log_end for end in replicas.log_ends.values())


@pytest.mark.parametrize(("arguments", "expected"), [
    ({"count": 4, "replication_factor": 1, "living": {1: None, 2: None, 3: None}}, [(1,), (2,), (3,), (1,)]),
    ({"count": 3, "replication_factor": 2, "living": {1: None, 2: None, 3: None}}, [(1, 2), (2, 3), (3, 1)]),
    ({"count": 2, "replication_factor": 2, "living": {1: None, 2: None, 3: None}, "first": 4}, [(2, 3), (3, 1)]),
    ({"count": 2, "replication_factor": 3, "living": {1: None, 3: None}}, [(1, 3, 2), (3, 1, 2)]),
    ({"count": 2, "replication_factor": 1, "living": {3: None}}, [(3,), (3,)]),
    ({"count": 1, "replication_factor": 2, "living": {1: "a", 2: "a", 3: "b"}}, [(1, 3)]),
    ({"count": 1, "replication_factor": 2, "living": {1: "a", 2: "a", 3: None}}, [(1, 2)]),
])
def test_placement_when_partitions_are_made_then_replicas_are_spread(
        arguments: dict[str, Any], expected: list[tuple[int, ...]]) -> None:
    assert placed(registered=(1, 2, 3), **arguments) == expected


def test_placement_when_there_are_racks_then_no_partition_is_in_one_alone() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    for row in placed(24, 3, racks, tuple(racks)):
        assert {racks[node_id] for node_id in row} == {"a", "b", "c"}
