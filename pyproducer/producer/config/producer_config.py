"""ProducerConfig: the settings of one producer, checked and frozen.

Road:    [application's properties] -> [ProducerConfig] -> wiring
Thread:  immutable after construction; any thread.
Source:  Java ProducerConfig, AbstractConfig (4.1). Differs from Java: an unknown key is an error that names the nearest
         known one; serializers are optional; bootstrap.servers is parsed here and no name is resolved.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from pyproducer.common.class_names import import_object, is_class_of_java, is_left_out
from pyproducer.common.cluster import address_text
from pyproducer.common.errors import ConfigError
from pyproducer.common.public import public
from pyproducer.common.secrets import HIDDEN, SecretText
from pyproducer.common.settings.config_providers import PREFIX as PROVIDER_PREFIX
from pyproducer.common.settings.config_providers import Resolved, resolve_variables
from pyproducer.common.settings.parse import value_text
from pyproducer.common.settings.properties import read_property_lines
from pyproducer.producer.config.addresses import parse_bootstrap_servers
from pyproducer.producer.config.cross_checks import cross_check
from pyproducer.producer.config.other_names import laid_over, translated
from pyproducer.producer.config.security import check_security
from pyproducer.producer.config.table import CONFIG_TABLE

log: logging.Logger = logging.getLogger(__name__)

_CLASSES = ("interceptor.classes", "partitioner.class", "key.serializer", "value.serializer", "metric.reporters")
_LOGINS = ("pyproducer.oauth.token.provider", "sasl.login.callback.handler.class",
           "sasl.oauthbearer.jwt.retriever.class")
_SHORTEST_SECRET = 3  # shorter answers of providers are parts of ordinary words


class Origin(NamedTuple):
    """Where the value of a setting comes from.

    Attributes:
        kind: "default", "given", "provider" (config.providers resolved a variable), or "derived" from other settings.
        shown: The value as it may be shown.
        detail: Which providers.
    """

    kind: str
    shown: object
    detail: str = ""


@public
class ProducerConfig(Mapping[str, Any]):
    """A value for each of Java's settings: `config["linger.ms"]`, or `config.linger_ms`.

    Lists are tuples; `bootstrap.servers` is a tuple of pairs (host, port); `acks` is "-1", "0" or "1"; `client.id` is
    never empty; classes are what the user gave, to be resolved by whoever uses them.

    Args:
        props: Java's keys with their dots; strings are parsed as Java does, and variables in them are resolved where
            config.providers says how.
        configurable: Classes of the user that are not among the settings.
        reads_files: Whether files that settings name are looked at; not where the producer is made on another machine.
        load: Returns what a name of the user's own stands for, given the setting and the name; another than the default
            is not asked for what might get keys that nobody knows.

    Attributes:
        originals: What was given, with variables resolved.
        explicit: The settings that were given, also by another name of theirs.
        without_effect: Keys that were given and that a producer in Python has no use for.
        strangers: Keys that nobody knows and that classes of the user get to see.

    Raises:
        ConfigError: A key is unknown, a value is wrong, or two settings contradict each other.

    A key that nobody knows is taken only if nothing known is near it and a class of the user (interceptor, partitioner,
    serializer, reporter, source of tokens) has `configure`, which gets it. Settings with secrets cannot be pickled.
    """

    originals: Mapping[str, object]
    explicit: frozenset[str]
    without_effect: frozenset[str]
    strangers: tuple[str, ...]
    _given_as: Mapping[str, tuple[str, ...]]
    _written: Mapping[str, str]
    _providers: Mapping[str, tuple[str, ...]]
    _values: dict[str, Any]

    def __init__(self, props: Mapping[str, object], *, configurable: Iterable[object] = (),
                 reads_files: bool = True, load: Callable[[str, str], object] = import_object) -> None:
        props = CONFIG_TABLE.guarded(props)  # what the frames below and this one hold shows no secret
        resolved = resolve_variables(props, load)
        refusal = self._read(resolved, configurable, reads_files, loads=load is import_object)
        if refusal is not None:
            raise refusal
        self.__dict__.update(_written=resolved.written, _providers=resolved.providers)

    def _read(self, resolved: Resolved, configurable: Iterable[object], reads_files: bool, *,
              loads: bool) -> ConfigError | None:
        """Take the values in, or return why not: the traceback of that would lead to what providers answered."""
        originals = resolved.props
        strangers: list[str] = []
        refusals: list[ConfigError] = []
        java = translated({key: value for key, value in originals.items()
                           if not (isinstance(key, str) and key.startswith(PROVIDER_PREFIX))})
        refusals += java.refusals
        given = CONFIG_TABLE.read_all(java.props, strangers, refusals)
        values = given.values
        for check in (lambda: self._check_strangers(strangers, originals, values, configurable, loads=loads),
                      lambda: self._take_servers(java.props, values)):
            refusals += ConfigError.raised_by(check)
        is_whole = not refusals
        for check in (lambda: cross_check(values, given.explicit), lambda: check_security(values, given.explicit),
                      lambda: self._check_files(values, given.explicit, reads_files=reads_files)):
            # Where settings are wrong, others may only seem to be, for they are compared with defaults.
            refusals += [refusal for refusal in ConfigError.raised_by(check)
                         if is_whole or not any(_are_related(refusal.key, known.key) for known in refusals)]
        if refusals:
            return ConfigError.of_all([without_answers(java.in_their_words(refusal), resolved.props, resolved.written)
                                       for refusal in refusals])
        line = java.line()
        if line:
            log.info("%s", line)
        if given.without_effect:
            log.warning("These settings have no effect on a producer in Python: %s",
                        ", ".join(sorted(given.without_effect)))
        if strangers:
            log.warning("No setting is called %s: only classes of your own with configure() get to see it",
                        ", ".join(sorted(strangers)))
        self.__dict__.update(originals=CONFIG_TABLE.unguarded(originals), _values=values, explicit=given.explicit,
                             _given_as=java.given_as,
                             without_effect=given.without_effect, strangers=tuple(strangers))
        return None

    @staticmethod
    def _check_strangers(strangers: list[str], originals: Mapping[str, object], values: dict[str, Any],
                         configurable: Iterable[object], *, loads: bool) -> None:
        if not strangers:
            return
        logins = [values[key] for key in _LOGINS
                  if not (isinstance(values[key], str) and is_class_of_java(values[key]))]
        if loads:
            takes = any(map(is_configurable, (*configurable, *classes_of(values), *logins)))
        else:
            takes = any(isinstance(value, str) and is_named_by_user(value) for value in (*classes_of(values), *logins))
        if not takes:
            raise ConfigError.of_all([CONFIG_TABLE.unknown_key_error(key, originals[key]) for key in strangers])

    @staticmethod
    def _take_servers(originals: Mapping[str, object], values: dict[str, Any]) -> None:
        if "bootstrap.servers" not in originals:
            raise ConfigError("bootstrap.servers", None, "it is required: name at least one broker, as 'host:port'")
        values["bootstrap.servers"] = parse_bootstrap_servers(values["bootstrap.servers"], values["security.protocol"])

    @staticmethod
    def _check_files(values: dict[str, Any], explicit: frozenset[str], *, reads_files: bool) -> None:
        if values["security.protocol"] != "PLAINTEXT":
            from pyproducer.producer.config.key_stores import check_security_files  # here: it loads ssl

            check_security_files(values, explicit, reads_files=reads_files)

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
        props, place_of = file_props(path, overrides)
        del overrides  # an error below leads here, and shows variables
        try:
            return cls(props)
        except ConfigError as error:
            refusal = error.in_place(place_of)
        raise refusal from refusal.__cause__

    @property
    def required_acks(self) -> int:
        """`acks` as the number on the wire: -1, 0 or 1."""
        return int(self._values["acks"])

    @property
    def for_classes(self) -> dict[str, object]:
        """What classes of the application are configured with: what was given, and client.id though nobody gave one."""
        return {**self.originals, "client.id": self.client_id}

    def is_default(self, key: str) -> bool:
        """Whether the user gave no value for a key.

        Raises:
            KeyError: There is no such setting.
        """
        if key not in CONFIG_TABLE:
            raise KeyError(key)
        return key not in self.explicit

    def origin(self, key: str) -> Origin:
        """Return where the value of a setting comes from, and how it may be shown.

        Raises:
            KeyError: There is no such setting.
        """
        row, value = CONFIG_TABLE[key], self._values[key]
        if key in self.explicit:
            name = next((name for name in self.names_of(key) if name in self._providers), None)
            if name is not None:
                return Origin("provider", row.shown(SecretText()) if row.is_secret else self._written[name],
                              ", ".join(self._providers[name]))
            return Origin("given", row.shown(value))
        if key == "acks":
            value = row.default  # kept as the number on the wire
        if key == "client.id" and "transactional.id" in self._providers:
            value = SecretText(value)  # made of what a provider answered
        return Origin("default" if value == row.default else "derived", row.shown(value))

    def shown(self) -> dict[str, str | None]:
        """Return every setting as text of a properties file; secrets are hidden, and what a provider answered."""
        found: dict[str, str | None] = {}
        for key in self:
            value = self.origin(key).shown
            if key == "bootstrap.servers" and self.origin(key).kind == "given":
                value = ",".join(address_text(*address) for address in self[key])
            found[key] = value_text(value)
        return found

    def names_of(self, key: str) -> tuple[str, ...]:
        """Return the names by which a setting was given, librdkafka's among them; none where others brought it."""
        own = next((name for name in (key, *(synonym.key for synonym in CONFIG_TABLE[key].synonyms))
                    if name in self.originals), None)
        theirs = tuple(name for name in self._given_as.get(key, ()) if name in self.originals)
        return theirs or (() if own is None else (own,))

    @contextmanager
    def hiding_answers(self) -> Iterator[None]:
        """Take what providers answered out of a ConfigError that is raised in the block, as of the settings' own."""
        try:
            yield
        except ConfigError as refusal:
            clean = ConfigError.of_all([without_answers(one, self.originals, self._written)
                                        for one in (refusal, *refusal.others)]).without_frames()
        else:
            return
        raise clean from clean.__cause__

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
        """Show what the user set; secrets are hidden, and what a provider answered, too. Before it is made: nothing."""
        shown = ", ".join(f"{key!r}: {self.origin(key).shown!r}" for key in sorted(self.__dict__.get("explicit", ())))
        return f"ProducerConfig({{{shown}}})"


def _are_related(key: str, other: str) -> bool:
    return key.partition(".")[0] == other.partition(".")[0]


class FileProps(NamedTuple):
    """The settings of a .properties file, with others above them.

    Attributes:
        props: The settings.
        place_of: Returns where a key stands: the file and the line, or the argument; "" where it was not given.
    """

    props: dict[str, object]
    place_of: Callable[[str], str]


def file_props(path: str | os.PathLike[str], overrides: Mapping[str, object]) -> FileProps:
    """Return the settings of a .properties file with others above them, whose underscores stand for dots.

    Raises:
        ConfigError: The file is not text in Java's format.
        OSError: The file cannot be read.
    """
    lines = read_property_lines(path)
    places = {key: f"{os.fsdecode(path)}, line {found.line}" for key, found in lines.items()}
    above: dict[str, object] = {}
    for name, value in overrides.items():
        key = name.replace("_", ".")
        above.update(CONFIG_TABLE.guarded({key: value}))
        places[key] = f"argument {name}"
    props = laid_over(CONFIG_TABLE.guarded({key: found.value for key, found in lines.items()}), above)
    return FileProps(props, lambda key: places.get(key, ""))


def classes_of(values: Mapping[str, Any]) -> Iterator[object]:
    """Yield what settings name that may be a class of the user."""
    for key in _CLASSES:
        value = values[key]
        yield from value if isinstance(value, tuple) else (value,)


def is_configurable(value: object) -> bool:
    """Whether a class of the user, a name of one or an instance has `configure`.

    Raises:
        ConfigError: There is nothing by that name.
    """
    if isinstance(value, str):
        if not is_named_by_user(value):
            return False
        value = import_object("interceptor.classes", value)
    return callable(getattr(value, "configure", None))


def is_named_by_user(name: str) -> bool:
    """Whether a name is of a class of the user, and none of ours or of Java's."""
    return ":" in name or ("." in name and not name.startswith("org.apache.kafka.") and not is_left_out(name))


def without_answers(refusal: ConfigError, props: Mapping[str, object], written: Mapping[str, str]) -> ConfigError:
    """Return an error without what providers answered in it, and without a traceback that leads there.

    Args:
        refusal: The error.
        props: The settings, with variables resolved.
        written: Those that had a variable, as they were given.
    """
    if not written:
        return refusal
    why = refusal.why
    for key in written:
        answer = str(props[key])
        for text in (answer, answer.strip(), *answer.split(",")):
            if len(text) >= _SHORTEST_SECRET:
                why = why.replace(text, HIDDEN)
    clean = ConfigError(refusal.key, written.get(refusal.key, refusal.value), why)
    clean.__cause__ = None
    return clean
