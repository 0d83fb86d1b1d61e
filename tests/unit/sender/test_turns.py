"""Who takes the sender's turns: what threads do at once is played step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from pyproducer.sender.turns import SenderTurns


class Parts:
    """Stands for the sender, the client, the accumulator and the clock, whose time stands still."""

    def __init__(self) -> None:
        self.turn_count = 0
        self.on_last_look: Callable[[], None] = lambda: None

    def run_once(self, now_ms: int) -> None:
        self.turn_count += 1

    def wakeup(self) -> None:
        """Nobody sleeps in the network here."""

    def has_in_flight_requests(self) -> bool:
        return False

    def has_incomplete(self) -> bool:
        on_last_look, self.on_last_look = self.on_last_look, lambda: None
        on_last_look()
        return False

    def now_ms(self) -> int:
        return 0


def test_wakeup_when_the_thread_is_about_to_stand_aside_then_it_looks_without_waiting() -> None:
    parts: Any = Parts()
    turns = SenderTurns(parts, parts, parts, parts)
    turns.on_wait(cast(Any, object()), None, is_hurried=False)
    parts.on_last_look = turns.wakeup
    thread = threading.Thread(target=turns.take_one, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert parts.turn_count == 1


def test_the_thread_when_a_wakeup_was_heard_by_a_turn_then_it_stands_aside_until_the_next() -> None:
    parts: Any = Parts()
    turns = SenderTurns(parts, parts, parts, parts)
    turns.wakeup()
    turns.on_wait(cast(Any, object()), None, is_hurried=False)
    turns.take_one()
    thread = threading.Thread(target=turns.take_one, daemon=True)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    turns.wakeup()
    thread.join(5)
    assert not thread.is_alive()
    assert parts.turn_count == 2
