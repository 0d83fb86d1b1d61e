"""Committed offsets, and groups as administrators see them. Expectations are Apache Kafka 4.1's.

The same tests run against it with KAFKA_REFERENCE=host:port.
"""

from __future__ import annotations

import time

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from tests.embedded.conftest import WireTarget
from tests.embedded.test_wire_groups import NewMember, group_id, member, stable_pair
from tests.support.group_member import fetched_offsets, offset_fetch_body
from tests.support.patience import GIVE_UP_S

__all__ = ["group_id", "member"]
UNKNOWN_PARTITION, METADATA_TOO_LARGE, NON_EMPTY, NOT_FOUND = 3, 12, 68, 69
ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING = 22, 25, 27
OFFSET_COMMIT_VERSIONS, OFFSET_FETCH_VERSIONS = range(2, 10), range(1, 10)


def commit_alone(wire: WireTarget, version: int, group_id: str, topic: str, offset: int, *, generation_id: int = -1,
                 member_id: str = "", **fields: object) -> int:
    """Commit without being a member; return the code."""
    with wire.connect() as client:
        answer = client.request(ApiKeys.OFFSET_COMMIT, version, {
            "group_id": group_id, "generation_id_or_member_epoch": generation_id, "member_id": member_id, "topics": [
                {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": offset,
                                                "committed_metadata": "note", **fields}]}]})
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def fetch(wire: WireTarget, group_id: str, topics: dict[str, list[int]] | None = None,
          version: int = 8) -> dict[tuple[str, int], tuple[int, int]]:
    with wire.connect() as client:
        answer = client.request(ApiKeys.OFFSET_FETCH, version, offset_fetch_body(version, group_id, topics))
    return fetched_offsets(version, answer)


def describe(wire: WireTarget, group_id: str, version: int = 6, *, operations: bool = False) -> Struct:
    with wire.connect() as client:
        (group,) = client.request(ApiKeys.DESCRIBE_GROUPS, version, {
            "groups": [group_id], "include_authorized_operations": operations})["groups"]
    found: Struct = group
    return found


# ---- offsets

@pytest.mark.parametrize("version", OFFSET_COMMIT_VERSIONS)
def test_a_group_without_members_takes_offsets_of_anybody(wire: WireTarget, group_id: str, topic: str,
                                                          version: int) -> None:
    fields = {"committed_leader_epoch": 0} if version >= 6 else {}
    assert commit_alone(wire, version, group_id, topic, 7, **fields) == 0
    assert commit_alone(wire, version, group_id, "nowhere", 7, **fields) == UNKNOWN_PARTITION
    with wire.connect() as client:
        answer = client.request(ApiKeys.OFFSET_FETCH, 5, offset_fetch_body(5, group_id, {topic: [0, 1]}))
    assert answer["error_code"] == 0
    found = [(partition["partition_index"], partition["committed_offset"], partition["committed_leader_epoch"],
              partition["metadata"], partition["error_code"]) for partition in answer["topics"][0]["partitions"]]
    assert found == [(0, 7, 0 if version >= 6 else -1, "note", 0), (1, -1, -1, "", 0)]


@pytest.mark.parametrize("version", OFFSET_FETCH_VERSIONS)
def test_offsets_are_read_in_every_version(wire: WireTarget, group_id: str, topic: str, version: int) -> None:
    assert fetch(wire, group_id, {topic: [0]}, version) == {(topic, 0): (-1, 0)}, "no such group is no error"
    assert commit_alone(wire, 8, group_id, topic, 7) == 0
    assert fetch(wire, group_id, {topic: [0, 2], "nowhere": [5]}, version) == {
        (topic, 0): (7, 0), (topic, 2): (-1, 0), ("nowhere", 5): (-1, 0)}
    if version >= 2:
        assert fetch(wire, group_id, None, version) == {(topic, 0): (7, 0)}


def test_offsets_of_several_groups(wire: WireTarget, group_id: str, topic: str) -> None:
    assert commit_alone(wire, 8, group_id, topic, 7) == 0
    with wire.connect() as client:
        answer = client.request(ApiKeys.OFFSET_FETCH, 9, {"groups": [
            {"group_id": group_id, "topics": None},
            {"group_id": group_id, "topics": [{"name": topic, "partition_indexes": [1]}]}], "require_stable": True})
    assert [(group["group_id"], group["error_code"], group["topics"][0]["partitions"][0]["committed_offset"])
            for group in answer["groups"]] == [(group_id, 0, 7), (group_id, 0, -1)]


def test_metadata_that_is_too_long_is_12_for_its_partition(wire: WireTarget, group_id: str, topic: str) -> None:
    assert commit_alone(wire, 8, group_id, topic, 1, committed_metadata="x" * 4096) == 0
    assert commit_alone(wire, 8, group_id, topic, 1, committed_metadata="x" * 4097) == METADATA_TOO_LARGE
    assert commit_alone(wire, 8, group_id, topic, 2, committed_metadata=None) == 0


@pytest.mark.parametrize(("version", "code"), [(8, ILLEGAL_GENERATION), (9, NOT_FOUND)])
def test_a_generation_without_a_group_is_22_and_69_since_version_9(
        wire: WireTarget, group_id: str, topic: str, version: int, code: int) -> None:
    assert commit_alone(wire, version, group_id, topic, 1, generation_id=3, member_id="stranger") == code


def test_members_commit_for_their_generation(wire: WireTarget, member: NewMember, topic: str) -> None:
    leader, follower = stable_pair(member)
    assert leader.commit(topic, 5, 6) == [0, 0]
    assert leader.commit(topic, 5, generation_id_or_member_epoch=1) == [ILLEGAL_GENERATION]
    assert leader.commit(topic, 5, member_id="stranger") == [UNKNOWN_MEMBER]
    assert leader.commit(topic, 5, generation_id_or_member_epoch=-1, member_id="") == [UNKNOWN_MEMBER]
    assert leader.commit("nowhere", 5) == [UNKNOWN_PARTITION]
    leader.send_join()
    follower.await_rebalance()
    assert follower.commit(topic, 8) == [0], "before it joins again, a member may commit what it has read"
    follower.join()
    leader.receive_join()
    assert follower.commit(topic, 9) == [REBALANCING], "not in the new generation before it has its part"
    assert fetch(wire, leader.group_id) == {(topic, 0): (8, 0), (topic, 1): (6, 0)}


# ---- looking at groups

@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_there(wire: WireTarget, group_id: str, version: int) -> None:
    found = describe(wire, group_id, version)
    assert (found["group_state"], found["protocol_type"], list(found["members"])) == ("Dead", "", [])
    assert found["error_code"] == (NOT_FOUND if version >= 6 else 0)
    if version >= 6:
        assert found["error_message"] == f"Group {group_id} not found."


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_shows_its_members(wire: WireTarget, member: NewMember, version: int) -> None:
    leader, follower = stable_pair(member)
    found = describe(wire, leader.group_id, version)
    assert (found["error_code"], found["group_state"], found["protocol_type"], found["protocol_data"]) == (
        0, "Stable", "consumer", "range")
    assert sorted((entry["member_id"], entry["client_id"], entry["client_host"], bytes(entry["member_metadata"]),
                   bytes(entry["member_assignment"])) for entry in found["members"]) == sorted([
                       (leader.member_id, "probe", "/127.0.0.1", b"meta", b"one"),
                       (follower.member_id, "probe", "/127.0.0.1", b"meta", b"two")])


def test_a_group_on_its_way_shows_no_metadata(wire: WireTarget, member: NewMember) -> None:
    one = member()
    one.join()
    deadline = time.monotonic() + GIVE_UP_S
    while (found := describe(wire, one.group_id))["error_code"]:  # Kafka shows a new group a moment later
        assert time.monotonic() < deadline
    assert (found["group_state"], found["protocol_data"]) == ("CompletingRebalance", "")
    assert [(entry["member_id"], bytes(entry["member_metadata"])) for entry in found["members"]] == [
        (one.member_id, b"")]
    one.leave()
    found = describe(wire, one.group_id)
    assert (found["group_state"], found["protocol_type"], list(found["members"])) == ("Empty", "consumer", [])


def test_a_group_that_rebalances_shows_the_last_assignments_and_no_metadata(
        wire: WireTarget, member: NewMember) -> None:
    leader, follower = stable_pair(member)
    third = member()
    third.begin_join()
    leader.await_rebalance()
    found = describe(wire, leader.group_id)
    assert (found["group_state"], found["protocol_data"]) == ("PreparingRebalance", "")
    shown = {entry["member_id"]: (bytes(entry["member_metadata"]), bytes(entry["member_assignment"]))
             for entry in found["members"]}
    assert {name: shown[name] for name in (leader.member_id, follower.member_id)} == {
        leader.member_id: (b"", b"one"), follower.member_id: (b"", b"two")}


def test_operations_are_told_where_they_are_asked_for(wire: WireTarget, group_id: str, topic: str) -> None:
    commit_alone(wire, 8, group_id, topic, 1)
    assert describe(wire, group_id)["authorized_operations"] == -(2**31)
    assert describe(wire, group_id, operations=True)["authorized_operations"] == 3400


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(wire: WireTarget, member: NewMember, topic: str, version: int) -> None:
    leader, _ = stable_pair(member)
    assert commit_alone(wire, 8, f"{leader.group_id}-simple", topic, 1) == 0
    found = listed(wire, version, leader.group_id)
    assert [group["protocol_type"] for group in found] == ["consumer", ""]
    if version >= 4:
        assert [group["group_state"] for group in found] == ["Stable", "Empty"]
        assert [group["protocol_type"] for group in listed(wire, version, leader.group_id, states_filter=["stable"])
                ] == ["consumer"]
    if version >= 5:
        assert [group["group_type"] for group in found] == ["classic", "classic"]
        assert len(listed(wire, version, leader.group_id, types_filter=["Classic"])) == 2
        assert listed(wire, version, leader.group_id, types_filter=["consumer"]) == []


def listed(wire: WireTarget, version: int, prefix: str, **filters: list[str]) -> list[Struct]:
    body = {"states_filter": [], "types_filter": [], **filters}
    with wire.connect() as client:
        answer = client.request(ApiKeys.LIST_GROUPS, version, {
            key: value for key, value in body.items() if version >= (4 if key == "states_filter" else 5)})
    assert answer["error_code"] == 0
    return sorted((group for group in answer["groups"] if group["group_id"].startswith(prefix)),
                  key=lambda group: len(group["group_id"]))


@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_can_be_deleted(wire: WireTarget, member: NewMember, topic: str, version: int) -> None:
    one = member()

    def delete() -> int:
        with wire.connect() as client:
            (result,) = client.request(ApiKeys.DELETE_GROUPS, version, {"groups_names": [one.group_id]})["results"]
        code: int = result["error_code"]
        return code

    assert delete() == NOT_FOUND
    one.join()
    one.sync({one.member_id: b"all"})
    assert one.commit(topic, 4) == [0]
    assert delete() == NON_EMPTY
    one.leave()
    assert fetch(wire, one.group_id) == {(topic, 0): (4, 0)}
    assert delete() == 0
    assert fetch(wire, one.group_id) == {}
    assert describe(wire, one.group_id)["group_state"] == "Dead"
