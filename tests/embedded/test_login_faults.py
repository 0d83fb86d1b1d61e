"""Faults of logins, which are answered before there is a request for KafkaApis: each was taken and never applied."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import ConnectionEnded, RawClient, metadata_body

StartBroker = Callable[..., EmbeddedBroker]
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
SETTINGS: dict[str, object] = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS, "connection.failed.authentication.delay.ms": 0}
VERSIONS = {"client_software_name": "probe", "client_software_version": "1"}
TOKEN = {"auth_bytes": b"\0alice\0secret"}


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(topics={"orders": 1}, config=SETTINGS, log_requests=True)


def connect(broker: EmbeddedBroker) -> RawClient:
    return RawClient(("127.0.0.1", broker.port))


def versions(client: RawClient) -> Struct:
    return client.request(ApiKeys.API_VERSIONS, 3, VERSIONS)


def handshake(client: RawClient) -> Struct:
    return client.request(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})


def authenticate(client: RawClient) -> Struct:
    return client.request(ApiKeys.SASL_AUTHENTICATE, 2, TOKEN)


def log_in(client: RawClient) -> None:
    assert [step(client)["error_code"] for step in (versions, handshake, authenticate)] == [0, 0, 0]
    client.request(ApiKeys.METADATA, 1, metadata_body())


STEPS = {"ApiVersions": versions, "SaslHandshake": handshake, "SaslAuthenticate": authenticate}


def come_to(client: RawClient, api: str) -> None:
    """Take the steps before one."""
    for name, step in STEPS.items():
        if name == api:
            return
        step(client)


@pytest.mark.parametrize("api", STEPS)
def test_login_when_a_step_is_refused_then_the_code_and_the_words_are_told(broker: EmbeddedBroker, api: str) -> None:
    fault = broker.faults.on(api).error(ErrorCode.SASL_AUTHENTICATION_FAILED, "no such luck")
    with connect(broker) as client:
        come_to(client, api)
        answer = STEPS[api](client)
        assert answer["error_code"] == 58
        if api == "SaslAuthenticate":
            assert answer["error_message"] == "no such luck"
        assert api == "ApiVersions" or client.is_closed()
        if api == "ApiVersions":  # a client may ask again, and go on
            log_in(client)
    assert fault.count == 1
    with connect(broker) as client:
        log_in(client)


@pytest.mark.parametrize("api", STEPS)
@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
def test_login_when_its_connection_is_closed_or_dropped_then_nobody_is_told_anything(
        broker: EmbeddedBroker, api: str, when: str) -> None:
    broker.faults.on(api).close(when)
    broker.faults.on(api).drop(when)
    for is_silent in (False, True):
        with connect(broker) as client:
            come_to(client, api)
            body: dict[str, Any] = {"ApiVersions": VERSIONS, "SaslAuthenticate": TOKEN}.get(api, {"mechanism": "PLAIN"})
            version = {"ApiVersions": 3, "SaslHandshake": 1, "SaslAuthenticate": 2}[api]
            client.send_request(next(key for key in ApiKeys if key.title == api), version, body)
            assert client.is_silent(for_s=0.1) if is_silent else client.is_closed()
    with connect(broker) as client:
        log_in(client)


@pytest.mark.parametrize("api", STEPS)
@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
def test_login_when_a_step_is_held_or_delayed_then_it_goes_on_when_it_may(
        broker: EmbeddedBroker, api: str, when: str) -> None:
    held = broker.faults.on(api).delay(3_600_000, when).hold(when)
    with connect(broker) as client, connect(broker) as other:
        come_to(client, api)
        body: dict[str, Any] = {"ApiVersions": VERSIONS, "SaslAuthenticate": TOKEN}.get(api, {"mechanism": "PLAIN"})
        api_key = next(key for key in ApiKeys if key.title == api)
        version = {"ApiVersions": 3, "SaslHandshake": 1, "SaslAuthenticate": 2}[api]
        client.send_request(api_key, version, body)
        held.await_count()
        log_in(other)  # the network thread is free
        assert client.is_silent(for_s=0.05)
        broker.clock.advance(hours=1)
        held.await_held()
        assert client.is_silent(for_s=0.05)
        held.release()
        assert client.receive_response(api_key, version)[1]["error_code"] == 0
        for name in list(STEPS)[list(STEPS).index(api) + 1:]:
            assert STEPS[name](client)["error_code"] == 0
        client.request(ApiKeys.METADATA, 1, metadata_body())


def test_login_when_its_answer_is_torn_or_of_another_request_then_the_client_gets_it_so(broker: EmbeddedBroker) -> None:
    broker.faults.on("SaslHandshake").truncate(9)
    broker.faults.on("SaslHandshake").wrong_correlation_id()
    broker.faults.on("SaslAuthenticate").truncate(5, resize=True)
    with connect(broker) as client:
        client.send_request(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert len(client.receive_bytes(9)) == 9
        with pytest.raises(ConnectionEnded):
            client.receive_bytes(1)
    with connect(broker) as client:
        sent = client.send_request(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert client.receive_response(ApiKeys.SASL_HANDSHAKE, 1)[0] != sent
        client.send_request(ApiKeys.SASL_AUTHENTICATE, 2, TOKEN)
        assert len(client.receive_frame()) == 5


def test_login_when_versions_are_throttled_then_nothing_more_is_read_until_that_is_over(broker: EmbeddedBroker) -> None:
    broker.faults.on("ApiVersions").throttle(3_600_000)
    with connect(broker) as client:
        assert versions(client)["throttle_time_ms"] == 3_600_000
        client.send_request(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        assert client.is_silent(for_s=0.05)
        broker.clock.advance(hours=1)
        assert client.receive_response(ApiKeys.SASL_HANDSHAKE, 1)[1]["error_code"] == 0


def test_login_when_a_function_is_called_then_it_sees_the_request_and_may_answer_it(broker: EmbeddedBroker) -> None:
    seen: list[Request] = []
    broker.faults.on("SaslHandshake").call(lambda request: seen.append(request))
    broker.faults.on("SaslAuthenticate").call(lambda _request: {
        "error_code": 0, "error_message": "", "auth_bytes": b"again", "session_lifetime_ms": 0})
    with connect(broker) as client:
        handshake(client)
        assert seen[0].data["mechanism"] == "PLAIN"
        assert bytes(authenticate(client)["auth_bytes"]) == b"again"
        assert bytes(authenticate(client)["auth_bytes"]) == b"", "the broker's half has not moved"
        client.request(ApiKeys.METADATA, 1, metadata_body())


@pytest.mark.parametrize("what", ["error", "close", "hold", "torn"])
def test_session_when_its_renewal_meets_a_fault_then_it_is_as_with_the_first_login(
        start_broker: StartBroker, caplog: pytest.LogCaptureFixture, what: str) -> None:
    """A token that ends in the middle could not be told."""
    broker = start_broker(config={**SETTINGS, "connections.max.reauth.ms": 3_600_000})
    with connect(broker) as client, connect(broker) as other:
        log_in(client)
        fault = broker.faults.on("SaslAuthenticate")
        {"error": lambda: fault.error("SASL_AUTHENTICATION_FAILED", "not any more"), "close": fault.close,
         "hold": fault.hold, "torn": lambda: fault.truncate(6)}[what]()
        handshake(client)
        client.send_request(ApiKeys.SASL_AUTHENTICATE, 2, TOKEN)
        fault.await_count()
        log_in(other)
        if what == "hold":
            assert client.is_silent(for_s=0.05)
            fault.release()
            assert client.receive_response(ApiKeys.SASL_AUTHENTICATE, 2)[1]["error_code"] == 0
            client.request(ApiKeys.METADATA, 1, metadata_body())
        elif what == "error":
            answer = client.receive_response(ApiKeys.SASL_AUTHENTICATE, 2)[1]
            assert (answer["error_code"], answer["error_message"]) == (58, "not any more")
            assert client.is_closed()
        else:
            assert what == "close" or len(client.receive_bytes(6)) == 6
            assert client.is_closed()
    broker.stop()  # all that the network thread has to say is said
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_session_when_the_clock_has_passed_its_end_then_its_next_request_ends_the_connection(
        start_broker: StartBroker) -> None:
    broker = start_broker(config={**SETTINGS, "connections.max.reauth.ms": 60_000})
    with connect(broker) as client:
        log_in(client)
        broker.clock.advance(seconds=59)
        client.request(ApiKeys.METADATA, 1, metadata_body())
        broker.clock.advance(seconds=2)
        client.send_request(ApiKeys.METADATA, 1, metadata_body())
        assert client.is_closed()


def test_requests_of_logins_are_in_the_log_without_what_was_proved_by(broker: EmbeddedBroker) -> None:
    with connect(broker) as client:
        log_in(client)
    found = broker.requests()
    assert [request.api_key.title for request in found] == [*STEPS, "Metadata"]
    assert found[1].body["mechanism"] == "PLAIN"
    assert (found[2].body["auth_bytes"], found[2].client_id) == (b"", "probe")
    assert "secret" not in repr(found)
    assert {request.processor_id for request in found} == {found[3].processor_id}


def test_login_when_its_client_hangs_up_while_it_is_held_then_its_connection_ends_when_it_is_released(
        broker: EmbeddedBroker) -> None:
    held = broker.faults.on("SaslHandshake").hold()
    with connect(broker) as client:
        client.send_request(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        held.await_held()
    held.release()
    deadline = time.monotonic() + GIVE_UP_S
    while broker.connections():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with connect(broker) as client:
        again = broker.faults.on("SaslHandshake").hold()
        client.send_request(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        again.await_held()
        broker.stop()
        assert client.is_closed()
