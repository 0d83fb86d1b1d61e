"""10,000 malformed frames close at most their own connection; the broker keeps serving in bounded memory.

Frames of every API and version, mutated; frames whose bodies are right for the codec and nonsense otherwise; and what
hypothesis makes up. Each goes over a connection of its own, and the broker has dealt with it when that ends.
"""

from __future__ import annotations

import logging
import random
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.control.child_process import ChildProcessCluster
from pyproducer.broker.network.flood_log import LINES
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.patience import GIVE_UP_S
from tests.support.random_messages import random_value
from tests.support.raw_client import (
    ConnectionEnded,
    RawClient,
    fetch_body,
    framed,
    list_offsets_body,
    metadata_body,
    produce_body,
    produced,
    request_bytes,
)

MUTATED_COUNT = 8000
NONSENSE_COUNT = 2000
MADE_UP_COUNT = 250
ON_THEIR_WAY = 32
MAX_GROWTH_BYTES = 64 * 1024 * 1024
NAMES = ("fruits", "other")  # not what the witnesses ask for: some of what is sent deletes topics
LENGTHS = (-1, 0, 1, 2**15 - 1, 2**30, 2**31 - 1, -2**31)


def process_of(broker: EmbeddedBroker) -> psutil.Process:
    cluster = broker._cluster
    assert isinstance(cluster, ChildProcessCluster)
    return psutil.Process(cluster.pid)


class Attack:
    """Sends frames, each over its own connection, while witnesses on theirs see that the broker serves."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._address = ("127.0.0.1", broker.port)
        self._process = process_of(broker)
        self._before_bytes = self._process.memory_info().rss
        self._on_their_way: deque[socket.socket] = deque()
        self.sent = 0
        self.closed = 0  # without an answer
        self.witnesses = [RawClient(self._address) for _ in range(5)]

    def send(self, frame: bytes) -> None:
        connection = socket.create_connection(self._address, timeout=GIVE_UP_S)
        try:
            connection.sendall(frame)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed before the frame's end
        self._on_their_way.append(connection)
        if len(self._on_their_way) > ON_THEIR_WAY:
            self._await_end(self._on_their_way.popleft())
        self.sent += 1
        if self.sent % 100 == 0:
            self.check()

    def _await_end(self, connection: socket.socket) -> None:
        connection.settimeout(0.1)
        try:
            answer = connection.recv(1)
            self.closed += not answer
            while answer:
                answer = connection.recv(1 << 16)
        except TimeoutError:
            pass  # a long poll, or a group's join: it is as it should be
        except OSError:
            self.closed += 1  # reset: the broker had more to read
        connection.close()

    def check(self) -> None:
        for witness in self.witnesses:
            topic = witness.request(ApiKeys.METADATA, 1, metadata_body("orders"))["topics"][0]
            assert topic["error_code"] == 0
        assert self._process.memory_info().rss - self._before_bytes < MAX_GROWTH_BYTES

    def end(self) -> None:
        while self._on_their_way:
            self._await_end(self._on_their_way.popleft())
        self.check()
        batch = bytes(build_batch([(1, b"key", b"value", ())]))
        for witness in self.witnesses:
            answer = produced(witness.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, batch)))
            assert answer["error_code"] == 0

    def close(self) -> None:
        for connection in (*self._on_their_way, *self.witnesses):
            connection.close()


@pytest.fixture
def attack(start_broker: Callable[..., EmbeddedBroker]) -> Iterator[Attack]:
    broker = start_broker(topics={"orders": 1, "fruits": 2}, separate_process=True, auto_create_topics=False,
                          config={"socket.request.max.bytes": 1 << 20})
    # Its threads, its group and its topics are there before memory is counted.
    with RawClient(("127.0.0.1", broker.port)) as client:
        client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": "orders", "key_type": 0})
        client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": "orders", "key_type": 1})
    attack = Attack(broker)
    try:
        yield attack
        attack.end()
    finally:
        attack.close()


def real_requests(source: random.Random) -> list[bytes]:
    """Requests that a client sends, and one that the codec takes of each version of each API."""
    batch = bytes(build_batch([(1, b"key", b"value" * 20, ())] * 5))
    return [
        request_bytes(ApiKeys.PRODUCE, 9, produce_body("orders", 0, batch)),
        request_bytes(ApiKeys.PRODUCE, 3, produce_body("orders", 0, batch)),
        request_bytes(ApiKeys.METADATA, 12, metadata_body("orders")),
        request_bytes(ApiKeys.METADATA, 1, metadata_body("orders")),
        request_bytes(ApiKeys.FETCH, 12, fetch_body(12, "orders", 0, 0)),
        request_bytes(ApiKeys.LIST_OFFSETS, 1, list_offsets_body("orders", 0, 5)),
        *(nonsense(source, api, version) for api in ApiKeys for version in versions(api)),
    ]


def versions(api: ApiKeys) -> range:
    return range(api.oldest_version, api.latest_version + 1)


def nonsense(source: random.Random, api: ApiKeys, version: int) -> bytes:
    return request_bytes(api, version, random_value(api.request_schema(version), source, names=NAMES))


def mutated(frame: bytes, source: random.Random) -> bytes:
    data = bytearray(frame)
    position = source.randrange(len(data))
    kind = source.randrange(5)
    if kind == 0:
        for _ in range(source.randint(1, 8)):
            data[source.randrange(len(data))] = source.randrange(256)
    elif kind == 1:
        struct.pack_into(">i", data, min(position, len(data) - 4), source.choice(LENGTHS))
    elif kind == 2:
        del data[position:]
    elif kind == 3:
        data[position:position] = source.randbytes(source.randint(1, 40))
    else:
        data[position:] = data[:len(data) - position]
    return bytes(data)


def test_10000_frames_that_are_mutated_or_nonsense_close_their_own_connection_only(attack: Attack) -> None:
    source = random.Random(20260)
    requests = real_requests(source)
    for number in range(MUTATED_COUNT):
        payload = mutated(source.choice(requests), source)
        attack.send(mutated(framed(payload), source) if number % 5 == 0 else framed(payload))
    rows = [(api, version) for api in ApiKeys for version in versions(api)]
    for _ in range(NONSENSE_COUNT):
        attack.send(framed(nonsense(source, *source.choice(rows))))
    assert attack.sent == MUTATED_COUNT + NONSENSE_COUNT
    assert attack.closed > attack.sent // 2, "the rest was answered: it made sense by chance"


@st.composite
def made_up_frames(draw: st.DrawFn) -> bytes:
    """A header of any API and version, or none, before any bytes; with a size that is true or not."""
    payload = draw(st.binary(max_size=200))
    if draw(st.booleans()):
        api = draw(st.sampled_from(list(ApiKeys)))
        payload = struct.pack(">hhih", api, draw(st.integers(0, api.latest_version + 1)), 1, -1) + payload
    size = draw(st.just(len(payload)) | st.sampled_from(LENGTHS) | st.integers(-2**31, 2**31 - 1))
    return struct.pack(">i", size) + payload


def test_what_hypothesis_makes_up_closes_its_own_connection_only(attack: Attack) -> None:
    @settings(max_examples=MADE_UP_COUNT, deadline=None, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))
    @given(made_up_frames())
    def run(frame: bytes) -> None:
        attack.send(frame)

    run()
    assert attack.sent >= MADE_UP_COUNT * 0.9, "few were made up twice"
    assert attack.closed > attack.sent // 2


def test_frames_that_make_no_sense_when_there_are_very_many_then_some_are_told_and_the_others_counted(
        start_broker: Callable[..., EmbeddedBroker], caplog: pytest.LogCaptureFixture) -> None:
    """One line for each: 88,000 frames wrote twelve megabytes."""
    broker = start_broker(topics={"orders": 1})
    bad = (b"\0\x03\0\x01", request_bytes(ApiKeys.METADATA, 1, metadata_body("orders"))[:-3])  # header, body
    with caplog.at_level(logging.WARNING, "pyproducer"):
        for number in range(60):
            with RawClient(("127.0.0.1", broker.port)) as client:
                if number % 3 == 2:
                    client.send_bytes(struct.pack(">i", -5))
                else:
                    client.send_frame(bad[number % 3])
                assert client.is_closed()
    assert LINES <= len(caplog.records) < 3 * LINES


def test_a_frame_that_never_ends_costs_nothing(start_broker: Callable[..., EmbeddedBroker]) -> None:
    broker = start_broker(topics={"orders": 1}, separate_process=True)
    process = process_of(broker)
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
