"""What a sink was given: one setting however it is written, nothing looked at that lies elsewhere."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.producer.config import ProducerConfig
from pyproducer.spark import settings as settings_module
from pyproducer.spark.settings import DEFAULT_POOL_SIZE, SinkSettings
from tests.support.secret_hunt import SecretHunt

SERVERS = {"bootstrap.servers": "a:9092,b:9092"}


def pool_key(**props: Any) -> str:
    given = {name.replace("_", "."): value for name, value in props.items()}
    return SinkSettings.of({**SERVERS, **given}, "orders").pool_key


class Partitioner:
    """Of the application: another object after each pickling."""

    def __init__(self, name: str = "p") -> None:
        self.name = name

    def partition(self, *_arguments: object) -> int:
        return 0


def test_pool_key_when_settings_are_equal_but_written_otherwise_is_the_same() -> None:
    """5 and "5" were two producers, and a list of servers was another one for each KafkaSink()."""
    assert pool_key(linger_ms=5) == pool_key(linger_ms="5")
    assert pool_key(bootstrap_servers=["a:9092", "b:9092"]) == pool_key()
    assert pool_key(kafka_linger_ms=5) == pool_key(linger_ms=5)
    assert pool_key(pyproducer_pool_size=2) == pool_key()
    assert pool_key(pyproducer_timestamp_column="at") == pool_key()


@pytest.mark.parametrize("name", ["", "value", "topic", 7])
def test_timestamp_column_when_it_is_no_name_or_another_columns_is_refused(name: object) -> None:
    with pytest.raises(ConfigError, match=r"pyproducer\.timestamp\.column.*must be a column's name, and none of key"):
        SinkSettings.of({**SERVERS, "pyproducer.timestamp.column": name}, "orders")


def test_pool_key_when_an_object_is_made_anew_in_each_batch_is_the_same() -> None:
    """In foreachBatch each micro-batch made a producer: 15 batches, 15 threads and 30 connections in a worker."""
    assert pool_key(partitioner_class=Partitioner()) == pool_key(partitioner_class=Partitioner())
    assert pool_key(partitioner_class=Partitioner("q")) != pool_key(partitioner_class=Partitioner())


def test_pool_key_when_a_setting_differs_is_another_and_shows_none() -> None:
    tls = {"security_protocol": "SSL", "ssl_keystore_location": "/executors/only.p12"}
    keys = [pool_key(), pool_key(linger_ms=6), pool_key(ssl_keystore_password="one", **tls),
            pool_key(ssl_keystore_password="two", **tls)]
    assert len(set(keys)) == 4
    assert all(len(key) == 64 for key in keys)


class Configurable(Partitioner):
    """Gets to see settings that nobody else knows."""

    def configure(self, _configs: dict[str, Any]) -> None:
        pass


def test_pool_key_when_a_setting_of_the_applications_own_differs_is_another() -> None:
    keys = {pool_key(partitioner_class=Configurable(), my_setting=value) for value in ("one", "two")}
    assert len(keys) == 2


def test_files_when_they_exist_on_the_workers_only_are_not_looked_at(tmp_path: Path) -> None:
    """A keystore that Spark distributes, or that Kubernetes mounts, is not on the driver."""
    there = tmp_path / "not-here.pem"
    settings = SinkSettings.of({**SERVERS, "security.protocol": "SSL", "ssl.truststore.location": str(there)}, None)
    assert settings.props["ssl.truststore.location"] == str(there)
    with pytest.raises(ConfigError, match=r"ssl\.enabled\.protocols"):
        SinkSettings.of({**SERVERS, "security.protocol": "SSL", "ssl.truststore.location": str(there),
                         "ssl.enabled.protocols": "SSLv3"}, None)


def test_variables_are_left_to_the_workers() -> None:
    props = {**SERVERS, "config.providers": "file", "config.providers.file.class":
             "org.apache.kafka.common.config.provider.FileConfigProvider",
             "ssl.key.password": "${file:/executors/only.properties:password}"}
    assert SinkSettings.of(props, None).props == props


@pytest.mark.parametrize("prefix", ["", "kafka."])
def test_options_when_a_config_provider_has_a_name_with_capitals_then_its_settings_are_found(
        prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes the names of options lower case, and not what they hold: each task failed, for want of a setting that
    the user had given.
    """
    monkeypatch.setenv("PLANTED", "5")
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    settings = SinkSettings.of_options({
        "kafka.bootstrap.servers": "a:9092", "linger.ms": "${appSecrets:PLANTED}",
        f"{prefix}config.providers": "appSecrets, app, App.b, other",
        f"{prefix}config.providers.appsecrets.class": provider,
        f"{prefix}config.providers.appsecrets.param.allowlist.pattern": "PLANTED",
        f"{prefix}config.providers.app.class": provider, f"{prefix}config.providers.app.b.class": provider,
        f"{prefix}config.providers.other.class": provider, f"{prefix}config.providers.unlisted.class": provider})
    assert {key for key in settings.props if key.startswith("config.providers.")} == {
        "config.providers.appSecrets.class", "config.providers.appSecrets.param.allowlist.pattern",
        "config.providers.app.class", "config.providers.app.b.class", "config.providers.App.b.class",
        "config.providers.other.class", "config.providers.unlisted.class"}
    assert ProducerConfig(settings.props)["linger.ms"] == 5


def test_options_when_names_of_config_providers_differ_in_case_only_then_each_has_the_settings() -> None:
    """Spark lets one of two such options through; the settings are those of both."""
    settings = SinkSettings.of_options({"kafka.bootstrap.servers": "a:9092", "config.providers": "ENV,env",
                                        "config.providers.env.class": "EnvVarConfigProvider"})
    assert {key for key in settings.props if key.startswith("config.providers.")} == {
        "config.providers.ENV.class", "config.providers.env.class"}


@pytest.mark.parametrize("key", ["linger.ms", "kafka.linger.ms", "Kafka.linger.ms"])
def test_props_with_and_without_the_prefix_lose_it(key: str) -> None:
    assert SinkSettings.of({"kafka.bootstrap.servers": "a:9092", key: "7"}, None).props == {
        "bootstrap.servers": "a:9092", "linger.ms": "7"}


@pytest.mark.parametrize(("props", "sentence"), [
    ({"kafka.linger.ms": 1, "linger.ms": 2}, "given twice"),
    ({"kafka.key.serializer": "x"}, "Kafka option 'key.serializer' is not supported"),
    ({"kafka.transactional.id": "x"}, "delivers at least once"),
    ({"linger.msec": 1}, r"linger\.ms"),
    ({"pyproducer.pool.size": 0}, "a whole number from 1 on"),
    ({"pyproducer.pool.size": "many"}, "a whole number from 1 on"),
    ({"topic": "orders"}, r"configuration topic: .*KafkaSink\(props, topic=\.\.\.\)"),
    ({"kafka.topic": "orders"}, r"configuration topic: .*KafkaSink\(props, topic=\.\.\.\)"),
])
def test_props_that_a_sink_cannot_take_are_refused(props: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        SinkSettings.of({**SERVERS, **props}, None)


@pytest.mark.parametrize("topic", ["or ders", "..", "t" * 300])
def test_topic_when_no_topic_can_have_the_name_then_it_is_refused_on_the_driver(topic: str) -> None:
    """Each attempt of each task found it."""
    with pytest.raises(ConfigError, match=r"configuration topic: Topic name is invalid") as caught:
        SinkSettings.of(SERVERS, topic)
    assert len(str(caught.value)) < 400
    with pytest.raises(ConfigError, match=r"configuration topic: Topic name is invalid"):
        SinkSettings.of_options({**SERVERS, "topic": topic})


def test_options_of_spark_and_of_its_kafka_source_are_left_aside() -> None:
    settings = SinkSettings.of_options({
        "kafka.bootstrap.servers": "a:9092", "topic": " orders ", "includeheaders": "true", "checkpointlocation": "/c",
        "startingoffsets": "earliest", "pyproducer.pool.size": "3"})
    assert settings.props == {"bootstrap.servers": "a:9092"}
    assert (settings.topic, settings.pool_size) == ("orders", 3)
    assert SinkSettings.of_options({"bootstrap.servers": "a:9092"}).pool_size == DEFAULT_POOL_SIZE


# Of KafkaSourceProvider (3.5 to 4.2) but for a clock of its tests, and of DataStreamWriter and
# AsyncProgressTrackingMicroBatchExecution (4.3).
OPTIONS_OF_SPARK = (
    "assign", "subscribe", "subscribePattern", "startingOffsets", "endingOffsets", "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "startingTimestamp", "endingTimestamp",
    "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger",
    "maxTriggerDelay", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
    "groupIdPrefix", "includeHeaders", "kafka.group.id", "queryName", "checkpointLocation",
    "asyncProgressTrackingEnabled", "asyncProgressTrackingCheckpointIntervalMs",
    "_asyncProgressTrackingOverrideSinkSupportCheck")


@pytest.mark.parametrize("name", OPTIONS_OF_SPARK)
def test_option_of_spark_or_of_its_kafka_source_when_it_is_given_then_it_is_no_unknown_setting(name: str) -> None:
    """maxRecordsPerPartition, of Spark 4, was refused; and what lets a stream into another sink than Spark's track its
    progress asynchronously, where the options beside it were left aside.
    """
    SinkSettings.of_options({"kafka.bootstrap.servers": "a:9092", "topic": "orders", name.lower(): "1"})


@pytest.mark.parametrize(("options", "sentence"), [
    ({"path": "orders"}, r"\.option\('topic'"),
    ({"kafka.foo": "1"}, "foo"),
    ({"bootstrap.server": "a:1"}, r"bootstrap\.servers"),
])
def test_options_that_nobody_knows_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        SinkSettings.of_options({"kafka.bootstrap.servers": "a:9092", "topic": "orders", **options})


@pytest.mark.parametrize("acks", [0, "0", "1", "all"], ids=repr)
def test_acks_when_no_broker_answers_then_the_log_says_what_a_count_of_rows_is(
        acks: object, caplog: pytest.LogCaptureFixture) -> None:
    """A job was green, its numbers said that all rows were stored, and some were not."""
    settings_module._say_nobody_acknowledges.cache_clear()
    for _ in range(2):
        SinkSettings.of({"bootstrap.servers": "a:1", "kafka.acks": acks}, "orders")
    assert caplog.text.count("may have lost some") == (str(acks) == "0")


def test_settings_when_they_travel_then_secrets_arrive_and_are_shown_on_neither_side() -> None:
    given = {**SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config":
             'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="never-shown";'}
    settings = SinkSettings.of(given, "orders")
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert "never-shown" in str(again.props["sasl.jaas.config"])
    with SecretHunt("never-shown") as hunt:
        hunt.look_text("settings", repr(settings))
        hunt.look_text("settings of a worker", repr(again))
        with hunt.errors(ConfigError):
            SinkSettings.of({**given, "linger.ms": "x"}, None)
        with hunt.errors(ConfigError):
            SinkSettings.of_options({**given, "acks": "x"})
