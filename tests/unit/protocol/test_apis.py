from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import pyproducer
from pyproducer.common.errors import InvalidRequestError, UnsupportedVersionError
from pyproducer.protocol.apis import MAX_API_KEY, ApiKeys
from pyproducer.protocol.schema import Schema


def test_table_has_the_apis_of_a_producer_and_of_the_broker():
    assert len(ApiKeys) == 49
    assert MAX_API_KEY == 75
    assert ApiKeys.PRODUCE == 0
    assert ApiKeys(18) is ApiKeys.API_VERSIONS
    assert str(ApiKeys.ADD_PARTITIONS_TO_TXN) == "ADD_PARTITIONS_TO_TXN"
    assert ApiKeys.ADD_PARTITIONS_TO_TXN.title == "AddPartitionsToTxn"
    assert pickle.loads(pickle.dumps(ApiKeys.FETCH)) is ApiKeys.FETCH


@pytest.mark.parametrize("api", ApiKeys)
def test_member_names_and_titles_agree(api):
    assert api.name.replace("_", "").lower() == api.title.lower()
    assert ApiKeys.for_id(int(api)) is api


@pytest.mark.parametrize("api_id", [4, 7])
def test_for_id_when_it_lies_between_those_that_are_known_then_the_text_names_no_range(api_id):
    """It said that 7 should be between 0 and 75."""
    with pytest.raises(InvalidRequestError, match=f"^Unexpected ApiKeys id `{api_id}`, which is not spoken here$"):
        ApiKeys.for_id(api_id)
    assert not ApiKeys.has_id(api_id)


@pytest.mark.parametrize("api_id", [999, -1, 76])
def test_for_id_when_unknown_then_the_text_names_the_range(api_id):
    with pytest.raises(InvalidRequestError) as caught:
        ApiKeys.for_id(api_id)
    assert str(caught.value) == f"Unexpected ApiKeys id `{api_id}`, it should be between `0` and `75` (inclusive)"
    assert not ApiKeys.has_id(api_id)


@pytest.mark.parametrize("api", ApiKeys)
def test_version_when_it_is_outside_the_table_then_it_is_refused(api):
    for schema_of in (api.request_schema, api.response_schema):
        for version in (-1, api.latest_version + 1, 32767):
            with pytest.raises(UnsupportedVersionError) as caught:
                schema_of(version)
            assert str(caught.value) == f"Invalid version for API key {api.name}: {version}"
        for version in range(api.oldest_version):
            with pytest.raises(UnsupportedVersionError) as caught:
                schema_of(version)
            assert str(caught.value) == f"Unsupported version for API key {api.name}: {version}"


def test_schemas_when_they_are_looked_up_then_there_is_one_for_each_version():
    schemas = [schema_of(version) for api in ApiKeys for schema_of in (api.request_schema, api.response_schema)
               for version in range(api.oldest_version, api.latest_version + 1)]
    assert len(set(schemas)) == len(schemas) == 2 * 231
    assert ApiKeys.PRODUCE.request_schema(9) is schemas[6]


def test_messages_when_a_producer_or_a_tool_speaks_them_then_they_do_not_lie_with_the_broker():
    """lint-imports sees no import in the table's text, and one of these would load the whole broker."""
    package = Path(pyproducer.__file__).parent
    spoken = {name for path in package.rglob("*.py") if not path.is_relative_to(package / "broker")
              for name in re.findall(r"\bApiKeys\.([A-Z_]+)\b", path.read_text(encoding="ascii"))}
    assert len(spoken & ApiKeys.__members__.keys()) > 15
    assert {name for name in spoken & ApiKeys.__members__.keys()
            if not ApiKeys[name].row.load().__name__.startswith("pyproducer.protocol.messages.")} == set()


@pytest.mark.parametrize(("api", "version", "is_supported"), [
    (ApiKeys.API_VERSIONS, 0, True), (ApiKeys.API_VERSIONS, 4, True), (ApiKeys.API_VERSIONS, 5, False),
    (ApiKeys.API_VERSIONS, -1, False), (ApiKeys.PRODUCE, 2, False), (ApiKeys.PRODUCE, 3, True),
])
def test_is_version_supported(api, version, is_supported):
    assert api.is_version_supported(version) is is_supported


@pytest.mark.parametrize("api", ApiKeys)
def test_ranges_lie_within_the_table(api):
    first, last = api.row.valid
    for lower, upper in (api.client_range, api.broker_range):
        assert first <= lower <= upper <= last
    assert api.client_range[1] <= api.broker_range[1], "what brokers do not answer yet, clients do not send"
    if api.advertised_range is not None:
        assert api.advertised_range[1] == api.broker_range[1]
        assert api.advertised_range[0] == (0 if api is ApiKeys.PRODUCE else api.broker_range[0])


@pytest.mark.parametrize(("api", "client", "advertised"), [
    (ApiKeys.PRODUCE, (3, 13), (0, 13)),  # KAFKA-18659: the minimum is a lie that older librdkafka need
    (ApiKeys.ADD_PARTITIONS_TO_TXN, (0, 3), (0, 5)),  # 4 and 5 are spoken between brokers
    (ApiKeys.INIT_PRODUCER_ID, (0, 5), (0, 5)),  # 6 is not stable
    (ApiKeys.DESCRIBE_LOG_DIRS, (1, 4), (1, 4)),  # 5 is of a later release
    (ApiKeys.FIND_COORDINATOR, (1, 6), (0, 6)),
    (ApiKeys.OFFSET_COMMIT, (2, 9), (2, 9)),
    (ApiKeys.JOIN_GROUP, (0, 9), (0, 9)),
    (ApiKeys.PUSH_TELEMETRY, (0, 0), None),
])
def test_ranges_that_differ_from_the_definitions(api, client, advertised):
    assert api.client_range == client
    assert api.advertised_range == advertised


@pytest.mark.parametrize(("api", "version", "request_header", "response_header"), [
    (ApiKeys.PRODUCE, 8, 1, 0), (ApiKeys.PRODUCE, 9, 2, 1),
    (ApiKeys.API_VERSIONS, 2, 1, 0), (ApiKeys.API_VERSIONS, 3, 2, 0), (ApiKeys.API_VERSIONS, 120, 2, 0),
    (ApiKeys.SASL_HANDSHAKE, 1, 1, 0), (ApiKeys.DESCRIBE_CLUSTER, 0, 2, 1), (ApiKeys.METADATA, 99, 2, 1),
])
def test_header_versions(api, version, request_header, response_header):
    assert api.request_header_version(version) == request_header
    assert api.response_header_version(version) == response_header


def test_flexible_schemas_have_tags_and_others_have_none():
    for api in ApiKeys:
        for version in range(api.oldest_version, api.latest_version + 1):
            for schema in (api.request_schema(version), api.response_schema(version)):
                assert isinstance(schema, Schema)
                assert (schema.tagged is not None) == api.is_flexible(version)
