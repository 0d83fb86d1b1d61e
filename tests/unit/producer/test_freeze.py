"""A producer that could not run for a while: its process was stopped, its machine slept; and one in a long callback.

A whole producer of Surroundings, stepped in one thread; so a freeze is time that passes where the test says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.sender.freeze import Freeze
from tests.unit.client.mock_selector import Request
from tests.unit.producer.test_surroundings import World

REQUEST_TIMEOUT_MS = 30_000
DELIVERY_TIMEOUT_MS = 120_000
FREEZE_MS = 300_000


class FreezingWorld(World):
    """One that may be silent, and whose process may be stopped while it sleeps in a poll."""

    def __init__(self, **props: object) -> None:
        self.is_silent = False
        self.produced: list[Request] = []
        super().__init__(**{"linger.ms": 0, **props})

    def answer(self, request: Request) -> Mapping[str, Any] | bytes | Exception | None:
        if request.api_key is ApiKeys.PRODUCE:
            self.produced.append(request)
            if self.is_silent:
                return None
        return super().answer(request)

    def turn(self) -> None:
        assert self.clock.take_turn()

    def freeze_in_next_poll(self, ms: int, just_before: Callable[[], object] = lambda: None, *,
                            is_rung: bool = False) -> None:
        """Let time pass beyond what the next poll was to sleep; not at all where it is rung just before."""
        selector = self.selectors[-1]
        poll = selector.poll

        def frozen(timeout_ms: int, now_ms: int, **how: bool) -> int:
            selector.poll = poll  # type: ignore[method-assign]
            just_before()
            longest_ms = poll(0 if is_rung else timeout_ms, now_ms, **how)
            self.clock.advance(ms)
            return longest_ms

        selector.poll = frozen  # type: ignore[method-assign]

    def begin(self) -> None:
        """Have a connection, a producer id and a record in the log."""
        assert self.send(b"first", 0).result(30).offset == 0

    def send_into_silence(self) -> Any:
        """Have a second record on its way, to a broker that does not answer."""
        self.is_silent = True
        future = self.send(b"second", 0)
        self.turn()
        return future


def test_freeze_when_a_request_is_on_its_way_then_it_is_sent_again_at_once_and_does_not_expire() -> None:
    """The record expired at the thaw, though nobody had time to try it, and its outcome was unknown."""
    world = FreezingWorld(**{"delivery.timeout.ms": DELIVERY_TIMEOUT_MS})
    world.begin()
    future = world.send_into_silence()
    (connected,) = world.selectors
    world.freeze_in_next_poll(FREEZE_MS)
    world.turn()
    thawed_ms = world.clock.now_ms()
    assert not future.done()
    world.is_silent = False
    assert future.result(30).offset == 1
    assert connected.is_closed
    assert world.stored[0] == [b"first", b"second"]
    assert next(connect.now_ms for connect in world.selectors[-1].connects) == thawed_ms, "no backoff before it"
    world.close()


def test_freeze_when_the_answer_came_meanwhile_then_it_is_believed_and_nothing_is_sent_twice() -> None:
    world = FreezingWorld(**{"enable.idempotence": False, "acks": "1"})
    world.begin()
    future = world.send_into_silence()
    (connected,) = world.selectors
    world.freeze_in_next_poll(FREEZE_MS)
    world.turn()
    # select() found nothing within its time: the answer is in the socket, and is read by the next look alone.
    connected.respond(connected.asked(ApiKeys.PRODUCE)[-1], World.answer(world, world.produced[-1]))  # type: ignore[arg-type]
    world.is_silent = False
    assert future.result(30).offset == 1
    assert world.stored[0] == [b"first", b"second"]
    assert len(world.produced) == 2
    assert connected.is_closed
    world.close()


def test_freeze_when_an_answer_asks_for_a_retry_then_the_record_has_the_time_that_nobody_had() -> None:
    world = FreezingWorld(**{"delivery.timeout.ms": DELIVERY_TIMEOUT_MS})
    world.begin()
    future = world.send_into_silence()
    (connected,) = world.selectors
    body = World.answer(world, world.produced[-1])
    world.stored[0].pop()
    body["responses"][0]["partition_responses"][0]["error_code"] = 19  # type: ignore[index,call-overload]  # NOT_ENOUGH_REPLICAS
    connected.respond(connected.asked(ApiKeys.PRODUCE)[-1], body)  # type: ignore[arg-type]
    world.freeze_in_next_poll(FREEZE_MS)
    world.turn()
    world.is_silent = False
    assert future.result(30).offset == 1
    world.close()


def test_freeze_when_records_wait_for_metadata_then_they_do_so_for_as_long_as_they_had_left() -> None:
    world = FreezingWorld(**{"max.block.ms": 60_000})
    world.begin()
    future = world.runtime.record_sender.road.send("later", b"v")
    world.turn()
    world.freeze_in_next_poll(FREEZE_MS)
    world.turn()
    world.turn()
    assert not future.done()
    error = future.exception(3600)
    assert error is not None
    assert error.outcome == "not_sent"
    world.close()


def test_thaw_when_the_process_slept_idle_then_its_connections_are_made_anew(caplog: pytest.LogCaptureFixture) -> None:
    world = FreezingWorld()
    world.begin()
    world.turn()
    (connected,) = world.selectors
    world.freeze_in_next_poll(FREEZE_MS)
    with caplog.at_level(logging.WARNING):
        world.turn()
        assert world.send(b"second", 0).result(30).offset == 1
    assert connected.is_closed
    assert f"The process could not run for {FREEZE_MS} ms" in caplog.text
    world.close()


def test_idle_when_it_sleeps_as_long_as_it_wants_then_nothing_was_frozen() -> None:
    world = FreezingWorld(**{"request.timeout.ms": 2000, "metadata.max.age.ms": 3_600_000})
    world.begin()
    began_ms = world.clock.now_ms()
    while world.clock.now_ms() - began_ms < 400_000:
        world.turn()
    assert max(world.selectors[0].timeouts) == 250
    assert world.send(b"second", 0).result(30).offset == 1
    assert len(world.selectors) == 1
    world.close()


@pytest.mark.parametrize("is_silent", [False, True])
def test_sleep_when_the_process_is_stopped_as_a_record_comes_then_it_is_told_from_a_wait(is_silent: bool) -> None:
    """A producer that was to sleep for a minute woke after 40 s: by the record, it thought, which had expired."""
    world = FreezingWorld(**{"delivery.timeout.ms": 31_000})
    world.begin()
    world.is_silent = is_silent
    if is_silent:
        world.send(b"unanswered", 1)
        world.turn()
    world.turn()
    assert world.selectors[0].timeouts[-1] <= REQUEST_TIMEOUT_MS // 8
    futures: list[Any] = []
    world.freeze_in_next_poll(40_000, lambda: futures.append(world.send(b"second", 0)))
    world.turn()
    world.is_silent = False
    assert futures[0].result(30).offset == 1
    world.close()


@pytest.mark.parametrize("is_rung", [False, True], ids=["asleep", "rung"])
@pytest.mark.parametrize("pause_ms", [REQUEST_TIMEOUT_MS, REQUEST_TIMEOUT_MS + 1])
def test_pause_when_it_is_not_above_the_request_timeout_then_connections_stay(pause_ms: int, is_rung: bool) -> None:
    """What a poll that somebody had rung did not sleep was taken for its sleep, and deadlines moved by less."""
    world = FreezingWorld()
    world.begin()
    world.freeze_in_next_poll(pause_ms, is_rung=is_rung)
    world.turn()
    world.turn()
    assert len(world.selectors) == (1 if pause_ms == REQUEST_TIMEOUT_MS else 2)
    world.close()


def test_callback_when_it_takes_longer_than_every_timeout_then_its_time_counts_and_connections_stay(
        caplog: pytest.LogCaptureFixture) -> None:
    world = FreezingWorld(**{"delivery.timeout.ms": DELIVERY_TIMEOUT_MS})
    world.begin()
    others: list[Any] = []

    def take_long(_metadata: object, _exception: object) -> None:
        others.append(world.send(b"beside", 1))
        world.clock.advance(FREEZE_MS)

    world.runtime.record_sender.road.send("t", b"second", partition=0, on_completion=take_long)
    with caplog.at_level(logging.WARNING):
        while not others:
            world.turn()
        world.turn()
    error = others[0].exception(0)
    assert (error.phase, error.outcome) == ("delivery", "not_sent")
    assert world.send(b"third", 1).result(30).offset == 0
    assert len(world.selectors) == 1
    assert "could not run" not in caplog.text
    world.close()


def test_callbacks_when_each_takes_longer_than_a_request_may_then_deadlines_hold() -> None:
    """Twelve callbacks of 1.3 s made 18.6 s of three, and the error told of 3 s all the same."""
    world = FreezingWorld(**{"delivery.timeout.ms": 3000, "request.timeout.ms": 1000, "batch.size": 1,
                             "max.in.flight.requests.per.connection": 1})
    world.begin()
    began_ms = world.clock.now_ms()
    told_ms: list[int] = []

    def take_long(_metadata: object, exception: object) -> None:
        if exception is None:
            world.clock.advance(1300)
        told_ms.append(world.clock.now_ms() - began_ms)

    road = world.runtime.record_sender.road
    futures = [road.send("t", b"%d" % number, partition=0, on_completion=take_long) for number in range(12)]
    while len(told_ms) < 12:
        world.turn()
    assert max(told_ms) < 3000 + 1300
    assert futures[0].result(0).offset == 1
    assert "ms passed since the batch was created, and delivery.timeout.ms is 3000" in str(futures[-1].exception(0))
    world.close()


def test_suspend_when_the_clock_stood_still_then_connections_are_made_anew_and_deadlines_stay() -> None:
    world = FreezingWorld(**{"delivery.timeout.ms": DELIVERY_TIMEOUT_MS})
    world.begin()
    future = world.send_into_silence()
    world.clock.suspend(FREEZE_MS)
    while len(world.selectors) == 1:
        world.turn()
    error = future.exception(3600)
    assert error is not None
    assert error.phase == "delivery"
    world.close()


def test_thaw_when_the_thread_stood_aside_then_connections_are_made_anew() -> None:
    """A function's container is frozen right after it returned: then the sender's thread has nothing to do."""
    world = FreezingWorld()
    world.begin()
    freeze: Freeze = world.runtime.io_thread._sender._freeze  # type: ignore[attr-defined]
    freeze.rested_ms = world.clock.now_ms()
    world.clock.advance(FREEZE_MS)
    freeze.end_rest(world.clock.now_ms())
    assert world.send(b"second", 0).result(30).offset == 1
    assert len(world.selectors) == 2
    world.close()


def test_freeze_when_it_comes_while_the_last_one_is_dealt_with_then_each_counts_once(
        caplog: pytest.LogCaptureFixture) -> None:
    """The turn went on with the time at which it had begun, and the second one moved all deadlines twice."""
    world = FreezingWorld(**{"delivery.timeout.ms": DELIVERY_TIMEOUT_MS})
    world.begin()
    future = world.send_into_silence()
    world.freeze_in_next_poll(FREEZE_MS)
    world.turn()
    world.freeze_in_next_poll(FREEZE_MS)
    caplog.clear()
    world.turn()
    told = [record.getMessage().split(":")[0] for record in caplog.records if "deadlines" in record.getMessage()]
    assert told == [f"The process could not run for {FREEZE_MS} ms"]
    world.is_silent = False
    assert future.result(30).offset == 1
    world.close()
