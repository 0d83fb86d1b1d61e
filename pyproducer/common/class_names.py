"""Loads what a setting names: `module:Class`, or `package.module.Class`.

Road:    ProducerConfig -> [class names] -> serializers, interceptors, partitioners, token callbacks
Thread:  imports modules; no state.
Source:  ours; Java's Class.forName in AbstractConfig.getConfiguredInstance (4.1).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyproducer.common.errors import ConfigError

log: logging.Logger = logging.getLogger(__name__)

_JAVA_PACKAGES = ("com.", "io.", "net.", "org.", "software.")
_JAVA_CLASS = re.compile(r"[a-z_0-9]+(?:\.[a-z_0-9]+)+(?:[.$][A-Z]\w*)+")
_REGISTRY = "give the serializer of confluent-kafka, or another in Python, as an object: docs/migration.md"
_JAVA_SERIALIZERS = ("KafkaAvroSerializer", "KafkaJsonSchemaSerializer", "KafkaProtobufSerializer",
                     "AvroKafkaSerializer", "KafkaJsonSerializer")
# Interceptors and reporters that tell another product of Confluent's how the client does, and change no record.
_MONITORING = ("io.confluent.monitoring.clients.interceptor.", "io.confluent.metrics.reporter.")
_HOW = "write 'module:Class' or 'package.module.Class', or give the object itself"


def import_object(key: str, name: str) -> object:
    """Return the class, function or instance that a name stands for.

    Args:
        key: The setting, for messages.
        name: The name.

    Raises:
        ConfigError: Nothing can be loaded by that name. Nothing was started.
    """
    module_name, colon, path = name.partition(":")
    if not colon:
        module_name, _, path = name.rpartition(".")
    if not module_name or not path:
        raise ConfigError(key, name, f"no such name: {_HOW}")
    try:
        found: object = importlib.import_module(module_name)
    except Exception as cause:  # importing runs foreign code, which may raise anything
        if not colon and is_class_of_java(name):
            how = _REGISTRY if path in _JAVA_SERIALIZERS else "leave it out, or name one in Python, as 'module:Class'"
            raise ConfigError(key, name, f"it cannot be imported, and by its name is a class of Java: {how}") from None
        raise ConfigError(key, name, f"the module {module_name!r} cannot be imported "
                                     f"({type(cause).__name__}: {cause}): {_HOW}") from cause
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as cause:
            raise ConfigError(key, name, f"the module {module_name!r} has no {path!r}: {_HOW}") from cause
    return found


def is_class_of_java(name: str) -> bool:
    """Whether a name looks like that of a class of Java."""
    return name.startswith(_JAVA_PACKAGES) and _JAVA_CLASS.fullmatch(name) is not None


def is_left_out(name: object) -> bool:
    """Whether a class of Java that a shared file names changes nothing but what another product is told."""
    return isinstance(name, str) and name.startswith(_MONITORING)


def make_instance(key: str, value: object, **arguments: object) -> object:
    """Call a class, the user's own without arguments; return anything else as it is.

    Raises:
        ConfigError: The class cannot be made without arguments. Nothing was started.
    """
    if not isinstance(value, type):
        return value
    try:
        return value(**arguments)
    except Exception as cause:  # foreign code, which may raise anything
        raise ConfigError(key, value, f"{value.__name__}() failed ({type(cause).__name__}: {cause}): give an "
                                      "instance, or a class that can be made without arguments") from cause


@contextlib.contextmanager
def closed_if_refused(value: object, instance: object) -> Iterator[None]:
    """Close an object within this block, where that raises and it was made here; one that was given is its maker's.

    Args:
        value: What was given: the object, or a class that was called for it.
        instance: The object.

    Source: Java AbstractConfig.getConfiguredInstance (4.1).
    """
    try:
        yield
    except BaseException:
        if instance is not value:
            close_parts(instance)
        raise


def close_parts(*parts: object) -> None:
    """Close what may be the application's: interceptors, partitioner, serializers, login. A failure is logged."""
    for part in parts:
        close = getattr(part, "close", None)
        if close is not None:
            try:
                close()
            except BaseException:  # the others are closed all the same, by the sender thread as its last act
                log.exception("close() of %r raised", part)


def configure_instance(key: str, value: object, instance: Any, props: Mapping[str, object], *more: object) -> None:
    """Give an object with `configure` a copy of the application's properties.

    Args:
        key: The setting, for messages.
        value: What it is, for messages.
        instance: The object.
        props: The properties as they were given.
        more: What else it is called with: a serializer, whether it is that of keys.

    Raises:
        ConfigError: Its `configure` failed. Nothing was started.
    """
    if not callable(getattr(instance, "configure", None)):
        return
    try:
        instance.configure(dict(props), *more)
    except Exception as cause:  # foreign code, which may raise anything
        raise ConfigError(key, value, f"its configure() failed ({type(cause).__name__}: {cause})") from cause
