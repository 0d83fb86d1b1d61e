"""Topics, partitions, groups and transactional ids are found in requests of every API and version that names them."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from pyproducer.broker.control.request_subjects import groups_of, subjects_of, topics_of, transactional_ids_of
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import NullableStruct, Schema
from pyproducer.protocol.types import ArrayOf, Type
from tests.support.random_messages import random_value

NAME, ID, NUMBER = "something", UUID(int=77), 41


def full(type_: Type, source: random.Random, key: str = "") -> Any:
    """A value with something in all arrays, and the same text, id and number everywhere."""
    if isinstance(type_, NullableStruct):
        type_ = type_.schema
    if isinstance(type_, Schema):
        return {name: full(field.type, source, name) for name, field in type_.fields_by_name.items()}
    if isinstance(type_, ArrayOf):
        return [full(type_.element, source, key)]
    if "STRING" in type_.name:
        return NAME
    if type_.name == "UUID":
        return ID
    if type_.name == "INT32":
        return NUMBER
    return 0 if type_.name == "INT8" else random_value(type_, source)


@pytest.mark.parametrize("api", ApiKeys, ids=lambda api: api.title)
def test_request_when_it_is_of_any_version_then_only_what_its_api_can_name_is_found(api: ApiKeys) -> None:
    subjects = subjects_of(api)
    for version in range(api.broker_range[0], api.broker_range[1] + 1):
        body = full(api.request_schema(version), random.Random(1))
        found = list(topics_of(body))
        assert bool(found) == ("topic" in subjects), version
        assert all(topic.name == NAME or topic.topic_id == ID for topic in found), version
        if "partition" in subjects:
            assert any(NUMBER in (topic.partitions or ()) for topic in found), version
        else:
            assert all(topic.partitions is None for topic in found), version
        assert set(groups_of(api, body)) <= ({NAME} if "group" in subjects else set()), version
        assert set(transactional_ids_of(api, body)) <= ({NAME} if "transactional_id" in subjects else set()), version


@pytest.mark.parametrize("subject", ["group", "transactional_id"])
def test_api_when_it_names_something_then_some_version_of_it_is_found_to(subject: str) -> None:
    find = {"group": groups_of, "transactional_id": transactional_ids_of}[subject]
    for api in ApiKeys:
        if subject in subjects_of(api):
            first, last = api.broker_range
            bodies = [full(api.request_schema(version), random.Random(1)) for version in range(first, last + 1)]
            for body in bodies:
                if "key_type" in body:
                    body["key_type"] = 1 if subject == "transactional_id" else 0
            assert any(list(find(api, body)) for body in bodies), api


def test_apis_when_they_name_nothing_then_a_fault_cannot_be_about_it() -> None:
    assert subjects_of(ApiKeys.HEARTBEAT) == {"group"}
    assert subjects_of(ApiKeys.METADATA) == {"topic"}
    assert subjects_of(ApiKeys.PRODUCE) == {"topic", "partition", "transactional_id"}
    assert subjects_of(ApiKeys.SASL_HANDSHAKE) == subjects_of(ApiKeys.API_VERSIONS) == set()


def test_request_when_lists_are_null_or_empty_then_nothing_is_found() -> None:
    assert list(topics_of({"topics": None, "topic_names": None})) == []
    assert list(topics_of({"topics": [{"name": NAME, "partitions": []}]})) == [(NAME, None, [])]
    assert list(groups_of(ApiKeys.OFFSET_FETCH, {"groups": [{"group_id": "a"}, {"group_id": "b"}]})) == ["a", "b"]
