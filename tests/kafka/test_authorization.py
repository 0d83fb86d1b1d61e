"""What is answered when an authorizer says no: the table that our broker is tested with, put to Apache Kafka's own.

Each denial is an ACL of Kafka's StandardAuthorizer. Left out are CLUSTER_ACTION, which the broker itself needs, and
DESCRIBE and ALTER of the cluster, which whoever looks at the ACLs and takes them back needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from pyproducer.protocol.apis import ApiKeys
from tests.support.kafka_server import KafkaServer
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient
from tests.unit.broker.apis.test_authorization import ASKED, IN_CLUSTER, Case, error_codes

admin_api = pytest.importorskip("confluent_kafka.admin")

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# Kafka asks whether there could be any topic that the client may write to, and ours which of those that there are.
OTHERWISE = {(ApiKeys.INIT_PRODUCER_ID, 1)}
CASES = [pytest.param(api_key, case, questions, id=f"{api_key.title}: {', '.join(questions)}")
         for api_key, cases in ASKED.items() for number, case in enumerate(cases) for questions in case.denials
         if (api_key, number) not in OTHERWISE and not any(
             words.startswith(("CLUSTER_ACTION", "DESCRIBE CLUSTER", "ALTER CLUSTER")) for words in questions)]

EVERYTHING = admin_api.AclBindingFilter(
    admin_api.ResourceType.ANY, None, admin_api.ResourcePatternType.ANY, None, None, admin_api.AclOperation.ANY,
    admin_api.AclPermissionType.ANY)


class Target:
    """A broker with an authorizer that lets everything pass but for what is denied."""

    def __init__(self, kafka: KafkaServer) -> None:
        self._address = "127.0.0.1", kafka.port
        self.admin = admin_api.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def ask(self, api_key: ApiKeys, version: int, body: Mapping[str, Any]) -> Any:
        with RawClient(self._address) as client:
            return client.request(api_key, version, body)

    def prepare(self) -> None:
        """Make the topic and the coordinators that the table speaks of, and remove what it made."""
        topics = self.admin.list_topics(timeout=GIVE_UP_S).topics
        for name in {"new", "nowhere"} & set(topics):
            self.admin.delete_topics([name])[name].result(GIVE_UP_S)
        if "orders" not in topics:
            self.admin.create_topics([admin_api.NewTopic("orders", 1)])["orders"].result(GIVE_UP_S)
        for key_type, key in ((0, "g"), (1, "t")):
            self.eventually(lambda key_type=key_type, key=key: not any(error_codes(self.ask(
                ApiKeys.FIND_COORDINATOR, 4, {"key_type": key_type, "coordinator_keys": [key]}))))

    def deny(self, questions: tuple[str, ...]) -> None:
        """Deny this, and allow all else that one may do with the same resource."""
        bindings = {}
        for words in questions:
            operation, resource_type, name = words.split(" ")
            kind = admin_api.ResourceType["BROKER" if name == IN_CLUSTER else resource_type]
            for principal, what, answer in (("User:*", "ALL", "ALLOW"), ("User:ANONYMOUS", operation, "DENY")):
                binding = admin_api.AclBinding(
                    kind, name, admin_api.ResourcePatternType.LITERAL, principal, "*", admin_api.AclOperation[what],
                    admin_api.AclPermissionType[answer])
                bindings[str(binding)] = binding
        for future in self.admin.create_acls(list(bindings.values())).values():
            future.result(GIVE_UP_S)
        self.eventually(lambda: len(self.admin.describe_acls(EVERYTHING).result(GIVE_UP_S)) == len(bindings))

    def allow(self) -> None:
        """Take all denials back."""
        for future in self.admin.delete_acls([EVERYTHING]).values():
            future.result(GIVE_UP_S)
        self.eventually(lambda: not self.admin.describe_acls(EVERYTHING).result(GIVE_UP_S))

    def eventually(self, is_so: Callable[[], bool]) -> None:
        """Wait for something that Kafka does behind its answers."""
        deadline = time.monotonic() + GIVE_UP_S
        while not is_so():
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with KafkaServer(settings={"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": True,
                               "super.users": "User:nobody", "auto.create.topics.enable": True}) as kafka:
        yield Target(kafka)


@pytest.mark.soak
@pytest.mark.parametrize(("api_key", "case", "questions"), CASES)
def test_request_when_one_thing_is_denied_then_kafka_answers_what_we_do(
        target: Target, api_key: ApiKeys, case: Case, questions: tuple[str, ...]) -> None:
    target.prepare()
    body = {**case.body, "timeout_ms": 10_000} if "timeout_ms" in case.body else case.body
    try:
        target.deny(questions)
        assert case.denials[questions] in error_codes(target.ask(api_key, case.version, body))
    finally:
        target.allow()
