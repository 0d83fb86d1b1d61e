from __future__ import annotations

import pytest

from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.config_entries import ConfigSource, topic_entries
from pyproducer.broker.cluster.listener import EndPoint, parse_listeners
from pyproducer.broker.cluster.topic_config import topic_config
from pyproducer.broker.cluster.topic_name import collides
from pyproducer.common.errors import ConfigError
from pyproducer.record.layout import LOG_APPEND_TIME

MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,INSIDE:PLAINTEXT"


def test_defaults_are_kafkas() -> None:
    config = BrokerConfig()
    assert config.number("num.network.threads") == 3
    assert config.number("num.io.threads") == 8
    assert config.number("queued.max.requests") == 500
    assert config.number("socket.request.max.bytes") == 104_857_600
    assert config.topic_default("max.message.bytes") == 1_048_588
    assert config.switch("auto.create.topics.enable") is True


def test_values_may_be_texts_and_the_seeds_name_of_a_setting_is_known() -> None:
    config = BrokerConfig({"queue.max.requests": "7", "auto.create.topics.enable": "False"})
    assert config.number("queued.max.requests") == 7
    assert config.switch("auto.create.topics.enable") is False


@pytest.mark.parametrize(("key", "value", "why"), [
    ("num.io.thread", 3, r"did you mean num\.io\.threads\?"),
    ("nonsense", 3, "no such setting"),
    ("num.io.threads", 0, "must be at least 1"),
    ("num.io.threads", "many", "must be a whole number"),
    ("num.io.threads", True, "must be a whole number"),
    ("auto.create.topics.enable", "perhaps", "must be true or false"),
    ("log.message.timestamp.type", "Mine", "must be one of CreateTime, LogAppendTime"),
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
    assert (config.value("log.retention.ms"), config.value("log.cleanup.policy")) == (1000, "delete")


@pytest.mark.parametrize(("name", "value"), [("no.such", "1"), ("max.message.bytes", None), ("segment.bytes", "1")])
def test_topic_config_refuses(name: str, value: str | None) -> None:
    with pytest.raises(ConfigError):
        topic_config({name: value}, BrokerConfig())


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
