"""InitProducerId 0-5: a producer id for an idempotent producer.

Does:    a fresh id with epoch 0; from version 3 a producer that brings its id and epoch gets a fresh id as well,
         as Kafka answers without a transactional id. Ids are never repeated in one data directory.
Omits:   transactions. An empty transactional id is 42 as in Kafka; any other is refused with 35
         UNSUPPORTED_VERSION: every client takes that as final and says so, where the codes of a missing coordinator
         would make it ask for ever.

Road:    KafkaApis -> [InitProducerId]
Thread:  handler threads.
Source:  Java KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId (4.1).
"""

from __future__ import annotations

import logging

from pyproducer.broker.request_channel import Request
from pyproducer.broker.services import Answer, Services
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.request import InitProducerIdRequest

_logger = logging.getLogger(__name__)


def handle(services: Services, request: Request) -> Answer:
    """Answer one InitProducerId request."""
    transactional_id = request.body(InitProducerIdRequest).data["transactional_id"]
    if transactional_id == "":
        return error_response(request, ErrorCode.INVALID_REQUEST)
    if transactional_id is not None:
        _logger.warning("Refused transactional id %r: this broker has no transactions", transactional_id)
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION)
    return {"throttle_time_ms": 0, "error_code": 0, "producer_id": services.cluster.next_producer_id(),
            "producer_epoch": 0}


def error_response(request: Request, error_code: ErrorCode) -> Answer:
    """Say that the whole request failed."""
    return {"throttle_time_ms": 0, "error_code": error_code, "producer_id": -1, "producer_epoch": -1}
