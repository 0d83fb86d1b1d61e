"""JsonSerializer: what json can write, and what Python programs have besides.

    datetime, date, time   ISO 8601 text         dataclass           object of its fields
    Decimal, UUID          text                  pydantic's models   as model_dump(mode="json") gives them
    Enum                   its value             set, frozenset      list; sorted where that can be done

Road:    send() -> [serializer] -> partitioner
Thread:  any caller; no state.
Source:  ours; Java has no JSON serializer of its own.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pyproducer.common.public import public
from pyproducer.common.records import Header

Default = Callable[[Any], Any]


@public
class JsonSerializer:
    """Whatever json.dumps can write, and more (see the module), to compact UTF-8. None is a tombstone, not null.

    Args:
        default: Called with what nothing here can write, as json.dumps does; returns something that can be, or raises
            TypeError.
        sort_keys: Write the keys of objects in order, so that equal values are equal bytes.

    An error names the place in the value: `$.items[3].price`. NaN and Infinity are refused: they are no JSON.
    """

    def __init__(self, *, default: Default | None = None, sort_keys: bool = False) -> None:
        import json  # here: few write it

        self._default = default
        self._encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False,
                                         sort_keys=sort_keys, default=self._convert)

    def __call__(self, topic: str, headers: list[Header], data: Any) -> bytes | None:
        """Return the JSON text."""
        if data is None:
            return None
        try:
            return self._encoder.encode(data).encode()
        except (TypeError, ValueError, RecursionError) as error:
            where, what = self._place_of_what_fails(data)
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(f"{where} is {_shown(what)}, which is no JSON: {error}") from error

    def _convert(self, value: Any) -> Any:
        if _is_any(value, "datetime", "date", "time"):  # a datetime is a date
            return value.isoformat()
        if _is_any(value, "decimal", "Decimal") or _is_any(value, "uuid", "UUID"):
            return str(value)
        if isinstance(value, enum.Enum):
            return value.value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if hasattr(type(value), "model_dump"):
            return value.model_dump(mode="json")
        if isinstance(value, (set, frozenset)):
            try:
                return sorted(value)
            except TypeError:  # of kinds that have no order
                return list(value)
        if self._default is not None:
            return self._default(value)
        raise TypeError(f"write it as one of JSON's types, or give a default= that does ({type(value).__name__})")

    def _place_of_what_fails(self, data: Any) -> tuple[str, Any]:
        """Return the path of the innermost part that cannot be written, and the part."""
        path, value, seen = "$", data, set[int]()
        while id(value) not in seen:
            seen.add(id(value))
            try:
                parts = _parts(value if isinstance(value, (dict, list, tuple, str, int, float, type(None)))
                               else self._convert(value))
            except Exception:  # this is what cannot be converted
                return path, value
            for step, part in parts:
                if not self._can_write(part):
                    path, value = path + step, part
                    break
            else:
                return path, value
        return path, value  # it contains itself

    def _can_write(self, value: Any) -> bool:
        try:
            self._encoder.encode(value).encode()
        except Exception:  # whatever it is: the application's default may raise anything
            return False
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _is_any(value: Any, module: str, *names: str) -> bool:
    """Whether a value is of a module's classes; who has one has imported the module."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, tuple(getattr(loaded, name) for name in names))


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]", part)
                for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    return []


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
