"""Stories in which a broker forgets a producer id, and what they are told on: Apache Kafka, or the scripted broker.

A story sends a few records and does something to the brokers between them. What came of it, `tell` says.

Thread:  one thread tells the story.
Source:  ours; docs/decisions/producer_ids.md says when Kafka forgets. The first two are what users saw of our producer
         and of others': a record doubled, or stored behind a later one, after a day of silence.

No import of pytest.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from pyproducer import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from tests.support.fault_proxy import FaultProxy
from tests.support.log_checker import read_topic
from tests.support.raw_client import ConnectionEnded, RawClient
from tests.support.scripted_broker import ScriptedBroker
from tests.support.story_clients import Judgement, NothingTold, StoryClient, await_told, await_true, judge

# For the brokers of these stories: a day of silence is two seconds.
FORGETFUL = {"producer.id.expiration.ms": 2000, "producer.id.expiration.check.interval.ms": 500}
DAY_MS = 86_400_000
LONG_AGO_MS = 1_000_000
BROKER_RESOURCE = 4
ARRIVAL_S = 0.5  # how long to wait for a batch that need not come: a careful client waits for an answer first
WARM, FIRST, SECOND, THIRD = b"warm", b"value-A", b"value-B", b"value-C"


class Doing(Protocol):
    """What a stage does to batches, and how often it has."""

    def await_count(self, count: int = 1) -> None:
        """Wait until it happened so often."""

    def release(self) -> None:
        """Let go what is held."""


class Stage(Protocol):
    """A broker and what can be done to it. `topic` has one partition and is new."""

    topic: str
    bootstrap_servers: str

    def refuse(self, value: bytes, code: int) -> Doing:
        """Hold the first request with a record, and answer it with a code when it is released."""

    def lose_answer(self, value: bytes) -> Doing:
        """Store a record, and let no answer come back until `heal`."""

    def has_come(self, value: bytes) -> bool:
        """Whether a request with this record has come."""

    def forget(self) -> None:
        """Return when the broker knows no producer id any more."""

    def restart(self) -> None:
        """Kill the broker and let it start again."""

    def heal(self) -> None:
        """End all faults and cut the connections."""

    def log(self) -> list[tuple[int, bytes]]:
        """Return the offset and the value of each record in the log."""


Story = Callable[[Stage, StoryClient], None]


class Server(Protocol):
    """One broker on loopback, a KafkaServer for example, that looks for expired producers often (FORGETFUL)."""

    @property
    def bootstrap_servers(self) -> str:
        """Its address."""

    @property
    def port(self) -> int:
        """The port of that."""

    def create_topic(self, name: str, /) -> str:
        """Make a topic of one partition; return its name."""

    def restart(self) -> None:
        """Kill it and start it again."""


class KafkaStage:
    """An Apache Kafka, or our embedded broker, behind a proxy; a context manager."""

    def __init__(self, server: Server, topic: str, set_expiration: Callable[[int], None] | None = None) -> None:
        """Begin a story.

        Args:
            server: The broker.
            topic: A new topic's name.
            set_expiration: Sets producer.id.expiration.ms; None asks the broker to.
        """
        self.topic = server.create_topic(topic)
        self._server = server
        self._set_expiration = set_expiration or self._alter_expiration
        self._proxy = FaultProxy(server.bootstrap_servers)
        self.bootstrap_servers = self._proxy.bootstrap_servers

    def __enter__(self) -> KafkaStage:
        self._proxy.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._proxy.close()

    def refuse(self, value: bytes, code: int) -> Doing:
        return self._proxy.on("Produce", holding=value).hold_request().error(code)

    def lose_answer(self, value: bytes) -> Doing:
        return self._proxy.on("Produce", holding=value).swallow_answer()

    def has_come(self, value: bytes) -> bool:
        return any(request.holds(value) for request in self._proxy.requests("Produce"))

    def forget(self) -> None:
        # It forgets once: what it forgot later, with an answer lost, nobody could keep from being doubled, and a busy
        # machine is as slow as any expiration.
        self._set_expiration(FORGETFUL["producer.id.expiration.ms"])
        with RawClient(("127.0.0.1", self._server.port)) as client:
            await_true(lambda: self._known(client) == [], "a Kafka that has forgotten")
        self._set_expiration(DAY_MS)

    def _alter_expiration(self, expiration_ms: int) -> None:
        with RawClient(("127.0.0.1", self._server.port)) as client:
            answer = client.request(ApiKeys.INCREMENTAL_ALTER_CONFIGS, 1, {"validate_only": False, "resources": [{
                "resource_type": BROKER_RESOURCE, "resource_name": "", "configs": [{
                    "name": "producer.id.expiration.ms", "config_operation": 0, "value": str(expiration_ms)}]}]})
        assert answer["responses"][0]["error_code"] == 0, answer

    def restart(self) -> None:
        self._server.restart()

        def is_back() -> bool:
            try:
                with RawClient(("127.0.0.1", self._server.port)) as client:
                    return self._known(client) is not None
            except (ConnectionEnded, OSError):
                return False

        await_true(is_back, "a Kafka that leads its partition again")

    def heal(self) -> None:
        self._proxy.heal()

    def log(self) -> list[tuple[int, bytes]]:
        return [(record.offset, record.value or b"") for record in read_topic(
            self._server.bootstrap_servers, self.topic)]

    def _known(self, client: RawClient) -> list[int] | None:
        answer = client.request(ApiKeys.DESCRIBE_PRODUCERS, 0, {
            "topics": [{"name": self.topic, "partition_indexes": [0]}]})["topics"][0]["partitions"][0]
        if answer["error_code"]:
            return None
        return [producer["producer_id"] for producer in answer["active_producers"]]


class ScriptedStage:
    """The simulation's model of Kafka on sockets; `broker` is running."""

    def __init__(self, broker: ScriptedBroker, topic: str) -> None:
        self.topic = topic
        self.broker = broker
        self.bootstrap_servers = broker.bootstrap_servers

    def refuse(self, value: bytes, code: int) -> Doing:
        return self.broker.on_batch(self.topic, holding=value).hold().refuse(code)

    def lose_answer(self, value: bytes) -> Doing:
        return self.broker.on_batch(self.topic, holding=value).lose_answer(cut=False)

    def has_come(self, value: bytes) -> bool:
        return any(value in batch.values for batch in self.broker.arrived_of(self.topic))

    def forget(self) -> None:
        self.broker.forget_producer(self.topic)

    def restart(self) -> None:
        self.broker.restart(self.topic)

    def heal(self) -> None:
        self.broker.cut()

    def log(self) -> list[tuple[int, bytes]]:
        return [(record.offset, record.value or b"") for record in self.broker.log(self.topic)]


def tell(story: Story, stage: Stage, client: StoryClient) -> Judgement:
    """Tell a story to a client from its first record to its close, and judge.

    One that waits in vain for what a client says of a record ends there; the judgement has it as pending.
    """
    client.open(stage.bootstrap_servers, stage.topic)
    try:
        with contextlib.suppress(NothingTold):
            story(stage, client)
    finally:
        client.close()
    return judge(client.sent, client.told, stage.log())


# The stories ---------------------------------------------------------------------------------------------------------

def doubled_after_silence(stage: Stage, client: StoryClient) -> None:
    """A record is refused for good; the one behind it is stored, and its answer is lost."""
    _warm_up(stage, client)
    refused = stage.refuse(FIRST, ErrorCode.INVALID_RECORD)
    lost = stage.lose_answer(SECOND)
    _send_two(stage, client, refused)
    lost.await_count()
    await_told(client, FIRST)  # else the cut would take its answer away
    stage.heal()
    await_told(client, SECOND)


def reordered_after_silence(stage: Stage, client: StoryClient) -> None:
    """A record is refused for a moment, the one behind it is stored; the retry comes behind it."""
    _warm_up(stage, client)
    _send_two(stage, client, stage.refuse(FIRST, ErrorCode.NOT_ENOUGH_REPLICAS))
    await_told(client, FIRST, SECOND)


def doubled_after_silence_and_retry(stage: Stage, client: StoryClient) -> None:
    """Both at once: the first is refused for a moment, the second is stored and its answer is lost."""
    _warm_up(stage, client)
    refused = stage.refuse(FIRST, ErrorCode.NOT_ENOUGH_REPLICAS)
    lost = stage.lose_answer(SECOND)
    _send_two(stage, client, refused)
    lost.await_count()
    stage.heal()
    await_told(client, FIRST, SECOND)


def reordered_in_backfill(stage: Stage, client: StoryClient) -> None:
    """The records are older than the expiration: Kafka forgets at its next check, without any silence."""
    _warm_up(stage, client, timestamp_ms=LONG_AGO_MS)
    _send_two(stage, client, stage.refuse(FIRST, ErrorCode.NOT_ENOUGH_REPLICAS), timestamp_ms=LONG_AGO_MS)
    await_told(client, FIRST, SECOND)


def doubled_after_restart(stage: Stage, client: StoryClient) -> None:
    """Three records are stored, their answers are lost, the only broker is killed: it knows the last of them alone."""
    client.send(WARM)
    await_told(client, WARM)
    for value in (FIRST, SECOND, THIRD):
        lost = stage.lose_answer(value)
        client.send(value)
        lost.await_count()
    stage.restart()
    stage.heal()
    await_told(client, FIRST, SECOND, THIRD)


def lost_by_old_broker(stage: Stage, client: StoryClient) -> None:
    """Brokers before 2.5: retention deleted all, the leader forgot and says 59; then a replica leads that still knows.

    A client that begins at 0 again in the same epoch uses numbers twice, and the replica takes a new record for an old.
    """
    assert isinstance(stage, ScriptedStage)
    warm = [b"warm-%d" % number for number in range(3)]
    for value in warm:
        client.send(value)
        await_told(client, value)
    leader = stage.broker.leader_of(stage.topic)
    stage.broker.delete_records(stage.topic)
    stage.broker.forget_producer(stage.topic, node_id=leader)
    client.send(FIRST)
    await_told(client, FIRST)
    stage.broker.move_leader(stage.topic, to=1 - leader)
    client.send(SECOND)
    await_told(client, SECOND)


def random_story(seed: int, *, silence_s: float = 0.0) -> Story:
    """Bursts of records; each may be refused, lose its answer or its request. Before some, all is told and forgotten.

    What is in doubt when the broker forgets cannot be known by any client: so it forgets only when nothing is.

    Args:
        seed: Of everything that is drawn.
        silence_s: How long it is silent before the broker forgets.
    """
    def story(stage: Stage, client: StoryClient) -> None:
        assert isinstance(stage, ScriptedStage)
        broker, topic, drawn = stage.broker, stage.topic, random.Random(seed)
        for burst in range(6):
            values = [b"value-%02d-%d" % (burst, number) for number in range(drawn.randint(2, 5))]
            if burst and drawn.random() < 0.6:
                time.sleep(silence_s)
                broker.forget_producer(topic)
            restarts = drawn.random() < 0.2
            for value in values:
                fate = drawn.random()
                if fate < 0.25:
                    broker.on_batch(topic, holding=value).refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
                elif fate < 0.35:
                    broker.on_batch(topic, holding=value).refuse(ErrorCode.INVALID_RECORD)
                elif fate < 0.60:
                    broker.on_batch(topic, holding=value).lose_answer()
                elif fate < 0.65:
                    broker.on_batch(topic, holding=value).lose_request()
            with broker.gather(topic, count=len(values)):
                for value in values:
                    client.send(value)
                    until = time.monotonic() + drawn.choice([0.0, 0.02])
                    while time.monotonic() < until and not stage.has_come(value):
                        time.sleep(0.001)
            if restarts:
                stage.restart()
            await_told(client, *values)

    return story


def _warm_up(stage: Stage, client: StoryClient, timestamp_ms: int | None = None) -> None:
    client.send(WARM, timestamp_ms)
    await_told(client, WARM)
    stage.forget()


def _send_two(stage: Stage, client: StoryClient, refused: Doing, timestamp_ms: int | None = None) -> None:
    """Send two records, the second behind the first on the wire if the client does that, then refuse the first."""
    client.send(FIRST, timestamp_ms)
    refused.await_count()
    client.send(SECOND, timestamp_ms)
    until = time.monotonic() + ARRIVAL_S
    while not stage.has_come(SECOND) and time.monotonic() < until:
        time.sleep(0.001)
    refused.release()
