"""Listeners whose clients log in, byte by byte: what is answered, when, and when the connection ends."""

from __future__ import annotations

import json
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from pyproducer.broker import EmbeddedBroker
from pyproducer.common.errors import ConfigError
from pyproducer.network.sasl.scram_formatter import FORMATTERS, auth_message
from pyproducer.network.sasl.scram_messages import (
    ClientFinalMessage,
    ClientFirstMessage,
    ServerFinalMessage,
    ServerFirstMessage,
)
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from tests.support.certificates import Certificates
from tests.support.raw_client import ConnectionEnded, RawClient, framed, metadata_body, request_bytes

PLAIN_JAAS = ('org.apache.kafka.common.security.plain.PlainLoginModule required '
              'username="broker" password="b" user_alice="secret" user_bob="b";')
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,SHORT://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,"
                                      "SHORT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": MECHANISMS,
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_JAAS,
    "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_JAAS,
    "listener.name.short.plain.sasl.jaas.config": PLAIN_JAAS,
    "listener.name.short.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.short.plain.connections.max.reauth.ms": "1500",
}


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"orders": 1}, log_requests=True, config={
            **LISTENERS, "ssl.keystore.location": str(certificates.server.keystore)}) as running:
        running.add_scram_user("alice", "secret")
        yield running


@pytest.fixture
def connect(broker: EmbeddedBroker, certificates: Certificates) -> Iterator[Callable[..., RawClient]]:
    clients: list[RawClient] = []

    def connected(listener: str = "SASL_PLAINTEXT") -> RawClient:
        host, _, port = broker.bootstrap_servers_of(listener).rpartition(":")
        context = ssl.create_default_context(cafile=str(certificates.ca)) if listener.endswith("SSL") else None
        clients.append(RawClient((host, int(port)), ssl_context=context))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()


def handshake(client: RawClient, mechanism: str, version: int = 1) -> Struct:
    return client.request(ApiKeys.SASL_HANDSHAKE, version, {"mechanism": mechanism})


def authenticate(client: RawClient, token: bytes, version: int = 2) -> Struct:
    return client.request(ApiKeys.SASL_AUTHENTICATE, version, {"auth_bytes": token})


def log_in(client: RawClient, token: bytes = b"\0alice\0secret") -> Struct:
    assert handshake(client, "PLAIN")["error_code"] == 0
    return authenticate(client, token)


def scram_log_in(client: RawClient, mechanism: str, user: str, password: str) -> Struct:
    formatter = FORMATTERS[mechanism]
    assert handshake(client, mechanism)["error_code"] == 0
    first = ClientFirstMessage(user, "nonce")
    answer = authenticate(client, first.to_bytes())
    if answer["error_code"]:
        return answer
    asked = ServerFirstMessage.parse(bytes(answer["auth_bytes"]))
    salted = formatter.salted_password(password, asked.salt, asked.iterations)
    draft = ClientFinalMessage(b"n,,", asked.nonce)
    signed = auth_message(first.bare, str(asked), draft.without_proof)
    answer = authenticate(client, ClientFinalMessage(
        b"n,,", asked.nonce, formatter.client_proof(salted, signed)).to_bytes())
    if not answer["error_code"]:
        signature = ServerFinalMessage.parse(bytes(answer["auth_bytes"])).server_signature
        assert signature == formatter.server_signature(formatter.server_key(salted), signed)
    return answer


def token_of(**claims: Any) -> bytes:
    parts = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)]
    return f"n,,\x01auth=Bearer {parts[0]}.{parts[1]}.\x01\x01".encode()


def assert_may_speak(client: RawClient) -> None:
    assert client.request(ApiKeys.METADATA, 12, metadata_body("orders"))["topics"][0]["error_code"] == 0


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_client_when_it_has_logged_in_then_it_is_served_as_who_it_is(
        broker: EmbeddedBroker, connect: Callable[..., RawClient], listener: str) -> None:
    client = connect(listener)
    assert client.request(ApiKeys.API_VERSIONS, 3, {
        "client_software_name": "probe", "client_software_version": "1"})["error_code"] == 0
    answer = log_in(client)
    assert (answer["error_code"], answer["session_lifetime_ms"]) == (0, 0)
    assert_may_speak(client)
    seen = broker.requests(ApiKeys.METADATA)[-1]
    assert (seen.principal, seen.listener_name) == ("User:alice", listener)
    port = client.request(ApiKeys.METADATA, 12, metadata_body())["brokers"][0]["port"]
    assert port == int(broker.bootstrap_servers_of(listener).rpartition(":")[2])


def test_client_when_its_first_request_follows_the_token_at_once_then_it_is_answered(
        connect: Callable[..., RawClient]) -> None:
    client = connect()
    client.send_bytes(b"".join(map(framed, (
        request_bytes(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}),
        request_bytes(ApiKeys.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0secret"}),
        request_bytes(ApiKeys.METADATA, 12, metadata_body("orders"))))))
    client.receive_frame()
    client.receive_frame()
    assert client.receive_response(ApiKeys.METADATA, 12)[1]["topics"][0]["name"] == "orders"


def test_client_when_it_speaks_as_of_old_then_its_tokens_need_no_header(connect: Callable[..., RawClient]) -> None:
    client = connect()
    assert handshake(client, "PLAIN", 0)["error_code"] == 0
    client.send_frame(b"\0alice\0secret")
    assert client.receive_frame() == b""
    assert_may_speak(client)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_user_when_it_knows_the_password_then_it_is_in_and_else_not(
        connect: Callable[..., RawClient], mechanism: str) -> None:
    client = connect()
    assert scram_log_in(client, mechanism, "alice", "secret")["error_code"] == 0
    assert_may_speak(client)
    told = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    for user, password in (("alice", "wrong"), ("nobody", "secret")):
        refused = scram_log_in(connect(), mechanism, user, password)
        assert (refused["error_code"], refused["error_message"]) == (58, told)


def test_token_when_it_ends_then_the_session_does_and_one_that_has_ended_is_refused(
        connect: Callable[..., RawClient]) -> None:
    client = connect()
    handshake(client, "OAUTHBEARER")
    answer = authenticate(client, token_of(sub="carol", exp=time.time() + 3600))
    assert answer["error_code"] == 0
    assert 3_500_000 < answer["session_lifetime_ms"] <= 3_600_000
    assert_may_speak(client)
    client = connect()
    handshake(client, "OAUTHBEARER")
    answer = authenticate(client, token_of(sub="carol", exp=1))
    assert (answer["error_code"], bytes(answer["auth_bytes"])) == (0, b'{"status":"invalid_token"}')
    answer = authenticate(client, b"\x01")
    assert (answer["error_code"], answer["error_message"]) == (58, '{"status":"invalid_token"}')
    assert client.is_closed()


def test_password_when_it_is_wrong_then_that_is_told_late_and_the_connection_ends(
        broker: EmbeddedBroker, connect: Callable[..., RawClient]) -> None:
    client = connect()
    handshake(client, "PLAIN")
    time.sleep(0.12)  # the delay was counted from where the broker began to wait: who took his time had none
    begin = time.monotonic()
    answer = authenticate(client, b"\0alice\0wrong")
    assert time.monotonic() - begin >= 0.09  # connection.failed.authentication.delay.ms is 100
    assert answer["error_code"] == 58
    assert answer["error_message"] == "Authentication failed: Invalid username or password"
    assert client.is_closed()


def test_mechanism_when_it_is_not_enabled_then_those_that_are_are_told(connect: Callable[..., RawClient]) -> None:
    client = connect()
    answer = handshake(client, "GSSAPI")
    assert (answer["error_code"], answer["mechanisms"]) == (33, MECHANISMS.split(","))
    assert client.is_closed()
    assert handshake(connect("SHORT"), "SCRAM-SHA-256")["mechanisms"] == ["PLAIN"]


@pytest.mark.parametrize("payload", [
    request_bytes(ApiKeys.METADATA, 12, metadata_body("orders")),
    request_bytes(ApiKeys.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0alice\0secret"}), b"", b"nonsense"])
def test_request_when_it_comes_before_the_login_then_the_connection_ends(
        connect: Callable[..., RawClient], payload: bytes) -> None:
    client = connect()
    client.send_frame(payload)
    assert client.is_closed()


def test_frame_when_it_is_too_large_before_the_login_then_the_connection_ends(
        connect: Callable[..., RawClient]) -> None:
    client = connect()
    client.send_bytes((512 * 1024 + 1).to_bytes(4, "big"))
    assert client.is_closed()


def test_login_when_there_is_nothing_to_log_in_to_then_it_is_the_wrong_state(
        connect: Callable[..., RawClient]) -> None:
    assert handshake(connect("PLAINTEXT"), "PLAIN")["error_code"] == 34
    client = connect()
    log_in(client)
    assert handshake(client, "PLAIN")["error_code"] == 34  # there are no sessions to renew here
    assert authenticate(client, b"\0alice\0secret")["error_code"] == 34
    assert_may_speak(client)


# ---- sessions, as KIP-368 has them

def test_session_when_it_is_renewed_in_time_then_the_connection_stays(connect: Callable[..., RawClient]) -> None:
    client = connect("SHORT")
    assert log_in(client)["session_lifetime_ms"] == 1500
    time.sleep(1.1)
    assert log_in(client)["session_lifetime_ms"] == 1500
    assert_may_speak(client)
    time.sleep(1.6)
    assert log_in(client)["error_code"] == 0  # a renewal may be late, other requests not
    assert_may_speak(client)


def test_session_when_it_is_renewed_behind_requests_then_all_are_answered_in_order(
        connect: Callable[..., RawClient]) -> None:
    client = connect("SHORT")
    log_in(client)
    for _ in range(5):
        client.send_request(ApiKeys.METADATA, 12, metadata_body("orders"))
    client.send_request(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
    for _ in range(5):
        assert client.receive_response(ApiKeys.METADATA, 12)[1]["topics"][0]["error_code"] == 0
    assert client.receive_response(ApiKeys.SASL_HANDSHAKE, 1)[1]["error_code"] == 0
    assert authenticate(client, b"\0alice\0secret")["error_code"] == 0
    assert_may_speak(client)


def test_session_when_it_has_ended_then_any_other_request_ends_the_connection(
        connect: Callable[..., RawClient]) -> None:
    client = connect("SHORT")
    log_in(client)
    time.sleep(1.6)
    with pytest.raises(ConnectionEnded):
        client.request(ApiKeys.METADATA, 12, metadata_body("orders"))


@pytest.mark.parametrize(("token", "told"), [
    (b"\0bob\0b", "Cannot change principals during re-authentication from User.alice: User.bob"),
    (b"\0alice\0wrong", "Authentication failed: Invalid username or password")])
def test_renewal_when_it_is_refused_then_that_is_told_and_the_connection_ends(
        connect: Callable[..., RawClient], token: bytes, told: str) -> None:
    client = connect("SHORT")
    log_in(client)
    answer = log_in(client, token)
    assert (answer["error_code"], answer["error_message"]) == (58, told)
    assert client.is_closed()


def test_renewal_when_something_else_comes_in_the_midst_of_it_then_the_connection_ends(
        connect: Callable[..., RawClient]) -> None:
    client = connect("SHORT")
    log_in(client)
    handshake(client, "PLAIN")
    assert client.request(ApiKeys.METADATA, 12, metadata_body("orders"))["topics"][0]["error_code"] == 34
    assert client.is_closed()


# ---- tokens that are signed

def test_token_when_the_listener_has_keys_then_it_must_be_signed_with_one(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    public = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())), "kid": "one"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public]}))
    now_s = int(time.time())
    claims = {"sub": "carol", "iat": now_s, "exp": now_s + 3600, "aud": "kafka"}
    tokens = {
        "good": jwt.encode(claims, key, "RS256", headers={"kid": "one"}),
        "of another key": jwt.encode(claims, rsa.generate_private_key(65537, 2048), "RS256", headers={"kid": "one"}),
        "not for us": jwt.encode({**claims, "aud": "web"}, key, "RS256", headers={"kid": "one"}),
        "not signed": jwt.encode(claims, None, "none", headers={"kid": "one"})}
    iam = {"version": "2020_10_22", "host": "b-1.example", "user-agent": "test", "action": "kafka-cluster:Connect",
           "x-amz-algorithm": "AWS4-HMAC-SHA256", "x-amz-signedheaders": "host", "x-amz-expires": "900",
           "x-amz-signature": "0" * 64, "x-amz-date": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s)),
           "x-amz-credential": time.strftime("AKID/%Y%m%d/eu-west-1/kafka-cluster/aws4_request", time.gmtime(now_s))}
    with EmbeddedBroker(topics=["orders"], log_requests=True, config={
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER,AWS_MSK_IAM",
            "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class":
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka"}) as broker:
        for name, token in tokens.items():
            with RawClient(("127.0.0.1", broker.port)) as client:
                handshake(client, "OAUTHBEARER")
                answer = authenticate(client, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
                assert bytes(answer["auth_bytes"]) == (b"" if name == "good" else b'{"status":"invalid_token"}'), name
                if name == "good":
                    assert_may_speak(client)
                    assert broker.requests(ApiKeys.METADATA)[-1].principal == "User:carol"
        with RawClient(("127.0.0.1", broker.port)) as client:
            handshake(client, "AWS_MSK_IAM")
            assert json.loads(bytes(authenticate(client, json.dumps(iam).encode())["auth_bytes"]))["request-id"]
            assert_may_speak(client)
            assert broker.requests(ApiKeys.METADATA)[-1].principal == "User:AKID"


# ---- settings

@pytest.mark.parametrize(("config", "key", "why"), [
    ({}, "sasl.enabled.mechanisms", "PLAIN, SCRAM-SHA-256"),
    ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms", "No SASL mechanisms are enabled"),
    ({"sasl.enabled.mechanisms": "PLAIN"}, "listener.name.sasl_plaintext.plain.sasl.jaas.config", "user_NAME"),
    ({"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": PLAIN_JAAS},
     "listener.name.sasl_plaintext.plain.sasl.jaas.config", "user_NAME"),
    ({"sasl.enabled.mechanisms": "SCRAM-SHA-256", "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config":
        PLAIN_JAAS}, "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config", "ScramLoginModule"),
    ({"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "ftp://x"},
     "sasl.oauthbearer.jwks.endpoint.url", "must begin with"),
    ({"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.server.callback.handler.class":
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"},
     "sasl.oauthbearer.jwks.endpoint.url", "address of the keys"),
    ({"sasl.enabled.mechanisms": "SCRAM-SHA-256", "sasl.server.callback.handler.class": "com.example.Own"},
     "sasl.server.callback.handler.class", "cannot be loaded"),
])
def test_settings_when_they_make_no_sense_then_nothing_is_started(
        config: dict[str, object], key: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        EmbeddedBroker(config={"listeners": "SASL_PLAINTEXT://127.0.0.1:0", **config})
    assert raised.value.key == key
    assert "secret" not in str(raised.value)
