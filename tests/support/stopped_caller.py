"""A caller that is stopped between his look at the clock and what he does by it, while the sender moves deadlines.

Thread:  one test thread; the deadlines are moved on a thread of its own, as the sender does.
Source:  ours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from pyproducer.accumulator.record_accumulator import RecordAccumulator
from tests.support.clock import ManualClock


def stop_at_a_look(monkeypatch: pytest.MonkeyPatch, clock: ManualClock, accumulator: RecordAccumulator, gap_ms: int,
                   is_it: Callable[[], bool] = lambda: True) -> list[threading.Thread]:
    """Have deadlines moved behind the next look at the clock, for which the mover has to wait.

    Args:
        monkeypatch: Takes the clock back.
        clock: The caller's.
        accumulator: Whose deadlines are moved.
        gap_ms: By how much.
        is_it: Whether it is this look.

    Returns:
        Holds the thread that moves them, once it began.
    """
    movers: list[threading.Thread] = []
    before_ms, now_ms = clock.now_ms(), clock.now_ms

    def look() -> int:
        if movers or not is_it():
            return now_ms()
        mover = threading.Thread(target=accumulator.move_deadlines, args=(gap_ms, before_ms + gap_ms))
        movers.append(mover)
        mover.start()
        mover.join(0.1)
        assert mover.is_alive(), "it waits for what the caller has in hand"
        return before_ms

    monkeypatch.setattr(clock, "now_ms", look)
    return movers
