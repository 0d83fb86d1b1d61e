"""Exactly once on Apache Kafka: a query without Spark is killed wherever, with each version of transactions."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pyproducer.twophase import RefusedBatchError, TwoPhase, UndecidedError
from tests.support.kafka_server import KafkaServer
from tests.support.patience import GIVE_UP_S
from tests.support.two_phase_query import (
    ALL_HAVE_PREPARED,
    DECIDED,
    IN_THE_DECISION,
    ONE_IS_COMMITTED,
    POINTS,
    UNDECIDED,
    Query,
)

AdminClient = pytest.importorskip("confluent_kafka.admin").AdminClient
# Timed out transactions are looked for every ten seconds by default.
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}


@pytest.fixture
def query(kafka: KafkaServer, topic_name: str) -> Iterator[Query]:
    kafka.create_topic(topic_name, 3)
    with Query(kafka.bootstrap_servers, topic_name, topic_name) as query:
        yield query


def test_query_when_it_is_killed_again_and_again_then_each_row_is_there_once(query: Query) -> None:
    query.run(0)
    for point in (IN_THE_DECISION, ONE_IS_COMMITTED):
        query.run(query.done + 1, dies_at=point)
    query.run(2)
    query.check()


def test_batch_when_its_topic_is_made_anew_before_the_decision_then_it_is_told_and_can_be_written_again(
        kafka: KafkaServer, query: Query) -> None:
    """Kafka forgets the offsets that are kept for a topic with it: those of the decision before, too."""
    query.run(0)
    driver = query.driver()
    plan = driver.plan()
    outcomes = [query.task(plan, task, 1) for task in range(3)]
    admin = AdminClient({"bootstrap.servers": query.servers})
    admin.delete_topics([query.topic])[query.topic].result()
    kafka.create_topic(query.topic, 3)
    with pytest.raises(UndecidedError, match=r"deleted and made anew while it ran .*exactly\.once\.start=current"):
        driver.commit(plan, 1, outcomes)
    driver.abort(plan, 1, outcomes)
    give_up_s = time.monotonic() + GIVE_UP_S
    while driver.last_decision() is not None:  # offsets go behind the topic
        assert time.monotonic() < give_up_s, "the decision is not forgotten"
        time.sleep(0.1)
    with pytest.raises(RefusedBatchError, match=r"nothing is known of the batches before it.*exactly\.once\.start="):
        query.run(1)
    query.options = {"start": "current"}
    query.run(1)
    assert query.committed() == {row for task in range(3) for row in query.rows_of(1, task)}


def test_leftovers_when_the_driver_was_killed_in_its_first_decision_then_nobody_is_waited_for(query: Query) -> None:
    query.run(0, dies_at=IN_THE_DECISION)
    assert query.driver().last_decision(waits=False) is None
    assert [each.is_decided for each in query.driver().leftovers()] == [False] * 3
    query.run(1, dies_at=IN_THE_DECISION)
    query.run(1)
    query.check()


@pytest.mark.soak
@pytest.mark.parametrize("level", [0, 1, 2])
def test_query_when_it_is_killed_at_each_point_for_many_rounds_then_each_row_is_there_once(level: int) -> None:
    with KafkaServer(settings=SETTINGS, features={"transaction.version": level}) as server:
        for point in POINTS:
            topic = f"killed-{POINTS.index(point)}"
            server.create_topic(topic, 3)
            with Query(server.bootstrap_servers, topic, topic, rows=100) as query:
                query.run(0)
                for number in range(1, 21):
                    query.run(number, dies_at=point)
                    if point in UNDECIDED:
                        assert not any(row.startswith(b"%d-" % number) for row in query.committed())
                    query.run(number)
                query.check()


@pytest.mark.soak
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("point", [DECIDED, ONE_IS_COMMITTED])
def test_query_when_it_is_down_for_longer_than_the_timeout_then_what_is_lost_is_written_again(
        level: int, point: str) -> None:
    with KafkaServer(settings=SETTINGS, features={"transaction.version": level}) as server:
        server.create_topic("orders", 3)
        with Query(server.bootstrap_servers, "orders", "shop", transaction_timeout_ms=3000) as query:
            query.run(0)
            query.run(1, dies_at=point)
            await_none_open(query.driver())
            query.run(2)
            query.check()


@pytest.mark.soak
def test_query_when_the_broker_is_killed_between_prepare_and_commit_then_the_batch_is_committed() -> None:
    with KafkaServer(settings=SETTINGS) as server:
        server.create_topic("orders", 3)
        with Query(server.bootstrap_servers, "orders", "shop") as query:
            query.run(0)
            driver = query.driver()
            plan = driver.plan()
            outcomes = [query.task(plan, task, 1) for task in range(3)]
            server.kill()
            server.start()
            driver.commit(plan, 1, outcomes)
            query.done = 1
            query.run(2, dies_at=ALL_HAVE_PREPARED)
            server.kill()
            server.start()
            query.run(3)
            query.check()


def await_none_open(driver: TwoPhase) -> None:
    give_up_s = time.monotonic() + GIVE_UP_S
    while driver.leftovers():
        assert time.monotonic() < give_up_s, "the transactions do not time out"
        time.sleep(0.1)
