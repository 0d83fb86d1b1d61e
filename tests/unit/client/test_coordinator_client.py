"""Whoever asks coordinators and waits: what makes no sense costs its connection, and is asked for once more."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

import pyproducer.client.blocking_client as blocking_client_module
from pyproducer.client.blocking_client import BlockingClient
from pyproducer.client.coordinator_client import CoordinatorClient, EndRequest, KeptCoordinators
from pyproducer.client.resolver import ResolvedAddress
from pyproducer.common.clock import Clock, SystemClock
from pyproducer.common.cluster import Node, TopicPartition
from pyproducer.common.consumer_offsets import OffsetAndMetadata
from pyproducer.common.errors import (
    AuthorizationError,
    ConfigError,
    CorrelationIdMismatchError,
    DisconnectedError,
    KafkaTimeoutError,
    RemoteProtocolError,
)
from pyproducer.common.waiting import Cell
from pyproducer.network.channel_builder import PlaintextChannelBuilder
from pyproducer.network.send import NetworkSend
from pyproducer.producer.config import ProducerConfig
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.layout import ProducerIdAndEpoch
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.client.mock_selector import Request, encode
from tests.unit.client.scripted_cluster import ScriptedCluster, topic_row
from tests.unit.client.tiny_server import CLOSE, TinyServer, _frames

CLOCK = SystemClock()
ID = "till-7"


def about_brokers(_version: int) -> Mapping[str, Any]:
    """A question about brokers alone."""
    return {"topics": []}


class OneNode:
    """A broker that is the coordinator; what it answers first to FindCoordinator makes no sense."""

    def __init__(self, nonsense: str, first_count: int = 1) -> None:
        self.asked: list[ApiKeys] = []
        self.first_count = first_count
        self.port = 0
        self._nonsense = nonsense
        self._cluster = ScriptedCluster(1)
        self._cluster.versions[ApiKeys.DESCRIBE_TRANSACTIONS] = (0, 0)

    def __call__(self, request: Request) -> Mapping[str, Any] | bytes | Exception | None:
        if request.api_key is ApiKeys.API_VERSIONS:
            return self._cluster(request)
        self.asked.append(request.api_key)
        if request.api_key is ApiKeys.DESCRIBE_TRANSACTIONS:
            return {"throttle_time_ms": 0, "transaction_states": [{
                "error_code": 0, "transactional_id": ID, "transaction_state": "Ongoing", "topics": [],
                "transaction_timeout_ms": 60_000, "transaction_start_time_ms": 5, "producer_id": 1000,
                "producer_epoch": 3}]}
        body = {"throttle_time_ms": 0, "coordinators": [{"key": ID, "node_id": 1, "host": "127.0.0.1",
                                                         "port": self.port, "error_code": 0, "error_message": None}]}
        if len(self.asked) > self.first_count:
            return body
        if self._nonsense == "not available":
            return {"throttle_time_ms": 0, "coordinators": [{"key": ID, "node_id": -1, "host": "", "port": -1,
                                                             "error_code": 15, "error_message": None}]}
        if self._nonsense == "left out":
            return {"throttle_time_ms": 0, "coordinators": []}
        if self._nonsense == "another's":
            request = request._replace(correlation_id=request.correlation_id + 1)
        answer = encode(request, body)
        return answer[:-1] if self._nonsense == "cut short" else answer


class Skipping(ManualClock):
    """Who waits goes on at once, and the clock has moved."""

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        assert timeout_s is not None
        self.advance(round(timeout_s * 1000))
        return False


def blocking_client(clock: Clock = CLOCK, timeout_s: float = GIVE_UP_S) -> BlockingClient:
    return BlockingClient(PlaintextChannelBuilder(), client_id="test", timeout_s=timeout_s, send_buffer_bytes=-1,
                          receive_buffer_bytes=-1, clock=clock)


@pytest.mark.parametrize("nonsense", ["another's", "cut short"])
def test_describe_when_an_answer_makes_no_sense_then_another_connection_is_asked(nonsense: str) -> None:
    node = OneNode(nonsense)
    with TinyServer(node) as server, blocking_client() as client:
        node.port = server.port
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=GIVE_UP_S, clock=CLOCK)
        described = coordinators.describe_transactions([ID])
    assert [(each.transactional_id, each.state, each.producer_id, each.epoch) for each in described] == [
        (ID, "Ongoing", 1000, 3)]
    assert node.asked == [ApiKeys.FIND_COORDINATOR] * 2 + [ApiKeys.DESCRIBE_TRANSACTIONS]


@pytest.mark.parametrize("instead", ["not available", "left out"])
def test_describe_when_there_is_no_coordinator_yet_then_it_is_asked_for_again_after_pauses_on_one_connection(
        instead: str) -> None:
    node, clock = OneNode(instead, 5), Skipping()
    with TinyServer(node) as server, blocking_client(clock) as client:
        node.port = server.port
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=GIVE_UP_S, clock=clock)
        (described,) = coordinators.describe_transactions([ID])
        assert clock.now_ms() == 5 * 100
        assert coordinators.describe_transactions([ID]) == [described]
        assert clock.now_ms() == 5 * 100
        accepted_count = server.accepted_count
    assert described.state == "Ongoing"
    assert node.asked == [ApiKeys.FIND_COORDINATOR] * 6 + [ApiKeys.DESCRIBE_TRANSACTIONS] * 2
    assert accepted_count == 2  # who is asked for coordinators, and the coordinator


@pytest.mark.parametrize("call", ["describe", "fetch", "commit"])
def test_call_when_an_answer_leaves_out_what_was_asked_for_then_it_is_asked_for_again(call: str) -> None:
    """An IndexError came out of it, which nobody expects of a broker: a driver of Spark ended by it."""
    node, clock, lacks = OneNode("", 0), Skipping(), [True]
    node._cluster.finalized["transaction.version"] = 2
    node._cluster.versions.update({ApiKeys.TXN_OFFSET_COMMIT: (0, 5), ApiKeys.OFFSET_FETCH: (0, 9)})

    def answer(request: Request) -> object:
        if request.api_key in (ApiKeys.API_VERSIONS, ApiKeys.FIND_COORDINATOR):
            return node(request)
        rows: dict[ApiKeys, tuple[str, list[Any]]] = {
            ApiKeys.OFFSET_FETCH: ("groups", [{"group_id": ID, "error_code": 0, "topics": []}]),
            ApiKeys.TXN_OFFSET_COMMIT: ("topics", [{"name": "t", "partitions": [
                {"partition_index": 0, "error_code": 0}]}])}
        if request.api_key is ApiKeys.DESCRIBE_TRANSACTIONS:
            body = {**node(request)}  # type: ignore[dict-item]  # it is a body
            name, found = "transaction_states", body["transaction_states"]
        else:
            name, found = rows[request.api_key]
        found, lacks[0] = [] if lacks[0] else found, False
        return {"throttle_time_ms": 0, name: found}

    with TinyServer(answer) as server, blocking_client(clock) as client:
        node.port = server.port
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=GIVE_UP_S, clock=clock)
        if call == "describe":
            assert coordinators.describe_transactions([ID])[0].state == "Ongoing"
        elif call == "fetch":
            assert coordinators.fetch_offsets([ID], None) == [{}]
        else:
            coordinators.commit_offsets(ID, ProducerIdAndEpoch(1000, 3), TopicPartition("t", 0),
                                        {ID: OffsetAndMetadata(7)})
    assert not lacks[0]


def test_describe_when_the_coordinator_that_is_known_hangs_up_then_it_is_looked_for_anew() -> None:
    """Until the call's time was over the broker was asked that had been the coordinator, and is gone."""
    node, clock, gone = OneNode("", 0), Skipping(), TinyServer(lambda request: CLOSE)
    with TinyServer(node) as server, gone, blocking_client(clock) as client:
        node.port = gone.port
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=GIVE_UP_S, clock=clock)

        def moves(request: Request) -> object:
            node.port = server.port
            return CLOSE

        gone._on_frame = moves
        (described,) = coordinators.describe_transactions([ID])
    assert described.state == "Ongoing"
    assert node.asked == [ApiKeys.FIND_COORDINATOR] * 2 + [ApiKeys.DESCRIBE_TRANSACTIONS]


def test_describe_when_there_are_many_ids_then_their_coordinators_are_asked_for_at_once() -> None:
    ids = [f"till-{number}" for number in range(5)]
    asked: list[list[str]] = []
    cluster = ScriptedCluster(1)
    cluster.versions[ApiKeys.DESCRIBE_TRANSACTIONS] = (0, 0)

    def answer(request: Request) -> Mapping[str, Any] | bytes | Exception | None:
        if request.api_key is ApiKeys.FIND_COORDINATOR:
            asked.append(list(request.body["coordinator_keys"]))
            return {"throttle_time_ms": 0, "coordinators": [
                {"key": key, "node_id": 1, "host": "127.0.0.1", "port": server.port, "error_code": 0,
                 "error_message": None} for key in asked[-1]]}
        if request.api_key is ApiKeys.DESCRIBE_TRANSACTIONS:
            return {"throttle_time_ms": 0, "transaction_states": [{
                "error_code": 0, "transactional_id": request.body["transactional_ids"][0], "topics": [],
                "transaction_state": "Empty", "transaction_timeout_ms": 1, "transaction_start_time_ms": -1,
                "producer_id": 1, "producer_epoch": 0}]}
        return cluster(request)

    with TinyServer(answer) as server, blocking_client() as client:
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=GIVE_UP_S, clock=CLOCK)
        assert [found.transactional_id for found in coordinators.describe_transactions(ids)] == ids
    assert asked == [ids]


class Silent(TinyServer):
    """Takes connections, and says nothing but which versions it has, or not even that."""

    def __init__(self, *, is_known: bool) -> None:
        self._cluster = ScriptedCluster(1)
        super().__init__(lambda request: self._cluster(request) if is_known and (
            request.api_key is ApiKeys.API_VERSIONS) else None)


@pytest.mark.parametrize("is_known", [True, False])
def test_call_when_its_time_is_over_then_it_ends_in_the_middle_of_what_it_waits_for(*, is_known: bool) -> None:
    """Each connection and each question had the whole of request.timeout.ms, one behind the other."""
    with Silent(is_known=is_known) as first, Silent(is_known=is_known) as second, blocking_client() as client:
        coordinators = CoordinatorClient(client, [("127.0.0.1", first.port), ("127.0.0.1", second.port)],
                                         timeout_s=0.2, clock=CLOCK)
        calls: list[Callable[[], object]] = [
            lambda: coordinators.describe_transactions([ID]), coordinators.list_transactions,
            lambda: coordinators.end_transactions([EndRequest(ID, 7, 0, True)]),
            lambda: coordinators.init_producer_id(ID, 1000)]
        for call in calls:
            with pytest.raises(KafkaTimeoutError, match=r"within 0\.2 s; .* in the time that was left") as caught:
                call()
            assert caught.value.outcome == "unknown"
        coordinators.until_ms = CLOCK.now_ms()
        with pytest.raises(KafkaTimeoutError, match="in the time that was left"):
            coordinators.list_transactions()


def test_call_when_nobody_listens_then_the_end_of_its_time_says_so() -> None:
    """The last attempt had no time left, and what it met, which was nothing, was told instead of the reason."""
    clock = Skipping()
    with socket.socket() as nobody, blocking_client(clock) as client:
        nobody.bind(("127.0.0.1", 0))
        coordinators = CoordinatorClient(client, [nobody.getsockname()], timeout_s=1, clock=clock)
        calls: list[Callable[[], object]] = [lambda: coordinators.describe_transactions([ID]),
                                             coordinators.list_transactions]
        for call in calls:
            with pytest.raises(KafkaTimeoutError, match=r"; .*Connection refused") as caught:
                call()
            assert isinstance(caught.value.__cause__, DisconnectedError)
            assert "that was left" not in str(caught.value)


def test_call_when_there_is_no_coordinator_all_the_time_then_the_end_of_it_says_so() -> None:
    """The error was that the broker, which had answered each time, did not answer in the time that was left."""
    node, clock = OneNode("not available", 1_000_000), Skipping()
    with TinyServer(node) as server, blocking_client(clock) as client:
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=1, clock=clock)
        with pytest.raises(KafkaTimeoutError, match="COORDINATOR_NOT_AVAILABLE") as caught:
            coordinators.describe_transactions([ID])
        assert "that was left" not in str(caught.value)


def test_call_when_the_last_question_is_cut_short_then_the_reason_is_what_was_answered_before() -> None:
    clock = Skipping()
    first = OneNode("not available")

    def answer(request: Request) -> object:
        if len(first.asked) == 1:
            clock.advance(1000)
            client._selector.wakeup()
            return None
        return first(request)

    with TinyServer(answer) as server, blocking_client(clock) as client:
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=1, clock=clock)
        with pytest.raises(KafkaTimeoutError, match="COORDINATOR_NOT_AVAILABLE"):
            coordinators.describe_transactions([ID])


def test_call_when_connections_end_again_and_again_then_nothing_is_kept_of_them() -> None:
    """6 kB were kept of each, ten times a second: a service that asks as long as a coordinator is gone grew with it."""
    node, clock, asked = OneNode("", 0), Skipping(), [0]

    def answer(request: Request) -> object:
        if request.api_key is ApiKeys.API_VERSIONS:
            return node(request)
        asked[0] += 1
        return node(request) if asked[0] % 3 else CLOSE

    with socket.socket() as nobody, TinyServer(answer) as server, blocking_client(clock) as client:
        nobody.bind(("127.0.0.1", 0))
        node.port = nobody.getsockname()[1]
        coordinators = CoordinatorClient(client, [nobody.getsockname(), ("127.0.0.1", server.port)], timeout_s=2,
                                         clock=clock)

        def kept_count() -> int:
            return max(len(client._places), len(client._ended), len(client._received))

        for _ in range(2):
            with pytest.raises(KafkaTimeoutError):
                coordinators.describe_transactions([ID])
            assert kept_count() <= 1
        node.port = server.port
        for _ in range(9):
            assert coordinators.describe_transactions([ID])[0].state == "Ongoing"
        assert asked[0] > 20
        assert kept_count() <= 2


def test_commit_offsets_when_its_connection_has_ended_since_the_call_before_then_another_one_is_made() -> None:
    """It had what was left of the time of the call before, nothing perhaps, and one attempt: a driver whose broker was
    started again between two batches was told that the second is not decided.
    """
    clock, node, hangs_up = Skipping(), OneNode("", 0), [False]
    node._cluster.finalized["transaction.version"] = 2
    node._cluster.versions.update({ApiKeys.TXN_OFFSET_COMMIT: (0, 5)})

    def answer(request: Request) -> object:
        if hangs_up[0]:
            hangs_up[0] = False
            return CLOSE
        if request.api_key is ApiKeys.TXN_OFFSET_COMMIT:
            return {"throttle_time_ms": 0, "topics": [{"name": "t", "partitions": [
                {"partition_index": 0, "error_code": 0}]}]}
        return node(request)

    with TinyServer(answer) as server, blocking_client(clock) as client:
        node.port = server.port
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=GIVE_UP_S, clock=clock)
        coordinators.describe_transactions([ID])
        hangs_up[0] = True
        with pytest.raises(DisconnectedError):
            client.ask(coordinators._any_connection(), ApiKeys.METADATA, about_brokers)
        clock.advance(round(2 * GIVE_UP_S * 1000))
        hangs_up[0] = True
        coordinators.commit_offsets(ID, ProducerIdAndEpoch(1000, 3), TopicPartition("t", 0),
                                    {ID: OffsetAndMetadata(7)})


def test_abort_when_its_connection_has_ended_since_the_question_before_then_another_one_is_made() -> None:
    """As above: a driver that looked which transactions it may abort ended by a DisconnectedError."""
    clock, node, hangs_up = Skipping(), OneNode("", 0), [0]
    node._cluster.versions.update({ApiKeys.END_TXN: (0, 4), ApiKeys.INIT_PRODUCER_ID: (0, 5)})
    bodies: dict[ApiKeys, Mapping[str, Any]] = {
        ApiKeys.END_TXN: {"throttle_time_ms": 0, "error_code": 0},
        ApiKeys.INIT_PRODUCER_ID: {"throttle_time_ms": 0, "error_code": 0, "producer_id": 1000, "producer_epoch": 4}}
    asked: list[ApiKeys] = []

    def answer(request: Request) -> object:
        asked.append(request.api_key)
        if hangs_up[0]:
            hangs_up[0] -= 1
            return CLOSE
        return bodies.get(request.api_key) or node(request)

    with TinyServer(answer) as server, blocking_client(clock) as client:
        node.port = server.port
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=GIVE_UP_S, clock=clock)
        found = coordinators.describe_transactions([ID])
        end_transactions = coordinators.end_transactions

        def end_and_hang_up(requests: Sequence[EndRequest]) -> list[int]:
            codes = end_transactions(requests)
            hangs_up[0] = 2
            with pytest.raises(DisconnectedError):
                client.ask(coordinators._any_connection(), ApiKeys.METADATA, about_brokers)
            clock.advance(round(2 * GIVE_UP_S * 1000))
            return codes

        coordinators.end_transactions = end_and_hang_up  # type: ignore[method-assign]  # as a broker ends sessions
        coordinators.abort_and_fence(found)
    assert asked[-1] is ApiKeys.INIT_PRODUCER_ID


def test_end_when_one_id_has_no_coordinator_then_the_others_are_ended_all_the_same() -> None:
    """Those behind it in the alphabet were not even looked for, and what was decided of them stayed open."""
    clock, node, ended = Skipping(), OneNode("", 0), []
    node._cluster.versions[ApiKeys.END_TXN] = (0, 4)

    def answer(request: Request) -> object:
        if request.api_key is ApiKeys.FIND_COORDINATOR:
            return {"throttle_time_ms": 0, "coordinators": [
                {"key": key, "node_id": -1 if key == "b" else 1, "host": "" if key == "b" else "127.0.0.1",
                 "port": server.port, "error_code": 15 if key == "b" else 0, "error_message": None}
                for key in request.body["coordinator_keys"]]}
        if request.api_key is ApiKeys.END_TXN:
            ended.append(request.body["transactional_id"])
            return {"throttle_time_ms": 0, "error_code": 0}
        return node(request)

    with TinyServer(answer) as server, blocking_client(clock) as client:
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=1, clock=clock)
        with pytest.raises(KafkaTimeoutError, match=r"EndTxn for 1 of 3 keys.*COORDINATOR_NOT_AVAILABLE: .*'b':"):
            coordinators.end_transactions([EndRequest(key, 7, 0, True) for key in ("a", "b", "c")])
    assert ended == ["a", "c"]


def test_find_when_one_key_is_refused_for_good_then_no_other_that_is_not_there_yet_hides_it() -> None:
    def answer(request: Request) -> object:
        if request.api_key is ApiKeys.FIND_COORDINATOR:
            return {"throttle_time_ms": 0, "coordinators": [
                {"key": key, "node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": None}
                for key, code in (("a", 15), ("b", 53), ("c", 15))]}
        return node(request)

    clock, node = Skipping(), OneNode("", 0)
    with TinyServer(answer) as server, blocking_client(clock) as client:
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=1, clock=clock)
        with pytest.raises(AuthorizationError, match=r"TRANSACTIONAL_ID_AUTHORIZATION_FAILED: .*'b':"):
            coordinators.describe_transactions(["a", "b", "c"])
    assert clock.now_ms() == 0


def test_list_when_a_broker_has_ended_then_those_that_there_are_now_are_asked() -> None:
    """The one that was gone was asked until the time was over: a query ended while a broker was started again."""
    clock, node = Skipping(), OneNode("", 0)
    node._cluster.versions[ApiKeys.LIST_TRANSACTIONS] = (0, 0)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        asked: list[ApiKeys] = []

        def answer(request: Request) -> object:
            asked.append(request.api_key)
            if request.api_key is ApiKeys.LIST_TRANSACTIONS:
                return {"throttle_time_ms": 0, "error_code": 0, "unknown_state_filters": [], "transaction_states": [
                    {"transactional_id": ID, "producer_id": 7, "transaction_state": "Ongoing"}]}
            if request.api_key is ApiKeys.METADATA:
                node._cluster.nodes = [Node(1, "127.0.0.1", server.port)]
                if asked.count(ApiKeys.METADATA) == 1:
                    node._cluster.nodes.append(Node(2, *nobody.getsockname()))
                return node._cluster(request)
            return node(request)

        with TinyServer(answer) as server, blocking_client(clock) as client:
            coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=1, clock=clock)
            assert [row.transactional_id for row in coordinators.list_transactions()] == [ID]
    assert asked.count(ApiKeys.METADATA) == 2


@pytest.mark.parametrize("code", [7, 14, 15, 16])
def test_commit_offsets_when_the_coordinator_cannot_store_them_now_then_it_is_asked_again(code: int) -> None:
    """Of 7, REQUEST_TIMED_OUT, a batch that could have been decided failed; a producer asks again."""
    clock, node, codes = Skipping(), OneNode("", 0), [code]
    node._cluster.finalized["transaction.version"] = 2
    node._cluster.versions[ApiKeys.TXN_OFFSET_COMMIT] = (0, 5)

    def answer(request: Request) -> object:
        if request.api_key is ApiKeys.TXN_OFFSET_COMMIT:
            return {"throttle_time_ms": 0, "topics": [{"name": "t", "partitions": [
                {"partition_index": 0, "error_code": codes.pop() if codes else 0}]}]}
        return node(request)

    with TinyServer(answer) as server, blocking_client(clock) as client:
        node.port = server.port
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=GIVE_UP_S, clock=clock)
        coordinators.commit_offsets(ID, ProducerIdAndEpoch(1000, 3), TopicPartition("t", 0),
                                    {ID: OffsetAndMetadata(7)})
    assert node.asked == [ApiKeys.FIND_COORDINATOR] * 2


TOPIC_ID = UUID(int=7)


@pytest.mark.parametrize(("codes", "found", "waited_ms"), [
    ([0], TOPIC_ID, 0), ([5], TOPIC_ID, 0), ([3, 3, 0], TOPIC_ID, 200), ([3] * 9, None, 400), ([17] * 9, None, 400)])
def test_topic_id_when_a_broker_may_not_know_the_topic_yet_then_a_few_looks_are_believed(
        codes: list[int], found: UUID | None, waited_ms: int) -> None:
    clock, cluster = Skipping(), ScriptedCluster(1)

    def answer(request: Request) -> object:
        if request.api_key is ApiKeys.METADATA:
            assert not request.body["allow_auto_topic_creation"]
            cluster.topics["t"] = topic_row("t", 1, error=codes.pop(0), topic_id=TOPIC_ID)
        return cluster(request)

    with TinyServer(answer) as server, blocking_client(clock) as client:
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=GIVE_UP_S, clock=clock)
        assert coordinators.topic_id("t") == found
    assert clock.now_ms() == waited_ms


def test_topic_id_when_its_time_is_short_or_it_may_not_be_seen_then_that_is_the_answer() -> None:
    clock, cluster = Skipping(), ScriptedCluster(1)
    with TinyServer(cluster) as server, blocking_client(clock) as client:
        coordinators = CoordinatorClient(client, [("127.0.0.1", server.port)], timeout_s=0.15, clock=clock)
        assert coordinators.topic_id("t") is None
        assert clock.now_ms() == 100
        cluster.topics["t"] = topic_row("t", error=29)
        with pytest.raises(AuthorizationError, match=r"TOPIC_AUTHORIZATION_FAILED: Metadata of topic 't'"):
            coordinators.topic_id("t")


def test_kept_when_no_time_is_allowed_then_the_setting_is_named() -> None:
    """Each call ended at once, as if the brokers were at fault."""
    with pytest.raises(ConfigError, match=r"value 0 for configuration max\.block\.ms: .*set it to 1 or more"):
        KeptCoordinators(ProducerConfig({"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 0}), CLOCK)


def test_kept_when_it_is_closed_then_the_next_call_has_another_one() -> None:
    kept = KeptCoordinators(ProducerConfig({"bootstrap.servers": "127.0.0.1:1"}), CLOCK)
    kept.close()
    first = kept.client()
    assert kept.client() is first
    kept.close()
    second = kept.client()
    assert second is not first
    kept.close()
    kept.close()


def test_call_when_the_first_broker_says_nothing_then_the_second_has_time_left() -> None:
    """The whole time was spent on the first, each time."""
    node = OneNode("", 0)
    with Silent(is_known=False) as first, TinyServer(node) as second, blocking_client() as client:
        node.port = second.port
        coordinators = CoordinatorClient(client, [("127.0.0.1", first.port), ("127.0.0.1", second.port)],
                                         timeout_s=6, clock=CLOCK)
        (described,) = coordinators.describe_transactions([ID])
        assert described.state == "Ongoing"


def test_call_when_the_coordinator_says_nothing_any_more_then_another_broker_is_asked_for_the_next_one() -> None:
    """A broker that is stopped, and not gone, was asked who the coordinator is now, and took the rest of the time."""
    node = OneNode("", 0)

    def is_stopped_then(request: Request) -> object:
        return node(request) if request.api_key is ApiKeys.API_VERSIONS or not node.asked else None

    with TinyServer(is_stopped_then) as first, TinyServer() as second, blocking_client(timeout_s=2) as client:
        def moves(request: Request) -> object:
            node.port = second.port
            return node(request)

        node.port, second._on_frame = first.port, moves
        coordinators = CoordinatorClient(client, [("127.0.0.1", first.port), ("127.0.0.1", second.port)],
                                         timeout_s=4, clock=CLOCK)
        (described,) = coordinators.describe_transactions([ID])
        assert described.state == "Ongoing"


def test_call_when_the_first_address_of_a_name_says_nothing_then_the_second_has_time_left(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole time was spent on the first, as on an IPv4 address whose packets are dropped."""
    node = OneNode("", 0)
    with Silent(is_known=False) as first, TinyServer(node) as second, blocking_client() as client:
        node.port = second.port
        monkeypatch.setattr(blocking_client_module, "resolve_host", lambda host, port: [
            ResolvedAddress(socket.AF_INET, ("127.0.0.1", each))
            for each in ((first.port, second.port) if host == "twofold.test" else (port,))])
        coordinators = CoordinatorClient(client, [("twofold.test", 9092)], timeout_s=4, clock=CLOCK)
        (described,) = coordinators.describe_transactions([ID])
        assert described.state == "Ongoing"


@pytest.mark.parametrize(("nonsense", "error"), [("another's", CorrelationIdMismatchError),
                                                 ("cut short", RemoteProtocolError)])
def test_ask_when_the_answer_makes_no_sense_then_its_connection_is_of_no_use_any_more(
        nonsense: str, error: type[Exception]) -> None:
    node = OneNode(nonsense)
    with TinyServer(node) as server, blocking_client() as client:
        connection = client.connect("127.0.0.1", server.port)
        body = {"key_type": 1, "coordinator_keys": [ID]}
        with pytest.raises(error):
            client.ask(connection, ApiKeys.FIND_COORDINATOR, lambda _version: body)
        with pytest.raises(DisconnectedError, match="was given up: "):
            client.ask(connection, ApiKeys.FIND_COORDINATOR, lambda _version: body)
    assert len(node.asked) == 1


def test_ask_when_the_one_before_was_not_answered_in_time_then_its_connection_is_of_no_use_any_more() -> None:
    cluster = ScriptedCluster(1)
    with TinyServer(cluster) as server, BlockingClient(
            PlaintextChannelBuilder(), client_id="test", timeout_s=0.2, send_buffer_bytes=-1, receive_buffer_bytes=-1,
            clock=CLOCK) as client:
        connection = client.connect("127.0.0.1", server.port)
        cluster.answers_metadata = False
        with pytest.raises(KafkaTimeoutError, match="did not answer METADATA"):
            client.ask(connection, ApiKeys.METADATA, lambda _version: {"topics": []})
        with pytest.raises(DisconnectedError, match=r"was given up: .* did not answer METADATA"):
            client.ask(connection, ApiKeys.METADATA, lambda _version: {"topics": []})


class AllAtOnce(TinyServer):
    """Answers the first three questions together, the second one cut short; and all others, one by one."""

    def _serve(self, sock: socket.socket) -> None:
        cluster, held = ScriptedCluster(1), [b""]
        with contextlib.suppress(OSError), sock:
            for request in _frames(sock):
                answer = cluster(request)
                assert isinstance(answer, dict)
                payload = encode(request, answer)
                if request.api_key is ApiKeys.METADATA:
                    held.append(payload[:-1] if len(held) == 2 else payload)
                    if len(held) < 4:
                        continue
                    payload = held.pop()
                    sock.sendall(b"".join(len(each).to_bytes(4, "big") + each for each in held[1:]))
                    held = [b""] * 9
                sock.sendall(len(payload).to_bytes(4, "big") + payload)


def test_ask_all_when_the_second_of_three_answers_makes_no_sense_then_the_third_answers_nothing_any_more() -> None:
    with AllAtOnce() as server, blocking_client() as client:
        connection = client.connect("127.0.0.1", server.port)
        with pytest.raises(RemoteProtocolError):
            client.ask_all(connection, ApiKeys.METADATA, [about_brokers] * 3)
        for _ in range(2):
            with pytest.raises(DisconnectedError, match="was given up: "):
                client.ask(connection, ApiKeys.METADATA, about_brokers)
        another = client.renewed(connection)
        assert another.connection_id != connection.connection_id
        assert client.renewed(another) is another


@pytest.mark.parametrize("is_late", [False, True])
def test_ask_when_it_was_interrupted_while_it_sent_then_its_connection_is_of_no_use_any_more(
        monkeypatch: pytest.MonkeyPatch, is_late: bool) -> None:
    with TinyServer(ScriptedCluster(1)) as server, blocking_client() as client:
        connection = client.connect("127.0.0.1", server.port)
        send = client._selector.send

        def interrupted(frame: NetworkSend) -> None:
            if is_late:
                send(frame)
            raise KeyboardInterrupt

        with monkeypatch.context() as pressed:
            pressed.setattr(client._selector, "send", interrupted)
            with pytest.raises(KeyboardInterrupt):
                client.ask(connection, ApiKeys.METADATA, about_brokers)
        with pytest.raises(DisconnectedError, match="was given up: KeyboardInterrupt"):
            client.ask(connection, ApiKeys.METADATA, about_brokers)
        assert client.ask(client.renewed(connection), ApiKeys.METADATA, about_brokers).body["brokers"]
