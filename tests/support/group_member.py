"""A member of a consumer group, step by step: each request on a connection of its own, none of them repeated."""

from __future__ import annotations

import time
from typing import Any

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient

REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79


class GroupMember:
    """One member. A context manager; `client` is its connection."""

    def __init__(self, client: RawClient, group_id: str, *, instance_id: str | None = None, version: int = 9,
                 session_timeout_ms: int = 10_000, rebalance_timeout_ms: int = 10_000) -> None:
        self.client = client
        self.group_id = group_id
        self.instance_id = instance_id
        self.version = version
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = ""
        self.generation_id = -1

    def __enter__(self) -> GroupMember:
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.close()

    # ---- JoinGroup

    def send_join(self, *protocols: tuple[str, bytes], protocol_type: str = "consumer") -> None:
        body: dict[str, Any] = {
            "group_id": self.group_id, "session_timeout_ms": self.session_timeout_ms, "member_id": self.member_id,
            "protocol_type": protocol_type, "protocols": [
                {"name": name, "metadata": metadata} for name, metadata in protocols or (("range", b"meta"),)]}
        if self.version >= 1:
            body["rebalance_timeout_ms"] = self.rebalance_timeout_ms
        if self.version >= 5:
            body["group_instance_id"] = self.instance_id
        self.client.send_request(ApiKeys.JOIN_GROUP, self.version, body)

    def receive_join(self) -> Struct:
        _, answer = self.client.receive_response(ApiKeys.JOIN_GROUP, self.version)
        if answer["error_code"] in (0, MEMBER_ID_REQUIRED):
            self.member_id = answer["member_id"]
            self.generation_id = answer["generation_id"]
        return answer

    def begin_join(self, *protocols: tuple[str, bytes], protocol_type: str = "consumer") -> None:
        """Send JoinGroup; once more when the broker wants a known member id first."""
        self.send_join(*protocols, protocol_type=protocol_type)
        if not self.member_id and self.instance_id is None and self.version >= 4:
            answer = self.receive_join()
            assert answer["error_code"] == MEMBER_ID_REQUIRED, answer
            self.send_join(*protocols, protocol_type=protocol_type)

    def join(self, *protocols: tuple[str, bytes], protocol_type: str = "consumer") -> Struct:
        """Join and wait for the generation."""
        self.begin_join(*protocols, protocol_type=protocol_type)
        return self.receive_join()

    # ---- SyncGroup

    def _sync_version(self) -> int:
        return min(self.version, 5)

    def send_sync(self, assignments: dict[str, bytes] | None = None, **fields: Any) -> None:
        version = self._sync_version()
        body: dict[str, Any] = {
            "group_id": self.group_id, "generation_id": self.generation_id, "member_id": self.member_id,
            "assignments": [{"member_id": member_id, "assignment": assignment}
                            for member_id, assignment in (assignments or {}).items()]}
        if version >= 3:
            body["group_instance_id"] = self.instance_id
        if version >= 5:
            body.update(protocol_type="consumer", protocol_name="range")
        self.client.send_request(ApiKeys.SYNC_GROUP, version, {**body, **fields})

    def receive_sync(self) -> Struct:
        return self.client.receive_response(ApiKeys.SYNC_GROUP, self._sync_version())[1]

    def sync(self, assignments: dict[str, bytes] | None = None, **fields: Any) -> Struct:
        self.send_sync(assignments, **fields)
        return self.receive_sync()

    # ---- the rest

    def heartbeat(self, **fields: Any) -> int:
        version = min(self.version, 4)
        body: dict[str, Any] = {"group_id": self.group_id, "generation_id": self.generation_id,
                                "member_id": self.member_id}
        if version >= 3:
            body["group_instance_id"] = self.instance_id
        code: int = self.client.request(ApiKeys.HEARTBEAT, version, {**body, **fields})["error_code"]
        return code

    def await_rebalance(self) -> None:
        """Beat until the coordinator says that a rebalance has begun."""
        deadline = time.monotonic() + GIVE_UP_S
        while (code := self.heartbeat()) != REBALANCE_IN_PROGRESS:
            assert code == 0, code
            assert time.monotonic() < deadline, "no rebalance"
            time.sleep(0.01)

    def leave(self) -> Struct:
        version = min(self.version, 5)
        body: dict[str, Any] = {"group_id": self.group_id}
        if version >= 3:
            body["members"] = [{"member_id": self.member_id, "group_instance_id": self.instance_id}]
        else:
            body["member_id"] = self.member_id
        return self.client.request(ApiKeys.LEAVE_GROUP, version, body)

    def commit(self, topic: str, *offsets: int, **fields: Any) -> list[int]:
        """Commit one offset for each partition from 0 on; return their codes."""
        body: dict[str, Any] = {
            "group_id": self.group_id, "generation_id_or_member_epoch": self.generation_id,
            "member_id": self.member_id, "group_instance_id": self.instance_id, "topics": [
                {"name": topic, "partitions": [
                    {"partition_index": index, "committed_offset": offset, "committed_metadata": ""}
                    for index, offset in enumerate(offsets)]}]}
        answer = self.client.request(ApiKeys.OFFSET_COMMIT, 8, {**body, **fields})
        return [partition["error_code"] for partition in answer["topics"][0]["partitions"]]


def offset_fetch_body(version: int, group_id: str, topics: dict[str, list[int]] | None, *,
                      require_stable: bool = False) -> dict[str, Any]:
    """Return an OffsetFetch request of one group."""
    asked = None if topics is None else [
        {"name": name, "partition_indexes": indexes} for name, indexes in topics.items()]
    body: dict[str, Any] = ({"groups": [{"group_id": group_id, "topics": asked}]} if version >= 8
                            else {"group_id": group_id, "topics": asked})
    if version >= 7:
        body["require_stable"] = require_stable
    return body


def fetched_offsets(version: int, answer: Struct) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (topic, partition) -> (offset, code) of an OffsetFetch response of one group."""
    group = answer["groups"][0] if version >= 8 else answer
    return {(topic["name"], partition["partition_index"]): (partition["committed_offset"], partition["error_code"])
            for topic in group["topics"] for partition in topic["partitions"]}
