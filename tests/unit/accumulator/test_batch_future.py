"""The outcome of one send_batch, told by ranges of rows."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer.accumulator.batch_future import BatchFuture, BatchMetadata, RowRange
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.produce_result import ProduceRequestResult
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import DisconnectedError, KafkaError, KafkaTimeoutError, LocalProtocolError
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S


def future_of(count: int = 5) -> BatchFuture:
    return BatchFuture("t", array("i", [0] * count), array("q", [1000 + row for row in range(count)]))


def rows_of(future: BatchFuture, first_index: int, *rows: int) -> RowRange:
    """A range whose rows are those, in a batch where it begins at an index."""
    return RowRange(future, first_index, array("i", (99, *rows, 99)), 1, len(rows))


def failing(kind: Callable[[str], KafkaError]) -> Callable[[int], KafkaError]:
    return lambda index: kind(f"index {index}")


def test_result_when_all_ranges_are_stored_then_each_row_has_its_offset() -> None:
    future = future_of()
    assert (len(future), future.done(), future.cancelled()) == (5, False, False)
    future.on_handed_over()
    future.on_stored(rows_of(future, 0, 4, 2), 100, -1)
    future.on_stored(rows_of(future, 3, 0, 1), 200, 7777)
    assert not future.done()
    assert repr(future) == "<BatchFuture t rows=5 pending>"
    future.on_stored(rows_of(future, 4, 3), -1, -1)  # no offset is known, wherever in its batch the row is
    assert future.done()
    result = future.result(0)
    assert list(result.offsets) == [203, 204, 101, -1, 100]
    assert list(result.timestamps) == [7777, 7777, 1002, 1003, 1004]
    assert list(result.partitions) == [0] * 5
    assert (result.errors, len(result), result.topic) == ({}, 5, "t")
    assert repr(future) == "<BatchFuture t rows=5 done>"
    assert repr(result) == "<BatchMetadata t rows=5 errors=0>"
    assert future.exception(0) is None
    result.raise_on_error()


def test_result_when_rows_are_not_handed_over_yet_then_it_is_not_done() -> None:
    future = future_of(1)
    future.on_stored(rows_of(future, 0, 0), 1, -1)
    assert not future.done()
    future.on_handed_over()
    assert future.done()


def test_result_when_a_call_has_no_rows_then_it_is_done_at_once() -> None:
    future = future_of(0)
    assert not future.done()
    future.on_handed_over()
    assert list(future.result(0).offsets) == []


def test_result_when_rows_failed_then_errors_are_by_row_in_order_and_the_first_one_is_raised() -> None:
    future = future_of()
    future.on_handed_over()
    rows_of(future, 10, 4, 1).fail(failing(LocalProtocolError))
    future.on_failed([3], failing(DisconnectedError))
    future.on_row(0, 2, 55, 66)
    future.on_stored(rows_of(future, 0, 2), 9, -1)
    result = future.result(0)
    assert {row: str(error) for row, error in result.errors.items()} == {1: "index 11", 3: "index 0", 4: "index 10"}
    assert list(result.errors) == [1, 3, 4]
    assert list(result.offsets) == [55, -1, 9, -1, -1]
    assert (result.partitions[0], result.timestamps[0]) == (2, 66)
    with pytest.raises(LocalProtocolError, match="index 11") as raised:
        result.raise_on_error()
    assert raised.value is not result.errors[1]
    assert raised.value.__cause__ is None, "its traceback says it once"
    error = future.exception(0)
    assert isinstance(error, LocalProtocolError)
    assert error is not result.errors[1]


def test_result_when_the_time_is_over_then_says_how_many_rows_are_on_their_way() -> None:
    future = future_of()
    future.on_handed_over()
    future.on_stored(rows_of(future, 0, 0, 1), 0, -1)
    with pytest.raises(KafkaTimeoutError, match=r"^3 of 5 rows for t were not done within 0 s") as raised:
        future.result(0)
    assert (raised.value.phase, raised.value.outcome) == ("future", "unknown")
    with pytest.raises(KafkaTimeoutError):
        future.exception(0)


def test_result_when_another_thread_ends_the_last_range_then_wakes_the_waiter() -> None:
    future = future_of(1)
    future.on_handed_over()
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(future.result(GIVE_UP_S).offsets[0]))
    thread.start()
    future.on_stored(rows_of(future, 0, 0), 8, -1)
    thread.join(GIVE_UP_S)
    assert seen == [8]


def waited(told: list[int], partition: int) -> ProduceRequestResult:
    """Return a batch's outcome that notes when somebody waits."""
    outcome = ProduceRequestResult(TopicPartition("t", partition))
    outcome.end_linger = lambda: told.append(partition)
    return outcome


def test_result_when_batches_linger_then_those_of_the_last_rows_are_told_that_somebody_waits() -> None:
    future = future_of()
    told: list[int] = []
    replaced, first, second, done = (waited(told, number) for number in range(4))
    done.end_linger = None
    future.on_appended(0, replaced)
    future.on_appended(0, first)
    future.on_appended(1, second)
    future.on_appended(2, done)
    with pytest.raises(KafkaTimeoutError):
        future.result(0)
    assert told == [1, 2]
    future.add_done_callback(lambda _: None)
    assert told == [1, 2, 1, 2], "who leaves a callback, or awaits, waits too"
    future.on_handed_over()
    future.on_stored(rows_of(future, 0, *range(5)), 0, -1)
    future.result(0)
    assert len(told) == 4, "nobody is told when there is nothing to wait for"


def test_observe_when_batches_linger_then_they_go_on_and_what_failed_was_looked_at_by_nobody() -> None:
    told: list[int] = []
    seen: list[BatchMetadata] = []
    future = future_of(1)
    future.on_appended(0, waited(told, 0))
    future.on_handed_over()
    future.observe(seen.append)
    assert (told, seen) == ([], [])
    future.on_failed([0], failing(DisconnectedError))
    assert [list(metadata.errors) for metadata in seen] == [[0]]
    assert not future._is_looked_at
    future.observe(seen.append)
    assert (len(seen), future._is_looked_at) == (2, False), "it was done already"
    future.add_done_callback(lambda _: None)
    assert future._is_looked_at


def test_wait_when_batches_linger_then_they_are_told_that_somebody_waits() -> None:
    future: Any = future_of()
    told: list[int] = []
    future.on_appended(0, waited(told, 7))
    assert concurrent.futures.wait([future], 0).not_done == {future}
    assert set(told) == {7}


def test_wait_for_the_first_exception_when_one_call_fails_then_the_others_are_not_waited_for() -> None:
    futures: list[Any] = [future_of(1), future_of(1)]
    stored, failed = futures
    for future in futures:
        future.on_handed_over()
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(concurrent.futures.wait(futures, return_when="FIRST_EXCEPTION")))
    waiting.start()
    give_up_s = time.monotonic() + GIVE_UP_S
    while not failed._waiters:
        assert time.monotonic() < give_up_s, "the thread does not wait"
        time.sleep(0.001)
    failed.on_failed([0], failing(DisconnectedError))
    waiting.join(GIVE_UP_S)
    stored.on_stored(rows_of(stored, 0, 0), 0, -1)  # the thread ends now, if it did not before
    waiting.join()
    assert found == [({failed}, {stored})]


def test_wait_when_it_was_begun_before_a_fork_then_the_child_has_locks_of_its_own() -> None:
    future: Any = future_of()
    before = future._condition
    future.on_forked()
    assert future._condition is not before


def test_range_when_it_is_told_again_after_an_interruption_then_its_rows_count_once() -> None:
    """Who was interrupted while it told a range tells it again: the future was done while rows were on their way."""
    future = future_of()
    future.on_handed_over()
    first, second = rows_of(future, 0, 3, 1), rows_of(future, 2, 0)
    for _ in range(3):
        future.on_stored(first, 10, -1)
        future.on_stored(second, 10, -1)
        assert not future.done()
    future.on_row(2, 0, 90, 0)
    assert not future.done()
    with pytest.raises(KafkaTimeoutError, match=r"^1 of 5"):
        future.result(0)
    future.on_stored(first, 10, -1)
    for _ in range(2):
        future.on_failed([4], failing(DisconnectedError))
    assert future.done()
    assert list(future.result(0).offsets) == [12, 11, 90, 10, -1]


def test_done_callbacks_when_all_rows_are_done_then_run_once_in_order_and_one_that_raises_stops_nobody(
        caplog: pytest.LogCaptureFixture) -> None:
    future = future_of(1)
    seen: list[str] = []

    def fail(_: BatchFuture) -> None:
        seen.append("fails")
        raise RuntimeError("the user's bug")

    future.add_done_callback(fail)
    future.add_done_callback(lambda told: seen.append(f"second {told.result(0).offsets[0]}"))
    future.on_handed_over()
    assert seen == []
    future.on_stored(rows_of(future, 0, 0), 4, -1)
    assert seen == ["fails", "second 4"]
    future.add_done_callback(lambda told: seen.append("late"))
    future.on_stored(rows_of(future, 0, 0), 4, -1)
    assert seen == ["fails", "second 4", "late"]
    assert "a done callback of <BatchFuture t rows=1 done> raised" in caplog.text


def test_done_callbacks_when_one_forks_then_those_behind_it_do_not_run_in_the_child() -> None:
    """Rows that went one by one were told twice: what was behind it wrote its line in the parent and in the child."""
    life = Life("c", ManualClock())
    future = BatchFuture("t", array("i", [0]), array("q", [1000]), life)
    seen: list[str] = []

    def fork(_: BatchFuture) -> None:
        seen.append("forks")
        life.mark_forked()  # as in the child

    future.add_done_callback(fork)
    future.add_done_callback(lambda _: seen.append("the parent's"))
    future.on_handed_over()
    future.on_row(0, 0, 4, 1000)
    assert seen == ["forks"]


def test_await_when_rows_are_done_later_or_already_then_gives_the_metadata() -> None:
    async def main() -> None:
        future = future_of(1)
        future.on_handed_over()
        asyncio.get_running_loop().call_soon(future.on_stored, rows_of(future, 0, 0), 6, -1)
        assert list((await asyncio.wait_for(_awaited(future), GIVE_UP_S)).offsets) == [6]
        assert list((await asyncio.wait_for(_awaited(future), GIVE_UP_S)).offsets) == [6]

    asyncio.run(main())


async def _awaited(future: BatchFuture):
    return await future


def test_await_when_it_was_cancelled_or_its_loop_is_closed_then_the_end_of_the_rows_hurts_nobody() -> None:
    future = future_of(1)

    async def main() -> None:
        for _ in range(2):
            task = asyncio.ensure_future(_awaited(future))
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)

    asyncio.run(main())
    future.on_handed_over()
    future.on_stored(rows_of(future, 0, 0), 6, -1)
    assert future.done()


@pytest.mark.parametrize(("begin", "end", "expected"), [
    (0, 100, (10, [5, 6, 7, 8])), (10, 14, (0, [5, 6, 7, 8])), (0, 12, (10, [5, 6])), (11, 13, (0, [6, 7])),
    (13, 99, (0, [8])), (12, 14, (0, [7, 8])), (0, 10, None), (14, 20, None), (4, 11, (6, [5]))])
def test_part_when_a_batch_is_split_then_is_what_lies_between(
        begin: int, end: int, expected: tuple[int, list[int]] | None) -> None:
    rows = rows_of(future_of(), 10, 5, 6, 7, 8)
    part = rows.part(begin, end)
    found = None if part is None else (part.first_index, list(part.order[part.start:part.start + part.row_count]))
    assert found == expected
