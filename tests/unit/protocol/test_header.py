from __future__ import annotations

import pytest

from pyproducer.common.errors import InvalidRequestError, RemoteProtocolError, SchemaError, UnsupportedVersionError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import (
    RequestHeader,
    build_request,
    build_response,
    parse_response,
    parse_response_correlation_id,
    read_request_header,
    request_header_schema,
)

PRODUCE = {"acks": -1, "timeout_ms": 5, "topic_data": []}


def test_header_when_it_is_of_controlled_shutdown_0_then_it_has_no_client_id():
    assert [field.name for field in request_header_schema(7, 0).fields] == [
        "request_api_key", "request_api_version", "correlation_id"]
    assert "client_id" in request_header_schema(7, 1).fields_by_name
    assert request_header_schema(7, 1).tagged is None
    assert read_request_header(ByteReader(bytes.fromhex("0007000000000009"))) == (7, 0, 9, "")


@pytest.mark.parametrize("client_id", ["", "me", None, "\u00e9" * 100])
@pytest.mark.parametrize("version", [3, 9, 13])
def test_request_header_round_trip(client_id, version):
    frame = b"".join(build_request(ApiKeys.PRODUCE, version, 2**31 - 1, client_id, PRODUCE))
    assert read_request_header(ByteReader(frame)) == RequestHeader(0, version, 2**31 - 1, client_id)


@pytest.mark.parametrize("frame", [
    "", "00", "000300", "00030009000000", "0003000100000005ff",  # cut short
    "00030001000000050009636c69656e74",  # client_id longer than the frame
    "00030001000000050002c328",  # client_id is not UTF-8
    "00030009000000050001630a",  # ten tags announced
    "0003000900000005000163010005aa",  # a tag longer than the frame
])
def test_request_header_when_malformed_then_refused(frame):
    with pytest.raises(InvalidRequestError) as caught:
        read_request_header(ByteReader(bytes.fromhex(frame)))
    if len(frame) >= 8:
        assert str(caught.value).startswith("Error parsing request header. Our best guess of the apiKey is: 3")
        assert isinstance(caught.value.__cause__, SchemaError)


@pytest.mark.parametrize("frame", ["03e70000000000050000", "ffff0000000000050000"])
def test_request_header_when_the_api_is_unknown_then_both_texts(frame):
    with pytest.raises(InvalidRequestError) as caught:
        read_request_header(ByteReader(bytes.fromhex(frame)))
    api_id = 999 if frame.startswith("03") else -1
    assert f"Our best guess of the apiKey is: {api_id}" in str(caught.value)
    assert f"Unexpected ApiKeys id `{api_id}`, it should be between `0` and `75` (inclusive)" in str(caught.value)


def test_request_header_when_it_is_parsed_then_the_body_is_left_alone():
    frame = bytes.fromhex("0003000100000009000163") + b"body"
    assert RequestHeader.parse(frame) == RequestHeader(3, 1, 9, "c")
    with pytest.raises(InvalidRequestError, match="Our best guess of the apiKey is: 3"):
        RequestHeader.parse(frame[:8])


def test_build_request_keeps_a_large_payload_as_it_is():
    records = bytearray(16384)
    body = {**PRODUCE, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]}
    chunks = build_request(ApiKeys.PRODUCE, 9, 1, "me", body)
    assert any(chunk is records for chunk in chunks)


def test_build_request_when_the_version_is_unknown_then_refused():
    with pytest.raises(UnsupportedVersionError, match="Unsupported version for API key PRODUCE: 2"):
        build_request(ApiKeys.PRODUCE, 2, 1, "me", PRODUCE)
    with pytest.raises(UnsupportedVersionError, match="Invalid version for API key PRODUCE: 14"):
        build_request(ApiKeys.PRODUCE, 14, 1, "me", PRODUCE)


def test_build_request_when_a_value_does_not_fit_then_the_field_is_named():
    with pytest.raises(SchemaError, match=r"Error writing field 'acks': 70000 is not a Short\."):
        build_request(ApiKeys.PRODUCE, 9, 1, "me", {**PRODUCE, "acks": 70000})


@pytest.mark.parametrize("version", [8, 9, 13])
def test_response_round_trip(version):
    body = {"responses": [], "throttle_time_ms": 12}
    frame = b"".join(build_response(ApiKeys.PRODUCE, version, 77, body))
    assert parse_response_correlation_id(frame) == 77
    correlation_id, struct = parse_response(ApiKeys.PRODUCE, version, memoryview(frame + b"behind"))
    assert correlation_id == 77
    assert struct["throttle_time_ms"] == 12


@pytest.mark.parametrize("tags", ["00", "01" + "0702" + "6162", "02" + "0000" + "8101" + "03616263",
                                  "01" + "07" + "8101" + "20" * 129], ids=["none", "one", "two", "of a long size"])
@pytest.mark.parametrize(("api_key", "version", "body"), [
    (ApiKeys.PRODUCE, 9, {"responses": [], "throttle_time_ms": 12}),
    (ApiKeys.INIT_PRODUCER_ID, 4, {"throttle_time_ms": 12, "error_code": 0, "producer_id": 77, "producer_epoch": 5}),
], ids=["Produce", "InitProducerId"])
def test_response_when_its_header_has_tags_that_nobody_knows_then_the_body_is_read_behind_them(
        api_key, version, body, tags):
    whole = b"".join(build_response(api_key, version, 1, body))
    tagged = whole[:4] + bytes.fromhex(tags) + whole[5:]
    correlation_id, found = parse_response(api_key, version, tagged)
    assert correlation_id == 1
    assert {name: found[name] for name in body} == body


@pytest.mark.parametrize("frame", ["", "000000", "00000001", "0000000100", "0000000100ffffffff0f", "00000001010005"])
def test_response_when_malformed_then_the_peer_is_to_blame(frame):
    with pytest.raises(RemoteProtocolError):
        parse_response(ApiKeys.PRODUCE, 9, bytes.fromhex(frame))


def test_response_when_malformed_then_the_text_names_api_version_and_field():
    with pytest.raises(RemoteProtocolError) as caught:
        parse_response(ApiKeys.PRODUCE, 3, bytes.fromhex("0000000140000000"))
    assert str(caught.value) == ("Error parsing response for apiKey: PRODUCE and apiVersion: 3: Error reading field "
                                 "'responses': Error reading array of size 1073741824, only 0 bytes available")


@pytest.mark.parametrize("version", [0, 1, 3, 4])
def test_api_versions_response_when_unsupported_then_read_as_version_0(version):
    frame = bytes.fromhex("00000007" + "0023" + "00000001" + "001200000004")
    _, body = parse_response(ApiKeys.API_VERSIONS, version, frame)
    assert body["error_code"] == 35
    assert body["api_keys"] == [{"api_key": 18, "min_version": 0, "max_version": 4}]


@pytest.mark.parametrize("rest", ["", "00", "00000001" + "0012"], ids=["no body", "tags alone", "cut short"])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_api_versions_response_when_unsupported_and_no_more_can_be_read_then_the_code_is(version, rest):
    """So do brokers before 2.4, and test doubles of brokers: the code alone says that version 0 is to be asked for."""
    _, body = parse_response(ApiKeys.API_VERSIONS, version, bytes.fromhex("00000007" + "0023" + rest))
    assert body == {"error_code": 35, "api_keys": []}


@pytest.mark.parametrize("version", [0, 1, 3, 4])
def test_api_versions_response_of_other_errors_has_its_own_layout(version):
    frame = b"".join(build_response(ApiKeys.API_VERSIONS, version, 7, {"error_code": 42, "api_keys": []}))
    assert parse_response(ApiKeys.API_VERSIONS, version, frame)[1]["error_code"] == 42
