import pytest

from pyproducer.client.in_flight import InFlightRequests
from pyproducer.client.request import ClientRequest
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.errors import IllegalStateError
from pyproducer.network.send import NetworkSend
from pyproducer.protocol.apis import ApiKeys


def in_flight(node_id: int = 1, *, sent_ms: int = 0, timeout_ms: int = 100, written: bool = True,
              expect_response: bool = True, correlation_id: int = 0) -> ClientRequest:
    request = ClientRequest(node_id, ApiKeys.PRODUCE, lambda version: {}, expect_response=expect_response,
                            timeout_ms=timeout_ms)
    request.send = NetworkSend(str(node_id), [b"x"])
    request.send.completed = written
    request.api_version, request.correlation_id = 9, correlation_id
    request.sent_ms, request.deadline_ms = sent_ms, sent_ms + timeout_ms
    return request


def test_can_send_more_when_nothing_is_in_flight():
    assert InFlightRequests(1).can_send_more(1)


def test_can_send_more_when_the_last_send_is_unwritten_then_false():
    requests = InFlightRequests(5)
    requests.add(in_flight(written=True))
    assert requests.can_send_more(1)
    requests.add(in_flight(written=False))
    assert not requests.can_send_more(1)
    assert requests.can_send_more(2)


@pytest.mark.parametrize("limit", [1, 5])
def test_can_send_more_when_the_limit_is_reached_then_false(limit):
    requests = InFlightRequests(limit)
    for _ in range(limit):
        assert requests.can_send_more(1)
        requests.add(in_flight())
    assert not requests.can_send_more(1)
    requests.complete_next(1)
    assert requests.can_send_more(1)


def test_complete_next_when_several_are_in_flight_then_the_oldest():
    requests = InFlightRequests(5)
    for correlation_id in range(3):
        requests.add(in_flight(correlation_id=correlation_id))
    assert [requests.complete_next(1).correlation_id for _ in range(3)] == [0, 1, 2]
    assert requests.total == 0
    with pytest.raises(IllegalStateError, match="There are no in-flight requests for node 1"):
        requests.complete_next(1)


def test_complete_unanswerable_when_another_request_is_behind_it():
    requests = InFlightRequests(5)
    silent, answered = in_flight(expect_response=False), in_flight()
    requests.add(silent)
    requests.add(answered)
    assert requests.unanswerable_count
    assert requests.complete_unanswerable(1, answered.send) is None
    assert requests.complete_unanswerable(1, silent.send) is silent
    assert not requests.unanswerable_count
    assert requests.complete_next(1) is answered


def test_clear_all_when_requests_are_in_flight_then_oldest_first_and_counts_fall():
    requests = InFlightRequests(5)
    first, second, third, other = (in_flight(), in_flight(expect_response=False), in_flight(expect_response=False),
                                   in_flight(2))
    for request in (first, second, third, other):
        requests.add(request)
    assert requests.unanswerable_count
    assert requests.clear_all(1) == [first, second, third]
    assert requests.clear_all(1) == []
    assert requests.count(1) == 0
    assert requests.total == 1
    assert not requests.unanswerable_count
    requests.add(in_flight(2, expect_response=False))
    assert requests.unanswerable_count


def test_timed_out_nodes_when_the_answer_is_one_ms_late():
    requests = InFlightRequests(5)
    requests.add(in_flight(1, sent_ms=0, timeout_ms=100))
    requests.add(in_flight(2, sent_ms=50, timeout_ms=100))
    assert requests.nodes_with_timed_out_requests(100) == []
    assert requests.earliest_deadline_ms == 100
    assert requests.nodes_with_timed_out_requests(101) == [1]
    requests.clear_all(1)
    assert requests.earliest_deadline_ms == 150
    assert requests.nodes_with_timed_out_requests(151) == [2]


def test_timed_out_nodes_when_an_earlier_request_was_answered_then_the_next_is_not_late_at_its_deadline():
    requests = InFlightRequests(5)
    requests.add(in_flight(1, sent_ms=0, timeout_ms=100))
    requests.add(in_flight(2, sent_ms=0, timeout_ms=200))
    requests.complete_next(1)
    assert requests.nodes_with_timed_out_requests(200) == []
    assert requests.nodes_with_timed_out_requests(201) == [2]


def test_timed_out_nodes_when_a_later_request_has_the_shorter_timeout():
    requests = InFlightRequests(5)
    requests.add(in_flight(sent_ms=0, timeout_ms=1000))
    requests.add(in_flight(sent_ms=10, timeout_ms=5))
    assert requests.nodes_with_timed_out_requests(16) == [1]


def test_deadlines_when_they_are_moved_then_nothing_is_late_before():
    requests = InFlightRequests(5)
    requests.move_deadlines(1000)
    assert requests.earliest_deadline_ms == NEVER_MS
    requests.add(in_flight(1, sent_ms=0, timeout_ms=100))
    requests.add(in_flight(2, sent_ms=0, timeout_ms=200))
    requests.move_deadlines(1000)
    assert requests.earliest_deadline_ms == 1100
    assert requests.nodes_with_timed_out_requests(1100) == []
    assert requests.nodes_with_timed_out_requests(1101) == [1]


def test_total_when_requests_end_in_any_way_then_what_is_left():
    requests = InFlightRequests(5)
    silent = in_flight(expect_response=False)
    for request in (in_flight(), silent, in_flight(2), in_flight(2)):
        requests.add(request)
    assert requests.total == 4
    requests.complete_next(1)
    assert requests.total == 3
    requests.complete_unanswerable(1, silent.send)
    assert requests.total == 2
    requests.clear_all(2)
    assert requests.total == 0


def test_disconnected_when_the_frame_was_not_written_completely_then_the_broker_cannot_have_acted():
    assert in_flight(written=True).disconnected(5, timed_out=False, error=None).was_sent_and_unanswered
    assert not in_flight(written=False).disconnected(5, timed_out=False, error=None).was_sent_and_unanswered


def test_can_send_more_when_a_marker_waits_then_it_is_not_counted() -> None:
    """It has no deadline: to a peer that was gone and had not said so, one with a limit of 1 kept all records back."""
    requests = InFlightRequests(1)
    marker = in_flight()
    marker.api_key = ApiKeys.API_VERSIONS
    requests.add(marker)
    assert requests.can_send_more(1)
    requests.add(in_flight())
    assert not requests.can_send_more(1)
    with pytest.raises(IllegalStateError, match="not ready"):
        requests.add(in_flight())
