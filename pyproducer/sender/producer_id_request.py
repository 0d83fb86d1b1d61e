"""InitProducerId: ask any broker for the id that makes retries idempotent.

Road:    beside it; nothing is drained before the id came.
Thread:  sender thread only.
Source:  Java Sender.maybeSendAndPollTransactionalRequest, TransactionManager.InitProducerIdHandler (4.1).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import address_text
from pyproducer.common.error_codes import error_for_code
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.layout import MAX_EPOCH
from pyproducer.transaction.transaction_manager import ProducerIdAndEpoch, TransactionManager

if TYPE_CHECKING:
    from pyproducer.client.wire import KafkaClient, Wire

log: logging.Logger = logging.getLogger(__name__)

NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1  # what Java sends without a transactional id


class ProducerIdRequest:
    """Keeps one InitProducerId request on its way while an id is needed."""

    def __init__(self, *, wire: Wire, metadata: ProducerMetadata, transaction_manager: TransactionManager,
                 request_timeout_ms: int, retry_backoff: ExponentialBackoff) -> None:
        self._wire = wire
        self._metadata = metadata
        self._transaction_manager = transaction_manager
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff = retry_backoff
        self._asked_by: KafkaClient | None = None  # the client that has the request on its way
        self._attempts = 0
        self._retry_at_ms = 0

    def step(self, now_ms: int) -> int:
        """Send the request if it is time to.

        Returns:
            How long until this should be called again, in ms, when nothing else happens.
        """
        client = self._wire.client
        # What a client had on its way when it was thrown away, nobody will tell.
        if not self._transaction_manager.needs_producer_id or self._asked_by is client:
            return NEVER_MS
        if now_ms < self._retry_at_ms:
            return self._retry_at_ms - now_ms
        node = client.least_loaded_node(now_ms)
        if node is None:
            return self._retry_backoff.initial_ms
        if not client.ready(node, now_ms):
            return client.poll_delay_ms(node, now_ms)
        client.send(ClientRequest(node.node_id, ApiKeys.INIT_PRODUCER_ID, _build, expect_response=True,
                                  timeout_ms=self._request_timeout_ms, on_complete=self._on_response,
                                  created_ms=now_ms), now_ms)
        self._asked_by = client
        return NEVER_MS

    def _on_response(self, response: ClientResponse) -> None:
        self._asked_by = None
        if response.version_mismatch is not None:
            self._transaction_manager.on_fatal_error(response.version_mismatch)
            return
        if response.body is None:
            self._again(response, f"no answer: {response.error}")
            return
        code = response.body["error_code"]
        if code == 0:
            self._on_success(response, ProducerIdAndEpoch(response.body["producer_id"],
                                                          response.body["producer_epoch"]))
            return
        error = error_for_code(code, api="InitProducerId", node_id=response.destination)
        if error.retriable or error.refresh_metadata:
            self._again(response, str(error))
        else:
            self._transaction_manager.on_fatal_error(error)

    def _on_success(self, response: ClientResponse, answer: ProducerIdAndEpoch) -> None:
        node = self._metadata.cluster.node_by_id(response.destination)
        where = f"node {response.destination}" if node is None else address_text(node.host, node.port)
        # After the last epoch only another id helps: whoever is given it would ask again before the first batch.
        if answer.is_valid and 0 <= answer.epoch < MAX_EPOCH:
            self._attempts = 0
            self._metadata.forget_failure(where)
            self._transaction_manager.on_producer_id(*answer)
            return
        # Differs from Java, which takes whatever is not called an error. No record leaves before an id came.
        why = (f"InitProducerId: it answered with producer id {answer.producer_id} and epoch {answer.epoch}; the id "
               f"must be from 0, the epoch from 0 to {MAX_EPOCH - 1}, and it is asked again until they are")
        is_new = self._metadata.note_failure(where, why)
        self._again(response, why, logging.WARNING if is_new else logging.DEBUG)

    def _again(self, response: ClientResponse, why: str, level: int = logging.INFO) -> None:
        self._retry_at_ms = response.received_ms + self._retry_backoff.backoff_ms(self._attempts)
        self._attempts += 1
        log.log(level, "InitProducerId is repeated (attempt %d by node %s failed: %s)", self._attempts,
                response.destination, why)


def _build(version: int) -> Mapping[str, Any]:
    return {"transactional_id": None, "transaction_timeout_ms": NO_TRANSACTION_TIMEOUT_MS}
