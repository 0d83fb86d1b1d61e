"""A part of buffer.memory: charged with the whole in one step, counted anew when that was interrupted."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from pyproducer.accumulator.buffer_pool import BufferPool, PartPool
from pyproducer.common.errors import IllegalStateError
from tests.support.clock import ManualClock


class Holder:
    def __init__(self, reserved_bytes: int) -> None:
        self.reserved_bytes = reserved_bytes


class Pools:
    def __init__(self, total: int = 1000, part: int = 250) -> None:
        clock = ManualClock()
        self.inside: deque[Holder] = deque()
        self.inside_too: deque[Holder] = deque()
        self.outside: list[Holder] = []
        self.whole = BufferPool(total, clock, count_held=lambda: sum(
            holder.reserved_bytes for holder in (*self.inside, *self.inside_too, *self.outside)))
        self.part = PartPool(self.whole, part, clock, count_held=lambda: sum(
            holder.reserved_bytes for holder in (*self.inside, *self.inside_too)))

    def charge(self, size_bytes: int) -> Holder | None:
        holder = Holder(size_bytes)
        return holder if self.part.charge(holder, self.inside) else None

    @property
    def available(self) -> tuple[int, int]:
        return self.part.available_bytes, self.whole.available_bytes


def test_charge_when_the_part_has_room_then_both_are_charged_and_given_back() -> None:
    pools = Pools()
    holder = pools.charge(100)
    assert holder is not None
    assert (pools.available, list(pools.inside)) == ((150, 900), [holder])
    pools.part.release(holder, pools.inside)
    assert (pools.available, list(pools.inside), holder.reserved_bytes) == ((250, 1000), [], 0)


def test_charge_when_the_part_is_used_up_then_nothing_is_charged_and_the_whole_serves_others() -> None:
    pools = Pools()
    pools.charge(200)
    assert pools.charge(51) is None
    assert not pools.part.has_room(51, None)
    assert pools.available == (50, 800)
    assert pools.whole.charge(Holder(800), pools.outside)


def test_charge_when_the_whole_is_used_up_then_nothing_is_charged_and_the_part_says_that_it_has_room() -> None:
    pools = Pools()
    assert pools.whole.charge(Holder(950), pools.outside)
    assert pools.charge(51) is None
    assert pools.part.has_room(51, None)
    assert pools.available == (250, 50)
    assert not pools.inside


def test_charge_when_a_holder_is_larger_than_the_part_then_it_is_let_in_alone() -> None:
    pools = Pools()
    small = pools.charge(10)
    assert pools.charge(400) is None
    pools.part.release(small, pools.inside)
    assert pools.charge(400) is not None
    assert pools.charge(1) is None
    assert pools.whole.available_bytes == 600


def test_hand_over_when_some_leave_the_part_then_the_whole_holds_the_same() -> None:
    pools = Pools()
    givers = [giver for giver in (pools.charge(100), pools.charge(50)) if giver is not None]
    batch = Holder(150)
    pools.part.hand_over(givers, batch, pools.outside)
    assert (pools.available, pools.outside) == ((250, 850), [batch])
    assert [giver.reserved_bytes for giver in givers] == [0, 0]
    pools.whole.take_out(pools.inside[0], pools.inside)
    assert pools.available == (250, 850)
    pools.whole.release(batch, pools.outside)
    assert pools.available == (250, 1000)


@pytest.mark.parametrize(("step", "available"), [
    (lambda pools: pools.part.release(pools.inside[0], pools.inside), (200, 950)),
    (lambda pools: pools.charge(10), (90, 840)),
    (lambda pools: pools.part.hand_over([pools.inside[0]], Holder(100), pools.outside), (200, 850)),
    (lambda pools: pools.part.forget([pools.inside[0]]), (200, 950)),
    (lambda pools: pools.part.move(pools.inside[0], pools.inside, pools.inside_too), (100, 850))],
    ids=["release", "charge", "hand over", "forget", "move"])
def test_step_when_a_caller_was_interrupted_while_he_was_charged_then_his_holder_is_counted_in_both(
        step: Callable[[Pools], object], available: tuple[int, int]) -> None:
    """As in the whole; see test_buffer_pool.py."""
    pools = Pools()
    pools.charge(100)

    class Interrupted(deque[Holder]):
        def append(self, holder: Holder, /) -> None:
            pools.inside.append(holder)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pools.part.charge(Holder(50), Interrupted())
    step(pools)
    assert pools.available == available


def test_callers_when_they_wait_for_the_part_then_the_first_comes_first_and_the_whole_has_no_line() -> None:
    pools = Pools()
    holder = pools.charge(250)
    first, second = pools.part.enter(100, 1000), pools.part.enter(100, 1000)
    assert (pools.part.queued_count, pools.whole.queued_count) == (2, 0)
    pools.part.release(holder, pools.inside)
    assert not pools.part.charge(Holder(100), pools.inside, second)
    assert pools.part.charge(Holder(100), pools.inside, first)
    first.leave()
    assert pools.part.charge(Holder(100), pools.inside, second)
    second.leave()
    assert pools.available == (50, 800)


def test_charge_when_closed_then_the_lifes_refusal() -> None:
    pools = Pools()
    pools.whole.close()
    pools.part.close()
    with pytest.raises(IllegalStateError):
        pools.charge(1)
    assert pools.available == (250, 1000)


class Torn(deque[Any]):
    """A list in which an append or a removal is interrupted, before or after it was done."""

    def __init__(self, is_after: bool) -> None:
        super().__init__()
        self.is_after = is_after
        self.is_armed = False

    def _do(self, change: Any, holder: Any) -> None:
        if self.is_armed and not self.is_after:
            raise KeyboardInterrupt
        change(holder)
        if self.is_armed:
            raise KeyboardInterrupt

    def append(self, holder: Any) -> None:
        self._do(super().append, holder)

    def remove(self, holder: Any) -> None:
        self._do(super().remove, holder)


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("step", ["charge", "release", "hand_over"])
def test_step_when_interrupted_then_both_count_what_the_lists_hold(step: str, *, is_after: bool) -> None:
    pools = Pools()
    pools.inside = torn = Torn(is_after)
    outside = Torn(is_after)
    pools.outside = outside  # type: ignore[assignment]  # it is walked like a list
    holder = Holder(100)
    pools.part.charge(holder, torn)
    torn.is_armed = outside.is_armed = True
    steps = {"charge": lambda: pools.charge(60), "release": lambda: pools.part.release(holder, torn),
             "hand_over": lambda: pools.part.hand_over([holder], Holder(100), outside)}
    with pytest.raises(KeyboardInterrupt):
        steps[step]()
    inside = sum(one.reserved_bytes for one in torn)
    assert pools.available == (250 - inside, 1000 - inside - sum(one.reserved_bytes for one in outside))


class Handler:
    """Comes before one of the pools' lines, counted as they run, as a signal's handler or a finalizer does."""

    def __init__(self, act: Callable[[], object], at: int) -> None:
        self.left = at
        self._act = act

    def __enter__(self) -> Handler:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self._act()
        return self._trace


def make_dirty(pools: Pools) -> None:
    """As a caller does who was interrupted in the middle of a charge."""
    pools.whole._is_dirty = True


STEPS: dict[str, Callable[[Pools, list[Holder]], object]] = {
    "charge": lambda pools, _: pools.charge(60),
    "charge of the whole": lambda pools, _: pools.whole.charge(Holder(60), pools.outside),
    "release": lambda pools, holders: pools.part.release(holders[0], pools.inside),
    "release of the whole": lambda pools, _: pools.whole.release(pools.outside[0], pools.outside),
    "hand_over": lambda pools, holders: pools.part.hand_over(holders, Holder(50), pools.outside),
    "hand_down": lambda pools, _: pools.whole.hand_down(pools.outside[0], [Holder(30), Holder(10)], pools.outside),
    "forget": lambda pools, holders: pools.part.forget(holders),
    "take_out": lambda pools, holders: pools.whole.take_out(holders[0], pools.inside),
    "move": lambda pools, holders: pools.part.move(holders[0], pools.inside, pools.inside_too),
    "look": lambda pools, _: pools.available,
}


@pytest.mark.parametrize("is_dirty", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_memory_when_a_handler_looks_before_any_line_of_a_step_then_it_is_right_to_the_byte(
        step: str, *, is_dirty: bool) -> None:
    """Whoever asks in the middle of a step must not count for it: more he cannot do there, see Life.run."""
    at = 0
    while True:
        at += 1
        assert at < 1000
        pools = Pools()
        holders = [holder for holder in (pools.charge(20), pools.charge(30)) if holder is not None]
        assert pools.whole.charge(Holder(40), pools.outside)
        if step == "take_out":  # of one that has nothing any more
            pools.part.forget(holders[:1])
        if is_dirty:
            make_dirty(pools)

        def handle(pools: Pools = pools) -> None:
            pools.part.available_bytes  # noqa: B018 - it must not write
            pools.whole.available_bytes  # noqa: B018

        with Handler(handle, at) as handler:
            STEPS[step](pools, holders)
        inside = sum(holder.reserved_bytes for holder in (*pools.inside, *pools.inside_too))
        outside = sum(holder.reserved_bytes for holder in pools.outside)
        assert pools.available == (250 - inside, 1000 - inside - outside), at
        if handler.left > 0:
            break
    assert at > 3
