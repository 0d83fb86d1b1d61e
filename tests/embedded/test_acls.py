"""Rules of who may do what, from the wire to the answers that they change."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer import AuthorizationError, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.certificates import Certificates
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, metadata_body, produce_body, produced

JAAS = ('org.apache.kafka.common.security.plain.PlainLoginModule required '
        'user_admin="a" user_alice="secret" user_bob="b";')
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin", "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS}
BATCH = bytes(build_batch([(1, b"k", b"v", ())]))
ANY = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
       "host_filter": None, "operation": 1, "permission_type": 1}
LEADER_NOT_AVAILABLE, NOT_COORDINATOR = 5, 16
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION = 29, 30, 31, 53


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"orders": 1}, separate_process=True, config={
            **SETTINGS, "listeners": "SASL_PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U,DEFAULT",
            "ssl.keystore.location": str(certificates.server.keystore),
            "ssl.truststore.location": str(certificates.ca)}) as running:
        yield running


class User(RawClient):
    """Somebody who has logged in."""

    def __init__(self, broker: EmbeddedBroker, name: str, password: str) -> None:
        super().__init__(("127.0.0.1", broker.port))
        self.request(ApiKeys.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        answer = self.request(ApiKeys.SASL_AUTHENTICATE, 2, {"auth_bytes": f"\0{name}\0{password}".encode()})
        assert answer["error_code"] == 0

    def create(self, *creations: dict[str, Any]) -> list[tuple[int, str | None]]:
        answer = self.request(ApiKeys.CREATE_ACLS, 3, {"creations": creations})
        return [(result["error_code"], result["error_message"]) for result in answer["results"]]

    def describe(self, **changes: Any) -> set[tuple[Any, ...]]:
        answer = self.request(ApiKeys.DESCRIBE_ACLS, 3, {**ANY, **changes})
        assert answer["error_code"] == 0
        return {(resource["resource_type"], resource["resource_name"], resource["pattern_type"], acl["principal"],
                 acl["host"], acl["operation"], acl["permission_type"])
                for resource in answer["resources"] for acl in resource["acls"]}

    def delete(self, **changes: Any) -> int:
        answer = self.request(ApiKeys.DELETE_ACLS, 3, {"filters": [{**ANY, **changes}]})
        (result,) = answer["filter_results"]
        assert result["error_code"] == 0
        return len(result["matching_acls"])

    def produce(self, topic: str = "orders") -> int:
        return int(produced(self.request(ApiKeys.PRODUCE, 9, produce_body(topic, 0, BATCH)))["error_code"])

    def metadata(self, topic: str) -> int:
        answer = self.request(ApiKeys.METADATA, 12, metadata_body(topic, allow_auto_topic_creation=True))
        return int(answer["topics"][0]["error_code"])

    def init_producer_id(self, transactional_id: str | None = None) -> int:
        return int(self.request(ApiKeys.INIT_PRODUCER_ID, 4, {
            "transactional_id": transactional_id, "transaction_timeout_ms": 1000, "producer_id": -1,
            "producer_epoch": -1})["error_code"])


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Iterator[User]:
    with User(broker, "admin", "a") as client:
        yield client
        client.delete()


@pytest.fixture
def alice(broker: EmbeddedBroker) -> Iterator[User]:
    with User(broker, "alice", "secret") as client:
        yield client


def rule(operation: int, name: str = "orders", **changes: Any) -> dict[str, Any]:
    return {"resource_type": 2, "resource_name": name, "resource_pattern_type": 3, "principal": "User:alice",
            "host": "*", "operation": operation, "permission_type": 3, **changes}


READ, WRITE, CREATE, ALTER, DESCRIBE = 3, 4, 5, 7, 8


def test_each_permission_when_it_is_missing_then_its_error_comes_and_goes_with_it(admin: User, alice: User) -> None:
    assert alice.metadata("orders") == NO_TOPIC
    assert alice.produce() == NO_TOPIC
    assert alice.init_producer_id() == NO_CLUSTER
    assert alice.init_producer_id("t-1") == NO_TRANSACTION
    assert alice.metadata("fresh") == NO_TOPIC
    group = {"group_id": "g", "topics": None, "require_stable": False}
    assert alice.request(ApiKeys.OFFSET_FETCH, 7, group)["error_code"] == NO_GROUP

    assert admin.create(rule(WRITE)) == [(0, "")]
    assert alice.metadata("orders") == 0
    assert alice.produce() == 0
    assert alice.init_producer_id() == 0  # who may write to some topic may do so idempotently
    assert admin.create(rule(DESCRIBE, "fresh")) == [(0, "")]
    assert alice.metadata("fresh") == NO_TOPIC  # it may see it, but not make it
    assert admin.create(rule(CREATE, "fr", resource_pattern_type=4)) == [(0, "")]
    assert alice.metadata("fresh") in (0, LEADER_NOT_AVAILABLE)
    assert alice.produce("fresh") == NO_TOPIC
    assert admin.create(rule(WRITE, "t-", resource_type=5, resource_pattern_type=4)) == [(0, "")]
    assert alice.init_producer_id("t-1") in (0, NOT_COORDINATOR)  # nobody has looked for it yet
    assert admin.create(rule(DESCRIBE, "*", resource_type=3)) == [(0, "")]
    assert alice.request(ApiKeys.OFFSET_FETCH, 7, group)["error_code"] in (0, NOT_COORDINATOR)
    assert admin.create(rule(WRITE, host="10.0.0.1", permission_type=2)) == [(0, "")]
    assert alice.produce() == 0
    assert admin.create(rule(WRITE, host="127.0.0.1", permission_type=2)) == [(0, "")]
    assert alice.produce() == NO_TOPIC


def test_client_when_it_comes_over_ipv4_to_a_listener_of_ipv6_then_rules_and_limits_know_its_address() -> None:
    """A listener on [::] knew it as ::ffff:127.0.0.1: rules that deny 127.0.0.1 something missed it."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::ffff:127.0.0.1", 0))
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with EmbeddedBroker(topics={"orders": 1}, log_requests=True, config={
            "authorizer.class.name": SETTINGS["authorizer.class.name"], "allow.everyone.if.no.acl.found": True,
            "super.users": "User:ANONYMOUS", "max.connections.per.ip": 2,
            "listeners": "PLAINTEXT://[::ffff:7f00:1]:0"}) as broker:
        authorizer = broker._running().state.authorizer  # type: ignore[union-attr]  # it is in this process
        authorizer._super_users = frozenset()
        with RawClient(("127.0.0.1", broker.port)) as client, RawClient(("127.0.0.1", broker.port)) as second:
            everybody = rule(WRITE, principal="User:*")
            client.request(ApiKeys.CREATE_ACLS, 3, {"creations": [
                everybody, {**everybody, "host": "127.0.0.1", "permission_type": 2}]})
            for _ in range(2):
                answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, BATCH)))
                assert answer["error_code"] == NO_TOPIC
            second.request(ApiKeys.METADATA, 1, metadata_body("orders"))
            with RawClient(("127.0.0.1", broker.port)) as third:
                assert third.is_closed()
            assert {found.remote_address.rpartition(":")[0] for found in broker.connections()} == {"127.0.0.1"}
        assert broker.requests("Produce")[0].connection_id.partition("-")[2].startswith("127.0.0.1:")


def test_rules_when_they_are_made_then_they_are_described_and_deleted(admin: User, alice: User) -> None:
    assert alice.request(ApiKeys.DESCRIBE_ACLS, 3, ANY)["error_code"] == NO_CLUSTER
    assert alice.create(rule(WRITE))[0][0] == NO_CLUSTER
    answer = alice.request(ApiKeys.DELETE_ACLS, 3, {"filters": [ANY]})
    assert answer["filter_results"][0]["error_code"] == NO_CLUSTER
    admin.create(rule(WRITE), rule(READ), rule(READ), rule(READ, "ord", resource_pattern_type=4))
    assert admin.describe() == {
        (2, "orders", 3, "User:alice", "*", WRITE, 3), (2, "orders", 3, "User:alice", "*", READ, 3),
        (2, "ord", 4, "User:alice", "*", READ, 3)}
    assert admin.describe(operation=WRITE) == {(2, "orders", 3, "User:alice", "*", WRITE, 3)}
    assert admin.describe(principal_filter="User:bob") == set()
    assert admin.delete(resource_name_filter="orders") == 2
    assert admin.delete(resource_name_filter="orders", pattern_type_filter=2) == 1
    assert admin.describe() == set()


@pytest.mark.parametrize(("creation", "expected"), [
    (rule(WRITE, resource_type=1), (-1, None)), (rule(WRITE, resource_type=0), (-1, None)),
    (rule(WRITE, resource_pattern_type=2), (-1, None)), (rule(1), (-1, None)),
    (rule(WRITE, permission_type=1), (-1, None)), (rule(WRITE, ""), (42, "Invalid empty resource name")),
    (rule(ALTER, "other", resource_type=4), (42, "The only valid name for the CLUSTER resource is kafka-cluster")),
    (rule(WRITE, principal="alice"), (42, "Could not parse principal from `alice` (no colon is present separating the "
                                          "principal type from the principal name)"))])
def test_rule_when_it_cannot_be_one_then_it_is_refused_alone(
        admin: User, creation: dict[str, Any], expected: tuple[int, str | None]) -> None:
    assert admin.create(creation, rule(READ)) == [expected, (0, "")]
    assert len(admin.describe()) == 1


def test_principal_when_it_is_of_a_certificate_then_rules_know_it(
        broker: EmbeddedBroker, admin: User, certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=str(certificates.ca))
    context.load_cert_chain(certificates.client.keystore)
    port = int(broker.bootstrap_servers_of("SSL").rpartition(":")[2])
    with RawClient(("127.0.0.1", port), ssl_context=context) as client:
        assert client.request(ApiKeys.METADATA, 12, metadata_body("orders"))["topics"][0]["error_code"] == NO_TOPIC
        admin.create(rule(READ, principal="User:CLIENT"))
        assert client.request(ApiKeys.METADATA, 12, metadata_body("orders"))["topics"][0]["error_code"] == 0


def test_rules_when_the_broker_starts_again_then_they_still_count(tmp_path: Path) -> None:
    config = {**SETTINGS, "listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    with EmbeddedBroker(data_dir=tmp_path, topics=["orders"], config=config) as broker, User(
            broker, "admin", "a") as client:
        client.create(rule(WRITE))
    with EmbeddedBroker(data_dir=tmp_path, config=config) as broker:
        with User(broker, "alice", "secret") as client:
            assert client.produce() == 0
        with User(broker, "bob", "b") as client:
            assert client.produce() == NO_TOPIC


def test_rules_when_there_is_no_authorizer_then_there_are_none() -> None:
    with EmbeddedBroker() as broker, RawClient(("127.0.0.1", broker.port)) as client:
        answer = client.request(ApiKeys.DESCRIBE_ACLS, 3, ANY)
        assert (answer["error_code"], answer["error_message"]) == (54, "No Authorizer is configured on the broker")
        assert client.request(ApiKeys.CREATE_ACLS, 3, {"creations": [rule(READ)]})["results"][0]["error_code"] == 54
        assert client.request(ApiKeys.DELETE_ACLS, 3, {"filters": [ANY]})["filter_results"][0]["error_code"] == 54


def test_producer_when_the_rule_that_it_lacked_is_made_then_it_goes_on(broker: EmbeddedBroker, admin: User) -> None:
    """No producer id was asked for any more, so that each record failed until the process was started again."""
    admin.create(rule(DESCRIBE))
    with KafkaProducer({
            "bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS.partition(" ")[0] +
            ' required username="alice" password="secret";', "retry.backoff.ms": 10}) as producer:
        for _ in range(2):
            error = producer.send("orders", b"v").exception(GIVE_UP_S)
            assert isinstance(error, AuthorizationError)
            assert (error.code, error.outcome) == (NO_CLUSTER, "not_sent")
        admin.create(rule(WRITE))
        assert producer.send("orders", b"v").result(GIVE_UP_S).offset >= 0
