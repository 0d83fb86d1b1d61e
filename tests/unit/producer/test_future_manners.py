"""Futures of records and of columns in the hands of concurrent.futures and asyncio, which know their own only."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pyproducer import BatchFuture, FutureRecordMetadata, IllegalStateError, InvalidTopicError
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import Facade, Facades

REFUSED = 17


def holding(facades: Facades) -> Facade:
    facade = facades(**{"linger.ms": 0})
    facade.know()
    facade.broker.holds = True
    return facade


def answer(facade: Facade, error_code: int = 0) -> None:
    """Have the broker answer what it holds, and all from now on."""
    facade.broker.error_code, facade.broker.holds = error_code, False
    facade.broker.wakeup()


async def outcome_wrapped(facade: Facade, send: Callable[[], Any], error_code: int) -> Any:
    """Wrap a future twice, give one up, and return what the other has when the broker answered."""
    future = send()
    wrapped, given_up = asyncio.wrap_future(future), asyncio.wrap_future(future)
    given_up.cancel()
    await asyncio.sleep(0)
    answer(facade, error_code)
    return await asyncio.wait_for(wrapped, GIVE_UP_S)


def as_theirs(futures: Iterable[FutureRecordMetadata | BatchFuture]) -> list[Any]:
    """What a type checker is not to see: that our future is not derived from theirs."""
    return list(futures)


def test_future_when_asked_what_it_is_then_it_says_so_and_cannot_be_cancelled(facades: Facades) -> None:
    facade = holding(facades)
    future = facade.producer.send("t", b"v", partition=0)
    assert (future.running(), future.done(), future.cancel(), future.cancelled()) == (True, False, False, False)
    assert isinstance(future, concurrent.futures.Future)  # as far as asyncio.wrap_future asks
    assert isinstance(future, FutureRecordMetadata)
    facade.broker.await_requests(1)
    facade.broker.answer()
    assert (future.running(), future.done(), future.cancel(), future.cancelled()) == (False, True, False, False)


@pytest.mark.parametrize("when", ["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION"])
def test_wait_when_records_are_on_their_way_then_it_returns_as_it_says(facades: Facades, when: str) -> None:
    facade = holding(facades)
    first, second = futures = as_theirs([facade.producer.send("t", b"v", partition=0),
                                         facade.producer.send("t", b"v", partition=1)])
    facade.broker.await_requests(1)
    assert concurrent.futures.wait(futures, timeout=0, return_when=when) == (set(), set(futures))
    theirs: concurrent.futures.Future[int] = concurrent.futures.Future()
    theirs.set_result(1)
    assert concurrent.futures.wait([*futures, theirs], 0).done == {theirs}
    facade.broker.error_code, facade.broker.holds = REFUSED, False
    answering = threading.Thread(target=facade.broker.wakeup)
    answering.start()
    done, not_done = concurrent.futures.wait(futures, GIVE_UP_S, when)
    answering.join()
    assert done
    assert done | not_done == set(futures)
    if when == "ALL_COMPLETED":
        assert not not_done
    assert isinstance(first.exception(GIVE_UP_S), InvalidTopicError)
    assert isinstance(second.exception(GIVE_UP_S), InvalidTopicError)
    assert concurrent.futures.wait(futures).not_done == set()
    assert concurrent.futures.wait(futures, GIVE_UP_S, "FIRST_EXCEPTION").done == set(futures)


def test_as_completed_when_records_are_stored_then_each_comes_once(facades: Facades) -> None:
    facade = holding(facades)
    told: list[object] = []
    futures = as_theirs(facade.producer.send("t", b"v", partition=number % 2) for number in range(20))
    futures[0].add_done_callback(told.append)
    with pytest.raises(concurrent.futures.TimeoutError):
        next(concurrent.futures.as_completed(futures, timeout=0))
    answering = threading.Thread(target=lambda: (facade.broker.await_requests(1), facade.broker.answer()))
    answering.start()
    facade.broker.holds = False
    found = [future.result(0).offset for future in concurrent.futures.as_completed(futures * 2, GIVE_UP_S)]
    answering.join()
    assert sorted(found) == sorted([*range(100, 110), *range(100, 110)])
    assert told == futures[:1]
    assert {future.result(0).topic for future in concurrent.futures.as_completed(futures)} == {"t"}
    gc.collect()


def test_as_completed_when_it_begins_before_all_of_a_batch_are_told_then_each_comes_once(facades: Facades) -> None:
    """In a callback of the first record of a batch the others are done, and their own callbacks come later."""
    facade = holding(facades)
    first, *others = as_theirs(facade.producer.send("t", b"v", partition=0) for _ in range(4))
    theirs: concurrent.futures.Future[int] = concurrent.futures.Future()
    coming = concurrent.futures.as_completed([*others, theirs], GIVE_UP_S)
    found: list[Any] = []
    first.add_done_callback(lambda _: found.append(next(coming)))
    answer(facade)
    assert all(future.result(GIVE_UP_S) for future in (first, *others))
    facade.producer.flush()
    theirs.set_result(1)
    found += coming
    assert sorted(map(id, found)) == sorted(map(id, [*others, theirs]))


def test_wait_when_several_threads_wait_for_the_same_records_then_all_return(facades: Facades) -> None:
    facade = holding(facades)
    futures = as_theirs(facade.producer.send("t", b"v", partition=number % 2) for number in range(10))
    done: list[int] = []
    threads = [threading.Thread(target=lambda: done.append(len(concurrent.futures.wait(futures, GIVE_UP_S).done)))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    facade.broker.holds = False
    facade.broker.wakeup()
    for thread in threads:
        thread.join()
    assert done == [10] * 4


def test_wait_when_called_in_a_callback_then_refused(facades: Facades) -> None:
    facade = holding(facades)
    later = as_theirs([facade.producer.send("t", b"v", partition=1)])
    raised: list[str] = []

    def on_completion(_metadata: object, _exception: object) -> None:
        try:
            concurrent.futures.wait(as_theirs([facade.producer.send("t", b"v", partition=1)]))
        except IllegalStateError as error:
            raised.append(str(error))

    facade.producer.send("t", b"v", partition=0, on_completion=on_completion)
    facade.broker.holds = False
    facade.producer.flush(GIVE_UP_S)
    assert len(raised) == 1
    assert "concurrent.futures.wait() inside a callback would wait for itself" in raised[0]
    assert later[0].done()


def test_wait_when_refused_in_a_callback_then_the_other_futures_are_not_left_locked(
        facades: Facades, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was refused when concurrent.futures had locked some of the futures, by their ids, and those stayed so.

    An executor whose task was among them never finished it, and the program did not end.
    """
    facade = holding(facades)
    other: Any = concurrent.futures.Future()
    raised: list[type] = []
    # In order of ids: let it be that one first.
    monkeypatch.setattr(concurrent.futures._base, "sorted", lambda futures, key: sorted(
        futures, key=lambda future: future is not other), raising=False)

    def on_completion(_metadata: object, _exception: object) -> None:
        for call in (concurrent.futures.wait, lambda futures: next(concurrent.futures.as_completed(futures))):
            try:
                call([other, *as_theirs([facade.producer.send("t", b"v", partition=1)])])
            except IllegalStateError as error:
                raised.append(type(error))

    facade.producer.send("t", b"v", partition=0, on_completion=on_completion)
    facade.broker.holds = False
    facade.producer.flush(GIVE_UP_S)
    assert raised == [IllegalStateError] * 2
    finishing = threading.Thread(target=other.set_result, args=(1,), daemon=True)
    finishing.start()
    finishing.join(GIVE_UP_S)
    assert not finishing.is_alive()


@pytest.mark.parametrize("error_code", [0, REFUSED])
def test_wrap_future_when_awaited_then_it_has_the_outcome(facades: Facades, error_code: int) -> None:
    facade = holding(facades)
    scenario = outcome_wrapped(facade, lambda: facade.producer.send("t", b"v", partition=0), error_code)
    if error_code:
        with pytest.raises(InvalidTopicError):
            asyncio.run(scenario)
    else:
        assert asyncio.run(scenario).offset == 100


def test_wait_when_nobody_looks_at_what_failed_then_that_is_not_looking(facades: Facades) -> None:
    facade = holding(facades)
    future = as_theirs([facade.producer.send("t", b"v", partition=0)])
    answer(facade, REFUSED)
    concurrent.futures.wait(future, GIVE_UP_S)
    future.clear()
    facade.producer.close(GIVE_UP_S)
    assert facade.producer.metrics()["record-unretrieved-error-total"] == 1


# The future of a send_batch, which is of all its rows.

def test_batch_future_when_asked_what_it_is_then_it_says_so(facades: Facades) -> None:
    future = holding(facades).producer.send_batch("t", [b"v"])
    assert isinstance(future, concurrent.futures.Future)
    assert isinstance(future, BatchFuture)


@pytest.mark.parametrize("when", ["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION"])
def test_wait_when_columns_are_on_their_way_then_it_returns_as_it_says(facades: Facades, when: str) -> None:
    """They had nothing by which these functions could wait: AttributeError, after they had locked other futures."""
    facade = holding(facades)
    record, batch = futures = as_theirs([facade.producer.send("t", b"v", partition=0),
                                         facade.producer.send_batch("t", [b"v"] * 3, partitions=[1, 1, 1])])
    facade.broker.await_requests(1)
    assert concurrent.futures.wait(futures, timeout=0, return_when=when) == (set(), set(futures))
    told: list[object] = []
    batch.add_done_callback(told.append)
    facade.broker.error_code, facade.broker.holds = REFUSED, False
    answering = threading.Thread(target=facade.broker.wakeup)
    answering.start()
    done, not_done = concurrent.futures.wait(futures, GIVE_UP_S, when)
    answering.join()
    assert done
    assert done | not_done == set(futures)
    if when == "ALL_COMPLETED":
        assert not not_done
    assert isinstance(record.exception(GIVE_UP_S), InvalidTopicError)
    assert isinstance(batch.exception(GIVE_UP_S), InvalidTopicError)
    assert told == [batch]
    assert concurrent.futures.wait(futures).not_done == set()
    assert concurrent.futures.wait(futures, GIVE_UP_S, "FIRST_EXCEPTION").done == set(futures)


def test_as_completed_when_columns_are_stored_then_each_call_comes_once(facades: Facades) -> None:
    facade = holding(facades)
    futures = as_theirs(facade.producer.send_batch("t", [b"v"] * 5, partitions=[number % 2] * 5) for number in range(6))
    with pytest.raises(concurrent.futures.TimeoutError):
        next(concurrent.futures.as_completed(futures, timeout=0))
    facade.broker.holds = False
    answering = threading.Thread(target=facade.broker.wakeup)
    answering.start()
    found = [len(future.result(GIVE_UP_S)) for future in concurrent.futures.as_completed(futures * 2, GIVE_UP_S)]
    answering.join()
    assert found == [5] * 6
    assert {future.result(0).topic for future in concurrent.futures.as_completed(futures)} == {"t"}


def test_wait_for_columns_when_called_in_a_callback_then_refused(facades: Facades) -> None:
    facade = holding(facades)
    later = as_theirs([facade.producer.send_batch("t", [b"v"], partitions=[1])])
    raised: list[str] = []

    def on_completion(_metadata: object, _exception: object) -> None:
        batch = facade.producer.send_batch("t", [b"v"], partitions=[1])
        for call in (concurrent.futures.wait, lambda futures: next(concurrent.futures.as_completed(futures))):
            try:
                call(as_theirs([batch]))
            except IllegalStateError as error:
                raised.append(str(error))

    facade.producer.send("t", b"v", partition=0, on_completion=on_completion)
    facade.broker.holds = False
    facade.producer.flush(GIVE_UP_S)
    assert len(raised) == 2
    assert "concurrent.futures.wait() inside a callback would wait for itself" in raised[0]
    assert later[0].done()


@pytest.mark.parametrize("error_code", [0, REFUSED])
def test_wrap_future_when_it_is_of_columns_then_it_raises_what_exception_returns(
        facades: Facades, error_code: int) -> None:
    facade = holding(facades)
    scenario = outcome_wrapped(facade, lambda: facade.producer.send_batch("t", [b"v"] * 2, partitions=[0, 0]),
                               error_code)
    if error_code:
        with pytest.raises(InvalidTopicError):
            asyncio.run(scenario)
    else:
        assert list(asyncio.run(scenario).offsets) == [100, 101]


def test_wait_when_nobody_looks_at_rows_that_failed_then_that_is_not_looking(facades: Facades) -> None:
    facade = holding(facades)
    future = as_theirs([facade.producer.send_batch("t", [b"v"] * 2, partitions=[0, 0])])
    answer(facade, REFUSED)
    concurrent.futures.wait(future, GIVE_UP_S)
    future.clear()
    facade.producer.close(GIVE_UP_S)
    assert facade.producer.metrics()["record-unretrieved-error-total"] == 2


@pytest.mark.parametrize("error_code", [0, REFUSED])
def test_snapshot_when_python_3_14_asks_for_one_then_it_is_of_the_outcome(facades: Facades, error_code: int) -> None:
    facade = holding(facades)
    futures = as_theirs([facade.producer.send("t", b"v", partition=0),
                         facade.producer.send_batch("t", [b"v"], partitions=[0])])
    assert [future._get_snapshot() for future in futures] == [(False, False, None, None)] * 2
    answer(facade, error_code)
    for future in futures:
        concurrent.futures.wait([future], GIVE_UP_S)
        is_done, is_cancelled, result, error = future._get_snapshot()
        assert (is_done, is_cancelled) == (True, False)
        assert (result is None, type(error)) == ((True, InvalidTopicError) if error_code else (False, type(None)))
