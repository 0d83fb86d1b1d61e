"""DescribeTransactions 0: the state of transactional ids.

Does:    105 an unknown id, 42 an empty one, 16 one of another broker; partitions of topics that the asker may see.
Omits:   nothing known.

Road:    KafkaApis -> [DescribeTransactions] -> transaction coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleDescribeTransactionsRequest (4.1), and its measured answers.
"""

from __future__ import annotations

from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.DESCRIBE_TRANSACTIONS, asks=(
    Question(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
    Question(AclOperation.DESCRIBE, ResourceType.TOPIC)))


def handle(services: Services, request: Request) -> Answer:
    """Answer one DescribeTransactions request."""
    states = []
    for transactional_id in request.body(ApiKeys.DESCRIBE_TRANSACTIONS).data["transactional_ids"]:
        try:
            states.append(_state(services, request, transactional_id))
        except Exception as error:
            states.append(_fault(transactional_id, unexpected(request, f"transaction {transactional_id}", error)))
    return {"throttle_time_ms": 0, "transaction_states": states}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "transaction_states": [
        _fault(transactional_id, error_code)
        for transactional_id in request.body(ApiKeys.DESCRIBE_TRANSACTIONS).data["transactional_ids"]]}


def _state(services: Services, request: Request, transactional_id: str) -> dict[str, Any]:
    coordinator = services.cluster.transactions
    if not services.authorize(request, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return _fault(transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not transactional_id:
        return _fault(transactional_id, ErrorCode.INVALID_REQUEST)
    error_code = coordinator.check(transactional_id, services.node_id)
    if error_code is not ErrorCode.NONE:
        return _fault(transactional_id, error_code)
    found = coordinator.describe(transactional_id)
    if found is None:
        return _fault(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(found.topic_partitions):
        if services.authorize(request, AclOperation.DESCRIBE, ResourceType.TOPIC, topic):
            topics.setdefault(topic, []).append(partition)
    return {
        "error_code": 0, "transactional_id": transactional_id, "transaction_state": found.state.title,
        "transaction_timeout_ms": found.timeout_ms, "transaction_start_time_ms": found.start_timestamp_ms,
        "producer_id": found.producer_id, "producer_epoch": found.producer_epoch,
        "topics": [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()]}


def _fault(transactional_id: str, error_code: ErrorCode) -> dict[str, Any]:
    return {"error_code": error_code, "transactional_id": transactional_id, "transaction_state": "",
            "transaction_timeout_ms": 0, "transaction_start_time_ms": 0, "producer_id": 0, "producer_epoch": 0,
            "topics": []}
