"""May a record be sent now? One answer of the producer's life and of its transaction together.

send() asks it where its road has a gate, send_batch() always. The accumulator and the waiting room ask the same once
more, with the lock held of what takes the record (RecordAccumulator.ensure_takes_records), so the gate need not be set
and taken away in step with either: it only makes the usual case fast, and the refusal early.

Road:    send(), send_batch() -> [may send?] -> interceptors
Thread:  any.
Source:  Java KafkaProducer.throwIfProducerClosed, TransactionManager.maybeAddPartition (4.1).
"""

from __future__ import annotations

from pyproducer.accumulator.life import Life
from pyproducer.transaction.transactions import OpenTransaction, Transactions


class MaySend:
    """Asks both.

    Args:
        life: The producer's.
        transactions: Its transactions; None without a transactional id.
    """

    __slots__ = ("_life", "_transactions")

    def __init__(self, life: Life, transactions: Transactions | None = None) -> None:
        self._life = life
        self._transactions = transactions

    @property
    def is_free(self) -> bool:
        """Whether records may be sent."""
        return self._life.is_open and (self._transactions is None or self._transactions.takes_records)

    def ensure(self, within: OpenTransaction | None = None) -> None:
        """Do nothing while records may be sent.

        Args:
            within: The transaction that they belong to, as rows of a send_batch() do; None for a send().

        Raises:
            IllegalStateError: The producer is closed, forked or dead, or no transaction is open, or another one. Not
                sent.
            AbortableTransactionError: The transaction can only be aborted. Not sent.
            FatalProducerError: The producer can only be closed. Not sent.
        """
        self._life.ensure_open()
        if self._transactions is not None:
            self._transactions.ensure_may_send(within)

    def begin_batch(self) -> OpenTransaction | None:
        """Return the transaction that all rows of a send_batch() that begins now belong to; None without transactions.

        Raises:
            IllegalStateError: As `ensure`, and so are the others.
            AbortableTransactionError: The same.
            FatalProducerError: The same.
        """
        self._life.ensure_open()
        if self._transactions is None:
            return None
        self._transactions.ensure_may_send(is_batch=True)
        return self._transactions.current  # now: if this is another one already, the call begins in that
