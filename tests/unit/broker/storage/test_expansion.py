"""Batches that expand to far more than they are: how many of them are in memory at once, and who waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import zstandard

from pyproducer.broker.storage import validation
from pyproducer.broker.storage.expansion import Allowance, Expansion, ExpansionBusyError
from pyproducer.broker.storage.validation import BatchFault, BatchRules, validate_batch
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import CorruptRecordError, ExpansionLimitError
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_batch
from pyproducer.record.decompression import decompress
from tests.support.patience import GIVE_UP_S

NOW = 1_700_000_000_000
SMALL = RecordBatch(build_batch([(NOW, None, bytes(1000), ())], compression="gzip"))
LARGE = RecordBatch(build_batch([(NOW, None, bytes(100_000), ())], compression="gzip"))
PLAIN = RecordBatch(build_batch([(NOW, None, bytes(100_000), ())]))


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[], object]], None]]:
    threads: list[threading.Thread] = []

    def start_one(target: Callable[[], object]) -> None:
        threads.append(threading.Thread(target=target))
        threads[-1].start()

    yield start_one
    for thread in threads:
        thread.join(GIVE_UP_S)
        assert not thread.is_alive()


def test_expansion_when_a_large_batch_is_in_memory_then_small_ones_do_not_wait() -> None:
    expansion = Expansion(small_bytes=10_000, most_waiting=0)
    with expansion.expanded(LARGE) as large:
        assert len(large) > 100_000
        for batch in (SMALL, PLAIN):
            with expansion.expanded(batch) as found:
                assert found == batch.expanded_records()


def test_expansion_when_a_large_batch_is_in_memory_then_the_next_large_one_waits_for_it(
        start: Callable[[Callable[[], object]], None]) -> None:
    expansion = Expansion(small_bytes=10_000, most_waiting=1)
    order: list[str] = []
    done = threading.Event()

    def second() -> None:
        with expansion.expanded(LARGE):
            order.append("second")
        done.set()

    with expansion.expanded(LARGE):
        start(second)
        while not expansion.waiting:
            assert not done.wait(0.001)
        with pytest.raises(ExpansionBusyError), expansion.expanded(LARGE):
            pytest.fail("a third one would be in memory")
        order.append("first")
    assert done.wait(GIVE_UP_S)
    assert order == ["first", "second"]
    with expansion.expanded(LARGE):
        assert expansion.waiting == 0


def test_expansion_when_whoever_has_the_turn_fails_then_the_next_has_it() -> None:
    expansion = Expansion(small_bytes=10_000, most_waiting=0)
    with pytest.raises(RuntimeError), expansion.expanded(LARGE):
        raise RuntimeError("by the test")
    with pytest.raises(CorruptRecordError, match="beyond the limit"), expansion.expanded(LARGE, 50_000):
        pytest.fail("it is larger")
    with expansion.expanded(LARGE):
        pass


# ---- what a broker says

def validate(batch: RecordBatch, *, rules: BatchRules | None = None, allowance: Allowance | None = None) -> BatchFault:
    fault = validate_batch(batch.data, produce_version=9, timestamp_ms=NOW, rules=rules or BatchRules(),
                           allowance=allowance)
    assert isinstance(fault, BatchFault)
    return fault


def test_batch_when_it_expands_beyond_the_limit_then_the_client_is_told_to_make_smaller_ones() -> None:
    assert validate(LARGE, rules=BatchRules(max_expanded_bytes=50_000)).error_code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batch_of_any_codec_when_it_expands_beyond_the_limit_then_that_is_the_error(codec: str) -> None:
    batch = RecordBatch(build_batch([(NOW, None, bytes(100_000), ())], compression=codec))
    with pytest.raises(ExpansionLimitError):
        batch.expanded_records(50_000)


def test_zstd_without_its_size_when_it_expands_beyond_the_limit_then_that_is_the_error() -> None:
    data = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(300_000))
    with pytest.raises(ExpansionLimitError):
        decompress(4, data, 50_000)
    with pytest.raises(CorruptRecordError) as failed:
        decompress(4, data[:-4], 300_000)
    assert not isinstance(failed.value, ExpansionLimitError)


def test_batch_when_too_many_large_ones_are_looked_at_then_the_client_is_told_to_come_again(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight batches of 8 KB at once held 2.5 GiB; one is in memory at a time now, and not all handlers wait for it."""
    expansion = Expansion(small_bytes=10_000, most_waiting=0)
    monkeypatch.setattr(validation, "EXPANSION", expansion)
    with expansion.expanded(LARGE):
        fault = validate(LARGE)
    assert fault.error_code is ErrorCode.NOT_ENOUGH_REPLICAS  # clients try again, and nothing was stored
    assert isinstance(validate_batch(LARGE.data, produce_version=9, timestamp_ms=NOW), RecordBatch)


def test_request_when_its_batches_hold_more_than_it_may_then_the_last_ones_are_refused() -> None:
    def look(batch: RecordBatch, allowance: Allowance) -> bool:
        return isinstance(validate_batch(batch.data, produce_version=9, timestamp_ms=NOW, allowance=allowance),
                          RecordBatch)

    by_bytes, by_records = Allowance(1000), Allowance(1000)
    assert (by_bytes.bytes_left, by_bytes.records_left) == (100 * 1024 * 1024, 500_000)
    assert Allowance(100_000_000).bytes_left == 6_400_000_000
    assert Allowance(100_000_000).records_left == 50_000_000
    by_bytes.bytes_left = 150_000
    by_records.records_left = 1
    assert [look(LARGE, by_bytes) for _ in range(2)] == [True, False]
    assert [look(SMALL, by_records) for _ in range(2)] == [True, False]
    assert validate(SMALL, allowance=by_records).error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert look(PLAIN, by_bytes), "what is not compressed was sent as it is"


def test_batch_when_every_record_is_to_blame_then_so_many_are_named_and_the_rest_is_not_looked_at() -> None:
    """Twelve kilobytes with 20 million records held a handler for 35 seconds."""
    batch = RecordBatch(build_batch([(1, None, b"", ())] * 20_000, compression="gzip"))
    fault = validate(batch, rules=BatchRules(timestamp_before_max_ms=1000))
    assert fault.error_code is ErrorCode.INVALID_TIMESTAMP
    assert [found.batch_index for found in fault.record_faults] == list(range(10_000))
