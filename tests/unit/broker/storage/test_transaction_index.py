from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyproducer.broker.storage.log import AppendResult, Log
from pyproducer.broker.storage.log_config import LogConfig
from pyproducer.broker.storage.transaction_index import AbortedTransaction
from pyproducer.broker.storage.validation import BatchFault
from pyproducer.common.error_codes import ErrorCode
from pyproducer.record.batch_reader import RecordBatch, read_batches
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.control import ControlRecordType

START_MS = 1_700_000_000_000
COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT


class Partition:
    """A log with the appends of producers."""

    def __init__(self, directory: Path, segment_bytes: int = 1 << 30) -> None:
        self.log = Log(directory, LogConfig(segment_bytes=segment_bytes))

    def append(self, producer_id: int, sequence: int, *, epoch: int = 0,
               is_transactional: bool = True) -> int | ErrorCode:
        batch = RecordBatch(build_batch([(START_MS, b"k", b"v", ())], producer_id=producer_id, producer_epoch=epoch,
                                        base_sequence=sequence, is_transactional=is_transactional))
        return offset_of(self.log.append(batch, leader_epoch=0))

    def mark(self, control_type: ControlRecordType, producer_id: int, *, epoch: int = 0,
             coordinator_epoch: int = 0) -> int | ErrorCode:
        return offset_of(self.log.append_marker(
            control_type, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=coordinator_epoch,
            leader_epoch=0, timestamp_ms=START_MS))

    def aborted(self, fetch_offset: int = 0) -> list[AbortedTransaction]:
        return self.log.aborted_transactions(fetch_offset, self.log.last_stable_offset)


def offset_of(result: AppendResult | BatchFault) -> int | ErrorCode:
    return result.base_offset if isinstance(result, AppendResult) else result.error_code


@pytest.fixture
def open_partition(tmp_path: Path) -> Iterator[Callable[..., Partition]]:
    opened: list[Partition] = []

    def open_one(**arguments: int) -> Partition:
        opened.append(Partition(tmp_path / "orders-0", **arguments))
        return opened[-1]

    yield open_one
    for partition in opened:
        partition.log.close()


def test_last_stable_offset_is_the_start_of_the_oldest_open_transaction(
        open_partition: Callable[..., Partition]) -> None:
    partition = open_partition()
    partition.append(1, 0, is_transactional=False)
    assert partition.log.last_stable_offset == 1
    partition.append(2, 0)
    partition.append(3, 0)
    partition.append(2, 1)
    assert partition.log.last_stable_offset == 1
    partition.mark(COMMIT, 3)
    assert partition.log.last_stable_offset == 1
    partition.mark(COMMIT, 2)
    assert partition.log.last_stable_offset == partition.log.log_end_offset == 6


def test_aborted_transactions_are_listed_where_they_touch_what_is_read(
        open_partition: Callable[..., Partition]) -> None:
    partition = open_partition()
    partition.append(1, 0)
    partition.append(2, 0)
    partition.mark(ABORT, 2)
    assert partition.aborted() == [], "nothing is stable yet"
    partition.mark(ABORT, 1)
    second, first = AbortedTransaction(2, 1, 2, 0), AbortedTransaction(1, 0, 3, 4)
    assert partition.aborted() == [second, first]
    assert partition.aborted(3) == [first]
    assert partition.aborted(4) == []
    assert partition.log.aborted_transactions(0, 1) == [first]


def test_a_restart_finds_open_and_aborted_transactions_again(open_partition: Callable[..., Partition]) -> None:
    partition = open_partition()
    partition.append(1, 0)
    partition.mark(ABORT, 1, epoch=1, coordinator_epoch=5)
    partition.append(2, 0)
    partition.append(1, 0, epoch=1)
    partition.mark(COMMIT, 1, epoch=2, coordinator_epoch=5)
    producers, aborted = partition.log.producers.active_producers(), partition.aborted()
    partition.log.close()
    again = open_partition()
    assert again.log.last_stable_offset == 2
    assert again.aborted() == aborted == [AbortedTransaction(1, 0, 1, 2)]
    assert again.log.producers.active_producers() == producers
    assert again.append(2, 1) == 5
    assert again.append(1, 0, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_files_of_aborted_transactions_are_kafkas(open_partition: Callable[..., Partition]) -> None:
    partition = open_partition(segment_bytes=300)
    for number in range(6):
        partition.append(1, 0, epoch=number)
        partition.mark(ABORT, 1, epoch=number + 1)
    partition.log.close()
    files = sorted(partition.log.directory.glob("*.txnindex"))
    assert len(files) > 2
    entries = [entry for file in files for entry in struct.iter_unpack(">hqqqq", file.read_bytes())]
    assert entries == [(0, 1, 2 * number, 2 * number + 1, 2 * number + 2) for number in range(6)]


def test_a_marker_begins_its_epoch_at_sequence_0(open_partition: Callable[..., Partition]) -> None:
    partition = open_partition()
    partition.append(1, 0)
    partition.mark(COMMIT, 1, epoch=1)
    assert partition.append(1, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.append(1, 1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.append(1, 0, epoch=1) == 2


def test_sequences_go_on_after_a_marker_of_the_same_epoch(open_partition: Callable[..., Partition]) -> None:
    partition = open_partition()
    partition.append(1, 0)
    partition.mark(COMMIT, 1)
    assert partition.append(1, 0) == 0, "the same batch again"
    assert partition.append(1, 1) == 2


def test_records_beside_an_open_transaction_are_refused(open_partition: Callable[..., Partition]) -> None:
    partition = open_partition()
    partition.append(1, 0)
    assert partition.append(1, 1, is_transactional=False) is ErrorCode.INVALID_TXN_STATE
    assert partition.append(1, 1) == 1


def test_markers_of_old_producers_and_coordinators_are_refused(open_partition: Callable[..., Partition]) -> None:
    partition = open_partition()
    assert partition.mark(COMMIT, 1, epoch=3, coordinator_epoch=7) == 0
    assert partition.mark(ABORT, 1, epoch=2, coordinator_epoch=7) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.mark(ABORT, 1, epoch=3, coordinator_epoch=6) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert partition.log.log_end_offset == 1
    assert partition.aborted() == []


def test_reading_up_to_an_offset_leaves_out_what_lies_behind(open_partition: Callable[..., Partition]) -> None:
    partition = open_partition()
    for sequence in range(3):
        partition.append(1, sequence)
    data = partition.log.read(0, 1 << 20, at_least_one=True, up_to_offset=2)
    assert [batch.base_offset for batch in read_batches(data)] == [0, 1]
    assert partition.log.bytes_after(0, 1 << 20, up_to_offset=0) == 0
