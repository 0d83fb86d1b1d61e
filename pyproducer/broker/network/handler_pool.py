"""The threads that take requests from the channel and run the APIs.

Road:    request channel -> [handlers]: read the body -> KafkaApis
Thread:  num.io.threads of them; each loops here and nowhere else.
Source:  Java KafkaRequestHandler, KafkaRequestHandlerPool (4.1). Differs from Java: a request's body is read here and
         not by the processor, because what it costs would be waited for by all connections of that processor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pyproducer.broker.network.flood_log import FloodLog, flood_log_of_frames
from pyproducer.broker.network.request_channel import Request, RequestChannel, ShutdownRequest
from pyproducer.common.errors import InvalidRequestError

_logger = logging.getLogger(__name__)
# How long a handler waits before it looks whether it was stopped; Java's value.
RECEIVE_TIMEOUT_MS = 300


class KafkaRequestHandler:
    """One handler thread."""

    def __init__(self, handler_id: int, node_id: int, channel: RequestChannel, handle: Callable[[Request], None],
                 bad_frames: FloodLog | None = None) -> None:
        self.handler_id = handler_id
        self._bad_frames = bad_frames or flood_log_of_frames(_logger)
        self._channel = channel
        self._handle = handle
        self._thread = threading.Thread(
            target=self.run, name=f"data-plane-kafka-request-handler-{node_id}-{handler_id}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def run(self) -> None:
        """Take requests until a ShutdownRequest comes."""
        while True:
            request = self._channel.receive_request(RECEIVE_TIMEOUT_MS)
            if isinstance(request, ShutdownRequest):
                return
            if request is None:
                continue
            try:
                request.read_body()
                self._handle(request)
            except InvalidRequestError as error:
                # Of the body: nothing can be answered to what was not understood.
                self._bad_frames.log(request.start_ms, logging.ERROR, "Exception while processing request from %s: %s",
                                     request.context.connection_id, error)
                self._channel.send_close_connection(request)
            except Exception:
                # KafkaApis answers errors itself; what still comes out must not end the thread. The connection
                # is closed, because nothing else would ever unmute it.
                _logger.exception("Exception when handling request %s", request.header)
                self._channel.send_close_connection(request)

    def initiate_shutdown(self) -> None:
        """Ask the thread to end after what it is doing."""
        self._channel.send_shutdown_request()

    def await_shutdown(self) -> None:
        """Wait for the thread."""
        self._thread.join()


class KafkaRequestHandlerPool:
    """All handlers of a broker.

    Args:
        size: How many.
        node_id: The broker.
        channel: Where requests come from.
        handle: Answers one.
        bad_frames: Where requests are told that nobody can read.
    """

    def __init__(self, size: int, node_id: int, channel: RequestChannel, handle: Callable[[Request], None],
                 bad_frames: FloodLog | None = None) -> None:
        bad_frames = bad_frames or flood_log_of_frames(_logger)
        self._handlers = [KafkaRequestHandler(number, node_id, channel, handle, bad_frames) for number in range(size)]

    def start(self) -> None:
        """Start all threads."""
        for handler in self._handlers:
            handler.start()

    def shutdown(self) -> None:
        """Let the requests that wait be handled, then end the threads."""
        for handler in self._handlers:
            handler.initiate_shutdown()
        for handler in self._handlers:
            handler.await_shutdown()
