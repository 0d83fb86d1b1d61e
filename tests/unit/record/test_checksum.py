"""CRC-32C by each package that may compute it: RFC 3720's vectors, pieces, and what stands in for what."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import crc32c as witness
import pytest

from pyproducer.record import checksum
from pyproducer.record.checksum import PACKAGES, Crc32c

VECTORS = {bytes(32): 0x8A9136AA, b"\xff" * 32: 0x62A8AB43, bytes(range(32)): 0x46DD794E,
           bytes(range(31, -1, -1)): 0x113FDB5C, b"123456789": 0xE3069283, b"": 0}  # RFC 3720 B.4


@pytest.fixture(params=PACKAGES)
def crc32c(request: pytest.FixtureRequest) -> Crc32c:
    try:
        module = importlib.import_module(request.param)
    except ImportError as cause:
        pytest.skip(f"{request.param} is not here: {cause}")
    return PACKAGES[request.param](module)


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_crc32c_of_the_vectors(crc32c: Crc32c, buffer_type: type) -> None:
    for data, expected in VECTORS.items():
        assert crc32c(buffer_type(data)) == expected


@pytest.mark.parametrize("size_bytes", [1, 61, 65_535, 65_536, 65_537, 300_000, 3_000_000])
def test_crc32c_of_any_size_is_the_same_by_all_and_may_be_computed_in_two_parts(crc32c: Crc32c,
                                                                                size_bytes: int) -> None:
    data = bytearray(os.urandom(size_bytes))
    expected = witness.crc32c(data)
    assert crc32c(data) == expected
    with memoryview(data) as view, view[:size_bytes // 3] as first, view[size_bytes // 3:] as rest:
        assert crc32c(rest, crc32c(first)) == expected
    data.append(0)  # nothing holds its buffer any more


def test_package_when_the_first_is_absent_then_the_next_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checksum._choose()[0] == checksum.PACKAGE == "fastcrc"
    monkeypatch.setitem(sys.modules, "fastcrc.crc32", None)
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    name, compute = checksum._choose()
    assert (name, compute(b"123456789")) == ("crc32c", 0xE3069283)
    monkeypatch.setitem(sys.modules, "crc32c", None)
    with pytest.raises(ImportError, match="pip install fastcrc"):
        checksum._choose()


def test_package_when_the_first_is_there_and_cannot_be_loaded_then_the_next_computes(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where its wheel is of another platform: a shared object that does not fit is no module that is absent."""
    (tmp_path / "fastcrc.py").write_text("raise ImportError('undefined symbol: PyFoo')", "ascii")
    for name in [name for name in sys.modules if name.partition(".")[0] == "fastcrc"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    name, compute = checksum._choose()
    assert (name, compute(b"123456789")) == ("crc32c", 0xE3069283)
    monkeypatch.setitem(sys.modules, "crc32c", None)
    with pytest.raises(ImportError, match=r"pip install fastcrc \(undefined symbol: PyFoo; "):
        checksum._choose()
