"""The clusters that the contract is run on, and what each of them cannot do.

A test says what it needs with `@pytest.mark.needs(Can.ACKS_0)`; for a cluster that cannot do it, the test is not
collected. The reasons stand in `CANNOT`, and nowhere else.
"""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import ConsumedRecord, read_topic
from tests.support.patience import GIVE_UP_S

if TYPE_CHECKING:
    from tests.support.kafka_server import KafkaServer

PARTITIONS = 4  # of every topic: the mock's topics have four, whatever is asked for
POLL_S = 0.01
TOPICS_AT_ONCE = 25


class Can(enum.Enum):
    """What a test may need of a cluster, beyond storing records and giving them back."""

    ACKS_0 = "say nothing after a request with acks=0"
    CHECK_SEQUENCES = "recognise a batch that was sent twice, and refuse one that comes too early"
    REFUSE_UNKNOWN_TOPICS = "answer that a topic does not exist"
    CREATE_TOPICS_ON_DEMAND = "create a topic when a producer asks for it"
    TELL_THE_TIME = "answer with the append time of LogAppendTime, and with none otherwise"
    CONFIGURE_TOPICS = "give a topic settings such as max.message.bytes"
    END_TRANSACTIONS = "hide what an open or an aborted transaction has written from who reads committed records"
    SAY_ANYTHING = "answer with any error code, in place of storing a batch or after it, partition by partition"


CANNOT: dict[str, dict[Can, str]] = {
    "embedded": {
        Can.CREATE_TOPICS_ON_DEMAND: "it is started without, so that unknown topics stay unknown",
    },
    "mock": {
        Can.ACKS_0: "it answers such requests, which no Kafka does; an answer nobody asked for ends the connection",
        Can.CHECK_SEQUENCES: "it stores whatever comes, whatever its sequence number",
        Can.REFUSE_UNKNOWN_TOPICS: "it creates every topic that a producer asks for",
        Can.TELL_THE_TIME: "each of its answers claims the append time 1234",
        Can.CONFIGURE_TOPICS: "it knows no topic settings",
        Can.END_TRANSACTIONS: "its markers hide nothing, and it fences nobody",
        Can.SAY_ANYTHING: "it can be told a code for its next answers, whatever they are for",
    },
    "kafka": {
        Can.CREATE_TOPICS_ON_DEMAND: "it is started without, so that unknown topics stay unknown",
        Can.SAY_ANYTHING: "it says what is true",
    },
}


class Cluster:
    """A cluster under test: where it is, a new topic, and what its log holds."""

    bootstrap_servers: str

    def create_topic(self, name: str, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic of `PARTITIONS` partitions that can be written to; return its name."""
        raise NotImplementedError

    def new_topic(self, name: str) -> str:
        """Return a topic of `PARTITIONS` partitions that nobody used yet; its name may be another."""
        return self.create_topic(name)

    def log(self, topic: str, partition: int | None = None) -> list[ConsumedRecord]:
        """Return the records of a topic or of one partition, by partition and offset."""
        return [record for record in read_topic(self.bootstrap_servers, topic)
                if partition is None or record.partition == partition]

    def committed(self, topic: str, *, is_one_open: bool = False) -> list[bytes]:
        """Return the values that a consumer sees who reads committed records, by partition and offset."""
        from tests.support.log_checker import read_committed

        return [record.value or b"" for record in read_committed(self.bootstrap_servers, topic,
                                                                 is_one_open=is_one_open)]

    def await_log(self, topic: str, count: int) -> list[ConsumedRecord]:
        """Wait until a topic has so many records, for senders that are not told; return all that it has then."""
        deadline = time.monotonic() + GIVE_UP_S
        while len(records := self.log(topic)) < count:
            assert time.monotonic() < deadline, f"{topic} has {len(records)} records, not {count}"
            time.sleep(POLL_S)
        return records


class EmbeddedCluster(Cluster):
    """Our broker, in a process of its own: what it has open is not what a test left open."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.bootstrap_servers = broker.bootstrap_servers
        self.broker = broker

    def create_topic(self, name: str, configs: Mapping[str, str] | None = None) -> str:
        assert self.broker.create_topic(name, PARTITIONS, configs)
        return name


class MockCluster(Cluster):
    """librdkafka's mock cluster; it lives as long as the librdkafka client that asked for it."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        brokers = owner.list_topics(timeout=GIVE_UP_S).brokers.values()
        self.bootstrap_servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def create_topic(self, name: str, configs: Mapping[str, str] | None = None) -> str:
        assert not configs, "the mock knows no settings of topics"
        self._owner.list_topics(name, timeout=GIVE_UP_S)
        return name


class KafkaCluster(Cluster):
    """Apache Kafka. Topics are made by the dozen, because each creation is a round through its controller."""

    def __init__(self, server: KafkaServer) -> None:
        self.bootstrap_servers = server.bootstrap_servers
        self._server = server
        self._ready: list[str] = []
        self._made = 0

    def create_topic(self, name: str, configs: Mapping[str, str] | None = None) -> str:
        return self._server.create_topic(name, PARTITIONS, configs)

    def new_topic(self, name: str) -> str:
        if not self._ready:
            self._ready = self._create_many([f"contract-{self._made + number}" for number in range(TOPICS_AT_ONCE)])
            self._made += TOPICS_AT_ONCE
        return self._ready.pop(0)

    def _create_many(self, names: list[str]) -> list[str]:
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
            created.result(timeout=GIVE_UP_S)
        wanted = [TopicPartition(name, number) for name in names for number in range(PARTITIONS)]
        deadline = time.monotonic() + GIVE_UP_S
        while True:  # the leaders themselves are the last to know: asked until each of them serves
            try:
                for answer in admin.list_offsets({each: OffsetSpec.latest() for each in wanted}).values():
                    answer.result(timeout=GIVE_UP_S)
                return names
            except KafkaException:
                assert time.monotonic() < deadline, "the new topics have no leaders"
                time.sleep(POLL_S)


@contextlib.contextmanager
def start_embedded_cluster() -> Iterator[Cluster]:
    with EmbeddedBroker(separate_process=True, auto_create_topics=False) as broker:
        yield EmbeddedCluster(broker)


@contextlib.contextmanager
def start_mock_cluster() -> Iterator[Cluster]:
    from confluent_kafka import Producer

    owner = Producer({"bootstrap.servers": "replaced.by.the.mock:9092", "test.mock.num.brokers": 1, "log_level": 0})
    yield MockCluster(owner)
    owner.flush(0)
