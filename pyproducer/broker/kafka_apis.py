"""The one place that knows which function answers which API.

Road:    KafkaRequestHandler -> [KafkaApis] -> apis/*.py -> RequestChannel
Thread:  handler threads.
Source:  Java kafka.server.KafkaApis (4.1).

A new API is a file in apis/ and a line in HANDLERS; ApiVersions then advertises it by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from pyproducer.broker.api_version_overrides import AdvertisedApis
from pyproducer.broker.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
)
from pyproducer.broker.cluster_state import ClusterState
from pyproducer.broker.faults import Faults, start_throttling
from pyproducer.broker.quotas import client_quotas
from pyproducer.broker.request_channel import Request, RequestChannel
from pyproducer.broker.services import Answer, Outcome, Services
from pyproducer.broker.unexpected import unexpected
from pyproducer.common.clock import Clock
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys

_logger = logging.getLogger(__name__)


class ApiHandler(NamedTuple):
    """How one API is answered, and how it says that something went wrong for the whole request."""

    handle: Callable[[Services, Request], Answer]
    error_response: Callable[[Request, ErrorCode], Answer]


HANDLERS: dict[ApiKeys, ApiHandler] = {
    ApiKeys.PRODUCE: ApiHandler(produce.handle, produce.error_response),
    ApiKeys.FETCH: ApiHandler(fetch.handle, fetch.error_response),
    ApiKeys.LIST_OFFSETS: ApiHandler(list_offsets.handle, list_offsets.error_response),
    ApiKeys.METADATA: ApiHandler(metadata.handle, metadata.error_response),
    ApiKeys.OFFSET_COMMIT: ApiHandler(offset_commit.handle, offset_commit.error_response),
    ApiKeys.OFFSET_FETCH: ApiHandler(offset_fetch.handle, offset_fetch.error_response),
    ApiKeys.FIND_COORDINATOR: ApiHandler(find_coordinator.handle, find_coordinator.error_response),
    ApiKeys.JOIN_GROUP: ApiHandler(join_group.handle, join_group.error_response),
    ApiKeys.HEARTBEAT: ApiHandler(heartbeat.handle, heartbeat.error_response),
    ApiKeys.LEAVE_GROUP: ApiHandler(leave_group.handle, leave_group.error_response),
    ApiKeys.SYNC_GROUP: ApiHandler(sync_group.handle, sync_group.error_response),
    ApiKeys.DESCRIBE_GROUPS: ApiHandler(describe_groups.handle, describe_groups.error_response),
    ApiKeys.LIST_GROUPS: ApiHandler(list_groups.handle, list_groups.error_response),
    ApiKeys.API_VERSIONS: ApiHandler(api_versions.handle, api_versions.error_response),
    ApiKeys.CREATE_TOPICS: ApiHandler(create_topics.handle, create_topics.error_response),
    ApiKeys.DELETE_TOPICS: ApiHandler(delete_topics.handle, delete_topics.error_response),
    ApiKeys.INIT_PRODUCER_ID: ApiHandler(init_producer_id.handle, init_producer_id.error_response),
    ApiKeys.DELETE_GROUPS: ApiHandler(delete_groups.handle, delete_groups.error_response),
    ApiKeys.DESCRIBE_CLUSTER: ApiHandler(describe_cluster.handle, describe_cluster.error_response),
    ApiKeys.CREATE_PARTITIONS: ApiHandler(create_partitions.handle, create_partitions.error_response),
    ApiKeys.DELETE_RECORDS: ApiHandler(delete_records.handle, delete_records.error_response),
    ApiKeys.DESCRIBE_CONFIGS: ApiHandler(describe_configs.handle, describe_configs.error_response),
    ApiKeys.DESCRIBE_TOPIC_PARTITIONS: ApiHandler(
        describe_topic_partitions.handle, describe_topic_partitions.error_response),
    ApiKeys.INCREMENTAL_ALTER_CONFIGS: ApiHandler(
        incremental_alter_configs.handle, incremental_alter_configs.error_response),
    ApiKeys.ALTER_REPLICA_LOG_DIRS: ApiHandler(alter_replica_log_dirs.handle, alter_replica_log_dirs.error_response),
    ApiKeys.DESCRIBE_LOG_DIRS: ApiHandler(describe_log_dirs.handle, describe_log_dirs.error_response),
    ApiKeys.ELECT_LEADERS: ApiHandler(elect_leaders.handle, elect_leaders.error_response),
    ApiKeys.ALTER_PARTITION_REASSIGNMENTS: ApiHandler(
        alter_partition_reassignments.handle, alter_partition_reassignments.error_response),
    ApiKeys.DESCRIBE_QUORUM: ApiHandler(describe_quorum.handle, describe_quorum.error_response),
    ApiKeys.LIST_CONFIG_RESOURCES: ApiHandler(list_config_resources.handle, list_config_resources.error_response),
    ApiKeys.LIST_PARTITION_REASSIGNMENTS: ApiHandler(
        list_partition_reassignments.handle, list_partition_reassignments.error_response),
    ApiKeys.OFFSET_FOR_LEADER_EPOCH: ApiHandler(offset_for_leader_epoch.handle, offset_for_leader_epoch.error_response),
    ApiKeys.SASL_AUTHENTICATE: ApiHandler(sasl_authenticate.handle, sasl_authenticate.error_response),
    ApiKeys.SASL_HANDSHAKE: ApiHandler(sasl_handshake.handle, sasl_handshake.error_response),
    ApiKeys.ADD_PARTITIONS_TO_TXN: ApiHandler(add_partitions_to_txn.handle, add_partitions_to_txn.error_response),
    ApiKeys.ADD_OFFSETS_TO_TXN: ApiHandler(add_offsets_to_txn.handle, add_offsets_to_txn.error_response),
    ApiKeys.END_TXN: ApiHandler(end_txn.handle, end_txn.error_response),
    ApiKeys.TXN_OFFSET_COMMIT: ApiHandler(txn_offset_commit.handle, txn_offset_commit.error_response),
    ApiKeys.DESCRIBE_PRODUCERS: ApiHandler(describe_producers.handle, describe_producers.error_response),
    ApiKeys.DESCRIBE_TRANSACTIONS: ApiHandler(describe_transactions.handle, describe_transactions.error_response),
    ApiKeys.LIST_TRANSACTIONS: ApiHandler(list_transactions.handle, list_transactions.error_response),
}


class KafkaApis:
    """Answers the requests of one broker."""

    def __init__(self, node_id: int, cluster: ClusterState, channel: RequestChannel, clock: Clock) -> None:
        self._channel = channel
        self._node_id = node_id
        self._cluster = cluster
        advertised = {int(api_key): api_key.advertised_range for api_key in HANDLERS
                      if api_key.advertised_range is not None}
        self.services = Services(
            node_id, cluster, cluster.config, clock, self.respond_later,
            AdvertisedApis(node_id, advertised, cluster.api_versions), channel.responses.room_bytes)
        self._fault_rules = cluster.fault_rules
        self._faults = Faults(cluster.fault_rules, self.services, channel, cluster.timer, self._send)
        self._quotas = client_quotas(cluster.config)

    def is_supported(self, api_key: ApiKeys, api_version: int) -> bool:
        """Whether requests of this API and version are answered; others close their connection."""
        first, last = api_key.broker_range
        overrides = self._cluster.api_versions
        return api_key in HANDLERS and first <= api_version <= last and (
            not overrides.is_active or overrides.allows(self._node_id, api_key, api_version))

    def handle(self, request: Request) -> None:
        """Run the API and answer; whatever it raises becomes an error response."""
        handler = HANDLERS[request.api_key]
        if self._cluster.request_log is not None and request.story is None:
            self._cluster.request_log.append(self._node_id, request)
        try:
            if self._fault_rules.is_active or request.story is not None:
                answer = self._faults.handle(handler, request)
            else:
                answer = handler.handle(self.services, request)
            self.respond(request, answer)
        except Exception:
            _logger.exception("Error when handling request: clientId=%s, correlationId=%d, api=%s, version=%d",
                              request.header.client_id, request.header.correlation_id, request.api_key,
                              request.header.api_version)
            self.respond(request, handler.error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR))

    def respond_later(self, request: Request, answer: Answer) -> None:
        """Answer a request whose handler returned LATER; a failure must not reach the request that completed it."""
        try:
            self.respond(request, answer)
        except Exception as error:
            code = unexpected(request, "the answer", error)
            self.respond(request, HANDLERS[request.api_key].error_response(request, code))

    def respond(self, request: Request, answer: Answer) -> None:
        """Send an answer, throttled or with a fault where there is a reason."""
        if self._quotas is not None and answer is not Outcome.LATER and request.story is None:
            throttle_ms = self._quotas.throttle_ms(request, answer, self.services.clock.now_ms())
            if throttle_ms and answer is not Outcome.CLOSE_CONNECTION:
                start_throttling(self._channel, self._cluster.timer, request, throttle_ms)
                answer = answer if isinstance(answer, Outcome) else {**answer, "throttle_time_ms": throttle_ms}
        if request.story is not None:
            self._faults.respond(HANDLERS[request.api_key], request, answer)
        else:
            self._send(request, answer)

    def _send(self, request: Request, answer: Answer) -> None:
        """Turn an answer into a response for the processor."""
        if not isinstance(answer, Outcome):
            self._channel.send_body(request, answer)
        elif answer is Outcome.NO_RESPONSE:
            self._channel.send_no_op(request)
        elif answer is Outcome.CLOSE_CONNECTION:
            self._channel.send_close_connection(request)
