"""What a driver knows before a batch, and what each task of it has to do by that.

    what was decided last   the batch                what a task does
    nothing                 0                        it writes
    batch L                 L + 1, nothing is lost   it writes
    batch L                 L, nothing is lost       nothing: its rows are there
    batch L                 L, some are lost         it writes its rows again if they are among the lost ones; in any
                                                     case they must be those that were decided
    all else                                         refused: a checkpoint of another query, deleted or rolled back

Road:    TwoPhase.plan() -> [plan] -> each task -> TaskTransaction
Thread:  values.
Source:  ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyproducer.common.cluster import TopicPartition
from pyproducer.twophase.decision import NO_BATCH, Decision
from pyproducer.twophase.errors import LostTransactionsError, RefusedBatchError
from pyproducer.twophase.task import NO_ROWS, RowsDigest, TaskTransaction, TransactionalRowProducer, task_id

if TYPE_CHECKING:
    from uuid import UUID

    from pyproducer.record.layout import ProducerIdAndEpoch


@dataclass(frozen=True)
class Plan:
    """What TwoPhase.plan() found; it travels to the tasks, and with what they did back to the driver.

    Attributes:
        prefix: Of all ids and groups.
        topic: Whose partition 0 the groups' offsets are kept for.
        driver: Producer id and epoch by which this plan's batch is decided; another plan makes them void.
        last: What was decided last; None where nothing was. Its tasks are here only where some are lost.
        lost: Indexes of tasks that were decided, and whose transactions are gone.
        adopts: Whether a first batch above 0 is taken.
        topic_id: Of the topic; None where it was not there yet.
        rows: How many rows the last batch was decided with, and a checksum of all of them.
    """

    prefix: str
    topic: str
    driver: ProducerIdAndEpoch
    last: Decision | None = None
    lost: frozenset[int] = frozenset()
    adopts: bool = False
    topic_id: UUID | None = None
    rows: RowsDigest = NO_ROWS

    @property
    def place(self) -> TopicPartition:
        """The partition that all offsets are kept for."""
        return TopicPartition(self.topic, 0)

    def work(self, index: int, batch_id: int, query_id: str = "") -> Work:
        """Return what a task is to do.

        Args:
            index: Of the task: 0 and on, the same for the same rows when the batch is repeated.
            batch_id: Number of the batch.
            query_id: Whose batches these are, where that is known: what stays the same as long as numbers go on.

        Raises:
            RefusedBatchError: The batch does not follow what was decided. Nothing was written.
            LostTransactionsError: Rows of the batch before are lost, and are not written again. Nothing was written.
        """
        self.ensure_follows(batch_id, query_id)
        is_repeated = batch_id == self.last_batch_id
        return Work(self, index, batch_id, query_id, is_done=is_repeated and index not in self.lost)

    @property
    def last_batch_id(self) -> int:
        """Number of the batch that was decided last; -1 where none was."""
        return NO_BATCH if self.last is None else self.last.batch_id

    def ensure_follows(self, batch_id: int, query_id: str = "") -> None:
        """Check that a batch may be written.

        Raises:
            RefusedBatchError: It may not. Nothing was written.
            LostTransactionsError: Rows of the batch before are lost, and are not written again. Nothing was written.
        """
        last = self.last
        if last is None:
            if batch_id > 0 and not self.adopts:
                raise RefusedBatchError(
                    f"batch {batch_id} of exactly.once.id {self.prefix!r}: nothing is known of the batches before it. "
                    "Either the query wrote them without exactly.once.id: start it once with "
                    "exactly.once.start=current; or what was decided was forgotten, after offsets.retention.minutes "
                    "(7 days by default) without a batch: then look whether the batch is in the topic before that. "
                    "Nothing was written")
            return
        if query_id and last.query_id and query_id != last.query_id:
            raise RefusedBatchError(
                f"batch {batch_id} of query {query_id}: exactly.once.id {self.prefix!r} is that of query "
                f"{last.query_id}, which has written up to batch {last.batch_id}. A new checkpoint, or another query, "
                "needs an id of its own. Nothing was written")
        if self.lost and batch_id > last.batch_id and not self.adopts:
            raise LostTransactionsError(
                f"batch {batch_id} of exactly.once.id {self.prefix!r}: of batch {last.batch_id}, which was decided, "
                f"the rows of tasks {sorted(self.lost)} are not in the topic: their transactions were aborted before "
                "they were committed (transaction.timeout.ms), and the query does not repeat it: was the error of "
                "that batch caught, in foreachBatch for one? To go on without these rows start once with "
                "exactly.once.start=current. Nothing was written")
        if batch_id < last.batch_id or (batch_id > last.batch_id + 1 and not self.adopts):
            raise RefusedBatchError(
                f"batch {batch_id} of exactly.once.id {self.prefix!r} does not follow batch {last.batch_id}, the last "
                "one that was decided: the checkpoint was rolled back or is another one, or batches were written "
                "without exactly.once.id. With a new checkpoint use a new id. Nothing was written")


@dataclass(frozen=True)
class Work:
    """What one task has to do.

    Attributes:
        plan: Where that comes from.
        index: Of the task.
        batch_id: Number of the batch.
        query_id: Whose.
        is_done: Whether its rows are there already: it writes none, and gives their digest to `ensure_same`, and with
            its outcome to the driver, which sees whether they have become more.
    """

    plan: Plan
    index: int
    batch_id: int
    query_id: str
    is_done: bool

    @property
    def transactional_id(self) -> str:
        """The id that the task's producer is bound to."""
        return task_id(self.plan.prefix, self.index)

    def ensure_same(self, digest: RowsDigest) -> None:
        """Check that the rows of a batch that is repeated are those that were decided; where none are lost any will do.

        Raises:
            LostTransactionsError: They are not.
        """
        last = self.plan.last
        if last is None or self.batch_id != last.batch_id or not self.plan.lost:
            return
        was = next((RowsDigest(task.row_count, task.checksum) for task in last.tasks if task.number == self.index),
                   RowsDigest())
        if digest != was:
            raise LostTransactionsError(
                f"batch {self.batch_id} of exactly.once.id {self.plan.prefix!r} was decided, and the transactions of "
                f"tasks {sorted(self.plan.lost)} were aborted before they were committed (transaction.timeout.ms). "
                f"They cannot be written again, for the query's rows are others now: task {self.index} had "
                f"{was.row_count} with checksum {was.checksum:08x}, and has {digest.row_count} with "
                f"{digest.checksum:08x}. What the other tasks wrote is in the topic. To go on without the lost rows "
                "use a new checkpoint, which begins behind this batch, and a new exactly.once.id. Nothing was written")

    def transaction(self, producer: TransactionalRowProducer) -> TaskTransaction:
        """Return the task's transaction, to be entered before rows are sent."""
        return TaskTransaction(self, producer)
