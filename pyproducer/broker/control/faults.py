"""Faults as stories: what a script says goes wrong with a request, between KafkaApis and the API's handler.

    request -> [delay, hold] -> [close, drop, call, error] -> handler -> answer
               before_apply: nothing took effect                      -> [error, close, drop, delay, hold] -> throttle,
                                                                         after_apply: it did   truncate, wrong id
                                                                                            -> processor

Road:    KafkaApis -> [faults] -> apis/*.py -> [faults] -> RequestChannel
Thread:  handler threads, and whoever completes a delayed answer or releases a held request; what waits is in no thread.
Source:  ours; what librdkafka's mock and kfake lack: "applied, then the connection died".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from pyproducer.broker.apis import produce
from pyproducer.broker.apis.api_handler import ApiHandler
from pyproducer.broker.apis.client_quotas import start_throttling, throttled
from pyproducer.broker.apis.services import Answer, Outcome, Services
from pyproducer.broker.cluster.timer import Timer
from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.broker.control.fault_actions import AFTER_APPLY, BEFORE_APPLY, Action
from pyproducer.broker.control.fault_rules import SHAPES, FaultRules, RequestShape, Story
from pyproducer.broker.network.request_channel import (
    Request,
    RequestChannel,
    SendResponse,
    TornResponse,
)
from pyproducer.broker.request.request import AbstractRequest
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import build_response
from pyproducer.protocol.schema import Struct

_logger = logging.getLogger(__name__)
# Errors of a whole Fetch; all others belong to partitions.
_FETCH_SESSION_ERRORS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class _Split(NamedTuple):
    affected: AbstractRequest
    rest: AbstractRequest | None


class Faults:
    """Applies the rules to the requests of one broker.

    Args:
        rules: The cluster's.
        node_id: The broker.
        topics: The cluster's, for requests that name a topic by its id.
        channel: Where responses go.
        timer: For delays.
    """

    def __init__(self, rules: FaultRules, node_id: int, topics: TopicTable, channel: RequestChannel,
                 timer: Timer) -> None:
        self._rules = rules
        self._node_id = node_id
        self._topics = topics
        self._channel = channel
        self._timer = timer

    def handle(self, handler: ApiHandler, services: Services, request: Request) -> Answer:
        """Run the handler, or what a rule says in its place."""
        story: Story | None = request.story
        if story is None:
            story = self._rules.choose(self._topics, self._node_id, request)
            if story is None:
                return handler.handle(services, request)
            request.story = story
            if request.api_key is ApiKeys.PRODUCE:  # a broker that refuses a batch has seen it
                produce.note_attempts(services, request)
            _logger.info("Fault %s for %s %d of %s", [action.kind for action in story.actions],
                         request.api_key.title, request.header.correlation_id, request.context.connection_id)
        wait = story.next_wait(BEFORE_APPLY)
        if wait is not None:
            self.wait(story, wait, lambda: self._channel.requeue(request))
            return Outcome.LATER
        if story.find("close", BEFORE_APPLY) is not None:
            return Outcome.CLOSE_CONNECTION
        if story.find("drop", BEFORE_APPLY) is not None:
            return Outcome.LATER
        call = story.find("call")
        if call is not None:
            answer: Answer | None = call.arguments["function"](request)
            if answer is not None:
                return answer
        error = story.find("error", BEFORE_APPLY)
        if error is None:
            return handler.handle(services, request)
        split = self._split(story, request)
        if split is None or split.rest is None:
            return self.error_answer(handler, request, request.any_body, error)
        answer = self.error_answer(handler, request, split.affected, error)
        if isinstance(answer, Outcome):
            return answer
        story.error_topics = answer[SHAPES[request.api_key].answer_topics]
        request.any_body = split.rest
        return handler.handle(services, request)

    def respond(self, handler: ApiHandler, request: Request, answer: Answer,
                send: Callable[[Request, Answer], None]) -> None:
        """Send an answer, with what is to go wrong after the request took effect.

        Args:
            handler: The API's.
            request: It has a story.
            answer: What the handler said.
            send: Sends an answer as it is.
        """
        story: Story = request.story
        if answer is Outcome.LATER:
            return
        if not isinstance(answer, Outcome):
            answer = self._with_errors(handler, request, story, answer)
        if story.find("close", AFTER_APPLY) is not None:
            answer = Outcome.CLOSE_CONNECTION
        if story.find("drop", AFTER_APPLY) is not None:
            return
        self._send_in_time(request, story, answer, send)

    def wait(self, story: Story, wait: Action, go_on: Callable[[], None]) -> None:
        """Go on when a time is over, or when the test says so; at once where its rule was removed meanwhile."""
        if wait.kind == "delay":
            self._timer.schedule(wait.arguments["delay_ms"], go_on)
        else:
            self._rules.hold(story.rule_id, go_on)

    def schedule(self, delay_ms: int, go_on: Callable[[], None]) -> None:
        """Go on when a time is over."""
        self._timer.schedule(delay_ms, go_on)

    # ---- the last step

    def _send_in_time(self, request: Request, story: Story, answer: Answer,
                      send: Callable[[Request, Answer], None]) -> None:
        wait = story.next_wait(AFTER_APPLY)
        if wait is None:
            self._send(request, story, answer, send)
        else:
            self.wait(story, wait, lambda: self._send_in_time(request, story, answer, send))

    def _send(self, request: Request, story: Story, answer: Answer,
              send_plain: Callable[[Request, Answer], None]) -> None:
        throttle = story.find("throttle")
        if throttle is not None and answer is not Outcome.CLOSE_CONNECTION:
            throttle_ms = throttle.arguments["throttle_ms"]
            start_throttling(self._channel, self._timer, request, throttle_ms)
            answer = throttled(request, answer, throttle_ms)
        truncate = story.find("truncate")
        wrong_id = story.find("wrong_correlation_id")
        if isinstance(answer, Outcome) or (truncate is None and wrong_id is None):
            send_plain(request, answer)
            return
        context = request.context
        correlation_id = context.header.correlation_id
        if wrong_id is not None:
            correlation_id = (correlation_id + story.random_number) % 2**31
        chunks = build_response(request.api_key, context.api_version, correlation_id, answer)
        if truncate is None:
            self._channel.send_response(SendResponse(request, chunks))
            return
        size_bytes = truncate.arguments["size_bytes"]
        payload = b"".join(chunks)
        if truncate.arguments.get("resize"):
            self._channel.send_response(SendResponse(request, [payload[:size_bytes]]))
        else:
            frame = len(payload).to_bytes(4, "big") + payload
            self._channel.send_response(TornResponse(request, frame[:size_bytes]))

    # ---- errors of some partitions

    def _split(self, story: Story, request: Request) -> _Split | None:
        """Part a request into what the story is about and the rest; None when it cannot be parted."""
        shape = SHAPES.get(request.api_key)
        if shape is None or (story.filter.topic is None and story.filter.partition is None):
            return None
        data = request.data
        affected, rest = [], []
        for topic in data[shape.topics] or ():
            if not story.filter.matches_topic(self._topics, topic):
                rest.append(topic)
            elif shape.partitions is None or story.filter.partition is None:
                affected.append(topic)
            else:
                entries, key = topic[shape.partitions], shape.partition_key
                hit = [entry for entry in entries if entry[key] == story.filter.partition]
                missed = [entry for entry in entries if entry[key] != story.filter.partition]
                if hit:
                    affected.append(_with(topic, shape.partitions, hit))
                if missed:
                    rest.append(_with(topic, shape.partitions, missed))
        body = request.any_body
        part = partial(AbstractRequest, body.api_key, body.version)
        return _Split(part(_with(data, shape.topics, affected)),
                      part(_with(data, shape.topics, rest)) if rest else None)

    def error_answer(self, handler: ApiHandler, request: Request, body: AbstractRequest, error: Action) -> Answer:
        """Return the answer that says so for everything in `body`."""
        code = ErrorCode.of(error.arguments["code"])
        if request.api_key is ApiKeys.FETCH and code not in _FETCH_SESSION_ERRORS:
            answer: Answer = _fetch_error(body, code)
        else:
            original = request.any_body
            request.any_body = body
            try:
                answer = handler.error_response(request, code)
            finally:
                request.any_body = original
        if isinstance(answer, Outcome):
            return answer
        number = error.arguments["code"]  # maybe one that this version does not know
        told: Mapping[str, Any] = answer if number == code else _with_number(answer, code, number)
        return _with_words(told, SHAPES.get(request.api_key), error)

    def _with_errors(self, handler: ApiHandler, request: Request, story: Story, answer: Mapping[str, Any]) -> Answer:
        shape = SHAPES.get(request.api_key)
        error = story.find("error", AFTER_APPLY)
        if error is not None:
            split = self._split(story, request)
            if split is None or split.rest is None or shape is None:
                return self.error_answer(handler, request, request.any_body, error)
            errors = self.error_answer(handler, request, split.affected, error)
            if isinstance(errors, Outcome):
                return errors
            story.error_topics = errors[shape.answer_topics]
            answer = {**answer, shape.answer_topics: self._without(story, shape, answer[shape.answer_topics])}
        if story.error_topics and shape is not None:
            answer = {**answer, shape.answer_topics: [*answer[shape.answer_topics], *story.error_topics]}
        return answer

    def _without(self, story: Story, shape: RequestShape, topics: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Take what the story is about out of an answer."""
        kept: list[Mapping[str, Any]] = []
        for topic in topics:
            if not story.filter.matches_topic(self._topics, topic):
                kept.append(topic)
            elif shape.answer_partitions is not None and story.filter.partition is not None:
                others = [entry for entry in topic[shape.answer_partitions]
                          if entry[shape.answer_partition_key] != story.filter.partition]
                if others:
                    kept.append({**topic, shape.answer_partitions: others})
        return kept


def _with(struct: Struct, field: str, value: object) -> Struct:
    changed = Struct(struct.schema, struct)
    changed[field] = value
    return changed


def _fetch_error(body: AbstractRequest, code: ErrorCode) -> Answer:
    shape = SHAPES[ApiKeys.FETCH]
    topics = []
    for topic in body.data["topics"]:
        key = {name: topic[name] for name in shape.topic_keys if name in topic}
        topics.append({**key, "partitions": [
            {"partition_index": entry["partition"], "error_code": code, "high_watermark": -1,
             "aborted_transactions": None, "records": b""} for entry in topic["partitions"]]})
    return {"throttle_time_ms": 0, "error_code": 0, "responses": topics}


def _with_number(value: Any, code: ErrorCode, number: int) -> Any:
    """Put a number into an answer wherever a code stands."""
    if isinstance(value, Mapping):
        return {name: number if name == "error_code" and inner == code else _with_number(inner, code, number)
                for name, inner in value.items()}
    return [_with_number(inner, code, number) for inner in value] if isinstance(value, list) else value


def _with_words(answer: Mapping[str, Any], shape: RequestShape | None, error: Action) -> Mapping[str, Any]:
    """Add a message, and errors of single records, where the API has a place for them."""
    message = error.arguments.get("message")
    record_errors = error.arguments.get("record_errors") or {}
    if message is None and not record_errors:
        return answer
    words: dict[str, Any] = {"error_message": message}
    if record_errors:
        words["record_errors"] = [{"batch_index": int(index), "batch_index_error_message": text}
                                  for index, text in record_errors.items()]
    if shape is None or shape.answer_partitions is None:
        return {**answer, **words}
    return {**answer, shape.answer_topics: [
        {**topic, shape.answer_partitions: [{**entry, **words} for entry in topic[shape.answer_partitions]]}
        for topic in answer[shape.answer_topics]]}
