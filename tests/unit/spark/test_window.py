"""How many rows may wait for answers: what is learned of brokers, and when a task is held."""

from __future__ import annotations

import os

import pytest

from pyproducer.spark.window import Unanswered, Window
from tests.support.clock import ManualClock

KIB = 1024


class SlowAnswer:
    """Comes so long after it was handed over; exception() passes the time."""

    def __init__(self, clock: ManualClock, after_ms: int, error: Exception | None = None) -> None:
        self._clock = clock
        self._due_ms = clock.now_ms() + after_ms
        self._error = error
        self.waited = False

    def done(self) -> bool:
        return self._clock.now_ms() >= self._due_ms

    def exception(self) -> BaseException | None:
        self.waited = True
        self._clock.advance(max(0, self._due_ms - self._clock.now_ms()))
        return self._error


def test_window_begins_with_a_quarter_of_the_buffer_divided_among_workers() -> None:
    assert Window(120_000, 32 * KIB * KIB, 4).limit_bytes == 2 * KIB * KIB
    assert Window(120_000, 32 * KIB * KIB, 1000).limit_bytes == 64 * KIB
    assert Window(120_000, 10 * KIB, 4).limit_bytes == 10 * KIB
    assert Window.of({"delivery.timeout.ms": "1200", "buffer.memory": "1024", "linger.ms": "5"}).limit_bytes == 1024
    hidden = Window.of({"delivery.timeout.ms": "(hidden)", "buffer.memory": "${env:B}", "linger.ms": None})
    assert hidden.limit_bytes == Window(120_000, 32 * KIB * KIB, os.cpu_count() or 1).limit_bytes


def test_window_is_what_brokers_take_in_a_third_of_the_timeout() -> None:
    window = Window(120_000, 1024 * KIB, 4)
    window.learn(64 * KIB, 20_000)
    assert window.limit_bytes == 128 * KIB
    window.learn(64 * KIB, 10)  # a burst that a quota lets through
    assert window.limit_bytes == 256 * KIB
    window.learn(256 * KIB, 80_000)
    assert window.limit_bytes == 128 * KIB
    window.learn(128 * KIB, 119_000)
    assert window.limit_bytes == 64 * KIB
    for _ in range(9):
        window.learn(64 * KIB, 0)
    assert window.limit_bytes == 1024 * KIB


def test_task_waits_only_where_too_much_has_no_answer() -> None:
    clock = ManualClock()
    held = Unanswered(Window(120_000, 1024 * KIB, 4), lambda: None, clock)
    answers = [SlowAnswer(clock, 5) for _ in range(3)]
    held.add(answers[0], 40 * KIB)
    assert held.held_ms == 0
    held.add(answers[1], 40 * KIB)
    assert [answer.waited for answer in answers] == [True, False, False]
    assert held.held_ms == 5
    held.add(answers[2], 40 * KIB)  # the others have their answers now
    assert held.held_ms == 5
    assert held.window.limit_bytes == 128 * KIB


def test_task_waits_for_an_answer_that_is_old_whatever_little_there_is() -> None:
    clock = ManualClock()
    held = Unanswered(Window(120_000, 1024 * KIB, 4), lambda: None, clock)
    old = SlowAnswer(clock, 50_000, ValueError("told elsewhere"))
    held.add(old, 1)
    clock.advance(40_001)
    held.add(SlowAnswer(clock, 5), 1)
    assert old.waited
    assert held.held_ms == 9_999


@pytest.mark.parametrize("bytes_per_ms", [36, 100, 280, 1000])
def test_quota_no_answer_is_as_old_as_its_timeout(bytes_per_ms: int) -> None:
    """32 MiB went into the buffer at once, and below 280 KB/s the last of it came out after delivery.timeout.ms."""
    clock = ManualClock()
    window = Window(120_000, 32 * KIB * KIB, 4)
    held = Unanswered(window, lambda: None, clock)
    free_ms = 0
    oldest_ms = 0
    for _ in range(1000):
        free_ms = max(free_ms, clock.now_ms()) + 64 * KIB // bytes_per_ms
        oldest_ms = max(oldest_ms, free_ms - clock.now_ms())
        held.add(SlowAnswer(clock, free_ms - clock.now_ms()), 64 * KIB)
    assert oldest_ms < 120_000


def test_task_that_waits_where_batches_linger_sends_them() -> None:
    """linger.ms that was set holds for who waits, too: a task would have waited for it each time."""
    clock = ManualClock()
    flushed: list[int] = []
    held = Unanswered(Window(120_000, 1024 * KIB, 4, linger_ms=60_000), lambda: flushed.append(clock.advance(7)), clock)
    for _ in range(2):
        held.add(SlowAnswer(clock, 7), 40 * KIB)
    assert flushed == [7]
    assert held.held_ms == 7
