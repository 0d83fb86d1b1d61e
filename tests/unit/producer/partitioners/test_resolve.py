"""partitioner.class: names, classes, instances and callables."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest

from pyproducer.common.cluster import Cluster
from pyproducer.common.errors import ConfigError
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.partitioners import (
    CallablePartitioner,
    Crc32Partitioner,
    DefaultPartitioner,
    Fnv1aPartitioner,
    Murmur2RandomPartitioner,
    Murmur3Partitioner,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
    resolve_partitioner,
)
from tests.unit.producer.partitioners.clusters import TOPIC, cluster_of


class Own:
    """A user's partitioner."""

    def __init__(self) -> None:
        self.props: dict[str, object] | None = None

    def configure(self, props: Mapping[str, object]) -> None:
        self.props = dict(props)

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
        return 1


def always_two(topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None,
               cluster: Cluster) -> int:
    return 2


def config(**props: object) -> ProducerConfig:
    named = {key.replace("_", "."): value for key, value in props.items()}
    return ProducerConfig({"bootstrap.servers": "a:1", **named})


@pytest.mark.parametrize(("value", "expected"), [
    (None, DefaultPartitioner), ("default", DefaultPartitioner), ("DefaultPartitioner", DefaultPartitioner),
    ("org.apache.kafka.clients.producer.internals.DefaultPartitioner", DefaultPartitioner),
    ("round_robin", RoundRobinPartitioner),
    ("org.apache.kafka.clients.producer.RoundRobinPartitioner", RoundRobinPartitioner),
    ("org.apache.kafka.clients.producer.UniformStickyPartitioner", UniformStickyPartitioner),
    ("uniform_sticky", UniformStickyPartitioner), ("murmur3", Murmur3Partitioner), ("crc32", Crc32Partitioner),
    ("consistent_random", Crc32Partitioner), ("fnv1a_random", Fnv1aPartitioner), ("fnv1a", Fnv1aPartitioner),
    ("murmur2_random", Murmur2RandomPartitioner), (" Crc32Partitioner ", Crc32Partitioner),
    (Fnv1aPartitioner, Fnv1aPartitioner), (Crc32Partitioner(), Crc32Partitioner), (Own, Own),
    (f"{__name__}:Own", Own), (f"{__name__}.Own", Own), (always_two, CallablePartitioner),
    (f"{__name__}:always_two", CallablePartitioner),
])
def test_partitioner_when_named_then_found(value: object, expected: type) -> None:
    assert type(resolve_partitioner(value)) is expected
    assert type(resolve_partitioner(value, config())) is expected


def test_uniform_sticky_when_resolved_then_it_has_the_settings() -> None:
    partitioner = resolve_partitioner("uniform_sticky", config(
        batch_size=7, partitioner_adaptive_partitioning_enable=False, partitioner_availability_timeout_ms=9,
        partitioner_ignore_keys=True))
    assert isinstance(partitioner, UniformStickyPartitioner)
    assert not partitioner.is_adaptive
    assert (partitioner._batch_size_bytes, partitioner._availability_timeout_ms) == (7, 9)
    assert partitioner._ignore_keys


def test_ignoring_keys_when_no_class_is_set_then_it_is_the_partitioner_that_does_as_in_java() -> None:
    """Records with keys went by their keys, without a word."""
    partitioner = resolve_partitioner(None, config(partitioner_ignore_keys=True, partitioner_availability_timeout_ms=9))
    assert isinstance(partitioner, UniformStickyPartitioner)
    assert (partitioner._ignore_keys, partitioner._availability_timeout_ms) == (True, 9)
    by_key = resolve_partitioner(None, config(partitioner_ignore_keys=False))
    assert by_key.partition(TOPIC, "k", b"k", "v", b"v", cluster_of(3)) == DefaultPartitioner().partition(
        TOPIC, "k", b"k", "v", b"v", cluster_of(3))


STICKY = {"partitioner.adaptive.partitioning.enable": False, "partitioner.availability.timeout.ms": 9}
RACK = {"partitioner.rack.aware": True, "client.rack": "r1"}
ALL = {**STICKY, "partitioner.ignore.keys": True, **RACK}


@pytest.mark.parametrize(("value", "given", "keys"), [
    (None, STICKY, list(STICKY)), ("default", {**STICKY, "partitioner.ignore.keys": True},
                                   [*STICKY, "partitioner.ignore.keys"]),
    (None, RACK, []), (None, ALL, []), ("uniform_sticky", ALL, []), (Own, ALL, []),
    ("round_robin", ALL, [*STICKY, "partitioner.ignore.keys", "partitioner.rack.aware"]),
    (always_two, RACK, ["partitioner.rack.aware"]), (UniformStickyPartitioner(), STICKY, list(STICKY)),
    (None, {"partitioner.adaptive.partitioning.enable": True, "partitioner.availability.timeout.ms": 0}, []),
])
def test_setting_when_the_partitioner_does_not_use_it_then_a_warning_says_which_does(
        value: object, given: dict[str, object], keys: list[str], caplog: pytest.LogCaptureFixture) -> None:
    resolve_partitioner(value, ProducerConfig({"bootstrap.servers": "a:1", **given}))
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" = ")[0] for line in lines] == keys
    assert all("has no effect on" in line and "UniformStickyPartitioner" in line for line in lines)


def test_own_partitioner_when_it_has_configure_then_it_gets_the_properties() -> None:
    own = Own()
    given = config(linger_ms=7)
    assert resolve_partitioner(own, given) is own
    assert own.props == {"bootstrap.servers": "a:1", "linger.ms": 7, "client.id": given.client_id}


def test_callable_when_used_then_it_gets_what_a_partitioner_gets() -> None:
    partitioner = resolve_partitioner(always_two)
    assert partitioner.partition(TOPIC, "k", b"k", "v", b"v", cluster_of(3)) == 2
    assert "always_two" in repr(partitioner)


@pytest.mark.parametrize(("value", "why"), [
    ("murmur", "use one of default, round_robin"), ("org.apache.kafka.clients.producer.Nothing", "use one of default"),
    ("no.such.module.Partitioner", "cannot be imported"), (5, "must have partition"), (dict, "must have partition"),
    (object(), "must have partition"),
])
def test_partitioner_when_there_is_none_then_config_error(value: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        resolve_partitioner(value, config())
    assert caught.value.key == "partitioner.class"


def test_own_partitioner_when_configure_raises_then_config_error_and_it_is_closed_where_it_was_made_here() -> None:
    closed: list[object] = []

    class Unhappy(Own):
        def configure(self, props: Mapping[str, object]) -> None:
            raise LookupError("my.setting")

        def close(self) -> None:
            closed.append(self)

    with pytest.raises(ConfigError, match="LookupError") as caught:
        resolve_partitioner(Unhappy, config())
    assert isinstance(caught.value.__cause__, LookupError)
    assert len(closed) == 1
    given = Unhappy()
    with pytest.raises(ConfigError, match="LookupError"):
        resolve_partitioner(given, config())
    assert given not in closed, "it is its maker's"


class OfThree:
    def partition(self, key: bytes, all_partitions: list[int], available: list[int]) -> int:
        return 0


class OfSix:
    def partition(self, *given: Any) -> int:
        return 0


async def awaited(topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, cluster: Any) -> int:
    return 0


@pytest.mark.parametrize(("value", "why"), [
    (lambda key, everyone, available: 0,
     r"called with six arguments, \(topic, key, key_bytes, value, value_bytes, cluster\), and this one takes "
     r"\(key, everyone, available\).*kafka-python's"),
    (OfThree, r"takes \(key: 'bytes', all_partitions: .*kafka-python's"), (OfThree(), "kafka-python's"),
    (lambda topic: 0, r"takes \(topic\) \(too many positional arguments\)$"),
    (lambda a, b, c, d, e, f, g: 0, "missing a required argument: 'g'"),
    (awaited, "coroutine function, and nobody would await the partition"),
])
def test_partitioner_when_it_takes_other_arguments_then_the_constructor_says_so(value: Any, why: str) -> None:
    """Each record failed: "<lambda>() takes 3 positional arguments but 6 were given"."""
    with pytest.raises(ConfigError, match=why):
        resolve_partitioner(value)


@pytest.mark.parametrize("value", [
    OfSix, OfSix(), lambda *given: 0, lambda topic, key, key_bytes, value, value_bytes, cluster, more=1: 0,
    functools.partial(lambda more, *given: 0, 1), mock.Mock(return_value=0), max])
def test_partitioner_when_it_takes_six_somehow_then_it_is_taken(value: Any) -> None:
    resolve_partitioner(value)
