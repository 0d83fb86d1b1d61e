"""The compiled twin and the Python text, side by side in one process: equal values, equal kinds of exception."""

from __future__ import annotations

import copy
import enum
import importlib
import importlib.util
import itertools
import os
import random
import shutil
import time
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.accumulator.life import UNOWNED, Life
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import SystemClock
from pyproducer.common.cluster import Cluster, Node, PartitionInfo
from pyproducer.common.errors import RecordTooLargeError, SerializationError
from pyproducer.common.records import ProducerRecord, RecordMetadata
from pyproducer.hotpath import IMPL, FutureRecordMetadata, RouteTable
from pyproducer.hotpath import _python as python
from pyproducer.producer import do_send
from pyproducer.producer.do_send import RecordSender
from pyproducer.producer.interceptors import ProducerInterceptor, ProducerInterceptors
from pyproducer.producer.partitioners import (
    CallablePartitioner,
    Crc32Partitioner,
    DefaultPartitioner,
    Murmur2RandomPartitioner,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
)
from pyproducer.producer.partitioning import Partitioning
from pyproducer.producer.serializers import BytesSerializer, StringSerializer
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.compression import compressor_for
from tests.support.compiler import why_not_built
from tests.support.rooms import make_room

_BUILT = importlib.util.find_spec("pyproducer.hotpath._native") is not None
if not _BUILT and os.environ.get("CI") == "true" and shutil.which(os.environ.get("CC", "cc")):
    raise AssertionError("a C compiler is here, but the compiled twin was not built")
pytestmark = pytest.mark.skipif(not _BUILT, reason=f"the compiled twin is not built here: {why_not_built()}")
native: ModuleType = importlib.import_module("pyproducer.hotpath._native") if _BUILT else python

maybe_bytes = st.none() | st.binary(max_size=300) | st.integers(120, 140).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=50)), max_size=4).map(tuple)
timestamps = st.integers(0, 2**62) | st.integers(1_700_000_000_000, 1_700_000_100_000)
records = st.tuples(timestamps, maybe_bytes, maybe_bytes, headers)


@given(st.binary(max_size=200))
def test_murmur2(key: bytes) -> None:
    assert native.murmur2(key) == python.murmur2(key)


@given(headers, maybe_bytes, maybe_bytes)
def test_sizes_and_headers(some: Any, key: bytes | None, value: bytes | None) -> None:
    assert native.encode_headers(some) == python.encode_headers(some)
    assert native.record_size_upper_bound(key, value, some) == python.record_size_upper_bound(key, value, some)


@given(st.lists(records, max_size=30))
def test_what_is_appended_without_futures_is_the_same_bytes(rows: list[Any]) -> None:
    ours, theirs = native.OpenBatch(None, 2**31 - 1), python.OpenBatch(None, 2**31 - 1)
    for row in rows:
        ours.append(*row)
        theirs.append(*row)
    for name in ("buffer", "record_count", "base_timestamp", "max_timestamp", "size_bytes"):
        assert getattr(ours, name) == getattr(theirs, name)


def shown(future: Any) -> Any:
    return None if future is None else (future._result, future._index, future._timestamp,
                                        future.serialized_key_size, future.serialized_value_size,
                                        future._on_completion, future._done_callbacks)


@given(st.lists(records, max_size=30), st.integers(61, 2000), st.integers(0, 40))
def test_open_batches_take_and_refuse_the_same_records(rows: list[Any], limit: int, close_at: int) -> None:
    ours = native.OpenBatch("result", limit)
    theirs = python.OpenBatch("result", limit)
    for number, row in enumerate(rows):
        if number == close_at:
            ours.is_closed = theirs.is_closed = True
        assert shown(ours.try_append(*row, "callback")) == shown(theirs.try_append(*row, "callback"))
        assert (ours.is_full, ours.record_count, ours.buffer) == (theirs.is_full, theirs.record_count, theirs.buffer)
    assert [shown(future) for future in ours.futures] == [shown(future) for future in theirs.futures]


@pytest.mark.parametrize("arguments", [
    (0, "key", None, ()), (0, None, 5, ()), (0, None, None, 7), (0, None, None, (("a", 5),)), ("0", None, None, ()),
    (0, None, None, ((1, b"x"),)),
])
def test_wrong_arguments_raise_the_same_kind_of_exception_and_add_nothing(arguments: Any) -> None:
    for twin in (native, python):
        batch = twin.OpenBatch(None, 2**31 - 1)
        batch.append(5, b"k", b"v", ())
        before = bytes(batch.buffer), batch.record_count
        with pytest.raises((TypeError, AttributeError)):
            batch.append(*arguments)
        assert (bytes(batch.buffer), batch.record_count) == before


@given(st.lists(st.tuples(records, st.booleans(), st.booleans()), max_size=12), st.integers(-1, 2**40),
       st.integers(-1, 2**40))
def test_callbacks_get_the_same_metadata_in_the_same_order(rows: list[Any], offset: int, append_time: int) -> None:
    outcomes = []
    for twin in (native, python):
        seen: list[Any] = []

        def note(metadata: Any, error: Any, seen: list[Any] = seen) -> None:
            seen.append((type(metadata), tuple(metadata), error))

        def note_and_raise(metadata: Any, error: Any, seen: list[Any] = seen) -> None:
            note(metadata, error, seen)
            raise KeyError("the user's bug")

        batch = twin.OpenBatch("result", 10**6)
        for row, has_callback, raises in rows:
            batch.try_append(*row, (note_and_raise if raises else note) if has_callback else None)
        twin.run_callbacks(batch.futures, RecordMetadata, "t", 3, offset, append_time,
                           lambda future, _, raised, seen=seen: seen.append((future._index, repr(raised))))
        assert all(future._on_completion is None for future in batch.futures)
        outcomes.append(seen)
    assert outcomes[0] == outcomes[1]


class FixedMetadata:
    """A snapshot of one topic that never changes."""

    def __init__(self) -> None:
        nodes = [Node(0, "127.0.0.1", 1)]
        self.cluster = Cluster(nodes=nodes, partitions=[
            PartitionInfo("t", index, None if index == 1 else nodes[0]) for index in range(4)])

    def add(self, topic: str, now_ms: int) -> bool:
        return False

    def request_update_for_topic(self, topic: str, now_ms: int) -> int:
        return 1

    def describe_failure(self, topic: str) -> str:
        return "nobody is asked"


def make_sender(*, compiled: bool = IMPL == "native", life: Life = UNOWNED,
                **parts: Any) -> tuple[RecordSender, RecordAccumulator]:
    """A RecordSender on its own, its road in one of the twins; `parts` stand for what it is constructed with."""
    clock = SystemClock()
    accumulator = RecordAccumulator(
        batch_size_bytes=400, linger_ms=0, delivery_timeout_ms=1000,
        pool=BufferPool(10**7, clock, count_held=lambda: 0),
        compressor=compressor_for("none", None), retry_backoff=ExponentialBackoff(1, 1), clock=clock)
    partitioner = DefaultPartitioner()
    partitioner._counters["t"] = itertools.count(-3)
    metadata: Any = FixedMetadata()  # what send() uses of it
    routes = RouteTable()
    routes.renew(metadata.cluster)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(do_send, "Road", importlib.import_module(
            f"pyproducer.hotpath._{'native' if compiled else 'python'}_road").Road)
        sender = RecordSender(**{
            "metadata": metadata, "routes": routes, "accumulator": accumulator,
            "room": make_room(metadata, accumulator),
            "partitioning": Partitioning(parts.pop("partitioner", partitioner), life),
            "key_serializer": None, "value_serializer": None, "interceptors": ProducerInterceptors(), "clock": clock,
            "life": life, "wakeup_sender": lambda: None, "max_request_size_bytes": 600, "buffer_memory_bytes": 10**7,
            "max_block_ms": 0, **parts})
    return sender, accumulator


def stored(accumulator: RecordAccumulator) -> Any:
    found = {}
    for partition, queue in sorted(accumulator._partitions.items()):
        found[partition] = []
        for batch in queue.batches:
            batch.seal()
            batch.close(compressor_for("none", None))
            batch.write_header()
            assert batch.encoded is not None
            found[partition] += [[(record.key, record.value, record.headers) for record in read]
                                 for read in read_batches(batch.encoded)]
    return found


class TextEnum(str, enum.Enum):
    """A str that is none exactly."""

    T = "t"


class Marking(ProducerInterceptor):
    """Makes another record, and tells what it was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord(record.topic, record.value, record.key, partition=record.partition,
                              timestamp=record.timestamp, headers=[*record.headers, ("seen", b"1")])

    def on_acknowledgement(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        self.told.append((metadata, type(exception), str(exception)))


def adding(_topic: str, headers: list[Any], data: Any) -> Any:
    """A serializer that writes a header, and fails on what is no bytes."""
    headers.append(("form", b"%d" % len(headers)))
    return None if data is None else bytes(data)


def by_length(_topic: str, _key: Any, _key_bytes: Any, _value: Any, value_bytes: Any, _cluster: Any) -> int:
    """A partitioner that is wrong for every fifth length."""
    return len(value_bytes or b"") % 5


def callback(_metadata: Any, _error: Any) -> None:
    """Any."""


maybe_text = st.none() | st.text(max_size=40) | st.just("\ud800") | st.binary(max_size=9)
arguments = st.fixed_dictionaries(
    {"value": maybe_bytes | st.just(b"x" * 700) | st.just(bytearray(b"array")) | maybe_text},
    optional={"key": maybe_bytes | maybe_text, "partition": st.integers(-1, 3) | st.just(2**40) | st.just(True),
              "timestamp": st.integers(-1, 2**40) | st.just(2**63) | st.just(1.5),
              "headers": headers | headers.map(list) | headers.map(iter) | st.just([("a", "text")]) | st.just({"a": 1}),
              "on_completion": st.just(callback) | st.just(5),
              "topic": st.just(TextEnum.T) | st.just("") | st.just(7) | st.just("unknown"), "as_record": st.booleans()})
settings = st.fixed_dictionaries({}, optional={
    "key_serializer": st.sampled_from([BytesSerializer(), StringSerializer(), StringSerializer("latin-1"), adding]),
    "value_serializer": st.sampled_from([BytesSerializer(), StringSerializer(), StringSerializer("UTF8"), adding]),
    "partitioner": st.sampled_from([RoundRobinPartitioner, Crc32Partitioner, Murmur2RandomPartitioner,
                                    partial(UniformStickyPartitioner, 300),
                                    partial(UniformStickyPartitioner, 300, ignore_keys=True),
                                    partial(CallablePartitioner, by_length)]),
    "interceptors": st.just(Marking)})


def sent_in_a_moment(rows: list[Any], parts: dict[str, Any], *, compiled: bool) -> Any:
    """Send by one of the two roads; again when that took so long that a record's distance in time takes more bytes."""
    while True:
        random.seed(5)
        marking = Marking()
        given = {name: part() if name == "partitioner" else part for name, part in parts.items()}
        if "interceptors" in given:
            given["interceptors"] = ProducerInterceptors([marking])
        sender, accumulator = make_sender(compiled=compiled, **given)
        outcomes: list[Any] = []
        began_ns = time.monotonic_ns()
        for row in copy.deepcopy(rows):
            on_completion = row.pop("on_completion", None)
            topic = row.pop("topic", "t")
            try:
                if row.pop("as_record", False):
                    future = sender.road.send(ProducerRecord(topic, **row), on_completion)
                else:
                    future = sender.road.send(topic, **row, on_completion=on_completion)
            except (RecordTooLargeError, SerializationError, TypeError, ValueError) as error:
                outcomes.append((type(error), str(error)))
            else:
                assert isinstance(future, FutureRecordMetadata)
                error = future.exception(0) if future.done() else None
                outcomes.append((future._result.topic_partition, future._index, future.serialized_key_size,
                                 future.serialized_value_size, type(error), str(error)))
        if time.monotonic_ns() - began_ns < 50_000_000:
            return outcomes, stored(accumulator), marking.told


@pytest.mark.skipif(IMPL != "native", reason="PYPRODUCER_IMPL=python: batches are the Python text's, which the "
                    "compiled road of send() does not take")
@given(st.lists(arguments, max_size=60), settings)
def test_the_compiled_road_of_send_stores_what_the_python_road_stores(rows: list[Any], parts: dict[str, Any]) -> None:
    results = [sent_in_a_moment(rows, parts, compiled=compiled) for compiled in (True, False)]
    assert results[0] == results[1]
