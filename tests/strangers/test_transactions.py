"""Transactional producers of others on our broker, read back with read_committed by the clients of all.

Each commits one transaction and aborts one, with the offsets of a group in both where the client can; a transaction
that is open while the broker is restarted goes on.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka
import pytest

from pyproducer.broker import EmbeddedBroker
from tests.support.log_checker import check_order
from tests.support.patience import GIVE_UP_S
from tests.support.ports import reserved_port

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that Python left
    import kafka
    import kafka.structs

# The second: a consumer of kafka-python 3.0.12 now and then forgets a socket when it is closed.
pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning",
                                        "ignore:unclosed <socket:ResourceWarning")

PARTITIONS = 2
PER_TRANSACTION = 20


class Plan(NamedTuple):
    """What a producer is to do: a transaction of values, its end, and the offset it commits for the group."""

    name: str
    commit: bool
    group_offset: int

    @property
    def values(self) -> list[bytes]:
        return [b"%s-%d" % (self.name.encode(), number) for number in range(PER_TRANSACTION)]


PLANS = (Plan("lost", commit=False, group_offset=3), Plan("kept", commit=True, group_offset=7),
         Plan("lost-too", commit=False, group_offset=9), Plan("kept-too", commit=True, group_offset=11))
KEPT = sorted(value for plan in PLANS if plan.commit for value in plan.values)


# ---- writers: run the plans; the last offset of the group is that of the last committed plan

def write_confluent(bootstrap_servers: str, topic: str, group: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{topic}-c",
                                         "linger.ms": 0})
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    try:
        producer.init_transactions(GIVE_UP_S)
        for plan in PLANS:
            producer.begin_transaction()
            for number, value in enumerate(plan.values):
                producer.produce(topic, value=value, partition=number % PARTITIONS)
            producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition(topic, 0, plan.group_offset)],
                consumer.consumer_group_metadata(), GIVE_UP_S)
            assert producer.flush(GIVE_UP_S) == 0
            if plan.commit:
                producer.commit_transaction(GIVE_UP_S)
            else:
                producer.abort_transaction(GIVE_UP_S)
    finally:
        consumer.close()


def write_kafka_python(bootstrap_servers: str, topic: str, group: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=f"{topic}-k")
    try:
        producer.init_transactions()
        for plan in PLANS:
            producer.begin_transaction()
            for number, value in enumerate(plan.values):
                producer.send(topic, value=value, partition=number % PARTITIONS)
            producer.send_offsets_to_transaction(
                {kafka.TopicPartition(topic, 0): kafka.structs.OffsetAndMetadata(plan.group_offset, "", -1)}, group)
            producer.flush(GIVE_UP_S)
            if plan.commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close()


def write_aiokafka(bootstrap_servers: str, topic: str, group: str) -> None:
    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=f"{topic}-a")
        await producer.start()
        try:
            for plan in PLANS:
                await producer.begin_transaction()
                for number, value in enumerate(plan.values):
                    await producer.send(topic, value=value, partition=number % PARTITIONS)
                await producer.send_offsets_to_transaction(
                    {aiokafka.TopicPartition(topic, 0): plan.group_offset}, group)
                await producer.flush()
                if plan.commit:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        finally:
            await producer.stop()

    asyncio.run(write())


# ---- readers: committed values, until there are as many as expected and the end is reached

def in_any_order_of_partitions(found: list[bytes]) -> list[bytes]:
    """Check that the numbers of a transaction rise within each partition; return the values sorted."""
    numbered = [(value.rpartition(b"-")[0], int(value.rpartition(b"-")[2])) for value in found if b"-" in value]
    check_order((((name, number % PARTITIONS), number) for name, number in numbered), "transaction and partition")
    return sorted(found)


def read_confluent(bootstrap_servers: str, topic: str) -> list[bytes]:
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap_servers, "group.id": "not-used", "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True, "fetch.wait.max.ms": 100})
    found: list[bytes] = []
    ended: set[int] = set()
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        deadline = time.monotonic() + GIVE_UP_S
        while len(ended) < PARTITIONS and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    found.append(message.value())
                else:
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                    ended.add(message.partition())
    finally:
        consumer.close()
    assert len(ended) == PARTITIONS, "the end was not reached"
    return in_any_order_of_partitions(found)


def read_kafka_python(bootstrap_servers: str, topic: str) -> list[bytes]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=None, fetch_max_wait_ms=100,
                                   isolation_level="read_committed")
    found: list[bytes] = []
    try:
        partitions = [kafka.TopicPartition(topic, index) for index in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        deadline = time.monotonic() + GIVE_UP_S
        while any(consumer.position(one) < ends[one] for one in partitions):
            assert time.monotonic() < deadline, "the end was not reached"
            for messages in consumer.poll(200).values():
                found += [message.value for message in messages]
    finally:
        consumer.close()
    return in_any_order_of_partitions(found)


def read_aiokafka(bootstrap_servers: str, topic: str) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=None,
                                             isolation_level="read_committed", fetch_max_wait_ms=100)
        await consumer.start()
        found: list[bytes] = []
        try:
            partitions = [aiokafka.TopicPartition(topic, index) for index in range(PARTITIONS)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning()
            ends = await consumer.end_offsets(partitions)
            deadline = time.monotonic() + GIVE_UP_S
            while any([await consumer.position(one) < ends[one] for one in partitions]):
                assert time.monotonic() < deadline, "the end was not reached"
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    found += [message.value for message in messages]
        finally:
            await consumer.stop()
        return in_any_order_of_partitions(found)

    return asyncio.run(read())


WRITERS: Mapping[str, Callable[[str, str, str], None]] = {
    "confluent-kafka": write_confluent, "kafka-python": write_kafka_python, "aiokafka": write_aiokafka}
READERS: Mapping[str, Callable[[str, str], list[bytes]]] = {
    "confluent-kafka": read_confluent, "kafka-python": read_kafka_python, "aiokafka": read_aiokafka}


def committed_offset(bootstrap_servers: str, topic: str, group: str) -> int:
    """Return what the group has committed for partition 0, asked by a client that wants it stable."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group,
                                         "isolation.level": "read_committed"})
    try:
        (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], GIVE_UP_S)
        offset: int = found.offset
        return offset
    finally:
        consumer.close()


@pytest.fixture(scope="module", params=[0, 2], ids=["transaction.version=0", "transaction.version=2"])
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(separate_process=True, config={"transaction.version": request.param}) as started:
        yield started


@pytest.mark.parametrize("writer", WRITERS)
def test_only_what_was_committed_is_read_by_every_client(
        broker: EmbeddedBroker, topic_name: str, writer: str) -> None:
    broker.create_topic(topic_name, PARTITIONS)
    group = f"group-{topic_name}"
    WRITERS[writer](broker.bootstrap_servers, topic_name, group)
    stored = [record.value for record in broker.records(topic_name)]
    assert set(KEPT) < set(stored), "what was aborted is in the log too"
    for name, read in READERS.items():
        assert read(broker.bootstrap_servers, topic_name) == KEPT, name
    assert committed_offset(broker.bootstrap_servers, topic_name, group) == PLANS[-1].group_offset


def test_a_second_producer_fences_the_first(broker: EmbeddedBroker, topic_name: str) -> None:
    broker.create_topic(topic_name, PARTITIONS)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic_name, "linger.ms": 0}
    first, second = confluent_kafka.Producer(settings), confluent_kafka.Producer(settings)
    first.init_transactions(GIVE_UP_S)
    first.begin_transaction()
    first.produce(topic_name, value=b"zombie", partition=0)
    first.flush(GIVE_UP_S)
    second.init_transactions(GIVE_UP_S)
    second.begin_transaction()
    second.produce(topic_name, value=b"living", partition=0)
    second.commit_transaction(GIVE_UP_S)
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        first.commit_transaction(GIVE_UP_S)
    assert raised.value.args[0].fatal()
    assert read_kafka_python(broker.bootstrap_servers, topic_name) == [b"living"]


@pytest.mark.parametrize(("kill", "commit"), [
    (True, True), (False, False), pytest.param(True, False, marks=pytest.mark.soak),
    pytest.param(False, True, marks=pytest.mark.soak)])
def test_an_open_transaction_outlives_the_broker(tmp_path: Path, kill: bool, commit: bool) -> None:
    with reserved_port() as port:
        check_an_open_transaction(tmp_path, port, kill=kill, commit=commit)


def check_an_open_transaction(tmp_path: Path, port: int, *, kill: bool, commit: bool) -> None:
    broker = EmbeddedBroker(data_dir=tmp_path, topics={"orders": PARTITIONS}, port=port, separate_process=True).start()
    try:
        producer = confluent_kafka.Producer({
            "bootstrap.servers": broker.bootstrap_servers, "transactional.id": "shop", "linger.ms": 0,
            "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0})
        producer.init_transactions(GIVE_UP_S)
        producer.begin_transaction()
        for number in range(PER_TRANSACTION):
            producer.produce("orders", value=b"before-%d" % number, partition=number % PARTITIONS)
        assert producer.flush(GIVE_UP_S) == 0
        if kill:
            broker._cluster._process.kill()  # type: ignore[union-attr]  # the child process
        broker.stop()
        broker = EmbeddedBroker(data_dir=tmp_path, port=port, separate_process=True).start()
        assert read_kafka_python(broker.bootstrap_servers, "orders") == [], "it is open"
        for number in range(PER_TRANSACTION):
            producer.produce("orders", value=b"after-%d" % number, partition=number % PARTITIONS)
        end: Callable[[Any], None] = producer.commit_transaction if commit else producer.abort_transaction
        end(GIVE_UP_S)
        expected = sorted(b"%s-%d" % (when, number) for when in (b"before", b"after")
                          for number in range(PER_TRANSACTION)) if commit else []
        for name, read in READERS.items():
            assert read(broker.bootstrap_servers, "orders") == expected, name
    finally:
        broker.stop()
