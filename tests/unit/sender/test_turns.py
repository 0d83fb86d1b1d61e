"""Who takes the sender's turns: what threads do at once is played step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyproducer.accumulator.produce_result import ProduceRequestResult
from pyproducer.common.cluster import Node, TopicPartition
from pyproducer.sender.turns import SenderTurns
from tests.support.clock import ManualClock
from tests.support.mock_client import MockClient

TP = TopicPartition("t", 0)
GIVE_UP_SECONDS = 60


class MockSender:
    """SteppedSender that counts its turns."""

    def __init__(self) -> None:
        self.turn_count = 0
        self.recovered_times: list[int] = []
        self.needs_its_thread = False

    def connected_leader(self, topic_partition: TopicPartition, now_ms: int) -> int | None:
        return 1

    def run_once(self, now_ms: int, longest_wait_ms: int | None = None, awaited_node_id: int | None = None) -> None:
        self.turn_count += 1

    def recover(self, now_ms: int) -> None:
        self.recovered_times.append(now_ms)


class MockWork:
    """IncompleteWork that is never there; `on_last_look` runs when somebody looks for it next."""

    def __init__(self) -> None:
        self.on_last_look: Callable[[], None] = lambda: None

    def has_incomplete(self) -> bool:
        on_last_look, self.on_last_look = self.on_last_look, lambda: None
        on_last_look()
        return False

    def incomplete_batch_count(self) -> int:
        return 0


class Parts:
    """The turns over doubles, with a clock that stands still."""

    def __init__(self) -> None:
        self.sender = MockSender()
        self.work = MockWork()
        self.client = MockClient(Node(1, "127.0.0.1", 9092))
        self.turns = SenderTurns(self.sender, self.client, self.work, ManualClock())


def test_wakeup_when_the_thread_is_about_to_stand_aside_then_it_looks_without_waiting() -> None:
    parts = Parts()
    turns = parts.turns
    turns.on_wait(ProduceRequestResult(TP), None, is_hurried=False)
    parts.work.on_last_look = turns.wakeup
    thread = threading.Thread(target=turns.take_one, daemon=True)
    thread.start()
    thread.join(GIVE_UP_SECONDS)
    assert not thread.is_alive()
    assert parts.sender.turn_count == 1


def test_the_thread_when_a_wakeup_was_heard_by_a_turn_then_it_stands_aside_until_the_next() -> None:
    parts = Parts()
    turns = parts.turns
    turns.wakeup()
    turns.on_wait(ProduceRequestResult(TP), None, is_hurried=False)
    turns.take_one()
    thread = threading.Thread(target=turns.take_one, daemon=True)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    turns.wakeup()
    thread.join(GIVE_UP_SECONDS)
    assert not thread.is_alive()
    assert parts.sender.turn_count == 2
