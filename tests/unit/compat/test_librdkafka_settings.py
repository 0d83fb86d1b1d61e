"""librdkafka's settings as KafkaProducer gets them, and what is said of those that mean nothing here."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from pyproducer import Cluster, ConfigError, PartitionInfo, ProducerConfig
from pyproducer.compat.librdkafka_settings import translate

SERVERS = {"bootstrap.servers": "kafka:9092"}


def config_of(props: dict[str, Any]) -> ProducerConfig:
    """What KafkaProducer makes of what comes of settings."""
    found = {**SERVERS, **props}
    translate(found)
    return ProducerConfig(found)


def test_defaults_when_nothing_is_given_then_keys_and_patience_are_librdkafkas() -> None:
    config = config_of({})
    assert config["partitioner.class"] == "consistent_random"
    assert config["delivery.timeout.ms"] == config["max.block.ms"] == 300_000
    assert config_of({"transactional.id": "t"})["delivery.timeout.ms"] == 60_000
    assert config_of({"transactional.id": "t", "transaction.timeout.ms": "9000"})["delivery.timeout.ms"] == 9_000


@pytest.mark.parametrize(("given", "expected"), [
    ({"message.timeout.ms": 10_000}, {"delivery.timeout.ms": 10_000, "request.timeout.ms": 9_995,
                                      "max.block.ms": 10_000}),
    ({"message.timeout.ms": "10"}, {"delivery.timeout.ms": 10, "request.timeout.ms": 5}),
    ({"message.timeout.ms": 0}, {"delivery.timeout.ms": 2**31 - 1, "request.timeout.ms": 30_000}),
    ({"delivery.timeout.ms": 20_000, "queue.buffering.max.ms": "1000"},
     {"delivery.timeout.ms": 20_000, "request.timeout.ms": 19_000, "linger.ms": 1000}),
    ({"socket.timeout.ms": 7_000}, {"request.timeout.ms": 7_000}),
    ({"socket.timeout.ms": 7_000, "request.timeout.ms": 8_000}, {"request.timeout.ms": 8_000}),
    ({"topic.metadata.refresh.interval.ms": -1}, {"metadata.max.age.ms": 2**31 - 1}),
    ({"topic.metadata.refresh.interval.ms": 60_000}, {"metadata.max.age.ms": 60_000}),
    ({"message.max.bytes": 5_000_000, "compression.codec": "zstd", "request.required.acks": 1, "max.in.flight": 3},
     {"max.request.size": 5_000_000, "compression.type": "zstd", "acks": "1",
      "max.in.flight.requests.per.connection": 3}),
    ({"partitioner": "murmur2_random"}, {"partitioner.class": "default"}),
    ({"partitioner": "random"}, {"partitioner.class": "round_robin"}),
    ({"partitioner.class": "murmur3"}, {"partitioner.class": "murmur3"}),
    ({"max.block.ms": 5}, {"max.block.ms": 5}),
    ({"connections.max.idle.ms": "0"}, {"connections.max.idle.ms": -1}),
    ({"connections.max.idle.ms": 1}, {"connections.max.idle.ms": 1}),
    ({"linger.ms": 0.1}, {"linger.ms": 1}),
    ({"queue.buffering.max.ms": "2.0"}, {"linger.ms": 2}),
    ({"max.in.flight": "6"}, {"max.in.flight.requests.per.connection": 6, "enable.idempotence": False}),
    ({"max.in.flight": 5}, {"enable.idempotence": True}),
    ({"bootstrap.servers": "a, b:1,[::1],[::1]:2,PLAINTEXT://c,plaintext://d:3,"},
     {"bootstrap.servers": (("a", 9092), ("b", 1), ("::1", 9092), ("::1", 2), ("c", 9092), ("d", 3))}),
    ({"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "a", "sasl.password": "b"},
     {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}),
])
def test_setting_when_java_has_one_that_means_the_same_then_it_has_the_value(given: dict[str, Any],
                                                                             expected: dict[str, Any]) -> None:
    config = config_of(given)
    assert {key: config[key] for key in expected} == expected


@pytest.mark.parametrize("name", ["consistent", "murmur2", "fnv1a"])
def test_partitioner_when_it_hashes_all_then_records_without_a_key_share_a_partition(name: str) -> None:
    props: dict[str, Any] = {"partitioner": name}
    translate(props)
    cluster = Cluster(partitions=[PartitionInfo("t", number, None) for number in range(7)])
    choose = props["partitioner.class"]
    alone = {choose("t", key, key, b"v", b"v", cluster) for key in (None, b"") for _ in range(20)}
    assert len(alone) == 1
    assert len({choose("t", key, key, b"v", b"v", cluster) for key in map(b"%d".__mod__, range(100))}) == 7


def test_key_and_certificate_when_they_are_two_files_then_their_text_is_given(tmp_path: Path) -> None:
    for name in ("key", "certificate"):
        (tmp_path / name).write_text(f"-----{name}-----", encoding="utf-8")
    props: dict[str, Any] = {"ssl.key.location": str(tmp_path / "key"), "ssl.key.password": "p",
                             "ssl.certificate.location": str(tmp_path / "certificate")}
    translate(props)
    assert {key: value for key, value in props.items() if key.startswith("ssl.")} == {
        "ssl.keystore.key": "-----key-----", "ssl.keystore.certificate.chain": "-----certificate-----",
        "ssl.keystore.type": "PEM", "ssl.key.password": "p"}
    with pytest.raises(FileNotFoundError):
        translate({"ssl.key.location": str(tmp_path / "none"), "ssl.certificate.location": str(tmp_path / "none")})


@pytest.mark.parametrize(("name", "value", "advice"), [
    ("stats_cb", print, "metrics()"), ("statistics.interval.ms", 1000, "metrics()"),
    ("throttle_cb", print, "produce-throttle-time-avg"), ("logger", logging.getLogger("t"), "'pyproducer'"),
    ("debug", "all", "setLevel"), ("batch.num.messages", 100, "batch.size"),
])
def test_setting_when_somebody_would_miss_it_then_a_warning_says_what_there_is(
        caplog: pytest.LogCaptureFixture, name: str, value: object, advice: str) -> None:
    props = {name: value, "linger.ms": 1}
    translate(props)
    assert name not in props
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage().startswith(f"{name} has no effect: ")
    assert advice in record.getMessage()


def test_setting_when_nobody_would_miss_it_then_the_log_names_it_below_a_warning(
        caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pyproducer"):
        config_of({"log_level": 0, "socket.keepalive.enable": True, "api.version.request": "true",
                   "statistics.interval.ms": 0})
    assert [(record.levelname, record.getMessage()) for record in caplog.records if "compat" in record.name] == [
        ("INFO", "Nothing here has to be told by these settings: api.version.request, log_level, "
                 "socket.keepalive.enable")]


@pytest.mark.parametrize("props", [{"message.timeout.ms": "soon"}, {"linger.ms": "nan"}, {"linger.ms": True},
                                   {"linger.ms": -0.5}, {"queue.buffering.max.ms": "-0.5"}, {"linger.ms": float("inf")},
                                   {"request.timeout.ms": None}])
def test_number_when_it_is_none_then_the_error_names_setting_and_value(props: dict[str, Any]) -> None:
    ((name, value),) = props.items()
    with pytest.raises(ConfigError, match=rf"{value}.* for configuration {name}: it must be a whole number"):
        translate(props)


@pytest.mark.parametrize("said", [{"enable.idempotence": True}, {"transactional.id": "t"}])
def test_requests_in_flight_when_idempotence_is_wanted_then_so_many_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"max\.in\.flight: it must be at most 5"):
        config_of({"max.in.flight": 6, **said})


@pytest.mark.parametrize(("props", "advice"), [
    ({"ssl.crl.location": "f"}, "ssl.SSLContext"), ({"partitioner": "murmur"}, "murmur2_random"),
    ({"enable.gapless.guarantee": True}, "nothing like it here"), ({"plugin.library.paths": "x"}, "nothing like it"),
    ({"ssl.key.location": "f"}, "one PEM file"),
])
def test_setting_when_records_would_go_another_way_then_it_stays_an_error_with_advice(props: dict[str, Any],
                                                                                      advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        config_of(props)
