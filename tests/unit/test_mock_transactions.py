"""MockProducer's transactions: Java MockProducer's, with the states and the errors of KafkaProducer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import (
    AbortableTransactionError,
    ErrorCode,
    FatalProducerError,
    IllegalStateError,
    KafkaProducer,
    KafkaTimeoutError,
    OffsetAndMetadata,
    TopicPartition,
    TransactionAbortedError,
)
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.common.error_codes import error_for_code
from pyproducer.testing import MockProducer
from pyproducer.transaction.pending_call import PendingCall
from pyproducer.transaction.transaction_state import TransactionEvent

PROPS = {"transactional.id": "shop"}


def ready(*, auto_complete: bool = True) -> MockProducer[bytes, bytes]:
    mock = MockProducer(PROPS, auto_complete=auto_complete)
    mock.init_transactions()
    return mock


def values(mock: MockProducer[bytes, bytes]) -> list[bytes]:
    return [record.value for record in mock.history()]


def test_history_when_a_transaction_is_open_then_its_records_are_not_in_it() -> None:
    with ready() as mock:
        assert (mock.transaction_initialized, mock.transaction_in_flight) == (True, False)
        mock.begin_transaction()
        mock.send("orders", b"1")
        assert (mock.transaction_in_flight, values(mock)) == (True, [])
        assert [record.value for record in mock.uncommitted_records()] == [b"1"]
        mock.commit_transaction()
        assert (mock.transaction_in_flight, mock.transaction_committed, mock.transaction_aborted) == (
            False, True, False)
        assert (values(mock), mock.uncommitted_records(), mock.commit_count) == ([b"1"], [], 1)
        mock.begin_transaction()
        mock.send("orders", b"2")
        mock.abort_transaction()
        assert (mock.transaction_committed, mock.transaction_aborted) == (False, True)
        assert (values(mock), mock.uncommitted_records(), mock.commit_count) == ([b"1"], [], 1)


def test_send_when_no_transaction_is_open_then_it_says_what_comes_first() -> None:
    mock = MockProducer(PROPS)
    with pytest.raises(IllegalStateError, match=r"init_transactions\(\) comes first"):
        mock.send("orders", b"1")
    mock.init_transactions()
    with pytest.raises(IllegalStateError, match=r"begin_transaction\(\) comes first"):
        mock.send("orders", b"1")
    with pytest.raises(IllegalStateError, match=r"begin_transaction\(\) comes first"):
        mock.commit_transaction()
    assert mock.history() == []
    plain = MockProducer()
    with pytest.raises(IllegalStateError, match=r"set transactional\.id"):
        plain.init_transactions()
    plain.send("orders", b"1")
    assert values(plain) == [b"1"]


def test_commit_when_records_are_not_done_then_it_completes_them() -> None:
    with ready(auto_complete=False) as mock:
        mock.begin_transaction()
        future = mock.send("orders", b"1")
        mock.commit_transaction()
        assert future.result(0).offset == 0


def test_commit_when_a_record_failed_then_only_an_abort_goes_on() -> None:
    with ready(auto_complete=False) as mock:
        mock.begin_transaction()
        first, second = mock.send("orders", b"1"), mock.send("orders", b"2")
        mock.error_next(error_for_code(ErrorCode.INVALID_RECORD))
        with pytest.raises(AbortableTransactionError, match="INVALID_RECORD"):
            mock.commit_transaction()
        assert first.exception(0) is not None
        mock.abort_transaction()
        assert isinstance(second.exception(0), TransactionAbortedError)
        with mock.transaction():
            mock.send("orders", b"3")
        assert values(mock) == [b"3"]


def test_fenced_producer_when_it_is_called_then_it_can_only_be_closed() -> None:
    with ready() as mock:
        mock.begin_transaction()
        mock.fence_producer()
        for call in (mock.commit_transaction, mock.abort_transaction, mock.begin_transaction,
                     lambda: mock.send("orders", b"1")):
            with pytest.raises(FatalProducerError, match="close it"):
                call()


def test_call_when_a_test_says_what_it_raises_then_it_does_and_the_transaction_is_as_before() -> None:
    """Only records could fail, and a fenced producer for good: what timed out was not to be tested."""
    mock, late = MockProducer(PROPS), KafkaTimeoutError("late", phase="transaction")
    calls: list[tuple[str, Callable[[], object]]] = [
        ("init_transaction", mock.init_transactions), ("begin_transaction", mock.begin_transaction),
        ("send_offsets_to_transaction", lambda: mock.send_offsets_to_transaction({("in", 0): 5}, "g")),
        ("commit_transaction", mock.commit_transaction), ("begin_transaction", mock.begin_transaction),
        ("abort_transaction", mock.abort_transaction)]
    for name, call in calls:
        setattr(mock, f"{name}_exception", late)
        before = mock.transaction_initialized, mock.transaction_in_flight, mock.commit_count
        with pytest.raises(KafkaTimeoutError) as caught:
            call()
        assert caught.value is late
        assert (mock.transaction_initialized, mock.transaction_in_flight, mock.commit_count) == before
        setattr(mock, f"{name}_exception", None)
        call()
    assert (mock.commit_count, mock.transaction_aborted) == (1, True)
    mock.commit_transaction_exception = late
    with pytest.raises(KafkaTimeoutError), mock.transaction():
        mock.send("t", b"v")
    assert mock.transaction_in_flight
    mock.close()
    mock.begin_transaction_exception = late
    with pytest.raises(IllegalStateError):
        mock.begin_transaction()


def test_offsets_when_they_are_sent_then_the_commit_brings_them_into_the_history() -> None:
    place, found = TopicPartition("in", 0), OffsetAndMetadata(5)
    with ready() as mock:
        for commits in (True, False):
            mock.begin_transaction()
            mock.send_offsets_to_transaction({place: 4}, "readers")
            mock.send_offsets_to_transaction({place: found}, ("readers", 1, "m"))
            assert mock.uncommitted_offsets() == {"readers": {place: found}}
            if commits:
                mock.commit_transaction()
            else:
                mock.abort_transaction()
        assert mock.consumer_group_offsets_history() == [{"readers": {place: found}}]
        mock.clear()
        assert mock.consumer_group_offsets_history() == []


def test_clear_when_a_transaction_is_open_then_what_was_sent_in_it_is_forgotten_too() -> None:
    with ready() as mock:
        mock.begin_transaction()
        mock.send("orders", b"1")
        mock.send_offsets_to_transaction({TopicPartition("in", 0): 4}, "readers")
        mock.clear()
        assert (mock.uncommitted_records(), mock.uncommitted_offsets()) == ([], {})
        mock.send("orders", b"2")
        mock.commit_transaction()
        assert (values(mock), mock.consumer_group_offsets_history()) == ([b"2"], [])


def test_prepared_transaction_when_it_is_taken_then_it_says_where_its_records_are() -> None:
    with ready() as mock:
        mock.begin_transaction()
        mock.send("orders", b"1", partition=0)
        prepared = mock.prepare_transaction()
        assert prepared.transactional_id == "shop"
        assert prepared.partitions == (TopicPartition("orders", 0),)
        with pytest.raises(IllegalStateError, match="prepared transaction is open"):
            mock.send("orders", b"2")
        mock.commit_transaction()
        mock.init_transactions("other")


def test_close_when_a_transaction_is_open_then_it_is_aborted() -> None:
    mock = ready(auto_complete=False)
    mock.begin_transaction()
    future = mock.send("orders", b"1")
    mock.close()
    assert isinstance(future.exception(0), TransactionAbortedError)
    assert (mock.transaction_aborted, mock.history()) == (True, [])


def test_abort_when_it_has_ended_then_no_flush_speaks_of_its_records() -> None:
    mock = ready(auto_complete=False)
    mock.begin_transaction()
    mock.send("orders", b"1")
    mock.abort_transaction()
    mock.begin_transaction()
    mock.send("orders", b"2")
    mock.flush(raise_on_error=True)
    mock.commit_transaction()
    assert values(mock) == [b"2"]


def test_flush_when_a_callback_of_an_abort_calls_it_then_it_is_refused_and_stores_nothing() -> None:
    """A KafkaProducer refuses it. The mock stored what was to be aborted."""
    mock = ready(auto_complete=False)
    mock.begin_transaction()
    refusals: list[BaseException] = []

    def flush(_metadata: object, _error: object) -> None:
        try:
            mock.flush()
        except IllegalStateError as error:
            refusals.append(error)

    mock.send("orders", b"a", on_completion=flush)
    second = mock.send("orders", b"b")
    mock.abort_transaction()
    assert isinstance(second.exception(0), TransactionAbortedError)
    assert "inside a callback" in str(refusals[0])


def test_prepare_when_another_thread_aborts_meanwhile_then_it_says_so() -> None:
    """It returned None."""
    mock = ready(auto_complete=False)
    mock.begin_transaction()
    state = mock._transactions.state
    assert state is not None
    aborts: list[PendingCall] = []

    def move(*_: object) -> None:
        """As far as an abort had come that has not told the prepare yet."""
        prepare = state._position[1]
        assert prepare is not None
        prepare.is_told = True
        aborts.append(state._call(TransactionEvent.ABORT, "abort_transaction()", gives_up=prepare))

    mock.send("orders", b"a", on_completion=move)
    with pytest.raises(TransactionAbortedError, match="before it was prepared"):
        mock.prepare_transaction()
    assert len(aborts) == 1


def test_async_mock_when_it_is_used_in_a_loop_then_it_has_the_same_transactions() -> None:
    mock = MockProducer(PROPS)

    async def run() -> None:
        producer = mock.as_async()
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("orders", b"1")
            await producer.send_offsets_to_transaction({("in", 0): 5}, "readers")
        await producer.begin_transaction()
        await producer.send("orders", b"2")
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send("orders", b"3")
        assert not (await producer.prepare_transaction()).is_empty
        await producer.commit_transaction()

    asyncio.run(run())
    assert values(mock) == [b"1", b"3"]


@pytest.mark.parametrize("make", [
    pytest.param(KafkaProducer, id="KafkaProducer"), pytest.param(AsyncKafkaProducer, id="AsyncKafkaProducer"),
    pytest.param(MockProducer, id="MockProducer"),
    pytest.param(lambda props: MockProducer(props).as_async(), id="AsyncMockProducer")])
def test_calls_when_they_are_given_confluents_timeout_then_they_say_what_bounds_them(
        make: Callable[[Any], Any]) -> None:
    """Python's own words, "takes 1 positional argument but 2 were given", helped nobody."""
    async def awaited(call: Callable[[], Any]) -> None:
        made = call()
        if inspect.isawaitable(made):
            await made

    async def main() -> None:
        producer = make({**PROPS, "bootstrap.servers": "127.0.0.1:1"})
        for call in (lambda: producer.init_transactions(10), lambda: producer.init_transactions(None, 10),
                     lambda: producer.init_transactions(timeout=10),
                     lambda: producer.send_offsets_to_transaction({}, "g", 10),
                     lambda: producer.commit_transaction(10), lambda: producer.commit_transaction(timeout=1.5),
                     lambda: producer.abort_transaction(10)):
            with pytest.raises(TypeError, match=r"no timeout[:,] max\.block\.ms bounds it"):
                await awaited(call)
        await awaited(lambda: producer.close(0))

    asyncio.run(main())


def test_calls_when_a_kafka_producer_refuses_them_then_the_mock_does_too() -> None:
    producer = MockProducer({"transactional.id": "x"}, auto_complete=False)
    for wrong in ("", 5):
        with pytest.raises(TypeError, match="must be a str that is not empty"):
            producer.init_transactions(wrong)  # type: ignore[arg-type]  # the mistake under test
    producer.init_transactions()
    producer.begin_transaction()
    told: list[object] = []

    def ends(*_: object) -> None:
        try:
            producer.commit_transaction()
        except IllegalStateError as error:
            told.append(error)

    producer.send("t", b"1", on_completion=ends)
    producer.send_offsets_to_transaction({}, "g")
    producer.commit_transaction()
    assert ["inside a callback" in str(error) for error in told] == [True]
    assert producer.commit_count == 1
    producer.begin_transaction()
    producer.send("t", b"2")
    producer.prepare_transaction()
    producer.init_transactions("other")
    with pytest.raises(IllegalStateError, match="would abort the prepared transaction of 'x'"):
        producer.init_transactions("x")


@pytest.mark.parametrize("transactional_id", [None, "shop"])
def test_init_when_the_prepared_transaction_of_the_id_is_open_then_refused_and_it_can_be_ended(
        transactional_id: str | None) -> None:
    """Without an id it was initialised, as no producer is, and what was prepared was gone."""
    with ready() as mock:
        mock.begin_transaction()
        mock.send("orders", b"1")
        mock.prepare_transaction()
        with pytest.raises(IllegalStateError, match="would abort the prepared transaction of 'shop'"):
            mock.init_transactions(transactional_id)
        mock.commit_transaction()
        assert values(mock) == [b"1"]
        mock.begin_transaction()
        assert mock.prepare_transaction().is_empty
        mock.init_transactions(transactional_id)  # there is nothing to lose
        mock.begin_transaction()


def test_prepare_when_records_have_keys_then_the_partitions_are_those_that_were_chosen() -> None:
    """They were those that the records named, 0 where they named none."""
    with MockProducer({"transactional.id": "t"}, partitions={"orders": 3}) as mock:
        mock.init_transactions()
        mock.begin_transaction()
        futures = [mock.send("orders", b"v", key=str(number).encode()) for number in range(20)]
        mock.send_batch("orders", [b"v"] * 2, partitions=[1, 1])
        chosen = {future.result(0).partition for future in futures} | {1}
        assert len(chosen) == 3
        assert mock.prepare_transaction().partitions == tuple(TopicPartition("orders", index) for index in range(3))
