"""acks=0 at brokers that end sessions, or the connection: what may be gone is counted, and mostly nothing is."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer import KafkaProducer
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.network.sasl.client_authenticator import SaslClientAuthenticator
from tests.support.patience import GIVE_UP_S

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SESSION_MS = 1_500
TOPICS = ("sent", "batches", "awaited")
CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SHORT://127.0.0.1:0,LONGER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SHORT:SASL_PLAINTEXT,LONGER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    **{f"listener.name.{listener}.plain.sasl.jaas.config": f'{PLAIN} required user_alice="secret";'
       for listener in ("short", "longer")},
    "listener.name.short.plain.connections.max.reauth.ms": str(SESSION_MS),
    "listener.name.longer.plain.connections.max.reauth.ms": "3000",
}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=TOPICS, config=CONFIG, log_requests=True) as running:
        yield running


def props_for(broker: EmbeddedBroker, listener: str, **more: object) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers_of(listener), "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} required username="alice" password="secret";',
            "acks": "0", "linger.ms": 0, "batch.size": 1, **more}


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each session that is renewed."""
    seen: list[int] = []
    begin_again = SaslClientAuthenticator.begin_again

    def watched(authenticator: SaslClientAuthenticator) -> None:
        seen.append(1)
        begin_again(authenticator)

    monkeypatch.setattr(SaslClientAuthenticator, "begin_again", watched)
    return seen


class Sent:
    """How many records were sent, and how many of them may be gone by the producer's own account."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(TOPICS, 0)
        self.unconfirmed: dict[str, float] = {}
        self.errors: list[BaseException] = []


def by_send(props: dict[str, Any], sent: Sent, goes_on: Callable[[], bool], pause_s: float) -> None:
    with KafkaProducer(props) as producer:
        while goes_on():
            producer.send("sent", b"v")
            sent.counts["sent"] += 1
            time.sleep(pause_s)
    sent.unconfirmed["sent"] = producer.metrics()["record-unconfirmed-total"]


def by_send_batch(props: dict[str, Any], sent: Sent, goes_on: Callable[[], bool], pause_s: float) -> None:
    with KafkaProducer(props) as producer:
        while goes_on():
            producer.send_batch("batches", [b"v", b"w"])
            sent.counts["batches"] += 2
            time.sleep(pause_s * 2)
    sent.unconfirmed["batches"] = producer.metrics()["record-unconfirmed-total"]


def by_await(props: dict[str, Any], sent: Sent, goes_on: Callable[[], bool], pause_s: float) -> None:
    async def main() -> None:
        async with AsyncKafkaProducer(props) as producer:
            while goes_on():
                producer.send_nowait("awaited", b"v")
                sent.counts["awaited"] += 1
                await asyncio.sleep(pause_s)
        sent.unconfirmed["awaited"] = producer.metrics()["record-unconfirmed-total"]

    asyncio.run(main())


def send_in_all_ways(props: dict[str, Any], goes_on: Callable[[], bool], pause_s: float) -> Sent:
    sent = Sent()

    def run(way: Callable[..., None]) -> None:
        try:
            way(props, sent, goes_on, pause_s)
        except BaseException as error:
            sent.errors.append(error)

    threads = [threading.Thread(target=run, args=(way,)) for way in (by_send, by_send_batch, by_await)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GIVE_UP_S)
    assert sent.errors == []
    return sent


def expect_told(broker: EmbeddedBroker, sent: Sent) -> dict[str, int]:
    """See that whatever is not stored was told; return how many that is, by topic."""
    lost = {topic: count - len(broker.records(topic)) for topic, count in sent.counts.items()}
    assert all(0 <= lost[topic] <= sent.unconfirmed[topic] for topic in TOPICS), (lost, sent.unconfirmed)
    return lost


def test_sessions_when_they_end_and_the_broker_is_slower_than_we_are_then_what_is_gone_is_told(
        broker: EmbeddedBroker, renewals: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """Half of the records were gone at each renewal, and nobody said so.

    The new login stood behind all that the sockets hold: seconds of requests, for each takes the broker 25 ms.
    """
    slow = broker.faults.on("Produce", times=None).delay(25)
    began = time.monotonic()

    def goes_on() -> bool:
        return len(renewals) < 6 and time.monotonic() - began < GIVE_UP_S

    sent = send_in_all_ways(props_for(broker, "SHORT"), goes_on, 0.015)
    slow.remove()
    assert len(renewals) >= 6
    assert sum(expect_told(broker, sent).values()) == sum(sent.unconfirmed.values()) or "may be gone" in caplog.text


@pytest.mark.soak
def test_sessions_of_three_seconds_when_the_broker_keeps_up_then_nothing_is_gone(
        broker: EmbeddedBroker, renewals: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """32,000 records in each of three ways, as fast as 8,000 a second."""
    props = props_for(broker, "LONGER", **{"batch.size": 16_384, "linger.ms": 5})
    sent = Sent()
    began = time.monotonic()
    with KafkaProducer(props) as one, KafkaProducer(props) as two:
        while sent.counts["sent"] < 32_000:
            while sent.counts["sent"] < min((time.monotonic() - began) * 2_700, 32_000):
                one.send("sent", b"v")
                two.send_batch("batches", [b"v"])
                sent.counts["sent"] += 1
                sent.counts["batches"] += 1
            time.sleep(0.005)
    sent.unconfirmed = {"sent": one.metrics()["record-unconfirmed-total"],
                        "batches": two.metrics()["record-unconfirmed-total"], "awaited": 0}
    assert len(renewals) >= 4
    assert expect_told(broker, sent) == dict.fromkeys(TOPICS, 0)
    assert sent.unconfirmed == dict.fromkeys(TOPICS, 0)
    assert "may be gone" not in caplog.text


def test_connection_when_the_broker_ends_it_then_said_how_many_records_may_be_gone(
        broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A broker that cannot take one request of acks=0 hangs up, and reads nothing of what lies behind it."""
    props = props_for(broker, "LONGER")
    with KafkaProducer(props) as producer:
        producer.send("sent", b"first").result(GIVE_UP_S)
        while not any(record.value == b"first" for record in broker.records("sent")):
            time.sleep(0.01)
        slow = broker.faults.on("Produce").delay(500).close("before_apply")
        for _ in range(5):
            producer.send("sent", b"v").result(GIVE_UP_S)
        deadline = time.monotonic() + GIVE_UP_S
        while not producer.metrics()["record-unconfirmed-total"] and time.monotonic() < deadline:
            time.sleep(0.01)
        told = producer.metrics()["record-unconfirmed-total"]
        slow.remove()
        producer.send("sent", b"last").result(GIVE_UP_S)
    stored = [record.value for record in broker.records("sent")]
    assert stored[0] == b"first"
    assert stored[-1] == b"last", "close() waited until the broker had it"
    assert 7 - len(stored) <= told
    lines = [record for record in caplog.records if "may be gone" in record.getMessage()]
    assert [line.levelno for line in lines] == [logging.WARNING]
