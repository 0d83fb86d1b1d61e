"""Which brokers have a partition, which of them are in sync, and who leads when brokers come and go.

There is one log for all of them, so replication is counted, not done:

    a living replica has what the leader has, and is in the ISR; nobody lags by himself
    one that stops, or is told to fetch no more, leaves the ISR, and keeps what there was then (`log_ends`)
    it comes back when there is a leader, and has all again
    a leader that is gone is replaced by the first living replica of the ISR; where none lives the last of the ISR stays
    in it, and nobody leads until that is back; or, where unclean elections are allowed, the first living replica leads,
    and what it does not have is gone

Road:    leaders -> [replicas] -> partition
Thread:  pure.
Source:  Java PartitionChangeBuilder, StripedReplicaPlacer, ReplicationControlManager (4.1), without eligible leader
         replicas (KIP-966), as in clusters whose eligible.leader.replicas.version is 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

NO_LEADER = -1


class Leadership(NamedTuple):
    """Who leads and since which epoch."""

    leader_id: int
    leader_epoch: int


class Replicas(NamedTuple):
    """The brokers of one partition. Replaced, never changed.

    Attributes:
        assigned: All of them, the preferred leader first.
        isr: Those in sync. Never empty.
        log_ends: Of those that are not: where the log ended when they last had all of it.
        stalled: Those that a test lets fetch no more.
    """

    assigned: tuple[int, ...]
    isr: tuple[int, ...]
    log_ends: Mapping[int, int] = {}
    stalled: frozenset[int] = frozenset()


class Change(NamedTuple):
    """What becomes of a partition.

    Attributes:
        leadership: Who leads.
        replicas: Its brokers.
        truncate_to: Where its log ends from now on; None where nothing of it is lost.
    """

    leadership: Leadership
    replicas: Replicas
    truncate_to: int | None = None


def judged(leadership: Leadership, replicas: Replicas, *, living: Collection[int], log_end: int,
           allows_unclean: bool) -> Change:
    """Return what becomes of a partition now that these brokers live.

    Args:
        leadership: As it is.
        replicas: As they are.
        living: The brokers that live.
        log_end: Where the log ends.
        allows_unclean: Whether one may lead that was not in sync, and has lost records.
    """
    if leadership.leader_id in living:
        return Change(leadership, _caught_up(replicas, leadership.leader_id, living, log_end))
    in_sync = tuple(node_id for node_id in replicas.isr if node_id in living)
    leader_id = next((node_id for node_id in replicas.assigned if node_id in in_sync), NO_LEADER)
    if leader_id == NO_LEADER and allows_unclean:
        leader_id = next((node_id for node_id in replicas.assigned if node_id in living), NO_LEADER)
    if leader_id != NO_LEADER:
        return led_by(leader_id, leadership, replicas, living=living, log_end=log_end)
    remaining = replicas._replace(isr=in_sync or replicas.isr)
    if leadership.leader_id != NO_LEADER:
        leadership = Leadership(NO_LEADER, leadership.leader_epoch + 1)
    return Change(leadership, remaining._replace(log_ends=_log_ends(remaining, log_end)))


def led_by(leader_id: int, leadership: Leadership, replicas: Replicas, *, living: Collection[int],
           log_end: int) -> Change:
    """Return what becomes of a partition that this broker leads from now on, in a new epoch.

    One that is no replica takes the place of who led before; one that was out of sync has lost what it has not.
    """
    assigned = replicas.assigned
    if leader_id not in assigned:
        gone = leadership.leader_id if leadership.leader_id in assigned else replicas.isr[0]
        assigned = tuple(leader_id if node_id == gone else node_id for node_id in assigned)
    truncate_to = replicas.log_ends.get(leader_id) if leader_id in living else None
    if truncate_to is not None:
        truncate_to = log_end = min(truncate_to, log_end)
    isr = replicas.isr if leader_id in replicas.isr else (leader_id,)
    changed = Replicas(assigned, isr, replicas.log_ends, replicas.stalled - {leader_id})
    return Change(Leadership(leader_id, leadership.leader_epoch + 1),
                  _caught_up(changed, leader_id, living, log_end), truncate_to)


def reassigned(assigned: Sequence[int], leadership: Leadership, replicas: Replicas, *, living: Collection[int],
               log_end: int) -> Change:
    """Return what becomes of a partition that these brokers have from now on; at once, for nothing is copied."""
    kept = replicas._replace(assigned=tuple(assigned), stalled=replicas.stalled.intersection(assigned),
                             log_ends={key: end for key, end in replicas.log_ends.items() if key in assigned})
    if leadership.leader_id in assigned and leadership.leader_id in living:
        return Change(leadership, _caught_up(kept, leadership.leader_id, living, log_end))
    leader_id = next((node_id for node_id in assigned if node_id in living), assigned[0])
    return led_by(leader_id, leadership, kept._replace(isr=(leader_id,)), living=living, log_end=log_end)


def stalled(node_id: int, leadership: Leadership, replicas: Replicas, *, is_stalled: bool, living: Collection[int],
            log_end: int) -> Change:
    """Return what becomes of a partition of which a follower fetches no more, or again."""
    changed = replicas._replace(stalled=replicas.stalled | {node_id} if is_stalled else replicas.stalled - {node_id})
    if leadership.leader_id in living:
        return Change(leadership, _caught_up(changed, leadership.leader_id, living, log_end))
    return Change(leadership, changed)


def _caught_up(replicas: Replicas, leader_id: int, living: Collection[int], log_end: int) -> Replicas:
    """Let all living followers that are not stalled have what the leader has; those in sync keep their order."""
    in_sync = [node_id for node_id in replicas.assigned
               if node_id == leader_id or (node_id in living and node_id not in replicas.stalled)]
    isr = tuple(sorted(in_sync, key=lambda node_id: (
        replicas.isr.index(node_id) if node_id in replicas.isr else len(replicas.isr))))
    changed = replicas._replace(isr=isr or (leader_id,))
    return changed._replace(log_ends=_log_ends(changed, log_end))


def _log_ends(replicas: Replicas, log_end: int) -> dict[int, int]:
    return {node_id: min(replicas.log_ends.get(node_id, log_end), log_end)
            for node_id in replicas.assigned if node_id not in replicas.isr}


# ---- where new partitions go

def placed(count: int, replication_factor: int, living: Mapping[int, str | None], registered: Sequence[int], *,
           first: int = 0) -> list[tuple[int, ...]]:
    """Return the replicas of new partitions: each begins with the next broker, and goes on with those after it.

    Neighbours in that order are in different racks, where all brokers have one. Those that do not live are taken last.

    Args:
        count: How many partitions.
        replication_factor: How many replicas each; at most as many as are registered.
        living: The brokers that count as living, with their racks.
        registered: All brokers.
        first: The number of the first partition.
    """
    order = _striped(living)
    dead = [node_id for node_id in registered if node_id not in order]
    rows = []
    for number in range(first, first + count):
        start = number % len(order)
        rows.append(tuple([*order[start:], *order[:start], *dead][:replication_factor]))
    return rows


def _striped(racks: Mapping[int, str | None]) -> list[int]:
    """Return brokers by their ids, or one of each rack in turn."""
    if None in racks.values() or len(set(racks.values())) < 2:
        return sorted(racks)
    by_rack: dict[str | None, list[int]] = {}
    for node_id in sorted(racks):
        by_rack.setdefault(racks[node_id], []).append(node_id)
    columns = sorted(by_rack.values(), key=lambda ids: (-len(ids), ids))
    return [ids[turn] for turn in range(len(columns[0])) for ids in columns if turn < len(ids)]
