"""A request to one node and the one response that it gets, whatever happens.

Road:    sender -> [ClientRequest] -> NetworkClient -> [ClientResponse] -> sender
Thread:  sender thread only.
Source:  Java ClientRequest, NetworkClient.InFlightRequest, ClientResponse, RequestCompletionHandler (4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyproducer.protocol.apis import ApiKeys

if TYPE_CHECKING:
    from pyproducer.client.unconfirmed_writes import Position
    from pyproducer.common.errors import UnsupportedVersionError
    from pyproducer.network.send import NetworkSend

OnComplete = Callable[["ClientResponse"], None]


class ClientRequest:
    """What to send, to whom, and whom to tell.

    Args:
        destination: Id of the node; it must be ready (`NetworkClient.ready`).
        api_key: The API to call.
        build: Given the negotiated version, returns the body. It may raise UnsupportedVersionError when the body
            needs a field that this version does not have.
        expect_response: False only for Produce with acks=0: then the request is complete when its bytes are written.
        timeout_ms: How long after sending an answer is waited for; then the node is disconnected.
        on_complete: Called once with the response, in `poll`, on the sender thread.
        max_version: Highest version to use, where the caller must not use all that both ends know (Produce without
            topic ids, transactions before version 2).
        internal: Whether the client itself asks, for metadata or to build a connection.
        record_count: With acks=0: how many records are in it, of which no answer will tell.

    Attributes:
        api_version: What was negotiated. This and what follows is written when it is handed to its connection.
        correlation_id: Says which answer is its.
        send: Its frame.
        sent_ms: When it was handed over.
        deadline_ms: Until when an answer is waited for.
        written_before: What was written to its connection before it and has no answer of its own, or None.

    Source: Java ClientRequest, InFlightRequest (4.1); `build` is AbstractRequest.Builder.build.
    """

    __slots__ = ("api_key", "api_version", "build", "correlation_id", "deadline_ms", "destination",
                 "expect_response", "internal", "max_version", "on_complete", "record_count", "send", "sent_ms",
                 "timeout_ms", "written_before")

    api_version: int
    correlation_id: int
    send: NetworkSend
    sent_ms: int
    deadline_ms: int

    def __init__(self, destination: int, api_key: ApiKeys, build: Callable[[int], Mapping[str, Any]], *,
                 expect_response: bool = True, timeout_ms: int, on_complete: OnComplete | None = None,
                 max_version: int | None = None, internal: bool = False,
                 record_count: int = 0) -> None:
        self.destination: int = destination
        self.api_key: ApiKeys = api_key
        self.build: Callable[[int], Mapping[str, Any]] = build
        self.expect_response: bool = expect_response
        self.timeout_ms: int = timeout_ms
        self.on_complete: OnComplete | None = on_complete
        self.max_version: int | None = max_version
        self.internal: bool = internal
        self.record_count: int = record_count
        self.written_before: Position | None = None

    @property
    def is_marker(self) -> bool:
        """Whether it only asks how far the broker is with what gets no answer; see unconfirmed_writes.py."""
        return self.api_key is ApiKeys.API_VERSIONS and not self.internal

    def disconnected(self, now_ms: int, *, timed_out: bool, error: Exception | None) -> ClientResponse:
        """Return the response of a request whose connection ended before the answer."""
        return ClientResponse(self, self.api_version, None, disconnected=True, timed_out=timed_out, error=error,
                              received_ms=now_ms, was_sent=bool(self.send.completed), sent_ms=self.sent_ms)

    def describe(self, now_ms: int) -> str:
        """Return api, version, correlation id and age, for logs: a client bug shows up only as a disconnect."""
        return (f"{self.api_key.name} v{self.api_version} (correlation id {self.correlation_id}, "
                f"sent {now_ms - self.sent_ms} ms ago)")

    def __repr__(self) -> str:
        return f"ClientRequest({self.api_key.name} to node {self.destination})"


class ClientResponse:
    """How a request ended, in exactly one of four ways.

    answered           body is the parsed response (None for a request that expects no response)
    disconnected       the connection ended first; timed_out tells that we ended it because the answer took too long
    version_mismatch   nothing was sent: the node and we have no usable version in common
    failed to encode   nothing was sent: a value does not fit; `error` names the field

    `error` explains in words why there is no body: the broken connection, the failed authentication, the bytes that
    made no sense. It is None for an answered request.

    Attributes:
        destination: Id of the node that the request went to.
        latency_ms: Time from handing the request to the connection until its end, in ms.

    Source: Java ClientResponse (4.1).
    """

    __slots__ = ("api_version", "body", "destination", "disconnected", "error", "latency_ms", "received_ms", "request",
                 "timed_out", "version_mismatch", "was_sent")

    def __init__(self, request: ClientRequest, api_version: int, body: Any, *, disconnected: bool = False,
                 timed_out: bool = False, version_mismatch: UnsupportedVersionError | None = None,
                 error: Exception | None = None, received_ms: int, was_sent: bool = True, sent_ms: int = 0) -> None:
        self.request: ClientRequest = request
        self.destination: int = request.destination
        self.api_version: int = api_version
        self.body: Any = body
        self.disconnected: bool = disconnected
        self.timed_out: bool = timed_out
        self.version_mismatch: UnsupportedVersionError | None = version_mismatch
        self.error: Exception | None = error
        self.received_ms: int = received_ms
        self.was_sent: bool = was_sent
        self.latency_ms: int = received_ms - sent_ms

    @property
    def was_sent_and_unanswered(self) -> bool:
        """Whether the broker may have acted on the request although no answer came.

        True when every byte of it was handed to the operating system before the connection ended. A request whose
        last bytes were never written cannot be parsed by the broker, so it was certainly not acted on.
        """
        return self.was_sent and self.body is None and (self.disconnected or self.error is not None)

    def __repr__(self) -> str:
        how = "answered" if self.body is not None else "timed out" if self.timed_out else (
            "disconnected" if self.disconnected else "not answered")
        return f"ClientResponse({self.request.api_key.name} v{self.api_version} by node {self.destination}: {how})"
