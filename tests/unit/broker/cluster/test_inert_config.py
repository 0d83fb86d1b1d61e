"""Definitions of topics and files of settings that work on Apache Kafka work here, too."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyproducer.broker.cluster.config import TOPIC_CONFIG, BrokerConfig
from pyproducer.broker.cluster.config_entries import ConfigSource, ConfigType, topic_entries
from pyproducer.broker.cluster.topic_config import topic_config
from pyproducer.broker.control.in_process import ClusterOptions, InProcessCluster, directory_of
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys
from tests.unit.broker.apis.stage import ApiStage

# LogConfig of Kafka 4.1: default, and a value that is not the default, where there is another.
OF_KAFKA = {
    "compression.gzip.level": ("-1", "9"), "compression.lz4.level": ("9", "17"), "compression.zstd.level": ("3", "-5"),
    "file.delete.delay.ms": ("60000", "1"), "flush.messages": (str(2**63 - 1), "1"), "flush.ms": (str(2**63 - 1), "0"),
    "follower.replication.throttled.replicas": ("", "0:1,1:2"), "leader.replication.throttled.replicas": ("", "*"),
    "local.retention.bytes": ("-2", "5"), "local.retention.ms": ("-2", "5"),
    "max.compaction.lag.ms": (str(2**63 - 1), "1"), "preallocate": ("false", "true"),
    "remote.log.copy.disable": ("false", "true"), "remote.log.delete.on.disable": ("false", "true"),
    "remote.storage.enable": ("false", "false"), "segment.index.bytes": ("10485760", "4"),
    "segment.jitter.ms": ("0", "7"), "unclean.leader.election.enable": ("false", "true"),
}
# config/server.properties of Apache Kafka 4.1, and what people add.
SERVER_PROPERTIES = {
    "process.roles": "broker,controller", "node.id": "1", "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "num.network.threads": "3", "num.io.threads": "8", "socket.send.buffer.bytes": "102400", "log.dirs": "/tmp/logs",
    "num.partitions": "1", "num.recovery.threads.per.data.dir": "1", "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1", "log.retention.hours": "168", "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000", "zookeeper.connect": "localhost:2181",
    "port": "9092",
}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ApiStage]:
    made = ApiStage(tmp_path)
    yield made
    made.close()


def create(stage: ApiStage, configs: dict[str, str], *, validate_only: bool = False) -> tuple[int, str | None]:
    (topic,) = stage.ask(ApiKeys.CREATE_TOPICS, 5, {"timeout_ms": 1, "validate_only": validate_only, "topics": [
        {"name": "orders", "num_partitions": 1, "replication_factor": 1, "assignments": [],
         "configs": [{"name": key, "value": value} for key, value in configs.items()]}]})["topics"]
    return topic["error_code"], topic["error_message"]


def test_topic_when_it_has_every_setting_of_kafka_then_they_are_kept_and_shown(stage: ApiStage) -> None:
    assert create(stage, {name: value for name, (_, value) in OF_KAFKA.items()}) == (0, None)
    (result,) = stage.ask(ApiKeys.DESCRIBE_CONFIGS, 4, {
        "include_synonyms": False, "include_documentation": True, "resources": [
            {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}]})["results"]
    found = {entry["name"]: entry for entry in result["configs"]}
    for name, (_, value) in OF_KAFKA.items():
        assert (found[name]["value"], found[name]["config_source"]) == (value, ConfigSource.DYNAMIC_TOPIC)
        if not name.startswith(("compression.", "unclean.")):
            assert "no effect" in found[name]["documentation"]


def test_topic_when_it_says_nothing_then_the_defaults_are_kafkas() -> None:
    config = BrokerConfig()
    entries = {entry.name: entry for entry in topic_entries(topic_config({}, config), config, {})}
    assert {name: entries[name].value for name in OF_KAFKA} == {
        name: default for name, (default, _) in OF_KAFKA.items()}
    assert entries["flush.ms"].config_type is ConfigType.LONG
    assert entries["leader.replication.throttled.replicas"].config_type is ConfigType.LIST
    assert len(TOPIC_CONFIG) == 33  # LogConfig has these and internal.segment.bytes


@pytest.mark.parametrize(("text", "shown"), [
    ("compact, delete", "compact,delete"), ("delete,compact", "delete,compact"), ("compact", "compact"), ("", "")])
def test_cleanup_policy_when_it_is_a_list_then_it_is_read_as_one(stage: ApiStage, text: str, shown: str) -> None:
    assert create(stage, {"cleanup.policy": text}) == (0, None)
    topic = stage.state.topics.find("orders")
    assert topic is not None
    assert topic.config.overrides == {"cleanup.policy": shown}
    assert (topic.config.log.is_compacted, topic.config.log.is_deleted) == ("compact" in text, "delete" in text)


def test_retention_bytes_when_it_is_any_negative_number_then_nothing_is_deleted(stage: ApiStage) -> None:
    assert create(stage, {"retention.bytes": "-2"}) == (0, None)


@pytest.mark.parametrize(("name", "value"), [
    ("cleanup.policy", "compact,forget"), ("compression.gzip.level", "10"), ("compression.gzip.level", "0"),
    ("compression.lz4.level", "0"), ("leader.replication.throttled.replicas", "0-1"), ("segment.index.bytes", "3")])
def test_topic_when_a_value_is_wrong_then_kafkas_words_say_so_once(stage: ApiStage, name: str, value: str) -> None:
    code, message = create(stage, {name: value})
    assert code == 40
    assert message is not None
    assert message.startswith(f"Invalid value {value} for configuration {name}: ")


def test_topic_when_a_name_is_unknown_then_it_is_said_once(stage: ApiStage) -> None:
    assert create(stage, {"no.such": "1"}) == (40, "Unknown topic config name: no.such")


TIERED = "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
CONFLICT = "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"


@pytest.mark.parametrize(("configs", "message"), [
    ({"remote.storage.enable": "true"}, TIERED),
    ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, CONFLICT)])
def test_topic_when_it_cannot_be_what_its_settings_say_then_it_is_refused_in_kafkas_words(
        stage: ApiStage, configs: dict[str, str], message: str) -> None:
    """A topic that asked for tiered storage, or for a compaction before the records may be compacted, was made."""
    for validate_only in (True, False):
        assert create(stage, configs, validate_only=validate_only) == (40, message)
    assert create(stage, {}) == (0, None)
    for validate_only in (True, False):
        (answer,) = stage.ask(ApiKeys.INCREMENTAL_ALTER_CONFIGS, 1, {"validate_only": validate_only, "resources": [
            {"resource_type": 2, "resource_name": "orders", "configs": [
                {"name": name, "config_operation": 0, "value": value} for name, value in configs.items()]}]}
            )["responses"]
        assert (answer["error_code"], answer["error_message"]) == (40, message)
    topic = stage.state.topics.find("orders")
    assert topic is not None
    assert topic.config.overrides == {}


def test_topic_when_a_default_of_the_broker_conflicts_later_then_it_stays_as_in_kafka(stage: ApiStage) -> None:
    """Only what a client asks of the topic is compared: else the next start would find one that it refuses."""
    assert create(stage, {"max.compaction.lag.ms": "5"}) == (0, None)
    (answer,) = stage.ask(ApiKeys.INCREMENTAL_ALTER_CONFIGS, 1, {"validate_only": False, "resources": [
        {"resource_type": 4, "resource_name": "", "configs": [
            {"name": "log.cleaner.min.compaction.lag.ms", "config_operation": 0, "value": "10"}]}]})["responses"]
    assert (answer["error_code"], answer["error_message"]) == (0, None)
    topic = stage.state.topics.find("orders")
    assert topic is not None
    assert topic.config.log.min_compaction_lag_ms == 10


def test_compression_level_when_it_is_given_then_the_codec_has_it() -> None:
    compressor = topic_config({"compression.type": "gzip", "compression.gzip.level": "1"}, BrokerConfig()).compressor
    stronger = topic_config({"compression.type": "gzip", "compression.gzip.level": "9"}, BrokerConfig()).compressor
    assert compressor is not None
    assert stronger is not None
    # Byte 8 of a gzip header: 4 is the fastest, 2 the strongest (RFC 1952).
    assert [bytes(one.compress(b"paid" * 100))[8] for one in (compressor, stronger)] == [4, 2]


# ---- brokers

def test_broker_when_it_gets_a_server_properties_then_it_runs_and_says_once_what_has_no_effect(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = BrokerConfig(SERVER_PROPERTIES)
        InProcessCluster(ClusterOptions(3, str(tmp_path), {}, SERVER_PROPERTIES)).warn_of_inert_settings()
    assert config.number("log.retention.ms") == 168 * 3_600_000
    (record,) = caplog.records
    assert record.getMessage() == (
        "These settings have no effect on an embedded broker: controller.quorum.bootstrap.servers, "
        "inter.broker.listener.name, log.dirs, node.id, num.recovery.threads.per.data.dir, port, "
        "process.roles, zookeeper.connect")


def warned(options: ClusterOptions, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        InProcessCluster(options).warn_of_inert_settings()
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(("settings", "directory"), [
    ({"log.dirs": "/a/b"}, "/a/b"), ({"log.dir": "/a/b"}, "/a/b"), ({"log.dirs": "/a,/b", "log.dir": "/c"}, "/a"),
    ({"log.dirs": " /a , /b"}, "/a"), ({"log.dirs": "", "log.dir": "/c"}, "/c"), ({"log.dirs": ","}, None), ({}, None)])
def test_log_dirs_when_no_data_dir_is_given_then_its_first_is_the_data_dir(
        settings: dict[str, str], directory: str | None) -> None:
    """The setting was taken, and the logs went to a temporary folder that was removed at the end."""
    assert directory_of(ClusterOptions(config=settings)) == directory
    assert directory_of(ClusterOptions(data_dir="/d", config=settings)) == "/d"


def test_log_dirs_when_not_all_are_used_then_it_is_said_which(caplog: pytest.LogCaptureFixture) -> None:
    assert warned(ClusterOptions(config={"log.dirs": "/a"}), caplog) == []
    assert warned(ClusterOptions(config={"log.dirs": "/a, /b,/c"}), caplog) == [
        "An embedded broker keeps its logs in one directory: /a, the first of log.dirs; it does not look at /b, /c"]
    assert warned(ClusterOptions(data_dir="/d", config={"log.dirs": "/a,/b"}), caplog) == [
        "These settings have no effect on an embedded broker: log.dirs"]


@pytest.mark.parametrize(("settings", "name", "value"), [
    ({"log.retention.hours": "2"}, "log.retention.ms", 7_200_000),
    ({"log.retention.hours": "-1"}, "log.retention.ms", -1),
    ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "log.retention.ms", 180_000),
    ({"log.retention.minutes": "3", "log.retention.ms": "7"}, "log.retention.ms", 7),
    ({"log.roll.hours": "1"}, "log.roll.ms", 3_600_000),
    ({"log.roll.jitter.hours": "1"}, "log.roll.jitter.ms", 3_600_000)])
def test_time_when_it_is_given_in_hours_or_minutes_then_the_finest_counts_as_in_kafka(
        settings: dict[str, str], name: str, value: int) -> None:
    assert BrokerConfig(settings).number(name) == value


def test_setting_when_no_kafka_has_it_then_it_is_still_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'log\.retention\.ms'"):
        BrokerConfig({"log.retention.msec": "5"})
