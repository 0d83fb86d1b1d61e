"""What the futures and callbacks of send() tell, when, how often and to whom."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from pyproducer import DisconnectedError, InvalidTopicError, KafkaTimeoutError, RecordTooLargeError
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import Node, TopicPartition
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import MESSAGE_TOO_LARGE, NOT_LEADER, CallerWaits, Facade, Facades

LONG_MS = 10_000_000
REFUSED = 17  # INVALID_TOPIC_EXCEPTION, which nobody retries


def holding(facades: Facades, clock: ManualClock | None = None, **props: object) -> Facade:
    """A producer whose broker leaves what it gets unanswered; the topic is known."""
    facade = facades(clock, **{"linger.ms": 0, **props})
    facade.know()
    facade.broker.holds = True
    return facade


def send_in_one_batch(facade: Facade, count: int, on_completion: Any) -> list[Any]:
    """Send records that travel in one batch: `on_completion(number, metadata, exception)`."""
    futures = [facade.producer.send("t", b"%d" % number, key=b"key", partition=0, timestamp=1000 + number,
                                    on_completion=lambda *what, number=number: on_completion(number, *what))
               for number in range(count)]
    flushing = threading.Thread(target=facade.producer.flush)
    flushing.start()
    facade.broker.await_requests(1)
    assert [len(values) for _, _, values in facade.broker.sent] == [count]
    return [*futures, flushing]


LINGERING = {"linger.ms": LONG_MS, "delivery.timeout.ms": 2 * LONG_MS}


def test_callbacks_when_a_batch_is_stored_then_each_is_called_once_in_order_with_the_metadata(
        facades: Facades) -> None:
    facade, told = holding(facades, **LINGERING), []
    *futures, flushing = send_in_one_batch(facade, 3, lambda *what: told.append(what))
    assert told == []
    assert [future.done() for future in futures] == [False] * 3
    facade.broker.answer()
    flushing.join()
    assert [(number, metadata.offset, exception) for number, metadata, exception in told] == [
        (0, 100, None), (1, 101, None), (2, 102, None)]
    for number, future in enumerate(futures):
        metadata = future.result(0)
        assert metadata == told[number][1]
        assert metadata == ("t", 0, 100 + number, 1000 + number, 3, 1)
        assert (future.done(), future.cancelled(), future.exception(0)) == (True, False, None)
    facade.producer.close()
    assert len(told) == 3


def test_callbacks_when_a_batch_fails_then_each_is_called_once_in_order_with_an_error_of_its_own(
        facades: Facades) -> None:
    facade, told = holding(facades, **LINGERING), []
    *futures, flushing = send_in_one_batch(facade, 2, lambda *what: told.append(what))
    facade.broker.answer(REFUSED)
    flushing.join()
    assert [(number, metadata) for number, metadata, _ in told] == [(0, None), (1, None)]
    errors = [error for _, _, error in told] + [future.exception(0) for future in futures * 2]
    for future in futures:
        with pytest.raises(InvalidTopicError) as caught:
            future.result(0)
        errors.append(caught.value)
    assert [type(error) for error in errors] == [InvalidTopicError] * 8
    assert len({id(error) for error in errors}) == 8, "tracebacks of several threads must not pile up on one"
    assert len({str(error) for error in errors}) == 1
    assert [error.code for error in errors] == [REFUSED] * 8
    assert all(error.__cause__ is None for error in errors), "each traceback says it once"


@pytest.mark.parametrize("error_code", [0, REFUSED])
def test_callbacks_when_one_raises_then_the_others_are_told_and_it_is_logged(
        facades: Facades, caplog: pytest.LogCaptureFixture, error_code: int) -> None:
    facade, told = holding(facades, **LINGERING), []

    def on_completion(number: int, _metadata: object, _exception: object) -> None:
        told.append(number)
        if number != 1:
            raise LookupError(f"callback {number}")

    *futures, flushing = send_in_one_batch(facade, 3, on_completion)
    facade.broker.answer(error_code)
    flushing.join()
    assert told == [0, 1, 2]
    assert [future.exception(0) is None for future in futures] == [error_code == 0] * 3
    logged = [record.exc_info[1] for record in caplog.records if record.exc_info is not None]
    assert [str(error) for error in logged] == ["callback 0", "callback 2"]
    assert facade.producer.send("t", b"v", partition=1) is not None
    facade.broker.holds = False
    facade.producer.flush(GIVE_UP_S)


@pytest.mark.parametrize("error_code", [0, REFUSED])
def test_future_when_the_callback_runs_then_it_is_decided(facades: Facades, error_code: int) -> None:
    facade, seen = holding(facades), []
    futures: list[Any] = []

    def on_completion(metadata: Any, exception: Any) -> None:
        future = futures[0]
        seen.append((future.done(), future.exception(0) is None, metadata is None))

    futures.append(facade.producer.send("t", b"v", partition=0, on_completion=on_completion))
    facade.broker.await_requests(1)
    facade.broker.answer(error_code)
    assert seen == [(True, error_code == 0, error_code != 0)]


def test_future_when_done_callbacks_were_added_then_each_runs_once_after_the_callback_in_order(
        facades: Facades, caplog: pytest.LogCaptureFixture) -> None:
    facade, events = holding(facades), []
    future = facade.producer.send("t", b"v", partition=0, on_completion=lambda *_: events.append("callback"))

    def failing(_future: object) -> None:
        events.append("first")
        raise LookupError

    future.add_done_callback(failing)
    future.add_done_callback(lambda given: events.append(given))
    facade.broker.await_requests(1)
    facade.broker.answer()
    assert events == ["callback", "first", future]
    assert "a done callback of <FutureRecordMetadata" in caplog.text
    future.add_done_callback(lambda given: events.append("late"))
    assert events[3:] == ["late"], "one that is added later runs at once"


def test_future_when_a_done_callback_is_added_and_the_record_fails_then_it_runs(facades: Facades) -> None:
    facade, seen = holding(facades), []
    future = facade.producer.send("t", b"v", partition=0)
    future.add_done_callback(lambda given: seen.append(type(given.exception(0))))
    facade.broker.await_requests(1)
    facade.broker.answer(MESSAGE_TOO_LARGE)
    assert seen == [RecordTooLargeError]


@pytest.mark.parametrize("ask", ["result", "exception"])
@pytest.mark.parametrize(("timeout_s", "waited_ms"), [(2, 2000), (0.25, 250), (0, 0), (-1, 0)])
def test_future_when_it_is_not_done_in_time_then_it_waited_exactly_that_long(
        facades: Facades, ask: str, timeout_s: float, waited_ms: int) -> None:
    clock = ManualClock()
    facade = holding(facades, clock)
    waits = CallerWaits(clock, facade.broker.wakeup)
    future = facade.producer.send("t", b"v", partition=0)
    with waits, pytest.raises(KafkaTimeoutError, match=f"not done within {timeout_s} s; it is still on") as caught:
        getattr(future, ask)(timeout_s)
    assert (caught.value.phase, caught.value.outcome) == ("future", "unknown")
    assert clock.now_ms() == waited_ms
    assert not future.done(), "who only asked has decided nothing"
    facade.broker.await_requests(1)
    facade.broker.answer()
    assert future.result(0).offset == 100


@pytest.mark.parametrize("ask", ["result", "exception"])
@pytest.mark.parametrize("timeout_s", [None, 2])
def test_future_when_it_is_answered_during_the_wait_then_the_wait_ends_then(
        facades: Facades, ask: str, timeout_s: float | None) -> None:
    clock = ManualClock()
    facade = holding(facades, clock)
    waits = CallerWaits(clock, facade.broker.wakeup)
    future = facade.producer.send("t", b"v", partition=0)
    facade.broker.await_requests(1)
    waits.at(300, facade.broker.answer)
    with waits:
        assert (getattr(future, ask)(timeout_s) is None) == (ask == "exception")
    assert clock.now_ms() == 300


def test_batch_future_when_it_is_not_done_in_time_then_it_waited_exactly_that_long(facades: Facades) -> None:
    clock = ManualClock()
    facade = holding(facades, clock)
    waits = CallerWaits(clock, facade.broker.wakeup)
    future = facade.producer.send_batch("t", [b"a", b"b"], partitions=[0, 1])
    with waits, pytest.raises(KafkaTimeoutError, match=r"2 of 2 rows for t were not done within 2 s"):
        future.result(2)
    assert clock.now_ms() == 2000
    facade.broker.take_turns()
    facade.broker.answer()
    assert list(future.result(0).offsets) == [100, 100]


def test_batch_future_when_rows_are_done_then_its_callbacks_run_once_when_the_last_is(facades: Facades) -> None:
    facade, seen = holding(facades), []
    future = facade.producer.send_batch("t", [b"a", b"b", b"c"], partitions=[0, 1, 0])
    future.add_done_callback(lambda given: seen.append((given, list(given.result(0).offsets))))
    facade.broker.take_turns()
    facade.broker.answer()
    assert seen == [(future, [100, 100, 101])]
    metadata = future.result(0)
    assert list(metadata.offsets) == [100, 100, 101]
    assert list(metadata.partitions) == [0, 1, 0]
    assert future.exception(0) is None
    future.add_done_callback(lambda given: seen.append("late"))
    assert seen[1:] == ["late"]


@pytest.mark.parametrize("as_rows", [False, True])
def test_future_when_awaited_then_the_loop_goes_on_meanwhile_and_gets_the_outcome(
        facades: Facades, *, as_rows: bool) -> None:
    facade, events = holding(facades), []
    future: Any = (facade.producer.send_batch("t", [b"v"], partitions=[0]) if as_rows
                   else facade.producer.send("t", b"v", partition=0))
    facade.broker.await_requests(1)

    async def wait() -> None:
        metadata = await future
        events.append(list(metadata.offsets) if as_rows else [metadata.offset])

    async def main() -> None:
        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        events.append("the loop goes on")
        await asyncio.get_running_loop().run_in_executor(None, facade.broker.answer)
        await waiting
        await wait()  # of one that is done already

    asyncio.run(main())
    assert events == ["the loop goes on", [100], [100]]


def test_future_when_awaited_and_the_record_fails_then_it_raises(facades: Facades) -> None:
    facade = facades()
    facade.broker.error_code = MESSAGE_TOO_LARGE

    async def main() -> None:
        await facade.producer.send("t", b"v")

    with pytest.raises(RecordTooLargeError):
        asyncio.run(main())


def test_future_when_the_awaiting_task_is_cancelled_then_the_record_is_sent_all_the_same(facades: Facades) -> None:
    facade = holding(facades)
    future = facade.producer.send("t", b"v", partition=0)

    async def wait() -> None:
        await future

    async def main() -> None:
        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    facade.broker.await_requests(1)
    facade.broker.answer()  # tells a loop that is closed by now
    assert future.result(0).offset == 100


@pytest.mark.parametrize(("acks", "offset"), [("0", -1), ("1", 100), ("all", 100)])
def test_future_when_acks_differ_then_only_acks_0_has_no_offset(facades: Facades, acks: str, offset: int) -> None:
    facade = holding(facades, **{"acks": acks}, **LINGERING)
    told: list[Any] = []
    *futures, flushing = send_in_one_batch(facade, 2, lambda *what: told.append(what))
    facade.broker.answer()
    flushing.join()
    for number, future in enumerate(futures):
        metadata = future.result(0)
        assert metadata == told[number][1]
        assert metadata.offset == (offset + number if offset >= 0 else -1)
        assert (metadata.has_offset, metadata.timestamp) == (offset >= 0, 1000 + number)


def test_future_when_the_topic_has_log_append_time_then_that_is_the_timestamp(facades: Facades) -> None:
    facade = holding(facades)
    future = facade.producer.send("t", b"v", partition=0, timestamp=5)
    facade.broker.await_requests(1)
    facade.broker.answer(timestamp=777)
    assert future.result(0).timestamp == 777


def test_future_when_shown_then_it_says_whether_it_is_done(facades: Facades) -> None:
    facade = holding(facades)
    futures = [facade.producer.send("t", b"v", partition=0)]
    facade.broker.await_requests(1)
    assert repr(futures[0]) == "<FutureRecordMetadata t-0 pending>"
    facade.broker.answer()
    assert repr(futures[0]) == "<FutureRecordMetadata t-0 done>"
    failing = facade.producer.send("t", b"v", partition=0)
    facade.broker.await_requests(2)
    facade.broker.answer(MESSAGE_TOO_LARGE)
    assert repr(failing) == "<FutureRecordMetadata t-0 failed>"


def test_metrics_when_nothing_happened_yet_then_every_name_is_there_and_totals_are_0(facades: Facades) -> None:
    facade = facades()
    before = facade.producer.metrics()
    assert [before[name] for name in ("record-send-total", "record-error-total", "record-retry-total")] == [0, 0, 0]
    facade.producer.send("t", b"v", partition=0).result(GIVE_UP_S)
    after = facade.producer.metrics()
    assert after["record-send-total"] == 1
    assert {name for name in after if ".node-" not in name} == set(before)


def test_metrics_when_records_end_then_each_is_counted_once(facades: Facades) -> None:
    facade = facades()
    facade.producer.send_batch("t", [b"a", b"b"], partitions=[0, 0]).result(GIVE_UP_S)
    facade.broker.error_code = MESSAGE_TOO_LARGE
    facade.producer.send("t", b"c", partition=0).exception(GIVE_UP_S)
    metrics = facade.producer.metrics()
    assert (metrics["record-send-total"], metrics["record-error-total"]) == (2, 1)
    assert (metrics["produce-request-total"], metrics["waiting-threads"]) == (2, 0)
    assert metrics["buffer-total-bytes"] == 32 * 1024 * 1024
    assert metrics["bufferpool-wait-time-ns-total"] == 0


@pytest.mark.parametrize("leader", [Node(2, "elsewhere", 9093), Node(1, "moved", 9094)],
                         ids=["unknown node", "known node at a new address"])
def test_record_when_the_answer_names_a_new_leader_then_it_is_sent_there_at_once(
        facades: Facades, leader: Node) -> None:
    """KIP-951: the answer that refuses a record says who leads the partition now and where that one listens."""
    clock = ManualClock()
    facade = holding(facades, clock, **{"retry.backoff.ms": 5000, "retry.backoff.max.ms": 5000})
    facade.broker.holds_metadata = True
    future = facade.producer.send("t", b"v", partition=0)
    facade.broker.await_requests(1)
    assert facade.broker.requests[0].destination == 1
    facade.broker.answer(NOT_LEADER, leader=leader)
    facade.broker.await_requests(2)
    assert clock.now_ms() == 0, "no backoff was waited out, and no metadata was asked for"
    assert facade.broker.requests[1].destination == leader.node_id
    assert facade.broker.nodes[leader.node_id] == leader
    facade.broker.answer()
    assert future.result(0).offset == 100


def test_record_when_the_answer_names_no_new_leader_then_it_waits_for_its_backoff(facades: Facades) -> None:
    clock = ManualClock()
    facade = holding(facades, clock, **{"retry.backoff.ms": 5000, "retry.backoff.max.ms": 5000})
    facade.producer.send("t", b"v", partition=0)
    facade.broker.await_requests(1)
    facade.broker.answer(NOT_LEADER)
    facade.broker.take_turns()
    assert len(facade.broker.requests) == 1
    clock.advance(6001)  # with the jitter of a fifth
    facade.broker.wakeup()
    facade.broker.await_requests(2)


@pytest.mark.parametrize("raising", [0, 1])
@pytest.mark.parametrize("is_stored", [True, False])
def test_batch_when_a_callback_raises_what_is_no_exception_then_everybody_is_told_once(
        raising: int, *, is_stored: bool) -> None:
    """Whatever a callback raises changes nothing; who is told again, by a recovery, hears nothing new."""
    told: list[str] = []
    batch = ProducerBatch(TopicPartition("t", 0), created_ms=0, write_limit_bytes=1000, reserved_bytes=0)

    def on_completion(number: int) -> None:
        told.append(f"callback {number}")
        if number == raising:
            raise KeyboardInterrupt

    futures: list[Any] = []
    for number in range(2):
        future: Any = batch.open.try_append(0, None, b"v", (), lambda *_, number=number: on_completion(number))
        future.add_done_callback(lambda _, number=number: told.append(f"done {number}"))
        futures.append(future)
    assert not batch.resume(), "nothing is decided yet"
    end = partial(batch.complete, 7) if is_stored else partial(batch.fail, lambda _index: DisconnectedError("gone"))
    end()
    assert sorted(told) == ["callback 0", "callback 1", "done 0", "done 1"]
    assert batch.resume()
    assert not batch.complete(8)
    assert len(told) == 4
    if is_stored:
        assert [future.result(0).offset for future in futures] == [7, 8]
    else:
        assert [type(future.exception(0)) for future in futures] == [DisconnectedError] * 2
