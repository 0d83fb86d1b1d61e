"""Classic consumer groups: members, generations, static members. Expectations are Apache Kafka 4.1's.

The same tests run against it with KAFKA_REFERENCE=host:port. Metadata of members is short here because Kafka looks for
topics in what a "consumer" says, and fails where it finds the length of a list that is not there.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from tests.embedded.conftest import WireTarget
from tests.support.group_member import GroupMember
from tests.support.patience import GIVE_UP_S

INCONSISTENT_PROTOCOL, INVALID_GROUP, UNKNOWN_MEMBER, INVALID_SESSION, REBALANCING = 23, 24, 25, 26, 27
ILLEGAL_GENERATION, MEMBER_ID_REQUIRED, FENCED_INSTANCE = 22, 79, 82

NewMember = Callable[..., GroupMember]


@pytest.fixture
def group_id(wire: WireTarget, topic_name: str) -> str:
    """A group that no other test uses, with a coordinator that is ready for it."""
    group_id = f"{topic_name}-{uuid.uuid4().hex[:8]}"
    with wire.connect() as client:
        deadline = time.monotonic() + GIVE_UP_S
        while client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": group_id})["error_code"] or client.request(
                ApiKeys.DESCRIBE_GROUPS, 2, {"groups": [group_id]})["groups"][0]["error_code"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return group_id


@pytest.fixture
def member(wire: WireTarget, group_id: str) -> Iterator[NewMember]:
    """Make members of the group; their connections are closed at the end."""
    made: list[GroupMember] = []

    def make(**fields: object) -> GroupMember:
        made.append(GroupMember(wire.connect(), group_id, **fields))  # type: ignore[arg-type]  # passed on as given
        return made[-1]

    yield make
    for each in made:
        each.client.close()


def stable_pair(member: NewMember, **fields: object) -> tuple[GroupMember, GroupMember]:
    """Return leader and follower of a stable group in generation 2."""
    leader, follower = member(**fields), member(**fields)
    leader.join()
    leader.sync({leader.member_id: b"all"})
    follower.begin_join()
    assert follower.client.is_silent(for_s=0.1), "it waits for the leader"
    leader.await_rebalance()
    leader.join()
    follower.receive_join()
    follower.send_sync()
    leader.sync({leader.member_id: b"one", follower.member_id: b"two"})
    assert follower.receive_sync()["assignment"] == b"two"
    return leader, follower


def member_ids(joined: Struct) -> list[str]:
    return sorted(entry["member_id"] for entry in joined["members"])


# ---- joining

@pytest.mark.parametrize("version", range(10))
def test_a_first_member_leads_generation_1(member: NewMember, version: int) -> None:
    one = member(version=version)
    joined = one.join(("range", b"meta"), ("roundrobin", b"other"))
    assert (joined["error_code"], joined["generation_id"], joined["protocol_name"]) == (0, 1, "range")
    assert joined["leader"] == joined["member_id"]
    assert one.member_id.startswith("probe-")
    assert [(entry["member_id"], bytes(entry["metadata"])) for entry in joined["members"]] == [
        (one.member_id, b"meta")]
    if version >= 7:
        assert joined["protocol_type"] == "consumer"
    if version >= 9:
        assert joined["skip_assignment"] is False
    synced = one.sync({one.member_id: b"mine"})
    assert (synced["error_code"], bytes(synced["assignment"])) == (0, b"mine")
    if version >= 5:
        assert (synced["protocol_type"], synced["protocol_name"]) == ("consumer", "range")
    assert one.heartbeat() == 0
    assert one.leave()["error_code"] == 0
    assert one.heartbeat() == UNKNOWN_MEMBER


@pytest.mark.parametrize("version", [4, 6, 7, 9])
def test_from_4_a_member_must_know_its_id_first(member: NewMember, version: int) -> None:
    one = member(version=version)
    one.send_join()
    refused = one.receive_join()
    assert (refused["error_code"], refused["generation_id"], refused["leader"]) == (MEMBER_ID_REQUIRED, -1, "")
    assert refused["member_id"].startswith("probe-")
    assert list(refused["members"]) == []
    assert refused["protocol_name"] == ("" if version < 7 else None)


def test_a_second_member_begins_a_rebalance(member: NewMember) -> None:
    leader, follower = member(), member()
    leader.join()
    leader.sync({leader.member_id: b"all"})
    follower.begin_join(("range", b"two"))
    assert follower.client.is_silent(for_s=0.1)
    leader.await_rebalance()
    assert leader.sync({})["error_code"] == REBALANCING
    joined = leader.join()
    followed = follower.receive_join()
    assert joined["generation_id"] == followed["generation_id"] == 2
    assert joined["leader"] == followed["leader"] == leader.member_id
    assert member_ids(joined) == sorted((leader.member_id, follower.member_id))
    assert list(followed["members"]) == []
    follower.send_sync()
    assert follower.client.is_silent(for_s=0.1), "it waits for the leader's assignment"
    assert follower_beats(follower, leader) == 0
    assert bytes(leader.sync({leader.member_id: b"a", follower.member_id: b"b"})["assignment"]) == b"a"
    assert bytes(follower.receive_sync()["assignment"]) == b"b"
    assert bytes(follower.sync()["assignment"]) == b"b", "again, of a stable group"


def follower_beats(follower: GroupMember, leader: GroupMember) -> int:
    """Beat for a member whose own connection waits."""
    return leader.heartbeat(member_id=follower.member_id)


def test_the_leader_may_leave_members_without_assignment(member: NewMember) -> None:
    leader, follower = stable_pair(member)
    leader.send_join()
    follower.await_rebalance()
    follower.send_join()
    leader.receive_join()
    follower.receive_join()
    leader.sync({leader.member_id: b"all"})
    assert bytes(follower.sync()["assignment"]) == b""


def test_most_votes_choose_the_protocol(member: NewMember) -> None:
    members = [member(), member(), member()]
    members[0].join(("range", b"r"), ("sticky", b"s"))
    members[0].sync({})
    for each in members[1:]:
        each.begin_join(("sticky", b"s"), ("range", b"r"))
    members[0].await_rebalance()
    assert members[0].join(("range", b"r"), ("sticky", b"s"))["protocol_name"] == "sticky"
    assert [each.receive_join()["protocol_name"] for each in members[1:]] == ["sticky"] * 2


def test_a_follower_that_rejoins_unchanged_gets_its_generation_again(member: NewMember) -> None:
    leader, follower = stable_pair(member)
    again = follower.join()
    assert (again["error_code"], again["generation_id"], again["leader"]) == (0, 2, leader.member_id)
    assert list(again["members"]) == []
    assert leader.heartbeat() == 0


def test_a_follower_that_rejoins_changed_begins_a_rebalance(member: NewMember) -> None:
    leader, follower = stable_pair(member)
    follower.send_join(("range", b"new"))
    leader.await_rebalance()
    assert leader.join()["generation_id"] == 3
    assert follower.receive_join()["generation_id"] == 3


def test_a_leader_that_rejoins_begins_a_rebalance(member: NewMember) -> None:
    leader, follower = stable_pair(member)
    leader.send_join()
    follower.await_rebalance()
    assert follower.join()["generation_id"] == 3
    assert member_ids(leader.receive_join()) == sorted((leader.member_id, follower.member_id))


def test_before_the_assignment_an_unchanged_member_gets_its_generation_again(member: NewMember) -> None:
    one = member()
    one.join()
    again = one.join()
    assert (again["error_code"], again["generation_id"]) == (0, 1)
    assert member_ids(again) == [one.member_id]
    assert one.join(("range", b"new"))["generation_id"] == 2


def test_a_rebalance_ends_the_wait_for_an_assignment(member: NewMember) -> None:
    leader, follower = stable_pair(member)
    leader.send_join()
    follower.await_rebalance()
    follower.join()
    leader.receive_join()
    follower.send_sync()
    assert follower.client.is_silent(for_s=0.1)
    third = member()
    third.begin_join()
    assert follower.receive_sync()["error_code"] == REBALANCING
    follower.send_join()
    assert leader.join()["generation_id"] == 4
    assert follower.receive_join()["generation_id"] == third.receive_join()["generation_id"] == 4


# ---- refusals

@pytest.mark.parametrize("session_timeout_ms", [5, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_26(member: NewMember, session_timeout_ms: int) -> None:
    one = member(session_timeout_ms=session_timeout_ms)
    one.send_join()
    refused = one.receive_join()
    assert (refused["error_code"], refused["member_id"]) == (INVALID_SESSION, "")


def test_no_group_is_24(member: NewMember) -> None:
    one = member()
    one.group_id = ""
    one.send_join()
    assert one.receive_join()["error_code"] == INVALID_GROUP
    assert one.sync()["error_code"] == INVALID_GROUP
    assert one.heartbeat() == INVALID_GROUP
    assert one.leave()["error_code"] == INVALID_GROUP


def test_unknown_members_are_25(member: NewMember) -> None:
    one = member()
    one.member_id = "stranger"
    one.generation_id = 1
    one.send_join()
    refused = one.receive_join()
    assert (refused["error_code"], refused["member_id"]) == (UNKNOWN_MEMBER, "stranger"), "there is no such group"
    assert one.sync()["error_code"] == UNKNOWN_MEMBER
    assert one.heartbeat() == UNKNOWN_MEMBER
    left = one.leave()
    assert left["error_code"] == 0
    assert [(entry["member_id"], entry["error_code"]) for entry in left["members"]] == [("stranger", UNKNOWN_MEMBER)]
    stable_pair(member)
    one.send_join()
    assert one.receive_join()["error_code"] == UNKNOWN_MEMBER, "there is no such member"
    assert one.sync()["error_code"] == UNKNOWN_MEMBER
    assert one.heartbeat() == UNKNOWN_MEMBER
    assert one.leave()["members"][0]["error_code"] == UNKNOWN_MEMBER


def test_another_generation_is_22(member: NewMember) -> None:
    leader, follower = stable_pair(member)
    assert follower.heartbeat(generation_id=1) == ILLEGAL_GENERATION
    assert follower.heartbeat(generation_id=3) == ILLEGAL_GENERATION
    assert follower.sync(generation_id=1)["error_code"] == ILLEGAL_GENERATION
    assert leader.heartbeat() == follower.heartbeat() == 0


def test_protocols_that_do_not_fit_are_23(member: NewMember) -> None:
    leader, follower = stable_pair(member)
    newcomer = member()
    newcomer.send_join(("sticky", b""))
    assert newcomer.receive_join()["error_code"] == INCONSISTENT_PROTOCOL
    newcomer.send_join(protocol_type="connect")
    assert newcomer.receive_join()["error_code"] == INCONSISTENT_PROTOCOL
    assert follower.sync(protocol_name="sticky")["error_code"] == INCONSISTENT_PROTOCOL
    assert follower.sync(protocol_type=None)["error_code"] == INCONSISTENT_PROTOCOL
    assert leader.heartbeat() == 0


def test_a_group_without_protocol_type_is_23(member: NewMember) -> None:
    one = member()
    one.send_join(protocol_type="")
    assert one.receive_join()["error_code"] == INCONSISTENT_PROTOCOL


# ---- leaving

@pytest.mark.parametrize("version", range(10))
def test_a_member_that_leaves_begins_a_rebalance(member: NewMember, version: int) -> None:
    leader, follower = stable_pair(member, version=version)
    left = leader.leave()
    assert left["error_code"] == 0
    if version >= 3:
        assert [(entry["member_id"], entry["group_instance_id"], entry["error_code"])
                for entry in left["members"]] == [(leader.member_id, None, 0)]
    follower.await_rebalance()
    joined = follower.join()
    assert (joined["generation_id"], joined["leader"]) == (3, follower.member_id)
    assert member_ids(joined) == [follower.member_id]


@pytest.mark.parametrize("version", [0, 2])
def test_before_3_leaving_of_a_stranger_is_25(member: NewMember, version: int) -> None:
    one = member(version=version)
    one.member_id = "stranger"
    assert one.leave()["error_code"] == UNKNOWN_MEMBER


def test_an_id_that_was_not_used_can_leave(member: NewMember) -> None:
    one = member()
    one.send_join()
    assert one.receive_join()["error_code"] == MEMBER_ID_REQUIRED
    assert one.leave()["members"][0]["error_code"] == 0
    one.send_join()
    assert one.receive_join()["error_code"] == UNKNOWN_MEMBER


# ---- static members

def test_a_static_member_keeps_its_place_over_a_restart(member: NewMember) -> None:
    leader, follower = member(instance_id="a"), member(instance_id="b")
    leader.join()
    assert leader.member_id.startswith("a-")
    leader.sync({leader.member_id: b"all"})
    follower.begin_join()
    leader.await_rebalance()
    leader.join()
    follower.receive_join()
    leader.sync({leader.member_id: b"one", follower.member_id: b"two"})
    assert bytes(follower.sync()["assignment"]) == b"two"
    restarted = member(instance_id="b")
    joined = restarted.join()
    assert (joined["error_code"], joined["generation_id"], joined["leader"]) == (0, 2, leader.member_id)
    assert restarted.member_id != follower.member_id
    assert bytes(restarted.sync()["assignment"]) == b"two"
    assert leader.heartbeat() == 0, "no rebalance"
    assert follower.heartbeat() == FENCED_INSTANCE
    assert follower.sync()["error_code"] == FENCED_INSTANCE
    follower.send_join()
    assert follower.receive_join()["error_code"] == FENCED_INSTANCE


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_static_leader_that_comes_back_does_not_assign_anew(member: NewMember, version: int) -> None:
    before = member(instance_id="a", version=version)
    before.join()
    before.sync({before.member_id: b"all"})
    after = member(instance_id="a", version=version)
    joined = after.join()
    assert (joined["error_code"], joined["generation_id"]) == (0, 1)
    if version >= 9:
        assert (joined["skip_assignment"], joined["leader"]) == (True, after.member_id)
        assert member_ids(joined) == [after.member_id]
    else:
        assert (joined["leader"], list(joined["members"])) == (before.member_id, [])
    assert bytes(after.sync()["assignment"]) == b"all"


def test_a_static_member_with_other_protocols_begins_a_rebalance(member: NewMember) -> None:
    one = member(instance_id="a")
    one.join(("range", b"r"), ("sticky", b"s"))
    one.sync({one.member_id: b"all"})
    again = member(instance_id="a")
    joined = again.join(("sticky", b"s"), ("range", b"r"))
    assert (joined["generation_id"], joined["protocol_name"]) == (2, "sticky")


def test_a_second_static_member_fences_the_one_that_waits(member: NewMember) -> None:
    leader = member()
    leader.join()
    leader.sync({leader.member_id: b"all"})
    first, second = member(instance_id="b"), member(instance_id="b")
    first.begin_join()
    assert first.client.is_silent(for_s=0.1)
    second.begin_join()
    assert first.receive_join()["error_code"] == FENCED_INSTANCE
    assert second.client.is_silent(for_s=0.1)
    leader.join()
    assert second.receive_join()["generation_id"] == 2


def test_static_member_when_replaced_while_it_waits_for_its_assignment_then_it_is_fenced(member: NewMember) -> None:
    """Never answered, it would wait until its request times out, on a connection that is not read meanwhile."""
    leader, first, second = member(), member(instance_id="b"), member(instance_id="b")
    leader.join()
    leader.sync({leader.member_id: b"all"})
    first.begin_join()
    leader.await_rebalance()
    leader.join()
    first.receive_join()
    first.send_sync()
    assert first.client.is_silent(for_s=0.1)
    second.begin_join()
    assert first.receive_sync()["error_code"] == FENCED_INSTANCE
    assert first.heartbeat() == FENCED_INSTANCE
    assert leader.sync({})["error_code"] == REBALANCING, "it may have assigned to the old id"
    assert leader.join()["generation_id"] == second.receive_join()["generation_id"] == 3


def test_an_administrator_removes_a_static_member_by_its_instance(member: NewMember, wire: WireTarget) -> None:
    one = member(instance_id="a")
    one.join()
    one.sync({one.member_id: b"all"})
    with wire.connect() as client:
        left = client.request(ApiKeys.LEAVE_GROUP, 5, {"group_id": one.group_id, "members": [
            {"member_id": "", "group_instance_id": "a", "reason": "test"},
            {"member_id": "", "group_instance_id": "nobody", "reason": None}]})
    assert left["error_code"] == 0
    assert [(entry["group_instance_id"], entry["error_code"]) for entry in left["members"]] == [
        ("a", 0), ("nobody", UNKNOWN_MEMBER)]
    assert one.heartbeat() == UNKNOWN_MEMBER
