"""Steps of a group with a clock of the test's own."""

from __future__ import annotations

import pytest

from pyproducer.broker.cluster.coordinator.group.classic_group import ClassicGroup
from pyproducer.broker.cluster.coordinator.group.group_step import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupLimits, GroupStep
from pyproducer.broker.cluster.coordinator.group.member import (
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)
from pyproducer.broker.cluster.coordinator.group.state import GroupState
from pyproducer.common.error_codes import ErrorCode

SESSION_MS, REBALANCE_MS = 1000, 5000


class Stage:
    """A group, its time, and what everybody was answered."""

    def __init__(self, **limits: int) -> None:
        self.group = ClassicGroup("g")
        self.limits = GroupLimits(**limits)
        self.now_ms = 0
        self.joined: dict[str, JoinAnswer] = {}
        self.synced: dict[str, SyncAnswer] = {}
        self.saves = 0

    def state(self) -> GroupState:
        return self.group.state

    def step(self) -> GroupStep:
        return GroupStep(self.group, self.limits, self.now_ms)

    def finish(self, step: GroupStep) -> None:
        step.expire()
        self.saves += step.must_save
        for answer in step.answers:
            answer()

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.finish(self.step())

    def join(self, name: str, *, known: str | None = None, instance_id: str | None = None,
             protocols: tuple[tuple[str, bytes], ...] = (("range", b""),)) -> None:
        """Join under a name of the test's; `known` is the member id to use."""
        member_id = known if known is not None else self.joined[name].member_id if name in self.joined else ""
        self.joined.pop(name, None)
        step = self.step()
        step.join(JoinRequest("g", member_id, instance_id, name, "/127.0.0.1", SESSION_MS, REBALANCE_MS, "consumer",
                              protocols, False, True), lambda answer: self.joined.__setitem__(name, answer))
        self.finish(step)

    def sync(self, name: str, assignments: dict[str, bytes] | None = None, *, instance_id: str | None = None) -> None:
        answer = self.joined[name]
        step = self.step()
        step.sync(SyncRequest("g", answer.generation_id, answer.member_id, instance_id, None, None, assignments or {}),
                  lambda answer: self.synced.__setitem__(name, answer))
        self.finish(step)

    def heartbeat(self, name: str, *, instance_id: str | None = None) -> ErrorCode:
        step = self.step()
        code = step.heartbeat(self.joined[name].member_id, instance_id, self.joined[name].generation_id)
        self.finish(step)
        return code

    def leave(self, name: str, *, instance_id: str | None = None) -> ErrorCode:
        step = self.step()
        (code,) = step.leave([LeavingMember(self.joined[name].member_id, instance_id)])
        self.finish(step)
        return code


@pytest.fixture
def stage() -> Stage:
    return Stage()


def stable(stage: Stage, *names: str) -> None:
    """Make a stable group of these members; the first one leads."""
    stage.join(names[0])
    leader_id = stage.joined[names[0]].member_id
    for name in names[1:]:
        stage.join(name)
    if len(names) > 1:
        stage.join(names[0], known=leader_id)
    for name in (*names[1:], names[0]):
        stage.sync(name, {answer.member_id: key.encode() for key, answer in stage.joined.items()})
    assert stage.group.state is GroupState.STABLE


def test_a_group_goes_through_its_states(stage: Stage) -> None:
    assert stage.state() is GroupState.EMPTY
    stage.join("one")
    assert stage.state() is GroupState.COMPLETING_REBALANCE
    assert stage.joined["one"].generation_id == 1
    stage.sync("one", {stage.joined["one"].member_id: b"all"})
    assert stage.state() is GroupState.STABLE
    assert stage.synced["one"].assignment == b"all"
    assert stage.saves == 1
    stage.join("two")
    assert stage.state() is GroupState.PREPARING_REBALANCE
    assert "two" not in stage.joined
    stage.join("one")
    assert stage.joined["one"].generation_id == stage.joined["two"].generation_id == 2
    assert stage.leave("one") is stage.leave("two") is ErrorCode.NONE
    assert stage.state() is GroupState.EMPTY
    assert (stage.group.generation_id, stage.group.leader_id, stage.group.members) == (3, None, {})
    assert stage.saves == 2, "an empty generation is written"


def test_the_protocol_is_one_that_all_have(stage: Stage) -> None:
    stage.join("one", protocols=(("a", b""), ("b", b"")))
    stage.join("two", protocols=(("c", b""), ("b", b"")))
    stage.join("three", protocols=(("c", b""), ("a", b"")))
    assert stage.joined["three"].error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stage.join("one", protocols=(("a", b""), ("b", b"")))
    assert stage.joined["one"].protocol_name == stage.joined["two"].protocol_name == "b"


def test_heartbeats_keep_a_member(stage: Stage) -> None:
    stable(stage, "one")
    for _ in range(5):
        stage.advance(SESSION_MS - 1)
        assert stage.heartbeat("one") is ErrorCode.NONE
    stage.advance(SESSION_MS)
    assert stage.group.state is GroupState.EMPTY
    assert stage.heartbeat("one") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_need_not_beat(stage: Stage) -> None:
    stable(stage, "one", "two")
    stage.join("two", protocols=(("range", b"new"),))
    for _ in range(4):
        stage.advance(SESSION_MS - 1)
        assert stage.heartbeat("one") is ErrorCode.REBALANCE_IN_PROGRESS
    stage.join("one")
    assert stage.joined["two"].generation_id == 3


def test_a_new_member_has_five_minutes(stage: Stage) -> None:
    stable(stage, "one")
    for member in stage.group.members.values():
        member.rebalance_timeout_ms = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS
    stage.join("two")
    while stage.now_ms < NEW_MEMBER_JOIN_TIMEOUT_MS - SESSION_MS:
        stage.advance(SESSION_MS - 1)
        assert stage.heartbeat("one") is ErrorCode.REBALANCE_IN_PROGRESS
    assert "two" not in stage.joined
    stage.advance(SESSION_MS - 1)
    stage.heartbeat("one")
    stage.advance(SESSION_MS - 1)
    assert stage.joined["two"].error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_rebalance_timeout_removes_who_has_not_joined(stage: Stage) -> None:
    stable(stage, "one", "two")
    stage.join("three")
    while stage.now_ms < REBALANCE_MS - SESSION_MS:
        stage.advance(SESSION_MS - 1)
        stage.heartbeat("one")
        stage.heartbeat("two")
    stage.join("two")
    stage.advance(SESSION_MS)
    assert stage.joined["three"].generation_id == 3
    assert stage.joined["three"].leader == stage.joined["two"].member_id, "the oldest that has joined leads"
    assert stage.heartbeat("one") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_stay_until_their_session_is_over(stage: Stage) -> None:
    stage.join("one", instance_id="i")
    member = stage.group.members[stage.joined["one"].member_id]
    member.session_timeout_ms = 3 * REBALANCE_MS
    stage.sync("one", {})
    stage.join("two")
    stage.advance(REBALANCE_MS)
    assert stage.joined["two"].generation_id == 2
    assert {each.group_instance_id for each in stage.group.members.values()} == {"i", None}


def test_members_that_do_not_sync_are_removed(stage: Stage) -> None:
    stable(stage, "one")
    stage.join("two")
    stage.join("one")
    stage.sync("one", {})
    assert stage.group.state is GroupState.STABLE
    while stage.now_ms < REBALANCE_MS:
        assert stage.heartbeat("one") in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        stage.heartbeat("two")
        stage.advance(500)
    assert stage.heartbeat("one") is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.heartbeat("two") is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_initial_delay_is_extended_while_members_come() -> None:
    stage = Stage(initial_rebalance_delay_ms=100)
    stage.join("one")
    stage.advance(99)
    stage.join("two")
    stage.advance(1)
    assert stage.joined == {}, "somebody came: one more delay"
    stage.advance(100)
    assert stage.joined["one"].generation_id == stage.joined["two"].generation_id == 1


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    stage = Stage(initial_rebalance_delay_ms=REBALANCE_MS // 2)
    for number in range(4):
        stage.join(f"member-{number}")
        stage.advance(REBALANCE_MS // 2)
    assert stage.joined["member-0"].generation_id == 1


def test_the_initial_delay_when_the_only_member_leaves_then_another_one_is_taken() -> None:
    """Nobody is there with whom it could have no protocol in common; only the type is the group's, as in Java."""
    stage = Stage(initial_rebalance_delay_ms=100)
    stage.join("one")
    (member_id,) = stage.group.members
    step = stage.step()
    assert step.leave([LeavingMember(member_id, None)]) == [ErrorCode.NONE]
    stage.finish(step)
    assert (stage.state(), stage.group.members) == (GroupState.PREPARING_REBALANCE, {})
    for protocol_type, protocols in (("connect", (("sticky", b""),)), ("consumer", ())):
        assert not stage.group.supports_protocols(protocol_type, protocols)
    stage.advance(50)
    stage.join("two", protocols=(("sticky", b""),))
    assert "two" not in stage.joined, "it waits for the others"
    stage.advance(50)
    stage.advance(100)
    two = stage.joined["two"]
    assert (two.error_code, two.generation_id, two.protocol_name) == (ErrorCode.NONE, 1, "sticky")
    assert two.leader == two.member_id


def test_a_full_group_takes_nobody() -> None:
    stage = Stage(max_size=1)
    stable(stage, "one")
    stage.join("two")
    assert stage.joined["two"].error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.heartbeat("one") is ErrorCode.NONE


def test_two_requests_of_one_member_are_both_answered(stage: Stage) -> None:
    stable(stage, "one", "two")
    two = stage.joined["two"].member_id
    stage.join("first", known=two, protocols=(("range", b"new"),))
    stage.join("second", known=two, protocols=(("range", b"new"),))
    assert stage.joined["first"].error_code is ErrorCode.REBALANCE_IN_PROGRESS
    stage.join("one")
    assert stage.joined["second"].generation_id == 3


def test_next_deadline_is_the_nearest(stage: Stage) -> None:
    assert stage.group.next_deadline_ms() is None
    stable(stage, "one")
    assert stage.group.next_deadline_ms() == SESSION_MS
    stage.advance(300)
    stage.heartbeat("one")
    assert stage.group.next_deadline_ms() == 300 + SESSION_MS


# ---- a static member that another one replaces

def with_static_member(stage: Stage) -> None:
    """Make a stable group of "leader" and of "old", whose group.instance.id is "i"."""
    stage.join("leader")
    leader_id = stage.joined["leader"].member_id
    stage.join("old", instance_id="i")
    stage.join("leader", known=leader_id)
    stage.sync("old", instance_id="i")
    stage.sync("leader", {stage.joined["old"].member_id: b"of i"})
    assert stage.synced["old"].assignment == b"of i"


def test_static_member_when_replaced_while_its_join_waits_then_it_is_answered_that_it_is_fenced(stage: Stage) -> None:
    """A fenced member that is never answered waits until its request times out, and only then learns that it must end.

    Its connection stayed muted meanwhile, so that its heartbeats, too, were never read.
    """
    stable(stage, "leader")
    stage.join("old", instance_id="i")
    old_id = next(member_id for member_id in stage.group.members if member_id.startswith("i-"))
    assert "old" not in stage.joined
    stage.join("new", instance_id="i")
    assert stage.joined["old"] == JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old_id)
    assert "new" not in stage.joined, "it waits for the leader, as the old one did"
    stage.join("leader")
    new = stage.joined["new"]
    assert (new.error_code, new.generation_id) == (ErrorCode.NONE, 2)
    assert new.member_id != old_id
    assert {member.member_id for member in stage.joined["leader"].members} == {
        stage.joined["leader"].member_id, new.member_id}


def test_static_member_when_replaced_while_its_sync_waits_then_it_is_answered_that_it_is_fenced(stage: Stage) -> None:
    with_static_member(stage)
    stage.join("leader")
    stage.join("old", instance_id="i")
    stage.synced.clear()
    stage.sync("old", instance_id="i")
    assert stage.synced == {}, "it waits for the leader's assignment"
    stage.join("new", instance_id="i")
    assert stage.synced == {"old": SyncAnswer(ErrorCode.FENCED_INSTANCE_ID)}
    assert stage.state() is GroupState.PREPARING_REBALANCE, "the leader may be assigning to the old id just now"
    stage.join("leader")
    assert stage.joined["new"].generation_id == stage.joined["leader"].generation_id == 4


def test_static_leader_when_replaced_before_it_assigned_then_those_who_wait_for_it_are_told_to_join_again(
        stage: Stage) -> None:
    stage.join("old", instance_id="i")
    stage.join("follower")
    stage.join("old", instance_id="i")
    stage.sync("follower")
    assert stage.synced == {}
    stage.join("new", instance_id="i")
    assert stage.synced == {"follower": SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)}
    stage.join("follower")
    assert stage.joined["new"].leader == stage.joined["new"].member_id
    assert stage.joined["new"].generation_id == stage.joined["follower"].generation_id == 3


def test_static_member_when_replaced_then_whatever_it_asks_is_answered_that_it_is_fenced(stage: Stage) -> None:
    with_static_member(stage)
    old = stage.joined["old"]
    stage.join("new", instance_id="i")
    assert stage.state() is GroupState.STABLE, "no rebalance"
    assert stage.heartbeat("old", instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert stage.leave("old", instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    stage.sync("old", instance_id="i")
    assert stage.synced["old"] == SyncAnswer(ErrorCode.FENCED_INSTANCE_ID)
    stage.join("old", known=old.member_id, instance_id="i")
    assert stage.joined["old"] == JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    for is_transactional in (False, True):
        assert stage.group.validate_offset_commit(
            old.member_id, "i", 2, is_transactional=is_transactional) is ErrorCode.FENCED_INSTANCE_ID
    assert stage.heartbeat("new", instance_id="i") is ErrorCode.NONE
    stage.sync("new", instance_id="i")
    assert stage.synced["new"].assignment == b"of i", "it goes on with what the old one had"


def test_static_member_when_replaced_then_its_id_without_its_instance_is_unknown(stage: Stage) -> None:
    with_static_member(stage)
    stage.join("new", instance_id="i")
    assert stage.heartbeat("old") is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.leave("old") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_when_replaced_then_the_new_one_has_a_session_of_its_own(stage: Stage) -> None:
    with_static_member(stage)
    stage.advance(SESSION_MS - 1)
    assert stage.heartbeat("leader") is ErrorCode.NONE
    stage.join("new", instance_id="i")
    stage.advance(SESSION_MS - 1)
    assert stage.heartbeat("leader") is ErrorCode.NONE
    assert stage.state() is GroupState.STABLE
    stage.advance(1)
    assert stage.heartbeat("leader") is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.heartbeat("new", instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_when_it_is_the_last_that_is_waited_for_then_its_replacement_completes_the_rebalance(
        stage: Stage) -> None:
    with_static_member(stage)
    stage.join("third")
    stage.join("leader")
    assert "leader" not in stage.joined, "all wait for the static member"
    stage.join("new", instance_id="i")
    assert {name: stage.joined[name].generation_id for name in ("leader", "third", "new")} == {
        "leader": 3, "third": 3, "new": 3}


def test_static_member_when_replaced_before_it_took_its_assignment_then_nobody_waits_for_the_old_one(
        stage: Stage) -> None:
    """The leader has assigned, the old one is gone without its part: only the new one is waited for."""
    with_static_member(stage)
    stage.join("leader")
    stage.join("old", instance_id="i")
    stage.sync("leader", {stage.joined["old"].member_id: b"of i"})
    stage.join("new", instance_id="i")
    stage.sync("new", instance_id="i")
    assert stage.synced["new"].assignment == b"of i"
    for _ in range(2 * REBALANCE_MS // (SESSION_MS - 1)):
        stage.advance(SESSION_MS - 1)
        assert stage.heartbeat("leader") is stage.heartbeat("new", instance_id="i") is ErrorCode.NONE


def test_two_requests_for_one_assignment_when_it_comes_then_both_are_answered(stage: Stage) -> None:
    """A member that lost its connection asks again over a new one; the first request must not be left for ever."""
    stable(stage, "one", "two")
    stage.join("one")
    stage.join("two")
    stage.synced.clear()
    stage.joined["two, again"] = stage.joined["two"]
    stage.sync("two")
    stage.sync("two, again")
    assert stage.synced == {"two": SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)}
    stage.sync("one", {stage.joined["two"].member_id: b"its part"})
    assert stage.synced["two, again"].assignment == b"its part"


def test_members_that_wait_when_one_of_them_is_removed_then_it_is_answered(stage: Stage) -> None:
    """The one that leaves over another connection: its own waits for an answer, which must come."""
    stable(stage, "one", "two")
    stage.join("two", protocols=(("range", b"new"),))
    two = next(member for member in stage.group.members.values() if member.client_id == "two")
    step = stage.step()
    assert step.leave([LeavingMember(two.member_id, None)]) == [ErrorCode.NONE]
    stage.finish(step)
    assert stage.joined["two"].error_code is ErrorCode.UNKNOWN_MEMBER_ID
    stage.join("one")
    stage.join("three")
    stage.join("one")
    stage.synced.clear()
    stage.sync("three")
    assert stage.synced == {}
    assert stage.leave("three") is ErrorCode.NONE
    assert stage.synced["three"].error_code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("order", [("two", "stranger"), ("stranger", "two")])
def test_leave_when_only_some_of_those_named_are_members_then_the_others_get_a_new_generation(
        stage: Stage, order: tuple[str, str]) -> None:
    stable(stage, "one", "two")
    ids = {"two": stage.joined["two"].member_id, "stranger": "nobody"}
    codes = {"two": ErrorCode.NONE, "stranger": ErrorCode.UNKNOWN_MEMBER_ID}
    step = stage.step()
    assert step.leave([LeavingMember(ids[name], None) for name in order]) == [codes[name] for name in order]
    stage.finish(step)
    assert stage.heartbeat("one") is ErrorCode.REBALANCE_IN_PROGRESS


def test_leave_when_nobody_named_is_a_member_then_the_generation_goes_on(stage: Stage) -> None:
    stable(stage, "one")
    step = stage.step()
    assert step.leave([LeavingMember("nobody", None)]) == [ErrorCode.UNKNOWN_MEMBER_ID]
    stage.finish(step)
    assert stage.heartbeat("one") is ErrorCode.NONE


def test_rejoin_when_the_member_asks_for_other_timeouts_then_those_hold_from_then_on(stage: Stage) -> None:
    stable(stage, "one")
    step = stage.step()
    step.join(JoinRequest("g", stage.joined["one"].member_id, None, "one", "/127.0.0.1", 3 * SESSION_MS,
                          2 * REBALANCE_MS, "consumer", (("range", b""),), False, True),
              lambda answer: stage.joined.__setitem__("one", answer))
    stage.finish(step)
    stage.sync("one", {stage.joined["one"].member_id: b"all"})
    assert stage.group.rebalance_timeout_ms == 2 * REBALANCE_MS
    stage.advance(3 * SESSION_MS - 1)
    assert stage.heartbeat("one") is ErrorCode.NONE
    stage.advance(3 * SESSION_MS)
    assert stage.state() is GroupState.EMPTY


# ---- who may commit offsets

OF_NOBODY, OF_A_STRANGER, OF_ONE = "", "stranger", "one"
NO_GENERATION, PAST, PRESENT = "no generation", "past", "present"
OK, STRANGER, LATE = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
# Java's ClassicGroup.validateOffsetCommit: who commits, in which generation, and what is said in a group without
# members, while its members join, while they wait for their assignments, and when they have them.
GROUP_STATES = (GroupState.EMPTY, GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
COMMITS = {
    (OF_NOBODY, NO_GENERATION): (OK, STRANGER, STRANGER, STRANGER),
    (OF_NOBODY, PAST): (STRANGER, STRANGER, STRANGER, STRANGER),
    (OF_NOBODY, PRESENT): (STRANGER, STRANGER, STRANGER, STRANGER),
    (OF_A_STRANGER, NO_GENERATION): (OK, STRANGER, STRANGER, STRANGER),
    (OF_A_STRANGER, PRESENT): (STRANGER, STRANGER, STRANGER, STRANGER),
    (OF_ONE, NO_GENERATION): (OK, LATE, LATE, LATE),
    (OF_ONE, PAST): (STRANGER, LATE, LATE, LATE),
    (OF_ONE, PRESENT): (STRANGER, OK, ErrorCode.REBALANCE_IN_PROGRESS, OK),
}
# In a transaction the group's members need not be known, and may be given other partitions meanwhile.
TRANSACTIONAL_COMMITS = {
    **COMMITS, (OF_NOBODY, NO_GENERATION): (OK, OK, OK, OK), (OF_ONE, PRESENT): (STRANGER, OK, OK, OK)}


def bring_to(stage: Stage, state: GroupState) -> None:
    stable(stage, "one")
    if state is GroupState.EMPTY:
        stage.leave("one")
    elif state is not GroupState.STABLE:
        stage.join("two")
        if state is GroupState.COMPLETING_REBALANCE:
            stage.join("one")
    assert stage.state() is state


@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize("state", GROUP_STATES)
def test_commit_when_somebody_asks_for_it_then_it_is_judged_as_by_kafka(
        stage: Stage, state: GroupState, is_transactional: bool) -> None:
    bring_to(stage, state)
    ids = {OF_NOBODY: "", OF_A_STRANGER: "somebody", OF_ONE: stage.joined["one"].member_id}
    present = stage.group.generation_id
    generations = {NO_GENERATION: -1, PAST: present - 1, PRESENT: present}
    said = {(who, when): stage.group.validate_offset_commit(
        ids[who], None, generations[when], is_transactional=is_transactional) for who, when in COMMITS}
    expected = TRANSACTIONAL_COMMITS if is_transactional else COMMITS
    assert said == {asked: row[GROUP_STATES.index(state)] for asked, row in expected.items()}
