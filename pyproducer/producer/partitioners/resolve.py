"""Finds the partitioner that `partitioner.class` means; a function of the user's becomes one.

Road:    ProducerConfig -> [resolve] -> partitioner
Thread:  the constructor's; logs, and is otherwise pure.
Source:  Java KafkaProducer's constructor (4.1). partitioner.rack.aware is for DefaultPartitioner and
         UniformStickyPartitioner, as in Java for its built-in one (KIP-1123). Differs from Java: unset is
         DefaultPartitioner (seed 001), but with partitioner.ignore.keys = true, which it does not know; what Java does
         when unset is "uniform_sticky". A setting that the partitioner does not use is told.
"""

from __future__ import annotations

import logging
from _thread import RLock
from collections.abc import Callable, Mapping
from inspect import Signature, isclass, signature
from typing import Any, cast

from pyproducer.common.callback import is_coroutine_function
from pyproducer.common.class_names import closed_if_refused, configure_instance, import_object, make_instance
from pyproducer.common.cluster import Cluster
from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.parse import value_text
from pyproducer.producer.partitioners.default import DefaultPartitioner
from pyproducer.producer.partitioners.hashed import (
    Crc32Partitioner,
    Fnv1aPartitioner,
    Murmur2RandomPartitioner,
    Murmur3Partitioner,
)
from pyproducer.producer.partitioners.partitioner import NextRandom, Partitioner, any_number
from pyproducer.producer.partitioners.round_robin import RoundRobinPartitioner
from pyproducer.producer.partitioners.uniform_sticky import UniformStickyPartitioner

log: logging.Logger = logging.getLogger(__name__)

KEY = "partitioner.class"
_SIX = ("topic", "key", "key_bytes", "value", "value_bytes", "cluster")
_JAVA_PACKAGE = "org.apache.kafka.clients.producer."

_NAMES: dict[str, type[Any]] = {
    "default": DefaultPartitioner,
    "round_robin": RoundRobinPartitioner,
    "uniform_sticky": UniformStickyPartitioner,
    "murmur2_random": Murmur2RandomPartitioner,
    "murmur3": Murmur3Partitioner,
    "consistent_random": Crc32Partitioner,
    "crc32": Crc32Partitioner,
    "fnv1a_random": Fnv1aPartitioner,
    "fnv1a": Fnv1aPartitioner,
}
_DRAWING = (DefaultPartitioner, Murmur2RandomPartitioner, Murmur3Partitioner, Crc32Partitioner, Fnv1aPartitioner)
_JAVA_NAMES: dict[str, type[Any]] = {
    _JAVA_PACKAGE + "RoundRobinPartitioner": RoundRobinPartitioner,
    _JAVA_PACKAGE + "UniformStickyPartitioner": UniformStickyPartitioner,
    _JAVA_PACKAGE + "internals.DefaultPartitioner": DefaultPartitioner,
}
_OF_STICKY = {"partitioner.adaptive.partitioning.enable": True, "partitioner.availability.timeout.ms": 0,
              "partitioner.ignore.keys": False}  # with the values that ask for nothing
_CLASS_NAMES: dict[str, type[Any]] = {cls.__name__: cls for cls in _NAMES.values()}


class CallablePartitioner:
    """Calls `function(topic, key, key_bytes, value, value_bytes, cluster)`; send() checks what it gives.

    Thread: any caller; the function must allow that.
    """

    def __init__(self, function: Callable[[str, Any, bytes | None, Any, bytes | None, Cluster], int]) -> None:
        self.partition = function

    def __repr__(self) -> str:
        return f"CallablePartitioner({self.partition!r})"


def resolve_partitioner(value: object, config: Mapping[str, Any] | None = None, *,
                        next_random: NextRandom = any_number,
                        make_lock: Callable[[], RLock] = RLock) -> Partitioner:
    """Return the partitioner that a setting means.

    Args:
        value: None (DefaultPartitioner, or UniformStickyPartitioner where partitioner.ignore.keys is set, as only that
            can); a short name, a class name of ours or of Java, "module:Class"; a class or an
            instance with `partition`; or a callable with the arguments of Partitioner.partition.
        config: The producer's settings, for partitioners that need some (UniformStickyPartitioner) and for those of the
            user that have `configure(props)`.
        next_random: Given to those of ours that draw a number.
        make_lock: Given to those of ours that need a lock.

    Raises:
        ConfigError: There is no such partitioner. Nothing was started.
    """
    if value is None:
        # In Java an unset class is the one that partitioner.ignore.keys belongs to: a file of Java's means what it
        # says.
        ignores_keys = config is not None and config["partitioner.ignore.keys"]
        value = UniformStickyPartitioner if ignores_keys else DefaultPartitioner
    elif isinstance(value, str):
        value = _by_name(value.strip())
    if value is UniformStickyPartitioner and config is not None:
        return UniformStickyPartitioner(
            config["batch.size"], is_adaptive=config["partitioner.adaptive.partitioning.enable"],
            availability_timeout_ms=config["partitioner.availability.timeout.ms"],
            ignore_keys=config["partitioner.ignore.keys"], rack=_rack(config), next_random=next_random,
            make_lock=make_lock)
    if value is DefaultPartitioner and config is not None:
        _tell_unused(value.__name__, config, is_rack_used=True)
        return DefaultPartitioner(next_random, rack=_rack(config))
    if isclass(value) and not hasattr(value, "partition"):
        raise ConfigError(KEY, value, "a partitioner class must have partition(topic, key, key_bytes, value, "
                                      "value_bytes, cluster)")
    draws = isclass(value) and value in _DRAWING
    instance: Any = make_instance(KEY, value, **({"next_random": next_random} if draws else {}))
    if config is not None and not hasattr(instance, "configure"):  # which may read any setting
        _tell_unused(_name_of(instance), config, is_rack_used=False)
    with closed_if_refused(value, instance):
        if callable(getattr(instance, "partition", None)):
            _ensure_takes_six(value, instance.partition)
            if config is not None:
                configure_instance(KEY, instance, instance, getattr(config, "for_classes", config))
            return cast("Partitioner", instance)
        if callable(instance):
            _ensure_takes_six(value, instance)
            return CallablePartitioner(instance)
        raise ConfigError(KEY, value, "a partitioner must have partition(topic, key, key_bytes, value, value_bytes, "
                                      "cluster), or be callable with these")


def _tell_unused(name: str, config: Mapping[str, Any], *, is_rack_used: bool) -> None:
    """Log which settings of partitioners are given and change nothing, for this one does not use them."""
    unused = [(key, "the class UniformStickyPartitioner, which uses it") for key, nothing in _OF_STICKY.items()
              if config[key] != nothing]
    if config["partitioner.rack.aware"] and not is_rack_used:
        unused.append(("partitioner.rack.aware", "the class DefaultPartitioner or UniformStickyPartitioner, which use "
                                                 "it"))
    for key, users in unused:
        log.warning("%s = %s has no effect on %s: set %s to %s, or leave it out", key, value_text(config[key]), name,
                    KEY, users)


def _name_of(instance: object) -> str:
    return str(getattr(instance, "__name__", type(instance).__name__))


def _ensure_takes_six(value: object, function: Callable[..., Any]) -> None:
    """Refuse a function of other arguments here: each record would fail."""
    if is_coroutine_function(function):
        raise ConfigError(KEY, value, "it is a coroutine function, and nobody would await the partition")
    try:
        found = signature(function)
    except (TypeError, ValueError):  # a builtin's, which has none
        return
    try:
        found.bind(*_SIX)
    except TypeError as cause:
        raise ConfigError(KEY, value, f"a partitioner is called with six arguments, ({', '.join(_SIX)}), and this one "
                                      f"takes {found} ({cause}){_advice(found)}") from None


def _advice(found: Signature) -> str:
    if len(found.parameters) != 3:
        return ""
    return (". That is kafka-python's (key_bytes, all_partitions, available_partitions): those are "
            "key_bytes and [info.partition for info in cluster.partitions_for_topic(topic)]")


def _rack(config: Mapping[str, Any]) -> str:
    """Return the rack whose partitions are preferred; empty for none."""
    rack: str = config["client.rack"] if config["partitioner.rack.aware"] else ""
    return rack


def _by_name(name: str) -> object:
    found = _NAMES.get(name.lower()) or _JAVA_NAMES.get(name) or _CLASS_NAMES.get(name)
    if found is not None:
        return found
    if name.startswith("org.apache.kafka.") or ("." not in name and ":" not in name):
        raise ConfigError(KEY, name, f"there is no such partitioner here: use one of {', '.join(_NAMES)}, "
                                     f"{', '.join(_JAVA_NAMES)}, a callable, or 'module:Class'")
    return import_object(KEY, name)
