from __future__ import annotations

import threading
from typing import cast

import pytest

from pyproducer.broker.network.processor import Processor
from pyproducer.broker.network.request_channel import (
    SHUTDOWN_REQUEST,
    CloseConnectionResponse,
    NoOpResponse,
    Request,
    RequestChannel,
    Response,
    ResponseMemory,
    SendResponse,
)
from pyproducer.broker.request.request import AbstractRequest
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import RequestHeader, parse_response
from pyproducer.protocol.schema import Struct
from tests.support.patience import GIVE_UP_S

MIB = 1024 * 1024


class FakeProcessor:
    """Only the queue."""

    def __init__(self, processor_id: int) -> None:
        self.processor_id = processor_id
        self.responses: list[Response] = []

    @property
    def response_queue_size(self) -> int:
        return len(self.responses)

    def enqueue_response(self, response: Response) -> None:
        self.responses.append(response)


def metadata_request(processor: int = 0, correlation_id: int = 1) -> Request:
    body = Struct(ApiKeys.METADATA.request_schema(1), {"topics": []})
    context = RequestContext(RequestHeader(int(ApiKeys.METADATA), 1, correlation_id, "c"), connection_id="a-b-0-0")
    return Request(processor=processor, context=context, body=AbstractRequest(ApiKeys.METADATA, 1, body),
                   size_bytes=10, start_ms=0)


def add(channel: RequestChannel, processor_id: int) -> FakeProcessor:
    processor = FakeProcessor(processor_id)
    channel.add_processor(cast(Processor, processor))
    return processor


def test_body_when_it_is_of_another_type_then_it_is_refused() -> None:
    request = metadata_request()
    assert request.body(ApiKeys.METADATA).data["topics"] == []
    with pytest.raises(TypeError, match="Expected request with type FetchRequest, but found MetadataRequest"):
        request.body(ApiKeys.FETCH)


def test_send_request_when_the_queue_is_full_then_it_blocks() -> None:
    channel = RequestChannel(2)
    requests = [metadata_request(correlation_id=number) for number in range(3)]
    assert channel.send_request(requests[0])
    assert channel.send_request(requests[1])
    third_sent = threading.Event()

    def send_third() -> None:
        channel.send_request(requests[2])
        third_sent.set()

    thread = threading.Thread(target=send_third)
    thread.start()
    assert not third_sent.wait(0.1)
    assert channel.request_queue_size == 2
    assert channel.receive_request(0) is requests[0]
    assert third_sent.wait(GIVE_UP_S)
    thread.join()
    assert [channel.receive_request(0) for _ in range(3)] == [requests[1], requests[2], None]
    assert channel.request_queue_size == 0


def test_close_lets_a_blocked_sender_go() -> None:
    channel = RequestChannel(1)
    channel.send_request(metadata_request())
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(channel.send_request(metadata_request())))
    thread.start()
    channel.close()
    thread.join()
    assert results == [False]


def test_shutdown_request_when_requests_wait_then_it_comes_after_them() -> None:
    channel = RequestChannel(5)
    request = metadata_request()
    channel.send_request(request)
    channel.send_shutdown_request()
    assert channel.receive_request(300) is request
    assert channel.receive_request(300) is SHUTDOWN_REQUEST
    assert channel.receive_request(1) is None


def test_response_when_there_are_processors_then_it_goes_to_that_of_its_request_only() -> None:
    channel = RequestChannel(5)
    processors = [add(channel, number) for number in range(3)]
    channel.send_body(metadata_request(processor=2, correlation_id=99),
                      {"brokers": [], "controller_id": 1, "topics": []})
    channel.send_no_op(metadata_request(processor=1))
    channel.send_close_connection(metadata_request(processor=1))
    assert channel.response_queue_sizes() == {0: 0, 1: 2, 2: 1}
    (sent,) = processors[2].responses
    assert isinstance(sent, SendResponse)
    assert parse_response(ApiKeys.METADATA, 1, b"".join(sent.chunks))[0] == 99
    assert [type(response) for response in processors[1].responses] == [NoOpResponse, CloseConnectionResponse]


def test_response_when_its_processor_was_removed_then_it_is_dropped() -> None:
    channel = RequestChannel(5)
    processor = add(channel, 0)
    channel.remove_processor(0)
    channel.send_no_op(metadata_request(processor=0))
    assert processor.responses == []


# ---- what large responses hold

def answered(channel: RequestChannel, size_bytes: int, processor: int = 0) -> None:
    channel.send_body(metadata_request(processor), {"brokers": [], "controller_id": 1, "topics": [
        {"error_code": 0, "name": "x" * 1000, "is_internal": False, "partitions": []}] * (size_bytes // 1000)})


def test_large_responses_when_nobody_reads_them_then_the_next_may_have_a_part_of_what_is_left() -> None:
    """Forty readers asked for 50 MiB each and read nothing: the broker held 1.4 GiB."""
    memory = ResponseMemory(100 * MIB, handlers=4)
    channel = RequestChannel(10, memory)
    processor = add(channel, 0)
    assert memory.room_bytes() == 25 * MIB
    answered(channel, 20 * MIB)
    assert 20 * MIB < memory.held_bytes < 21 * MIB
    assert memory.room_bytes() == (100 * MIB - memory.held_bytes) // 4
    for _ in range(5):
        answered(channel, 20 * MIB)
    assert memory.room_bytes() == MIB, "so much in any case"
    processor.responses.clear()
    assert memory.held_bytes == 0


def test_large_response_when_its_processor_is_gone_then_it_is_not_held() -> None:
    memory = ResponseMemory(100 * MIB)
    answered(RequestChannel(10, memory), 2 * MIB)
    assert memory.held_bytes == 0


def test_small_responses_when_they_wait_then_they_are_not_counted() -> None:
    memory = ResponseMemory(100 * MIB)
    channel = RequestChannel(10, memory)
    add(channel, 0)
    answered(channel, 50_000)
    assert memory.held_bytes == 0
