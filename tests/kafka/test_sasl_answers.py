"""What a broker answers to who logs in: Apache Kafka and ours, byte by byte."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from tests.support.kafka_server import KafkaServer
from tests.support.raw_client import ConnectionEnded, RawClient, header_bytes, metadata_body, request_bytes

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="b";'
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.name.{name}.plain.sasl.jaas.config": JAAS,
    "listener.name.{name}.scram-sha-256.sasl.jaas.config":
        "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "listener.name.{name}.oauthbearer.sasl.jaas.config":
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="x";',
    "listener.name.{name}.plain.connections.max.reauth.ms": "3600000",
}


def settings(name: str) -> dict[str, object]:
    return {key.replace("{name}", name): value for key, value in SETTINGS.items()}


def handshake(mechanism: str, version: int = 1) -> bytes:
    return request_bytes(ApiKeys.SASL_HANDSHAKE, version, {"mechanism": mechanism})


def token(data: bytes, version: int = 2) -> bytes:
    return request_bytes(ApiKeys.SASL_AUTHENTICATE, version, {"auth_bytes": data})


def bearer(**claims: object) -> bytes:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
             for part in ({"alg": "none"}, claims)]
    return f"n,,\x01auth=Bearer {parts[0]}.{parts[1]}.\x01\x01".encode()


ALICE, BOB, WRONG = b"\0alice\0secret", b"\0bob\0b", b"\0alice\0wrong"
METADATA = request_bytes(ApiKeys.METADATA, 12, metadata_body("no-such", allow_auto_topic_creation=False))
SCRIPTS = {
    "logged in, v0": [handshake("PLAIN"), token(ALICE, 0)],
    "logged in, v1": [handshake("PLAIN"), token(ALICE, 1)],
    "logged in, v2": [handshake("PLAIN"), token(ALICE, 2)],
    "bare token": [handshake("PLAIN", 0), ALICE],
    "bare token, wrong": [handshake("PLAIN", 0), WRONG],
    "wrong password, v0": [handshake("PLAIN"), token(WRONG, 0)],
    "wrong password, v1": [handshake("PLAIN"), token(WRONG, 1)],
    "wrong password, v2": [handshake("PLAIN"), token(WRONG, 2)],
    "two parts": [handshake("PLAIN"), token(b"alice\0secret")],
    "no name": [handshake("PLAIN"), token(b"\0\0secret")],
    "no password": [handshake("PLAIN"), token(b"\0alice\0")],
    "another identity": [handshake("PLAIN"), token(b"bob\0alice\0secret")],
    "mechanism that is not enabled, v0": [handshake("GSSAPI", 0)],
    "mechanism that is not enabled, v1": [handshake("GSSAPI", 1)],
    "SCRAM, nobody": [handshake("SCRAM-SHA-256"), token(b"n,,n=nobody,r=abc")],
    "SCRAM, no message": [handshake("SCRAM-SHA-256"), token(b"n,,n=nobody")],
    "OAUTHBEARER, ended": [handshake("OAUTHBEARER"), token(bearer(sub="carol", exp=1)), token(b"\x01")],
    "OAUTHBEARER, nobody": [handshake("OAUTHBEARER"), token(bearer(exp=2**33)), token(b"\x01")],
    "OAUTHBEARER, no message": [handshake("OAUTHBEARER"), token(b"n,,")],
    "Metadata first": [METADATA],
    "token first": [token(ALICE)],
    "nothing first": [b""],
    "nonsense first": [b"\x16\x03\x01\x02"],
    "unknown API": [header_bytes(999, 0)],
    "unknown version": [header_bytes(17, 9)],
    "Metadata between handshake and token": [handshake("PLAIN"), METADATA],
    "handshake twice": [handshake("PLAIN"), handshake("PLAIN")],
    "renewed": [handshake("PLAIN"), token(ALICE), handshake("PLAIN"), token(ALICE)],
    "renewed, wrong password": [handshake("PLAIN"), token(ALICE), handshake("PLAIN"), token(WRONG)],
    "renewed, somebody else": [handshake("PLAIN"), token(ALICE), handshake("PLAIN"), token(BOB)],
    "renewed, another mechanism": [handshake("PLAIN"), token(ALICE), handshake("SCRAM-SHA-256"), token(b"x")],
    "renewed, mechanism that is not enabled": [handshake("PLAIN"), token(ALICE), handshake("GSSAPI")],
    "renewed, twice in a second": [handshake("PLAIN"), token(ALICE), handshake("PLAIN"), token(ALICE),
                                   handshake("PLAIN")],
    "token again": [handshake("PLAIN"), token(ALICE), token(ALICE)],
}
LOOKING = {int(key).to_bytes(2, "big") for key in (
    ApiKeys.DESCRIBE_ACLS, ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKeys.DESCRIBE_CLIENT_QUOTAS)}
LOOKS = 20
RULE = {"resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:x", "host": "*",
        "operation": 3, "permission_type": 3}
ANY_RULE = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
            "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
WITHOUT_SASL = {
    "handshake, v0": [handshake("PLAIN", 0)], "handshake, v1": [handshake("PLAIN", 1)],
    **{f"token, v{version}": [token(ALICE, version)] for version in range(3)},
    "users that are not there": [request_bytes(
        ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "x"}]})],
    "a user named twice": [request_bytes(
        ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "x"}, {"name": "x"}]})],
    "all users": [request_bytes(ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None})],
    **{f"user with {what}": [request_bytes(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [
        {"name": "u", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p", **changes}]})]
       for what, changes in (("no name", {"name": ""}), ("no mechanism", {"mechanism": 9}),
                             ("few iterations", {"iterations": 4095}), ("many iterations", {"iterations": 16385}))},
    "user deleted that is not there": [request_bytes(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, 0, {
        "deletions": [{"name": "u", "mechanism": 1}], "upsertions": []})],
    "users made, seen, deleted": [
        request_bytes(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [
            {"name": "u", "mechanism": mechanism, "iterations": 4096, "salt": b"s", "salted_password": b"p"}
            for mechanism in (1, 2)]}),
        *(request_bytes(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [
            {"name": "u", "mechanism": mechanism, "iterations": 4096, "salt": b"s", "salted_password": b"p"}]})
            for mechanism in (2, 1)),
        *(request_bytes(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, 0, {"upsertions": [], "deletions": [
            {"name": "u", "mechanism": 1}]}) for _ in range(2)),
        request_bytes(ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "u"}]}),
        request_bytes(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS, 0, {"upsertions": [], "deletions": [
            {"name": "u", "mechanism": 2}]})],
    "quotas": [request_bytes(ApiKeys.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False})],
    "rules made, seen, deleted": [
        request_bytes(ApiKeys.CREATE_ACLS, 3, {"creations": [RULE]}),
        request_bytes(ApiKeys.DESCRIBE_ACLS, 3, {**ANY_RULE, "resource_type_filter": 2}),
        request_bytes(ApiKeys.DELETE_ACLS, 3, {"filters": [ANY_RULE]}),
        request_bytes(ApiKeys.DELETE_ACLS, 3, {"filters": [ANY_RULE]}),
        request_bytes(ApiKeys.DESCRIBE_ACLS, 3, ANY_RULE)],
    **{f"rule with {what}": [request_bytes(ApiKeys.CREATE_ACLS, 3, {"creations": [{**RULE, **changes}]})]
       for what, changes in (("any type", {"resource_type": 1}), ("any pattern", {"resource_pattern_type": 1}),
                             ("any operation", {"operation": 1}), ("any permission", {"permission_type": 1}),
                             ("no name", {"resource_name": ""}), ("no principal", {"principal": "x"}),
                             ("another cluster", {"resource_type": 4}))},
}


def play(port: int, script: list[bytes], silence_s: float,
         until: list[bytes | str] | None = None) -> list[bytes | str]:
    """Say each frame when the one before is answered; return the answers, and how it ended.

    A broker of KRaft answers a change when its controller has it, and a look out of what has come to itself by then:
    with ``until``, what looks is said again until the answer is that one, twenty times at most.
    """
    heard: list[bytes | str] = []
    with RawClient(("127.0.0.1", port)) as client:
        for frame in script:
            looks = LOOKS if until is not None and frame[:2] in LOOKING else 1
            while looks:
                client.send_frame(frame)
                try:
                    answer = client.receive_frame()
                except ConnectionEnded:
                    return [*heard, "closed"]
                looks -= 1
                if until is None or until[len(heard):][:1] == [answer]:
                    break
                if looks:
                    time.sleep(0.25)
            heard.append(answer)
        heard.append("open" if client.is_silent(for_s=silence_s) else "closed")
    return heard


@pytest.fixture(scope="module")
def answers() -> Callable[[str], tuple[list[bytes | str], list[bytes | str]]]:
    """What ours and Kafka answer to each script; all at once, because silence has to be waited for."""
    # The listener for a proxy is one more; here it is the one with SASL, and nobody is told where it is.
    with KafkaServer(proxy_port=1, settings={
            **settings("proxied"), "listener.security.protocol.map":
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:SASL_PLAINTEXT"}) as kafka, EmbeddedBroker(
            separate_process=True, config={**settings("sasl_plaintext"), "listeners":
                                           "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"}) as broker:
        ours = [int(broker.bootstrap_servers_of(name).rpartition(":")[2]) for name in ("SASL_PLAINTEXT", "PLAINTEXT")]
        with ThreadPoolExecutor(16) as pool:
            heard = {name: (pool.submit(play, ours[0], script, 1.0), pool.submit(play, kafka.proxied_port, script, 1.0))
                     for name, script in SCRIPTS.items()}
        # One after the other: they change the same users and rules.
        heard_without = {name: (of_ours := play(ours[1], script, 0.02), play(kafka.port, script, 0.02, of_ours))
                         for name, script in WITHOUT_SASL.items()}
    found = {name: (of_ours.result(), of_kafka.result()) for name, (of_ours, of_kafka) in heard.items()}
    return {**found, **heard_without}.__getitem__


@pytest.mark.parametrize("name", [*SCRIPTS, *WITHOUT_SASL])
def test_broker_when_spoken_to_then_it_answers_as_kafka_does(
        answers: Callable[[str], tuple[list[bytes | str], list[bytes | str]]], name: str) -> None:
    ours, kafkas = answers(name)
    assert ours == kafkas
