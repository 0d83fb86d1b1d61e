"""A classic consumer group: its members, its generation, and what they agree on. No time passes here.

Road:    group step -> [classic group] -> state table
Thread:  under the coordinator's lock.
Source:  Java ClassicGroup (4.1).
"""

from __future__ import annotations

from pyproducer.broker.cluster.coordinator.group.member import JoinedMember, Member, Protocols
from pyproducer.broker.cluster.coordinator.group.state import GroupState, check_transition
from pyproducer.common.error_codes import ErrorCode


class ClassicGroup:
    """One group.

    Attributes:
        members: By id, in the order in which they came.
        static_members: group.instance.id to member id.
        pending_members: Ids that were given out and have not been used yet, with the time until which they may.
        pending_sync: Members of this generation that have not sent SyncGroup yet.
        join_deadline_ms: When the rebalance goes on without those who have not joined; None when none is waited for.
        initial_delays_ms: During the initial delay of a group that was empty: how long it waits now, and how long it
            may wait after that.
        sync_deadline_ms: When members that have not synced are removed.
        saved_at_ms: The wall clock when its present generation was written, empty or not; None when it never was.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state: GroupState = GroupState.EMPTY
        self.previous_state: GroupState = GroupState.EMPTY
        self.generation_id: int = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, int] = {}
        self.pending_sync: set[str] = set()
        self.new_member_added = False
        self.join_deadline_ms: int | None = None
        self.initial_delays_ms: tuple[int, int] | None = None
        self.sync_deadline_ms: int | None = None
        self.saved_at_ms: int | None = None

    def transition_to(self, target: GroupState) -> None:
        """Enter a state.

        Raises:
            IllegalStateError: The state table does not allow it; nothing has changed.
        """
        check_transition(self.group_id, self.state, target)
        self.previous_state, self.state = self.state, target

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin."""
        return self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def next_deadline_ms(self) -> int | None:
        """Return when something is due next, or None."""
        deadlines = [deadline for deadline in (
            self.join_deadline_ms, self.sync_deadline_ms, *self.pending_members.values(),
            *(member.heartbeat_deadline_ms for member in self.members.values())) if deadline is not None]
        return min(deadlines, default=None)

    # ---- members

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one leads and decides the type of protocol."""
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member or a pending id; the oldest member leads when the leader goes."""
        removed = self.members.pop(member_id, None)
        if removed is not None and self.static_members.get(removed.group_instance_id or "") == member_id:
            del self.static_members[removed.group_instance_id or ""]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.pop(member_id, None)
        self.pending_sync.discard(member_id)
        return removed

    def replace_static_member(self, old_member_id: str, new_member_id: str) -> tuple[Member, Member]:
        """Give a static member a new id; return the member as it was and as it is."""
        old = self.members.pop(old_member_id)
        assert old.group_instance_id is not None
        new = Member(new_member_id, old.group_instance_id, old.client_id, old.client_host, old.rebalance_timeout_ms,
                     old.session_timeout_ms, old.protocols, old.assignment)
        self.members[new_member_id] = new
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.static_members[old.group_instance_id] = new_member_id
        self.pending_sync.discard(old_member_id)
        return old, new

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE for a member, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another one took its place."""
        if group_instance_id is not None:
            existing = self.static_members.get(group_instance_id)
            if existing is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if existing != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def accepts(self, member_id: str, max_size: int) -> bool:
        """Return whether there is room for the one who joins (group.max.size)."""
        if self.state is GroupState.EMPTY:
            return True
        if self.state is GroupState.PREPARING_REBALANCE:
            member = self.members.get(member_id)
            return (member is not None and member.join_reply is not None) or self.awaiting_join_count < max_size
        return member_id in self.members or len(self.members) < max_size

    @property
    def awaiting_join_count(self) -> int:
        """How many members wait for the answer to their JoinGroup."""
        return sum(member.join_reply is not None for member in self.members.values())

    @property
    def has_all_members_joined(self) -> bool:
        """Whether nobody is waited for."""
        return not self.pending_members and self.awaiting_join_count == len(self.members)

    def maybe_elect_new_joined_leader(self) -> bool:
        """Return whether the leader has joined, after making one who has joined the leader."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_reply is not None:
            return True
        for member in self.members.values():
            if member.join_reply is not None:
                self.leader_id = member.member_id
                return True
        return False

    # ---- protocols

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member of this type with these assignors can be one of the group."""
        if not protocol_type or not protocols:
            return False
        if self.state is GroupState.EMPTY:
            return True
        if protocol_type != self.protocol_type:
            return False
        candidates = self._candidate_protocols()
        # Without members, as where the only one has left during the initial delay, all are what all members have.
        return not self.members or any(name in candidates for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the assignor that most members vote for, of those that all of them have.

        Shape: there is at least one member, and all have one in common.
        """
        candidates = self._candidate_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _candidate_protocols(self) -> set[str]:
        offers = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*offers) if offers else set()

    # ---- generations

    def init_next_generation(self) -> None:
        """Begin the next generation with the members that there are."""
        self.generation_id += 1
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition_to(GroupState.COMPLETING_REBALANCE)
        else:
            self.protocol_name = None
            self.transition_to(GroupState.EMPTY)
        self.pending_sync.clear()

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return all members as the leader is told of them."""
        return tuple(JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
                     for member in self.members.values())

    # ---- offsets

    def validate_offset_commit(self, member_id: str, group_instance_id: str | None, generation_id: int, *,
                               is_transactional: bool) -> ErrorCode:
        """Return whether one who says to be this member of this generation may commit offsets."""
        if generation_id < 0 and self.state is GroupState.EMPTY:
            # Without a generation: an admin client, or a consumer that assigns itself.
            return ErrorCode.NONE
        if generation_id >= 0 or member_id or group_instance_id is not None:
            error_code = self.validate_member(member_id, group_instance_id)
            if error_code is not ErrorCode.NONE:
                return error_code
            if generation_id != self.generation_id:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional and self.state is not GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE
