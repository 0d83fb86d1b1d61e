"""What every API handler may use, and what it may answer.

Road:    KafkaApis -> [services] -> apis/*.py
Thread:  handler threads; immutable.
Source:  the constructor arguments of Java KafkaApis (4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyproducer.broker.apis.homeless_groups import HomelessGroups
from pyproducer.broker.apis.refusal_log import RefusalLog
from pyproducer.broker.cluster.authorizer import CLUSTER_NAME, OPERATION_CODES, OPERATIONS, AclOperation, ResourceType
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.listener import ALL_ADDRESSES, EndPoint
from pyproducer.broker.network.request_channel import Request, ResponseMemory
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.common.clock import Clock
from pyproducer.protocol.apis import VersionRange


class Outcome(Enum):
    """What a handler returns in place of a response's body."""

    NO_RESPONSE = "no_response"
    CLOSE_CONNECTION = "close_connection"
    LATER = "later"


Answer = Mapping[str, Any] | Outcome


@dataclass(frozen=True)
class Services:
    """One broker's view of its cluster.

    Attributes:
        node_id: This broker.
        cluster: What it shares with the others.
        config: Its settings.
        clock: The clocks.
        respond: Answers a request whose handler returned LATER; any thread, once per request.
        advertised_apis: What ApiVersions tells: number to range.
        response_room_bytes: Asks how large a response may be now.
        refusals: Where refused batches are told.
        homeless_groups: Where consumers are told that join nothing.
    """

    node_id: int
    cluster: ClusterState
    config: BrokerConfig
    clock: Clock
    respond: Callable[[Request, Answer], None]
    advertised_apis: Mapping[int, VersionRange]
    response_room_bytes: Callable[[], int] = ResponseMemory().room_bytes
    refusals: RefusalLog = field(default_factory=RefusalLog)
    homeless_groups: HomelessGroups = field(default_factory=HomelessGroups)

    def authorize(self, request: Request, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the one who sent a request may do this."""
        return self.cluster.authorizer(request.context, operation, resource_type, name)

    def authorize_topic(self, request: Request, operation: AclOperation, name: str) -> bool:
        """Return whether the one who sent a request may do this with a topic."""
        return self.cluster.authorizer(request.context, operation, ResourceType.TOPIC, name)

    def authorize_cluster(self, request: Request, operation: AclOperation) -> bool:
        """Return whether the one who sent a request may do this with the cluster."""
        return self.cluster.authorizer(request.context, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def authorized_operations(self, request: Request, resource_type: ResourceType, name: str) -> int:
        """Return what the one who sent a request may do with a resource, as the bits that answers tell it with."""
        return sum(1 << OPERATION_CODES[operation] for operation in OPERATIONS[resource_type]
                   if self.authorize(request, operation, resource_type, name))

    def end_points(self, context: RequestContext) -> dict[int, tuple[EndPoint, str | None]]:
        """Return the living brokers that have a request's listener: id to address and rack.

        A client is told the addresses of the listener that it came in by, and of no other. Of brokers that listen on
        all addresses of the machine and advertise none it is the one by which it has come itself.
        """
        listener_name = context.listener_name
        found = {}
        for node_id, broker in self.cluster.brokers.items():
            end_point = broker.end_points.get(listener_name)
            if end_point is not None:
                if end_point.host in ALL_ADDRESSES:
                    end_point = end_point._replace(host=context.local_host)
                found[node_id] = (end_point, broker.rack)
        return found

    def node_end_points(self, context: RequestContext, node_ids: set[int]) -> list[dict[str, Any]]:
        """Return the addresses of some nodes as Produce and Fetch responses name new leaders (KIP-951)."""
        end_points = self.end_points(context)
        return [{"node_id": node_id, "host": end_points[node_id][0].host, "port": end_points[node_id][0].port,
                 "rack": end_points[node_id][1]} for node_id in sorted(node_ids) if node_id in end_points]
