"""What became of records, as close() and flush() tell, and what happens when nobody looks at a failed future."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer import DeliveryFailedError, DeliverySummary, KafkaError, ProducerDeadError, ProducerInterceptor
from pyproducer.accumulator.delivery_tally import GRACE_MS
from pyproducer.common.limited_log import MOST_LINES
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import CallerWaits, Facade, Facades

INVALID_RECORD = 87
NAME = "record-unretrieved-error-total"
NOTHING = {"not_sent": 0, "rejected": 0, "unknown": 0}


def refusing(facades: Facades, clock: ManualClock | None = None, **props: Any) -> Facade:
    """A producer whose broker refuses every record; the topic is known."""
    facade = facades(clock, **{"linger.ms": 0, **props})
    facade.know()
    facade.broker.error_code = INVALID_RECORD
    return facade


def unretrieved(facade: Facade) -> float:
    return facade.producer.metrics()[NAME]


def ended(facade: Facade) -> float:
    """Close, and return how many failed records nobody looked at."""
    facade.producer.close()
    return unretrieved(facade)


def fail_one(facade: Facade, **more: Any) -> Any:
    """Return the future of a record that was refused, and that nobody looked at."""
    future = facade.producer.send("t", b"v", partition=0, **more)
    await_done(future)
    return future


def await_done(future: Any) -> None:
    deadline_s = time.monotonic() + GIVE_UP_S
    while not future.done():
        assert time.monotonic() < deadline_s, "the record is not decided"
        time.sleep(0.001)


# close() --------------------------------------------------------------------------------------------------------------

def test_close_when_all_kinds_of_records_ended_then_its_summary_counts_each_once(facades: Facades) -> None:
    facade = facades(**{"linger.ms": 0, "max.request.size": 1000, "pyproducer.prefetch.topics": "t,u"})
    facade.broker.topics = {"t": 2, "u": 1}
    for topic in ("t", "u"):
        facade.producer.partitions_for(topic)
    producer = facade.producer
    futures = [producer.send("t", b"v", partition=index % 2) for index in range(5)]
    futures.append(producer.send("u", b"v"))
    assert len(producer.send_batch("t", [b"a", b"b", b"c"]).result(GIVE_UP_S)) == 3
    for future in futures:
        future.result(GIVE_UP_S)
    facade.broker.error_code = INVALID_RECORD
    assert producer.send("t", b"v").exception(GIVE_UP_S).outcome == "rejected"
    assert len(producer.send_batch("u", [b"a", b"b"]).result(GIVE_UP_S).errors) == 2
    with pytest.raises(KafkaError):
        producer.send("t", b"x" * 2000)
    with pytest.raises(TypeError):
        producer.send("t", b"v", partition="zero")
    facade.broker.topic_errors = {"absent": 29}
    assert producer.send("absent", b"v").exception(GIVE_UP_S).outcome == "not_sent"
    assert producer.send("no such name", b"v").exception(GIVE_UP_S).outcome == "not_sent"
    assert len(producer.send_batch("absent", [b"a", b"b"]).result(GIVE_UP_S).errors) == 2
    summary = producer.close()
    assert (summary.delivered, summary.failed) == (9, {"not_sent": 4, "rejected": 3, "unknown": 0})
    assert {topic: (one.delivered, one.failed) for topic, one in summary.topics.items()} == {
        "absent": (0, {**NOTHING, "not_sent": 3}), "no such name": (0, {**NOTHING, "not_sent": 1}),
        "t": (8, {**NOTHING, "rejected": 1}),
        "u": (1, {**NOTHING, "rejected": 2})}
    assert not summary
    assert producer.close() == summary, "each call tells the same"


def test_close_when_it_gives_up_on_records_then_the_summary_tells_how(facades: Facades) -> None:
    facade = facades(**{"linger.ms": 0})
    facade.know()
    facade.broker.holds = True
    futures = [facade.producer.send("t", b"v", partition=0)]
    facade.broker.await_requests(1)
    facade.broker.is_reachable = False
    futures.append(facade.producer.send("t", b"v", partition=1))
    futures.append(facade.producer.send("not-known", b"v"))
    summary = facade.producer.close(0)
    assert (summary.delivered, summary.failed) == (0, {"not_sent": 2, "rejected": 0, "unknown": 1})
    assert [future.exception(0).outcome for future in futures] == ["unknown", "not_sent", "not_sent"]


def test_close_when_called_in_a_callback_then_it_tells_what_there_is_so_far(facades: Facades) -> None:
    facade = facades(**{"linger.ms": 0, "pyproducer.on.unretrieved": "raise"})
    facade.know()
    facade.broker.error_code = INVALID_RECORD
    fail_one(facade)
    told: list[Any] = []

    def on_completion(*_: object) -> None:
        told.append(facade.producer.close())

    facade.producer.send("t", b"v", partition=1, on_completion=on_completion)
    with pytest.raises(DeliveryFailedError, match="1 record"):
        facade.producer.close()
    assert [type(summary) for summary in told] == [DeliverySummary], "nothing is raised in a callback"


def test_close_when_records_waited_for_their_topic_then_they_count(facades: Facades) -> None:
    facade = facades(**{"linger.ms": 0})
    for _ in range(3):
        facade.producer.send("t", b"v")  # no metadata so far
    assert facade.producer.close().topics["t"].delivered == 3


def test_close_when_the_process_was_forked_then_the_childs_summary_is_empty(facades: Facades) -> None:
    facade = refusing(facades, **{"pyproducer.on.unretrieved": "raise"})
    fail_one(facade)
    with pytest.raises(DeliveryFailedError):
        facade.producer.close()
    facade.life.mark_forked()
    assert facade.producer.close() == DeliverySummary()


# flush(raise_on_error=True) -------------------------------------------------------------------------------------------

def test_flush_when_records_failed_then_it_raises_for_all_since_the_last_one(facades: Facades) -> None:
    facade = refusing(facades)
    producer = facade.producer
    producer.flush(raise_on_error=True)
    assert fail_one(facade).exception(0) is not None, "looked at or not"
    producer.send_batch("t", [b"a", b"b"], partitions=[1, 1])
    with pytest.raises(DeliveryFailedError) as caught:
        producer.flush(GIVE_UP_S, raise_on_error=True)
    error = caught.value
    assert (error.failed, error.topics) == ({**NOTHING, "rejected": 3}, {"t": {**NOTHING, "rejected": 3}})
    assert sorted((one.partition, one.count, one.outcome) for one in error.errors) == [
        (0, 1, "rejected"), (1, 2, "rejected")]
    assert error.outcome == "rejected"
    assert "3 record(s) failed since the last flush() (3 rejected)" in str(error)
    producer.flush(raise_on_error=True)
    fail_one(facade)
    producer.flush()
    producer.flush(raise_on_error=True)


def test_flush_when_send_returned_a_failed_future_then_it_raises_for_that(facades: Facades) -> None:
    facade = facades(**{"max.block.ms": 0})
    facade.producer.send("absent", b"v")
    with pytest.raises(DeliveryFailedError) as caught:
        facade.producer.flush(raise_on_error=True)
    assert caught.value.outcome == "not_sent"
    assert caught.value.topics == {"absent": {**NOTHING, "not_sent": 1}}


def test_flush_when_its_time_is_over_then_its_period_goes_on(facades: Facades) -> None:
    clock = ManualClock()
    facade = refusing(facades, clock)
    waits = CallerWaits(clock, facade.broker.wakeup)
    fail_one(facade)
    facade.broker.holds = True
    facade.producer.send("t", b"v", partition=0)
    facade.broker.await_requests(2)
    with waits, pytest.raises(KafkaError, match="was not done within 1 s"):
        facade.producer.flush(1, raise_on_error=True)
    facade.broker.answer()
    with pytest.raises(DeliveryFailedError) as caught:
        facade.producer.flush(GIVE_UP_S, raise_on_error=True)
    assert caught.value.failed["rejected"] == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_flush_when_the_producer_is_dead_then_it_says_so_with_the_worst_outcome(facades: Facades) -> None:
    facade = facades(**{"linger.ms": 0})
    facade.know()
    facade.broker.holds = True
    future = facade.producer.send("t", b"v", partition=0)
    facade.broker.await_requests(1)

    def die() -> None:
        def recover(_now_ms: int) -> None:
            raise ZeroDivisionError("a bug")
        facade.producer._runtime.io_thread._sender.recover = recover  # type: ignore[assignment,method-assign]
        raise ZeroDivisionError("a bug")

    facade.broker.run(die)
    assert isinstance(future.exception(GIVE_UP_S), ProducerDeadError)
    with pytest.raises(ProducerDeadError) as caught:
        facade.producer.flush(raise_on_error=True)
    assert caught.value.outcome == "unknown"


class Local:
    """What a caller has at hand when a call of his raises."""


@pytest.mark.parametrize("how", ["result", "flush", "strict flush", "strict close"])
def test_error_when_it_was_caught_and_dropped_then_nothing_of_the_callers_is_kept(facades: Facades, how: str) -> None:
    """The error, its traceback and the frame that had raised it held each other, and with them all frames on the way:
    each failed result() left its caller's data behind until the garbage collector came.
    """
    facade = refusing(facades, **{"pyproducer.on.unretrieved": "raise" if "strict" in how else "log"})
    future = fail_one(facade)

    def catch() -> weakref.ref[Local]:
        local = Local()
        try:
            if how == "result":
                future.result(0)
            elif how == "strict close":
                facade.producer.close()
            else:
                facade.producer.flush(raise_on_error=how == "flush")
        except KafkaError:
            return weakref.ref(local)
        raise AssertionError("nothing was raised")

    gc.disable()
    try:
        assert catch()() is None
    finally:
        gc.enable()


# Futures that nobody looked at ----------------------------------------------------------------------------------------

def look_by_result(future: Any) -> None:
    with pytest.raises(KafkaError):
        future.result(GIVE_UP_S)


def look_by_await(future: Any) -> None:
    async def wait() -> None:
        await future
    with pytest.raises(KafkaError):
        asyncio.run(wait())


LOOKS: dict[str, Callable[[Any], object]] = {
    "result": look_by_result,
    "exception": lambda future: future.exception(GIVE_UP_S),
    "await": look_by_await,
    "done callback": lambda future: future.add_done_callback(lambda _: None),
}


@pytest.mark.parametrize("is_early", [False, True], ids=["decided", "before"])
@pytest.mark.parametrize("how", LOOKS)
def test_future_when_somebody_looks_at_it_then_it_is_not_unretrieved(
        facades: Facades, how: str, is_early: bool) -> None:
    facade = refusing(facades)
    if is_early:
        facade.broker.holds = True
        future = facade.producer.send("t", b"v", partition=0)
        looking = threading.Thread(target=LOOKS[how], args=(future,))
        looking.start()
        facade.broker.await_requests(1)
        if how == "done callback":
            looking.join(GIVE_UP_S)
        facade.broker.answer(INVALID_RECORD)
        looking.join(GIVE_UP_S)
    else:
        LOOKS[how](fail_one(facade))
    facade.producer.flush()
    assert ended(facade) == 0


def test_future_when_it_has_a_callback_then_it_is_not_unretrieved(facades: Facades) -> None:
    facade = refusing(facades)
    fail_one(facade, on_completion=lambda *_: None)
    facade.broker.topic_errors = {"forbidden": 29}
    facade.producer.send("forbidden", b"v", on_completion=lambda *_: None)
    facade.producer.flush()
    assert ended(facade) == 0


def test_future_when_its_failure_is_only_seen_by_interceptors_then_it_is_unretrieved(facades: Facades) -> None:
    """They hear of every record; the application that sent this one does not know."""
    facade = refusing(facades, **{"interceptor.classes": [ProducerInterceptor()]})
    fail_one(facade)
    fail_one(facade, on_completion=lambda *_: None)
    assert ended(facade) == 1


@pytest.mark.parametrize("look", [lambda future: future.done(), repr, lambda future: future.cancelled()])
def test_future_when_it_is_only_asked_whether_it_is_done_then_it_is_unretrieved(
        facades: Facades, look: Callable[[Any], object]) -> None:
    facade = refusing(facades)
    look(fail_one(facade))
    assert ended(facade) == 1


def test_future_when_its_await_was_given_up_then_it_is_unretrieved(facades: Facades) -> None:
    facade = refusing(facades)
    facade.broker.holds = True

    async def give_up() -> None:
        async def wait() -> None:
            await future
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(), 0.01)

    future = facade.producer.send("t", b"v", partition=0)
    asyncio.run(give_up())
    rows = facade.producer.send_batch("t", [b"v"], partitions=[0])
    future_of_rows = rows
    facade.broker.await_requests(1)

    async def give_up_rows() -> None:
        async def wait() -> None:
            await future_of_rows
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(), 0.01)

    asyncio.run(give_up_rows())
    facade.broker.holds = False
    facade.broker.wakeup()
    await_done(future)
    await_done(rows)
    assert ended(facade) == 2


def test_future_when_a_wait_for_it_was_too_short_then_it_is_unretrieved(facades: Facades) -> None:
    facade = refusing(facades)
    facade.broker.holds = True
    future = facade.producer.send("t", b"v", partition=0)
    rows = facade.producer.send_batch("t", [b"v"], partitions=[1])
    for one in (future, rows):
        with pytest.raises(KafkaError, match=r"within 0\.01 s"):
            one.result(0.01)
    facade.broker.holds = False
    facade.broker.wakeup()
    await_done(future)
    await_done(rows)
    assert ended(facade) == 2


def test_futures_when_only_some_of_a_batch_are_looked_at_then_the_others_count(facades: Facades) -> None:
    facade = refusing(facades, **{"linger.ms": 10_000})
    futures = [facade.producer.send("t", b"v", partition=0) for _ in range(10)]
    facade.producer.send_batch("t", [b"v"] * 4, partitions=[0] * 4)
    facade.producer.flush()
    assert len(facade.broker.requests) == 1
    for index in (0, 3, 9, 9):
        assert futures[index].exception(0) is not None
    assert ended(facade) == 7 + 4


@pytest.mark.parametrize("how", ["result", "exception", "await", "done callback"])
@pytest.mark.parametrize("is_waiting", [False, True], ids=["batches", "waiting room"])
def test_rows_when_somebody_looks_at_their_future_then_they_are_not_unretrieved(
        facades: Facades, how: str, is_waiting: bool) -> None:
    facade = refusing(facades)
    topic = "forbidden" if is_waiting else "t"
    facade.broker.topic_errors = {"forbidden": 29}
    rows = facade.producer.send_batch(topic, [b"a", b"b"])
    if how == "await":
        async def wait() -> Any:
            return await rows
        assert len(asyncio.run(wait()).errors) == 2
    elif how == "result":
        assert len(rows.result(GIVE_UP_S).errors) == 2
    else:
        LOOKS[how](rows)
    facade.producer.flush()
    await_done(rows)
    assert ended(facade) == 0


@pytest.mark.parametrize("serializer", [None, "string"], ids=["columns", "row by row"])
@pytest.mark.parametrize("topic", ["t", "forbidden", "absent"])
def test_rows_when_nobody_looks_at_their_future_then_they_are_unretrieved(
        facades: Facades, topic: str, serializer: str | None) -> None:
    facade = refusing(facades, serializers=(serializer, serializer), **{
        "max.block.ms": 0 if topic == "absent" else 60_000})
    facade.broker.topic_errors = {"forbidden": 29}
    facade.producer.send_batch(topic, [b"a", b"b"] if serializer is None else ["a", "b"])
    facade.producer.flush()
    summary = facade.producer.close()
    assert summary.topics[topic].failed == {**NOTHING, "rejected" if topic == "t" else "not_sent": 2}
    assert unretrieved(facade) == 2


def test_future_when_the_producer_is_closed_while_somebody_waits_for_it_then_he_is_told_and_it_is_not_unretrieved(
        facades: Facades, caplog: pytest.LogCaptureFixture) -> None:
    facade = facades(**{"linger.ms": 0})
    facade.know()
    facade.broker.holds = True
    futures = [facade.producer.send("t", b"v", partition=0)]
    facade.broker.await_requests(1)
    rows = facade.producer.send_batch("t", [b"v"], partitions=[1])
    facade.broker.await_requests(2)
    told: list[Any] = []
    threads = [threading.Thread(target=lambda one=one: told.append(one.exception(GIVE_UP_S)))  # type: ignore[misc]
               for one in (*futures, rows)]
    for thread in threads:
        thread.start()
    deadline_s = time.monotonic() + GIVE_UP_S
    while not (facade.life.tally.waiting and rows._lookers):
        assert time.monotonic() < deadline_s, "they do not wait"
        time.sleep(0.001)
    facade.producer.close(0)
    for thread in threads:
        thread.join(GIVE_UP_S)
    assert [error.outcome for error in told] == ["unknown", "unknown"]
    assert unretrieved(facade) == 0
    assert "nobody looked" not in caplog.text


def test_futures_when_they_go_unseen_then_the_log_tells_after_a_while_and_after_a_flood_how_many(
        facades: Facades, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    facade = refusing(facades, clock)
    count = 50
    for _ in range(count):
        fail_one(facade)
    facade.broker.requests.clear()  # with their batches
    facade.broker.take_turns()
    assert unretrieved(facade) == 0, "flush(raise_on_error=True) may come and tell of them"
    lines = [message for message in caplog.messages if "failed, outcome rejected: INVALID_RECORD" in message]
    assert len(lines) == MOST_LINES
    assert lines[0].startswith("1 record(s) for t-0 failed, outcome rejected: INVALID_RECORD: ")
    clock.advance(GRACE_MS)
    facade.broker.take_turns()
    assert unretrieved(facade) == count
    assert caplog.text.count("and nobody looked at their futures") == MOST_LINES
    facade.producer.close()
    rest = count - MOST_LINES
    assert f"{rest} more failures, of {rest} records, were left out here" in caplog.messages
    assert f"{rest} more failures that nobody looked at, of {rest} records, were left out here" in caplog.messages
    assert {record.levelno for record in caplog.records if "record" in record.getMessage()} == {logging.WARNING}


def test_futures_when_a_flush_raised_for_them_then_they_are_not_unretrieved(facades: Facades) -> None:
    facade = refusing(facades, ManualClock())
    held = [fail_one(facade), facade.producer.send_batch("t", [b"v"])]
    facade.producer.send("t", b"v")
    facade.producer.send_batch("t", [b"v", b"v"])
    with pytest.raises(DeliveryFailedError, match="5 record"):
        facade.producer.flush(raise_on_error=True)
    assert ended(facade) == 0
    assert held


def test_futures_when_a_flush_did_not_raise_for_those_that_are_gone_then_they_are_unretrieved_at_once(
        facades: Facades) -> None:
    facade = refusing(facades)
    fail_one(facade)
    facade.broker.requests.clear()  # with their batches
    facade.producer.flush()
    facade.broker.take_turns()
    assert unretrieved(facade) == 1


def drop(facades: Facades) -> None:
    """Let the last reference to the producer go that was made last."""
    del facades._made.pop().producer
    gc.collect()


# pyproducer.on.unretrieved=raise --------------------------------------------------------------------------------------

@pytest.fixture
def strict(facades: Facades) -> Iterator[Facade]:
    facade = refusing(facades, **{"pyproducer.on.unretrieved": "RAISE"})
    yield facade
    try:
        facade.producer.close(0)
    except DeliveryFailedError:
        pass  # of the test's own


def test_strict_flush_when_nobody_looked_then_it_raises_once(strict: Facade) -> None:
    held = fail_one(strict)
    strict.producer.send("t", b"v")
    assert fail_one(strict).exception(0) is not None
    with pytest.raises(DeliveryFailedError, match=r"2 record.* nobody looked at their futures") as caught:
        strict.producer.flush()
    assert caught.value.failed == {**NOTHING, "rejected": 2}
    strict.producer.flush()
    assert strict.producer.close().failed["rejected"] == 3
    assert unretrieved(strict) == 0, "the application was told"
    assert held


def test_strict_close_when_nobody_looked_then_it_has_closed_and_raises_once(
        strict: Facade, caplog: pytest.LogCaptureFixture) -> None:
    strict.producer.send("t", b"v")
    with pytest.raises(DeliveryFailedError):
        strict.producer.close()
    assert strict.life.is_over
    assert strict.broker.is_closed
    assert strict.producer.close().failed["rejected"] == 1
    assert "nobody looked" in caplog.text


def test_strict_exit_when_the_body_raised_then_that_is_what_is_seen(strict: Facade) -> None:
    def body() -> None:
        with strict.producer:
            fail_one(strict)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    assert strict.life.is_over


def test_strict_exit_when_the_body_came_to_its_end_then_it_raises(strict: Facade) -> None:
    with pytest.raises(DeliveryFailedError), strict.producer:
        strict.producer.send("t", b"v")


def test_strict_producer_when_its_last_reference_goes_then_the_log_tells(
        facades: Facades, caplog: pytest.LogCaptureFixture) -> None:
    facade = refusing(facades, **{"pyproducer.on.unretrieved": "raise"})
    fail_one(facade)
    life = facade.life
    with pytest.warns(ResourceWarning, match="unclosed"):
        drop(facades)
    assert life.await_end(GIVE_UP_S)
    assert "nobody looked" in caplog.text


def test_producer_when_a_send_failed_and_its_last_reference_goes_then_it_is_closed(facades: Facades) -> None:
    """What a tally keeps of an error must not be its traceback: on the Python text that holds the producer."""
    facade = facades(**{"max.block.ms": 0})
    facade.producer.send("absent", b"v")
    life = facade.life
    with pytest.warns(ResourceWarning, match="unclosed"):
        drop(facades)
    assert life.await_end(GIVE_UP_S)
