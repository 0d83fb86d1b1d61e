from __future__ import annotations

import array

import pytest

from pyproducer.common.errors import SchemaError
from pyproducer.protocol.buffer import INLINE_PAYLOAD_LIMIT_BYTES, ByteReader, ByteWriter

UVARINTS = [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (16384, "808001"),
            (2**31 - 1, "ffffffff07"), (2**32 - 1, "ffffffff0f")]


@pytest.mark.parametrize(("value", "hex_text"), UVARINTS)
def test_uvarint_has_known_bytes(value, hex_text):
    writer = ByteWriter()
    writer.write_uvarint(value)
    assert writer.to_bytes().hex() == hex_text
    reader = ByteReader(bytes.fromhex(hex_text))
    assert reader.read_uvarint() == value
    assert reader.remaining == 0


@pytest.mark.parametrize("hex_text", ["", "80", "ffffff", "ffffffff"])
def test_read_uvarint_when_the_frame_ends_inside_then_nothing_is_read(hex_text):
    reader = ByteReader(bytes.fromhex(hex_text))
    with pytest.raises(SchemaError, match="available"):
        reader.read_uvarint()
    assert reader.position == 0


@pytest.mark.parametrize("hex_text", ["ffffffff8f01", "8080808080808080808000"])
def test_read_uvarint_when_too_long_then_says_so(hex_text):
    with pytest.raises(SchemaError, match="Varint is too long"):
        ByteReader(bytes.fromhex(hex_text)).read_uvarint()


def test_read_uvarint_when_above_32_bits_then_refused():
    with pytest.raises(SchemaError, match="larger than 4294967295"):
        ByteReader(bytes.fromhex("ffffffff1f")).read_uvarint()


def test_take_gives_views_of_the_frame_without_copying():
    frame = bytearray(b"abcdef")
    reader = ByteReader(frame)
    assert reader.take(2) == b"ab"
    view = reader.take(3)
    frame[2] = ord("X")
    assert view == b"Xde"
    assert reader.remaining == 1
    view.release()


@pytest.mark.parametrize("size_bytes", [-1, 4, 2**31])
def test_take_when_out_of_bounds_then_nothing_is_read(size_bytes):
    reader = ByteReader(b"abc")
    with pytest.raises(SchemaError, match="only 3 available"):
        reader.take(size_bytes)
    assert reader.position == 0


def test_reader_counts_bytes_whatever_the_items_of_a_memoryview_are():
    reader = ByteReader(memoryview(array.array("i", [1, 2])))
    assert reader.remaining == 8


@pytest.mark.parametrize("size_bytes", [0, 1, INLINE_PAYLOAD_LIMIT_BYTES])
def test_write_payload_when_small_then_copied_into_the_running_chunk(size_bytes):
    writer = ByteWriter()
    writer.tail += b"head"
    writer.write_payload(b"x" * size_bytes, size_bytes)
    assert len(writer.chunks()) == 1
    assert writer.size == 4 + size_bytes


def test_write_payload_when_large_then_kept_as_the_same_object():
    payload = bytearray(INLINE_PAYLOAD_LIMIT_BYTES + 1)
    writer = ByteWriter()
    writer.write_payload(payload, len(payload))
    writer.tail += b"between"
    writer.write_payload(payload, len(payload))
    writer.tail += b"end"
    chunks = writer.chunks()
    assert [len(chunk) for chunk in chunks] == [len(payload), 7, len(payload), 3]
    assert chunks[0] is payload
    assert chunks[2] is payload
    assert writer.size == 2 * len(payload) + 10
    assert writer.to_bytes() == payload + b"between" + payload + b"end"


def test_chunks_when_nothing_was_written_then_empty():
    assert ByteWriter().chunks() == []
    assert ByteWriter().size == 0


@pytest.mark.parametrize("payloads", [0, 1, 3])
def test_rewind_when_payloads_followed_then_they_are_forgotten_too(payloads):
    writer = ByteWriter()
    writer.write_payload(bytes(1000), 1000)
    writer.tail += b"kept"
    tail = writer.tail
    writer.tail += b"forgotten"
    for _ in range(payloads):
        writer.write_payload(bytes(1000), 1000)
        writer.tail += b"x"
    writer.rewind(tail, 4)
    assert writer.to_bytes() == bytes(1000) + b"kept"
    assert writer.size == 1004
