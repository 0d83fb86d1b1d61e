"""on_completion: called once for each record, in order, with the outcome; what it raises is nobody else's trouble."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest

from pyproducer import ErrorCode, IllegalStateError, KafkaProducer, ProducerRecord, RecordMetadata
from tests.contract.clusters import PARTITIONS, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import Witness, await_known, numbers_of, wait_until
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S

ONE_BATCH = {"linger_ms": 20_000, "batch_size": 100_000}  # flush() ends the wait


def test_callbacks_when_records_are_stored_then_each_is_called_once_with_metadata_alone(
        topic: str, connect: Connect) -> None:
    witness = Witness(connect(), topic)
    witness.send(range(300))
    witness.await_all()
    for told in witness.told:
        assert type(told.metadata) is RecordMetadata
        assert told.error is None
        assert told.metadata == witness.futures[told.number].result(0)


def test_callbacks_when_several_partitions_are_sent_to_then_they_come_in_the_order_of_each(
        topic: str, connect: Connect) -> None:
    witness = Witness(connect(batch_size=500), topic)
    for number in range(400):
        witness.send(number, partition=number % PARTITIONS)
    witness.await_all()
    for partition in range(PARTITIONS):
        numbers = [number for number in witness.order if witness.partitions[number] == partition]
        assert numbers == list(range(partition, 400, PARTITIONS))


def test_callbacks_when_an_interceptor_and_serializers_are_there_then_nothing_changes(
        topic: str, connect: Connect) -> None:
    class Watcher:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record

    producer = connect(interceptor_classes=[Watcher()], key_serializer="bytes", value_serializer="bytes")
    witness = Witness(producer, topic)
    witness.send(range(100))
    witness.await_all()
    assert witness.order == list(range(100))
    assert sorted(witness.metadata) == list(range(100))


def test_callbacks_when_a_batch_is_refused_then_each_is_called_once_with_the_error_in_order(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **ONE_BATCH)
    await_known(producer, topic)
    proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    witness = Witness(producer, topic)
    witness.send(range(20))
    producer.flush(GIVE_UP_S)
    witness.await_all()
    assert len(proxy.requests("Produce")) == 1
    assert witness.order == list(range(20))
    for told in witness.told:
        assert told.error is not None
        assert told.metadata is None or told.metadata.offset == -1


def test_callbacks_when_one_of_them_runs_then_the_future_is_decided_already(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, **ONE_BATCH)
    await_known(producer, topic)
    held = proxy.on("Produce").hold_answer()
    futures = {}
    seen: list[tuple[bool, int]] = []

    def look(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        seen.append((futures["it"].done(), futures["it"].result(0).offset))

    futures["it"] = producer.send(topic, b"v", on_completion=look)
    flushing = threading.Thread(target=producer.flush)
    flushing.start()
    held.await_count()
    assert not futures["it"].done()
    assert not seen
    held.release()
    flushing.join(GIVE_UP_S)
    assert seen == [(True, 0)]


@pytest.mark.parametrize("is_refused", [False, True], ids=["stored", "refused"])
@pytest.mark.parametrize("raisers", [{0}, {3}, {9}, set(range(10))], ids=["first", "middle", "last", "all"])
def test_callbacks_when_some_raise_then_the_others_and_all_futures_are_told(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, raisers: set[int],
        is_refused: bool) -> None:
    """One callback that raised could leave the others of its batch uncalled, and flush() waiting for them."""
    producer = connect(through=proxy, **ONE_BATCH)
    await_known(producer, topic)
    if is_refused:
        proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
    called: list[int] = []

    def callback(number: int) -> object:
        def on_completion(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
            called.append(number)
            if number in raisers:
                raise ZeroDivisionError(f"in the callback of {number}")
        return on_completion

    futures = [producer.send(topic, b"%d" % number, partition=0, on_completion=callback(number))
               for number in range(10)]
    producer.flush(GIVE_UP_S)
    assert called == list(range(10))
    assert len(proxy.requests("Produce")) == 1
    assert [future.done() for future in futures] == [True] * 10
    assert all((future.exception(0) is not None) == is_refused for future in futures)
    last = producer.send(topic, b"10", partition=0)
    producer.flush(GIVE_UP_S)
    assert last.exception(0) is None
    assert numbers_of(cluster.log(topic)) == ([10] if is_refused else list(range(11)))


def test_callbacks_when_one_sends_a_record_then_it_is_stored_too(
        cluster: Cluster, topic: str, connect: Connect) -> None:
    producer = connect()
    last = threading.Event()

    def send_next(number: int) -> None:
        def on_completion(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
            if number < 5:
                send_next(number + 1)
            else:
                last.set()
        producer.send(topic, b"%d" % number, partition=0, on_completion=on_completion)

    send_next(0)
    assert last.wait(GIVE_UP_S)
    assert numbers_of(cluster.log(topic)) == list(range(6))


def test_callbacks_when_one_calls_flush_then_it_is_refused_in_place_of_waiting_for_itself(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    held = proxy.on("Produce").hold_answer()
    raised: list[BaseException] = []

    def on_completion(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        try:
            producer.flush(GIVE_UP_S)
        except IllegalStateError as error:
            raised.append(error)

    producer.send(topic, b"v", on_completion=on_completion)
    held.await_count()
    held.release()  # nobody waits in result(), so it is the producer's own thread that calls back
    wait_until(lambda: raised, "flush() is refused")


@pytest.mark.parametrize("form", ["record", "parts"])
def test_callbacks_when_send_is_called_either_way_then_they_are_called(
        topic: str, connect: Connect, form: str) -> None:
    witness = Witness(connect(), topic)
    _send(connect(), topic, witness, form).result(GIVE_UP_S)
    wait_until(lambda: witness.order == [7], "the callback is called")


def _send(producer: KafkaProducer, topic: str, witness: Witness, form: str):
    if form == "record":
        return producer.send(ProducerRecord(topic, b"v"), witness.callback(7))
    return producer.send(topic, b"v", on_completion=witness.callback(7))


@pytest.mark.parametrize("headers", [None, [("h", b"1")]], ids=["plain", "headers"])
@pytest.mark.parametrize("callback", [5, "print", (), object()], ids=["int", "str", "tuple", "object"])
def test_callback_when_it_cannot_be_called_then_send_says_so_and_nothing_is_sent(
        cluster: Cluster, topic: str, connect: Connect, callback: Any, headers: Any) -> None:
    """It was accepted, and failed in a line of the log once the record was stored."""
    producer = connect()
    first = producer.send(topic, b"v")
    words = f"on_completion must be callable, got {type(callback).__name__}: "
    with pytest.raises(TypeError, match=words):
        producer.send(topic, b"w", headers=headers, on_completion=callback)
    with pytest.raises(TypeError, match=words):
        producer.send(ProducerRecord(topic, b"w", headers=headers), on_completion=callback)
    with pytest.raises(TypeError, match="takes a callable as its second argument"):
        producer.send(ProducerRecord(topic, b"w", headers=headers), callback)
    producer.flush(GIVE_UP_S)
    assert first.done()
    assert [record.value for record in cluster.log(topic)] == [b"v"]


def test_done_callback_when_it_cannot_be_called_then_that_is_said_at_once(topic: str, connect: Connect) -> None:
    async def await_it(future: Any) -> None:
        await future

    producer = connect(linger_ms=20_000)
    await_known(producer, topic)
    futures: list[Any] = [producer.send(topic, b"v"), producer.send_batch(topic, [b"v"])]
    for is_done in (False, True):
        for future in futures:
            assert future.done() is is_done
            with pytest.raises(TypeError, match="a done callback must be callable, got int: 5"):
                future.add_done_callback(5)
            for refused in (await_it, functools.partial(await_it)):
                with pytest.raises(TypeError, match=r"a done callback .* this one is a coroutine function"):
                    future.add_done_callback(refused)
        producer.flush(GIVE_UP_S)
