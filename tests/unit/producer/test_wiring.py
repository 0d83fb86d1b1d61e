"""What wiring says and refuses."""

from __future__ import annotations

import pytest

from pyproducer import ConfigError, KafkaProducer, hotpath
from pyproducer.producer import wiring

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
