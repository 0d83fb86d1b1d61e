"""Settings that depend on each other: what the real producer of Kafka 4.1 does with each combination."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.producer.config import ProducerConfig

IN_FLIGHT = "max.in.flight.requests.per.connection"


def config(**props: object) -> ProducerConfig:
    return ProducerConfig({"bootstrap.servers": "localhost:9092", **{k.replace("_", "."): v for k, v in props.items()}})


@pytest.mark.parametrize(("props", "is_idempotent"), [
    ({}, True), ({"acks": "all"}, True), ({"acks": "-1"}, True), ({"acks": "1"}, False), ({"acks": 0}, False),
    ({"retries": 0}, False), ({"retries": "1"}, True), ({IN_FLIGHT: 5}, True), ({IN_FLIGHT: 1}, True),
    ({IN_FLIGHT: 6, "enable.idempotence": False}, False), ({"enable.idempotence": "true", "acks": "all"}, True),
])
def test_idempotence_when_not_contradicted_then_on_or_silently_off(props: dict[str, Any], is_idempotent: bool) -> None:
    assert config(**props).enable_idempotence is is_idempotent


@pytest.mark.parametrize(("props", "key"), [
    ({IN_FLIGHT: 6}, IN_FLIGHT), ({IN_FLIGHT: 6, "acks": "1"}, IN_FLIGHT),
    ({IN_FLIGHT: 6, "enable.idempotence": True}, IN_FLIGHT), ({"acks": "1", "enable.idempotence": True}, "acks"),
    ({"retries": 0, "enable.idempotence": True}, "retries"),
    ({"transactional.id": "t", "acks": "1"}, "transactional.id"),
    ({"transactional.id": "t", "retries": 0}, "transactional.id"),
    ({"transactional.id": "t", "enable.idempotence": False}, "transactional.id"),
    ({"transaction.two.phase.commit.enable": True, "transaction.timeout.ms": 60000}, "transaction.timeout.ms"),
    ({"delivery.timeout.ms": 1000}, "delivery.timeout.ms"),
    ({"delivery.timeout.ms": 30004}, "delivery.timeout.ms"),
    ({"security.protocol": "SASL_SSL", "sasl.mechanism": ""}, "sasl.mechanism"),
    ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": None}, "sasl.mechanism"),
])
def test_settings_when_they_contradict_each_other_then_the_error_says_what_to_do(props: dict[str, Any],
                                                                                 key: str) -> None:
    with pytest.raises(ConfigError, match=r"set |leave out|lower ") as caught:
        config(**props)
    assert caught.value.key == key


@pytest.mark.parametrize(("acks", "on_the_wire"), [("all", -1), ("-1", -1), ("1", 1), ("0", 0)])
def test_acks_when_given_by_any_name_then_the_number_is_the_protocols(acks: str, on_the_wire: int) -> None:
    parsed = config(acks=acks)
    assert parsed.required_acks == on_the_wire
    assert parsed.acks == str(on_the_wire)


def test_delivery_timeout_when_default_then_it_is_stretched(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert config(linger_ms=100000).delivery_timeout_ms == 130000
    assert "130000" in caplog.text
    assert config(request_timeout_ms=2**31 - 1).delivery_timeout_ms == 2**31 - 1
    assert config(linger_ms=2**40).delivery_timeout_ms == 2**31 - 1
    assert config(delivery_timeout_ms=30005).delivery_timeout_ms == 30005


def test_two_phase_commit_when_the_timeout_is_default_then_accepted() -> None:
    assert config(transaction_timeout_ms=70_000, transactional_id="t").transaction_timeout_ms == 70_000
    assert config(transaction_two_phase_commit_enable=True).transaction_two_phase_commit_enable is True


def test_transactional_id_when_given_then_it_names_the_client() -> None:
    assert config(transactional_id="t").client_id == "producer-t"
    assert config(transactional_id="t", client_id="c").client_id == "c"


def test_client_id_when_empty_then_each_producer_gets_its_own() -> None:
    first, second = config(), config(client_id=None)
    assert first.client_id.startswith("producer-")
    assert int(second.client_id.removeprefix("producer-")) == int(first.client_id.removeprefix("producer-")) + 1


@pytest.mark.parametrize(("client_id", "words"), [
    ("x" * 32_768, r"'x{60}\.\.\.'.*32768 bytes in UTF-8.*room for 32767: choose a shorter one"),
    ("\u00fc" * 16_384, "takes 32768 bytes"), ("bad\ud800", r"no way to write the character at 3: leave it out")],
    ids=lambda text: ascii(text[:5]))
def test_client_id_when_no_request_can_carry_it_then_refused(client_id: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        ProducerConfig({"bootstrap.servers": "b:1", "client.id": client_id})
    assert caught.value.key == "client.id"


def test_transactional_id_when_no_request_can_carry_it_then_that_is_the_setting_that_is_named() -> None:
    for name in ("x" * 32_768, "bad\ud800"):
        with pytest.raises(ConfigError, match="in UTF-8") as caught:
            ProducerConfig({"bootstrap.servers": "b:1", "transactional.id": name})
        assert (caught.value.key, caught.value.others) == ("transactional.id", ())


def test_client_id_when_it_just_fits_then_taken() -> None:
    assert ProducerConfig({"bootstrap.servers": "b:1", "client.id": "x" * 32_767}).client_id == "x" * 32_767


def test_reconnect_backoff_when_alone_then_it_does_not_grow() -> None:
    assert config(reconnect_backoff_ms=10).reconnect_backoff_max_ms == 10
    assert config(reconnect_backoff_ms=5000).reconnect_backoff_max_ms == 5000
    assert config(reconnect_backoff_ms=10, reconnect_backoff_max_ms=1000).reconnect_backoff_max_ms == 1000
    assert config().reconnect_backoff_max_ms == 1000


@pytest.mark.parametrize(("first", "ceiling"), [
    ("retry.backoff.ms", "retry.backoff.max.ms"), ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
    ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms")])
def test_wait_when_the_first_is_above_its_ceiling_then_a_warning(
        first: str, ceiling: str, caplog: pytest.LogCaptureFixture) -> None:
    assert config(**{first: 5000, ceiling: 5000})[first] == 5000
    assert caplog.messages == []
    assert config(**{first: 5000, ceiling: 1000})[first] == 5000
    assert caplog.messages == [f"{first} = 5000 is above {ceiling} = 1000: the wait will not grow"]


def test_sasl_and_transactions_when_asked_for_then_the_table_does_not_refuse_them() -> None:
    assert config(security_protocol="SASL_SSL").security_protocol == "SASL_SSL"
    assert config(transactional_id="t").transactional_id == "t"


def test_fork_when_it_is_rebuild_then_not_with_a_transactional_id() -> None:
    assert config().pyproducer_fork == "refuse"
    assert config(**{"pyproducer.fork": "rebuild"}).pyproducer_fork == "rebuild"
    assert config(**{"pyproducer.fork": "refuse", "transactional.id": "t"}).transactional_id == "t"
    with pytest.raises(ConfigError, match="would fence the parent") as raised:
        config(**{"pyproducer.fork": "rebuild", "transactional.id": "t"})
    assert raised.value.key == "pyproducer.fork"
    with pytest.raises(ConfigError):
        config(**{"pyproducer.fork": "anew"})
