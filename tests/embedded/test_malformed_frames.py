"""Mutated frames close at most their own connection; the broker keeps serving in bounded memory."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

import psutil

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.child_process import ChildProcessCluster
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.raw_client import (
    ConnectionEnded,
    RawClient,
    fetch_body,
    framed,
    list_offsets_body,
    metadata_body,
    produce_body,
    request_bytes,
)

COUNT = 1500
MAX_GROWTH_BYTES = 64 * 1024 * 1024


def mutated(frame: bytes, random_source: random.Random) -> bytes:
    data = bytearray(frame)
    kind = random_source.randrange(4)
    if kind == 0:
        for _ in range(random_source.randint(1, 8)):
            data[random_source.randrange(len(data))] = random_source.randrange(256)
    elif kind == 1:
        position = random_source.randrange(len(data))
        struct.pack_into(">i", data, min(position, len(data) - 4), random_source.choice((-1, 2**31 - 1, 2**30, -2**31)))
    elif kind == 2:
        del data[random_source.randrange(len(data)):]
    else:
        position = random_source.randrange(len(data))
        data[position:position] = random_source.randbytes(random_source.randint(1, 40))
    return bytes(data)


def frames(random_source: random.Random) -> Iterator[bytes]:
    """Whole frames with a true size and a mutated payload, and now and then a mutated size."""
    batch = bytes(build_batch([(1, b"key", b"value" * 20, ())] * 5))
    requests = [
        request_bytes(ApiKeys.PRODUCE, 9, produce_body("orders", 0, batch)),
        request_bytes(ApiKeys.PRODUCE, 3, produce_body("orders", 0, batch)),
        request_bytes(ApiKeys.METADATA, 12, metadata_body("orders")),
        request_bytes(ApiKeys.METADATA, 1, metadata_body("orders")),
        request_bytes(ApiKeys.FETCH, 12, fetch_body(12, "orders", 0, 0)),
        request_bytes(ApiKeys.LIST_OFFSETS, 1, list_offsets_body("orders", 0, 5)),
        request_bytes(ApiKeys.API_VERSIONS, 3, {"client_software_name": "a", "client_software_version": "1"}),
        request_bytes(ApiKeys.INIT_PRODUCER_ID, 4, {"transactional_id": None, "transaction_timeout_ms": 5}),
        request_bytes(ApiKeys.DELETE_TOPICS, 4, {"topic_names": ["nothing"], "timeout_ms": 5}),
    ]
    for number in range(COUNT):
        payload = mutated(random_source.choice(requests), random_source)
        yield mutated(framed(payload), random_source) if number % 10 == 0 else framed(payload)


def test_malformed_frames_close_their_own_connection_only(start_broker: Callable[..., EmbeddedBroker]) -> None:
    broker = start_broker(topics={"orders": 1}, separate_process=True, auto_create_topics=False,
                          config={"socket.request.max.bytes": 1 << 20})
    cluster = broker._cluster
    assert isinstance(cluster, ChildProcessCluster)
    process = psutil.Process(cluster.pid)
    address = ("127.0.0.1", broker.port)
    before_bytes = process.memory_info().rss
    random_source = random.Random(20260)
    client = RawClient(address, timeout_s=5)
    with RawClient(address) as witness:
        for number, frame in enumerate(frames(random_source)):
            try:
                client.send_bytes(frame)
            except OSError:
                pass  # closed for the frame before
            if number % 3 == 0:
                client.close()
                client = RawClient(address, timeout_s=5)
            if number % 50 == 0:
                assert witness.request(ApiKeys.METADATA, 1, metadata_body("orders"))["topics"][0]["error_code"] == 0
    client.close()
    assert process.memory_info().rss - before_bytes < MAX_GROWTH_BYTES
    assert process.is_running()


def test_a_frame_that_never_ends_costs_nothing(start_broker: Callable[..., EmbeddedBroker]) -> None:
    broker = start_broker(topics={"orders": 1}, separate_process=True)
    cluster = broker._cluster
    assert isinstance(cluster, ChildProcessCluster)
    process = psutil.Process(cluster.pid)
    address = ("127.0.0.1", broker.port)
    before_bytes = process.memory_info().rss
    liars = [RawClient(address) for _ in range(50)]
    for liar in liars:  # 100 MB announced, ten bytes sent
        liar.send_bytes(struct.pack(">i", 100 * 1024 * 1024) + bytes(10))
    with RawClient(address) as witness:
        assert witness.request(ApiKeys.METADATA, 1, metadata_body("orders"))["topics"][0]["error_code"] == 0
    assert process.memory_info().rss - before_bytes < 2 * MAX_GROWTH_BYTES
    for liar in liars:
        try:
            assert liar.is_silent(for_s=0.01)
        except ConnectionEnded:
            pass
        liar.close()
