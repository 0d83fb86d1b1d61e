"""A request as a broker's handler gets it: built as a client would, parsed as a processor does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyproducer.broker.network.request_channel import Request
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import read_request_header
from tests.support.raw_client import CLIENT_ID, request_bytes


def broker_request(api_key: ApiKeys, version: int, body: Mapping[str, Any], *, client_id: str | None = CLIENT_ID,
                   size_bytes: int | None = None, connection_id: str = "") -> Request:
    """Return a request of one connection; its size is its own unless the test says another."""
    payload = request_bytes(api_key, version, body, client_id=client_id)
    reader = ByteReader(payload)
    context = RequestContext(read_request_header(reader), connection_id=connection_id)
    return Request(processor=0, context=context, body=context.parse_request(reader).request,
                   size_bytes=len(payload) if size_bytes is None else size_bytes, start_ms=0)
