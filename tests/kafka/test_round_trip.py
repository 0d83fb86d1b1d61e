"""Records of every shape with every codec: equal through librdkafka's consumer, valid for Kafka's own tool."""

from __future__ import annotations

import random
import re
import time
from typing import Any

import pytest

from pyproducer import KafkaProducer, ProducerRecord
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import StoredRecord, read_topic
from tests.support.patience import GIVE_UP_S
from tests.support.sending import Outcomes

PARTITION_COUNT = 3
BATCH_LINE = re.compile(r"^baseOffset: \d+ .*$", re.MULTILINE)
KEYS = [None, b"", b"k", bytes(range(256))]
VALUES = [None, b"", b"v", "gr\xfcn \u20ac \U0001f600".encode()]
HEADERS: list[list[tuple[str, bytes | None]]] = [
    [], [], [],
    [("trace", b"1")],
    [("same", b"first"), ("same", b"second"), ("same", None), ("same", b"")],
    [("h\xe4der \u20ac", b"\x00\xff" * 20), ("", b"a name may be empty")],
    [(f"h{number}", str(number).encode()) for number in range(70)],
]
YEAR_9999_MS = 253_402_300_799_999
TIMESTAMPS_MS = [None, None, None, 0, 1, 86_400_000, 1_600_000_000_000, YEAR_9999_MS]


def make_records(topic: str, count: int, seed: int) -> list[ProducerRecord]:
    """Records of all shapes; the value ends with its number wherever a value can."""
    chance = random.Random(seed)
    records = []
    for number in range(count):
        key = chance.choice(KEYS) if chance.random() < 0.2 else chance.randbytes(chance.randrange(1, 16))
        value: bytes | None = chance.choice(VALUES)
        if chance.random() < 0.8:
            size_bytes = chance.choice([0, 10, 90, 100, 130, 700]) if number % 2500 else 60_000
            value = chance.randbytes(size_bytes // 2) + b"a" * (size_bytes // 2) + b"%d" % number
        headers = chance.choice(HEADERS) if chance.random() < 0.3 else []
        records.append(ProducerRecord(topic, value, key, timestamp=chance.choice(TIMESTAMPS_MS), headers=headers))
    return records


@pytest.mark.parametrize("record_count", [10_000, pytest.param(100_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_shape_when_sent_with_a_codec_then_they_come_back_equal(
        kafka: KafkaServer, topic_name: str, codec: str, record_count: int) -> None:
    topic = kafka.create_topic(topic_name, PARTITION_COUNT)
    records = make_records(topic, record_count, seed=len(codec))
    outcomes = Outcomes()
    props: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec}
    first_ms = time.time_ns() // 1_000_000
    with KafkaProducer(props) as producer:
        for number, record in enumerate(records):
            producer.send(record, outcomes.callback(number))
        producer.flush(GIVE_UP_S)
    last_ms = time.time_ns() // 1_000_000
    outcomes.ensure_all_acknowledged(record_count)

    stored = {(found.partition, found.offset): found for found in read_topic(kafka.bootstrap_servers, topic)}
    assert len(stored) == record_count
    for number, record in enumerate(records):
        metadata = outcomes.metadata[number]
        found = stored[metadata.partition, metadata.offset]
        timestamp = metadata.timestamp if record.timestamp is None else record.timestamp
        expected = StoredRecord(metadata.partition, metadata.offset, timestamp, record.key, record.value,
                                tuple(tuple(header) for header in record.headers))
        assert found == expected, f"record {number}"
        assert metadata.timestamp == timestamp
        assert record.timestamp is not None or first_ms <= timestamp <= last_ms
    check_segments(kafka, topic, codec, record_count)


def check_segments(kafka: KafkaServer, topic: str, codec: str, record_count: int) -> None:
    """Kafka's own tool finds every batch valid and every record there."""
    dump = kafka.dump_log(topic)
    batches = BATCH_LINE.findall(dump)
    assert batches
    assert all(line.endswith("isvalid: true") for line in batches)
    assert {re.search(r"compresscodec: (\w+)", line)[1] for line in batches} == {codec}  # type: ignore[index]
    assert sum(int(re.search(r" count: (\d+)", line)[1]) for line in batches) == record_count  # type: ignore[index]
    assert dump.count("\n| offset: ") == record_count
    for complaint in ("isvalid: false", "Found ", "Non-consecutive", "Mismatches", "Could not"):
        assert complaint not in dump
