"""Refused batches are told at the level that the command shows, and no flood of them fills the terminal."""

from __future__ import annotations

import logging

import pytest

from pyproducer.broker.apis.refusal_log import RefusalLog
from pyproducer.broker.network.flood_log import LINES, WINDOW_MS
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.support.raw_client import produce_body
from tests.unit.broker.apis.stage import ApiStage


def test_produce_when_a_batch_is_refused_then_the_default_level_shows_what_and_why(
        stage: ApiStage, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        stage.ask(ApiKeys.PRODUCE, 9, produce_body("orders", 0, b"nonsense"))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == ("Refused a batch of client probe for orders-0 with INVALID_RECORD: no whole record "
                                   "batch in 8 bytes")


def test_refusals_when_there_are_very_many_then_some_are_told_and_the_others_counted(
        caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog()
    with caplog.at_level(logging.WARNING):
        for number in range(LINES + 7):
            log.refused("orders-0", "c", ErrorCode.INVALID_RECORD, str(number), now_ms=number)
        assert len(caplog.records) == LINES
        log.refused("orders-0", "c", ErrorCode.INVALID_RECORD, "last", now_ms=WINDOW_MS)
    assert [record.getMessage() for record in caplog.records[LINES:]] == [
        "Refused 7 more batches within 10 s",
        "Refused a batch of client c for orders-0 with INVALID_RECORD: last"]


def test_refusal_when_the_client_is_to_try_again_then_it_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        RefusalLog().refused("orders-0", "c", ErrorCode.NOT_ENOUGH_REPLICAS, "not yet", now_ms=0)
    assert [record.levelno for record in caplog.records] == [logging.INFO]
