"""Headers and bodies put together: requests as they leave, responses as they arrive, and the other way round.

    request  v0: api_key i16, api_version i16, correlation_id i32                 (ControlledShutdown 0 alone)
             v1: v0 + client_id NULLABLE_STRING
             v2: v1 + tags; client_id keeps its INT16 length
    response v0: correlation_id i32                                               (every ApiVersions)
             v1: v0 + tags

Bytes behind a body and unknown tags are passed over, as Kafka's broker does (measured on 4.1).

Road:    body -> [build_request] -> network -> [read_request_header]; body -> [build_response] -> [parse_response]
Thread:  any; pure functions.
Shape:   frames without their 4-byte size.
Source:  Java RequestHeader, ResponseHeader (4.1), seed of both; RequestHeader.json, ResponseHeader.json.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from pyproducer.common.errors import (
    InvalidRequestError,
    ProtocolError,
    RemoteProtocolError,
    SchemaError,
)
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import Buffer, ByteReader, ByteWriter
from pyproducer.protocol.message import f, message
from pyproducer.protocol.schema import Schema, Struct
from pyproducer.protocol.types import INT16, INT32, STRING

REQUEST_HEADER = message(
    "RequestHeader",
    f("request_api_key", INT16, doc="The id of the request type."),
    f("request_api_version", INT16, doc="The version of the API."),
    f("correlation_id", INT32, doc="A user-supplied integer value that will be passed back with the response."),
    f(
        "client_id",
        STRING,
        "1+",
        nullable="1+",
        default="",
        compactable=False,
        doc="A user specified identifier for the client making the request.",
    ),
)

CONTROLLED_SHUTDOWN_API_ID = 7
UNSUPPORTED_VERSION_CODE = 35
_UNSUPPORTED_VERSION_BODY = b"\x00\x23\x00\x00\x00\x00"  # in version 0: the code, and no entry
MAX_CORRELATION_ID = 2**31 - 1

_REQUEST_HEADER_SCHEMAS = tuple(REQUEST_HEADER.schema(version, flexible=version >= 2) for version in range(3))
_FIXED_PART = struct.Struct(">hhi")
_API_VERSIONS = ApiKeys.API_VERSIONS  # a look-up in an Enum costs a call
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """Who asks what: the first bytes of each request. `api_key` is the number; it need not be in our table."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    @classmethod
    def parse(cls, payload: Buffer) -> RequestHeader:
        """Read the header of a request that lies in memory; see `read_request_header`, which goes on to its body."""
        return read_request_header(ByteReader(payload))


def request_header_schema(api_id: int, version: int) -> Schema:
    """Return the schema of a request's header.

    Raises:
        InvalidRequestError: We do not speak such an API. Unknown.
    """
    if api_id == CONTROLLED_SHUTDOWN_API_ID:
        return _REQUEST_HEADER_SCHEMAS[0 if version == 0 else 1]
    return _REQUEST_HEADER_SCHEMAS[ApiKeys.for_id(api_id).request_header_version(version)]


@lru_cache(maxsize=256)
def _client_id_bytes(client_id: str | None, header_version: int) -> bytes:
    writer = ByteWriter()
    schema = _REQUEST_HEADER_SCHEMAS[header_version]
    schema.write(writer, {"request_api_key": 0, "request_api_version": 0, "correlation_id": 0, "client_id": client_id})
    return writer.to_bytes()[_FIXED_PART.size :]


def build_request(
    api_key: ApiKeys, api_version: int, correlation_id: int, client_id: str | None, body: Mapping[str, Any]
) -> list[Buffer]:
    """Build a request, header and body.

    Raises:
        SchemaError: A value of the body does not fit; the text names the field. Not sent.
        UnsupportedVersionError: No such version, or the body says something that this version can not say. Not sent.

    Shape: chunks in order, without the frame's size; large record payloads are the objects in `body`.
    """
    schema, header_version = api_key.request_formats[api_version]
    writer = ByteWriter()
    writer.tail += _FIXED_PART.pack(api_key, api_version, correlation_id)
    writer.tail += _client_id_bytes(client_id, header_version)
    schema.write(writer, body)
    return writer.chunks()


def parse_response_correlation_id(payload: Buffer) -> int:
    """Return the correlation id at the start of any response.

    Raises:
        RemoteProtocolError: Fewer than four bytes came. Unknown.
    """
    if len(payload) < _INT32.size:
        raise RemoteProtocolError(f"A response of {len(payload)} bytes has no correlation id")
    value: int = _INT32.unpack_from(payload)[0]
    return value


def parse_response(api_key: ApiKeys, api_version: int, payload: Buffer) -> tuple[int, Struct]:
    """Read a response to a request of ours; return its correlation id and its body, see `read_response`.

    Raises:
        RemoteProtocolError: The bytes are not such a response; `__cause__` names the field. Unknown.
        UnsupportedVersionError: We have no such version. Unknown.
    """
    return parse_response_correlation_id(payload), read_response(api_key, api_version, payload)


def read_response(api_key: ApiKeys, api_version: int, payload: Buffer) -> Struct:
    """Read the body of a response to a request of ours, whose correlation id was looked at.

    An ApiVersions response with error 35 has the layout of version 0, whatever was asked: a broker that does not know
    the version can not answer in it. Its `api_keys` then holds at most the range of ApiVersions itself; none when what
    follows the code is in some other layout (brokers below 2.4 end there, librdkafka's mock cluster writes its own).

    Raises:
        RemoteProtocolError: The bytes are not such a response; `__cause__` names the field. Unknown.
        UnsupportedVersionError: We have no such version. Unknown.

    Shape: bytes and records in the body are views of `payload`.
    """
    schema, header_version = api_key.response_formats[api_version]
    reader = ByteReader(payload)
    reader.position = _INT32.size
    try:
        if header_version:
            if reader.end > _INT32.size and reader.data[_INT32.size] == 0:  # no tags: as it always was so far
                reader.position += 1
            else:
                _skip_tags(reader)
        if api_key is _API_VERSIONS and reader.remaining >= _INT16.size:
            error_code: int = _INT16.unpack_from(reader.data, reader.position)[0]
            if error_code == UNSUPPORTED_VERSION_CODE:
                return _read_unsupported_version(reader)
        return schema.read(reader)
    except SchemaError as error:
        raise RemoteProtocolError(
            f"Error parsing response for apiKey: {api_key.name} and apiVersion: {api_version}: {error}"
        ) from error


def _read_unsupported_version(reader: ByteReader) -> Struct:
    schema = ApiKeys.API_VERSIONS.response_schema(0)
    start = reader.position
    try:
        return schema.read(reader)
    except SchemaError:
        # The code alone says what to do: ask again in version 0.
        reader.position = start
        return schema.read(ByteReader(_UNSUPPORTED_VERSION_BODY))


def _skip_tags(reader: ByteReader) -> None:
    for _ in range(reader.read_uvarint()):
        reader.read_uvarint()
        reader.take(reader.read_uvarint())


def read_request_header(reader: ByteReader) -> RequestHeader:
    """Read a request's header and leave the reader at its body.

    Raises:
        InvalidRequestError: The header is cut short or malformed, or the API is unknown. Unknown.
    """
    if reader.remaining < 2 * _INT16.size:
        raise InvalidRequestError(f"A request of {reader.remaining} bytes has no header")
    api_id: int = _INT16.unpack_from(reader.data, reader.position)[0]
    version: int = _INT16.unpack_from(reader.data, reader.position + 2)[0]
    try:
        header = request_header_schema(api_id, version).read(reader)
    except ProtocolError as error:
        raise InvalidRequestError(
            f"Error parsing request header. Our best guess of the apiKey is: {api_id}: {error}"
        ) from error
    return RequestHeader(api_id, version, header["correlation_id"], header.get("client_id", ""))


def build_response(api_key: ApiKeys, api_version: int, correlation_id: int, body: Mapping[str, Any]) -> list[Buffer]:
    """Build a response, header and body.

    Raises:
        SchemaError: A value of the body does not fit; the text names the field.
        UnsupportedVersionError: No such version.

    Shape: chunks in order, without the frame's size; large record payloads are the objects in `body`.
    """
    schema, header_version = api_key.response_formats[api_version]
    writer = ByteWriter()
    writer.tail += _INT32.pack(correlation_id)
    if header_version:
        writer.tail.append(0)
    schema.write(writer, body)
    return writer.chunks()
