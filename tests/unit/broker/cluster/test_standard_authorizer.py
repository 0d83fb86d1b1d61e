"""Kafka's rules of who may do what, one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.cluster.acl_store import AclBinding, AclFilter, AclStore
from pyproducer.broker.cluster.authorizer import OPERATION_CODES, AclOperation, ResourceType
from pyproducer.broker.cluster.cluster_store import ClusterStore
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.standard_authorizer import StandardAuthorizer
from pyproducer.broker.request.request_context import KafkaPrincipal, RequestContext
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.header import RequestHeader

ALLOW, DENY = 3, 2
LITERAL, PREFIXED = 3, 4
TOPIC, GROUP = 2, 3
READ, WRITE, ALL = 3, 4, 2


def acl(permission: int = ALLOW, operation: int = READ, name: str = "orders", *, pattern: int = LITERAL,
        principal: str = "User:alice", host: str = "*", kind: int = TOPIC) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, host, operation, permission)


def context(principal: str = "User:alice", address: str = "10.0.0.1:999") -> RequestContext:
    return RequestContext(RequestHeader(0, 0, 0, None), client_address=address,
                          principal=KafkaPrincipal(*principal.split(":", 1)))


@pytest.fixture
def authorizer_of(tmp_path: Path) -> Any:
    def make(*acls: AclBinding, **settings: object) -> StandardAuthorizer:
        store = AclStore(ClusterStore(tmp_path))
        store.add(acls)
        config = BrokerConfig({key.replace("_", "."): value for key, value in settings.items()})
        return StandardAuthorizer(config, store)
    return make


@pytest.mark.parametrize(("acls", "operation", "name", "expected"), [
    ([], "READ", "orders", False),
    ([acl()], "READ", "orders", True),
    ([acl()], "WRITE", "orders", False),
    ([acl()], "READ", "orders2", False),
    ([acl()], "DESCRIBE", "orders", True),
    ([acl(operation=WRITE)], "DESCRIBE", "orders", True),
    ([acl(operation=OPERATION_CODES[AclOperation.DELETE])], "DESCRIBE", "orders", True),
    ([acl(operation=OPERATION_CODES[AclOperation.ALTER])], "DESCRIBE", "orders", True),
    ([acl(operation=OPERATION_CODES[AclOperation.CREATE])], "DESCRIBE", "orders", False),
    ([acl(operation=OPERATION_CODES[AclOperation.ALTER_CONFIGS])], "DESCRIBE_CONFIGS", "orders", True),
    ([acl(operation=OPERATION_CODES[AclOperation.ALTER_CONFIGS])], "DESCRIBE", "orders", False),
    ([acl(operation=ALL)], "DELETE", "orders", True),
    ([acl(name="*")], "READ", "orders", True),
    ([acl(name="ord", pattern=PREFIXED)], "READ", "orders", True),
    ([acl(name="ord", pattern=PREFIXED)], "READ", "or", False),
    ([acl(name="*", pattern=PREFIXED)], "READ", "orders", False),
    ([acl(principal="User:*")], "READ", "orders", True),
    ([acl(principal="User:bob")], "READ", "orders", False),
    ([acl(principal="Group:alice")], "READ", "orders", False),
    ([acl(host="10.0.0.1")], "READ", "orders", True),
    ([acl(host="10.0.0.2")], "READ", "orders", False),
    ([acl(kind=GROUP)], "READ", "orders", False),
    # Who is denied is denied, in whatever order and however exactly.
    ([acl(), acl(DENY, name="*")], "READ", "orders", False),
    ([acl(DENY, name="ord", pattern=PREFIXED), acl()], "READ", "orders", False),
    ([acl(), acl(DENY, host="10.0.0.2")], "READ", "orders", True),
    ([acl(), acl(DENY, WRITE)], "READ", "orders", True),
    ([acl(), acl(DENY, ALL)], "READ", "orders", False),
    # To be denied to read does not hide what is there.
    ([acl(operation=WRITE), acl(DENY)], "DESCRIBE", "orders", True),
])
def test_rules_when_asked_then_they_say_what_kafkas_say(
        authorizer_of: Any, acls: list[AclBinding], operation: str, name: str, expected: bool) -> None:
    assert authorizer_of(*acls)(context(), AclOperation(operation), ResourceType.TOPIC, name) is expected


def test_super_user_when_it_is_denied_then_it_may_all_the_same(authorizer_of: Any) -> None:
    authorizer = authorizer_of(acl(DENY, ALL, "*", principal="User:*"), super_users="User:CN=root,O=us; User:admin ;")
    for name in ("User:CN=root,O=us", "User:admin"):
        assert authorizer(context(name), AclOperation.DELETE, ResourceType.TOPIC, "orders")
    assert not authorizer(context("User:CN=root"), AclOperation.DELETE, ResourceType.TOPIC, "orders")


def test_everybody_when_there_is_no_rule_for_it_then_the_setting_counts(authorizer_of: Any) -> None:
    authorizer = authorizer_of(acl(principal="User:bob"), allow_everyone_if_no_acl_found=True)
    assert authorizer(context(), AclOperation.READ, ResourceType.TOPIC, "payments")
    assert authorizer(context(), AclOperation.READ, ResourceType.GROUP, "orders")
    assert not authorizer(context(), AclOperation.READ, ResourceType.TOPIC, "orders")


def test_address_when_it_is_of_ipv6_then_it_is_compared_without_brackets(authorizer_of: Any) -> None:
    authorizer = authorizer_of(acl(host="0:0:0:0:0:0:0:1"))
    assert authorizer(context(address="[0:0:0:0:0:0:0:1]:999"), AclOperation.READ, ResourceType.TOPIC, "orders")


@pytest.mark.parametrize(("acls", "expected"), [
    ([], False),
    ([acl(operation=WRITE)], True),
    ([acl(operation=WRITE, name="*")], True),
    ([acl(operation=WRITE, name="ord", pattern=PREFIXED)], True),
    ([acl(operation=ALL)], True),
    ([acl()], False),
    ([acl(operation=WRITE, host="10.0.0.2")], False),
    ([acl(operation=WRITE), acl(DENY, WRITE, "*")], False),
    ([acl(operation=WRITE), acl(DENY, WRITE)], False),
    ([acl(operation=WRITE), acl(DENY, WRITE, "ord", pattern=PREFIXED)], False),
    ([acl(operation=WRITE), acl(DENY, WRITE, "ordersX", pattern=PREFIXED)], True),
    ([acl(operation=WRITE, name="ord", pattern=PREFIXED), acl(DENY, WRITE)], True),
    ([acl(operation=WRITE, name="ord", pattern=PREFIXED), acl(DENY, WRITE, "o", pattern=PREFIXED)], False),
])
def test_some_topic_when_asked_for_then_one_that_is_not_denied_is_enough(
        authorizer_of: Any, acls: list[AclBinding], expected: bool) -> None:
    assert authorizer_of(*acls).authorize_by_resource_type(
        context(), AclOperation.WRITE, ResourceType.TOPIC) is expected


@pytest.mark.parametrize(("rule", "expected"), [
    (acl(principal="User:bob"), True),
    (acl(principal="User:bob", name="*"), False),
    (acl(principal="User:bob", name="hardcode"), False),
    (acl(principal="User:bob", name="hard", pattern=PREFIXED), False)])
def test_some_topic_when_what_no_rule_is_about_is_everybodys_then_the_name_hardcode_decides_as_in_kafka(
        authorizer_of: Any, rule: AclBinding, expected: bool) -> None:
    """Java's Authorizer.authorizeByResourceType asks for a resource of this name."""
    authorizer = authorizer_of(rule, allow_everyone_if_no_acl_found=True)
    assert authorizer.authorize_by_resource_type(context(), AclOperation.WRITE, ResourceType.TOPIC) is expected


@pytest.mark.parametrize(("changes", "expected"), [
    ({}, "literal prefixed wildcard group"),
    ({"resource_type": TOPIC}, "literal prefixed wildcard"),
    ({"resource_name": "orders"}, "literal group"),
    ({"resource_type": TOPIC, "resource_name": "orders", "pattern_type": LITERAL}, "literal"),
    ({"resource_type": TOPIC, "resource_name": "orders", "pattern_type": PREFIXED}, ""),
    ({"resource_name": "ord", "pattern_type": PREFIXED}, "prefixed"),
    ({"resource_type": TOPIC, "resource_name": "orders", "pattern_type": 2}, "literal prefixed wildcard"),
    ({"resource_type": TOPIC, "resource_name": "other", "pattern_type": 2}, "wildcard"),
    ({"principal": "User:bob"}, "group"),
    ({"host": "10.0.0.1"}, "wildcard"),
    ({"operation": WRITE}, "prefixed"),
    ({"permission_type": DENY}, "prefixed"),
])
def test_filter_when_it_is_put_to_rules_then_it_finds_what_kafkas_finds(
        changes: dict[str, Any], expected: str) -> None:
    rules = {"literal": acl(), "prefixed": acl(DENY, WRITE, "ord", pattern=PREFIXED),
             "wildcard": acl(name="*", host="10.0.0.1"), "group": acl(kind=GROUP, principal="User:bob")}
    asked = AclFilter(1, None, 1, None, None, 1, 1)._replace(**changes)
    assert " ".join(name for name, rule in rules.items() if asked.matches(rule)) == expected


def test_rules_when_the_store_is_opened_again_then_they_are_there_once(tmp_path: Path) -> None:
    acls = AclStore(ClusterStore(tmp_path))
    acls.add([acl(), acl(DENY), acl()])
    acls.add([acl()])
    assert list(AclStore(ClusterStore(tmp_path))) == [acl(), acl(DENY)]
    acls.remove([acl(), acl(name="other")])
    assert list(AclStore(ClusterStore(tmp_path))) == [acl(DENY)]


def test_file_when_a_rule_in_it_is_damaged_then_it_is_said(tmp_path: Path) -> None:
    store = ClusterStore(tmp_path)
    AclStore(store).add([acl()])
    path = tmp_path / "cluster.jsonl"
    path.write_text(path.read_text().replace('"User:alice",', ""))
    with pytest.raises(ConfigError, match="cannot be read"):
        ClusterStore(tmp_path)


def test_authorizer_when_its_class_is_not_kafkas_then_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="StandardAuthorizer"):
        BrokerConfig({"authorizer.class.name": "com.example.Own"})
