"""What a row of a table of settings is: type, default, allowed values, other names, how Python treats it, doc.

Road:    [definition] -> table -> ProducerConfig, BrokerConfig
Thread:  immutable values.
Source:  Java ConfigDef (4.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Protocol

from pyproducer.common.secrets import HIDDEN, shown


class Type(Enum):
    """Java's types of settings; `value` is Java's name."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    SHORT = "SHORT"
    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Support(Enum):
    """How a program in Python treats a setting."""

    DIRECT = "direct"
    """Means here what it means in Java; where Java names a class, a store or a cipher, it may take another form."""
    JVM_ONLY = "jvm"
    """Only a JVM can use it: accepted, warned of, without effect."""
    VALIDATOR_ONLY = "validator"
    """Only a broker that checks tokens uses it: accepted, warned of, without effect."""
    INERT = "inert"
    """Nothing here could act on it: accepted, kept and shown, warned of, without effect."""
    NOT_YET = "not yet"
    """Nothing reads it in this version: accepted, kept and shown, warned of, without effect."""
    OURS = "ours"
    """Kafka has no such setting; those of the producer begin with `pyproducer.`."""


class Allowed(Protocol):
    """A rule for values; None is never given to it."""

    def refusal(self, value: object) -> str | None:
        """Return why a value is not allowed, with the limit; None when it is."""


class Range(NamedTuple):
    """A number within bounds, both included; `also` lists values outside that mean something special."""

    low: float | None = None
    high: float | None = None
    also: tuple[int, ...] = ()

    def refusal(self, value: object) -> str | None:
        """Compare with the bounds."""
        assert isinstance(value, (int, float))
        if value in self.also:
            return None
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            return f"the value must be {self}"
        return None

    def __str__(self) -> str:
        if self.high is None:
            text = f"at least {self.low}"
        elif self.low is None:
            text = f"at most {self.high}"
        else:
            text = f"between {self.low} and {self.high}"
        return text + "".join(f", or {value}" for value in self.also)


class OneOf(NamedTuple):
    """One of some words. `is_case_insensitive`: any case is accepted and turned into the listed one."""

    words: tuple[str, ...]
    is_case_insensitive: bool = False

    def refusal(self, value: object) -> str | None:
        """Look the word up."""
        if self.normalized(value) in self.words:
            return None
        return f"the value must be one of {', '.join(self.words)}"

    def normalized(self, value: object) -> object:
        """Return the listed spelling of a word."""
        assert isinstance(value, str)
        if self.is_case_insensitive:
            for word in self.words:
                if word.lower() == value.lower():
                    return word
        return value


class NonEmpty:
    """A string that is not empty."""

    def refusal(self, value: object) -> str | None:
        """Refuse the empty string."""
        return None if value else "the value must not be empty: leave the key out to have none"


class EachOneOf(NamedTuple):
    """A list whose every item is one of some words."""

    words: tuple[str, ...]

    def refusal(self, value: object) -> str | None:
        """Look each item up."""
        assert isinstance(value, Iterable)
        if all(item in self.words for item in value):
            return None
        return f"every item must be one of {', '.join(self.words)}"


class EachMatches(NamedTuple):
    """A list whose every item matches a regular expression as a whole; `form` says to people what it must be."""

    pattern: str
    form: str

    def refusal(self, value: object) -> str | None:
        """Match each item."""
        assert isinstance(value, Iterable)
        if all(re.fullmatch(self.pattern, str(item), re.ASCII) for item in value):
            return None
        return f"every item must be {self.form}"


class Synonym(NamedTuple):
    """Another key of a setting. Its whole number times `factor` is the setting's; one below 0 stays what it is."""

    key: str
    factor: int = 1


class Setting(NamedTuple):
    """One row: everything that is said about one setting is said here.

    Args:
        key: Java's name, with its dots.
        type: Java's type.
        default: The value when the key is not given; None is Java's null.
        doc: What it does, in a sentence.
        allowed: The rule for values beyond the type, or None.
        support: How Python treats it.
        synonyms: Deprecated names and coarser units, the preferred one first; `key` itself stands above them.
        holds_objects: Items of the list may be Python objects, and one may come without a list around it.
        since: The release of Kafka that brought it, where that is newer than the table's.
    """

    key: str
    type: Type
    default: object
    doc: str
    allowed: Allowed | None = None
    support: Support = Support.DIRECT
    synonyms: tuple[Synonym, ...] = ()
    holds_objects: bool = False
    since: str = ""

    @property
    def attribute(self) -> str:
        """The key with underscores in place of dots."""
        return self.key.replace(".", "_")

    @property
    def is_secret(self) -> bool:
        """Whether the value must not be shown."""
        return self.type is Type.PASSWORD

    @property
    def has_effect(self) -> bool:
        """Whether anything changes with the value."""
        return self.support not in (Support.JVM_ONLY, Support.VALIDATOR_ONLY, Support.INERT, Support.NOT_YET)

    @property
    def is_nullable(self) -> bool:
        """Whether None may be given: as in Java, not for numbers and lists that have a default."""
        if self.default is None:
            return True
        return self.type in (Type.STRING, Type.CLASS) and self.allowed is None

    def shown(self, value: object) -> object:
        """Return the value as it may be shown in messages and logs."""
        return HIDDEN if self.is_secret and value is not None else shown(value)
