"""What a test may look at afterwards: the requests that came.

Road:    KafkaApis -> [request log] -> broker.requests()
Thread:  any; appending to a bounded deque is atomic.
Source:  ours.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from pyproducer.broker.network.request_channel import Request
from pyproducer.protocol.apis import ApiKeys

# The newest requests are kept, with their records: 10,000 of a producer's usual 16 KiB are 160 MB at most.
REQUEST_LOG_SIZE = 10_000


class LoggedRequest(NamedTuple):
    """One request as it came in; `arrived_ms` is monotonic, `body` has the fields of its version by their names."""

    arrived_ms: int
    node_id: int
    api_key: ApiKeys
    api_version: int
    correlation_id: int
    client_id: str | None
    listener_name: str
    connection_id: str
    processor_id: int
    principal: str
    size_bytes: int
    body: dict[str, Any]


class RequestLog:
    """The newest requests of a cluster."""

    def __init__(self) -> None:
        self._entries: deque[tuple[int, Request, Mapping[str, Any]]] = deque(maxlen=REQUEST_LOG_SIZE)

    def append(self, node_id: int, request: Request) -> None:
        """Keep a request; its body is only decoded further when somebody looks."""
        self._entries.append((node_id, request, request.data))

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()

    def entries(self, api_id: int | None) -> list[LoggedRequest]:
        """Return the requests in the order in which they were handled, of one API or of all."""
        return [_logged(*entry) for entry in list(self._entries) if api_id is None or entry[1].api_key == api_id]


def _logged(node_id: int, request: Request, data: Mapping[str, Any]) -> LoggedRequest:
    context = request.context
    return LoggedRequest(request.start_ms, node_id, request.api_key, context.header.api_version,
                         context.header.correlation_id, context.header.client_id, context.listener_name,
                         context.connection_id, request.processor, str(context.principal), request.size_bytes,
                         _plain(data))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return bytes(value) if isinstance(value, (memoryview, bytearray)) else value


# ---- over the pipe of a child process

def to_json(value: Any) -> Any:
    """Return a value that JSON can hold; `from_json` gives it back."""
    if isinstance(value, Mapping):
        return {str(key): to_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(inner) for inner in value]
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    return {"$uuid": str(value)} if isinstance(value, UUID) else value


def from_json(value: Any) -> Any:
    """Return what `to_json` was given, but for tuples, which are lists now."""
    if isinstance(value, list):
        return [from_json(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$bytes" in value:
        return base64.b64decode(value["$bytes"])
    if "$uuid" in value:
        return UUID(value["$uuid"])
    return {key: from_json(inner) for key, inner in value.items()}
