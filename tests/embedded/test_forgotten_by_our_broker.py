"""Our own broker forgets our producer id, as Apache Kafka does: the stories of tests/kafka's test."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pyproducer.accumulator import transaction_manager
from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.control.in_process import InProcessCluster
from tests.support.forgetting_stories import (
    DAY_MS,
    KafkaStage,
    Story,
    doubled_after_silence,
    doubled_after_silence_and_retry,
    reordered_after_silence,
    reordered_in_backfill,
    tell,
)
from tests.support.story_clients import Judgement, Ours

SILENCE_LIMIT_MS = 100
STORIES = (doubled_after_silence, reordered_after_silence, doubled_after_silence_and_retry, reordered_in_backfill)


class OurServer:
    """A Server of the stories."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self.bootstrap_servers: str = broker.bootstrap_servers

    @property
    def port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    def create_topic(self, name: str, /) -> str:
        self._broker.create_topic(name, 1)
        return name

    def restart(self) -> None:
        raise AssertionError("no story here kills the broker")

    def set_expiration(self, expiration_ms: int) -> None:
        """Forget, where that is short: our broker does not change the setting while it runs."""
        if expiration_ms < DAY_MS:
            time.sleep(3 * SILENCE_LIMIT_MS / 1000)  # the silence
            cluster = self._broker._cluster
            assert isinstance(cluster, InProcessCluster)
            cluster.state.log_manager.run_producer_expiration(int(time.time() * 1000) + 2 * DAY_MS)


@pytest.fixture(scope="module")
def server() -> Iterator[OurServer]:
    """A broker that forgets when it is told to."""
    with EmbeddedBroker() as broker:
        yield OurServer(broker)


def told(story: Story, server: OurServer, *, name: str) -> Judgement:
    with KafkaStage(server, name, server.set_expiration) as stage:
        return tell(story, stage, Ours(**{"delivery.timeout.ms": 80_000}))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_record_when_a_silent_producer_was_forgotten_then_it_is_stored_once_and_in_order(
        server: OurServer, monkeypatch: pytest.MonkeyPatch, story: Story) -> None:
    monkeypatch.setattr(transaction_manager, "SILENCE_LIMIT_MS", SILENCE_LIMIT_MS)
    judgement = told(story, server, name=f"noticed-{story.__name__}")
    assert judgement.is_spotless, judgement


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_record_when_the_producer_does_not_know_that_it_was_forgotten_then_it_is_stored_once(
        server: OurServer, record_property: pytest.RecordProperty, story: Story) -> None:
    """Order may suffer: the broker took what came first. How much, the report of the run says."""
    judgement = told(story, server, name=f"unnoticed-{story.__name__}")
    record_property("reordered", len(judgement.reordered))
    assert judgement._replace(reordered=[], failed_and_stored=[]) == Judgement([], [], [], [], [], []), judgement
