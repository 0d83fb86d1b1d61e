"""What tells the rows of a task from others: how many they are, and a checksum of their keys, values and topics.

Equal rows in equal order have an equal one, however Spark cuts them into record batches, whether offsets in these are
32 or 64 bits wide, and row by row, too. Each column has two running checksums, the last one is of these:

    lengths   int32 of each cell, -1 for null
    content   the cells' bytes, one behind the other

Road:    exactly_once -> [running digest] -> RowsDigest, by which a repeated micro-batch is compared
Thread:  the task's.
Source:  ours; Arrow columnar format 1.5, "Variable-size Binary Layout".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from pyproducer.record.checksum import crc32c

if TYPE_CHECKING:
    from pyproducer.twophase import RowsDigest

_COLUMNS = ("key", "value", "topic")
_LENGTH, _LENGTH_BYTES, _NULL = struct.Struct("=i"), 4, -1
_CHECKSUMS = struct.Struct("=6I")


class RunningDigest:
    """Grows with each row, or record batch.

    Args:
        fixed_topic: The topic of every row, which counts in place of the column; None for the column.
    """

    def __init__(self, fixed_topic: str | None) -> None:
        self._fixed_topic = (fixed_topic or "").encode()
        self._names = _COLUMNS if fixed_topic is None else _COLUMNS[:-1]
        self._lengths, self._content = [0, 0, 0], [0, 0, 0]
        self._row_count = 0
        self._places: list[tuple[int, int]] | None = None  # of the first row, as all have

    @property
    def digest(self) -> RowsDigest:
        """That of all rows up to now."""
        from pyproducer.twophase import RowsDigest

        if not self._row_count:
            return RowsDigest()
        checksums = _CHECKSUMS.pack(*self._lengths, *self._content)
        return RowsDigest(self._row_count, crc32c(checksums, crc32c(self._fixed_topic)))

    def add_batch(self, batch: Any) -> None:
        """Add the rows of a pyarrow RecordBatch, whose columns are text or bytes."""
        self._row_count += batch.num_rows
        for place, name in enumerate(self._names):
            if batch.num_rows and name in batch.schema.names:
                self._add_column(place, batch.column(name))

    def _add_column(self, place: int, column: Any) -> None:
        import pyarrow
        import pyarrow.compute as pc

        lengths = pc.binary_length(column)
        content = _content_of(column)
        if column.null_count:
            if len(content) != (pc.sum(lengths).as_py() or 0):  # there are bytes below a null
                content = _content_of(column.drop_null())
            lengths = pc.fill_null(lengths, _NULL)
        lengths = lengths.cast(pyarrow.int32())
        first = lengths.offset * _LENGTH_BYTES
        self._lengths[place] = crc32c(memoryview(lengths.buffers()[1])[first:first + len(lengths) * _LENGTH_BYTES],
                                      self._lengths[place])
        self._content[place] = crc32c(content, self._content[place])

    def add_row(self, row: Any) -> None:
        """Add a row. A cell of a type that is not sent counts by its repr, and what sends the row raises."""
        self._row_count += 1
        if self._places is None:
            fields = getattr(row, "__fields__", ())
            self._places = [(place, fields.index(name)) for place, name in enumerate(self._names) if name in fields]
        for place, at in self._places:
            cell = row[at]
            if cell is None:
                length = _NULL
            else:
                if isinstance(cell, str):
                    cell = cell.encode(errors="surrogatepass")
                elif not isinstance(cell, (bytes, bytearray)):
                    cell = repr(cell).encode()
                length = len(cell)
                self._content[place] = crc32c(cell, self._content[place])
            self._lengths[place] = crc32c(_LENGTH.pack(length), self._lengths[place])


def _content_of(column: Any) -> memoryview:
    """Return the bytes of the cells of a column, one behind the other, where they lie."""
    from pyarrow import types

    offsets, content = column.buffers()[1:]
    if not len(column) or content is None:
        return memoryview(b"")
    is_large = types.is_large_binary(column.type) or types.is_large_string(column.type)
    ends = memoryview(offsets).cast("q" if is_large else "i")
    return memoryview(content)[ends[column.offset]:ends[column.offset + len(column)]]
