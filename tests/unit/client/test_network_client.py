from typing import Any

import pytest

from pyproducer.client import api_versions
from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.common.errors import (
    CorrelationIdMismatchError,
    DisconnectedError,
    IllegalStateError,
    KafkaTimeoutError,
    RemoteProtocolError,
    SchemaError,
    UnsupportedVersionError,
)
from pyproducer.observe.registry import Registry
from pyproducer.protocol.apis import ApiKeys
from tests.unit.client.mock_selector import encode
from tests.unit.client.scripted_cluster import Setup, topic_row


def ready_setup(**options: Any) -> Setup:
    setup = Setup(**options)
    setup.cluster.topics["t"] = topic_row("t", 1, 2)
    setup.bring_up("t")
    setup.make_ready(1)
    return setup


def find_coordinator(setup: Setup, ended: list[ClientResponse] | None = None, *, node_id: int = 1,
                     timeout_ms: int = 30_000, **options: Any) -> ClientRequest:
    """A small request that MockSelector leaves unanswered."""
    return ClientRequest(node_id, ApiKeys.FIND_COORDINATOR,
                         lambda version: {"key_type": 0, "coordinator_keys": ["g"]} if version >= 4 else {"key": "g"},
                         timeout_ms=timeout_ms,
                         on_complete=None if ended is None else ended.append, **options)


def produce(setup: Setup, *, acks: int = 1, **options: Any) -> ClientRequest:
    return ClientRequest(1, ApiKeys.PRODUCE, lambda version: {
        "transactional_id": None, "acks": acks, "timeout_ms": 1000,
        "topic_data": []}, expect_response=acks != 0, timeout_ms=30_000, **options)


COORDINATOR = {"throttle_time_ms": 0, "coordinators": []}


def test_send_when_answered_then_completed_with_the_body():
    setup, ended = ready_setup(), []
    request = find_coordinator(setup, ended)
    setup.client.send(request, setup.now_ms)
    assert setup.client._in_flight.count(1) == 1
    assert setup.client.in_flight_request_count()
    sent = setup.selector.requests[-1]
    assert (sent.api_key, sent.version, sent.client_id) == (ApiKeys.FIND_COORDINATOR, 6, "test")
    setup.selector.respond(sent, COORDINATOR)
    setup.clock.advance(7)
    assert setup.poll() == ended
    response = ended[0]
    assert response.request is request
    assert (response.api_version, response.latency_ms, response.disconnected) == (6, 7, False)
    assert response.body["coordinators"] == []
    assert not response.was_sent_and_unanswered
    assert not setup.client.in_flight_request_count()


def test_send_when_the_caller_caps_the_version_then_the_cap_is_used():
    setup = ready_setup()
    setup.client.send(find_coordinator(setup, max_version=3), setup.now_ms)
    assert setup.selector.requests[-1].version == 3


def test_send_when_the_node_is_not_ready_then_illegal_state():
    setup = ready_setup()
    with pytest.raises(IllegalStateError, match="Attempt to send a request to node 2 which is not ready"):
        setup.client.send(find_coordinator(setup, node_id=2), setup.now_ms)


@pytest.mark.parametrize("why", ["full", "throttled"])
def test_send_when_a_connected_node_takes_no_more_requests_then_illegal_state_and_nothing_is_sent(why):
    setup = ready_setup(max_in_flight=1)
    setup.client.send(find_coordinator(setup), setup.now_ms)
    if why == "throttled":
        setup.selector.respond(setup.selector.requests[-1], {"throttle_time_ms": 400, "coordinators": []})
        setup.poll()
    sent, in_flight = len(setup.selector.requests), setup.client.in_flight_request_count()
    with pytest.raises(IllegalStateError, match="Attempt to send a request to node 1 which is not ready"):
        setup.client.send(find_coordinator(setup), setup.now_ms)
    assert (len(setup.selector.requests), setup.client.in_flight_request_count()) == (sent, in_flight)


def test_send_when_no_version_is_in_common_then_the_response_says_so_and_nothing_is_sent():
    setup, ended = Setup(), []
    setup.cluster.versions[ApiKeys.FIND_COORDINATOR] = (9, 9)
    setup.bring_up()
    setup.make_ready(1)
    count = len(setup.selector.requests)
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    assert len(setup.selector.requests) == count
    assert setup.poll(1000) == ended
    assert setup.selector.timeouts[-1] == 0, "told at once, without sleeping"
    assert isinstance(ended[0].version_mismatch, UnsupportedVersionError)
    assert not ended[0].was_sent_and_unanswered
    assert ended[0].api_version == -1
    assert setup.client.is_ready(1, setup.now_ms)


def test_poll_when_each_turn_has_a_request_that_cannot_be_sent_then_the_answers_to_others_are_taken_all_the_same():
    """Where one node's records went on to be refused like this, no other's answer was read."""
    setup, refused, answered = ready_setup(), [], []
    setup.client.send(find_coordinator(setup, answered), setup.now_ms)
    setup.selector.respond(setup.selector.requests[-1], {"throttle_time_ms": 0, "coordinators": []})

    def build(version: int) -> Any:
        raise UnsupportedVersionError("topic ids need version 13")

    setup.client.send(ClientRequest(1, ApiKeys.PRODUCE, build, timeout_ms=1, on_complete=refused.append), setup.now_ms)
    assert setup.poll(1000) == [*refused, *answered]
    assert (len(refused), len(answered)) == (1, 1)


def test_send_when_build_refuses_the_version_then_a_version_mismatch():
    setup, ended = ready_setup(), []

    def build(version: int) -> Any:
        raise UnsupportedVersionError("topic ids need version 13")

    setup.client.send(ClientRequest(1, ApiKeys.PRODUCE, build, timeout_ms=1, on_complete=ended.append), setup.now_ms)
    setup.poll()
    assert str(ended[0].version_mismatch) == "topic ids need version 13"


def test_send_when_a_value_does_not_fit_then_an_error_and_the_connection_stays():
    setup, ended = ready_setup(), []
    setup.client.send(ClientRequest(1, ApiKeys.PRODUCE, lambda version: {"acks": "all"}, timeout_ms=1,
                                    on_complete=ended.append), setup.now_ms)
    setup.poll()
    assert isinstance(ended[0].error, SchemaError)
    assert not ended[0].disconnected
    assert not ended[0].was_sent
    assert setup.client.is_ready(1, setup.now_ms)


def test_on_complete_when_it_raises_then_the_poll_does():
    """It was logged, and what it had half done was as good as done."""
    setup, ended = ready_setup(), []
    first = find_coordinator(setup)

    def fail(response):
        raise ZeroDivisionError

    first.on_complete = fail
    setup.client.send(first, setup.now_ms)
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    for sent in setup.selector.asked(ApiKeys.FIND_COORDINATOR):
        setup.selector.respond(sent, COORDINATOR)
    with pytest.raises(ZeroDivisionError):
        setup.poll()
    assert ended == [], "the other answer is lost; whoever asked recovers, see Wire"


@pytest.mark.parametrize("limit", [1, 5])
def test_in_flight_limit_when_reached_then_not_ready_until_an_answer(limit):
    setup = ready_setup(max_in_flight=limit)
    for _ in range(limit):
        assert setup.client.is_ready(1, setup.now_ms)
        setup.client.send(find_coordinator(setup), setup.now_ms)
    assert not setup.client.is_ready(1, setup.now_ms)
    setup.selector.respond(setup.selector.asked(ApiKeys.FIND_COORDINATOR)[0], COORDINATOR)
    setup.poll()
    assert setup.client.is_ready(1, setup.now_ms)


def test_in_flight_when_the_last_frame_is_not_written_then_not_ready():
    setup = ready_setup()
    setup.selector.writes_at_once = False
    setup.client.send(find_coordinator(setup), setup.now_ms)
    assert not setup.client.is_ready(1, setup.now_ms)
    setup.selector.finish_writes()
    assert setup.client.is_ready(1, setup.now_ms)


def test_acks_0_when_written_then_completed_without_a_body_in_any_order_with_answered_ones():
    setup, ended = ready_setup(), []
    setup.client.send(produce(setup, acks=0, on_complete=ended.append), setup.now_ms)
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    setup.selector.respond(setup.selector.requests[-1], COORDINATOR)
    setup.poll()
    assert [response.request.api_key for response in ended] == [ApiKeys.PRODUCE, ApiKeys.FIND_COORDINATOR]
    silent = ended[0]
    assert (silent.body, silent.disconnected, silent.error) == (None, False, None)
    assert not silent.was_sent_and_unanswered
    assert not setup.client.in_flight_request_count()


def test_acks_0_when_the_connection_ends_before_the_write_then_disconnected():
    setup, ended = ready_setup(), []
    setup.selector.writes_at_once = False
    setup.client.send(produce(setup, acks=0, on_complete=ended.append), setup.now_ms)
    setup.selector.end("1")
    setup.poll()
    assert ended[0].disconnected
    assert not ended[0].was_sent_and_unanswered


def test_poll_when_frames_were_written_at_once_then_it_sleeps_all_the_same():
    setup = ready_setup()
    setup.client.send(find_coordinator(setup), setup.now_ms)
    setup.poll(500)
    assert setup.selector.timeouts[-1] == 500
    assert not setup.selector.tells_sends
    setup.client.send(produce(setup, acks=0), setup.now_ms)
    setup.poll(500)
    assert setup.selector.tells_sends, "its end is all that will be known of it"


def test_answers_when_the_correlation_id_is_wrong_then_closed_and_all_disconnected():
    setup, ended = ready_setup(), []
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    first, second = setup.selector.asked(ApiKeys.FIND_COORDINATOR)
    setup.selector.respond(second, COORDINATOR)
    setup.selector.respond(first, COORDINATOR)
    setup.poll()
    assert [response.disconnected for response in ended] == [True, True]
    assert isinstance(ended[0].error, CorrelationIdMismatchError)
    assert str(ended[0].error).startswith(f"Correlation id for response ({second.correlation_id}) of host-1:9092")
    assert setup.selector.closed == ["1"]
    assert not setup.client.is_ready(1, setup.now_ms)


def test_answers_when_nobody_asked_then_closed():
    setup = ready_setup()
    setup.selector.receive("1", b"\0\0\0\1")
    setup.poll()
    assert setup.selector.closed == ["1"]


def test_answers_when_the_request_is_not_written_yet_then_closed_and_not_sent():
    """The next request was handed to a channel that still wrote; that raised, and all connections were made anew."""
    setup, ended = ready_setup(), []
    setup.selector.writes_at_once = False
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    setup.selector.respond(setup.selector.requests[-1], COORDINATOR)
    setup.poll()
    assert setup.selector.closed == ["1"]
    assert isinstance(ended[0].error, RemoteProtocolError)
    assert str(ended[0].error).startswith("host-1:9092")
    assert ended[0].disconnected
    assert not ended[0].was_sent_and_unanswered
    assert not setup.client.is_ready(1, setup.now_ms)


@pytest.mark.parametrize("payload", [b"", b"\0\0", b"\xff" * 40])
def test_answers_when_the_bytes_make_no_sense_then_closed_and_disconnected(payload):
    setup, ended = ready_setup(), []
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    sent = setup.selector.requests[-1]
    if len(payload) > 4:
        payload = sent.correlation_id.to_bytes(4, "big") + payload
    setup.selector.receive("1", payload)
    setup.poll()
    assert ended[0].disconnected
    assert isinstance(ended[0].error, RemoteProtocolError)
    assert ended[0].was_sent_and_unanswered
    assert setup.selector.closed == ["1"]


def test_correlation_id_when_at_its_maximum_then_wraps_to_0():
    setup = ready_setup()
    setup.client._connections._correlation_id = 2**31 - 1
    setup.client.send(find_coordinator(setup), setup.now_ms)
    setup.client.send(find_coordinator(setup), setup.now_ms)
    assert [sent.correlation_id for sent in setup.selector.requests[-2:]] == [2**31 - 1, 0]


def test_disconnect_when_requests_are_in_flight_then_all_complete_oldest_first_and_metadata_is_asked():
    setup, ended = ready_setup(), []
    for _ in range(3):
        setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    setup.selector.end("1", error=ConnectionResetError(104, "Connection reset by peer"))
    responses = setup.poll()
    assert responses == ended
    assert [response.request.correlation_id for response in ended] == [
        request.correlation_id for request in setup.selector.requests[-3:]]
    assert all(response.disconnected and not response.timed_out for response in ended)
    assert "FIND_COORDINATOR v6 (correlation id" in str(ended[0].error)
    assert "Connection reset by peer" in setup.metadata.last_errors()["host-1:9092"]
    assert setup.metadata.time_to_next_update(setup.now_ms + 1000) == 0
    assert isinstance(setup.error_of(setup.metadata.cluster.nodes[1]), DisconnectedError)
    assert setup.client.connection_failed(setup.metadata.cluster.nodes[1])


def test_disconnect_when_a_response_came_in_the_same_poll_then_it_counts():
    setup, ended = ready_setup(), []
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    first, _ = setup.selector.asked(ApiKeys.FIND_COORDINATOR)
    setup.selector.respond(first, COORDINATOR)
    setup.selector.end("1")
    setup.poll()
    assert [response.disconnected for response in ended] == [False, True]


def test_connection_when_we_end_it_then_requests_complete_in_the_next_poll():
    setup, ended = ready_setup(), []
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    setup.disconnect(1)
    assert ended == []
    setup.poll()
    assert ended[0].disconnected
    assert setup.selector.closed == ["1"]


def test_request_timeout_when_the_answer_is_late_then_everything_on_the_connection_times_out():
    setup, ended = ready_setup(), []
    setup.client.send(find_coordinator(setup, ended, timeout_ms=100), setup.now_ms)
    setup.client.send(find_coordinator(setup, ended, timeout_ms=5000), setup.now_ms)
    setup.selector.sleeps = True
    assert setup.poll(10_000) == ended
    assert setup.selector.timeouts[-1] == 101
    assert [(response.disconnected, response.timed_out) for response in ended] == [(True, True)] * 2
    assert isinstance(ended[0].error, KafkaTimeoutError)
    assert "no answer within 101 ms (request.timeout.ms)" in str(ended[0].error)
    assert setup.selector.closed == ["1"]


def test_request_timeout_when_the_answer_arrived_while_we_were_away_then_it_counts():
    setup, ended = ready_setup(), []
    setup.client.send(find_coordinator(setup, ended, timeout_ms=100), setup.now_ms)
    setup.selector.respond(setup.selector.requests[-1], COORDINATOR)
    setup.clock.advance(5000)
    setup.poll()
    assert not ended[0].disconnected


@pytest.mark.parametrize("version", [1, 2])
def test_throttle_when_an_answer_wants_one_then_no_sends_for_that_long(version):
    setup = ready_setup()
    setup.client.send(find_coordinator(setup, max_version=version), setup.now_ms)
    setup.selector.respond(setup.selector.requests[-1], {
        "throttle_time_ms": 400, "error_code": 0, "error_message": None, "node_id": 1, "host": "h", "port": 1})
    setup.poll()
    node = setup.metadata.cluster.nodes[1]
    assert not setup.client.is_ready(1, setup.now_ms)
    assert setup.client.poll_delay_ms(setup.metadata.cluster.nodes[1], setup.now_ms) == 400
    assert setup.client.poll_delay_ms(node, setup.now_ms) == 400
    setup.clock.advance(400)
    assert setup.client.is_ready(1, setup.now_ms)


def test_ready_when_metadata_is_due_then_false_for_all():
    setup = ready_setup()
    setup.metadata.request_update()
    setup.clock.advance(1000)
    assert not setup.client.is_ready(1, setup.now_ms)
    setup.cluster.answers_metadata = False
    setup.poll()
    assert setup.client.is_ready(1, setup.now_ms)


def test_idle_connection_when_closed_by_the_selector_then_no_failure_is_noted_and_metadata_stays():
    from pyproducer.network.channel import ChannelPhase

    setup = ready_setup()
    setup.selector.end("1", ChannelPhase.EXPIRED)
    setup.poll()
    assert setup.metadata.last_errors() == {}
    assert setup.metadata.time_to_next_update(setup.now_ms + 5000) > 0


def test_close_when_called_then_connections_close_and_polls_refuse():
    setup = ready_setup()
    setup.client.close()
    setup.client.close()
    assert setup.selector.open == set()
    with pytest.raises(IllegalStateError):
        setup.poll()
    with pytest.raises(IllegalStateError):
        setup.client.send(find_coordinator(setup), setup.now_ms)


def test_least_loaded_node_when_connections_differ():
    setup = ready_setup()
    setup.make_ready(2)
    setup.client.send(find_coordinator(setup), setup.now_ms)
    assert {setup.client.least_loaded_node(setup.now_ms).node_id for _ in range(20)} == {2}
    setup.client.send(find_coordinator(setup, node_id=2), setup.now_ms)
    setup.client.send(find_coordinator(setup, node_id=2), setup.now_ms)
    assert {setup.client.least_loaded_node(setup.now_ms).node_id for _ in range(20)} == {1}


def test_least_loaded_node_when_none_is_connected_then_the_one_not_tried_for_the_longest_time():
    setup = ready_setup()
    setup.disconnect(1)
    setup.clock.advance(5000)
    assert {setup.client.least_loaded_node(setup.now_ms).node_id for _ in range(20)} == {2}
    setup.client.ready(setup.metadata.cluster.nodes[2], setup.now_ms)
    assert {setup.client.least_loaded_node(setup.now_ms).node_id for _ in range(20)} == {2}, "being connected"


def test_encode_when_the_error_is_35_then_the_layout_of_version_0():
    setup = ready_setup()
    sent = setup.selector.asked(ApiKeys.API_VERSIONS)[0]
    assert len(encode(sent, {"error_code": 35, "api_keys": []})) == 4 + 2 + 4


def test_api_versions_when_a_caller_asks_for_them_then_the_caller_is_answered():
    setup, ended = ready_setup(), []
    setup.cluster.versions = dict(setup.cluster.versions)
    request = ClientRequest(1, ApiKeys.API_VERSIONS, api_versions.api_versions_body, timeout_ms=1000,
                            on_complete=ended.append)
    setup.client.send(request, setup.now_ms)
    setup.poll(times=2)
    assert [response.request for response in ended] == [request]
    assert ended[0].body["error_code"] == 0
    assert setup.client.is_ready(1, setup.now_ms)


def test_disconnect_when_the_peer_spoke_nonsense_and_hung_up_in_the_same_turn_then_told_once():
    setup, ended = ready_setup(), []
    setup.client.send(find_coordinator(setup, ended), setup.now_ms)
    setup.selector.receive("1", b"\xff" * 40)
    setup.selector.end("1", error=ConnectionResetError(104, "Connection reset by peer"))
    assert setup.poll() == ended
    assert len(ended) == 1
    assert isinstance(ended[0].error, RemoteProtocolError)
    assert "reset" not in setup.metadata.last_errors()["host-1:9092"], "what came first is the reason"
    assert setup.client.poll_delay_ms(setup.metadata.cluster.nodes[1], setup.now_ms) == 50, "one failure, not two"


def test_disconnect_when_metadata_was_answered_before_then_the_failure_is_an_ended_request():
    setup = ready_setup()
    setup.client.send(find_coordinator(setup), setup.now_ms)
    setup.selector.respond(setup.selector.requests[-1], COORDINATOR)
    setup.poll()
    setup.metadata.request_update()
    setup.clock.advance(100)
    setup.cluster.answers_metadata = False
    setup.poll()
    node_id = setup.selector.requests[-1].connection_id
    assert setup.selector.requests[-1].api_key is ApiKeys.METADATA
    setup.selector.end(node_id)
    setup.poll()
    [text] = [text for address, text in setup.metadata.last_errors().items() if "METADATA" in text]
    assert text.startswith("request: the peer closed the connection; in flight: METADATA")


def test_busy_time_when_nobody_had_the_role_for_a_part_of_it_then_that_part_is_not_told_again():
    registry = Registry()
    setup = Setup(registry=registry)
    setup.poll()
    for rest_ms in (0, 300, 0):
        before_ms = registry.producer.turn_ms_total
        setup.clock.advance(400)
        setup.client.rest_ms = rest_ms
        setup.poll()
        assert registry.producer.turn_ms_total - before_ms == 400 - rest_ms
