"""InitProducerId: the id and the epoch that sequence numbers belong to.

    without a transactional id   any broker gives an id, as soon as there are records; before, the producer is silent
    with one, first              its coordinator gives an epoch that fences every earlier producer of the id
    with one, again              the next epoch, where a transaction ended and its epoch cannot be gone on with: the
                                 request names the epoch of now, so that who was fenced meanwhile fences nobody

Road:    beside it; nothing is numbered before the id came.
Thread:  sender thread only.
Source:  Java TransactionManager.InitProducerIdHandler (4.1); KIP-360 (again), KIP-939 (version 6).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.find_coordinator import TRANSACTION
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.request import ClientResponse
from pyproducer.common.cluster import address_text
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    ApiError,
    AuthorizationError,
    KafkaError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.layout import MAX_EPOCH, NO_PRODUCER, ProducerIdAndEpoch
from pyproducer.sender.requests.own_request import CoordinatorKey, OwnRequest, Reaction
from pyproducer.transaction.transaction_state import TransactionState
from pyproducer.transaction.transactions import Transactions

if TYPE_CHECKING:
    from pyproducer.client.wire import Wire

NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1  # what Java sends without a transactional id, and for two-phase commit
FIRST_VERSION_WITH_EPOCH = 3
FIRST_VERSION_WITH_TWO_PHASE = 6
"""Not stable yet: it is asked for by who asks for two-phase commit alone."""
_FENCINGS = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


def next_init(wire: Wire, metadata: ProducerMetadata, manager: TransactionManager,
              has_records: Callable[[], bool]) -> InitProducerId | None:
    """Return the request while an id, or an epoch, is needed; see NextRequest.

    Args:
        wire: Tells the cluster's features.
        metadata: Where strange answers are noted.
        manager: Who takes the id.
        has_records: Whether there is anything to send.
    """
    request = partial(InitProducerId, wire, metadata, manager, has_records)
    transactions = manager.transactions
    if transactions is None:
        return request(None, NO_PRODUCER) if manager.needs_producer_id and has_records() else None
    if transactions.state is not TransactionState.INITIALIZING:
        return None
    pending = transactions.pending
    if pending is None or not pending.binds:
        return request(transactions, manager.producer_id_and_epoch)
    if pending.binds in transactions.prepared:
        return None  # what was prepared is looked at first, see prepared_check.py
    manager.forget_producer_id()
    return request(transactions, NO_PRODUCER)


class InitProducerId(OwnRequest):
    """One request."""

    api_key = ApiKeys.INIT_PRODUCER_ID

    def __init__(self, wire: Wire, metadata: ProducerMetadata, manager: TransactionManager,
                 has_records: Callable[[], bool], transactions: Transactions | None,
                 goes_on_from: ProducerIdAndEpoch) -> None:
        self._two_phase = transactions is not None and transactions.two_phase
        super().__init__(None if transactions is None else CoordinatorKey(TRANSACTION, transactions.transactional_id),
                         FIRST_VERSION_WITH_TWO_PHASE if self._two_phase else None)
        self._wire = wire
        self._metadata = metadata
        self._manager = manager
        self._has_records = has_records
        self._transactions = transactions
        self._goes_on_from = goes_on_from

    def build(self, version: int) -> Mapping[str, Any]:
        """See OwnRequest."""
        transactions = self._transactions
        if transactions is None:
            return {"transactional_id": None, "transaction_timeout_ms": NO_TRANSACTION_TIMEOUT_MS}
        body: dict[str, Any] = {
            "transactional_id": transactions.transactional_id,
            "transaction_timeout_ms": NO_TRANSACTION_TIMEOUT_MS if self._two_phase else transactions.timeout_ms}
        if self._goes_on_from.is_valid:
            if version < FIRST_VERSION_WITH_EPOCH:
                raise UnsupportedVersionError(
                    "The coordinator cannot give the next epoch (InitProducerId from version 3, brokers from 2.5 on), "
                    "and with the epoch of now no other transaction is safe")
            body["producer_id"], body["producer_epoch"] = self._goes_on_from
        if self._two_phase:
            if version < FIRST_VERSION_WITH_TWO_PHASE:
                raise UnsupportedVersionError(
                    "transaction.two.phase.commit.enable = true needs InitProducerId in version 6, which this broker "
                    "does not offer: leave it out, and set transaction.timeout.ms")
            body["enable2_pc"] = True
        return body

    def on_answer(self, response: ClientResponse) -> Reaction:
        """See OwnRequest."""
        code = response.body["error_code"]
        if code == ErrorCode.NONE:
            return self._take(response, ProducerIdAndEpoch(response.body["producer_id"],
                                                           response.body["producer_epoch"]))
        error = self.error_of(code, response)
        reaction = self.judge(error)
        if reaction is None and self._transactions is None and isinstance(error, AuthorizationError):
            # What waits fails. An ACL may be there for the next record, as Java's Sender.shouldHandleAuthorizationError
            # sees it, who asks without a pause.
            self._manager.refusal = error if self._has_records() else None
            self.note(error)
            return Reaction.AGAIN
        if reaction is None:
            self.on_hopeless(error)
            return Reaction.DONE
        if self._transactions is None and reaction is Reaction.FIND_COORDINATOR:
            return Reaction.AGAIN  # any broker will do
        return reaction

    def _take(self, response: ClientResponse, answer: ProducerIdAndEpoch) -> Reaction:
        node = self._metadata.cluster.node_by_id(response.destination)
        where = f"node {response.destination}" if node is None else address_text(node.host, node.port)
        # After the last epoch only another id helps: whoever is given it would ask again before the first batch. A
        # coordinator gives another id by itself.
        highest = MAX_EPOCH - 1 if self._transactions is None else MAX_EPOCH
        if answer.is_valid and 0 <= answer.epoch <= highest:
            self._metadata.forget_failure(where)
            self._manager.on_producer_id(*answer)
            if self._transactions is not None:
                features = self._wire.client.finalized_features
                self._transactions.note_features(features.epoch, features.level_of("transaction.version"))
                self._transactions.on_initialized()
            return Reaction.DONE
        # Differs from Java, which takes whatever is not called an error. No record leaves before an id came.
        why = (f"InitProducerId: it answered with producer id {answer.producer_id} and epoch {answer.epoch}; the id "
               f"must be from 0, the epoch from 0 to {highest}, and it is asked again until they are")
        is_new = self._metadata.note_failure(where, why)
        self.note(RemoteProtocolError(why))
        self.log_level = logging.WARNING if is_new else logging.DEBUG
        return Reaction.AGAIN

    def on_refused(self, error: KafkaError) -> None:
        """See OwnRequest."""
        if self._transactions is not None and not self._goes_on_from.is_valid:
            self._transactions.on_refused(error)

    def on_hopeless(self, error: KafkaError) -> None:
        """See OwnRequest."""
        transactions = self._transactions
        if transactions is None:
            self._manager.on_fatal_error(error)
        elif self._goes_on_from.is_valid or (isinstance(error, ApiError) and error.code in _FENCINGS):
            transactions.on_fatal_error(error)
        else:
            transactions.on_refused(error)
