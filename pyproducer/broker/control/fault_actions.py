"""What can go wrong with a request: each action, what it needs, and which APIs have a place for it.

Road:    fault rules -> [fault actions] -> faults.py, login_faults.py
Thread:  pure.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pyproducer.broker.control.fault_lies import LIES
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ConfigError
from pyproducer.protocol.apis import ApiKeys

BEFORE_APPLY = "before_apply"
AFTER_APPLY = "after_apply"
WAITS = ("delay", "hold")
# In its arguments: what each takes beside `when`, with its least and greatest value, or a function that checks it.
_INT32_MAX = 2**31 - 1


class Action(NamedTuple):
    """One thing that goes wrong; `arguments` are those of the method of broker.faults."""

    kind: str
    arguments: Mapping[str, Any]

    @property
    def when(self) -> str:
        """Before or after the request took effect."""
        when: str = self.arguments.get("when", BEFORE_APPLY)
        return when

    def __str__(self) -> str:
        return f".{self.kind}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items() if value)})"


def checked_action(api_key: ApiKeys | None, kind: str, arguments: Mapping[str, Any]) -> Action:
    """Return an action of a rule for an API, or for any (None).

    Raises:
        ConfigError: There is no such action, an argument makes no sense, or the API has no place for it.
    """
    arguments = dict(arguments)
    row = _ACTIONS.get(kind)
    if row is None:
        raise ConfigError("fault", kind, f"known are {', '.join(_ACTIONS)}")
    for name in arguments:
        if name not in row:
            raise ConfigError("fault", f"{kind}({name}=...)", f"it takes {', '.join(row) or 'nothing'}")
    for name, check in row.items():
        if name in arguments or check is not _text_or_none:
            arguments[name] = check(name, arguments.get(name))
    if kind in LIES and api_key is not ApiKeys.PRODUCE:
        raise ConfigError("fault", kind, 'only Produce can be lied about: on("Produce")')
    if kind == "throttle" and api_key is not None and not _has_throttle_time(api_key):
        raise ConfigError("fault", kind, f"no answer to {api_key.title} tells a throttle time")
    if arguments.get("record_errors") and api_key is not ApiKeys.PRODUCE:
        raise ConfigError("record_errors", arguments["record_errors"], 'only Produce has them: on("Produce")')
    return Action(kind, arguments)


def code_of(code: object) -> int:
    """Return the number of an error, given as itself, by its name or as a number.

    Raises:
        ConfigError: There is no such name, or it is no number of 16 bits.
    """
    if isinstance(code, str):
        if code not in ErrorCode.__members__:
            raise ConfigError("code", code, "Kafka has no error of this name; any number may be given")
        return int(ErrorCode[code])
    number: int = _whole(-2**15, 2**15 - 1)("code", code)
    return number


def _has_throttle_time(api_key: ApiKeys) -> bool:
    return "throttle_time_ms" in api_key.response_schema(api_key.broker_range[1]).fields_by_name


_Check = Callable[[str, Any], Any]


def _whole(least: int, most: int = _INT32_MAX) -> _Check:
    def check(name: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ConfigError(name, value, f"must be a whole number from {least} to {most}")
        return int(value)
    return check


def _time(name: str, value: Any) -> str:
    if value is None:
        return BEFORE_APPLY
    if value not in (BEFORE_APPLY, AFTER_APPLY):
        raise ConfigError(name, value, f"known are {BEFORE_APPLY}, {AFTER_APPLY}")
    return str(value)


def _text_or_none(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ConfigError(name, value, "must be a text")
    return value


def _record_errors(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value or {}, Mapping):
        raise ConfigError(name, value, "must be texts by the index of a record in its batch")
    found = {}
    for index, text in (value or {}).items():
        if not str(index).isascii() or not str(index).isdigit() or not isinstance(text, str):
            raise ConfigError(name, value, "must be texts by the index of a record in its batch")
        found[str(index)] = text
    return found


def _switch(name: str, value: Any) -> bool:
    if value not in (None, True, False):
        raise ConfigError(name, value, "must be true or false")
    return bool(value)


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise ConfigError(name, value, "must be a function, in the broker's own process")
    return value


_ACTIONS: Mapping[str, Mapping[str, _Check]] = {
    "error": {"code": lambda _name, value: code_of(value), "message": _text_or_none, "record_errors": _record_errors,
              "when": _time},
    "close": {"when": _time},
    "delay": {"delay_ms": _whole(0), "when": _time},
    "hold": {"when": _time},
    "throttle": {"throttle_ms": _whole(0)},
    "truncate": {"size_bytes": _whole(0), "resize": _switch},
    "wrong_correlation_id": {},
    "drop": {"when": _time},
    "call": {"function": _function},
    **{lie: {} for lie in LIES},
}
