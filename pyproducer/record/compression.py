"""The five codecs of a record batch, as Java writes them, and the packages that do the work.

gzip is plain; snappy is xerial's framing in blocks of 32 KiB; lz4 is the frame format with independent blocks of
64 KiB (Java cannot read linked ones); zstd is a plain frame. What we read is wider: see decompression.py.

The package of a codec is loaded by the compressor that needs it, when it is made: most programs use one or none.

Road:    accumulator -> [compress] -> batch_writer -> sender
Thread:  a compressor belongs to one producer and may be called by any of its threads: the one codec with state,
         zstd, is guarded. All packages release the GIL while they work.
Source:  Java org.apache.kafka.common.compress (4.1), KIP-390 for the levels; RFC 1952, the LZ4 frame format 1.6.4,
         RFC 8878.
"""

from __future__ import annotations

import importlib
from _thread import LockType, allocate_lock
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from pyproducer.common.errors import ConfigError
from pyproducer.record.layout import Buffer

__all__ = ["CODEC_IDS", "PACKAGES", "Compressor", "Package", "compressor_for", "package_for"]

CODEC_IDS: dict[str, int] = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

PACKAGES: dict[str, tuple[str, ...]] = {
    "gzip": ("isal.isal_zlib", "zlib"),
    "snappy": ("cramjam",),
    "lz4": ("lz4.frame", "cramjam"),
    "zstd": ("compression.zstd", "zstandard", "cramjam"),
}
"""Which package serves which codec: the first that can be loaded.

By measurement, a batch of 64 KiB of text: isal takes a twelfth of zlib's time for 5 % more bytes; lz4 and cramjam the
same, but only lz4 has the slow levels; Python 3.14's own zstd and zstandard the same, cramjam up to a fifth more for a
small batch. zlib and cramjam are always there; setup.cfg says what else an installation brings.
"""

INSTALLED_BY = {"isal.isal_zlib": "isal", "lz4.frame": "lz4"}
"""What is installed for what is imported, where the names differ."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x01"
"""Magic, version 1, compatible with version 1."""
XERIAL_BLOCK_SIZE_BYTES = 32 * 1024  # snappy-java's default, and all that some readers make room for

JAVA_GZIP_DEFAULT_LEVEL = -1
ISAL_LEVEL = 3  # its smallest output, 5 % above that of zlib's default level
JAVA_LZ4_DEFAULT_LEVEL = 9
LZ4_LOWEST_HC_LEVEL = 3
LZ4_HIGHEST_LEVEL = 12
LZ4_BLOCK_SIZE_BYTES = 64 * 1024
LZ4_FRAME_HEADER = bytes.fromhex("04224d18" "60" "40" "82")
"""Magic; version 1, independent blocks, no checksums, no content size; blocks of 64 KiB; checksum of the two bytes."""
LZ4_END_MARK = bytes(4)
LZ4_STORED = 1 << 31  # in a block's length: its bytes are as they were
ZSTD_DEFAULT_LEVEL = 3
GZIP_WBITS = 16 + 15  # gzip's header and trailer, the largest window


class Package(NamedTuple):
    """What serves a codec."""

    imported_as: str
    module: Any

    @property
    def name(self) -> str:
        """What it is called where it is installed from; a part of Python by its module."""
        return INSTALLED_BY.get(self.imported_as, self.imported_as)


def package_for(codec: str) -> Package:
    """Load the package that serves a codec.

    Args:
        codec: A name in compression.type, but none.

    Raises:
        ConfigError: None of those in the table can be loaded; says what to install. Not sent.
    """
    causes = []
    for imported_as in PACKAGES[codec]:
        try:
            return Package(imported_as, importlib.import_module(imported_as))
        except ImportError as cause:  # not installed, or not for this interpreter of the process
            causes.append(f"{imported_as}: {cause}")
    installable = " or ".join(INSTALLED_BY.get(name, name) for name in PACKAGES[codec] if name != "compression.zstd")
    raise ConfigError("compression.type", codec,
                      f"no package for it can be loaded: pip install {installable} ({'; '.join(causes)})")


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
        level: 1 to 9, or -1 for the default. A level is zlib's, so it is zlib that serves any but the default.
    """

    codec_id = 1
    name = "gzip"

    def __init__(self, level: int = JAVA_GZIP_DEFAULT_LEVEL) -> None:
        package = package_for("gzip")
        if level == JAVA_GZIP_DEFAULT_LEVEL and package.imported_as == "isal.isal_zlib":
            self._zlib, self._level = package.module, ISAL_LEVEL
        else:
            self._zlib, self._level = importlib.import_module("zlib"), level

    def compress(self, data: Buffer) -> bytes:
        """Return one gzip member."""
        compressor = self._zlib.compressobj(self._level, self._zlib.DEFLATED, GZIP_WBITS)
        compressed: bytes = compressor.compress(data) + compressor.flush()
        return compressed


class SnappyCompressor:
    """Codec snappy, in xerial's framing: 16 bytes of header, then per 32 KiB a length and a raw block.

    Raises:
        ConfigError: cramjam cannot be loaded.
    """

    codec_id = 2
    name = "snappy"

    def __init__(self) -> None:
        self._compress_raw = package_for("snappy").module.snappy.compress_raw

    def compress(self, data: Buffer) -> bytes:
        """Return one xerial stream."""
        parts: list[Any] = [XERIAL_HEADER]
        with memoryview(data) as view:
            for start in range(0, len(view), XERIAL_BLOCK_SIZE_BYTES):
                block = self._compress_raw(view[start:start + XERIAL_BLOCK_SIZE_BYTES])
                parts.append(len(block).to_bytes(4, "big"))
                parts.append(block)
            return b"".join(parts)


class Lz4Compressor:
    """Codec lz4, by the package lz4: a frame of independent 64 KiB blocks, without content size, as Java writes it.

    Args:
        frame: The module lz4.frame.
        level: Java's: 9, the default, is the fast compressor; any other is the slow one (HC) at that level.
    """

    codec_id = 3
    name = "lz4"

    def __init__(self, frame: Any, level: int) -> None:
        self._frame = frame
        # In liblz4 the levels below 3 are the fast compressor, and those above 12 are 12.
        self._level = (0 if level == JAVA_LZ4_DEFAULT_LEVEL
                       else min(max(level, LZ4_LOWEST_HC_LEVEL), LZ4_HIGHEST_LEVEL))

    def compress(self, data: Buffer) -> bytes:
        """Return one lz4 frame."""
        compressed: bytes = self._frame.compress(data, compression_level=self._level,
                                                 block_size=self._frame.BLOCKSIZE_MAX64KB, block_linked=False,
                                                 content_checksum=False, store_size=False)
        return compressed


class CramjamLz4Compressor:
    """Codec lz4, by cramjam: the same frame, its blocks framed here, for cramjam's own frames have linked ones.

    Args:
        cramjam: The module.
        level: Java's default, 9: cramjam has the fast compressor only.

    Raises:
        ConfigError: Another level. Not sent.
    """

    codec_id = 3
    name = "lz4"

    def __init__(self, cramjam: Any, level: int) -> None:
        if level != JAVA_LZ4_DEFAULT_LEVEL:
            raise ConfigError("compression.lz4.level", level,
                              f"any level but {JAVA_LZ4_DEFAULT_LEVEL} needs the package lz4: pip install lz4")
        self._compress_block = cramjam.lz4.compress_block

    def compress(self, data: Buffer) -> bytes:
        """Return one lz4 frame."""
        parts: list[Any] = [LZ4_FRAME_HEADER]
        with memoryview(data) as view:
            for start in range(0, len(view), LZ4_BLOCK_SIZE_BYTES):
                block = view[start:start + LZ4_BLOCK_SIZE_BYTES]
                compressed = self._compress_block(block, store_size=False)
                if len(compressed) < len(block):
                    parts.append(len(compressed).to_bytes(4, "little"))
                    parts.append(compressed)
                else:
                    parts.append((len(block) | LZ4_STORED).to_bytes(4, "little"))
                    parts.append(block)
            parts.append(LZ4_END_MARK)
            return b"".join(parts)


class ZstdCompressor:
    """Codec zstd.

    Args:
        level: -131072 to 22.
        make_lock: Makes its lock.
    """

    codec_id = 4
    name = "zstd"

    def __init__(self, level: int = ZSTD_DEFAULT_LEVEL, make_lock: Callable[[], LockType] = allocate_lock) -> None:
        self._lock = make_lock()  # guards what _compress uses, which must not be entered twice
        self._compress = _zstd_frame(package_for("zstd"), level)

    def compress(self, data: Buffer) -> bytes:
        """Return one zstd frame, its content size in its header."""
        with self._lock:
            return self._compress(data)


def _zstd_frame(package: Package, level: int) -> Callable[[Buffer], bytes]:
    """Return what makes a frame of bytes, by any of the three packages."""
    module = package.module
    if package.imported_as == "zstandard":
        compress: Callable[[Buffer], bytes] = module.ZstdCompressor(level=level).compress
        return compress
    if package.imported_as == "cramjam":
        return lambda data: bytes(memoryview(module.zstd.compress(data, level=level)))
    compressor = module.ZstdCompressor(level=level)
    return lambda data: bytes(compressor.compress(data, compressor.FLUSH_FRAME))


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
        ConfigError: The name is unknown, the level out of range, or no package for it can be loaded. Not sent.
    """
    if name == "none":
        return NoCompressor()
    if name == "gzip":
        return GzipCompressor(JAVA_GZIP_DEFAULT_LEVEL if level is None
                              else _ensure_level("compression.gzip.level", level, 1, 9, extra=JAVA_GZIP_DEFAULT_LEVEL))
    if name == "snappy":
        return SnappyCompressor()
    if name == "lz4":
        of_java = JAVA_LZ4_DEFAULT_LEVEL if level is None else _ensure_level("compression.lz4.level", level, 1, 17)
        package = package_for("lz4")
        if package.imported_as == "cramjam":
            return CramjamLz4Compressor(package.module, of_java)
        return Lz4Compressor(package.module, of_java)
    if name == "zstd":
        return ZstdCompressor(ZSTD_DEFAULT_LEVEL if level is None
                              else _ensure_level("compression.zstd.level", level, -131072, 22), make_lock)
    raise ConfigError("compression.type", name, "must be one of none, gzip, snappy, lz4, zstd")
