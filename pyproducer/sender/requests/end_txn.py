"""EndTxn: the end of a transaction, once nothing of it is on its way.

Since Transactions V2 its answer brings the next epoch, so that nothing which is late can touch the next transaction.
Before, a request whose answer was lost may come late, and end, or begin, another transaction of the same epoch: then
the next one gets an epoch of its own before it begins (found by Jepsen on Bufstream; KAFKA-18957 is a sibling).

Road:    commit_transaction(), abort_transaction() -> [EndTxn] -> READY
Thread:  sender thread only.
Source:  Java TransactionManager.EndTxnHandler, nextRequest, beginCompletingTransaction (4.1). Differs from Java, which
         asks for an epoch after an abort alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.request import ClientResponse
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import UNKNOWN
from pyproducer.common.sender_log import SenderLog, sender_log
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.layout import NO_PRODUCER_ID
from pyproducer.sender.requests.own_request import Reaction, TransactionRequest
from pyproducer.transaction.transaction_state import TransactionState
from pyproducer.transaction.transactions import Transactions

if TYPE_CHECKING:
    from pyproducer.client.wire import Wire

log: SenderLog = sender_log(__name__)

FIRST_VERSION_WITH_EPOCH = 5


def next_end(wire: Wire, manager: TransactionManager, transactions: Transactions,
             has_records: Callable[[], bool]) -> EndTxn | None:
    """Return the request when a transaction is to be ended and nothing of it is left here; or end it without one.

    Args:
        wire: Tells the cluster's features.
        manager: Takes the next epoch.
        transactions: Has the transaction.
        has_records: Whether any record of it is not done.
    """
    current = transactions.current
    if not transactions.is_ending or not current.is_closed_off or current.offsets or has_records():
        return None
    request = EndTxn(wire, manager, transactions, commit=transactions.state is TransactionState.COMMITTING)
    if current.is_known_there:
        return request
    # Of an empty one no coordinator knows: since Transactions V2 it would call a commit invalid.
    log.debug("The transaction of %s is empty, and ends here", transactions.transactional_id)
    request.end()
    return None


class EndTxn(TransactionRequest):
    """One request."""

    api_key = ApiKeys.END_TXN

    def __init__(self, wire: Wire, manager: TransactionManager, transactions: Transactions, *, commit: bool) -> None:
        super().__init__(manager, transactions,
                         max_version=None if transactions.is_v2 else FIRST_VERSION_WITH_EPOCH - 1)
        self._wire = wire
        self._commit = commit

    def build(self, version: int) -> Mapping[str, Any]:
        """See OwnRequest."""
        return {**self.whose(), "committed": self._commit}

    def on_answer(self, response: ClientResponse) -> Reaction:
        """See OwnRequest."""
        code = response.body["error_code"]
        if code == ErrorCode.NONE:
            producer_id = response.body.get("producer_id", NO_PRODUCER_ID)
            if producer_id != NO_PRODUCER_ID:
                self._manager.on_producer_id(producer_id, response.body["producer_epoch"])
                self._transaction.needs_epoch = ""
            self.end()
            return Reaction.DONE
        error = self.error_of(code, response,
                              f"The transaction cannot be {'committed' if self._commit else 'aborted'}:")
        reaction = self.judge(error)
        if reaction is not None:
            # Its append may have timed out and be there all the same: Kafka calls that COORDINATOR_NOT_AVAILABLE.
            self._transaction.is_end_lost |= code != ErrorCode.CONCURRENT_TRANSACTIONS
            return reaction
        transaction = self._transaction
        if code == ErrorCode.INVALID_TXN_STATE and not self._commit and not self._transactions.is_v2 and not (
                transaction.partitions or transaction.groups):
            # What was to be added to it had no answer, and did not come there. It still may.
            self.end()
        elif code in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID) and self._commit:
            self._transactions.on_failed(error)
        else:
            if self._transaction.is_end_lost or self._transactions.transactional_id in self._transactions.prepared:
                error.outcome = UNKNOWN  # an attempt before may have ended it, or somebody else
            self._transactions.on_fatal_error(error)
        return Reaction.DONE

    def end(self) -> None:
        """The transaction is ended."""
        transactions, why = self._transactions, self._transaction.needs_epoch
        features = self._wire.client.finalized_features
        if transactions.note_features(features.epoch, features.level_of("transaction.version")):
            why = why or "brokers have come to Transactions V2"  # else the last one's partitions could be taken for new
        if why:
            log.info("The next transaction of %s gets an epoch of its own: %s", transactions.transactional_id, why)
        transactions.on_ended(needs_epoch=bool(why))

    def on_lost(self) -> None:
        """See OwnRequest."""
        self._transaction.is_end_lost = True
        super().on_lost()
