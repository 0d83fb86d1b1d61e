"""300 random sets of rules, and the names of certificates: our decisions beside those of Kafka's own classes.

Both are asked without a broker around them. Hosts come in as the bytes of an address, of both families and of one
within the other, which is how a socket tells them.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import NamedTuple

from pyproducer.broker.cluster.acl_store import AclBinding, AclStore
from pyproducer.broker.cluster.authorizer import OPERATION_CODES, RESOURCE_TYPE_CODES, AclOperation, ResourceType
from pyproducer.broker.cluster.cluster_store import ClusterStore
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.standard_authorizer import StandardAuthorizer
from pyproducer.broker.network.ssl_principal_mapper import SslPrincipalMapper
from pyproducer.broker.network.x500_name import subject_name
from pyproducer.broker.request.peer_address import address_text
from pyproducer.broker.request.request_context import KafkaPrincipal, RequestContext
from pyproducer.protocol.header import RequestHeader
from tests.support.kafka_jars import ask_java
from tests.unit.broker.network.test_x500_name import (
    BMP,
    CN,
    DC,
    EMAIL,
    IA5,
    NUMERIC,
    ORG,
    PRINTABLE,
    SERIAL,
    UID,
    UTF8,
    C,
    L,
    attribute,
    certificate,
    der,
)

SOURCE = Path(__file__).resolve().parents[1] / "support" / "java" / "AuthorizerMatrix.java"
SETS = 300
RULES, QUESTIONS = 12, 60
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:ANONYMOUS", "User:CN=x,O=y", "User:")
ASKERS = tuple(principal for principal in PRINCIPALS if principal != "User:*")  # whose name Kafka's class cannot bear
SUPER_USERS = ("", "User:root", "User:bob;User:CN=x,O=y", " User:alice ; ")
ADDRESSES = ("127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2001:db8::5", "fe80::1", "::")
HOSTS = ("*", "*", "*", "127.0.0.1", "10.0.0.1", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "2001:db8:0:0:0:0:0:5",
         "2001:db8::5", "localhost", "0:0:0:0:0:0:0:0")
NAMES = ("orders", "order", "orders-eu", "o", "*", "kafka-cluster", "\u00e9tat")
LITERAL, PREFIXED = 3, 4
MAPPINGS = ("DEFAULT", "RULE:^CN=(.*?),.*$/$1/", "RULE:^CN=([^,]*).*$/$1/U,DEFAULT",
            "RULE:^.*O=(.*?)(,.*)?$/$1@x/L,DEFAULT",
            "RULE:^CN=(.*?),O=(.*?)$/$2-$1/, RULE:^.*UID=([^,+]*).*$/$1/L, DEFAULT")


class Rules(NamedTuple):
    """A set of rules, and what is asked of it: principal, address, operation, type, name (None: of any)."""

    super_users: str
    allows_all: bool
    rules: list[AclBinding]
    questions: list[tuple[str, str, AclOperation, ResourceType, str | None]]


def drawn(chance: random.Random) -> Rules:
    operations, types = list(AclOperation), list(ResourceType)
    few = chance.sample(operations, 3)
    kinds = chance.sample(types, 2)
    rules = [AclBinding(
        RESOURCE_TYPE_CODES[chance.choice(kinds)], chance.choice(NAMES), chance.choice((LITERAL, LITERAL, PREFIXED)),
        chance.choice(PRINCIPALS), chance.choice(HOSTS),
        chance.choice((2, OPERATION_CODES[chance.choice(few)], OPERATION_CODES[chance.choice(operations)])),
        chance.choice((2, 3, 3))) for _ in range(chance.randrange(RULES))]
    questions = [(chance.choice(ASKERS), chance.choice(ADDRESSES), chance.choice((chance.choice(few), chance.choice(
        operations))), chance.choice(kinds), chance.choice((*NAMES, "orders/", None))) for _ in range(QUESTIONS)]
    return Rules(chance.choice(SUPER_USERS), chance.random() < 0.3, rules, questions)


def address_bytes(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def lines_of(one: Rules) -> list[str]:
    lines = ["\t".join(("new", one.super_users, str(one.allows_all).lower()))]
    lines += ["\t".join(("rule", *map(str, rule))) for rule in one.rules]
    for principal, address, operation, resource_type, name in one.questions:
        words = [principal, address_bytes(address).hex(), str(OPERATION_CODES[operation]),
                 str(RESOURCE_TYPE_CODES[resource_type])]
        lines.append("\t".join(("type", *words) if name is None else ("ask", *words, name)))
    return lines


def our_answers(one: Rules, directory: Path) -> list[bool]:
    store = AclStore(ClusterStore(directory))
    store.add(one.rules)
    authorizer = StandardAuthorizer(BrokerConfig({
        "super.users": one.super_users, "allow.everyone.if.no.acl.found": one.allows_all}), store)
    answers = []
    for principal, address, operation, resource_type, name in one.questions:
        place = (address, 999, 0, 0) if ":" in address else (address, 999)
        context = RequestContext(RequestHeader(0, 0, 0, None), client_address=address_text(place),
                                 principal=KafkaPrincipal(*principal.split(":", 1)))
        answers.append(authorizer.authorize_by_resource_type(context, operation, resource_type) if name is None
                       else authorizer(context, operation, resource_type, name))
    return answers


def test_rules_when_300_sets_of_them_are_drawn_then_each_decision_is_kafkas(tmp_path: Path) -> None:
    chance = random.Random(41)
    sets = [drawn(chance) for _ in range(SETS)]
    theirs = ask_java(SOURCE, stdin="\n".join(line for one in sets for line in lines_of(one)))
    assert len(theirs) == SETS * QUESTIONS
    allowed = 0
    for number, one in enumerate(sets):
        directory = tmp_path / str(number)
        directory.mkdir()
        for question, ours, java_says in zip(one.questions, our_answers(one, directory), theirs[
                number * QUESTIONS:(number + 1) * QUESTIONS], strict=True):
            assert str(ours).lower() == java_says, (number, question, one)
            allowed += ours
    assert SETS * QUESTIONS // 10 < allowed < SETS * QUESTIONS * 9 // 10


def drawn_subject(chance: random.Random) -> list[tuple[bytes, ...]]:
    values = ("client", "Acme, Inc.", "a=b", " x ", "#1", 'q"\\<>;+', "M\u00fcller", "", "a+b", "tab\t", "x" * 70)
    types = ((CN, UTF8), (CN, PRINTABLE), (ORG, UTF8), (C, PRINTABLE), (L, UTF8), (UID, UTF8), (DC, IA5),
             (EMAIL, IA5), (SERIAL, PRINTABLE), ("1.2.3.4", UTF8), (CN, BMP), ("2.5.4.5", NUMERIC))
    parts = []
    for _ in range(chance.randint(1, 5)):
        part = []
        for _ in range(chance.choice((1, 1, 1, 2))):
            type_, tag = chance.choice(types)
            text = chance.choice(values)
            if tag in (PRINTABLE, IA5, NUMERIC):
                text = {PRINTABLE: "DE", IA5: "a@example.org", NUMERIC: "123 4"}[tag]
            part.append(attribute(type_, text.encode("utf-16-be") if tag == BMP else text, tag))
        parts.append(tuple(sorted(part)))  # a set, in DER
    return parts


def test_certificates_when_500_subjects_are_drawn_then_each_name_is_what_java_says() -> None:
    chance = random.Random(6)
    asked = [(mapping, drawn_subject(chance)) for mapping in MAPPINGS for _ in range(100)]
    theirs = ask_java(SOURCE, stdin="\n".join("\t".join(("name", mapping, der(0x30, b"".join(
        der(0x31, b"".join(part)) for part in parts)).hex())) for mapping, parts in asked))
    ours = [SslPrincipalMapper(mapping).name_of(subject_name(certificate(*parts))) for mapping, parts in asked]
    assert ours == [None if line == "none" else bytes.fromhex(line).decode() for line in theirs]
