"""One request of a connection at a time, in order, also when the peer hangs up.

What is expected is what Apache Kafka 4.1 did; the same tests run against it with KAFKA_REFERENCE=host:port.
"""

from __future__ import annotations

import contextlib
import struct
import time

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response, parse_response_correlation_id
from pyproducer.record.batch_writer import build_batch
from tests.embedded.conftest import WireTarget
from tests.support.raw_client import (
    ConnectionEnded,
    RawClient,
    fetch_body,
    fetched,
    framed,
    metadata_body,
    produce_body,
    produced,
    request_bytes,
)

PRODUCE_VERSION = 9


def batch(value: bytes = b"v", **fields: int) -> bytes:
    return bytes(build_batch([(int(time.time() * 1000), b"k", value, ())], **fields))


def send_produce(client: RawClient, topic: str, *, partition: int = 0, acks: int, records: bytes | None = None) -> int:
    return client.send_request(ApiKeys.PRODUCE, PRODUCE_VERSION,
                               produce_body(topic, partition, records or batch(), acks=acks))


def let_each_processor_look(wire: WireTarget) -> None:
    """Return when each processor has read what it is willing to read, and handlers have done it.

    New connections go to the processors in turn; one that answers two requests, one after the other, has looked at all
    its connections in between.
    """
    with contextlib.ExitStack() as stack:
        connected = [stack.enter_context(wire.connect()) for _ in range(12)]
        for _ in range(3):
            for client in connected:
                client.request(ApiKeys.METADATA, 1, metadata_body())


def test_produce_when_acks_is_0_then_there_is_no_response_and_the_connection_stays_usable(
        wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        send_produce(client, topic, acks=0)
        send_produce(client, topic, acks=0)
        correlation_id = client.send_request(ApiKeys.METADATA, 1, metadata_body())
        assert client.receive_response(ApiKeys.METADATA, 1)[0] == correlation_id
        assert client.is_silent()
    wire.await_end_offset(2, topic)


def test_request_when_it_is_behind_a_long_poll_then_it_waits_for_it(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        client.request(ApiKeys.METADATA, 1, metadata_body())
        begin = time.monotonic()
        client.send_bytes(
            framed(request_bytes(ApiKeys.FETCH, 4, fetch_body(4, topic, 0, 0, max_wait_ms=500), correlation_id=1))
            + framed(request_bytes(ApiKeys.METADATA, 1, metadata_body(), correlation_id=2)))
        assert parse_response_correlation_id(client.receive_frame()) == 1
        assert time.monotonic() - begin > 0.48
        assert parse_response_correlation_id(client.receive_frame()) == 2


def test_connection_when_a_large_response_is_not_taken_then_nothing_is_read(wire: WireTarget, topic: str) -> None:
    value = b"x" * 1_000_000
    with wire.connect() as client:
        for _ in range(8):
            assert produced(client.request(ApiKeys.PRODUCE, PRODUCE_VERSION,
                                           produce_body(topic, 0, batch(value))))["error_code"] == 0
    with wire.connect() as slow:
        slow.send_request(ApiKeys.FETCH, 4, fetch_body(4, topic, 0, 0, max_bytes=1 << 25, partition_max_bytes=1 << 25))
        send_produce(slow, topic, partition=1, acks=0)
        (size,) = struct.unpack(">i", slow.receive_bytes(4))  # the response is on its way
        let_each_processor_look(wire)
        assert wire.end_offset(topic, 1) == 0, "the next request was read before the response was taken"
        records = fetched(parse_response(ApiKeys.FETCH, 4, slow.receive_bytes(size))[1])["records"]
        assert len(records) > 8_000_000
        wire.await_end_offset(1, topic, 1)


def test_requests_when_they_are_pipelined_then_they_are_answered_in_order(wire: WireTarget) -> None:
    count = 1000
    with wire.connect() as client:
        client.send_bytes(b"".join(
            framed(request_bytes(ApiKeys.METADATA, 1, metadata_body(), correlation_id=number))
            for number in range(count)))
        found = [parse_response_correlation_id(client.receive_frame()) for _ in range(count)]
    assert found == list(range(count))


def test_idempotent_batches_when_they_are_pipelined_then_they_keep_their_sequence(wire: WireTarget, topic: str) -> None:
    count = 500
    with wire.connect() as client:
        producer = client.request(ApiKeys.INIT_PRODUCER_ID, 1, {"transactional_id": None, "transaction_timeout_ms": 1})
        batches = [batch(b"%d" % number, producer_id=producer["producer_id"], producer_epoch=0, base_sequence=number)
                   for number in range(count)]
        for records in batches:
            send_produce(client, topic, acks=-1, records=records)
        answers = [produced(client.receive_response(ApiKeys.PRODUCE, PRODUCE_VERSION)[1]) for _ in range(count)]
    assert {answer["error_code"] for answer in answers} == {0}
    assert [answer["base_offset"] for answer in answers] == list(range(count))


@pytest.mark.parametrize(("partition", "damage"), [(77, False), (0, True)], ids=["unknown partition", "bad CRC"])
def test_produce_when_acks_is_0_and_it_is_refused_then_the_connection_is_closed_and_what_is_behind_it_lost(
        wire: WireTarget, topic: str, partition: int, damage: bool) -> None:
    records = bytearray(batch())
    if damage:
        records[-1] ^= 0xFF
    with wire.connect() as client:
        client.send_bytes(
            framed(request_bytes(ApiKeys.PRODUCE, PRODUCE_VERSION,
                                 produce_body(topic, partition, bytes(records), acks=0)))
            + framed(request_bytes(ApiKeys.METADATA, 1, metadata_body())))
        assert client.is_closed()


def test_requests_when_acks_is_0_and_the_connection_is_closed_then_they_are_executed(
        wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        for _ in range(3):
            send_produce(client, topic, acks=0)
    wire.await_end_offset(3, topic)


def test_connection_when_it_is_half_closed_then_it_gets_all_its_answers(wire: WireTarget, topic: str) -> None:
    with wire.connect() as client:
        for _ in range(3):
            send_produce(client, topic, acks=1)
        client.half_close()
        for _ in range(3):
            assert produced(client.receive_response(ApiKeys.PRODUCE, PRODUCE_VERSION)[1])["error_code"] == 0
        with pytest.raises(ConnectionEnded):
            client.receive_frame()
    assert wire.end_offset(topic) == 3


def test_requests_when_their_connection_is_reset_with_its_answers_unread_then_they_are_executed_once(
        wire: WireTarget, topic: str) -> None:
    client = wire.connect()
    for _ in range(3):
        send_produce(client, topic, acks=1)
    wire.await_end_offset(3, topic)  # what a broker has not read yet, a reset takes from it
    client.reset()
    with wire.connect() as other:
        assert produced(other.request(ApiKeys.PRODUCE, PRODUCE_VERSION,
                                      produce_body(topic, 0, batch())))["base_offset"] == 3
