"""Whether the end of a log is what a broker's death has left there, or a damaged batch that was acknowledged.

A process that is killed in a write leaves the beginning of one batch and nothing behind it; a machine that loses its
power may leave zeros. Neither was acknowledged. But a batch that is all there, as its own length or its checksum says,
was; and so was whatever has a sound batch behind it.

Road:    recovery, salvage -> [torn tail]
Thread:  the one that opens the log.
Source:  ours; Java does not ask.
"""

from __future__ import annotations

from pyproducer.broker.storage.batch_header import OVERHEAD_STRUCT, BatchHeader, checksum, read_header
from pyproducer.broker.storage.file_handle import FileHandle
from pyproducer.record.layout import HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, MAGIC, MAGIC_OFFSET

# What is behind the first batch that makes no sense may be a whole segment.
_CHUNK_BYTES = 1 << 20
# No two batches of one segment lie further apart.
_MAX_OFFSETS = 2**31
_MAGIC_BYTE = bytes((MAGIC,))


def is_torn(file: FileHandle, position: int, next_offset: int) -> bool:
    """Return whether nothing from `position` to the end of a file was ever acknowledged.

    Args:
        file: A segment's.
        position: Where the first batch that makes no sense begins.
        next_offset: The offset that a batch there has.
    """
    size_bytes = file.size_bytes() - position
    if size_bytes < HEADER_SIZE_BYTES:
        return True
    header = read_header(file.read(position, HEADER_SIZE_BYTES))
    is_whole = (header.magic == MAGIC and header.base_offset == next_offset
                and HEADER_SIZE_BYTES <= header.size_bytes <= size_bytes)
    return not is_whole and find_batch(file, position, next_offset) is None and (
        header.crc != checksum(file.read(position, size_bytes)))


def sound_header(file: FileHandle, position: int, next_offset: int) -> BatchHeader | None:
    """Return the header of the batch at `position`; None where none could belong there, or its checksum is wrong.

    Args:
        file: A segment's.
        position: Where it would begin.
        next_offset: The lowest offset that it may have.
    """
    left = file.size_bytes() - position
    if left < HEADER_SIZE_BYTES:
        return None
    header = read_header(file.read(position, HEADER_SIZE_BYTES))
    if (header.magic == MAGIC and next_offset <= header.base_offset < next_offset + _MAX_OFFSETS
            and header.last_offset_delta >= 0 and HEADER_SIZE_BYTES <= header.size_bytes <= left
            and checksum(file.read(position, header.size_bytes)) == header.crc):
        return header
    return None


def find_batch(file: FileHandle, position: int, next_offset: int) -> int | None:
    """Return where the first sound batch that could belong there begins, at `position` or behind it; None without.

    Args:
        file: A segment's.
        position: Where to begin.
        next_offset: The lowest offset that it may have.
    """
    end = file.size_bytes()
    while position + HEADER_SIZE_BYTES <= end:
        chunk = file.read(position, _CHUNK_BYTES + HEADER_SIZE_BYTES)
        at = chunk.find(_MAGIC_BYTE, MAGIC_OFFSET)
        while at >= 0 and at - MAGIC_OFFSET < _CHUNK_BYTES:
            start = at - MAGIC_OFFSET
            base_offset, length = OVERHEAD_STRUCT.unpack_from(chunk, start)
            if (next_offset <= base_offset < next_offset + _MAX_OFFSETS
                    and HEADER_SIZE_BYTES <= length + LOG_OVERHEAD_BYTES <= end - position - start
                    and sound_header(file, position + start, next_offset) is not None):
                return position + start
            at = chunk.find(_MAGIC_BYTE, at + 1)
        position += _CHUNK_BYTES
    return None
