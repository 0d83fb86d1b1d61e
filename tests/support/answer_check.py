"""An answer of the broker's APIs as its client reads it; nothing that a handler says may be lost on the way by mistake.

A response may leave out any field, and say more than its version has a place for. So a misspelled name is written
without an error, and the client reads the default.

Source:  ours. No import of pytest.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import build_response, parse_response
from pyproducer.protocol.message import FieldDefinition
from pyproducer.protocol.schema import NullableStruct, Schema, Struct
from pyproducer.protocol.types import BOOLEAN, FLOAT64, UUID, ArrayOf, Type


def as_read(api_key: ApiKeys, version: int, answer: Mapping[str, Any]) -> Struct:
    """Return what a client reads; raise AssertionError where the answer has a name that its message never had."""
    strange = list(_strange_names(answer, api_key.row.response.definitions))
    assert not strange, f"{api_key.row.response} has no {', '.join(strange)}"
    correlation_id, body = parse_response(api_key, version, b"".join(build_response(api_key, version, 7, answer)))
    assert correlation_id == 7
    return body


def one_of_each(type_: Type, *, name: str = "orders", number: int = 1) -> Any:
    """Return a value of a type in which nothing is null, every array has one element and every flag is set."""
    if isinstance(type_, NullableStruct):
        return one_of_each(type_.schema, name=name, number=number)
    if isinstance(type_, Schema):
        return {key: one_of_each(field.type, name=name, number=number) for key, field in type_.fields_by_name.items()}
    if isinstance(type_, ArrayOf):
        return [one_of_each(type_.element, name=name, number=number)]
    if type_ is UUID:
        return uuid.UUID(int=number)
    if type_ is BOOLEAN:
        return True
    if type_ is FLOAT64 or "INT" in type_.name:
        return number
    return name if "STRING" in type_.name else name.encode()


def _strange_names(answer: Mapping[str, Any], definitions: Iterable[FieldDefinition],
                   place: str = "") -> Iterator[str]:
    by_name = {definition.name: definition for definition in definitions}
    for name, value in answer.items():
        definition = by_name.get(name)
        if definition is None:
            yield place + name
        elif definition.children and value is not None:
            for element in value if definition.is_array else (value,):
                yield from _strange_names(element, definition.children, f"{place}{name}.")
