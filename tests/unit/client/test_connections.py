"""How connections come up and how they fail, and what the user is told."""

import logging
import socket
import ssl
import threading
from typing import Any

import pytest

from pyproducer.client.request import ClientRequest
from pyproducer.client.resolver import ResolvedAddress
from pyproducer.common.clock import SystemClock
from pyproducer.common.cluster import Node
from pyproducer.common.errors import AuthenticationError, DisconnectedError, InvalidReceiveError
from pyproducer.network.channel import ChannelPhase
from pyproducer.observe.registry import Registry
from pyproducer.protocol.apis import ApiKeys
from tests.support.patience import GIVE_UP_S
from tests.unit.client.mock_selector import HANG_UP
from tests.unit.client.scripted_cluster import Setup, resolve_test_name, topic_row

ONE = (("boot-1", 9092),)
WHERE = "boot-1:9092"


def last_error(setup: Setup) -> str:
    return setup.metadata.last_errors().get(WHERE, "")


def test_start_when_all_is_well_then_version_negotiation_comes_first_on_each_connection():
    setup = Setup(bootstrap=ONE)
    setup.cluster.topics["t"] = topic_row("t", 1, 2)
    setup.bring_up("t")
    setup.make_ready(2)
    assert [(request.connection_id, request.api_key) for request in setup.selector.requests] == [
        ("-1", ApiKeys.API_VERSIONS), ("-1", ApiKeys.METADATA), ("2", ApiKeys.API_VERSIONS)]
    assert setup.selector.connects[0].server_hostname == "boot-1"
    assert setup.metadata.last_errors() == {}


def test_close_when_connections_are_up_then_they_are_counted_as_closed():
    """connection-count grew with each wire that was made anew, after a freeze or a turn that ended half way."""
    registry = Registry()
    setup = Setup(bootstrap=ONE, registry=registry)
    setup.cluster.topics["t"] = topic_row("t", 1, 2)
    setup.bring_up("t")
    setup.make_ready(2)
    setup.client.close()
    setup.client.close()
    rows = registry.nodes().values()
    assert sum(row.connection_creation_total for row in rows) == 2
    assert sum(row.connection_close_total for row in rows) == 2
    assert sum(row.connection_failed_total for row in rows) == 0


def test_close_when_a_connection_is_being_built_then_it_is_not_counted_for_it_never_was_one():
    registry = Registry()
    setup = Setup(bootstrap=ONE, registry=registry)
    setup.selector.accepts = lambda connection_id: None
    setup.poll()
    assert len(setup.selector.connects) == 1
    setup.client.close()
    row = registry.node(-1)
    assert (row.connection_creation_total, row.connection_close_total) == (0, 0)


@pytest.mark.parametrize("how", ["by the broker", "by us", "all"])
def test_certificate_when_its_connection_has_ended_then_it_is_of_no_broker_any_more(how: str):
    """The bootstrap address is used once: the end of a certificate that was long replaced was told for ever."""
    registry = Registry()
    setup = Setup(bootstrap=ONE, registry=registry)
    setup.cluster.topics["t"] = topic_row("t", 1, 2)
    setup.selector.certificates_end_s = {"-1": 100, "2": 200}
    setup.bring_up("t")
    setup.make_ready(2)
    assert [registry.node(node_id).certificate_ends_s for node_id in (-1, 2)] == [100, 200]
    if how == "all":
        setup.client.close()
    elif how == "by us":
        setup.disconnect(-1)
    else:
        setup.selector.end("-1")
        setup.poll()
    assert [registry.node(node_id).certificate_ends_s for node_id in (-1, 2)] == [0, 0 if how == "all" else 200]
    if how != "all":
        setup.selector.certificates_end_s["2"] = 300
        setup.disconnect(2)
        setup.clock.advance(1000)
        setup.make_ready(2)
        assert registry.node(2).certificate_ends_s == 300


def test_quickest_answer_when_a_broker_is_connected_again_then_it_is_looked_for_anew():
    """A broker that had moved far away was taken for a slow one for as long as the producer lived."""
    registry = Registry()
    setup = Setup(bootstrap=ONE, registry=registry)
    setup.cluster.topics["t"] = topic_row("t", 1, 2)
    setup.bring_up("t")
    node = setup.make_ready(2)
    assert registry.node(2).floor_ms == 0
    setup.disconnect(2)
    setup.clock.advance(1000)
    setup.selector.answer = lambda _request: None
    setup.client.ready(node, setup.now_ms)
    setup.poll(times=2)
    asked = setup.selector.requests[-1]
    assert (asked.connection_id, asked.api_key) == ("2", ApiKeys.API_VERSIONS)
    setup.clock.advance(100)
    setup.selector.respond(asked, setup.cluster.api_versions(asked.version))
    setup.poll()
    assert setup.client.is_ready(2, setup.now_ms)
    assert registry.node(2).floor_ms == 100
    assert registry.node(-1).floor_ms == 0


def test_dns_when_the_name_does_not_resolve_then_said_and_tried_again_after_the_backoff():
    asked = []

    def resolve(host: str, port: int) -> Any:
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    setup = Setup(bootstrap=ONE, resolve=resolve)
    setup.poll()
    assert last_error(setup) == "DNS: the host name does not resolve (Name or service not known)"
    setup.poll(times=3)
    assert len(asked) == 1
    setup.clock.advance(100)
    setup.poll()
    assert len(asked) == 2
    assert "DNS" in setup.metadata.describe_failure("t")


def test_dns_when_slow_then_the_backoff_and_the_setup_timeout_count_from_its_answer():
    def resolve(host: str, port: int) -> Any:
        setup.clock.advance(20_000)
        return [ResolvedAddress(2, ("10.0.0.1", port))]

    setup = Setup(bootstrap=ONE, resolve=resolve)
    setup.selector.accepts = lambda connection_id: None
    setup.poll()
    assert setup.selector.closed == []
    assert setup.selector.connects[0].now_ms == setup.now_ms


def with_slow_node(**options: Any) -> Setup:
    """Bootstrapped and connected to node 1, while the name of node 2 is being resolved."""
    setup = Setup(bootstrap=ONE, **options)
    setup.cluster.topics["t"] = topic_row("t", 1, 2)
    setup.bring_up("t")
    setup.make_ready(1)
    setup.threads.held_hosts.add("host-2")
    assert not setup.client.ready(setup.metadata.cluster.nodes[2], setup.now_ms)
    assert setup.threads.waiting_hosts() == ["host-2"]
    return setup


def test_dns_when_a_name_is_being_resolved_then_all_others_are_served_and_its_end_connects_it():
    """A name that took 8 s to resolve stopped the sender, and with it every broker, for these 8 s."""
    setup = with_slow_node()
    slow = setup.metadata.cluster.nodes[2]
    ended = []
    for _ in range(3):
        setup.client.send(ClientRequest(1, ApiKeys.FIND_COORDINATOR, lambda version: {
            "key_type": 0, "coordinator_keys": ["g"]}, timeout_ms=5_000, on_complete=ended.append), setup.now_ms)
        setup.selector.respond(setup.selector.requests[-1], {"throttle_time_ms": 0, "coordinators": []})
        setup.poll()
        assert not setup.client.ready(slow, setup.now_ms)
    assert [response.disconnected for response in ended] == [False] * 3
    assert not setup.client.connection_failed(slow)
    setup.wakeup.count = 0
    setup.threads.end_lookup("host-2")
    assert setup.wakeup.count == 1
    setup.poll()
    assert setup.selector.connects[-1].connection_id == "2"
    setup.make_ready(2)
    assert setup.threads.names.count("kafka-producer-resolver | host-2") == 1


def test_dns_when_a_name_is_being_resolved_then_poll_sleeps_no_longer_than_the_setup_timeout():
    setup = with_slow_node()
    setup.poll(60_000)
    assert setup.selector.timeouts[-1] == 10_001


def test_dns_when_the_name_is_resolved_then_the_connection_has_its_full_setup_timeout():
    setup = with_slow_node()
    setup.selector.accepts = lambda connection_id: None
    setup.clock.advance(9_000)
    setup.threads.end_lookup("host-2")
    setup.poll()
    assert setup.selector.connects[-1].now_ms == setup.now_ms
    setup.clock.advance(10_000)
    setup.poll()
    assert setup.selector.closed == []
    setup.clock.advance(1)
    setup.poll()
    assert setup.selector.closed == ["2"]


def test_dns_when_the_lookup_takes_longer_than_the_setup_timeout_then_a_failed_attempt_that_says_so():
    setup = with_slow_node()
    slow = setup.metadata.cluster.nodes[2]
    setup.clock.advance(10_001)
    setup.poll()
    words = ("DNS: the host name was not resolved within 10000 ms (socket.connection.setup.timeout.ms); the name "
             "servers of this machine are slow or do not answer")
    assert setup.metadata.last_errors()["host-2:9092"] == words
    assert words in setup.metadata.describe_failure("t")
    assert setup.client.connection_failed(slow)
    assert str(setup.error_of(slow)) == f"host-2:9092: {words}"
    assert setup.client.poll_delay_ms(slow, setup.now_ms) == 50
    setup.clock.advance(50)
    assert not setup.client.ready(slow, setup.now_ms)
    assert setup.threads.names.count("kafka-producer-resolver | host-2") == 1, "the lookup that lasts is joined"
    setup.clock.advance(20_001)
    setup.poll()
    assert "within 20000 ms" in setup.metadata.last_errors()["host-2:9092"]


@pytest.mark.parametrize(("later_ms", "lookups"), [(1_000, 1), (30_001, 2)])
def test_dns_when_the_answer_comes_after_its_attempt_then_the_next_one_uses_it_while_it_is_fresh(later_ms, lookups):
    setup = with_slow_node()
    setup.clock.advance(10_001)
    setup.poll()
    connects = len(setup.selector.connects)
    setup.threads.end_lookup("host-2")
    setup.poll()
    assert len(setup.selector.connects) == connects, "nobody wants to connect now"
    setup.clock.advance(later_ms)
    setup.poll(times=3)  # metadata may be due
    setup.make_ready(2)
    assert setup.threads.names.count("kafka-producer-resolver | host-2") == lookups


def test_dns_when_the_lookup_fails_after_its_attempt_then_the_next_one_asks_again():
    failures: list[OSError] = []

    def resolve(host: str, port: int) -> Any:
        if failures:
            raise failures.pop()
        return resolve_test_name(host, port)

    setup = with_slow_node(resolve=resolve)
    setup.clock.advance(10_001)
    setup.poll()
    failures.append(socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"))
    setup.threads.end_lookup("host-2")
    setup.clock.advance(1_000)
    setup.poll(times=3)
    setup.make_ready(2)
    assert setup.threads.names.count("kafka-producer-resolver | host-2") == 2


@pytest.mark.parametrize("is_renewed", [False, True])
def test_dns_when_the_wire_is_renewed_or_the_client_disconnects_then_the_end_of_a_lookup_connects_nothing(
        *, is_renewed: bool):
    setup = with_slow_node()
    if is_renewed:
        setup.wire.renew()
    else:
        setup.disconnect(2)
    connects = len(setup.selector.connects)
    setup.threads.end_lookup("host-2")
    setup.poll()
    assert "2" not in {connect.connection_id for connect in setup.selector.connects[connects:]}


def test_dns_when_the_wire_is_renewed_during_a_lookup_then_the_next_client_joins_it():
    setup = with_slow_node()
    setup.wire.renew()
    assert not setup.client.ready(setup.metadata.cluster.nodes[2], setup.now_ms)
    setup.threads.end_lookup("host-2")
    setup.poll()
    assert "2" in {connect.connection_id for connect in setup.selector.connects}
    assert setup.threads.names.count("kafka-producer-resolver | host-2") == 1


def test_dns_when_the_node_has_another_name_by_the_next_attempt_then_the_answer_to_the_old_one_is_dropped():
    setup = with_slow_node()
    setup.clock.advance(10_001)
    setup.poll()
    setup.threads.end_lookup("host-2")
    setup.clock.advance(50)
    moved = Node(2, "host-9", 9092)
    assert not setup.client.ready(moved, setup.now_ms)
    assert setup.selector.connects[-1].address == ("10.0.0.9", 9092)


def test_dns_when_brokers_share_a_name_then_each_is_connected_at_its_own_port():
    setup = Setup(bootstrap=(("boot-1", 9092), ("boot-1", 9093)))
    setup.threads.held_hosts.add("boot-1")
    for node in setup.metadata.nodes_to_ask():
        assert not setup.client.ready(node, setup.now_ms)
    setup.threads.end_lookup("boot-1")
    setup.poll()
    assert setup.threads.names == ["kafka-producer-resolver | boot-1"]
    assert [connect.address for connect in setup.selector.connects] == [("10.0.0.1", 9092), ("10.0.0.1", 9093)]


@pytest.mark.parametrize(("error", "words"), [
    (ConnectionRefusedError(111, "Connection refused"),
     "connect: Connection refused at 10.0.0.1 (nothing listens there: wrong port, or the broker is not running)"),
    (OSError(113, "No route to host"), "connect: No route to host at 10.0.0.1 (no route to that host)"),
    (DisconnectedError("gone"), "connect: could not be connected at 10.0.0.1: gone"),
])
def test_connect_when_refused_then_said(error, words):
    setup = Setup(bootstrap=ONE)
    setup.selector.accepts = lambda connection_id: error
    setup.poll(times=2)
    assert last_error(setup) == words


def test_connect_when_the_selector_raises_at_once_then_handled_like_later():
    setup = Setup(bootstrap=ONE)

    def connect(*args: Any, **options: Any) -> None:
        raise OSError(101, "Network is unreachable")

    setup.selector.connect = connect  # type: ignore[method-assign]
    setup.poll()
    assert last_error(setup).startswith("connect: Network is unreachable at 10.0.0.1")
    assert isinstance(setup.error_of(setup.metadata.nodes_to_ask()[0]), DisconnectedError)


def test_connect_when_nobody_answers_then_ended_after_the_setup_timeout_which_grows():
    setup = Setup(bootstrap=ONE)
    setup.selector.accepts = lambda connection_id: None
    setup.selector.sleeps = True
    started_ms = setup.now_ms
    while not setup.selector.closed:
        setup.poll(60_000)
    assert setup.now_ms - started_ms <= 10_000 + 101
    assert last_error(setup) == (
        "connect: no connection at 10.0.0.1 within 10000 ms (socket.connection.setup.timeout.ms)")
    while len(setup.selector.closed) < 2:
        setup.poll(60_000)
    assert "within 20000 ms" in last_error(setup)


def test_handshake_when_it_never_ends_then_the_setup_timeout_ends_it():
    setup = Setup(bootstrap=ONE)
    setup.selector.handshake_done = False
    setup.selector.sleeps = True
    while not setup.selector.closed:
        setup.poll(60_000)
    assert last_error(setup).startswith("authentication: no end of the TLS handshake or authentication within 10000 ms")
    assert setup.selector.requests == []


def test_handshake_when_it_ends_late_then_version_negotiation_follows():
    setup = Setup(bootstrap=ONE)
    setup.selector.handshake_done = False
    setup.poll(times=3)
    assert setup.selector.requests == []
    setup.selector.handshake_done = True
    setup.poll()
    assert setup.selector.requests[0].api_key is ApiKeys.API_VERSIONS


def test_tls_when_the_certificate_is_refused_then_fatal_for_callers_and_retried_after_the_backoff():
    setup = Setup(bootstrap=ONE)
    setup.selector.handshake_done = False
    setup.poll()
    cause = AuthenticationError("TLS handshake failed: certificate verify failed: unable to get local issuer")
    setup.selector.end("-1", ChannelPhase.AUTHENTICATION_FAILED, cause)
    setup.poll()
    assert last_error(setup).startswith("TLS: TLS handshake failed: certificate verify failed")
    with pytest.raises(AuthenticationError, match=r"boot-1:9092: TLS: .*certificate verify failed"):
        setup.metadata.await_update(setup.metadata.version(), 1000, 0)
    assert isinstance(setup.error_of(setup.metadata.nodes_to_ask()[0]), AuthenticationError)
    setup.clock.advance(1000)
    setup.poll()
    assert len(setup.selector.connects) == 2


def test_tls_when_the_error_is_of_the_ssl_module_then_an_authentication_error_all_the_same():
    setup = Setup(bootstrap=ONE)
    setup.poll()
    setup.selector.end("-1", ChannelPhase.AUTHENTICATION_FAILED, ssl.SSLError(1, "handshake failure"))
    setup.poll()
    with pytest.raises(AuthenticationError, match="TLS"):
        setup.metadata.await_update(0, 1000, 0)


def test_tls_when_the_peer_hangs_up_during_the_handshake_then_not_fatal():
    setup = Setup(bootstrap=ONE)
    setup.selector.handshake_done = False
    setup.poll()
    setup.selector.end("-1", ChannelPhase.AUTHENTICATING, HANG_UP)
    setup.poll()
    assert last_error(setup).startswith("authentication: the peer closed the connection during the TLS handshake")
    assert not setup.metadata.await_update(0, 0, 0)


def test_fatal_error_when_a_caller_waits_then_it_is_told_by_the_sender_thread():
    setup = Setup(bootstrap=ONE)
    setup.metadata._clock = SystemClock()
    setup.poll()
    got: list[BaseException] = []

    def wait() -> None:
        try:
            setup.metadata.await_update(0, 20_000, 0)
        except AuthenticationError as error:
            got.append(error)

    caller = threading.Thread(target=wait)
    caller.start()
    setup.selector.end("-1", ChannelPhase.AUTHENTICATION_FAILED, AuthenticationError("no"))
    setup.poll()
    caller.join(GIVE_UP_S)
    assert len(got) == 1


def test_version_negotiation_when_the_peer_hangs_up_then_said():
    setup = Setup(bootstrap=ONE)
    setup.selector.answer = lambda request: HANG_UP
    setup.poll(times=3)
    assert last_error(setup).startswith(
        "version negotiation: the peer closed the connection right after the first request (ApiVersions); the listener "
        "may expect TLS or SASL")


@pytest.mark.parametrize("client_id", ["x" * 40_000, "bad\ud800"], ids=lambda text: ascii(text[:5]))
def test_version_negotiation_when_the_first_request_cannot_be_written_then_said_and_the_connection_ends(client_id):
    """Each turn raised, no attempt ended, and nobody was told why nothing came up."""
    setup = Setup(bootstrap=ONE)
    setup.client._connections._client_id = client_id
    setup.poll(times=4)
    assert last_error(setup).startswith("version negotiation: Error writing field 'client_id'")
    assert setup.selector.closed == ["-1"]
    setup.client._connections._client_id = "fine"
    setup.bring_up()


def test_connect_when_the_peer_accepts_and_closes_at_once_then_said():
    setup = Setup(bootstrap=ONE)

    def accept_and_close(connection_id: str) -> bool:
        setup.selector.end(connection_id, error=HANG_UP)
        return True

    setup.selector.accepts = accept_and_close
    setup.poll(times=2)
    assert last_error(setup).startswith("version negotiation: the peer accepted the connection and closed it at once")


def end_with_the_first_answer(setup: Setup) -> None:
    """Let each connection end in the poll in which ApiVersions is answered on it."""
    answer = setup.selector.answer

    def answer_and_end(request: Any) -> Any:
        if request.api_key is ApiKeys.API_VERSIONS:
            setup.selector.end(request.connection_id, error=HANG_UP)
        return answer(request)

    setup.selector.answer = answer_and_end


def test_version_negotiation_when_the_peer_hangs_up_behind_its_refusal_then_only_that_connection_ends():
    """The lower version was asked for on a connection that was gone, and all others were made anew with it."""
    setup = Setup(bootstrap=ONE)
    setup.cluster.topics["t"] = topic_row("t", 1, 2)
    setup.bring_up("t")
    setup.make_ready(1)
    setup.cluster.versions[ApiKeys.API_VERSIONS] = (0, 3)
    end_with_the_first_answer(setup)
    node = setup.metadata.cluster.nodes[2]
    setup.client.ready(node, setup.now_ms)
    setup.poll(times=3)
    assert [(request.connection_id, request.version) for request in setup.selector.asked(ApiKeys.API_VERSIONS)][-1] == (
        "2", 4), "and nothing lower"
    assert setup.client.connection_failed(node)
    assert "version negotiation: the peer closed the connection" in setup.metadata.last_errors()["host-2:9092"]
    assert setup.client.is_ready(1, setup.now_ms) or setup.client._in_flight.count(1)
    setup.selector.answer = setup.cluster
    setup.clock.advance(1_000)
    setup.make_ready(2)


def test_version_negotiation_when_the_peer_hangs_up_behind_its_versions_then_the_next_connection_is_asked():
    setup = Setup(bootstrap=ONE)
    end_with_the_first_answer(setup)
    setup.poll(times=3)
    assert [request.api_key for request in setup.selector.requests] == [ApiKeys.API_VERSIONS]
    assert setup.client.api_version(-1, ApiKeys.PRODUCE) is None
    setup.selector.answer = setup.cluster
    setup.clock.advance(1_000)
    setup.bring_up()


def test_version_negotiation_when_there_is_no_answer_then_ended_after_the_request_timeout():
    setup = Setup(bootstrap=ONE, request_timeout_ms=2000)
    setup.selector.answer = lambda request: None
    setup.selector.sleeps = True
    while not setup.selector.closed:
        setup.poll(60_000)
    assert last_error(setup).startswith(
        "version negotiation: no answer to ApiVersions, the first request, within 2001 ms")


@pytest.mark.parametrize(("protocol", "words"), [
    ("TLS", "version negotiation: the peer speaks TLS, not Kafka: set security.protocol to SSL"),
    ("HTTP", "version negotiation: the peer speaks HTTP, not Kafka: it is a web server or a proxy"),
    ("SSH", "version negotiation: the peer speaks SSH, not Kafka: wrong port"),
])
def test_version_negotiation_when_the_peer_speaks_something_else_then_said(protocol, words):
    setup = Setup(bootstrap=ONE)
    setup.selector.answer = lambda request: InvalidReceiveError(
        f"Request of length 1 is not valid. The peer at x seems to speak {protocol}, not the Kafka protocol.")
    setup.poll(times=3)
    assert last_error(setup).startswith(words)


def test_metadata_when_the_peer_hangs_up_on_the_first_one_then_sasl_is_suspected():
    setup = Setup(bootstrap=ONE)
    setup.selector.answer = lambda request: (
        HANG_UP if request.api_key is ApiKeys.METADATA else setup.cluster(request))
    setup.poll(times=6)
    assert last_error(setup).startswith("metadata: the peer closed the connection when it was asked for metadata")
    assert "SASL" in last_error(setup)


def test_metadata_when_no_version_is_in_common_then_fatal_for_callers():
    from pyproducer.common.errors import UnsupportedVersionError

    setup = Setup(bootstrap=ONE)
    setup.cluster.versions[ApiKeys.METADATA] = (90, 91)
    setup.poll(times=5)
    assert "boot-1:9092 (node -1) supports METADATA in version 90 to 91" in last_error(setup)
    with pytest.raises(UnsupportedVersionError):
        setup.metadata.await_update(0, 1000, 0)


def test_metadata_when_never_answered_then_ended_after_the_request_timeout_and_asked_again():
    setup = Setup(bootstrap=ONE, request_timeout_ms=2000)
    setup.cluster.answers_metadata = False
    setup.selector.sleeps = True
    while not setup.selector.closed:
        setup.poll(60_000)
    assert "no answer within 2001 ms (request.timeout.ms); in flight: METADATA v13" in last_error(setup)
    setup.cluster.answers_metadata = True
    for _ in range(8):
        setup.poll(60_000)
    assert setup.metadata.version() == 1
    assert setup.metadata.last_errors() == {}


def test_failures_when_the_first_connection_to_that_broker_still_answers_then_one_warning_and_it_stays_told(caplog):
    """New connections were refused, say for our certificate has expired. Each answer on the old one, to a bootstrap
    address that is the broker's own, forgot why: a warning a second for ever, and timeouts without a reason.
    """
    caplog.set_level(logging.WARNING)
    setup = Setup(bootstrap=ONE)
    setup.cluster.nodes = [Node(1, *ONE[0])]
    setup.cluster.topics["t"] = topic_row("t", 1)
    setup.bring_up("t")
    setup.selector.accepts = lambda connection_id: (
        ConnectionRefusedError(111, "Connection refused") if connection_id.startswith("1") else None)
    for attempt in range(20):
        setup.client.ready(setup.metadata.cluster.nodes[1], setup.now_ms)
        setup.metadata.add(f"topic {attempt}", setup.now_ms)
        setup.poll(times=3)
        assert "Connection refused" in last_error(setup)
        setup.clock.advance(2_000)
    answered = [request for request in setup.selector.requests if request.api_key is ApiKeys.METADATA]
    assert len(answered) > 5
    assert {request.connection_id for request in answered} == {"-1"}
    assert len(caplog.records) == 1


def test_failures_when_the_same_comes_again_then_one_warning(caplog):
    caplog.set_level(logging.WARNING)
    setup = Setup(bootstrap=ONE)
    setup.selector.accepts = lambda connection_id: ConnectionRefusedError(111, "Connection refused")
    for _ in range(20):
        setup.poll()
        setup.clock.advance(1000)
    assert len(setup.selector.connects) > 5
    assert len(caplog.records) == 1


def test_addresses_when_the_first_is_refused_then_the_next_is_tried():
    addresses = [ResolvedAddress(2, ("10.0.0.1", 9092)), ResolvedAddress(10, ("fe80::2", 9092, 0, 0))]
    setup = Setup(bootstrap=ONE, resolve=lambda host, port: list(addresses))
    setup.selector.accepts = lambda connection_id: (
        True if setup.selector.connects[-1].family == 10 else ConnectionRefusedError(111, "Connection refused"))
    setup.bring_up()
    assert [connect.address[0] for connect in setup.selector.connects] == ["10.0.0.1", "fe80::2"]


def test_poll_when_the_connect_is_under_way_then_it_sleeps_no_longer_than_the_setup_timeout():
    setup = Setup(bootstrap=ONE)
    setup.bring_up()
    setup.selector.accepts = lambda connection_id: None
    setup.client.ready(setup.metadata.cluster.nodes[1], setup.now_ms)
    setup.poll(60_000)
    assert setup.selector.timeouts[-1] == 10_001


def test_restart_of_a_broker_when_it_is_another_release_then_versions_are_asked_again():
    setup = Setup(bootstrap=ONE)
    setup.bring_up()
    node = setup.make_ready(1)
    assert setup.client.api_version(1, ApiKeys.PRODUCE) == 13
    setup.selector.end("1")
    setup.poll()
    assert setup.client.api_version(1, ApiKeys.PRODUCE) is None
    setup.cluster.versions[ApiKeys.PRODUCE] = (0, 11)
    setup.clock.advance(1000)
    setup.poll(times=4)
    assert setup.make_ready(node.node_id)
    assert setup.client.api_version(1, ApiKeys.PRODUCE) == 11


def test_finalized_features_when_told_then_kept():
    setup = Setup(bootstrap=ONE)
    setup.cluster.finalized = {"transaction.version": 2}
    setup.bring_up()
    assert setup.client.api_versions.finalized_features.level_of("transaction.version") == 2


def with_sasl_listener(code: int, mechanisms: list[str], **options: Any) -> Setup:
    """A broker that hangs up at the first request; a listener with SASL does, and so does one that ends."""
    setup = Setup(bootstrap=ONE, **options)
    setup.cluster.versions[ApiKeys.SASL_HANDSHAKE] = (0, 1)

    def answer(request: Any) -> Any:
        if request.api_key is ApiKeys.SASL_HANDSHAKE:
            return {"error_code": code, "mechanisms": mechanisms}
        if request.api_key is ApiKeys.METADATA and not setup.cluster.answers_metadata:
            return DisconnectedError("closed")
        return setup.cluster(request)

    setup.selector.answer = answer
    setup.cluster.answers_metadata = False
    return setup


def asked_for_sasl(setup: Setup) -> list[Any]:
    return [request.body for request in setup.selector.requests if request.api_key is ApiKeys.SASL_HANDSHAKE]


def connect_again(setup: Setup) -> None:
    setup.clock.advance(2_000)
    setup.poll(times=6)


@pytest.mark.parametrize("code", [0, 33])
def test_listener_when_it_wants_sasl_first_then_the_second_connection_finds_out_and_who_waits_is_told(code: int):
    """It only hangs up, which looked like a broker that ends: it was tried until the time was up."""
    setup = with_sasl_listener(code, ["PLAIN", "ODD\n"])
    setup.poll(times=6)
    assert asked_for_sasl(setup) == []
    assert setup.metadata.fatal_count == 0
    connect_again(setup)
    assert asked_for_sasl(setup) == [{"mechanism": "NONE"}]
    error = setup.metadata.untold_fatal(0)
    assert isinstance(error, AuthenticationError)
    assert str(error) == (
        f"{WHERE}: authentication: the broker's listener requires SASL, and security.protocol has none: set it to "
        "SASL_PLAINTEXT, or to SASL_SSL where the listener speaks TLS, and sasl.mechanism to one that it takes: PLAIN, "
        "ODD\\n")


def test_listener_when_it_has_no_sasl_then_the_connection_goes_on():
    setup = with_sasl_listener(34, [])
    setup.poll(times=6)
    setup.cluster.answers_metadata = True
    setup.cluster.topics["t"] = topic_row("t", 1)
    connect_again(setup)
    setup.bring_up("t")
    assert asked_for_sasl(setup) == [{"mechanism": "NONE"}], "once"
    assert setup.metadata.fatal_count == 0
    setup.make_ready(1)
    assert len(asked_for_sasl(setup)) == 1


def test_listener_when_it_hangs_up_before_it_can_be_asked_then_only_that_connection_ends():
    setup = with_sasl_listener(33, ["PLAIN"])
    setup.poll(times=6)
    answer = setup.selector.answer
    end_with_the_first_answer(setup)
    connect_again(setup)
    assert asked_for_sasl(setup) == []
    setup.selector.answer = answer
    connect_again(setup)
    connect_again(setup)
    assert len(asked_for_sasl(setup)) == 1
    assert setup.metadata.fatal_count == 1


def test_listener_when_it_cannot_be_asked_or_we_have_sasl_then_it_is_not_asked():
    for options in ({}, {"has_credentials": lambda _host: True}):
        setup = with_sasl_listener(33, ["PLAIN"], **options)
        if not options:
            del setup.cluster.versions[ApiKeys.SASL_HANDSHAKE]
        setup.poll(times=6)
        connect_again(setup)
        assert asked_for_sasl(setup) == []
        assert setup.metadata.fatal_count == 0
        assert "the listener may require SASL" in last_error(setup)
