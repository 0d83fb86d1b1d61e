"""Between the network and the handlers: one bounded queue of requests, and a way back to each processor.

Road:    Processor -> [request channel] -> KafkaRequestHandler -> KafkaApis -> [request channel] -> Processor
Thread:  any. `send_request` blocks the processor that calls it while the queue is full (queued.max.requests):
         that is how a slow broker stops reading from its clients.
Source:  Java kafka.network.RequestChannel (4.1); the seed's Response actions and ShutdownRequest.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyproducer.broker.request.request import AbstractRequest
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import Buffer, ByteReader
from pyproducer.protocol.header import RequestHeader, build_response
from pyproducer.protocol.schema import Struct

_NO_LIMIT = 1 << 62
# Below this a response is not counted, and so much it may always be: max.partition.fetch.bytes of Java's consumer.
LARGE_RESPONSE_BYTES = 64 * 1024
LEAST_RESPONSE_BYTES = 1024 * 1024


class Request:
    """One request, with the way back to the connection it came from.

    Args:
        processor: Where its connection lives.
        context: Its header, and who sent it.
        body: What it says, where that is known already.
        reader: Stands at its body, which a handler reads.
        size_bytes: The frame, without its size.
        start_ms: When it came, monotonic.
    """

    __slots__ = ("_body", "_reader", "api_key", "context", "processor", "size_bytes", "start_ms", "story")

    def __init__(self, *, processor: int, context: RequestContext, body: AbstractRequest | None = None,
                 reader: ByteReader | None = None, size_bytes: int, start_ms: int) -> None:
        self.processor: int = processor
        self.context: RequestContext = context
        self.api_key: ApiKeys = context.api_key
        self._body = body
        self._reader = reader
        self.size_bytes: int = size_bytes
        self.start_ms: int = start_ms
        self.story: Any = None  # what an Interference has chosen for this request; whoever chose it owns it

    @property
    def header(self) -> RequestHeader:
        """The request's header as it was sent."""
        return self.context.header

    def read_body(self) -> None:
        """Read the body, on the handler's thread; no effect when that was done.

        Raises:
            InvalidRequestError: It is malformed, or names too many things. Unknown.
        """
        reader, self._reader = self._reader, None
        if reader is not None:
            self._body = self.context.parse_request(reader).request

    def body(self, expected: ApiKeys) -> AbstractRequest:
        """Return the body, which must be of the API that the caller handles.

        Raises:
            TypeError: It is another request; a mistake in the dispatch table.
        """
        body = self._body
        if body is None or body.api_key is not expected:
            found = "none" if body is None else f"{body.api_key.title}Request"
            raise TypeError(f"Expected request with type {expected.title}Request, but found {found}")
        return body

    @property
    def any_body(self) -> AbstractRequest:
        """The body, whatever it is; a fault replaces it when a request is to be handled in part."""
        if self._body is None:
            raise TypeError("The request's body has not been read")
        return self._body

    @any_body.setter
    def any_body(self, body: AbstractRequest) -> None:
        self._body = body

    @property
    def data(self) -> Struct:
        """The fields of the body, whatever it is."""
        return self.any_body.data


@dataclass(frozen=True)
class Response:
    """What becomes of a request; `processor` is where its connection lives."""

    request: Request

    @property
    def processor(self) -> int:
        """The id of the processor that must act."""
        return self.request.processor


@dataclass(frozen=True)
class SendResponse(Response):
    """SendAction: write these bytes, then read the connection's next request."""

    chunks: Sequence[Buffer]


@dataclass(frozen=True)
class NoOpResponse(Response):
    """NoOpAction: write nothing, read the connection's next request (Produce with acks=0)."""


@dataclass(frozen=True)
class CloseConnectionResponse(Response):
    """CloseConnectionAction: there is an error and no response to say it with."""


@dataclass(frozen=True)
class TornResponse(Response):
    """Write these bytes as they are, size and all, then close: a broker that dies while it answers."""

    data: bytes


@dataclass(frozen=True)
class StartThrottlingResponse(Response):
    """StartThrottlingAction: keep the connection muted when its response is sent, until the throttle has ended."""


@dataclass(frozen=True)
class EndThrottlingResponse(Response):
    """EndThrottlingAction: read the connection's next request, when its response is sent."""


class ResponseMemory:
    """How many bytes of large responses wait to be written or read by their clients, all connections together.

    A client may ask for fifty megabytes and read none of them; forty did, and the broker held 1.4 GiB. One connection
    has one response at a time, so the bound is on all of them: who reads much is given a part of what is left.

    Args:
        limit_bytes: What all may hold together.
        handlers: How many threads make responses at the same time.
    """

    def __init__(self, limit_bytes: int = _NO_LIMIT, handlers: int = 1) -> None:
        self._limit_bytes = limit_bytes
        self._handlers = handlers
        self._lock = threading.Lock()  # guards _held_bytes
        self._held_bytes = 0
        # A response may end by the collector, in the middle of any line of this very thread: no lock is taken there.
        self._freed: deque[int] = deque()

    @property
    def held_bytes(self) -> int:
        """How much is held now."""
        with self._lock:
            while self._freed:
                self._held_bytes -= self._freed.popleft()
            return self._held_bytes

    def room_bytes(self) -> int:
        """Return how large a response may be now: its handler's part of what is left, or a little in any case."""
        return max((self._limit_bytes - self.held_bytes) // self._handlers, LEAST_RESPONSE_BYTES)

    def hold(self, response: SendResponse) -> None:
        """Count a response for as long as anybody has it, however it ends; a small one is not worth it."""
        size_bytes = sum(map(len, response.chunks))
        if size_bytes < LARGE_RESPONSE_BYTES:
            return
        with self._lock:
            self._held_bytes += size_bytes
        weakref.finalize(response, self._freed.append, size_bytes).atexit = False


class ResponseQueue(Protocol):
    """A processor, as the way back to it is known here."""

    @property
    def processor_id(self) -> int:
        """Unique in the broker."""

    @property
    def response_queue_size(self) -> int:
        """How many responses wait to be taken up."""

    def enqueue_response(self, response: Response) -> None:
        """Queue a response and wake the thread."""


class ShutdownRequest:
    """Ends the handler that receives it."""


SHUTDOWN_REQUEST = ShutdownRequest()


class RequestChannel:
    """Routes requests to handlers and responses to processors.

    Args:
        queue_size: Most requests that wait (queued.max.requests).
        responses: Counts what waits on the way back.
    """

    def __init__(self, queue_size: int, responses: ResponseMemory | None = None) -> None:
        self._queue_size = queue_size
        self.responses: ResponseMemory = responses or ResponseMemory()
        # SimpleQueue hands over in C, without a Python lock; the bound is counted beside it.
        self._queue: queue.SimpleQueue[Request | ShutdownRequest] = queue.SimpleQueue()
        self._not_full = threading.Condition()  # guards _waiting and _closed
        self._waiting = 0
        self._closed = False
        self._processors: dict[int, ResponseQueue] = {}

    # ---- processors

    def add_processor(self, processor: ResponseQueue) -> None:
        """Make a processor reachable for responses."""
        self._processors = {**self._processors, processor.processor_id: processor}

    def remove_processor(self, processor_id: int) -> None:
        """Forget a processor; responses for it are dropped from now on."""
        self._processors = {key: value for key, value in self._processors.items() if key != processor_id}

    # ---- requests

    @property
    def request_queue_size(self) -> int:
        """How many requests wait for a handler (Kafka's gauge RequestQueueSize)."""
        return self._waiting

    def response_queue_sizes(self) -> Mapping[int, int]:
        """Return how many responses wait at each processor (Kafka's gauge ResponseQueueSize)."""
        return {key: processor.response_queue_size for key, processor in self._processors.items()}

    def send_request(self, request: Request) -> bool:
        """Queue a request for the handlers; blocks while the queue is full.

        Returns:
            False when the channel was closed before there was room: the request is dropped.
        """
        with self._not_full:
            while self._waiting >= self._queue_size and not self._closed:
                self._not_full.wait()
            if self._closed:
                return False
            self._waiting += 1
        self._queue.put(request)
        return True

    def receive_request(self, timeout_ms: int) -> Request | ShutdownRequest | None:
        """Return the next request, or None when none came within `timeout_ms`."""
        try:
            # Who may wait until just now may wait for ever, where a put woke him for what another took (CPython 3.10).
            request = self._queue.get(timeout_ms > 0, timeout_ms / 1000)
        except queue.Empty:
            return None
        if isinstance(request, Request):
            with self._not_full:
                self._waiting -= 1
                if self._waiting == self._queue_size - 1:
                    self._not_full.notify_all()
        return request

    def requeue(self, request: Request) -> None:
        """Queue a request once more that was taken out already: never blocks, and the bound does not count it."""
        with self._not_full:
            if self._closed:
                return
            self._waiting += 1
        self._queue.put(request)

    def send_shutdown_request(self) -> None:
        """End one handler, after the requests that wait already."""
        self._queue.put(SHUTDOWN_REQUEST)

    # ---- responses

    def send_body(self, request: Request, body: Mapping[str, Any]) -> None:
        """Build a response and send it.

        Raises:
            SchemaError: The body does not fit the request's version: a bug of the handler.
        """
        context = request.context
        chunks = build_response(request.api_key, context.api_version, context.header.correlation_id, body)
        response = SendResponse(request, chunks)
        self.responses.hold(response)
        self.send_response(response)

    def send_no_op(self, request: Request) -> None:
        """Answer nothing and go on with the connection."""
        self.send_response(NoOpResponse(request))

    def send_close_connection(self, request: Request) -> None:
        """Close the connection of a request."""
        self.send_response(CloseConnectionResponse(request))

    def send_response(self, response: Response) -> None:
        """Hand a response to the processor that owns the connection; dropped when that processor is gone."""
        processor = self._processors.get(response.processor)
        if processor is not None:
            processor.enqueue_response(response)

    def close(self) -> None:
        """Let blocked processors go: no request is accepted any more."""
        with self._not_full:
            self._closed = True
            self._not_full.notify_all()

