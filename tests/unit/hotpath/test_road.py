"""What the road of send() asks of the rest, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import importlib
import inspect
import itertools
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer import hotpath
from pyproducer.accumulator.life import Life
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.common.clock import SystemClock
from pyproducer.common.cluster import Cluster, Node, PartitionInfo
from pyproducer.common.errors import (
    BufferExhaustedError,
    ForkedProducerError,
    KafkaTimeoutError,
    ProducerClosedError,
    SerializationError,
)
from pyproducer.common.records import ProducerRecord
from pyproducer.hotpath import _python, _python_road
from pyproducer.producer import do_send
from pyproducer.producer.partitioners import (
    CallablePartitioner,
    Crc32Partitioner,
    Murmur2RandomPartitioner,
    UniformStickyPartitioner,
)
from pyproducer.producer.serializers import StringSerializer
from tests.property.test_twins import make_sender, stored

TWINS = ["python", "native"] if hotpath.IMPL == "native" else ["python"]


def test_send_when_closed_or_forked_raises_what_its_life_says():
    for end, error in (("closed", ProducerClosedError), ("forked", ForkedProducerError)):
        life = Life("c", SystemClock())
        sender, _ = make_sender(life=life)
        sender.road.send("t", b"v")
        if end == "closed":
            life.begin_closing("the test", None)
        else:
            life.mark_forked()
        sender.refuse()
        with pytest.raises(error):
            sender.road.send("t", b"v")


def test_send_when_another_road_has_taken_the_place_then_the_record_goes_there_as_it_is():
    sender, accumulator = make_sender()
    other, there = make_sender()
    sender.road.gate = lambda: other.road
    told = []
    future = sender.road.send("t", b"v", key=b"k", partition=1, timestamp=7, headers=[("h", b"1")],
                              on_completion=lambda *outcome: told.append(outcome))
    (batch,) = there.batches()
    assert batch.topic_partition == ("t", 1)
    assert future._result is batch.result
    assert (future._timestamp, future.serialized_key_size, future._on_completion is None) == (7, 1, False)
    assert not accumulator.batches()


def test_send_when_the_gate_gives_what_is_no_road_then_it_raises():
    sender, _ = make_sender()
    sender.road.gate = lambda: 7  # type: ignore[assignment,return-value]  # as it is not typed
    with pytest.raises((TypeError, AttributeError)):
        sender.road.send("t", b"v")


def test_send_when_the_batch_was_drained_goes_to_the_next_one():
    sender, accumulator = make_sender()
    futures = [sender.road.send("t", b"v", key=b"k") for _ in range(3)]
    partition = futures[0]._result.topic_partition.partition
    queue = accumulator._partitions["t", partition]
    first = queue.batches[0]
    first.seal()
    late = sender.road.send("t", b"v", key=b"k")
    assert first.record_count == 3
    assert late._result is not futures[0]._result
    assert queue.batches[1].open.record_count == 1


def test_a_keyless_record_takes_one_turn_even_when_the_slow_road_finishes_it():
    sender, accumulator = make_sender()
    sender.partitioning.partitioner._counters["t"] = itertools.count(0)
    partitions = [sender.road.send("t", b"v" * 150)._result.topic_partition.partition for _ in range(12)]
    # 0, 2 and 3 have a leader; each batch takes two such records, so every third turn opens one.
    start = partitions[0]
    cycle = [0, 2, 3]
    at = cycle.index(start)
    assert partitions == [cycle[(at + turn) % 3] for turn in range(12)]
    assert accumulator.incomplete_record_count() == 12


def test_wrong_arguments_raise_what_they_are():
    sender, _ = make_sender()
    with pytest.raises(TypeError, match="topic must be str, got int"):
        sender.road.send(5, b"v")


def test_the_first_record_of_a_batch_when_no_memory_comes_fails_its_future_and_the_callback():
    sender, accumulator = make_sender()
    sender.road.send("t", b"v", key=b"k")
    sender._max_block_ms = 0
    pool = accumulator.pool
    assert pool.charge(SimpleNamespace(reserved_bytes=pool.available_bytes), [])
    told = []
    future = None
    for _ in range(1000):
        future = sender.road.send("t", b"v" * 100, key=b"k", on_completion=lambda *end: told.append(end))
        if future.done():
            break
    assert isinstance(future.exception(0), BufferExhaustedError)
    (metadata, error), = told
    assert metadata is None
    assert str(error) == str(future.exception(0))


@pytest.mark.parametrize("available", [(4,), (2**40,), (-1,), (-(2**40),)])
def test_send_when_a_route_names_a_partition_behind_its_list_then_it_is_waited_for_and_nothing_is_read_there(available):
    """An index from a broker was used as a place in a list: the process died (SIGSEGV)."""
    sender, accumulator = make_sender()
    sender.road.send("t", b"v", key=b"k")
    sender._routes.add(sender._routes.cluster, "t", hotpath.Route(4, hotpath.MURMUR2, itertools.count(), available))
    for _ in range(5):
        assert isinstance(sender.road.send("t", b"v").exception(0), KafkaTimeoutError)
    assert accumulator.incomplete_record_count() == 1


@pytest.mark.parametrize(("count", "turns", "available"), [
    (0, itertools.count(), (0,)), (0, itertools.count(), ()), (4, itertools.count(), ()), (-1, None, ())])
def test_route_when_it_has_no_partition_then_refused(count, turns, available):
    with pytest.raises(ValueError, match="leads nowhere"):
        hotpath.Route(count, hotpath.MURMUR2, turns, available)


def test_route_when_the_snapshot_is_another_meanwhile_then_it_is_not_kept():
    table, old, new = hotpath.RouteTable(), object(), object()
    table.renew(old)
    table.add(old, "t", hotpath.Route(1, hotpath.MURMUR2))
    assert list(table.routes) == ["t"]
    table.renew(new)
    assert (table.cluster, table.routes) == (new, {})
    table.add(old, "t", hotpath.Route(1, hotpath.MURMUR2))
    assert table.routes == {}


def test_open_batch_when_the_snapshot_is_another_meanwhile_then_the_next_record_does_not_go_there_unasked(monkeypatch):
    """While a caller was on his way from the append to the route, a partition went and came back, and a record of
    another caller waited for it: the next one went past that, straight into the batch of before."""
    sender, accumulator = make_sender()
    routes, append, appended = sender._routes, accumulator.append, []

    def append_while_metadata_changes(*record):
        result = append(*record)
        appended.append(record)
        if len(appended) == 1:
            routes.renew(copy.copy(routes.cluster))
            assert sender.find_route("t") is not None
        return result

    monkeypatch.setattr(accumulator, "append", append_while_metadata_changes)
    for value in (b"1", b"2"):
        sender.road.send("t", value, partition=0)
    assert len(appended) == 2


def test_route_when_a_record_was_sent_then_its_topic_counts_as_used_once():
    sender, _ = make_sender()
    routes = sender._routes
    assert routes.take_used() == set()
    sender.road.send("t", b"v")
    assert routes.take_used() == {"t"}
    assert routes.take_used() == set()
    sender.road.send("t", b"v")
    routes.renew(routes.cluster)
    assert routes.take_used() == {"t"}
    assert routes.take_used() == set()


def test_gate_when_it_raises_then_no_record_passes():
    sender, accumulator = make_sender()
    asked = []
    sender.road.gate = lambda: asked.append(accumulator.incomplete_record_count())
    sender.road.send("t", b"v")

    def refuse():
        raise ProducerClosedError("not now")

    sender.road.gate = refuse
    with pytest.raises(ProducerClosedError, match="not now"):
        sender.road.send("t", b"v")
    sender.road.gate = None
    sender.road.send("t", b"v")
    assert asked == [0]
    assert accumulator.incomplete_record_count() == 2


@pytest.mark.parametrize("name", [
    name for name in hotpath.__all__ if name in vars(_python_road) and not hasattr(_python, name)])
def test_twins_when_looked_at_then_they_have_the_same_names(name):
    """Whatever one twin's class offers to the rest, the other's does."""
    kinds = [getattr(importlib.import_module(f"pyproducer.hotpath._{twin}_road"), name) for twin in TWINS]
    assert len({tuple(sorted(word for word in dir(kind) if not word.startswith("_"))) for kind in kinds}) == 1


@pytest.mark.parametrize(("base", "method"), [("ProducerBase", "send"), ("AsyncProducerBase", "send_nowait")])
def test_send_when_looked_up_then_both_twins_say_the_same(base, method):
    """A compiled file needs its own text of the docstring: the Python text's is not loaded beside it."""
    twins = [getattr(getattr(importlib.import_module(f"pyproducer.hotpath._{twin}_road"), base), method)
             for twin in TWINS]
    assert len({inspect.getdoc(send) for send in twins}) == 1
    assert len({tuple(inspect.signature(send).parameters) for send in twins}) == 1


ONE_NODE = Node(0, "127.0.0.1", 1)


def snapshot(*indices, topic="t"):
    return Cluster(nodes=[ONE_NODE], partitions=[PartitionInfo(topic, index, ONE_NODE) for index in indices])


def test_send_when_the_topic_is_gone_at_the_switch_then_the_record_that_is_in_its_batch_is_not_said_to_have_failed(
        monkeypatch):
    """A snapshot may be replaced between the append and the choice of the next sticky partition.

    That choice raised IllegalStateError out of send(), "Not sent", of a record that was sent.
    """
    sender, accumulator = make_sender(partitioner=UniformStickyPartitioner(100))
    switched = []

    def renew_and_switch(topic):
        sender._routes.renew(snapshot(0, topic="other"))
        switched.append(topic)
        type(sender).switch(sender, topic)

    monkeypatch.setattr(sender, "switch", renew_and_switch)
    for sent in range(1, 20):
        if sender._routes.cluster is not sender._metadata.cluster:
            sender._routes.renew(sender._metadata.cluster)
        sender.road.send("t", b"v" * 70)
        assert accumulator.incomplete_record_count() == sent
    assert (len(switched) > 0) == (hotpath.IMPL == "native")  # the Python text has the snapshot in its hand


@pytest.mark.parametrize("left", [49, -1])
def test_send_when_the_sticky_partition_is_not_in_the_snapshot_then_another_is_chosen(left):
    """Chosen with an older snapshot in the moment of its end, or by another producer that has the same partitioner.

    Each record without a key waited max.block.ms for that partition and failed.
    """
    sender, accumulator = make_sender(partitioner=UniformStickyPartitioner(300))
    sender.road.send("t", b"v")
    sender.partitioning.partitioner._of_topic("t").sticky.switch_to(left)
    for _ in range(5):
        assert not sender.road.send("t", b"v").done()
    assert accumulator.incomplete_record_count() == 6


def test_send_when_the_topic_is_gone_before_the_partitioner_is_asked_then_it_is_waited_for(monkeypatch):
    """The partitioner was asked of a topic without partitions, which its contract excludes: ZeroDivisionError."""
    asked = []

    def partition(topic, key, key_bytes, value, value_bytes, cluster):
        asked.append(cluster.partition_count_for_topic(topic))
        return 7 % asked[-1]

    sender, accumulator = make_sender(partitioner=CallablePartitioner(partition))
    sender.road.send("t", b"v")
    monkeypatch.setattr(sender, "find_route", lambda _topic: hotpath.Route(4, hotpath.NO_HASH))
    known, sender._metadata.cluster = sender._metadata.cluster, snapshot(0, topic="other")
    sender._routes.renew(sender._metadata.cluster)
    assert isinstance(sender.road.send("t", b"v").exception(0), KafkaTimeoutError)
    sender._metadata.cluster = known
    sender.road.send("t", b"v")
    assert asked == [4, 4]
    assert accumulator.incomplete_record_count() == 2


@pytest.mark.parametrize("compiled", [twin == "native" for twin in TWINS])
@pytest.mark.parametrize("partitioner", [Crc32Partitioner, Murmur2RandomPartitioner])
def test_key_when_it_goes_where_librdkafka_sends_it_then_the_road_asks_nobody(monkeypatch, partitioner, compiled):
    """The road knew Java's hash alone: confluent-kafka's default took three times the CPU, in send()."""
    sender, accumulator = make_sender(partitioner=partitioner(lambda: 4), compiled=compiled)
    monkeypatch.setattr(sender, "choose", lambda *record: pytest.fail(f"asked of {record}"))
    chosen = partitioner(lambda: 4)
    for key in (b"a", b"ab", b"", None, b"\xff" * 100, b"", None):
        partition = sender.road.send("t", b"v", key)._result.topic_partition.partition
        assert partition == chosen.partition("t", key, key, b"v", b"v", sender._routes.cluster)
    assert accumulator.incomplete_record_count() == 7


@pytest.mark.parametrize("parts", [{}, {"value_serializer": StringSerializer()}])
def test_send_when_it_raises_then_nobody_holds_the_record_after(parts):
    """The error and the frame that raised it held each other, and the value with them, until the collector came."""
    class Value:
        pass

    sender, _ = make_sender(**parts)
    gc.collect()
    gc.disable()
    try:
        value = Value()
        seen = weakref.ref(value)
        with contextlib.suppress(SerializationError):
            sender.road.send("t", value)
        del value
        assert seen() is None
    finally:
        gc.enable()


def test_serialize_when_nothing_was_added_then_headers_are_not_checked_again(monkeypatch):
    """They were checked three times for each record."""
    checks = []
    real = do_send.to_headers
    monkeypatch.setattr(do_send, "to_headers", lambda headers: checks.append(headers) or real(headers))
    sender, accumulator = make_sender(value_serializer=lambda _topic, headers, data: headers[0].value + data)
    sender.road.send("t", b"v", headers=[("a", b"1")])
    sender.road.send("t", b"v", headers=[("a", b"1")])
    assert checks == []
    assert [value for batches in stored(accumulator).values() for batch in batches
            for _key, value, _headers in batch] == [b"1v"] * 2


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("of", [5, object(), "x" * 500])
@pytest.mark.parametrize(("base", "method"), [("ProducerBase", "send"), ("AsyncProducerBase", "send_nowait")])
def test_send_when_called_by_way_of_the_class_for_no_producer_then_refused(twin, of, base, method):
    """Compiled code read it as one: the process died (SIGSEGV)."""
    send = getattr(getattr(importlib.import_module(f"pyproducer.hotpath._{twin}_road"), base), method)
    with pytest.raises(RuntimeError, match="never made"):
        send(of, "t", b"v")


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("base", ["ProducerBase", "AsyncProducerBase"])
def test_copy_when_a_subclass_says_how_then_its_state_is_its_own(twin, base):
    """The compiled class had a __setstate__ of its own: a dict was refused, and a tuple of one read as one of five."""

    class Copied(getattr(importlib.import_module(f"pyproducer.hotpath._{twin}_road"), base)):
        def __reduce__(self):
            return Copied, (), {"name": "n"}

    assert copy.copy(Copied()).name == "n"
    assert not hasattr(Copied, "__setstate__")


class AsyncSender(hotpath.AsyncProducerBase):
    """Notes what is not plain."""

    def __init__(self, road, line):
        self.careful = []
        if road is not None:
            self._pave(road, line)

    def _send_with_care(self, *parts):
        self.careful.append(parts)


class LoopSide:
    ident = threading.get_ident()


def test_send_nowait_when_the_loop_runs_here_and_nobody_waits_then_the_record_takes_the_road_and_else_care():
    sender, accumulator = make_sender()
    line, runs, side = {}, [True], LoopSide()
    one = AsyncSender(sender.road, line)
    parts = ("t", b"v", None, None, None, None, None)
    assert one.send_nowait("t", b"v") is None  # it belongs to no loop yet
    assert one.careful == [(None, *parts)]
    one._enter_loop(side, lambda: runs[0])
    for is_in_the_way, goes in ((lambda: line.update(t=1), line.clear),
                                (lambda: runs.__setitem__(0, False), lambda: runs.__setitem__(0, True)),
                                (lambda: setattr(side, "ident", side.ident + 1),
                                 lambda: setattr(side, "ident", threading.get_ident())),
                                (lambda: setattr(side, "ident", 0),
                                 lambda: setattr(side, "ident", threading.get_ident()))):
        one.careful.clear()
        is_in_the_way()
        assert one.send_nowait("t", b"v") is None
        assert one.careful == [(None, *parts)]
        goes()
        assert type(one.send_nowait("t", b"v")) is hotpath.FutureRecordMetadata
        assert len(one.careful) == 1
    assert accumulator.incomplete_record_count() == 4
    one.careful.clear()
    one.send_nowait("t", b"v", on_completion=print)
    record = ProducerRecord("t", b"v")
    one.send_nowait(record, print)
    assert one.careful == [(None, "t", b"v", None, None, None, None, print),
                           (None, record, print, None, None, None, None, None)]
    assert accumulator.incomplete_record_count() == 4
    assert type(one.send_nowait(record)) is hotpath.FutureRecordMetadata
    assert accumulator.incomplete_record_count() == 5


def test_send_nowait_when_it_is_called_with_a_callback_then_it_belongs_to_the_loop_as_before(monkeypatch):
    """For each record that has one the loop was looked up and all was told again: a microsecond."""
    producer = AsyncKafkaProducer({"bootstrap.servers": "127.0.0.1:1"})
    bound = []
    bind = AsyncKafkaProducer._bind
    monkeypatch.setattr(AsyncKafkaProducer, "_bind", lambda self: bound.append(1) or bind(self))

    async def main():
        try:
            for _ in range(3):
                producer.send_nowait("t", b"v", on_completion=lambda metadata, error: None)
                producer.send_nowait(ProducerRecord("t", b"v"), lambda metadata, error: None)
            return len(bound)
        finally:
            await producer.close(0)

    assert asyncio.run(main()) == 1


def test_send_nowait_when_the_road_returns_no_future_then_that_is_given_to_who_looks(monkeypatch):
    sender, _ = make_sender()
    postponed = object()
    monkeypatch.setattr(sender, "append", lambda *_parts: postponed)
    one = AsyncSender(sender.road, {})
    one._enter_loop(LoopSide(), lambda: True)
    one.send_nowait("t", b"v", key=b"k", partition=1, timestamp=5 * 10**12, headers=[("a", b"1")])
    assert one.careful == [(postponed, "t", b"v", b"k", 1, 5 * 10**12, [("a", b"1")], None)]


def test_send_nowait_when_the_producer_was_never_made_then_refused():
    with pytest.raises(RuntimeError, match="never made"):
        AsyncSender(None, {}).send_nowait("t", b"v")


@pytest.mark.parametrize("headers", [[("a", b"1")], (5,), ((),), (("a",),), 5])
def test_send_when_an_upcall_gives_headers_that_are_none_then_they_are_not_read(headers, monkeypatch):
    """A list, or a pair that was none, was read as a tuple: the process died (SIGSEGV), or took what it found there."""
    sender, accumulator = make_sender()
    monkeypatch.setattr(sender, "serialize", lambda *_parts: (b"k", b"v", headers))
    if hotpath.IMPL == "python" and headers == [("a", b"1")]:
        sender.road.send("t", "text")
        return
    with pytest.raises((TypeError, ValueError)):
        sender.road.send("t", "text")
    assert accumulator.incomplete_record_count() == 0


@pytest.mark.skipif(hotpath.IMPL != "native", reason="PYPRODUCER_IMPL=python: the Python text looks at no types")
def test_road_when_its_parts_are_others_then_they_are_refused():
    """Compiled code read them as what they should be: the process died (SIGSEGV)."""
    sender, _ = make_sender()
    road = hotpath.Road(sender, sender._routes, record_class=list, max_record_bytes=600, key_form=hotpath.AS_IS,
                        value_form=hotpath.AS_IS, is_intercepted=False)
    with pytest.raises(TypeError, match="RecordParts"):
        road.send([])
    routes: dict[str, Any] = sender._routes.routes
    routes["t"] = 5
    with pytest.raises(TypeError, match="Route"):
        sender.road.send("t", b"v")


def headers_of(accumulator):
    return [tuple(headers) for batches in stored(accumulator).values() for batch in batches for *_, headers in batch]


class Pair(tuple):
    """A header whose items are others when it is iterated."""

    __slots__ = ()

    def __iter__(self):
        return iter(("other", b"1"))


@pytest.mark.parametrize("headers", [(Pair(("a", b"0")),), [Pair(("a", b"0"))]])
def test_send_when_a_header_iterates_as_another_then_that_is_what_counts(headers):
    """The compiled text read its items."""
    sender, accumulator = make_sender()
    sender.road.send("t", b"v", partition=1, headers=headers)
    sender.road.send(ProducerRecord("t", b"v", partition=1, headers=headers))
    assert headers_of(accumulator) == [(("other", b"1"),)] * 2
    assert hotpath.encode_headers(headers) == hotpath.encode_headers((("other", b"1"),))


class Hollow(ProducerRecord):
    """A record whose author forgot the constructor."""

    def __init__(self, number):
        self.number = number


@pytest.mark.parametrize("make", [lambda: ProducerRecord.__new__(ProducerRecord), lambda: Hollow(1)])
def test_send_when_a_record_was_never_made_then_refused(make):
    """The compiled text sent it to the topic None, which nobody could name any more: close() raised."""
    sender, accumulator = make_sender()
    with pytest.raises(TypeError, match="was never made: its __init__ did not run, or did not call"):
        sender.road.send(make())
    with pytest.raises(TypeError, match="was never made"):
        sender.road.send(make(), on_completion=print)
    assert not accumulator.batches()


def test_send_when_an_explicit_partition_is_negative_after_all_then_it_is_waited_for(monkeypatch):
    """The compiled text took it for none."""
    monkeypatch.setattr(ProducerRecord, "_checked", staticmethod(lambda *_parts: ("t", -5, None, ())))
    record = ProducerRecord("t", b"v", partition=True)
    sender, accumulator = make_sender()
    assert isinstance(sender.road.send(record).exception(0), KafkaTimeoutError)
    assert not accumulator.batches()


@pytest.mark.parametrize("headers", [0, False])
def test_send_when_headers_are_nothing_but_false_then_refused(headers):
    sender, accumulator = make_sender()
    for parts in (("t", b"v"), (ProducerRecord("t", b"v"),)):
        with pytest.raises(TypeError, match="headers must be a list of pairs"):
            sender.road.send(*parts, headers=headers)
    assert not accumulator.batches()


@pytest.mark.parametrize("headers", [[], (), {}])
def test_send_when_headers_are_empty_then_there_are_none(headers):
    sender, accumulator = make_sender()
    sender.road.send("t", b"v", partition=1, headers=headers)
    sender.road.send(ProducerRecord("t", b"v", partition=1), headers=headers)
    assert headers_of(accumulator) == [(), ()]
