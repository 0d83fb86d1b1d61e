from __future__ import annotations

import tracemalloc

import pytest

from pyproducer.broker.request.request_context import ANONYMOUS, KafkaPrincipal, RequestContext
from pyproducer.common.errors import InvalidRequestError, SchemaError, UnsupportedVersionError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import RequestHeader, build_request, parse_response
from tests.support.whole_request import parse_request


def test_principal_has_kafkas_spelling():
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert str(KafkaPrincipal("User", "alice")) == "User:alice"


def test_context_keeps_where_the_request_came_from():
    context = RequestContext(RequestHeader(0, 9, 1, "me"), "127.0.0.1:9092-127.0.0.1:5000-0-1", "127.0.0.1",
                             ANONYMOUS, "INTERNAL", "SSL")
    assert context.api_key is ApiKeys.PRODUCE
    assert context.api_version == 9
    assert not context.is_unsupported_api_versions_request
    assert (context.listener_name, context.security_protocol) == ("INTERNAL", "SSL")


def test_size_in_bytes_when_a_request_is_parsed_then_it_is_the_length_of_the_frame():
    body = {"acks": -1, "timeout_ms": 5, "topic_data": [
        {"name": "t", "partition_data": [{"index": 0, "records": bytes(2000)}]}]}
    for version in (3, 9, 12):
        frame = b"".join(build_request(ApiKeys.PRODUCE, version, 4, "me", body))
        header, request, size_in_bytes = parse_request(frame)
        assert header == RequestHeader(0, version, 4, "me")
        assert request.api_key is ApiKeys.PRODUCE
        assert size_in_bytes == len(frame)


def test_records_of_a_request_are_a_view_of_the_frame():
    body = {"acks": -1, "timeout_ms": 5, "topic_data": [
        {"name": "t", "partition_data": [{"index": 0, "records": bytes(2000)}]}]}
    frame = b"".join(build_request(ApiKeys.PRODUCE, 9, 4, "me", body))
    records = parse_request(frame).request.data["topic_data"][0]["partition_data"][0]["records"]
    assert records.obj is frame


@pytest.mark.parametrize("version", [5, 120, -1])
@pytest.mark.parametrize("garbage", [b"", b"\xff\xff\xff\xff\xff", b"anything at all"])
def test_unsupported_api_versions_counts_as_version_0_and_its_body_is_not_looked_at(version, garbage):
    header = RequestHeader(18, version, 7, "me")
    context = RequestContext(header)
    request, size = context.parse_request(ByteReader(garbage))
    assert request.api_key is ApiKeys.API_VERSIONS
    assert (request.version, size, context.api_version) == (0, 0, 0)
    answer = b"".join(context.build_response(
        {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]}))
    assert answer.hex() == "00000007" + "0023" + "00000001" + "001200000004"
    assert parse_response(ApiKeys.API_VERSIONS, 4, answer)[1]["error_code"] == 35


@pytest.mark.parametrize(("frame", "api_id", "version", "cause"), [
    ("0003006300000005000000", 3, 99, UnsupportedVersionError),
    ("0000000200000005ffff" + "0001" + "00000005" + "00000000", 0, 2, UnsupportedVersionError),
    ("00030001000000050000000000", 3, 1, SchemaError),  # truncated
    ("0003000100000005000040000000", 3, 1, SchemaError),  # 2^30 topics
    ("0003000100000005000000000001fffe", 3, 1, SchemaError),  # negative length
])
def test_body_when_it_can_not_be_read_then_the_text_names_api_and_version(frame, api_id, version, cause):
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequestError) as caught:
            parse_request(bytes.fromhex(frame))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"Error getting request for apiKey: {api_id} and apiVersion: {version}")
    assert isinstance(caught.value.__cause__, cause)
    assert peak_bytes < 1_000_000


def test_answer_has_the_correlation_id_of_the_request():
    context = RequestContext(RequestHeader(0, 9, 31, "me"))
    answer = b"".join(context.build_response({"responses": []}))
    assert parse_response(ApiKeys.PRODUCE, 9, answer)[0] == 31
