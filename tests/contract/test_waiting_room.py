"""Records for topics and partitions that the producer does not know yet: send() does not wait for brokers."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from pyproducer import (
    BufferExhaustedError,
    KafkaTimeoutError,
    PartitionerError,
    ProducerClosedError,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
    RecordTooLargeError,
    SerializationError,
)
from tests.contract.clusters import PARTITIONS, Can, Cluster
from tests.contract.conftest import Connect
from tests.contract.witness import (
    Witness,
    await_known,
    await_memory_back,
    free_bytes,
    number_of,
    wait_until,
)
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.patience import GIVE_UP_S


def hold_metadata(proxy: FaultProxy) -> Fault:
    """No answer tells of any topic until it is released."""
    return proxy.on("Metadata", times=None).hold_answer()


def test_send_when_its_topic_is_not_known_then_it_returns_before_any_broker_answers(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """It waited up to max.block.ms; an event loop stood still meanwhile."""
    metadata = hold_metadata(proxy)
    producer = connect(through=proxy)
    witness = Witness(producer, topic)
    witness.send(range(20))
    rows = producer.send_batch(topic, [b"%d " % number for number in range(20, 30)], partitions=[0] * 10)
    metadata.await_count()
    assert not any(future.done() for future in witness.futures.values())
    assert free_bytes(producer) < producer.metrics()["buffer-total-bytes"]
    metadata.release()
    assert rows.result(GIVE_UP_S).errors == {}
    witness.await_all()
    assert witness.order == list(range(20))
    assert [number_of(record) for record in cluster.log(topic, 0)] == list(range(30))
    assert list(rows.result(0).offsets) == list(range(20, 30))
    assert list(rows.result(0).partitions) == [0] * 10
    await_memory_back(producer)


@pytest.mark.parametrize("partitioner", [None, "round_robin", "uniform_sticky"])
def test_order_when_threads_send_before_during_and_after_metadata_come_then_each_key_keeps_its_own(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy, partitioner: str | None) -> None:
    metadata = hold_metadata(proxy)
    producer = connect(through=proxy, linger_ms=5, batch_size=500,
                       **({} if partitioner is None else {"partitioner_class": partitioner}))
    count, is_over = 600, threading.Event()
    futures: dict[int, list[Any]] = {thread: [] for thread in range(4)}

    def work(thread: int) -> None:
        number = 0
        while number < count or not is_over.is_set():
            futures[thread].append(producer.send(topic, b"%d %d" % (thread, number), key=b"key %d" % thread,
                                                 partition=thread if partitioner == "round_robin" else None))
            number += 1
            if number == count // 2 and thread == 0:
                metadata.release()
            if number == count:
                futures[thread][0].result(GIVE_UP_S)  # then all has gone on
                is_over.set()

    threads = [threading.Thread(target=work, args=(thread,)) for thread in futures]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GIVE_UP_S)
        assert not thread.is_alive()
    producer.flush(GIVE_UP_S)
    stored: dict[int, list[int]] = {thread: [] for thread in futures}
    for record in cluster.log(topic):
        assert record.value is not None
        thread, number = map(int, record.value.split())
        stored[thread].append(number)
    for thread, told in futures.items():
        assert all(future.exception(0) is None for future in told)
        assert stored[thread] == list(range(len(told)))
    await_memory_back(producer)


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_topic_when_it_is_created_after_the_send_then_the_record_is_stored(
        cluster: Cluster, topic_name: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy)
    future = producer.send(topic_name, b"v")
    wait_until(lambda: len(proxy.requests("Metadata")) >= 3, "the topic is asked for")
    assert not future.done()
    cluster.create_topic(topic_name)
    assert future.result(GIVE_UP_S).topic == topic_name
    assert [record.value for record in cluster.log(topic_name)] == [b"v"]


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_topic_when_it_is_unknown_then_records_for_others_go_on_though_its_room_is_full(
        cluster: Cluster, topic: str, topic_name: str, connect: Connect) -> None:
    """A misspelt topic must not stop the others: it has a quarter of buffer.memory at most."""
    producer = connect(buffer_memory=200_000, max_block_ms=2**31 - 1)
    Witness(producer, topic).deliver_one()
    await_memory_back(producer)
    futures = []
    full = threading.Event()

    def fill() -> None:
        try:
            while True:
                futures.append(producer.send(f"{topic_name}-misspelt", b"v" * 1000))
        except ProducerClosedError:
            full.set()

    filling = threading.Thread(target=fill)
    filling.start()
    wait_until(lambda: producer.metrics()["waiting-threads"] == 1, "the room is full")
    assert free_bytes(producer) >= 150_000
    witness = Witness(producer, topic)
    witness.send(range(20))
    witness.await_all()
    assert len(witness.metadata) == 20
    producer.close(0)
    filling.join(GIVE_UP_S)
    assert full.is_set()
    assert all(isinstance(future.exception(0), ProducerClosedError) for future in futures)


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_topic_when_it_is_unknown_and_threads_wait_for_memory_with_it_then_it_has_a_quarter_all_the_same(
        cluster: Cluster, topic: str, topic_name: str, connect: Connect, proxy: FaultProxy) -> None:
    """Each had looked at the limit before he waited for memory, when nothing was in the room: together they took all of
    buffer.memory, and who sent to a known topic stood still until their records failed, ten seconds."""
    producer = connect(through=proxy, buffer_memory=400_000, batch_size=0, max_block_ms=2**31 - 1)
    witness = Witness(producer, topic)
    count = witness.deliver_one() + 1
    await_memory_back(producer)
    held = proxy.on("Produce", times=None).hold_request()
    while free_bytes(producer) >= 45_000:
        witness.send(count, padding=40_000)
        count += 1

    def send() -> None:
        with suppress(ProducerClosedError):
            producer.send(f"{topic_name}-misspelt", b"v" * 45_000)

    threads = [threading.Thread(target=send) for _ in range(12)]
    for thread in threads:
        thread.start()
    wait_until(lambda: producer.metrics()["waiting-threads"] == 12, "all wait for memory")
    held.release()
    witness.send(count, padding=40_000)
    witness.await_all()
    assert sum(state.bytes for state in producer.waiting() if state.topic != topic) <= 100_000
    producer.close(0)
    for thread in threads:
        thread.join(GIVE_UP_S)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_max_block_when_0_and_the_topic_is_unknown_then_the_future_has_failed_at_once(
        topic_name: str, connect: Connect) -> None:
    producer = connect(max_block_ms=0)
    told: list[Any] = []
    error = producer.send(topic_name, b"v", on_completion=lambda *what: told.append(what)).exception(0)
    assert isinstance(error, KafkaTimeoutError)
    assert (error.phase, error.outcome) == ("metadata", "not_sent")
    rows = producer.send_batch(topic_name, [b"a", b"b"]).result(0)
    assert [(row, type(failed)) for row, failed in rows.errors.items()] == [(0, KafkaTimeoutError),
                                                                            (1, KafkaTimeoutError)]
    assert [(metadata, type(exception)) for metadata, exception in told] == [(None, KafkaTimeoutError)]
    await_memory_back(producer)


@pytest.mark.parametrize(("setting", "word"), [("max_block_ms", "max.block.ms"),
                                               ("delivery_timeout_ms", "delivery.timeout.ms")])
@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_record_when_the_topic_stays_unknown_then_the_smaller_timeout_ends_its_wait(
        topic_name: str, connect: Connect, setting: str, word: str) -> None:
    producer = connect(**{setting: 300, "request_timeout_ms": 300})
    futures = [producer.send(topic_name, b"v", partition=partition) for partition in (None, 2)]
    rows = producer.send_batch(topic_name, [b"a", b"b"])
    for error in (*(future.exception(GIVE_UP_S) for future in futures), *rows.result(GIVE_UP_S).errors.values()):
        assert isinstance(error, KafkaTimeoutError)
        assert (error.phase, error.outcome) == ("metadata", "not_sent")
        assert f"{word} = 300 ms" in str(error)
        assert topic_name in str(error)
    assert list(rows.result(0).partitions) == [-1, -1]
    await_memory_back(producer)


def test_flush_when_records_wait_for_their_topic_then_it_waits_for_them_and_their_callbacks(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    metadata = hold_metadata(proxy)
    producer = connect(through=proxy)
    told: list[RecordMetadata | None] = []
    futures = [producer.send(topic, b"v", on_completion=lambda metadata, _error: told.append(metadata))
               for _ in range(10)]
    with pytest.raises(KafkaTimeoutError, match="10 records are still on their way") as caught:
        producer.flush(0.01)
    assert caught.value.phase == "flush"
    metadata.release()
    producer.flush(GIVE_UP_S)
    assert all(future.done() for future in futures)
    assert len(told) == 10


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_flush_when_a_waiting_record_fails_then_it_returns(topic_name: str, connect: Connect) -> None:
    producer = connect(max_block_ms=200)
    future = producer.send(topic_name, b"v")
    producer.flush(GIVE_UP_S)
    assert isinstance(future.exception(0), KafkaTimeoutError)


def test_close_when_records_wait_for_their_topic_then_they_are_sent_first(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    metadata = hold_metadata(proxy)
    producer = connect(through=proxy)
    witness = Witness(producer, topic)
    witness.send(range(10))
    closing = threading.Thread(target=producer.close)
    closing.start()
    metadata.await_count()
    metadata.release()
    closing.join(GIVE_UP_S)
    assert not closing.is_alive()
    assert sorted(witness.metadata) == list(range(10))
    witness.check_log(cluster)


def test_close_when_its_timeout_passes_then_waiting_records_fail_as_not_sent(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    hold_metadata(proxy)
    producer = connect(through=proxy)
    witness = Witness(producer, topic)
    witness.send(range(10))
    rows = producer.send_batch(topic, [b"a"])
    producer.close(0.01)
    assert all(isinstance(error, ProducerClosedError) for error in witness.errors.values())
    assert [error.outcome for error in witness.errors.values()] == ["not_sent"] * 10
    assert isinstance(rows.result(0).errors[0], ProducerClosedError)
    assert witness.order == list(range(10))
    await_memory_back(producer)
    assert cluster.log(topic) == []


def test_send_when_its_topic_is_not_known_inside_a_callback_then_the_record_is_stored(
        cluster: Cluster, topic: str, topic_name: str, connect: Connect) -> None:
    other = cluster.new_topic(f"{topic_name}-other")
    producer = connect()
    inner: list[Any] = []
    producer.send(topic, b"v", on_completion=lambda *_: inner.append(producer.send(other, b"from a callback")))
    wait_until(lambda: inner, "the callback ran")
    assert inner[0].result(GIVE_UP_S).topic == other
    assert [record.value for record in cluster.log(other)] == [b"from a callback"]


@pytest.mark.needs(Can.REFUSE_UNKNOWN_TOPICS)
def test_send_when_the_room_is_full_inside_a_callback_then_it_fails_at_once_as_not_sent(
        topic: str, topic_name: str, connect: Connect) -> None:
    producer = connect(buffer_memory=40_000, batch_size=1000, max_block_ms=2**31 - 1)
    await_known(producer, topic)
    inner: list[Any] = []

    def on_completion(*_: object) -> None:
        inner.extend(producer.send(f"{topic_name}-unknown", b"v" * 1000) for _ in range(20))

    producer.send(topic, b"v", on_completion=on_completion)
    wait_until(lambda: len(inner) == 20, "the callback ended")
    error = inner[-1].exception(0)
    assert isinstance(error, BufferExhaustedError)
    assert error.outcome == "not_sent"
    assert not inner[0].done()


def test_partitioner_when_it_raises_for_a_record_that_waited_then_its_future_fails_and_the_others_go_on(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    def choose(_topic: str, _key: object, _key_bytes: object, value: object, *_: object) -> int:
        if value == b"bad":
            raise ZeroDivisionError("in the partitioner")
        return PARTITIONS if value == b"beyond" else 1

    metadata = hold_metadata(proxy)
    producer = connect(through=proxy, partitioner_class=choose)
    told: list[Any] = []
    futures = {value: producer.send(topic, value, on_completion=lambda *what: told.append(what))
               for value in (b"a", b"bad", b"beyond", b"b")}
    rows = producer.send_batch(topic, [b"c", b"bad"])
    metadata.release()
    error = futures[b"bad"].exception(GIVE_UP_S)
    assert isinstance(error, PartitionerError)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert isinstance(futures[b"beyond"].exception(GIVE_UP_S), PartitionerError)
    producer.flush(GIVE_UP_S)
    assert {type(error) for _, error in told} == {type(None), PartitionerError}
    assert {row: type(error) for row, error in rows.result(0).errors.items()} == {1: PartitionerError}
    assert {getattr(error, "outcome", None) for error in (
        futures[b"bad"].exception(0), futures[b"beyond"].exception(0), *rows.result(0).errors.values())} == {"not_sent"}
    assert list(rows.result(0).partitions) == [1, -1]
    assert [record.value for record in cluster.log(topic)] == [b"a", b"b", b"c"]
    await_memory_back(producer)


def test_interceptors_when_the_topic_is_not_known_then_they_see_the_record_in_send_and_its_end_before_the_callback(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    events: list[Any] = []

    class Seeing(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            events.append(("on_send", threading.current_thread() is threading.main_thread()))
            return ProducerRecord(record.topic, b"changed", partition=2)

        def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
            events.append(("acknowledged", None if metadata is None else metadata.partition))

    metadata = hold_metadata(proxy)
    producer = connect(through=proxy, interceptor_classes=[Seeing()])
    future = producer.send(topic, b"v", on_completion=lambda *_: events.append("callback"))
    assert events == [("on_send", True)]
    metadata.release()
    assert future.result(GIVE_UP_S).partition == 2
    assert events == [("on_send", True), ("acknowledged", 2), "callback"]


def test_send_when_a_record_is_wrong_then_it_raises_though_the_topic_is_not_known(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    hold_metadata(proxy)
    producer = connect(through=proxy, max_request_size=100_000)
    with pytest.raises(RecordTooLargeError):
        producer.send(topic, b"v" * 200_000)
    with pytest.raises(SerializationError):
        producer.send(topic, "text")
    await_memory_back(producer)


def test_future_when_its_record_waits_and_goes_on_then_every_way_to_look_at_it_works(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    metadata = hold_metadata(proxy)
    producer = connect(through=proxy)
    future = producer.send(topic, b"v", partition=1)
    seen: list[Any] = []
    future.add_done_callback(lambda told: seen.append(("before", told.result(0).offset)))
    assert (future.done(), future.cancelled()) == (False, False)
    for look in (future.result, future.exception):
        with pytest.raises(KafkaTimeoutError, match="was not done within 0"):
            look(0)
    waiting = threading.Thread(target=lambda: seen.append(("thread", future.result(GIVE_UP_S).offset)))
    waiting.start()

    async def wait() -> RecordMetadata:
        asyncio.get_running_loop().call_later(0, metadata.release)
        return await future

    assert asyncio.run(wait()) == future.result(0)
    waiting.join(GIVE_UP_S)
    future.add_done_callback(lambda told: seen.append(("after", told.exception(0))))
    assert sorted(map(str, seen)) == ["('after', None)", "('before', 0)", "('thread', 0)"]


def test_rows_when_more_of_them_wait_than_the_room_takes_then_all_are_stored_in_order(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    metadata = hold_metadata(proxy)
    producer = connect(through=proxy, buffer_memory=400_000)
    count = 3000
    futures: list[Any] = []
    sending = threading.Thread(target=lambda: futures.append(producer.send_batch(
        topic, [b"%d " % number for number in range(count)], keys=[b"%d" % (number % 7) for number in range(count)],
        headers=[[("h", b"%d" % number), ("n", None)] for number in range(count)])))
    sending.start()
    wait_until(lambda: producer.metrics()["waiting-threads"] == 1, "the room is full")
    metadata.release()
    sending.join(GIVE_UP_S)
    told = futures[0].result(GIVE_UP_S)
    assert told.errors == {}
    records = cluster.log(topic)
    assert sorted(map(number_of, records)) == list(range(count))
    last: dict[Any, int] = {}
    for record in records:
        number = number_of(record)
        assert last.get(record.key, -1) < number
        last[record.key] = number
        assert [tuple(header) for header in record.headers] == [("h", b"%d" % number), ("n", None)]
        assert (told.partitions[number], told.offsets[number]) == (record.partition, record.offset)
    await_memory_back(producer)


def test_prefetched_topics_when_the_producer_starts_then_they_are_asked_for_without_a_record(
        cluster: Cluster, topic: str, connect: Connect, proxy: FaultProxy) -> None:
    producer = connect(through=proxy, pyproducer_prefetch_topics=[topic], max_block_ms=0)
    wait_until(lambda: _is_known(producer, topic), "the topic is known")
    assert producer.send(topic, b"v").result(GIVE_UP_S).offset == 0


def _is_known(producer: Any, topic: str) -> bool:
    try:
        return bool(producer.partitions_for(topic))
    except KafkaTimeoutError:
        return False
