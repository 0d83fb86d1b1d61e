"""Clients of others against our broker: each writes with every codec, each reads what each has written.

They have their own idea of the protocol: what all three agree on with us is not a mistake of ours alone.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import pytest

from pyproducer.broker import EmbeddedBroker
from tests.support.patience import GIVE_UP_S
from tests.support.ports import reserved_port

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that Python left
    import kafka

# The second: a consumer of kafka-python 3.0.12 now and then forgets a socket when it is closed.
pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning",
                                        "ignore:unclosed <socket:ResourceWarning")

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PARTITIONS = 3
COUNT = 3000
START_MS = 1_700_000_000_000


class Sent(NamedTuple):
    """One record; a partition is chosen by the test, so that all clients write the same."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class Read(NamedTuple):
    offset: int
    record: Sent


def records(count: int = COUNT) -> list[Sent]:
    """Null keys, null values (not both: two of the clients refuse that), headers, values of every small size."""
    return [Sent(number % PARTITIONS, START_MS + number, None if number % 7 == 0 else b"key-%d" % (number % 100),
                 None if number % 11 == 0 and number % 7 else b"value-%d-" % number + b"x" * (number % 200),
                 (("number", b"%d" % number), ("empty", b"")) if number % 5 == 0 else ())
            for number in range(count)]


def by_partition(sent: list[Sent]) -> dict[int, list[Sent]]:
    return {index: [record for record in sent if record.partition == index] for index in range(PARTITIONS)}


# ---- writers

def write_confluent(bootstrap_servers: str, topic: str, codec: str, sent: list[Sent], **settings: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers, "compression.type": codec,
                                         "enable.idempotence": True, "linger.ms": 5, **settings})
    failures: list[Any] = []

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(error)

    for record in sent:
        producer.produce(topic, value=record.value, key=record.key, partition=record.partition,
                         timestamp=record.timestamp, headers=list(record.headers), on_delivery=on_delivery)
        producer.poll(0)
    assert producer.flush(GIVE_UP_S) == 0
    assert failures == []


def write_kafka_python(bootstrap_servers: str, topic: str, codec: str, sent: list[Sent]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap_servers, enable_idempotence=True,
                                   compression_type=None if codec == "none" else codec, linger_ms=5)
    try:
        futures = [producer.send(topic, value=record.value, key=record.key, partition=record.partition,
                                 timestamp_ms=record.timestamp, headers=list(record.headers)) for record in sent]
        producer.flush(GIVE_UP_S)
        for future in futures:
            future.get(GIVE_UP_S)
    finally:
        producer.close()


def write_aiokafka(bootstrap_servers: str, topic: str, codec: str, sent: list[Sent]) -> None:
    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap_servers, enable_idempotence=True,
                                             compression_type=None if codec == "none" else codec, linger_ms=5)
        await producer.start()
        try:
            futures = [await producer.send(topic, value=record.value, key=record.key, partition=record.partition,
                                           timestamp_ms=record.timestamp, headers=list(record.headers))
                       for record in sent]
            await asyncio.gather(*futures)
        finally:
            await producer.stop()

    asyncio.run(write())


# ---- readers: assigned, without a group

def read_confluent(bootstrap_servers: str, topic: str, count: int) -> list[Read]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "not-used",
                                         "enable.auto.commit": False, "fetch.wait.max.ms": 100})
    found: list[Read] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        deadline = time.monotonic() + GIVE_UP_S
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                found.append(Read(message.offset(), Sent(
                    message.partition(), message.timestamp()[1], message.key(), message.value(),
                    tuple(message.headers() or ()))))
    finally:
        consumer.close()
    return found


def read_kafka_python(bootstrap_servers: str, topic: str, count: int) -> list[Read]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=None, fetch_max_wait_ms=100,
                                   auto_offset_reset="earliest")
    found: list[Read] = []
    try:
        consumer.assign([kafka.TopicPartition(topic, index) for index in range(PARTITIONS)])
        deadline = time.monotonic() + GIVE_UP_S
        while len(found) < count and time.monotonic() < deadline:
            for messages in consumer.poll(200).values():
                found += [Read(message.offset, Sent(message.partition, message.timestamp, message.key, message.value,
                                                    tuple(message.headers))) for message in messages]
    finally:
        consumer.close()
    return found


def read_aiokafka(bootstrap_servers: str, topic: str, count: int) -> list[Read]:
    async def read() -> list[Read]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=None,
                                             auto_offset_reset="earliest", fetch_max_wait_ms=100)
        await consumer.start()
        found: list[Read] = []
        try:
            consumer.assign([aiokafka.TopicPartition(topic, index) for index in range(PARTITIONS)])
            deadline = time.monotonic() + GIVE_UP_S
            while len(found) < count and time.monotonic() < deadline:
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    found += [Read(message.offset, Sent(message.partition, message.timestamp, message.key,
                                                        message.value, tuple(message.headers)))
                              for message in messages]
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())


WRITERS: dict[str, Callable[[str, str, str, list[Sent]], None]] = {
    "confluent-kafka": write_confluent, "kafka-python": write_kafka_python, "aiokafka": write_aiokafka}
READERS: dict[str, Callable[[str, str, int], list[Read]]] = {
    "confluent-kafka": read_confluent, "kafka-python": read_kafka_python, "aiokafka": read_aiokafka}


def check(found: list[Read], sent: list[Sent]) -> None:
    """Everything came back, equal, once, and in order per partition with offsets from 0."""
    assert len(found) == len(sent)
    for index, expected in by_partition(sent).items():
        of_partition = [one for one in found if one.record.partition == index]
        assert [one.offset for one in of_partition] == list(range(len(expected)))
        assert [one.record for one in of_partition] == expected


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(separate_process=True) as started:
        yield started


@pytest.fixture
def port() -> Iterator[int]:
    """A port that a broker finds again when it comes back."""
    with reserved_port() as number:
        yield number


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", WRITERS)
def test_client_writes_and_every_client_reads_it_back(
        broker: EmbeddedBroker, topic_name: str, writer: str, codec: str) -> None:
    broker.create_topic(topic_name, PARTITIONS)
    sent = records()
    WRITERS[writer](broker.bootstrap_servers, topic_name, codec, sent)
    for read in READERS.values():
        check(read(broker.bootstrap_servers, topic_name, len(sent)), sent)
    stored = [(one.partition, one.timestamp, one.key, one.value, tuple(one.headers))
              for one in broker.records(topic_name)]
    assert stored == [tuple(record) for of_partition in by_partition(sent).values() for record in of_partition]


@pytest.mark.parametrize("writer", WRITERS)
def test_client_finds_a_topic_that_is_created_by_asking(broker: EmbeddedBroker, topic_name: str, writer: str) -> None:
    sent = [record._replace(partition=0) for record in records(50)]
    WRITERS[writer](broker.bootstrap_servers, topic_name, "none", sent)
    assert broker.log_end_offsets(topic_name) == {0: 50}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_a_client_wrote_survives_a_restart(tmp_path: Path, writer: str) -> None:
    sent = records(500)
    for _ in range(2):
        with EmbeddedBroker(data_dir=tmp_path, topics={"orders": PARTITIONS}, separate_process=True) as broker:
            WRITERS[writer](broker.bootstrap_servers, "orders", "lz4", sent)
    with EmbeddedBroker(data_dir=tmp_path, separate_process=True) as broker:
        check(READERS[writer](broker.bootstrap_servers, "orders", 2 * len(sent)), sent + sent)


def test_eight_threads_of_producers_lose_and_repeat_nothing(broker: EmbeddedBroker, topic_name: str) -> None:
    broker.create_topic(topic_name, PARTITIONS)
    failures: list[BaseException] = []

    def write(thread: int) -> None:
        sent = [Sent(number % PARTITIONS, START_MS, b"%d" % thread, b"%d" % number, ()) for number in range(5000)]
        try:
            write_confluent(broker.bootstrap_servers, topic_name, "none", sent)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    stored = broker.records(topic_name)
    assert len(stored) == 40_000
    last: dict[tuple[int, bytes | None], int] = {}
    for record in stored:
        number = int(record.value or b"")
        assert number == last.get((record.partition, record.key), record.partition - PARTITIONS) + PARTITIONS
        last[record.partition, record.key] = number


def test_a_broker_that_is_killed_and_started_again_loses_and_repeats_nothing(tmp_path: Path, port: int) -> None:
    broker = EmbeddedBroker(data_dir=tmp_path, topics={"orders": PARTITIONS}, port=port, separate_process=True).start()
    producer = confluent_kafka.Producer({
        "bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "linger.ms": 1,
        "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0})
    acknowledged: list[bytes] = []
    failures: list[Any] = []

    def on_delivery(error: Any, message: Any) -> None:
        if error is None:
            acknowledged.append(message.value())
        else:
            failures.append(error)

    total = 30_000
    for number in range(total):
        producer.produce("orders", value=b"%d" % number, partition=number % PARTITIONS, on_delivery=on_delivery)
        producer.poll(0)
        if number % 10_000 == 5_000:
            broker._cluster._process.kill()  # type: ignore[union-attr]  # the child process
            broker.stop()
            broker = EmbeddedBroker(data_dir=tmp_path, port=port, separate_process=True).start()
    assert producer.flush(GIVE_UP_S) == 0
    assert failures == []
    assert len(acknowledged) == total
    stored = [int(record.value or b"") for record in broker.records("orders")]
    broker.stop()
    assert stored == [number for index in range(PARTITIONS) for number in range(index, total, PARTITIONS)]


def test_admin_clients_create_list_and_delete_topics(broker: EmbeddedBroker, topic_name: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (created,) = admin.create_topics([confluent_kafka.admin.NewTopic(topic_name, 4, 1)]).values()
    created.result(GIVE_UP_S)
    assert len(admin.list_topics(timeout=GIVE_UP_S).topics[topic_name].partitions) == 4
    (deleted,) = admin.delete_topics([topic_name]).values()
    deleted.result(GIVE_UP_S)
    assert topic_name not in broker.topics()
    described = admin.describe_cluster().result(GIVE_UP_S)
    assert [node.port for node in described.nodes] == [broker.port]


def test_admin_clients_alter_settings_in_both_ways(broker: EmbeddedBroker, topic_name: str) -> None:
    """All of them in place of what there was, which is the only way of kafkajs and of older clients; or some."""
    broker.create_topic(topic_name, 1)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def resource(**configs: str) -> Any:
        return confluent_kafka.admin.ConfigResource("topic", topic_name, {
            name.replace("_", "."): value for name, value in configs.items()})

    def altered() -> dict[str, str]:
        (described,) = admin.describe_configs([resource()]).values()
        return {name: entry.value for name, entry in described.result(GIVE_UP_S).items() if not entry.is_default}

    for configs in ({"retention_ms": "5000000", "cleanup_policy": "compact"}, {"retention_ms": "6000000"}):
        with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
            (done,) = admin.alter_configs([resource(**configs)]).values()
        done.result(GIVE_UP_S)
        assert altered() == {name.replace("_", "."): value for name, value in configs.items()}
    entry = confluent_kafka.admin.ConfigEntry(
        "cleanup.policy", "compact", incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET)
    (done,) = admin.incremental_alter_configs([confluent_kafka.admin.ConfigResource(
        "topic", topic_name, incremental_configs=[entry])]).values()
    done.result(GIVE_UP_S)
    assert altered() == {"retention.ms": "6000000", "cleanup.policy": "compact"}


def test_offsets_by_time_are_found_by_a_consumer(broker: EmbeddedBroker, topic_name: str) -> None:
    broker.create_topic(topic_name, PARTITIONS)
    write_confluent(broker.bootstrap_servers, topic_name, "lz4", records(300))
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=None)
    try:
        partition = kafka.TopicPartition(topic_name, 1)
        (found,) = consumer.offsets_for_times({partition: START_MS + 101}).values()
        assert (found.offset, found.timestamp) == (34, START_MS + 103)
        assert consumer.end_offsets([partition]) == {partition: 100}
        assert consumer.beginning_offsets([partition]) == {partition: 0}
    finally:
        consumer.close()
