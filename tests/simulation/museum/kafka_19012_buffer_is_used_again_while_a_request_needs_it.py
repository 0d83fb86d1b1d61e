"""A batch's buffer was given back while a request still needed it, and others wrote into it.

Reference: KAFKA-19012 (apache/kafka#21065); Dekaf #1574 the same for its pooled batches.
Seen:      Records of one topic in another one, now and then, for years.
Planted:   Compressed batches are written into eight buffers in turn, whether those who have them are done or not.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("record/batch_writer.py", """
def close_records(""", """
_POOL = [bytearray() for _ in range(8)]


def close_records("""),
    Edit("record/batch_writer.py", """
    batch = bytearray(HEADER_SIZE_BYTES)
    batch += compressed
    return batch
""", """
    batch = _POOL.pop(0)
    _POOL.append(batch)
    batch[:] = bytes(HEADER_SIZE_BYTES) + bytes(compressed)
    return batch
"""),
)
