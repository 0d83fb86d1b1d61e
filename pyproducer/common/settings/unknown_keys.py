"""What is said about a key that is in no table: what was probably meant, and never a secret.

Road:    properties -> [unknown keys] -> table
Thread:  pure functions.
Source:  ours; Java only warns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import HIDDEN
from pyproducer.common.settings.definition import Setting

_SECRET_WORDS = ("password", "passwd", "pwd", "secret", "passphrase", "jaas", "token", "pem", "ssl.key", "sasl.user",
                 "certificate", "credential", "private.key", "api.key", "apikey", "user.info", "basic.auth", "bearer")
_KEY = re.compile(r"[\w.\-]{1,200}")
# Where PEM text stands in a properties file without a backslash at each line's end, its lines are keys.
_LINE_OF_BASE64 = re.compile(r"[A-Za-z0-9+/=]{40,}")


def unknown_key_error(key: object, value: object, rows: Mapping[str, Setting], meant: Mapping[str, str],
                      unknown: str, answers: Mapping[str, str]) -> ConfigError:
    """Return the error for a key that nobody knows, with the nearest key that exists.

    Args:
        key: What was given; not always a string.
        value: Its value, which is shown only where the key that was meant is known, and no secret's.
        rows: The settings there are.
        meant: Other programs' names for them.
        unknown: What to say; `{key}` stands for the key.
        answers: What else to say to other programs' names.
    """
    if not isinstance(key, str):
        shown = HIDDEN if any(word in repr(key).lower() for word in _SECRET_WORDS) else value
        return ConfigError(repr(key), shown, f"a key must be a string, got a {type(key).__name__}")
    if _LINE_OF_BASE64.fullmatch(key):
        return ConfigError(HIDDEN, HIDDEN, "unknown setting; it looks like a line of PEM text: in a properties file "
                                           "every line of a value but its last must end in \\n\\")
    dotted = _dotted(key)
    nearest = nearest_key(key, rows, meant)
    # Where nothing is near, nobody knows what it is; a passphrase has no word for itself in the key `pw`. What is no
    # text or number, and what belongs to a name that is known, is none.
    is_known = nearest is not None or bool(answer_for(key, answers)) or value is None or isinstance(
        value, bool) or callable(value)
    is_secret = sounds_secret(key) or not is_known or (nearest is not None and rows[nearest].is_secret)
    shown = HIDDEN if is_secret else value
    if not _KEY.fullmatch(key):  # the line before has lost its backslash, or = is missing before it
        key = HIDDEN
    if dotted == "config.providers" or dotted.startswith("config.providers."):
        return ConfigError(key, shown, "variables of config providers (KIP-297) are not resolved here: put the values "
                                       "themselves into the properties")
    answer = answer_for(key, answers)
    if answer and dotted not in meant:
        nearest = None  # what is near by its spelling is not what it means
    hint = "" if nearest is None else f"; did you mean {nearest!r}?"
    more = f"{' ' if hint else '; '}{answer}" if answer else ""
    return ConfigError(key, shown, f"{unknown.format(key=key)}{hint}{more}")


def answer_for(key: str, answers: Mapping[str, str]) -> str:
    """Return what is said to another program's name for a setting; empty where nothing is."""
    return answers.get(key.strip().lower()) or answers.get(_dotted(key), "")


def sounds_secret(key: str) -> bool:
    """Whether the value of a key that is in no table is not to be shown."""
    dotted = _dotted(key)
    return not dotted or any(word in dotted for word in _SECRET_WORDS)  # "=value": a line that lost its key


def nearest_key(key: str, rows: Mapping[str, Setting], meant: Mapping[str, str], cutoff: float = 0.6) -> str | None:
    """Return the key that was probably meant, or None when no key is near: as near as difflib's ratio says."""
    dotted = _dotted(key)
    if dotted in meant:
        return meant[dotted]
    from difflib import get_close_matches  # here: only an error needs it

    near = get_close_matches(dotted, rows, cutoff=cutoff)
    return near[0] if near else None


def _dotted(key: str) -> str:
    return key.strip().lower().replace("_", ".").replace("-", ".")
