"""What why() says of records that are on their way."""

from __future__ import annotations

import math
from typing import Any

from pyproducer import Why
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import Facades


def test_why_when_it_is_asked_of_all_time_then_it_says_all_that_is_kept(facades: Facades) -> None:
    """math.inf waits without end in each call with a timeout; here it was an OverflowError."""
    facade = facades(**{"linger.ms": 0, "client.id": "app"})
    facade.know()
    facade.producer.send("t", b"v", partition=0).result(GIVE_UP_S)
    assert str(facade.producer.why(last=math.inf)).startswith("app, all that is kept: 1 batches")
    assert str(facade.producer.why(last=1e30)).startswith("app, all that is kept: 1 batches")


def test_why_when_a_callback_keeps_the_sender_while_a_record_waits_for_its_answer_then_the_callback_is_to_blame(
        facades: Facades) -> None:
    clock = ManualClock(1_000)
    facade = facades(clock, **{"linger.ms": 0, "batch.size": 100})
    facade.know()
    facade.broker.holds = True
    said: list[Why] = []

    def on_completion(_metadata: Any, _exception: BaseException | None) -> None:
        clock.advance(400)
        said.append(facade.producer.why(second))

    facade.producer.send("t", b"first", partition=0, on_completion=on_completion)
    facade.broker.await_requests(1)
    second = facade.producer.send("t", b"second", partition=1)
    facade.broker.await_requests(2)
    clock.advance(50)
    said.append(facade.producer.why(second))
    facade.broker.answer(only=0)
    assert [[(finding.cause, finding.mean_ms) for finding in why.findings] for why in said] == [
        [("broker", 50)], [("callback", 450)]]  # the first answer came at once, and its callback has run since
    facade.broker.answer()
    assert second.result(GIVE_UP_S).partition == 1
