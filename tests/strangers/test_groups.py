"""Consumer groups of foreign clients on our broker: they share, one leaves, offsets outlive the broker.

Each client also reads many records of its own through a group, and of its transactions only what it committed.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import aiokafka
import confluent_kafka
import pytest

from pyproducer.broker import EmbeddedBroker
from tests.strangers import test_foreign_clients, test_transactions
from tests.strangers.test_foreign_clients import Sent
from tests.support.patience import GIVE_UP_S
from tests.support.ports import reserved_port

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that Python left
    import kafka

# The second: a consumer of kafka-python 3.0.12 now and then forgets a socket when it is closed.
pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning",
                                        "ignore:unclosed <socket:ResourceWarning")

TOPIC, GROUP = "orders", "readers"
PARTITIONS = 4
COUNT = 2000
MANY = 50_000
Position = tuple[int, int]


class Reader(ABC):
    """A consumer of the group, as the test needs it; short steps."""

    @abstractmethod
    def poll(self) -> list[Position]:
        """Return partition and offset of what there is."""

    @abstractmethod
    def assignment(self) -> set[int]: ...

    @abstractmethod
    def commit(self) -> bool:
        """Commit what was read; False when a member joined or left meanwhile, and all must poll first."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the group and end."""

    is_open = True

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.leave()


class ConfluentReader(Reader):
    def __init__(self, bootstrap_servers: str) -> None:
        self._consumer = confluent_kafka.Consumer({
            "bootstrap.servers": bootstrap_servers, "group.id": GROUP, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "session.timeout.ms": 10_000, "heartbeat.interval.ms": 200, "log_level": 0})
        self._consumer.subscribe([TOPIC])

    def poll(self) -> list[Position]:
        found = []
        for message in self._consumer.consume(500, timeout=0.05):
            assert message.error() is None, message.error()
            found.append((int(message.partition() or 0), int(message.offset() or 0)))
        return found

    def assignment(self) -> set[int]:
        return {topic_partition.partition for topic_partition in self._consumer.assignment()}

    def commit(self) -> bool:
        self._consumer.commit(asynchronous=False)
        return True

    def leave(self) -> None:
        self._consumer.close()


class KafkaPythonReader(Reader):
    def __init__(self, bootstrap_servers: str) -> None:
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap_servers, group_id=GROUP, auto_offset_reset="earliest",
            enable_auto_commit=False, session_timeout_ms=10_000, heartbeat_interval_ms=200,
            isolation_level="read_committed")
        # Without the topic's metadata it assigns nothing at first and joins again at once, and version 3.0.12 then
        # sometimes sends no heartbeats any more: it is out of the group after its session, as it should be.
        assert self._consumer.partitions_for_topic(TOPIC) == set(range(PARTITIONS))
        self._consumer.subscribe([TOPIC])

    def poll(self) -> list[Position]:
        # Longer than a step: when its metadata change while a poll leaves a join unfinished, and change back before the
        # next one, version 3.0.12 looks for that join no more and calls itself rebalancing for ever.
        return [(record.partition, record.offset)
                for records in self._consumer.poll(timeout_ms=500).values() for record in records]

    def assignment(self) -> set[int]:
        return {topic_partition.partition for topic_partition in self._consumer.assignment()}

    def commit(self) -> bool:
        from kafka.errors import RebalanceInProgressError

        try:
            self._consumer.commit()
        except RebalanceInProgressError:
            return False
        return True

    def leave(self) -> None:
        self._consumer.close(autocommit=False)


class AioKafkaReader(Reader):
    def __init__(self, bootstrap_servers: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._consumer = loop.run_until_complete(self._start(bootstrap_servers))

    async def _start(self, bootstrap_servers: str) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC, bootstrap_servers=bootstrap_servers, group_id=GROUP, auto_offset_reset="earliest",
            enable_auto_commit=False, session_timeout_ms=10_000, heartbeat_interval_ms=200,
            isolation_level="read_committed")
        await consumer.start()
        return consumer

    def poll(self) -> list[Position]:
        found = self._loop.run_until_complete(self._consumer.getmany(timeout_ms=50))
        return [(record.partition, record.offset) for records in found.values() for record in records]

    def assignment(self) -> set[int]:
        return {topic_partition.partition for topic_partition in self._consumer.assignment()}

    def commit(self) -> bool:
        self._loop.run_until_complete(self._consumer.commit())
        return True

    def leave(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())


OpenReader = Callable[[str], Reader]


@pytest.fixture(params=["confluent-kafka", "kafka-python", "aiokafka"])
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def open_reader(client: str) -> Iterator[OpenReader]:
    if client == "confluent-kafka":
        yield ConfluentReader
    elif client == "kafka-python":
        yield KafkaPythonReader
    else:
        loop = asyncio.new_event_loop()
        yield lambda bootstrap_servers: AioKafkaReader(bootstrap_servers, loop)
        loop.close()


def write(broker: EmbeddedBroker, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(TOPIC, b"v%d" % number, partition=number % PARTITIONS)
    assert producer.flush(GIVE_UP_S) == 0


def poll_until(condition: Callable[[], bool], *readers: Reader, found: list[Position], for_s: float = 0) -> None:
    """Poll until the condition has held for a time: a rebalance may be under way that a member does not know yet."""
    deadline = time.monotonic() + GIVE_UP_S
    held_since: float | None = None
    while True:
        now = time.monotonic()
        held_since = None if not condition() else now if held_since is None else held_since
        if held_since is not None and now - held_since >= for_s:
            return
        assert now < deadline, [reader.assignment() for reader in readers]
        for reader in readers:
            found += reader.poll()


def commit_all(*readers: Reader) -> None:
    """Have each commit. All of them poll in between: a rebalance ends only when every member has joined again."""
    deadline = time.monotonic() + GIVE_UP_S
    waiting = list(readers)
    while waiting := [reader for reader in waiting if not reader.commit()]:
        assert time.monotonic() < deadline, "the group never came to rest"
        for reader in readers:
            reader.poll()


# kafka-python 3.0.12 now and then sends no heartbeats after a rebalance: it is put out of the group, and its commit
# then says for as long as one cares to poll that a rebalance is under way.
@pytest.mark.parametrize("client", ["confluent-kafka", "aiokafka",
                                    pytest.param("kafka-python", marks=pytest.mark.soak)], indirect=True)
def test_two_members_share_one_leaves_and_offsets_survive_a_restart(open_reader: OpenReader, tmp_path: Path) -> None:
    everything = set(range(PARTITIONS))
    found: list[Position] = []
    with ExitStack() as stack:
        broker = EmbeddedBroker(data_dir=tmp_path, topics={TOPIC: PARTITIONS}, separate_process=True,
                                port=stack.enter_context(reserved_port()))
        stack.enter_context(broker)
        one, two = open_reader(broker.bootstrap_servers), open_reader(broker.bootstrap_servers)
        stack.callback(one.close)
        stack.callback(two.close)
        poll_until(lambda: bool(one.assignment() and two.assignment())
                   and one.assignment() | two.assignment() == everything
                   and not one.assignment() & two.assignment(), one, two, found=found, for_s=1)
        write(broker, COUNT)
        poll_until(lambda: len(found) >= COUNT, one, two, found=found)
        assert len(set(found)) == len(found) == COUNT
        commit_all(one, two)
        two.close()
        found.clear()
        poll_until(lambda: one.assignment() == everything, one, found=found)
        one.close()
        assert found == [], "what was committed is not read again"
        broker.stop()
        broker.start()
        again = open_reader(broker.bootstrap_servers)
        stack.callback(again.close)
        poll_until(lambda: again.assignment() == everything, again, found=found)
        write(broker, PARTITIONS)
        poll_until(lambda: len(found) >= PARTITIONS, again, found=found)
        assert sorted(found) == [(partition, COUNT // PARTITIONS) for partition in sorted(everything)]


def test_consumer_when_its_coordinator_is_not_there_yet_then_it_waits_for_it_and_commits() -> None:
    found: list[Position] = []
    with EmbeddedBroker(topics={TOPIC: PARTITIONS}, separate_process=True,
                        config={"internal.topic.creation.delay.ms": 500}) as broker:
        write(broker, COUNT)
        with closing(ConfluentReader(broker.bootstrap_servers)) as reader:
            poll_until(lambda: len(found) == COUNT, reader, found=found)
            commit_all(reader)


@pytest.mark.parametrize("count", [4000, pytest.param(MANY, marks=pytest.mark.soak)])
def test_many_records_and_transactions_through_a_group(client: str, open_reader: OpenReader, count: int) -> None:
    sent = [Sent(number % PARTITIONS, test_foreign_clients.START_MS + number, None, b"%d-" % number + b"x" * 90, ())
            for number in range(count)]
    found: list[Position] = []
    with EmbeddedBroker(topics={TOPIC: PARTITIONS}, separate_process=True) as broker:
        test_foreign_clients.WRITERS[client](broker.bootstrap_servers, TOPIC, "lz4", sent)
        with closing(open_reader(broker.bootstrap_servers)) as reader:
            poll_until(lambda: len(found) >= count, reader, found=found)
            commit_all(reader)
        assert [record.value for record in broker.records(TOPIC)] == [
            record.value for partition in range(PARTITIONS) for record in sent[partition::PARTITIONS]]
        per_partition = count // PARTITIONS
        for partition in range(PARTITIONS):
            assert [offset for of, offset in found if of == partition] == list(range(per_partition)), "read in order"
        assert len(found) == count
        test_transactions.WRITERS[client](broker.bootstrap_servers, TOPIC, "other-readers")
        stored = [record for record in broker.records(TOPIC) if record.offset >= per_partition]
        committed = [(record.partition, record.offset) for record in stored if record.value in test_transactions.KEPT]
        assert 0 < len(committed) < len(stored), "what was aborted is in the log too"
        found.clear()
        with closing(open_reader(broker.bootstrap_servers)) as again:
            poll_until(lambda: len(found) >= len(committed), again, found=found)
            found += again.poll()
        assert sorted(found) == committed, "the group goes on where it was, and passes over what was aborted"
