"""Kafka's own tool reads the files that our broker writes."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.kafka_jars import SHORT_RUN, java, kafka_classpath, shared_classes
from tests.support.patience import GIVE_UP_S, PROGRAM_S
from tests.support.raw_client import RawClient, produce_body, produced

START_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BATCHES = 40


def write_segments(data_dir: Path) -> int:
    """Fill three segments; return how many records they hold."""
    count = 0
    with EmbeddedBroker(data_dir=data_dir, topics={"orders": 1}, config={
            "log.segment.bytes": 60_000, "log.index.interval.bytes": 1000}) as broker, \
            RawClient(("127.0.0.1", broker.port)) as client:
        for number in range(BATCHES):
            records = build_batch(
                [(START_MS + 100 * number + index, b"key", os.urandom(500), ()) for index in range(7)],
                compression=CODECS[number % len(CODECS)], producer_id=3, producer_epoch=0, base_sequence=count)
            answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, records)))
            assert (answer["error_code"], answer["base_offset"]) == (0, count)
            count += 7
    return count


def dump(*arguments: str) -> str:
    with shared_classes(kafka_classpath()) as sharing:
        done = subprocess.run([java(), *sharing, *SHORT_RUN, "-cp", kafka_classpath(),
                               "kafka.tools.DumpLogSegments", *arguments],
                              capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_dump_log_segments_finds_every_batch_valid_and_the_indexes_right(tmp_path: Path) -> None:
    count = write_segments(tmp_path)
    logs = sorted((tmp_path / "orders-0").glob("*.log"))
    assert len(logs) >= 3
    printed = dump("--deep-iteration", "--files", ",".join(map(str, logs)))
    assert len(re.findall(r"^baseOffset: ", printed, re.MULTILINE)) == BATCHES
    assert len(re.findall(r"^\| offset: ", printed, re.MULTILINE)) == count
    assert "isvalid: false" not in printed
    assert set(re.findall(r"producerId: (-?\d+) producerEpoch: (-?\d+)", printed)) == {("3", "0")}
    indexes = [str(path) for log in logs for path in (log.with_suffix(".index"), log.with_suffix(".timeindex"))]
    complaints = dump("--files", ",".join(indexes), "--verify-index-only")
    assert "Mismatches" not in complaints
    assert "Found" not in complaints
    entries = dump("--files", str(logs[0].with_suffix(".index")))
    assert len(re.findall(r"^offset: \d+ position: \d+", entries, re.MULTILINE)) > 5


def test_dump_log_segments_finds_compacted_segments_and_all_indexes_sane(tmp_path: Path) -> None:
    config = {"log.segment.bytes": 20_000, "log.index.interval.bytes": 1000, "log.cleaner.backoff.ms": 100}
    now_ms = int(time.time() * 1000)
    with EmbeddedBroker(data_dir=tmp_path, config=config) as broker:
        broker.create_topic("orders", 1, {"cleanup.policy": "compact"})
        with RawClient(("127.0.0.1", broker.port)) as client:
            for number in range(BATCHES):
                records = build_batch(
                    [(now_ms + number, b"key-%d" % (index * number % 9), os.urandom(300), ()) for index in range(7)],
                    compression=CODECS[number % len(CODECS)], producer_id=number % 3, producer_epoch=0,
                    base_sequence=number // 3 * 7)
                answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, records)))
                assert answer["error_code"] == 0
        before = {record.key: (record.offset, record.value) for record in broker.records("orders")}
        deadline = time.monotonic() + GIVE_UP_S
        while len(broker.records("orders")) > 3 * BATCHES:
            assert time.monotonic() < deadline, "nothing was compacted"
            time.sleep(0.05)
        assert {record.key: (record.offset, record.value) for record in broker.records("orders")} == before
    logs = sorted((tmp_path / "orders-0").glob("*.log"))
    printed = dump("--deep-iteration", "--files", ",".join(map(str, logs)))
    assert len(re.findall(r"^\| offset: ", printed, re.MULTILINE)) < 3 * BATCHES
    assert "isvalid: false" not in printed
    indexes = [str(path) for log in logs for path in (log.with_suffix(".index"), log.with_suffix(".timeindex"))]
    assert any(Path(index).stat().st_size for index in indexes)
    for check in ("--index-sanity-check", "--verify-index-only"):
        complaints = dump(check, "--files", ",".join(indexes))
        assert "Mismatches" not in complaints
        assert "Found" not in complaints
        if check == "--index-sanity-check":
            assert complaints.count("passed sanity check.") + complaints.count("is empty.") == len(indexes)
