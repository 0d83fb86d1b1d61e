"""Steps of buffer.memory that move what holders have: right to the byte, counted anew when that was interrupted."""


from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from pyproducer.accumulator.buffer_pool import BufferPool
from tests.support.clock import ManualClock


class Holder:
    def __init__(self, reserved_bytes: int) -> None:
        self.reserved_bytes = reserved_bytes


class Lists:
    def __init__(self) -> None:
        self.inside: deque[Holder] = deque()
        self.outside: list[Holder] = []
        self.pool = BufferPool(1000, ManualClock(), count_held=self.held)

    def held(self) -> int:
        return sum(holder.reserved_bytes for holder in (*self.inside, *self.outside))

    def charge(self, size_bytes: int) -> Holder:
        holder = Holder(size_bytes)
        assert self.pool.charge(holder, self.inside)
        return holder


def test_move_reservations_when_a_holder_takes_what_others_have_then_as_much_is_held() -> None:
    lists = Lists()
    givers = [lists.charge(100), lists.charge(50)]
    batch = Holder(150)
    lists.pool.move_reservations(givers, batch, lists.outside)
    assert (lists.pool.available_bytes, lists.outside) == (850, [batch])
    assert [giver.reserved_bytes for giver in givers] == [0, 0]
    lists.pool.take_out(lists.inside[0], lists.inside)
    assert lists.pool.available_bytes == 850
    lists.pool.release(batch, lists.outside)
    assert lists.pool.available_bytes == 1000


@pytest.mark.parametrize(("step", "available"), [
    (lambda lists: lists.pool.release(lists.inside[0], lists.inside), 950),
    (lambda lists: lists.charge(10), 840),
    (lambda lists: lists.pool.move_reservations([lists.inside[0]], Holder(100), lists.outside), 850),
    (lambda lists: lists.pool.rearrange(lists.inside.popleft), 950)],
    ids=["release", "charge", "hand over", "rearrange"])
def test_step_when_a_caller_was_interrupted_while_he_was_charged_then_his_holder_is_counted(
        step: Callable[[Lists], object], available: int) -> None:
    """As in test_buffer_pool.py."""
    lists = Lists()
    lists.charge(100)

    class Interrupted(deque[Holder]):
        def append(self, holder: Holder, /) -> None:
            lists.inside.append(holder)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lists.pool.charge(Holder(50), Interrupted())
    step(lists)
    assert lists.pool.available_bytes == available


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
@pytest.mark.parametrize("step", ["charge", "release", "move_reservations", "rearrange"])
def test_step_when_interrupted_then_it_counts_what_the_lists_hold(step: str, *, is_after: bool) -> None:
    lists = Lists()
    lists.inside = torn = Torn(is_after)
    outside = Torn(is_after)
    lists.outside = outside  # type: ignore[assignment]  # it is walked like a list
    holder = lists.charge(100)
    torn.is_armed = outside.is_armed = True
    pool = lists.pool
    steps = {"charge": lambda: lists.charge(60), "release": lambda: pool.release(holder, torn),
             "move_reservations": lambda: pool.move_reservations([holder], Holder(100), outside),
             "rearrange": lambda: pool.rearrange(lambda: (outside.append(holder), torn.remove(holder)))}
    with pytest.raises(KeyboardInterrupt):
        steps[step]()
    assert pool.available_bytes == 1000 - lists.held()


class Handler:
    """Comes before one of the pool's lines, counted as they run, as a signal's handler or a finalizer does."""

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


STEPS: dict[str, Callable[[Lists, list[Holder]], object]] = {
    "charge": lambda lists, _: lists.charge(60),
    "release": lambda lists, holders: lists.pool.release(holders[0], lists.inside),
    "move_reservations": lambda lists, holders: lists.pool.move_reservations(holders, Holder(50), lists.outside),
    "split_reservation": lambda lists, _: lists.pool.split_reservation(
        lists.outside[0], [Holder(30), Holder(10)], lists.outside),
    "take_out": lambda lists, holders: lists.pool.take_out(holders[0], lists.inside),
    "rearrange": lambda lists, _: lists.pool.rearrange(lists.inside.popleft),
    "look": lambda lists, _: lists.pool.available_bytes,
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
        lists = Lists()
        holders = [lists.charge(20), lists.charge(30)]
        assert lists.pool.charge(Holder(40), lists.outside)
        if step == "take_out":  # of one that has nothing any more
            lists.pool.move_reservations(holders[:1], Holder(20), lists.outside)
        lists.pool._is_dirty = is_dirty  # as where a caller was interrupted in the middle of a charge

        def handle(pool: BufferPool = lists.pool) -> None:
            pool.available_bytes  # noqa: B018 - it must not write

        with Handler(handle, at) as handler:
            STEPS[step](lists, holders)
        assert lists.pool.available_bytes == 1000 - lists.held(), at
        if handler.left > 0:
            break
    assert at > 3
