"""init_transactions() and what follows it: the application's calls, each waited for up to max.block.ms.

Road:    KafkaProducer, AsyncKafkaProducer -> [calls] -> Transactions; the sender answers
Thread:  any caller; the calls of one producer's transaction belong to one thread, or to threads that agree.
Source:  Java KafkaProducer.initTransactions, beginTransaction, sendOffsetsToTransaction, commitTransaction,
         abortTransaction (4.1), prepareTransaction (KIP-939).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from pyproducer.accumulator.life import Life
from pyproducer.accumulator.produce_result import own_copy
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.clock import Clock
from pyproducer.common.errors import AbortableTransactionError, IllegalStateError, KafkaError, KafkaTimeoutError
from pyproducer.common.kafka_string import ensure_string
from pyproducer.observe.registry import Registry
from pyproducer.producer.consumed_offsets import to_group_metadata, to_offsets
from pyproducer.producer.mistakes import BOUND
from pyproducer.sender.requests.own_requests import OwnRequests
from pyproducer.transaction import transaction_errors
from pyproducer.transaction.pending_call import PendingCall
from pyproducer.transaction.transactions import Transactions

if TYPE_CHECKING:
    from pyproducer.producer.producer import TransactionalProducer

log: logging.Logger = logging.getLogger(__name__)

_TIMES = {"init_transactions()": "txn_init_ms_total", "send_offsets_to_transaction()": "txn_send_offsets_ms_total",
          "prepare_transaction()": "txn_prepare_ms_total", "commit_transaction()": "txn_commit_ms_total",
          "abort_transaction()": "txn_abort_ms_total"}
"""Where the time of a call is counted."""


def ensure_transactional_id(transactional_id: object) -> None:
    """Do nothing where it can be one, or is None.

    Raises:
        TypeError: It can be none.
        ValueError: No request can carry it.
    """
    if transactional_id is None:
        return
    if not (isinstance(transactional_id, str) and transactional_id):
        advice = f": there is no timeout, {BOUND}" if isinstance(transactional_id, (int, float)) else ""
        raise TypeError(f"transactional_id must be a str that is not empty, got {transactional_id!r}{advice}")
    ensure_string("transactional_id", transactional_id)


class Call(NamedTuple):
    """A call that waits, and is not made yet.

    Attributes:
        name: As it is told.
        begin: Moves the state, and returns what is waited for.
    """

    name: str
    begin: Callable[[], PendingCall]


class TransactionCalls:
    """The calls of one producer: `make` them, or have the state moved (`begun`), await, and be `told` one by one.

    Whoever is interrupted in between, as a task that is cancelled, may call the same again, and gets the same.

    Args:
        life: The producer's.
        transactions: The state; None without a transactional id.
        own_requests: Tells why an answer does not come.
        metadata: Tells which brokers cannot be reached.
        max_block_ms: Longest wait of a call.
        registry: Has how long callers were in each.
        clock: For that.

    Attributes:
        clock: As given.
    """

    def __init__(self, *, life: Life, transactions: Transactions | None, own_requests: OwnRequests | None,
                 metadata: ProducerMetadata, max_block_ms: int, registry: Registry, clock: Clock) -> None:
        self._life = life
        self._transactions = transactions
        self._own_requests = own_requests
        self._metadata = metadata
        self._max_block_ms = max_block_ms
        self._registry = registry
        self.clock: Clock = clock

    def init(self, transactional_id: str | None) -> Call:
        """See KafkaProducer.init_transactions."""
        name = "init_transactions()"
        transactions = self.transactional(name)
        ensure_transactional_id(transactional_id)
        return Call(name, partial(transactions.initialize, transactional_id))

    def begin(self) -> None:
        """See KafkaProducer.begin_transaction; it waits for nothing."""
        name = "begin_transaction()"
        transactions = self.transactional(name)
        self._life.calls.run(name, transactions.begin)

    def send_offsets(self, offsets: Any, group_metadata: Any) -> Call:
        """See KafkaProducer.send_offsets_to_transaction."""
        name = "send_offsets_to_transaction()"
        transactions = self.transactional(name)
        found, group = to_offsets(offsets), to_group_metadata(group_metadata)
        return Call(name, partial(transactions.add_offsets, found, group))

    def prepare(self) -> Call:
        """See KafkaProducer.prepare_transaction."""
        name = "prepare_transaction()"
        return Call(name, self.transactional(name).prepare)

    def commit(self) -> Call:
        """See KafkaProducer.commit_transaction."""
        name = "commit_transaction()"
        return Call(name, self.transactional(name).commit)

    def abort(self) -> Call:
        """See KafkaProducer.abort_transaction."""
        name = "abort_transaction()"
        return Call(name, self.transactional(name).abort)

    def make(self, call: Call) -> Any:
        """Move the state, wait for what follows, up to max.block.ms, and return what the call gives."""
        began_ms = self.clock.now_ms()
        try:
            return self.told(self.wait(call))
        finally:
            self.add_time(call, began_ms)

    def add_time(self, call: Call, began_ms: int) -> None:
        """Count how long a caller was in a call, which is over."""
        self._registry.add_transaction_call(_TIMES[call.name], self.clock.now_ms() - began_ms)

    def told(self, pending: PendingCall) -> Any:
        """Return what a call gives, or raise why it failed: from here on its caller knows."""
        if pending.error is None and pending.call == "abort_transaction()" and not pending.is_told:
            # First: interrupted, the call is made again.
            self._life.calls.run(pending.call, self._life.tally.on_aborted)
        pending.is_told = True
        if pending.error is None:
            return pending.value
        error = own_copy(pending.error)
        try:
            raise error
        finally:
            del error  # else its traceback, with the caller's frames, and it would keep each other

    def transactional(self, call: str) -> Transactions:
        """Return the state, where there is one, and the producer is open."""
        self._life.ensure_open()
        if self._transactions is None:
            raise IllegalStateError(f"{call} needs a transactional producer: set transactional.id")
        left = self._transactions.left
        if left is not None and left.call != call and left.is_set and left.error is None:
            self.told(left)  # else whoever repeats it gets its outcome, as ever
        return self._transactions

    @property
    def take_records(self) -> bool:
        """Whether a transaction is open that is neither prepared, nor ending, nor failing."""
        return self._transactions is not None and self._transactions.takes_records

    @property
    def left(self) -> Call | None:
        """The call that a block has left before it had ended, to wait for; None where nobody has to."""
        left = None if self._transactions is None else self._transactions.left
        return None if left is None else Call(left.call, lambda: left)

    def leave(self, call: str) -> None:
        """A block that is over does not repeat its call."""
        if self._transactions is not None:
            self._transactions.leave(call)

    def begun(self, call: Call) -> tuple[PendingCall, int | None]:
        """Move the state, for a task; return what that awaits, and until when."""
        deadline_ms = self._life.begin_wait(call.name, self._max_block_ms / 1000, is_awaited=True)
        return self._life.calls.run(call.name, call.begin), deadline_ms

    def wait(self, call: Call) -> PendingCall:
        """Move the state, and wait for what follows, up to max.block.ms."""
        deadline_ms = self._life.begin_wait(call.name, self._max_block_ms / 1000)
        return self._life.calls.run(call.name, self._await, call, deadline_ms)

    def _await(self, call: Call, deadline_ms: int | None) -> PendingCall:
        pending = call.begin()
        if not pending.wait(lambda cell: self._life.wait(cell, deadline_ms)):
            raise self.timed_out(call.name)
        return pending

    def timed_out(self, call: str) -> KafkaTimeoutError:
        """Return the error of a call that was not done in time."""
        assert self._transactions is not None, "it waits for them"
        why = "".join(f"; {reason}" for reason in (self.trouble, self._metadata.describe_failures()) if reason)
        return transaction_errors.timed_out(call, self._max_block_ms, self._transactions.transactional_id, why)

    @property
    def trouble(self) -> str:
        """Why the client's own requests fail, for people; "" where none does."""
        return "" if self._own_requests is None else self._own_requests.trouble


class TransactionBlock:
    """A `with` block that is one transaction: committed at its end, aborted where it is left by an exception.

    Args:
        producer: Whose.
        calls: The producer's; None of a mock, whose calls end at once.
    """

    def __init__(self, producer: TransactionalProducer[Any, Any], calls: TransactionCalls | None = None) -> None:
        self._producer = producer
        self._calls = calls

    def __enter__(self) -> None:
        if self._calls is not None and self._calls.left is not None:
            self._calls.make(self._calls.left)
        self._producer.begin_transaction()

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if exc is None:
            try:
                self._producer.commit_transaction()
            except AbortableTransactionError:
                self._abort()
                raise
        else:
            self._abort()

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction()
        except KafkaError as error:  # another one is on its way, which is the one to be seen
            log.warning(NOT_ABORTED, error)
        finally:
            if self._calls is not None:
                self._calls.leave("abort_transaction()")


NOT_ABORTED = "A transaction that is left by an exception could not be aborted: %s"
