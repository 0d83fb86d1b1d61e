"""What Apache Kafka knows of a producer id, when it forgets it, and the simulation's model of that beside it.

docs/decisions/producer_ids.md tells what was found. The records of most tests are dated an hour ahead: Kafka counts
from the timestamps of the last batch, so it forgets an id when the test says so and not because the machine is slow.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.header import parse_response
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_writer import build_batch
from tests.simulation.model_broker import ModelCluster, ModelParameters
from tests.support.kafka_server import KafkaServer
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import ConnectionEnded, RawClient, request_bytes

EXPIRATION_MS = 1000
CHECK_INTERVAL_MS = 250
HOUR_MS = 3_600_000
MAX_SEQUENCE = 2**31 - 1
NOT_LEADER, OUT_OF_ORDER, INVALID_EPOCH, UNKNOWN_TOPIC_ID = 6, 45, 47, 100
WITH_TOPIC_IDS = 13
CREATE_TIME, LOG_TIME = "created", "appended"
INIT_BODY = {"transactional_id": None, "transaction_timeout_ms": 60_000}
OLD_MS = 1_000_000  # a timestamp that is long past any expiration
NOT_ALIVE = (ConnectionEnded, OSError)


class Batch(NamedTuple):
    """A batch of a script; `is_old`: its records are of long ago, and Kafka forgets the id at the next check."""

    writer: int
    sequence: int
    record_count: int = 1
    epoch: int = 0
    is_old: bool = False


class Answer(NamedTuple):
    """What came back. `time` is log_append_time_ms; in a topic of the broker's time the step that it is of."""

    error_code: int
    base_offset: int
    time: int
    log_start_offset: int | None


class Target(Protocol):
    """A broker that a script runs on."""

    def request(self, api_key: ApiKeys, version: int, body: dict[str, Any]) -> Struct:
        """Return its answer."""

    def topic_id(self, topic: str) -> object:
        """Return the id that a topic has now."""

    def forget(self, topic: str, producer_id: int) -> None:
        """Forget an id whose last batch was old."""

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it anew."""

    def restart(self, *, is_clean: bool) -> None:
        """Stop and start."""


class Kafka:
    """An Apache Kafka node, which this object may restart."""

    def __init__(self, server: KafkaServer) -> None:
        self.server = server
        self.client = RawClient(("127.0.0.1", server.port))
        self._names: dict[str, str] = {}

    def create_topic(self, name: str, topic: str) -> None:
        """Create one, and let a script call it `name`."""
        kind = {"message.timestamp.type": "LogAppendTime"} if name == LOG_TIME else {}
        self._names[name] = self.server.create_topic(topic, 1, kind)

    def request(self, api_key: ApiKeys, version: int, body: dict[str, Any]) -> Struct:
        for topic in body.get("topic_data", ()):
            if "name" in topic:
                topic["name"] = self._names[topic["name"]]
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            answer = self.client.request(api_key, version, body)
            rows = answer["responses"][0]["partition_responses"] if api_key == ApiKeys.PRODUCE else []
            if NOT_LEADER not in {row["error_code"] for row in rows}:
                return answer
            # A node that has just restarted leads its partitions, and loses them once more for a moment.
            assert time.monotonic() < deadline, f"Kafka does not lead the partition after {GIVE_UP_S} s"
            time.sleep(0.02)

    def new_id(self) -> int:
        return new_id(self)

    def known(self, topic: str) -> dict[int, Struct]:
        """Return what Kafka knows of each producer id in a partition."""
        answer = self.client.request(ApiKeys.DESCRIBE_PRODUCERS, 0, {
            "topics": [{"name": self._names[topic], "partition_indexes": [0]}]})["topics"][0]["partitions"][0]
        if answer["error_code"]:
            raise ConnectionError(f"DescribeProducers: {answer}")
        return {producer["producer_id"]: producer for producer in answer["active_producers"]}

    def topic_id(self, topic: str) -> object:
        answer = self.client.request(ApiKeys.METADATA, 12, {
            "topics": [{"name": self._names[topic]}], "allow_auto_topic_creation": False})
        return answer["topics"][0]["topic_id"]

    def forget(self, topic: str, producer_id: int) -> None:
        await_that(lambda: producer_id not in self.known(topic), f"Kafka still knows {producer_id}")

    def recreate(self, topic: str) -> None:
        name = self._names[topic]
        deleted = self.client.request(ApiKeys.DELETE_TOPICS, 4, {"topic_names": [name], "timeout_ms": 30_000})
        assert deleted["responses"][0]["error_code"] == 0
        self.create_topic(topic, name)

    def restart(self, *, is_clean: bool) -> None:
        self.client.close()
        if is_clean:
            self.server.shut_down()
            self.server.start()
        else:
            self.server.restart()

        def is_back() -> bool:
            self.client.close()
            self.client = RawClient(("127.0.0.1", self.server.port))
            return all(self.known(topic) is not None for topic in self._names)

        await_that(is_back, "Kafka does not lead its partitions again")


class Model:
    """The simulation's model of Kafka, one node."""

    def __init__(self) -> None:
        self.cluster = ModelCluster(node_count=1, topics={CREATE_TIME: 1, LOG_TIME: 1}, parameters=ModelParameters(
            log_append_time_topics=frozenset({LOG_TIME})))
        self._correlation_ids = itertools.count(1)
        self._now_ms = 0

    def request(self, api_key: ApiKeys, version: int, body: dict[str, Any]) -> Struct:
        self._now_ms += 1
        frame = request_bytes(api_key, version, body, correlation_id=next(self._correlation_ids))
        payload = self.cluster.handle(0, frame, self._now_ms)
        assert payload
        return parse_response(api_key, version, payload)[1]

    def topic_id(self, topic: str) -> object:
        return self.cluster.topic_id(topic)

    def forget(self, topic: str, producer_id: int) -> None:
        assert self.cluster.forget_producer(topic, 0, producer_id)

    def recreate(self, topic: str) -> None:
        self.cluster.recreate_topic(topic)

    def restart(self, *, is_clean: bool) -> None:
        for topic in (CREATE_TIME, LOG_TIME):
            self.cluster.restart_replicas(topic, 0)


def await_that(is_so: Callable[[], bool], why: str) -> None:
    """Wait until it is so; a broker that is not alive yet is no error."""
    deadline = time.monotonic() + GIVE_UP_S
    while True:
        try:
            if is_so():
                return
        except NOT_ALIVE:
            pass
        assert time.monotonic() < deadline, f"{why} after {GIVE_UP_S} s"
        time.sleep(0.02)


def new_id(target: Target) -> int:
    deadline = time.monotonic() + GIVE_UP_S
    while True:
        answer = target.request(ApiKeys.INIT_PRODUCER_ID, 4, dict(INIT_BODY))
        if answer["error_code"] == 0:
            producer_id: int = answer["producer_id"]
            return producer_id
        assert time.monotonic() < deadline, f"no producer id: {answer}"  # its coordinator may still be loading
        time.sleep(0.02)


class Side:
    """One of the two brokers with its producer ids, which the script knows by number."""

    def __init__(self, target: Target, topic: str, version: int, date_ms: int) -> None:
        self.target = target
        self._topic = topic
        self._version = version
        self._date_ms = date_ms
        self._ids: dict[int, int] = {}
        self._times: dict[int, int] = {}  # what the broker's clock said of each offset, by the step that stored it
        self._steps = itertools.count()

    def id_of(self, writer: int) -> int:
        if writer not in self._ids:
            self._ids[writer] = new_id(self.target)
        return self._ids[writer]

    def produce(self, batch: Batch) -> Answer:
        date_ms = OLD_MS if batch.is_old else self._date_ms
        # The latest one in the middle: it is the batch's, and is told of a batch that was there before.
        records = build_batch([(date_ms + (number == batch.record_count // 2), b"%d" % batch.writer, b"%d" % number, ())
                               for number in range(batch.record_count)], producer_id=self.id_of(batch.writer),
                              producer_epoch=batch.epoch, base_sequence=batch.sequence)
        topic = {"topic_id": self.target.topic_id(self._topic)} if self._version >= WITH_TOPIC_IDS else {
            "name": self._topic}
        row = self.target.request(ApiKeys.PRODUCE, self._version, {
            "transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": [
                {**topic, "partition_data": [{"index": 0, "records": bytes(records)}]}],
        })["responses"][0]["partition_responses"][0]
        return Answer(row["error_code"], row["base_offset"], self._time(row["log_append_time_ms"]),
                      row.get("log_start_offset"))

    def _time(self, time_ms: int) -> int:
        step = next(self._steps)
        return self._times.setdefault(time_ms, step) if self._topic == LOG_TIME and time_ms >= 0 else time_ms

    def forget(self, writer: int) -> None:
        self.target.forget(self._topic, self.id_of(writer))


class BothSides:
    """Takes each step on Kafka and on the model and compares their answers."""

    def __init__(self, kafka: Kafka, topic_name: str, *, topic: str = CREATE_TIME, version: int = 9) -> None:
        kafka.create_topic(topic, topic_name)
        self.topic = topic
        date_ms = int(time.time() * 1000) + HOUR_MS
        self.kafka, self.model = (Side(target, topic, version, date_ms) for target in (kafka, Model()))
        self.story: list[str] = []

    def produce(self, batch: Batch) -> Answer:
        if self.topic == LOG_TIME:
            time.sleep(0.002)  # so that no two batches of Kafka's have the same time
        kafka, model = self.kafka.produce(batch), self.model.produce(batch)
        self.story.append(f"{batch}: {kafka}")
        assert kafka == model, "\n".join(["Kafka and the model differ in the last step:", *self.story[-30:],
                                          f"the model says {model}"])
        return kafka

    def codes(self, *batches: Batch) -> list[int]:
        return [self.produce(batch).error_code for batch in batches]

    def forget(self, writer: int) -> None:
        """Let the id be forgotten whose last batch is old."""
        self.story.append(f"forget {writer}")
        for side in (self.kafka, self.model):
            side.forget(writer)

    def recreate(self) -> None:
        self.story.append("recreate the topic")
        for side in (self.kafka, self.model):
            side.target.recreate(self.topic)

    def restart(self, *, is_clean: bool = False) -> None:
        self.story.append(f"restart (clean: {is_clean})")
        for side in (self.kafka, self.model):
            side.target.restart(is_clean=is_clean)


@pytest.fixture(scope="module")
def forgetful_server() -> Iterator[KafkaServer]:
    """A Kafka that forgets within seconds; a test may restart it."""
    with KafkaServer(settings={"producer.id.expiration.ms": EXPIRATION_MS,
                               "producer.id.expiration.check.interval.ms": CHECK_INTERVAL_MS}) as server:
        yield server


@pytest.fixture
def forgetful(forgetful_server: KafkaServer) -> Iterator[Kafka]:
    target = Kafka(forgetful_server)
    try:
        yield target
    finally:
        target.client.close()


@pytest.fixture
def lasting(kafka: KafkaServer) -> Iterator[Kafka]:
    """A Kafka that forgets after a day: where its own time counts, a slow machine must not make it forget."""
    target = Kafka(kafka)
    try:
        yield target
    finally:
        target.client.close()


# Answer by answer ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("topic", "version"), [(CREATE_TIME, 9), (LOG_TIME, 9), (CREATE_TIME, WITH_TOPIC_IDS)])
def test_batch_when_kafka_knows_its_producer_then_the_model_answers_the_same(
        lasting: Kafka, topic_name: str, topic: str, version: int) -> None:
    both = BothSides(lasting, topic_name, topic=topic, version=version)
    stored = [Batch(0, number * 2, 2) for number in range(7)]
    assert both.codes(*stored) == [0] * 7
    assert both.codes(*reversed(stored)) == [0] * 5 + [OUT_OF_ORDER] * 2
    others = [Batch(0, 12, 1), Batch(0, 12, 3), Batch(0, 13, 1), Batch(0, 10, 4), Batch(0, 15), Batch(0, 13, 3)]
    assert both.codes(*others) == [OUT_OF_ORDER] * len(others)
    assert both.codes(Batch(0, 14)) == [0]
    # Epochs.
    assert both.codes(Batch(1, 0, epoch=3), Batch(1, 1, epoch=3)) == [0, 0]
    assert both.codes(Batch(1, 0, epoch=2), Batch(1, 2, epoch=2)) == [INVALID_EPOCH] * 2
    assert both.codes(Batch(1, 2, epoch=4), Batch(1, 2, epoch=3)) == [OUT_OF_ORDER, 0]
    assert both.codes(Batch(1, 0, 3, epoch=4), Batch(1, 2, epoch=3), Batch(1, 3, epoch=4)) == [0, INVALID_EPOCH, 0]
    # The ring of numbers; and ids that never wrote here.
    assert both.codes(Batch(2, MAX_SEQUENCE - 1, 2), Batch(2, 0), Batch(2, MAX_SEQUENCE - 1, 2)) == [0, 0, 0]
    assert both.codes(Batch(3, MAX_SEQUENCE, 2), Batch(3, 1), Batch(3, MAX_SEQUENCE, 2)) == [0, 0, 0]
    assert both.codes(Batch(4, 9, epoch=7), Batch(4, 0, epoch=6), Batch(4, 0, epoch=7)) == [
        0, INVALID_EPOCH, OUT_OF_ORDER]


@pytest.mark.parametrize("version", [9, WITH_TOPIC_IDS])
def test_batch_when_its_producer_was_forgotten_then_anything_goes_in_the_model_too(
        forgetful: Kafka, topic_name: str, version: int) -> None:
    both = BothSides(forgetful, topic_name, version=version)
    nexts = [Batch(0, 0, epoch=3), Batch(1, 3, epoch=3), Batch(2, 7, epoch=3), Batch(3, 1, epoch=3),
             Batch(4, 5, epoch=4), Batch(5, 0, epoch=4), Batch(6, 5, epoch=2), Batch(7, 0, epoch=1)]
    for writer in range(len(nexts)):
        assert both.codes(*(Batch(writer, number, epoch=3, is_old=number == 2) for number in range(3))) == [0] * 3
    for writer in range(len(nexts)):
        both.forget(writer)
    assert both.codes(*nexts) == [0] * len(nexts)
    # From then on it is known again, by that batch alone.
    assert both.codes(Batch(3, 1, epoch=3), Batch(3, 0, epoch=3), Batch(3, 2, epoch=3)) == [0, OUT_OF_ORDER, 0]
    assert both.codes(Batch(4, 0, epoch=3), Batch(4, 0, epoch=4), Batch(4, 6, epoch=4)) == [
        INVALID_EPOCH, OUT_OF_ORDER, 0]


@pytest.mark.parametrize("version", [9, WITH_TOPIC_IDS])
def test_batch_when_its_topic_was_made_anew_then_anything_goes_in_the_model_too(
        forgetful: Kafka, topic_name: str, version: int) -> None:
    both = BothSides(forgetful, topic_name, version=version)
    assert both.codes(*(Batch(writer, number) for writer in range(2) for number in range(6))) == [0] * 12
    both.recreate()
    assert both.codes(Batch(0, 6), Batch(0, 2), Batch(1, 3), Batch(1, 3), Batch(1, 4)) == [0, OUT_OF_ORDER, 0, 0, 0]


@pytest.mark.parametrize("is_clean", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["killed", "clean"])
def test_batch_when_the_broker_restarted_then_only_the_last_one_is_known_in_the_model_too(
        forgetful: Kafka, topic_name: str, *, is_clean: bool) -> None:
    both = BothSides(forgetful, topic_name)
    stored = [Batch(0, number * 2, 2) for number in range(7)]
    assert both.codes(*stored, Batch(1, 0, epoch=2), Batch(1, 0, epoch=3)) == [0] * 9
    both.restart(is_clean=is_clean)
    assert both.codes(*reversed(stored)) == [0] + [OUT_OF_ORDER] * 6, "all are in the log"
    assert both.codes(Batch(0, 20), Batch(0, 14), Batch(0, 12, 2), Batch(0, 10, 2)) == [
        OUT_OF_ORDER, 0, 0, OUT_OF_ORDER]
    assert both.codes(Batch(1, 1, epoch=2), Batch(1, 1, epoch=3)) == [INVALID_EPOCH, 0]


class Random:
    """Draws steps; it knows what each writer has stored, from the answers."""

    def __init__(self, both: BothSides, seed: int) -> None:
        self.both = both
        self.random = random.Random(seed)
        self.stored: list[list[Batch]] = [[] for _ in range(3)]
        self.end_offset = 0

    def produce(self, batch: Batch) -> Answer:
        answer = self.both.produce(batch)
        if answer.error_code == 0 and answer.base_offset >= self.end_offset:
            self.stored[batch.writer].append(batch)
            self.end_offset = answer.base_offset + batch.record_count
        return answer

    def step(self) -> None:
        drawn = self.random
        writer = drawn.randrange(len(self.stored))
        stored = self.stored[writer]
        count = drawn.randint(1, 4)
        if not stored:
            self.produce(Batch(writer, drawn.choice([0, 0, 5, MAX_SEQUENCE - 1]), count, drawn.randrange(3)))
            return
        last = stored[-1]
        # An old one would be forgotten at any time.
        some = drawn.choice(stored[-8:])._replace(is_old=False)
        last = last._replace(is_old=False)
        following = last._replace(sequence=(last.sequence + last.record_count) & MAX_SEQUENCE, record_count=count)
        batch = drawn.choices([
            following, some, last, some._replace(record_count=some.record_count % 4 + 1),
            following._replace(sequence=(following.sequence + drawn.randint(1, 9)) & MAX_SEQUENCE),
            some._replace(sequence=(some.sequence + 1) & MAX_SEQUENCE),
            Batch(writer, 0, count, last.epoch + 1), Batch(writer, drawn.randint(1, 5), count, last.epoch + 1),
            following._replace(epoch=max(0, last.epoch - 1))], [50, 14, 6, 6, 6, 5, 5, 3, 5])[0]
        self.produce(batch)

    def forget(self) -> None:
        """Let a writer's last batch be old, and its id be forgotten; its numbers go on anywhere."""
        writer = self.random.choice([number for number, stored in enumerate(self.stored) if stored])
        last = self.stored[writer][-1]  # known or not: what follows it is taken
        batch = last._replace(sequence=(last.sequence + last.record_count) & MAX_SEQUENCE, record_count=1, is_old=True)
        assert self.produce(batch).error_code == 0
        self.both.forget(writer)

    def recreate(self) -> None:
        self.both.recreate()
        self.end_offset = 0


def run_random(kafka: Kafka, topic_name: str, seed: int, steps: int, *, topic: str = CREATE_TIME,
               restarts: bool = False) -> None:
    drawn = random.Random(seed)
    both = BothSides(kafka, topic_name, topic=topic, version=drawn.choice([3, 7, 8, 9, 12, WITH_TOPIC_IDS]))
    script = Random(both, seed)
    for step in range(1, steps + 1):
        if step % 50 == 0 and topic == CREATE_TIME:
            script.forget()
        elif step % 120 == 0:
            script.recreate()
        elif step % 170 == 0 and restarts:
            both.restart(is_clean=drawn.random() < 0.5)
        else:
            script.step()
    codes = {code for code in (0, OUT_OF_ORDER, INVALID_EPOCH) if f"error_code={code}," in "".join(both.story)}
    assert codes == {0, OUT_OF_ORDER, INVALID_EPOCH}, "a script that meets no refusal shows nothing"


@pytest.mark.parametrize("seed", range(4))
def test_random_script_when_run_on_kafka_then_the_model_answers_the_same(
        forgetful: Kafka, topic_name: str, seed: int) -> None:
    run_random(forgetful, topic_name, seed, 200)


def test_random_script_when_the_topic_has_the_brokers_time_then_the_model_answers_the_same(
        lasting: Kafka, topic_name: str) -> None:
    run_random(lasting, topic_name, 4, 200, topic=LOG_TIME)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 108))
def test_long_random_script_when_run_on_kafka_then_the_model_answers_the_same(
        forgetful: Kafka, topic_name: str, seed: int) -> None:
    run_random(forgetful, topic_name, seed, 600, restarts=True)


# By which time it forgets --------------------------------------------------------------------------------------------

class Writer:
    """One producer id on Kafka that writes one record after another."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self.producer_id = kafka.new_id()
        self._sequence = 0

    def write(self, *timestamps: int) -> None:
        records = build_batch([(at, None, b"v", ()) for at in timestamps], producer_id=self.producer_id,
                              producer_epoch=0, base_sequence=self._sequence)
        self._sequence += len(timestamps)
        row = self._kafka.request(ApiKeys.PRODUCE, 9, {
            "transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": [
                {"name": self._topic, "partition_data": [{"index": 0, "records": bytes(records)}]}],
        })["responses"][0]["partition_responses"][0]
        assert row["error_code"] == 0, row

    @property
    def is_known(self) -> bool:
        return self.producer_id in self._kafka.known(self._topic)

    def await_forgotten(self) -> None:
        self._kafka.forget(self._topic, self.producer_id)


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.parametrize("age_ms", [HOUR_MS, EXPIRATION_MS + 100, None], ids=["hour", "expiration", "none"])
def test_id_when_its_records_are_old_then_it_is_forgotten_while_it_writes(
        forgetful: Kafka, topic_name: str, age_ms: int | None) -> None:
    """A backfill: each check forgets the id, however recently it wrote; a record without a time (-1) is as old."""
    forgetful.create_topic(CREATE_TIME, topic_name)
    writer = Writer(forgetful, CREATE_TIME)
    for _ in range(2):
        deadline = time.monotonic() + GIVE_UP_S
        writer.write(-1 if age_ms is None else now_ms() - age_ms)
        while writer.is_known:
            writer.write(-1 if age_ms is None else now_ms() - age_ms)
            assert time.monotonic() < deadline, "it is never forgotten"


def test_id_when_its_last_batch_is_dated_ahead_then_it_is_known_after_any_silence(
        forgetful: Kafka, topic_name: str) -> None:
    """The largest timestamp of the last batch counts: not the last record's, not that of a batch before."""
    forgetful.create_topic(CREATE_TIME, topic_name)
    ahead, mixed, reversed_, ahead_then_old, now = (Writer(forgetful, CREATE_TIME) for _ in range(5))
    ahead.write(now_ms() + HOUR_MS)
    mixed.write(OLD_MS, now_ms() + HOUR_MS)
    reversed_.write(now_ms() + HOUR_MS, OLD_MS)
    ahead_then_old.write(now_ms() + HOUR_MS)
    ahead_then_old.write(OLD_MS)
    now.write(now_ms())
    ahead_then_old.await_forgotten()
    now.await_forgotten()
    assert [writer.is_known for writer in (ahead, mixed, reversed_)] == [True] * 3


def test_id_when_the_topic_has_the_brokers_time_then_only_silence_makes_it_forgotten(
        forgetful: Kafka, topic_name: str) -> None:
    forgetful.create_topic(LOG_TIME, topic_name)
    silent, silent_ahead, old, without = (Writer(forgetful, LOG_TIME) for _ in range(4))
    silent.write(now_ms())
    silent_ahead.write(now_ms() + HOUR_MS)
    deadline = time.monotonic() + GIVE_UP_S
    while silent.is_known or silent_ahead.is_known:
        begun = time.monotonic()
        old.write(OLD_MS)
        without.write(-1)
        is_known = old.is_known, without.is_known
        # On a machine that stood still in between, they were silent for too long.
        assert is_known == (True, True) or time.monotonic() - begun > EXPIRATION_MS / 2000
        assert time.monotonic() < deadline, "silence does not make it forgotten"


def test_id_when_it_writes_elsewhere_then_it_is_forgotten_where_it_is_silent(
        forgetful: Kafka, topic_name: str) -> None:
    forgetful.create_topic(CREATE_TIME, topic_name)
    forgetful.create_topic(LOG_TIME, f"{topic_name}-other")
    writer = Writer(forgetful, CREATE_TIME)
    writer.write(now_ms())
    elsewhere = Writer(forgetful, LOG_TIME)
    elsewhere.producer_id = writer.producer_id
    deadline = time.monotonic() + GIVE_UP_S
    while writer.is_known:
        elsewhere.write(now_ms())
        assert time.monotonic() < deadline, "it is never forgotten"
    elsewhere.write(now_ms())
    assert elsewhere.is_known
