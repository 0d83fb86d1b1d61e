"""Apache Kafka forgets our producer id: no record is doubled, lost, or told wrongly; and none is reordered, where the
producer can know that the broker may have forgotten it.

A user's day of silence is two seconds here. SILENCE_LIMIT_MS is how long a partition may be silent before the producer
lets its next batch go alone. Below this broker's expiration it guards the order; by default it is above, as for a
cluster whose administrator shortened producer.id.expiration.ms.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyproducer.accumulator import transaction_manager
from tests.support.forgetting_stories import (
    FORGETFUL,
    KafkaStage,
    Story,
    doubled_after_restart,
    doubled_after_silence,
    doubled_after_silence_and_retry,
    reordered_after_silence,
    reordered_in_backfill,
    tell,
)
from tests.support.kafka_server import KafkaServer
from tests.support.story_clients import Judgement, Ours

BELOW_THE_EXPIRATION_MS = FORGETFUL["producer.id.expiration.ms"] // 2
STORIES = (doubled_after_silence, reordered_after_silence, doubled_after_silence_and_retry, reordered_in_backfill)


@pytest.fixture(scope="module")
def server() -> Iterator[KafkaServer]:
    """A Kafka that forgets within seconds."""
    with KafkaServer(settings=FORGETFUL) as server:
        yield server


def told(story: Story, server: KafkaServer, topic: str) -> Judgement:
    with KafkaStage(server, topic) as stage:
        # Longer than a slow machine needs to start a Kafka.
        return tell(story, stage, Ours(**{"delivery.timeout.ms": 80_000}))


def ensure_once_and_true(judgement: Judgement) -> None:
    assert judgement._replace(reordered=[], failed_and_stored=[]) == Judgement([], [], [], [], [], []), judgement


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_record_when_a_silent_producer_was_forgotten_then_it_is_stored_once_and_in_order(
        server: KafkaServer, topic_name: str, monkeypatch: pytest.MonkeyPatch, story: Story) -> None:
    monkeypatch.setattr(transaction_manager, "SILENCE_LIMIT_MS", BELOW_THE_EXPIRATION_MS)
    judgement = told(story, server, topic_name)
    assert judgement.is_spotless, judgement


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_record_when_the_producer_does_not_know_that_it_was_forgotten_then_it_is_stored_once(
        server: KafkaServer, topic_name: str, record_property: pytest.RecordProperty, story: Story) -> None:
    """Order may suffer: the broker took what came first. How much, the report of the run says."""
    judgement = told(story, server, topic_name)
    record_property("reordered", len(judgement.reordered))
    ensure_once_and_true(judgement)


def test_record_when_the_only_broker_was_killed_before_it_answered_then_it_is_stored_once(
        own_kafka: KafkaServer, topic_name: str) -> None:
    """After its restart the broker knows the last of three batches and answers 45 to the first, which is in the log.

    It does not forget the id within seconds: what it forgets while it is in doubt, nobody can keep from being doubled.
    """
    judgement = told(doubled_after_restart, own_kafka, topic_name)
    ensure_once_and_true(judgement)
    assert judgement.reordered == []
