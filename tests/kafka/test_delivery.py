"""acks, futures, callbacks, interceptors, flush, many partitions, many threads: against Apache Kafka."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pyproducer import KafkaProducer, ProducerInterceptor, ProducerRecord, RecordMetadata
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import check_log, check_order, read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.sending import Outcomes

# Nobody waits so long: what is sent before it is up was sent for another reason.
LONG_LINGER_MS = 3_600_000


@pytest.mark.parametrize(("acks", "idempotent"), [("0", False), ("1", False), ("all", False), ("all", True)])
def test_records_when_sent_with_each_acks_then_all_arrive_in_order(
        kafka: KafkaServer, topic_name: str, acks: str, idempotent: bool) -> None:
    topic = kafka.create_topic(topic_name, 3)
    count = 5000
    outcomes = Outcomes()
    props = {"bootstrap.servers": kafka.bootstrap_servers, "acks": acks, "enable.idempotence": idempotent}
    with KafkaProducer(props) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, on_completion=outcomes.callback(number), partition=number % 3)
        producer.flush(GIVE_UP_S)
        outcomes.ensure_all_acknowledged(count)
    offsets = {metadata.offset for metadata in outcomes.metadata.values()}
    assert offsets == ({-1} if acks == "0" else set(range((count + 2) // 3)))
    stored = _read_at_least(kafka, topic, count)
    check_log(range(count), [int(record.value or b"-1") for record in stored])
    check_order((record.partition, int(record.value or b"-1")) for record in stored)


def _read_at_least(kafka: KafkaServer, topic: str, count: int) -> list[Any]:
    """With acks=0 a record is answered for when its bytes are written: the broker may be some ms behind."""
    deadline = time.monotonic() + GIVE_UP_S
    while len(stored := read_topic(kafka.bootstrap_servers, topic)) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    return stored


def test_metadata_when_a_record_is_stored_then_it_tells_where_and_how_large(
        kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 3)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        record = ProducerRecord(topic, b"value", b"key", partition=1, timestamp=1_600_000_000_000)
        assert producer.send(record).result(GIVE_UP_S) == RecordMetadata(topic, 1, 0, 1_600_000_000_000, 3, 5)
        assert producer.send(topic, None, partition=2).result(GIVE_UP_S)[4:] == (-1, -1)
        assert producer.send(record).result(GIVE_UP_S).offset == 1


def test_metadata_when_the_topic_stamps_records_then_it_has_the_brokers_time(
        kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 1, {"message.timestamp.type": "LogAppendTime"})
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        metadata = producer.send(topic, b"v", timestamp=5).result(GIVE_UP_S)
    assert metadata.timestamp > 1_600_000_000_000
    assert [record.timestamp for record in read_topic(kafka.bootstrap_servers, topic)] == [metadata.timestamp]


def test_callbacks_when_records_are_answered_then_in_order_within_a_partition_on_the_sender_thread(
        kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 3)
    heard: list[tuple[int, int]] = []
    threads: set[str] = set()

    def callback(number: int) -> Any:
        def on_completion(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
            assert metadata is not None
            assert exception is None
            heard.append((metadata.partition, number))
            threads.add(threading.current_thread().name)
            if number == 7:
                raise ValueError("a callback's own error harms nobody")
        return on_completion

    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        futures = [producer.send(topic, b"v", partition=number % 3, on_completion=callback(number))
                   for number in range(3000)]
        producer.flush(GIVE_UP_S)
        assert len(heard) == 3000
        assert all(future.done() for future in futures)
    check_order(heard, "partition")
    assert len(threads) == 1
    assert threading.current_thread().name not in threads


def test_futures_when_awaited_or_asked_then_they_agree(kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:

        async def send_some() -> list[int]:
            return [(await producer.send(topic, b"v")).offset for _ in range(5)]

        assert asyncio.run(asyncio.wait_for(send_some(), GIVE_UP_S)) == [0, 1, 2, 3, 4]
        future = producer.send(topic, b"v")
        called: list[object] = []
        future.add_done_callback(called.append)
        assert future.exception(GIVE_UP_S) is None
        assert future.done()
        future.add_done_callback(called.append)
        producer.flush(GIVE_UP_S)
        assert called == [future, future]


def test_interceptors_when_configured_then_they_change_records_and_hear_of_each(
        kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    heard: list[tuple[str, object]] = []

    class Tagging(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord(record.topic, record.value + b"!", record.key, headers=[("tag", b"1")])

        def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
            heard.append(("acknowledged", exception))

        def close(self) -> None:
            heard.append(("closed", None))

    class Failing(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError("logged and swallowed")

    props = {"bootstrap.servers": kafka.bootstrap_servers, "interceptor.classes": [Tagging(), Failing()]}
    with KafkaProducer(props) as producer:
        producer.send(topic, b"v").result(GIVE_UP_S)
        producer.flush(GIVE_UP_S)
    stored = read_topic(kafka.bootstrap_servers, topic)
    assert [(record.value, record.headers) for record in stored] == [(b"v!", (("tag", b"1"),))]
    assert heard == [("acknowledged", None), ("closed", None)]


def test_flush_when_records_linger_then_it_sends_them_at_once(kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 3)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": LONG_LINGER_MS,
                        "delivery.timeout.ms": 2 * LONG_LINGER_MS}) as producer:
        futures = [producer.send(topic, b"v") for _ in range(10)]
        assert not any(future.done() for future in futures)
        producer.flush(GIVE_UP_S)  # raises when its time is up
        assert all(future.done() for future in futures)


def test_close_when_records_linger_then_it_sends_them(kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": LONG_LINGER_MS,
                        "delivery.timeout.ms": 2 * LONG_LINGER_MS}) as producer:
        futures = [producer.send(topic, b"v") for _ in range(10)]
    assert [future.result(0).offset for future in futures] == list(range(10))


def test_partitions_for_when_asked_then_it_tells_leaders_and_replicas(kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name, 5)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        partitions = producer.partitions_for(topic)
    assert [info.partition for info in partitions] == [0, 1, 2, 3, 4]
    assert {(info.topic, info.leader.port if info.leader else None) for info in partitions} == {(topic, kafka.port)}


def test_many_partitions_when_records_go_to_all_then_all_arrive(kafka: KafkaServer, topic_name: str) -> None:
    partition_count, count = 200, 20_000
    topic = kafka.create_topic(topic_name, partition_count)
    outcomes = Outcomes()
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % partition_count,
                          on_completion=outcomes.callback(number))
    outcomes.ensure_all_acknowledged(count)
    stored = read_topic(kafka.bootstrap_servers, topic)
    check_log(range(count), [int(record.value or b"-1") for record in stored])
    check_order((record.partition, int(record.value or b"-1")) for record in stored)


def test_threads_when_they_share_a_producer_then_each_keeps_its_order(kafka: KafkaServer, topic_name: str) -> None:
    thread_count, count = 8, 3000
    topic = kafka.create_topic(topic_name, 3)
    errors: list[BaseException] = []
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "batch.size": 2000}) as producer:

        def send_many(thread_number: int) -> None:
            try:
                for number in range(count):
                    producer.send(topic, b"%d" % number, key=b"thread %d" % thread_number)
                    if number % 1000 == 999:
                        producer.flush(GIVE_UP_S)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=send_many, args=(number,)) for number in range(thread_count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    stored = read_topic(kafka.bootstrap_servers, topic)
    check_log([(b"thread %d" % thread, number) for thread in range(thread_count) for number in range(count)],
              [(record.key, int(record.value or b"-1")) for record in stored])
    check_order((record.key, int(record.value or b"-1")) for record in stored)


def test_idempotent_batches_when_stored_then_they_have_producer_ids_and_sequences(
        kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0}) as producer:
        for _ in range(3):
            producer.send(topic, b"v").result(GIVE_UP_S)
    batches = [line for line in kafka.dump_log(topic).splitlines() if line.startswith("baseOffset:")]
    assert [line.split("baseSequence: ")[1].split(" ")[0] for line in batches] == ["0", "1", "2"]
    assert len({line.split("producerId: ")[1].split(" ")[0] for line in batches} - {"-1"}) == 1


@pytest.mark.soak  # a cluster of its own; tests/embedded has the same story
def test_unknown_topic_when_auto_created_then_records_arrive(topic_name: str) -> None:
    settings = {"auto.create.topics.enable": True, "num.partitions": 3}
    with KafkaServer(settings=settings) as server, \
            KafkaProducer({"bootstrap.servers": server.bootstrap_servers, "max.block.ms": 60_000}) as producer:
        futures = [producer.send(topic_name, b"v") for _ in range(9)]
        places = [future.result(GIVE_UP_S)[1:3] for future in futures]
        # In turn, and in the order they were sent within each partition.
        assert [offset for _, offset in places] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert {frozenset(partition for partition, _ in places[turn:turn + 3]) for turn in (0, 3, 6)} == {
            frozenset({0, 1, 2})}


def test_properties_file_when_given_then_it_configures_the_producer(
        kafka: KafkaServer, topic_name: str, tmp_path: Path) -> None:
    topic = kafka.create_topic(topic_name)
    path = tmp_path / "client.properties"
    path.write_text(f"bootstrap.servers={kafka.bootstrap_servers}\ncompression.type=zstd\n"
                    "value.serializer=org.apache.kafka.common.serialization.StringSerializer\n")
    with KafkaProducer.from_file(str(path)) as producer:
        producer.send(topic, "a text " * 100).result(GIVE_UP_S)
    assert [record.value for record in read_topic(kafka.bootstrap_servers, topic)] == [b"a text " * 100]
    assert "compresscodec: zstd" in kafka.dump_log(topic)
