"""Other people's clients on the embedded broker: each produces, each reads an assigned partition without a group."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from benchmarks.clients import CLIENTS
from benchmarks.workload import Measurement, Workload
from pyproducer.broker import EmbeddedBroker
from tests.support import log_checker

# kafka-python reads its schemas by a function that Python deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*importlib-resources:DeprecationWarning")

ROOT = Path(__file__).resolve().parents[2]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITION_COUNT = 3

Found = list[tuple[int, int, "bytes | None", "bytes | None"]]
"""Partition, offset, key, value; in this order."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(separate_process=True) as embedded:
        yield embedded


def read_by_librdkafka(bootstrap_servers: str, topic: str) -> Found:
    return [(record.partition, record.offset, record.key, record.value)
            for record in log_checker.read_topic(bootstrap_servers, topic)]


def read_by_kafka_python(bootstrap_servers: str, topic: str) -> Found:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=None, enable_auto_commit=False,
                             auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    try:
        partitions = [TopicPartition(topic, index) for index in range(PARTITION_COUNT)]
        consumer.assign(partitions)
        left = sum(consumer.end_offsets(partitions).values())
        found: Found = []
        while len(found) < left:
            record = next(consumer)
            found.append((record.partition, record.offset, record.key, record.value))
        return sorted(found)
    finally:
        consumer.close()


def read_by_aiokafka(bootstrap_servers: str, topic: str) -> Found:
    return asyncio.run(asyncio.wait_for(_read_by_aiokafka(bootstrap_servers, topic), 30))


async def _read_by_aiokafka(bootstrap_servers: str, topic: str) -> Found:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=None, enable_auto_commit=False,
                                auto_offset_reset="earliest")
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, index) for index in range(PARTITION_COUNT)]
        consumer.assign(partitions)
        left = sum((await consumer.end_offsets(partitions)).values())
        found: Found = []
        while len(found) < left:
            record = await consumer.getone()
            found.append((record.partition, record.offset, record.key, record.value))
        return sorted(found)
    finally:
        await consumer.stop()


READERS: dict[str, Callable[[str, str], Found]] = {
    "librdkafka": read_by_librdkafka, "kafka-python": read_by_kafka_python, "aiokafka": read_by_aiokafka}


def with_codecs(clients: Iterable[str]) -> list[tuple[str, str]]:
    """Every client with every codec that it has; kafka-python takes snappy from one more package."""
    return [(client, codec) for client in sorted(clients) for codec in CODECS
            if (client, codec) != ("kafka-python", "snappy")]


@pytest.mark.parametrize(("writer", "codec"), with_codecs(CLIENTS))
def test_client_with_each_codec_produces_what_librdkafka_reads(broker: EmbeddedBroker, topic_name: str, writer: str,
                                                               codec: str) -> None:
    broker.create_topic(topic_name, PARTITION_COUNT)
    workload = Workload(record_count=3000, compression=codec)
    produce(broker, topic_name, writer, workload)
    ensure_complete(read_by_librdkafka(broker.bootstrap_servers, topic_name), workload)


@pytest.mark.parametrize(("reader", "codec"), with_codecs(READERS))
def test_client_without_a_group_reads_what_we_produced(broker: EmbeddedBroker, topic_name: str, reader: str,
                                                       codec: str) -> None:
    broker.create_topic(topic_name, PARTITION_COUNT)
    workload = Workload(record_count=3000, compression=codec)
    produce(broker, topic_name, "pyproducer", workload)
    ensure_complete(READERS[reader](broker.bootstrap_servers, topic_name), workload)


def produce(broker: EmbeddedBroker, topic: str, writer: str, workload: Workload) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client_process", writer, broker.bootstrap_servers, topic,
         workload.to_json()], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert Measurement.from_json(done.stdout.splitlines()[-1]).record_count == workload.record_count


def ensure_complete(found: Found, workload: Workload) -> None:
    """Each record once, offsets without gaps, the records of a key in the order they were sent, in one partition."""
    sent = list(workload.records())
    stored = [record for record in found if record[3] != b"first"]  # each client connects with one more record
    assert len(stored) == len(found) - 1 == len(sent)
    for partition in range(PARTITION_COUNT):
        offsets = [record[1] for record in found if record[0] == partition]
        assert offsets == list(range(len(offsets)))
    by_key: dict[bytes | None, list[bytes | None]] = {}
    partition_of: dict[bytes | None, int] = {}
    for partition, _, key, value in stored:
        by_key.setdefault(key, []).append(value)
        assert partition_of.setdefault(key, partition) == partition
    expected: dict[bytes | None, list[bytes | None]] = {}
    for key, value in sent:
        expected.setdefault(key, []).append(value)
    assert by_key == expected
