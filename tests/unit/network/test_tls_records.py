from __future__ import annotations

import random

import pytest

from pyproducer.network.tls_records import RECORD_BYTES, coalesce
from pyproducer.network.transport import Buffer


@pytest.mark.parametrize("seed", range(20))
def test_coalesce_when_chunks_have_any_sizes_then_full_records_in_order(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([0, 1, 4, 60, 16_000, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 50_000])
             for _ in range(12)]
    chunks: list[Buffer] = [rng.randbytes(size) for size in sizes]
    pieces = [bytes(piece) for piece in coalesce(chunks, 10**9)]
    assert b"".join(pieces) == b"".join(chunks)
    assert all(len(piece) == RECORD_BYTES for piece in pieces[:-1])
    assert all(pieces)


def test_coalesce_when_bounded_then_it_stops_there() -> None:
    chunks: list[Buffer] = [b"a" * 10, b"b" * 100_000, b"c"]
    pieces = [bytes(piece) for piece in coalesce(chunks, 40_000)]
    assert b"".join(pieces) == b"".join(chunks)[:40_000]


def test_coalesce_when_a_chunk_is_long_then_it_is_not_copied() -> None:
    chunk = bytearray(3 * RECORD_BYTES)
    pieces = list(coalesce([chunk], 10**9))
    assert all(isinstance(piece, memoryview) and piece.obj is chunk for piece in pieces)


def test_coalesce_when_there_is_nothing_then_nothing() -> None:
    assert list(coalesce([], 100)) == list(coalesce([b"", b""], 100)) == []
