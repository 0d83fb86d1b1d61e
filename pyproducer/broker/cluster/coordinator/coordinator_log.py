"""Writing a coordinator's records to its partition of an internal topic, and reading all of them back at start.

Road:    group, transaction coordinator -> [coordinator log] -> partition's log -> fetches that wait
Thread:  any; the order of a coordinator's records is the order of its calls.
Source:  Java CoordinatorPartitionWriter, CoordinatorLoaderImpl, TransactionStateManager.loadTransactionMetadata (4.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyproducer.broker.cluster.delayed_operation import DelayedFetches
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.storage.log import AppendResult
from pyproducer.broker.storage.validation import BatchFault
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.batch_reader import RecordBatch, read_batches
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

KeyValue = tuple[bytes, "bytes | None"]
"""A record's key and value; None deletes what was under the key."""

_READ_BYTES = 1 << 20


def append_batch(delayed_fetches: DelayedFetches, partition: Partition, records: Sequence[KeyValue], *,
                 timestamp_ms: int, producer_id: int = NO_PRODUCER_ID, producer_epoch: int = NO_PRODUCER_EPOCH,
                 ) -> AppendResult | BatchFault:
    """Append records as one batch, and wake who waits for them.

    Args:
        delayed_fetches: Those to wake.
        partition: Of an internal topic.
        records: At least one.
        timestamp_ms: The wall clock.
        producer_id: Of the transaction that the records belong to; -1 for none.
        producer_epoch: The producer's epoch.

    Returns:
        Where the batch is, or why the log refused it.
    """
    if not partition.has_enough_replicas:
        return BatchFault(ErrorCode.NOT_ENOUGH_REPLICAS, f"in sync are {sorted(partition.replicas.isr)}, fewer than "
                                                         f"min.insync.replicas={partition.config.min_insync_replicas}")
    is_transactional = producer_id != NO_PRODUCER_ID
    batch = build_batch([(timestamp_ms, key, value, ()) for key, value in records], producer_id=producer_id,
                        producer_epoch=producer_epoch, is_transactional=is_transactional)
    result = partition.log.append(RecordBatch(batch), leader_epoch=partition.leadership.leader_epoch)
    if isinstance(result, AppendResult):
        delayed_fetches.check_and_complete(partition.topic_partition)
    return result


def append_records(delayed_fetches: DelayedFetches, partition: Partition, records: Sequence[KeyValue], *,
                   timestamp_ms: int, producer_id: int = NO_PRODUCER_ID,
                   producer_epoch: int = NO_PRODUCER_EPOCH) -> ErrorCode:
    """Do as `append_batch`; return only NONE, or the code with which the log refused."""
    result = append_batch(delayed_fetches, partition, records, timestamp_ms=timestamp_ms, producer_id=producer_id,
                          producer_epoch=producer_epoch)
    return ErrorCode.NONE if isinstance(result, AppendResult) else result.error_code


def read_log(partition: Partition) -> Iterator[RecordBatch]:
    """Yield all batches of a partition from its start to its end."""
    log = partition.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, _READ_BYTES, at_least_one=True)
        batch = None
        for batch in read_batches(data):
            yield batch
        if batch is None:
            return
        offset = batch.next_offset
