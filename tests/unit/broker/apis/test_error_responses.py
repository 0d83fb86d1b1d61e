"""A request that fails as a whole: its client reads that everything in it failed, in each API and version.

A handler's bug is the only way to most of these answers; one that was wrong itself would hide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pyproducer.broker.apis.kafka_apis import HANDLERS
from pyproducer.broker.apis.services import Outcome
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.support.answer_check import as_read, one_of_each
from tests.support.broker_request import broker_request

FAILED = ErrorCode.UNKNOWN_SERVER_ERROR
# Versions in which Kafka's response has no place for an error of the whole request.
MUTE = {(ApiKeys.DESCRIBE_LOG_DIRS, 1), (ApiKeys.DESCRIBE_LOG_DIRS, 2)}
# Codes about something else, by the path to them: of the cluster's addresses, and of settings that may not be seen.
OTHER_CODES = {(ApiKeys.METADATA, "error_code"), (ApiKeys.CREATE_TOPICS, "topics.topic_config_error_code")}


def codes_in(answer: Mapping[str, Any], place: str = "") -> list[tuple[str, int]]:
    """Return all error codes of an answer, each with the names that lead to it."""
    found: list[tuple[str, int]] = []
    for name, value in answer.items():
        if name.endswith("error_code"):
            found.append((place + name, value))
        for element in value if isinstance(value, list) else (value,):
            if isinstance(element, Mapping):
                found += codes_in(element, f"{place}{name}.")
    return found


def versions_of(api_key: ApiKeys) -> range:
    first, last = api_key.broker_range
    return range(first, last + 1)


@pytest.mark.parametrize("api_key", HANDLERS, ids=lambda api_key: api_key.title)
def test_request_when_it_fails_as_a_whole_then_each_thing_of_its_answer_says_so(api_key: ApiKeys) -> None:
    for version in versions_of(api_key):
        answer = HANDLERS[api_key].error_response(
            broker_request(api_key, version, one_of_each(api_key.request_schema(version))), FAILED)
        assert not isinstance(answer, Outcome)
        codes = [(place, code) for place, code in codes_in(as_read(api_key, version, answer))
                 if (api_key, place) not in OTHER_CODES]
        assert {code for _, code in codes} == (set() if (api_key, version) in MUTE else {FAILED}), f"{version}: {codes}"
