"""TLS with Apache Kafka's own listeners: who is trusted, by which name, and what is said when they are not."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

from pyproducer import AuthenticationError, KafkaProducer
from tests.support.certificates import KEY_PASSWORD, Certificates
from tests.support.kafka_jars import java
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.sending import error_of_send

MAX_BLOCK_MS = 4000
# For what must not wait: a test that waits after all ends by the suite's own timeout.
PATIENT_MS = 3_600_000


def tls_props(bootstrap_servers: str, certificates: Certificates, **more: object) -> dict[str, Any]:
    props: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers, "security.protocol": "SSL", "max.block.ms": MAX_BLOCK_MS,
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.ca)}
    props.update({name.replace("_", "."): value for name, value in more.items()})
    return props


def check_delivery(kafka: KafkaServer, topic: str, props: dict[str, Any]) -> None:
    values = [b"%d" % number for number in range(2000)]
    with KafkaProducer({**props, "max.block.ms": 60_000}) as producer:
        futures = [producer.send(topic, value, partition=0) for value in values]
        futures.append(producer.send(topic, b"b" * 900_000, partition=0))  # many TLS records
        for future in futures:
            future.result(GIVE_UP_S)
    stored = [record.value for record in read_topic(kafka.bootstrap_servers, topic)]
    assert stored == [*values, b"b" * 900_000]


def check_refusal(topic: str, props: dict[str, Any], *words: str) -> None:
    """Who is not trusted is an error at once, not one to try again; it names one of the words, and nothing was sent."""
    with KafkaProducer({**props, "max.block.ms": PATIENT_MS}) as producer:
        error = error_of_send(producer, topic, b"secret")
    assert isinstance(error, AuthenticationError), error
    assert error.outcome == "not_sent"
    assert any(word.lower() in str(error).lower() for word in words), error


def test_broker_when_its_authority_is_trusted_then_records_arrive(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    check_delivery(kafka, topic, tls_props(kafka.ssl_bootstrap_servers, certificates))


def test_broker_when_trusted_by_certificates_in_the_settings_then_records_arrive(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    props = tls_props(kafka.ssl_bootstrap_servers, certificates)
    del props["ssl.truststore.location"]
    check_delivery(kafka, topic, {**props, "ssl.truststore.certificates": certificates.ca.read_text()})


def test_client_when_it_has_a_trusted_certificate_then_mutual_tls_works(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    check_delivery(kafka, topic, tls_props(kafka.mtls_bootstrap_servers, certificates, ssl_keystore_type="PEM",
                                           ssl_keystore_location=str(certificates.client.keystore)))


def test_client_when_its_key_has_a_password_then_mutual_tls_works(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    props = tls_props(kafka.mtls_bootstrap_servers, certificates, ssl_keystore_type="PEM",
                      ssl_key_password=KEY_PASSWORD)
    props["ssl.keystore.key"] = certificates.client.encrypted_key.read_text()
    props["ssl.keystore.certificate.chain"] = certificates.client.certificate.read_text()
    check_delivery(kafka, topic, props)


def keytool(*arguments: str) -> None:
    subprocess.run([str(Path(java()).with_name("keytool")), *arguments], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_client_when_its_stores_are_keytools_then_mutual_tls_works_as_with_the_same_file_in_java(
        kafka: KafkaServer, certificates: Certificates, topic_name: str, kind: str, tmp_path: Path) -> None:
    if kind == "JKS":
        pytest.importorskip("jks", reason="pyjks is not installed: pip install -e '.[jks]'")
    trust, key, p12 = str(tmp_path / "trust"), str(tmp_path / "key"), tmp_path / "key.p12"
    identity = certificates.client
    p12.write_bytes(serialize_key_and_certificates(
        b"client", load_pem_private_key(identity.key.read_bytes(), None),
        load_pem_x509_certificate(identity.certificate.read_bytes()), None, BestAvailableEncryption(b"changeit")))
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(certificates.ca), "-keystore", trust, "-storetype",
            kind, "-storepass", "changeit")
    keytool("-importkeystore", "-noprompt", "-srckeystore", str(p12), "-srcstoretype", "PKCS12", "-srcstorepass",
            "changeit", "-destkeystore", key, "-deststoretype", kind, "-deststorepass", "changeit")
    topic = kafka.create_topic(topic_name)
    check_delivery(kafka, topic, {
        "bootstrap.servers": kafka.mtls_bootstrap_servers, "security.protocol": "SSL",
        "ssl.truststore.location": trust, "ssl.truststore.password": "changeit", "ssl.truststore.type": kind,
        "ssl.keystore.location": key, "ssl.keystore.password": "changeit", "ssl.keystore.type": kind,
        "ssl.key.password": "changeit"})


def test_broker_when_its_authority_is_unknown_then_the_error_says_so(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    props = tls_props(kafka.ssl_bootstrap_servers, certificates, ssl_truststore_location=str(certificates.other_ca))
    check_refusal(topic, props, "certificate verify failed")


def test_broker_when_its_certificate_has_another_name_then_the_error_says_so(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    check_refusal(topic, tls_props(kafka.misnamed_bootstrap_servers, certificates), "hostname mismatch",
                  "not valid for 'localhost'")


def test_broker_when_names_are_not_checked_then_another_name_is_no_error(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    props = tls_props(kafka.misnamed_bootstrap_servers, certificates)
    check_delivery(kafka, topic, {**props, "ssl.endpoint.identification.algorithm": ""})


def test_client_when_it_has_no_certificate_for_mutual_tls_then_the_error_says_so(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    check_refusal(topic, tls_props(kafka.mtls_bootstrap_servers, certificates),
                  "requires a certificate from us: set ssl.keystore.location")


def test_client_when_its_certificate_is_not_trusted_then_the_error_says_so(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    props = tls_props(kafka.mtls_bootstrap_servers, certificates, ssl_keystore_type="PEM",
                      ssl_keystore_location=str(certificates.other_client.keystore))
    check_refusal(topic, props, "certificate", "tls", "ssl")


def test_broker_without_tls_when_tls_is_spoken_then_the_error_says_so(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    # The peer only hangs up on TLS, so it is asked once in plaintext whether it is Kafka.
    check_refusal(topic, tls_props(kafka.bootstrap_servers, certificates), "its listener speaks Kafka without TLS")


def test_broker_with_tls_when_plaintext_is_spoken_then_the_error_says_so(kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    check_refusal(topic, {"bootstrap.servers": kafka.ssl_bootstrap_servers},
                  "the peer speaks TLS, not Kafka: set security.protocol to SSL or SASL_SSL")
