"""The line of callers who wait for buffer.memory."""

from __future__ import annotations

import pytest

from pyproducer.accumulator.buffer_pool import BufferPool, Place
from pyproducer.common.errors import BufferExhaustedError
from tests.support.clock import ManualClock


class Held:
    """What holds memory."""

    def __init__(self, reserved_bytes: int) -> None:
        self.reserved_bytes = reserved_bytes


class World:
    """A pool of 100 bytes that one batch has taken, and a clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.batches: list[Held] = []
        self.pool = BufferPool(100, self.clock, count_held=lambda: sum(held.reserved_bytes for held in self.batches))
        self.first = Held(100)
        assert self.pool.charge(self.first, self.batches)

    def charge(self, place: Place | None = None) -> bool:
        return self.pool.charge(Held(10), self.batches, place)


def test_pool_when_a_caller_is_gone_but_his_place_is_kept_then_the_next_is_served_after_his_time() -> None:
    """Ctrl-C came while he left, and sys.last_traceback keeps his frames: nobody would ever be served again."""
    world = World()
    kept = world.pool.enter(50, 5000)  # and never left
    world.pool.release(world.first, world.batches)
    world.clock.advance(4000)
    assert not world.charge()  # he may still come
    mine = world.pool.enter(10, 5000)
    world.clock.advance(2001)
    assert world.charge(mine)
    mine.leave()
    assert world.charge()
    assert world.pool.queued_count == 0
    kept.leave()
    assert world.charge()


def test_pool_when_a_caller_is_a_little_late_then_the_turn_is_still_his() -> None:
    world = World()
    late = world.pool.enter(50, 5000)
    next_one = world.pool.enter(10, 60_000)
    world.pool.release(world.first, world.batches)
    world.clock.advance(5500)
    assert not world.charge(next_one)
    assert world.charge(late)
    late.leave()
    assert world.charge(next_one)
    next_one.leave()


def test_pool_when_the_time_is_over_then_the_error_says_what_is_held() -> None:
    world = World()
    place = world.pool.enter(50, 5000)
    world.clock.advance(5000)
    with pytest.raises(BufferExhaustedError, match="100 of 100 bytes hold records"):
        place.wait()
    place.leave()
    assert world.pool.queued_count == 0
