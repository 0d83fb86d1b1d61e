"""One member of a classic group, what it asked, and what it will be answered.

Road:    JoinGroup, SyncGroup -> [member] -> classic group
Thread:  under the coordinator's lock; requests and answers are values.
Source:  Java ClassicGroupMember, JoinGroupRequestData, JoinGroupResponseData, SyncGroupResponseData (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pyproducer.common.error_codes import ErrorCode

UNKNOWN_MEMBER_ID = ""
Protocols = tuple[tuple[str, bytes], ...]
"""What a member offers, best first: name of an assignor and the member's metadata for it."""


class JoinRequest(NamedTuple):
    """A JoinGroup request with what its version and connection say."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_member_id: bool
    supports_skipping_assignment: bool


class JoinedMember(NamedTuple):
    """A member as the leader is told of it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """What a JoinGroup request is answered."""

    error_code: ErrorCode
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncRequest(NamedTuple):
    """A SyncGroup request."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]


class SyncAnswer(NamedTuple):
    """What a SyncGroup request is answered."""

    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    """One member that a LeaveGroup request names."""

    member_id: str
    group_instance_id: str | None


JoinReply = Callable[[JoinAnswer], None]
SyncReply = Callable[[SyncAnswer], None]


@dataclass
class Member:
    """A member of a group.

    Attributes:
        join_reply: Answers its JoinGroup; None while it has not joined the coming generation.
        sync_reply: Answers its SyncGroup; None while it does not wait for an assignment.
        is_new: It waits for the answer to its first JoinGroup: it cannot send heartbeats yet.
        heartbeat_deadline_ms: When it counts as gone unless it is heard; None while it need not be heard.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join_reply: JoinReply | None = None
    sync_reply: SyncReply | None = None
    is_new: bool = False
    heartbeat_deadline_ms: int | None = None

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return what the member says for one assignor; empty when it does not offer it."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    @property
    def must_be_heard(self) -> bool:
        """Whether silence means that it is gone: a member that waits for an answer cannot be heard."""
        return self.is_new or (self.join_reply is None and self.sync_reply is None)
