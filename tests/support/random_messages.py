"""Values for any schema of the protocol, from a seed: valid to the codec, and mostly nonsense to a broker.

Source:  ours. No import of pytest.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import Any

from pyproducer.protocol.schema import NullableStruct, Schema
from pyproducer.protocol.types import BOOLEAN, FLOAT64, UUID, ArrayOf, Type

_BITS = {"INT8": 7, "INT16": 15, "INT32": 31, "INT64": 63, "UINT16": 16}


def random_value(type_: Type, source: random.Random, *, names: Sequence[str] = ("orders",)) -> Any:
    """Return a value of a type; strings are mostly out of `names`, so that some of them mean something."""
    if type_.is_nullable and source.random() < 0.2:
        return None
    if isinstance(type_, NullableStruct):
        return random_value(type_.schema, source, names=names)
    if isinstance(type_, Schema):
        return {name: random_value(field.type, source, names=names) for name, field in type_.fields_by_name.items()}
    if isinstance(type_, ArrayOf):
        return [random_value(type_.element, source, names=names) for _ in range(source.choice((0, 1, 1, 2, 3)))]
    if type_.name in _BITS:
        limit = (1 << _BITS[type_.name]) - 1
        lowest = 0 if type_.name.startswith("U") else -limit - 1
        return source.choice((0, 0, 1, 1, 2, 5, limit, lowest, source.randint(lowest, limit)))
    if type_ is BOOLEAN:
        return source.random() < 0.5
    if type_ is FLOAT64:
        return source.random()
    if type_ is UUID:
        return uuid.UUID(int=source.choice((0, source.getrandbits(128))))
    if "STRING" in type_.name:
        return source.choice((*names, *names, "", "x" * source.randint(1, 300), "\u6d88\U0001f600"))
    return source.randbytes(source.choice((0, 1, 61, 200)))
