"""Whoever waits for metadata."""

from __future__ import annotations

from pyproducer.producer.wait_on_metadata import wait_on_brokers
from tests.unit.client.test_metadata import answer, metadata


def test_check_when_the_answers_before_had_no_news_then_brokers_are_asked_after_the_first_backoff() -> None:
    """A topic that is not there has brokers asked ever more rarely, and check() for another reason waited for that."""
    md = metadata()
    md.add("missing", 0)
    for _ in range(4):
        answer(md, 0)
    assert md.time_to_next_update(0) == 800
    waits = []

    def wakeup() -> None:
        waits.append(md.time_to_next_update(0))
        answer(md, 0)

    wait_on_brokers(md, wakeup, 60_000)
    assert waits == [100]
