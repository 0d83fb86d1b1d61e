from __future__ import annotations

import struct
import tracemalloc

import pytest

from pyproducer.common.errors import InvalidReceiveError
from pyproducer.network.receive import FIRST_STEP_BYTES, NetworkReceive
from tests.support.transports import ScriptedTransport


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def feed_all(receive: NetworkReceive, data: bytes, step: int) -> int:
    """Feed in steps; return how many bytes were taken."""
    taken = 0
    while taken < len(data) and not receive.complete:
        taken += receive.feed(memoryview(data)[taken:taken + step])
    return taken


@pytest.mark.parametrize("step", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("trailing", [b"", b"next"])
def test_feed_when_the_frame_comes_in_parts_then_it_takes_exactly_the_frame(step: int, trailing: bytes) -> None:
    receive = NetworkReceive("7")
    assert feed_all(receive, frame(b"payload") + trailing, step) == 11
    assert receive.complete
    assert receive.payload == b"payload"
    assert receive.source == "7"


def test_read_from_when_bytes_follow_the_frame_then_they_stay_in_the_transport() -> None:
    transport = ScriptedTransport([frame(b"payload") + b"next"])
    receive = NetworkReceive("7")
    assert receive.read_from(transport) == 11
    assert receive.complete
    assert receive.payload == b"payload"
    assert transport.pieces == [b"next"]


def test_read_from_when_the_frame_comes_byte_by_byte_then_it_is_the_same() -> None:
    transport = ScriptedTransport([bytes([value]) for value in frame(b"payload")])
    receive = NetworkReceive("7")
    total = 0
    while not receive.complete:
        total += receive.read_from(transport)
    assert total == 11
    assert receive.payload == b"payload"


def test_read_from_when_nothing_is_there_then_zero() -> None:
    assert NetworkReceive("7").read_from(ScriptedTransport()) == 0


@pytest.mark.parametrize("prefix", [b"", b"\0\0", frame(b"payload")[:-1]])
def test_read_from_when_the_stream_ends_then_minus_one(prefix: bytes) -> None:
    transport = ScriptedTransport([prefix] if prefix else [], at_end=True)
    receive = NetworkReceive("7")
    results = [receive.read_from(transport) for _ in range(3)]
    assert results[-1] == -1
    assert not receive.complete


@pytest.mark.parametrize("size", [0, -1, -2**31])
def test_size_when_not_positive_then_the_message_names_it(size: int) -> None:
    with pytest.raises(InvalidReceiveError, match=rf"Invalid receive \(size = {size}\)"):
        NetworkReceive("7").feed(memoryview(struct.pack(">i", size)))


def test_size_when_zero_is_allowed_then_the_frame_is_complete() -> None:
    receive = NetworkReceive("7", None, True)
    assert receive.read_from(ScriptedTransport([bytes(4)])) == 4
    assert receive.complete
    assert receive.payload == b""


@pytest.mark.parametrize(("size", "is_valid"), [(999, True), (1000, True), (1001, False), (2**31 - 1, False)])
def test_size_when_above_the_limit_then_kafkas_text(size: int, is_valid: bool) -> None:
    receive = NetworkReceive("7", 1000)
    if is_valid:
        receive.feed(memoryview(struct.pack(">i", size)))
        return
    text = f"Request of length {size} is not valid, it is larger than the maximum size of 1000 bytes."
    with pytest.raises(InvalidReceiveError) as caught:
        receive.feed(memoryview(struct.pack(">i", size)))
    assert str(caught.value) == text


@pytest.mark.parametrize(("first_bytes", "protocol"), [
    (b"HTTP", "HTTP"), (b"GET ", "HTTP"), (b"\x15\x03\x03\x00", "TLS"), (b"\x16\x03\x01\x02", "TLS"),
    (b"SSH-", "SSH")])
def test_size_when_it_is_another_protocols_greeting_then_the_message_says_so(first_bytes: bytes, protocol: str) -> None:
    receive = NetworkReceive("7", 1000, peer="localhost:9092")
    with pytest.raises(InvalidReceiveError, match=f"The peer at localhost:9092 seems to speak {protocol}"):
        receive.feed(memoryview(first_bytes))


def test_memory_when_the_announced_size_is_huge_then_it_grows_with_what_arrives() -> None:
    tracemalloc.start()
    try:
        receive = NetworkReceive("7", 2**31 - 1)
        receive.feed(memoryview(struct.pack(">i", 100 * 1024 * 1024) + b"a"))
        assert tracemalloc.get_traced_memory()[1] < 4 * FIRST_STEP_BYTES
    finally:
        tracemalloc.stop()
    assert receive.missing_bytes == 100 * 1024 * 1024 - 1


def test_payload_when_larger_than_the_steps_then_it_is_whole() -> None:
    payload = bytes(range(256)) * (3 * FIRST_STEP_BYTES // 256 + 1)
    receive = NetworkReceive("7")
    assert feed_all(receive, frame(payload), 60_000) == len(payload) + 4
    assert receive.payload == payload
    assert receive.missing_bytes == 0
