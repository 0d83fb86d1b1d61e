"""Finds which file answers which API, runs it, and sends what it answers.

Road:    KafkaRequestHandler -> [KafkaApis] -> apis/*.py -> RequestChannel
Thread:  handler threads.
Source:  Java kafka.server.KafkaApis (4.1).

A new API touches two places: protocol/ describes it (its messages, its row in apis.py, its class in request.py), and a
file in this folder answers it, with `API`, `handle` and `error_response`. It is found here, and advertised by itself.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pyproducer.broker import apis
from pyproducer.broker.apis.api_handler import Api, ApiHandler
from pyproducer.broker.apis.client_quotas import client_quotas, start_throttling, throttled
from pyproducer.broker.apis.interference import Interference
from pyproducer.broker.apis.services import Answer, Outcome, Services
from pyproducer.broker.apis.unexpected import unexpected
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.network.request_channel import Request, RequestChannel
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.common.clock import Clock
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys, VersionRange
from pyproducer.protocol.buffer import ByteReader

_logger = logging.getLogger(__name__)


def _found_handlers() -> dict[ApiKeys, ApiHandler]:
    """Return the functions of each file of this folder that declares an API, by the API's number."""
    found: dict[ApiKeys, ApiHandler] = {}
    for module_info in pkgutil.iter_modules(apis.__path__, f"{apis.__name__}."):
        module = import_module(module_info.name)
        api: Api | None = getattr(module, "API", None)
        if api is not None:
            if api.key in found:
                raise ImportError(f"{module_info.name} declares {api.key.title}, which another file has declared")
            api.key.row.load()  # here, and not by the thread to which the first request of this API comes
            found[api.key] = ApiHandler(module.handle, module.error_response)
    return dict(sorted(found.items()))


HANDLERS = _found_handlers()


class KafkaApis:
    """Answers the requests of one broker.

    Args:
        node_id: The broker.
        cluster: What it shares with the others.
        channel: Where responses go.
        clock: The clocks.
        interference: What stands between the requests and the APIs; None for nothing.
    """

    def __init__(self, node_id: int, cluster: ClusterState, channel: RequestChannel, clock: Clock,
                 interference: Interference | None = None) -> None:
        self._channel = channel
        self._cluster = cluster
        self._interference = interference
        advertised: Mapping[int, VersionRange] = {
            int(api_key): api_key.advertised_range for api_key in HANDLERS if api_key.advertised_range is not None}
        self.services: Services = Services(
            node_id, cluster, cluster.config, clock, self.respond,
            advertised if interference is None else interference.advertised(advertised), channel.responses.room_bytes)
        self._quotas = client_quotas(cluster.config)

    def is_supported(self, api_key: ApiKeys, api_version: int) -> bool:
        """Whether requests of this API and version are answered; others close their connection."""
        first, last = api_key.broker_range
        return api_key in HANDLERS and first <= api_version <= last and (
            self._interference is None or self._interference.supports(api_key, api_version))

    def api_versions(self, context: RequestContext, reader: ByteReader) -> Mapping[str, Any]:
        """Answer an ApiVersions request of a client that has not logged in yet.

        Raises:
            InvalidRequestError: The body is malformed. Unknown.
        """
        answer = HANDLERS[ApiKeys.API_VERSIONS].handle(self.services, self._early_request(context, reader))
        assert not isinstance(answer, Outcome), "it is answered at once"
        return answer

    def early_error(self, context: RequestContext, reader: ByteReader, error_code: ErrorCode) -> Mapping[str, Any]:
        """Answer a request of a client that should log in first, with an error.

        Raises:
            InvalidRequestError: The body is malformed. Unknown.
        """
        answer = HANDLERS[context.api_key].error_response(self._early_request(context, reader), error_code)
        return {} if isinstance(answer, Outcome) else answer

    def _early_request(self, context: RequestContext, reader: ByteReader) -> Request:
        request = Request(processor=-1, context=context, reader=reader, size_bytes=reader.end,
                          start_ms=self.services.clock.now_ms())
        request.read_body()
        return request

    def handle(self, request: Request) -> None:
        """Run the API and answer; whatever it raises becomes an error response."""
        handler = HANDLERS[request.api_key]
        try:
            if self._interference is None:
                answer = handler.handle(self.services, request)
            else:
                answer = self._interference.handle(handler, self.services, request)
        except Exception:
            _logger.exception("Error when handling request: clientId=%s, correlationId=%d, api=%s, version=%d",
                              request.header.client_id, request.header.correlation_id, request.api_key,
                              request.header.api_version)
            answer = handler.error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        self.respond(request, answer)

    def respond(self, request: Request, answer: Answer) -> None:
        """Send an answer, throttled or with a fault where there is a reason; in place of one that fails, an error.

        The failure must not reach the request that completed this one.
        """
        throttle_ms = self._throttle(request, answer)
        try:
            self._send_or_interfere(request, throttled(request, answer, throttle_ms))
        except Exception as error:
            code = unexpected(request, "the answer", error)
            self._send(request, throttled(
                request, HANDLERS[request.api_key].error_response(request, code), throttle_ms))

    def _throttle(self, request: Request, answer: Answer) -> int:
        """Count a request, and throttle its connection where its client has asked for too much; return how long."""
        if self._quotas is None or answer is Outcome.LATER or request.story is not None:
            return 0
        throttle_ms = self._quotas.throttle_ms(request, answer, self.services.clock.now_ms())
        if not throttle_ms or answer is Outcome.CLOSE_CONNECTION:
            return 0
        start_throttling(self._channel, self._cluster.timer, request, throttle_ms)
        return throttle_ms

    def _send_or_interfere(self, request: Request, answer: Answer) -> None:
        if self._interference is not None and request.story is not None:
            self._interference.respond(HANDLERS[request.api_key], request, answer, self._send)
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
