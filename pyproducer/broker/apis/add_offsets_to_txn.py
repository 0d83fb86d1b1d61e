"""AddOffsetsToTxn 0-4: a transaction will commit offsets of a group.

Does:    takes the group's partition of __consumer_offsets into the transaction; 42 an empty transactional id, otherwise
         AddPartitionsToTxn's codes, among them 90 (before version 2: 47) for an old epoch.
Omits:   nothing known. Clients that speak Transactions V2 do not send it.

Road:    KafkaApis -> [AddOffsetsToTxn] -> transaction coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleAddOffsetsToTxnRequest (4.1), and its measured answers.
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.coordinator.internal_topics import GROUP_METADATA_TOPIC_NAME
from pyproducer.broker.cluster.coordinator.partition_for import partition_for
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.ADD_OFFSETS_TO_TXN, asks=(
    Question(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID), Question(AclOperation.READ, ResourceType.GROUP)))
_PRODUCER_FENCED_FROM = 2


def handle(services: Services, request: Request) -> Answer:
    """Answer one AddOffsetsToTxn request."""
    data = request.body(ApiKeys.ADD_OFFSETS_TO_TXN).data
    transactional_id, group_id = data["transactional_id"], data["group_id"]
    if not services.authorize(request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return error_response(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not services.authorize(request, AclOperation.READ, ResourceType.GROUP, group_id):
        return error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not transactional_id:
        return error_response(request, ErrorCode.INVALID_REQUEST)
    cluster = services.cluster
    error_code = cluster.transactions.check(transactional_id, services.node_id)
    if error_code is ErrorCode.NONE:
        count = cluster.internal_topics.partition_count(GROUP_METADATA_TOPIC_NAME)
        error_code = cluster.transactions.add_partitions(
            transactional_id, data["producer_id"], data["producer_epoch"],
            (TopicPartition(GROUP_METADATA_TOPIC_NAME, partition_for(group_id, count)),),
            client_transaction_version=0)
    if error_code is ErrorCode.PRODUCER_FENCED and request.header.api_version < _PRODUCER_FENCED_FROM:
        error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return error_response(request, error_code)


def error_response(_request: Request, error_code: ErrorCode) -> Answer:
    """Answer with a code, which is all that there is to answer."""
    return {"throttle_time_ms": 0, "error_code": error_code}
