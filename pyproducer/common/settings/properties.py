"""Reads Java's .properties files.

Road:    file -> [properties] -> ProducerConfig, BrokerConfig
Thread:  reads a file; no state.
Source:  Java Properties.load, by the javaproperties package.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from pyproducer.common.errors import ConfigError

_NEWLINE = re.compile(r"\r\n?|\n")


class PropertyLine(NamedTuple):
    """A value of a properties file, and the line, from 1, on which its key stands."""

    value: str
    line: int


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    r"""Return the keys and values of a Java properties file, escapes and continued lines resolved.

    UTF-8 is understood as well as \uXXXX escapes; a key that stands twice has its last value, as in Java.

    Raises:
        ConfigError: The file is not text in Java's format.
        OSError: The file cannot be read.
    """
    return {key: found.value for key, found in read_property_lines(path).items()}


def read_property_lines(path: str | os.PathLike[str]) -> dict[str, PropertyLine]:
    """Return the same with the line of each key.

    Raises:
        ConfigError: The file is not text in Java's format. What it holds is not repeated: it may be secret.
        OSError: The file cannot be read.
    """
    text = _read_text(path)
    found = _other_format(text) or _parse(text)
    del text  # it may hold secrets, and a traceback shows variables
    if isinstance(found, str):
        raise ConfigError("properties file", str(path), f"cannot be read as Java properties: {found}")
    return found


# How files begin that are something else, and what they are. Java reads them all the same, into keys that nobody knows.
_OTHER_FORMATS = (("{", "JSON"), ("[", "an INI file, or TOML"), ("<", "XML or HTML"), ("---", "YAML"))


def _other_format(text: str) -> str:
    """Return what is wrong with a text that is no properties file at all; "" where it may be one."""
    for number, line in enumerate(text.splitlines(), 1):
        begin = line.strip()
        if begin and not begin.startswith(("#", "!")):
            kind = next((kind for mark, kind in _OTHER_FORMATS if begin.startswith(mark)), None)
            return "" if kind is None else (f"line {number}: this is {kind}, and no .properties file, whose lines are "
                                            "KEY=VALUE")
    return ""


def _parse(text: str) -> dict[str, PropertyLine] | str:
    """Return what a text holds, or what is wrong with it: no error may come from here, where a traceback shows it."""
    import javaproperties  # here: it loads http.client and xml, a fifth of what importing pyproducer takes

    found: dict[str, PropertyLine] = {}
    line = 1
    try:
        for part in javaproperties.parse(text):
            if isinstance(part, javaproperties.KeyValue):
                found[part.key] = PropertyLine(part.value, line)
            line += len(_NEWLINE.findall(part.source))
    except ValueError:  # javaproperties.InvalidUEscapeError, whose text repeats a piece of the value
        return f"line {line}: a \\u that four hexadecimal digits do not follow"
    return found


def _read_text(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        raw = file.read()
    try:
        # Differs from Java: Properties.load(InputStream) reads ISO-8859-1; who writes UTF-8 means UTF-8.
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("iso-8859-1")
