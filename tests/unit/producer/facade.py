"""A whole KafkaProducer without a network: a broker that the test scripts, and callers' waits that take no time.

    facade = facades(**{"linger.ms": 0})      # a fixture of conftest.py; it closes what it made
    facade.broker.holds = True                # Produce requests stay unanswered until `answer`
    future = facade.producer.send("t", b"v", partition=0)
    facade.broker.await_requests(1)
    facade.broker.answer()

`ScriptedBroker` stands where the NetworkClient would: the producer's own thread calls it, and what a test asks of it
is done on that thread, between two turns. `CallerWaits` makes the waits of the test's own thread (in flush(), result()
and send()) move a ManualClock and take no time, so that a test can say how long something waited, to the millisecond.

Thread:  the producer's sender thread runs for real; only the test's own thread waits in manual time.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError
from pyproducer.accumulator.life import Life
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.client.request import ClientRequest, ClientResponse
from pyproducer.common.clock import SystemClock
from pyproducer.common.cluster import Node
from pyproducer.common.errors import UnsupportedVersionError
from pyproducer.common.waiting import Cell
from pyproducer.hotpath import CONNECTION
from pyproducer.producer import wiring
from pyproducer.producer.surroundings import Surroundings
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.record_reader import Record
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S

FORGOTTEN_S = 30.0
"""A sender that sleeps so long, to the end, had nobody to wake it: no test has it wait for that."""
NODE = Node(1, "broker", 9092)
PRODUCE_VERSION = 12
NOT_ENOUGH_REPLICAS = 19
NOT_LEADER = 6
MESSAGE_TOO_LARGE = 10


class ScriptedBroker:
    """What the producer's parts use of a NetworkClient; it answers by itself unless `holds`.

    Args:
        metadata: The producer's; `topics` are told to it when it asks.
    """

    def __init__(self, metadata: ProducerMetadata) -> None:
        # Name -> number of partitions, or their indices.
        self.topics: dict[str, int | Sequence[int]] = {"t": 2}
        self.topic_errors: dict[str, int] = {}
        self.asked: set[str] = set()  # names of topics that metadata was asked for
        self.is_reachable = True
        self.has_leaders = True
        self.holds = False
        self.holds_metadata = False
        self.error_code = 0  # what answers say, when it answers by itself
        self.requests: list[ClientRequest] = []  # all Produce requests that came
        self.sent: list[tuple[str, int, list[bytes]]] = []  # topic, partition and payloads of their batches, as sent
        self.records: list[Record] = []  # the same, record by record
        self.payload_sizes: list[int] = []
        self.nodes: dict[int, Node] = {}  # that the producer wanted to talk to, at their newest addresses
        self.was_forgotten = False  # a poll was left to sleep until it gave up, and there was something to send
        self._slept_on = False  # a poll was, and nothing was sent since
        self.is_closed = False
        self.renewals = 0
        self.rest_ms = 0
        self.on_renewal: Callable[[], None] = lambda: None
        self._metadata = metadata
        self._changed = threading.Condition()  # guards what is below and `requests`
        self._is_woken = False
        self._tasks: list[Callable[[], None]] = []
        self._turns = 0
        self._unanswered: list[tuple[ClientRequest, Mapping[str, Any], int]] = []
        self._next_offset: dict[tuple[str, int], int] = {}

    # What the sender calls.

    def ready(self, node: Node, now_ms: int) -> bool:
        self.nodes[node.node_id] = node
        return self.is_reachable and len(self._unanswered) < 5

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        return node_id in self.nodes and self.ready(self.nodes[node_id], now_ms)

    waits_for = 0

    def api_version(self, node_id: int, api_key: ApiKeys, max_version: int | None = None) -> int | None:
        raise UnsupportedVersionError(f"{api_key.name} is not there")

    def held_up_by(self, node_id: int, now_ms: int) -> int:
        return CONNECTION

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        return 2**31 - 1

    def least_loaded_node(self, now_ms: int) -> Node:
        return NODE

    def in_flight_request_count(self) -> int:
        return len(self._unanswered)

    def confirmation_wait_ms(self, now_ms: int) -> int:
        return 0

    def has_nothing_under_way(self) -> bool:
        return False  # the sender thread takes every turn

    def send(self, request: ClientRequest, now_ms: int) -> None:
        self.was_forgotten |= self._slept_on
        version = PRODUCE_VERSION if request.max_version is None else min(PRODUCE_VERSION, request.max_version)
        body = request.build(0 if request.api_key is ApiKeys.INIT_PRODUCER_ID else version)
        if request.api_key is ApiKeys.INIT_PRODUCER_ID:
            self._tasks.append(lambda: self._complete(request, {"error_code": 0, "producer_id": 7, "producer_epoch": 0},
                                                      now_ms))
            return
        with self._changed:
            for topic in body["topic_data"]:
                for row in topic["partition_data"]:
                    records = [record for batch in read_batches(bytes(row["records"])) for record in batch]
                    self.records.extend(records)
                    self.sent.append((topic["name"], row["index"], [record.value for record in records]))
                    self.payload_sizes.append(len(row["records"]))
            self.requests.append(request)
            self._unanswered.append((request, body, now_ms))
            self._changed.notify_all()

    def poll(self, timeout_ms: int, now_ms: int) -> list[ClientResponse]:
        has_news = self._maybe_answer_metadata(now_ms)
        if not self.holds:
            has_news = self._answer_all(self.error_code) or has_news
        with self._changed:
            self._turns += 1
            self._changed.notify_all()
            self._slept_on = False
            if not (has_news or self._is_woken or self._tasks) and timeout_ms > 0:
                is_idle = not self._changed.wait_for(lambda: self._is_woken or bool(self._tasks),
                                                     min(timeout_ms / 1000, GIVE_UP_S))
                # With nothing to send it sleeps as long as the test takes, on a machine that is busy with others.
                self._slept_on = is_idle and timeout_ms / 1000 >= FORGOTTEN_S
            self._is_woken = False
            tasks, self._tasks = self._tasks, []
        for task in tasks:
            task()
        return []

    def wakeup(self) -> None:
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def close(self) -> None:
        self.is_closed = True
        self._unanswered = []

    def renew(self) -> None:
        """Stand for the next client: the one before was thrown away."""
        assert self.is_closed
        self.on_renewal()
        self.is_closed = False
        self.renewals += 1

    # What tests call, from any thread but the sender's.

    def on_forked(self) -> None:
        """In a child process: a thread of the parent's may have held the lock, and is not here to release it."""
        self._changed = threading.Condition()

    def run(self, task: Callable[[], None]) -> None:
        """Have the sender thread do something between two turns, and wait until it is done."""
        done = threading.Event()

        def whole() -> None:
            try:
                task()
            finally:
                done.set()

        with self._changed:
            self._tasks.append(whole)
            self._changed.notify_all()
        assert done.wait(GIVE_UP_S), "the sender thread takes no turns"

    def take_turns(self) -> None:
        """Wait until the sender has looked at everything that was there to do when this was called."""
        with self._changed:
            wanted = self._turns + 2
        for _ in range(3):
            self.wakeup()
            with self._changed:
                seen = self._turns
                assert self._changed.wait_for(lambda seen=seen: self._turns > seen,  # type: ignore[misc]
                                              GIVE_UP_S), "the sender thread takes no turns"
        assert self._turns >= wanted

    def await_requests(self, count: int) -> None:
        """Wait until that many Produce requests came in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, GIVE_UP_S), (
                f"{len(self.requests)} Produce requests came, and not {count}")

    def answer(self, error_code: int = 0, *, only: int | None = None, timestamp: int = -1,
               leader: Node | None = None) -> None:
        """Answer the Produce requests that are unanswered, or `only` one of them; returns when their callbacks ran.

        Args:
            error_code: For every partition; 0 is success.
            only: Index of the one request to answer.
            timestamp: The log append time, or -1.
            leader: Who leads every partition now, from epoch 2 on, as the answer tells.
        """
        def task() -> None:
            assert self._unanswered, "there is no request to answer"
            self._answer_all(error_code, only, timestamp, leader)
        self.run(task)

    def tell_topics(self, **topics: int | Sequence[int]) -> None:
        """Tell the producer of topics and their number of partitions, or the indices."""
        self.topics = {**self.topics, **topics}

        def task() -> None:
            self.holds_metadata = False
            self._metadata.request_update()
            self._answer_metadata(0)
            self.holds_metadata = True
        self.run(task)

    # Inside; the sender thread.

    def _maybe_answer_metadata(self, now_ms: int) -> bool:
        if self.holds_metadata or self._metadata.time_to_next_update(now_ms):
            return False
        self._answer_metadata(now_ms)
        return True

    def _answer_metadata(self, now_ms: int) -> None:
        request = self._metadata.next_request(now_ms)
        self.asked.update(request.topics)
        topics = [self._topic_row(name) for name in request.topics]
        self._metadata.update(
            {"throttle_time_ms": 0, "cluster_id": "c", "controller_id": 1, "error_code": 0, "topics": topics,
             "brokers": [{"node_id": NODE.node_id, "host": NODE.host, "port": NODE.port, "rack": None}]},
            13, now_ms, request=request)

    def _topic_row(self, name: str) -> Mapping[str, Any]:
        told = self.topics.get(name)
        code = self.topic_errors.get(name, 0 if told is not None else 3)
        indices = range(told) if isinstance(told, int) else told or ()
        topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name)
        return {"error_code": code, "name": name, "topic_id": topic_id, "is_internal": False,
                "partitions": [{"error_code": 0, "partition_index": index, "leader_id": 1 if self.has_leaders else -1,
                                "leader_epoch": 1 if self.has_leaders else 0,
                                "replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []}
                               for index in indices]}

    def _answer_all(self, error_code: int, only: int | None = None, timestamp: int = -1,
                    leader: Node | None = None) -> bool:
        ended = self._unanswered if only is None else [self._unanswered[only]]
        self._unanswered = [request for request in self._unanswered if request not in ended]
        for request, body, sent_ms in ended:
            self._complete(request, None if body["acks"] == 0 else self._produce_response(
                body, error_code, timestamp, leader), sent_ms)
        return bool(ended)

    def _produce_response(self, body: Mapping[str, Any], error_code: int, timestamp: int,
                          leader: Node | None) -> Mapping[str, Any]:
        rows = []
        current = {"leader_id": -1, "leader_epoch": -1}
        endpoints: list[Mapping[str, Any]] = []
        if leader is not None:
            current = {"leader_id": leader.node_id, "leader_epoch": 2}
            endpoints.append({"node_id": leader.node_id, "host": leader.host, "port": leader.port, "rack": None})
        for topic in body["topic_data"]:
            partitions = []
            for row in topic["partition_data"]:
                place = (topic["name"], row["index"])
                offset = self._next_offset.get(place, 100)
                if not error_code:
                    self._next_offset[place] = offset + sum(
                        batch.record_count for batch in read_batches(bytes(row["records"])))
                partitions.append({"index": row["index"], "error_code": error_code,
                                   "base_offset": -1 if error_code else offset, "log_append_time_ms": timestamp,
                                   "log_start_offset": 0, "record_errors": [], "error_message": None,
                                   "current_leader": current})
            rows.append({"name": topic["name"], "partition_responses": partitions})
        return {"responses": rows, "throttle_time_ms": 0, "node_endpoints": endpoints}

    def _complete(self, request: ClientRequest, body: Mapping[str, Any] | None, now_ms: int, **how: Any) -> None:
        assert request.on_complete is not None
        request.on_complete(ClientResponse(request, PRODUCE_VERSION, body, received_ms=now_ms, **how))


class CallerWaits:
    """Within `with waits:` the waits of this thread take no time: they move a ManualClock, and are written down.

    A wait ends when it is notified, as every wait does; what is to happen during it is said by `at`. One without a
    timeout fails the test when nothing ends it. The waits of other threads, and of what runs by `at`, are real.

    Args:
        clock: What the waits move.
        on_time: Called when the clock was moved, so that who sleeps by it looks again.
    """

    def __init__(self, clock: ManualClock, on_time: Callable[[], None] = lambda: None) -> None:
        self.timeouts: list[float] = []  # in seconds, as the waits were told
        self._clock = clock
        self._on_time = on_time
        self._events: list[tuple[int, Callable[[], None]]] = []

    def __enter__(self) -> None:
        thread, real, is_inside = threading.get_ident(), self._clock.wait, False

        def wait(cell: Cell, timeout: float | None) -> bool:
            nonlocal is_inside
            if threading.get_ident() != thread or is_inside:
                return real(cell, timeout)
            is_inside = True
            try:
                return self._wait(cell, timeout)
            finally:
                is_inside = False

        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(self._clock, "wait", wait)

    def __exit__(self, *_exception: object) -> None:
        self._patch.undo()

    def at(self, now_ms: int, action: Callable[[], None]) -> None:
        """Say what happens when the clock shows a time, during a wait."""
        self._events.append((now_ms, action))
        self._events.sort(key=lambda event: event[0])

    def _wait(self, cell: Cell, timeout: float | None) -> bool:
        deadline_ms = 2**62
        if timeout is not None:
            self.timeouts.append(timeout)
            deadline_ms = self._clock.now_ms() + round(max(timeout, 0.0) * 1000)
        while True:
            if cell.acquire(blocking=False):
                return True
            if not self._events or self._events[0][0] > deadline_ms:
                break
            at_ms, action = self._events.pop(0)
            self._move_to(at_ms)
            _run_elsewhere(action)
        if timeout is None:
            assert cell.acquire(timeout=GIVE_UP_S), "a wait without end"
            return True
        self._move_to(deadline_ms)
        return cell.acquire(blocking=False)

    def _move_to(self, now_ms: int) -> None:
        if now_ms > self._clock.now_ms():
            self._clock.advance(now_ms - self._clock.now_ms())
            self._on_time()


def _run_elsewhere(action: Callable[[], None]) -> None:
    """Run something on a thread of its own: on the one that waits it would be a signal's handler."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # the test's own thread raises it
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(GIVE_UP_S)
    assert not thread.is_alive(), "what was to happen in a wait does not end"
    if raised:
        raise raised[0]


class Facade:
    """A producer, the broker that it talks to, and the clock it reads if that is manual."""

    def __init__(self, producer: KafkaProducer, broker: ScriptedBroker, clock: ManualClock | None) -> None:
        self.producer = producer
        self.broker = broker
        self._clock = clock

    @property
    def life(self) -> Life:
        return self.producer._runtime.life

    @property
    def clock(self) -> ManualClock:
        assert self._clock is not None, "this producer reads the system's clock"
        return self._clock

    def know(self, topic: str = "t") -> None:
        """Have the producer know a topic, however long that takes."""
        deadline_s = time.monotonic() + GIVE_UP_S
        while True:
            try:
                self.producer.partitions_for(topic)
                return
            except KafkaTimeoutError:
                assert time.monotonic() < deadline_s, f"topic {topic} does not become known"

    def free_bytes(self) -> float:
        """What is left of buffer.memory."""
        return self.producer.metrics()["buffer-available-bytes"]

    def is_memory_whole(self) -> bool:
        """Whether nothing holds any of buffer.memory."""
        return self.free_bytes() == self.producer.metrics()["buffer-total-bytes"]

    def await_whole_memory(self) -> None:
        """Wait until nothing holds any of buffer.memory: a batch gives its own back after its futures are told."""
        deadline_s = time.monotonic() + GIVE_UP_S
        while not self.is_memory_whole():
            assert time.monotonic() < deadline_s, f"only {self.free_bytes()} bytes of buffer.memory are free"
            time.sleep(0.001)


class Facades:
    """Makes producers over scripted brokers, and closes them; the fixture `facades`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._made: list[Facade] = []

    def __call__(self, clock: ManualClock | None = None, *, serializers: Sequence[Any] = (None, None),
                 **props: object) -> Facade:
        """Make one. Idempotence is off unless asked for, so that the first request is the first record's.

        Args:
            clock: What the producer reads instead of the system's clock.
            serializers: Of key and value.
            props: Its settings.
        """
        brokers: list[ScriptedBroker] = []

        def make_broker(_selector: object, metadata: ProducerMetadata, **_settings: object) -> ScriptedBroker:
            if brokers:
                brokers[0].renew()
            else:
                brokers.append(ScriptedBroker(metadata))
            return brokers[0]

        def make_wakeup() -> Any:
            return SimpleNamespace(wakeup=lambda: brokers[0].wakeup(), close=lambda: None)

        with self._monkeypatch.context() as patch:
            patch.setattr(wiring, "NetworkClient", make_broker)
            patch.setattr(wiring, "Surroundings", lambda: Surroundings(
                clock=clock or SystemClock(), make_wakeup=make_wakeup, make_selector=lambda **_settings: None))
            producer = KafkaProducer({"bootstrap.servers": "broker:9092", "enable.idempotence": False,
                                      "retry.backoff.ms": 0, **props}, *serializers)
        facade = Facade(producer, brokers[0], clock)
        self._made.append(facade)
        return facade

    def close(self) -> None:
        """Close what was made, whatever its state."""
        for facade in self._made:
            facade.producer.close(0)
        assert not any(facade.broker.was_forgotten for facade in self._made), (
            "a sender slept on although it had work: who gave it the work did not wake it")
