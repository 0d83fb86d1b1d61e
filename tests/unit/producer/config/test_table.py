"""The table has every setting of Java's producer once, each row complete."""

from __future__ import annotations

import inspect
import re

import pytest

from pyproducer import KafkaProducer
from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.definition import Range, Support, Type
from pyproducer.common.settings.parse import parse_value
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig


def test_table_when_counted_then_it_has_all_settings_of_kafka_4_1_and_those_of_ours() -> None:
    ours = [key for key, setting in CONFIG_TABLE.items() if setting.support is Support.OURS]
    assert ours == [key for key in CONFIG_TABLE if key.startswith("pyproducer.")] == [
        "pyproducer.close.timeout.ms", "pyproducer.fork", "pyproducer.on.unretrieved", "pyproducer.prefetch.topics",
        "pyproducer.why.socket", "pyproducer.oauth.token.provider"]
    newer = [key for key, setting in CONFIG_TABLE.items() if setting.since]
    assert newer == ["partitioner.rack.aware", "client.rack", "config.providers"]
    assert len(CONFIG_TABLE) == 112 + len(ours) + len(newer)
    assert len(CONFIG_TABLE.key_of_attribute) == len(CONFIG_TABLE)


def test_rows_when_read_then_every_one_has_a_doc_and_its_own_key() -> None:
    for key, setting in CONFIG_TABLE.items():
        assert setting.key == key
        assert setting.doc.endswith(".")
        assert setting.doc.isascii()


# Default, lowest and highest of each number, as Apache Kafka 4.1 documents them.
NUMBERS: dict[str, tuple[float | None, float | None, float | None]] = {
    "batch.size": (16384, 0, None),
    "buffer.memory": (33554432, 0, None),
    "compression.gzip.level": (-1, 1, 9),
    "compression.lz4.level": (9, 1, 17),
    "compression.zstd.level": (3, -131072, 22),
    "delivery.timeout.ms": (120000, 0, None),
    "linger.ms": (5, 0, None),
    "max.block.ms": (60000, 0, None),
    "max.in.flight.requests.per.connection": (5, 1, None),
    "max.request.size": (1048576, 0, None),
    "request.timeout.ms": (30000, 0, None),
    "retries": (2147483647, 0, 2147483647),
    "retry.backoff.ms": (100, 0, None),
    "retry.backoff.max.ms": (1000, 0, None),
    "partitioner.availability.timeout.ms": (0, 0, None),
    "transaction.timeout.ms": (60000, None, None),
    "connections.max.idle.ms": (540000, None, None),
    "metadata.max.age.ms": (300000, 0, None),
    "metadata.max.idle.ms": (300000, 5000, None),
    "metadata.recovery.rebootstrap.trigger.ms": (300000, 0, None),
    "receive.buffer.bytes": (32768, -1, None),
    "send.buffer.bytes": (131072, -1, None),
    "reconnect.backoff.ms": (50, 0, None),
    "reconnect.backoff.max.ms": (1000, 0, None),
    "socket.connection.setup.timeout.ms": (10000, None, None),
    "socket.connection.setup.timeout.max.ms": (30000, None, None),
    "metrics.num.samples": (2, 1, None),
    "metrics.sample.window.ms": (30000, 0, None),
    "sasl.kerberos.min.time.before.relogin": (60000, None, None),
    "sasl.kerberos.ticket.renew.jitter": (0.05, None, None),
    "sasl.kerberos.ticket.renew.window.factor": (0.8, None, None),
    "sasl.login.refresh.buffer.seconds": (300, 0, 3600),
    "sasl.login.refresh.min.period.seconds": (60, 0, 900),
    "sasl.login.refresh.window.factor": (0.8, 0.5, 1.0),
    "sasl.login.refresh.window.jitter": (0.05, 0.0, 0.25),
    "sasl.login.retry.backoff.max.ms": (10000, None, None),
    "sasl.login.retry.backoff.ms": (100, None, None),
    "sasl.oauthbearer.assertion.claim.exp.seconds": (300, 0, 86400),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": (60, 0, 3600),
    "sasl.oauthbearer.clock.skew.seconds": (30, None, None),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": (3600000, None, None),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": (10000, None, None),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": (100, None, None),
}


# The same of each setting that is on or off.
SWITCHES = {
    "enable.idempotence": True,
    "partitioner.adaptive.partitioning.enable": True,
    "partitioner.ignore.keys": False,
    "partitioner.rack.aware": False,
    "transaction.two.phase.commit.enable": False,
    "enable.metrics.push": True,
    "sasl.oauthbearer.assertion.claim.jti.include": False,
    "sasl.oauthbearer.header.urlencode": False,
}


# The type of each setting that is neither text nor a switch, as Apache Kafka 4.1 documents them.
TYPES = {
    Type.SHORT: {"sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds"},
    Type.INT: {
        "batch.size", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
        "delivery.timeout.ms", "max.in.flight.requests.per.connection", "max.request.size", "metrics.num.samples",
        "receive.buffer.bytes", "request.timeout.ms", "retries", "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms", "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.nbf.seconds", "sasl.oauthbearer.clock.skew.seconds", "send.buffer.bytes",
        "transaction.timeout.ms"},
    Type.LONG: {
        "buffer.memory", "connections.max.idle.ms", "linger.ms", "max.block.ms", "metadata.max.age.ms",
        "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms", "metrics.sample.window.ms",
        "partitioner.availability.timeout.ms", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "retry.backoff.max.ms", "retry.backoff.ms", "sasl.kerberos.min.time.before.relogin",
        "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms"},
    Type.DOUBLE: {
        "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter"},
    Type.LIST: {
        "bootstrap.servers", "config.providers", "interceptor.classes", "metric.reporters",
        "sasl.oauthbearer.expected.audience", "ssl.cipher.suites", "ssl.enabled.protocols"},
    Type.CLASS: {
        "key.serializer", "partitioner.class", "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class", "sasl.login.class", "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.jwt.validator.class", "ssl.engine.factory.class", "value.serializer"},
    Type.PASSWORD: {
        "sasl.jaas.config", "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret", "ssl.key.password", "ssl.keystore.certificate.chain",
        "ssl.keystore.key", "ssl.keystore.password", "ssl.truststore.certificates", "ssl.truststore.password"},
}


def test_types_when_read_then_they_are_those_of_java() -> None:
    documented = {key: kind for kind, keys in TYPES.items() for key in keys}
    found = {key: setting.type for key, setting in CONFIG_TABLE.items()
             if setting.support is not Support.OURS and setting.type not in (Type.STRING, Type.BOOLEAN)}
    assert found == documented


@pytest.mark.parametrize("key", sorted(key for kind in (Type.SHORT, Type.INT, Type.LONG) for key in TYPES[kind]))
def test_whole_numbers_when_a_fraction_is_given_then_it_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"configuration {key}: not a whole number")):
        ProducerConfig({"bootstrap.servers": "broker:9092", key: "1.5"})


def test_numbers_when_read_then_defaults_and_bounds_are_those_of_java() -> None:
    found = {}
    for key, setting in CONFIG_TABLE.items():
        bounds = setting.allowed if isinstance(setting.allowed, Range) else Range(None, None)
        is_number = type(setting.default) in (int, float) or isinstance(setting.allowed, Range)
        if is_number and setting.support is not Support.OURS:
            found[key] = (setting.default, bounds.low, bounds.high)
    assert found == NUMBERS


def test_switches_when_read_then_defaults_are_those_of_java() -> None:
    found = {key: setting.default for key, setting in CONFIG_TABLE.items() if setting.type is Type.BOOLEAN}
    assert found == SWITCHES


def test_rows_when_read_then_every_part_is_of_its_kind() -> None:
    kinds = {Type.BOOLEAN: bool, Type.STRING: str, Type.INT: int, Type.LONG: int, Type.LIST: tuple}
    for key, setting in CONFIG_TABLE.items():
        assert isinstance(setting.type, Type), key
        assert isinstance(setting.support, Support), key
        if setting.default is not None and setting.type in kinds:
            assert type(setting.default) is kinds[setting.type], key


def test_defaults_when_parsed_as_if_given_then_they_are_what_they_were() -> None:
    for setting in CONFIG_TABLE.values():
        if setting.default is None:
            continue
        assert parse_value(setting, setting.default) == setting.default, setting.key
        if setting.type is not Type.LIST:
            assert parse_value(setting, str(setting.default)) == setting.default, setting.key


def test_settings_when_only_a_jvm_or_a_broker_uses_them_then_they_are_marked() -> None:
    def keys(support: Support) -> set[str]:
        return {key for key, setting in CONFIG_TABLE.items() if setting.support is support}

    assert keys(Support.JVM_ONLY) == {
        "sasl.login.class", "security.providers", "ssl.keymanager.algorithm", "ssl.provider",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm"}
    assert all(key.startswith("sasl.oauthbearer.") for key in keys(Support.VALIDATOR_ONLY))
    assert len(keys(Support.VALIDATOR_ONLY)) == 7


def test_constructor_when_read_then_no_setting_has_a_twin_among_its_arguments() -> None:
    """What is ours is a key of the table; serializers are arguments because they are in Java's constructor, too."""
    for function in (KafkaProducer.__init__, KafkaProducer.from_file):
        names = set(inspect.signature(function).parameters) - {"self"}
        assert names <= {"props", "path", "overrides", "key_serializer", "value_serializer", "foreign"}
    with pytest.raises(TypeError, match="linger_ms= is no argument"):  # what is foreign is refused
        KafkaProducer({}, linger_ms=5)
