"""Exactly once from topic to topic: other people's consumers, our producer, processes that are killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic
from tests.support import passing_on

pytest.importorskip("confluent_kafka")
pytest.importorskip("kafka")

SEED = 20260715
SESSION_MS = 1500


@pytest.mark.parametrize(("consumers", "seconds", "kill_every_s"), [
    pytest.param(["confluent"], 4, 2.5, id="confluent-once"),
    *(pytest.param([package] * 2, 120, 4, id=f"{package}-2min", marks=pytest.mark.soak)
      for package in ("confluent", "kafka-python"))])
def test_records_when_who_passes_them_on_is_killed_then_each_is_there_once_and_in_order(
        start_broker: Callable[..., EmbeddedBroker], consumers: list[str], seconds: float,
        kill_every_s: float) -> None:
    broker = start_broker(topics={"in": 3, "out": 3}, config={"group.min.session.timeout.ms": 1000})

    def read() -> list[tuple[int, bytes]]:
        return [(record.partition, record.value or b"") for record in read_topic(
            broker.bootstrap_servers, "out", isolation_level="read_committed")]

    story = passing_on.run(broker.bootstrap_servers, "in", "out", read, consumers=consumers, partitions=3,
                           seconds=seconds, kill_every_s=kill_every_s, per_s=200, seed=SEED, session_ms=SESSION_MS)
    print(f"{sum(map(len, story.sent))} records, {story.kills} processes killed, {dict(story.told)}")
    passing_on.check(story, read())
    assert story.kills >= seconds // kill_every_s * 0.5
