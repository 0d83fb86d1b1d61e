"""An expired batch gave its buffer back while its request was being written, and others wrote into it.

Reference: KAFKA-19012 (apache/kafka#21065); Dekaf #1574 the same for its pooled batches.
Seen:      Records of one topic in another one, now and then, for years.
Planted:   A batch that expires on the wire is finished at once, and its bytes are overwritten, as by the next owner.
"""

from __future__ import annotations

from tests.simulation.museum import Edit

PATCH = (
    Edit("sender/completion.py", """
            batch.fail(lambda _index: error)
            move(batch, BatchState.LATE)
""", """
            batch.fail(lambda _index: error)
            self._accumulator.finish(batch)
            payload = batch.payload
            if payload is not None:
                payload[61:] = bytes(len(payload) - 61)
"""),
)
