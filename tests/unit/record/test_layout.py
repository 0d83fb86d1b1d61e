from __future__ import annotations

import pytest

from pyproducer.record import layout


def test_the_header_is_61_bytes_and_its_fields_are_where_they_are_drawn() -> None:
    assert layout.HEADER.size == layout.HEADER_SIZE_BYTES == layout.RECORDS_OFFSET == 61
    packed = layout.HEADER.pack(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    fields = [(layout.BASE_OFFSET_OFFSET, 8), (layout.LENGTH_OFFSET, 4), (12, 4),
              (layout.MAGIC_OFFSET, 1), (layout.CRC_OFFSET, 4), (layout.ATTRIBUTES_OFFSET, 2),
              (23, 4), (27, 8), (layout.MAX_TIMESTAMP_OFFSET, 8), (43, 8), (51, 2), (53, 4), (57, 4)]
    assert [int.from_bytes(packed[start:start + size], "big") for start, size in fields] == list(range(1, 14))


@pytest.mark.parametrize(("sequence", "increment", "expected"), [
    (0, 0, 0), (0, 5, 5), (2**31 - 2, 1, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 3, 1)])
def test_sequence_wraps_to_zero(sequence: int, increment: int, expected: int) -> None:
    assert layout.increment_sequence(sequence, increment) == expected
