"""Record batches made by Kafka's own code and by librdkafka: we read them all, and write the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.broker.storage.validation import validate_batch
from pyproducer.record.batch_reader import RecordBatch, read_batches
from pyproducer.record.batch_writer import build_batch, build_control_batch, write_header
from pyproducer.record.control import ControlRecordType, EndTransactionMarker, parse_control_record
from tests.support import librdkafka_vectors
from tests.support.record_vectors import load, records_of

KAFKA = load()
LIBRDKAFKA = load(librdkafka_vectors.LIBRDKAFKA_BATCHES)
# Compaction leaves holes among the offsets: a log cleaner writes such a batch, never a producer.
NOT_FROM_A_PRODUCER = {"compacted", "two batches"}


def _id(vector: dict[str, Any]) -> str:
    return str(vector["name"])


def _whole(batch: RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(record) for record in batch]


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("vector", KAFKA, ids=_id)
def test_kafkas_batches_are_read_as_kafka_reads_them(vector: dict[str, Any], buffer_type: Any) -> None:
    batches = list(read_batches(buffer_type(bytes.fromhex(vector["hex"]))))
    assert len(batches) == len(vector["batches"])
    for batch, expected in zip(batches, vector["batches"], strict=True):
        batch.ensure_valid()
        for name, value in expected.items():
            if name != "records":
                assert getattr(batch, name) == value, name
        assert _whole(batch) == records_of(expected)


@pytest.mark.parametrize("vector", [v for v in KAFKA if v["name"] not in NOT_FROM_A_PRODUCER
                                    and not v["batches"][0]["codec_id"]], ids=_id)
def test_uncompressed_batches_are_written_byte_for_byte_as_kafka_does(vector: dict[str, Any]) -> None:
    batch = vector["batches"][0]
    original = bytes.fromhex(vector["hex"])
    records = [record[1:5] for record in records_of(batch)]
    if batch["timestamp_type"]:
        # The records' own timestamps are in the bytes, but nobody reads them: take them from there.
        base = int.from_bytes(original[27:35], "big")
        records = [(base + delta, *record[1:]) for delta, record in zip((0, 1, 1), records, strict=True)]
    written = bytearray(build_batch(records))
    write_header(written, codec_id=0, record_count=batch["record_count"],
                 base_timestamp=int.from_bytes(original[27:35], "big", signed=True),
                 max_timestamp=batch["max_timestamp"], producer_id=batch["producer_id"],
                 producer_epoch=batch["producer_epoch"], base_sequence=batch["base_sequence"],
                 is_transactional=batch["is_transactional"], is_control=batch["is_control"],
                 timestamp_type=batch["timestamp_type"], base_offset=batch["base_offset"],
                 partition_leader_epoch=batch["partition_leader_epoch"])
    assert written.hex() == vector["hex"]
    if not batch["timestamp_type"]:
        built = build_batch(records, producer_id=batch["producer_id"], producer_epoch=batch["producer_epoch"],
                            base_sequence=batch["base_sequence"], is_transactional=batch["is_transactional"],
                            is_control=batch["is_control"], base_offset=batch["base_offset"],
                            partition_leader_epoch=batch["partition_leader_epoch"])
        assert built.hex() == vector["hex"]


@pytest.mark.parametrize(("name", "control_type"), [("control commit", ControlRecordType.COMMIT),
                                                    ("control abort", ControlRecordType.ABORT)])
def test_control_batches_are_kafkas(name: str, control_type: ControlRecordType) -> None:
    (vector,) = [v for v in KAFKA if v["name"] == name]
    (batch,) = read_batches(bytes.fromhex(vector["hex"]))
    (record,) = batch
    marker = parse_control_record(record.key, record.value)
    assert marker is not None
    assert marker == EndTransactionMarker(control_type, 9 if control_type is ControlRecordType.COMMIT else 0)
    assert batch.is_control
    assert build_control_batch(control_type, producer_id=batch.producer_id, producer_epoch=batch.producer_epoch,
                               coordinator_epoch=marker.coordinator_epoch, timestamp=record.timestamp,
                               base_offset=batch.base_offset,
                               partition_leader_epoch=batch.partition_leader_epoch).hex() == vector["hex"]


@pytest.mark.parametrize("vector", LIBRDKAFKA, ids=_id)
def test_librdkafkas_batches_are_read_and_pass_the_strict_broker(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    produced = librdkafka_vectors.produced_records(vector["name"])
    read = []
    for batch in read_batches(data):
        batch.ensure_valid()
        read += [(record.timestamp, record.key, record.value, list(map(tuple, record.headers))) for record in batch]
        assert isinstance(validate_batch(batch.data, produce_version=11, timestamp_ms=produced[0][0]), RecordBatch)
    assert read == produced


@pytest.mark.parametrize("vector", [v for v in LIBRDKAFKA if v["name"] in ("none", "idempotent")], ids=_id)
def test_uncompressed_batches_are_written_byte_for_byte_as_librdkafka_does(vector: dict[str, Any]) -> None:
    (batch,) = read_batches(bytes.fromhex(vector["hex"]))
    assert build_batch(librdkafka_vectors.produced_records(vector["name"]), producer_id=batch.producer_id,
                       producer_epoch=batch.producer_epoch, base_sequence=batch.base_sequence,
                       partition_leader_epoch=batch.partition_leader_epoch).hex() == vector["hex"]


def test_the_vectors_are_of_every_codec() -> None:
    assert {batch["codec_id"] for vector in KAFKA for batch in vector["batches"]} == {0, 1, 2, 3, 4}
