"""What became of a task's rows, and how it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from pyproducer.common.errors import NOT_SENT, REJECTED, UNKNOWN, KafkaTimeoutError
from pyproducer.common.records import RecordMetadata
from pyproducer.spark.delivery import TaskDelivery
from pyproducer.spark.errors import RowsFailedError


def late(text: str = "late") -> KafkaTimeoutError:
    return KafkaTimeoutError(text, phase="delivery", outcome="unknown")


def failure_of(delivery: TaskDelivery) -> RowsFailedError:
    with pytest.raises(RowsFailedError) as caught:
        delivery.ensure_all_stored(3)
    return caught.value


def test_ensure_all_stored_when_every_row_has_its_answer_does_nothing() -> None:
    delivery = TaskDelivery()
    delivery.sent_count = 3
    delivery.on_completion("orders", None, RecordMetadata("orders", 2, 0, 0, -1, -1), None)
    delivery.add_stored("orders", Counter({2: 1, 0: 1}))
    delivery.ensure_all_stored()
    assert delivery.stored_count == 3


def test_on_completion_when_the_row_named_partition_zero_tells_it() -> None:
    delivery = TaskDelivery()
    delivery.sent_count = 2
    delivery.on_completion("orders", 0, None, late("first"))
    delivery.on_completion("other", 1, None, late("second"))
    error = failure_of(delivery)
    assert (error.topic, error.partition, error.attempt) == ("orders", 0, 3)
    assert str(error).endswith("the first failure for orders-0: KafkaTimeoutError: first. Of attempt 3 of the task no "
                               "rows are known to be in the log, 2 more may be")


@pytest.mark.parametrize(("left", "attempt", "says"), [
    ([], 3, "1 of 1 rows sent were not stored; the first"),
    ([1], 3, "not stored, and what follows them in the partition was not sent; the first"),
    ([], None, "1 of 1 rows sent were not stored; the first"),
    ([1], None, "not stored, and what follows them in the frame was not sent; the first")])
def test_cut_short_when_rows_are_left_behind_a_failure_then_they_are_told_in_the_roads_words(
        left: list[int], attempt: int | None, says: str) -> None:
    """Where nothing followed it was told all the same, and of the partition where there was none."""
    delivery = TaskDelivery()
    delivery.sent_count = 1
    delivery.fail(late())
    delivery.cut_short(iter(left))
    with pytest.raises(RowsFailedError) as caught:
        delivery.ensure_all_stored(attempt)
    assert says in str(caught.value)


def test_cut_short_when_what_is_left_fails_then_the_failure_before_is_told() -> None:
    def failing() -> Iterator[int]:
        raise ValueError("of a row that is not sent")
        yield 1

    delivery = TaskDelivery()
    delivery.sent_count = 1
    delivery.fail(late("first"))
    delivery.cut_short(failing())
    assert "was not sent; the first failure: KafkaTimeoutError: first" in str(failure_of(delivery))


def test_fail_of_many_rows_at_once_counts_each() -> None:
    delivery = TaskDelivery()
    delivery.sent_count = 10
    delivery.fail(late(), "orders", row_count=6)
    delivery.fail(ValueError("never sent"), "orders", row_count=4)
    error = failure_of(delivery)
    assert (error.sent_count, error.failed_count) == (10, 10)
    assert str(error).endswith("no rows are known to be in the log, 6 more may be")


def test_ensure_all_stored_when_answers_never_came_says_that_the_rows_may_be_there() -> None:
    """In words it did; its outcome was not_sent, by which an application sends them again."""
    delivery = TaskDelivery()
    delivery.sent_count = 5
    delivery.add_stored("orders", Counter({0: 2}))
    error = failure_of(delivery)
    assert str(error).endswith("2 rows are in the log (orders-0: 2), 3 more may be; another attempt stores them again")
    assert (error.outcome, error.retriable) == (UNKNOWN, False)


def test_ensure_all_stored_when_rows_are_in_a_transaction_then_it_says_what_becomes_of_them() -> None:
    """Of rows in a transaction of the application's it said that they are in the log, and doubled by a second write;
    nobody who reads committed records saw any."""
    delivery = TaskDelivery(in_transaction=True)
    delivery.sent_count = 3
    delivery.add_stored("orders", Counter({0: 2}))
    assert str(failure_of(delivery)).endswith("The transaction of attempt 3 of the task is aborted: no reader of "
                                              "committed records sees its rows")
    with pytest.raises(RowsFailedError, match=r"Of them 2 rows are stored in the producer's transaction, which is "
                                              r"open: abort it, and no reader of committed records sees them$"):
        delivery.ensure_all_stored(None)


@pytest.mark.parametrize("outcome", [NOT_SENT, REJECTED, UNKNOWN])
@pytest.mark.parametrize("retriable", [True, False])
def test_ensure_all_stored_when_rows_failed_then_the_error_answers_what_the_first_of_them_does(
        outcome: str, *, retriable: bool) -> None:
    first, second = late("first"), late("second")
    first.outcome, first.retriable, second.retriable = outcome, retriable, not retriable
    delivery = TaskDelivery()
    delivery.sent_count = 2
    delivery.fail(first)
    delivery.fail(second)
    error = failure_of(delivery)
    assert (error.outcome, error.retriable, error.__cause__) == (outcome, retriable, first)
