"""delivery.timeout.ms to the millisecond: wherever a batch is when its time comes, a turn at that time fails it, and no
poll before that may sleep longer than what is left.
"""

from __future__ import annotations

import pytest

from pyproducer.common.clock import NEVER_MS
from pyproducer.common.error_codes import ErrorCode
from tests.unit.sender.stepped_producer import SteppedProducer

TIMEOUT_MS = 2000


def quiet(**how: object) -> SteppedProducer:
    """One whose connections give no reason to look again: what bounds a poll is expiry alone."""
    producer = SteppedProducer(idempotent=False, delivery_timeout=TIMEOUT_MS, **how)  # type: ignore[arg-type]
    producer.client.poll_delay = NEVER_MS
    return producer


def expire_all(producer: SteppedProducer, created_ms: dict[str, int]) -> None:
    """Go on as a thread does, one poll after the other, each of which sleeps as long as it may.

    Each record must be told when it is delivery.timeout.ms old, neither earlier nor later, however long the polls are.
    """
    told_at: dict[str, int] = dict.fromkeys(producer.told_names(), -1)
    for _ in range(50):
        wait_ms = producer.turn()
        for name in producer.told_names():
            told_at.setdefault(name, producer.clock.now_ms())
        if not producer.accumulator.has_incomplete():
            break
        oldest_ms = min(created_ms[name] for name in created_ms if name not in told_at)
        assert 0 < wait_ms <= oldest_ms + TIMEOUT_MS - producer.clock.now_ms(), "the poll may sleep for too long"
        producer.clock.advance(wait_ms)
    assert told_at == {name: ms + TIMEOUT_MS for name, ms in created_ms.items()}
    assert {producer.error_of(name).phase for name in created_ms} == {"delivery"}


@pytest.mark.parametrize("ages", [(0, 0, 0), (0, 500, 900), (0, 1, 1999)])
@pytest.mark.parametrize("partitions", [(0, 1, 2), (2, 1, 0), (0, 0, 0), (1, 0, 1)])
def test_queued_batches_when_no_broker_takes_them_then_each_expires_at_its_time(
        ages: tuple[int, ...], partitions: tuple[int, ...]) -> None:
    producer = quiet(partitions=3)
    producer.client.is_ready_now = False
    created_ms = {}
    for name, age, partition in zip("abc", ages, partitions, strict=True):
        producer.clock.advance(age - producer.clock.now_ms())
        producer.append_told(name, partition)
        created_ms[name] = age
        producer.turn()
    expire_all(producer, created_ms)
    assert {producer.error_of(name).outcome for name in "abc"} == {"not_sent"}
    assert producer.held_bytes == 0


def test_queued_batches_when_the_first_look_was_before_them_then_each_expires_at_its_time() -> None:
    producer = quiet()
    producer.client.is_ready_now = False
    for start_ms in (0, 2000, 4700, 7000, 12_000, 14_001):
        producer.turn(advance=start_ms - producer.clock.now_ms())
        producer.told.clear()
        producer.append_told("a")
        expire_all(producer, {"a": start_ms})


@pytest.mark.parametrize("ages", [(0, 0, 0), (0, 500, 900), (0, 1, 1999)])
@pytest.mark.parametrize("partitions", [(0, 1, 2), (2, 1, 0), (0, 0, 0)])
def test_batches_in_flight_when_nobody_answers_then_each_expires_at_its_time(
        ages: tuple[int, ...], partitions: tuple[int, ...]) -> None:
    producer = quiet(partitions=3)
    created_ms = {}
    for name, age, partition in zip("abc", ages, partitions, strict=True):
        producer.clock.advance(age - producer.clock.now_ms())
        producer.append_told(name, partition)
        created_ms[name] = age
        producer.turn()
    assert len(producer.batches_on_wire()) == 3
    expire_all(producer, created_ms)
    assert {producer.error_of(name).outcome for name in "abc"} == {"unknown"}


@pytest.mark.parametrize("lost_after", [0, 1, 100, 1499, 1500, 1501, 1900, 1999])
@pytest.mark.parametrize("created", [0, 1, 500, 1999])
def test_requeued_batch_when_it_comes_back_late_then_it_expires_at_its_time(lost_after: int, created: int) -> None:
    """The time of the next look at the queues was computed while the batch was on the wire, and not when it came back.

    It expired up to one delivery.timeout.ms late.
    """
    producer = quiet()
    producer.turn()
    producer.clock.advance(created)
    producer.append_told("a")
    producer.turn()
    for _ in range(lost_after):
        producer.clock.advance(1)
        if producer.clock.now_ms() % 500 == 0:
            producer.turn()
    producer.client.is_ready_now = False
    producer.lose()
    expire_all(producer, {"a": created})
    assert producer.error_of("a").outcome == "unknown"
    assert producer.held_bytes == 0


def test_batches_when_some_are_queued_some_requeued_and_some_in_flight_then_each_expires_at_its_time() -> None:
    producer = quiet(partitions=3)
    producer.append_told("a", 0)
    producer.turn()
    producer.clock.advance(300)
    producer.append_told("b", 1)
    producer.turn()
    producer.client.max_in_flight = 2
    producer.clock.advance(300)
    producer.append_told("c", 2)
    producer.turn()
    producer.clock.advance(600)
    first, _ = producer.client.in_flight
    producer.answer_all(code=ErrorCode.NOT_ENOUGH_REPLICAS, request=first)
    producer.client.is_ready_now = False
    expire_all(producer, {"a": 0, "b": 300, "c": 600})
    assert [producer.error_of(name).outcome for name in "abc"] == ["not_sent", "unknown", "not_sent"]


def test_batch_that_lingers_when_linger_is_longer_than_delivery_timeout_then_it_expires_at_its_time() -> None:
    producer = quiet(linger=10_000)
    producer.append_told("a")
    expire_all(producer, {"a": 0})


def test_batch_whose_partition_has_no_leader_when_its_time_comes_then_it_expires() -> None:
    producer = quiet()
    producer.append_told("a", 7)
    expire_all(producer, {"a": 0})
    assert "topic 't' is known, with 2 partitions" in str(producer.error_of("a"))


def test_batch_that_waits_for_the_producer_id_when_it_does_not_come_then_it_expires_at_its_time() -> None:
    producer = SteppedProducer(delivery_timeout=TIMEOUT_MS)
    producer.append_told("a")
    expire_all(producer, {"a": 0})
    assert producer.error_of("a").outcome == "not_sent"


def test_batch_behind_a_muted_partition_when_its_time_comes_then_it_expires() -> None:
    producer = quiet(max_in_flight=1)
    producer.append_told("a")
    producer.turn()
    producer.clock.advance(400)
    producer.append_told("b")
    expire_all(producer, {"a": 0, "b": 400})
    assert [producer.error_of(name).outcome for name in "ab"] == ["unknown", "not_sent"]


def test_parts_of_a_split_batch_when_they_wait_then_they_expire_at_the_time_of_the_whole() -> None:
    producer = quiet(batch_size=1000)
    producer.clock.advance(100)
    for name in "abcd":
        producer.append_told(name)
    producer.turn()
    producer.clock.advance(500)
    producer.answer_all(code=ErrorCode.MESSAGE_TOO_LARGE)
    producer.client.is_ready_now = False
    expire_all(producer, dict.fromkeys("abcd", 100))
    assert producer.told_names() == list("abcd")
    assert producer.held_bytes == 0


def test_poll_when_the_last_record_expires_in_the_turn_of_a_closing_producer_then_it_does_not_sleep() -> None:
    """close() took delivery.timeout.ms twice: the poll slept until a batch opened now would have expired."""
    producer = quiet()
    producer.client.is_ready_now = False
    producer.append_told("a")
    producer.accumulator.close()
    producer.clock.advance(TIMEOUT_MS)
    producer.turn()
    assert producer.told_names() == ["a"]
    assert producer.client.poll_timeouts == [0]


def test_poll_when_the_thread_may_not_sleep_long_then_it_sleeps_no_longer() -> None:
    producer = quiet()
    producer.append_told("a")
    producer.clock.advance(5)
    producer.sender.run_once(producer.clock.now_ms(), 70)
    assert producer.client.poll_timeouts == [70]
    assert producer.client.poll_times == [5]
