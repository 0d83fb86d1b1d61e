"""What the road of send() asks of the rest, and how it ends."""

from __future__ import annotations

import importlib
import inspect
import itertools
from types import SimpleNamespace

import pytest

from pyproducer import hotpath
from pyproducer.accumulator.life import Life
from pyproducer.common.clock import SystemClock
from pyproducer.common.errors import (
    BufferExhaustedError,
    ForkedProducerError,
    KafkaTimeoutError,
    ProducerClosedError,
)
from tests.property.test_twins import make_sender

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
    assert queue.batches[1].record_count == 1


def test_a_keyless_record_takes_one_turn_even_when_the_slow_road_finishes_it():
    sender, accumulator = make_sender()
    sender.partitioner._counters["t"] = itertools.count(0)
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
    pool = accumulator._pool
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
    sender._routes.add(sender._routes.cluster, "t", hotpath.Route(4, True, itertools.count(), available))
    for _ in range(5):
        assert isinstance(sender.road.send("t", b"v").exception(0), KafkaTimeoutError)
    assert accumulator.incomplete_record_count() == 1


@pytest.mark.parametrize(("count", "turns", "available"), [
    (0, itertools.count(), (0,)), (0, itertools.count(), ()), (4, itertools.count(), ()), (-1, None, ())])
def test_route_when_it_has_no_partition_then_refused(count, turns, available):
    with pytest.raises(ValueError, match="leads nowhere"):
        hotpath.Route(count, True, turns, available)


def test_route_when_the_snapshot_is_another_meanwhile_then_it_is_not_kept():
    table, old, new = hotpath.RouteTable(), object(), object()
    table.renew(old)
    table.add(old, "t", hotpath.Route(1, True))
    assert list(table.routes) == ["t"]
    table.renew(new)
    assert (table.cluster, table.routes) == (new, {})
    table.add(old, "t", hotpath.Route(1, True))
    assert table.routes == {}


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


@pytest.mark.parametrize("name", [*hotpath._ROAD_NAMES])
def test_twins_when_looked_at_then_they_have_the_same_names(name):
    """Whatever one twin's class offers to the rest, the other's does."""
    kinds = [getattr(importlib.import_module(f"pyproducer.hotpath._{twin}_road"), name) for twin in TWINS]
    assert len({tuple(sorted(word for word in dir(kind) if not word.startswith("_"))) for kind in kinds}) == 1


def test_send_when_looked_up_then_both_twins_say_the_same():
    """A compiled file needs its own text of the docstring: the Python text's is not loaded beside it."""
    twins = [importlib.import_module(f"pyproducer.hotpath._{twin}_road").ProducerBase.send for twin in TWINS]
    assert len({inspect.getdoc(send) for send in twins}) == 1
    assert len({tuple(inspect.signature(send).parameters) for send in twins}) == 1
