"""send_batch: both twins give the same, and the same as send() row by row."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.accumulator.life import UNOWNED
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.cluster import Cluster, Node, PartitionInfo
from pyproducer.common.errors import ApiError, KafkaError
from pyproducer.hotpath import RouteTable, _python_road
from pyproducer.producer.do_send import RecordSender
from pyproducer.producer.interceptors import ProducerInterceptors
from pyproducer.producer.partitioners import DefaultPartitioner
from pyproducer.producer.partitioning import Partitioning
from pyproducer.producer.send_batch import BatchSender
from pyproducer.producer.serializers import BytesSerializer
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.compression import compressor_for
from tests.conftest import refuse
from tests.support.clock import ManualClock
from tests.support.compiler import why_not_built
from tests.support.rooms import make_room

if importlib.util.find_spec("pyarrow") is None:
    refuse("the package pyarrow is not installed: pip install -e '.[spark,test]'", whole_module=True)
pyarrow: Any = importlib.import_module("pyarrow")

NOW_MS = 1_800_000_000_000
"""When everything is sent: a clock that moves makes records of other sizes, by their distance in time."""
_BUILT = importlib.util.find_spec("pyproducer.hotpath._native_columns") is not None
TWINS = ["python", *(["native"] if _BUILT else [])]
PATCHED = {"pyproducer.producer.columns": ("ColumnChunk", "binary_column", "encode_headers", "items_column"),
           "pyproducer.producer.arrow_columns": ("binary_column", "dictionary_column", "encode_header_rows",
                                                 "items_column"),
           "pyproducer.producer.send_batch": ("sort_rows",),
           "pyproducer.accumulator.batch_future": ("store_rows",),
           "pyproducer.accumulator.produce_result": ("FutureRecordMetadata",),
           "pyproducer.accumulator.producer_batch": ("OpenBatch", "run_callbacks"),
           "tests.property.test_columns": ("RouteTable",), "pyproducer.producer.partitioners.partitioner": ("Route",)}


def parts_of(twin: str) -> ModuleType:
    """Everything that a twin has, in one namespace."""
    names = ModuleType(twin)
    for module in (f"_{twin}", f"_{twin}_columns", f"_{twin}_road"):
        names.__dict__.update(vars(importlib.import_module(f"pyproducer.hotpath.{module}")))
    return names


@contextmanager
def running(twin: str) -> Iterator[None]:
    """Let the road of send_batch run on one twin, whichever this process chose."""
    parts = parts_of(twin)
    patches = [mock.patch(f"{module}.{name}", getattr(parts, name)) for module, names in PATCHED.items()
               for name in names]
    # The road of send() is compared elsewhere; its Python text takes the parts of either twin.
    patches.append(mock.patch("pyproducer.producer.do_send.Road", _python_road.Road))
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


# Rows and what they are given as.

TYPES = [pyarrow.binary(), pyarrow.large_binary(), pyarrow.dictionary(pyarrow.int8(), pyarrow.binary()),
         pyarrow.dictionary(pyarrow.uint16(), pyarrow.large_binary()), pyarrow.binary_view()]
TEXT_TYPES = [pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int64(), pyarrow.string()),
              pyarrow.string_view()]
HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
WIDE_HEADERS = pyarrow.large_list(pyarrow.struct([("key", pyarrow.large_string()), ("value", pyarrow.large_binary())]))

maybe_bytes = st.none() | st.binary(max_size=60) | st.sampled_from([b"a", b"k" * 130])
header = st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=8))
row = st.tuples(maybe_bytes, maybe_bytes, st.none() | st.lists(header, max_size=3),
                st.none() | st.integers(1_700_000_000_000, 1_700_000_100_000), st.none() | st.integers(0, 3))
shapes = st.fixed_dictionaries({
    "as_list": st.booleans(), "kind": st.integers(0, 4), "cuts": st.lists(st.integers(0, 40), max_size=3),
    "before": st.integers(0, 9)})


def shaped(items: list[Any], shape: dict[str, Any], kinds: list[Any]) -> Any:
    """Items as a list or as an Arrow array: of some type, chunked, its pieces slices of something longer."""
    if shape["as_list"]:
        return items
    kind = kinds[shape["kind"] % len(kinds)]
    ends = sorted({min(cut, len(items)) for cut in shape["cuts"]})
    pieces = [items[start:end] for start, end in zip([0, *ends], [*ends, len(items)], strict=True)]
    chunks = [pyarrow.array([None] * shape["before"] + piece + [None], kind).slice(shape["before"], len(piece))
              for piece in pieces]
    return chunks[0] if len(chunks) == 1 else pyarrow.chunked_array(chunks, kind)


def as_structs(items: list[Any]) -> list[Any]:
    return [None if item is None else [{"key": key, "value": value} for key, value in item] for item in items]


class FixedMetadata:
    """A snapshot of one topic that never changes; partition 1 has no leader."""

    def __init__(self) -> None:
        nodes = [Node(0, "127.0.0.1", 1)]
        self.cluster = Cluster(nodes=nodes, partitions=[
            PartitionInfo("t", index, None if index == 1 else nodes[0]) for index in range(4)])

    def add(self, topic: str, now_ms: int) -> bool:
        return False


class Road:
    """send() and send_batch() into an accumulator whose batches the test completes."""

    def __init__(self, *, serialized: bool = False) -> None:
        clock = ManualClock(timestamp_ms=NOW_MS)
        self.accumulator = RecordAccumulator(
            batch_size_bytes=400, linger_ms=0, delivery_timeout_ms=1000,
        pool=BufferPool(10**7, clock, count_held=lambda: 0),
            compressor=compressor_for("none", None), retry_backoff=ExponentialBackoff(1, 1), clock=clock)
        partitioner = DefaultPartitioner()
        partitioner._counters["t"] = itertools.count(-3)
        serializer = BytesSerializer() if serialized else None  # does nothing, but sends the rows one by one
        metadata: Any = FixedMetadata()  # what send() uses of it
        routes = RouteTable()
        routes.renew(metadata.cluster)
        self.sender = RecordSender(
            metadata=metadata, routes=routes, accumulator=self.accumulator, room=make_room(metadata, self.accumulator),
            partitioning=Partitioning(partitioner, UNOWNED), key_serializer=serializer, value_serializer=serializer,
            interceptors=ProducerInterceptors(), clock=clock, life=UNOWNED, wakeup_sender=lambda: None,
            max_request_size_bytes=600, buffer_memory_bytes=10**7, max_block_ms=0)
        self.batch_sender = BatchSender(record_sender=self.sender, metadata=metadata, accumulator=self.accumulator,
                                        clock=clock, life=UNOWNED, wakeup_sender=lambda: None, max_block_ms=0,
                                        batch_size_bytes=400, large_batch_bytes=400, buffer_memory_bytes=10**7)

    def batches(self) -> list[Any]:
        return [batch for _, queue in sorted(self.accumulator._partitions.items()) for batch in queue.batches]

    def stored(self) -> Any:
        """The records of each batch, by batch; timestamps of now are 0."""
        found = []
        for batch in self.batches():
            batch.seal()
            batch.close(compressor_for("none", None))
            batch.write_header()
            found.append((batch.topic_partition, [
                (record.key, record.value, record.headers,
                 record.timestamp if record.timestamp < 1_700_000_200_000 else 0)
                for read in read_batches(batch.encoded) for record in read]))
        return found

    def end(self) -> None:
        """Every third batch fails, one is split, the others are stored."""
        for number, batch in enumerate(self.batches()):
            if number % 3 == 2:
                batch.fail(lambda index, number=number: ApiError(f"{number}-{index}", code=2))
            elif number == 1:
                batch.parts = batch.split(150)
                batch.move_futures()
                for part_number, part in enumerate(batch.parts):
                    part.complete(5000 * (part_number + 1), 17 if part_number % 2 else -1)
            else:
                batch.complete(100 * number, -1)


def outcomes_of_futures(futures: list[Any]) -> list[Any]:
    found: list[Any] = []
    for future in futures:
        try:
            metadata = future.result(0)
        except KafkaError as error:
            found.append((str(error), error.outcome))
        else:
            found.append((metadata.partition, metadata.offset, metadata.timestamp
                          if metadata.timestamp < 1_700_000_200_000 else 0))
    return found


def outcomes_of_batch(future: Any) -> list[Any]:
    assert future.done()
    metadata = future.result(0)
    return [(str(metadata.errors[row]), metadata.errors[row].outcome) if row in metadata.errors
            else (metadata.partitions[row], metadata.offsets[row],
                  metadata.timestamps[row] if metadata.timestamps[row] < 1_700_000_200_000 else 0)
            for row in range(len(metadata))]


@given(st.lists(row, max_size=40), st.lists(shapes, min_size=5, max_size=5), st.booleans())
def test_send_batch_gives_what_send_gives_row_by_row(rows: list[Any], how: list[dict[str, Any]],
                                                     serialized: bool) -> None:
    expected = Road()
    futures = [expected.sender.road.send("t", value, key=key, headers=headers, timestamp=timestamp, partition=partition)
               for value, key, headers, timestamp, partition in rows]
    futures.append(expected.sender.road.send("t", b"keyless, after them"))
    expected_records = expected.stored()
    expected.end()
    values, keys, headers, timestamps, partitions = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [], [])
    if not how[2]["as_list"]:
        headers = as_structs(headers)
    columns = {"keys": shaped(keys, how[1], TYPES),
               "headers": shaped(headers, how[2], [HEADERS, WIDE_HEADERS]),
               "timestamps": shaped(timestamps, how[3], [pyarrow.int64(), pyarrow.timestamp("ms")]),
               "partitions": shaped(partitions, how[4], [pyarrow.int32(), pyarrow.int64()])}
    for twin in TWINS:
        with running(twin):
            road = Road(serialized=serialized)
            future = road.batch_sender.send("t", shaped(values, how[0], TYPES), **columns)
            after = road.sender.road.send("t", b"keyless, after them")
            assert road.stored() == expected_records
            road.end()
            assert outcomes_of_batch(future) + outcomes_of_futures([after]) == outcomes_of_futures(futures)


@pytest.mark.parametrize("twin", TWINS)
def test_rows_share_a_batch_as_far_as_there_is_room_for_their_headers(twin: str) -> None:
    """Drawn rows seldom fill a batch by their headers."""
    headers = [[("h", b"x" * 90)]] * 12
    expected = Road()
    for row in headers:
        expected.sender.road.send("t", b"v", headers=row, partition=0)
    with running(twin):
        road = Road()
        road.batch_sender.send("t", [b"v"] * 12, None, headers, None, [0] * 12)
        stored = road.stored()
        assert stored == expected.stored()
        assert [len(records) for _, records in stored] == [3, 3, 3, 3]
        assert all(len(batch.encoded) <= 400 for batch in road.batches())


@given(st.lists(st.none() | st.text(max_size=20), max_size=30), shapes)
def test_text_is_sent_as_utf8(texts: list[str | None], how: dict[str, Any]) -> None:
    column = shaped(texts, {**how, "as_list": False}, TEXT_TYPES)
    for twin in TWINS:
        with running(twin):
            road = Road()
            road.batch_sender.send("t", column, None, None, None, [0] * len(texts))
            found = [record[1] for _, records in road.stored() for record in records]
            assert found == [None if text is None else text.encode() for text in texts]


@pytest.mark.parametrize(("unit", "in_ms"), [("s", 5000), ("ms", 5), ("us", 0), ("ns", 0)])
def test_times_become_epoch_milliseconds(unit: str, in_ms: int) -> None:
    road = Road()
    column = pyarrow.array([5, 5_000_000_000 if unit in {"us", "ns"} else None], pyarrow.timestamp(unit, "UTC"))
    road.batch_sender.send("t", [b"a", b"b"], None, None, column, [0, 0])
    ((_, records),) = road.stored()
    assert [record[3] for record in records] == [in_ms, {"us": 5_000_000, "ns": 5000}.get(unit, 0)]


numbers = st.integers(-5, 40)


@pytest.mark.skipif(not _BUILT, reason=f"nothing to compare with: {why_not_built()}")
@given(st.lists(numbers, max_size=8), st.binary(max_size=20), st.none() | st.binary(max_size=2), st.booleans(),
       st.integers(0, 4), st.integers(0, 6))
def test_broken_arrow_buffers_raise_and_are_never_read_behind(offsets: list[int], data: bytes, validity: bytes | None,
                                                             is_wide: bool, offset: int, length: int) -> None:
    results = []
    for twin in map(parts_of, TWINS):
        try:
            column = twin.binary_column(validity, array("q" if is_wide else "i", offsets), data, is_wide, offset,
                                        length)
            chunk = twin.ColumnChunk(0, column, None, None, None)
            results.append([chunk.size_upper_bound(row) for row in range(length)])
        except ValueError as error:
            results.append(str(error))
    assert results[0] == results[1]


@given(st.lists(st.integers(-3, 6), max_size=40), st.integers(0, 5), st.data())
def test_rows_are_sorted_alike(partitions: list[int], count: int, data: Any) -> None:
    first = data.draw(st.integers(0, len(partitions)))
    rows = data.draw(st.integers(0, len(partitions) - first))
    results = [parts_of(twin).sort_rows(array("i", partitions), first, rows, count) for twin in ("python", TWINS[-1])]
    assert results[0] == results[1]
    order, starts = results[0]
    for partition in range(count):
        assert list(order[starts[partition]:starts[partition + 1]]) == [
            row for row in range(first, first + rows) if partitions[row] == partition]


@pytest.mark.parametrize("call", [
    lambda twin: twin.items_column((b"a", "b"), 0, 2),
    lambda twin: twin.items_column((b"a",), 0, 2),
    lambda twin: twin.binary_column(None, array("i", [0]), b"", False, 0, 1),
    lambda twin: twin.binary_column(b"", array("i", [0, 0]), b"", False, 0, 1),
    lambda twin: twin.dictionary_column(None, array("b", [1]), 1, 0, 1, twin.items_column((b"a",), 0, 1)),
    lambda twin: twin.encode_header_rows(None, array("i", [0, 1]), False, 0, 1, twin.items_column((None,), 0, 1),
                                         twin.items_column((None,), 0, 1), 7),
    lambda twin: twin.ColumnChunk(0, twin.items_column((b"a",), 0, 1), twin.items_column((), 0, 0), None, None),
    lambda twin: twin.ColumnChunk(5, twin.items_column((b"a",), 0, 1), None, None, None).size_upper_bound(4),
    lambda twin: twin.ColumnChunk(5, twin.items_column((b"a",), 0, 1), None, None, None).size_upper_bound(6),
    lambda twin: twin.store_rows(array("q", [0]), array("q", [0]), array("i", [5]), 0, 1, 0, -1),
    lambda twin: twin.store_rows(array("q", [0]), array("q", [0]), array("i", [0]), 0, 2, 0, -1),
    lambda twin: twin.sort_rows(array("i", [0]), 0, 2, 1),
    lambda twin: twin.ColumnChunk(0, twin.items_column((b"a",), 0, 1), None, None, None).append_to(
        twin.OpenBatch("result", 99), array("q", [0]), array("i", [3]), 0, 1),
    lambda twin: twin.ColumnChunk(1, twin.items_column((b"a",), 0, 1), None, None, None).assign(
        array("i", [0]), 1, array("i", [0]), 0),
    lambda twin: twin.ColumnChunk(0, twin.items_column((b"a",), 0, 1), None, None, None).assign(
        array("i", [-1]), 0, array("i", [0]), 0),
    lambda twin: twin.ColumnChunk(0, twin.items_column((b"a",), 0, 1), None, None, None).assign(
        array("i", [-1]), 1, array("i"), 0),
])
def test_wrong_arguments_raise_the_same_exception(call: Any) -> None:
    errors = []
    for twin in TWINS:
        with pytest.raises((TypeError, ValueError, IndexError)) as raised:
            call(parts_of(twin))
        errors.append((raised.type, str(raised.value)))
    assert errors[0] == errors[-1]
