"""A short wait is worth it or left out; time and socket are the test's."""

import socket

import pytest

from pyproducer.network import short_wait
from pyproducer.network.short_wait import ShortWait

LONGEST_US = 1_000  # of one wait
MOST_CREDIT_US = 20_000


class World:
    """A clock, and whether answers come within the wait."""

    def __init__(self) -> None:
        self.now_us = 10**12
        self.is_near = True
        self.wait_count = 0

    def becomes_readable(self, fd: int, longest_us: int) -> bool:
        self.wait_count += 1
        self.now_us += 200 if self.is_near else longest_us
        return self.is_near

    def monotonic_ns(self) -> int:
        return self.now_us * 1000


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(short_wait, "becomes_readable", world.becomes_readable)
    monkeypatch.setattr(short_wait, "_has_several_processors", lambda: True)
    monkeypatch.setattr(short_wait.time, "monotonic_ns", world.monotonic_ns)
    return world


def test_wait_when_answers_are_near_then_always_tried(world: World) -> None:
    with socket.socket() as sock:
        wait = ShortWait()
        assert all(wait.is_enough(sock, 5000) for _ in range(1000))
    assert world.wait_count == 1000


def test_wait_when_answers_are_far_then_it_takes_a_hundredth_of_the_time(world: World) -> None:
    world.is_near = False
    with socket.socket() as sock:
        wait = ShortWait()
        began_us = world.now_us
        for _ in range(4000):
            assert not wait.is_enough(sock, 5000)
            world.now_us += 5_000  # then it sleeps until the answer is there
        hundredth_us = (world.now_us - began_us) / 100
        assert hundredth_us * 0.9 <= world.wait_count * LONGEST_US <= MOST_CREDIT_US + hundredth_us


def test_wait_when_some_answers_come_in_time_then_those_that_do_not_take_a_tenth(world: World) -> None:
    with socket.socket() as sock:
        wait = ShortWait()
        began_us, in_vain_us = world.now_us, 0
        for index in range(4000):
            world.is_near = index % 4 == 0
            waits_before = world.wait_count
            if not wait.is_enough(sock, 5000):
                in_vain_us += LONGEST_US * (world.wait_count - waits_before)
                world.now_us += 5_000
        tenth_us = (world.now_us - began_us) / 10
        assert tenth_us * 0.9 <= in_vain_us <= MOST_CREDIT_US + tenth_us


def test_wait_when_far_answers_become_near_then_it_is_tried_again(world: World) -> None:
    world.is_near = False
    with socket.socket() as sock:
        wait = ShortWait()
        for _ in range(100):
            assert not wait.is_enough(sock, 5000)
            world.now_us += 2_000
        world.is_near = True
        world.now_us += 100_000  # a wait in vain of 1 ms, a hundredth of the time
        assert all(wait.is_enough(sock, 5000) for _ in range(100))


def test_wait_when_it_is_long_ago_then_credit_is_bounded(world: World) -> None:
    world.is_near = False
    with socket.socket() as sock:
        wait = ShortWait()
        for _ in range(100):
            wait.is_enough(sock, 5000)
        world.now_us += 10**12
        world.wait_count = 0
        for _ in range(1000):
            wait.is_enough(sock, 5000)
        assert world.wait_count <= MOST_CREDIT_US // LONGEST_US + 2


def test_wait_when_the_credit_was_not_needed_for_long_then_it_is_not_given_twice(world: World) -> None:
    with socket.socket() as sock:
        wait = ShortWait()
        for is_near in (False, True, False):
            world.is_near = is_near
            world.now_us += 10**12
            world.wait_count = 0
            for _ in range(100):
                wait.is_enough(sock, 5000)
            assert is_near or world.wait_count <= MOST_CREDIT_US // LONGEST_US + 2


def test_wait_when_there_is_one_processor_or_no_compiled_call_then_never(
        world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_wait, "_has_several_processors", lambda: False)
    with socket.socket() as sock:
        assert not ShortWait().is_enough(sock, 5000)
        monkeypatch.setattr(short_wait, "_has_several_processors", lambda: True)
        monkeypatch.setattr(short_wait, "becomes_readable", None)
        assert not ShortWait().is_enough(sock, 5000)
    assert world.wait_count == 0


def test_wait_when_the_time_left_is_shorter_then_it_ends_with_that(world: World) -> None:
    world.is_near = False
    with socket.socket() as sock:
        began_us = world.now_us
        assert not ShortWait().is_enough(sock, 0)
        assert world.now_us == began_us
