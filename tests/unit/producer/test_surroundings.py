"""A whole producer whose time, chance, threads, locks, names and sockets are the test's: one thread, and no waiting."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyproducer import ProducerConfig
from pyproducer.accumulator.life import LifeState
from pyproducer.client.resolver import Lookup, ResolvedAddress, ThreadedResolver
from pyproducer.common.waiting import Cell, Locks
from pyproducer.network.selector import Selector
from pyproducer.network.wakeup import Wakeup
from pyproducer.producer.surroundings import Surroundings
from pyproducer.producer.wiring import ProducerRuntime, build_runtime
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import read_batches
from tests.support.clock import ManualClock
from tests.unit.client.mock_selector import MockSelector, Request
from tests.unit.client.scripted_cluster import ScriptedCluster, topic_row

MOST_TURNS = 1000


class CountingLocks:
    """Real locks and cells, counted by kind."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        real = Locks()
        self.locks = Locks(*(self._counting(kind, getattr(real, kind)) for kind in ("lock", "rlock", "cell")))

    def _counting(self, kind: str, make: Callable[[], Any]) -> Callable[[], Any]:
        def counting() -> Any:
            self.made[kind] += 1
            return make()
        return counting


class SteppingClock(ManualClock):
    """A caller's wait takes turns of the sender, in the caller's own thread, until its cell opens or its time is over.

    Attributes:
        take_turn: Takes one, which moves this clock as far as it would have slept.
    """

    take_turn: Callable[[], bool]

    def wait(self, cell: Cell, timeout_s: float | None) -> bool:
        deadline_ms = 2**62 if timeout_s is None else self.now_ms() + round(timeout_s * 1000)
        for _ in range(MOST_TURNS):
            if cell.acquire(blocking=False):
                return True
            if self.now_ms() >= deadline_ms or not self.take_turn():
                return False
        raise AssertionError("the sender does nothing that ends this wait")


class World:
    """A producer, the cluster that it talks to, and all that it has around it."""

    def __init__(self, seed: int = 0, **props: object) -> None:
        self.clock = SteppingClock()
        self.locks = CountingLocks()
        self.cluster = ScriptedCluster()
        self.cluster.topics["t"] = topic_row("t", 1, 2)
        self.selectors: list[MockSelector] = []
        self.threads: list[tuple[str, Callable[[], None]]] = []
        self.stored: dict[int, list[bytes | None]] = {0: [], 1: []}
        self.fails = False
        self.runtime: ProducerRuntime = build_runtime(
            ProducerConfig({"bootstrap.servers": "10.0.0.8:9092,10.0.0.9:9092", **props}), None, None,
            on_end=lambda _life: None, surroundings=Surroundings(
                clock=self.clock, random=random.Random(seed), locks=self.locks.locks, make_wakeup=Wakeup,
                start_thread=lambda run, name: self.threads.append((name, run)), make_selector=self._make_selector,
                make_resolver=lambda wakeup, _start_thread: Numbers(wakeup)))
        self.runtime.io_thread.start()
        self.clock.take_turn = self.runtime.io_thread.take_turn

    def _make_selector(self, **_settings: object) -> MockSelector:
        selector = MockSelector(self.clock, answer=self.answer)
        selector.sleeps = True
        self.selectors.append(selector)
        return selector

    def answer(self, request: Request) -> Mapping[str, Any] | bytes | Exception | None:
        if request.api_key is ApiKeys.INIT_PRODUCER_ID:
            return {"throttle_time_ms": 0, "error_code": 0, "producer_id": 7, "producer_epoch": 0}
        if request.api_key is not ApiKeys.PRODUCE:
            return self.cluster(request)
        if self.fails:
            self.fails = False
            raise ZeroDivisionError("a bug of the selector")
        rows = []
        for topic in request.body["topic_data"]:
            partitions = []
            for row in topic["partition_data"]:
                log = self.stored[row["index"]]
                partitions.append({"index": row["index"], "error_code": 0, "base_offset": len(log),
                                   "log_append_time_ms": -1, "log_start_offset": 0, "record_errors": [],
                                   "error_message": None, "current_leader": {"leader_id": -1, "leader_epoch": -1}})
                log += [record.value for batch in read_batches(bytes(row["records"])) for record in batch]
            rows.append({"name": None, "topic_id": topic["topic_id"], "partition_responses": partitions})
        return {"responses": rows, "throttle_time_ms": 0, "node_endpoints": []}

    def send(self, value: bytes, partition: int | None = None) -> Any:
        return self.runtime.record_sender.road.send("t", value, partition=partition)

    def history(self) -> list[tuple[str, str, int]]:
        """What was said to whom, in order."""
        return [(request.connection_id, request.api_key.name, request.correlation_id)
                for selector in self.selectors for request in selector.requests]

    def close(self) -> None:
        """Close as the sender's thread does, which was started and never ran."""
        self.runtime.io_thread.close("the test", None)
        ((name, run),) = self.threads
        assert name.startswith("kafka-producer-network-thread")
        run()


class Numbers(ThreadedResolver):
    """That of a world that has no names but the bootstrap addresses' numbers and two hosts."""

    def lookup(self, host: str, port: int) -> Any:
        return Lookup([ResolvedAddress(2, (f"10.0.0.{host[-1]}", port))])

    def canonical_names(self, host: str, port: int) -> Any:
        raise AssertionError("nobody asks for them")


def test_producer_when_all_around_it_is_the_tests_then_it_runs_in_the_callers_thread_and_no_time_passes() -> None:
    before = threading.active_count()
    world = World(**{"linger.ms": 5})
    for partition in (0, 1):
        assert world.send(b"first", partition).result(30).offset == 0
    began_ms = world.clock.now_ms()
    futures = [world.send(b"%d" % number, number % 2) for number in range(20)]
    assert [future.result(30).offset for future in futures] == [1 + number // 2 for number in range(20)]
    assert world.stored == {part: [b"first", *(b"%d" % number for number in range(part, 20, 2))] for part in (0, 1)}
    assert world.clock.now_ms() >= began_ms + 5, "linger.ms was slept by the clock that is given"
    assert threading.active_count() == before
    world.close()
    assert world.runtime.life.state is LifeState.CLOSED
    assert world.selectors[-1].is_closed
    assert set(world.locks.made) == {"lock", "rlock", "cell"}


def test_producer_when_a_turn_ends_half_way_then_another_selector_is_made_and_the_record_is_stored() -> None:
    world = World()
    assert world.send(b"first", 0).result(30).offset == 0
    world.fails = True
    assert world.send(b"second", 0).result(30).offset == 1
    assert len(world.selectors) == 2
    assert world.selectors[0].is_closed
    assert world.stored[0] == [b"first", b"second"]
    world.close()


def test_producer_when_nobody_answers_then_the_record_expires_by_the_clock_that_is_given() -> None:
    world = World(**{"delivery.timeout.ms": 50_000, "request.timeout.ms": 20_000, "linger.ms": 0})
    assert world.send(b"first", 0).result(30).offset == 0
    world.cluster.answers_metadata = False
    world.selectors[-1].accepts = lambda _connection_id: ConnectionRefusedError(111, "Connection refused")
    world.selectors[-1].end("1")
    world.selectors[-1].end("2")
    assert world.clock.take_turn()
    began_ms = world.clock.now_ms()
    error = world.send(b"second", 0).exception(3600)
    assert error.phase == "delivery"
    assert error.outcome == "not_sent"
    assert world.clock.now_ms() - began_ms >= 50_000
    world.close()


@pytest.mark.parametrize("partitioner", ["default", "uniform_sticky", "crc32"])
def test_producer_when_the_seed_is_the_same_then_so_is_everything_and_else_not(partitioner: str) -> None:
    def run(seed: int) -> tuple[Any, Any, int]:
        world = World(seed, **{"partitioner.class": partitioner, "linger.ms": 0, "batch.size": 100})
        for number in range(30):
            world.send(b"%d" % number * 20).result(30)
        world.close()
        return world.history(), world.stored, world.clock.now_ms()

    assert run(1) == run(1)
    assert len({repr(run(seed)) for seed in range(6)}) > 1


def test_surroundings_when_none_are_given_then_they_are_the_real_ones() -> None:
    real = Surroundings()
    assert (real.make_selector, real.make_wakeup) == (Selector, Wakeup)
    assert real.locks == Locks()
    assert {real.next_random() for _ in range(20)} != {Surroundings().next_random() for _ in range(20)}
    started = threading.Event()
    real.start_thread(started.set, "a name")
    assert started.wait(30)
