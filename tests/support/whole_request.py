"""A request frame, read as a whole; a broker reads header and body on two threads."""

from __future__ import annotations

from typing import NamedTuple

from pyproducer.broker.request.request import AbstractRequest
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import RequestHeader, read_request_header
from pyproducer.record.layout import Buffer


class ParsedRequest(NamedTuple):
    """Everything a frame says: its header, its body, and how many bytes both took."""

    header: RequestHeader
    request: AbstractRequest
    size_in_bytes: int


def parse_request(payload: Buffer) -> ParsedRequest:
    """Read a whole request frame, without its size.

    Shape: bytes and records in the body are views of `payload`.
    """
    reader = ByteReader(payload)
    header = read_request_header(reader)
    start = reader.position
    request, size_bytes = RequestContext(header).parse_request(reader)
    return ParsedRequest(header, request, start + size_bytes)
