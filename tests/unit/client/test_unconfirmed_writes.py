"""acks=0: how far the broker has come with what gets no answer, and what is said of the rest when a connection ends.

A broker that ends sessions and took 25 ms for each request lost 374 of 800 records at two renewals: the new login stood
behind seconds of Produce requests in the sockets, the broker reached them after the session's end, and closed the
connection. The log said that the listener may not speak the configured security.protocol.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.client.unconfirmed_writes import MARKER_INTERVAL_MS, Position, UnconfirmedRecords, UnconfirmedWrites
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.errors import DisconnectedError
from pyproducer.network.channel import ChannelPhase
from pyproducer.protocol.apis import ApiKeys
from tests.unit.client.mock_selector import Request
from tests.unit.client.scripted_cluster import Setup, topic_row

LIFETIME_MS = 3_000
DUE_MS = 2_550  # 85 % of it
BODY = {"transactional_id": None, "acks": 0, "timeout_ms": 1_000, "topic_data": []}


class Writer:
    """A client that writes what gets no answer to node 1, which answers markers only when the test says so."""

    def __init__(self, lifetime_ms: int = LIFETIME_MS, **options: Any) -> None:
        self.told = UnconfirmedRecords()
        self.setup = Setup(next_random=lambda: 0, on_unconfirmed=self.told.on_end, **options)
        self.setup.cluster.topics["t"] = topic_row("t", 1)
        self.setup.bring_up("t")
        self.setup.selector.lifetime_ms = lifetime_ms
        self.node = self.setup.make_ready(1)
        self.markers: list[Request] = []  # those that are not answered
        self.written: list[ClientResponse] = []
        self._answer = self.setup.selector.answer
        self.setup.selector.answer = self._keep_markers

    def _keep_markers(self, request: Request) -> Any:
        if request.api_key is not ApiKeys.API_VERSIONS:
            return self._answer(request)
        self.markers.append(request)
        return None

    def write(self, record_count: int = 1) -> None:
        self.setup.client.send(ClientRequest(
            1, ApiKeys.PRODUCE, lambda version: BODY, expect_response=False, timeout_ms=30_000, max_version=9,
            on_complete=self.written.append, record_count=record_count), self.setup.now_ms)
        self.setup.poll()

    def write_all_it_may(self, most: int = 1_000) -> int:
        count = 0
        while count < most and self.may_write():
            self.write()
            count += 1
        return count

    def may_write(self) -> bool:
        return self.setup.client.ready(self.node, self.setup.now_ms)

    def confirm(self) -> None:
        """The broker has come to the marker."""
        marker = self.markers.pop(0)
        self.setup.selector.respond(marker, self.setup.cluster.api_versions(marker.version))
        self.setup.poll(times=2)

    def pass_ms(self, ms: int) -> None:
        self.setup.clock.advance(ms)
        self.setup.poll()

    @property
    def renewing(self) -> list[str]:
        return self.setup.selector.reauthenticating


def test_session_when_it_is_due_then_a_marker_is_answered_before_it_is_renewed() -> None:
    writer = Writer()
    writer.write()
    writer.confirm()
    writer.write(3)
    writer.pass_ms(DUE_MS)
    assert not writer.may_write()
    assert len(writer.markers) == 1, "the only one under way"
    writer.setup.poll(times=3)
    assert writer.renewing == [], "the broker may be far behind"
    writer.confirm()
    assert writer.renewing == ["1"]
    assert writer.told.total == 0


def test_session_when_the_broker_is_slow_then_no_more_is_written_than_it_reaches_before_the_end() -> None:
    """25 ms for a request: with a margin of two, 60 of them fit into 3 s."""
    writer = Writer()
    assert writer.write_all_it_may() == 1, "the first one shows how fast the broker is"
    writer.pass_ms(25)
    writer.confirm()
    in_sockets = writer.write_all_it_may()
    assert in_sockets == (LIFETIME_MS - 25) // (25 * 2)
    assert len(writer.markers) == 1
    writer.pass_ms(25 * in_sockets)
    writer.confirm()
    assert writer.may_write() or writer.renewing, "and on it goes"


def test_session_when_the_broker_keeps_up_then_nothing_holds_the_producer_back() -> None:
    writer = Writer()
    writer.write()
    writer.pass_ms(1)
    writer.confirm()
    for _ in range(DUE_MS // 10 - 1):
        assert writer.may_write()
        writer.write()
        writer.pass_ms(10)
        while writer.markers:
            writer.confirm()
    assert writer.renewing == []


def test_session_when_it_ends_before_the_broker_came_so_far_then_said_how_many_records_may_be_gone(
        caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer()
    writer.write(7)
    writer.pass_ms(1)
    writer.confirm()
    for _ in range(5):
        writer.write(10)
    writer.pass_ms(LIFETIME_MS)
    writer.setup.selector.end("1", error=DisconnectedError("the peer hung up"))
    writer.setup.poll()
    assert writer.told.total == 50, "the first seven are confirmed"
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines[-1].startswith("host-1:9092 (node 1): 50 record(s) may be gone: they were sent with acks=0")
    assert "its session had ended (connections.max.reauth.ms of the broker)" in lines[-2]
    assert "security.protocol" not in caplog.text


def test_session_when_the_broker_hangs_up_during_the_renewal_then_no_other_setting_is_blamed(
        caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer()
    writer.pass_ms(DUE_MS)
    assert writer.renewing == ["1"]
    writer.setup.selector.end("1", ChannelPhase.AUTHENTICATING, DisconnectedError("the peer hung up"))
    writer.setup.poll()
    assert "its session was being renewed (connections.max.reauth.ms of the broker)" in caplog.text
    assert "security.protocol" not in caplog.text
    assert writer.told.total == 0


def test_writes_when_no_session_ends_then_one_marker_a_second_while_something_is_unconfirmed() -> None:
    writer = Writer(lifetime_ms=0)
    for _ in range(20):
        writer.write()
    assert len(writer.markers) == 1, "behind the first request"
    writer.pass_ms(MARKER_INTERVAL_MS)
    assert len(writer.markers) == 1, "one at a time"
    assert writer.may_write(), "nothing is lost by the broker's own doing"
    writer.confirm()
    assert len(writer.markers) == 1
    writer.confirm()
    writer.pass_ms(MARKER_INTERVAL_MS)
    assert writer.markers == [], "all is confirmed"
    writer.setup.selector.timeouts.clear()
    writer.setup.poll(60_000)
    assert writer.setup.selector.timeouts[-1] > MARKER_INTERVAL_MS


def test_writes_when_the_connection_before_had_sessions_and_this_one_has_none_then_no_marker_comes_more_often() -> None:
    """Whether sessions end may be changed on a broker that runs: connections.max.reauth.ms."""
    writer = Writer()
    writer.setup.selector.end("1")
    writer.setup.poll()
    writer.setup.clock.advance(1_000)
    writer.setup.selector.lifetime_ms = 0
    writer.setup.selector.answer = writer._answer
    writer.node = writer.setup.make_ready(1)
    writer.setup.selector.answer = writer._keep_markers
    writer.write()
    writer.confirm()
    writer.write()
    writer.pass_ms(MARKER_INTERVAL_MS - 1)
    assert writer.markers == []
    writer.pass_ms(1)
    assert len(writer.markers) == 1


def test_writes_when_the_poll_would_sleep_then_it_wakes_for_the_marker() -> None:
    writer = Writer(lifetime_ms=0)
    writer.write()
    writer.confirm()
    writer.write()
    writer.setup.selector.timeouts.clear()
    writer.setup.poll(60_000)
    assert writer.setup.selector.timeouts == [MARKER_INTERVAL_MS]


def test_writes_when_the_connection_ends_by_itself_then_said_how_many_records_may_be_gone() -> None:
    """A broker that is stopped, or refuses one request of acks=0, hangs up: what lies behind in the sockets is gone."""
    writer = Writer(lifetime_ms=0)
    for _ in range(3):
        writer.write(2)
    writer.setup.selector.end("1")
    writer.setup.poll()
    assert writer.told.total == 6
    assert not writer.setup.client._connections.writing


def test_writes_when_a_request_is_not_written_yet_then_it_is_not_among_those_that_may_be_gone() -> None:
    """It was not told as sent, and is sent again."""
    writer = Writer(lifetime_ms=0)
    writer.write(2)
    writer.setup.selector.writes_at_once = False
    writer.write(5)
    writer.setup.selector.end("1")
    writer.setup.poll()
    assert writer.told.total == 2
    assert [response.disconnected for response in writer.written] == [False, True]


def test_writes_when_anything_else_is_answered_then_it_is_as_good_as_a_marker() -> None:
    writer = Writer(lifetime_ms=0)
    writer.write()
    writer.confirm()
    writer.write(2)
    writer.setup.selector.answer = writer.setup.cluster
    writer.setup.client.send(ClientRequest(
        1, ApiKeys.FIND_COORDINATOR, lambda version: {"key_type": 0, "coordinator_keys": ["g"]}, timeout_ms=30_000),
        writer.setup.now_ms)
    request = writer.setup.selector.asked(ApiKeys.FIND_COORDINATOR)[0]
    writer.setup.selector.respond(request, {"throttle_time_ms": 0, "coordinators": []})
    writer.setup.poll()
    writer.setup.selector.end("1")
    writer.setup.poll()
    assert writer.told.total == 0


def test_end_when_something_is_unconfirmed_then_asked_at_once_and_waited_for() -> None:
    writer = Writer(lifetime_ms=0)
    writer.write()
    writer.confirm()
    client, setup = writer.setup.client, writer.setup
    writer.write()
    assert writer.markers == []
    assert client.confirmation_wait_ms(setup.now_ms) == 30_000, "request.timeout.ms"
    setup.poll()
    assert len(writer.markers) == 1
    writer.pass_ms(10_000)
    assert client.confirmation_wait_ms(setup.now_ms) == 20_000
    writer.confirm()
    assert client.confirmation_wait_ms(setup.now_ms) == 0
    client.close()
    assert writer.told.total == 0


def test_end_when_the_broker_has_had_its_time_then_nothing_is_waited_for() -> None:
    """What was left of the time fell below 0, which is no 0: close() turned in a circle until the connection was idle.
    """
    writer = Writer(lifetime_ms=0)
    writer.write()
    client, setup = writer.setup.client, writer.setup
    assert client.confirmation_wait_ms(setup.now_ms) == 30_000
    for late_ms in (30_000, 30_001, 90_000):
        assert client.confirmation_wait_ms(setup.now_ms + late_ms) == 0


def test_end_when_nothing_was_confirmed_then_told() -> None:
    writer = Writer(lifetime_ms=0)
    writer.write(4)
    writer.setup.client.close()
    assert writer.told.total == 4


def test_marker_when_it_is_behind_seconds_of_requests_then_nothing_ends_the_connection() -> None:
    """They would be lost, for the sake of a question how far they are."""
    writer = Writer(lifetime_ms=0)
    writer.write()
    writer.pass_ms(200_000)
    assert "1" not in writer.setup.selector.closed


def test_session_when_the_peer_has_fallen_silent_then_the_connection_is_given_up_behind_its_end() -> None:
    """It was kept for connections.max.idle.ms, nine minutes: nothing was sent on it, so nothing was late."""
    writer = Writer()
    writer.write(7)
    writer.pass_ms(LIFETIME_MS)
    assert len(writer.markers) == 1
    writer.pass_ms(30_000)  # request.timeout.ms
    assert "1" not in writer.setup.selector.closed, "an answer may be on its way"
    writer.pass_ms(1)
    assert "1" in writer.setup.selector.closed
    assert writer.told.total == 7
    (error,) = (text for text in writer.setup.metadata.last_errors().values() if "no answer" in text)
    assert "ms (until request.timeout.ms after its session had ended, connections.max.reauth.ms of the bro" in error


def test_marker_when_the_broker_names_no_versions_of_it_then_it_goes_in_the_one_that_all_answer() -> None:
    writer = Writer(lifetime_ms=0)
    versions = writer.setup.client.api_versions.get(1)
    assert versions is not None
    versions.ranges.pop(int(ApiKeys.API_VERSIONS))
    versions.usable.clear()
    writer.write()
    assert [marker.version for marker in writer.markers] == [0]


def test_throttle_when_the_broker_asks_for_it_then_markers_wait() -> None:
    writer = Writer(lifetime_ms=0)
    writer.setup.client._states.throttle(1, writer.setup.now_ms + 1)
    writer.pass_ms(1)
    writer.write()
    writer.confirm()
    writer.write()
    writer.setup.client._states.throttle(1, writer.setup.now_ms + 5_000)
    writer.pass_ms(MARKER_INTERVAL_MS)
    assert writer.markers == []
    writer.setup.selector.timeouts.clear()
    writer.setup.poll(60_000)
    assert writer.setup.selector.timeouts == [4_000]


def test_lines_when_connections_end_again_and_again_then_few_are_written(caplog: pytest.LogCaptureFixture) -> None:
    told = UnconfirmedRecords()
    for _ in range(100):
        told.on_end(Writer(0).node, 3, 1_000)
    told.on_end(Writer(0).node, 1, 60_000)
    assert told.total == 301
    assert [line for line in caplog.messages if "more connections" in line] == [
        "95 more connections ended so, with 285 records that may be gone"]
    assert len([line for line in caplog.messages if "may be gone: they" in line]) == 6


@pytest.mark.parametrize("lifetime_ms", [0, LIFETIME_MS])
def test_pace_when_it_is_never_confirmed_then_only_a_session_holds_back(lifetime_ms: int) -> None:
    writes = UnconfirmedWrites(lifetime_ms, LIFETIME_MS if lifetime_ms else NEVER_MS)
    assert writes.may_write(0)
    writes.wrote(1, 0)
    assert writes.may_write(0) == (lifetime_ms == 0)
    assert writes.unconfirmed == Position(1, 1)
    writes.begin_session(60_000, 60_000)
    writes.on_marker_sent(0)
    writes.on_answer(writes.position, 10, is_marker=True)
    assert writes.unconfirmed == Position(0, 0)
    assert writes.may_write(59_980)
    assert not writes.may_write(59_981)


def test_pace_when_a_pause_ruled_out_all_of_a_session_then_the_next_one_begins_anew() -> None:
    """One answer that took 2 s stopped a connection with sessions of 3 s for ever: the pace was kept beyond renewals,
    nothing could be written by it, and without a write nothing was measured anew."""
    writes = UnconfirmedWrites(LIFETIME_MS, LIFETIME_MS)
    writes.wrote(1, 0)
    writes.on_marker_sent(0)
    writes.on_answer(writes.position, 2_000, is_marker=True)
    assert not writes.may_write(2_000)
    writes.begin_session(LIFETIME_MS, 2 * LIFETIME_MS)
    assert writes.may_write(LIFETIME_MS)
    writes.wrote(1, LIFETIME_MS)
    assert not writes.may_write(LIFETIME_MS), "the first one shows how fast the broker is"


def test_request_when_it_is_late_behind_a_marker_then_its_own_wait_is_told() -> None:
    """The marker's was, which is older: 7288 ms, with a request.timeout.ms of 5 seconds."""
    writer = Writer(lifetime_ms=0)
    writer.write()
    writer.pass_ms(2_000)
    assert len(writer.markers) == 1, "it waits for its answer"
    writer.pass_ms(500)
    ended: list[ClientResponse] = []
    writer.setup.client.send(ClientRequest(
        1, ApiKeys.PRODUCE, lambda version: BODY, timeout_ms=100, max_version=9, on_complete=ended.append),
        writer.setup.now_ms)
    writer.setup.selector.answer = lambda _request: None
    writer.pass_ms(101)
    assert "no answer within 101 ms (request.timeout.ms)" in str(ended[0].error)
