"""A table of settings: the rows by key, and how what was given is read by them.

Road:    rows -> [table] -> ProducerConfig, BrokerConfig, topic config
Thread:  immutable.
Source:  Java ConfigDef, AbstractConfig (4.1). Differs from Java, which only warns: a key that nobody knows is an error
         that names the nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import SecretText, SecretValue, shown
from pyproducer.common.settings.config_providers import PREFIX as PROVIDERS
from pyproducer.common.settings.definition import Setting, Synonym, Type
from pyproducer.common.settings.parse import parse_value
from pyproducer.common.settings.unknown_keys import answer_for, nearest_key, sounds_secret, unknown_key_error

_MISTYPED = 0.8  # of difflib's ratio: "linger.mss" is nearer, and "metrics.port", which shares a word, is not


class OtherKeys(NamedTuple):
    """Keys that are not in a table and that people bring all the same.

    Attributes:
        ignored: They are Kafka's and mean nothing here: taken, warned of, without effect.
        ignored_prefixes: The same for whole families.
        meant: What other programs call a setting of the table: an error that names the table's key.
        answers: What else to say to a name of another program, where its value cannot be taken as it is.
        read_elsewhere: They are of classes that are here, which read them as they were given.
    """

    ignored: frozenset[str] = frozenset()
    ignored_prefixes: tuple[str, ...] = ()
    meant: Mapping[str, str] | None = None
    answers: Mapping[str, str] | None = None
    read_elsewhere: frozenset[str] = frozenset()


NO_OTHER_KEYS = OtherKeys()


class Given(NamedTuple):
    """What was given, read by a table.

    Attributes:
        values: A value for every key of the table.
        explicit: The keys of the table that were given a value, also by a synonym.
        without_effect: The keys that were given and change nothing, as they were given.
    """

    values: dict[str, Any]
    explicit: frozenset[str]
    without_effect: frozenset[str]


def _unguarded(value: object) -> object:
    if type(value) is list or type(value) is tuple:
        return type(value)(_unguarded(item) for item in value)
    return value.value if isinstance(value, SecretValue) else value


class SettingTable(Mapping[str, Setting]):
    """Settings by key, in the order of their rows.

    Args:
        rows: Each a setting of its own.
        other_keys: What else may be given.
        unknown: What the error says of a key that nobody knows; `{key}` stands for it.

    Raises:
        RuntimeError: Two rows have one key, or one's synonym; a bug, which fails the import.
    """

    def __init__(self, rows: Iterable[Setting], other_keys: OtherKeys = NO_OTHER_KEYS, *,
                 unknown: str = "unknown setting") -> None:
        self._rows: dict[str, Setting] = {}
        self._synonyms: dict[str, tuple[Setting, Synonym]] = {}
        self._other_keys = other_keys
        self._unknown = unknown
        for row in rows:
            self._ensure_new(row.key)
            self._rows[row.key] = row
            for synonym in row.synonyms:
                self._ensure_new(synonym.key)
                self._synonyms[synonym.key] = row, synonym
        self.key_of_attribute: dict[str, str] = {row.attribute: key for key, row in self._rows.items()}

    def __getitem__(self, key: str) -> Setting:
        return self._rows[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def guarded(self, props: Mapping[str, object]) -> dict[str, object]:
        """Return a copy in which secrets are SecretText, or SecretValue: no traceback with variables shows these."""
        return {key: self._guarded(key, value) for key, value in dict(props).items()}

    def unguarded(self, props: Mapping[str, object]) -> dict[str, object]:
        """Return a copy for the application's own classes: with its objects again, texts as they are in `guarded`."""
        return {key: _unguarded(value) for key, value in props.items()}

    def read(self, props: Mapping[str, object], strangers: list[str] | None = None) -> Given:
        """Parse what was given; a setting that was not has its default.

        Args:
            props: Keys, or their synonyms, and values: strings as in a properties file, or Python values.
            strangers: Takes the keys that nobody knows and that are near none; without it they are refused.

        Raises:
            ConfigError: A key is unknown (the nearest is named), or a value is wrong (the limit is named); it tells of
                all that are.
        """
        refusals: list[ConfigError] = []
        given = self.read_all(props, strangers, refusals)
        if refusals:
            raise ConfigError.of_all(refusals)
        return given

    def read_all(self, props: Mapping[str, object], strangers: list[str] | None,
                 refusals: list[ConfigError]) -> Given:
        """Do as `read`, but put what is wrong into `refusals`; such a setting has its default."""
        values: dict[str, Any] = {key: row.default for key, row in self._rows.items()}
        explicit: set[str] = set()
        without_effect: set[str] = set()
        for key, value in props.items():
            row = self._rows.get(key)
            if row is None:
                if key not in self._synonyms:
                    if key in self._other_keys.read_elsewhere:
                        continue
                    if not self.is_ignored(key):
                        if strangers is None or not isinstance(key, str) or not self.is_stranger(key):
                            refusals.append(self.unknown_key_error(key, value))
                        else:
                            strangers.append(key)
                        continue
                    without_effect.add(key)
                    continue
                row, _ = self._synonyms[key]
            try:
                parsed = self._parse_synonym(key, value) if key in self._synonyms else parse_value(row, value)
            except ConfigError as refusal:
                refusals.append(refusal)
                continue
            if key in self._synonyms and any(better in props for better in self._above(key)):
                continue
            values[row.key] = parsed
            if parsed is None and row.default is None:
                continue
            explicit.add(row.key)
            if not row.has_effect:
                without_effect.add(key)
        return Given(values, frozenset(explicit), frozenset(without_effect))

    def is_ignored(self, key: object) -> bool:
        """Whether a key that has no row is known and means nothing here."""
        return isinstance(key, str) and (
            key in self._other_keys.ignored or key.startswith(self._other_keys.ignored_prefixes))

    def nearest(self, key: str) -> str | None:
        """Return the key of the table that was probably meant, or None when no key is near."""
        return nearest_key(key, self._rows, self._other_keys.meant or {})

    def is_stranger(self, key: str) -> bool:
        """Whether a key is neither known nor very near one that is, under any name: it may be somebody's own."""
        return (nearest_key(key, self._rows, self._other_keys.meant or {}, _MISTYPED) is None
                and not answer_for(key, self._other_keys.answers or {}))

    def unknown_key_error(self, key: object, value: object) -> ConfigError:
        """Return the error for a key that nobody knows; the value is hidden where it may be a secret."""
        return unknown_key_error(key, value, self._rows, self._other_keys.meant or {}, self._unknown,
                                 self._other_keys.answers or {})

    def _guarded(self, key: object, value: object) -> object:
        if isinstance(value, str):
            return SecretText(value) if self._is_secret(key, value) else value
        if type(value) is list or type(value) is tuple:
            return type(value)(self._guarded(key, item) for item in value)
        return SecretValue(value) if self._holds_secret(key, value) else value

    def _holds_secret(self, key: object, value: object) -> bool:
        """Whether something that is no text is under the key of a secret, or one that probably was to be such."""
        if value is None or isinstance(value, (bool, SecretValue)):
            return False
        if not isinstance(key, str):
            return sounds_secret(repr(key))
        row = self._rows.get(key)
        if row is None and key not in self._synonyms and not key.startswith(PROVIDERS):
            meant = self.nearest(key)
            return sounds_secret(key) or (meant is not None and self._rows[meant].is_secret)
        return row is not None and row.is_secret

    def _is_secret(self, key: object, value: str) -> bool:
        if isinstance(key, str) and key in self._rows:
            return self._rows[key].is_secret or shown(value) != value
        return sounds_secret(key if isinstance(key, str) else repr(key)) or shown(value) != value

    def _parse_synonym(self, key: str, value: object) -> object:
        row, synonym = self._synonyms[key]
        if synonym.factor == 1:
            return parse_value(row._replace(key=key), value)
        number = parse_value(Setting(key, Type.INT, None, ""), value)
        if isinstance(number, int) and number > 0:
            number *= synonym.factor
        return parse_value(row._replace(key=key), number)

    def _above(self, key: str) -> list[str]:
        """Return the names of a synonym's setting that count before it."""
        row, _ = self._synonyms[key]
        names = [row.key, *(synonym.key for synonym in row.synonyms)]
        return names[:names.index(key)]

    def _ensure_new(self, key: str) -> None:
        if key in self._rows or key in self._synonyms:
            raise RuntimeError(f"two rows for the setting {key}")
