"""Our own producer against three brokers that misbehave: nothing is lost, stored twice or out of order.

Every story runs under a load of many small batches to all partitions, several in flight. Afterwards the log has each
acknowledged record once and in order, and each record lies at the offset that the producer was told.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError, RecordTooLargeError
from pyproducer.broker import EmbeddedBroker, Fault
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.support.log_checker import LogProblem, check_log, check_order
from tests.support.patience import GIVE_UP_S
from tests.support.sending import Outcomes

TOPIC = "orders"
PARTITIONS = 6
COUNT = 2000
StartBroker = Callable[..., EmbeddedBroker]


class Load:
    """Sends numbered records to all partitions in turn; small batches, so that there are hundreds of them."""

    def __init__(self, broker: EmbeddedBroker, *, topic: str = TOPIC, partitions: int = PARTITIONS,
                 **props: Any) -> None:
        self.broker = broker
        self.topic = topic
        self.partitions = partitions
        self.outcomes = Outcomes()
        self.count = 0
        self.producer = KafkaProducer({
            "bootstrap.servers": broker.bootstrap_servers, "batch.size": 400, "linger.ms": 0, "max.block.ms": 60_000,
            "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20,
            "request.timeout.ms": 5000, "delivery.timeout.ms": 110_000,
            **{name.replace("_", "."): value for name, value in props.items()}})

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *exc: object) -> None:
        self.producer.close(GIVE_UP_S)

    def send(self, count: int, *, value_bytes: int = 20, pause_every: int = 0) -> None:
        for number in range(self.count, self.count + count):
            value = (b"%d " % number).ljust(value_bytes, b".")
            self.producer.send(self.topic, value, key=b"k", partition=number % self.partitions,
                               on_completion=self.outcomes.callback(number))
            if pause_every and number % pause_every == 0:
                time.sleep(0.001)
        self.count += count

    def check(self) -> None:
        """Wait for every record, then compare what the producer was told with what the log has."""
        self.producer.flush(GIVE_UP_S)
        self.outcomes.ensure_all_acknowledged(self.count)
        stored = self.broker.records(self.topic)
        numbers = [number_of(record.value) for record in stored]
        check_log(range(self.count), numbers)
        check_order(zip((record.partition for record in stored), numbers, strict=True), "partition")
        at = {(record.partition, record.offset): number
              for record, number in zip(stored, numbers, strict=True)}
        for number, metadata in self.outcomes.metadata.items():
            assert metadata.partition == number % self.partitions
            if metadata.offset >= 0:  # a broker may have forgotten where a duplicate lies
                assert at[metadata.partition, metadata.offset] == number
        told = sum(metadata.offset >= 0 for metadata in self.outcomes.metadata.values())
        assert told == self.count


def number_of(value: bytes | None) -> int:
    assert value is not None
    return int(value.split(b" ")[0])


@pytest.fixture
def broker(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(brokers=3, topics={TOPIC: PARTITIONS}, log_requests=True)


@pytest.fixture
def load(broker: EmbeddedBroker) -> Iterator[Load]:
    with Load(broker) as load:
        load.send(60)
        load.check()  # connected everywhere
        yield load


# ---- what a broker answers, or does not

def applied_then_closed(broker: EmbeddedBroker) -> list[Fault]:
    return [broker.faults.on("Produce", times=12, probability=0.2).close("after_apply")]


def closed_before_it_is_applied(broker: EmbeddedBroker) -> list[Fault]:
    return [broker.faults.on("Produce", times=12, probability=0.2).close("before_apply")]


def both_closes_and_slow(broker: EmbeddedBroker) -> list[Fault]:
    return [
        broker.faults.on("Produce", times=8, probability=0.1).delay(30).close("after_apply"),
        broker.faults.on("Produce", times=8, probability=0.1).delay(30).close("before_apply")]


def not_leader_without_hints(broker: EmbeddedBroker) -> list[Fault]:
    return [broker.faults.on("Produce", times=20, probability=0.2).error(ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def not_enough_replicas(broker: EmbeddedBroker) -> list[Fault]:
    return [
        broker.faults.on("Produce", partition=1, times=10).error(ErrorCode.NOT_ENOUGH_REPLICAS, "too few"),
        broker.faults.on("Produce", partition=2, times=10).error(
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, when="after_apply")]


def storage_error_and_timeout(broker: EmbeddedBroker) -> list[Fault]:
    return [
        broker.faults.on("Produce", partition=3, times=5).error(ErrorCode.KAFKA_STORAGE_ERROR),
        broker.faults.on("Produce", partition=4, times=5).error(ErrorCode.REQUEST_TIMED_OUT, when="after_apply"),
        broker.faults.on("Produce", partition=5, times=5).error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def throttled(broker: EmbeddedBroker) -> list[Fault]:
    return [broker.faults.on("Produce", times=5, probability=0.2).throttle(120)]


def wrong_correlation_id(broker: EmbeddedBroker) -> list[Fault]:
    return [broker.faults.on("Produce", times=6, probability=0.2).wrong_correlation_id()]


def truncated(broker: EmbeddedBroker) -> list[Fault]:
    return [broker.faults.on("Produce", times=2, probability=0.2).truncate(size_bytes)
            for size_bytes in (0, 3, 4, 7, 12, 40)]


def truncated_and_framed(broker: EmbeddedBroker) -> list[Fault]:
    return [broker.faults.on("Produce", times=2, probability=0.2).truncate(size_bytes, resize=True)
            for size_bytes in (2, 4, 12, 30)]


def out_of_order(broker: EmbeddedBroker) -> list[Fault]:
    return [broker.faults.on("Produce", partition=0, times=3, probability=0.5).error(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)]


def slow_answers(broker: EmbeddedBroker) -> list[Fault]:
    return [broker.faults.on("Produce", times=30, probability=0.3).delay(25, "after_apply")]


def metadata_that_fails(broker: EmbeddedBroker) -> list[Fault]:
    return [
        broker.faults.on("Produce", times=5, probability=0.3).error(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        broker.faults.on("Metadata", times=2).close("before_apply"),
        broker.faults.on("Metadata", times=2).error(ErrorCode.LEADER_NOT_AVAILABLE),
        broker.faults.on("Metadata", times=1).wrong_correlation_id()]


@pytest.mark.parametrize("story", [
    applied_then_closed, closed_before_it_is_applied, both_closes_and_slow, not_leader_without_hints,
    not_enough_replicas, storage_error_and_timeout, throttled, wrong_correlation_id, truncated, truncated_and_framed,
    out_of_order, slow_answers, metadata_that_fails], ids=lambda story: story.__name__)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_doubled_or_reordered_when(
        load: Load, story: Callable[[EmbeddedBroker], list[Fault]], seed: int) -> None:
    load.broker.faults.seed = seed
    faults = story(load.broker)
    load.send(COUNT)
    load.check()
    assert sum(fault.count for fault in faults) >= 2, "the story has hardly happened"


def test_the_same_story_without_idempotence_stores_records_twice(broker: EmbeddedBroker) -> None:
    """What the stories are worth: the checks see a producer that only retries."""
    with Load(broker, enable_idempotence=False) as load:
        load.send(60)
        load.check()
        applied_then_closed(broker)
        load.send(COUNT)
        with pytest.raises(LogProblem, match="stored more than once"):
            load.check()


@pytest.mark.parametrize("when", ["before_apply", "after_apply"])
def test_nothing_is_lost_doubled_or_reordered_when_a_request_is_never_answered(
        broker: EmbeddedBroker, when: str) -> None:
    with Load(broker, request_timeout_ms=400) as load:
        load.send(60)
        fault = broker.faults.on("Produce", times=3).drop(when)
        load.send(COUNT)
        load.check()
        assert fault.count == 3


def test_answers_that_come_after_the_request_timeout_change_nothing(broker: EmbeddedBroker) -> None:
    with Load(broker, request_timeout_ms=300) as load:
        load.send(60)
        broker.faults.on("Produce", times=4).delay(600, "after_apply")
        broker.faults.on("Produce", times=2).delay(600, "before_apply")
        load.send(COUNT)
        load.check()


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_batches_that_are_too_large_are_split_in_order(start_broker: StartBroker, compression: str) -> None:
    broker = start_broker(brokers=3)
    broker.create_topic(TOPIC, 3, {"max.message.bytes": "1000"})
    with Load(broker, partitions=3, batch_size=16_384, linger_ms=20, compression_type=compression) as load:
        broker.faults.on("Produce", times=3, probability=0.3).close("after_apply")
        load.send(COUNT)
        load.check()
        error = load.producer.send(TOPIC, random.Random(1).randbytes(5000), partition=0).exception(GIVE_UP_S)
        assert isinstance(error, RecordTooLargeError)
        load.send(30)
        load.check()


def test_a_new_producer_id_is_had_whatever_happens_to_the_request(broker: EmbeddedBroker) -> None:
    broker.faults.on("InitProducerId", times=2).close("before_apply")
    broker.faults.on("InitProducerId").error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker.faults.on("InitProducerId").wrong_correlation_id()
    with Load(broker) as load:
        load.send(200)
        load.check()


def test_a_throttled_answer_is_taken_at_once_and_nothing_is_sent_behind_it(broker: EmbeddedBroker) -> None:
    with Load(broker, partitions=1) as load:
        load.send(1)
        load.check()
        broker.faults.on("Produce").throttle(3_600_000)
        load.send(1)
        load.check()  # flush() would give up long before the throttle is over
        assert any("THROTTLED" in connection.mute_state for connection in broker.connections())
        load.send(1)
        with pytest.raises(KafkaTimeoutError):
            load.producer.flush(0.2)
        assert load.producer.metrics()["requests-in-flight"] == 0, "it must not be sent into a muted channel"
        load.producer.close(0)


def test_throttle_is_kept_by_the_producer(broker: EmbeddedBroker) -> None:
    with Load(broker, partitions=1) as load:
        load.send(1)
        load.check()
        broker.faults.on("Produce").throttle(300)
        begin = time.monotonic()
        for _ in range(2):
            load.send(1)
            load.check()
        assert time.monotonic() - begin > 0.28


# ---- leaders and nodes that move

def test_not_leader_with_hints_is_followed_without_metadata(broker: EmbeddedBroker) -> None:
    """No metadata come at all: what the refused batch's answer says of the new leader must be enough."""
    with Load(broker, partitions=1) as load:
        load.send(10)
        load.check()
        broker.faults.on("Metadata", times=None).close("before_apply")
        broker.move_leader(TOPIC, 0, 2)
        load.send(10)
        load.check()
        assert {request.node_id for request in broker.requests(ApiKeys.PRODUCE)} == {1, 2}
        broker.faults.clear()


@pytest.mark.parametrize("produce_versions", [(3, 9), (3, 13)], ids=["without hints", "with hints"])
def test_leaders_that_move_under_load(broker: EmbeddedBroker, produce_versions: tuple[int, int]) -> None:
    broker.set_api_versions({ApiKeys.PRODUCE: produce_versions})
    with Load(broker) as load, background(load):
        for turn in range(12):
            broker.move_leader(TOPIC, turn % PARTITIONS, (turn * 2) % 3 + 1)
            time.sleep(0.05)
            if turn % 4 == 3:
                broker.move_leader(TOPIC, turn % PARTITIONS, None)
                time.sleep(0.1)
                broker.move_leader(TOPIC, turn % PARTITIONS, turn % 3 + 1)
    load.check()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("move_leaders", [False, True], ids=["leaders wait", "leaders move"])
def test_nodes_that_stop_and_come_back_under_load(broker: EmbeddedBroker, kill: bool, move_leaders: bool) -> None:
    with Load(broker) as load, background(load):
        for node_id in (1, 2, 3):
            time.sleep(0.1)
            broker.stop_node(node_id, kill=kill, move_leaders=move_leaders)
            time.sleep(0.2)
            broker.start_node(node_id)
    load.check()


def test_everything_at_once(broker: EmbeddedBroker) -> None:
    broker.faults.seed = 3
    with Load(broker, request_timeout_ms=500) as load, background(load):
        for turn in range(6):
            for kind in ("before_apply", "after_apply"):
                broker.faults.on("Produce", times=2, probability=0.1).close(kind)
            broker.faults.on("Produce", probability=0.1).truncate(9)
            broker.faults.on("Produce", probability=0.1).drop("after_apply")
            broker.faults.on("Produce", times=2, probability=0.1).error(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                                                                        when="after_apply")
            broker.move_leader(TOPIC, turn, (turn + 1) % 3 + 1)
            if turn % 2:
                broker.stop_node(turn % 3 + 1, kill=True, move_leaders=True)
                time.sleep(0.1)
                broker.start_node(turn % 3 + 1)
            time.sleep(0.1)
    load.check()


def test_a_leader_that_moves_while_an_answer_is_missing(broker: EmbeddedBroker) -> None:
    """The new leader has the unanswered batch too, and a broker knows only the last five batches again."""
    with Load(broker, partitions=1, request_timeout_ms=1500, metadata_max_age_ms=100) as load:
        load.send(60)
        load.check()
        lost = broker.faults.on("Produce", node_id=1).drop("after_apply")
        load.send(1)
        lost.await_count()
        broker.move_leader(TOPIC, 0, 2)
        time.sleep(0.4)  # so that nothing else goes to the old leader
        for _ in range(40):
            load.send(5)
            time.sleep(0.01)
        load.check()


def background(load: Load) -> Background:
    return Background(load)


class Background:
    """Sends on another thread as long as the block runs."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._load.send(100, pause_every=10)

    def __enter__(self) -> None:
        self._load.send(60)
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        self._load.producer.flush(GIVE_UP_S)


# ---- releases

@pytest.mark.parametrize(("release", "produce_version"), [
    ("2.1", 7), ("2.4", 8), ("2.8", 9), ("3.6", 9), ("4.0", 12), ("4.2", 13)])
def test_a_release_is_produced_to_and_read_back(
        start_broker: StartBroker, release: str, produce_version: int) -> None:
    broker = start_broker(brokers=3, topics={TOPIC: PARTITIONS}, log_requests=True)
    broker.set_api_versions(release)
    with Load(broker, compression_type="zstd") as load:
        broker.faults.on("Produce", times=3).close("after_apply")
        load.send(COUNT)
        load.check()
    assert {request.api_version for request in broker.requests(ApiKeys.PRODUCE)} == {produce_version}
