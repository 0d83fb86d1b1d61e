"""The producer's life: callbacks that raise, wait or close; several who close; what is refused afterwards."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import (
    BufferExhaustedError,
    FutureRecordMetadata,
    IllegalStateError,
    KafkaProducer,
    ProducerClosedError,
    ProducerRecord,
)
from tests.contract.clusters import PARTITIONS, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, await_memory_back, wait_until
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S


class Outcry(BaseException):
    """What a callback may raise that is no Exception, as test frameworks and event loops do."""


RAISED = pytest.mark.parametrize("raised", [RuntimeError, SystemExit, KeyboardInterrupt, asyncio.CancelledError,
                                            GeneratorExit, Outcry])


def in_callback(producer: KafkaProducer, topic: str, action: Callable[[], Any]) -> Any:
    """Do something in the callback of a record; return what it returned, or the exception that it raised."""
    seen: list[Any] = []

    def on_completion(*_: object) -> None:
        try:
            seen.append(action())
        except Exception as error:
            seen.append(error)

    producer.send(topic, b"", partition=0, on_completion=on_completion)
    wait_until(lambda: seen, "the callback ended")
    return seen[0]


@RAISED
@pytest.mark.parametrize("how", ["on_completion", "done callback", "batch's done callback", "interceptor"])
def test_callback_when_it_raises_anything_then_the_producer_goes_on(
        cluster: Cluster, topic: str, connect: Connect, raised: type[BaseException], how: str) -> None:
    """sys.exit() in a callback ended the sender thread in silence: later records were pending for ever."""
    told: list[str] = []

    def cry(*_: object) -> None:
        told.append(how)
        raise raised("the user's bug")

    class Crying:
        on_acknowledgement = cry

    # It lingers, so that no callback is added to a record that is done: then it would run in this thread.
    how_long = {"linger_ms": 20_000, "batch_size": 100_000}
    producer = connect(interceptor_classes=[Crying()], **how_long) if how == "interceptor" else connect(**how_long)
    await_known(producer, topic)
    witness = Witness(producer, topic)
    if how == "batch's done callback":
        producer.send_batch(topic, [b"0"] * 3, partitions=[0] * 3).add_done_callback(cry)
    else:
        future = producer.send(topic, b"0", partition=0, on_completion=cry if how == "on_completion" else None)
        if how == "done callback":
            future.add_done_callback(cry)
    witness.send(range(1, 20))
    producer.flush(GIVE_UP_S)
    witness.await_all()
    assert sorted(witness.metadata) == list(range(1, 20))
    assert told
    producer.close()
    await_memory_back(producer)


@RAISED
def test_callback_of_a_failed_record_when_it_raises_anything_then_the_producer_goes_on(
        topic: str, connect: Connect, proxy: FaultProxy, raised: type[BaseException]) -> None:
    producer = connect(through=proxy, batch_size=100_000, linger_ms=20_000)
    await_known(producer, topic)
    proxy.on("Produce").error(87)

    def cry(*_: object) -> None:
        raise raised("the user's bug")

    witness = Witness(producer, topic)
    futures = [producer.send(topic, b"", partition=0, on_completion=cry) for _ in range(2)]
    futures[0].add_done_callback(cry)
    witness.send(range(3))
    producer.flush(GIVE_UP_S)
    assert sorted(witness.errors) == [0, 1, 2]
    assert all(future.exception(0) is not None for future in futures)
    witness.send(range(3, 6))
    producer.close()
    assert sorted(witness.metadata) == [3, 4, 5]


def test_close_when_a_callback_closed_before_then_it_waits_for_everything_that_was_accepted(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """The second close() returned at once: of 3,001 accepted records 84 were in the log."""
    closed: list[str] = []

    class Part:
        def on_acknowledgement(self, *_: object) -> None:
            pass

        def close(self) -> None:
            closed.append(threading.current_thread().name)

    producer = connect(through=proxy, interceptor_classes=[Part()], max_in_flight_requests_per_connection=1,
                       batch_size=200)
    held = proxy.on("Produce").hold_answer()
    witness = Witness(producer, topic)
    witness.send(0)
    witness.futures[0].add_done_callback(lambda _: producer.close())
    held.await_count()
    witness.send(range(1, 300))
    held.release()
    wait_until(lambda: refuses(producer, topic), "the callback has closed the producer")
    producer.close()
    assert sorted(witness.metadata) == list(range(300))
    assert len(closed) == 1
    witness.check_log(cluster)


def refuses(producer: KafkaProducer, topic: str) -> bool:
    try:
        producer.partitions_for(topic)
    except ProducerClosedError:
        return True
    return False


def test_close_when_several_close_then_each_waits_and_the_earliest_deadline_holds(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    proxy.on("Produce", times=None).swallow_request()
    witness = Witness(producer, topic)
    witness.send(range(5))
    patient = [threading.Thread(target=producer.close) for _ in range(3)]
    for thread in patient:
        thread.start()
    wait_until(lambda: refuses(producer, topic), "somebody closes the producer")
    assert all(thread.is_alive() for thread in patient)
    producer.close(0.05)
    for thread in patient:
        thread.join(GIVE_UP_S)
        assert not thread.is_alive()
    assert all(isinstance(error, ProducerClosedError) for error in witness.errors.values())
    assert sorted(witness.errors) == list(range(5))
    producer.close()


def test_call_when_it_would_wait_inside_a_callback_then_it_is_refused_at_once(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """result() of another record hung for ever: it waited for the thread that it was called on."""
    producer = connect(through=proxy, linger_ms=20_000)
    await_known(producer, topic)
    later: list[Any] = []

    def call(name: str) -> Any:
        if name == "flush":
            return producer.flush()
        if name == "partitions_for":
            return producer.partitions_for("another")
        if name == "check":
            return producer.check()
        if name == "batch":
            later.append(producer.send_batch(topic, [b"v"], partitions=[1]))
        else:
            later.append(producer.send(topic, b"v", partition=1))
        return later[-1].exception() if name == "exception" else later[-1].result()

    names = ("result", "exception", "batch", "flush", "partitions_for", "check")
    seen: list[Any] = []
    for name in names:
        def on_completion(*_: object, name: str = name) -> None:
            try:
                seen.append(call(name))
            except IllegalStateError as error:
                seen.append(error)
        producer.send(topic, b"v", partition=0, on_completion=on_completion)
    producer.flush(GIVE_UP_S)
    assert [type(error) for error in seen] == [IllegalStateError] * len(names)
    assert all("inside a callback" in str(error) for error in seen)
    producer.flush(GIVE_UP_S)
    assert all(future.done() for future in later)


def test_send_when_its_topic_is_not_known_inside_a_callback_then_nothing_is_held_up(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """It waited max.block.ms for an answer that only its own thread could read, and no record went out meanwhile."""
    producer = connect(through=proxy, max_block_ms=2**31 - 1)
    await_known(producer, topic)
    future = in_callback(producer, topic, lambda: producer.send("not-known-yet", b"v"))
    assert isinstance(future, FutureRecordMetadata)
    Witness(producer, topic).deliver_one()
    producer.close(0)
    assert future.done()


def test_send_when_memory_is_used_up_inside_a_callback_then_it_fails_at_once_as_not_sent(
        topic: str, connect: Connect) -> None:
    """150 records took 75 s at max.block.ms = 500: each waited for memory that only its own thread could give back."""
    producer = connect(max_block_ms=2**31 - 1, buffer_memory=40_000, batch_size=16_000)
    await_known(producer, topic)

    def use_up() -> BaseException | None:
        for number in range(100):
            future = producer.send(topic, bytes(5000), partition=number % PARTITIONS)
            if future.done():
                return future.exception(0)
        return None

    error = in_callback(producer, topic, use_up)
    assert isinstance(error, BufferExhaustedError)
    assert error.outcome == "not_sent"
    assert "a callback cannot wait" in str(error)
    producer.flush(GIVE_UP_S)
    await_memory_back(producer)


def test_error_when_a_producer_is_closed_then_it_says_which_and_by_whom(topic: str, connect: Connect) -> None:
    producer = connect(client_id="orders")
    closing = threading.Thread(target=producer.close, name="the-closer")
    closing.start()
    closing.join(GIVE_UP_S)
    for call in (lambda: producer.send(topic, b"v"), lambda: producer.send(ProducerRecord(topic, b"v")),
                 lambda: producer.send_batch(topic, [b"v"]), lambda: producer.partitions_for(topic)):
        with pytest.raises(ProducerClosedError) as raised:
            call()
        assert "the producer orders is closed (close() was called in thread 'the-closer')" in str(raised.value)
    producer.flush(0)


def test_producer_when_its_last_reference_goes_then_the_line_goes_on_and_its_records_are_sent(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """With a broker that did not answer, `del producer` took ten seconds."""
    held = proxy.on("Produce").hold_answer()
    producer = KafkaProducer({"bootstrap.servers": proxy.bootstrap_servers, "client.id": "dropped"})
    future = producer.send(topic, b"1", partition=0)
    held.await_count()
    with pytest.warns(ResourceWarning, match="unclosed dropped"):
        del producer
    assert not future.done()
    held.release()
    assert future.result(GIVE_UP_S).offset >= 0
    wait_until(lambda: not any("dropped" in thread.name for thread in threading.enumerate()), "its thread ended")


class Service:
    """An application's object with a producer whose serializer is its own method, and the futures of its records."""

    def __init__(self, props: dict[str, object], topic: str) -> None:
        self.producer = KafkaProducer(props, value_serializer=self.encode)
        self.futures = [self.producer.send(topic, text) for text in ("a", "b")]

    def encode(self, _topic: str, _headers: object, text: str) -> bytes:
        return text.encode()


def test_producer_when_it_is_closed_and_gone_then_nothing_keeps_what_its_serializer_has(
        cluster: Cluster, topic: str) -> None:
    """Futures know their producer's life, and the interpreter who is to be closed when it is dropped.

    close() returns when the life is over, and the sender thread then has a few lines to go: waited for.
    """
    service = Service({"bootstrap.servers": cluster.bootstrap_servers}, topic)
    assert [future.result(GIVE_UP_S).topic for future in service.futures] == [topic, topic]
    service.producer.close()
    gone = weakref.ref(service)
    del service
    wait_until(lambda: gc.collect() >= 0 and gone() is None, "nobody has the service")


def test_future_when_awaited_or_left_a_callback_then_its_record_does_not_linger(topic: str, connect: Connect) -> None:
    """`await future` paid linger.ms, which result() did not. Seen by the company that a batch then has not."""
    producer = connect()
    await_known(producer, topic)

    async def one_by_one() -> float:
        begin = time.monotonic()
        for _ in range(50):
            await producer.send(topic, b"v", partition=0)
        return time.monotonic() - begin

    asyncio.run(one_by_one())
    assert producer.metrics()["batch-total"] >= 50


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("how", ["returns", "exits"])
def test_callback_when_it_forks_and_comes_back_in_the_child_then_the_child_ends_and_the_parent_goes_on(
        cluster: Cluster, topic: str, connect: Connect, how: str) -> None:
    """The child's copy of the sender thread went on: it took answers out of the connections that the parent reads.

    sys.exit() in the child's branch was swallowed like whatever a callback raises.
    """
    producer = connect()
    children: list[int] = []
    producer.send(topic, b"", partition=0).result(GIVE_UP_S)

    def fork(*_: object) -> None:
        child = os.fork()
        if child:
            children.append(child)
        elif how == "exits":
            sys.exit()

    producer.send(topic, b"", partition=0, on_completion=fork)
    wait_until(lambda: children, "the callback has forked")
    status = (0, 0)

    def has_ended() -> bool:
        nonlocal status
        status = os.waitpid(children[0], os.WNOHANG)
        return status[0] != 0

    try:
        wait_until(has_ended, "the child has ended")
        witness = Witness(producer, topic)
        for number in range(20):
            witness.send(number)
            producer.flush(GIVE_UP_S)
        witness.await_all()
        assert sorted(witness.metadata) == list(range(20))
        assert os.waitstatus_to_exitcode(status[1]) == 0
    finally:
        if not status[0]:
            os.kill(children[0], signal.SIGKILL)
            os.waitpid(children[0], 0)


@pytest.mark.parametrize("rows", [False, True])
def test_await_in_a_callback_when_the_record_is_on_its_way_then_it_is_refused(
        cluster: Cluster, topic: str, connect: Connect, rows: bool) -> None:
    """An event loop inside a callback waited for the thread that it ran on, for ever."""
    producer = connect()
    await_known(producer, topic)

    async def send_and_wait() -> None:
        await (producer.send_batch(topic, [b""], partitions=[0]) if rows else producer.send(topic, b"", partition=0))

    error = in_callback(producer, topic, lambda: asyncio.run(send_and_wait()))
    assert isinstance(error, IllegalStateError)
    assert "await inside a callback would wait for itself" in str(error)
