"""SASL with Apache Kafka's own listeners: who gets in, what is said to who does not, and sessions that end."""

from __future__ import annotations

import base64
import collections
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer import AuthenticationError, KafkaProducer
from pyproducer.client import connection_states
from pyproducer.network.sasl.client_authenticator import SaslClientAuthenticator
from pyproducer.network.sasl.oauth_token import OAuthToken
from pyproducer.network.sasl.oauthbearer import OAuthBearerSaslClient
from pyproducer.producer import wiring
from tests.support.certificates import Certificates
from tests.support.fault_proxy import FaultProxy
from tests.support.kafka_server import KafkaServer, ServerCertificates
from tests.support.log_checker import read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.sending import Outcomes, error_of_send

# For what must not wait: a test that waits after all ends by the suite's own timeout.
PATIENT_MS = 3_600_000
MAX_BLOCK_MS = 20_000
SESSION_MS = 5_000
LOAD_RATE, LOAD_S, LOAD_PARTITIONS = 100_000, 60, 3
PASSWORD = 'secret with "quotes"; and =,'
JAAS = "org.apache.kafka.common.security."
PLAIN, SCRAM = f"{JAAS}plain.PlainLoginModule", f"{JAAS}scram.ScramLoginModule"
OAUTH = f"{JAAS}oauthbearer.OAuthBearerLoginModule"
TOKENS = f"{JAAS}oauthbearer.OAuthBearerLoginModule"
SECURITY = {"SASL": "SASL_PLAINTEXT", "SASLSSL": "SASL_SSL", "RENEWED": "SASL_PLAINTEXT", "BRIEF": "SASL_PLAINTEXT"}
BRIEF_MS = 3_000


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def users_of(listener: str) -> dict[str, object]:
    # The properties file has one more level of escapes.
    plain = f"{PLAIN} required user_alice={quoted(PASSWORD)};".replace("\\", "\\\\")
    return {f"listener.name.{listener}.{name}": value for name, value in {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "plain.sasl.jaas.config": plain,
        "scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "oauthbearer.sasl.jaas.config": f"{TOKENS} required unsecuredLoginStringClaim_sub=\"broker\";",
    }.items()}


@pytest.fixture(scope="module")
def sasl_kafka(certificates: Certificates) -> Iterator[KafkaServer]:
    tls = ServerCertificates(keystore=certificates.server.keystore, client_ca=certificates.ca,
                             misnamed_keystore=certificates.misnamed_server.keystore)
    settings = {
        **users_of("sasl"), **users_of("saslssl"), **users_of("renewed"), **users_of("brief"),
        "listener.name.saslssl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.saslssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.renewed.connections.max.reauth.ms": SESSION_MS,
        "listener.name.saslssl.connections.max.reauth.ms": SESSION_MS,
        "listener.name.brief.connections.max.reauth.ms": BRIEF_MS,
    }
    with KafkaServer(certificates=tls, listeners=SECURITY, settings=settings) as server:
        add_scram_user(server, "alice", PASSWORD)
        yield server


def add_scram_user(server: KafkaServer, name: str, password: str) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        upsertion = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(GIVE_UP_S)


def props_for(server: KafkaServer, certificates: Certificates, listener: str, mechanism: str, password: str = PASSWORD,
              **more: object) -> dict[str, Any]:
    module = {"PLAIN": PLAIN, "OAUTHBEARER": OAUTH}.get(mechanism, SCRAM)
    props: dict[str, Any] = {
        "bootstrap.servers": server.listener(listener), "security.protocol": SECURITY[listener],
        "sasl.mechanism": mechanism, "max.block.ms": PATIENT_MS,
        "sasl.jaas.config": f"{module} required username=\"alice\" password={quoted(password)};"}
    if SECURITY[listener] == "SASL_SSL":
        props.update({"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.ca)})
    props.update({name.replace("_", "."): value for name, value in more.items()})
    return props


@pytest.mark.parametrize(("listener", "mechanism"), [
    ("SASL", "PLAIN"), ("SASL", "SCRAM-SHA-256"), ("SASLSSL", "PLAIN"), ("SASLSSL", "SCRAM-SHA-512")])
def test_credentials_when_they_are_right_then_records_arrive(
        sasl_kafka: KafkaServer, certificates: Certificates, topic_name: str, listener: str, mechanism: str) -> None:
    topic = sasl_kafka.create_topic(topic_name)
    values = [b"%d" % number for number in range(1000)]
    with KafkaProducer(props_for(sasl_kafka, certificates, listener, mechanism)) as producer:
        producer.check(GIVE_UP_S)
        for future in [producer.send(topic, value) for value in values]:
            future.result(GIVE_UP_S)
    assert [record.value for record in read_topic(sasl_kafka.bootstrap_servers, topic)] == values


@pytest.mark.parametrize(("listener", "mechanism", "changes", "words"), [
    ("SASL", "PLAIN", {"password": "wrong"}, "Authentication failed: Invalid username or password"),
    ("SASLSSL", "PLAIN", {"password": "wrong"}, "Authentication failed: Invalid username or password"),
    ("SASL", "SCRAM-SHA-256", {"password": "wrong"}, "invalid credentials with SASL mechanism SCRAM-SHA-256"),
    ("SASL", "SCRAM-SHA-512", {}, "set sasl.mechanism to one that it takes: .*PLAIN"),
])
def test_credentials_when_they_are_refused_then_each_error_says_what_to_change(
        sasl_kafka: KafkaServer, certificates: Certificates, listener: str, mechanism: str, changes: dict[str, str],
        words: str) -> None:
    props = props_for(sasl_kafka, certificates, listener, mechanism, **changes)
    with KafkaProducer(props) as producer:
        error = error_of_send(producer, "any", b"value")
        assert isinstance(error, AuthenticationError), error
        assert error.outcome == "not_sent"
        with pytest.raises(AuthenticationError, match=words):
            producer.check()
        with pytest.raises(AuthenticationError, match=words):
            producer.partitions_for("any")


@pytest.mark.parametrize(("listener", "mechanism", "settings"), [
    ("RENEWED", "SCRAM-SHA-256", {"acks": "all"}), ("RENEWED", "PLAIN", {"acks": "0", "enable.idempotence": False}),
    ("SASLSSL", "SCRAM-SHA-512", {"acks": "all"})], ids=["all", "0", "tls"])
def test_session_when_it_ends_again_and_again_then_the_traffic_is_not_disturbed(
        sasl_kafka: KafkaServer, certificates: Certificates, topic_name: str, listener: str, mechanism: str,
        settings: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection throughout, every record once and in order. The soak tier waits for the real end of sessions."""
    monkeypatch.setattr(connection_states, "_SESSION_PART", 0.25)  # soon; a busy machine is not too late then
    topic = sasl_kafka.create_topic(topic_name)
    props = {**props_for(sasl_kafka, certificates, listener, mechanism), **settings, "linger.ms": 0,
             "batch.size": 500}
    outcomes = Outcomes()
    seen: set[int] = set()
    renewed = watch_renewals(monkeypatch)
    with KafkaProducer(props) as producer:
        count = 0
        while len(renewed) < 2:
            for _ in range(20):
                producer.send(topic, b"%d" % count, partition=0, on_completion=outcomes.callback(count))
                count += 1
            seen |= connections_of(producer)
            time.sleep(0.002)
        producer.flush(GIVE_UP_S)
        assert producer.metrics()["record-retry-total"] == 0
    outcomes.ensure_all_acknowledged(count)
    assert len(seen) <= 2, "the bootstrap address's and the broker's"
    while len(stored := [record.value for record in read_topic(sasl_kafka.bootstrap_servers, topic)]) < count:
        time.sleep(0.05)  # with acks=0 nobody says when
    assert stored == [b"%d" % number for number in range(count)]


def test_sessions_when_acks_is_0_and_the_broker_takes_25_ms_for_each_request_then_what_is_gone_is_told(
        sasl_kafka: KafkaServer, certificates: Certificates, topic_name: str, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    """374 of 800 records were gone at two renewals, and nobody said so: the login stood behind seconds of requests."""
    topic = sasl_kafka.create_topic(topic_name)
    renewed = watch_renewals(monkeypatch)
    count = 0
    with FaultProxy(sasl_kafka.listener("BRIEF")) as proxy:
        slow = proxy.on("Produce", times=None).take_ms(25)
        props = props_for(sasl_kafka, certificates, "BRIEF", "PLAIN", acks="0", linger_ms=0, batch_size=1)
        with KafkaProducer({**props, "bootstrap.servers": proxy.bootstrap_servers}) as producer:
            while len(renewed) < 2:
                producer.send(topic, b"%d" % count, partition=0)
                count += 1
                time.sleep(0.01)
            slow.release()
    told = producer.metrics()["record-unconfirmed-total"]
    stored = [record.value for record in read_topic(sasl_kafka.bootstrap_servers, topic)]
    print(f"{count} records, {len(renewed)} renewals, {len(stored)} stored, {told:.0f} may be gone by our account")
    assert count - len(stored) <= told
    assert bool(told) == ("may be gone" in caplog.text)
    assert stored == [b"%d" % number for number in range(count)] or told


@pytest.mark.soak
def test_sessions_when_acks_is_0_and_the_broker_keeps_up_then_nothing_is_gone_of_96000_records(
        sasl_kafka: KafkaServer, certificates: Certificates, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """8,000 records a second for 12 s, and a session every 3 s: 2,550 of them were gone, and 24,000 on a slow day."""
    topic = sasl_kafka.create_topic(topic_name)
    renewed = watch_renewals(monkeypatch)
    count, total = 0, 96_000
    with KafkaProducer(props_for(sasl_kafka, certificates, "BRIEF", "SCRAM-SHA-256", acks="0")) as producer:
        began = time.monotonic()
        while count < total:
            while count < min((time.monotonic() - began) * 8_000, total):
                producer.send(topic, b"%d" % count, partition=0)
                count += 1
            time.sleep(0.002)
    told = producer.metrics()["record-unconfirmed-total"]
    stored = sum(1 for _ in read_topic(sasl_kafka.bootstrap_servers, topic))
    print(f"{total} records, {len(renewed)} renewals, {stored} stored, {told:.0f} may be gone by our account")
    assert len(renewed) >= 3
    assert (stored, told) == (total, 0)


class TokenLogin:
    """A login with one token, made without a signature: Kafka's default validator takes it."""

    mechanism = "OAUTHBEARER"
    error = None
    is_ready = True

    def __init__(self, **claims: object) -> None:
        self.token = f"{_base64({'alg': 'none'})}.{_base64({'sub': 'alice', **claims})}."

    def start(self, on_change: object) -> bool:
        """It is there."""
        return True

    def is_ready_for(self, host: str) -> bool:
        return True

    def new_client(self, host: str) -> OAuthBearerSaslClient:
        return OAuthBearerSaslClient(OAuthToken(self.token))

    def close(self) -> None:
        """Nothing is open."""


def _base64(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(("issued_s", "expires_s", "words"), [
    (-60, 300, None),
    (-600, -120, "the token has expired 1[0-9][0-9] s ago by this machine's clock"),
    (600, 900, "the token becomes valid only in [0-9]+ s by this machine's clock"),
])
def test_token_when_it_is_shown_then_taken_or_its_times_say_why_not(
        sasl_kafka: KafkaServer, certificates: Certificates, topic_name: str, issued_s: int, expires_s: int,
        words: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    login = TokenLogin(iat=now + issued_s, exp=now + expires_s)
    monkeypatch.setattr(wiring, "login_for", lambda _settings: login)
    topic = sasl_kafka.create_topic(topic_name)
    with KafkaProducer(props_for(sasl_kafka, certificates, "RENEWED", "OAUTHBEARER")) as producer:
        if words is None:
            producer.send(topic, b"v").result(GIVE_UP_S)
            return
        error = error_of_send(producer, topic, b"v")
        assert isinstance(error, AuthenticationError)
        assert re.search(words, str(error)), error
        assert '{"status":"invalid_token"}' in str(error)
        assert login.token not in str(error)


def connections_of(producer: KafkaProducer) -> set[int]:
    """The local ports of its connections."""
    selector = producer._runtime.wire.client._selector
    return {channel.transport.sock.getsockname()[1] for channel in selector.channels()}


@pytest.mark.parametrize(("address", "changes", "words"), [
    ("PLAINTEXT", {}, "listener is one without SASL .*set security.protocol to PLAINTEXT"),
    ("SSL", {"security.protocol": "SASL_SSL"}, "listener is one without SASL .*set security.protocol to SSL"),
    ("SASLSSL", {}, "the listener speaks TLS, and we do not: set security.protocol to SASL_SSL"),
    ("SASL", {"security.protocol": "PLAINTEXT"}, "requires SASL, and .* to one that it takes: .*SCRAM-SHA-256"),
    ("SASLSSL", {"security.protocol": "SSL"}, "requires SASL, and .* to one that it takes: PLAIN, SCRAM-SHA-512"),
])
def test_port_when_it_is_that_of_another_listener_then_the_error_says_which_protocol_it_has(
        sasl_kafka: KafkaServer, certificates: Certificates, address: str, changes: dict[str, object],
        words: str) -> None:
    listeners = {"PLAINTEXT": sasl_kafka.bootstrap_servers, "SSL": sasl_kafka.ssl_bootstrap_servers}
    props = {**props_for(sasl_kafka, certificates, "SASLSSL", "PLAIN"), "security.protocol": "SASL_PLAINTEXT",
             "max.block.ms": MAX_BLOCK_MS, **changes,
             "bootstrap.servers": listeners.get(address) or sasl_kafka.listener(address)}
    with KafkaProducer(props) as producer:
        error = error_of_send(producer, "any", b"v")
    assert isinstance(error, AuthenticationError), error
    assert re.search(words, str(error)), error
    assert error.outcome == "not_sent"


@pytest.mark.soak
def test_sessions_when_they_end_every_five_seconds_under_load_then_nothing_is_lost_doubled_or_reordered(
        sasl_kafka: KafkaServer, certificates: Certificates, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand records a second for a minute, with the parts of sessions' lives that Java takes."""
    topic = sasl_kafka.create_topic(topic_name, LOAD_PARTITIONS)
    renewed = watch_renewals(monkeypatch)
    outcomes = collections.Counter[str]()

    def on_completion(_metadata: object, error: BaseException | None) -> None:
        outcomes["stored" if error is None else repr(error)] += 1

    count = 0
    with KafkaProducer(props_for(sasl_kafka, certificates, "RENEWED", "SCRAM-SHA-256")) as producer:
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < LOAD_S:
            while count < elapsed * LOAD_RATE:
                producer.send(topic, b"%d" % count, partition=count % LOAD_PARTITIONS, on_completion=on_completion)
                count += 1
            time.sleep(0.001)
        producer.flush(GIVE_UP_S)
        retried = producer.metrics().get("record-retry-total", 0)
    print(f"{count} records in {LOAD_S} s, {len(renewed)} sessions renewed, {retried:.0f} records retried")
    assert outcomes == {"stored": count}
    assert len(renewed) >= LOAD_S / (SESSION_MS / 1000)
    expect_in_order(sasl_kafka, topic, count)


def expect_in_order(server: KafkaServer, topic: str, count: int) -> None:
    """Read partition by partition: each record once, in order. Too many to be held."""
    from confluent_kafka import Consumer, TopicPartition

    for partition in range(LOAD_PARTITIONS):
        consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "nobody",
                             "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0})
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            expected = partition
            end: str | None = None
            while end is None:
                for message in consumer.consume(10_000, 30):
                    if message.error() is not None:
                        end = message.error().name()
                    else:
                        assert int(message.value()) == expected
                        expected += LOAD_PARTITIONS
            assert end == "_PARTITION_EOF"
            assert count <= expected < count + LOAD_PARTITIONS
        finally:
            consumer.close()


def watch_renewals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each session that is renewed."""
    renewed: list[int] = []
    begin_again = SaslClientAuthenticator.begin_again

    def watched(authenticator: SaslClientAuthenticator) -> None:
        renewed.append(1)
        begin_again(authenticator)

    monkeypatch.setattr(SaslClientAuthenticator, "begin_again", watched)
    return renewed
