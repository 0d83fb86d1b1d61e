"""What a transaction's state says to those who ask, without a sender: refusals, causes, and who is woken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyproducer.common.errors import (
    AbortableTransactionError,
    FatalProducerError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    TransactionAbortedError,
)
from pyproducer.transaction.transactions import OpenTransaction, Transactions
from tests.support.clock import ManualClock

FAILED = KafkaTimeoutError("late", phase="delivery", outcome="unknown")


def initialized() -> Transactions:
    made = Transactions("till-7", timeout_ms=60_000, clock=ManualClock())
    made.initialize(None).is_told = True
    made.on_initialized()
    return made


def opened() -> Transactions:
    made = initialized()
    made.begin()
    return made


def abortable() -> Transactions:
    made = opened()
    made.on_failed(FAILED)
    return made


def fatal() -> Transactions:
    made = opened()
    made.on_fatal_error(FAILED)
    return made


@pytest.mark.parametrize(("made", "error"), [
    (initialized, IllegalStateError), (abortable, AbortableTransactionError), (fatal, FatalProducerError)])
@pytest.mark.parametrize("within", [None, OpenTransaction()])
def test_send_when_it_is_refused_then_the_error_says_that_nothing_was_sent(
        made: Callable[[], Transactions], error: type[KafkaError], within: OpenTransaction | None) -> None:
    transactions = made()
    with pytest.raises(KafkaError) as caught:
        transactions.ensure_may_send(within)
    assert isinstance(caught.value, error if within is None else IllegalStateError)
    assert caught.value.outcome == "not_sent"


@pytest.mark.parametrize(("made", "cause"), [(opened, None), (abortable, FAILED), (fatal, FAILED)])
def test_records_when_they_are_given_up_with_their_transaction_then_they_are_told_why_it_failed(
        made: Callable[[], Transactions], cause: KafkaError | None) -> None:
    error = made().failure_of_records()
    assert isinstance(error, TransactionAbortedError)
    assert error.__cause__ is cause
    assert ("late" in str(error)) == (cause is not None)


@pytest.mark.parametrize(("made", "call"), [
    (lambda: Transactions("till-7", timeout_ms=60_000, clock=ManualClock()), lambda made: made.initialize(None)),
    (opened, Transactions.prepare), (opened, Transactions.commit), (opened, Transactions.abort)],
    ids=["init", "prepare", "commit", "abort"])
def test_call_when_it_was_interrupted_before_anybody_was_told_then_called_again_it_wakes_the_sender(
        made: Callable[[], Transactions], call: Callable[[Transactions], object]) -> None:
    """Ctrl-C came between the move and the ring, and the same call again waited for a sender that slept."""
    transactions = made()
    woken: list[bool] = []

    def wakeup() -> None:
        woken.append(True)
        if len(woken) == 1:
            raise KeyboardInterrupt

    transactions.wakeup = wakeup
    with pytest.raises(KeyboardInterrupt):
        call(transactions)
    state = transactions.state
    call(transactions)
    assert (len(woken), transactions.state) == (2, state)
