from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise

import pytest

from pyproducer.common.errors import DisconnectedError, InvalidReceiveError
from pyproducer.network.receive import (
    FIRST_STEP_BYTES,
    MAX_READS_PER_POLL,
    FrameReader,
    NetworkReceive,
    guess_protocol,
    guess_sentence,
    speaks_tls,
)
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


PAYLOADS = [b"a", b"bc" * 30, b"d" * 300, b"e" * 3, b"f" * 1000]
SCRATCH_BYTES = 100  # small, so that frames begin, end and span it


STREAM = b"".join(map(frame, PAYLOADS))


def make_reader(*, one_at_a_time: bool = False, max_size_bytes: int | None = 2000) -> FrameReader:
    return FrameReader("7", peer="localhost:9092", max_size_bytes=max_size_bytes, one_at_a_time=one_at_a_time,
                       scratch=memoryview(bytearray(SCRATCH_BYTES)))


def read_all(reader: FrameReader, transport: ScriptedTransport) -> list[bytes]:
    found: list[bytes] = []
    while transport.pieces or bool(reader.held):
        found += [bytes(receive.payload) for receive in reader.read(transport)]
    return found


def in_pieces(data: bytes, step: int) -> list[bytes]:
    return [data[start:start + step] for start in range(0, len(data), step)]


@pytest.mark.parametrize("one_at_a_time", [False, True])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7, 64, 99, 100, 101, 5000])
def test_read_when_the_stream_comes_in_any_pieces_then_the_frames_are_the_same(step: int, one_at_a_time: bool) -> None:
    reader = make_reader(one_at_a_time=one_at_a_time)
    assert read_all(reader, ScriptedTransport(in_pieces(STREAM, step))) == PAYLOADS
    assert reader.ended is None
    assert not reader.is_mid_frame
    assert reader.bytes_read == len(STREAM)


def test_read_when_cut_at_any_two_places_then_the_frames_are_the_same() -> None:
    stream = b"".join(map(frame, PAYLOADS[:2]))
    for first in range(1, len(stream)):
        reader = make_reader()
        cuts = [0, first, min(first + 5, len(stream)), len(stream)]
        transport = ScriptedTransport([stream[start:stop] for start, stop in pairwise(cuts) if start < stop])
        assert read_all(reader, transport) == PAYLOADS[:2]


def test_read_when_several_small_frames_arrived_then_one_read_of_the_socket_gives_all() -> None:
    transport = ScriptedTransport([frame(b"a") + frame(b"b") + frame(b"c") + b"\0\0"])
    reader = make_reader()
    assert [receive.payload for receive in reader.read(transport)] == [b"a", b"b", b"c"]
    assert len(transport.read_sizes) == 1
    assert reader.is_mid_frame


def test_read_when_one_at_a_time_then_the_rest_is_held_back_and_the_socket_left_alone() -> None:
    transport = ScriptedTransport([frame(b"a") + frame(b"b") + frame(b"c")[:-1]])
    reader = make_reader(one_at_a_time=True)
    for expected in (b"a", b"b"):
        [receive] = reader.read(transport)
        assert receive.payload == expected
        assert bool(reader.held)
        assert len(transport.read_sizes) == 1
    assert reader.read(transport) == []
    transport.pieces.append(b"c")
    assert [receive.payload for receive in reader.read(transport)] == [b"c"]
    assert not bool(reader.held)


def test_read_when_a_frame_is_large_then_its_rest_is_read_in_place_and_not_beyond() -> None:
    transport = ScriptedTransport([frame(b"x" * 1000) + frame(b"y")])
    reader = make_reader()
    assert [bytes(receive.payload) for receive in reader.read(transport)] == [b"x" * 1000, b"y"]
    assert transport.read_sizes[:2] == [SCRATCH_BYTES, 1004 - SCRATCH_BYTES]


def test_payload_when_later_reads_reuse_the_scratch_then_it_stays() -> None:
    transport = ScriptedTransport([frame(b"first"), frame(b"other")])
    reader = make_reader()
    [first] = reader.read(transport)
    reader.read(transport)
    assert first.payload == b"first"


@pytest.mark.parametrize("data", [b"", b"\0", frame(b"payload")[:-1]])
def test_read_when_the_stream_ends_then_it_is_ended_whatever_is_half_there(data: bytes) -> None:
    reader = make_reader()
    transport = ScriptedTransport([frame(b"whole") + data], at_end=True)
    assert [receive.payload for receive in reader.read(transport)] == [b"whole"]
    assert reader.read(transport) == []
    assert isinstance(reader.ended, DisconnectedError)
    assert "localhost:9092" in str(reader.ended)


@pytest.mark.parametrize("frames", [0, 1, 3])
def test_read_when_the_connection_breaks_then_the_frames_before_it_are_still_given(frames: int) -> None:
    """Whatever a broken connection had brought in the same poll was lost where it took more than one read."""
    transport = ScriptedTransport([frame(b"payload")] * frames, error=ConnectionResetError("reset"))
    transport.has_pending_reads = True  # so that it goes on to read
    reader = make_reader()
    if not frames:
        with pytest.raises(ConnectionResetError):
            reader.read(transport)
        return
    assert [bytes(receive.payload) for receive in reader.read(transport)] == [b"payload"] * frames
    assert isinstance(reader.ended, ConnectionResetError)
    assert reader.read(transport) == []


@pytest.mark.parametrize("size", [0, -1, 2001])
def test_read_when_a_size_is_invalid_then_the_frames_before_it_are_still_given(size: int) -> None:
    reader = make_reader()
    transport = ScriptedTransport([frame(b"good") + struct.pack(">i", size) + b"rest"])
    assert [receive.payload for receive in reader.read(transport)] == [b"good"]
    assert isinstance(reader.ended, InvalidReceiveError)
    assert str(size) in str(reader.ended)
    assert reader.read(transport) == []


def test_read_when_an_invalid_size_comes_byte_by_byte_then_it_is_found() -> None:
    reader = make_reader()
    transport = ScriptedTransport(in_pieces(struct.pack(">i", -5), 1))
    read_all(reader, transport)
    assert isinstance(reader.ended, InvalidReceiveError)


def test_read_when_the_peer_never_stops_then_one_call_does() -> None:
    transport = ScriptedTransport([bytes([0, 0, 0, 96]) + bytes(96)] * 100)
    reader = make_reader()
    assert len(reader.read(transport)) == MAX_READS_PER_POLL


def test_read_when_the_transport_holds_more_then_it_goes_on_after_a_short_read() -> None:
    transport = ScriptedTransport([frame(b"a"), frame(b"b")])
    transport.has_pending_reads = True
    assert len(make_reader().read(transport)) == 2


@pytest.mark.parametrize(("first_bytes", "protocol"), [
    (b"\x15\x03\x01\x00\x02", "TLS"), (b"\x16\x03\x03", "TLS"), (b"HTTP/1.1", "HTTP"), (b"POST /", "HTTP"),
    (b"PRI * HTTP/2.0", "HTTP"), (b"SSH-2.0", "SSH"), (b"\x00\x00\x00\x10", None), (b"", None), (b"\x16", None)])
def test_guess_when_the_bytes_tell_then_the_protocol(first_bytes: bytes, protocol: str | None) -> None:
    assert guess_protocol(first_bytes) == protocol
    assert speaks_tls(first_bytes) == (protocol == "TLS")


@pytest.mark.parametrize("first_bytes", [b"<!DO", b"-ERR", b"220 ", b"AMQP", b"    ", b"~~~~"])
def test_sentence_when_the_size_is_text_then_it_shows_it(first_bytes: bytes) -> None:
    """Of a web server that sends no header, of redis and mail servers only the size was told, as if it were Kafka's."""
    said = guess_sentence(int.from_bytes(first_bytes, "big"), "broker:6379")
    assert said == (f" The first bytes of the peer at broker:6379 are the text {first_bytes.decode()!r}, not the Kafka "
                    "protocol.")


@pytest.mark.parametrize("size", [0x1F202020, 0x2020207F, 0x4A000000])
def test_sentence_when_not_all_bytes_are_text_then_nothing_is_guessed(size: int) -> None:
    assert guess_sentence(size, "broker:6379") == ""


def test_sentence_when_the_size_is_the_famous_one_then_it_names_the_peer() -> None:
    assert "broker:9093 seems to speak TLS" in guess_sentence(352518912, "broker:9093")
    assert guess_sentence(16, "broker:9093") == ""
    assert guess_sentence(2**24, "broker:9093") == ""
    assert guess_sentence(-1, "broker:9093") == ""
