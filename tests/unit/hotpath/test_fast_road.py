"""What the compiled road of send() hands to the Python road, and how it ends."""

from __future__ import annotations

import inspect
import itertools
import time
from types import SimpleNamespace

import pytest

from pyproducer import hotpath
from pyproducer.accumulator.life import Life
from pyproducer.common.clock import SystemClock
from pyproducer.common.errors import BufferExhaustedError, ForkedProducerError, ProducerClosedError
from pyproducer.hotpath import _python
from tests.property.test_twins import FixedMetadata, make_sender

pytestmark = pytest.mark.skipif(hotpath.FastRoad is None, reason="the compiled twin does not run here")


def test_send_when_closed_or_forked_raises_like_the_python_road():
    for end, error in (("closed", ProducerClosedError), ("forked", ForkedProducerError)):
        life = Life("c", SystemClock())
        sender, _ = make_sender(paved=True, life=life)
        sender.fast_road.send("t", b"v")
        if end == "closed":
            life.begin_closing("the test", None)
        else:
            life.mark_forked()
        sender.refuse()
        with pytest.raises(error):
            sender.fast_road.send("t", b"v")


def test_send_when_the_batch_was_drained_goes_to_the_next_one():
    sender, accumulator = make_sender(paved=True)
    futures = [sender.fast_road.send("t", b"v", key=b"k") for _ in range(3)]
    partition = futures[0]._result.topic_partition.partition
    queue = accumulator._partitions["t", partition]
    first = queue.batches[0]
    first.seal()
    late = sender.fast_road.send("t", b"v", key=b"k")
    assert first.record_count == 3
    assert late._result is not futures[0]._result
    assert queue.batches[1].record_count == 1


def test_a_keyless_record_takes_one_turn_even_when_the_slow_road_finishes_it():
    sender, accumulator = make_sender(paved=True)
    sender.partitioner._counters["t"] = itertools.count(0)
    partitions = [sender.fast_road.send("t", b"v" * 150)._result.topic_partition.partition for _ in range(12)]
    # 0, 2 and 3 have a leader; each batch takes two such records, so every third turn opens one.
    start = partitions[0]
    cycle = [0, 2, 3]
    at = cycle.index(start)
    assert partitions == [cycle[(at + turn) % 3] for turn in range(12)]
    assert accumulator.incomplete_record_count() == 12


def test_wrong_arguments_raise_what_the_python_road_raises():
    sender, _ = make_sender(paved=True)
    with pytest.raises(TypeError, match="topic must be str, got int"):
        sender.fast_road.send(5, b"v")
    with pytest.raises(TypeError, match="unexpected keyword"):
        sender.fast_road.send("t", b"v", clef=b"k")


def test_the_first_record_of_a_batch_when_no_memory_comes_fails_its_future_and_the_callback():
    sender, accumulator = make_sender(paved=True)
    sender.fast_road.send("t", b"v", key=b"k")
    sender._max_block_ms = 0
    pool = accumulator._pool
    assert pool.charge(SimpleNamespace(reserved_bytes=pool.available_bytes), [])
    told = []
    future = None
    for _ in range(1000):
        future = sender.fast_road.send("t", b"v" * 100, key=b"k", on_completion=lambda *end: told.append(end))
        if future.done():
            break
    assert isinstance(future.exception(0), BufferExhaustedError)
    (metadata, error), = told
    assert metadata is None
    assert str(error) == str(future.exception(0))


@pytest.mark.parametrize("available", [(4,), (2**40,), (-1,), (-(2**40),)])
def test_send_when_a_route_names_a_partition_behind_its_list_then_the_python_road_takes_the_record(available):
    """An index from a broker was used as a place in a list: the process died (SIGSEGV)."""
    sender, accumulator = make_sender(paved=True)
    sender.send("t", b"v", key=b"k")  # the Python road tells the compiled one what follows
    cluster = sender._metadata.fetch()
    road = sender.fast_road
    road.begin_topic(FixedMetadata().fetch(), "t", 4, 0, None, ())  # another snapshot: the routes are forgotten
    road.begin_topic(cluster, "t", 4, int(time.time() * 1000), itertools.count(), available)
    futures = [road.send("t", b"v") for _ in range(5)]
    assert {future._result.topic_partition.partition for future in futures} <= {0, 2, 3}
    assert accumulator.incomplete_record_count() == 6


@pytest.mark.parametrize(("count", "available"), [(0, (0,)), (0, ()), (4, ())])
def test_send_when_a_route_has_no_partition_then_the_python_road_takes_the_record(count, available):
    sender, accumulator = make_sender(paved=True)
    road = sender.fast_road
    road.begin_topic(sender._metadata.fetch(), "t", count, int(time.time() * 1000), itertools.count(), available)
    assert not road.knows(sender._metadata.fetch(), "t")
    road.send("t", b"v")
    road.send("t", b"v", key=b"k")
    assert accumulator.incomplete_record_count() == 2


def test_send_when_looked_up_then_both_twins_say_the_same():
    """A compiled file needs its own text of the docstring: the Python text's is not loaded beside it."""
    twins = _python.ProducerBase.send, hotpath.ProducerBase.send
    assert twins[0] is not twins[1]
    assert len({inspect.getdoc(send) for send in twins}) == 1
    assert len({tuple(inspect.signature(send).parameters) for send in twins}) == 1
