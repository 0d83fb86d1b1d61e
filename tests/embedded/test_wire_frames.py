"""Sizes, headers and bodies as bytes, and what they are answered with.

What is expected is what Apache Kafka 4.1 answered; the same tests run against it with KAFKA_REFERENCE=host:port.
"""

from __future__ import annotations

import struct

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response_correlation_id
from pyproducer.record.batch_writer import build_batch
from tests.embedded.conftest import WireTarget
from tests.support.raw_client import framed, header_bytes, metadata_body, produce_body, request_bytes

NO_TOPICS = struct.pack(">i", 0)


def metadata_request(correlation_id: int = 7, *, client_id: bytes | None = b"probe") -> bytes:
    return header_bytes(ApiKeys.METADATA, 1, correlation_id, client_id) + NO_TOPICS


def test_request_when_it_comes_byte_by_byte_then_it_is_answered(wire: WireTarget) -> None:
    with wire.connect() as client:
        for byte in framed(metadata_request(7)):
            client.send_bytes(bytes([byte]))
        assert parse_response_correlation_id(client.receive_frame()) == 7


def test_requests_when_three_come_in_one_write_then_they_are_answered_in_order(wire: WireTarget) -> None:
    with wire.connect() as client:
        client.send_bytes(b"".join(framed(metadata_request(number)) for number in (100, 101, 102)))
        assert [parse_response_correlation_id(client.receive_frame()) for _ in range(3)] == [100, 101, 102]


@pytest.mark.parametrize("size", [0, -1, -2**31])
def test_size_when_it_is_not_positive_then_its_connection_alone_is_closed(wire: WireTarget, size: int) -> None:
    with wire.connect() as other, wire.connect() as client:
        client.send_bytes(struct.pack(">i", size))
        assert client.is_closed()
        assert other.request(ApiKeys.METADATA, 1, metadata_body())["topics"] == []


@pytest.mark.parametrize("size", [100 * 1024 * 1024 + 1, 2**31 - 1])
def test_size_when_it_is_above_the_limit_then_the_connection_is_closed(wire: WireTarget, size: int) -> None:
    with wire.connect() as client:
        client.send_bytes(struct.pack(">i", size))
        assert client.is_closed()


def test_request_when_the_stream_ends_inside_it_then_nothing_is_executed(wire: WireTarget, topic: str) -> None:
    request = framed(request_bytes(ApiKeys.PRODUCE, 9, produce_body(topic, 0, build_batch([(1, b"k", b"v", ())]))))
    with wire.connect() as client:
        client.send_bytes(request[:-1])
        client.half_close()
        assert client.is_closed(), "the broker has seen the end"
    assert wire.end_offset(topic) == 0


@pytest.mark.parametrize("api_id", [999, -1])
def test_api_when_it_is_unknown_then_the_connection_is_closed(wire: WireTarget, api_id: int) -> None:
    with wire.connect() as client:
        client.send_frame(header_bytes(api_id, 0))
        assert client.is_closed()


def test_client_id_when_it_is_null_then_the_request_is_answered(wire: WireTarget) -> None:
    with wire.connect() as client:
        client.send_frame(metadata_request(9, client_id=None))
        assert parse_response_correlation_id(client.receive_frame()) == 9


def test_tags_when_header_and_body_have_unknown_ones_then_they_are_passed_over(wire: WireTarget) -> None:
    tags = b"\x01\x63\x02ab"  # one field, tag 99, two bytes
    body = b"\x01" + b"\x00" * 3 + tags  # no topics, three switches off
    with wire.connect() as client:
        client.send_frame(header_bytes(ApiKeys.METADATA, 9, 5) + tags + body)
        frame = client.receive_frame()
    assert frame[:9] == struct.pack(">ibi", 5, 0, 0)


@pytest.mark.parametrize("payload", [
    b"\x00\x03\x00",  # shorter than any header
    header_bytes(ApiKeys.METADATA, 1)[:8] + struct.pack(">h", 500) + b"short",  # client id runs out of the frame
], ids=["three bytes", "client id"])
def test_header_when_it_is_malformed_then_the_connection_is_closed(wire: WireTarget, payload: bytes) -> None:
    with wire.connect() as client:
        client.send_frame(payload)
        assert client.is_closed()


def test_controlled_shutdown_when_it_is_asked_for_then_the_connection_is_closed(wire: WireTarget) -> None:
    with wire.connect() as client:
        client.send_frame(struct.pack(">hhi", 7, 0, 1) + struct.pack(">i", 0))
        assert client.is_closed()


@pytest.mark.parametrize("version", [5, 120])
def test_api_versions_when_its_version_is_unknown_then_it_is_answered_as_version_0(
        wire: WireTarget, version: int) -> None:
    with wire.connect() as client:
        client.send_frame(header_bytes(ApiKeys.API_VERSIONS, version) + b"\x00anything at all")
        assert client.receive_frame().hex() == "00000007" "0023" "00000001" "0012" "0000" "0004"
        assert client.request(ApiKeys.API_VERSIONS, 0, {})["error_code"] == 0


def test_api_versions_when_it_is_of_version_3_then_produce_is_named_from_0(wire: WireTarget) -> None:
    software = {"client_software_name": "probe", "client_software_version": "1.0"}
    with wire.connect() as client:
        answer = client.request(ApiKeys.API_VERSIONS, 3, software)
    ranges = {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]}
    assert ranges[ApiKeys.PRODUCE] == (0, 13)
    assert ranges[ApiKeys.METADATA] == (0, 13)
    assert ranges[ApiKeys.API_VERSIONS] == (0, 4)


@pytest.mark.parametrize("name", ["", "-probe", "pro be", "probe."])
def test_api_versions_when_the_software_name_is_odd_then_invalid_request(wire: WireTarget, name: str) -> None:
    with wire.connect() as client:
        answer = client.request(ApiKeys.API_VERSIONS, 3,
                                {"client_software_name": name, "client_software_version": "1.0"})
    assert (answer["error_code"], answer["api_keys"]) == (42, [])


@pytest.mark.parametrize("payload", [
    header_bytes(ApiKeys.METADATA, 99),
    header_bytes(ApiKeys.PRODUCE, 2) + b"\x00" * 10,
    header_bytes(ApiKeys.METADATA, 1) + b"\x00\x00",
    header_bytes(ApiKeys.METADATA, 1) + struct.pack(">i", 2**30),
    header_bytes(ApiKeys.METADATA, 0) + struct.pack(">i", -1),
    header_bytes(ApiKeys.INIT_PRODUCER_ID, 6) + b"\x00" * 30,
], ids=["Metadata 99", "Produce 2", "truncated", "2^30 entries", "null in version 0", "unstable version"])
def test_body_when_it_cannot_be_read_then_the_connection_is_closed(wire: WireTarget, payload: bytes) -> None:
    with wire.connect() as client:
        client.send_frame(payload)
        assert client.is_closed()


def test_body_when_bytes_follow_it_then_they_are_passed_over(wire: WireTarget) -> None:
    with wire.connect() as client:
        client.send_frame(metadata_request(11) + b"garbage")
        assert parse_response_correlation_id(client.receive_frame()) == 11
