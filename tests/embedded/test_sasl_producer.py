"""The producer at listeners with SASL: sessions that are renewed under traffic, refusals, and what comes after them."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer import AuthenticationError, KafkaProducer, KafkaTimeoutError
from pyproducer.broker import EmbeddedBroker
from pyproducer.client import connection_states
from pyproducer.network.channel import KafkaChannel
from pyproducer.network.sasl.client_authenticator import SaslClientAuthenticator
from pyproducer.testing import read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.sending import Outcomes, error_of_send

SESSION_MS = 10_000
JAAS = "org.apache.kafka.common.security."
MODULES = {"PLAIN": f"{JAAS}plain.PlainLoginModule", "SCRAM-SHA-256": f"{JAAS}scram.ScramLoginModule",
           "SCRAM-SHA-512": f"{JAAS}scram.ScramLoginModule"}
CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SHORT://127.0.0.1:0,SHORTEST://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT,"
                                      "SHORTEST:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    **{f"listener.name.{listener}.plain.sasl.jaas.config": f'{MODULES["PLAIN"]} required user_alice="secret";'
       for listener in ("sasl_plaintext", "short", "shortest")},
    "listener.name.shortest.plain.connections.max.reauth.ms": "500",
    **{f"listener.name.short.{mechanism}.connections.max.reauth.ms": str(SESSION_MS)
       for mechanism in ("plain", "scram-sha-256")},
}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"orders": 1}, log_requests=True, config=CONFIG) as running:
        running.add_scram_user("alice", "secret")
        yield running


def props_for(broker: EmbeddedBroker, listener: str, mechanism: str, password: str = "secret",
              **more: object) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers_of(listener), "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism, "max.block.ms": 3_600_000,
            "sasl.jaas.config": f'{MODULES[mechanism]} required username="alice" password="{password}";', **more}


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each session that is renewed, which is as often as a broker allows."""
    seen: list[int] = []
    begin_again = SaslClientAuthenticator.begin_again

    def watched(authenticator: SaslClientAuthenticator) -> None:
        seen.append(1)
        begin_again(authenticator)

    monkeypatch.setattr(SaslClientAuthenticator, "begin_again", watched)
    monkeypatch.setattr(connection_states, "_SESSION_PART", 0.12)
    monkeypatch.setattr(connection_states, "_SESSION_JITTER", 0.0)
    return seen


@pytest.mark.parametrize(("mechanism", "acks"), [("SCRAM-SHA-256", "all"), ("PLAIN", "1"), ("PLAIN", "0")])
def test_session_when_it_is_renewed_with_five_requests_in_flight_then_none_is_disturbed(
        broker: EmbeddedBroker, renewals: list[int], mechanism: str, acks: str) -> None:
    """Two clients that were looked at for this mixed up answers, or wrote the proof into the midst of a request."""
    delayed = broker.faults.on("Produce", times=None).delay(30, "after_apply") if acks != "0" else None
    props = props_for(broker, "SHORT", mechanism, acks=acks, **{"enable.idempotence": acks == "all", "linger.ms": 0,
                                                              "batch.size": 1})
    outcomes = Outcomes()
    most_in_flight = count = 0
    with KafkaProducer(props) as producer:
        while len(renewals) < 2 or (acks != "0" and most_in_flight < 5):
            for _ in range(10):
                producer.send("orders", b"%d" % count, on_completion=outcomes.callback(count))
                count += 1
            most_in_flight = max(most_in_flight, int(producer.metrics()["requests-in-flight"]))
            time.sleep(0.02)
        if delayed is not None:
            delayed.remove()
        producer.flush(GIVE_UP_S)
        assert producer.metrics()["record-retry-total"] == 0
    outcomes.ensure_all_acknowledged(count)
    while len(stored := [record.value for record in broker.records("orders")]) < count:
        time.sleep(0.01)  # with acks=0 nobody says when
    assert stored == [b"%d" % number for number in range(count)]
    producing = {request.connection_id for request in broker.requests("Produce")}
    assert len(producing) == 1, "one connection throughout"


def test_session_when_it_is_not_renewed_then_the_connection_ends_and_nothing_is_lost_or_doubled(
        broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaChannel, "session_lifetime_ms", 0)  # as a client that knows nothing of KIP-368
    outcomes = Outcomes()
    count = 0
    with KafkaProducer(props_for(broker, "SHORTEST", "PLAIN", **{"linger.ms": 0, "batch.size": 1})) as producer:
        while len({request.connection_id for request in broker.requests("Produce")}) < 2:
            producer.send("orders", b"%d" % count, on_completion=outcomes.callback(count))
            count += 1
            time.sleep(0.01)
        producer.flush(GIVE_UP_S)
    outcomes.ensure_all_acknowledged(count)
    assert [record.value for record in broker.records("orders")] == [b"%d" % number for number in range(count)]


def test_session_when_it_is_shorter_than_brokers_let_it_be_renewed_then_records_go_all_the_same(
        broker: EmbeddedBroker) -> None:
    """Nothing was ever sent with connections.max.reauth.ms below 1,180: it was due when it might go."""
    with KafkaProducer(props_for(broker, "SHORTEST", "PLAIN", **{"linger.ms": 0})) as producer:
        for number in range(30):
            producer.send("orders", b"%d" % number).result(GIVE_UP_S)
            time.sleep(0.05)
    assert [record.value for record in broker.records("orders")] == [b"%d" % number for number in range(30)]


def test_password_when_it_changes_then_the_renewal_is_refused_and_records_fail_until_it_is_as_before(
        broker: EmbeddedBroker, renewals: list[int]) -> None:
    with KafkaProducer(props_for(broker, "SHORT", "SCRAM-SHA-256", **{"linger.ms": 0})) as producer:
        producer.send("orders", b"before").result(GIVE_UP_S)
        broker.add_scram_user("alice", "another")
        error: BaseException | None = None
        while error is None:
            error = producer.send("orders", b"meanwhile").exception(GIVE_UP_S)
        assert isinstance(error, AuthenticationError)
        assert error.outcome == "not_sent"
        with pytest.raises(AuthenticationError, match="check username and password"):
            producer.check(GIVE_UP_S)
        broker.add_scram_user("alice", "secret")
        while producer.send("orders", b"after").exception(GIVE_UP_S) is not None:
            pass  # a refusal that came before the change may be told once more
    assert broker.records("orders")[-1].value == b"after"


@pytest.mark.parametrize(("listener", "mechanism", "changes", "words"), [
    ("SASL_PLAINTEXT", "PLAIN", {"password": "wrong"}, "refuses us with PLAIN: SASL_AUTHENTICATION_FAILED"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256", {"password": "wrong"}, "refuses us with SCRAM-SHA-256: SASL_AUTH"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-512", {}, "set sasl.mechanism to one that it takes: PLAIN, SCRAM-SHA-256"),
    ("PLAINTEXT", "PLAIN", {}, "listener is one without SASL"),
    ("SASL_PLAINTEXT", "PLAIN", {"security.protocol": "PLAINTEXT"}, "listener requires SASL"),
])
def test_setting_when_it_is_wrong_then_records_and_calls_fail_at_once_with_an_error_of_its_own(
        broker: EmbeddedBroker, listener: str, mechanism: str, changes: dict[str, str], words: str) -> None:
    with KafkaProducer(props_for(broker, listener, mechanism, **changes)) as producer:
        error = error_of_send(producer, "orders", b"secret")
        assert isinstance(error, AuthenticationError), error
        assert re.search(words, str(error)), error
        assert error.outcome == "not_sent"
        for call in (lambda: producer.partitions_for("orders"), producer.check):
            with pytest.raises(AuthenticationError, match=words):
                call()
    assert broker.requests("Produce") == []


def test_bootstrap_server_when_it_refuses_and_another_does_not_then_the_first_record_arrives(
        broker: EmbeddedBroker) -> None:
    """Of 16 producers with two servers, one of which did not know the password, 9 failed their first record."""
    broken = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN",
              "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULES["PLAIN"]} required user_alice="other";'}
    with EmbeddedBroker(config=broken) as other:
        good = broker.bootstrap_servers_of("SASL_PLAINTEXT")
        bad = other.bootstrap_servers_of("SASL_PLAINTEXT")
        props = props_for(broker, "SASL_PLAINTEXT", "PLAIN")
        for servers in (f"{good},{bad}", f"{bad},{good}") * 4:
            with KafkaProducer({**props, "bootstrap.servers": servers}) as producer:
                assert producer.send("orders", b"v").result(GIVE_UP_S).offset >= 0
                producer.check(GIVE_UP_S)
        with KafkaProducer(props_for(broker, "SASL_PLAINTEXT", "PLAIN", "wrong") | {
                "bootstrap.servers": f"{good},{bad}"}) as producer:
            error = error_of_send(producer, "orders", b"v")
            assert isinstance(error, AuthenticationError), error


def test_reader_when_it_has_the_producers_settings_then_it_logs_in_too(broker: EmbeddedBroker) -> None:
    props = props_for(broker, "SASL_PLAINTEXT", "SCRAM-SHA-256")
    with KafkaProducer(props) as producer:
        producer.send("orders", b"v").result(GIVE_UP_S)
    found = read_topic(props["bootstrap.servers"], "orders", settings=props)
    assert [record.value for record in found] == [b"v"]
    wrong = props_for(broker, "SASL_PLAINTEXT", "SCRAM-SHA-256", "wrong")
    with pytest.raises(AuthenticationError, match="check username and password"):
        list(read_topic(props["bootstrap.servers"], "orders", settings=wrong))


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\0", b"\xff\xff\xff\xff"])
def test_peer_when_it_is_no_kafka_then_the_wait_ends_and_so_does_the_producer(answer: bytes) -> None:
    """The sender's thread span for ever, and close() with it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1024)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        props = {"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}", "security.protocol": "SASL_PLAINTEXT",
                 "sasl.mechanism": "PLAIN", "max.block.ms": 300,
                 "sasl.jaas.config": f'{MODULES["PLAIN"]} required username="alice" password="secret";'}
        with KafkaProducer(props) as producer:
            assert isinstance(error_of_send(producer, "orders", b"v"), KafkaTimeoutError)
            with pytest.raises(KafkaTimeoutError, match="authentication: "):
                producer.check(2)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
