"""ListTransactions 0-2: the transactional ids that this broker coordinates.

Does:    filters by state (unknown names are told), producer id, from version 1 on how long it has been open, from
         version 2 on by a pattern of RE2 that the whole id must match (128 when it makes no sense).
Omits:   of RE2 all but literals, escapes, ".", classes, "*", "+" and "?": others are answered with 128, too, and so
         are those with more than a thousand characters and ranges.

Road:    KafkaApis -> [ListTransactions] -> transaction coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleListTransactionsRequest, TransactionStateManager.listTransactionStates (4.1), and its
         measured answers.
"""

from __future__ import annotations

import logging

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.transaction.metadata import TransactionMetadata
from pyproducer.broker.cluster.coordinator.transaction.state import STATES_BY_TITLE
from pyproducer.broker.cluster.linear_pattern import LinearPattern
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.LIST_TRANSACTIONS, asks=(Question(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),))

_logger = logging.getLogger(__name__)


def handle(services: Services, request: Request) -> Answer:
    """Answer one ListTransactions request."""
    data = request.body(ApiKeys.LIST_TRANSACTIONS).data
    states = set(data["state_filters"])
    producer_ids = set(data["producer_id_filters"])
    unknown = [name for name in data["state_filters"] if name not in STATES_BY_TITLE]
    began_before_ms = services.clock.timestamp_ms() - data.get("duration_filter", -1)
    has_duration = data.get("duration_filter", -1) >= 0
    coordinator = services.cluster.transactions

    def is_asked_for(found: TransactionMetadata) -> bool:
        if (states and found.state.title not in states) or (producer_ids and found.producer_id not in producer_ids):
            return False
        # As in Kafka an id without a transaction has the start -1 and so has been open for ever.
        return not has_duration or found.start_timestamp_ms < began_before_ms

    def is_told(found: TransactionMetadata) -> bool:
        name = found.transactional_id
        return coordinator.check(name, services.node_id) is ErrorCode.NONE and services.authorize(
            request, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)

    text = data.get("transactional_id_pattern")
    try:
        pattern = LinearPattern(text) if text else None
    except ValueError as error:
        _logger.info("The pattern of a ListTransactions of %s is refused: %s", request.context.connection_id, error)
        return error_response(request, ErrorCode.INVALID_REGULAR_EXPRESSION)
    # The pattern comes last: who may see no id has none matched.
    told = [found for found in coordinator.list_transactions() if is_asked_for(found) and is_told(found)
            and (pattern is None or pattern.matches(found.transactional_id))]
    return {"throttle_time_ms": 0, "error_code": 0, "unknown_state_filters": unknown, "transaction_states": [
        {"transactional_id": found.transactional_id, "producer_id": found.producer_id,
         "transaction_state": found.state.title} for found in told]}


def error_response(_request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "unknown_state_filters": [], "transaction_states": []}
