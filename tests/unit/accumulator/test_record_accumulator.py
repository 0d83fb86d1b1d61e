"""Batching, readiness, draining, expiry: stepped with a clock that stands still."""

from __future__ import annotations

import threading
from array import array

import pytest

from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.accumulator.batch_state import BatchState, move
from pyproducer.accumulator.buffer_pool import BufferPool, Place
from pyproducer.accumulator.partition import BATCH_BYTES, FUTURE_BYTES
from pyproducer.accumulator.producer_batch import BatchRows
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.cluster import Cluster, Node, PartitionInfo
from pyproducer.common.errors import BufferExhaustedError, KafkaTimeoutError, ProducerClosedError
from pyproducer.hotpath import ColumnChunk, items_column, sort_rows
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.compression import compressor_for
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.support.serialized import append
from tests.support.stopped_caller import stop_at_a_look

# What Setup's batches reserve: the first is taken to become full of records like its first, three more in 200 bytes;
# the second is charged for what the first holds.
FIRST_BATCH_BYTES = 200 + BATCH_BYTES + 4 * FUTURE_BYTES
SECOND_BATCH_BYTES = 200 + BATCH_BYTES + 2 * FUTURE_BYTES
NODES = [Node(0, "127.0.0.1", 1), Node(1, "127.0.0.1", 2)]


def cluster(leaders=(0, 1, 0), epoch=1):
    return Cluster(nodes=NODES, partitions=[
        PartitionInfo("t", index, None if leader is None else NODES[leader], leader_epoch=epoch)
        for index, leader in enumerate(leaders)])


def expiry(setup):
    """Return the batches that have expired now, and how long until the next one does, in ms."""
    check = setup.accumulator.ready(cluster(), setup.clock.now_ms())
    return check.expired, check.next_expiry_delay_ms


class Setup:
    def __init__(self, batch_size=200, linger=10, memory=100_000, delivery_timeout=1000, codec="none", clock=None,
                 **how):
        self.clock = clock or ManualClock()
        self.pool = BufferPool(memory, self.clock, count_held=lambda: self.accumulator.count_held())
        self.accumulator = RecordAccumulator(
            batch_size_bytes=batch_size, linger_ms=linger, delivery_timeout_ms=delivery_timeout, pool=self.pool,
            compressor=compressor_for(codec, None), retry_backoff=ExponentialBackoff(100, 1000, jitter=0),
            clock=self.clock, **how)

    def append(self, partition=0, value=b"v" * 50, key=None, callback=None):
        return append(self.accumulator, "t", partition, 1234, value, key, callback)

    def drain(self, leaders=(0, 1, 0), nodes=NODES, size=100_000, where=None):
        """What the sender does: drain, and hand over to the client."""
        now_ms = self.clock.now_ms()
        partitions = self.accumulator.ready(where or cluster(leaders), now_ms).partitions
        drained = {}
        for node in nodes:
            if node.node_id in partitions:
                batches, _ = self.accumulator.drain(node.node_id, partitions[node.node_id], size, now_ms)
                if batches:
                    drained[node.node_id] = batches
        for batches in drained.values():
            for batch in batches:
                move(batch, BatchState.ON_WIRE)
        return drained


def test_append_fills_one_batch_then_opens_the_next_and_says_when_to_wake_the_sender():
    setup = Setup()
    assert setup.append()[2:] == (False, True)
    assert setup.append()[2:] == (False, False)
    assert setup.append()[2:] == (False, True)  # did not fit: the one before is full, this is a new one
    assert setup.accumulator.queue_sizes() == {"t": [(0, 2)]}
    assert setup.accumulator._partitions["t", 0].waiting_count == 2
    assert setup.pool.available_bytes == 100_000 - FIRST_BATCH_BYTES - SECOND_BATCH_BYTES


def test_append_when_a_record_is_larger_than_batch_size_gets_a_batch_of_its_own_size():
    setup = Setup()
    setup.append(value=b"x" * 1000)
    assert setup.pool.available_bytes < 100_000 - 1000
    drained = setup.drain()
    batch = drained[0][0]
    assert [record.value for one in read_batches(batch.encoded) for record in one] == [b"x" * 1000]


def test_append_when_memory_is_exhausted_raises_and_what_was_accepted_stays():
    setup = Setup(memory=FIRST_BATCH_BYTES + SECOND_BATCH_BYTES)
    for _ in range(4):
        setup.append()
    with pytest.raises(BufferExhaustedError):
        setup.append()
    assert setup.accumulator.incomplete_record_count() == 4


def test_ready_waits_for_linger_and_then_names_the_leader():
    setup = Setup()
    setup.append(partition=1)
    check = setup.accumulator.ready(cluster(), setup.clock.now_ms())
    assert check.ready_nodes == {}
    assert check.next_ready_check_delay_ms == 10
    setup.clock.advance(10)
    assert list(setup.accumulator.ready(cluster(), setup.clock.now_ms()).ready_nodes) == [1]


def test_ready_when_a_batch_is_full_or_flushed_or_closed_does_not_wait():
    setup = Setup()
    for _ in range(3):
        setup.append()
    assert list(setup.accumulator.ready(cluster(), 0).ready_nodes) == [0]
    other = Setup()
    other.append(partition=1)
    assert not other.accumulator.ready(cluster(), 0).ready_nodes
    other.accumulator.begin_flush()
    assert list(other.accumulator.ready(cluster(), 0).ready_nodes) == [1]
    other = Setup()
    other.append(partition=1)
    other.accumulator.close()
    assert list(other.accumulator.ready(cluster(), 0).ready_nodes) == [1]


def test_ready_when_there_is_no_leader_names_the_topic():
    setup = Setup()
    setup.append()
    check = setup.accumulator.ready(cluster((None, 1, 0)), 100)
    assert check.unknown_leader_topics == {"t"}
    assert check.ready_nodes == {}


def test_drain_takes_one_batch_of_each_partition_of_the_node():
    setup = Setup()
    for partition in (0, 1, 2):
        for _ in range(4):
            setup.append(partition)
    drained = setup.drain()
    assert {node: [batch.topic_partition.partition for batch in batches] for node, batches in drained.items()} == {
        0: [0, 2], 1: [1]}
    assert all(batch.encoded is not None for batches in drained.values() for batch in batches)


def test_drain_when_the_request_is_full_goes_on_with_the_next_partition_next_time():
    setup = Setup()
    for partition in (0, 2):
        for _ in range(4):
            setup.append(partition)
    first = setup.drain(size=200)
    second = setup.drain(size=200)
    assert [batch.topic_partition.partition for batch in first[0] + second[0]] == [0, 2]


def test_reenqueue_backs_off_and_comes_before_what_is_newer():
    setup = Setup()
    for _ in range(4):
        setup.append()
    batch = setup.drain()[0][0]
    setup.accumulator.reenqueue(batch, 0)
    check = setup.accumulator.ready(cluster(), 0)
    assert check.ready_nodes == {}
    assert check.next_ready_check_delay_ms == 100
    assert setup.drain() == {}
    setup.clock.advance(100)
    assert setup.drain()[0][0] is batch


def test_reenqueue_when_a_newer_leader_is_known_does_not_back_off():
    setup = Setup()
    setup.append()
    setup.clock.advance(10)
    setup.accumulator.ready(cluster(epoch=1), 10)
    batch = setup.drain()[0][0]
    setup.accumulator.reenqueue(batch, 10)
    moved = cluster((1, 1, 0), epoch=2)
    assert list(setup.accumulator.ready(moved, 10).ready_nodes) == [1]


def test_reenqueue_in_sequence_restores_the_order_of_several_batches():
    setup = Setup()
    for _ in range(8):
        setup.append()
    batches = []
    for sequence in (0, 2, 4):
        batch = setup.drain()[0][0]
        batch.set_producer_state(9, 0, sequence)
        batches.append(batch)
    for batch in reversed(batches[::2]):
        setup.accumulator.reenqueue(batch, 0)
    setup.accumulator.reenqueue(batches[1], 0)
    setup.clock.advance(100)
    assert [setup.drain()[0][0] for _ in range(3)] == batches


def test_finish_gives_memory_back_once():
    setup = Setup()
    setup.append()
    batch = setup.drain()[0][0]
    assert setup.pool.available_bytes == 100_000 - FIRST_BATCH_BYTES  # not at drain
    batch.complete(0)
    setup.accumulator.finish(batch)
    setup.accumulator.finish(batch)
    assert setup.pool.available_bytes == 100_000
    assert not setup.accumulator.has_incomplete()


def test_ready_when_batches_have_expired_then_names_them_and_the_next_expiry_is_told():
    setup = Setup()
    setup.append()
    setup.clock.advance(400)
    setup.append(partition=1)
    setup.clock.advance(599)
    assert expiry(setup) == ([], 1)
    setup.clock.advance(1)
    expired, next_ms = expiry(setup)
    assert [batch.topic_partition.partition for batch in expired] == [0]
    assert next_ms == 400


def test_close_refuses_new_records_and_abort_fails_the_rest():
    setup = Setup()
    future = setup.append().future
    setup.accumulator.close()
    with pytest.raises(ProducerClosedError):
        setup.append()
    assert setup.accumulator.abort_batches(KafkaTimeoutError("over", phase="delivery")) == 1
    with pytest.raises(KafkaTimeoutError, match="over"):
        future.result(0)
    assert setup.pool.available_bytes == 100_000


class Noted:
    """A lock: whoever had it when somebody else wants it, has put his record down by then."""

    def __init__(self, put_down):
        self._put_down = put_down

    def __enter__(self):
        self._put_down()

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("step", ["close", "close_off"])
def test_close_when_a_caller_has_seen_that_records_are_taken_then_his_is_down_when_it_returns(step, monkeypatch):
    """He holds his partition's lock, or that of the waiting room, until it is."""
    setup = Setup()
    setup.append()
    accumulator = setup.accumulator
    (partition,) = accumulator.busy
    seen = []
    monkeypatch.setattr(partition, "lock", Noted(lambda: seen.append("partition")))
    monkeypatch.setattr(accumulator.waiting, "lock", Noted(lambda: seen.append("room")))
    getattr(accumulator, step)()
    assert set(seen) == {"partition", "room"}


def rows_of(*values, batch_size=200):
    """Rows of a send_batch to partition 0."""
    chunk = ColumnChunk(0, items_column(values, 0, len(values)), None, None, None)
    places, times = array("i", [0] * len(values)), array("q", [1234] * len(values))
    order, _ = sort_rows(places, 0, len(values), 1)
    return BatchRows(BatchFuture("t", places, times), chunk, times, order, batch_size)


def append_one(setup, kind):
    if kind == "record":
        setup.append()
    else:
        setup.accumulator.append_rows("t", 0, rows_of(b"r"), 0, 1, 0)


def on_another_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(GIVE_UP_S)


class Meanwhile:
    """The first caller who opens a batch gets no memory for it; while he waits, `meanwhile` happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.meanwhile = lambda: None
        charge = BufferPool.charge
        refusals = [False]

        def refuse_once(pool, batch, batches, place=None):
            return refusals.pop() if refusals else charge(pool, batch, batches, place)

        def wait(place):
            place.leave()  # or he is the first in line
            on_another_thread(self.meanwhile)

        monkeypatch.setattr(BufferPool, "charge", refuse_once)
        monkeypatch.setattr(Place, "wait", wait)


@pytest.fixture
def other_caller(monkeypatch):
    return Meanwhile(monkeypatch)


def test_append_when_another_caller_opened_a_batch_meanwhile_then_the_record_joins_it_and_memory_is_given_back(
        other_caller):
    setup = Setup()
    opened = []
    other_caller.meanwhile = lambda: opened.append(setup.append(value=b"first"))
    result = setup.append(value=b"second")
    assert result.batch is opened[0].batch
    assert (result.batch_is_full, result.new_batch_created) == (False, False)
    assert setup.pool.available_bytes == 100_000 - result.batch.reserved_bytes
    assert result.batch.open.record_count == 2


def test_append_when_the_batch_that_another_caller_opened_has_no_room_then_its_own_is_opened(other_caller):
    setup = Setup()
    other_caller.meanwhile = lambda: setup.append(value=b"x" * 150)
    result = setup.append(value=b"y" * 150)
    assert result.new_batch_created
    assert setup.accumulator._partitions["t", 0].waiting_count == 2
    incomplete = setup.accumulator.incomplete()
    assert setup.pool.available_bytes == 100_000 - sum(batch.reserved_bytes for batch in incomplete)


def test_append_rows_when_another_caller_opened_a_batch_meanwhile_then_rows_join_it_and_memory_is_given_back(
        other_caller):
    setup = Setup()
    opened = []
    other_caller.meanwhile = lambda: opened.append(setup.append(value=b"first"))
    rows = rows_of(b"r" * 20, b"s" * 20)
    result = setup.accumulator.append_rows("t", 0, rows, 0, 2, 0)
    assert (result.row_count, result.batch, result.new_batch_created) == (2, opened[0].batch, False)
    assert setup.pool.available_bytes == 100_000 - result.batch.reserved_bytes


@pytest.mark.parametrize("kind", ["record", "rows"])
def test_append_when_the_producer_is_closed_meanwhile_then_raises_and_memory_is_given_back(other_caller, kind):
    setup = Setup()
    other_caller.meanwhile = setup.accumulator.close
    with pytest.raises(ProducerClosedError):
        append_one(setup, kind)
    assert setup.pool.available_bytes == 100_000
    assert not setup.accumulator.has_incomplete()


@pytest.mark.parametrize("kind", ["record", "rows"])
def test_append_when_the_producer_is_closed_then_raises_even_where_a_batch_has_room(kind):
    setup = Setup()
    setup.append()
    setup.accumulator.close()
    with pytest.raises(ProducerClosedError):
        append_one(setup, kind)
    assert setup.accumulator.incomplete_record_count() == 1


@pytest.mark.parametrize("kind", ["record", "rows"])
def test_append_when_it_waited_for_memory_then_the_new_batch_is_as_old_as_its_opening(
        kind, monkeypatch: pytest.MonkeyPatch):
    """The wait for memory is bounded by max.block.ms; delivery.timeout.ms and linger.ms begin after it."""
    setup = Setup()
    charge, refusals = setup.pool.charge, [False]

    class PlaceOfOneWhoWaits:
        waited_ms = 900

        def wait(self):
            setup.clock.advance(900)

        def leave(self):
            pass

    monkeypatch.setattr(setup.pool, "charge", lambda *arguments: refusals.pop() if refusals else charge(
        arguments[0], arguments[1]))
    monkeypatch.setattr(setup.pool, "enter", lambda *_: PlaceOfOneWhoWaits())
    append_one(setup, kind)
    assert setup.accumulator.ready(cluster(), 900).next_ready_check_delay_ms == 10
    setup.clock.advance(999)
    assert expiry(setup) == ([], 1)
    setup.clock.advance(1)
    assert len(expiry(setup)[0]) == 1


def test_append_rows_when_they_need_several_batches_then_says_how_many_each_took_and_when_it_is_full():
    setup = Setup()
    rows = rows_of(*[b"r" * 50] * 5)
    begin, seen = 0, []
    while begin < 5:
        result = setup.accumulator.append_rows("t", 0, rows, begin, 5, 0)
        begin += result.row_count
        seen.append((result.row_count, result.batch_is_full, result.new_batch_created))
    assert seen == [(2, True, True), (2, True, True), (1, False, True)]
    assert setup.append(value=b"v" * 30).batch is result.batch


def test_append_rows_when_memory_is_exhausted_then_raises_and_takes_nothing():
    setup = Setup(memory=FIRST_BATCH_BYTES)
    setup.append()
    setup.append()
    with pytest.raises(BufferExhaustedError):
        setup.accumulator.append_rows("t", 0, rows_of(b"r" * 100), 0, 1, 0)
    assert setup.pool.available_bytes == 0
    assert setup.accumulator.incomplete_record_count() == 2


def test_close_when_a_caller_waits_for_memory_then_it_raises_there():
    setup = Setup(memory=FIRST_BATCH_BYTES)
    setup.append()
    errors = []

    def wait():
        try:
            append(setup.accumulator, "t", 1, 1234, b"v" * 50, max_block_ms=3_600_000)
        except ProducerClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    while not setup.pool.queued_count:
        assert thread.is_alive()
    assert list(setup.accumulator.ready(cluster(), 0).ready_nodes) == [0], "somebody waits for memory: nothing lingers"
    setup.accumulator.close()
    thread.join(GIVE_UP_S)
    assert not thread.is_alive()
    assert len(errors) == 1
    assert setup.accumulator.incomplete_record_count() == 1


def test_begin_flush_when_a_flush_waits_then_what_was_accepted_does_not_linger_and_what_comes_later_does():
    setup = Setup()
    future = setup.append().future
    assert [batch.topic_partition.partition for batch in setup.accumulator.begin_flush()] == [0]
    setup.append(partition=1)
    assert list(setup.accumulator.ready(cluster(), 0).ready_nodes) == [0]
    assert not future.done()


def test_abort_when_only_undrained_then_what_is_in_flight_stays():
    setup = Setup()
    in_flight = setup.append().future
    (batch,) = setup.drain()[0]
    queued = [setup.append().future, setup.append().future]
    assert setup.accumulator.abort_batches(KafkaTimeoutError("over", phase="delivery"), only_undrained=True) == 2
    assert [future.done() for future in (in_flight, *queued)] == [False, True, True]
    assert setup.pool.available_bytes == 100_000 - batch.reserved_bytes
    assert setup.accumulator._partitions["t", 0].waiting_count == 0


def test_batches_when_asked_then_tells_those_that_are_incomplete_wherever_they_are_in_order_of_each_partition():
    setup = Setup()
    for _ in range(4):
        setup.append()
    setup.append(partition=1)
    (taken,) = setup.drain(nodes=NODES[:1])[0]
    incomplete = setup.accumulator.incomplete()
    assert [batch.topic_partition.partition for batch in incomplete] == [0, 0, 1]
    assert incomplete[0] is taken
    assert setup.accumulator.incomplete_record_count() == 5
    assert setup.accumulator._partitions["t", 0].waiting_count == 1
    assert setup.accumulator.has_undrained()


def test_drain_when_partitions_move_then_each_node_gets_what_it_leads_and_others_are_left_alone():
    setup = Setup()
    for partition in (0, 1, 2):
        setup.append(partition)
    assert setup.drain(leaders=(None, 1, 0), nodes=NODES[:1])[0][0].topic_partition.partition == 2
    drained = setup.drain(leaders=(1, 1, 0), nodes=NODES)
    assert {node: [batch.topic_partition.partition for batch in batches] for node, batches in drained.items()} == {
        1: [0, 1]}


def test_ready_when_one_partition_lingers_and_another_backs_off_then_looks_again_at_the_nearer_time():
    setup = Setup(linger=70)
    setup.append(partition=0)
    batch = setup.drain()[0][0]
    setup.accumulator.reenqueue(batch, 0)
    setup.append(partition=1)
    check = setup.accumulator.ready(cluster(), 0)
    assert (check.ready_nodes, check.next_ready_check_delay_ms) == ({}, 70)
    check = setup.accumulator.ready(cluster(), 70)
    assert (list(check.ready_nodes), check.next_ready_check_delay_ms) == ([1], 30)
    assert sorted(setup.accumulator.ready(cluster(), 100).ready_nodes) == [0, 1]


def test_ready_when_a_flush_runs_then_a_batch_in_backoff_still_waits():
    setup = Setup()
    setup.append()
    setup.accumulator.reenqueue(setup.drain()[0][0], 0)
    setup.accumulator.begin_flush()
    assert setup.accumulator.ready(cluster(), 99).ready_nodes == {}
    assert list(setup.accumulator.ready(cluster(), 100).ready_nodes) == [0]


def test_split_keeps_order_memory_and_outcomes():
    setup = Setup(batch_size=400)
    futures = [setup.append(value=bytes([65 + i]) * 50).future for i in range(5)]
    batch = setup.drain()[0][0]
    batch.set_producer_state(1, 0, 0)
    parts = setup.accumulator.split(batch)
    assert len(parts) >= 2
    values = []
    offset = 0
    while drained := setup.drain():
        for one in drained[0]:
            values += [record.value[:1] for read in read_batches(one.encoded) for record in read]
            one.complete(offset)
            offset += one.record_count
            setup.accumulator.finish(one)
    assert values == [b"A", b"B", b"C", b"D", b"E"]
    assert [future.result(0).offset for future in futures] == [0, 1, 2, 3, 4]
    assert setup.pool.available_bytes == 100_000


def result_in_vain(future):
    with pytest.raises(KafkaTimeoutError):
        future.result(0)


@pytest.mark.parametrize("wait", [result_in_vain, lambda future: future.add_done_callback(id)])
def test_waiting_for_a_record_ends_the_linger_of_its_batch_and_tells_the_sender_so_once(wait):
    told = []
    setup = Setup(linger=1000, lingers_for_waiters=False, on_linger_ended=lambda: told.append("hurried"))
    future = setup.append().future
    assert not setup.accumulator.ready(cluster(), 0).ready_nodes
    for _ in range(2):
        wait(future)
    assert told == ["hurried"]
    assert list(setup.accumulator.ready(cluster(), 0).ready_nodes) == [0]


def test_waiting_for_a_record_keeps_the_linger_when_it_was_set_on_purpose():
    setup = Setup(linger=1000, on_linger_ended=lambda: pytest.fail("it lingers"))
    future = setup.append().future
    with pytest.raises(KafkaTimeoutError):
        future.result(0)
    assert not setup.accumulator.ready(cluster(), 0).ready_nodes


def test_partition_when_its_first_record_found_no_memory_then_it_is_looked_at_no_more():
    setup = Setup(memory=FIRST_BATCH_BYTES)
    setup.append(0)
    with pytest.raises(BufferExhaustedError):
        setup.append(1)
    setup.accumulator.ready(cluster(), 0)
    assert [partition.topic_partition.partition for partition in setup.accumulator.busy] == [0]


def test_move_deadlines_when_a_caller_was_stopped_before_his_batch_was_in_the_list_then_it_has_so_much_longer(
        monkeypatch) -> None:
    """All that stood still is moved; that one expired at once, with what others had put into it."""
    setup = Setup()
    before_ms = setup.clock.now_ms()
    movers = stop_at_a_look(monkeypatch, setup.clock, setup.accumulator, 60_000)
    append_one(setup, "record")
    movers[0].join()
    (batch,) = setup.accumulator.batches()
    assert batch.created_ms == before_ms + 60_000
