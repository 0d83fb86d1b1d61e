"""What became of an append: where the record or the rows went, and whether the sender should look.

Road:    RecordAccumulator -> [AppendResult] -> RecordSender, BatchSender
Thread:  values.
Source:  Java RecordAccumulator.RecordAppendResult (4.1).
"""

from __future__ import annotations

from typing import NamedTuple

from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.hotpath import FutureRecordMetadata


class AppendResult(NamedTuple):
    """The future of a record, the batch it is in, whether that is full, and whether it was opened for the record.

    The sender is woken when either is true.
    """

    future: FutureRecordMetadata
    batch: ProducerBatch
    batch_is_full: bool
    new_batch_created: bool


class AppendRowsResult(NamedTuple):
    """How many rows a batch took, the batch, whether it is full, and whether it was opened for them."""

    row_count: int
    batch: ProducerBatch
    batch_is_full: bool
    new_batch_created: bool
