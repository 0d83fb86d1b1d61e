"""How many elements a frame may have: two bytes on the wire become an object, and a call of the handler, each.

FindCoordinator with two megabytes of empty keys held a handler for 35 seconds, DescribeGroups for 51.
"""

from __future__ import annotations

import pytest

from pyproducer.broker.request.request_context import RequestContext
from pyproducer.common.errors import InvalidRequestError, SchemaError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader, ByteWriter
from pyproducer.protocol.header import read_request_header
from pyproducer.protocol.schema import Field, Schema
from pyproducer.protocol.straight_line import reader_of
from pyproducer.protocol.types import COMPACT_STRING, INT32, STRING, ArrayOf, CompactArrayOf
from tests.support.raw_client import produce_body, request_bytes

NESTED = Schema(Field("topics", CompactArrayOf(Schema(
    Field("name", COMPACT_STRING), Field("partitions", CompactArrayOf(INT32)), tagged={}))), tagged={})
NESTED_VALUE = {"topics": [{"name": "a", "partitions": [1, 2, 3]}, {"name": "b", "partitions": [4]}]}
TEXTS = Schema(Field("names", ArrayOf(STRING)))
TAGGED = Schema(tagged={0: Field("names", CompactArrayOf(COMPACT_STRING), default=[])})


def bytes_of(schema: Schema, value: object) -> bytes:
    writer = ByteWriter()
    schema.write_by_field(writer, value)
    return writer.to_bytes()


@pytest.mark.parametrize(("schema", "data", "count"), [
    (NESTED, bytes_of(NESTED, NESTED_VALUE), 6),
    (TEXTS, bytes_of(TEXTS, {"names": ["x"] * 5}), 5),
    (TAGGED, bytes_of(TAGGED, {"names": ["x", "y"]}), 3),  # a tag counts, too
    (Schema(tagged={}), b"\x04" + b"\x63\x00" * 4, 4),
], ids=["nested", "texts", "tagged", "unknown tags"])
@pytest.mark.parametrize("is_compiled", [False, True], ids=["by field", "compiled"])
def test_frame_when_it_has_more_elements_than_its_reader_allows_then_it_is_refused(
        schema: Schema, data: bytes, count: int, is_compiled: bool) -> None:
    read = reader_of(schema) if is_compiled else schema.read_by_field
    enough = ByteReader(data, max_elements=count)
    read(enough)
    assert (enough.remaining, enough.elements_left) == (0, 0)
    with pytest.raises(Exception, match=None if is_compiled else "more elements than"):
        read(ByteReader(data, max_elements=count - 1))


def test_frame_when_the_compiled_reader_refuses_it_then_the_elements_are_counted_anew() -> None:
    data = bytes_of(NESTED, NESTED_VALUE)
    for _ in range(3):  # the third time by the compiled function
        with pytest.raises(SchemaError, match=r"Error reading field 'topics': .*'partitions': .*more elements than"):
            NESTED.read(ByteReader(data, max_elements=5))
        assert NESTED.read(ByteReader(data, max_elements=6)) == NESTED_VALUE


def test_reader_when_nothing_is_said_then_there_is_no_limit() -> None:
    """A client believes its broker: Metadata of 200,000 partitions is lawful."""
    assert len(TEXTS.read(ByteReader(bytes_of(TEXTS, {"names": [""] * 300_000})))["names"]) == 300_000


def test_request_when_it_names_too_many_things_then_the_error_says_which_api_and_field() -> None:
    body = produce_body("orders", 0, None)
    body["topic_data"] *= 3
    payload = request_bytes(ApiKeys.PRODUCE, 9, body)
    reader = ByteReader(payload, max_elements=5)
    context = RequestContext(read_request_header(reader))
    with pytest.raises(InvalidRequestError, match=r"apiKey: 0 and apiVersion: 9: .*topic_data.*more elements than"):
        context.parse_request(reader)


def test_header_when_it_has_too_many_tags_then_it_is_refused() -> None:
    """It is read on the network thread, where two megabytes of empty tags would hold up everybody."""
    header = b"\x00\x03\x00\x09" + bytes(4) + b"\x00\x00"
    with pytest.raises(InvalidRequestError, match="more elements than"):
        read_request_header(ByteReader(header + b"\xe8\x07" + b"\x63\x00" * 1000, max_elements=999))
    read_request_header(ByteReader(header + b"\xe8\x07" + b"\x63\x00" * 1000, max_elements=1000))
