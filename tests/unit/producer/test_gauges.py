"""What is looked up when somebody asks, and under which words doors offer it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cryptography import x509

from pyproducer import KafkaProducer
from pyproducer.observe.catalog import NODE, OF_NODE, OF_PRODUCER, OF_TOPIC, PRODUCER, TOPIC
from pyproducer.producer.gauges import LOOKED_UP, register_gauges
from tests.support.certificates import Certificates
from tests.unit.producer.facade import Facades


def test_instruments_that_are_named_beforehand_when_compared_with_a_producers_numbers_then_they_are_all_of_them(
        facades: Facades) -> None:
    """Of the numbers of which OpenTelemetry gets all some twenty were missing, token-expiry-time-ms among them."""
    facade = facades(**{"linger.ms": 0})
    facade.know()
    facade.broker.holds = True
    facade.producer.send("t", b"v", partition=0)
    facade.broker.await_requests(1)
    runtime = facade.producer._runtime
    registry = runtime.registry
    for counts in (registry.errors, registry.retries):
        counts["NOT_ENOUGH_REPLICAS"] = 1
    runtime.config = SimpleNamespace(security_protocol="SSL")  # type: ignore[assignment]
    registry.node(1).certificate_ends_s = 1
    login: Any = SimpleNamespace(expires_at_ms=1)
    channel_builder: Any = SimpleNamespace(identity_ends_at_s=lambda: 1)
    unconfirmed: Any = SimpleNamespace(total=0)
    register_gauges(runtime, login, channel_builder, unconfirmed)
    defined = {(group, definition.name) for group, definitions in (
        (PRODUCER, OF_PRODUCER), (NODE, OF_NODE), (TOPIC, OF_TOPIC)) for definition in definitions}
    offered = {key: (metric.kind, metric.text) for metric in registry.collect(0)
               if (key := (metric.group, metric.name)) not in defined}
    named = {(group, name): (kind, text) for group, name, kind, text in LOOKED_UP}
    assert len(named) == len(LOOKED_UP)
    assert named == offered


def test_topics_when_a_producer_has_not_used_one_for_long_then_its_numbers_go(facades: Facades) -> None:
    """They go with what metadata is asked for (metadata.max.idle.ms): a row for each topic ever used would not end."""
    facade = facades()
    facade.know()
    runtime = facade.producer._runtime
    for topic in ("t", "forgotten"):
        runtime.registry.ledger.topic_row(topic)
    runtime.registry.roll(runtime.registry.due_ms + runtime.config.metrics_sample_window_ms)
    assert set(facade.producer.metrics().topics) == {"t"}


def test_our_certificate_when_it_is_text_on_one_line_then_its_end_is_told(certificates: Certificates) -> None:
    """As an environment variable brings it."""
    own = x509.load_pem_x509_certificate(certificates.client.certificate.read_bytes())
    settings = {"ssl.keystore.key": certificates.client.key.read_text().replace("\n", " "),
                "ssl.keystore.certificate.chain": certificates.client.certificate.read_text().replace("\n", " ")}
    with KafkaProducer({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", **settings}) as producer:
        assert producer.metrics()["certificate-expiry-time-ms"] == 1000 * own.not_valid_after_utc.timestamp()


def test_certificates_when_brokers_end_at_different_times_then_the_first_is_told() -> None:
    with KafkaProducer({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL"}) as producer:
        assert "broker-certificate-expiry-time-ms" not in producer.metrics()
        for node_id, ends_s in ((1, 300), (2, 200), (3, 0), (4, 400)):  # the third has shown none
            producer._runtime.registry.node(node_id).certificate_ends_s = ends_s
        assert producer.metrics()["broker-certificate-expiry-time-ms"] == 200_000
