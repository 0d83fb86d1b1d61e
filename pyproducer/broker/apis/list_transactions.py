"""ListTransactions 0-2: the transactional ids that this broker coordinates.

Does:    filters by state (unknown names are told), producer id, from version 1 on how long it has been open, from
         version 2 on by a pattern that the whole id must match (128 when it makes no sense).
Omits:   Java's patterns are RE2's; ours are Python's, which have the same everyday syntax. Refused with 128, too, are
         those that Python could match for ever: repetitions of repetitions or of choices, more than three of them.

Road:    KafkaApis -> [ListTransactions] -> transaction coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleListTransactionsRequest, TransactionStateManager.listTransactionStates (4.1), and its
         measured answers.
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.safe_pattern import SafePattern
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.transaction.metadata import TransactionMetadata
from pyproducer.broker.cluster.coordinator.transaction.state import STATES_BY_TITLE
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.LIST_TRANSACTIONS, asks=(Question(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),))


def handle(services: Services, request: Request) -> Answer:
    """Answer one ListTransactions request."""
    data = request.body(ApiKeys.LIST_TRANSACTIONS).data
    states = set(data["state_filters"])
    producer_ids = set(data["producer_id_filters"])
    pattern = pattern_of(data.get("transactional_id_pattern") or ".*")
    if pattern is None:
        return error_response(request, ErrorCode.INVALID_REGULAR_EXPRESSION)
    unknown = [name for name in data["state_filters"] if name not in STATES_BY_TITLE]
    began_before_ms = services.clock.timestamp_ms() - data.get("duration_filter", -1)
    has_duration = data.get("duration_filter", -1) >= 0

    def is_asked_for(found: TransactionMetadata) -> bool:
        if (states and found.state.title not in states) or (producer_ids and found.producer_id not in producer_ids):
            return False
        # As in Kafka an id without a transaction has the start -1 and so has been open for ever.
        if has_duration and found.start_timestamp_ms >= began_before_ms:
            return False
        return pattern.matches(found.transactional_id)

    coordinator = services.cluster.transactions
    return {"throttle_time_ms": 0, "error_code": 0, "unknown_state_filters": unknown, "transaction_states": [
        {"transactional_id": found.transactional_id, "producer_id": found.producer_id,
         "transaction_state": found.state.title}
        for found in coordinator.list_transactions()
        if is_asked_for(found)
        and coordinator.check(found.transactional_id, services.node_id) is ErrorCode.NONE
        and services.authorize(request, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, found.transactional_id)]}


def error_response(_request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "unknown_state_filters": [], "transaction_states": []}


def pattern_of(text: str) -> SafePattern | None:
    """Return the pattern, or None when it makes no sense or could be matched for ever."""
    try:
        return SafePattern(text)
    except ValueError:
        return None
