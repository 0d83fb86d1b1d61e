"""Decompression that cannot be made to allocate more than it was allowed.

A peer's few bytes may claim to be gigabytes. Every codec here is bounded before or while it expands: sizes in
headers are compared with what the bytes that follow can hold at most, and streams are expanded piece by piece.
Read beyond what Java writes: raw snappy, concatenated xerial streams, gzip members, lz4 and zstd frames, linked
lz4 blocks, zstd without content size. The library of a codec is loaded when the first batch of it comes.

Road:    wire, log -> [decompress] -> batch_reader
Thread:  any; the zstd decompressor is one per thread. The libraries release the GIL.
Source:  Java org.apache.kafka.common.compress (4.1); snappy-java SnappyInputStream; RFC 1952, RFC 8878.
"""

from __future__ import annotations

import importlib
import threading
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from pyproducer.common.errors import ConfigError, CorruptRecordError, ExpansionLimitError
from pyproducer.record.layout import Buffer

if TYPE_CHECKING:
    import zstandard

CODEC_IDS: dict[str, int] = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CODEC_NAMES: dict[int, str] = {codec_id: name for name, codec_id in CODEC_IDS.items()}

DEFAULT_LIMIT_BYTES = 256 * 1024 * 1024
"""More than any batch holds in practice: a request is 100 MiB at most, a batch 1 MiB by default."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x01"
"""Magic, version 1, compatible with version 1."""

SNAPPY_MAX_RATIO = 64  # a copy of 64 bytes takes 3: no snappy block expands further
LZ4_MAX_RATIO = 255  # a byte of match length adds 255
LZ4_PIECE_BYTES = 64 * 1024
ZSTD_MAX_BLOCK_BYTES = 128 * 1024
ZSTD_SKIPPABLE_MAGIC = 0x184D2A5

_local = threading.local()  # .zstd: the thread's own decompressor, which must not be entered twice


def import_cramjam() -> Any:
    """Return the cramjam package.

    Raises:
        ConfigError: It is not installed; says how to install it.
    """
    try:
        return importlib.import_module("cramjam")
    except ImportError as cause:
        raise ConfigError("compression.type", "snappy",
                          f"needs the package cramjam: pip install cramjam ({cause})") from cause


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
        ConfigError: The codec is snappy, and cramjam is not installed.
    """
    decoder = _DECODERS.get(codec_id)
    if decoder is None:
        raise CorruptRecordError(f"unknown compression codec {codec_id}")
    return decoder(data, limit_bytes)


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
    size = 0
    rest: Buffer = data
    while rest or not pieces:
        decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            piece = decompressor.decompress(rest, limit_bytes - size + 1)
        except zlib.error as cause:
            raise CorruptRecordError(f"gzip: {cause}, in the member at byte {len(data) - len(rest)}") from cause
        size += len(piece)
        if size > limit_bytes:
            _refuse("gzip", limit_bytes)
        if not decompressor.eof:
            _truncated("gzip", len(data))
        pieces.append(piece)
        rest = decompressor.unused_data
    return _joined(pieces)


def _decode_snappy(data: Buffer, limit_bytes: int) -> bytes:
    snappy = import_cramjam().snappy
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


def _decode_lz4(data: Buffer, limit_bytes: int) -> bytes:
    import lz4.frame  # type: ignore[import-untyped]  # it ships no types

    pieces: list[bytes] = []
    size = 0
    rest: Buffer = data
    while rest or not pieces:
        frame_start = len(data) - len(rest)
        decompressor = lz4.frame.LZ4FrameDecompressor()
        source: Buffer = rest
        # One piece is enough for most batches; a larger one grows as it proves to be there.
        room = min(8 * len(rest) + LZ4_PIECE_BYTES, limit_bytes - size + 1)
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
            if decompressor.needs_input and len(piece) < room:
                _truncated("lz4", len(data))
            source = b""
            room = min(2 * room, limit_bytes - size + 1, LZ4_MAX_RATIO * len(rest) + LZ4_PIECE_BYTES)
        rest = decompressor.unused_data or b""
    return _joined(pieces)


def _decode_zstd(data: Buffer, limit_bytes: int) -> bytes:
    import zstandard

    decompressor: zstandard.ZstdDecompressor | None = getattr(_local, "zstd", None)
    if decompressor is None:
        decompressor = _local.zstd = zstandard.ZstdDecompressor()
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
            try:
                frame_end, most, claimed = _measure_zstd_frame(view, position)
                if claimed is not None and claimed > most:
                    raise CorruptRecordError(f"zstd: the frame at byte {position} claims to hold {claimed} bytes, "
                                             f"its blocks hold {most} at most")
                if claimed is not None and claimed > limit_bytes - size:
                    _refuse("zstd", limit_bytes)
                room = max(min(most, limit_bytes - size), 1)  # 0 would mean no limit
                with view[position:frame_end] as frame:
                    piece = _decode_zstd_frame(decompressor, frame, room, limit_bytes, may_be_larger=(
                        claimed is None and most > room))
            except zstandard.ZstdError as cause:
                raise CorruptRecordError(f"zstd: {cause}, in the frame at byte {position}, "
                                         f"with room for {limit_bytes - size} bytes") from cause
            size += len(piece)
            if size > limit_bytes:
                _refuse("zstd", limit_bytes)
            pieces.append(piece)
            position = frame_end
    return _joined(pieces)


def _decode_zstd_frame(decompressor: zstandard.ZstdDecompressor, frame: memoryview, room: int, limit_bytes: int, *,
                       may_be_larger: bool) -> bytes:
    import zstandard

    try:
        return decompressor.decompress(frame, max_output_size=room)
    except zstandard.ZstdError as cause:
        if may_be_larger and "did not decompress full frame" in str(cause):  # the library has no other sign of it
            _refuse("zstd", limit_bytes)
        raise


def _measure_zstd_frame(view: memoryview, position: int) -> tuple[int, int, int | None]:
    """Walk a frame's block headers.

    Returns:
        Where the frame ends, how much its blocks can hold at most, and what its header claims it holds (or None).

    Raises:
        CorruptRecordError: It ends early, or claims to hold nothing although its blocks are not empty: the library
            would then give nothing without a look at them.
    """
    import zstandard

    end = len(view)
    with view[position:position + 18] as head:  # the largest frame header
        parameters = zstandard.get_frame_parameters(head)
        header_size = zstandard.frame_header_size(head)
    claimed: int | None = parameters.content_size
    if claimed == zstandard.CONTENTSIZE_UNKNOWN:
        claimed = None
    largest_block = min(parameters.window_size, ZSTD_MAX_BLOCK_BYTES)
    most = 0
    start = position
    position += header_size
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
    if parameters.has_checksum:
        position += 4
    if position > end:
        _truncated("zstd", end)
    if claimed == 0 and is_anything_there:
        raise CorruptRecordError(f"zstd: the frame at byte {start} claims to be empty, but its blocks are not")
    return position, most, claimed


_DECODERS: dict[int, Callable[[Buffer, int], bytes]] = {
    0: _decode_none,
    1: _decode_gzip,
    2: _decode_snappy,
    3: _decode_lz4,
    4: _decode_zstd,
}
