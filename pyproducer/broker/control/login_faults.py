"""Faults of logins: SaslHandshake, SaslAuthenticate, and the ApiVersions before them.

These requests are answered on the network thread, by what authenticates their connection, and never come to KafkaApis;
so what a script says of them is done here, as faults.py does it for all others.

    on("SaslAuthenticate").error("SASL_AUTHENTICATION_FAILED", "no such luck")   refused, told so, and closed
    on("SaslAuthenticate").close("after_apply")                                  logged in, and nobody hears of it

Road:    server authenticator -> [login faults] -> fault rules
Thread:  the thread that polls the selector; a delay waits in the timer, a held request for the test.
Source:  ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pyproducer.broker.apis.kafka_apis import HANDLERS
from pyproducer.broker.apis.services import Outcome
from pyproducer.broker.cluster.sasl.login_script import Exchange, LoginReply
from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.broker.control.fault_actions import AFTER_APPLY, BEFORE_APPLY, Action
from pyproducer.broker.control.fault_rules import FaultRules, Story
from pyproducer.broker.control.faults import Faults
from pyproducer.broker.control.observations import RequestLog
from pyproducer.broker.network.request_channel import Request
from pyproducer.broker.request.request import AbstractRequest
from pyproducer.broker.request.request_context import RequestContext
from pyproducer.common.errors import AuthenticationError, DisconnectedError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.buffer import Buffer, ByteReader
from pyproducer.protocol.header import parse_response, read_request_header
from pyproducer.protocol.schema import Struct

_logger = logging.getLogger(__name__)
_CORRELATION_ID_BYTES = 4


class RefusedByScriptError(AuthenticationError):
    """A login that a test refuses; `last_words` is the answer that says so."""

    def __init__(self, text: str, last_words: Sequence[Buffer] = ()) -> None:
        super().__init__(text, last_words)
        self.last_words = last_words


class LoginFaults:
    """See LoginScript.

    Args:
        rules: The cluster's.
        faults: What is done for other requests.
        node_id: The broker.
        topics: For the rules.
        request_log: Returns where requests are kept, or None.
        now_ms: The monotonic clock.
    """

    def __init__(self, rules: FaultRules, faults: Faults, node_id: int, topics: TopicTable,
                 request_log: Callable[[], RequestLog | None], now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._faults = faults
        self._node_id = node_id
        self._topics = topics
        self._request_log = request_log
        self._now_ms = now_ms

    @property
    def is_active(self) -> bool:
        """Whether a rule may fit, or requests are kept."""
        return self._rules.is_active or self._request_log() is not None

    def begin(self, context: RequestContext, payload: bytes,
              take: Callable[[], Sequence[Buffer] | None]) -> Exchange | None:
        """Keep the request for who looks later; return what a rule says happens to it, or None."""
        reader = ByteReader(payload)
        read_request_header(reader)
        processor, _, _ = context.connection_id.rpartition("-")[0].rpartition("-")[2].partition("-")
        request = Request(processor=int(processor or -1), context=context, reader=reader, size_bytes=len(payload),
                          start_ms=self._now_ms())
        request.read_body()
        log = self._request_log()
        if log is not None:
            log.append(self._node_id, _without_secrets(request))
        story = self._rules.choose(self._topics, self._node_id, request) if self._rules.is_active else None
        if story is None:
            return None
        _logger.info("Fault %s for %s %d of %s", [action.kind for action in story.actions], request.api_key.title,
                     request.header.correlation_id, context.connection_id)
        request.story = story
        return self._exchange(story, request, take)

    def _exchange(self, story: Story, request: Request, take: Callable[[], Sequence[Buffer] | None]) -> Exchange:
        while (wait := story.next_wait(BEFORE_APPLY)) is not None:
            yield self._waiting(story, wait)
        self._maybe_close(story, BEFORE_APPLY)
        if story.find("drop", BEFORE_APPLY) is not None:
            yield _for_ever
        call = story.find("call")
        answer = None if call is None else call.arguments["function"](request)
        if isinstance(answer, Outcome):
            raise DisconnectedError("The connection is closed by a fault's function")
        if answer is not None:
            chunks: Sequence[Buffer] | None = request.context.build_response(dict(answer))
        else:
            error = story.find("error", BEFORE_APPLY)
            chunks = take() if error is None else self._error(request, error)
        error = story.find("error", AFTER_APPLY)
        if error is not None:
            chunks = self._error(request, error)
        self._maybe_close(story, AFTER_APPLY)
        if story.find("drop", AFTER_APPLY) is not None:
            yield _for_ever
        while (wait := story.next_wait(AFTER_APPLY)) is not None:
            yield self._waiting(story, wait)
        if chunks is None:
            return None
        throttle = story.find("throttle")
        if throttle is None or request.api_key is not ApiKeys.API_VERSIONS:
            return _spoiled(story, chunks)
        throttle_ms = throttle.arguments["throttle_ms"]
        context = request.context
        _, told = parse_response(request.api_key, context.api_version, b"".join(chunks))
        chunks = context.build_response({**told, "throttle_time_ms": throttle_ms})
        return _spoiled(story, chunks)._replace(pause=lambda go_on: self._faults.schedule(throttle_ms, go_on))

    def _waiting(self, story: Story, wait: Action) -> Callable[[Callable[[], None]], None]:
        return lambda go_on: self._faults.wait(story, wait, go_on)

    def _error(self, request: Request, error: Action) -> Sequence[Buffer]:
        """Return the answer that says so; a login is over with it.

        Raises:
            RefusedByScriptError: It is one.
        """
        answer = self._faults.error_answer(HANDLERS[request.api_key], request, request.any_body, error)
        assert not isinstance(answer, Outcome), "these APIs can say that something went wrong"
        if request.api_key is ApiKeys.SASL_AUTHENTICATE and error.arguments.get("message") is None:
            answer = {**answer, "error_message": "Authentication failed"}
        chunks = request.context.build_response(dict(answer))
        if request.api_key is ApiKeys.API_VERSIONS:
            return chunks
        raise RefusedByScriptError(f"{request.api_key.title} is refused by a fault", chunks)

    @staticmethod
    def _maybe_close(story: Story, when: str) -> None:
        if story.find("close", when) is not None:
            raise DisconnectedError("The connection is closed by a fault")


def _without_secrets(request: Request) -> Request:
    """Return a request to keep: what a client proves itself with is not in it."""
    body = request.any_body
    if request.api_key is not ApiKeys.SASL_AUTHENTICATE:
        return request
    hidden = Struct(body.data.schema, {**body.data, "auth_bytes": b""})
    return Request(processor=request.processor, context=request.context,
                   body=AbstractRequest(body.api_key, body.version, hidden), size_bytes=request.size_bytes,
                   start_ms=request.start_ms)


def _for_ever(_go_on: Callable[[], None]) -> None:
    """Wait for nothing."""


def _spoiled(story: Story, chunks: Sequence[Buffer]) -> LoginReply:
    payload = b"".join(chunks)
    truncate = story.find("truncate")
    if story.find("wrong_correlation_id") is not None:
        number = (int.from_bytes(payload[:_CORRELATION_ID_BYTES], "big") + story.random_number) % 2**31
        payload = number.to_bytes(_CORRELATION_ID_BYTES, "big") + payload[_CORRELATION_ID_BYTES:]
    if truncate is None:
        return LoginReply((payload,))
    size_bytes = truncate.arguments["size_bytes"]
    if truncate.arguments["resize"]:
        return LoginReply((payload[:size_bytes],))
    return LoginReply(((len(payload).to_bytes(4, "big") + payload)[:size_bytes],), is_torn=True)
