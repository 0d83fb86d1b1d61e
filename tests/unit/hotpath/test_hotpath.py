"""The per-record text: Java's hash, Kafka's varints, the record's bytes."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from array import array
from types import SimpleNamespace

import pytest

from pyproducer import RecordMetadata, hotpath
from pyproducer.hotpath import _python
from pyproducer.record.record_reader import decode_records
from tests.support.patience import PROGRAM_S

# Values of Java's Utils.murmur2, from Apache Kafka's own tests, as unsigned.
JAVA_MURMUR2 = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536,
                b"a-little-bit-longer-string": -1486304829,
                b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
                b"abc": 479470107}


@pytest.mark.parametrize(("key", "expected"), JAVA_MURMUR2.items())
def test_murmur2_equals_java(key, expected):
    assert hotpath.murmur2(key) == expected & 0xFFFFFFFF


def plain_murmur2(data):
    """The algorithm as its author wrote it down, with Kafka's seed; all in 32 bits without a sign."""
    multiplier, mixed = 0x5BD1E995, 0x9747B28C ^ len(data)
    for start in range(0, len(data) - 3, 4):
        word = int.from_bytes(data[start:start + 4], "little") * multiplier & 0xFFFFFFFF
        word = (word ^ word >> 24) * multiplier & 0xFFFFFFFF
        mixed = mixed * multiplier & 0xFFFFFFFF ^ word
    if rest := data[len(data) & ~3:]:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * multiplier & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * multiplier & 0xFFFFFFFF
    return mixed ^ mixed >> 15


def test_murmur2_when_keys_come_again_then_the_same_for_each_length():
    keys = [bytes(range(256))[start:start + size] for start in (0, 50) for size in range(201)]
    assert [plain_murmur2(key) for key in JAVA_MURMUR2] == [value & 0xFFFFFFFF for value in JAVA_MURMUR2.values()]
    for _ in range(2):
        assert [hotpath.murmur2(bytes(bytearray(key))) for key in keys] == [plain_murmur2(key) for key in keys]


@pytest.mark.parametrize(("value", "expected"), [
    (0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (-64, "7f"), (-65, "8101"),
    (8191, "fe7f"), (8192, "808001"), (2**31 - 1, "feffffff0f"), (-2**31, "ffffffff0f"),
    (2**63 - 1, "feffffffffffffffff01"), (-2**63, "ffffffffffffffffff01")])
def test_encode_varint(value, expected):
    assert _python.encode_varint(value).hex() == expected
    assert _python.varint(value).hex() == expected


def test_open_batch_encodes_records_behind_the_header():
    buffer = hotpath.OpenBatch(None, 2**31 - 1)
    buffer.append(1000, b"k", b"v", ())
    buffer.append(990, None, b"", (("h", None), ("h", b"x")))
    buffer.append(1005, b"", None, ())
    assert bytes(buffer.buffer[hotpath.HEADER_SIZE_BYTES:]).hex(" ") == (
        "10 00 00 00 02 6b 02 76 00 "
        "1c 00 13 02 01 00 04 02 68 01 02 68 02 78 "
        "0c 00 0a 04 00 01 00".replace("1c 00", "1a 00"))
    assert (buffer.record_count, buffer.base_timestamp, buffer.max_timestamp) == (3, 1000, 1005)
    assert buffer.size_bytes == len(buffer.buffer)


def test_record_size_upper_bound_is_never_below_what_is_written():
    for key, value, headers in [(None, None, ()), (b"k" * 300, b"v" * 70_000, (("name", b"x" * 500), ("n", None)))]:
        buffer = hotpath.OpenBatch(None, 2**31 - 1)
        buffer.append(0, key, value, headers)
        assert buffer.size_bytes <= hotpath.record_size_upper_bound(key, value, headers)


def _run(value):
    # The star takes every name of __all__: one that the twin lacks is an error.
    return subprocess.run([sys.executable, "-c", "from pyproducer.hotpath import *; print(IMPL)"],
                          env={**os.environ, "PYPRODUCER_IMPL": value}, capture_output=True, text=True,
                          timeout=PROGRAM_S, check=False)


def test_the_choice_of_the_twin_is_loud():
    assert _run("python").stdout.strip() == "python"
    unknown = _run("cobol")
    assert unknown.returncode != 0
    assert "PYPRODUCER_IMPL='cobol' is not known" in unknown.stderr
    native = _run("native")
    assert native.stdout.strip() == "native" or "was not built" in native.stderr


def test_metadata_when_callbacks_hash_it_then_each_has_its_own_hash():
    """From Python 3.14 on a tuple keeps its hash: one that is given to the next callback must have forgotten it, and
    one that comes from an allocator of zeros must not have the hash 0."""
    batch = hotpath.OpenBatch(SimpleNamespace(), 10_000)
    told, kept, raised = [], [], []
    for number in range(6):
        def on_completion(metadata, exception, number=number):
            told.append((hash(metadata), hash(tuple(metadata)), metadata.offset))
            if number >= 4:
                kept.append(metadata)
        batch.try_append(1000 + number, None, b"v", (), on_completion)
    hotpath.run_callbacks(batch.futures, RecordMetadata, "t", 3, 50, -1, lambda *what: raised.append(what))
    assert raised == []
    assert [offset for _, _, offset in told] == list(range(50, 56))
    assert all(own == expected for own, expected, _ in told)
    assert len({own for own, _, _ in told}) == 6
    assert set(kept) == {RecordMetadata("t", 3, 54 + index, 1004 + index, -1, 1) for index in range(2)}


def values_of(batch):
    records = decode_records(bytes(batch.buffer[_python.HEADER_SIZE_BYTES:]), record_count=batch.record_count,
                             base_offset=0, base_timestamp=batch.base_timestamp, base_sequence=-1,
                             append_timestamp=None)
    return [record.value for record in records]


def append_all(batch, chunk):
    return chunk.append_to(batch, array("q", [5] * chunk.row_count), array("i", range(chunk.row_count)), 0,
                           chunk.row_count)


@pytest.mark.parametrize(("is_wide", "form"), [(False, "i"), (True, "q")])
@pytest.mark.parametrize("offset", [0, 3, 11])
def test_column_when_the_memory_it_was_made_of_changes_then_its_rows_stay(is_wide, form, offset):
    """Offsets were checked once and read again later, perhaps behind all that was theirs."""
    validity, offsets = bytearray(b"\xff" * 3), array(form, [0] * offset + [0, 1, 2])
    indices = array("i", [0] * offset + [0, -7, 1])
    index_validity = bytearray((~(2 << offset) & 0xFFFFFF).to_bytes(3, "little"))
    column = hotpath.binary_column(validity, offsets, b"ab", is_wide, offset, 2)
    rows = hotpath.dictionary_column(index_validity, indices, 4, offset, 3, column)
    offsets[offset + 1], offsets[offset + 2], indices[offset], indices[offset + 2] = -2**30, 2**30, 2**30, -2**30
    validity[:], index_validity[:] = bytes(3), b"\xff" * 3
    batch = hotpath.OpenBatch(None, 1000)
    assert append_all(batch, hotpath.ColumnChunk(0, column, None, None, None)) == (0, 2)
    assert append_all(batch, hotpath.ColumnChunk(0, rows, None, None, None)) == (2, 3)
    assert values_of(batch) == [b"a", b"b", b"a", None, b"b"]


def test_column_when_a_dictionary_has_one_itself_then_its_rows_are_those():
    """The compiled text took the inner one's indices for offsets."""
    values = hotpath.items_column((b"a", None, b"c"), 0, 3)
    inner = hotpath.dictionary_column(None, array("i", [2, 1, 0]), 4, 0, 3, values)
    outer = hotpath.dictionary_column(None, array("i", [0, 1, 2]), 4, 0, 3, inner)
    batch = hotpath.OpenBatch(None, 1000)
    append_all(batch, hotpath.ColumnChunk(0, outer, None, None, None))
    assert values_of(batch) == [b"c", None, b"a"]


@pytest.mark.parametrize("key", [bytearray(b"abc"), bytearray(b"abc" * 40), memoryview(b"abc"),
                                 type("Own", (bytes,), {})()])
def test_murmur2_when_the_key_is_not_exactly_bytes_then_refused(key):
    with pytest.raises(TypeError, match="expected bytes"):
        hotpath.murmur2(key)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_future_when_it_is_copied_or_pickled_then_it_says_why_not(copied):
    """One text said that the class was another, the other gave a future that was nobody's."""
    future = hotpath.FutureRecordMetadata(None, 0, 0, -1, -1, None)
    with pytest.raises(TypeError, match="a FutureRecordMetadata cannot be pickled or copied"):
        copied(future)


@pytest.mark.parametrize("from_allocation", range(1, 30))
@pytest.mark.parametrize("value", [b"v" * 100, b"v" * 30_000])
def test_append_when_memory_ends_then_each_record_has_a_future_and_each_future_a_record(from_allocation, value):
    """The record was there, and send() raised: nobody could be told of it."""
    testcapi = pytest.importorskip("_testcapi")
    batch = hotpath.OpenBatch(None, 40_000)
    for _ in range(4):  # a list has room for so many
        batch.try_append(5, b"k", b"v", (), None)
    future = None
    testcapi.set_nomemory(from_allocation, from_allocation + 1)
    try:
        future = batch.try_append(5, b"k", value, (), None)
    except MemoryError:
        pass
    finally:
        testcapi.remove_mem_hooks()
    assert batch.record_count == len(batch.futures) == (4 if future is None else 5)
    assert values_of(batch) == [b"v"] * 4 + [value] * (future is not None)
