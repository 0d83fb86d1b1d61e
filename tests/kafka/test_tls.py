"""TLS with Apache Kafka's own listeners: who is trusted, by which name, and what is said when they are not."""

from __future__ import annotations

from typing import Any

from pyproducer import AuthenticationError, KafkaProducer, KafkaTimeoutError
from tests.support.certificates import KEY_PASSWORD, Certificates
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import read_topic
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
            future.result(60)
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
    check_refusal(topic, tls_props(kafka.mtls_bootstrap_servers, certificates), "certificate")


def test_client_when_its_certificate_is_not_trusted_then_the_error_says_so(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    props = tls_props(kafka.mtls_bootstrap_servers, certificates, ssl_keystore_type="PEM",
                      ssl_keystore_location=str(certificates.other_client.keystore))
    check_refusal(topic, props, "certificate", "tls", "ssl")


def test_broker_without_tls_when_tls_is_spoken_then_the_error_says_so(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    with KafkaProducer(tls_props(kafka.bootstrap_servers, certificates)) as producer:
        error = error_of_send(producer, topic, b"secret")
    # The peer only hangs up: that may be a broker that is being started, so it is tried again until the time is up.
    assert isinstance(error, KafkaTimeoutError), error
    assert (error.phase, error.outcome) == ("metadata", "not_sent")
    assert f"{MAX_BLOCK_MS} ms" in str(error)
    assert "its listener may not speak TLS" in str(error)
