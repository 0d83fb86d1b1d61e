"""Turns what the user gave for a setting into a value of the setting's type, and a value back into text.

Road:    properties, dict -> [parse] -> table
Thread:  pure functions.
Source:  Java ConfigDef.parseType and convertToString (4.1), probed. Differs from Java: an int is accepted for a string
         setting whose words are numbers (acks=1), and a path for a string, because Python users write them so; NaN and
         infinity are refused; any integer type fits INT and LONG.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from math import isfinite
from operator import index

from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import SecretText, SecretValue, shown
from pyproducer.common.settings.definition import OneOf, Setting, Type

INTEGER_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}")  # int() itself refuses thousands of digits
_FLOAT_SUFFIX = re.compile(r"(?<=[0-9.])[fFdD]$")
_COMMA = re.compile(r"\s*,\s*")


def parse_value(setting: Setting, value: object) -> object:
    """Return the value of a setting in its type, within its bounds.

    Args:
        setting: The row.
        value: What the user gave: a string as in a properties file, or a Python value.

    Raises:
        ConfigError: It does not fit; the message names value, limit and what to do.
    """
    if isinstance(value, str):
        value = value.strip()
    if value is None:
        if not setting.is_nullable:
            raise ConfigError(setting.key, None, "None is not allowed here: leave the key out to get the default "
                                                 f"{_default(setting)!r}")
        return None
    parsed = _PARSERS[setting.type](setting, value)
    if setting.allowed is not None:
        refusal = setting.allowed.refusal(parsed)
        if refusal is not None:
            raise ConfigError(setting.key, setting.shown(value), f"{refusal}{_advice(setting)}")
        if isinstance(setting.allowed, OneOf):
            parsed = setting.allowed.normalized(parsed)
    return SecretText(parsed) if setting.is_secret else parsed


def value_text(value: object) -> str | None:
    """Return a value as Kafka writes it: booleans in small letters, lists with commas; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def split_list(text: str) -> tuple[str, ...]:
    """Split a string at commas as Java does: blanks around items go, the empty string has no items."""
    text = text.strip()
    return tuple(_COMMA.split(text)) if text else ()


def _parse_boolean(setting: Setting, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ConfigError(setting.key, value, "expected true or false (a bool, or one of these words)")


def _parse_integer(setting: Setting, value: object) -> int:
    bits = INTEGER_BITS[setting.type]
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            raise ConfigError(setting.key, value, f"not a whole number{_advice(setting)}")
        number = int(value)
    elif isinstance(value, bool):
        raise ConfigError(setting.key, value, f"expected a whole number, got a bool{_advice(setting)}")
    else:
        try:
            number = index(value)  # type: ignore[arg-type]  # whatever has no __index__ is refused below
        except TypeError:
            raise ConfigError(setting.key, value, f"expected a whole number, got a {type(value).__name__}"
                                                  f"{_advice(setting)}") from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ConfigError(setting.key, value, f"the value must fit {bits} bits: at most {(1 << bits - 1) - 1}")
    return number


def _parse_double(setting: Setting, value: object) -> float:
    if isinstance(value, str):
        value = "nan" if "_" in value else _FLOAT_SUFFIX.sub("", value)  # Python alone reads 1_000
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(setting.key, value, f"expected a number, got a {type(value).__name__}{_advice(setting)}")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number):
        raise ConfigError(setting.key, value, f"not a number{_advice(setting)}")
    return number


def _parse_string(setting: Setting, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(setting.allowed, OneOf) and isinstance(value, int) and not isinstance(value, bool) and (
            abs(value) < 1 << 63):
        return str(value)
    if isinstance(value, os.PathLike) and setting.type is Type.STRING:
        return os.fsdecode(value)
    given = value.value if isinstance(value, SecretValue) else value
    kind = type(given).__name__
    del given  # a traceback that shows the variables of its frames shows none with a secret in it
    raise ConfigError(setting.key, setting.shown(value), f"expected a string, got a {kind}{_advice(setting)}")


def _parse_list(setting: Setting, value: object) -> tuple[object, ...]:
    if isinstance(value, str):
        return split_list(value)
    if setting.holds_objects:
        if isinstance(value, (list, tuple)):
            return tuple(item.strip() if isinstance(item, str) else item for item in value)
        return (value,)
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray)):
        raise ConfigError(setting.key, value, f"expected a list of strings or a string with commas, got a "
                                              f"{type(value).__name__}")
    items = tuple(value)
    for item in items:
        if not isinstance(item, str):
            raise ConfigError(setting.key, value, f"every item must be a string, {shown(item)!r} is a "
                                                  f"{type(item).__name__}")
    return tuple(item.strip() for item in items)


def _parse_class(setting: Setting, value: object) -> object:
    if value == "":
        raise ConfigError(setting.key, value, "a name must not be empty: leave the key out to get the default")
    return value


_PARSERS: dict[Type, Callable[[Setting, object], object]] = {
    Type.BOOLEAN: _parse_boolean,
    Type.STRING: _parse_string,
    Type.PASSWORD: _parse_string,
    Type.SHORT: _parse_integer,
    Type.INT: _parse_integer,
    Type.LONG: _parse_integer,
    Type.DOUBLE: _parse_double,
    Type.LIST: _parse_list,
    Type.CLASS: _parse_class,
}


def _advice(setting: Setting) -> str:
    if setting.default is None or setting.default == ():
        return ""
    return f"; the default is {_default(setting)!r}"


def _default(setting: Setting) -> object:
    """Return the default as a user would give it."""
    return value_text(setting.default) if isinstance(setting.default, tuple) else setting.default
