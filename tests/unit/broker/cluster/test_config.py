from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from pyproducer.broker.cluster.config import BROKER_CONFIG, TOPIC_CONFIG, BrokerConfig
from pyproducer.broker.cluster.config_entries import ConfigSource, ConfigType, broker_entries, topic_entries
from pyproducer.broker.cluster.listener import EndPoint, parse_listeners
from pyproducer.broker.cluster.topic_config import error_text, topic_config
from pyproducer.broker.cluster.topic_name import collides
from pyproducer.broker.storage.validation import BatchFault, validate_batch
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.layout import LOG_APPEND_TIME
from tests.unit.common.test_secrets import BODY, JAAS, PEM

MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,INSIDE:PLAINTEXT"
# The column "Type" of Kafka's broker configs (4.1), of those that there are here, too.
KAFKAS_TYPES = {
    ConfigType.BOOLEAN: """
        auto.create.topics.enable delete.topic.enable log.cleaner.enable log.preallocate
        unclean.leader.election.enable
        """,
    ConfigType.STRING: """
        advertised.listeners authorizer.class.name broker.rack compression.type controller.listener.names
        listener.security.protocol.map listeners log.dir log.dirs log.message.timestamp.type
        max.connections.per.ip.overrides replica.selector.class sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.sub.claim.name
        ssl.client.auth ssl.keystore.location ssl.keystore.type ssl.principal.mapping.rules
        ssl.truststore.location ssl.truststore.type
        """,
    ConfigType.INT: """
        compression.gzip.level compression.lz4.level compression.zstd.level
        connection.failed.authentication.delay.ms default.replication.factor fetch.max.bytes
        group.initial.rebalance.delay.ms group.max.session.timeout.ms group.max.size
        group.min.session.timeout.ms log.index.interval.bytes log.index.size.max.bytes log.segment.bytes
        max.connections.per.ip message.max.bytes min.insync.replicas num.io.threads num.network.threads
        num.partitions offset.metadata.max.bytes offsets.retention.minutes offsets.topic.num.partitions
        offsets.topic.segment.bytes producer.id.expiration.check.interval.ms producer.id.expiration.ms
        queued.max.requests sasl.oauthbearer.clock.skew.seconds sasl.server.max.receive.size
        socket.listen.backlog.size socket.receive.buffer.bytes socket.request.max.bytes socket.send.buffer.bytes
        transaction.max.timeout.ms transaction.remove.expired.transaction.cleanup.interval.ms
        transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.segment.bytes
        transactional.id.expiration.ms
        """,
    ConfigType.SHORT: "offsets.topic.replication.factor transaction.state.log.replication.factor",
    ConfigType.LONG: """
        connections.max.idle.ms connections.max.reauth.ms log.cleaner.backoff.ms log.cleaner.delete.retention.ms
        log.cleaner.max.compaction.lag.ms log.cleaner.min.compaction.lag.ms log.flush.interval.messages
        log.flush.interval.ms log.local.retention.bytes log.local.retention.ms
        log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.retention.bytes
        log.retention.check.interval.ms log.retention.ms log.roll.jitter.ms log.roll.ms
        log.segment.delete.delay.ms offsets.retention.check.interval.ms
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
        """,
    ConfigType.DOUBLE: "log.cleaner.min.cleanable.ratio",
    ConfigType.LIST: """
        log.cleanup.policy sasl.enabled.mechanisms sasl.oauthbearer.expected.audience ssl.enabled.protocols
        """,
    ConfigType.CLASS: "sasl.server.callback.handler.class",
    ConfigType.PASSWORD: """
        sasl.jaas.config ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key
        ssl.truststore.certificates
        """,
}
# Kafka's topic configs (4.1): all of them.
KAFKAS_TYPES_OF_TOPICS = {
    ConfigType.BOOLEAN: """
        preallocate remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable
        unclean.leader.election.enable
        """,
    ConfigType.STRING: "compression.type message.timestamp.type",
    ConfigType.INT: """
        compression.gzip.level compression.lz4.level compression.zstd.level index.interval.bytes max.message.bytes
        min.insync.replicas segment.bytes segment.index.bytes
        """,
    ConfigType.LONG: """
        delete.retention.ms file.delete.delay.ms flush.messages flush.ms local.retention.bytes local.retention.ms
        max.compaction.lag.ms message.timestamp.after.max.ms message.timestamp.before.max.ms min.compaction.lag.ms
        retention.bytes retention.ms segment.jitter.ms segment.ms
        """,
    ConfigType.DOUBLE: "min.cleanable.dirty.ratio",
    ConfigType.LIST: "cleanup.policy follower.replication.throttled.replicas leader.replication.throttled.replicas",
}


def test_defaults_are_kafkas() -> None:
    config = BrokerConfig()
    assert config.number("num.network.threads") == 3
    assert config.number("num.io.threads") == 8
    assert config.number("queued.max.requests") == 500
    assert config.number("socket.request.max.bytes") == 104_857_600
    assert config.topic_default("max.message.bytes") == 1_048_588
    assert config.switch("auto.create.topics.enable") is True


def test_settings_of_a_broker_when_described_then_their_types_are_kafkas() -> None:
    told = {entry.name: entry.config_type for entry in broker_entries(BrokerConfig(), {})}
    kafkas = {name: kind for kind, names in KAFKAS_TYPES.items() for name in names.split()}
    assert {name: told.get(name) for name in kafkas} == kafkas


def test_settings_of_a_topic_when_described_then_their_types_are_kafkas() -> None:
    config = BrokerConfig()
    assert {entry.name: entry.config_type for entry in topic_entries(topic_config({}, config), config, {})} == {
        name: kind for kind, names in KAFKAS_TYPES_OF_TOPICS.items() for name in names.split()}


def test_values_may_be_texts_and_the_seeds_name_of_a_setting_is_known() -> None:
    config = BrokerConfig({"queue.max.requests": "7", "auto.create.topics.enable": "False"})
    assert config.number("queued.max.requests") == 7
    assert config.switch("auto.create.topics.enable") is False


@pytest.mark.parametrize(("key", "value", "why"), [
    ("num.io.thread", 3, r"the embedded broker has no such setting; did you mean 'num\.io\.threads'\?"),
    ("retention.ms", 3, r"did you mean 'log\.retention\.ms'\?"),
    ("nonsense", 3, "no such setting$"),
    ("num.io.threads", 0, "must be at least 1; the default is 8"),
    ("num.io.threads", "many", "not a whole number; the default is 8"),
    ("num.io.threads", "1_0", "not a whole number"),
    ("num.io.threads", True, "expected a whole number, got a bool"),
    ("num.io.threads", 2**31, "must fit 32 bits: at most 2147483647"),
    ("num.io.threads", None, "None is not allowed here: leave the key out to get the default 8"),
    ("queue.max.requests", "0", "configuration queue.max.requests: the value must be at least 1"),
    ("log.roll.hours", "0", "'?0'? for configuration log.roll.hours: the value must be at least 1"),
    ("log.retention.hours", "long", "configuration log.retention.hours: not a whole number"),
    ("auto.create.topics.enable", "perhaps", "expected true or false"),
    ("log.message.timestamp.type", "Mine", "must be one of CreateTime, LogAppendTime; the default is 'CreateTime'"),
    ("log.cleanup.policy", "delete,", "every item must be one of compact, delete; the default is 'delete'"),
    ("log.cleaner.min.cleanable.ratio", "nan", "not a number"),
    ("broker.rack", 5, "expected a string, got a int"),
    ("listener.name.ssl.ssl.client.auth", "maybe", "ssl.client.auth: the value must be one of none, requested"),
])
def test_a_setting_that_makes_no_sense_is_refused(key: str, value: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        BrokerConfig({key: value})


def test_topic_config_is_its_own_settings_over_the_brokers() -> None:
    defaults = BrokerConfig({"message.max.bytes": 2000, "log.message.timestamp.type": "LogAppendTime"})
    config = topic_config({"max.message.bytes": "3000"}, defaults)
    assert config.rules.max_message_bytes == 3000
    assert config.rules.timestamp_type == LOG_APPEND_TIME
    dynamic = {"": {"log.retention.ms": "5"}, "1": {"log.retention.ms": "6"}}
    entries = {entry.name: entry for entry in topic_entries(config, defaults, dynamic)}
    assert entries["max.message.bytes"].synonyms == (
        ("max.message.bytes", "3000", ConfigSource.DYNAMIC_TOPIC),
        ("message.max.bytes", "2000", ConfigSource.STATIC_BROKER),
        ("message.max.bytes", "1048588", ConfigSource.DEFAULT))
    assert (entries["message.timestamp.type"].value, entries["message.timestamp.type"].source) == (
        "LogAppendTime", ConfigSource.STATIC_BROKER)
    assert [source for _, _, source in entries["retention.ms"].synonyms] == [
        ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER, ConfigSource.DEFAULT]


def test_alter_replaces_all_earlier_alterations_or_changes_nothing() -> None:
    config = BrokerConfig({"log.retention.ms": 1000})
    config.alter({"log.retention.ms": "5", "log.cleanup.policy": "compact"})
    assert (config.number("log.retention.ms"), config.static_value("log.retention.ms")) == (5, 1000)
    for name, value in (("num.partitions", "3"), ("log.retention.ms", "x")):
        with pytest.raises(ConfigError):
            config.alter({"log.segment.bytes": "100", name: value})
    assert config.value("log.segment.bytes") == 1 << 30
    config.alter({})
    assert (config.value("log.retention.ms"), config.value("log.cleanup.policy")) == (1000, ("delete",))


def test_lists_when_given_in_either_form_then_they_are_texts_with_commas() -> None:
    for given in ("compact, delete", ["compact", " delete"], ("compact", "delete")):
        assert BrokerConfig({"log.cleanup.policy": given}).text("log.cleanup.policy") == "compact,delete"
    config = BrokerConfig({"listener.name.SSL.ssl.enabled.protocols": "TLSv1.3"})
    assert config.listener_text("ssl", "ssl.enabled.protocols") == "TLSv1.3"
    assert config.listener_text("other", "ssl.enabled.protocols") == "TLSv1.2,TLSv1.3"


def test_key_when_it_is_no_string_then_said_so() -> None:
    with pytest.raises(ConfigError, match="a key must be a string, got a int"):
        BrokerConfig({5: "1"})  # type: ignore[dict-item]  # that is the test


def test_path_when_given_for_a_file_then_it_is_a_text() -> None:
    assert BrokerConfig({"ssl.keystore.location": Path("/x/key.pem")}).text("ssl.keystore.location") == "/x/key.pem"


@pytest.mark.parametrize("secret", [PEM, JAAS, ["plain hunter2 password=hunter2"]], ids=["pem", "jaas", "list"])
def test_secret_when_it_stands_in_any_setting_then_no_error_shows_it(secret: object) -> None:
    for key in (*BROKER_CONFIG, "ssl.keystor.key", "listener.name.ssl.ssl.key.password",
                "listener.name.plain.sasl.jaas.config"):
        try:
            BrokerConfig({key: secret})
        except ConfigError as error:
            said = "".join(traceback.format_exception(error)) + repr((error.args, error.__dict__))
            assert "hunter2" not in said, key
            assert BODY[:20] not in said, key


def test_secrets_when_described_then_all_that_kafka_hides_are_hidden() -> None:
    """The PEM text of certificates was shown to everybody who may describe a broker, and Kafka calls it a password."""
    config = BrokerConfig({"ssl.keystore.certificate.chain": PEM, "ssl.truststore.certificates": PEM})
    hidden = {entry.name for entry in broker_entries(config, {}) if entry.is_sensitive}
    assert hidden == {"sasl.jaas.config", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
                      "ssl.truststore.certificates"}
    assert not any(BODY[:20] in repr(entry) for entry in broker_entries(config, {}))


def test_settings_without_effect_when_given_then_they_are_named_and_kept() -> None:
    config = BrokerConfig({"log.flush.interval.messages": "7", "broker.id": "1", "log.retention.hours": "2"})
    assert config.inert == {"log.flush.interval.messages", "broker.id"}
    assert config.given == {"log.flush.interval.messages", "log.retention.ms"}
    assert config.number("log.flush.interval.messages") == 7


@pytest.mark.parametrize(("name", "value"), [("no.such", "1"), ("max.message.bytes", None), ("segment.bytes", "1")])
def test_topic_config_refuses(name: str, value: str | None) -> None:
    with pytest.raises(ConfigError):
        topic_config({name: value}, BrokerConfig())


@pytest.mark.parametrize(("name", "said"), [
    ("retention.msec", "Unknown topic config name: retention.msec; did you mean 'retention.ms'?"),
    ("log.retention.ms", "Unknown topic config name: log.retention.ms; did you mean 'retention.ms'?"),
    ("no.such", "Unknown topic config name: no.such")])
def test_topic_config_when_a_name_is_unknown_then_clients_are_told_the_nearest(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        topic_config({name: "1"}, BrokerConfig())
    assert error_text(caught.value, TOPIC_CONFIG) == said


def test_topic_config_when_the_largest_request_is_set_then_compressed_records_may_hold_no_more() -> None:
    rules = topic_config({}, BrokerConfig({"socket.request.max.bytes": 50_000})).rules
    fault = validate_batch(build_batch([(0, None, bytes(60_000), ())], compression="gzip"), produce_version=9,
                           timestamp_ms=0, rules=rules)
    assert isinstance(fault, BatchFault)
    assert fault.error_code is ErrorCode.MESSAGE_TOO_LARGE


def test_strict_checks_decide_whether_records_are_read() -> None:
    assert topic_config({}, BrokerConfig()).rules.reads_records is True
    assert topic_config({}, BrokerConfig({"strict.checks": False})).rules.reads_records is False


def test_parse_listeners() -> None:
    assert parse_listeners("PLAINTEXT://:9092, ssl://[::1]:0,INSIDE://127.0.0.1:1", MAP) == [
        EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092), EndPoint("SSL", "SSL", "::1", 0),
        EndPoint("INSIDE", "PLAINTEXT", "127.0.0.1", 1)]


@pytest.mark.parametrize("listeners", [
    "", "127.0.0.1:9092", "PLAINTEXT://127.0.0.1", "PLAINTEXT://127.0.0.1:99999", "PLAINTEXT://h:1,PLAINTEXT://h:2",
    "OTHER://h:1", "PLAINTEXT://h:-1"])
def test_parse_listeners_refuses(listeners: str) -> None:
    with pytest.raises(ConfigError):
        parse_listeners(listeners, MAP)


def test_topic_names_collide_in_dots_and_underscores() -> None:
    assert collides("a.b", "a_b")
    assert not collides("a.b", "a-b")
