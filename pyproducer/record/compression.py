"""The five codecs of a record batch, as Java writes them.

gzip is plain; snappy is xerial's framing in blocks of 32 KiB; lz4 is the frame format with independent blocks of
64 KiB (Java cannot read linked ones); zstd is a plain frame. What we read is wider: see decompression.py.

The library of a codec is loaded by the compressor that needs it, when it is made: most programs use one or none.

Road:    accumulator -> [compress] -> batch_writer -> sender
Thread:  a compressor belongs to one producer and may be called by any of its threads: the one codec with state,
         zstd, is guarded. All libraries release the GIL while they work.
Source:  Java org.apache.kafka.common.compress (4.1), KIP-390 for the levels.
"""

from __future__ import annotations

import zlib
from _thread import LockType, allocate_lock
from collections.abc import Callable
from typing import Protocol

from pyproducer.common.errors import ConfigError
from pyproducer.record.decompression import CODEC_IDS, XERIAL_HEADER, decompress, import_cramjam
from pyproducer.record.layout import Buffer

__all__ = ["CODEC_IDS", "Compressor", "compressor_for", "decompress"]

XERIAL_BLOCK_SIZE_BYTES = 32 * 1024  # snappy-java's default, and all that some readers make room for
JAVA_LZ4_DEFAULT_LEVEL = 9
LZ4_LOWEST_HC_LEVEL = 3
LZ4_HIGHEST_LEVEL = 12


class Compressor(Protocol):
    """One codec at one level."""

    @property
    def codec_id(self) -> int:
        """The codec's number in the attributes of a batch."""

    @property
    def name(self) -> str:
        """The codec's name in compression.type."""

    def compress(self, data: Buffer) -> bytes:
        """Return the compressed form of `data`."""


class NoCompressor:
    """Codec none: the records as they are."""

    codec_id = 0
    name = "none"

    def compress(self, data: Buffer) -> bytes:
        """Return a copy; batch_writer does not call this."""
        return bytes(data)


class GzipCompressor:
    """Codec gzip.

    Args:
        level: 1 to 9, or -1 for zlib's default.
    """

    codec_id = 1
    name = "gzip"

    def __init__(self, level: int = -1) -> None:
        self._level = level

    def compress(self, data: Buffer) -> bytes:
        """Return one gzip member."""
        compressor = zlib.compressobj(self._level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        return compressor.compress(data) + compressor.flush()


class SnappyCompressor:
    """Codec snappy, in xerial's framing: 16 bytes of header, then per 32 KiB a length and a raw block.

    Raises:
        ConfigError: cramjam is not installed.
    """

    codec_id = 2
    name = "snappy"

    def __init__(self) -> None:
        self._compress_raw = import_cramjam().snappy.compress_raw

    def compress(self, data: Buffer) -> bytes:
        """Return one xerial stream."""
        parts: list[bytes] = [XERIAL_HEADER]
        with memoryview(data) as view:
            for start in range(0, len(view), XERIAL_BLOCK_SIZE_BYTES):
                # cramjam wants an object that owns its bytes; 32 KiB are copied in a few microseconds.
                block = bytes(self._compress_raw(bytes(view[start:start + XERIAL_BLOCK_SIZE_BYTES])))
                parts.append(len(block).to_bytes(4, "big"))
                parts.append(block)
        return b"".join(parts)


class Lz4Compressor:
    """Codec lz4: a frame of independent 64 KiB blocks, without content size, as Java writes it.

    Args:
        level: Java's: 9, the default, is the fast compressor; any other is the slow one (HC) at that level.
    """

    codec_id = 3
    name = "lz4"

    def __init__(self, level: int = JAVA_LZ4_DEFAULT_LEVEL) -> None:
        import lz4.frame  # type: ignore[import-untyped]  # it ships no types

        self._frame = lz4.frame
        # In liblz4 the levels below 3 are the fast compressor, and those above 12 are 12.
        self._level = (0 if level == JAVA_LZ4_DEFAULT_LEVEL
                       else min(max(level, LZ4_LOWEST_HC_LEVEL), LZ4_HIGHEST_LEVEL))

    def compress(self, data: Buffer) -> bytes:
        """Return one lz4 frame."""
        compressed: bytes = self._frame.compress(data, compression_level=self._level,
                                                 block_size=self._frame.BLOCKSIZE_MAX64KB, block_linked=False,
                                                 content_checksum=False, store_size=False)
        return compressed


class ZstdCompressor:
    """Codec zstd.

    Args:
        level: -131072 to 22.
        make_lock: Makes its lock.
    """

    codec_id = 4
    name = "zstd"

    def __init__(self, level: int = 3, make_lock: Callable[[], LockType] = allocate_lock) -> None:
        import zstandard

        self._lock = make_lock()  # guards _compressor, which must not be entered twice
        self._compressor = zstandard.ZstdCompressor(level=level)

    def compress(self, data: Buffer) -> bytes:
        """Return one zstd frame, its content size in its header."""
        with self._lock:
            return self._compressor.compress(data)


def _ensure_level(key: str, level: int, lowest: int, highest: int, *, extra: int | None = None) -> int:
    if level != extra and not lowest <= level <= highest:
        alternative = "" if extra is None else f", or {extra} for the default"
        raise ConfigError(key, level, f"must be from {lowest} to {highest}{alternative}")
    return level


def compressor_for(name: str, level: int | None = None,
                   make_lock: Callable[[], LockType] = allocate_lock) -> Compressor:
    """Return a compressor by its name in compression.type.

    Args:
        name: none, gzip, snappy, lz4 or zstd.
        level: What compression.<name>.level says in Java, or None for Java's default; none and snappy have none.
        make_lock: Makes the lock of the one that needs one, zstd.

    Raises:
        ConfigError: The name is unknown, the level out of range, or the codec's library cannot be loaded. Not sent.
    """
    try:
        return _make_compressor(name, level, make_lock)
    except ImportError as cause:
        raise ConfigError("compression.type", name, f"its library cannot be loaded: {cause}") from cause


def _make_compressor(name: str, level: int | None, make_lock: Callable[[], LockType]) -> Compressor:
    if name == "none":
        return NoCompressor()
    if name == "gzip":
        return GzipCompressor(-1 if level is None else _ensure_level("compression.gzip.level", level, 1, 9, extra=-1))
    if name == "snappy":
        return SnappyCompressor()
    if name == "lz4":
        return Lz4Compressor(JAVA_LZ4_DEFAULT_LEVEL if level is None
                             else _ensure_level("compression.lz4.level", level, 1, 17))
    if name == "zstd":
        return ZstdCompressor(3 if level is None else _ensure_level("compression.zstd.level", level, -131072, 22),
                              make_lock)
    raise ConfigError("compression.type", name, "must be one of none, gzip, snappy, lz4, zstd")
