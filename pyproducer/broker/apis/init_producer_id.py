"""InitProducerId 0-5: a producer id, and for a transactional id the epoch that fences everybody before.

Does:    without a transactional id a fresh id in its first epoch, also for a producer that brings its own; with one the
         next epoch of its id, or a fresh id when the epochs are used up; a producer that goes on after an error (from
         version 3 on) brings id and epoch, and is 90 (before version 4: 47) when it is not the newest; an open
         transaction is aborted first and answered 51; 31 and 53 without the permission; 42 an empty transactional id,
         or an id without an epoch; 50 a timeout below one or above transaction.max.timeout.ms; 14 while no ids can be
         reserved on the disk. Ids are never repeated in one data directory.
Omits:   two-phase commit (KIP-939, version 6).

Road:    KafkaApis -> [InitProducerId] -> transaction coordinator
Thread:  handler threads.
Source:  Java KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId (4.1), and measured
         answers.
"""

from __future__ import annotations

from pyproducer.broker.apis.api_handler import Api, Question
from pyproducer.broker.apis.services import Answer, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.authorizer import AclOperation, ResourceType
from pyproducer.broker.cluster.standard_authorizer import StandardAuthorizer
from pyproducer.broker.network.request_channel import Request
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

API = Api(ApiKeys.INIT_PRODUCER_ID, asks=(
    Question(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Question(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
    Question(AclOperation.WRITE, ResourceType.TOPIC)))
_PRODUCER_FENCED_FROM = 4


def handle(services: Services, request: Request) -> Answer:
    """Answer one InitProducerId request."""
    data = request.body(ApiKeys.INIT_PRODUCER_ID).data
    transactional_id, timeout_ms = data["transactional_id"], data["transaction_timeout_ms"]
    if transactional_id is not None and not services.authorize(
            request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return error_response(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if transactional_id is None and not _may_be_idempotent(services, request):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    producer_id, producer_epoch = data.get("producer_id", NO_PRODUCER_ID), data.get("producer_epoch", NO_PRODUCER_EPOCH)
    if (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH) or transactional_id == "":
        return error_response(request, ErrorCode.INVALID_REQUEST)
    if transactional_id is None:
        try:
            fresh = services.cluster.producer_ids.next_producer_id()
        except OSError as error:
            return _no_ids(request, error)
        return {"throttle_time_ms": 0, "error_code": 0, "producer_id": fresh, "producer_epoch": 0}
    coordinator = services.cluster.transactions
    if not coordinator.is_valid_timeout(timeout_ms):
        return error_response(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    error_code = coordinator.check(transactional_id, services.node_id)
    if error_code is not ErrorCode.NONE:
        return error_response(request, error_code)
    try:
        answer = coordinator.initialize(transactional_id, timeout_ms, None if producer_id == NO_PRODUCER_ID else (
            producer_id, producer_epoch))
    except OSError as error:
        return _no_ids(request, error)
    if answer.error_code is ErrorCode.PRODUCER_FENCED and request.header.api_version < _PRODUCER_FENCED_FROM:
        return error_response(request, ErrorCode.INVALID_PRODUCER_EPOCH)
    return {"throttle_time_ms": 0, "error_code": answer.error_code, "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch}


def _no_ids(request: Request, error: OSError) -> Answer:
    """Say that no ids can be reserved now: a producer without a transactional id, too, asks again with this code."""
    unexpected(request, "producer ids", error)
    return error_response(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _may_be_idempotent(services: Services, request: Request) -> bool:
    """Return whether the asker may write idempotently: everybody may who may write to some topic (KIP-679).

    Differs from Java: the user's own authorizer says yes or no to a name, so it is asked for the topics that there are.
    """
    if services.authorize_cluster(request, AclOperation.IDEMPOTENT_WRITE):
        return True
    authorizer = services.cluster.authorizer
    if isinstance(authorizer, StandardAuthorizer):
        return authorizer.authorize_by_resource_type(request.context, AclOperation.WRITE, ResourceType.TOPIC)
    return any(
        services.authorize_topic(request, AclOperation.WRITE, name) for name in services.cluster.topics)


def error_response(_request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "producer_id": -1, "producer_epoch": -1}
