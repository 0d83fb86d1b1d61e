"""Variables in the values of settings: ${env:NAME}, ${file:path:key}, ${dir:path:file}.

    config.providers=env,file
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/kafka
    sasl.jaas.config=... username="ada" password="${env:KAFKA_PASSWORD}";

The word before the first colon is a name that config.providers gives; only those it names are asked. What they answer
is taken to be secret, whatever setting it is for.

Road:    properties -> [config providers] -> ProducerConfig
Thread:  reads files and the environment; no state.
Source:  Java ConfigTransformer, AbstractConfig.resolveConfigVariables, EnvVarConfigProvider, FileConfigProvider,
         DirectoryConfigProvider, AllowedPaths (4.1); KIP-297, KIP-421, KIP-887, KIP-993. Differs from Java: a variable
         that has no value, or may not be read, is an error, where Java leaves its text in place; the line end at the
         end of a directory's file is not part of its value.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import SecretText
from pyproducer.common.settings.parse import split_list
from pyproducer.common.settings.properties import read_properties

if TYPE_CHECKING:
    from pathlib import Path

log: logging.Logger = logging.getLogger(__name__)

KEY = "config.providers"
PREFIX = f"{KEY}."
_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."
_VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_USUAL_NAMES = ("env", "file", "dir", "directory", "secrets")


class ConfigProvider(Protocol):
    """What answers variables.

    One of the user's own may have `configure(params)`, which gets its `param.` settings, and `close()`.
    """

    def get(self, path: str, keys: AbstractSet[str]) -> Mapping[str, str]:
        """Return the values of those keys that there are.

        Args:
            path: What stands between the first and the last colon; empty where there is none.
            keys: What stands behind the last colon.
        """


class Resolved(NamedTuple):
    """Properties with their variables replaced.

    Attributes:
        props: All of them. A value that had a variable is a SecretText.
        written: Those values as they were given, by key.
        providers: The names of the providers that answered for a key.
    """

    props: dict[str, object]
    written: dict[str, str]
    providers: dict[str, tuple[str, ...]]


class EnvVarConfigProvider:
    """Environment variables; `allowlist.pattern` says which may be read."""

    def __init__(self) -> None:
        self._allowed = re.compile(".*", re.DOTALL)

    def configure(self, params: Mapping[str, str]) -> None:
        """Take `allowlist.pattern`, a regular expression for the whole name."""
        pattern = params.get("allowlist.pattern", ".*")
        try:
            self._allowed = re.compile(pattern)
        except re.error as cause:
            raise ValueError(f"allowlist.pattern is no regular expression: {cause}") from None

    def get(self, path: str, keys: AbstractSet[str]) -> Mapping[str, str]:
        """Return variables of the environment."""
        if path:
            raise ValueError("an environment variable has no path: write ${env:NAME}")
        for key in keys:
            if not self._allowed.fullmatch(key):
                raise ValueError(f"its allowlist.pattern does not match {key}")
        return {key: os.environ[key] for key in keys if key in os.environ}


class _OfPaths:
    """A provider that reads files; `allowed.paths` says below which folders."""

    def __init__(self) -> None:
        self._allowed: tuple[Path, ...] | None = None

    def configure(self, params: Mapping[str, str]) -> None:
        """Take `allowed.paths`, absolute paths with commas between them."""
        from pathlib import Path  # here: it takes milliseconds, and only who names such a provider needs it

        paths = split_list(params.get("allowed.paths", ""))
        for path in paths:
            if not os.path.isabs(path):
                raise ValueError(f"allowed.paths: {path} is not absolute")
            if not os.path.exists(path):
                raise ValueError(f"allowed.paths: {path} does not exist")
        self._allowed = tuple(Path(os.path.normpath(path)) for path in paths) or None

    def _checked(self, path: str) -> Path:
        from pathlib import Path  # here, as above

        if not path:
            raise ValueError("the path is missing: write ${name:path:key}")
        # Without this, allowed/../other would be below allowed.
        normal = Path(os.path.normpath(path))
        if self._allowed is not None and not any(normal.is_relative_to(allowed) for allowed in self._allowed):
            raise ValueError(f"{path} is not below its allowed.paths")
        return normal


class FileConfigProvider(_OfPaths):
    """Keys of Java properties files."""

    def get(self, path: str, keys: AbstractSet[str]) -> Mapping[str, str]:
        """Return values of a file."""
        values = read_properties(self._checked(path))
        return {key: values[key] for key in keys if key in values}


class DirectoryConfigProvider(_OfPaths):
    """Files of a folder, as Kubernetes mounts secrets: a key is a file's name, its value the text in it."""

    def get(self, path: str, keys: AbstractSet[str]) -> Mapping[str, str]:
        """Return the texts of files, without the line end at their end."""
        folder = self._checked(path)
        there = set(os.listdir(folder))  # a key with a slash in it is none of these
        return {key: _without_line_end((folder / key).read_text("utf-8"))
                for key in keys if key in there and (folder / key).is_file()}


_OURS: dict[str, Callable[[], ConfigProvider]] = {
    "EnvVarConfigProvider": EnvVarConfigProvider,
    "FileConfigProvider": FileConfigProvider,
    "DirectoryConfigProvider": DirectoryConfigProvider,
}


def resolve_variables(props: Mapping[str, object], load: Callable[[str, str], object]) -> Resolved:
    """Replace the variables in values that are strings.

    Args:
        props: Settings with config.providers among them; where that is not given, nothing is replaced.
        load: Returns what a name of the user's own stands for, given the setting and the name.

    Raises:
        ConfigError: A provider cannot be made, or a variable has no value. No answer of a provider is in it.
    """
    names = _names(props.get(KEY))
    written = {key: value for key, value in props.items()
               if isinstance(key, str) and isinstance(value, str) and not key.startswith(PREFIX)
               and any(match[1] in names for match in _VARIABLE.finditer(value))}
    _warn_of_unresolved(props, names)
    resolved = dict(props)
    if names:
        providers = {name: _make(name, props, load) for name in names}
        try:
            for key, text in written.items():
                resolved[key] = _replaced(key, text, providers)
        finally:
            for provider in providers.values():
                getattr(provider, "close", lambda: None)()
    used = {key: tuple(dict.fromkeys(match[1] for match in _VARIABLE.finditer(text) if match[1] in names))
            for key, text in written.items()}
    return Resolved(resolved, written, used)


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        names = tuple(str(item).strip() for item in value)
    else:
        names = split_list(value) if isinstance(value, str) else ()
    for name in names:
        if not re.fullmatch(r"[\w.-]+", name):
            raise ConfigError(KEY, value, "every item must be a name of letters, digits and . - _")
    return names


def _warn_of_unresolved(props: Mapping[str, object], names: tuple[str, ...]) -> None:
    for key, value in props.items():
        for match in _VARIABLE.finditer(value) if isinstance(value, str) else ():
            if match[1] in _USUAL_NAMES and match[1] not in names:
                log.warning("%s holds a variable ${%s:...} as plain text: %s does not name %r", key, match[1], KEY,
                            match[1])


def _make(name: str, props: Mapping[str, object], load: Callable[[str, str], object]) -> ConfigProvider:
    key = f"{PREFIX}{name}.class"
    given = props.get(key)
    if given is None or given == "":
        raise ConfigError(key, given, f"{KEY} names {name!r}, and this says what it is: {_known()}")
    found = given
    if isinstance(given, str):
        name_of_class = given.strip()
        ours = _OURS.get(name_of_class.removeprefix(_JAVA_PACKAGE))
        if ours is None and ":" not in name_of_class:
            raise ConfigError(key, given, f"there is no such provider here: {_known()}")
        found = ours or load(key, name_of_class)
    provider: Any = found
    prefix = f"{PREFIX}{name}.param."
    params = {other.removeprefix(prefix): str(value) for other, value in props.items() if other.startswith(prefix)}
    try:
        if isinstance(found, type):
            provider = found()
        if not callable(getattr(provider, "get", None)):
            raise TypeError("it has no get(path, keys)")
        if callable(getattr(provider, "configure", None)):
            provider.configure(params)
    except Exception as cause:  # foreign code, which may raise anything
        raise ConfigError(key, given, f"it cannot be used ({type(cause).__name__}: {cause})") from None
    return provider  # type: ignore[no-any-return]  # it has `get`


def _known() -> str:
    return f"{', '.join(_JAVA_PACKAGE + name for name in _OURS)}, or 'module:Class' with get(path, keys)"


def _replaced(key: str, text: str, providers: Mapping[str, ConfigProvider]) -> SecretText:
    """Return a text with the answers of the providers in place of its variables."""
    parts: list[SecretText] = []  # whose repr shows nothing, in a traceback with variables
    at = 0
    for match in _VARIABLE.finditer(text):
        name, path, variable = match[1], match[2] or "", match[3]
        if name not in providers:
            continue
        parts.append(SecretText(text[at:match.start()]))
        parts.append(_answer(key, match[0], providers[name], path, variable))
        at = match.end()
    parts.append(SecretText(text[at:]))
    return SecretText("".join(parts))


def _answer(key: str, written: str, provider: ConfigProvider, path: str, variable: str) -> SecretText:
    try:
        value = provider.get(path, {variable}).get(variable)
    except Exception as cause:  # of the system, or foreign code, which may raise anything
        # A text of its own, not the error, which may hold what was read; and one that hides itself, as a local.
        why = SecretText(getattr(cause, "strerror", None) or getattr(cause, "why", None) or cause)
        raise ConfigError(key, written, f"its provider fails: {why}") from None
    if value is None:
        raise ConfigError(key, written, f"its provider has no value for {variable!r}: {_where(provider, path)}")
    return SecretText(value)


def _where(provider: ConfigProvider, path: str) -> str:
    if isinstance(provider, EnvVarConfigProvider):
        return "set it in the environment of this process"
    return f"look into {path}" if path else f"ask {type(provider).__name__}"


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
