"""One step of a classic group: somebody joins, syncs, beats, leaves, or time passes.

A step changes the group at once and collects what is to be said (`answers`) and whether the group must be written to
the log (`must_save`); the coordinator does both.

Road:    group coordinator -> [group step] -> classic group
Thread:  under the coordinator's lock; no clock, no I/O.
Source:  Java GroupMetadataManager.classicGroupJoin, classicGroupSync, classicGroupHeartbeat, classicGroupLeave (4.1).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pyproducer.broker.cluster.coordinator.group.classic_group import ClassicGroup
from pyproducer.broker.cluster.coordinator.group.member import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinReply,
    JoinRequest,
    LeavingMember,
    Member,
    SyncAnswer,
    SyncReply,
    SyncRequest,
)
from pyproducer.broker.cluster.coordinator.group.state import GroupState
from pyproducer.common.error_codes import ErrorCode

# Java GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS: how long a member may wait for its first
# generation; it cannot send heartbeats before.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


class GroupLimits(NamedTuple):
    """Settings that bear on groups: group.initial.rebalance.delay.ms and group.max.size."""

    initial_rebalance_delay_ms: int = 0
    max_size: int = 2**31 - 1


class GroupStep:
    """Something that happens to a group at `now_ms`."""

    def __init__(self, group: ClassicGroup, limits: GroupLimits, now_ms: int) -> None:
        self.group = group
        self.limits = limits
        self.now_ms = now_ms
        self.answers: list[Callable[[], None]] = []
        self.must_save: bool = False
        # What is told instead where that fails: the answers from here on, and who waits for them.
        self._unsaved_from = 0
        self._unsaved_syncs: list[SyncReply] = []
        self._unsaved_joins: list[tuple[JoinReply, str]] = []

    # ---- JoinGroup

    def join(self, request: JoinRequest, reply: JoinReply) -> None:
        """Take a member in, or back in; it is answered when the generation is complete, or with why not."""
        group = self.group
        member_id = request.member_id
        if not group.accepts(member_id, self.limits.max_size):
            group.remove(member_id)
            self._refuse_join(reply, UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not group.supports_protocols(request.protocol_type, request.protocols):
            self._refuse_join(reply, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif member_id == UNKNOWN_MEMBER_ID:
            self._join_new(request, reply)
        elif member_id in group.pending_members:
            self._add_member(request, member_id, reply)
        else:
            self._join_existing(request, reply)

    def _join_new(self, request: JoinRequest, reply: JoinReply) -> None:
        group = self.group
        instance_id = request.group_instance_id
        new_id = f"{request.client_id if instance_id is None else instance_id}-{uuid.uuid4()}"
        if instance_id is not None:
            existing = group.static_members.get(instance_id)
            if existing is None:
                self._add_member(request, new_id, reply)
            else:
                self._replace_static_member(request, existing, new_id, reply)
        elif request.requires_known_member_id:
            # KIP-394: a client that dies before it knows its id leaves nothing behind.
            group.pending_members[new_id] = self.now_ms + request.session_timeout_ms
            self._refuse_join(reply, new_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add_member(request, new_id, reply)

    def _join_existing(self, request: JoinRequest, reply: JoinReply) -> None:
        group = self.group
        member_id = request.member_id
        error_code = group.validate_member(member_id, request.group_instance_id)
        if error_code is not ErrorCode.NONE:
            self._refuse_join(reply, member_id, error_code)
            return
        member = group.members[member_id]
        same = member.protocols == request.protocols
        if group.state is GroupState.EMPTY:
            self._refuse_join(reply, UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID)
        elif same and (group.state is GroupState.COMPLETING_REBALANCE or (
                group.state is GroupState.STABLE and group.leader_id != member_id)):
            # It has missed the answer to its last JoinGroup: this generation is as it was.
            self._answer_join(reply, self._joined(member))
        else:
            self._update_member(member, request, reply)
            self._rebalance_or_complete_join()

    def _add_member(self, request: JoinRequest, member_id: str, reply: JoinReply) -> None:
        group = self.group
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        member = Member(member_id, request.group_instance_id, request.client_id, request.client_host,
                        request.rebalance_timeout_ms, request.session_timeout_ms, request.protocols,
                        join_reply=reply, is_new=True,
                        heartbeat_deadline_ms=self.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        group.add(member, request.protocol_type)
        self._rebalance_or_complete_join()

    def _update_member(self, member: Member, request: JoinRequest, reply: JoinReply | None) -> None:
        if member.join_reply is not None:
            # Differs from Java, which forgets the first of two requests of a member and never answers it.
            self._complete_join(member, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.join_reply = reply

    def _replace_static_member(self, request: JoinRequest, old_id: str, new_id: str, reply: JoinReply) -> None:
        group = self.group
        leader_before = group.leader_id or ""
        old, member = group.replace_static_member(old_id, new_id)
        self._complete_join(old, JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self._complete_sync(old, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID))
        self._heard(member)
        self._update_member(member, request, reply)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id just now.
            self._prepare_rebalance()
        elif group.state is GroupState.PREPARING_REBALANCE:
            self._maybe_complete_join_phase()
        elif group.select_protocol() != group.protocol_name:
            self._rebalance_or_complete_join()
        else:
            self.must_save = True
            self._unsaved_from = len(self.answers)
            self._unsaved_joins.append((reply, request.member_id))
            joined = self._joined(member)
            if request.supports_skipping_assignment:
                joined = joined._replace(skip_assignment=group.leader_id == new_id)
            else:
                # It must not take itself for the leader and assign anew: it is told of the old id.
                joined = joined._replace(members=(), leader=leader_before)
            self._complete_join(member, joined)

    # ---- rebalance

    def _rebalance_or_complete_join(self) -> None:
        if self.group.can_rebalance:
            self._prepare_rebalance()
        else:
            self._maybe_complete_join_phase()

    def _prepare_rebalance(self) -> None:
        group = self.group
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                self._propagate_assignment(member, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
        group.sync_deadline_ms = None
        is_initial = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE)
        if is_initial:
            delay_ms = self.limits.initial_rebalance_delay_ms
            group.new_member_added = False
            group.initial_delays_ms = (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            group.join_deadline_ms = self.now_ms + delay_ms
        elif group.has_all_members_joined:
            self._complete_join_phase()
        else:
            group.join_deadline_ms = self.now_ms + group.rebalance_timeout_ms

    def _maybe_complete_join_phase(self) -> None:
        group = self.group
        if (group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined
                and group.previous_state is not GroupState.EMPTY):
            self._complete_join_phase()

    def _complete_join_phase(self) -> None:
        """Go on with those who have joined; dynamic members that have not are gone."""
        group = self.group
        group.join_deadline_ms = group.initial_delays_ms = None
        for member in list(group.members.values()):
            if member.join_reply is None and member.group_instance_id is None:
                group.remove(member.member_id)
        if not group.maybe_elect_new_joined_leader() and group.members:
            # Only static members, and none of them is back: wait until one is, or their sessions are over.
            group.join_deadline_ms = self.now_ms + max(group.rebalance_timeout_ms, 1)
            return
        group.init_next_generation()
        if not group.members:
            self.must_save = True
            return
        for member in group.members.values():
            self._complete_join(member, self._joined(member))
            self._heard(member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        group.sync_deadline_ms = self.now_ms + group.rebalance_timeout_ms

    # ---- SyncGroup

    def sync(self, request: SyncRequest, reply: SyncReply) -> None:
        """Take the leader's assignment, or a member's wish for its part of it."""
        group = self.group
        error_code = self._sync_fault(request)
        if error_code is not ErrorCode.NONE:
            self.answers.append(lambda: reply(SyncAnswer(error_code)))
            return
        member = group.members[request.member_id]
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            group.sync_deadline_ms = None
        if group.state is GroupState.STABLE:
            answer = self._assigned(member)
            self.answers.append(lambda: reply(answer))
            return
        self._complete_sync(member, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))  # its own earlier one, if any
        member.sync_reply = reply
        if group.leader_id == member.member_id:
            self._unsaved_from = len(self.answers)
            self._unsaved_syncs += [each.sync_reply for each in group.members.values() if each.sync_reply is not None]
            for each in group.members.values():
                each.assignment = request.assignments.get(each.member_id, b"")
                self._propagate_assignment(each, self._assigned(each))
            group.transition_to(GroupState.STABLE)
            self.must_save = True

    def _sync_fault(self, request: SyncRequest) -> ErrorCode:
        group = self.group
        error_code = group.validate_member(request.member_id, request.group_instance_id)
        if error_code is not ErrorCode.NONE:
            return error_code
        if request.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if (request.protocol_type not in (None, group.protocol_type)
                or request.protocol_name not in (None, group.protocol_name)):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # ---- Heartbeat, LeaveGroup

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        """Hear a member; return what it must know."""
        group = self.group
        error_code = group.validate_member(member_id, group_instance_id)
        if error_code is not ErrorCode.NONE:
            return error_code
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._heard(group.members[member_id])
        return (ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE
                else ErrorCode.NONE)

    def committed(self, member_id: str, generation_id: int) -> None:
        """A member that commits offsets is alive."""
        member = self.group.members.get(member_id)
        if member is not None and generation_id >= 0:
            self._heard(member)

    def leave(self, leaving: list[LeavingMember]) -> list[ErrorCode]:
        """Remove members; return a code for each. An administrator names static members without their id."""
        codes = [self._leave_one(member) for member in leaving]
        if ErrorCode.NONE in codes:
            self._after_removal()
        return codes

    def _leave_one(self, leaving: LeavingMember) -> ErrorCode:
        group = self.group
        member_id, instance_id = leaving
        if member_id == UNKNOWN_MEMBER_ID:
            found = None if instance_id is None else group.static_members.get(instance_id)
            if found is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._remove(group.members[found])
            return ErrorCode.NONE
        if member_id in group.pending_members:
            group.remove(member_id)
            return ErrorCode.NONE
        error_code = group.validate_member(member_id, instance_id)
        if error_code is ErrorCode.NONE:
            self._remove(group.members[member_id])
        return error_code

    # ---- time

    def expire(self) -> None:
        """Do what is due: ids never used, silent members, those who do not join or sync."""
        group, now_ms = self.group, self.now_ms
        for member_id, deadline_ms in list(group.pending_members.items()):
            if deadline_ms <= now_ms:
                group.remove(member_id)
                self._maybe_complete_join_phase()
        for member in list(group.members.values()):
            if member.heartbeat_deadline_ms is None or member.heartbeat_deadline_ms > now_ms:
                continue
            member.heartbeat_deadline_ms = None
            if member.must_be_heard and group.members.get(member.member_id) is member:
                self._remove(member)
                self._after_removal()
        if group.join_deadline_ms is not None and group.join_deadline_ms <= now_ms:
            self._join_phase_is_over()
        if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
            group.sync_deadline_ms = None
            for member_id in list(group.pending_sync):
                self._remove(group.members[member_id])
            self._after_removal()

    def _join_phase_is_over(self) -> None:
        group = self.group
        if group.initial_delays_ms is not None:
            delay_ms, remaining_ms = group.initial_delays_ms
            if group.new_member_added and remaining_ms:
                group.new_member_added = False
                next_delay_ms = min(self.limits.initial_rebalance_delay_ms, remaining_ms)
                group.initial_delays_ms = (next_delay_ms, max(remaining_ms - delay_ms, 0))
                group.join_deadline_ms = self.now_ms + next_delay_ms
                return
        self._complete_join_phase()

    def rejoin_all(self) -> None:
        """After a restart: all members have a session from now on."""
        for member in self.group.members.values():
            self._heard(member)

    def on_not_saved(self, error_code: ErrorCode) -> None:
        """The group could not be written: nobody has an assignment, and whoever waited for one begins again.

        Source: Java ClassicGroup.resetAndPropagateAssignmentWithError (4.1).
        """
        if not self._unsaved_syncs and not self._unsaved_joins:
            return  # nobody waits for it: it is written another time
        del self.answers[self._unsaved_from:]
        self.answers += [partial(reply, SyncAnswer(error_code)) for reply in self._unsaved_syncs]
        self.answers += [partial(reply, JoinAnswer(error_code, member_id)) for reply, member_id in self._unsaved_joins]
        if self._unsaved_syncs and self.group.state is GroupState.STABLE:
            for member in self.group.members.values():
                member.assignment = b""
            self._prepare_rebalance()

    # ---- parts

    def _remove(self, member: Member) -> None:
        self._complete_join(member, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID))
        self._complete_sync(member, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        self.group.remove(member.member_id)

    def _after_removal(self) -> None:
        if self.group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance()
        elif self.group.state is GroupState.PREPARING_REBALANCE:
            self._maybe_complete_join_phase()

    def _heard(self, member: Member) -> None:
        member.heartbeat_deadline_ms = self.now_ms + member.session_timeout_ms

    def _joined(self, member: Member) -> JoinAnswer:
        group = self.group
        return JoinAnswer(ErrorCode.NONE, member.member_id, group.generation_id, group.protocol_type,
                          group.protocol_name, group.leader_id or "",
                          members=group.joined_members() if group.leader_id == member.member_id else ())

    def _assigned(self, member: Member) -> SyncAnswer:
        return SyncAnswer(ErrorCode.NONE, self.group.protocol_type, self.group.protocol_name, member.assignment)

    def _refuse_join(self, reply: JoinReply, member_id: str, error_code: ErrorCode) -> None:
        self._answer_join(reply, JoinAnswer(error_code, member_id))

    def _answer_join(self, reply: JoinReply, answer: JoinAnswer) -> None:
        self.answers.append(lambda: reply(answer))

    def _complete_join(self, member: Member, answer: JoinAnswer) -> None:
        reply, member.join_reply = member.join_reply, None
        if reply is not None:
            self._answer_join(reply, answer)

    def _complete_sync(self, member: Member, answer: SyncAnswer) -> None:
        reply, member.sync_reply = member.sync_reply, None
        if reply is not None:
            self.answers.append(lambda: reply(answer))

    def _propagate_assignment(self, member: Member, answer: SyncAnswer) -> None:
        if member.sync_reply is not None:
            self._complete_sync(member, answer)
            self._heard(member)
