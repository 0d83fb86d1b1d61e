"""GSSAPI with Apache Kafka's listener and a KDC on loopback: tickets by keytab and from a cache, and who gets none."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer import AuthenticationError, KafkaProducer, KafkaTimeoutError, testing
from pyproducer.common.clock import SystemClock
from pyproducer.network.sasl.gssapi import GssapiSaslClient, TicketSource
from tests.support.kafka_jars import MissingTool
from tests.support.kafka_server import TEST_JVM_OPTIONS, KafkaServer
from tests.support.kdc import REALM, Kdc
from tests.support.log_checker import read_topic
from tests.support.patience import GIVE_UP_S

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
PATIENT_MS = 3_600_000


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    # Not tools of the tier. With a stand-in for both: tests/unit/network/sasl/test_gssapi.py.
    if importlib.util.find_spec("gssapi") is None:
        raise MissingTool("the package gssapi is not installed: pip install -e '.[kerberos]' "
                          "(Debian: apt-get install gcc python3-dev libkrb5-dev)")
    with pytest.MonkeyPatch.context() as patch, Kdc() as running:
        for name in ("KRB5_CONFIG", "KRB5CCNAME"):
            patch.setenv(name, running.environment[name])
        yield running


@pytest.fixture(scope="module")
def kerberos_kafka(kdc: Kdc) -> Iterator[KafkaServer]:
    keytab = kdc.keytab("kafka/127.0.0.1")
    jaas = (f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
            f'principal="kafka/127.0.0.1@{REALM}";')
    settings = {"listener.name.tickets.sasl.enabled.mechanisms": "GSSAPI",
                "listener.name.tickets.gssapi.sasl.jaas.config": jaas, "sasl.kerberos.service.name": "kafka"}
    options = (*TEST_JVM_OPTIONS, f"-Djava.security.krb5.conf={kdc.config}")
    with KafkaServer(listeners={"TICKETS": "SASL_PLAINTEXT"}, settings=settings, jvm_options=options) as server:
        yield server


def props_for(server: KafkaServer, options: str, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": server.listener("TICKETS"), "security.protocol": "SASL_PLAINTEXT",
            "max.block.ms": PATIENT_MS, "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": f"{MODULE} required {options};", **more}


def test_keytab_when_it_is_good_then_records_arrive(kerberos_kafka, kdc, topic_name):
    keytab = kdc.keytab("ada")
    topic = kerberos_kafka.create_topic(topic_name)
    props = props_for(kerberos_kafka, f'useKeyTab=true keyTab="{keytab}" principal="ada@{REALM}"')
    with KafkaProducer(props) as producer:
        producer.check(GIVE_UP_S)
        producer.send(topic, b"value").result(GIVE_UP_S)
    assert [record.value for record in read_topic(kerberos_kafka.bootstrap_servers, topic)] == [b"value"]
    # The reader's thread waits for the ticket for the broker, which another thread fetches.
    ours = testing.read_topic(props["bootstrap.servers"], topic, settings=props)
    assert [record.value for record in ours] == [b"value"]


def test_ticket_for_a_broker_when_it_is_fetched_then_never_on_the_senders_thread(
        kerberos_kafka, kdc, topic_name, monkeypatch):
    threads: list[str] = []
    made = GssapiSaslClient.__init__

    def noted(client: GssapiSaslClient, *arguments: Any) -> None:
        threads.append(threading.current_thread().name)
        made(client, *arguments)

    monkeypatch.setattr(GssapiSaslClient, "__init__", noted)
    topic = kerberos_kafka.create_topic(topic_name)
    props = props_for(kerberos_kafka, f'useKeyTab=true keyTab="{kdc.keytab("ada")}" principal="ada@{REALM}"')
    with KafkaProducer(props) as producer:
        producer.send(topic, b"value").result(GIVE_UP_S)
    assert set(threads) == {"kafka-producer-login | GSSAPI"}


def test_cache_when_kinit_filled_it_then_records_arrive_and_the_ticket_is_renewed(kerberos_kafka, kdc, topic_name):
    cache = f"FILE:{kdc.folder}/bobs-cache"
    kdc.fill_cache("bob", cache)
    topic = kerberos_kafka.create_topic(topic_name)
    with KafkaProducer(props_for(kerberos_kafka, f'useTicketCache=true ticketCache="{cache}"')) as producer:
        producer.send(topic, b"value").result(GIVE_UP_S)
    source = TicketSource({"useTicketCache": "true", "ticketCache": cache}, SystemClock(), kinit="/nowhere/kinit")
    for _ in range(2):  # the second time kinit is asked, and is not there
        ticket = source.fetch()
    assert ticket.principal == f"bob@{REALM}"
    assert ticket.expires_at_ms is not None


@pytest.mark.parametrize(("options", "more", "words"), [
    ('useKeyTab=true keyTab="{ada}" principal="eve@{realm}"', {}, "there is no ticket of eve@"),
    ('useKeyTab=true keyTab="/nowhere" principal="ada@{realm}"', {}, "the keytab /nowhere cannot be read"),
    ('useTicketCache=true ticketCache="FILE:/nowhere"', {}, "there is no ticket in the cache FILE:/nowhere"),
    ('useKeyTab=true keyTab="{ada}" principal="ada@{realm}"', {"sasl.kerberos.service.name": "carafe"},
     "with carafe@127.0.0.1: .*not found in Kerberos database"),
])
def test_settings_when_they_are_wrong_then_each_error_says_what_to_change(kerberos_kafka, kdc, options, more, words):
    filled = options.format(ada=kdc.keytab("ada"), realm=REALM)
    props = props_for(kerberos_kafka, filled, **more)
    with KafkaProducer(props) as producer, pytest.raises(AuthenticationError, match=words):
        producer.check()


def test_kdc_when_it_is_away_then_it_may_pass_and_the_timeout_says_why(kerberos_kafka, kdc, topic_name):
    keytab = kdc.keytab("ada")
    topic = kerberos_kafka.create_topic(topic_name)
    kdc.stop()
    try:
        props = props_for(kerberos_kafka, f'useKeyTab=true keyTab="{keytab}" principal="ada@{REALM}"')
        with KafkaProducer(props) as producer:
            with pytest.raises(KafkaTimeoutError, match="no KDC is reached"):
                producer.check(3)
            kdc.start()
            producer.send(topic, b"value").result(GIVE_UP_S)
    finally:
        kdc.stop()
        kdc.start()
