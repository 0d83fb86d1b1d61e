"""Pieces of a frame, put together so that each makes a reasonable TLS record.

    [size 4][header 60][batch 16 k][header 60][batch 16 k]  ->  16 k + 16 k + ...   never a record of four bytes

Road:    SslTransportLayer.write_chunks -> [records]
Thread:  pure.
Source:  ours; RFC 8446 5.1: a record carries at most 2^14 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyproducer.network.transport import Buffer

RECORD_BYTES = 16 * 1024


def coalesce(chunks: Sequence[Buffer], max_total_bytes: int) -> Iterator[Buffer]:
    """Yield the bytes of the chunks, at most so many, in pieces that fill a record where they can.

    Shape: a long chunk is passed on in slices, uncopied; short ones are joined, together with the beginning of a long
    one behind them. Every piece but the last has exactly RECORD_BYTES.
    """
    joined = bytearray()
    left = max_total_bytes
    for chunk in chunks:
        view = memoryview(chunk)[:left]
        left -= len(view)
        position = 0
        if joined:
            position = min(RECORD_BYTES - len(joined), len(view))
            joined += view[:position]
            if len(joined) == RECORD_BYTES:
                yield joined
                joined = bytearray()
        while len(view) - position >= RECORD_BYTES:
            yield view[position:position + RECORD_BYTES]
            position += RECORD_BYTES
        if position < len(view):
            joined += view[position:]
        if not left:
            break
    if joined:
        yield joined
