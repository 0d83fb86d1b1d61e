"""Sessions that the broker limits (KIP-368): renewed in time, between requests and never among them; and who connects
while there are no credentials: nobody."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.client.connection_states import ConnectionState
from pyproducer.client.credentials import Credentials
from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.errors import AuthenticationError, DisconnectedError, IllegalStateError
from pyproducer.network.channel import ChannelPhase
from pyproducer.protocol.apis import ApiKeys
from tests.unit.client.scripted_cluster import Setup, topic_row

LIFETIME_MS = 10_000
DRAWN = {0: 8_500, 2**30: 9_000, 2**31 - 1: 9_499}  # what is drawn, and after how long the session is renewed


class Session:
    """A client with a connection to node 1, whose session ends."""

    def __init__(self, drawn: int = 0, **options: Any) -> None:
        self.setup = Setup(next_random=lambda: drawn, **options)
        self.setup.cluster.topics["t"] = topic_row("t", 1)
        self.setup.bring_up("t")
        self.setup.selector.lifetime_ms = LIFETIME_MS
        self.node = self.setup.make_ready(1)
        self.ended: list[ClientResponse] = []

    def send(self, *, expect_response: bool = True) -> None:
        self.setup.client.send(ClientRequest(
            1, ApiKeys.FIND_COORDINATOR, lambda version: {"key_type": 0, "coordinator_keys": ["g"]},
            expect_response=expect_response, timeout_ms=30_000, on_complete=self.ended.append), self.setup.now_ms)

    def answer(self, number: int = 0) -> None:
        request = self.setup.selector.asked(ApiKeys.FIND_COORDINATOR)[number]
        self.setup.selector.respond(request, {"throttle_time_ms": 0, "coordinators": []})
        self.setup.poll()

    @property
    def renewing(self) -> list[str]:
        return self.setup.selector.reauthenticating

    def is_ready(self) -> bool:
        return self.setup.client.ready(self.node, self.setup.now_ms)


@pytest.mark.parametrize(("drawn", "due_ms"), DRAWN.items())
def test_session_when_it_is_due_then_nothing_is_sent_and_the_next_poll_renews_it(drawn: int, due_ms: int) -> None:
    session = Session(drawn)
    setup = session.setup
    setup.clock.advance(due_ms - 1)
    assert session.is_ready()
    setup.clock.advance(1)
    assert not session.is_ready()
    with pytest.raises(IllegalStateError, match="not ready"):
        session.send()
    assert setup.client.poll_delay_ms(session.node, setup.now_ms) == NEVER_MS, "an event will tell"
    setup.poll()
    assert session.renewing == ["1"]
    assert not setup.client.has_nothing_under_way()
    setup.poll(times=3)
    assert session.renewing == ["1"], "once"
    assert not session.is_ready()
    session.renewing.clear()  # the broker took the proof
    setup.poll()
    assert session.is_ready()
    setup.clock.advance(due_ms)
    setup.poll()
    assert session.renewing == ["1"], "and again in the next session"


def test_session_when_it_is_due_before_the_versions_are_known_then_it_is_renewed_once_they_are() -> None:
    """Nothing was sent to that broker, and nobody connected anew, until metadata.max.age.ms was over."""
    setup = Setup(next_random=lambda: 0)
    setup.cluster.topics["t"] = topic_row("t", 1)
    setup.bring_up("t")
    setup.selector.lifetime_ms = LIFETIME_MS
    answer = setup.cluster.api_versions
    setup.cluster.api_versions = lambda _version: None  # type: ignore[assignment,method-assign,return-value]
    node = setup.metadata.cluster.nodes[1]
    setup.client.ready(node, setup.now_ms)
    setup.poll(times=3)
    setup.clock.advance(DRAWN[0])
    setup.poll()  # it is due, and no proof may be sent yet
    request = setup.selector.asked(ApiKeys.API_VERSIONS)[-1]
    setup.selector.respond(request, answer(request.version))
    setup.poll()
    assert not setup.client.ready(node, setup.now_ms)
    setup.poll()
    assert setup.selector.reauthenticating == ["1"]


def test_session_when_it_is_shorter_than_brokers_let_it_be_renewed_then_nothing_is_sent_from_its_end_on() -> None:
    """An issuer was away, the last token had less than a second left, and each record failed at once.

    The new proof came 0.3 s after the one before. Apache Kafka answers that with ILLEGAL_SASL_STATE, which was taken
    for a listener without SASL: a refusal, and no passing trouble.

    Then nothing was sent from its beginning on; and with a broker whose sessions are all that short, nothing ever.
    """
    session = Session()
    setup = session.setup
    setup.selector.lifetime_ms = 300
    setup.clock.advance(DRAWN[0])
    setup.poll()
    session.renewing.clear()
    setup.poll()  # renewed, for 300 ms
    assert session.is_ready()
    setup.clock.advance(255)
    assert not session.is_ready()
    setup.selector.timeouts.clear()
    setup.poll(30_000)
    assert setup.selector.timeouts == [745], "no event will tell when it may be renewed"
    setup.clock.advance(744)
    setup.poll()
    assert session.renewing == []
    setup.clock.advance(1)
    setup.poll()
    assert session.renewing == ["1"]


def test_session_when_five_requests_are_in_flight_then_all_answers_come_first() -> None:
    """franz-go's audit found answers of the two kinds mixed up where both were on the way."""
    session = Session()
    for _ in range(5):
        session.send()
    session.setup.clock.advance(8_500)
    for number in range(5):
        session.setup.poll()
        assert session.renewing == []
        session.answer(number)
    session.setup.poll()
    assert session.renewing == ["1"]
    assert [response.disconnected for response in session.ended] == [False] * 5
    assert len(session.setup.selector.asked(ApiKeys.FIND_COORDINATOR)) == 5


def test_session_when_a_request_without_an_answer_is_being_written_then_its_bytes_come_first() -> None:
    session = Session()
    session.setup.selector.writes_at_once = False
    session.send(expect_response=False)
    session.setup.clock.advance(8_500)
    session.setup.poll(times=3)
    assert session.renewing == []
    session.setup.selector.writes_at_once = True
    session.setup.selector.finish_writes()
    session.setup.poll(times=3)
    assert session.renewing == ["1"]
    assert len(session.ended) == 1


def test_session_when_bytes_have_come_then_the_poll_deals_with_them_first() -> None:
    session = Session()
    session.setup.selector.has_bytes_to_read = True
    session.setup.clock.advance(8_500)
    session.setup.poll()
    assert session.renewing == []
    session.setup.selector.has_bytes_to_read = False
    session.setup.poll()
    assert session.renewing == ["1"]


def test_session_when_the_broker_throttles_then_it_waits() -> None:
    session = Session()
    session.setup.client._states.throttle(1, session.setup.now_ms + 9_000)
    session.setup.clock.advance(8_999)
    session.setup.poll()
    assert session.renewing == []
    session.setup.clock.advance(1)
    session.setup.poll()
    assert session.renewing == ["1"]


def test_session_when_the_broker_says_nothing_then_the_setup_timeout_ends_the_connection() -> None:
    session = Session()
    setup = session.setup
    setup.clock.advance(8_500)
    setup.poll()
    setup.poll(60_000)
    assert setup.selector.timeouts[-1] == 10_001
    setup.clock.advance(10_001)
    setup.poll()
    assert "1" in setup.selector.closed
    assert setup.client.connection_failed(session.node)
    assert "within 10000 ms" in str(setup.error_of(session.node))


@pytest.mark.parametrize(("phase", "error"), [
    (ChannelPhase.AUTHENTICATION_FAILED, AuthenticationError("the token has expired")),
    (ChannelPhase.AUTHENTICATING, DisconnectedError("closed"))])
def test_session_when_it_is_not_renewed_then_told_as_at_the_first_time(
        phase: ChannelPhase, error: Exception) -> None:
    session = Session()
    setup = session.setup
    setup.clock.advance(8_500)
    setup.poll()
    setup.selector.end("1", phase, error)
    setup.poll()
    told = setup.error_of(session.node)
    assert isinstance(told, type(error))
    assert f"host-1:9092: authentication: {error}" in str(told) or "session was being renewed" in str(told)
    assert [refusal.node_id for refusal in setup.metadata.take_refusals()] == (
        [1] if isinstance(error, AuthenticationError) else [])
    setup.clock.advance(1_000)
    setup.selector.reauthenticating.clear()
    setup.make_ready(1)
    assert setup.client._states.by_node[1].session_due_ms == setup.now_ms + 8_500


def test_session_when_it_has_no_end_then_no_chance_is_drawn_and_nothing_is_due() -> None:
    setup = Setup(next_random=lambda: 0)
    setup.cluster.topics["t"] = topic_row("t", 1)
    setup.bring_up("t")
    setup.make_ready(1)
    assert setup.client._states.session_due_ms == NEVER_MS
    assert setup.client._states.by_node[1].state is ConnectionState.READY


class LateLogin:
    """A login that fetches its credentials."""

    mechanism = "OAUTHBEARER"

    def __init__(self) -> None:
        self.is_ready = False
        self.error: Exception | None = None
        self.started: list[Any] = []
        self.is_closed = False
        self.can_start = True
        self.hosts_ready: set[str] | None = None  # None: all

    def start(self, on_change: Any) -> bool:
        self.started.append(on_change)
        return self.can_start

    def is_ready_for(self, host: str) -> bool:
        return self.is_ready and (self.hosts_ready is None or host in self.hosts_ready)

    def new_client(self, host: str) -> Any:
        raise AssertionError("the selector is a mock")

    def close(self) -> None:
        self.is_closed = True


def waiting() -> tuple[Setup, LateLogin, Credentials]:
    login = LateLogin()
    made: list[Credentials] = []
    setup = Setup(has_credentials=lambda host: made[0].are_there(host))
    made.append(Credentials(login, setup.metadata, setup.wakeup.wakeup))
    setup.cluster.topics["t"] = topic_row("t", 1)
    setup.metadata.add("t", setup.now_ms)
    return setup, login, made[0]


def test_credentials_when_they_come_late_then_connections_wait_and_then_go_on() -> None:
    setup, login, credentials = waiting()
    assert login.started == [], "to make a client touches no network"
    setup.poll(60_000, times=3)
    assert login.started == [setup.wakeup.wakeup]
    assert setup.selector.connects == []
    assert max(setup.selector.timeouts) <= 50, "who is not told looks himself"
    login.is_ready = True
    setup.bring_up("t")
    assert setup.metadata.last_errors() == {}
    credentials.close()
    assert login.is_closed


def test_credentials_when_they_cannot_be_fetched_then_why_is_told_and_nobody_fails() -> None:
    setup, login, _ = waiting()
    login.error = OSError("the token endpoint does not answer")
    setup.poll(times=3)
    assert setup.metadata.last_errors() == {"OAUTHBEARER": "login: the token endpoint does not answer"}
    assert "login: the token endpoint does not answer" in setup.metadata.describe_failure("t")
    assert setup.metadata.fatal_count == 0
    login.is_ready, login.error = True, None
    setup.bring_up("t")
    assert setup.metadata.last_errors() == {}


def test_credentials_when_their_source_refuses_us_then_who_waits_fails_once_for_each_refusal() -> None:
    setup, login, _ = waiting()
    login.error = AuthenticationError("the token endpoint does not know this client")
    setup.poll(times=3)
    refusals = setup.metadata.take_refusals()
    assert [(refusal.node_id, refusal.error) for refusal in refusals] == [(None, login.error)]
    assert setup.metadata.fatal_count == 1
    login.error = AuthenticationError("still not")
    setup.poll(times=3)
    assert setup.metadata.fatal_count == 2


def test_credentials_when_what_a_host_takes_is_not_there_then_only_its_connection_waits() -> None:
    """A ticket for a broker is fetched from a KDC beside the sender."""
    setup, login, _ = waiting()
    login.is_ready, login.hosts_ready = True, set()
    setup.poll(60_000, times=3)
    assert setup.selector.connects == []
    assert max(setup.selector.timeouts) <= 50
    login.hosts_ready = None
    setup.bring_up("t")
    node = setup.make_ready(1)
    login.hosts_ready = {"another"}
    assert setup.client.ready(node, setup.now_ms)


def test_credentials_when_a_node_is_chosen_then_they_are_asked_for_it_alone() -> None:
    """Each is a ticket from a KDC, and a cluster may have hundreds of brokers."""
    asked: list[str] = []
    setup = Setup(has_credentials=lambda host: not asked.append(host), next_random=lambda: 0)  # type: ignore[func-returns-value]
    setup.cluster.topics["t"] = topic_row("t", 1)
    setup.bring_up("t")
    assert set(asked) == {"boot-1"}
    setup.make_ready(2)
    setup.clock.advance(400_000)
    setup.poll(times=3)  # metadata, of the one that is connected
    assert set(asked) == {"boot-1", "host-2"}


def test_credentials_when_no_thread_can_be_had_then_it_is_tried_again() -> None:
    """It was told once, and never tried again."""
    setup, login, _ = waiting()
    login.can_start = False
    setup.poll(times=3)
    tried = len(login.started)
    assert tried >= 3
    login.can_start = True
    setup.poll(times=3)
    assert len(login.started) == tried + 1


def test_session_when_there_are_no_credentials_to_renew_it_with_then_it_waits_for_them() -> None:
    """The connection was closed, and with it the chance to go on as soon as the next token came."""
    setup, login, _ = waiting()
    login.is_ready = True
    setup.bring_up("t")
    setup.selector.lifetime_ms = LIFETIME_MS
    node = setup.make_ready(1)
    setup.clock.advance(LIFETIME_MS)
    login.is_ready = False
    setup.selector.timeouts.clear()
    setup.poll(60_000, times=3)
    assert setup.selector.reauthenticating == []
    assert max(setup.selector.timeouts) <= 50
    assert not setup.client.ready(node, setup.now_ms)
    login.is_ready = True
    setup.poll()
    assert "1" in setup.selector.reauthenticating


def test_credentials_when_they_end_then_connections_that_are_there_go_on_and_new_ones_wait() -> None:
    setup, login, _ = waiting()
    login.is_ready = True
    setup.bring_up("t")
    node = setup.make_ready(1)
    login.is_ready = False
    assert setup.client.ready(node, setup.now_ms)
    setup.selector.end("1")
    setup.poll()
    setup.clock.advance(5_000)
    connects = len(setup.selector.connects)
    assert not setup.client.ready(node, setup.now_ms)
    assert len(setup.selector.connects) == connects
    assert setup.client.poll_delay_ms(node, setup.now_ms) == 50
