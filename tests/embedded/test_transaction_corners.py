"""Calls of transactions that meet each other: timeouts, signals, threads, cancelled tasks, closes in the middle."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer import (
    AbortableTransactionError,
    FatalProducerError,
    IllegalStateError,
    KafkaError,
    KafkaProducer,
    KafkaTimeoutError,
    RecordRejectedError,
    TransactionAbortedError,
)
from pyproducer.accumulator.buffer_pool import Place
from pyproducer.accumulator.delivery_tally import DeliveryTally
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.aio import threads as threads_of_tasks
from pyproducer.broker import EmbeddedBroker, Fault
from pyproducer.producer.waiting_room import WaitingRoom
from pyproducer.protocol.apis import ApiKeys
from pyproducer.testing import read_topic
from pyproducer.transaction.transactions import Transactions
from tests.support.late_requests import PROPS
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient

StartBroker = Callable[..., EmbeddedBroker]
Connect = Callable[..., KafkaProducer]


def repeated(call: Callable[[], object]) -> object:
    """Call until it does not time out: max.block.ms may be short for a loaded machine."""
    while True:
        try:
            return call()
        except KafkaTimeoutError:
            pass


async def repeated_in_loop(call: Callable[[], Coroutine[Any, Any, object]]) -> None:
    while True:
        try:
            await call()
            return
        except KafkaTimeoutError:
            pass


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Make initialised transactional producers; closed at the end."""
    producers: list[KafkaProducer] = []

    def make(broker: EmbeddedBroker, transactional_id: str = "shop", **props: Any) -> KafkaProducer:
        serializer = props.pop("value_serializer", None)
        producers.append(KafkaProducer({
            **PROPS, "bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id,
            **{name.replace("_", "."): value for name, value in props.items()}}, value_serializer=serializer))
        repeated(producers[-1].init_transactions)
        return producers[-1]

    yield make
    for producer in producers:
        producer.close(GIVE_UP_S)


def committed(broker: EmbeddedBroker, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in read_topic(broker.bootstrap_servers, topic, isolation_level="read_committed")]


def ongoing(broker: EmbeddedBroker) -> list[str]:
    with RawClient(("127.0.0.1", broker.port)) as client:
        answer = client.request(ApiKeys.LIST_TRANSACTIONS, 0, {"state_filters": ["Ongoing"], "producer_id_filters": []})
    return [row["transactional_id"] for row in answer["transaction_states"]]


def on_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Make a call on a thread; what it returned or raised is in the list."""
    told: list[object] = []

    def run() -> None:
        try:
            told.append(call())
        except KafkaError as error:
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, told


def test_init_when_one_for_another_id_timed_out_and_succeeded_since_then_the_new_id_is_bound(
        start_broker: StartBroker, connect: Connect) -> None:
    """The call for B returned when A was bound: the producer had A, and the earlier one of B was not fenced."""
    broker = start_broker(topics={"orders": 1})
    earlier = connect(broker, "B")
    earlier.begin_transaction()
    earlier.send("orders", b"of the earlier one").result(GIVE_UP_S)
    with KafkaProducer({**PROPS, "bootstrap.servers": broker.bootstrap_servers, "transactional.id": "A",
                        "max.block.ms": 300}) as producer:
        held = broker.faults.on("InitProducerId", times=1).hold("after_apply")
        with pytest.raises(KafkaTimeoutError):
            producer.init_transactions()
        held.release()
        pending = producer._runtime.transaction_calls.transactional("a test").pending
        assert pending is not None
        ends = time.monotonic() + GIVE_UP_S
        while not pending.is_set:
            assert time.monotonic() < ends
            time.sleep(0.01)
        while True:
            try:
                producer.init_transactions("B")
                break
            except KafkaTimeoutError:
                assert time.monotonic() < ends
        with producer.transaction():
            producer.send("orders", b"of B")
        with pytest.raises(FatalProducerError):
            earlier.commit_transaction()
    assert committed(broker) == [b"of B"]


def test_commit_when_a_send_of_another_thread_fails_meanwhile_then_it_is_committed(
        start_broker: StartBroker, connect: Connect) -> None:
    """The record never was in it; the commit said that only an abort helps, though it was in the log."""
    inside, go = threading.Event(), threading.Event()

    def serialize(_topic: str, _headers: object, data: str) -> bytes:
        if data == "slow":
            inside.set()
            go.wait(GIVE_UP_S)
        return data.encode()

    broker = start_broker(topics={"orders": 1})
    producer = connect(broker, value_serializer=serialize)
    producer.begin_transaction()
    producer.send("orders", "paid").result(GIVE_UP_S)
    sender, sent = on_thread(lambda: producer.send("no such name!", "slow").exception(GIVE_UP_S))
    inside.wait(GIVE_UP_S)
    held = broker.faults.on("EndTxn", times=1).hold("after_apply")
    committer, told = on_thread(producer.commit_transaction)
    held.await_held()
    go.set()
    sender.join()
    held.release()
    committer.join()
    assert told == [None]
    assert [getattr(error, "outcome", None) for error in sent] == ["not_sent"]
    assert committed(broker) == [b"paid"]
    with producer.transaction():
        producer.send("orders", "next")


def test_commit_when_it_fails_and_a_close_comes_at_once_then_it_says_so(
        start_broker: StartBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """The close told the call before who had failed it did, and without an error."""
    broker = start_broker(topics={"orders": 2})
    producer = connect(broker)
    failing, closing = threading.Event(), threading.Event()
    give_up, begin_end = Transactions._give_up_calls, Transactions.begin_end_of_life

    def late(transactions: Transactions, *arguments: Any) -> None:
        failing.set()
        closing.wait(GIVE_UP_S)
        give_up(transactions, *arguments)

    def noted(transactions: Transactions) -> None:
        begin_end(transactions)
        closing.set()

    monkeypatch.setattr(Transactions, "_give_up_calls", late)
    monkeypatch.setattr(Transactions, "begin_end_of_life", noted)
    producer.begin_transaction()
    producer.send("orders", b"stored", partition=0).result(GIVE_UP_S)
    held = broker.faults.on("Produce", topic="orders", partition=1).hold().error("TOPIC_AUTHORIZATION_FAILED")
    producer.send("orders", b"refused", partition=1, on_completion=lambda *_: None)
    held.await_held()
    committer, told = on_thread(producer.commit_transaction)
    while producer._runtime.transaction_calls.transactional("a test").is_closed is False:
        time.sleep(0.005)
    held.release()
    failing.wait(GIVE_UP_S)
    producer.close(GIVE_UP_S)
    committer.join()
    assert [type(error) for error in told] == [AbortableTransactionError]
    assert committed(broker) == []


@pytest.mark.parametrize("way", ["columns", "serializer"])
def test_send_batch_when_its_transaction_fails_half_way_then_each_row_is_told_why(
        start_broker: StartBroker, connect: Connect, way: str) -> None:
    broker = start_broker(topics={"orders": 2})
    broker.faults.on("Produce", times=None).error("INVALID_TIMESTAMP")  # also a request with the other partition alone
    producer = connect(broker, buffer_memory=40_000, batch_size=4096, delivery_timeout_ms=120_000,
                       max_block_ms=120_000, value_serializer=(lambda value: value) if way == "serializer" else None)
    producer.begin_transaction()
    future = producer.send_batch("orders", [b"x" * 2000] * 100, partitions=[0, 1] * 50)
    errors = future.result(GIVE_UP_S).errors
    assert sorted(errors) == list(range(100))
    assert isinstance(errors[0], RecordRejectedError)
    assert isinstance(errors[99], AbortableTransactionError)
    assert errors[99].outcome == "not_sent"
    producer.abort_transaction()
    assert committed(broker) == []


@pytest.mark.parametrize("way", ["columns", "serializer"])
@pytest.mark.parametrize("step", [(RecordAccumulator, "_run"), (Place, "wait"), (WaitingRoom, "enter")])
def test_send_batch_when_its_transaction_is_ended_meanwhile_and_another_begins_then_no_row_goes_into_that(
        start_broker: StartBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch, way: str,
        step: tuple[type, str]) -> None:
    """Half of a call was aborted, and the other half committed with the next transaction, without an error."""
    broker = start_broker(topics={"orders": 2})
    producer = connect(broker, buffer_memory=40_000, batch_size=4096, delivery_timeout_ms=120_000,
                       max_block_ms=120_000, value_serializer=(lambda value: value) if way == "serializer" else None)
    original, caller, seen = getattr(*step), threading.get_ident(), []

    def end_and_begin() -> None:
        producer.abort_transaction()
        producer.begin_transaction()

    def meanwhile(*arguments: Any) -> Any:
        if threading.get_ident() != caller:
            return original(*arguments)
        seen.append(1)
        if len(seen) != 3:
            return original(*arguments)
        result = original(*arguments) if step[0] is Place else None
        thread, told = on_thread(end_and_begin)
        thread.join()
        assert told == [None]
        if held is not None:
            held.remove()  # and not release(): it may not have come yet
        return result if step[0] is Place else original(*arguments)

    producer.begin_transaction()
    held = None
    if step[0] is not WaitingRoom:
        producer.partitions_for("orders")
    else:  # row by row, or in pieces: each goes into the room as long as nobody knows the topic
        held = broker.faults.on("Metadata", topic="orders", times=1).hold()
    with monkeypatch.context() as patch:
        patch.setattr(*step, meanwhile)
        future = producer.send_batch("orders", [b"x" * 2000] * 100, partitions=[0, 1] * 50)
    assert len(seen) >= 3
    producer.send("orders", b"next", partition=0)
    producer.commit_transaction()
    assert committed(broker) == [b"next"]
    errors = future.result(GIVE_UP_S).errors
    refused = errors[99]
    assert isinstance(refused, IllegalStateError)
    assert ("in which send_batch() began has ended" in str(refused), refused.outcome) == (True, "not_sent")
    assert {type(error) for error in errors.values()} <= {IllegalStateError, TransactionAbortedError}
    with pytest.raises(IllegalStateError, match=r"send_batch\(\) is not possible now, .* begin_transaction\(\) comes"):
        producer.send_batch("orders", [b"y"])


def test_send_batch_when_its_partitioner_ends_the_transaction_then_no_row_goes_into_the_next(
        start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(topics={"orders": 2})

    def choose(_topic: object, _key: object, _bytes: object, value: bytes, *_others: object) -> int:
        if value == b"3":
            producer.commit_transaction()
            producer.begin_transaction()
        return 0

    producer = connect(broker, partitioner_class=choose)
    producer.begin_transaction()
    producer.partitions_for("orders")
    future = producer.send_batch("orders", [b"%d" % row for row in range(6)])
    assert committed(broker) == [b"0", b"1", b"2"]
    producer.commit_transaction()
    assert committed(broker) == [b"0", b"1", b"2"]
    assert sorted(future.result(GIVE_UP_S).errors) == [3, 4, 5]


@pytest.mark.parametrize("mode", ["offsets", "commit", "send_batch"])
def test_await_when_its_task_is_cancelled_and_its_thread_comes_late_then_the_next_transaction_is_left_alone(
        start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    broker = start_broker(topics={"orders": 1, "in": 1})
    late: list[Callable[[], None]] = []
    is_late = False
    start = threads_of_tasks.start_daemon

    def start_late(run: Callable[[], None], name: str) -> Any:
        if is_late:
            late.append(run)
            return None
        return start(run, name)

    monkeypatch.setattr(threads_of_tasks, "start_daemon", start_late)

    async def scenario() -> None:
        nonlocal is_late
        async with AsyncKafkaProducer({**PROPS, "bootstrap.servers": broker.bootstrap_servers,
                                       "transactional.id": "shop"}) as producer:
            await producer.init_transactions()
            await producer.partitions_for("orders")
            await producer.begin_transaction()
            calls = {"offsets": lambda: producer.send_offsets_to_transaction({("in", 0): 1000}, "g"),
                     "commit": producer.commit_transaction, "send_batch": lambda: producer.send_batch("orders", [b"x"])}
            is_late = True
            task = asyncio.ensure_future(calls[mode]())
            await asyncio.sleep(0)
            is_late = False
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await (producer.commit_transaction() if mode == "commit" else producer.abort_transaction())
            await producer.begin_transaction()
            await producer.send("orders", b"first")
            for run in late:
                await asyncio.get_running_loop().run_in_executor(None, run)
            await producer.send("orders", b"second")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("orders", b"last")

    asyncio.run(scenario())
    assert committed(broker) == [b"last"]
    with RawClient(("127.0.0.1", broker.port)) as client:
        answer = client.request(ApiKeys.OFFSET_FETCH, 5, {"group_id": "g", "topics": [
            {"name": "in", "partition_indexes": [0]}]})
    assert [row["committed_offset"] for topic in answer["topics"] for row in topic["partitions"]] in ([], [-1])


@pytest.mark.parametrize("code", ["COORDINATOR_NOT_AVAILABLE", "REQUEST_TIMED_OUT", "NOT_COORDINATOR"])
def test_commit_when_an_attempt_that_took_effect_was_refused_and_the_next_is_fenced_then_it_is_unknown(
        start_broker: StartBroker, connect: Connect, code: str) -> None:
    """It said "rejected" of what everybody can read."""
    broker = start_broker(topics={"orders": 1})
    producer = connect(broker)
    producer.begin_transaction()
    producer.send("orders", b"paid").result(GIVE_UP_S)
    broker.faults.on("EndTxn", times=1).error(code, when="after_apply")
    held = broker.faults.on("EndTxn", times=1).hold()
    committer, told = on_thread(producer.commit_transaction)
    held.await_held()
    connect(broker)
    held.release()
    committer.join()
    assert [(type(error), getattr(error, "outcome", None)) for error in told] == [(FatalProducerError, "unknown")]
    assert committed(broker) == [b"paid"]


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction", "prepare_transaction",
                                  "init_transactions"])
def test_call_when_it_was_interrupted_before_it_woke_the_sender_then_the_repeated_one_does(
        start_broker: StartBroker, connect: Connect, call: str) -> None:
    """It waited for max.block.ms, until something else woke the sender."""
    broker = start_broker(topics={"orders": 1})
    producer = connect(broker, metadata_max_age_ms=3_600_000)
    transactions = producer._runtime.transaction_calls.transactional("a test")
    if call != "init_transactions":
        producer.begin_transaction()
        producer.send("orders", b"v").result(GIVE_UP_S)
    time.sleep(0.05)  # the sender sleeps
    wakeup = transactions.wakeup

    def interrupted() -> None:
        transactions.wakeup = wakeup
        raise KeyboardInterrupt

    transactions.wakeup = interrupted
    with pytest.raises(KeyboardInterrupt):
        getattr(producer, call)()
    getattr(producer, call)()


def test_commit_when_a_record_waited_for_its_topic_in_vain_then_it_fails(
        start_broker: StartBroker, connect: Connect) -> None:
    """It was taken into the transaction, and is not there."""
    broker = start_broker(topics={"orders": 1}, auto_create_topics=False)
    producer = connect(broker, max_block_ms=2_000)
    producer.begin_transaction()
    producer.send("orders", b"1")
    with pytest.raises(KafkaTimeoutError) as missing:
        producer.send("nowhere", b"2").result(GIVE_UP_S)
    with pytest.raises(AbortableTransactionError, match="nowhere") as caught:
        producer.commit_transaction()
    assert (missing.value.outcome, caught.value.outcome) == ("not_sent", "not_sent")
    repeated(producer.abort_transaction)
    assert committed(broker) == []


def test_offsets_when_there_are_none_then_nothing_is_asked_and_the_transaction_goes_on(
        start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(topics={"orders": 1}, log_requests=True)
    producer = connect(broker)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({}, "readers")
    producer.send("orders", b"1")
    producer.commit_transaction()
    assert committed(broker) == [b"1"]
    assert broker.requests("AddOffsetsToTxn") == broker.requests("TxnOffsetCommit") == []


def test_abort_when_prepare_timed_out_then_it_aborts(start_broker: StartBroker, connect: Connect) -> None:
    """Which the prepare's error names as the way out; a `with` block left by it did not abort either."""
    broker = start_broker(topics={"orders": 1})
    producer = connect(broker, max_block_ms=400)
    held = broker.faults.on("Produce", times=1).hold()

    def prepare_in_vain() -> None:
        with producer.transaction():
            producer.send("orders", b"1", on_completion=lambda *_: None)
            threading.Timer(0.6, held.release).start()
            producer.prepare_transaction()

    with pytest.raises(KafkaTimeoutError, match="prepare_transaction"):
        prepare_in_vain()
    while True:
        try:
            producer.begin_transaction()
            break
        except IllegalStateError as error:  # on a loaded machine 400 ms are little for an abort, too
            if "abort_transaction() timed out" not in str(error):
                raise
            repeated(producer.abort_transaction)
    producer.send("orders", b"2")
    repeated(producer.commit_transaction)
    assert committed(broker) == [b"2"]


@pytest.mark.parametrize("call", ["commit_transaction", "prepare_transaction"])
def test_close_when_what_goes_on_fails_meanwhile_then_the_transaction_is_aborted(
        start_broker: StartBroker, call: str) -> None:
    """It stayed open at the coordinator until transaction.timeout.ms, and readers stood still before it."""
    broker = start_broker(topics={"orders": 2})
    producer = KafkaProducer({**PROPS, "bootstrap.servers": broker.bootstrap_servers, "transactional.id": "shop",
                              "max.block.ms": 300})
    repeated(producer.init_transactions)
    producer.begin_transaction()
    producer.send("orders", b"stored", partition=0).result(GIVE_UP_S)
    held = broker.faults.on("Produce", topic="orders", partition=1).hold().error("TOPIC_AUTHORIZATION_FAILED")
    producer.send("orders", b"refused", partition=1, on_completion=lambda *_: None)
    with pytest.raises(KafkaTimeoutError):
        getattr(producer, call)()
    threading.Timer(0.2, held.release).start()
    producer.close(GIVE_UP_S)
    assert ongoing(broker) == []


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "AddOffsetsToTxn"])
def test_abort_when_what_was_added_was_answered_by_an_error_then_the_coordinator_is_told(
        start_broker: StartBroker, connect: Connect, level: int, api: str) -> None:
    """It ended here alone; at transaction.timeout.ms the coordinator aborted it, and fenced the producer."""
    broker = start_broker(topics={"orders": 1, "in": 1}, config={"transaction.version": level})
    producer = connect(broker, retry_backoff_ms=700, retry_backoff_max_ms=1000)
    producer.partitions_for("orders")
    producer.begin_transaction()
    fault = broker.faults.on(api).error("COORDINATOR_NOT_AVAILABLE", when="after_apply")
    if api == "AddPartitionsToTxn":
        producer.send("orders", b"v", on_completion=lambda *_: None)
        thread = None
    else:
        thread, _ = on_thread(lambda: producer.send_offsets_to_transaction({("in", 0): 1}, "g"))
    fault.await_count()
    time.sleep(0.05)
    producer.abort_transaction()
    if thread is not None:
        thread.join()
    assert ongoing(broker) == []
    broker.clock.advance(minutes=2)
    with producer.transaction():
        producer.send("orders", b"next")
    assert committed(broker) == [b"next"]


def test_offsets_when_a_record_fails_while_they_are_on_their_way_then_the_sender_goes_on(
        start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    """Their answer raised in the sender's thread, and all connections were made anew."""
    broker = start_broker(topics={"orders": 2, "in": 1})
    producer = connect(broker)
    producer.begin_transaction()
    producer.send("orders", b"stored", partition=0).result(GIVE_UP_S)
    held = broker.faults.on("TxnOffsetCommit", times=1).hold()
    thread, told = on_thread(lambda: producer.send_offsets_to_transaction({("in", 0): 5}, "g"))
    held.await_held()
    assert producer.send("no such name!", b"refused").exception(GIVE_UP_S) is not None
    thread.join()
    assert [type(error) for error in told] == [AbortableTransactionError]
    aborter, _ = on_thread(producer.abort_transaction)
    held.release()
    aborter.join()
    with producer.transaction():
        producer.send("orders", b"next", partition=0)
    assert committed(broker) == [b"next"]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_abort_when_interrupted_as_it_ends_then_it_may_be_called_again_and_no_flush_speaks_of_it(
        start_broker: StartBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = start_broker(topics={"orders": 1})
    producer = connect(broker)
    producer.begin_transaction()
    broker.faults.on("Produce").error("INVALID_RECORD")
    producer.send("orders", b"a")
    with pytest.raises(AbortableTransactionError):
        producer.commit_transaction()
    on_aborted = DeliveryTally.on_aborted

    def interrupted(*_: object) -> Any:
        monkeypatch.setattr(DeliveryTally, "on_aborted", on_aborted)
        raise KeyboardInterrupt

    monkeypatch.setattr(DeliveryTally, "on_aborted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        producer.abort_transaction()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send("orders", b"b")
    producer.flush(raise_on_error=True)
    producer.commit_transaction()
    assert committed(broker) == [b"b"]


@pytest.mark.parametrize("mode", ["raise", "log"])
def test_abort_when_a_record_had_failed_then_nobody_is_told_of_it_later(
        start_broker: StartBroker, connect: Connect, mode: str) -> None:
    """The commit had raised it. With "raise" a flush() in the next, healthy transaction did so once more."""
    broker = start_broker(topics={"orders": 1})
    producer = connect(broker, **{"pyproducer.on.unretrieved": mode})
    producer.begin_transaction()
    broker.faults.on("Produce").error("INVALID_RECORD")
    producer.send("orders", b"a")
    with pytest.raises(AbortableTransactionError):
        producer.commit_transaction()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send("orders", b"b")
    producer.flush()
    producer.commit_transaction()
    producer.close()
    assert producer._runtime.life.tally.unretrieved_count == 0
    assert committed(broker) == [b"b"]


def leave_block(producer: KafkaProducer) -> None:
    """Leave a block by an exception, while EndTxn is held up for longer than max.block.ms."""
    with producer.transaction():
        producer.send("orders", b"aborted").result(GIVE_UP_S)
        raise ZeroDivisionError


def leave_an_abort(start_broker: StartBroker, connect: Connect) -> tuple[EmbeddedBroker, KafkaProducer, Fault]:
    """Leave a block whose abort takes longer than max.block.ms, and goes on as long as EndTxn is held."""
    broker = start_broker(topics={"orders": 1})
    producer = connect(broker, max_block_ms=300)
    repeated(lambda: producer.partitions_for("orders"))
    held = broker.faults.on("EndTxn", times=None).hold()
    with pytest.raises(ZeroDivisionError):
        leave_block(producer)
    return broker, producer, held


def test_block_when_the_abort_of_the_one_before_took_longer_than_max_block_ms_then_it_waits_for_that(
        start_broker: StartBroker, connect: Connect) -> None:
    """The block had called abort_transaction(), and its user, who never had, was told for ever to call it again."""
    broker, producer, held = leave_an_abort(start_broker, connect)
    with pytest.raises(KafkaTimeoutError, match=r"abort_transaction\(\)"), producer.transaction():
        pytest.fail("the one before has not ended")
    held.remove()

    def next_block() -> None:
        with producer.transaction():
            producer.send("orders", b"committed")

    repeated(next_block)
    producer.begin_transaction()  # nothing of it is left
    producer.send("orders", b"too").result(GIVE_UP_S)
    repeated(producer.commit_transaction)
    assert committed(broker) == [b"committed", b"too"]


def test_begin_when_the_abort_of_a_block_has_ended_since_then_nobody_has_to_call_it_again(
        start_broker: StartBroker, connect: Connect) -> None:
    _broker, producer, held = leave_an_abort(start_broker, connect)
    with pytest.raises(IllegalStateError, match=r"abort_transaction\(\) was left before it had ended, and goes on"):
        producer.begin_transaction()
    held.remove()
    give_up_s = time.monotonic() + GIVE_UP_S
    while True:
        try:
            producer.begin_transaction()
            break
        except IllegalStateError:
            assert time.monotonic() < give_up_s
            time.sleep(0.005)
    producer.flush(raise_on_error=True)  # what was aborted is nobody's concern


def test_call_when_the_block_that_left_it_is_over_then_who_repeats_it_gets_its_outcome_early_or_late(
        start_broker: StartBroker, connect: Connect) -> None:
    """Once it had ended, the call that waited for it before was refused: begin_transaction() comes first."""
    _broker, producer, held = leave_an_abort(start_broker, connect)
    with pytest.raises(KafkaTimeoutError):
        producer.abort_transaction()
    held.remove()
    transactions = producer._runtime.transaction_calls._transactions
    assert transactions is not None
    give_up_s = time.monotonic() + GIVE_UP_S
    while transactions.left is None or not transactions.left.is_set:
        assert time.monotonic() < give_up_s
        time.sleep(0.005)
    producer.abort_transaction()
    with pytest.raises(IllegalStateError, match=r"begin_transaction\(\) comes first"):
        producer.abort_transaction()
    producer.flush(raise_on_error=True)


def test_block_when_its_task_was_cancelled_and_its_commit_outlasts_max_block_ms_then_the_next_waits_for_that(
        start_broker: StartBroker) -> None:
    """Nobody had a place to call commit_transaction() again, and each later block was refused."""
    broker = start_broker(topics={"orders": 1})

    async def block(producer: AsyncKafkaProducer[bytes, bytes], value: bytes) -> None:
        async with producer.transaction():
            await producer.send("orders", value)

    async def main() -> None:
        async with AsyncKafkaProducer({**PROPS, "bootstrap.servers": broker.bootstrap_servers, "max.block.ms": 300,
                                       "transactional.id": "shop"}) as producer:
            await repeated_in_loop(producer.init_transactions)
            await repeated_in_loop(lambda: producer.partitions_for("orders"))
            held = broker.faults.on("EndTxn", times=None).hold()
            task = asyncio.create_task(block(producer, b"1"))
            await asyncio.to_thread(held.await_held)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(KafkaTimeoutError, match=r"commit_transaction\(\)"):
                await block(producer, b"not begun")
            held.remove()
            await repeated_in_loop(lambda: block(producer, b"2"))

    asyncio.run(main())
    assert set(committed(broker)) == {b"1", b"2"}


def test_block_when_the_commit_that_a_cancelled_one_left_has_failed_then_it_is_aborted_and_the_log_says_so(
        start_broker: StartBroker, caplog: pytest.LogCaptureFixture) -> None:
    broker = start_broker(topics={"orders": 1, "other": 1})

    async def main() -> None:
        async with AsyncKafkaProducer({**PROPS, "bootstrap.servers": broker.bootstrap_servers, "max.block.ms": 2000,
                                       "transactional.id": "shop"}) as producer:
            await producer.init_transactions()
            await producer.partitions_for("other")
            await producer.begin_transaction()
            broker.faults.on("Produce", topic="other").error("INVALID_RECORD")
            producer.send_nowait("other", b"refused")
            commit = asyncio.create_task(producer.commit_transaction())
            await asyncio.sleep(0)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            producer._producer._runtime.transaction_calls.leave("commit_transaction()")  # as a block's does
            async with producer.transaction():
                await producer.send("orders", b"2")

    asyncio.run(main())
    assert committed(broker) == [b"2"]
    assert committed(broker, "other") == []
    assert "A transaction whose task was cancelled did not end in order" in caplog.text


def test_block_when_its_task_is_cancelled_again_and_again_then_it_ends_first_all_the_same(
        start_broker: StartBroker) -> None:
    """The second cancel left it, as anyio's scopes do in each turn of the loop, and its commit went on behind it."""
    broker = start_broker(topics={"orders": 1})
    is_ended = False

    class Committing(AsyncKafkaProducer[bytes, bytes]):
        async def commit_transaction(self) -> None:
            nonlocal is_ended
            await super().commit_transaction()
            is_ended = True

    async def block(producer: AsyncKafkaProducer[bytes, bytes]) -> None:
        async with producer.transaction():
            await producer.send("orders", b"1")

    async def main() -> None:
        async with Committing({**PROPS, "bootstrap.servers": broker.bootstrap_servers,
                               "transactional.id": "shop"}) as producer:
            await producer.init_transactions()
            held = broker.faults.on("EndTxn").hold()
            task = asyncio.create_task(block(producer))
            await asyncio.to_thread(held.await_held)
            for _ in range(5):
                task.cancel()
                await asyncio.sleep(0)
            held.remove()
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            assert is_ended
            assert task.cancelled()
            await producer.begin_transaction()

    asyncio.run(main())
    assert committed(broker) == [b"1"]


def test_calls_when_the_one_before_was_cancelled_then_the_error_speaks_of_no_timeout(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"orders": 1})

    async def main() -> None:
        async with AsyncKafkaProducer({**PROPS, "bootstrap.servers": broker.bootstrap_servers,
                                       "transactional.id": "shop"}) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("orders", b"1")
            held = broker.faults.on("EndTxn").hold()
            task = asyncio.create_task(producer.commit_transaction())
            await asyncio.to_thread(held.await_held)
            task.cancel()
            await asyncio.wait([task])
            with pytest.raises(IllegalStateError, match=r"commit_transaction\(\) was left before it had ended"):
                await producer.abort_transaction()
            held.remove()
            await producer.commit_transaction()

    asyncio.run(main())


TIMES = ("txn-init-time-ns-total", "txn-send-offsets-time-ns-total", "txn-prepare-time-ns-total",
         "txn-commit-time-ns-total", "txn-abort-time-ns-total")


def count_by_sevens(producer: KafkaProducer) -> None:
    """Let each call take 7 ms."""
    clock: Any = SimpleNamespace(now_ms=partial(next, itertools.count(0, 7)))
    producer._runtime.transaction_calls.clock = clock


def test_times_of_calls_when_threads_and_tasks_make_them_then_they_are_counted_as_in_java(
        start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(topics={"orders": 1})
    producer = connect(broker)
    count_by_sevens(producer)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({}, "readers")
    producer.prepare_transaction()
    producer.commit_transaction()
    with pytest.raises(IllegalStateError):
        producer.commit_transaction()
    producer.begin_transaction()
    producer.abort_transaction()
    metrics = producer.metrics()
    assert [metrics[name] for name in TIMES[1:]] == [7_000_000, 7_000_000, 14_000_000, 7_000_000]

    async def main() -> None:
        async with AsyncKafkaProducer({**PROPS, "bootstrap.servers": broker.bootstrap_servers,
                                       "transactional.id": "other"}) as producer:
            count_by_sevens(producer._producer)
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({}, "readers")
            await producer.prepare_transaction()
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.abort_transaction()
            assert [producer.metrics()[name] for name in TIMES] == [7_000_000] * 5

    asyncio.run(main())
