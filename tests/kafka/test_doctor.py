"""The doctor on Apache Kafka: what our own broker would let pass, such as what the controller tells of its clock."""

from __future__ import annotations

from pyproducer.cli.doctor.examination import examine
from pyproducer.cli.doctor.report import Report, Status
from pyproducer.common.clock import SystemClock
from tests.support.certificates import Certificates
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import read_topic


def diagnose(address: str, topic: str | None, certificates: Certificates | None = None, *,
             writes: bool = False) -> Report:
    report = Report()
    tls = {"security.protocol": "SSL", "ssl.truststore.location": str(certificates.ca)} if certificates else {}
    examine({"bootstrap.servers": address, **tls}, topic, writes=writes, timeout_ms=30_000, clock=SystemClock(),
            report=report)
    return report


def test_cluster_when_all_is_well_then_every_step_says_so(kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, partitions=3)
    report = diagnose(kafka.bootstrap_servers, topic, writes=True)
    assert {line.step for line in report.lines if line.status is not Status.OK} == {"TLS", "SASL"}, report.json()
    told = {line.step: line.detail for line in report.lines}
    assert "the cluster's controller" in told["clock"]
    assert "one record was written at offset 0" in told["round trip"]
    assert len(read_topic(kafka.bootstrap_servers, topic)) == 1


def test_listener_when_something_is_wrong_then_the_step_says_what(
        kafka: KafkaServer, certificates: Certificates, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    for address, trust, wanted, step, words in [
            (kafka.ssl_bootstrap_servers, certificates, topic, None, ""),
            (kafka.ssl_bootstrap_servers, None, topic, "ApiVersions", "the peer speaks TLS, not Kafka"),
            (kafka.bootstrap_servers, certificates, topic, "TLS", "its listener speaks Kafka without TLS"),
            (kafka.mtls_bootstrap_servers, certificates, topic, "TLS", "requires a certificate from us"),
            (kafka.misnamed_bootstrap_servers, certificates, topic, "TLS", "is for kafka.example.org"),
            (kafka.bootstrap_servers, None, "absent", "topic", "kafka-topics --create --topic absent")]:
        report = diagnose(address, wanted, trust)
        failed = [line for line in report.lines if line.status is Status.FAIL]
        assert [line.step for line in failed] == ([] if step is None else [step]), report.json()
        assert all(words in line.text() for line in failed)
