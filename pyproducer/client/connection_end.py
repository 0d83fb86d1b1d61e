"""Why a connection ended: from the selector's state and ours to a Failure.

Road:    Selector.disconnected, timeouts -> [explain] -> NetworkClient, ProducerMetadata.last_errors
Thread:  pure.
Source:  Java NetworkClient.processDisconnection (4.1), which logs a sentence per case; here the caller gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyproducer.client.connection_states import ConnectionState, NodeConnectionState
from pyproducer.client.failures import (
    Failure,
    authentication_failure,
    connect_failure,
    dns_failure,
    early_end,
    negotiation_failure,
    request_failure,
)
from pyproducer.common.cluster import address_text
from pyproducer.network.channel_state import ChannelPhase
from pyproducer.protocol.apis import ApiKeys

if TYPE_CHECKING:
    from pyproducer.client.in_flight import InFlightRequest

def explain_end(connection: NodeConnectionState, *, in_flight: Sequence[InFlightRequest], now_ms: int,
                phase: ChannelPhase | None = None, cause: BaseException | None = None,
                waited_ms: int | None = None) -> Failure:
    """Return why a connection ended.

    Args:
        connection: Its state before the end.
        in_flight: The requests that were not answered.
        now_ms: When it ended.
        phase: How far the selector saw it come; None when we ended the connection.
        cause: The selector's or our exception.
        waited_ms: The timeout that passed, when that is why we ended it.
    """
    where = address_text(connection.node.host, connection.node.port)
    if connection.is_resolving and waited_ms is not None:
        return dns_failure(where, None, waited_ms=waited_ms)
    if phase is ChannelPhase.NOT_CONNECTED or connection.state is ConnectionState.CONNECTING:
        return connect_failure(where, connection.current_address, cause, waited_ms=waited_ms)
    if phase in (ChannelPhase.AUTHENTICATING, ChannelPhase.AUTHENTICATION_FAILED):
        return authentication_failure(where, cause, refused=phase is ChannelPhase.AUTHENTICATION_FAILED)
    if connection.state is ConnectionState.CHECKING_API_VERSIONS:
        if phase is ChannelPhase.READY and not connection.versions_requested:
            return early_end(where, cause)
        if not connection.versions_requested:
            return authentication_failure(where, cause, waited_ms=waited_ms)
        return negotiation_failure(where, cause, waited_ms=waited_ms)
    first_metadata = not connection.answered and any(
        request.internal and request.request.api_key is ApiKeys.METADATA for request in in_flight)
    return request_failure(where, cause, in_flight=", ".join(request.describe(now_ms) for request in in_flight),
                           first_metadata=first_metadata, waited_ms=waited_ms)
