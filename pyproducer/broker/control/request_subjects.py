"""What a request is about: the topics, partitions, groups and transactional ids that it names.

Found by the names of fields, in any API and version: by the schemas which of them an API has at all, and in a body
which ones it names.

Road:    fault rules -> [request subjects]
Thread:  pure.
Source:  Kafka's messages (4.1), whose fields for the same thing have the same few names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import NullableStruct, Schema
from pyproducer.protocol.types import ArrayOf, Type

# Lists of topics, names of one, lists of its partitions, number of one.
_TOPIC_LISTS = ("topics", "topic_data", "topic_partitions", "v3_and_below_topics")
_TOPIC_NAMES = ("name", "topic", "topic_name")
_PARTITION_LISTS = ("partition_data", "partitions", "partition_indexes")
_PARTITION_INDEXES = ("index", "partition", "partition_index")
_GROUPS = ("group_id", "groups_names")
_TRANSACTIONAL_IDS = ("transactional_id", "v3_and_below_transactional_id", "transactional_ids")
_GROUP_KEY, _TRANSACTION_KEY = 0, 1  # of FindCoordinator


class NamedTopic(NamedTuple):
    """A topic in a request: by name or id, with its partitions; None where it names none."""

    name: str | None
    topic_id: UUID | None
    partitions: Collection[int] | None


def topics_of(body: Mapping[str, Any]) -> Iterator[NamedTopic]:
    """Yield the topics that a request names."""
    for key, value in body.items():
        if key == "topic_names":
            yield from (NamedTopic(name, None, None) for name in value or ())
        elif isinstance(value, list):
            for item in value:
                if not isinstance(item, Mapping):
                    continue
                if key in _TOPIC_LISTS:
                    yield _named(item)
                else:
                    yield from topics_of(item)


def groups_of(api_key: ApiKeys, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the groups that a request names."""
    if api_key is ApiKeys.FIND_COORDINATOR:
        yield from _coordinator_keys(body, _GROUP_KEY)
    elif api_key is ApiKeys.DESCRIBE_GROUPS:
        yield from body["groups"]
    else:
        yield from _texts(body, _GROUPS)


def transactional_ids_of(api_key: ApiKeys, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the transactional ids that a request names."""
    if api_key is ApiKeys.FIND_COORDINATOR:
        yield from _coordinator_keys(body, _TRANSACTION_KEY)
    else:
        yield from _texts(body, _TRANSACTIONAL_IDS)


def subjects_of(api_key: ApiKeys) -> frozenset[str]:
    """Return which of "topic", "partition", "group" and "transactional_id" requests of an API name, in any version."""
    names = _names_of(api_key)
    found = set()
    if names.intersection(_TOPIC_LISTS) or "topic_names" in names:
        found.add("topic")
        if names.intersection(_PARTITION_LISTS):
            found.add("partition")
    if names.intersection(_GROUPS) or api_key in (ApiKeys.FIND_COORDINATOR, ApiKeys.DESCRIBE_GROUPS):
        found.add("group")
    if names.intersection(_TRANSACTIONAL_IDS) or api_key is ApiKeys.FIND_COORDINATOR:
        found.add("transactional_id")
    return frozenset(found)


@cache
def _names_of(api_key: ApiKeys) -> frozenset[str]:
    first, last = api_key.broker_range
    return frozenset(name for version in range(first, last + 1)
                     for name in _field_names(api_key.request_schema(version)))


def _field_names(type_: Type) -> Iterator[str]:
    if isinstance(type_, NullableStruct):
        type_ = type_.schema
    if isinstance(type_, ArrayOf):
        yield from _field_names(type_.element)
    elif isinstance(type_, Schema):
        for name, field in type_.fields_by_name.items():
            yield name
            yield from _field_names(field.type)


def _named(item: Mapping[str, Any]) -> NamedTopic:
    name = next((item[key] for key in _TOPIC_NAMES if key in item), None)
    partitions = next((item[key] for key in _PARTITION_LISTS if key in item), None)
    if partitions and isinstance(partitions[0], Mapping):
        index = next(key for key in _PARTITION_INDEXES if key in partitions[0])
        partitions = [partition[index] for partition in partitions]
    return NamedTopic(name, item.get("topic_id"), partitions)


def _coordinator_keys(body: Mapping[str, Any], key_type: int) -> Iterator[str]:
    if body.get("key_type", _GROUP_KEY) == key_type:
        yield from body.get("coordinator_keys") or (body["key"],)


def _texts(value: Any, names: Collection[str]) -> Iterator[str]:
    """Yield the texts of all fields of these names, however deep."""
    if isinstance(value, list):
        for inner in value:
            yield from _texts(inner, names)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in names:
                yield from _texts(inner, names)
            elif isinstance(inner, str):
                yield inner
            else:
                yield from inner or ()
