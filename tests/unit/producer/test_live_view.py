"""What waits now, as waiting() and metrics() tell it."""

from __future__ import annotations

import re

import pytest

from pyproducer.accumulator.batch_state import BatchState
from pyproducer.common.errors import KafkaTimeoutError
from pyproducer.producer.live_view import waiting_partitions
from tests.unit.producer.facade import Facades
from tests.unit.sender.stepped_producer import SteppedProducer


def test_waiting_when_a_batch_has_expired_and_its_request_has_not_ended_then_nobody_waits_for_it() -> None:
    """Its bytes stay until the socket has done with them; its records have failed, and were told so."""
    producer = SteppedProducer()
    producer.start()
    future = producer.append()
    producer.turn()

    def waiting() -> list[int]:
        return [state.records for state in waiting_partitions(producer.accumulator, producer.metadata,
                                                              producer.clock.now_ms())]

    assert waiting() == [1]
    producer.turn(advance=1_000_000)
    (batch,) = producer.accumulator.batches()
    assert (batch.state, future.done()) == (BatchState.LATE, True)
    assert waiting() == []


@pytest.mark.parametrize("more", [0, 1, 3])
def test_waiting_when_a_thousand_partitions_or_more_hold_records_then_the_thousand_that_hold_most_are_told(
        facades: Facades, more: int) -> None:
    count = 1000 + more
    facade = facades(**{"linger.ms": 0, "batch.size": 100})
    facade.broker.topics["t"] = count
    facade.broker.is_reachable = False
    facade.know()
    for partition in [*range(count), count - 1, count - 1, count - 2]:
        facade.producer.send("t", b"v", partition=partition)
    told = [(state.partition, state.records) for state in facade.producer.waiting()]
    assert told == [(count - 1, 3), (count - 2, 2), *((partition, 1) for partition in range(998))]
    assert sorted(facade.producer.metrics().partitions) == sorted(("t", partition) for partition, _ in told)


@pytest.mark.parametrize("more", [0, 1])
def test_partitions_when_a_topic_has_a_thousand_or_more_and_few_wait_then_those_are_among_the_thousand_that_are_told(
        facades: Facades, more: int) -> None:
    facade = facades(**{"linger.ms": 0})
    facade.broker.topics["t"] = 1000 + more
    facade.broker.is_reachable = False
    facade.know()
    facade.producer.send("t", b"v", partition=999 + more)
    rows = facade.producer.metrics().partitions
    assert len(rows) == 1000
    assert rows["t", 999 + more]["records-waiting"] == 1
    assert sum(row["records-waiting"] for row in rows.values()) == 1


@pytest.mark.parametrize(("delivery_timeout_ms", "limit"), [
    (4000, "delivery.timeout.ms = 4000 ms"), (120_000, "max.block.ms = 60000 ms")])
def test_result_when_a_record_waits_for_its_topic_then_the_error_names_the_setting_that_ends_that(
        facades: Facades, delivery_timeout_ms: int, limit: str) -> None:
    """It named max.block.ms where delivery.timeout.ms was smaller, and the record failed with that."""
    facade = facades(**{"delivery.timeout.ms": delivery_timeout_ms, "request.timeout.ms": 3000, "linger.ms": 0})
    facade.broker.is_reachable = False
    future = facade.producer.send("t", b"v")
    with pytest.raises(KafkaTimeoutError, match=re.escape(f"the wait for the topic ends with {limit}, or")):
        future.result(0)
