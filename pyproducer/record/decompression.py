"""Decompression that cannot be made to allocate more than it was allowed.

A peer's few bytes may claim to be gigabytes. Every codec here is bounded before or while it expands: sizes in
headers are compared with what the bytes that follow can hold at most, and streams are expanded piece by piece.
Read beyond what Java writes: raw snappy, concatenated xerial streams, gzip members, lz4 and zstd frames, linked
lz4 blocks, zstd without content size. The package of a codec (compression.py has the table) is loaded when the first
batch of it comes.

Road:    wire, log -> [decompress] -> batch_reader
Thread:  any; the zstd decompressor is one per thread. The packages release the GIL.
Source:  Java org.apache.kafka.common.compress (4.1); snappy-java SnappyInputStream; RFC 1952, RFC 8878; the LZ4 frame
         format 1.6.4.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

from pyproducer.common.errors import CorruptRecordError, ExpansionLimitError
from pyproducer.record.compression import CODEC_IDS, GZIP_WBITS, LZ4_STORED, XERIAL_HEADER, XERIAL_MAGIC, package_for
from pyproducer.record.layout import Buffer

CODEC_NAMES: dict[int, str] = {codec_id: name for name, codec_id in CODEC_IDS.items()}

DEFAULT_LIMIT_BYTES = 256 * 1024 * 1024
"""More than any batch holds in practice: a request is 100 MiB at most, a batch 1 MiB by default."""

SNAPPY_MAX_RATIO = 64  # a copy of 64 bytes takes 3: no snappy block expands further
LZ4_MAX_RATIO = 255  # a byte of match length adds 255
LZ4_PIECE_BYTES = 64 * 1024
# What follows a first member or frame is given in steps that double: each copies what it leaves unused, and of many
# small ones every one would leave all others.
LATER_STEP_BYTES = 4096
LZ4_MAGIC = (0x184D2204).to_bytes(4, "little")
# Of the flags: what makes the header longer, a block, or the frame's end.
LZ4_CONTENT_SIZE, LZ4_DICTIONARY_ID, LZ4_BLOCK_CHECKSUM, LZ4_CONTENT_CHECKSUM = 0x08, 0x01, 0x10, 0x04
LZ4_BLOCK_SIZES_BYTES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
ZSTD_MAGIC = (0xFD2FB528).to_bytes(4, "little")
ZSTD_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
ZSTD_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
ZSTD_MAX_BLOCK_BYTES = 128 * 1024
ZSTD_SKIPPABLE_MAGIC = 0x184D2A5

_local = threading.local()  # .zstd: the thread's own decompressor of zstandard, which must not be entered twice


def decompress(codec_id: int, data: Buffer, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Expand the records of a batch.

    Args:
        codec_id: Bits 0-2 of the batch's attributes.
        data: What follows the batch's header.
        limit_bytes: The most that may come out; buffers are never made larger (but for each codec's own window,
            4 MiB at most).

    Raises:
        CorruptRecordError: The codec is unknown, or the bytes are not of it or end early.
        ExpansionLimitError: More would come out.
        ConfigError: No package for the codec can be loaded.
    """
    return _decoder(codec_id)(data, limit_bytes)


@cache
def _decoder(codec_id: int) -> Callable[[Buffer, int], bytes]:
    """Return what expands a codec, by the package that serves it."""
    if codec_id in _BY_PYTHON:
        return _BY_PYTHON[codec_id]
    name = CODEC_NAMES.get(codec_id)
    if name is None:
        raise CorruptRecordError(f"unknown compression codec {codec_id}")
    package = package_for(name)
    return _DECODERS[name, package.imported_as](package.module)


def _refuse(name: str, limit_bytes: int) -> NoReturn:
    raise ExpansionLimitError(f"{name}: the records expand beyond the limit of {limit_bytes} bytes")


def _truncated(name: str, size_bytes: int) -> NoReturn:
    raise CorruptRecordError(f"{name}: the compressed records end early, after {size_bytes} bytes")


def _joined(pieces: list[bytes]) -> bytes:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decode_none(data: Buffer, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        _refuse("none", limit_bytes)
    return bytes(data)


def _decode_gzip(data: Buffer, limit_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = position = 0
    end = len(data)
    with memoryview(data) as view:
        while position < end or not pieces:
            member_start = position
            decompressor = zlib.decompressobj(GZIP_WBITS)
            step = LATER_STEP_BYTES if pieces else end
            while not decompressor.eof:
                if position == end:
                    _truncated("gzip", end)
                try:
                    with view[position:position + step] as source:
                        piece = decompressor.decompress(source, limit_bytes - size + 1)
                except zlib.error as cause:
                    raise CorruptRecordError(f"gzip: {cause}, in the member at byte {member_start}") from cause
                size += len(piece)
                if size > limit_bytes:
                    _refuse("gzip", limit_bytes)
                pieces.append(piece)
                position = min(position + step, end)
                step *= 2
            position -= len(decompressor.unused_data)
    return _joined(pieces)


def _snappy_decoder(cramjam: Any) -> Callable[[Buffer, int], bytes]:
    return lambda data, limit_bytes: _decode_snappy(cramjam.snappy, data, limit_bytes)


def _decode_snappy(snappy: Any, data: Buffer, limit_bytes: int) -> bytes:
    if bytes(data[:len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _decode_snappy_block(snappy, bytes(data), 0, limit_bytes)
    source = bytes(data)
    end = len(source)
    pieces: list[bytes] = []
    size = 0
    position = 0
    while position < end:
        if source.startswith(XERIAL_MAGIC, position):
            # As snappy-java: another stream may begin wherever a block may.
            position += len(XERIAL_HEADER)
            if position > end:
                _truncated("snappy", end)
            continue
        if position + 4 > end:
            _truncated("snappy", end)
        length = int.from_bytes(source[position:position + 4], "big")
        position += 4
        if length > end - position:
            raise CorruptRecordError(f"snappy: the block at byte {position} claims {length} bytes, "
                                     f"{end - position} are there")
        piece = _decode_snappy_block(snappy, source[position:position + length], position, limit_bytes - size)
        size += len(piece)
        pieces.append(piece)
        position += length
    return _joined(pieces) if pieces else b""


def _decode_snappy_block(snappy: Any, block: bytes, position: int, limit_bytes: int) -> bytes:
    claimed = shift = 0
    for byte in block[:5]:
        claimed |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if claimed > SNAPPY_MAX_RATIO * len(block):
        raise CorruptRecordError(f"snappy: the block of {len(block)} bytes at byte {position} claims to hold {claimed}")
    if claimed > limit_bytes:
        _refuse("snappy", limit_bytes)
    try:
        return bytes(snappy.decompress_raw(block))
    except Exception as cause:  # cramjam names its exception, but Rust's panics come as others
        raise CorruptRecordError(f"snappy: {cause}, in the block at byte {position}") from cause


def _lz4_decoder(frame: Any) -> Callable[[Buffer, int], bytes]:
    return lambda data, limit_bytes: _decode_lz4(frame, data, limit_bytes)


def _decode_lz4(lz4_frame: Any, data: Buffer, limit_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = position = 0
    end = len(data)
    with memoryview(data) as view:
        while position < end or not pieces:
            frame_start = position
            decompressor = lz4_frame.LZ4FrameDecompressor()
            step = LATER_STEP_BYTES if pieces else end
            source: Buffer = view[position:position + step]
            position = min(position + step, end)
            # One piece is enough for most batches; a larger one grows as it proves to be there.
            room = min(8 * len(source) + LZ4_PIECE_BYTES, limit_bytes - size + 1)
            while True:
                try:
                    piece = decompressor.decompress(source, max_length=room)
                except RuntimeError as cause:
                    raise CorruptRecordError(f"lz4: {cause}, in the frame at byte {frame_start}") from cause
                size += len(piece)
                if size > limit_bytes:
                    _refuse("lz4", limit_bytes)
                pieces.append(piece)
                if decompressor.eof:
                    break
                source = b""
                if decompressor.needs_input and len(piece) < room:
                    if position == end:
                        _truncated("lz4", end)
                    step *= 2
                    source = view[position:position + step]
                    position = min(position + step, end)
                room = min(2 * room, limit_bytes - size + 1, LZ4_MAX_RATIO * (end - frame_start) + LZ4_PIECE_BYTES)
            position -= len(decompressor.unused_data or b"")
    return _joined(pieces)


def _cramjam_lz4_decoder(cramjam: Any) -> Callable[[Buffer, int], bytes]:
    return lambda data, limit_bytes: _decode_lz4_whole(cramjam.lz4, data, limit_bytes)


def _decode_lz4_whole(lz4: Any, data: Buffer, limit_bytes: int) -> bytes:
    """Expand frames by cramjam, which wants to know how much room there is: what their blocks can hold at most."""
    pieces: list[bytes] = []
    size = position = 0
    end = len(data)
    with memoryview(data) as view:
        while position < end or not pieces:
            frame_end, most = _measure_lz4_frame(view, position)
            room = min(most, limit_bytes - size)
            output = bytearray(room)
            try:
                written = lz4.decompress_into(bytes(view[position:frame_end]), output)
            except Exception as cause:  # cramjam names its exception, but Rust's panics come as others
                if room < most and "failed to write" in str(cause):  # it has no other sign of it
                    _refuse("lz4", limit_bytes)
                raise CorruptRecordError(f"lz4: {cause}, in the frame at byte {position}") from cause
            with memoryview(output) as whole:
                pieces.append(bytes(whole[:written]))
            size += written
            position = frame_end
    return _joined(pieces)


def _measure_lz4_frame(view: memoryview, position: int) -> tuple[int, int]:
    """Walk a frame's block headers; return where it ends, and how much its blocks can hold at most.

    Raises:
        CorruptRecordError: It is none, or ends early.
    """
    end = len(view)
    start = position
    if position + 7 > end:
        _truncated("lz4", end)
    flags, sizes = view[position + 4], view[position + 5]
    largest_block = LZ4_BLOCK_SIZES_BYTES.get(sizes >> 4 & 7)
    if view[position:position + 4] != LZ4_MAGIC or flags >> 6 != 1 or largest_block is None:
        raise CorruptRecordError(f"lz4: what is at byte {start} is no frame")
    position += 7 + (8 if flags & LZ4_CONTENT_SIZE else 0) + (4 if flags & LZ4_DICTIONARY_ID else 0)
    most = 0
    while True:
        if position + 4 > end:
            _truncated("lz4", end)
        length = int.from_bytes(view[position:position + 4], "little")
        position += 4
        if length == 0:
            break
        size = length & ~LZ4_STORED
        most += min(largest_block, size if length & LZ4_STORED else LZ4_MAX_RATIO * size)
        position += size + (4 if flags & LZ4_BLOCK_CHECKSUM else 0)
    position += 4 if flags & LZ4_CONTENT_CHECKSUM else 0
    if position > end:
        _truncated("lz4", end)
    return position, most


ZstdFrames = Callable[[memoryview, int], "bytes | None"]
"""A frame, and how much may come out: the content; None where the room was not enough."""


def _zstandard_decoder(zstandard: Any) -> Callable[[Buffer, int], bytes]:
    def expand(frame: memoryview, room: int) -> bytes | None:
        decompressor = getattr(_local, "zstd", None)
        if decompressor is None:
            decompressor = _local.zstd = zstandard.ZstdDecompressor()
        try:
            content: bytes = decompressor.decompress(frame, max_output_size=max(room, 1))  # 0 would mean no limit
        except zstandard.ZstdError as cause:
            if "did not decompress full frame" in str(cause):  # the package has no other sign of it
                return None
            raise
        return content

    return lambda data, limit_bytes: _decode_zstd(expand, zstandard.ZstdError, data, limit_bytes)


def _stdlib_zstd_decoder(zstd: Any) -> Callable[[Buffer, int], bytes]:
    def expand(frame: memoryview, room: int) -> bytes | None:
        decompressor = zstd.ZstdDecompressor()
        content: bytes = decompressor.decompress(frame, max_length=room + 1)
        return content if decompressor.eof else None

    return lambda data, limit_bytes: _decode_zstd(expand, zstd.ZstdError, data, limit_bytes)


def _cramjam_zstd_decoder(cramjam: Any) -> Callable[[Buffer, int], bytes]:
    def expand(frame: memoryview, room: int) -> bytes | None:
        output = bytearray(room)
        try:
            written = cramjam.zstd.decompress_into(bytes(frame), output)
        except cramjam.DecompressionError as cause:
            if "failed to write" in str(cause):
                return None
            raise
        with memoryview(output) as whole:
            return bytes(whole[:written])

    return lambda data, limit_bytes: _decode_zstd(expand, cramjam.DecompressionError, data, limit_bytes)


def _decode_zstd(expand: ZstdFrames, error: type[Exception], data: Buffer, limit_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    position = 0
    end = len(data)
    with memoryview(data) as view:
        while position < end or not pieces:
            magic = int.from_bytes(view[position:position + 4], "little")
            if magic >> 4 == ZSTD_SKIPPABLE_MAGIC and end - position >= 8:
                position += 8 + int.from_bytes(view[position + 4:position + 8], "little")
                if position > end:
                    _truncated("zstd", end)
                pieces.append(b"")
                continue
            frame_end, most, claimed = _measure_zstd_frame(view, position)
            if claimed is not None and claimed > most:
                raise CorruptRecordError(f"zstd: the frame at byte {position} claims to hold {claimed} bytes, "
                                         f"its blocks hold {most} at most")
            if claimed is not None and claimed > limit_bytes - size:
                _refuse("zstd", limit_bytes)
            room = min(most, limit_bytes - size)
            try:
                with view[position:frame_end] as frame:
                    piece = expand(frame, room)
            except error as cause:
                raise CorruptRecordError(f"zstd: {cause}, in the frame at byte {position}, "
                                         f"with room for {limit_bytes - size} bytes") from cause
            if piece is None:
                if claimed is None and most > room:
                    _refuse("zstd", limit_bytes)
                raise CorruptRecordError(f"zstd: the frame at byte {position} does not end within {room} bytes")
            if claimed is not None and claimed != len(piece):
                raise CorruptRecordError(f"zstd: the frame at byte {position} claims to hold {claimed} bytes, "
                                         f"it holds {len(piece)}")
            size += len(piece)
            if size > limit_bytes:
                _refuse("zstd", limit_bytes)
            pieces.append(piece)
            position = frame_end
    return _joined(pieces)


def _measure_zstd_frame(view: memoryview, position: int) -> tuple[int, int, int | None]:
    """Walk a frame's block headers.

    Returns:
        Where the frame ends, how much its blocks can hold at most, and what its header claims it holds (or None).

    Raises:
        CorruptRecordError: It is none, ends early, or claims to hold nothing although its blocks are not empty: the
            packages would then give nothing without a look at them.
    """
    end = len(view)
    start = position
    if view[position:position + 4] != ZSTD_MAGIC:
        if end - position < 4:
            _truncated("zstd", end)
        raise CorruptRecordError(f"zstd: what is at byte {start} is no frame")
    position += 4
    if position == end:
        _truncated("zstd", end)
    descriptor = view[position]
    is_single_segment = descriptor >> 5 & 1
    content_size_bytes = ZSTD_CONTENT_SIZE_BYTES[descriptor >> 6] or is_single_segment
    position += 1
    fixed = position + (0 if is_single_segment else 1) + ZSTD_DICTIONARY_ID_BYTES[descriptor & 3]
    if fixed + content_size_bytes > end:
        _truncated("zstd", end)
    claimed: int | None = None
    if content_size_bytes:
        # Two bytes hold what is beyond 255.
        claimed = (int.from_bytes(view[fixed:fixed + content_size_bytes], "little")
                   + (256 if content_size_bytes == 2 else 0))
    if is_single_segment:
        window_size = claimed or 0
    else:
        exponent, mantissa = view[position] >> 3, view[position] & 7
        window_size = (1 << 10 + exponent) + (1 << 10 + exponent) // 8 * mantissa
    position = fixed + content_size_bytes
    largest_block = min(window_size, ZSTD_MAX_BLOCK_BYTES)
    most = 0
    is_last = is_anything_there = False
    while not is_last:
        if position + 3 > end:
            _truncated("zstd", end)
        block_header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        is_last = bool(block_header & 1)
        block_type = block_header >> 1 & 3
        size = block_header >> 3
        # Type 0 is raw, 1 one byte repeated, 2 compressed; 3 does not exist, which the decompressor will say.
        most += largest_block if block_type >= 2 else size
        is_anything_there = is_anything_there or size > 0
        position += 3 + (1 if block_type == 1 else size)
    if descriptor & 4:
        position += 4  # the content's checksum
    if position > end:
        _truncated("zstd", end)
    if claimed == 0 and is_anything_there:
        raise CorruptRecordError(f"zstd: the frame at byte {start} claims to be empty, but its blocks are not")
    return position, most, claimed


_BY_PYTHON: dict[int, Callable[[Buffer, int], bytes]] = {0: _decode_none, 1: _decode_gzip}
"""zlib reads gzip, whoever wrote it: isal takes what follows a member for the beginning of another."""

_DECODERS: dict[tuple[str, str], Callable[[Any], Callable[[Buffer, int], bytes]]] = {
    ("snappy", "cramjam"): _snappy_decoder,
    ("lz4", "lz4.frame"): _lz4_decoder,
    ("lz4", "cramjam"): _cramjam_lz4_decoder,
    ("zstd", "compression.zstd"): _stdlib_zstd_decoder,
    ("zstd", "zstandard"): _zstandard_decoder,
    ("zstd", "cramjam"): _cramjam_zstd_decoder,
}
"""By codec and by what serves it (compression.py has the order): makes the function that expands."""
