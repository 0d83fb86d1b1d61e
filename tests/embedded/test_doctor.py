"""The doctor on set-ups that are broken, each in one way: which step says so, in which words, and what to change."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.cli.doctor import reach
from pyproducer.cli.doctor.examination import examine
from pyproducer.cli.doctor.report import Line, Report, Status
from pyproducer.cli.main import main
from pyproducer.common.clock import SystemClock
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import AuthenticationError
from pyproducer.network.certificates import CertificateFacts
from pyproducer.network.ssl_transport import TlsSession
from pyproducer.producer.config import ProducerConfig
from pyproducer.protocol.apis import ApiKeys
from pyproducer.testing import read_topic
from tests.support.bad_servers import (
    black_hole,
    closed_port,
    dripping_server,
    http_server,
    lying_broker,
    silent_server,
    ssh_server,
)
from tests.support.certificates import Certificates
from tests.support.clock import ManualClock
from tests.support.ports import reserved_port

OK, WARN, FAIL, SKIP = Status.OK, Status.WARN, Status.FAIL, Status.SKIP
IDENTITIES = {"good": "server", "expired": "expired_server", "named": "misnamed_server", "moved": "localhost_server",
              "mutual": "server", "logged": "server"}
PROTOCOLS = {"PLAIN": "PLAINTEXT", "LOGGED": "SASL_SSL", "BARE": "SASL_PLAINTEXT"}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'
SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_jaas_config": JAAS.format("secret")}
ALL_STEPS = ["settings", "names", "TCP", "TLS", "SASL", "ApiVersions", "advertised", "clock", "topic", "partitions",
             "authorization", "quota", "round trip"]


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[EmbeddedBroker]:
    names = ["PLAIN", "BARE", *(name.upper() for name in IDENTITIES)]
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "advertised.listeners": ",".join(f"{name}://{'127.0.0.1' if name in ('PLAIN', 'MOVED') else 'localhost'}:0"
                                         for name in names),
        "listener.security.protocol.map": ",".join(f"{name}:{PROTOCOLS.get(name, 'SSL')}" for name in names),
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.truststore.location": str(certificates.ca),
        "auto.create.topics.enable": "false",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.bare.plain.sasl.jaas.config": JAAS.format("secret"),
        "listener.name.logged.plain.sasl.jaas.config": JAAS.format("secret").replace(";", ' user_alice="secret";'),
        **{f"listener.name.{name}.ssl.keystore.location": str(getattr(certificates, identity).keystore)
           for name, identity in IDENTITIES.items()}}
    with EmbeddedBroker(topics={"orders": 2}, config=config) as running:
        yield running


class Doctor:
    """Examines, and tells the lines by their step."""

    def __init__(self, broker: EmbeddedBroker, certificates: Certificates) -> None:
        self._broker = broker
        self._certificates = certificates
        self.clock: Any = SystemClock()

    def at(self, address: str, *, topic: str | None = None, writes: bool = False, timeout_ms: int = 30_000,
           **settings: object) -> Report:
        report = Report()
        props = {"bootstrap.servers": address, **{key.replace("_", "."): value for key, value in settings.items()}}
        examine(props, topic, writes=writes, timeout_ms=timeout_ms, clock=self.clock, report=report)
        for line in report.lines:
            assert "secret" not in line.text()
        return report

    def of(self, listener: str, **more: Any) -> Report:
        port = self._broker.bootstrap_servers_of(listener.upper()).rpartition(":")[2]
        host = "127.0.0.1" if listener == "plain" else "localhost"
        settings: dict[str, Any] = {} if listener == "plain" else {
            "security_protocol": PROTOCOLS.get(listener.upper(), "SSL"),
            "ssl_truststore_location": str(self._certificates.ca)}
        return self.at(f"{host}:{port}", **{**settings, **more})


@pytest.fixture
def doctor(broker: EmbeddedBroker, certificates: Certificates) -> Doctor:
    return Doctor(broker, certificates)


def only_failure(report: Report, step: str, *words: str) -> Line:
    """Check that this step failed, and no other; each word is in what it says."""
    failed = [line for line in report.lines if line.status is FAIL]
    assert [line.step for line in failed] == [step], report.json()
    for word in words:
        assert word in f"{failed[0].detail} -> {failed[0].change}"
    assert report.exit_status == 1
    return failed[0]


def steps(report: Report) -> dict[str, Status]:
    return {line.step.split(" ")[0] if line.step.startswith("advertised") else line.step: line.status
            for line in report.lines}


# ---- nothing is broken


def test_cluster_when_all_is_well_then_every_step_says_so_and_nothing_is_written(
        doctor: Doctor, broker: EmbeddedBroker) -> None:
    report = doctor.of("plain", topic="orders")
    found = steps(report)
    assert list(found) == ALL_STEPS
    assert {step for step, status in found.items() if status is not OK} == {"TLS", "SASL"}
    assert report.exit_status == 0
    assert list(read_topic(broker.bootstrap_servers_of("PLAIN"), "orders")) == []


def test_record_when_asked_for_then_the_users_own_producer_writes_one(
        doctor: Doctor, broker: EmbeddedBroker) -> None:
    broker.create_topic("written")
    report = doctor.of("plain", topic="written", writes=True, acks="1", value_serializer="json",
                       queue_buffering_max_ms=7)  # which is linger.ms, and the doctor's is another
    assert steps(report)["round trip"] is OK
    [record] = read_topic(broker.bootstrap_servers_of("PLAIN"), "written")
    assert record.key == b"pyproducer-doctor"


def test_record_when_no_broker_answers_then_it_is_not_called_written(doctor: Doctor, broker: EmbeddedBroker) -> None:
    broker.create_topic("tiny", 1, configs={"max.message.bytes": "40"})
    report = doctor.of("plain", topic="tiny", writes=True, acks="0")
    assert steps(report)["round trip"] is WARN
    assert "with acks=0 no broker says whether it is stored" in "".join(line.text() for line in report.lines)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_cluster_when_one_logs_in_over_tls_then_both_steps_say_so(
        doctor: Doctor, broker: EmbeddedBroker, mechanism: str) -> None:
    broker.add_scram_user("alice", "secret")
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    report = doctor.of("logged", topic="orders", sasl_mechanism=mechanism,
                       sasl_jaas_config=JAAS.format("secret").replace("plain.Plain", module))
    found = steps(report)
    # The certificates of the tests live for two days.
    assert {step for step, status in found.items() if status is not OK} == {"TLS", "advertised"} - (
        {"advertised"} if found["advertised"] is OK else set())
    assert found["TLS"] is WARN
    [line] = [line for line in report.lines if line.step == "TLS"]
    assert "TLSv1.3" in line.detail
    assert "CN=server, signed by CN=pyproducer test authority, for localhost, 127.0.0.1" in line.detail
    assert "ends in 1 days" in line.detail or "ends in 2 days" in line.detail


def test_certificate_when_the_broker_shows_an_ended_one_that_nobody_needs_then_the_doctor_does_not_tell_of_it(
        doctor: Doctor, certificates: Certificates, start_broker: Callable[..., EmbeddedBroker],
        tmp_path: Path) -> None:
    """Its date stood beside the name of the broker's own, which ended in -4 days."""
    shown = tmp_path / "shown.pem"
    shown.write_bytes(certificates.server.keystore.read_bytes() + certificates.expired_server.certificate.read_bytes())
    running = start_broker(topics={"orders": 1}, config={
        "listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(shown)})
    report = doctor.at(running.bootstrap_servers, topic="orders", security_protocol="SSL",
                       ssl_truststore_location=str(certificates.ca))
    [line] = [line for line in report.lines if line.step == "TLS"]
    assert re.search("the certificate of CN=server ends in [12] days", line.detail)
    assert "expired-server" not in f"{line.detail} {line.change}"


def test_certificate_when_several_end_soon_then_the_doctor_tells_the_one_that_ends_first() -> None:
    """The broker's own, in 29 days, hid that its authority ends in two."""
    clock = ManualClock(timestamp_ms=0)
    own = CertificateFacts("CN=kafka", "CN=authority", "", "Jan 30 00:00:00 1970 GMT", ("kafka",))
    authority = CertificateFacts("CN=authority", "CN=root", "", "Jan  3 00:00:00 1970 GMT", ())
    root = CertificateFacts("CN=root", "CN=root", "", "", ())
    config, report = ProducerConfig({"bootstrap.servers": "kafka:9093"}), Report()
    found = reach.Reach(None, config, clock, report)  # type: ignore[arg-type]  # it connects to nothing
    found._on_session("kafka:9093", TlsSession("TLSv1.3", "x", [own, authority, root], True), report)
    [line] = report.lines
    assert line.status is WARN
    assert "the certificate of CN=authority ends in 2 days" in line.detail
    assert line.change is not None
    assert "have this authority's renewed" in line.change


def test_certificate_when_it_ends_soon_and_its_name_is_not_looked_at_then_the_doctor_warns_of_both(
        doctor: Doctor) -> None:
    """The one warning kept the other from being written."""
    report = doctor.of("named", ssl_endpoint_identification_algorithm="")
    lines = [line for line in report.lines if line.step == "TLS"]
    assert [line.status for line in lines] == [WARN, WARN]
    assert re.search("ends in [12] days", lines[0].detail)
    assert "the name in it is not checked" in lines[1].detail


CANONICAL = {"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}


@pytest.fixture
def alias(start_broker: Callable[..., EmbeddedBroker], certificates: Certificates,
          monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a broker whose certificate has its canonical name only, localhost."""
    monkeypatch.setattr(socket, "getnameinfo", lambda _address, _flags: ("localhost", "9093"))
    started = start_broker(topics={"orders": 1}, config={
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:0,SSL://localhost:0",
        "ssl.keystore.location": str(certificates.localhost_server.keystore)})
    return f"127.0.0.1:{started.bootstrap_servers_of('SSL').rpartition(':')[2]}"


def test_alias_when_canonical_names_are_asked_for_then_these_are_connected_to_as_the_producer_does(
        doctor: Doctor, certificates: Certificates, alias: str) -> None:
    tls = {"security_protocol": "SSL", "ssl_truststore_location": str(certificates.ca)}
    only_failure(doctor.at(alias, topic="orders", **tls), "TLS", "not valid for '127.0.0.1'")
    report = doctor.at(alias, topic="orders", **tls, **CANONICAL)
    assert report.exit_status == 0, report.json()
    told = [line.detail for line in report.lines if line.step == "names"]
    assert told[0] == f"{alias}: by client.dns.lookup it is connected to as localhost"
    assert told[1].startswith("localhost:")
    twice = doctor.at(f"{alias},{alias.replace('127.0.0.1', 'localhost')}", **tls, **CANONICAL)
    assert [line.step for line in twice.lines].count("TLS") == 1  # each name once


def test_alias_when_one_of_several_does_not_resolve_then_warned_and_when_none_does_then_it_fails(
        doctor: Doctor, certificates: Certificates, alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = reach.resolve_host

    def only_numbers(host: str, port: int) -> list[Any]:
        if host == "kafka.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, port)

    monkeypatch.setattr(reach, "resolve_host", only_numbers)
    tls = {"security_protocol": "SSL", "ssl_truststore_location": str(certificates.ca), **CANONICAL}
    report = doctor.at(f"kafka.example:9092,{alias}", topic="orders", **tls)
    assert report.exit_status == 0
    warned = [line.detail for line in report.lines if line.step == "names" and line.status is WARN]
    assert len(warned) == 1
    assert warned[0].startswith("kafka.example:9092: the host name does not resolve")
    only_failure(doctor.at("kafka.example:9092", **tls), "names", "kafka.example:9092: the host name does not resolve")


def test_reader_when_canonical_names_are_asked_for_then_it_connects_to_these(
        certificates: Certificates, alias: str) -> None:
    tls = {"security.protocol": "SSL", "ssl.truststore.location": str(certificates.ca)}
    with pytest.raises(AuthenticationError):
        list(read_topic(alias, "orders", settings=tls))
    assert list(read_topic(alias, "orders", settings={
        **tls, "client.dns.lookup": "resolve_canonical_bootstrap_servers_only"})) == []


# ---- one thing is broken


def test_settings_when_one_is_wrong_then_nothing_else_is_tried(doctor: Doctor) -> None:
    report = doctor.at("127.0.0.1:1", security_protocl="SSL")
    only_failure(report, "settings", "did you mean 'security.protocol'")
    assert len(report.lines) == 1


def test_name_when_it_does_not_resolve_then_names_fails(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_host: str, _port: int) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(reach, "resolve_host", unknown)
    report = doctor.at("kafka-1.example:9092", topic="orders")
    only_failure(report, "names", "kafka-1.example:9092: the host name does not resolve", "/etc/hosts")
    assert steps(report)["round trip"] is SKIP


@pytest.mark.parametrize(("server", "settings", "step", "words"), [
    (closed_port, {}, "TCP", ["Connection refused", "nothing listens there", "see that the broker runs"]),
    (black_hole, {"timeout_ms": 200}, "TCP", ["no connection to 127.0.0.1 within 0.2 s", "no firewall"]),
    (http_server, {}, "ApiVersions", ["HTTP"]),
    (http_server, {"security_protocol": "SSL"}, "TLS", ["seems to speak HTTP, not TLS"]),
    (http_server, SASL, "SASL", ["the peer speaks HTTP, not Kafka", "use the port of a Kafka listener"]),
    (ssh_server, SASL, "SASL", ["the peer speaks SSH, not Kafka", "use the port of a Kafka listener"]),
    (silent_server, {"timeout_ms": 200}, "ApiVersions", ["did not answer API_VERSIONS"]),
    (silent_server, {"timeout_ms": 200, "security_protocol": "SSL"}, "TLS",
     ["no end of the TLS handshake within", "see that this listener speaks TLS"]),
])
def test_address_when_no_broker_is_there_then_the_step_says_what_is(
        doctor: Doctor, server: Callable[[], AbstractContextManager[str]], settings: dict[str, Any], step: str,
        words: list[str]) -> None:
    with server() as address:
        only_failure(doctor.at(address, **settings), step, *words)


@pytest.mark.parametrize(("listener", "more", "step", "words"), [
    ("plain", {"security_protocol": "SSL"}, "TLS", ["speaks Kafka without TLS", "set security.protocol to PLAINTEXT"]),
    ("good", {"security_protocol": "PLAINTEXT", "ssl_truststore_location": None}, "ApiVersions",
     ["the peer speaks TLS, not Kafka: set security.protocol to SSL or SASL_SSL"]),
    ("expired", {}, "TLS", ["certificate has expired", "CN=expired-server has been so since", "renew it"]),
    ("good", {"ssl_truststore_location": "other_ca"}, "TLS",
     ["unable to get local issuer certificate", "put the authority's certificate into ssl.truststore.location"]),
    ("named", {}, "TLS", ["not valid for 'localhost'", "is for kafka.example.org"]),
    ("mutual", {"ssl_enabled_protocols": "TLSv1.2"}, "TLS", ["requires a certificate from us"]),
    ("bare", {"security_protocol": "PLAINTEXT", "ssl_truststore_location": None}, "metadata",
     ["SASL", "use the security.protocol of this listener"]),
    ("bare", {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": JAAS.format("secret")},
     "TLS", ["speaks Kafka without TLS"]),
    ("mutual", {}, "TLS", ["requires a certificate from us: set ssl.keystore.location"]),
    ("moved", {}, "advertised 1", ["TLS: 127.0.0.1:", "not valid for '127.0.0.1'", "in its advertised.listeners"]),
    ("logged", {"sasl_mechanism": "PLAIN", "sasl_jaas_config": JAAS.format("wrong")}, "SASL",
     ["Authentication failed", "sasl.jaas.config"]),
    ("logged", {"sasl_mechanism": "SCRAM-SHA-512",
                "sasl_jaas_config": JAAS.format("wrong").replace("plain.Plain", "scram.Scram")}, "SASL",
     ["SCRAM-SHA-512", "PLAIN"]),
])
def test_listener_when_it_and_the_settings_do_not_fit_then_the_step_says_what_to_change(
        doctor: Doctor, certificates: Certificates, listener: str, more: dict[str, Any], step: str,
        words: list[str]) -> None:
    if "ssl_truststore_location" in more and more["ssl_truststore_location"] is not None:
        more = {**more, "ssl_truststore_location": str(getattr(certificates, more["ssl_truststore_location"]))}
    report = doctor.of(listener, **more)
    failed = [line for line in report.lines if line.status is FAIL]
    assert [line.step for line in failed] == [step], report.json()
    for word in words:
        assert word in f"{failed[0].detail} -> {failed[0].change}"


def test_advertised_address_when_it_is_not_reached_then_that_broker_fails(start_broker: Callable[..., EmbeddedBroker],
                                                                          doctor: Doctor) -> None:
    with closed_port() as dead, reserved_port() as port:
        start_broker(port=port, config={"advertised.listeners": f"PLAINTEXT://{dead}"})
        report = doctor.at(f"127.0.0.1:{port}")
    only_failure(report, "advertised 1", "Connection refused", "let advertised.listeners of the broker have an address")


def test_clock_when_it_is_late_then_warned_and_when_by_hours_then_it_fails(doctor: Doctor) -> None:
    class Late(SystemClock):
        by_ms = 60_000

        def timestamp_ms(self) -> int:
            return super().timestamp_ms() - self.by_ms

    doctor.clock = Late()
    report = doctor.of("plain")
    [line] = [line for line in report.lines if line.step == "clock"]
    assert line.status is WARN
    assert "this machine is 60.0 s behind the cluster's controller" in line.detail
    assert "NTP" in line.change
    Late.by_ms = -2 * 3_600_000
    only_failure(doctor.of("plain"), "clock", "7200.0 s ahead of the cluster's controller")


def test_topic_when_there_is_none_then_told_how_to_create_it(doctor: Doctor) -> None:
    report = doctor.of("plain", topic="absent")
    only_failure(report, "topic", "absent", "kafka-topics --create --topic absent")
    assert [steps(report)[step] for step in ("partitions", "authorization", "round trip")] == [SKIP, SKIP, SKIP]


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("writes", [True, False])
def test_topic_when_there_is_none_and_brokers_create_them_then_warned(
        start_broker: Callable[..., EmbeddedBroker], writes: bool, is_told: bool) -> None:
    """It failed, and a producer with the same settings sent at once."""
    broker = start_broker(topics={"orders": 1})
    if not is_told:
        broker.set_authorizer(lambda _context, operation, kind, _name: operation.value != "DESCRIBE_CONFIGS")
    found = Report()
    examine({"bootstrap.servers": broker.bootstrap_servers}, "absent", writes=writes, timeout_ms=30_000,
            clock=SystemClock(), report=found)
    [line] = [line for line in found.lines if line.step == "topic"]
    assert line.status is WARN
    assert "the first record makes it" in line.detail
    assert ("auto.create.topics.enable" in line.detail) is not is_told
    assert "kafka-topics --create --topic absent; or correct its name" in line.change
    assert found.exit_status == 0
    assert steps(found)["round trip"] is (SKIP if writes else OK)
    assert "absent" not in broker.topics(), "nothing is created"


@pytest.mark.parametrize(("denied", "step"), [("DESCRIBE", "topic"), ("WRITE", "authorization")])
def test_topic_when_we_may_not_then_told_what_to_grant(broker: EmbeddedBroker, doctor: Doctor, denied: str,
                                                       step: str) -> None:
    broker.set_authorizer(lambda _context, operation, kind, _name: kind.value != "TOPIC" or operation.value != denied)
    try:
        only_failure(doctor.of("plain", topic="orders"), step, "orders",
                     "kafka-acls --add --allow-principal User:... --operation Write --operation Describe --topic")
    finally:
        broker.set_authorizer(lambda *_question: True)


def transactional(report: Report) -> Line:
    [line] = [line for line in report.lines if line.step == "transactional id"]
    return line


def test_transactional_id_when_a_producer_of_it_is_in_a_transaction_then_it_is_looked_at_and_the_producer_goes_on(
        doctor: Doctor, broker: EmbeddedBroker) -> None:
    broker.create_topic("booked")
    address = broker.bootstrap_servers_of("PLAIN")
    with KafkaProducer({"bootstrap.servers": address, "transactional.id": "booking"}) as producer:
        producer.init_transactions()
        for _ in range(2):
            producer.begin_transaction()
            producer.send("booked", b"v").result(30)
            report = doctor.of("plain", topic="booked", writes=True, transactional_id="booking")
            assert transactional(report).status is OK, report.json()
            assert report.exit_status == 0
            producer.commit_transaction()
    assert report.lines[-1].detail.endswith("with all handshakes, in no transaction")
    assert len(list(read_topic(address, "booked", isolation_level="read_committed"))) == 4


def test_transactional_id_when_nobody_has_used_it_then_we_may_write_and_it_stays_unknown(
        doctor: Doctor, broker: EmbeddedBroker) -> None:
    report = doctor.of("plain", topic="orders", transactional_id="unheard")
    assert (transactional(report).status, report.exit_status) == (SKIP, 0)
    assert "--write" in transactional(report).detail
    broker.create_topic("unheard")
    line = transactional(doctor.of("plain", topic="unheard", writes=True, transactional_id="unheard"))
    assert (line.status, line.change) == (OK, "")
    told = CliRunner().invoke(main, ["txn", "list", "--bootstrap-server", broker.bootstrap_servers_of("PLAIN")])
    assert told.exit_code == 0
    assert "unheard" not in told.output


@pytest.mark.parametrize("denied", ["DESCRIBE", "WRITE"])
def test_transactional_id_when_we_may_not_then_it_fails_and_nothing_is_written(
        broker: EmbeddedBroker, doctor: Doctor, denied: str) -> None:
    """All was ok, and the producer of these settings failed."""
    broker.create_topic(f"denied-{denied}")
    broker.set_authorizer(lambda _context, operation, kind, _name: (
        kind.value != "TRANSACTIONAL_ID" or operation.value != denied))
    try:
        report = doctor.of("plain", topic=f"denied-{denied}", writes=True, transactional_id="mine")
    finally:
        broker.set_authorizer(lambda *_question: True)
    only_failure(report, "transactional id", "mine", "--operation Write --operation Describe --transactional-id mine")
    assert steps(report)["round trip"] is SKIP
    assert list(read_topic(broker.bootstrap_servers_of("PLAIN"), f"denied-{denied}")) == []


@pytest.mark.parametrize(("code", "status", "words"), [
    (ErrorCode.CONCURRENT_TRANSACTIONS, OK, "we may write by it"),
    (ErrorCode.TOPIC_AUTHORIZATION_FAILED, OK, "we may write by it"),  # the topic is looked at behind the id
    (ErrorCode.UNKNOWN_SERVER_ERROR, WARN, "nobody knows whether we may write by it"),
    (ErrorCode.NOT_COORDINATOR, FAIL, "not answered within 0.5 s")])
def test_transactional_id_when_the_coordinator_says_something_else_then_that_is_told(
        broker: EmbeddedBroker, doctor: Doctor, code: ErrorCode, status: Status, words: str) -> None:
    broker.create_topic(code.name)
    fault = broker.faults.on("AddPartitionsToTxn", times=None).error(code)
    try:
        report = doctor.of("plain", topic=code.name, writes=True, transactional_id="asked",
                           **({"timeout_ms": 500} if status is FAIL else {}))
    finally:
        fault.remove()
    line = transactional(report)
    assert line.status is status, report.json()
    assert words in line.detail


def test_transactional_id_when_no_partition_is_known_then_it_is_not_looked_at(doctor: Doctor) -> None:
    report = doctor.of("plain", topic="absent", writes=True, transactional_id="mine")
    assert transactional(report).status is SKIP
    assert transactional(doctor.at("127.0.0.1:1", transactional_id="mine", timeout_ms=500)).status is SKIP


def test_clock_when_the_cluster_may_not_be_asked_then_the_newest_record_tells(
        broker: EmbeddedBroker, doctor: Doctor) -> None:
    broker.create_topic("timed")
    doctor.of("plain", topic="timed", writes=True)

    class Late(SystemClock):
        def timestamp_ms(self) -> int:
            return super().timestamp_ms() - 60_000

    broker.set_authorizer(lambda _context, _operation, kind, _name: kind.value != "CLUSTER")
    try:
        assert steps(doctor.of("plain"))["clock"] is SKIP
        assert steps(doctor.of("plain", topic="timed"))["clock"] is OK
        doctor.clock = Late()
        [line] = [line for line in doctor.of("plain", topic="timed").lines if line.step == "clock"]
        assert line.status is WARN
        assert "the newest record of timed is " in line.detail
    finally:
        broker.set_authorizer(lambda *_question: True)


def test_partition_when_it_has_no_leader_then_told_which(start_broker: Callable[..., EmbeddedBroker],
                                                         doctor: Doctor) -> None:
    broker = start_broker(brokers=2, topics={"orders": 2})
    addresses = broker.bootstrap_servers
    broker.stop_node(2)
    report = doctor.at(addresses, topic="orders", timeout_ms=5000)
    only_failure(report, "partitions", "orders: no leader for 1", "start the brokers that hold their replicas")
    assert "warn  TCP" in "\n".join(line.text() for line in report.lines)  # the other one will do


def start_with_too_few_in_sync(start_broker: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    broker = start_broker(brokers=2, topics={"careful": 1}, config={
        "default.replication.factor": 2, "min.insync.replicas": 2})
    broker.stop_following(3 - broker.describe_partition("careful", 0).leader_id, "careful")
    return broker


def test_replicas_when_too_few_are_in_sync_then_told(start_broker: Callable[..., EmbeddedBroker],
                                                     doctor: Doctor) -> None:
    address = start_with_too_few_in_sync(start_broker).bootstrap_servers
    only_failure(doctor.at(address, topic="careful"), "partitions", "min.insync.replicas = 2", "acks=all is refused")
    assert doctor.at(address, topic="careful", acks="1").exit_status == 0


@pytest.mark.parametrize("acks", ["all", "1"])
def test_replicas_when_min_insync_replicas_asks_for_more_than_there_are_then_warned_for_acks_all(
        start_broker: Callable[..., EmbeddedBroker], doctor: Doctor, acks: str) -> None:
    """Kafka 4.1 stores the record: that was called a failure, and no round trip was tried."""
    address = start_broker(topics={"careful": 1}, config={"min.insync.replicas": 2}).bootstrap_servers
    report = doctor.at(address, topic="careful", writes=True, acks=acks)
    assert report.exit_status == 0
    lines = "\n".join(line.text() for line in report.lines)
    assert ("min.insync.replicas = 2 is more than the replicas of 0" in lines) == (acks == "all")
    assert "ok    round trip" in lines


@pytest.mark.parametrize("apis", [("DescribeQuorum",), ("DescribeQuorum", "ListOffsets")])
def test_question_when_its_answer_makes_no_sense_then_the_next_ones_are_asked_all_the_same(
        start_broker: Callable[..., EmbeddedBroker], doctor: Doctor, apis: tuple[str, ...]) -> None:
    """A connection by which that came is closed; that was all-clear, for want of the answer to the question behind."""
    broker = start_with_too_few_in_sync(start_broker)
    for api in apis:
        broker.faults.on(api).truncate(9, resize=True)
    report = doctor.at(broker.bootstrap_servers, topic="careful")
    only_failure(report, "partitions", "min.insync.replicas = 2", "acks=all is refused")
    assert doctor.at(broker.bootstrap_servers, topic="careful", acks="1").exit_status == 0


def test_quota_when_the_broker_asks_for_pauses_then_warned(broker: EmbeddedBroker, doctor: Doctor) -> None:
    fault = broker.faults.on("Metadata").throttle(50)
    report = doctor.of("plain")
    fault.remove()
    [line] = [line for line in report.lines if line.step == "quota"]
    assert (line.status, report.exit_status) == (WARN, 0)
    assert "a pause of 50 ms" in line.detail
    assert "raise the quota" in line.change


# ---- brokers that lie

HERE = {"node_id": 1, "host": "127.0.0.1", "port": 0, "rack": None}


def metadata(*topics: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"throttle_time_ms": 0, "cluster_id": "lies", "controller_id": 1, "error_code": 0, "brokers": [HERE],
            "topics": topics, **more}


def topic_of(name: str | None, *leaders: int) -> dict[str, Any]:
    return {"error_code": 0, "name": name, "topic_id": UUID(int=5), "is_internal": False, "partitions": [
        {"error_code": 0, "partition_index": index, "leader_id": leader, "leader_epoch": 0, "replica_nodes": [leader],
         "isr_nodes": [leader], "offline_replicas": []} for index, leader in enumerate(leaders)]}


@pytest.mark.parametrize(("told", "step", "words"), [
    (metadata(brokers=[]), "metadata", ["the answer names no broker", "joined its cluster"]),
    (metadata(error_code=129), "metadata", ["REBOOTSTRAP_REQUIRED"]),
    (metadata(error_code=9999), "metadata", ["code 9999"]),
    (metadata(), "metadata", ["does not tell of the topic that was asked for, orders"]),
    (metadata(topic_of("other", 1)), "metadata", ["does not tell of the topic"]),
    (metadata(topic_of(None, 1)), "metadata", ["does not tell of the topic"]),
    (metadata(topic_of("orders")), "partitions", ["orders: it has none"]),
    (metadata(topic_of("orders", 1, 7)), "partitions", ["orders: no leader for 1"]),
], ids=str)
def test_broker_when_what_it_says_makes_no_sense_then_a_step_says_so(
        doctor: Doctor, told: dict[str, Any], step: str, words: list[str]) -> None:
    """Of some of these the doctor died, and of others it found nothing wrong."""
    with lying_broker({ApiKeys.METADATA: told, ApiKeys.LIST_OFFSETS: {"throttle_time_ms": 0, "topics": []}}) as address:
        only_failure(doctor.at(address, topic="orders"), step, *words)


def test_broker_when_it_tells_clients_to_come_to_no_address_then_warned(doctor: Doctor) -> None:
    with lying_broker({ApiKeys.METADATA: metadata(brokers=[{**HERE, "host": "0.0.0.0"}])}) as address:
        report = doctor.at(address)
    [line] = [line for line in report.lines if line.status is WARN]
    assert "broker 1 tells clients to come to 0.0.0.0, which is no address" in line.detail


def test_peer_when_it_goes_on_to_send_single_bytes_then_the_step_ends_in_time(doctor: Doctor) -> None:
    """Each byte was a reason to wait on: `--timeout` bounded no step."""
    with dripping_server() as address:
        only_failure(doctor.at(address, timeout_ms=200), "ApiVersions", "did not answer API_VERSIONS v4 within 0.2 s")


# ---- the command


def test_command_when_something_is_broken_then_lines_and_status_1(broker: EmbeddedBroker) -> None:
    address = broker.bootstrap_servers_of("PLAIN")
    result = CliRunner().invoke(main, ["doctor", "--bootstrap-server", address, "--topic", "absent"])
    assert result.exit_code == 1
    assert f"\nok    ApiVersions      {address}: Metadata v" in result.output
    assert "\nfail  topic            absent: " in result.output
    assert "\n                       -> create it: kafka-topics" in result.output


def test_command_when_json_is_asked_for_then_one_object(broker: EmbeddedBroker, tmp_path: Any) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={broker.bootstrap_servers_of('PLAIN')}\nacks=1\n", encoding="ascii")
    result = CliRunner().invoke(main, ["doctor", "--config", str(file), "--property", "acks=all", "--json"])
    assert result.exit_code == 0
    told = json.loads(result.output)
    assert told["ok"] is True
    assert told["steps"][0] == {"step": "settings", "status": "ok", "change": "",
                                "detail": "security.protocol PLAINTEXT, acks all, 1 bootstrap server(s)"}
    assert {row["status"] for row in told["steps"]} == {"ok", "skip"}


@pytest.mark.parametrize("arguments", [
    [], ["--bootstrap-server", "a:1", "--write"], ["--config", "/nowhere"],
    ["--bootstrap-server", "a:1", "--property", "nonsense"], ["--bootstrap-server", "a:1", "--property", "=secret"],
    ["--bootstrap-server", "a:1", "--timeout", "nan"], ["--bootstrap-server", "a:1", "--timeout", "inf"],
    ["--bootstrap-server", "a:1", "--timeout", "1e300"], ["--bootstrap-server", "a:1", "--topic", ""],
    ["--bootstrap-server", "a:1", "--topic", "a\0b"], ["--bootstrap-server", "a:1", "--topic", "\ud800"]], ids=ascii)
def test_command_line_when_it_is_wrong_then_status_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["doctor", *arguments])
    assert result.exit_code == 2
    assert "secret" not in result.output
