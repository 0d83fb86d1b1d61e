"""Records whose topic, or partition, is not known yet: step by step, in manual time."""

from __future__ import annotations

import collections
import gc
import linecache
import os
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer.accumulator.batch_state import BatchState
from pyproducer.accumulator.buffer_pool import LoopWaitError, Place
from pyproducer.accumulator.life import UNOWNED
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.client.metadata import MetadataRequest
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import (
    AuthenticationError,
    AuthorizationError,
    BufferExhaustedError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    PartitionerError,
    ProducerClosedError,
    UnknownTopicOrPartitionError,
)
from pyproducer.common.waiting import Waiters, is_owned
from pyproducer.hotpath import FutureRecordMetadata
from pyproducer.producer import waiting_room
from pyproducer.producer.partitioners import RoundRobinPartitioner
from pyproducer.producer.partitioning import Partitioning
from tests.support.patience import GIVE_UP_S
from tests.support.serialized import record_of
from tests.support.stopped_caller import stop_at_a_look
from tests.unit.sender.stepped_producer import SteppedProducer, metadata_response

UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
NEVER_MS = 2**31 - 1


def stepped(**settings: Any) -> SteppedProducer:
    return SteppedProducer(**{"idempotent": False, "batch_size": 10_000, "delivery_timeout": 120_000, **settings})


def values_of(producer: SteppedProducer, partition: int | None = None) -> list[bytes]:
    """What is on the wire, in order; of one partition, or of all."""
    return [value for place, _, _, values in producer.batches_on_wire() if partition in (None, place)
            for value in values if value is not None]


def test_move_deadlines_when_a_caller_was_stopped_before_his_record_was_in_the_queue_then_it_has_so_much_longer(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """All that stood still is moved; that one expired in the first turn."""
    producer = stepped()
    before_ms = producer.clock.now_ms()
    producer.enter(b"first", partition=1)
    movers = stop_at_a_look(monkeypatch, producer.clock, producer.accumulator, 500_000,
                            lambda: is_owned(producer.accumulator.waiting.lock))
    producer.enter(b"v", partition=1)
    movers[0].join()
    first, record = producer.room.queues["u"].records
    assert (record.sent_ms, first.sent_ms) == (before_ms + 500_000, before_ms + 500_000)
    assert record.deadline_ms > before_ms + 500_000


# Going on ------------------------------------------------------------------------------------------------------------

def test_record_when_its_topic_becomes_known_then_it_is_sent_and_its_future_done() -> None:
    producer = stepped()
    future = producer.enter(b"v", partition=1)
    assert repr(future) == "<FutureRecordMetadata u-1 pending>"
    producer.turn()
    assert "u" in producer.metadata.topics()
    assert not producer.client.in_flight
    producer.tell(2)
    producer.turn()
    assert values_of(producer) == [b"v"]
    producer.answer_all(7)
    assert future.result(0).offset == 7
    assert (future.result(0).topic, future.result(0).partition, future.result(0).timestamp) == ("u", 1, 1000)
    assert producer.held_bytes == 0
    assert not producer.room.queues


def test_records_when_the_topic_becomes_known_then_each_partition_has_its_own_in_order() -> None:
    producer = stepped(batch_size=200)
    keys = [b"%d" % (number % 3) for number in range(30)]
    futures = [producer.enter(b"%d" % number, key=key) for number, key in enumerate(keys)]
    producer.tell(3)
    order: dict[int, list[bytes]] = {}
    for _ in range(30):
        producer.turn()
        for partition, _, _, values in producer.batches_on_wire():
            order.setdefault(partition, []).extend(values)  # type: ignore[arg-type]
        while producer.client.in_flight:
            producer.answer_all()
    assert all(future.done() for future in futures)
    places = {key: future.result(0).partition for key, future in zip(keys, futures, strict=True)}
    for partition, sent in order.items():
        assert sent == [b"%d" % number for number, key in enumerate(keys) if places[key] == partition]
    assert producer.held_bytes == 0


def test_record_when_an_earlier_one_of_its_topic_waits_then_it_goes_behind_it_though_the_topic_is_known() -> None:
    producer = stepped()
    producer.enter(b"first", partition=0)
    producer.tell(1)
    assert producer.room.is_waiting("u")
    producer.enter(b"second", partition=0)
    producer.turn()
    assert values_of(producer) == [b"first", b"second"]
    assert not producer.room.is_waiting("u")
    assert producer.room.enter(record_of("u", 0, 0, b"v"), 1000) is None, "it goes by the road"
    assert not producer.room.queues


def test_record_when_a_partition_is_missing_then_it_waits_alone_and_the_others_of_the_topic_go_on() -> None:
    producer = stepped()
    missing = producer.enter(b"missing", partition=4)
    there = producer.enter(b"there", partition=0)
    producer.tell(2)
    producer.turn()
    assert values_of(producer) == [b"there"]
    assert not producer.room.is_waiting("u")
    assert producer.room.is_waiting("u", 4)
    producer.enter(b"behind", partition=4)
    producer.answer_all()
    assert there.done()
    producer.tell(5)
    producer.turn()
    assert values_of(producer) == [b"missing", b"behind"]
    producer.answer_all(3)
    assert missing.result(0).offset == 3


def test_record_when_older_ones_still_wait_for_its_partition_then_it_goes_behind_them(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_room, "_MOST_RECORDS_A_TURN", 2)
    producer = stepped()
    producer.tell(1)
    for value in (b"1", b"2"):
        producer.enter(value, partition=1)
    producer.tell(code=UNKNOWN)  # the topic is deleted; one of its name is made
    producer.enter(b"3", partition=1)
    producer.tell(2)
    for _ in range(3):
        producer.turn()
    assert values_of(producer) == [b"1", b"2", b"3"]


def test_records_when_there_are_more_than_a_turn_takes_then_the_next_turn_comes_at_once(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """A room of 100,000 records would hold the sender for a second: nothing is sent or answered meanwhile."""
    monkeypatch.setattr(waiting_room, "_MOST_RECORDS_A_TURN", 10)
    producer = stepped()
    futures = [producer.enter(b"%d" % number, partition=0) for number in range(25)]
    producer.tell(1)
    assert producer.turn() == 0
    assert len(values_of(producer)) == 10
    assert producer.turn() == 0
    assert len(values_of(producer)) == 20
    assert producer.turn() > 0
    assert values_of(producer) == [b"%d" % number for number in range(25)]
    while producer.client.in_flight:
        producer.answer_all()
    assert all(future.done() for future in futures)
    assert producer.held_bytes == 0


def test_caller_when_a_long_queue_is_being_emptied_then_he_waits_at_the_door_until_it_is(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers who add records as fast as the sender moves them would keep the room for ever."""
    monkeypatch.setattr(waiting_room, "_MOST_RECORDS_A_TURN", 2)
    producer = stepped()
    waits: list[float] = []
    rings: list[bool] = []

    def wait(cell: Any, timeout_s: float) -> bool:
        waits.append(timeout_s)
        producer.turn()
        rings.append(cell.acquire(blocking=False))
        return rings[-1]

    monkeypatch.setattr(producer.clock, "wait", wait)
    for number in range(3):
        producer.enter(b"%d" % number, partition=0)
    producer.tell(1)
    assert not waits
    producer.turn()
    assert producer.room.enter(record_of("u", 0, 0, b"v"), 1000) is None
    assert waits == [0.1]
    assert rings == [True], "not at the end of his time"
    assert values_of(producer) == [b"0", b"1", b"2"]


def test_batches_of_the_room_when_made_then_they_hold_what_their_records_held_and_are_full_at_batch_size() -> None:
    producer = stepped(batch_size=300)
    for _ in range(5):
        producer.enter(b"v" * 90, partition=0)
    held = producer.held_bytes
    assert held > 5 * 90
    producer.tell(1)
    producer.room.move_on(0)
    batches = producer.incomplete()
    assert [batch.record_count for batch in batches] == [2, 2, 1]
    assert {batch.state for batch in batches} == {BatchState.QUEUED}
    assert producer.held_bytes == sum(batch.reserved_bytes for batch in batches) == held
    assert all(batch.reserved_bytes >= len(batch.open.buffer) for batch in batches)


def test_records_when_sent_far_apart_then_they_do_not_share_a_batch_that_expires_with_the_oldest() -> None:
    producer = stepped(delivery_timeout=6400, max_block_ms=6000)
    for _ in range(3):
        producer.enter(partition=0, max_block_ms=6000)
        producer.clock.advance(80)
    producer.tell(1)
    producer.room.move_on(producer.clock.now_ms())
    assert [batch.created_ms for batch in producer.incomplete()] == [0, 160]


def test_record_when_it_waited_then_delivery_timeout_counts_from_its_send() -> None:
    producer = stepped(delivery_timeout=2000)
    future = producer.enter(partition=0)
    producer.tell(1, advance=900)
    producer.turn()
    producer.turn(advance=1099)
    assert not future.done()
    producer.turn(advance=1)
    assert future.exception(0).phase == "delivery"


def test_open_batch_of_before_when_records_waited_meanwhile_then_nothing_is_added_to_it_any_more() -> None:
    producer = stepped(linger=10_000)
    producer.append(0, b"old")
    batch = producer.incomplete()[0]
    assert batch.state is BatchState.OPEN
    producer.accumulator.waiting.queues.clear()
    producer.metadata.update({**_no_topics(), "topics": [_row("t", UNKNOWN)]}, 13, 0)
    future = producer.enter(b"waited", topic="t", partition=0)
    producer.tell(1, topic="t")
    producer.room.move_on(0)
    assert batch.state is BatchState.QUEUED
    producer.append(0, b"new")
    assert [batch.open.record_count for batch in producer.incomplete()] == [1, 1, 1]
    assert future._result is producer.incomplete()[1].result


def _no_topics() -> dict[str, Any]:
    return {"throttle_time_ms": 0, "cluster_id": "c", "controller_id": 1, "error_code": 0, "topics": [],
            "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 9092, "rack": None},
                        {"node_id": 2, "host": "127.0.0.1", "port": 9093, "rack": None}]}


def _row(topic: str, code: int) -> dict[str, Any]:
    return {"error_code": code, "name": topic, "topic_id": None, "is_internal": False, "partitions": []}


# Partitioners --------------------------------------------------------------------------------------------------------

def test_partitioner_when_records_waited_then_it_is_asked_on_the_senders_turn_in_order() -> None:
    asked: list[Any] = []

    def choose(topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, cluster: Any, count: int) -> int:
        asked.append((topic, key, key_bytes, value, value_bytes, cluster.partition_count_for_topic(topic), count))
        return count - 1

    producer = stepped(choose=choose)
    for value in (b"a", b"b"):
        producer.enter(value, key=b"k")
    assert asked == []
    producer.tell(3)
    producer.turn()
    assert asked == [("u", b"k", b"k", value, value, 3, 3) for value in (b"a", b"b")]
    assert values_of(producer, 2) == [b"a", b"b"]


OF_ANOTHER_RECORD = KafkaError("a record of another producer was refused")
OF_ANOTHER_RECORD.outcome = "rejected"


@pytest.mark.parametrize("raised", [ZeroDivisionError("mine"), SystemExit(3), MemoryError(), OF_ANOTHER_RECORD])
def test_partitioner_when_it_raises_then_that_record_fails_and_the_others_go_on(raised: BaseException) -> None:
    def choose(_topic: str, _key: Any, _key_bytes: Any, value: bytes, *_: Any) -> int:
        if value == b"bad":
            raise raised
        return 0

    producer = stepped(choose=choose)
    told: list[Any] = []
    futures = [producer.enter(value, on_completion=lambda *what: told.append(what)) for value in (b"a", b"bad", b"b")]
    producer.tell(1)
    producer.turn()
    error = futures[1].exception(0)
    assert error.outcome == "not_sent"
    if isinstance(raised, KafkaError):
        assert type(error) is KafkaError
    else:  # a future tells of nothing else, and this was told as what it was: MemoryError
        assert (type(error), error.outcome, error.__cause__) == (PartitionerError, "not_sent", raised)
    assert [(metadata, type(exception)) for metadata, exception in told] == [(None, type(error))]
    assert values_of(producer) == [b"a", b"b"]
    while producer.client.in_flight:
        producer.answer_all()
    assert futures[0].done()
    assert futures[2].done()
    assert producer.held_bytes == 0


def test_partitioner_when_it_wants_to_know_then_it_is_told_of_each_record_and_what_it_raises_is_logged(
        caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []

    class Watching(RoundRobinPartitioner):
        def on_append(self, topic: str, partition: int, size_bytes: int, _cluster: object, is_full: bool) -> None:
            told.append((topic, partition, size_bytes, is_full))
            raise SystemExit

    producer = stepped(on_append=Partitioning(Watching(), UNOWNED).on_append, batch_size=61 + 2 * 80)
    futures = [producer.enter(b"v" * 59, partition=0) for _ in range(3)]
    producer.tell(1)
    producer.turn()
    assert told == [("u", 0, 80, False), ("u", 0, 80, True), ("u", 0, 80, False)]
    assert [len(values) for _, _, _, values in producer.batches_on_wire()] == [2, 1]
    assert "on_append of the partitioner raised" in caplog.text
    assert not any(future.done() for future in futures)


def test_partitioner_when_it_names_a_missing_partition_then_the_record_waits_for_that() -> None:
    producer = stepped(choose=lambda *_: 1)
    future = producer.enter(b"v")
    producer.tell([0, 2])
    producer.turn()
    assert producer.room.is_waiting("u", 1)
    assert not producer.room.is_waiting("u")
    producer.tell(3)
    producer.turn()
    assert values_of(producer, 1) == [b"v"]
    producer.answer_all()
    assert future.done()


# Failing -------------------------------------------------------------------------------------------------------------

def test_record_when_the_topic_stays_unknown_then_it_fails_after_max_block_ms() -> None:
    producer = stepped()
    told: list[Any] = []
    future = producer.enter(on_completion=lambda *what: told.append(what))
    assert producer.turn() == 1000
    assert producer.turn(advance=999) == 1
    assert not future.done()
    assert producer.turn(advance=1) == NEVER_MS or future.done()
    error = future.exception(0)
    assert isinstance(error, KafkaTimeoutError)
    assert (error.phase, error.outcome) == ("metadata", "not_sent")
    assert "Topic 'u' was not known within max.block.ms = 1000 ms" in str(error)
    assert [(metadata, type(exception)) for metadata, exception in told] == [(None, KafkaTimeoutError)]
    assert producer.held_bytes == 0
    assert not producer.room.queues
    assert producer.total("record-error-total") == 0


@pytest.mark.parametrize("partition", [None, 1])
def test_record_when_what_it_waits_for_is_known_just_when_its_time_ends_then_the_error_says_so(
        partition: int | None) -> None:
    producer = stepped()
    if partition is not None:
        producer.tell(1)
    future = producer.enter(partition=partition)
    producer.turn()
    producer.tell(2, advance=1000)
    producer.turn()
    error = future.exception(0)
    assert (error.phase, error.outcome) == ("metadata", "not_sent")
    assert str(error) == "Topic 'u' became known just when max.block.ms = 1000 ms ended"


def test_record_when_delivery_timeout_is_the_smaller_then_that_ends_its_wait() -> None:
    producer = stepped(delivery_timeout=400)
    future = producer.enter()
    producer.turn(advance=399)
    assert not future.done()
    producer.turn(advance=1)
    assert "delivery.timeout.ms = 400 ms" in str(future.exception(0))


def test_records_when_one_waited_for_memory_before_then_each_ends_at_its_own_time() -> None:
    producer = stepped()
    long = producer.enter(max_block_ms=1000)
    short = producer.enter(max_block_ms=300)
    assert producer.wakeup.count == 2, "the sender sleeps until the first one's end"
    assert producer.turn() == 300
    producer.turn(advance=300)
    assert short.done()
    assert not long.done()
    producer.turn(advance=700)
    assert long.done()
    assert producer.held_bytes == 0


def test_enter_when_the_sender_takes_all_out_in_the_middle_then_the_record_is_accepted(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """send() looked at the record before its own after it had entered, and raised IndexError for one that was sent."""
    producer = stepped()
    producer.enter(b"first", partition=0)
    memory = producer.pool
    real = memory.charge

    def charge(*arguments: Any) -> bool:
        is_charged = real(*arguments)
        producer.tell(1)
        producer.turn()
        return is_charged

    monkeypatch.setattr(memory, "charge", charge)
    future = producer.enter(b"second", partition=0)
    assert values_of(producer) == [b"first", b"second"]
    producer.answer_all()
    assert future.result(0).partition == 0


def test_enter_when_max_block_is_0_then_it_fails_at_once_and_asks() -> None:
    producer = stepped()
    for partition in (None, 5):
        with pytest.raises(KafkaTimeoutError) as caught:
            producer.enter(partition=partition, max_block_ms=0)
        assert (caught.value.phase, caught.value.outcome) == ("metadata", "not_sent")
    assert "u" in producer.metadata.topics()
    assert producer.metadata.time_to_next_update(0) == 0
    producer.tell(2)
    assert producer.metadata.time_to_next_update(producer.clock.now_ms()) > 10_000
    with pytest.raises(KafkaTimeoutError, match="Partition 5 of topic 'u' was not known"):
        producer.enter(partition=5, max_block_ms=0)
    assert producer.metadata.time_to_next_update(producer.clock.now_ms()) < 10_000, "partitions may have been added"
    assert producer.room.enter(record_of("u", 1, 0, b"v"), 0) is None
    assert not producer.room.queues


def test_enter_when_max_block_is_0_and_others_still_wait_for_its_partition_then_it_does_not_overtake_them() -> None:
    producer = stepped()
    producer.enter(b"first", partition=4)
    producer.tell(2)
    producer.turn()
    assert producer.room.is_waiting("u", 4)
    producer.tell(5)
    with pytest.raises(KafkaTimeoutError):
        producer.enter(b"second", partition=4, max_block_ms=0)
    assert producer.room.enter(record_of("u", 3, 0, b"v"), 0) is None, "nobody waits for that one"
    producer.turn()
    assert values_of(producer) == [b"first"]
    assert producer.room.enter(record_of("u", 4, 0, b"v"), 0) is None


@pytest.mark.parametrize(("code", "error_type"), [
    (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopicError), (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError)])
def test_record_when_the_topic_is_refused_then_the_first_answer_fails_it(
        code: ErrorCode, error_type: type[KafkaError]) -> None:
    producer = stepped(max_block_ms=10**9)
    for _ in range(2):  # the second send is not told by the first one's answer
        future = producer.enter(max_block_ms=10**9)
        producer.turn()
        assert not future.done()
        producer.tell(code=int(code))
        producer.turn()
        producer.turn()
        error = future.exception(0)
        assert type(error) is error_type
        assert error.outcome == "not_sent"
        assert "'u'" in str(error)
        assert producer.held_bytes == 0


def test_record_when_it_comes_while_the_others_of_its_topic_fail_then_it_is_asked_for_at_once() -> None:
    """It is not the first to end of those that were there, so it rings nobody."""
    producer = stepped()
    later: list[FutureRecordMetadata] = []
    futures = [producer.enter(on_completion=lambda *_: later.append(producer.enter(max_block_ms=60_000)))
               for _ in range(3)]
    producer.turn()
    producer.tell(code=int(ErrorCode.INVALID_TOPIC_EXCEPTION))
    version = producer.metadata.version()
    assert producer.turn() == 0
    assert all(future.done() for future in futures)
    assert not any(future.done() for future in later)
    producer.turn()
    producer.tell(1, advance=1)
    assert producer.metadata.version() > version
    producer.turn()
    assert len(values_of(producer)) == len(later) == 3


def test_record_when_nobody_can_be_asked_then_the_error_of_all_metadata_fails_it_at_once() -> None:
    producer = stepped()
    futures = [producer.enter(), producer.enter(topic="w")]
    producer.turn()
    refusal = AuthenticationError("no certificate")
    refusal.outcome = "rejected"  # what was asked was; of the records nothing left
    producer.metadata.fatal_error(refusal)
    producer.turn()
    producer.turn()
    for future in futures:
        error = future.exception(0)
        assert type(error) is AuthenticationError
        assert error.outcome == "not_sent"
    later = producer.enter()
    producer.turn()
    producer.turn()
    assert not later.done(), "it happened before"
    producer.metadata.fatal_error(refusal)
    producer.turn()
    producer.turn()
    assert later.done()


def test_topic_when_two_brokers_do_not_know_it_for_ten_seconds_then_its_records_fail() -> None:
    producer = stepped(max_block_ms=60_000)
    future = producer.enter(max_block_ms=60_000)
    for second in range(10):
        producer.turn()
        producer.tell(code=UNKNOWN, node_id=1 + second % 2, advance=1000)
    producer.turn()
    assert not future.done(), "nine seconds lie between the first answer and the last"
    producer.tell(code=UNKNOWN, advance=1000)
    producer.turn()
    producer.turn()
    error = future.exception(0)
    assert type(error) is UnknownTopicOrPartitionError
    assert error.outcome == "not_sent"
    assert "Topic 'u'" in str(error)
    assert producer.held_bytes == 0
    later = producer.enter(max_block_ms=60_000)
    producer.tell(code=UNKNOWN, node_id=2, advance=1000)
    producer.turn()
    producer.turn()
    assert not later.done(), "ten seconds begin anew"


def test_topic_when_one_of_two_brokers_does_not_know_it_then_its_records_wait_on() -> None:
    producer = stepped(max_block_ms=60_000)
    future = producer.enter(max_block_ms=60_000)
    for _ in range(30):
        producer.turn()
        producer.tell(code=UNKNOWN, node_id=1, advance=1000)
    producer.turn()
    producer.turn()
    assert not future.done()


def waiting_for_a_partition() -> tuple[SteppedProducer, FutureRecordMetadata]:
    """A record for partition 2 of a topic of which one broker knew two, before the record came."""
    producer = stepped(max_block_ms=60_000)
    producer.tell(2)
    future = producer.enter(partition=2, max_block_ms=60_000)
    producer.turn()
    return producer, future


def test_partition_when_one_of_two_brokers_does_not_know_it_then_the_other_is_asked() -> None:
    """A broker that lags behind refused a partition that had just been added, which the others knew."""
    producer, future = waiting_for_a_partition()
    for _ in range(3):
        producer.tell(2, node_id=1, advance=1000)
        producer.turn()
        assert not future.done()
        assert producer.metadata.node_to_avoid() == 1
    producer.tell(3, node_id=2)
    producer.turn()
    assert values_of(producer) == [b"v"]
    assert producer.metadata.node_to_avoid() is None


def test_partition_when_two_brokers_do_not_know_it_then_its_records_fail() -> None:
    producer, future = waiting_for_a_partition()
    for node_id in (-1, 1, 1, 2):  # the first may be any broker
        assert not future.done()
        producer.tell(2, node_id=node_id, advance=100)
        producer.turn()
    later = producer.enter(partition=2, max_block_ms=60_000)
    producer.turn()
    assert "has no partition 2: the index must be from 0 to 1" in str(future.exception(0))
    producer.turn()
    producer.tell(2, node_id=2, advance=100)
    producer.turn()
    producer.turn()
    assert not later.done(), "two are asked anew"


@pytest.mark.parametrize("node_id", [1, -1])
def test_partition_when_no_second_broker_can_be_asked_then_one_is_believed_after_ten_seconds(node_id: int) -> None:
    """-1 is a bootstrap address, which may be any broker, the other one included."""
    producer, future = waiting_for_a_partition()
    for _ in range(9):
        producer.tell(2, node_id=node_id, advance=1000)
        producer.turn()
    assert not future.done()
    producer.tell(2, node_id=node_id, advance=1000)
    producer.turn()
    producer.turn()
    assert type(future.exception(0)) is UnknownTopicOrPartitionError


def test_partition_when_an_answer_is_about_other_topics_then_nothing_is_said_of_it() -> None:
    producer, future = waiting_for_a_partition()
    producer.tell(2, node_id=1)
    producer.turn()
    body = {**metadata_response(), "topics": []}
    producer.metadata.update(body, 13, producer.clock.now_ms(), node_id=2,
                             request=MetadataRequest([], 2**31, is_partial=True))
    producer.turn()
    producer.turn()
    assert not future.done()


def test_topic_when_another_answer_comes_between_then_ten_seconds_begin_anew() -> None:
    producer = stepped(max_block_ms=60_000)
    future = producer.enter(max_block_ms=60_000)
    for second in range(18):
        code = int(ErrorCode.LEADER_NOT_AVAILABLE) if second == 9 else UNKNOWN
        producer.tell(code=code, node_id=1 + second % 2, advance=1000)
        producer.turn()
    producer.turn()
    assert not future.done()
    producer.tell(1)
    producer.turn()
    assert values_of(producer) == [b"v"]


def test_enter_when_the_name_is_not_allowed_then_invalid_topic_error() -> None:
    producer = stepped()
    with pytest.raises(InvalidTopicError):
        producer.enter(topic="a b")
    assert not producer.room.queues


# Memory --------------------------------------------------------------------------------------------------------------

def pass_waits(monkeypatch: pytest.MonkeyPatch, producer: SteppedProducer) -> None:
    """Callers' waits move the clock, and nothing comes meanwhile."""
    def wait(cell: Any, timeout_s: float) -> bool:
        producer.clock.advance(round(timeout_s * 1000))
        return cell.acquire(blocking=False)

    monkeypatch.setattr(producer.clock, "wait", wait)


def part_left(producer: SteppedProducer) -> int:
    """Return how much the records in the room may hold besides."""
    waiting = producer.accumulator.waiting
    return waiting.limit_bytes - waiting.held_bytes()


def fill_room(producer: SteppedProducer, topic: str = "u") -> list[Any]:
    """Let records in as long as no caller would have to wait for memory."""
    futures = []
    while part_left(producer) >= 3000:
        futures.append(producer.enter(b"v" * 1000, topic=topic))
    return futures


def test_room_when_its_quarter_is_used_up_then_who_enters_waits_and_known_topics_go_on(
        monkeypatch: pytest.MonkeyPatch) -> None:
    producer = stepped(memory=400_000)
    pass_waits(monkeypatch, producer)
    futures = fill_room(producer)
    assert 95_000 < producer.held_bytes <= 100_000
    with pytest.raises(BufferExhaustedError, match=r"the part of buffer\.memory for records whose topic") as caught:
        producer.enter(b"v" * 2000, max_block_ms=1)
    assert caught.value.outcome == "not_sent"
    producer.append(0)
    assert len(producer.incomplete()) == 1
    producer.turn(advance=2000)
    assert all(future.done() for future in futures)
    producer.enter(b"v" * 1000)


@pytest.mark.parametrize("partition", [None, 1])
def test_caller_at_the_door_when_his_topic_exists_then_it_is_asked_for_and_he_goes_his_way_though_the_room_is_full(
        monkeypatch: pytest.MonkeyPatch, partition: int | None) -> None:
    """A misspelt topic held up whoever had come for another: only for records in the room was metadata asked, so his
    was known when those had failed, ten seconds later."""
    producer = stepped(memory=400_000)
    if partition is not None:
        producer.tell(1)
    fill_room(producer, "misspelt")
    producer.turn()
    producer.tell(0, topic="misspelt", code=UNKNOWN)
    rings: list[bool] = []

    def wait(cell: Any, _timeout_s: float) -> bool:
        now_ms = producer.clock.now_ms()
        assert producer.metadata.time_to_next_update(now_ms) <= 100, "not before metadata.max.age.ms"
        assert "u" in producer.metadata.topics()
        producer.tell(2)
        producer.turn()
        rings.append(cell.acquire(blocking=False))
        return rings[-1]

    monkeypatch.setattr(producer.clock, "wait", wait)
    woken = producer.wakeup.count
    assert producer.room.enter(record_of("u", partition, 0, b"v" * 4000), 1000) is None
    assert producer.wakeup.count > woken, "the sender asks"
    assert rings == [True], "not at the end of his time"


def test_caller_when_an_event_loop_finds_the_room_full_then_his_topic_is_asked_for() -> None:
    producer = stepped(memory=40_000)
    fill_room(producer, "misspelt")
    producer.life.loop = SimpleNamespace(is_here=True)  # type: ignore[assignment]
    with pytest.raises(LoopWaitError):
        producer.enter(b"v" * 4000)
    assert "u" in producer.metadata.topics()


def test_caller_when_he_waits_for_all_memory_then_his_topic_is_asked_for_meanwhile(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """What was left of max.block.ms behind that wait might be too short for an answer."""
    producer = stepped(memory=40_000, batch_size=37_000)
    producer.append(0)
    producer.turn()

    def wait(cell: Any, _timeout_s: float) -> bool:
        producer.turn()
        assert "u" in producer.metadata.topics()
        producer.answer_all()
        return cell.acquire(blocking=False)

    monkeypatch.setattr(producer.clock, "wait", wait)
    producer.enter(b"v" * 2000)


def test_room_when_a_record_is_above_its_part_then_it_is_let_in_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = stepped(memory=40_000)
    pass_waits(monkeypatch, producer)
    producer.enter(b"v" * 20_000)
    with pytest.raises(BufferExhaustedError):
        producer.enter(max_block_ms=1)
    producer.turn(advance=1000)
    assert producer.held_bytes == 0


def test_caller_when_he_waits_for_the_room_and_it_is_emptied_then_he_enters(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = stepped(memory=40_000)
    fill_room(producer, "w")

    def wait(cell: Any, timeout_s: float) -> bool:
        producer.turn(advance=1000)  # those in the room expire
        return cell.acquire(blocking=False)

    monkeypatch.setattr(producer.clock, "wait", wait)
    future = producer.enter(b"v" * 2000, max_block_ms=5000)
    assert not future.done()
    assert [record.future for record in producer.accumulator.waiting.incomplete()] == [future]
    assert len(producer.accumulator.waiting.door) == producer.pool.queued_count == 0


def test_caller_when_it_is_all_memory_that_lacks_then_he_waits_for_that_and_enters(
        monkeypatch: pytest.MonkeyPatch) -> None:
    producer = stepped(memory=40_000, batch_size=37_000)
    producer.append(0)
    producer.turn()
    waits: list[int] = []

    def wait(cell: Any, timeout_s: float) -> bool:
        waits.append(producer.pool.queued_count)
        if producer.client.in_flight:
            producer.answer_all()
        return cell.acquire(blocking=False)

    monkeypatch.setattr(producer.clock, "wait", wait)
    future = producer.enter(b"v" * 2000)
    assert waits == [1], "in the line of all, with the others"
    assert not future.done()
    assert len(producer.accumulator.waiting.door) == producer.pool.queued_count == 0


def test_caller_when_the_room_is_full_before_all_memory_comes_back_then_he_leaves_that_line_and_waits_at_the_door(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit was asked once, before that wait: callers of a misspelt topic took all of buffer.memory, one after the
    other, and who sent to a known one stood still until their records failed."""
    producer = stepped(memory=40_000, batch_size=37_000)
    producer.append(0)
    producer.turn()
    waiting = producer.accumulator.waiting
    lines: list[tuple[int, int]] = []
    behind: list[Place] = []

    def wait(cell: Any, _timeout_s: float) -> bool:
        lines.append((len(waiting.door), producer.pool.queued_count))
        if len(lines) == 1:
            behind.append(producer.pool.enter(2000, 1000))
            producer.answer_all()
            other = threading.Thread(target=producer.room.enter, args=(
                record_of("misspelt", None, 0, b"v" * 8000), 1000, producer.pool._first()))  # as who stood before him
            other.start()
            other.join(GIVE_UP_S)
        else:
            assert not behind[0].cell.locked(), "who comes next in that line has his turn"
            behind[0].leave()
            producer.turn(advance=1000)  # those in the room expire
        return cell.acquire(blocking=False)

    monkeypatch.setattr(producer.clock, "wait", wait)
    future = producer.enter(b"v" * 2000, max_block_ms=5000)
    assert lines == [(0, 1), (1, 1)], "in one line at a time"
    assert [record.future for record in waiting.incomplete()] == [future]
    assert len(waiting.door) == producer.pool.queued_count == 0


def test_caller_when_he_waits_for_the_room_and_then_for_all_memory_then_both_together_take_max_block_ms(
        monkeypatch: pytest.MonkeyPatch) -> None:
    producer = stepped(memory=200_000, batch_size=200)
    producer.append(0, b"v" * 100_000)
    fill_room(producer, "w")
    waits: list[float] = []

    def wait(cell: Any, timeout_s: float) -> bool:
        waits.append(timeout_s)
        if len(waits) == 1:  # those in the room end, and another batch takes their memory
            producer.clock.advance(300)
            producer.accumulator.waiting.fail_all(lambda _topic: KafkaError("the test"))
            other = threading.Thread(target=producer.append, args=(1, b"v" * 80_000))
            other.start()
            other.join(GIVE_UP_S)
        else:
            producer.clock.advance(round(timeout_s * 1000))
        return cell.acquire(blocking=False)

    monkeypatch.setattr(producer.clock, "wait", wait)
    with pytest.raises(BufferExhaustedError, match="bytes hold records that are not acknowledged yet") as caught:
        producer.enter(b"v" * 30_000, max_block_ms=1000)
    assert caught.value.outcome == "not_sent"
    assert waits == [1.0, 0.7]
    assert "within max.block.ms = 1000 ms" in str(caught.value), "the setting, and not what was left of it"
    assert len(producer.accumulator.waiting.door) == producer.pool.queued_count == 0


def test_caller_when_he_had_the_first_place_in_the_line_of_all_then_the_next_in_it_looks_after_him(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """What came back was enough for both, and only the first was rung: the other would sleep until his time ends."""
    producer = stepped(memory=40_000, batch_size=37_000)
    producer.append(0)
    producer.turn()
    behind: list[Place] = []

    def wait(cell: Any, timeout_s: float) -> bool:
        behind.append(producer.pool.enter(2000, 1000))
        producer.answer_all()
        assert behind[0].cell.locked(), "it is not his turn yet"
        return cell.acquire(blocking=False)

    monkeypatch.setattr(producer.clock, "wait", wait)
    producer.enter(b"v" * 2000)
    (place,) = behind
    assert not place.cell.locked()
    place.leave()


def test_enter_when_the_room_is_full_inside_a_callback_then_it_fails_at_once() -> None:
    producer = stepped(memory=40_000)
    fill_room(producer)
    producer.life.sender_ident = threading.get_ident()
    with pytest.raises(BufferExhaustedError, match="a callback cannot wait"):
        producer.enter(b"v" * 2000)


# Turns beside an occupied room ---------------------------------------------------------------------------------------

class Watched(collections.deque[Any]):
    """A queue's records; counts who walks over them."""

    walks = 0

    def __iter__(self) -> Any:
        self.walks += 1
        return super().__iter__()


def watch(producer: SteppedProducer, key: Any = "u") -> Watched:
    queue = producer.accumulator.waiting.queues[key]
    records = queue.records = Watched(queue.records)
    return records


def test_caller_when_the_room_is_full_then_nobody_looks_at_each_record_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event loop whose send_nowait() was refused walked over all that waited, some thousand records, twice in each
    call; so did each caller at the door for each answer of metadata."""
    producer = stepped(memory=400_000)
    fill_room(producer)
    records = watch(producer)
    loop, producer.life.loop = producer.life.loop, SimpleNamespace(is_here=True)  # type: ignore[assignment]
    with pytest.raises(LoopWaitError, match="of 100000 bytes, the part of buffer"):
        producer.enter(b"v" * 4000)
    producer.life.loop = loop
    pass_waits(monkeypatch, producer)
    with pytest.raises(BufferExhaustedError):
        producer.enter(b"v" * 4000, max_block_ms=1)
    assert records.walks == 0


def test_callback_when_it_sends_a_record_that_failed_in_the_room_again_then_nobody_looks_at_each_record_in_it() -> None:
    """To a dead letter topic, which is not known either."""
    producer = stepped(memory=400_000)
    sent: list[Any] = []
    while part_left(producer) >= 6000:
        producer.enter(b"v" * 1000, on_completion=lambda *_: sent.append(producer.enter(b"v" * 1000, topic="dead")))
    count = len(producer.accumulator.waiting.queues["u"].records)
    records = watch(producer)
    producer.life.sender_ident = threading.get_ident()
    producer.turn(advance=1000)
    assert len(sent) == count
    assert records.walks <= 2, "those that end, and which is next"


def test_turn_when_the_waiting_records_end_out_of_order_then_it_does_not_look_at_each_of_them() -> None:
    """Two threads that send to one unknown topic are enough: then each turn, also those of other topics, walked over
    all that waited, some ms of 50,000 records."""
    producer = stepped()
    producer.enter(b"1", max_block_ms=900)
    producer.enter(b"2", max_block_ms=500)
    assert producer.turn() == 500
    records = watch(producer)
    for advance in (0, 100, 200):
        producer.turn(advance=advance)
    assert records.walks == 0
    assert producer.turn(advance=200) == 400, "the second ended, the first is next"
    assert len(records) == 1


def test_turn_when_many_topics_are_unknown_then_they_are_looked_at_only_with_news(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a thousand of them takes some ms: each turn of the topics beside them took that long."""
    producer = stepped()
    looked: list[str] = []
    step = producer.room._step
    monkeypatch.setattr(producer.room, "_step", lambda queue, *how: (looked.append(queue.topic), step(queue, *how))[1])

    def topics_of_a_turn(advance: int = 0) -> list[str]:
        looked.clear()
        producer.turn(advance=advance)
        return sorted(looked)

    producer.enter(topic="u")
    producer.enter(topic="v")
    assert topics_of_a_turn() == ["u", "v"]
    assert topics_of_a_turn(10) == []
    producer.enter(topic="v")
    assert topics_of_a_turn(10) == [], "who comes behind others waits like them"
    producer.enter(topic="w")
    assert topics_of_a_turn() == ["u", "v", "w"], "somebody came"
    producer.tell(1, code=UNKNOWN)
    assert topics_of_a_turn() == ["u", "v", "w"], "an answer came"
    assert topics_of_a_turn() == []
    producer.metadata.fatal_error(AuthenticationError("who are you"))
    assert topics_of_a_turn() == ["u", "v", "w"], "nobody can be asked"
    topics_of_a_turn()
    assert not producer.room.queues


def test_turn_when_one_ended_half_way_then_the_next_looks_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = stepped()
    future = producer.enter(partition=0)
    producer.turn()
    producer.tell(1)
    Failing(monkeypatch, producer, 1)
    with pytest.raises(MemoryError):
        producer.turn()
    producer.sender.recover(producer.clock.now_ms())
    producer.turn()
    producer.answer_all()
    assert future.done()


def test_record_when_only_its_partition_is_missing_then_it_still_ends_after_max_block_ms() -> None:
    """It went over to the queue of its partition, at which nobody looked before something else woke the sender: no
    metadata was asked for, and the future was pending until metadata.max.age.ms."""
    producer = stepped()
    future = producer.enter(partition=5)
    producer.turn()
    producer.tell(2)
    assert producer.turn() == 0, "there is a queue that was not looked at"
    assert producer.turn() == 1000
    assert producer.metadata.time_to_next_update(producer.clock.now_ms()) <= 1000, "it is asked for"
    producer.turn(advance=1000)
    assert future.exception(0).phase == "metadata"
    assert not producer.room.queues


# Exceptions in a turn ------------------------------------------------------------------------------------------------

class Failing:
    """Raises at the n-th call of any of some methods, as an allocation may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, producer: SteppedProducer, at: int) -> None:
        self.left = at
        waiting, memory = producer.accumulator.waiting, producer.pool
        for owner, name in ((producer.accumulator, "append_waiting"), (waiting, "let_go"),
                            (memory, "move_reservations"), (memory, "take_out"), (waiting, "move_to"),
                            (memory, "release"), (waiting, "remove_if_empty"), (memory, "rearrange")):
            monkeypatch.setattr(owner, name, self._failing(getattr(owner, name)))

    def _failing(self, real: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if real.__name__ == "release" and type(arguments[0]) is ProducerBatch:  # one that was answered
                return real(*arguments)
            self.left -= 1
            if self.left == 0:
                raise MemoryError
            result = real(*arguments)
            self.left -= 1
            if self.left == 0:
                raise MemoryError
            return result
        return call


@pytest.mark.parametrize("at", range(1, 43))
def test_turn_when_it_ends_half_way_then_every_record_is_stored_or_told_once_and_memory_comes_back(
        monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    def choose(_topic: str, _key: Any, _key_bytes: Any, value: bytes, *_: Any) -> int:
        if value == b"3":
            raise ZeroDivisionError
        return 9 if value == b"5" else int(value) % 2

    producer = stepped(choose=choose)
    told: list[int] = []
    futures = [producer.enter(b"%d" % number, on_completion=lambda *_, number=number: told.append(number))
               for number in range(8)]
    producer.tell(2)
    failing = Failing(monkeypatch, producer, at)
    sent: dict[int, list[bytes]] = {0: [], 1: []}
    for _ in range(30):
        try:
            producer.turn()
        except MemoryError:
            producer.sender.recover(producer.clock.now_ms())
        for partition, _, _, values in producer.batches_on_wire():
            sent[partition].extend(values)  # type: ignore[arg-type]
        while producer.client.in_flight:
            producer.answer_all()
    assert failing.left <= 0, "it was raised"
    failing.left = -1
    producer.turn(advance=1000)  # number 5's partition never came
    producer.turn()
    assert all(future.done() for future in futures)
    assert sorted(told) == list(range(8)), "each is told once"
    assert sent == {0: [b"0", b"2", b"4", b"6"], 1: [b"1", b"7"]}
    assert isinstance(futures[3].exception(0).__cause__, ZeroDivisionError)
    assert futures[5].exception(0).phase == "metadata"
    assert producer.held_bytes == 0
    assert producer.accumulator.waiting.held_bytes() == 0
    assert not producer.room.queues


def test_turn_when_it_ends_between_the_list_and_the_charges_then_records_are_stored_once_and_memory_comes_back(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Their batch was in its partition's list, and some of them had their charge still: they went into a second one."""
    producer = stepped()
    futures = [producer.enter(b"%d" % number, partition=0) for number in range(3)]
    producer.tell(1)
    memory = producer.pool
    move_reservations = memory.move_reservations

    def ended_half_way(givers: Any, taker: Any, takers: Any) -> None:
        monkeypatch.setattr(memory, "move_reservations", move_reservations)
        memory._is_dirty = True
        takers.append(taker)
        givers[0].reserved_bytes = 0
        raise MemoryError

    monkeypatch.setattr(memory, "move_reservations", ended_half_way)
    with pytest.raises(MemoryError):
        producer.turn()
    assert producer.pool.available_bytes < producer.pool.total_bytes, "somebody counts now"
    assert producer.accumulator.waiting.held_bytes() >= 0
    producer.sender.recover(producer.clock.now_ms())
    producer.turn()
    assert values_of(producer) == [b"0", b"1", b"2"]
    producer.answer_all(4)
    assert [future.result(0).offset for future in futures] == [4, 5, 6]
    assert producer.pool.available_bytes == producer.pool.total_bytes
    assert producer.accumulator.waiting.held_bytes() == 0
    assert not producer.room.queues


@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.parametrize("comes", [False, True])
def test_turn_when_it_ends_between_two_queues_then_the_record_is_in_one_and_memory_comes_back(
        monkeypatch: pytest.MonkeyPatch, *, comes: bool, is_counted: bool) -> None:
    """It was in both: it failed twice, as two records, and what it had of memory was gone for good."""
    producer = stepped()
    future = producer.enter(partition=5)
    producer.tell(1)
    memory = producer.pool
    rearrange = memory.rearrange

    def ended_half_way(_change: Any) -> None:
        monkeypatch.setattr(memory, "rearrange", rearrange)
        memory._is_dirty = True
        waiting = producer.accumulator.waiting
        waiting.queues["u", 5].records.append(waiting.queues["u"].records[0])
        raise MemoryError

    monkeypatch.setattr(memory, "rearrange", ended_half_way)
    with pytest.raises(MemoryError):
        producer.turn()
    if is_counted:
        assert memory._available() > 0
    producer.sender.recover(producer.clock.now_ms())
    assert producer.held_bytes == sum(record.reserved_bytes for record in producer.accumulator.waiting.incomplete())
    assert len(producer.accumulator.waiting.incomplete()) == 1
    if comes:
        producer.tell(6)
        producer.turn()
        assert values_of(producer) == [b"v"]
        producer.answer_all(4)
        assert future.result(0).offset == 4
    else:
        producer.turn(advance=1000)
        assert future.exception(0).phase == "metadata"
    producer.turn()
    assert sum(producer.life.tally.summary().failed.values()) == (not comes)
    assert producer.held_bytes == producer.accumulator.waiting.held_bytes() == 0
    assert not producer.room.queues


def test_caller_at_the_door_when_the_turn_that_was_to_wake_him_ended_half_way_then_recovery_wakes_him(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The room was empty, no turn looked at it any more, and he stood there to the end of max.block.ms."""
    producer = stepped(memory=40_000)
    fill_room(producer)
    door = producer.accumulator.waiting.door
    cell = door.enter()
    real = Waiters.ring

    def ring(waiters: Waiters) -> None:
        if waiters is door:
            monkeypatch.undo()
            raise MemoryError
        real(waiters)

    monkeypatch.setattr(Waiters, "ring", ring)
    with pytest.raises(MemoryError):
        producer.turn(advance=1000)
    assert not producer.accumulator.waiting.has_any()
    producer.sender.recover(producer.clock.now_ms())
    assert not cell.locked()


def test_abort_when_records_wait_then_they_fail_and_their_memory_is_back() -> None:
    producer = stepped()
    futures = [producer.enter(partition=partition) for partition in (0, None, 5)]
    producer.tell(1)
    producer.turn()
    assert producer.accumulator.incomplete_record_count() == 3
    producer.sender.abort(ProducerClosedError("closed"))
    assert [type(future.exception(0)) for future in futures[2:]] == [ProducerClosedError]
    assert all(future.done() for future in futures)
    assert producer.held_bytes == 0
    assert producer.accumulator.incomplete_record_count() == 0
    assert not producer.accumulator.has_incomplete()


def test_abort_when_a_move_ended_half_way_then_its_records_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = stepped()
    told: list[Any] = []
    future = producer.enter(partition=0, on_completion=lambda *what: told.append(what))
    producer.tell(1)
    Failing(monkeypatch, producer, 4)  # the batch is in its list, the future does not look there
    with pytest.raises(MemoryError):
        producer.turn()
    assert producer.sender.abort(ProducerClosedError("closed")) == 1
    assert isinstance(future.exception(0), ProducerClosedError)
    assert len(told) == 1
    assert producer.held_bytes == 0


def test_enter_when_closed_then_the_refusal_of_the_producers_life() -> None:
    producer = stepped()
    producer.life.begin_closing("the test", None)
    producer.accumulator.close()
    with pytest.raises(ProducerClosedError):
        producer.enter()
    assert not producer.accumulator.has_incomplete()


@pytest.mark.parametrize("whose", ["room", "memory"])
def test_enter_when_a_finalizer_calls_it_in_the_middle_of_a_step_of_the_sender_then_it_is_refused(whose: str) -> None:
    """It charged in the middle of a release, and buffer.memory was wrong until the producer was closed."""
    producer = stepped()
    waiting = producer.accumulator.waiting
    lock = {"room": waiting.lock, "memory": producer.pool.lock}[whose]
    producer.life.sender_ident = threading.get_ident()
    with lock, pytest.raises(IllegalStateError, match="in the middle of another call"):
        producer.enter()
    assert producer.enter() is not None
    assert waiting.held_bytes() == producer.held_bytes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_result_when_a_record_waits_and_the_process_forks_then_forked_in_the_child() -> None:
    producer = stepped()
    future = producer.enter()
    producer.life.mark_forked()
    with pytest.raises(IllegalStateError, match="before the process was forked"):
        future.result(0)


# Interrupted callers -------------------------------------------------------------------------------------------------

def test_enter_when_interrupted_at_any_line_then_nothing_is_stuck() -> None:
    """Ctrl-C at each line in turn: the record is in the room or it is not, and memory says the same."""
    done = False
    at = 0
    while not done:
        at += 1
        assert at < 1000
        producer = stepped()
        producer.enter(b"before")
        left = at

        def trace(frame: Any, event: str, _argument: Any) -> Any:
            nonlocal left
            # The end of a `with` counts as its line, too; no signal arrives between that and the lock's release.
            if event == "line" and "/pyproducer/" in frame.f_code.co_filename.replace(os.sep, "/") and not (
                    linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")):
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return trace

        woken = producer.wakeup.count
        before = sys.gettrace()
        gc.disable()  # an exception in what it calls is Python's to swallow, and the line is no line of enter()
        sys.settrace(trace)
        try:
            producer.enter(b"interrupted", topic="other")
            done = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
            gc.enable()
        waiting = producer.accumulator.waiting
        assert not waiting.lock._is_owned()  # type: ignore[attr-defined]
        records = waiting.incomplete()
        assert producer.held_bytes == sum(record.reserved_bytes for record in records)
        assert waiting.held_bytes() == producer.held_bytes
        if len(records) == 2 and not done:
            assert producer.wakeup.count > woken, f"line {at}: nobody tells the sender"
        producer.enter(b"after", topic="other")
        producer.turn(advance=1000)
        assert producer.held_bytes == 0
        assert len(waiting.door) == producer.pool.queued_count == 0
        assert not producer.room.queues
    assert at > 40, "the lines of enter() were traced"
