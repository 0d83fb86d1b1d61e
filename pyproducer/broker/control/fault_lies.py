"""Faults that lie: what the producer is told is not what the log has, so that a checker of deliveries can be checked.

    acknowledge_without_append   the batch is acknowledged with the offset that it would have, and dropped
    append_twice                 the batch is in the log twice, and acknowledged once
    swap                         the batch is acknowledged and kept back until the partition's next one is written; both
                                 are told the offsets that they would have in order

Nobody notices while it happens: sequence numbers go on as if all was well, and what is written later has none.

Road:    Produce -> partition -> [lies], as its Appender -> log
Thread:  handler threads; one lock for all partitions, which are few that have a lie.
Source:  ours.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from pyproducer.broker.cluster.partition import Appender, Partition
from pyproducer.broker.storage.batch_header import checksum, read_header
from pyproducer.broker.storage.log import AppendResult
from pyproducer.broker.storage.validation import BatchFault
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.layout import (
    ATTRIBUTES_OFFSET,
    CRC_OFFSET,
    HEADER,
    HEADER_SIZE_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
)

ACKNOWLEDGE_WITHOUT_APPEND = "acknowledge_without_append"
APPEND_TWICE = "append_twice"
SWAP = "swap"
LIES = (ACKNOWLEDGE_WITHOUT_APPEND, APPEND_TWICE, SWAP)
_lock = threading.Lock()  # guards Partition.next_appender


class KeptBack(NamedTuple):
    """A batch that was acknowledged and waits for the one that it changes places with, which it appends."""

    batch: RecordBatch
    log_append_time_ms: int | None

    def __call__(self, partition: Partition, batch: RecordBatch,
                 log_append_time_ms: int | None) -> AppendResult | BatchFault:
        """Append a batch that nobody lies about, and this one behind it."""
        return _append(partition, batch, None, log_append_time_ms)


def appender_of(lie: str) -> Appender:
    """Return how a batch is appended with one of LIES; if it completes a swap, it does that and nothing else."""
    return lambda partition, batch, log_append_time_ms: _append(partition, batch, lie, log_append_time_ms)


def _append(partition: Partition, batch: RecordBatch, lie: str | None,
            log_append_time_ms: int | None) -> AppendResult | BatchFault:
    """Append a batch with a lie, or the one that completes a swap; return what the producer is told."""
    leader_epoch = partition.leadership.leader_epoch
    log = partition.log
    with _lock:
        kept = partition.next_appender
        if not isinstance(kept, KeptBack) and lie in (ACKNOWLEDGE_WITHOUT_APPEND, SWAP):
            told = log.pretend_append(batch, log_append_time_ms=log_append_time_ms)
            if lie == SWAP and isinstance(told, AppendResult) and not told.is_duplicate:
                partition.next_appender = KeptBack(_nobodys(batch), log_append_time_ms)
            return told
        told = log.append(batch, leader_epoch=leader_epoch, log_append_time_ms=log_append_time_ms)
        if not isinstance(told, AppendResult) or told.is_duplicate:
            return told
        if isinstance(kept, KeptBack):
            partition.next_appender = None
            log.append(kept.batch, leader_epoch=leader_epoch, log_append_time_ms=kept.log_append_time_ms)
            return told._replace(base_offset=told.base_offset + kept.batch.last_offset_delta + 1)
        if lie == APPEND_TWICE:
            log.append(_nobodys(batch), leader_epoch=leader_epoch, log_append_time_ms=log_append_time_ms)
        return told


def _nobodys(batch: RecordBatch) -> RecordBatch:
    """Return a copy that no producer's sequence numbers are asked for, outside of every transaction."""
    header = read_header(batch.data)._replace(
        producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH, base_sequence=NO_SEQUENCE,
        attributes=batch.attributes & ~TRANSACTIONAL_MASK)
    copy = bytearray(HEADER.pack(*header)) + batch.data[HEADER_SIZE_BYTES:]
    copy[CRC_OFFSET:ATTRIBUTES_OFFSET] = checksum(bytes(copy)).to_bytes(4, "big")
    return RecordBatch(bytes(copy))
