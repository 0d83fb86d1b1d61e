"""A key that nobody knows is an error that names the key that was meant."""

from __future__ import annotations

import logging

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from pyproducer.producer.config.other_keys import CONSUMER_KEYS, MEANT

SERVERS = {"bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize(("given", "meant"), [
    ("linger_ms", "linger.ms"), ("Linger.Ms", "linger.ms"), ("lingerms", "linger.ms"), ("batchsize", "batch.size"),
    ("bootstrap.server", "bootstrap.servers"), ("compression.typ", "compression.type"), ("ack", "acks"),
    ("max.in.flight.requests", "max.in.flight.requests.per.connection"),
    ("queue.buffering.max.ms", "linger.ms"), ("message.timeout.ms", "delivery.timeout.ms"),
    ("ssl.ca.location", "ssl.truststore.location"), ("security_protocol", "security.protocol"),
    ("enable-idempotence", "enable.idempotence"), ("sasl.username", "sasl.jaas.config"),
])
def test_key_when_nearly_right_then_the_error_names_the_right_one(given: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig({**SERVERS, given: "1"})
    assert caught.value.key == given
    assert f"did you mean {meant!r}?" in str(caught.value)


def test_key_when_far_from_all_then_no_guess() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting$"):
        ProducerConfig({**SERVERS, "zzzzzzzz": "1"})
    assert CONFIG_TABLE.nearest("zzzzzzzz") is None


def test_key_when_it_is_no_string_then_said_so() -> None:
    with pytest.raises(ConfigError, match="a key must be a string, got a int"):
        ProducerConfig({**SERVERS, 5: "1"})  # type: ignore[dict-item]  # that is the test


@pytest.mark.parametrize("key", ["sasl.password", "ssl.key.pasword", "my.secret", "ssl_key_password"])
def test_value_when_the_key_sounds_secret_then_hidden(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig({**SERVERS, key: "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_config_providers_when_given_then_the_error_says_to_resolve_them() -> None:
    for key in ("config.providers", "config.providers.file.class"):
        with pytest.raises(ConfigError, match="KIP-297"):
            ProducerConfig({**SERVERS, key: "x"})


def test_other_clients_names_when_listed_then_they_lead_to_known_keys() -> None:
    assert set(MEANT.values()) <= set(CONFIG_TABLE)
    assert not set(MEANT) & set(CONFIG_TABLE)
    assert not CONSUMER_KEYS & set(CONFIG_TABLE)


def test_keys_when_only_a_consumer_or_jvm_uses_them_then_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = ProducerConfig({**SERVERS, "group.id": "g", "ssl.provider": "SunJSSE",
                                 "auto.include.jmx.reporter": "true", "sasl.oauthbearer.clock.skew.seconds": 5})
    assert len(caplog.records) == 1
    assert ("auto.include.jmx.reporter, group.id, sasl.oauthbearer.clock.skew.seconds, ssl.provider"
            in caplog.records[0].getMessage())
    assert config.ssl_provider == "SunJSSE"
    assert "group.id" not in config
    assert config.originals["group.id"] == "g"


def test_keys_when_all_mean_something_then_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    ProducerConfig({**SERVERS, "linger.ms": 5, "ssl.provider": None})
    assert caplog.records == []
