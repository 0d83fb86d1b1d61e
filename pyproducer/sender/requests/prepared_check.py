"""DescribeTransactions: whether a transaction that this producer prepared is still open, before its id is bound anew.

To initialise an id aborts what is open with it. Who prepared a transaction has promised not to do that.

Road:    init_transactions() with an id that was prepared -> [check] -> InitProducerId
Thread:  sender thread only.
Source:  ours (Java cannot bind an id anew).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyproducer.client.find_coordinator import TRANSACTION
from pyproducer.client.request import ClientResponse
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import IllegalStateError, KafkaError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.requests.own_request import CoordinatorKey, OwnRequest, Reaction
from pyproducer.transaction.prepared_transaction import PreparedTransaction
from pyproducer.transaction.transaction_state import TransactionState
from pyproducer.transaction.transactions import Transactions

ONGOING = "Ongoing"


def next_check(transactions: Transactions) -> PreparedCheck | None:
    """Return the request when an id is to be bound with which a transaction was prepared; see NextRequest."""
    if transactions.state is not TransactionState.INITIALIZING or not transactions.prepared:
        return None
    pending = transactions.pending
    prepared = None if pending is None else transactions.prepared.get(pending.binds)
    if prepared is None:
        return None
    if prepared.is_empty:
        transactions.prepared.pop(prepared.transactional_id)
        return None
    return PreparedCheck(transactions, prepared)


class PreparedCheck(OwnRequest):
    """One request."""

    api_key = ApiKeys.DESCRIBE_TRANSACTIONS

    def __init__(self, transactions: Transactions, prepared: PreparedTransaction) -> None:
        super().__init__(CoordinatorKey(TRANSACTION, prepared.transactional_id))
        self._transactions = transactions
        self._prepared = prepared

    def build(self, version: int) -> Mapping[str, Any]:
        """See OwnRequest."""
        return {"transactional_ids": [self._prepared.transactional_id]}

    def on_answer(self, response: ClientResponse) -> Reaction:
        """See OwnRequest."""
        prepared = self._prepared
        for row in response.body["transaction_states"]:
            if row["transactional_id"] != prepared.transactional_id:
                continue
            code = row["error_code"]
            if code not in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                error = self.error_of(code, response)
                reaction = self.judge(error)
                if reaction is None:
                    self._transactions.on_refused(error)
                return reaction or Reaction.DONE
            if code == ErrorCode.NONE and row["transaction_state"] == ONGOING and (
                    row["producer_id"], row["producer_epoch"]) == (prepared.producer_id, prepared.epoch):
                self._transactions.on_refused(IllegalStateError(
                    "init_transactions() would abort the transaction that this producer prepared with transactional.id "
                    f"{prepared.transactional_id!r}, and which is still open: end it first by a TransactionCompleter, "
                    "or while this producer is bound to it by commit_transaction() or abort_transaction()"))
            else:
                self._transactions.prepared.pop(prepared.transactional_id, None)
            return Reaction.DONE
        return self.left_out(f"transactional id {prepared.transactional_id!r}")

    def on_refused(self, error: KafkaError) -> None:
        """See OwnRequest."""
        self._transactions.on_refused(error)

    def on_hopeless(self, error: KafkaError) -> None:
        """See OwnRequest."""
        self._transactions.on_refused(error)
