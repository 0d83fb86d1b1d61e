"""flush() and close() of the facade, and what is refused once it is closed."""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyproducer import (
    ForkedProducerError,
    IllegalStateError,
    KafkaProducer,
    KafkaTimeoutError,
    ProducerClosedError,
    ProducerDeadError,
    ProducerInterceptor,
)
from pyproducer.accumulator.life import Life
from pyproducer.common.waiting import Waiters
from pyproducer.observe import otlp
from pyproducer.producer import process_life
from pyproducer.testing import MockProducer
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import MESSAGE_TOO_LARGE, NOT_ENOUGH_REPLICAS, CallerWaits, Facade, Facades

LONG_MS = 10_000_000


def holding(facades: Facades, clock: ManualClock | None = None, **props: Any) -> Facade:
    """A producer whose broker leaves what it gets unanswered; the topic is known."""
    facade = facades(clock, **{"linger.ms": 0, **props})
    facade.know()
    facade.broker.holds = True
    return facade


def in_manual_time(facades: Facades, **props: Any) -> tuple[Facade, CallerWaits]:
    """The same, with a clock that only the waits of the test's own thread move."""
    clock = ManualClock()
    facade = holding(facades, clock, **props)
    return facade, CallerWaits(clock, facade.broker.wakeup)


@pytest.mark.parametrize(("timeout_s", "waited_ms"), [(None, 700), (0.3, 300), (0, 0)])
def test_client_instance_id_when_no_broker_gives_one_then_it_waits_max_block_ms_or_what_is_given(
        facades: Facades, monkeypatch: pytest.MonkeyPatch, timeout_s: float | None, waited_ms: int) -> None:
    monkeypatch.setattr(otlp, "is_available", lambda: True)  # no broker asks for what its messages are for
    monkeypatch.setattr(otlp, "load", lambda: None)
    facade, waits = in_manual_time(facades, **{"max.block.ms": 700})
    waits.at(10_000, partial(pytest.fail, "it waits on"))
    with waits, pytest.raises(KafkaTimeoutError, match="No broker gave this producer an id") as caught:
        facade.producer.client_instance_id(timeout_s)
    assert (caught.value.phase, facade.clock.now_ms()) == ("request", waited_ms)


@pytest.mark.parametrize("timeout_s", [-1, -0.001])
def test_client_instance_id_when_the_timeout_is_negative_then_refused_as_in_java(
        facades: Facades, timeout_s: float) -> None:
    for producer in (holding(facades).producer, MockProducer()):
        with pytest.raises(ValueError, match=r"is negative: client_instance_id\(\) waits 0 seconds or more"):
            producer.client_instance_id(timeout_s)


# transactions --------------------------------------------------------------------------------------------------------

def test_init_transactions_when_it_times_out_then_the_time_in_it_is_counted(facades: Facades) -> None:
    """None of Java's txn-*-time-ns-total was there."""
    facade, waits = in_manual_time(facades, **{"max.block.ms": 700, "transactional.id": "t",
                                                 "enable.idempotence": True})
    with waits, pytest.raises(KafkaTimeoutError):
        facade.producer.init_transactions()
    with pytest.raises(IllegalStateError):
        facade.producer.commit_transaction()
    metrics = facade.producer.metrics()
    assert (metrics["txn-init-time-ns-total"], metrics["txn-commit-time-ns-total"]) == (700_000_000, 0)


# flush ---------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("timeout_s", "waited_ms"), [(2, 2000), (0.5, 500), (0, 0), (-1, 0)])
def test_flush_when_the_timeout_passes_then_it_waited_exactly_that_long(
        facades: Facades, timeout_s: float, waited_ms: int) -> None:
    facade, waits = in_manual_time(facades)
    future = facade.producer.send("t", b"v", partition=0)
    with waits, pytest.raises(KafkaTimeoutError, match=rf"not done within {timeout_s} s: 1 records") as caught:
        facade.producer.flush(timeout_s)
    assert (caught.value.phase, caught.value.outcome) == ("flush", "unknown")
    assert facade.clock.now_ms() == waited_ms
    assert facade.producer.metrics()["flush-time-ns-total"] == 1_000_000 * waited_ms, "it counts, whatever it raised"
    facade.broker.await_requests(1)
    facade.broker.answer()
    assert future.result(0).offset == 100, "a flush() that gave up loses nothing"


@pytest.mark.parametrize("answered", [0, 1])
def test_flush_when_there_are_several_batches_then_they_share_the_timeout(facades: Facades, answered: int) -> None:
    facade, waits = in_manual_time(facades)
    futures = []
    for partition in (0, 1):
        futures.append(facade.producer.send("t", b"v", partition=partition))
        facade.broker.await_requests(partition + 1)
    waits.at(1500, lambda: facade.broker.answer(only=answered))
    with waits, pytest.raises(KafkaTimeoutError):
        facade.producer.flush(2)
    assert facade.clock.now_ms() == 2000
    assert [future.done() for future in futures] == [answered == 0, answered == 1]


@pytest.mark.parametrize("answered_first", [0, 1])
def test_flush_when_everything_is_answered_then_it_returns_at_the_last_answer(
        facades: Facades, answered_first: int) -> None:
    facade, waits = in_manual_time(facades)
    futures = []
    for partition in (0, 1):
        futures.append(facade.producer.send("t", b"v", partition=partition))
        facade.broker.await_requests(partition + 1)
    waits.at(100, lambda: facade.broker.answer(only=answered_first))
    waits.at(300, facade.broker.answer)
    with waits:
        facade.producer.flush(2)
    assert facade.clock.now_ms() == 300
    assert all(future.done() for future in futures)


def test_flush_when_a_record_comes_later_then_it_is_not_waited_for(facades: Facades) -> None:
    facade, waits = in_manual_time(facades)
    facade.producer.send("t", b"before", partition=0)
    facade.broker.await_requests(1)
    later = []

    def send_another() -> None:
        later.append(facade.producer.send("t", b"later", partition=1))
        facade.broker.await_requests(2)
        facade.broker.answer(only=0)

    waits.at(100, send_another)
    with waits:
        facade.producer.flush(2)
    assert facade.clock.now_ms() == 100
    assert not later[0].done()


def test_flush_when_a_batch_is_retried_then_it_waits_for_the_last_attempt(facades: Facades) -> None:
    facade, waits = in_manual_time(facades)
    future = facade.producer.send("t", b"v", partition=0)
    facade.broker.await_requests(1)

    def answer_again() -> None:
        facade.broker.await_requests(2)
        facade.broker.answer()

    waits.at(100, lambda: facade.broker.answer(NOT_ENOUGH_REPLICAS))
    waits.at(200, answer_again)
    with waits:
        facade.producer.flush(2)
    assert facade.clock.now_ms() == 200
    assert future.result(0).offset == 100


def test_flush_when_called_while_a_batch_waits_for_its_retry_then_it_is_waited_for(facades: Facades) -> None:
    facade, waits = in_manual_time(facades, **{"retry.backoff.ms": 50, "retry.backoff.max.ms": 50})
    future = facade.producer.send("t", b"v", partition=0)
    facade.broker.await_requests(1)
    facade.broker.answer(NOT_ENOUGH_REPLICAS)

    def answer_again() -> None:
        facade.broker.await_requests(2)
        facade.broker.answer()

    waits.at(1000, answer_again)
    with waits:
        facade.producer.flush(2)
    assert facade.clock.now_ms() == 1000
    assert future.result(0).offset == 100


def test_flush_when_a_batch_is_split_then_it_waits_for_all_parts(facades: Facades) -> None:
    facade, waits = in_manual_time(facades)
    future = facade.producer.send_batch("t", [b"v" * 400] * 2, partitions=[0, 0])
    facade.broker.await_requests(1)

    def answer_parts() -> None:
        facade.broker.await_requests(3)
        facade.broker.answer()

    waits.at(100, lambda: facade.broker.answer(MESSAGE_TOO_LARGE))
    waits.at(200, answer_parts)
    with waits:
        facade.producer.flush(2)
    assert facade.clock.now_ms() == 200
    assert [len(values) for _, _, values in facade.broker.sent] == [2, 1, 1]
    assert list(future.result(0).offsets) == [100, 101]


def test_flush_when_records_linger_then_they_are_sent_at_once(facades: Facades) -> None:
    facade = facades(**{"linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS})
    futures = [facade.producer.send("t", b"v", partition=partition) for partition in (0, 1)]
    facade.broker.take_turns()  # then the sender sleeps as long as they linger
    facade.producer.flush(GIVE_UP_S)
    assert all(future.done() for future in futures)


@pytest.mark.parametrize("is_answered", [True, False])
def test_flush_when_it_ended_then_later_records_linger_again(facades: Facades, *, is_answered: bool) -> None:
    facade, waits = in_manual_time(facades, **{"linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS})
    facade.producer.send("t", b"v", partition=0)
    waits.at(100, lambda: facade.broker.await_requests(1))
    if is_answered:
        waits.at(200, facade.broker.answer)
    with waits, contextlib.nullcontext() if is_answered else pytest.raises(KafkaTimeoutError):
        facade.producer.flush(2)
    facade.producer.send("t", b"v", partition=1)
    facade.broker.take_turns()
    assert len(facade.broker.requests) == 1


def test_flush_when_the_callbacks_did_not_run_yet_then_it_is_not_done(facades: Facades) -> None:
    facade = holding(facades)
    seen: list[object] = []

    def flush_meanwhile() -> None:
        try:
            facade.producer.flush(0)
        except KafkaTimeoutError:
            seen.append("not done")
        else:
            seen.append("done")

    def on_completion(_metadata: object, _exception: object) -> None:
        other = threading.Thread(target=flush_meanwhile)
        other.start()
        other.join()

    facade.producer.send("t", b"v", partition=0, on_completion=on_completion)
    facade.broker.await_requests(1)
    facade.broker.answer()
    assert seen == ["not done"]
    facade.producer.flush(GIVE_UP_S)


def test_flush_when_a_record_fails_then_it_says_nothing_of_that(facades: Facades) -> None:
    facade = facades()
    facade.broker.error_code = MESSAGE_TOO_LARGE
    future = facade.producer.send("t", b"v", partition=0)
    facade.producer.flush(GIVE_UP_S)
    assert future.exception(0) is not None


def test_flush_when_called_in_a_callback_then_refused(facades: Facades) -> None:
    facade, raised = facades(), []

    def on_completion(_metadata: object, _exception: object) -> None:
        try:
            facade.producer.flush(GIVE_UP_S)
        except IllegalStateError as error:
            raised.append(str(error))

    facade.producer.send("t", b"v", on_completion=on_completion).result(GIVE_UP_S)
    assert len(raised) == 1
    assert raised[0].startswith("flush() inside a callback would wait for itself")
    assert raised[0].endswith("Call it from another thread")


def test_flush_when_nothing_was_sent_then_it_returns(facades: Facades) -> None:
    facade = facades()
    facade.producer.flush(0)
    assert facade.broker.requests == []


def test_flush_when_rows_of_a_batch_are_on_their_way_then_they_are_waited_for(facades: Facades) -> None:
    facade, waits = in_manual_time(facades)
    future = facade.producer.send_batch("t", [b"a", b"b"], partitions=[0, 1])
    facade.broker.await_requests(1)
    facade.broker.take_turns()
    waits.at(100, facade.broker.answer)
    with waits:
        facade.producer.flush(2)
    assert (facade.clock.now_ms(), future.done()) == (100, True)


# close ---------------------------------------------------------------------------------------------------------------

class Joins:
    """What the waits for the sender thread's end were told, and something to do when the first begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, on_join: Callable[[], None]) -> None:
        self.timeouts: list[float | None] = []
        real = Life.await_end

        def await_end(life: Life, timeout_s: float | None) -> bool:
            self.timeouts.append(timeout_s)
            if len(self.timeouts) == 1:
                on_join()
            return real(life, GIVE_UP_S)

        monkeypatch.setattr(Life, "await_end", await_end)


def test_close_when_no_timeout_is_given_then_it_waits_for_the_answers(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    facade = holding(facades)
    futures = [facade.producer.send("t", b"v", partition=partition) for partition in (0, 1)]

    def answer() -> None:
        facade.broker.take_turns()
        facade.broker.holds = False
        facade.broker.answer()

    joins = Joins(monkeypatch, answer)
    facade.producer.close()
    assert joins.timeouts[0] is None
    assert [future.result(0).offset for future in futures] == [100, 100]
    assert facade.broker.is_closed


def test_close_when_records_linger_then_they_are_sent_at_once(facades: Facades) -> None:
    facade = facades(**{"linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS})
    futures = [facade.producer.send("t", b"v", partition=partition) for partition in (0, 1)]
    facade.producer.close()
    assert [future.result(0).offset for future in futures] == [100, 100]


@pytest.mark.parametrize("timeout_s", [7.5, 0, 3600])
def test_close_when_the_timeout_passes_then_what_is_left_fails_and_the_thread_ends(
        facades: Facades, monkeypatch: pytest.MonkeyPatch, timeout_s: float) -> None:
    clock = ManualClock()
    facade = holding(facades, clock, **{"delivery.timeout.ms": 2**31 - 1})
    told: list[Any] = []
    futures = [facade.producer.send("t", b"v", partition=partition,
                                    on_completion=lambda metadata, exception: told.append((metadata, exception)))
               for partition in (0, 1)]
    facade.broker.take_turns()

    def pass_time() -> None:
        if timeout_s:
            clock.advance(int(timeout_s * 1000) - 1)
            facade.broker.take_turns()
            assert not futures[0].done(), "in seconds, and all of it"
            clock.advance(1)
        facade.broker.wakeup()

    joins = Joins(monkeypatch, pass_time)
    facade.producer.close(timeout_s)
    assert joins.timeouts == [timeout_s + 5], "the thread ends by itself, and may be late by a callback"
    for future in futures:
        error = future.exception(0)
        assert isinstance(error, ProducerClosedError)
        assert error.outcome == "unknown"
    assert [(metadata, type(error)) for metadata, error in told] == [(None, ProducerClosedError)] * 2
    assert facade.broker.is_closed
    facade.await_whole_memory()


def test_close_when_it_may_not_wait_then_it_forces_at_once(facades: Facades) -> None:
    facade = holding(facades)
    future = facade.producer.send("t", b"v", partition=0)
    facade.producer.close(0)
    assert isinstance(future.exception(0), ProducerClosedError)
    assert facade.broker.is_closed


def test_close_when_the_sender_sleeps_without_end_then_it_is_woken(facades: Facades) -> None:
    facade = facades()
    facade.producer.send("t", b"v").result(GIVE_UP_S)
    facade.broker.take_turns()
    facade.producer.close()
    assert facade.broker.is_closed
    assert not facade.broker.was_forgotten


class Part:
    """Writes down in which order what it is asked, and by what name."""

    def __init__(self, name: str, events: list[str], *, raises: bool = False) -> None:
        self.name, self.events, self.raises = name, events, raises

    def close(self) -> None:
        self.events.append(f"{self.name} closed")
        if self.raises:
            raise ValueError(self.name)


class Seeing(Part, ProducerInterceptor):
    def on_acknowledgement(self, metadata: object, exception: object) -> None:
        self.events.append(f"{self.name} acknowledged")


class Passing(Part):
    def __call__(self, topic: str, headers: object, data: bytes | None) -> bytes | None:
        return data

    serialize = __call__


class First(Part):
    def partition(self, *_arguments: object) -> int:
        return 0


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("timeout_s", [None, 0])
def test_close_when_parts_of_the_application_can_be_closed_then_each_is_once_and_after_the_last_outcome(
        facades: Facades, caplog: pytest.LogCaptureFixture, timeout_s: float | None, *, raises: bool) -> None:
    events: list[str] = []
    facade = facades(serializers=(Passing("key serializer", events, raises=raises),
                                  Passing("value serializer", events, raises=raises)),
                     **{"interceptor.classes": [Seeing("interceptor", events, raises=raises)],
                        "partitioner.class": First("partitioner", events, raises=raises)})
    facade.know()
    facade.broker.holds = timeout_s is not None
    facade.producer.send("t", b"v", on_completion=lambda *_: events.append("callback"))
    facade.producer.close(timeout_s)
    facade.producer.close(timeout_s)
    assert events[:2] == ["interceptor acknowledged", "callback"]
    assert sorted(events[2:]) == [f"{name} closed" for name in ("interceptor", "key serializer", "partitioner",
                                                                 "value serializer")]
    assert len(caplog.records) >= 4 * raises


def test_send_when_closed_then_refused_on_every_road(facades: Facades) -> None:
    facade = facades()
    facade.producer.send("t", b"v").result(GIVE_UP_S)
    assert "open" in repr(facade.producer)
    facade.producer.close()
    for call in (lambda: facade.producer.send("t", b"v"), lambda: facade.producer.send("t", b"v", partition=0),
                 lambda: facade.producer.send("t", b"v", headers=[("h", b"")]),
                 lambda: facade.producer.send_batch("t", [b"v"]), lambda: facade.producer.partitions_for("t"),
                 facade.producer.check):
        with pytest.raises(ProducerClosedError,
                           match=rf"{facade.producer.client_id} is closed .*'MainThread'"):
            call()
    assert len(facade.broker.requests) == 1
    assert "closed" in repr(facade.producer)
    facade.producer.flush(GIVE_UP_S)  # there is nothing left to flush


def test_send_when_closed_then_nothing_of_the_application_is_asked(facades: Facades) -> None:
    asked: list[str] = []

    class Asking(ProducerInterceptor):
        def on_send(self, record: Any) -> Any:
            asked.append("on_send")
            return record

        def on_acknowledgement(self, metadata: object, exception: object) -> None:
            asked.append("on_acknowledgement")

    facade = facades(serializers=(None, lambda *_: asked.append("serializer")),
                     **{"interceptor.classes": [Asking()], "partitioner.class": lambda *_: asked.append("partitioner")})
    facade.know()
    facade.producer.close()
    for call in (lambda: facade.producer.send("t", b"v"), lambda: facade.producer.send_batch("t", [b"v"])):
        with pytest.raises(ProducerClosedError):
            call()
    assert asked == []


def test_send_when_close_waits_for_an_open_batch_then_the_record_does_not_slip_into_it(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    facade = facades(**{"linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS})
    facade.know()
    facade.broker.is_reachable = False
    future = facade.producer.send("t", b"before", key=b"k")
    refused: list[type] = []

    def send_late() -> None:
        for call in (lambda: facade.producer.send("t", b"late", key=b"k"),
                     lambda: facade.producer.send_batch("t", [b"late"], keys=[b"k"])):
            try:
                call()
            except ProducerClosedError as error:
                refused.append(type(error))
        facade.broker.is_reachable = True
        facade.broker.wakeup()

    Joins(monkeypatch, send_late)
    facade.producer.close()
    assert refused == [ProducerClosedError] * 2
    assert future.result(0).offset == 100
    assert [values for _, _, values in facade.broker.sent] == [[b"before"]]


@pytest.fixture
def forked(facades: Facades) -> Iterator[Facade]:
    """A producer as a child process sees it after a fork: its thread is not there (here it is, and is ended after)."""
    facade = facades()
    facade.producer.send("t", b"v").result(GIVE_UP_S)
    life = facade.life
    state = life.state, life.sender_ident
    process_life.mark_forked()
    yield facade
    life.state, life.sender_ident = state


def test_producer_when_the_process_was_forked_then_the_child_is_refused_at_once_on_every_road(forked: Facade) -> None:
    producer = forked.producer
    for call in (lambda: producer.send("t", b"v"), lambda: producer.send("t", b"v", headers=[("h", b"")]),
                 lambda: producer.send_batch("t", [b"v"]), lambda: producer.partitions_for("t"),
                 producer.check, lambda: producer.flush(GIVE_UP_S)):
        with pytest.raises(ForkedProducerError, match="made before the process was forked"):
            call()
    assert "forked" in repr(producer)
    producer.close()
    assert not forked.broker.is_closed, "the connections are the parent's"
    assert len(forked.broker.requests) == 1


@pytest.mark.parametrize("which", ["futures", "life", "tally"])
def test_fork_when_a_thread_held_a_lock_of_a_closed_producer_then_that_does_not_stop_the_child(
        facades: Facades, which: str) -> None:
    """Its futures, close() and flush() waited for ever in the child: only open producers' locks were released there."""
    facade = facades()
    producer, life = facade.producer, facade.life
    future = producer.send("t", b"v")
    producer.close(GIVE_UP_S)
    lock: Any = {"futures": life.futures_lock, "life": life._lock, "tally": life.tally._lock}[which]
    other = threading.Thread(target=lock.acquire)
    other.start()
    other.join()
    process_life.mark_forked()
    assert lock.acquire(blocking=False)
    lock.release()
    told: list[object] = []
    future.add_done_callback(told.append)
    producer.flush()
    producer.close()
    assert told == [future]
    assert "closed" in repr(producer)


@pytest.mark.parametrize("mode", ["refuse", "rebuild"])
def test_fork_when_close_has_just_returned_then_the_producer_is_closed_in_the_child(
        facades: Facades, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """The sender thread ends the life, which lets close() return, and then has the producer forgotten.

    A child that was forked in between took it for one that was left: flush() raised ForkedProducerError there, send()
    too, and close() returned an empty summary. It was so in 3 of 30 forks on a busy machine.
    """
    forget, may_forget = process_life.forget, threading.Event()

    def forget_late(life: Life) -> None:
        assert may_forget.wait(GIVE_UP_S), "nobody let it go on"
        forget(life)

    monkeypatch.setattr(process_life, "forget", forget_late)
    facade = facades(**{"pyproducer.fork": mode})
    producer = facade.producer
    producer.send("t", b"v").result(GIVE_UP_S)
    summary = producer.close()
    try:
        assert facade.life in process_life.runtimes, "the fork comes in between"
        process_life.mark_forked()
        producer.flush()
        assert producer.close() == summary
        assert summary.delivered == 1
        with pytest.raises(ProducerClosedError):
            producer.send("t", b"v")
        assert "closed" in repr(producer)
    finally:
        may_forget.set()


def test_fork_when_the_end_of_a_producer_is_half_done_then_the_child_does_the_rest(facades: Facades) -> None:
    """Who waits there for the end, because his signal's handler forked, is rung by nobody else."""
    facade = facades()
    life = facade.life
    is_half_done, may_go_on = threading.Event(), threading.Event()

    class LateRing(Waiters):
        def ring(self) -> None:
            if not is_half_done.is_set():
                is_half_done.set()
                assert may_go_on.wait(GIVE_UP_S), "nobody let it go on"
            super().ring()

    life._over = LateRing(life.locks.cell)
    cell = life._over.enter()
    try:
        facade.producer._runtime.begin_close("the test", None)
        assert is_half_done.wait(GIVE_UP_S)
        assert cell.locked()
        process_life.mark_forked()
        assert not cell.locked()
        assert not life.is_forked
    finally:
        may_go_on.set()


def test_close_when_leaving_a_with_block_then_everything_is_delivered(facades: Facades) -> None:
    facade = facades(**{"linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS})
    with facade.producer as producer:
        future = producer.send("t", b"v")
        assert not future.done()
    assert future.result(0).offset == 100
    assert facade.broker.is_closed


def test_close_when_called_in_a_callback_then_it_does_not_wait_and_the_rest_is_delivered(facades: Facades) -> None:
    facade = holding(facades)
    events: list[str] = []

    def on_completion(_metadata: object, _exception: object) -> None:
        events.append("callback")
        facade.producer.close()
        events.append("close() returned")

    first = facade.producer.send("t", b"v", partition=0, on_completion=on_completion)
    facade.broker.await_requests(1)
    second = facade.producer.send("t", b"v", partition=1)
    facade.broker.holds = False
    facade.broker.wakeup()
    assert first.result(GIVE_UP_S).offset == 100
    assert second.result(GIVE_UP_S).offset == 100
    assert events == ["callback", "close() returned"]
    with pytest.raises(ProducerClosedError):
        facade.producer.send("t", b"v")


def test_close_when_a_caller_waits_in_send_then_it_is_told_at_once(facades: Facades) -> None:
    clock = ManualClock()
    facade = holding(facades, clock, **{"buffer.memory": 20_000, "batch.size": 20_000, "max.block.ms": 5000})
    waits = CallerWaits(clock, facade.broker.wakeup)
    facade.producer.send("t", b"v", partition=0)  # holds all there is
    waits.at(100, lambda: facade.producer.close(0))
    with waits, pytest.raises(ProducerClosedError):
        facade.producer.send("t", b"v", partition=1)
    assert clock.now_ms() == 100


def test_close_when_a_caller_waits_for_memory_and_nothing_is_answered_then_it_is_told_before_the_end(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    facade = holding(facades, **{"buffer.memory": 20_000, "batch.size": 20_000})
    facade.producer.send("t", b"v", partition=0)  # holds all there is
    told: list[BaseException] = []

    def send() -> None:
        try:
            facade.producer.send("t", b"v", partition=1)
        except ProducerClosedError as error:
            told.append(error)

    waiting = threading.Thread(target=send)
    waiting.start()
    while not facade.producer.metrics()["waiting-threads"]:
        facade.broker.take_turns()

    def look() -> None:
        waiting.join(GIVE_UP_S)
        assert told, "it waits for memory that it must not use"
        facade.broker.holds = False
        facade.broker.wakeup()

    Joins(monkeypatch, look)
    facade.producer.close()


def test_producer_when_nobody_closed_it_then_that_is_said_and_its_records_get_ten_seconds(
        facades: Facades) -> None:
    clock = ManualClock()
    facade = holding(facades, clock)
    future = facade.producer.send("t", b"v", partition=0)

    def answer() -> None:
        facade.broker.holds = False
        facade.broker.wakeup()

    with pytest.warns(ResourceWarning, match=rf"unclosed {facade.producer.client_id}: close\(\) was not called, 1 rec"):
        # What the finalizer calls; the line goes on at once.
        process_life.close_dropped(weakref.ref(facade.producer._runtime))
    assert not future.done()
    assert facade.life.ms_to_forced_end(clock.now_ms()) == 10_000
    answer()
    assert facade.life.await_end(GIVE_UP_S)
    assert future.result(0).offset == 100
    assert facade.broker.is_closed


def test_producer_when_it_lives_at_the_interpreters_exit_then_its_records_get_ten_seconds(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    facade = holding(facades, ManualClock())
    other = holding(facades)
    future = facade.producer.send("t", b"v", partition=0)
    monkeypatch.setattr(process_life, "runtimes",
                        {made.life: made.producer._runtime for made in (facade, other)})
    other.producer.close()

    def answer() -> None:
        facade.broker.holds = False
        facade.broker.wakeup()

    joins = Joins(monkeypatch, answer)
    with pytest.warns(ResourceWarning, match=rf"unclosed {facade.producer.client_id}: close\(\) was not called, 1 rec"):
        process_life.close_all_at_exit()
    assert joins.timeouts == [15]
    assert future.result(0).offset == 100
    assert facade.broker.is_closed


def test_producer_when_it_was_dropped_in_a_child_or_after_its_end_then_nothing_happens(
        facades: Facades, forked: Facade) -> None:
    process_life.close_dropped(weakref.ref(forked.producer._runtime))
    assert not forked.broker.is_closed
    facade = facades()
    facade.producer.close()
    process_life.close_dropped(weakref.ref(facade.producer._runtime))  # a warning would fail the test


def test_from_file_when_read_then_overrides_win_and_serializers_keep_their_places(tmp_path: Path) -> None:
    made: list[Any] = []

    class Noting(KafkaProducer):
        def __init__(self, *arguments: Any) -> None:
            made.append(arguments)

    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers = broker:9092\nlinger.ms = 7\nacks = 1\n")
    Noting.from_file(path, key_serializer="string", value_serializer="json", linger_ms=9)
    assert made == [({"bootstrap.servers": "broker:9092", "linger.ms": 9, "acks": "1"}, "string", "json")]


def test_producer_when_nobody_closed_it_and_warnings_are_errors_then_its_records_are_sent_all_the_same(
        facades: Facades) -> None:
    """The warning came first: the sender thread of a producer that was dropped ran for ever."""
    facade = holding(facades)
    future = facade.producer.send("t", b"v", partition=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ResourceWarning, match="1 records are on their way"):
            process_life.close_dropped(weakref.ref(facade.producer._runtime))
    facade.broker.holds = False
    facade.broker.wakeup()
    assert facade.life.await_end(GIVE_UP_S)
    assert future.result(0).offset == 100


def test_exit_when_warnings_are_errors_then_all_producers_are_closed_and_waited_for(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [facades() for _ in range(3)]
    monkeypatch.setattr(process_life, "runtimes", {one.life: one.producer._runtime for one in made})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ResourceWarning):
            process_life.close_all_at_exit()
    assert all(one.life.is_over for one in made)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_exit_when_several_producers_hang_then_they_share_the_wait(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had 15 s of its own, one after the other."""
    clock = ManualClock()
    made = [holding(facades, clock) for _ in range(3)]
    monkeypatch.setattr(process_life, "runtimes", {one.life: one.producer._runtime for one in made})
    joins = Joins(monkeypatch, lambda: clock.advance(12_000))
    process_life.close_all_at_exit()
    assert joins.timeouts == [15, 3, 3]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("how", ["dropped", "closed"])
def test_producer_when_the_collector_ends_it_on_the_sender_thread_with_a_lock_taken_then_its_records_are_sent(
        facades: Facades, how: str) -> None:
    """A cycle with a producer in it is collected in the middle of any line, the sender's own included.

    close() took each partition's lock, and the sender thread waited for itself for ever.
    """
    facade = facades(**{"linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS})
    facade.know()
    runtime = facade.producer._runtime
    future = facade.producer.send("t", b"v", partition=0)

    def collect() -> None:
        with runtime.accumulator._partitions["t", 0].lock:
            if how == "dropped":
                process_life.close_dropped(weakref.ref(runtime))
            else:
                facade.producer.close()
            with pytest.raises(ProducerClosedError):
                facade.producer.send("t", b"late", key=b"k")

    facade.broker.run(collect)
    assert facade.life.await_end(GIVE_UP_S)
    assert future.result(0).offset == 100
    assert len(facade.broker.records) == 1


class Closing:
    """An interceptor that notes its end."""

    def __init__(self, closed: list[object]) -> None:
        self._closed = closed

    def on_send(self, record: object) -> object:
        return record

    def close(self) -> None:
        self._closed.append(self)


@pytest.mark.parametrize("is_started", [False, True])
def test_constructor_when_its_thread_cannot_be_started_or_that_is_interrupted_then_every_part_is_closed(
        monkeypatch: pytest.MonkeyPatch, is_started: bool) -> None:
    """After Ctrl-C a thread that nobody could reach ran on; without a thread the interceptors were never closed."""
    closed: list[object] = []
    start, threads = threading.Thread.start, []

    def start_and_raise(thread: threading.Thread) -> None:
        if is_started:
            start(thread)
            threads.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start_and_raise)
    before = set(process_life.runtimes)
    with pytest.raises(KeyboardInterrupt):
        KafkaProducer({"bootstrap.servers": "127.0.0.1:1", "interceptor.classes": [Closing(closed)]})
    for thread in threads:
        thread.join(GIVE_UP_S)
        assert not thread.is_alive(), "it runs, and nobody can reach it"
    assert len(closed) == 1
    assert set(process_life.runtimes) <= before


@pytest.mark.parametrize("where", ["_pave", "_begin"])
def test_constructor_when_it_is_interrupted_before_its_thread_is_started_then_every_part_is_closed(
        monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """At its end the process waited for a thread that was never started."""
    closed: list[object] = []
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(KafkaProducer, where, interrupted)
    before = set(process_life.runtimes)
    with pytest.raises(KeyboardInterrupt):
        KafkaProducer({"bootstrap.servers": "127.0.0.1:1", "interceptor.classes": [Closing(closed)]})
    assert len(closed) == 1
    assert set(process_life.runtimes) <= before


@pytest.mark.parametrize("rows", [False, True])
def test_send_when_interrupted_before_the_sender_was_woken_then_the_next_record_is_sent_at_once(
        facades: Facades, monkeypatch: pytest.MonkeyPatch, rows: bool) -> None:
    """The batch lay there and the sender slept; the next record joined the batch, and that wakes nobody."""
    facade = facades(**{"linger.ms": 0})
    facade.know()
    facade.broker.take_turns()
    sender = facade.producer._runtime.batch_sender if rows else facade.producer._runtime.record_sender
    name = "_wakeup_sender" if rows else "_on_opened"
    real, interrupts = getattr(sender, name), [KeyboardInterrupt()]

    def wakeup() -> None:
        if interrupts:
            raise interrupts.pop()
        real()

    monkeypatch.setattr(sender, name, wakeup)
    send = partial(facade.producer.send_batch, "t", [b"1"], partitions=[0]) if rows else partial(
        facade.producer.send, "t", b"1", partition=0)
    with pytest.raises(KeyboardInterrupt):
        send()
    assert facade.producer.send("t", b"2", partition=0).result(GIVE_UP_S).offset in (100, 101)
    assert not facade.broker.was_forgotten


def test_call_when_a_signals_handler_makes_it_in_the_middle_of_a_send_then_it_does_not_wait_for_itself(
        facades: Facades) -> None:
    """close() or flush() in a handler of SIGTERM stood still for ever when that came in the middle of a send()."""
    facade = holding(facades)
    producer = facade.producer
    future = producer.send("t", b"v", partition=0)

    def handle() -> None:
        for call in (producer.flush, future.result, lambda: producer.send("t", b"w", partition=0),
                     lambda: producer.send("t", b"w" * 20_000, partition=0),
                     lambda: producer.send_batch("t", [b"w"], partitions=[0])):
            with pytest.raises(IllegalStateError, match="in the middle of another call of this producer"):
                call()
        assert producer.metrics()["buffer-available-bytes"] > 0
        producer.close()
        assert "closing" in repr(producer)
        assert not future.done()

    facade.life.calls.run("send()", handle)
    facade.broker.holds = False
    producer.close()
    assert future.result(0).offset == 100
    assert [values for _, _, values in facade.broker.sent] == [[b"v"]]


def test_producer_when_a_turn_ends_half_way_then_the_wire_is_made_anew_and_each_record_is_told_once(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    facade = holding(facades)
    producer = facade.producer
    told: list[Any] = []
    first = producer.send("t", b"first", partition=0, on_completion=lambda *end: told.append(end))
    facade.broker.await_requests(1)
    assert producer.metrics()["requests-in-flight"] == 1

    def fail_once(*_: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("the wire's bug")

    facade.broker.holds = False
    monkeypatch.setattr(facade.broker, "poll", fail_once)
    facade.broker.wakeup()
    second = producer.send("t", b"second", partition=0)
    producer.flush(GIVE_UP_S)
    assert (first.result(0).offset, second.result(0).offset) == (100, 101)
    assert [end[0].offset for end in told] == [100]
    assert facade.broker.renewals == 1
    assert producer.metrics()["requests-in-flight"] == 0
    facade.await_whole_memory()


def test_producer_when_recovery_fails_too_then_it_is_dead_and_says_so_to_everybody(
        facades: Facades, caplog: pytest.LogCaptureFixture) -> None:
    """A sender thread that ended by an error left futures pending for ever, and close() said nothing."""
    facade = holding(facades)
    producer = facade.producer
    told: list[Any] = []
    sent = producer.send("t", b"sent", partition=0, on_completion=lambda *end: told.append(end))
    facade.broker.await_requests(1)
    bug = RuntimeError("the wire's bug")

    def fail(*_: object) -> None:
        raise bug

    facade.broker.on_renewal = fail
    facade.broker.poll = fail  # type: ignore[assignment,method-assign]
    facade.broker.wakeup()
    error = sent.exception(GIVE_UP_S)
    assert isinstance(error, ProducerDeadError)
    assert error.outcome == "unknown"
    assert [type(end[1]) for end in told] == [ProducerDeadError]
    assert facade.life.await_end(GIVE_UP_S)
    for call in (lambda: producer.send("t", b"v", partition=0), lambda: producer.send_batch("t", [b"v"]),
                 producer.flush, producer.check, lambda: producer.partitions_for("t")):
        with pytest.raises(ProducerDeadError, match="could not go on and ended: RuntimeError") as raised:
            call()
        assert raised.value.__cause__ is bug
    producer.close()
    assert "dead" in repr(producer)
    facade.await_whole_memory()
    assert "cannot go on" in caplog.text
    assert facade.broker.is_closed


@pytest.mark.parametrize(("arguments", "named", "words"), [
    (["localhost:9092"], {}, r"settings are a dict .*KafkaProducer\(\{'bootstrap.servers': 'localhost:9092'\}\)"),
    ([], {"bootstrap_servers": "localhost:9092"}, r"bootstrap_servers= is no argument: .*\{'bootstrap.servers': ...\}"),
    ([{}], {"linger_ms": 5}, r"linger_ms= is no argument"), ([], {}, "got nothing"), ([5], {}, "got int")])
def test_constructor_when_it_is_called_as_another_clients_then_the_error_shows_how(
        arguments: list[Any], named: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        KafkaProducer(*arguments, **named)


@pytest.mark.parametrize(("name", "words"), [
    ("produce", "send"), ("poll", "nothing has to be polled"), ("send_and_wait", "AsyncKafkaProducer"),
    ("get", "result")])
def test_method_when_it_is_another_clients_then_the_error_names_ours(facades: Facades, name: str, words: str) -> None:
    producer = facades().producer
    with pytest.raises(AttributeError, match=f"has no attribute {name!r}: .*{words}"):
        getattr(producer, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'anything'$"):
        getattr(producer, "anything")  # noqa: B009  # a checker would find it
    assert not hasattr(producer, name)
