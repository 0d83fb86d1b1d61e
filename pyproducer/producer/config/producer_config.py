"""ProducerConfig: the settings of one producer, checked and frozen.

Road:    [application's properties] -> [ProducerConfig] -> wiring
Thread:  immutable after construction; any thread.
Source:  Java ProducerConfig, AbstractConfig (4.1). Differs from Java: an unknown key is an error that names the nearest
         known one; serializers are optional; bootstrap.servers is parsed here and no name is resolved.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.properties import read_properties
from pyproducer.producer.config.addresses import parse_bootstrap_servers
from pyproducer.producer.config.cross_checks import cross_check
from pyproducer.producer.config.key_stores import check_security_files
from pyproducer.producer.config.table import CONFIG_TABLE

log = logging.getLogger(__name__)


class ProducerConfig(Mapping[str, Any]):
    """A value for each of Java's settings: `config["linger.ms"]`, or `config.linger_ms`.

    Lists are tuples; `bootstrap.servers` is a tuple of pairs (host, port); `acks` is "-1", "0" or "1"; `client.id` is
    never empty; classes are what the user gave, to be resolved by whoever uses them.

    Args:
        props: Java's keys with their dots; strings are parsed as Java does.

    Raises:
        ConfigError: A key is unknown, a value is wrong, or two settings contradict each other.
    """

    originals: Mapping[str, object]
    _values: dict[str, Any]

    def __init__(self, props: Mapping[str, object]) -> None:
        originals = dict(props)
        values, explicit, without_effect = CONFIG_TABLE.read(originals)
        if "bootstrap.servers" not in originals:
            raise ConfigError("bootstrap.servers", None, "it is required: name at least one broker, as 'host:port'")
        values["bootstrap.servers"] = parse_bootstrap_servers(values["bootstrap.servers"])
        cross_check(values, explicit)
        check_security_files(values, explicit)
        if without_effect:
            log.warning("These settings have no effect on a producer in Python: %s", ", ".join(sorted(without_effect)))
        self.__dict__.update(originals=originals, _values=values, _explicit=explicit)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], /, **overrides: object) -> ProducerConfig:
        """Read a Java .properties file.

        Args:
            path: The file.
            overrides: Settings that win over the file's; underscores stand for dots.

        Raises:
            ConfigError: See the class.
            OSError: The file cannot be read.
        """
        props: dict[str, object] = {**read_properties(path)}
        props.update({key.replace("_", "."): value for key, value in overrides.items()})
        return cls(props)

    @property
    def required_acks(self) -> int:
        """`acks` as the number on the wire: -1, 0 or 1."""
        return int(self._values["acks"])

    def is_default(self, key: str) -> bool:
        """Whether the user gave no value for a key.

        Raises:
            KeyError: There is no such setting.
        """
        if key not in CONFIG_TABLE:
            raise KeyError(key)
        return key not in self.__dict__["_explicit"]

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        key = CONFIG_TABLE.key_of_attribute.get(name)
        if key is None:
            raise AttributeError(f"ProducerConfig has no setting {name!r}")
        return self.__dict__["_values"][key]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"ProducerConfig is frozen: give {name!r} when making it")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"ProducerConfig is frozen: {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerConfig):
            return NotImplemented
        return self._values == other._values

    __hash__ = None  # type: ignore[assignment]  # values may be unhashable, as a dict's

    def __repr__(self) -> str:
        """Show what the user set; secrets are hidden."""
        explicit = sorted(self.__dict__["_explicit"])
        shown = ", ".join(f"{key!r}: {CONFIG_TABLE[key].shown(self._values[key])!r}" for key in explicit)
        return f"ProducerConfig({{{shown}}})"
