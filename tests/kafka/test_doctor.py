"""The doctor on Apache Kafka: what our own broker would let pass, such as what the controller tells of its clock."""

from __future__ import annotations

import time

import pytest

from pyproducer import KafkaProducer
from pyproducer.cli.doctor.examination import examine
from pyproducer.cli.doctor.report import Report, Status
from pyproducer.common.clock import SystemClock
from tests.support.certificates import Certificates
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import read_topic
from tests.support.patience import GIVE_UP_S


def diagnose(address: str, topic: str | None, certificates: Certificates | None = None, *,
             writes: bool = False, **more: str) -> Report:
    report = Report()
    tls = {"security.protocol": "SSL", "ssl.truststore.location": str(certificates.ca)} if certificates else {}
    settings = {"bootstrap.servers": address, **tls, **{key.replace("_", "."): value for key, value in more.items()}}
    examine(settings, topic, writes=writes, timeout_ms=30_000, clock=SystemClock(),
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


def test_transactional_id_when_a_producer_of_it_is_in_a_transaction_then_it_is_looked_at_and_the_producer_goes_on(
        kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic_name}) as producer:
        for is_used in (False, True, True):  # at first the coordinator does not know the id
            if is_used:
                producer.begin_transaction()
                producer.send(topic, b"v").result(GIVE_UP_S)
            report = diagnose(kafka.bootstrap_servers, topic, writes=True, transactional_id=topic_name)
            told = {line.step: line for line in report.lines}
            assert told["transactional id"].status is Status.OK, report.json()
            assert report.exit_status == 0
            if is_used:
                producer.commit_transaction()
            else:
                producer.init_transactions()
    assert len(read_topic(kafka.bootstrap_servers, topic)) == 5


@pytest.mark.parametrize("operation", ["DESCRIBE", "WRITE"])
def test_transactional_id_when_kafka_does_not_allow_it_then_it_fails(operation: str) -> None:
    admin_api = pytest.importorskip("confluent_kafka.admin")
    with KafkaServer(settings={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": True, "super.users": "User:nobody"}) as guarded:
        topic = guarded.create_topic("orders")
        admin = admin_api.AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
        for future in admin.create_acls([admin_api.AclBinding(
                admin_api.ResourceType.TRANSACTIONAL_ID, "mine", admin_api.ResourcePatternType.LITERAL, principal, "*",
                admin_api.AclOperation[what], admin_api.AclPermissionType[answer]) for principal, what, answer in (
                    ("User:*", "ALL", "ALLOW"), ("User:ANONYMOUS", operation, "DENY"))]).values():
            future.result(GIVE_UP_S)
        eventually = time.monotonic() + GIVE_UP_S
        while True:  # Kafka takes it over behind its answer
            report = diagnose(guarded.bootstrap_servers, topic, writes=True, transactional_id="mine")
            failed = [line for line in report.lines if line.status is Status.FAIL]
            if failed:
                break
            assert time.monotonic() < eventually
    assert [line.step for line in failed] == ["transactional id"], report.json()
    assert "--transactional-id mine" in failed[0].change
