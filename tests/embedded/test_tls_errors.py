"""What is wrong with a connection over TLS is said at once and in its own words: what it is, whose, what to change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer import AuthenticationError, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from tests.support.certificates import Certificates
from tests.support.patience import GIVE_UP_S
from tests.support.sending import error_of_send

# For what must not wait: a test that waits after all ends by the suite's own timeout.
PATIENT_MS = 3_600_000
IDENTITIES = {"good": "server", "expired": "expired_server", "future": "future_server", "named": "misnamed_server",
              "alone": "self_signed_server", "moved": "localhost_server", "mutual": "server", "old": "server"}


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[EmbeddedBroker]:
    names = ["PLAIN", *(name.upper() for name in IDENTITIES)]
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "advertised.listeners": ",".join(f"{name}://{'127.0.0.1' if name in ('PLAIN', 'MOVED') else 'localhost'}:0"
                                         for name in names),
        "listener.security.protocol.map": ",".join(f"{name}:{'PLAINTEXT' if name == 'PLAIN' else 'SSL'}"
                                                   for name in names),
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.truststore.location": str(certificates.ca),
        "listener.name.old.ssl.enabled.protocols": "TLSv1.2",
        **{f"listener.name.{name}.ssl.keystore.location": str(getattr(certificates, identity).keystore)
           for name, identity in IDENTITIES.items()}}
    with EmbeddedBroker(topics={"orders": 1}, config=config) as running:
        yield running


def refusal(broker: EmbeddedBroker, listener: str, settings: dict[str, Any]) -> str:
    """Send one record by the name localhost, and return what was said instead of waiting."""
    port = broker.bootstrap_servers_of(listener.upper()).rpartition(":")[2]
    with KafkaProducer({"bootstrap.servers": f"localhost:{port}", "max.block.ms": PATIENT_MS,
                        "delivery.timeout.ms": PATIENT_MS, **settings}) as producer:
        error = error_of_send(producer, "orders", b"secret")
    assert isinstance(error, AuthenticationError), error
    assert (error.outcome, error.retriable) == ("not_sent", False)
    return str(error)


@pytest.mark.parametrize(("listener", "more", "words"), [
    ("expired", {}, ["certificate has expired", "that of CN=expired-server has been so since ", " GMT (renew it"]),
    ("future", {}, ["certificate is not yet valid", "that of CN=future-server counts from ", "this machine's clock"]),
    ("alone", {}, ["self-signed certificate", "CN=self-signed-server is signed by CN=self-signed-server",
                   "put it into ssl.truststore.location"]),
    ("named", {}, ["not valid for 'localhost'", "that of CN=misnamed-server is for kafka.example.org",
                   "connect by a name that it shows"]),
    ("good", {"ssl.truststore.location": "other_ca"},
     ["unable to get local issuer certificate", "CN=server is signed by CN=pyproducer test authority",
      "put the authority's certificate into ssl.truststore.location"]),
    ("mutual", {}, ["the peer requires a certificate from us: set ssl.keystore.location"]),
    ("mutual", {"ssl.enabled.protocols": "TLSv1.2"}, ["requires a certificate from us", "ssl.keystore.location"]),
    ("mutual", {"ssl.keystore.location": "other_client"},
     ["the peer does not trust the authority that signed our certificate"]),
    ("old", {"ssl.enabled.protocols": "TLSv1.3"},
     ["no TLS version in common with the peer: see ssl.enabled.protocols"]),
    ("old", {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, ["no cipher suite in common"]),
    ("plain", {}, ["its listener speaks Kafka without TLS", "set security.protocol to PLAINTEXT"]),
    ("good", {"security.protocol": "PLAINTEXT"}, ["the peer speaks TLS, not Kafka", "set security.protocol to SSL"]),
])
def test_tls_when_something_is_wrong_then_the_error_says_what_and_comes_at_once(
        broker: EmbeddedBroker, certificates: Certificates, listener: str, more: dict[str, str],
        words: list[str]) -> None:
    settings = {"security.protocol": "SSL", "ssl.truststore.location": "ca", **more}
    for key in ("ssl.truststore.location", "ssl.keystore.location"):
        if key in settings:
            found = getattr(certificates, settings[key])
            settings[key] = str(getattr(found, "keystore", found))
    if settings["security.protocol"] == "PLAINTEXT":
        del settings["ssl.truststore.location"]
    text = refusal(broker, listener, settings)
    for word in words:
        assert word in text


def test_plaintext_listener_when_records_and_checks_come_again_and_again_then_each_is_told_at_once(
        broker: EmbeddedBroker) -> None:
    """Only the first record was; the others and check() took all of max.block.ms, for the producer's life."""
    port = broker.bootstrap_servers_of("PLAIN").rpartition(":")[2]
    words = "its listener speaks Kafka without TLS"
    for more in ({}, {"sasl.mechanism": "PLAIN", "security.protocol": "SASL_SSL", "sasl.jaas.config":
                      'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'}):
        with KafkaProducer({"bootstrap.servers": f"localhost:{port}", "max.block.ms": PATIENT_MS,
                            "security.protocol": "SSL", "delivery.timeout.ms": PATIENT_MS, **more}) as producer:
            for _ in range(3):
                error = error_of_send(producer, "orders", b"secret")
                assert isinstance(error, AuthenticationError)
                assert words in str(error)
            with pytest.raises(AuthenticationError, match=words):
                producer.check(PATIENT_MS / 1000)
            with pytest.raises(AuthenticationError, match=words):
                producer.partitions_for("orders")


def test_tls_when_the_broker_tells_a_name_that_its_certificate_has_not_then_the_error_says_where_it_comes_from(
        broker: EmbeddedBroker, certificates: Certificates) -> None:
    port = broker.bootstrap_servers_of("MOVED").rpartition(":")[2]
    with KafkaProducer({"bootstrap.servers": f"localhost:{port}", "security.protocol": "SSL", "delivery.timeout.ms":
                        PATIENT_MS, "ssl.truststore.location": str(certificates.ca)}) as producer:
        text = str(error_of_send(producer, "orders", b"secret"))
    for word in ("not valid for '127.0.0.1'", "that of CN=localhost-server is for localhost",
                 "the broker itself told this name, in its advertised.listeners"):
        assert word in text


def test_certificate_when_it_is_renewed_in_its_file_then_the_same_producer_sends(
        broker: EmbeddedBroker, certificates: Certificates, tmp_path: Path) -> None:
    """What was refused is tried anew by the next send, with what lies in the file then; nobody restarts anything."""
    file = tmp_path / "client.pem"
    file.write_bytes(certificates.other_client.keystore.read_bytes())
    port = broker.bootstrap_servers_of("MUTUAL").rpartition(":")[2]
    with KafkaProducer({"bootstrap.servers": f"localhost:{port}", "security.protocol": "SSL",
                        "ssl.truststore.location": str(certificates.ca), "ssl.keystore.location": str(file),
                        "max.block.ms": PATIENT_MS, "delivery.timeout.ms": PATIENT_MS}) as producer:
        assert "does not trust the authority" in str(error_of_send(producer, "orders", b"secret"))
        new = tmp_path / "new.pem"
        new.write_bytes(certificates.client.keystore.read_bytes())
        new.replace(file)
        deadline = time.monotonic() + GIVE_UP_S
        while isinstance(producer.send("orders", b"secret").exception(GIVE_UP_S), AuthenticationError):
            assert time.monotonic() < deadline, "the new certificate was not used"
        producer.send("orders", b"secret").result(GIVE_UP_S)
