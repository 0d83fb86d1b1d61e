"""What wiring says and refuses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyproducer import ConfigError, KafkaProducer, ProducerConfig, ProducerInterceptor, hotpath
from pyproducer.network.channel_builder import ChannelBuilder, PlaintextChannelBuilder, SslChannelBuilder
from pyproducer.producer import wiring
from tests.support.clock import ManualClock
from tests.unit.producer.facade import Facades

PROPS = {"bootstrap.servers": "127.0.0.1:1"}


def test_a_missing_twin_is_said_once(monkeypatch, caplog):
    monkeypatch.setattr(hotpath, "IS_FALLBACK", True)
    wiring._say_fallback_once.cache_clear()
    for _ in range(2):
        KafkaProducer(PROPS).close()
    assert caplog.text.count("The compiled twin of pyproducer's per-record code is not there") == 1


@pytest.mark.parametrize(("key", "value", "words"), [
    ("transactional.id", "t", "transactions are not in this version"),
    ("security.protocol", "SASL_PLAINTEXT", "SASL is not in this version"),
])
def test_what_this_version_does_not_do_is_refused_before_anything_starts(key, value, words):
    with pytest.raises(ConfigError, match=words):
        KafkaProducer({**PROPS, key: value})


def test_an_explicit_linger_is_kept_for_callers_who_wait():
    with KafkaProducer(PROPS) as producer:
        assert not producer._runtime.accumulator.lingers_for_waiters
    with KafkaProducer({**PROPS, "linger.ms": 5}) as producer:
        assert producer._runtime.accumulator.lingers_for_waiters


@pytest.mark.parametrize(("protocol", "expected"), [("PLAINTEXT", PlaintextChannelBuilder), ("SSL", SslChannelBuilder)])
def test_security_protocol_decides_how_connections_are_made(protocol: str, expected: type[ChannelBuilder]) -> None:
    config = ProducerConfig({**PROPS, "security.protocol": protocol})
    assert type(wiring._channel_builder(config)) is expected


@pytest.mark.parametrize(("props", "serializers", "is_paved"), [
    ({}, (None, None), True),
    ({"interceptor.classes": [ProducerInterceptor()]}, (None, None), False),
    ({}, ("string", None), False), ({}, (None, "string"), False),
    ({"partitioner.class": "round_robin"}, (None, None), False),
])
@pytest.mark.parametrize("has_system_clock", [True, False])
def test_fast_road_when_anything_about_records_is_the_users_then_they_do_not_take_it(
        facades: Facades, props: dict[str, object], serializers: tuple[object, object],
        *, is_paved: bool, has_system_clock: bool) -> None:
    """The compiled road knows no interceptor, serializer or partitioner of others, and reads the system's clock."""
    facade = facades(None if has_system_clock else ManualClock(), serializers=serializers, **props)
    record_sender = facade.producer._runtime.record_sender
    record_sender.fast_road = None
    runtime, made = facade.producer._runtime, []
    record_sender.pave(lambda *parts: made.append(parts) or SimpleNamespace(is_closed=False))
    assert (record_sender.fast_road is not None) == (is_paved and has_system_clock)
    if made:
        assert made == [(record_sender.send, record_sender.begin_batch, runtime.metadata, 1024 * 1024,
                         runtime.turns.wakeup)]
    record_sender.fast_road = None
