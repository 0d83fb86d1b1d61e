"""EndTxn 0-5: commit or abort a transaction.

Does:    with version 5 (Transactions V2, KIP-890) the producer goes on with the id and epoch of the answer, and may
         abort a transaction without partitions; a repeated request is answered as the first (51 while that is being
         done); 42 an empty transactional id, 48 what does not fit the state, 49 another producer, 90 (before version 2:
         47) another epoch.
Omits:   two-phase commit (KIP-939).

Road:    KafkaApis -> [EndTxn] -> transaction coordinator -> markers
Thread:  handler threads.
Source:  Java KafkaApis.handleEndTxnRequest (4.1), and its measured answers.
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.END_TXN, asks=(Question(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),))
_PRODUCER_FENCED_FROM = 2
_EPOCH_BUMP_FROM = 5


def handle(services: Services, request: Request) -> Answer:
    """Answer one EndTxn request."""
    data = request.body(ApiKeys.END_TXN).data
    version = request.header.api_version
    transactional_id = data["transactional_id"]
    if not services.authorize(request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return error_response(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not transactional_id:
        return error_response(request, ErrorCode.INVALID_REQUEST)
    coordinator = services.cluster.transactions
    error_code = coordinator.check(transactional_id, services.node_id)
    if error_code is not ErrorCode.NONE:
        return error_response(request, error_code)
    answer = coordinator.end(transactional_id, data["producer_id"], data["producer_epoch"],
                             commit=data["committed"],
                             client_transaction_version=2 if version >= _EPOCH_BUMP_FROM else 0)
    if answer.error_code is ErrorCode.PRODUCER_FENCED and version < _PRODUCER_FENCED_FROM:
        return error_response(request, ErrorCode.INVALID_PRODUCER_EPOCH)
    return {"throttle_time_ms": 0, "error_code": answer.error_code, "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch}


def error_response(_request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "producer_id": -1, "producer_epoch": -1}
