from __future__ import annotations

import struct
from itertools import pairwise

import pytest

from pyproducer.common.errors import DisconnectedError, InvalidReceiveError
from pyproducer.network.frame_reader import MAX_READS_PER_POLL, FrameReader
from tests.support.transports import ScriptedTransport

PAYLOADS = [b"a", b"bc" * 30, b"d" * 300, b"e" * 3, b"f" * 1000]
SCRATCH_BYTES = 100  # small, so that frames begin, end and span it


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


STREAM = b"".join(map(frame, PAYLOADS))


def make_reader(*, one_at_a_time: bool = False, max_size_bytes: int | None = 2000) -> FrameReader:
    return FrameReader("7", peer="localhost:9092", max_size_bytes=max_size_bytes, one_at_a_time=one_at_a_time,
                       scratch=memoryview(bytearray(SCRATCH_BYTES)))


def read_all(reader: FrameReader, transport: ScriptedTransport) -> list[bytes]:
    found: list[bytes] = []
    while transport.pieces or reader.has_held:
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
        assert reader.has_held
        assert len(transport.read_sizes) == 1
    assert reader.read(transport) == []
    transport.pieces.append(b"c")
    assert [receive.payload for receive in reader.read(transport)] == [b"c"]
    assert not reader.has_held


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
