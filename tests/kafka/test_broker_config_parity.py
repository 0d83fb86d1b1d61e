"""The broker's and the topics' settings are Kafka's, row by row; what differs stands here, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyproducer.broker.cluster.config import BROKER_CONFIG, TOPIC_CONFIG
from pyproducer.broker.cluster.inert_config import INERT_NAMES, INERT_PREFIXES
from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.definition import (
    EachMatches,
    EachOneOf,
    OneOf,
    Range,
    Setting,
    Support,
)
from pyproducer.common.settings.parse import parse_value, value_text
from pyproducer.common.settings.table import SettingTable
from tests.support.kafka_jars import ask_java

SOURCE = Path(__file__).resolve().parents[1] / "support" / "java" / "BrokerConfigParity.java"
TABLES = {"broker": BROKER_CONFIG, "topic": TOPIC_CONFIG}
OF_OLDER_KAFKAS = {"quota.producer.default", "quota.consumer.default"}
OF_THE_AUTHORIZER = {"super.users", "allow.everyone.if.no.acl.found"}  # read by its class, which is not in the table
OTHER_DEFAULTS = {
    # One process for tests and laptops: it listens on loopback, on a port that is free, and has one broker.
    "listeners", "controller.listener.names", "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor", "transaction.state.log.min.isr", "group.initial.rebalance.delay.ms",
    # Stores are PEM here.
    "ssl.keystore.type", "ssl.truststore.type",
    # A temporary folder.
    "log.dir",
    # Null in Kafka, where a setting in hours or none stands behind it; the value is the same.
    "log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms",
}
OTHER_BOUNDS = {
    # Small segments make tests of segments fast.
    "segment.bytes", "log.segment.bytes",
    # 0 would be a loop without a pause.
    "log.cleaner.backoff.ms",
    "ssl.keystore.type", "ssl.truststore.type",
    # No class of Java can be loaded.
    "authorizer.class.name", "replica.selector.class",
    # Kafka checks these elsewhere, or lets the system refuse them.
    "connections.max.idle.ms", "default.replication.factor", "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms", "group.min.session.timeout.ms", "log.flush.interval.ms", "log.retention.ms",
    "log.roll.jitter.ms", "log.roll.ms", "offset.metadata.max.bytes", "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
}


def fields_of_java(*arguments: str, stdin: str = "") -> list[list[str]]:
    return [line.split("\t") for line in ask_java(SOURCE, *arguments, stdin=stdin)]


@pytest.fixture(scope="module", params=TABLES)
def both(request: pytest.FixtureRequest) -> tuple[SettingTable, dict[str, list[str]]]:
    """One table, and Kafka's."""
    return TABLES[request.param], {key: row for key, *row in fields_of_java(request.param)}


def shown_rule(setting: Setting) -> str:
    """The rule as Java's validators show theirs."""
    rule = setting.allowed
    if rule is None:
        return "null"
    if isinstance(rule, (OneOf, EachOneOf)):
        return f"[{', '.join(rule.words)}]"
    if isinstance(rule, EachMatches):
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    assert isinstance(rule, Range)
    return (f"[{rule.low},...{'' if rule.high is None else f',{rule.high}'}]"
            + "".join(f" or {value}" for value in rule.also))


def words_of(rule: str) -> str:
    """A rule with its words in one order: Java keeps those of ssl.client.auth in a set."""
    return f"[{', '.join(sorted(rule[1:-1].split(', ')))}]" if rule[1:2].isalpha() else rule


def test_keys_when_compared_with_kafka_then_each_is_kafkas_or_marked(
        both: tuple[SettingTable, dict[str, list[str]]]) -> None:
    ours, theirs = both
    assert set(ours) - set(theirs) == {
        key for key, row in ours.items() if row.support is Support.OURS or key in OF_OLDER_KAFKAS | OF_THE_AUTHORIZER}
    if ours is TOPIC_CONFIG:
        assert set(theirs) - set(ours) == {"internal.segment.bytes"}
        return
    synonyms = {synonym.key for row in ours.values() for synonym in row.synonyms}
    missing = set(theirs) - set(ours) - synonyms
    assert {key for key in missing if key not in INERT_NAMES and not key.startswith(INERT_PREFIXES)
            and not key.startswith("internal.")} == set()


def test_types_when_compared_with_kafka_then_the_same(both: tuple[SettingTable, dict[str, list[str]]]) -> None:
    ours, theirs = both
    common = ours.keys() & theirs.keys()
    assert {key: ours[key].type.value for key in common} == {key: theirs[key][0] for key in common}


def test_defaults_when_compared_with_kafka_then_the_same(both: tuple[SettingTable, dict[str, list[str]]]) -> None:
    ours, theirs = both
    defaults = {key: value_text(ours[key].default) for key in ours.keys() & theirs.keys()}
    differing = {key for key, text in defaults.items() if ("<null>" if text is None else text) != theirs[key][1]}
    assert differing == OTHER_DEFAULTS & ours.keys()


def test_bounds_when_compared_with_kafka_then_the_same(both: tuple[SettingTable, dict[str, list[str]]]) -> None:
    ours, theirs = both
    differing = {key for key in ours.keys() & theirs.keys()
                 if words_of(shown_rule(ours[key])) != words_of(theirs[key][2])}
    assert differing == OTHER_BOUNDS & ours.keys()


STRINGS = {
    "broker": [
        "num.io.threads= 5 ", "num.io.threads=1_0", "num.io.threads=0", "num.io.threads=+3", "num.io.threads=",
        "num.io.threads=2147483648", "auto.create.topics.enable= TRUE ", "auto.create.topics.enable=1",
        "log.cleanup.policy=delete , compact", "ssl.client.auth=Required", "ssl.client.auth= required ",
        "ssl.enabled.protocols=TLSv1.3 ,TLSv1.2", "ssl.enabled.protocols=", "broker.rack= a ",
        "offsets.topic.replication.factor=40000", "log.cleaner.min.cleanable.ratio=0.25",
    ],
    "topic": [
        "cleanup.policy=compact, delete", "cleanup.policy=compact,", "cleanup.policy=,", "cleanup.policy=forget",
        "cleanup.policy=Delete", "retention.ms=-1", "retention.ms=-2", "retention.ms=9223372036854775808",
        "retention.bytes=-5", "min.cleanable.dirty.ratio=1.1", "min.cleanable.dirty.ratio=x", "preallocate=yes",
        "preallocate=True", "compression.type=GZIP", "compression.gzip.level=0", "compression.gzip.level=-1",
        "leader.replication.throttled.replicas=0:1, 2:3", "leader.replication.throttled.replicas=*",
        "leader.replication.throttled.replicas=0-1", "leader.replication.throttled.replicas=0:1,",
        "max.message.bytes=-1", "message.timestamp.type=LogAppendTime", "message.timestamp.type=logappendtime",
    ],
}


def ours_of(table: SettingTable, line: str) -> list[str]:
    key, _, value = line.partition("=")
    try:
        return ["OK", str(value_text(parse_value(table[key], value)))]
    except ConfigError:
        return ["ERROR"]


@pytest.mark.parametrize("name", TABLES)
def test_strings_when_parsed_by_both_then_taken_or_refused_alike(name: str) -> None:
    answers = fields_of_java(name, "parse", stdin="\n".join(STRINGS[name]) + "\n")
    assert [ours_of(TABLES[name], line) for line in STRINGS[name]] == answers
