"""Who takes the sender's turns: what threads do at once is played step by step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pyproducer.accumulator.produce_result import ProduceRequestResult
from pyproducer.common.cluster import Node, TopicPartition
from pyproducer.sender.sender import NEVER_MS
from pyproducer.sender.turns import SenderTurns
from tests.support.clock import ManualClock
from tests.support.mock_client import MockClient

TP = TopicPartition("t", 0)
GIVE_UP_SECONDS = 60
SENDER = "sender"


class MockSender:
    """SteppedSender that notes its turns; `on_turn` is what happens in the next one of a caller."""

    def __init__(self) -> None:
        self.turn_count = 0  # of the sender's own thread
        self.caller_turns: list[tuple[int, int | None, int | None]] = []
        self.recovered_times: list[int] = []
        self.leader: int | None = 1
        self.needs_its_thread = False
        self.on_turn: Callable[[], object] = lambda: None

    def connected_leader(self, topic_partition: TopicPartition, now_ms: int) -> int | None:
        assert topic_partition == TP
        return self.leader

    def run_once(self, now_ms: int, longest_wait_ms: int | None = None, awaited_node_id: int | None = None) -> None:
        if threading.current_thread().name == SENDER:
            self.turn_count += 1
            return
        self.caller_turns.append((now_ms, longest_wait_ms, awaited_node_id))
        self.on_turn()

    def recover(self, now_ms: int) -> None:
        assert threading.current_thread().name == SENDER
        self.recovered_times.append(now_ms)


class MockWork:
    """IncompleteWork that the sender's thread sees as done, and a caller as one batch on its way.

    `on_last_look` runs when somebody looks for it next; `looks` counts how often the sender's thread did.
    """

    def __init__(self) -> None:
        self.on_last_look: Callable[[], None] = lambda: None
        self.looks = threading.Semaphore(0)
        self.is_left = False
        self.batch_count = 1

    def has_incomplete(self) -> bool:
        on_last_look, self.on_last_look = self.on_last_look, lambda: None
        on_last_look()
        if threading.current_thread().name == SENDER:
            self.looks.release()
        return self.is_left

    def incomplete_batch_count(self) -> int:
        return self.batch_count


class Parts:
    """The turns over doubles, with a clock that stands still."""

    def __init__(self) -> None:
        self.sender = MockSender()
        self.work = MockWork()
        self.client = MockClient(Node(1, "127.0.0.1", 9092))
        self.clock = ManualClock()
        self.turns = SenderTurns(self.sender, self.client, self.work, self.clock)
        self.outcome = ProduceRequestResult(TP)
        self.thread = threading.Thread(target=self.turns.take_one, name=SENDER, daemon=True)

    def park(self) -> None:
        """Have the sender's thread stand aside."""
        self.turns.on_wait(self.outcome, None, is_hurried=False)  # somebody waits: the thread looks whether it may
        self.thread.start()
        # Once before it parks, once when it is parked.
        self.looked(2)

    def looked(self, times: int) -> None:
        """Wait until the sender's thread has looked for work so many times more."""
        for _ in range(times):
            assert self.work.looks.acquire(timeout=GIVE_UP_SECONDS), "the sender's thread does not look for work"

    def looked_again(self) -> None:
        while self.work.looks.acquire(blocking=False):
            pass
        self.looked(2)

    def finish(self) -> None:
        """Wait for the end of the turn of the sender's thread."""
        self.thread.join(GIVE_UP_SECONDS)
        assert not self.thread.is_alive(), "the sender's thread still stands aside"

    def set_outcome(self) -> None:
        self.outcome.set(0, -1, None)


@pytest.fixture
def parts() -> Iterator[Parts]:
    made = Parts()
    yield made
    made.turns.stop()
    if made.thread.ident is not None:
        made.finish()


def test_wakeup_when_the_thread_is_about_to_stand_aside_then_it_looks_without_waiting(parts: Parts) -> None:
    parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    parts.work.on_last_look = parts.turns.wakeup
    parts.thread.start()
    parts.finish()
    assert parts.sender.turn_count == 1


def test_thread_when_a_wakeup_was_heard_by_a_turn_then_it_stands_aside_until_the_next(parts: Parts) -> None:
    parts.turns.wakeup()
    parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    parts.turns.take_one()
    parts.thread.start()
    parts.looked(4)
    assert parts.sender.turn_count == 0
    assert parts.thread.is_alive()
    parts.turns.wakeup()
    parts.finish()
    assert parts.sender.turn_count == 1


def test_thread_when_nobody_waits_then_it_takes_its_turn_at_once(parts: Parts) -> None:
    parts.thread.start()
    parts.finish()
    assert parts.sender.turn_count == 1


@pytest.mark.parametrize("reason", ["work", "request", "only a look"])
def test_thread_when_there_is_a_reason_to_go_on_then_it_does_not_stand_aside(parts: Parts, reason: str) -> None:
    parts.turns.on_wait(parts.outcome, 0 if reason == "only a look" else None, is_hurried=False)
    parts.work.is_left = reason == "work"
    if reason == "request":
        parts.client.has_in_flight_requests = lambda node_id=None: True  # type: ignore[method-assign]
    parts.thread.start()
    parts.finish()
    assert parts.sender.turn_count == 1


def test_thread_when_no_caller_came_for_20_ms_then_it_goes_on_and_not_before(parts: Parts) -> None:
    parts.park()
    parts.clock.advance(19)
    parts.looked_again()
    assert parts.sender.turn_count == 0
    parts.clock.advance(1)
    parts.finish()
    assert parts.sender.turn_count == 1


def test_thread_when_a_caller_took_turns_then_the_20_ms_begin_again(parts: Parts) -> None:
    parts.park()

    def turn() -> None:
        parts.clock.advance(15)
        parts.set_outcome()

    parts.sender.on_turn = turn
    parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    parts.clock.advance(19)
    parts.looked_again()
    assert parts.sender.turn_count == 0
    parts.clock.advance(1)
    parts.finish()


@pytest.mark.parametrize("reason", ["work", "wakeup", "stop"])
def test_parked_thread_when_there_is_something_to_do_then_it_goes_on(parts: Parts, reason: str) -> None:
    parts.park()
    if reason == "work":
        parts.work.is_left = True
    elif reason == "wakeup":
        parts.turns.wakeup()
        assert parts.client.wakeup_count == 1
    else:
        parts.turns.stop()
    parts.finish()
    assert parts.sender.turn_count == 1


def test_caller_when_the_role_is_free_then_takes_turns_until_its_record_is_done(parts: Parts) -> None:
    parts.park()
    is_mine = []

    def turn() -> None:
        is_mine.append(parts.turns.is_mine)
        parts.clock.advance(3)
        if len(is_mine) == 3:
            parts.set_outcome()

    parts.sender.on_turn = turn
    assert parts.turns.on_wait(parts.outcome, None, is_hurried=True) is None
    assert parts.sender.caller_turns == [(0, NEVER_MS, 1), (3, NEVER_MS - 3, 1), (6, NEVER_MS - 6, 1)]
    assert is_mine == [True, True, True]
    assert not parts.turns.is_mine
    assert parts.sender.turn_count == 0
    assert parts.client.wakeup_count == 0


def test_caller_when_its_time_is_over_then_gives_the_role_back(parts: Parts) -> None:
    parts.park()
    parts.sender.on_turn = lambda: parts.clock.advance(400)
    assert parts.turns.on_wait(parts.outcome, 1.0, is_hurried=False) == 0.0
    assert parts.sender.caller_turns == [(0, 1000, 1), (400, 600, 1), (800, 200, 1)]


def test_caller_when_its_time_is_over_to_the_ms_then_takes_no_further_turn(parts: Parts) -> None:
    parts.park()
    parts.sender.on_turn = lambda: parts.clock.advance(500)
    assert parts.turns.on_wait(parts.outcome, 1.0, is_hurried=False) == 0.0
    assert len(parts.sender.caller_turns) == 2


def test_caller_when_its_record_is_done_in_time_then_is_told_what_is_left(parts: Parts) -> None:
    parts.park()

    def turn() -> None:
        parts.clock.advance(300)
        parts.set_outcome()

    parts.sender.on_turn = turn
    assert parts.turns.on_wait(parts.outcome, 2.0, is_hurried=False) == pytest.approx(1.7)


@pytest.mark.parametrize("reason", ["done", "others", "leader", "split", "closing", "forked"])
def test_caller_when_the_turn_is_not_for_it_then_takes_none(parts: Parts, reason: str) -> None:
    parts.park()
    if reason == "done":
        parts.set_outcome()
    elif reason == "others":
        parts.work.batch_count = 2
    elif reason == "leader":
        parts.sender.leader = None
    elif reason == "split":
        parts.sender.needs_its_thread = True
    elif reason == "closing":
        parts.turns.stop()
    else:
        parts.turns.mark_forked()
    parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    assert parts.sender.caller_turns == []


@pytest.mark.parametrize("reason", ["others", "leader", "split", "closing"])
def test_caller_when_the_turn_is_not_for_it_any_more_then_stops_after_the_one(parts: Parts, reason: str) -> None:
    parts.park()

    def turn() -> None:
        if reason == "others":
            parts.work.batch_count = 2
        elif reason == "leader":
            parts.sender.leader = None
        elif reason == "split":
            parts.sender.needs_its_thread = True
        else:
            parts.turns.stop()

    parts.sender.on_turn = turn
    parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    assert len(parts.sender.caller_turns) == 1


def test_caller_when_it_only_looks_then_takes_no_turn(parts: Parts) -> None:
    parts.park()
    assert parts.turns.on_wait(parts.outcome, 0, is_hurried=False) == 0
    assert parts.sender.caller_turns == []
    assert parts.client.wakeup_count == 0


def test_caller_when_another_has_the_role_then_it_waits_and_the_thread_is_told(parts: Parts) -> None:
    parts.park()
    seen: list[float | None] = []

    def turn() -> None:
        other = threading.Thread(target=lambda: seen.append(parts.turns.on_wait(ProduceRequestResult(TP), 5.0, False)))
        other.start()
        other.join(GIVE_UP_SECONDS)
        parts.set_outcome()

    parts.sender.on_turn = turn
    parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    assert seen == [5.0]
    assert len(parts.sender.caller_turns) == 1
    assert parts.client.wakeup_count == 1, "the one at work looks at its new batch"
    parts.finish()
    assert parts.sender.turn_count == 1, "what the other wants is not forgotten when the role is given back"


def test_is_mine_when_another_thread_asks_then_it_is_not(parts: Parts) -> None:
    parts.park()
    seen: list[bool] = []

    def turn() -> None:
        other = threading.Thread(target=lambda: seen.append(parts.turns.is_mine))
        other.start()
        other.join(GIVE_UP_SECONDS)
        parts.set_outcome()

    assert not parts.turns.is_mine
    parts.sender.on_turn = turn
    parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    assert seen == [False]


def test_thread_when_a_caller_works_for_long_then_it_keeps_aside(parts: Parts) -> None:
    parts.park()

    def turn() -> None:
        parts.clock.advance(10_000)
        deadline = time.monotonic() + GIVE_UP_SECONDS
        # With a caller at work the thread looks whether it left, and not for work.
        while parts.turns._seen_count != 1:
            assert time.monotonic() < deadline
        parts.set_outcome()

    parts.sender.on_turn = turn
    parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    assert len(parts.sender.caller_turns) == 1
    assert parts.sender.turn_count == 0


def test_caller_when_it_is_interrupted_then_the_thread_recovers_before_its_next_turn(parts: Parts) -> None:
    parts.park()

    def turn() -> None:
        parts.clock.advance(7)
        raise KeyboardInterrupt

    parts.sender.on_turn = turn
    with pytest.raises(KeyboardInterrupt):
        parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    parts.finish()
    assert parts.sender.recovered_times == [7]
    assert parts.sender.turn_count == 1
    assert not parts.turns.is_mine
    parts.turns.stop()
    parts.turns.wakeup()
    again = threading.Thread(target=parts.turns.take_one, name=SENDER)
    again.start()
    again.join(GIVE_UP_SECONDS)
    assert parts.sender.recovered_times == [7], "once"


def test_caller_when_it_left_without_giving_the_role_back_then_the_thread_takes_it(
        parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception from outside came while the role was given back: the producer stood still for ever."""
    parts.park()

    def interrupted(turns: SenderTurns, is_whole: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SenderTurns, "_hand_back", interrupted)
    parts.sender.on_turn = parts.set_outcome
    with pytest.raises(KeyboardInterrupt):
        parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    assert not parts.turns.is_mine, "it may flush and close"
    parts.finish()
    assert parts.sender.recovered_times == [0]
    assert parts.sender.turn_count == 1


@pytest.mark.parametrize("reason", ["work", "request", "interruption", "wakeup"])
def test_caller_when_it_leaves_work_behind_then_the_thread_hears_it_at_once(
        parts: Parts, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setattr("pyproducer.sender.turns._LOOK_SECONDS", 3600)  # it hears it, and does not just look again
    parts.park()

    def turn() -> None:
        if reason == "work":
            parts.work.is_left = True
        elif reason == "request":
            parts.client.has_in_flight_requests = lambda node_id=None: True  # type: ignore[method-assign]
        elif reason == "wakeup":
            parts.turns.wakeup()
        else:
            raise KeyboardInterrupt
        parts.set_outcome()

    parts.sender.on_turn = turn
    if reason == "interruption":
        with pytest.raises(KeyboardInterrupt):
            parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    else:
        parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    parts.finish()
    assert parts.sender.turn_count == 1


@pytest.mark.parametrize("reason", ["wakeup", "stop"])
def test_parked_thread_when_it_is_rung_then_it_hears_it_at_once(
        parts: Parts, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setattr("pyproducer.sender.turns._LOOK_SECONDS", 3600)
    parts.park()
    getattr(parts.turns, reason)()
    parts.finish()
    assert parts.sender.turn_count == 1


def test_caller_when_a_bug_shows_in_its_turn_then_it_goes_on_waiting(
        parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    parts.park()

    def turn() -> None:
        parts.clock.advance(100)
        raise RuntimeError("a bug")

    parts.sender.on_turn = turn
    assert parts.turns.on_wait(parts.outcome, 1.0, is_hurried=False) == pytest.approx(0.9)
    assert "Uncaught error in a turn of the sender" in caplog.text
    assert parts.sender.recovered_times == []


def test_caller_when_its_timeout_makes_no_sense_then_raises_without_a_turn(parts: Parts) -> None:
    parts.park()
    with pytest.raises(ValueError, match="NaN"):
        parts.turns.on_wait(parts.outcome, float("nan"), is_hurried=False)
    assert parts.sender.caller_turns == []
    assert not parts.turns.is_mine


def test_opened_batch_when_the_thread_stands_aside_then_its_caller_may_take_the_turn(parts: Parts) -> None:
    parts.turns.on_opened()
    assert parts.client.wakeup_count == 1, "the thread may sleep in the network"
    parts.park()
    parts.turns.on_opened()
    assert parts.client.wakeup_count == 1

    def turn() -> None:
        parts.turns.on_opened()
        parts.set_outcome()

    parts.sender.on_turn = turn
    parts.turns.on_wait(parts.outcome, None, is_hurried=False)
    assert parts.client.wakeup_count == 2, "the caller at work may sleep in the network"


@pytest.mark.parametrize("is_hurried", [True, False])
def test_waiter_when_the_thread_has_the_role_then_wakes_it_for_news_only(parts: Parts, is_hurried: bool) -> None:
    assert parts.turns.on_wait(parts.outcome, 3.0, is_hurried) == 3.0
    assert parts.client.wakeup_count == is_hurried
