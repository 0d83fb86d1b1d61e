"""Batches on the wire, and when the first of them expires."""

from __future__ import annotations

import pytest

from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import TopicPartition
from pyproducer.sender.in_flight_batches import NEVER_MS, InFlightBatches

TIMEOUT_MS = 1000


def batch_of(created_ms: int) -> ProducerBatch:
    return ProducerBatch(TopicPartition("t", 0), created_ms=created_ms, write_limit_bytes=100, reserved_bytes=0)


def in_flight_of(*created_ms: int) -> tuple[InFlightBatches, list[ProducerBatch]]:
    in_flight = InFlightBatches(TIMEOUT_MS)
    batches = [batch_of(ms) for ms in created_ms]
    for batch in batches:
        in_flight.add(batch)
    return in_flight, batches


def test_empty_when_asked_then_nothing_expires_ever() -> None:
    in_flight = InFlightBatches(TIMEOUT_MS)
    assert len(in_flight) == 0
    assert in_flight.take_expired(10**9) == []
    assert in_flight.ms_to_next_expiry(0) == NEVER_MS


def test_add_and_remove_when_called_then_the_batch_says_whether_it_is_in_flight() -> None:
    in_flight, (batch, other) = in_flight_of(0, 0)
    assert (batch.is_in_flight, other.is_in_flight, len(in_flight)) == (True, True, 2)
    in_flight.remove(batch)
    assert (batch.is_in_flight, other.is_in_flight, len(in_flight)) == (False, True, 1)
    in_flight.remove(batch)
    assert len(in_flight) == 1


@pytest.mark.parametrize("ages", [(0, 300, 500), (500, 300, 0), (300, 0, 500)])
def test_next_expiry_when_batches_have_several_ages_then_is_the_oldests_and_never_negative(
        ages: tuple[int, ...]) -> None:
    in_flight, _ = in_flight_of(*ages)
    assert in_flight.ms_to_next_expiry(600) == 400
    assert in_flight.ms_to_next_expiry(1000) == 0
    assert in_flight.ms_to_next_expiry(5000) == 0


@pytest.mark.parametrize("ages", [(0, 300, 500), (500, 300, 0), (300, 0, 500)])
def test_take_expired_when_time_passes_then_each_is_given_once_in_the_ms_it_is_due(ages: tuple[int, ...]) -> None:
    in_flight, _ = in_flight_of(*ages)
    told: list[tuple[int, int]] = []
    for now_ms in range(900, 1600):
        expired = in_flight.take_expired(now_ms)
        told += [(now_ms, batch.created_ms) for batch in expired]
        assert all(batch.is_in_flight for batch in expired), "they are on the wire still"
        left = [1000 + age - now_ms for age in ages if 1000 + age > now_ms]
        assert in_flight.ms_to_next_expiry(now_ms) == min(left, default=NEVER_MS - now_ms)
        assert len(in_flight) == len(left)
    assert told == [(1000, 0), (1300, 300), (1500, 500)]


def test_remove_when_the_oldest_was_answered_then_the_next_one_still_expires_at_its_time() -> None:
    in_flight, (oldest, _) = in_flight_of(0, 300)
    in_flight.remove(oldest)
    assert in_flight.take_expired(1000) == []
    assert in_flight.ms_to_next_expiry(1000) == 300
    assert [batch.created_ms for batch in in_flight.take_expired(1300)] == [300]


def test_remove_when_a_batch_was_taken_as_expired_then_it_is_not_in_flight_any_more() -> None:
    in_flight, (batch,) = in_flight_of(0)
    assert in_flight.take_expired(1000) == [batch]
    in_flight.remove(batch)
    assert not batch.is_in_flight


def test_clear_when_connections_are_gone_then_nothing_is_in_flight_and_new_batches_count_again() -> None:
    in_flight, batches = in_flight_of(0, 300)
    in_flight.clear()
    assert [batch.is_in_flight for batch in batches] == [False, False]
    assert (len(in_flight), in_flight.take_expired(5000), in_flight.ms_to_next_expiry(0)) == (0, [], NEVER_MS)
    in_flight.add(batch_of(700))
    assert in_flight.ms_to_next_expiry(800) == 900


def test_add_when_a_batch_expired_before_then_an_older_one_still_counts() -> None:
    in_flight, _ = in_flight_of(0)
    in_flight.take_expired(1000)
    in_flight.add(batch_of(900))
    in_flight.add(batch_of(100))
    in_flight.add(batch_of(500))
    assert in_flight.ms_to_next_expiry(1000) == 100
