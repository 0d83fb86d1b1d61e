"""What time, restarts and moved coordinators do to groups of the embedded broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.cluster.coordinator.group.offsets import CommittedOffset
from pyproducer.broker.cluster.replicas import Leadership
from pyproducer.broker.control.in_process import InProcessCluster
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.support.group_member import GroupMember, fetched_offsets, offset_fetch_body
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, metadata_body

SHORT_SESSIONS = {"group.min.session.timeout.ms": 100}
UNKNOWN_MEMBER, REBALANCING, UNSTABLE = 25, 27, 88
NOT_COORDINATOR = 16
StartBroker = Callable[..., EmbeddedBroker]


def connect(broker: EmbeddedBroker) -> RawClient:
    return RawClient(("127.0.0.1", broker.port))


def new_member(broker: EmbeddedBroker, group_id: str = "g", **fields: int) -> GroupMember:
    member = GroupMember(connect(broker), group_id, **fields)
    assert member.client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": group_id})["error_code"] == 0
    return member


def state_of(broker: EmbeddedBroker) -> InProcessCluster:
    assert isinstance(broker._cluster, InProcessCluster)
    return broker._cluster


def fetch(broker: EmbeddedBroker, group_id: str, topics: dict[str, list[int]] | None = None, *,
          require_stable: bool = False) -> dict[tuple[str, int], tuple[int, int]]:
    with connect(broker) as client:
        assert client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": group_id})["error_code"] == 0
        return fetched_offsets(8, client.request(
            ApiKeys.OFFSET_FETCH, 8, offset_fetch_body(8, group_id, topics, require_stable=require_stable)))


# ---- time

def test_a_silent_member_is_removed_after_its_session(start_broker: StartBroker) -> None:
    broker = start_broker(config=SHORT_SESSIONS)
    with new_member(broker) as leader, new_member(broker, session_timeout_ms=2000) as silent:
        silent.join()
        leader.begin_join()
        silent.await_rebalance()
        silent.join()
        leader.receive_join()
        silent.sync({})
        leader.sync()
        leader.await_rebalance()
        joined = leader.join()
        assert joined["generation_id"] == 3
        assert [entry["member_id"] for entry in joined["members"]] == [leader.member_id]
        assert silent.heartbeat() == UNKNOWN_MEMBER


def test_a_rebalance_does_not_wait_for_ever(start_broker: StartBroker) -> None:
    broker = start_broker()
    with new_member(broker, rebalance_timeout_ms=1500) as late, new_member(broker, rebalance_timeout_ms=1500) as other:
        late.join()
        late.sync({})
        started = time.monotonic()
        other.begin_join()
        joined = other.receive_join()
        assert time.monotonic() - started > 1.49
        assert (joined["generation_id"], joined["leader"]) == (2, other.member_id)
        late.send_join()
        assert late.receive_join()["error_code"] == UNKNOWN_MEMBER


def test_members_that_do_not_sync_are_removed(start_broker: StartBroker) -> None:
    broker = start_broker()
    with new_member(broker, rebalance_timeout_ms=1500) as leader, (
            new_member(broker, rebalance_timeout_ms=1500)) as follower:
        leader.join()
        leader.sync({})
        follower.begin_join()
        leader.await_rebalance()
        leader.join()
        follower.receive_join()
        follower.send_sync()
        assert follower.receive_sync()["error_code"] == REBALANCING, "the leader has not assigned in time"
        assert follower.join()["leader"] == follower.member_id


def test_an_id_that_is_not_used_expires(start_broker: StartBroker) -> None:
    broker = start_broker(config=SHORT_SESSIONS)
    with new_member(broker, session_timeout_ms=1000) as member:
        member.send_join()
        member.receive_join()
        group = state_of(broker).state.group_coordinator._groups["g"]
        assert list(group.pending_members) == [member.member_id]
        deadline = time.monotonic() + GIVE_UP_S
        while group.pending_members:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        member.send_join()
        assert member.receive_join()["error_code"] == UNKNOWN_MEMBER


def test_the_first_rebalance_can_wait_for_more_members(start_broker: StartBroker) -> None:
    broker = start_broker(config={"group.initial.rebalance.delay.ms": 300})
    with new_member(broker) as one, new_member(broker) as two:
        one.begin_join()
        two.begin_join()
        assert one.receive_join()["generation_id"] == two.receive_join()["generation_id"] == 1


def test_waiting_members_occupy_no_handler_thread(start_broker: StartBroker) -> None:
    broker = start_broker(config={"num.io.threads": 1})
    with new_member(broker) as leader, new_member(broker) as second, new_member(broker) as third:
        leader.join()
        leader.sync({})
        second.begin_join()
        third.begin_join()
        with connect(broker) as client:
            assert client.request(ApiKeys.METADATA, 12, metadata_body())["topics"] == []
        leader.join()
        assert second.receive_join()["generation_id"] == third.receive_join()["generation_id"] == 2


def test_a_broker_stops_while_members_wait(start_broker: StartBroker) -> None:
    broker = start_broker()
    with new_member(broker) as leader, new_member(broker) as second:
        leader.join()
        second.begin_join()
        broker.stop()
        assert second.client.is_closed()


# ---- restart

def test_offsets_and_members_survive_a_restart(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker(data_dir=tmp_path, topics={"orders": 2})
    with new_member(broker) as member:
        member.join()
        member.sync({member.member_id: b"all"})
        assert member.commit("orders", 5, 6) == [0, 0]
    with new_member(broker, "deleted") as gone:
        assert gone.commit("orders", 1) == [0]
        assert gone.client.request(ApiKeys.DELETE_GROUPS, 2, {"groups_names": ["deleted"]})["results"][0][
            "error_code"] == 0
    broker.stop()
    broker.start()
    assert fetch(broker, "g") == {("orders", 0): (5, 0), ("orders", 1): (6, 0)}
    assert fetch(broker, "deleted") == {}
    with connect(broker) as client:
        listed = client.request(ApiKeys.LIST_GROUPS, 5, {"states_filter": [], "types_filter": []})["groups"]
        assert [(group["group_id"], group["group_state"]) for group in listed] == [("g", "Stable")]
        member.client = client
        assert member.heartbeat() == 0
        assert bytes(member.sync()["assignment"]) == b"all"
        assert member.commit("orders", 7) == [0]


def test_offsets_go_with_their_topic(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker(data_dir=tmp_path, topics={"orders": 1, "other": 1})
    with new_member(broker) as member:
        assert member.commit("orders", 5) == [0]
        assert member.commit("other", 6) == [0]
        member.client.request(ApiKeys.DELETE_TOPICS, 5, {"topic_names": ["orders"], "timeout_ms": 1000})
    assert fetch(broker, "g") == {("other", 0): (6, 0)}
    broker.stop()
    broker.start()
    assert fetch(broker, "g") == {("other", 0): (6, 0)}


# ---- who speaks for a group

def test_only_the_coordinator_answers(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"orders": 1})
    with new_member(broker) as member:
        member.join()
        member.sync({})
        partition = state_of(broker).state.internal_topics.partition_of("__consumer_offsets", "g")
        assert partition is not None
        partition.leadership = Leadership(2, 1)
        assert member.heartbeat() == NOT_COORDINATOR
        assert member.commit("orders", 1) == [NOT_COORDINATOR]
        assert member.sync()["error_code"] == NOT_COORDINATOR
        assert member.leave()["error_code"] == NOT_COORDINATOR
        member.send_join()
        assert member.receive_join()["error_code"] == NOT_COORDINATOR
        client = member.client
        answer = client.request(ApiKeys.OFFSET_FETCH, 8, offset_fetch_body(8, "g", None))
        assert answer["groups"][0]["error_code"] == NOT_COORDINATOR
        assert client.request(ApiKeys.LIST_GROUPS, 2, {})["groups"] == []
        partition.leadership = Leadership(1, 2)
        member.generation_id = 1
        assert member.heartbeat() == 0, "moved back, as it was"


# ---- transactions

def test_offsets_of_a_transaction_count_when_it_is_committed(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker(data_dir=tmp_path, topics={"orders": 2})
    with new_member(broker) as member:
        assert member.commit("orders", 1, 1) == [0, 0]
    coordinator = state_of(broker).state.group_coordinator

    def stage(producer_id: int, partition: int, offset: int) -> None:
        assert coordinator.stage_offsets("g", "", None, -1, producer_id=producer_id, producer_epoch=0, offsets={
            TopicPartition("orders", partition): CommittedOffset(offset)}) is ErrorCode.NONE

    stage(7, 0, 50)
    stage(8, 1, 60)
    assert fetch(broker, "g") == {("orders", 0): (1, 0), ("orders", 1): (1, 0)}
    assert fetch(broker, "g", require_stable=True) == {
        ("orders", 0): (-1, UNSTABLE), ("orders", 1): (-1, UNSTABLE)}
    coordinator.complete_transaction(7, committed=True)
    coordinator.complete_transaction(8, committed=False)
    assert fetch(broker, "g", require_stable=True) == {("orders", 0): (50, 0), ("orders", 1): (1, 0)}
    stage(9, 0, 70)
    with new_member(broker) as member:
        assert member.commit("orders", 80) == [0]
    coordinator.complete_transaction(9, committed=True)
    assert fetch(broker, "g")["orders", 0] == (80, 0), "a later commit outside of the transaction stands"
