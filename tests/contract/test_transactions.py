"""Transactions: what is sent in one is seen by all, or by none; and what each call raises where it does not fit.

Who reads is librdkafka's consumer, with isolation.level=read_committed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import (
    AbortableTransactionError,
    FatalProducerError,
    IllegalStateError,
    InvalidTopicError,
    KafkaProducer,
    KafkaTimeoutError,
    TransactionAbortedError,
)
from pyproducer.aio import AsyncKafkaProducer
from tests.contract.clusters import Can, Cluster
from tests.contract.conftest import Connect

pytestmark = pytest.mark.needs(Can.END_TRANSACTIONS)
pytest.importorskip("confluent_kafka")


@pytest.fixture
def open_producer(connect: Connect, topic_name: str) -> Callable[..., KafkaProducer]:
    """Make transactional producers, all with one id unless told otherwise."""
    def make(transactional_id: str = topic_name, *, ready: bool = True, **props: Any) -> KafkaProducer:
        producer = connect(transactional_id=transactional_id, **props)
        if ready:
            producer.init_transactions()
        return producer
    return make


Open = Callable[..., KafkaProducer]


def values(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def send(producer: KafkaProducer, topic: str, numbers: list[bytes]) -> None:
    for value in numbers:
        producer.send(topic, value)


def transact(producer: KafkaProducer, *sent: tuple[str, bytes], partition: int | None = None) -> None:
    with producer.transaction():
        for topic, value in sent:
            producer.send(topic, value, partition=partition)


def test_transaction_when_it_is_committed_then_it_is_seen_and_when_aborted_then_not(
        cluster: Cluster, topic: str, open_producer: Open) -> None:
    producer = open_producer()
    for turn in range(6):
        producer.begin_transaction()
        send(producer, topic, values(turn * 10, 10))
        if turn % 3 == 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    expected = [value for turn in (0, 1, 3, 4) for value in values(turn * 10, 10)]
    assert sorted(cluster.committed(topic), key=int) == expected


def test_transaction_when_it_is_open_then_nobody_sees_it(cluster: Cluster, topic: str, open_producer: Open) -> None:
    producer = open_producer()
    producer.begin_transaction()
    assert producer.send(topic, b"1").result(60).offset == 0
    assert cluster.committed(topic, is_one_open=True) == []
    producer.commit_transaction()
    assert cluster.committed(topic) == [b"1"]


def test_block_when_it_ends_then_it_commits_and_when_it_is_left_by_an_exception_then_it_aborts(
        cluster: Cluster, topic: str, open_producer: Open) -> None:
    producer = open_producer()
    with producer.transaction():
        producer.send(topic, b"1")

    def fail() -> None:
        producer.send(topic, b"2")
        raise KeyError("of the application")

    with pytest.raises(KeyError, match="of the application"), producer.transaction():
        fail()
    with producer.transaction():
        producer.send(topic, b"3")
    assert sorted(cluster.committed(topic)) == [b"1", b"3"]


def test_send_batch_when_it_is_in_a_transaction_then_its_rows_are(
        cluster: Cluster, topic: str, open_producer: Open) -> None:
    producer = open_producer()
    for commits in (True, False):
        producer.begin_transaction()
        future = producer.send_batch(topic, values(0 if commits else 5000, 5000))
        if commits:
            producer.commit_transaction()
            assert not future.result(0).errors
        else:
            producer.abort_transaction()
    assert sorted(cluster.committed(topic), key=int) == values(0, 5000)


def test_commit_when_records_wait_for_their_topic_then_they_are_in_it(
        cluster: Cluster, topic: str, open_producer: Open) -> None:
    producer = open_producer()
    with producer.transaction():
        futures = [producer.send(topic, value) for value in values(0, 100)]
    assert all(future.done() for future in futures)
    assert sorted(cluster.committed(topic), key=int) == values(0, 100)


def test_commit_when_other_threads_send_then_each_record_is_in_it_or_refused(
        cluster: Cluster, topic: str, open_producer: Open) -> None:
    """A send() that passed the gate before the commit may come to its batch after it: in no transaction at all."""
    producer = open_producer()
    accepted: list[tuple[int, bytes]] = []
    ends = threading.Event()

    def keep_sending(number: int) -> None:
        count = 0
        while not ends.is_set():
            value = b"%d" % (number * 1_000_000 + count)
            try:
                producer.send(topic, value)
            except IllegalStateError:
                continue
            accepted.append((number, value))
            count += 1

    producer.begin_transaction()
    threads = [threading.Thread(target=keep_sending, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(1, 11):
        while len(accepted) < turn * 100:
            ends.wait(0.001)
        producer.commit_transaction()
        producer.begin_transaction()
    ends.set()
    for thread in threads:
        thread.join()
    producer.commit_transaction()
    assert sorted(cluster.committed(topic), key=int) == sorted((value for _, value in accepted), key=int)


def test_abort_when_records_are_not_sent_yet_then_their_futures_say_so(
        cluster: Cluster, topic: str, open_producer: Open) -> None:
    producer = open_producer(linger_ms=30_000)
    for _ in range(20):  # on a loaded machine it may be on its way already
        told: list[Any] = []
        producer.begin_transaction()
        future = producer.send(topic, b"1", on_completion=lambda _metadata, error, told=told: told.append(error))
        producer.abort_transaction()
        error = future.exception(0)
        if error is not None:
            break
    assert isinstance(error, TransactionAbortedError)
    assert error.outcome == "not_sent"
    assert [type(each) for each in told] == [TransactionAbortedError]
    producer.flush(raise_on_error=True)  # whoever aborts knows of these
    assert cluster.committed(topic) == []


def test_record_when_it_fails_then_commit_raises_its_error_and_an_abort_goes_on(
        cluster: Cluster, topic: str, open_producer: Open) -> None:
    producer = open_producer()
    producer.begin_transaction()
    producer.send(topic, b"1")
    error = producer.send("no/topic", b"2").exception(60)
    assert isinstance(error, InvalidTopicError)
    with pytest.raises(AbortableTransactionError, match=r"call abort_transaction\(\)") as failed:
        producer.commit_transaction()
    assert isinstance(failed.value.__cause__, InvalidTopicError)
    with pytest.raises(AbortableTransactionError, match="no/topic"):
        producer.send(topic, b"3")
    with pytest.raises(AbortableTransactionError):
        producer.send_batch(topic, [b"3"])
    with pytest.raises(AbortableTransactionError):
        producer.begin_transaction()
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"4")
    assert cluster.committed(topic) == [b"4"]


def test_block_when_a_record_in_it_failed_then_it_is_aborted_and_the_error_raised(
        cluster: Cluster, topic: str, open_producer: Open) -> None:
    producer = open_producer()
    with pytest.raises(AbortableTransactionError, match="no/topic"):
        transact(producer, (topic, b"1"), ("no/topic", b"2"))
    with producer.transaction():
        producer.send(topic, b"3")
    assert cluster.committed(topic) == [b"3"]


@pytest.mark.needs(Can.CONFIGURE_TOPICS)
def test_record_when_the_broker_refuses_it_then_the_next_transaction_goes_on(
        cluster: Cluster, topic_name: str, open_producer: Open) -> None:
    """The refused record leaves a hole among the sequence numbers, which the next transaction must not meet."""
    topic = cluster.create_topic(topic_name, {"max.message.bytes": "1000"})
    producer = open_producer()
    for _ in range(3):
        with pytest.raises(AbortableTransactionError, match="MESSAGE_TOO_LARGE"):
            transact(producer, (topic, b"small"), (topic, b"x" * 2000), (topic, b"small, too"), partition=0)
        with producer.transaction():
            producer.send(topic, b"good", partition=0)
    assert cluster.committed(topic) == [b"good"] * 3


def test_second_producer_when_it_is_initialised_then_the_first_is_fenced_at_its_next_call(
        cluster: Cluster, topic: str, open_producer: Open) -> None:
    first = open_producer()
    first.begin_transaction()
    first.send(topic, b"1").result(60)
    second = open_producer()
    with second.transaction():
        second.send(topic, b"2")
    with pytest.raises(FatalProducerError, match="close it") as fenced:
        first.commit_transaction()
    assert "Another producer was initialised with this transactional id" in str(fenced.value)
    for call in (first.begin_transaction, first.abort_transaction, first.init_transactions,
                 lambda: first.send(topic, b"3")):
        with pytest.raises(FatalProducerError):
            call()
    assert cluster.committed(topic) == [b"2"]


def test_producer_when_it_is_fenced_between_its_transactions_then_nothing_of_the_next_is_seen(
        cluster: Cluster, topic: str, open_producer: Open) -> None:
    first = open_producer()
    with first.transaction():
        first.send(topic, b"1")
    open_producer()
    first.begin_transaction()
    future = first.send(topic, b"2")
    with pytest.raises((FatalProducerError, AbortableTransactionError)):
        first.commit_transaction()
    assert future.exception(60) is not None
    with pytest.raises(FatalProducerError):
        first.abort_transaction()
    assert cluster.committed(topic) == [b"1"]


def test_calls_when_they_do_not_fit_then_they_say_what_comes_first(topic: str, open_producer: Open,
                                                                   connect: Connect) -> None:
    producer = open_producer(ready=False)
    for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction,
                 producer.prepare_transaction, lambda: producer.send(topic, b"1"),
                 lambda: producer.send_batch(topic, [b"1"])):
        with pytest.raises(IllegalStateError, match=r"init_transactions\(\) comes first"):
            call()
    producer.init_transactions()
    for call in (producer.commit_transaction, producer.abort_transaction, lambda: producer.send(topic, b"1"),
                 lambda: producer.send_offsets_to_transaction({(topic, 0): 1}, "g")):
        with pytest.raises(IllegalStateError, match=r"begin_transaction\(\) comes first"):
            call()
    producer.begin_transaction()
    for call in (producer.begin_transaction, producer.init_transactions):
        with pytest.raises(IllegalStateError, match="a transaction is open"):
            call()
    producer.abort_transaction()
    plain = connect()
    for call in (plain.init_transactions, plain.begin_transaction, plain.commit_transaction):
        with pytest.raises(IllegalStateError, match=r"set transactional\.id"):
            call()


def test_producer_when_it_binds_other_ids_then_each_has_its_transactions(
        cluster: Cluster, topic: str, topic_name: str, open_producer: Open) -> None:
    producer = open_producer()
    for turn in range(3):
        for number in range(3):
            producer.init_transactions(f"{topic_name}-{number}")
            with producer.transaction():
                producer.send(topic, b"%d" % (turn * 3 + number))
    assert sorted(cluster.committed(topic), key=int) == values(0, 9)
    with pytest.raises(TypeError, match="transactional_id must be a str"):
        producer.init_transactions(7)  # type: ignore[arg-type]  # what a user may try
    with pytest.raises(TypeError, match="not empty"):
        producer.init_transactions("")


def test_epoch_when_an_id_is_bound_again_then_it_is_another_one(
        cluster: Cluster, topic: str, topic_name: str, open_producer: Open) -> None:
    """On Kafka 4.1 a second attempt on one (id, epoch) was told the offsets of the first one's records, and its own
    are not in the log. No call leads to that: each binding has its own epoch, and the one before is fenced."""
    one, other = open_producer(), open_producer("another")
    one.begin_transaction()
    one.send(topic, b"attempt 0").result(60)
    other.init_transactions(topic_name)
    with other.transaction():
        other.send(topic, b"attempt 1")
    with pytest.raises(FatalProducerError):
        one.commit_transaction()
    assert cluster.committed(topic) == [b"attempt 1"]


def test_close_when_a_transaction_is_open_then_it_is_aborted(cluster: Cluster, topic: str,
                                                             open_producer: Open) -> None:
    producer = open_producer()
    producer.begin_transaction()
    producer.send(topic, b"1").result(60)
    producer.close()
    assert cluster.committed(topic) == []
    again = open_producer()  # nothing is left to be aborted: the last stable offset is at the end
    with again.transaction():
        again.send(topic, b"2")
    assert cluster.committed(topic) == [b"2"]


def test_init_when_no_broker_answers_then_it_says_why_and_may_be_called_again(open_producer: Open) -> None:
    producer = open_producer(ready=False, bootstrap_servers="127.0.0.1:1", max_block_ms=300)
    for _ in range(2):
        with pytest.raises(KafkaTimeoutError, match=r"within max\.block\.ms = 300 ms.*127\.0\.0\.1:1") as timed_out:
            producer.init_transactions()
        assert timed_out.value.phase == "transaction"
        assert timed_out.value.retriable


def test_callback_when_it_calls_what_would_wait_then_it_is_refused(topic: str, open_producer: Open) -> None:
    producer = open_producer()
    raised: list[BaseException] = []

    def on_completion(*_told: object) -> None:
        for call in (producer.commit_transaction, producer.abort_transaction):
            try:
                call()
            except IllegalStateError as error:
                raised.append(error)

    with producer.transaction():
        producer.send(topic, b"1", on_completion=on_completion)
    assert len(raised) == 2
    assert all("inside a callback would wait for itself" in str(error) for error in raised)


def test_event_loop_when_it_has_transactions_then_it_goes_on_meanwhile(
        cluster: Cluster, topic: str, topic_name: str) -> None:
    async def run() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        async with AsyncKafkaProducer({"bootstrap.servers": cluster.bootstrap_servers,
                                       "transactional.id": topic_name}) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await asyncio.gather(*(producer.send(topic, value) for value in values(0, 50)))
                await producer.send_offsets_to_transaction({(topic, 0): 7}, "readers")
            await producer.begin_transaction()
            producer.send_nowait(topic, b"no")
            await producer.abort_transaction()
            with pytest.raises(ZeroDivisionError):
                await leave(producer)
            with pytest.raises(IllegalStateError, match=r"begin_transaction\(\) comes first"):
                producer.send_nowait(topic, b"no")
            await producer.begin_transaction()
            await producer.send(topic, b"50")
            assert not (await producer.prepare_transaction()).is_empty
            await producer.commit_transaction()
        ticking.cancel()
        return ticks

    async def leave(producer: AsyncKafkaProducer[bytes, bytes]) -> None:
        async with producer.transaction():
            await producer.send(topic, b"no")
            raise ZeroDivisionError

    assert asyncio.run(run()) > 20, "the loop was held up"
    assert sorted(cluster.committed(topic), key=int) == values(0, 51)


def test_commit_when_its_task_is_cancelled_then_it_goes_on_and_may_be_awaited_again(
        cluster: Cluster, topic: str, topic_name: str) -> None:
    async def run() -> None:
        async with AsyncKafkaProducer({"bootstrap.servers": cluster.bootstrap_servers,
                                       "transactional.id": topic_name}) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(topic, b"1")
            commit = asyncio.create_task(producer.commit_transaction())
            await asyncio.sleep(0)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            await producer.commit_transaction()
            async with producer.transaction():
                await producer.send(topic, b"2")

    asyncio.run(run())
    assert sorted(cluster.committed(topic)) == [b"1", b"2"]


@pytest.mark.parametrize("is_left_by", ["cancel", "timeout"])
def test_block_when_its_task_is_cancelled_while_it_commits_then_it_ends_first_and_the_next_begins(
        cluster: Cluster, topic: str, topic_name: str, is_left_by: str) -> None:
    """Its commit went on behind it, and each later block was refused, by a text about a call that timed out."""
    commits = asyncio.Event()

    class Committing(AsyncKafkaProducer[bytes, bytes]):
        async def commit_transaction(self) -> None:
            commits.set()
            await super().commit_transaction()

    async def main() -> None:
        async with Committing({"bootstrap.servers": cluster.bootstrap_servers,
                               "transactional.id": topic_name}) as producer:
            await producer.init_transactions()
            for number in range(5):
                commits.clear()
                block = asyncio.create_task(one(producer, number))
                await commits.wait()
                if is_left_by == "cancel":
                    block.cancel()
                with pytest.raises(asyncio.CancelledError if is_left_by == "cancel" else asyncio.TimeoutError):
                    await asyncio.wait_for(block, None if is_left_by == "cancel" else 0.0)
            async with producer.transaction():
                await producer.send(topic, b"last")

    async def one(producer: AsyncKafkaProducer[bytes, bytes], number: int) -> None:
        async with producer.transaction():
            await producer.send(topic, b"%d" % number)

    asyncio.run(main())
    assert sorted(cluster.committed(topic)) == [b"0", b"1", b"2", b"3", b"4", b"last"]
