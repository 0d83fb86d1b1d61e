"""A handler's thread, played by the test: it takes requests from the channel until it is told to end."""

from __future__ import annotations

import logging

import pytest

from pyproducer.broker.network.handler_pool import KafkaRequestHandler
from pyproducer.broker.network.request_channel import CloseConnectionResponse, Request, RequestChannel, Response
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import ByteReader
from pyproducer.protocol.header import read_request_header
from tests.support.raw_client import metadata_body, request_bytes


class NotingChannel(RequestChannel):
    """A channel that notes what goes back to the network."""

    def __init__(self) -> None:
        super().__init__(10)
        self.sent: list[Response] = []

    def send_response(self, response: Response) -> None:
        self.sent.append(response)


def unread_request(payload: bytes) -> Request:
    reader = ByteReader(payload)
    context = RequestContext(read_request_header(reader), connection_id="of the test")
    return Request(processor=0, context=context, reader=reader, size_bytes=len(payload), start_ms=0)


def handle(*requests: Request) -> tuple[list[Request], NotingChannel]:
    handled: list[Request] = []
    channel = NotingChannel()
    for request in requests:
        channel.send_request(request)
    channel.send_shutdown_request()
    KafkaRequestHandler(0, 1, channel, handled.append).run()
    return handled, channel


def test_handler_when_it_takes_a_request_then_it_reads_its_body() -> None:
    """A network thread that read a Metadata request of two megabytes kept a third of all clients waiting meanwhile."""
    request = unread_request(request_bytes(ApiKeys.METADATA, 1, metadata_body("orders")))
    handled, channel = handle(request)
    assert handled == [request]
    assert request.data == {"topics": [{"name": "orders"}]}
    assert channel.sent == []


def test_handler_when_a_body_makes_no_sense_then_its_connection_is_closed_and_the_next_is_handled(
        caplog: pytest.LogCaptureFixture) -> None:
    bad = unread_request(request_bytes(ApiKeys.METADATA, 1, metadata_body("orders"))[:-3])
    good = unread_request(request_bytes(ApiKeys.METADATA, 1, metadata_body("orders")))
    with caplog.at_level(logging.ERROR):
        handled, channel = handle(bad, good)
    assert handled == [good]
    assert channel.sent == [CloseConnectionResponse(bad)]
    assert "Exception while processing request from of the test: Error getting request for apiKey: 3" in caplog.text


def test_request_when_its_body_was_not_read_yet_then_nobody_may_use_it() -> None:
    request = unread_request(request_bytes(ApiKeys.METADATA, 1, metadata_body("orders")))
    with pytest.raises(TypeError, match="not been read"):
        _ = request.data
    request.read_body()
    request.read_body()  # once more, as a request that a fault delayed comes to a handler twice
    assert request.data == {"topics": [{"name": "orders"}]}
