"""ProducerConfig: values by key and by attribute, frozen, secrets hidden."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from pyproducer.producer.config.rows_client import CLIENT
from pyproducer.producer.config.rows_delivery import DELIVERY
from pyproducer.producer.config.rows_sasl import SASL
from pyproducer.producer.config.rows_tls import TLS

SERVERS = {"bootstrap.servers": "localhost:9092"}
DEFAULTS = {
    "bootstrap.servers": (("localhost", 9092),), "acks": "-1", "enable.idempotence": True, "retries": 2**31 - 1,
    "max.in.flight.requests.per.connection": 5, "delivery.timeout.ms": 120_000, "request.timeout.ms": 30_000,
    "max.block.ms": 60_000, "linger.ms": 5, "batch.size": 16_384, "buffer.memory": 33_554_432,
    "max.request.size": 1_048_576, "compression.type": "none", "transactional.id": None, "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1_000, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 1_000,
    "metadata.max.age.ms": 300_000, "connections.max.idle.ms": 540_000, "security.protocol": "PLAINTEXT",
}


def test_config_when_only_servers_are_given_then_every_setting_has_its_default() -> None:
    """Those that decide what becomes of records; tests/kafka asks Java for all that it has."""
    config = ProducerConfig(SERVERS)
    assert dict(config).keys() == CONFIG_TABLE.keys()
    assert {key: config[key] for key in DEFAULTS} == DEFAULTS


def test_config_when_it_is_walked_then_the_settings_come_section_by_section() -> None:
    """Who prints the settings of a producer has first what decides its delivery, and the same order each time."""
    keys = [row.key for section in (DELIVERY, CLIENT, TLS, SASL) for row in section]
    config = ProducerConfig({"linger.ms": 9, **SERVERS})
    assert [key for key in config if key in keys] == keys


def test_values_when_read_by_key_or_attribute_then_the_same() -> None:
    config = ProducerConfig({**SERVERS, "linger.ms": "20"})
    for key in CONFIG_TABLE:
        assert getattr(config, key.replace(".", "_")) == config[key]
    assert config.linger_ms == 20
    with pytest.raises(AttributeError, match="no setting 'lingerms'"):
        config.lingerms  # noqa: B018 - reading it is the test
    with pytest.raises(KeyError):
        config["lingerms"]


@pytest.mark.parametrize("error", [ValueError("a bug"), TypeError("a bug"), LookupError("a bug"), OSError("a bug")],
                         ids=repr)
def test_file_when_code_of_the_applications_raises_while_it_is_read_then_its_error_comes_as_it_is(
        tmp_path: Path, error: Exception) -> None:
    class Interceptors(list[object]):
        def __iter__(self) -> Iterator[object]:
            raise error

    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=broker:9092\n")
    with pytest.raises(type(error)) as caught:
        ProducerConfig.from_file(file, interceptor_classes=Interceptors())
    assert caught.value is error


def test_config_when_changed_then_refused() -> None:
    config = ProducerConfig(SERVERS)
    with pytest.raises(AttributeError, match="frozen"):
        config.linger_ms = 5
    with pytest.raises(AttributeError, match="frozen"):
        del config.originals


def test_props_when_changed_afterwards_then_the_config_does_not_notice() -> None:
    props: dict[str, object] = dict(SERVERS)
    config = ProducerConfig(props)
    props["linger.ms"] = 99
    assert config.originals == SERVERS
    assert config.linger_ms == 5


def test_is_default_when_given_even_as_the_default_then_false() -> None:
    config = ProducerConfig({**SERVERS, "linger.ms": 5, "partitioner.class": None,
                             "ssl.endpoint.identification.algorithm": None})
    assert not config.is_default("ssl.endpoint.identification.algorithm"), "None is not what it is by default"
    assert not config.is_default("linger.ms")
    assert config.is_default("batch.size")
    assert config.is_default("partitioner.class")
    with pytest.raises(KeyError):
        config.is_default("no.such.key")


@pytest.mark.parametrize("protocol", ["plaintext", "PLAINTEXT", "Ssl"])
def test_protocol_when_written_in_small_letters_then_the_same_as_in_java(protocol: str) -> None:
    assert ProducerConfig({**SERVERS, "security.protocol": protocol}).security_protocol == protocol.upper()


@pytest.mark.parametrize("props", [{}, {"linger.ms": 5}])
def test_servers_when_absent_then_required(props: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="it is required") as caught:
        ProducerConfig(props)
    assert caught.value.key == "bootstrap.servers"


def test_servers_when_empty_then_required() -> None:
    with pytest.raises(ConfigError, match="at least one broker"):
        ProducerConfig({"bootstrap.servers": " "})


def test_repr_when_secrets_are_set_then_hidden_and_defaults_left_out() -> None:
    shown = repr(ProducerConfig({**SERVERS, "ssl.key.password": "hunter2", "linger.ms": 7,
                                 "sasl.jaas.config": 'password="hunter2";'}))
    assert "hunter2" not in shown
    assert "'ssl.key.password': '[hidden]'" in shown
    assert "'linger.ms': 7" in shown
    assert "batch.size" not in shown


def test_config_when_pickled_then_equal() -> None:
    config = ProducerConfig({**SERVERS, "linger.ms": 7})
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert again.originals == config.originals
    assert not again.is_default("linger.ms")
    assert config != 5


@pytest.mark.parametrize("props", [{}, {**SERVERS, "linger.ms": "x"}, {**SERVERS, "bogus.key": "1"},
                                   {**SERVERS, "acks": "1", "enable.idempotence": True}])
def test_config_error_when_pickled_then_all_of_it_comes_back(props: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig(props)
    error = caught.value
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ConfigError
    assert (again.key, again.value, again.why, str(again)) == (error.key, error.value, error.why, str(error))
    assert isinstance(again, ValueError)
    assert (again.retriable, again.refresh_metadata, again.outcome) == (False, False, "not_sent")


def test_bootstrap_servers_when_given_as_a_list_then_the_same() -> None:
    assert ProducerConfig({"bootstrap.servers": ["a:1", " b:2 "]}).bootstrap_servers == (("a", 1), ("b", 2))
