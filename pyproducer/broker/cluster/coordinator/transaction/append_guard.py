"""Between Produce or TxnOffsetCommit and a log: only records of an open transaction get in.

A batch that came after its transaction's marker would open the transaction again, for ever. So the transactional id's
lock is held from the look at the transaction to the end of the append; the marker waits for it.

Road:    Produce, TxnOffsetCommit -> [append guard] -> transaction coordinator; partition's log
Thread:  handler threads.
Source:  Java AddPartitionsToTxnManager, ReplicaManager.maybeSendPartitionsToTransactionCoordinator, and its translation
         of codes (4.1). Differs from Java: the lock replaces the VerificationGuard.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from pyproducer.broker.cluster.coordinator.transaction.coordinator import TransactionCoordinator
from pyproducer.broker.cluster.partition import Partition
from pyproducer.broker.storage.batch_header import BatchHeader, read_header
from pyproducer.broker.storage.validation import BatchFault
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.layout import HEADER_SIZE_BYTES, TRANSACTIONAL_MASK, Buffer

if TYPE_CHECKING:
    from typing_extensions import Self

# Produce versions: from here on the client knows TRANSACTION_ABORTABLE; from here on partitions need not be added.
_ABORTABLE_FROM = 11
IMPLICIT_ADD_FROM = 12
# Level of transaction.version that a client speaks which lets the broker add its partitions.
_CLIENT_TRANSACTION_VERSION = 2
# Older clients would not ask again with these.
_NOT_YET = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


def note_attempt(partition: Partition, records: Buffer | None, timestamp_ms: int) -> BatchHeader | None:
    """Remember that a batch is to be appended, and return its header; None when it is none of a transaction.

    Without it, where the first batch of a producer is refused for something that passes, the second one, which is in
    flight already, would be stored: who has written nothing may begin with any sequence.

    Args:
        partition: Where to.
        records: The records field of a Produce request.
        timestamp_ms: The wall clock.
    """
    if records is None or len(records) < HEADER_SIZE_BYTES:
        return None  # what is not even a batch passes: the checks of records say so
    header = read_header(records)
    if not header.attributes & TRANSACTIONAL_MASK:
        return None
    partition.log.note_attempt(header, timestamp_ms)
    return header


class AppendGuard:
    """A context in which records of one transactional id are appended.

    Args:
        coordinator: Whom to ask.
        transactional_id: Whose records.
        produce_version: Version of the Produce request, or the one of the same age as another request's.
    """

    def __init__(self, coordinator: TransactionCoordinator, transactional_id: str, produce_version: int) -> None:
        self._coordinator = coordinator
        self._transactional_id = transactional_id
        self._version = produce_version
        self._lock = coordinator.lock_of(transactional_id)

    def __enter__(self) -> Self:
        if self._lock is not None:
            self._lock.acquire()
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._lock is not None:
            self._lock.release()

    def check_batch(self, partition: Partition, records: Buffer | None, timestamp_ms: int) -> BatchFault | None:
        """Return why a batch may not be appended now; None when it may, or is none of a transaction."""
        header = note_attempt(partition, records, timestamp_ms)
        if header is None:
            return None
        fault = self.check(partition, header.producer_id, header.producer_epoch)
        if fault is not None or self._version < IMPLICIT_ADD_FROM:
            return fault
        if header.base_sequence > 0 and not partition.log.producers.knows(header.producer_id):
            return BatchFault(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                              f"producer {header.producer_id} begins with sequence {header.base_sequence}")
        return None

    def check(self, partition: Partition, producer_id: int, producer_epoch: int) -> BatchFault | None:
        """Return why a producer may not append to a partition now, or None.

        Since Transactions V2 the partition is taken into the transaction here.
        """
        if partition.log.producers.has_open_transaction(producer_id, producer_epoch):
            return None
        error_code = self._coordinator.check_available(self._transactional_id) if self._transactional_id else (
            ErrorCode.NONE)
        if error_code is ErrorCode.NONE and self._version >= IMPLICIT_ADD_FROM:
            error_code = self._coordinator.add_partitions(
                self._transactional_id, producer_id, producer_epoch, (partition.topic_partition,),
                client_transaction_version=_CLIENT_TRANSACTION_VERSION)
        elif error_code is ErrorCode.NONE:
            error_code = self._coordinator.verify_partition(
                self._transactional_id, producer_id, producer_epoch, partition.topic_partition)
        return None if error_code is ErrorCode.NONE else self._translated(error_code)

    def _translated(self, error_code: ErrorCode) -> BatchFault:
        message = None
        why = f"transaction {self._transactional_id}: {error_code.name}"
        if error_code is ErrorCode.PRODUCER_FENCED:
            error_code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif error_code is ErrorCode.TRANSACTION_ABORTABLE and self._version < _ABORTABLE_FROM:
            error_code, message = ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"
        elif error_code in _NOT_YET and not (
                error_code is ErrorCode.CONCURRENT_TRANSACTIONS and self._version >= IMPLICIT_ADD_FROM):
            message = ("Unable to verify the partition has been added to the transaction. Underlying error: "
                       f"{error_code.name}")
            error_code = ErrorCode.NOT_ENOUGH_REPLICAS
        return BatchFault(error_code, why, message, tells_log_start_offset=False)
