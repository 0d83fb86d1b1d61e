"""What a turn does for the open transaction before batches are drained.

    a call closed it       no record comes any more: each open batch is sealed, and none lingers
    it fails               what is not on its way is given up, offsets too
    all of it is stored    who prepared it is told
    then                   the client's own request that is due

Road:    Sender.run_once -> [steps] -> OwnRequests; drain comes after
Thread:  sender thread only.
Source:  Java Sender.runOnce, maybeSendAndPollTransactionalRequest (4.1).
"""

from __future__ import annotations

from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.sender.completion import Completion
from pyproducer.sender.requests.own_requests import OwnRequests
from pyproducer.transaction.prepared_transaction import PreparedTransaction
from pyproducer.transaction.transaction_state import TransactionState
from pyproducer.transaction.transactions import Transactions

log: SenderLog = sender_log(__name__)


class TransactionSteps:
    """Takes these steps for one transactional producer.

    Args:
        manager: Has the sequence numbers' owner.
        transactions: The state.
        accumulator: Has the records.
        completion: Fails them.
        requests: The client's own requests.
        longest_end_ms: How long a producer that is being closed tries to end its transaction.
    """

    def __init__(self, *, manager: TransactionManager, transactions: Transactions, accumulator: RecordAccumulator,
                 completion: Completion, requests: OwnRequests, longest_end_ms: int) -> None:
        self._manager = manager
        self._transactions = transactions
        self._accumulator = accumulator
        self._completion = completion
        self._requests = requests
        self._longest_end_ms = longest_end_ms
        self._give_up_at_ms: int | None = None
        self._has_given_up: bool = False

    def step(self, now_ms: int) -> int:
        """Take them; return how long the poll may wait, in ms."""
        transactions = self._transactions
        current = transactions.current
        if transactions.is_closed and not current.is_closed_off:
            self._accumulator.close_off()
            current.is_closed_off = True  # last: what an exception interrupts is done again
        if transactions.is_failing:
            transactions.give_up_offsets()
            if not self._accumulator.is_empty():
                self._completion.abort(transactions.failure_of_records(), of_transaction=True)
        if self._manager.disturbed:
            self._manager.settle()
        if transactions.state is TransactionState.PREPARED and not current.offsets and self._accumulator.is_empty():
            self._hand_out()
        return self._requests.step(now_ms)

    def _hand_out(self) -> None:
        transactions = self._transactions
        pending, current = transactions.pending, transactions.current
        if pending is not None and not pending.is_set:
            transactions.on_all_sent(PreparedTransaction(
                transactions.transactional_id, *self._manager.producer_id_and_epoch, tuple(sorted(current.partitions)),
                current.has_offsets))

    @property
    def has_work(self) -> bool:
        """Whether anything but new records, or a call, will ask for a request of the client's own."""
        transactions = self._transactions
        return (transactions.state is TransactionState.INITIALIZING or transactions.is_ending
                or bool(transactions.current.offsets))

    def ms_to_go_on(self, now_ms: int) -> int:
        """How long a producer that is being closed still waits for the end of its transaction, in ms; or 0."""
        if self._transactions.state is TransactionState.ABORTABLE_ERROR:
            self._transactions.begin_end_of_life()  # a commit, or a prepare, has failed since the close began
        if not self._transactions.is_ending:
            return 0
        if self._give_up_at_ms is None:
            self._give_up_at_ms = now_ms + self._longest_end_ms
        left_ms = max(0, self._give_up_at_ms - now_ms)
        if left_ms == 0 and not self._has_given_up:
            self._has_given_up = True
            log.warning("The transaction of %s was not ended within delivery.timeout.ms, and the producer is closed: "
                        "its coordinator aborts it after transaction.timeout.ms, unless it had the request",
                        self._transactions.transactional_id)
        return left_ms
