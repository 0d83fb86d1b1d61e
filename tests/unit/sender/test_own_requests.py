"""InitProducerId: one request on its way while an id is needed, repeated while that makes sense."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest

from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.wire import Wire
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import NEVER_MS
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import ApiError, AuthorizationError, UnsupportedVersionError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.requests.init_producer_id import next_init
from pyproducer.sender.requests.own_requests import OwnRequests
from tests.support.clock import ManualClock
from tests.support.mock_client import MockClient, MockWakeup
from tests.unit.sender.stepped_producer import NODE, metadata_response


class Parts:
    def __init__(self) -> None:
        self.client = MockClient(NODE)
        self.wire = Wire(lambda: self.client, MockWakeup())
        self.manager = TransactionManager()
        backoff = ExponentialBackoff(100, 1000, jitter=0)
        self.metadata = ProducerMetadata(refresh_backoff=backoff, metadata_max_age_ms=1000, metadata_max_idle_ms=1000,
                                         clock=ManualClock(), bootstrap=[("127.0.0.1", 9092)])
        self.metadata.update(metadata_response(), 13, 0)
        self.has_records = True
        kind = partial(next_init, self.wire, self.metadata, self.manager, lambda: self.has_records)
        self.request = OwnRequests(wire=self.wire, kinds=[kind], request_timeout_ms=500,
                                   retry_backoff=backoff)

    def answer(self, code: int = 0, producer_id: int = 7, epoch: int = 3, **how: Any) -> None:
        self.client.answer({"throttle_time_ms": 0, "error_code": code, "producer_id": producer_id,
                            "producer_epoch": epoch}, **how)


def test_step_when_an_id_is_needed_then_one_request_is_sent_and_its_answer_is_taken() -> None:
    parts = Parts()
    assert parts.request.step(10) == NEVER_MS
    (request,) = parts.client.sent
    assert (request.api_key, request.destination, request.timeout_ms, request.sent_ms, request.expect_response) == (
        ApiKeys.INIT_PRODUCER_ID, 1, 500, 10, True)
    assert parts.client.bodies == [{"transactional_id": None, "transaction_timeout_ms": 2**31 - 1}]
    assert parts.request.step(11) == NEVER_MS
    assert len(parts.client.sent) == 1, "one at a time"
    parts.answer()
    assert parts.manager.producer_id_and_epoch == (7, 3)
    assert parts.request.step(12) == NEVER_MS
    assert len(parts.client.sent) == 1


def test_step_when_no_node_can_be_asked_then_it_looks_again_after_the_backoff() -> None:
    parts = Parts()
    parts.client.node = None
    assert parts.request.step(0) == 100
    parts.client.node = NODE
    parts.client.is_ready_now = False
    parts.client.poll_delay = 33
    assert parts.request.step(0) == 33
    assert parts.client.sent == []
    parts.client.is_ready_now = True
    parts.request.step(0)
    assert len(parts.client.sent) == 1


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, None])
def test_answer_when_it_is_a_passing_trouble_then_it_is_repeated_with_a_growing_backoff(code: int | None) -> None:
    parts = Parts()
    now_ms = 0
    for backoff_ms in (100, 200, 400, 800, 1000):
        parts.request.step(now_ms)
        assert parts.client.in_flight_request_count()
        if code is None:
            parts.client.answer(None, disconnected=True, received_ms=now_ms)
        else:
            parts.answer(code, received_ms=now_ms)
        assert parts.request.step(now_ms) == backoff_ms
        assert parts.request.step(now_ms + backoff_ms - 1) == 1
        assert not parts.client.in_flight_request_count()
        now_ms += backoff_ms
    parts.request.step(now_ms)
    parts.answer()
    assert parts.manager.producer_id_and_epoch == (7, 3)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-1, -1), (-(2**63), 0), (7, -1), (7, -32768), (7, 32767)])
def test_answer_when_it_is_a_success_without_a_usable_id_then_it_is_repeated_with_a_growing_backoff_and_said_once(
        producer_id: int, epoch: int, caplog: pytest.LogCaptureFixture) -> None:
    """It counted as an id that came, and as none: the next request left at once, 5,000 in a second, each with a line
    in the log."""
    parts, now_ms = Parts(), 0
    with caplog.at_level(logging.INFO):
        for backoff_ms in (100, 200, 400, 800, 1000, 1000):
            parts.request.step(now_ms)
            parts.answer(producer_id=producer_id, epoch=epoch, received_ms=now_ms)
            assert parts.request.step(now_ms) == backoff_ms
            assert not parts.client.in_flight_request_count()
            assert parts.manager.needs_producer_id
            now_ms += backoff_ms
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    words = f"answered with producer id {producer_id} and epoch {epoch}"
    assert words in caplog.text
    assert words in parts.metadata.describe_failure("t")
    parts.request.step(now_ms)
    parts.answer()
    assert parts.manager.producer_id_and_epoch == (7, 3)
    assert parts.metadata.last_errors() == {}


def test_answer_when_an_id_came_then_the_next_trouble_begins_with_the_first_backoff() -> None:
    parts = Parts()
    for now_ms in (0, 100):
        parts.request.step(now_ms)
        parts.client.answer(None, disconnected=True, received_ms=now_ms)
    parts.request.step(300)
    parts.answer(epoch=32766)
    parts.manager.on_producer_id(-1, -1)
    parts.request.step(1000)
    parts.client.answer(None, disconnected=True, received_ms=1000)
    assert parts.request.step(1000) == 100


def test_answer_when_an_acl_is_not_there_then_it_is_asked_again_for_the_next_records() -> None:
    parts = Parts()
    now_ms = 0
    for backoff_ms in (100, 200, 400):
        parts.request.step(now_ms)
        parts.answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, received_ms=now_ms)
        refusal = parts.manager.refusal
        assert isinstance(refusal, AuthorizationError)
        assert (refusal.code, refusal.api, refusal.node_id) == (31, "InitProducerId", 1)
        assert parts.request.step(now_ms) == backoff_ms
        now_ms += backoff_ms
    parts.request.step(now_ms)
    parts.has_records = False  # they expired meanwhile: later ones do not fail by what was said of those
    parts.answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, received_ms=now_ms)
    assert parts.manager.refusal is None
    parts.has_records = True
    parts.request.step(now_ms + 800)
    parts.answer()
    assert parts.manager.producer_id_and_epoch == (7, 3)
    assert parts.manager.fatal_error is None


@pytest.mark.parametrize("code", [ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION])
def test_answer_when_no_repetition_helps_then_the_producer_is_told(code: int) -> None:
    parts = Parts()
    parts.request.step(0)
    parts.answer(code)
    error = parts.manager.fatal_error
    assert isinstance(error, ApiError)
    assert (error.code, error.api, error.node_id) == (code, "InitProducerId", 1)
    assert parts.request.step(10_000) == NEVER_MS
    assert len(parts.client.sent) == 1


def test_answer_when_the_broker_has_no_such_api_then_the_producer_is_told() -> None:
    parts = Parts()
    parts.request.step(0)
    mismatch = UnsupportedVersionError("no InitProducerId")
    parts.client.answer(None, version_mismatch=mismatch)
    assert parts.manager.fatal_error is mismatch
    assert parts.request.step(10_000) == NEVER_MS


def test_step_when_the_client_that_asked_was_thrown_away_then_the_next_one_asks() -> None:
    parts = Parts()
    parts.request.step(0)
    thrown_away, parts.client = parts.client, MockClient(NODE)
    parts.wire.renew()
    assert thrown_away.closed
    parts.request.step(0)
    assert [request.api_key for request in parts.client.in_flight] == [ApiKeys.INIT_PRODUCER_ID]
    assert parts.request.step(1) == NEVER_MS
    assert len(parts.client.sent) == 1, "one at a time"
    parts.answer()
    assert parts.manager.producer_id_and_epoch == (7, 3)
