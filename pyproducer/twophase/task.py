"""One task's part of a batch: a transaction that is prepared, and that the driver ends.

Its id is that of the task's index, whatever the attempt: who begins again fences, and aborts, what was before. In the
transaction is a marker beside the rows, the batch's number as an offset of the group of that name, by which it can be
seen whether it was committed when its coordinator knows that no more.

Road:    Work -> [task] -> KafkaProducer -> TaskOutcome -> driver
Thread:  the task's.
Source:  ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pyproducer.common.consumer_offsets import ConsumerGroupMetadata
from pyproducer.common.errors import KafkaError
from pyproducer.record.checksum import crc32c
from pyproducer.transaction.prepared_transaction import PreparedTransaction

if TYPE_CHECKING:
    from pyproducer.record.layout import Buffer
    from pyproducer.twophase.plan import Plan, Work


def task_id(prefix: str, index: int) -> str:
    """Return the transactional id, and the marker's group, of a task."""
    return f"{prefix}.p{index}"


class TransactionalRowProducer(Protocol):
    """What is used here of KafkaProducer."""

    def init_transactions(self, transactional_id: str | None = None) -> None:
        """Bind an id, and fence who has it."""

    def begin_transaction(self) -> None:
        """Begin."""

    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        """Commit offsets of a group in it."""

    def prepare_transaction(self) -> PreparedTransaction:
        """Wait until all is stored."""

    def abort_transaction(self) -> None:
        """Abort."""


class RowsDigest(NamedTuple):
    """What tells rows from others: how many they are, and a checksum of them in their order.

    Attributes:
        row_count: How many.
        checksum: CRC-32C.
    """

    row_count: int = 0
    checksum: int = 0

    def plus(self, rows: Buffer, row_count: int = 1) -> RowsDigest:
        """Return it with more rows, as bytes that are equal for equal rows."""
        return RowsDigest(self.row_count + row_count, crc32c(rows, self.checksum))

    @classmethod
    def of_all(cls, digests: Iterable[RowsDigest]) -> RowsDigest:
        """Return one for the rows of several tasks, in whatever order these come."""
        row_count = checksum = 0
        for digest in digests:
            row_count += digest.row_count
            checksum += digest.checksum  # XOR would make nothing of two equal ones
        return cls(row_count, checksum % 2**32)


NO_ROWS = RowsDigest()


@dataclass(frozen=True)
class TaskOutcome:
    """What a task did; it travels to the driver.

    Attributes:
        plan: By which.
        index: Of the task.
        batch_id: Number of the batch.
        query_id: Whose.
        prepared: What is to be committed; None where the task had no rows, or they were there.
        digest: Of the rows in it, or that were there.
    """

    plan: Plan
    index: int
    batch_id: int
    query_id: str
    prepared: PreparedTransaction | None = None
    digest: RowsDigest = NO_ROWS

    @classmethod
    def of(cls, work: Work, prepared: PreparedTransaction | None = None,
           digest: RowsDigest = NO_ROWS) -> TaskOutcome:
        """Return that of a task; without a transaction where it wrote nothing."""
        return cls(work.plan, work.index, work.batch_id, work.query_id, prepared, digest)


class TaskTransaction:
    """A context manager: the rows that are sent in it are prepared, or aborted.

    Args:
        work: What the task does.
        producer: It has a transactional.id, whichever, and is bound to the task's here.
    """

    def __init__(self, work: Work, producer: TransactionalRowProducer) -> None:
        self._work = work
        self._producer = producer
        self._is_open = False

    def __enter__(self) -> TaskTransaction:
        """Bind the id, which ends what any other attempt has left, and begin.

        Raises:
            IllegalStateError: This producer has prepared an earlier attempt itself, which is still open: another
                producer may do it. Not sent.
            KafkaError: As init_transactions(). Not sent.
        """
        self._producer.init_transactions(self._work.transactional_id)
        self._producer.begin_transaction()
        self._is_open = True
        return self

    def prepare(self, digest: RowsDigest) -> TaskOutcome:
        """Wait until all is stored, and return what the driver needs.

        Args:
            digest: Of the rows that were sent.

        Raises:
            LostTransactionsError: The batch is repeated, and these rows are others than those that were decided.
            KafkaError: A row or the marker was not stored. All is aborted when the block ends.
        """
        work = self._work
        work.ensure_same(digest)
        self._producer.send_offsets_to_transaction({work.plan.place: work.batch_id},
                                                   ConsumerGroupMetadata(work.transactional_id))
        prepared = self._producer.prepare_transaction()
        self._is_open = False
        return TaskOutcome.of(work, prepared, digest)

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(KafkaError):  # then the next attempt, the next plan or the coordinator does it
                self._producer.abort_transaction()
