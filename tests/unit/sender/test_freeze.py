"""What moves by the time that nobody ran, and in whose turn connections are made anew; see sender/freeze.py.

tests/unit/producer/test_freeze.py has the story of a whole producer.
"""

from __future__ import annotations

import pytest

from pyproducer import KafkaTimeoutError
from pyproducer.sender.freeze import longest_pause_ms
from tests.unit.sender.stepped_producer import SteppedProducer

GAP_MS = 10_000
DELIVERY_MS = 2000


def frozen(producer: SteppedProducer, gap_ms: int = GAP_MS) -> SteppedProducer:
    """Let time pass in the poll of the turn before, as its client tells it."""
    producer.clock.advance(gap_ms)
    producer.freeze.on_pause(gap_ms, producer.clock.now_ms())
    return producer


def test_deadlines_when_nobody_ran_then_a_batch_has_what_it_had_left() -> None:
    producer = SteppedProducer()
    producer.start()
    producer.client.is_ready_now = False
    future = producer.append()
    producer.turn(advance=DELIVERY_MS - 1)
    frozen(producer)
    producer.client.is_ready_now = False
    producer.turn()
    assert not future.done()
    producer.clients[-1].is_ready_now = False
    producer.turn(advance=1)
    with pytest.raises(KafkaTimeoutError, match=r"delivery\.timeout\.ms"):
        future.result(0)


def test_deadlines_when_a_batch_came_after_the_thaw_then_it_has_its_own_time_and_no_more() -> None:
    producer = SteppedProducer()
    producer.start()
    producer.client.is_ready_now = False
    producer.clock.advance(GAP_MS)
    young = producer.append()
    (batch,) = producer.incomplete()
    producer.freeze.on_pause(GAP_MS, producer.clock.now_ms())
    assert batch.created_ms == producer.clock.now_ms()
    producer.turn(advance=DELIVERY_MS)
    assert young.done()


def test_deadlines_when_records_wait_for_metadata_then_older_ones_still_end_first() -> None:
    producer = SteppedProducer(delivery_timeout=100_000)
    old = producer.enter(b"old", max_block_ms=1000)
    producer.clock.advance(900)
    younger = producer.enter(b"younger", max_block_ms=5000)
    frozen(producer)
    newest = producer.enter(b"newest", max_block_ms=400)
    (queue,) = producer.accumulator.waiting.queues.values()
    now_ms = producer.clock.now_ms()
    assert [record.deadline_ms - now_ms for record in queue.records] == [100, 5000, 400]
    assert queue.first_deadline_ms == now_ms + 100
    for advance_ms, done in ((99, 0), (1, 1), (300, 2), (4600, 3)):
        producer.turn(advance=advance_ms)
        assert [future.done() for future in (old, newest, younger)].count(True) == done


def test_deadlines_when_a_topic_is_not_known_then_the_gap_does_not_count_as_silence_of_the_brokers() -> None:
    producer = SteppedProducer(delivery_timeout=1_000_000)
    future = producer.enter(max_block_ms=900_000)
    producer.turn()
    producer.tell(0, code=3, node_id=1)
    producer.turn()
    producer.tell(0, code=3, node_id=2, advance=1000)
    producer.turn()
    frozen(producer, 60_000)
    for node_id in (1, 2):
        producer.tell(0, code=3, node_id=node_id, advance=100)
        producer.turn()
    assert not future.done()
    for node_id in (1, 2):
        producer.tell(0, code=3, node_id=node_id, advance=10_000)
        producer.turn()
    assert future.done()


def test_client_when_nobody_ran_then_its_requests_have_longer() -> None:
    producer = SteppedProducer()
    frozen(producer)
    assert producer.client.moved_ms == GAP_MS


def test_turn_when_it_took_long_then_that_was_no_freeze() -> None:
    """A callback runs in it, perhaps."""
    producer = SteppedProducer()
    producer.start()
    producer.turn(advance=GAP_MS)
    producer.turn()
    assert len(producer.clients) == 1
    assert producer.client.moved_ms == 0


@pytest.mark.parametrize(("gap_ms", "moved_ms"), [(1000, 0), (1001, 1001)])
def test_rest_when_it_was_longer_than_anybody_meant_then_deadlines_move_and_the_client_is_made_anew_once(
        gap_ms: int, moved_ms: int) -> None:
    producer = SteppedProducer()
    producer.start()
    (client,) = producer.clients
    producer.freeze.rested_ms = producer.clock.now_ms()
    producer.clock.advance(gap_ms)
    for _ in range(2):  # a caller, for whom the turn is not, and the thread
        producer.freeze.end_rest(producer.clock.now_ms())
    assert (client.moved_ms, client.rest_ms) == (moved_ms, gap_ms)
    producer.turn()
    producer.turn()
    assert len(producer.clients) == (2 if moved_ms else 1)


def test_suspend_when_it_was_short_then_nothing_happens_and_short_ones_do_not_add_up() -> None:
    producer = SteppedProducer()
    producer.start()
    for _ in range(5):
        producer.clock.suspend(900)
        producer.turn(advance=1000)
    assert len(producer.clients) == 1
    producer.clock.suspend(1001)
    producer.turn(advance=1000)
    assert len(producer.clients) == 2


def test_suspend_when_the_machine_sleeps_once_more_then_connections_are_made_anew_once_more() -> None:
    producer = SteppedProducer()
    producer.start()
    for clients in (2, 3, 4):
        producer.clock.suspend(GAP_MS)
        producer.turn(advance=1000)
        producer.turn()
        assert len(producer.clients) == clients


def test_thaw_when_a_batch_is_on_the_wire_then_its_error_says_why_it_is_sent_again() -> None:
    producer = SteppedProducer()
    producer.start()
    producer.append()
    producer.turn()
    (batch,) = producer.incomplete()
    frozen(producer).turn()
    assert "the process could not run" in str(batch.last_error)
    assert batch.may_be_in_log
    producer.turn(advance=100)
    assert producer.sequences_on_wire() == [(0, 1)]
    producer.answer_all(base_offset=1)
    assert not producer.incomplete()


def test_longest_pause_when_the_request_timeout_is_tiny_then_a_busy_machine_is_no_freeze() -> None:
    assert [longest_pause_ms(timeout_ms) for timeout_ms in (0, 50, 30_000)] == [1000, 1000, 30_000]
