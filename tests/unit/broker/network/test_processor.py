"""One network thread, stepped by the test: real connections over the loopback, handlers that the test plays."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from pyproducer.broker.cluster.listener import EndPoint
from pyproducer.broker.network.channel_mute import ChannelMuteState
from pyproducer.broker.network.processor import ApiGate, Processor
from pyproducer.broker.network.request_channel import (
    CloseConnectionResponse,
    EndThrottlingResponse,
    NoOpResponse,
    Request,
    RequestChannel,
    Response,
    StartThrottlingResponse,
    TornResponse,
)
from pyproducer.broker.network.server_selector import ServerSelector
from pyproducer.common.clock import SystemClock
from pyproducer.common.errors import InvalidRequestError
from pyproducer.network.channel import KafkaChannel
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response_correlation_id
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, framed, metadata_body, request_bytes
from tests.support.selector_pair import make_server_selector

ANSWER = {"brokers": [], "controller_id": 1, "topics": []}
MAX_ELEMENTS = 100
MAX_TURNS = int(GIVE_UP_S / 0.3)  # a turn that waits in vain takes 0.3 s


def frame(correlation_id: int) -> bytes:
    return framed(request_bytes(ApiKeys.METADATA, 1, metadata_body(), correlation_id=correlation_id))


class Queued(NamedTuple):
    """A request as a handler gets it, with the state of its connection at that moment."""

    correlation_id: int
    mute_state: ChannelMuteState


class WatchingChannel(RequestChannel):
    """A request channel that notes what it is given, and whose handler answers before the queueing is over."""

    def __init__(self, selector: ServerSelector) -> None:
        super().__init__(100)
        self._selector = selector
        self.queued: list[Queued] = []
        self.requests: list[Request] = []
        self.answer_at_once: Callable[[Request], None] | None = None

    def send_request(self, request: Request) -> bool:
        self.queued.append(Queued(request.header.correlation_id,
                                  self._selector.mute_state(request.context.connection_id)))
        self.requests.append(request)
        if self.answer_at_once is not None:
            self.answer_at_once(request)
        return True

    @property
    def correlation_ids(self) -> list[int]:
        return [queued.correlation_id for queued in self.queued]


class Stage:
    """A processor without a thread of its own, and the clients that are connected to it."""

    def __init__(self) -> None:
        self.selector = make_server_selector()
        self.channel = WatchingChannel(self.selector)
        self.processor = Processor(
            0, end_point=EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0), channel=self.channel,
            selector=self.selector, gate=ApiGate(lambda _api_key, _version: True), clock=SystemClock(),
            socket_options=lambda _socket: None, name="test-processor", max_elements=MAX_ELEMENTS)
        self.channel.add_processor(self.processor)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._clients: list[RawClient] = []

    def connect(self) -> RawClient:
        client = RawClient(self._listener.getsockname(), timeout_s=GIVE_UP_S)
        self._clients.append(client)
        accepted, _ = self._listener.accept()
        assert self.processor.accept(accepted, may_block=False)
        return client

    def turn_until(self, is_done: Callable[[], object]) -> None:
        for _ in range(MAX_TURNS):
            if is_done():
                return
            self.turn()
        pytest.fail("it did not happen")

    def turn(self) -> None:
        """Take a turn; what it reads from a connection that lives on must be with the handlers at its end."""
        before = len(self.channel.queued)
        self.processor.run_once(0)
        read = [receive for receive in self.selector.completed_receives if self.selector.channel(receive.source)]
        assert len(self.channel.queued) - before >= len(read)

    def turn_in_vain(self) -> None:
        """Take a turn in which only what is there already can happen."""
        self.selector.wakeup()
        self.turn()

    def mute_states(self) -> list[ChannelMuteState]:
        return [self.processor.mute_state(channel) for channel in self.processor.channels()]

    def answer(self, request: Request) -> None:
        self.channel.send_body(request, ANSWER)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._listener.close()
        self.processor.initiate_shutdown()
        self.processor.run()  # nothing is left to do but to close


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()


# ---- muting

def test_connection_when_its_request_reaches_the_handlers_then_it_is_muted_already(stage: Stage) -> None:
    """A handler may be done before the processor goes on to its next line.

    With the connection muted only after its request was queued, an observer saw a connection that was read from while
    its request was handled, and the answer's own change of the mute state could come before the request's.
    """
    client = stage.connect()
    client.send_bytes(frame(1) + frame(2))
    stage.channel.answer_at_once = stage.answer
    stage.turn_until(lambda: len(stage.channel.queued) == 2)
    assert stage.channel.queued == [Queued(1, ChannelMuteState.MUTED_AND_RESPONSE_PENDING),
                                    Queued(2, ChannelMuteState.MUTED_AND_RESPONSE_PENDING)]
    stage.turn_until(lambda: stage.mute_states() == [ChannelMuteState.NOT_MUTED])
    assert [parse_response_correlation_id(client.receive_frame()) for _ in range(2)] == [1, 2]


def test_next_request_when_the_first_is_not_answered_then_it_is_not_handed_over(stage: Stage) -> None:
    """Two requests of one connection in two handlers at once would be answered in any order."""
    client = stage.connect()
    client.send_bytes(frame(1) + frame(2))  # in one segment: both are there when the first is
    stage.turn_until(lambda: stage.channel.queued)
    for _ in range(3):
        stage.turn_in_vain()
    assert stage.channel.correlation_ids == [1]
    stage.answer(stage.channel.requests[0])
    stage.turn_until(lambda: len(stage.channel.queued) == 2)
    assert stage.channel.correlation_ids == [1, 2]


def test_other_connections_when_one_waits_for_its_answer_then_they_are_read(stage: Stage) -> None:
    first, second = stage.connect(), stage.connect()
    first.send_bytes(frame(1))
    stage.turn_until(lambda: stage.channel.queued)
    second.send_bytes(frame(2))
    stage.turn_until(lambda: len(stage.channel.queued) == 2)
    assert stage.channel.correlation_ids == [1, 2]


def test_connection_when_nothing_is_answered_then_its_next_request_is_read(stage: Stage) -> None:
    client = stage.connect()
    client.send_bytes(frame(1) + frame(2))
    stage.channel.answer_at_once = stage.channel.send_no_op
    stage.turn_until(lambda: len(stage.channel.queued) == 2)
    assert stage.channel.correlation_ids == [1, 2]


def test_connection_when_throttled_then_it_is_read_again_after_both_the_response_and_the_throttle(
        stage: Stage) -> None:
    client = stage.connect()
    client.send_bytes(frame(1) + frame(2))
    stage.turn_until(lambda: stage.channel.queued)
    request = stage.channel.requests[0]
    stage.channel.send_response(StartThrottlingResponse(request))
    stage.answer(request)
    stage.turn_until(lambda: stage.mute_states() == [ChannelMuteState.MUTED_AND_THROTTLED])
    assert parse_response_correlation_id(client.receive_frame()) == 1, "the answer does not wait for the throttle"
    stage.turn_in_vain()
    assert stage.channel.correlation_ids == [1]
    stage.channel.send_response(EndThrottlingResponse(request))
    stage.turn_until(lambda: len(stage.channel.queued) == 2)
    assert stage.channel.correlation_ids == [1, 2]


def test_connection_when_its_throttle_ends_before_its_response_then_it_stays_muted(stage: Stage) -> None:
    client = stage.connect()
    client.send_bytes(frame(1) + frame(2))
    stage.turn_until(lambda: stage.channel.queued)
    request = stage.channel.requests[0]
    stage.channel.send_response(StartThrottlingResponse(request))
    stage.channel.send_response(EndThrottlingResponse(request))
    stage.turn_in_vain()
    assert stage.mute_states() == [ChannelMuteState.MUTED_AND_RESPONSE_PENDING]
    assert stage.channel.correlation_ids == [1]
    stage.answer(request)
    stage.turn_until(lambda: len(stage.channel.queued) == 2)


# ---- sleep

def test_processor_when_nothing_happens_then_it_sleeps_for_the_whole_time_of_each_turn(
        stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 ms, as in Java: an open connection, silent or muted, must not make it look around all the time."""
    silent, waiting = stage.connect(), stage.connect()
    silent.send_bytes(frame(1))
    stage.turn_until(lambda: stage.channel.queued)
    stage.answer(stage.channel.requests[0])
    waiting.send_bytes(frame(2) + frame(3))
    stage.turn_until(lambda: len(stage.channel.queued) == 2)
    stage.turn_in_vain()
    slept: list[int] = []

    def sleep(timeout_ms: int, _channel: object = None) -> list[tuple[KafkaChannel, int]]:
        slept.append(timeout_ms)
        return []

    monkeypatch.setattr(stage.selector.interest, "select", sleep)
    for _ in range(3):
        stage.processor.run_once(0)
    assert slept == [300, 300, 300]


# ---- ends

@pytest.mark.parametrize("answer", [
    CloseConnectionResponse, lambda request: TornResponse(request, b"\x00\x00")], ids=["closed", "torn"])
def test_connection_when_it_is_to_end_then_its_next_request_is_never_read(
        stage: Stage, answer: Callable[[Request], Response]) -> None:
    client, other = stage.connect(), stage.connect()
    client.send_bytes(frame(1) + frame(2))
    stage.turn_until(lambda: stage.channel.queued)
    stage.channel.send_response(answer(stage.channel.requests[0]))
    stage.turn_until(lambda: stage.processor.connection_count == 1)
    assert stage.channel.correlation_ids == [1]
    other.send_bytes(frame(3))
    stage.turn_until(lambda: len(stage.channel.queued) == 2)
    assert stage.channel.correlation_ids == [1, 3]


def test_response_when_its_connection_is_gone_then_it_is_dropped_and_the_others_are_served(
        stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    gone, other = stage.connect(), stage.connect()
    gone.send_bytes(frame(1))
    stage.turn_until(lambda: stage.channel.queued)
    request = stage.channel.requests[0]
    stage.channel.send_close_connection(request)
    stage.turn_until(lambda: stage.processor.connection_count == 1)
    with caplog.at_level(logging.WARNING):
        stage.answer(request)
        for late in (NoOpResponse, StartThrottlingResponse, EndThrottlingResponse):
            stage.channel.send_response(late(request))
        other.send_bytes(frame(2))
        stage.turn_until(lambda: len(stage.channel.queued) == 2)
    assert caplog.records == []
    assert stage.processor.response_queue_size == 0


def test_frame_when_it_is_no_request_then_its_connection_alone_is_closed(stage: Stage) -> None:
    bad, good = stage.connect(), stage.connect()
    bad.send_bytes(framed(b"\x03\xe7\x00\x00" + bytes(6)) + frame(1))
    good.send_bytes(frame(2))
    stage.turn_until(lambda: stage.channel.queued and stage.processor.connection_count == 1)
    assert stage.channel.correlation_ids == [2]
    assert bad.is_closed(within_s=GIVE_UP_S)


# ---- new connections

def test_accept_when_the_queue_of_new_connections_is_full_then_the_acceptor_turns_to_another(stage: Stage) -> None:
    """Twenty, as in Java: one that waits longer belongs to a processor that has time for it."""
    clients = [stage.connect() for _ in range(20)]
    with socket.socket() as surplus:
        assert not stage.processor.accept(surplus, may_block=False)
    stage.turn_until(lambda: stage.processor.connection_count == 20)
    clients[-1].send_bytes(frame(7))
    stage.connect()
    stage.turn_until(lambda: stage.processor.connection_count == 21 and stage.channel.queued)


def test_accept_when_many_peers_have_gone_before_their_turn_then_there_is_room_for_others_all_the_same(
        stage: Stage) -> None:
    for _ in range(25):
        gone = socket.socket()  # not connected, as one that was reset while it waited
        assert stage.processor.accept(gone, may_block=False)
        stage.turn_in_vain()
        assert gone.fileno() == -1
    client = stage.connect()
    client.send_bytes(frame(1))
    stage.turn_until(lambda: stage.channel.queued)
    assert stage.processor.connection_count == 1


def test_accept_when_it_may_block_then_it_waits_for_room(stage: Stage) -> None:
    for _ in range(20):
        stage.connect()
    accepted, peer = socket.socketpair()
    peer.close()
    done = threading.Event()

    def accept() -> None:
        stage.processor.accept(accepted, may_block=True)
        done.set()

    thread = threading.Thread(target=accept)
    thread.start()
    assert not done.wait(0.05)
    stage.turn_in_vain()
    assert done.wait(GIVE_UP_S)
    thread.join()


def test_accept_when_the_processor_stops_while_it_waits_for_room_then_the_socket_is_closed(stage: Stage) -> None:
    for _ in range(20):
        stage.connect()
    late = socket.socket()
    done = threading.Event()

    def accept() -> None:
        assert stage.processor.accept(late, may_block=True)
        done.set()

    threading.Thread(target=accept, daemon=True).start()
    assert not done.wait(0.05)
    stage.processor.initiate_shutdown()
    assert done.wait(GIVE_UP_S)
    assert late.fileno() == -1


def test_accept_when_the_processor_stops_then_the_socket_is_closed(stage: Stage) -> None:
    for _ in range(20):
        stage.connect()
    stage.processor.initiate_shutdown()
    late = socket.socket()
    assert stage.processor.accept(late, may_block=True)
    assert late.fileno() == -1


# ---- what is left to the handlers

def test_body_when_it_arrives_then_it_is_not_read_on_the_network_thread(stage: Stage) -> None:
    """Not even one that makes no sense: what a large body costs is the handler's time, and not that of all clients."""
    client = stage.connect()
    client.send_bytes(framed(request_bytes(ApiKeys.METADATA, 1, metadata_body("orders"))[:-3]))
    stage.turn_until(lambda: stage.channel.queued)
    (request,) = stage.channel.requests
    with pytest.raises(InvalidRequestError, match="apiKey: 3"):
        request.read_body()
    assert stage.processor.connection_count == 1


def test_request_when_its_processor_has_a_limit_of_elements_then_its_reader_has_it(stage: Stage) -> None:
    client = stage.connect()
    client.send_bytes(framed(request_bytes(ApiKeys.METADATA, 1, metadata_body(*["x"] * (MAX_ELEMENTS + 1)))))
    stage.turn_until(lambda: stage.channel.queued)
    with pytest.raises(InvalidRequestError, match="more elements than"):
        stage.channel.requests[0].read_body()
