from __future__ import annotations

import os
import sys
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import cramjam
import lz4.frame
import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.record import compression, decompression
from pyproducer.record.compression import CODEC_IDS, PACKAGES, compressor_for, package_for
from pyproducer.record.decompression import decompress
from tests.unit.record.packages import EVERY_CHOICE, choose


@pytest.fixture(autouse=True, params=EVERY_CHOICE)
def packages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    yield choose(request.param, monkeypatch)
    decompression._decoder.cache_clear()


DATA = [b"", b"a", b"abc" * 60_000, os.urandom(100_000), bytes(300_000)]


@pytest.mark.parametrize("name", sorted(CODEC_IDS))
@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_what_is_compressed_expands_to_the_same(name: str, buffer_type: Any) -> None:
    compressor = compressor_for(name)
    assert (compressor.name, compressor.codec_id) == (name, CODEC_IDS[name])
    for data in DATA:
        compressed = compressor.compress(buffer_type(data))
        assert isinstance(compressed, bytes)
        assert decompress(compressor.codec_id, buffer_type(compressed)) == data


@pytest.mark.parametrize(("name", "levels"), [("gzip", (-1, 1, 9)), ("lz4", (1, 2, 3, 8, 9, 10, 12, 17)),
                                              ("zstd", (-131072, -5, 0, 1, 22))])
def test_every_level_of_java_is_accepted(name: str, levels: tuple[int, ...], packages: dict[str, str]) -> None:
    for level in levels:
        if name == "lz4" and packages["lz4"] == "cramjam" and level != 9:
            with pytest.raises(ConfigError, match="pip install lz4"):
                compressor_for(name, level)
            continue
        compressor = compressor_for(name, level)
        assert decompress(compressor.codec_id, compressor.compress(b"abc" * 1000)) == b"abc" * 1000


@pytest.mark.parametrize(("name", "level"), [("gzip", 0), ("gzip", 10), ("gzip", -2), ("lz4", 0), ("lz4", 18),
                                             ("zstd", 23), ("zstd", -131073)])
def test_a_level_out_of_javas_range_is_refused(name: str, level: int) -> None:
    with pytest.raises(ConfigError, match=rf"compression\.{name}\.level") as raised:
        compressor_for(name, level)
    assert raised.value.value == level


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="none, gzip, snappy, lz4, zstd"):
        compressor_for("brotli")


@pytest.mark.parametrize(("name", "fast", "default", "small"), [("gzip", 1, 6, 9), ("zstd", -5, 3, 19)])
def test_a_higher_level_makes_fewer_bytes_and_none_is_the_default(name: str, fast: int, default: int, small: int,
                                                                  packages: dict[str, str]) -> None:
    data = b" ".join(b"%d bottles of %d" % (number * number % 977, number % 31) for number in range(4000))
    sizes = [len(compressor_for(name, level).compress(data)) for level in (fast, default, small)]
    assert sizes[0] > sizes[1] > sizes[2]
    if packages[name] != "isal.isal_zlib":  # its levels are not zlib's
        assert compressor_for(name).compress(data) == compressor_for(name, default).compress(data)


def test_gzip_by_isal_is_at_most_a_tenth_larger_and_has_no_say_in_levels(packages: dict[str, str]) -> None:
    data = b"".join(b"%d some text %d" % (i, i * i) for i in range(5000))
    default, of_zlib = len(compressor_for("gzip").compress(data)), len(compressor_for("gzip", 6).compress(data))
    assert default == of_zlib or (packages["gzip"] == "isal.isal_zlib" and default < 1.1 * of_zlib)
    assert compressor_for("gzip", 6).compress(data) == gzip_by_zlib(data, 6)


def gzip_by_zlib(data: bytes, level: int) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, 31)
    return compressor.compress(data) + compressor.flush()


def test_lz4_level_9_is_javas_fast_compressor_and_others_are_slower_and_smaller(packages: dict[str, str]) -> None:
    data = b"".join(b"%d some text %d" % (i, i * i) for i in range(5000))
    fast = compressor_for("lz4").compress(data)
    assert fast == compressor_for("lz4", 9).compress(data)
    if packages["lz4"] == "lz4.frame":
        assert all(len(compressor_for("lz4", level).compress(data)) < len(fast) for level in (1, 3, 8, 10, 17))


def test_lz4_blocks_are_independent_and_of_64_kib_as_java_needs_them() -> None:
    info = lz4.frame.get_frame_info(compressor_for("lz4").compress(bytes(200_000)))
    assert (info["block_linked"], info["block_size_id"], info["content_checksum"]) == (False, 4, False)
    assert info["content_size"] == 0


def test_snappy_is_xerials_framing_in_blocks_of_32_kib() -> None:
    data = bytes(range(256)) * 300
    compressed = compressor_for("snappy").compress(data)
    assert compressed[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    position = 16
    sizes = []
    while position < len(compressed):
        length = int.from_bytes(compressed[position:position + 4], "big")
        sizes.append(len(bytes(cramjam.snappy.decompress_raw(compressed[position + 4:position + 4 + length]))))
        position += 4 + length
    assert sizes == [32768, 32768, 11264]


@pytest.mark.parametrize(("name", "what"), [("snappy", "cramjam"), ("lz4", "lz4 or cramjam"),
                                            ("zstd", "zstandard or cramjam")])
def test_codec_when_no_package_can_be_loaded_then_the_error_says_what_to_install(
        name: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every interpreter of a process can load every package."""
    monkeypatch.undo()
    for module in ("lz4.frame", "zstandard", "cramjam", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    decompression._decoder.cache_clear()
    with pytest.raises(ConfigError, match=f"pip install {what} ") as raised:
        compressor_for(name)
    assert raised.value.key == "compression.type"
    with pytest.raises(ConfigError, match=f"pip install {what} "):
        decompress(CODEC_IDS[name], b"\x01\x00a")


def test_package_when_the_first_of_the_table_is_absent_then_the_next_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    assert package_for("lz4")[0] == "cramjam"
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    assert (package_for("gzip").name, package_for("gzip").module) == ("zlib", zlib)
    assert compressor_for("gzip").compress(b"text") == gzip_by_zlib(b"text", -1)


def test_lz4_frames_of_both_packages_have_the_same_header_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(100_000) + bytes(100_000)
    frames = []
    for package in ("lz4.frame", "cramjam"):
        monkeypatch.setitem(PACKAGES, "lz4", (package,))
        frames.append(compressor_for("lz4").compress(data))
        assert lz4.frame.decompress(frames[-1]) == data
    assert frames[0][:7] == frames[1][:7]
    assert frames[0][-4:] == frames[1][-4:] == bytes(4)


@pytest.mark.parametrize("name", sorted(CODEC_IDS))
def test_one_compressor_may_be_shared_by_threads(name: str) -> None:
    compressor = compressor_for(name)
    expected = b"some text of the record " * 3000
    wrong: list[object] = []

    def work() -> None:
        try:
            for _ in range(20):
                if decompress(compressor.codec_id, compressor.compress(expected)) != expected:
                    wrong.append(name)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_public_names() -> None:
    assert set(compression.__all__) <= set(vars(compression))
