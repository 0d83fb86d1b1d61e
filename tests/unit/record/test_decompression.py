from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard

from pyproducer.common.errors import CorruptRecordError, RemoteProtocolError
from pyproducer.record import decompression
from pyproducer.record.compression import CODEC_IDS, XERIAL_HEADER, compressor_for
from pyproducer.record.decompression import decompress
from pyproducer.record.layout import Buffer
from tests.unit.record.packages import EVERY_CHOICE, choose


@pytest.fixture(autouse=True, params=EVERY_CHOICE)
def packages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    yield choose(request.param, monkeypatch)
    decompression._decoder.cache_clear()


COMPRESSED = sorted(set(CODEC_IDS) - {"none"})
TEXT = b"some text that repeats itself, some text that repeats itself. " * 4000


@pytest.mark.parametrize("name", COMPRESSED)
def test_concatenated_streams_are_read_as_one(name: str) -> None:
    compressor = compressor_for(name)
    parts = [TEXT, b"", b"x", os.urandom(70_000)]
    assert decompress(compressor.codec_id, b"".join(map(compressor.compress, parts))) == b"".join(parts)


@pytest.mark.parametrize("name", COMPRESSED)
def test_bytes_that_end_early_are_refused_wherever_they_end(name: str) -> None:
    compressor = compressor_for(name)
    compressed = compressor.compress(TEXT)
    boundaries = {len(XERIAL_HEADER)} | {
        len(compressor.compress(TEXT[:size])) for size in range(32768, len(TEXT), 32768)} if name == "snappy" else set()
    for cut in range(0 if name != "snappy" else 1, len(compressed), max(1, len(compressed) // 500)):
        if cut in boundaries:
            continue  # xerial has no end mark: this is a shorter stream
        with pytest.raises(CorruptRecordError, match=name):
            decompress(compressor.codec_id, compressed[:cut])


@pytest.mark.parametrize("name", sorted(CODEC_IDS))
def test_the_limit_is_exact(name: str) -> None:
    compressor = compressor_for(name)
    compressed = compressor.compress(TEXT)
    assert decompress(compressor.codec_id, compressed, len(TEXT)) == TEXT
    for limit in (0, 1, len(TEXT) // 2, len(TEXT) - 1):
        with pytest.raises(CorruptRecordError, match=name):
            decompress(compressor.codec_id, compressed, limit)


@pytest.mark.parametrize("name", COMPRESSED)
def test_the_limit_counts_concatenated_streams_together(name: str) -> None:
    compressor = compressor_for(name)
    compressed = compressor.compress(TEXT) * 3
    assert len(decompress(compressor.codec_id, compressed, 3 * len(TEXT))) == 3 * len(TEXT)
    with pytest.raises(CorruptRecordError):
        decompress(compressor.codec_id, compressed, 3 * len(TEXT) - 1)


@pytest.mark.parametrize("codec_id", [5, 6, 7, -1])
def test_an_unknown_codec_is_named(codec_id: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"unknown compression codec {codec_id}"):
        decompress(codec_id, b"")


def test_raw_snappy_is_read() -> None:
    assert decompress(2, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_a_snappy_block_that_claims_more_than_it_can_hold_is_refused_unread() -> None:
    liar = b"\xff\xff\xff\xff\x0f" + b"a" * 20
    with pytest.raises(CorruptRecordError, match="claims to hold 4294967295"):
        decompress(2, liar)
    with pytest.raises(CorruptRecordError, match="claims 2147483647 bytes"):
        decompress(2, XERIAL_HEADER + b"\x7f\xff\xff\xff" + b"a" * 20)


def test_snappys_official_framing_is_refused_as_kafka_does() -> None:
    with pytest.raises(CorruptRecordError):
        decompress(2, bytes(cramjam.snappy.compress(TEXT)))


def test_linked_lz4_blocks_sizes_and_checksums_are_read() -> None:
    for linked in (True, False):
        for size_id in (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB):
            frame = lz4.frame.compress(TEXT, block_linked=linked, block_size=size_id, content_checksum=True,
                                       block_checksum=True, store_size=True)
            assert decompress(3, frame) == TEXT


def test_lz4_that_expands_more_than_the_first_piece_is_read() -> None:
    zeros = bytes(5_000_000)
    assert decompress(3, lz4.frame.compress(zeros)) == zeros


def test_zstd_without_content_size_with_checksum_and_with_skippable_frames_is_read() -> None:
    stream = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compressobj()
    frame = stream.compress(TEXT) + stream.flush()
    skippable = b"\x5a\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    assert decompress(4, frame) == TEXT
    assert decompress(4, skippable + frame + skippable + frame) == TEXT + TEXT
    assert decompress(4, skippable) == b""
    with pytest.raises(CorruptRecordError, match="end early"):
        decompress(4, skippable[:-1])


def test_a_zstd_frame_that_claims_more_than_its_blocks_can_hold_is_refused_unread() -> None:
    frame = bytearray(zstandard.ZstdCompressor().compress(bytes(200_000)))
    assert frame[4] == 0xA0  # a content size of four bytes, one segment
    frame[5:9] = (2**31).to_bytes(4, "little")
    with pytest.raises(CorruptRecordError, match="claims to hold 2147483648 bytes"):
        decompress(4, bytes(frame))


@pytest.mark.parametrize(("content", "size_bytes"), [
    (bytes(200_000), 4), (bytes(32 << 20), 4), (TEXT, 4), (b"x", 1), (bytes(255), 1), (os.urandom(200_000), 4),
], ids=["zeros", "bomb", "text", "one byte", "a run", "noise"])
def test_zstd_frame_when_it_claims_to_be_empty_and_is_not_then_refused(content: bytes, size_bytes: int) -> None:
    """The zstd library gives nothing for a frame whose header claims 0 bytes, without a look at its blocks.

    So a damaged batch was read as one without records, and a bomb of 32 MiB was no bomb.
    """
    frame = bytearray(zstandard.ZstdCompressor().compress(content))
    end = zstandard.frame_header_size(bytes(frame[:18]))  # the content size is the last field of the header
    assert int.from_bytes(frame[end - size_bytes:end], "little") == len(content)
    frame[end - size_bytes:end] = bytes(size_bytes)
    with pytest.raises(CorruptRecordError, match="claims to be empty"):
        decompress(4, bytes(frame), 1 << 20)


@pytest.mark.parametrize("with_checksum", [True, False])
def test_zstd_frame_when_it_is_empty_then_nothing_comes_out_and_what_follows_is_read(with_checksum: bool) -> None:
    compressor = zstandard.ZstdCompressor(write_checksum=with_checksum)
    assert decompress(4, compressor.compress(b"")) == b""
    assert decompress(4, compressor.compress(b"") + compressor.compress(TEXT)) == TEXT


@pytest.mark.parametrize("claimed", [1, 65_536, 199_999, 200_001])
def test_zstd_frame_when_it_claims_another_size_than_it_has_then_refused(claimed: int) -> None:
    frame = bytearray(zstandard.ZstdCompressor().compress(bytes(200_000)))
    frame[5:9] = claimed.to_bytes(4, "little")
    with pytest.raises(CorruptRecordError, match="zstd"):
        decompress(4, bytes(frame))


def test_gzip_with_a_wrong_checksum_or_bytes_behind_it_is_refused() -> None:
    member = bytearray(gzip.compress(TEXT))
    with pytest.raises(CorruptRecordError, match=f"gzip.*in the member at byte {len(member)}"):
        decompress(1, bytes(member) + b"behind")
    member[-5] ^= 1
    with pytest.raises(CorruptRecordError, match="gzip"):
        decompress(1, bytes(member))


def test_the_error_is_the_peers() -> None:
    with pytest.raises(RemoteProtocolError):
        decompress(4, b"not zstd")


class Counting:
    """A decompressor that counts the bytes that it is given."""

    given_bytes = 0

    def __init__(self, decompressor: Any) -> None:
        self._decompressor = decompressor

    def decompress(self, data: Buffer, *limit: int, **named: int) -> bytes:
        Counting.given_bytes += len(data)
        expanded: bytes = self._decompressor.decompress(data, *limit, **named)
        return expanded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decompressor, name)


@pytest.mark.parametrize("name", ["gzip", "lz4"])
def test_small_streams_when_there_are_many_then_not_each_is_given_all_that_follow(
        monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each copied what it left unused, and 1 MiB of empty frames took 8 s of a reader's time."""
    count = 3000
    data = (gzip.compress(b"") if name == "gzip" else lz4.frame.compress(b"")) * count
    data += gzip.compress(TEXT) if name == "gzip" else lz4.frame.compress(TEXT)
    monkeypatch.setattr(Counting, "given_bytes", 0)
    decoder: Callable[[Buffer, int], bytes]
    if name == "gzip":
        monkeypatch.setattr(decompression, "zlib", SimpleNamespace(
            error=zlib.error, decompressobj=lambda wbits: Counting(zlib.decompressobj(wbits))))
        decoder = decompression._decode_gzip
    else:
        decoder = decompression._lz4_decoder(SimpleNamespace(
            LZ4FrameDecompressor=lambda: Counting(lz4.frame.LZ4FrameDecompressor())))
    assert decoder(data, 10**6) == TEXT
    assert len(data) <= Counting.given_bytes < 2 * len(data) + 2 * count * decompression.LATER_STEP_BYTES


@pytest.mark.parametrize("name", ["gzip", "lz4"])
def test_later_stream_when_it_takes_several_steps_then_it_is_read_to_its_end_and_refused_where_it_is_torn(
        name: str) -> None:
    compressor = compressor_for(name)
    noise = os.urandom(70_000)
    data = compressor.compress(b"x") + compressor.compress(noise) + compressor.compress(TEXT)
    assert decompress(compressor.codec_id, data) == b"x" + noise + TEXT
    for cut in (1, 4096, 8192, 3 * 4096, 50_000):
        with pytest.raises(CorruptRecordError, match=f"{name}: "):
            decompress(compressor.codec_id, (compressor.compress(b"x") + compressor.compress(noise))[:-cut])
