"""Random lives: sends, callbacks that call back, flushes, closers, a death, a fork, against the table of a life.

The producer is whole, over a scripted broker (tests/unit/producer/facade.py). Whatever the order: what the table allows
works, what it refuses raises its error, and in the end every record is decided and told once, and memory is back.
"""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyproducer import (
    ForkedProducerError,
    IllegalStateError,
    KafkaError,
    ProducerClosedError,
    ProducerDeadError,
)
from pyproducer.accumulator.life import LifeState
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import Facade, Facades

REFUSALS: dict[LifeState, type[IllegalStateError]] = {
    LifeState.CLOSING: ProducerClosedError, LifeState.CLOSED: ProducerClosedError, LifeState.DEAD: ProducerDeadError,
    LifeState.FORKED: ForkedProducerError}
ACTIONS = ("send", "send", "send and call back", "send and close in the callback", "send rows", "flush", "close",
           "close elsewhere", "close now", "hold", "release", "die", "ask")


class Lived:
    """One producer's life as a test leads it."""

    def __init__(self, facade: Facade) -> None:
        self.facade = facade
        self.producer = facade.producer
        self.life = facade.life
        self.told: list[int] = []
        self.accepted: dict[int, Any] = {}
        self.in_callbacks: list[str] = []
        self.closers: list[threading.Thread] = []
        self.number = 0

    def act(self, action: str) -> None:
        if action == "hold":
            self.facade.broker.holds = True
        elif action == "release":
            self.facade.broker.holds = False
            self.facade.broker.wakeup()
        elif action == "die":
            self.die()
        elif action == "ask":
            assert self.producer.metrics()["buffer-total-bytes"] > 0
            assert self.life.state.value in repr(self.producer) or not self.life.is_open
        elif action == "close elsewhere":
            self.closers.append(threading.Thread(target=self.producer.close))
            self.closers[-1].start()
        elif action == "close now":
            self.producer.close(0)
            assert self.life.is_over
        elif action == "close":
            self.act("release")
            self.producer.close(GIVE_UP_S)
            assert self.life.is_over
        elif action == "flush":
            self.flush()
        else:
            self.send(action)

    def send(self, action: str) -> None:
        self.number += 1
        number = self.number

        def on_completion(*_: object) -> None:
            self.told.append(number)
            if action == "send and call back":
                self.call_back()
            elif action == "send and close in the callback":
                self.producer.close()

        before = self.life.state
        refusal: type[IllegalStateError] | None = None
        try:
            if action == "send rows":
                future: Any = self.producer.send_batch("t", [b"v"] * 3, partitions=[0, 1, 0])
                future.add_done_callback(on_completion)
            else:
                future = self.producer.send("t", b"v", partition=number % 2, on_completion=on_completion)
        except IllegalStateError as error:
            refusal = type(error)
        states = {before, self.life.state}  # a callback may have closed meanwhile
        if refusal is None:
            assert before is LifeState.OPEN, f"a {before.value} producer took a record"
            self.accepted[number] = future
        else:
            assert refusal in {REFUSALS[state] for state in states - {LifeState.OPEN}}

    def call_back(self) -> None:
        """What may be done on the sender thread, and what is refused there."""
        for name, call in (("flush", self.producer.flush),
                           ("partitions_for", lambda: self.producer.partitions_for("t")),
                           ("result", lambda: self.producer.send("t", b"nested", partition=0).result())):
            try:
                call()
            except KafkaError as error:
                self.in_callbacks.append(f"{name}: {type(error).__name__}")
            else:
                self.in_callbacks.append(f"{name} waited for itself")

    def flush(self) -> None:
        self.act("release")
        before = self.life.state
        try:
            self.producer.flush(GIVE_UP_S)
        except ProducerDeadError:
            assert LifeState.DEAD in (before, self.life.state)
        else:
            assert before is not LifeState.DEAD

    def die(self) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("a bug")

        was_over = self.life.is_over
        self.facade.broker.on_renewal = fail
        self.facade.broker.poll = fail  # type: ignore[assignment,method-assign]
        self.facade.broker.wakeup()
        assert self.life.await_end(GIVE_UP_S)
        assert was_over or self.life.state in (LifeState.DEAD, LifeState.CLOSED)

    def fork(self) -> None:
        """See the producer in a child process: it refuses everything and waits for nothing."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 and newer: threads run
            child = os.fork()
        if child == 0:
            try:
                self.facade.broker.on_forked()
                self.see_in_child()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def see_in_child(self) -> None:
        expected: tuple[type[KafkaError], ...] = (
            (ForkedProducerError,) if self.life.is_forked else (ProducerClosedError, ProducerDeadError))
        for call in (lambda: self.producer.send("t", b"v"), lambda: self.producer.send("t", b"v", headers=[("h", b"")]),
                     lambda: self.producer.send_batch("t", [b"v"]), lambda: self.producer.partitions_for("t")):
            try:
                call()
            except expected:
                continue
            raise AssertionError("a child's producer took a call")
        for future in self.accepted.values():
            if not future.done():
                try:
                    future.result()
                except ForkedProducerError:
                    continue
                raise AssertionError("a future of the parent was done in the child")
        self.producer.close()

    def end(self) -> None:
        self.act("release")
        self.producer.close(GIVE_UP_S)
        for closer in self.closers:
            closer.join(GIVE_UP_S)
            assert not closer.is_alive(), "a closer that nobody woke"
        assert self.life.is_over
        assert self.life.state in (LifeState.CLOSED, LifeState.DEAD)
        assert all(future.done() for future in self.accepted.values())
        assert sorted(self.told) == sorted(self.accepted), "each callback once, and only of what was accepted"
        self.facade.await_whole_memory()
        assert not [line for line in self.in_callbacks if "waited" in line]


@given(st.lists(st.sampled_from(ACTIONS), max_size=14), st.booleans())
def test_life_when_anything_happens_in_any_order_then_the_table_holds(actions: list[str], forks: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        facades = Facades(patch)
        facade = facades(**{"linger.ms": 0, "max.block.ms": 60_000})
        facade.know()
        lived = Lived(facade)
        try:
            for action in actions:
                lived.act(action)
            if forks:
                lived.fork()
            lived.end()
        finally:
            facade.broker.holds = False
            facade.producer.close(0)
