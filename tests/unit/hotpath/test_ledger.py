"""The ledger: what a batch's story says; the same from the text and from what was compiled of it."""

from __future__ import annotations

import importlib
import importlib.util
import random
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

_BUILT = importlib.util.find_spec("pyproducer.hotpath._native_ledger") is not None
TWINS = ["_python_ledger", *(["_native_ledger"] if _BUILT else [])]


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"pyproducer.hotpath.{request.param}")


def make_batch(twin: ModuleType, opened_ms: int, *, topic: str = "t", size: int = 100, records: int = 3,
               failure: object = None) -> Any:
    return SimpleNamespace(
        story=twin.Story(opened_ms), topic_partition=(topic, 0), encoded=bytearray(size), record_count=records,
        attempts=0, open=SimpleNamespace(size_bytes=2 * size), result=SimpleNamespace(failure=failure))


def end(ledger: Any, batch: Any) -> None:
    ledger.on_end(batch.story, batch.topic_partition, batch.encoded, batch.record_count, batch.attempts,
                  batch.open.size_bytes, batch.result.failure is None)


def told(twin: ModuleType, ledger: Any) -> list[dict[str, int]]:
    return [dict(zip(twin.COLUMNS, values, strict=True)) for _, _, values in ledger.stories(0)]


def test_histogram_when_values_are_added_then_each_is_in_a_bucket_that_ends_within_an_eighth_above(
        twin: ModuleType) -> None:
    for value in [*range(70), 100, 999, 12_345, 2**21]:
        histogram = twin.Histogram()
        histogram.add(value)
        index = histogram.counts().index(1)
        assert value <= twin.bucket_end(index) <= value + value // 8
        assert not index or twin.bucket_end(index - 1) < value
    histogram.add(2**40)
    histogram.add(-5)
    assert (histogram.count, sum(histogram.counts()), histogram.peak) == (3, 3, 2**40)


def test_story_when_a_batch_waits_for_a_slot_then_linger_wait_and_wire_add_up_to_its_life(twin: ModuleType) -> None:
    ledger, node = twin.Ledger(8, 5, 10, "(others)"), twin.NodeRow(2)
    batch = make_batch(twin, 1000)
    node.held.note(twin.SLOT, 1003, 1080)
    node.on_answer(4, 10, 0)
    ledger.on_sent(node, [batch], 1080, 0)
    ledger.now_ms = 1160
    end(ledger, batch)
    end(ledger, batch)  # again is no error
    (story,) = told(twin, ledger)
    assert (story["linger_ms"], story["wait_ms"], story["reason"], story["wire_ms"]) == (5, 75, twin.SLOT, 80)
    assert (story["node_id"], story["records"], story["bytes"], story["raw_bytes"], story["outcome"]) == (
        2, 3, 100, 200, twin.STORED)
    assert ledger.delivery.peak == 160
    assert ledger.topics["t"].record_send_total == 3


def test_story_when_the_batch_behind_it_was_opened_then_it_was_full_and_lingers_no_longer(twin: ModuleType) -> None:
    ledger, node = twin.Ledger(8, 1000, 10, ""), twin.NodeRow(1)
    batch = make_batch(twin, 1000)
    batch.story.due_ms = 1010
    ledger.on_sent(node, [batch], 1100, 0)
    assert (batch.story.linger_ms, batch.story.wait_ms, batch.story.reason) == (10, 90, twin.LATE)


def test_story_when_linger_ms_is_the_longest_that_there_is_then_the_batch_lingered_until_it_was_sent(
        twin: ModuleType) -> None:
    """The sum ran over in the compiled text: it had lingered for less than nothing."""
    ledger, node = twin.Ledger(8, 2**63 - 1, 10, ""), twin.NodeRow(1)
    batch = make_batch(twin, 1000)
    ledger.on_sent(node, [batch], 1100, 0)
    assert (batch.story.linger_ms, batch.story.wait_ms) == (100, 0)


def test_story_when_it_was_sent_again_then_the_time_before_is_retry(twin: ModuleType) -> None:
    ledger, node = twin.Ledger(8, 0, 10, ""), twin.NodeRow(1)
    batch = make_batch(twin, 1000)
    ledger.on_sent(node, [batch], 1000, 0)
    batch.attempts = 1
    ledger.on_sent(node, [batch], 1150, 0)
    ledger.now_ms = 1155
    end(ledger, batch)
    (story,) = told(twin, ledger)
    assert (story["retry_ms"], story["wire_ms"], story["attempts"]) == (150, 5, 1)


def test_story_when_a_batch_was_never_sent_then_all_of_its_life_is_a_wait(twin: ModuleType) -> None:
    ledger = twin.Ledger(8, 0, 10, "")
    batch = make_batch(twin, 1000, failure=object())
    batch.encoded = None
    ledger.now_ms = 4000
    end(ledger, batch)
    (story,) = told(twin, ledger)
    assert (story["wait_ms"], story["outcome"], story["node_id"]) == (3000, twin.FAILED, -1)
    assert ledger.topics["t"].record_send_total == 0


def test_ring_when_more_batches_end_than_it_holds_then_the_last_stay_and_sums_have_all(twin: ModuleType) -> None:
    ledger, node = twin.Ledger(4, 0, 10, ""), twin.NodeRow(1)
    for number in range(10):
        batch = make_batch(twin, 1000, records=number)
        ledger.on_sent(node, [batch], 1001, 0)
        ledger.now_ms = 1002 + number
        end(ledger, batch)
    assert [story["records"] for story in told(twin, ledger)] == [9, 8, 7, 6]
    assert len(ledger.stories(1010)) == 2
    assert ledger.sums()[twin.COLUMNS.index("records")] == sum(range(10))


def test_topics_when_there_are_more_than_allowed_then_the_others_share_a_row(twin: ModuleType) -> None:
    ledger, node = twin.Ledger(4, 0, 2, "(others)"), twin.NodeRow(1)
    for number in range(5):
        batch = make_batch(twin, 1000, topic=f"t{number}")
        ledger.on_sent(node, [batch], 1001, 0)
        end(ledger, batch)
    assert {name: row.record_send_total for name, row in ledger.topics.items()} == {"t0": 3, "t1": 3, "(others)": 9}


def test_timeline_when_asked_then_what_filled_most_of_the_time_is_the_reason(twin: ModuleType) -> None:
    timeline = twin.Timeline()
    assert timeline.main_reason(0, 100) == twin.LATE
    timeline.note(twin.NAME, 0, 10)
    timeline.note(twin.THROTTLE, 10, 40)
    timeline.note(twin.THROTTLE, 60, 100)  # a pause of 20 ms belongs to it
    assert timeline.overlap_ms(twin.THROTTLE, 0, 100) == 90
    assert timeline.main_reason(0, 100) == twin.THROTTLE
    assert timeline.main_reason(0, 12) == twin.NAME
    assert timeline.main_reason(95, 400) == twin.LATE


@pytest.mark.skipif(not _BUILT, reason="the compiled twin is not here")
def test_twins_when_they_are_told_the_same_then_they_say_the_same() -> None:
    """One text, but types of C: what overflows or divides differently would show here."""
    said = []
    for name in TWINS:
        twin = importlib.import_module(f"pyproducer.hotpath.{name}")
        draw = random.Random(7)
        ledger, nodes = twin.Ledger(32, 5, 3, "(others)"), [twin.NodeRow(number) for number in range(3)]
        now_ms = 1000
        for _ in range(400):
            now_ms += draw.randrange(40)
            node = draw.choice(nodes)
            node.held.note(draw.randrange(1, 10), now_ms - draw.randrange(60), now_ms)
            ledger.sender.note(draw.choice([twin.CALLBACK, twin.CODEC]), now_ms - draw.randrange(9), now_ms)
            node.on_answer(draw.randrange(200), draw.randrange(900), draw.choice([0, 0, 70]))
            batches = [make_batch(twin, now_ms - draw.randrange(300), topic=f"t{draw.randrange(5)}",
                                  size=draw.randrange(1, 2**33 if draw.random() < 0.01 else 9000) % 100_000)
                       for _ in range(draw.randrange(1, 4))]
            for batch in batches:
                batch.story.due_ms = draw.choice([0, now_ms - draw.randrange(300)])
                ledger.waited_outside(batch.story, now_ms) if draw.random() < 0.1 else None
            ledger.on_sent(node, batches, now_ms, draw.choice([0, 0, 3]))
            ledger.now_ms = now_ms + draw.randrange(100)
            ledger.tell_ms = draw.randrange(3)
            for batch in batches:
                end(ledger, batch)
        said.append((ledger.stories(0), ledger.sums(), ledger.delivery.counts(), ledger.queue.counts(),
                     [(node.floor_ms, node.incoming_byte_total, node.throttle_ms_total) for node in nodes],
                     sorted(ledger.topics)))
    assert said[0] == said[1]
