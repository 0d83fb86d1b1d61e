"""LoopWatch with a loop of its own and a poller whose one socket the test writes to."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer.common.loop_inbox import LoopInbox
from pyproducer.sender.loop_watch import LoopWatch

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the poller of this test is epoll")


class Poller:
    """A client: a poller that watches one end of a pair of sockets, and the other end."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.epoll = select.epoll()
        self.epoll.register(self.near, select.EPOLLIN)

    def fileno(self) -> int:
        return self.epoll.fileno()

    def close(self) -> None:
        self.epoll.close()
        self.near.close()
        self.far.close()


class Stage:
    def __init__(self) -> None:
        self.client: Any = Poller()
        self.loop = asyncio.new_event_loop()
        self.inbox = LoopInbox(self.loop)
        self.watch = LoopWatch(self)
        self.heard: list[LoopInbox] = []

    def on_readable(self, inbox: LoopInbox) -> None:
        self.heard.append(inbox)
        self.client.near.recv(100)

    def begin(self) -> bool:
        return self.watch.begin(self.inbox, self.on_readable)

    def turn(self) -> int:
        """Let the loop look once; return how often it was told in all."""
        for _ in range(3):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
        return len(self.heard)


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.loop.close()
    made.client.close()


def test_watch_when_a_socket_has_something_then_the_loop_is_told(stage: Stage) -> None:
    assert stage.begin()
    assert stage.turn() == 0
    stage.client.far.send(b"1")
    assert stage.turn() == 1
    assert stage.heard == [stage.inbox]
    assert stage.begin(), "it goes on"
    stage.client.far.send(b"2")
    assert stage.turn() == 2


def test_watch_when_it_rests_then_the_loop_is_told_after_the_next_begin(stage: Stage) -> None:
    stage.begin()
    stage.watch.rest()
    stage.watch.rest()
    stage.client.far.send(b"1")
    assert stage.turn() == 0
    assert stage.begin()
    assert stage.turn() == 1


def test_watch_when_the_client_is_another_then_that_one_is_watched(stage: Stage) -> None:
    stage.begin()
    before = stage.client
    stage.client = Poller()
    before.close()
    assert stage.begin()
    stage.client.far.send(b"1")
    assert stage.turn() == 1


def test_watch_when_it_ends_then_the_loop_forgets_it_and_its_copy_is_closed(stage: Stage) -> None:
    watched: Any = stage.loop
    before = len(watched._selector.get_map())
    stage.begin()
    copy = stage.watch._copy
    stage.watch.end()
    stage.turn()
    assert len(watched._selector.get_map()) == before
    del copy
    assert stage.watch._copy is None
    assert not stage.begin(), "it is over"


@pytest.mark.parametrize("why", ["no descriptor", "no readers", "none left"])
def test_watch_when_it_is_not_possible_then_it_says_so_and_tries_no_more(
        stage: Stage, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    tried = []

    def refuse(*_: object) -> int:
        tried.append(why)
        if why == "no descriptor":
            return -1
        raise NotImplementedError if why == "no readers" else OSError(24, "Too many open files")

    if why == "no readers":
        monkeypatch.setattr(stage.loop, "add_reader", refuse)
    else:
        monkeypatch.setattr(Poller if why == "no descriptor" else "os.dup", *(
            ("fileno", refuse) if why == "no descriptor" else (refuse,)))
    assert not stage.begin()
    assert not stage.begin()
    assert tried == [why]


def test_watch_when_ctrl_c_comes_before_the_loop_watches_then_it_does_after_the_next_begin(
        stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took itself for watching, and the loop was never told again."""
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stage.loop, "add_reader", interrupt)
        with pytest.raises(KeyboardInterrupt):
            stage.begin()
    assert stage.begin()
    stage.client.far.send(b"1")
    assert stage.turn() == 1


def test_watch_when_its_loop_is_closed_before_the_end_then_the_copy_is_closed_at_once(stage: Stage) -> None:
    """It stayed open for as long as the application kept the closed producer."""
    stage.begin()
    stage.loop.close()
    stage.watch.end()
    assert stage.watch._copy is None
    stage.watch.rest()
