"""AddPartitionsToTxn 0-5: take partitions into a transaction before anything is written to them.

Does:    all partitions or none: with an internal topic (29) or an unknown partition (3) among them the others are
         answered 55; 42 an empty transactional id; 90 (before version 2: 47) for an old epoch; 49 for another producer;
         51 while the transaction before is being ended. Versions 4 and 5, which brokers send each other, have several
         transactions and may only ask whether partitions are in (120 if not); version 5 says that the client speaks
         Transactions V2.
Omits:   nothing known.

Road:    KafkaApis -> [AddPartitionsToTxn] -> transaction coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleAddPartitionsToTxnRequest (4.1), and its measured answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.topic_name import INTERNAL_TOPICS
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

API = Api(ApiKeys.ADD_PARTITIONS_TO_TXN, asks=(
    Question(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Question(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Question(AclOperation.WRITE, ResourceType.TOPIC)))
_PRODUCER_FENCED_FROM = 2
_BATCHED_FROM = 4


def handle(services: Services, request: Request) -> Answer:
    """Answer one AddPartitionsToTxn request."""
    data = request.body(ApiKeys.ADD_PARTITIONS_TO_TXN).data
    if request.header.api_version < _BATCHED_FROM:
        transaction = {name: data[f"v3_and_below_{name}"]
                       for name in ("transactional_id", "producer_id", "producer_epoch", "topics")}
        codes = _codes(services, request, {**transaction, "verify_only": False})
        return {"throttle_time_ms": 0, "results_by_topic_v3_and_below": _results(transaction["topics"], codes)}
    if not services.authorize_cluster(request, AclOperation.CLUSTER_ACTION):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return {"throttle_time_ms": 0, "error_code": 0, "results_by_transaction": [
        {"transactional_id": transaction["transactional_id"],
         "topic_results": _results(transaction["topics"], _codes_or_failure(services, request, transaction))}
        for transaction in data["transactions"]]}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    data = request.body(ApiKeys.ADD_PARTITIONS_TO_TXN).data
    if request.header.api_version >= _BATCHED_FROM:
        return {"throttle_time_ms": 0, "error_code": error_code, "results_by_transaction": []}
    topics = data["v3_and_below_topics"]
    return {"throttle_time_ms": 0, "results_by_topic_v3_and_below": _results(
        topics, dict.fromkeys(_partitions(topics), error_code))}


def _codes_or_failure(services: Services, request: Request,
                      transaction: Mapping[str, Any]) -> dict[TopicPartition, ErrorCode]:
    try:
        return _codes(services, request, transaction)
    except Exception as error:
        code = unexpected(request, f"transaction {transaction['transactional_id']}", error)
        return dict.fromkeys(_partitions(transaction["topics"]), code)


def _codes(services: Services, request: Request, transaction: Mapping[str, Any]) -> dict[TopicPartition, ErrorCode]:
    """Return a code for each partition of one transaction."""
    transactional_id = transaction["transactional_id"]
    version = request.header.api_version
    partitions = _partitions(transaction["topics"])
    coordinator = services.cluster.transactions
    if version < _BATCHED_FROM and not services.authorize(
            request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    codes = {partition: _topic_code(services, request, partition) for partition in partitions}
    if any(codes.values()):
        return {partition: code or ErrorCode.OPERATION_NOT_ATTEMPTED for partition, code in codes.items()}
    identity = transactional_id, transaction["producer_id"], transaction["producer_epoch"]
    if not transactional_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    error_code = coordinator.check(transactional_id, services.node_id)
    if error_code is ErrorCode.NONE and transaction["verify_only"]:
        return {partition: coordinator.verify_partition(*identity, partition) for partition in partitions}
    if error_code is ErrorCode.NONE and partitions:
        error_code = coordinator.add_partitions(*identity, partitions,
                                                client_transaction_version=2 if version > _BATCHED_FROM else 0)
    if error_code is ErrorCode.PRODUCER_FENCED and version < _PRODUCER_FENCED_FROM:
        error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return dict.fromkeys(partitions, error_code)


def _topic_code(services: Services, request: Request, partition: TopicPartition) -> ErrorCode:
    if request.header.api_version < _BATCHED_FROM and (partition.topic in INTERNAL_TOPICS or not services.authorize(
            request, AclOperation.WRITE, ResourceType.TOPIC, partition.topic)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if services.cluster.topics.partition(*partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _partitions(topics: Iterable[Mapping[str, Any]]) -> list[TopicPartition]:
    return [TopicPartition(topic["name"], index) for topic in topics for index in topic["partitions"]]


def _results(topics: Iterable[Mapping[str, Any]], codes: Mapping[TopicPartition, ErrorCode]) -> list[dict[str, Any]]:
    return [{"name": topic["name"], "results_by_partition": [
        {"partition_index": index, "partition_error_code": codes[TopicPartition(topic["name"], index)]}
        for index in topic["partitions"]]} for topic in topics]
