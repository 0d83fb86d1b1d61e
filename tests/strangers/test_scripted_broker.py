"""Other people's producers on the scripted broker: it is a Kafka to them, so one story may be told to all."""

from __future__ import annotations

from typing import Any

import confluent_kafka

from tests.support.kafka_tools import CONSOLE_PRODUCER, run_tool
from tests.support.scripted_broker import GIVE_UP_S, ScriptedBroker

TOPIC = "orders"


def test_librdkafka_when_an_answer_is_lost_then_it_is_known_again() -> None:
    told: list[Any] = []
    with ScriptedBroker({TOPIC: 1}, node_count=2, is_for_librdkafka=True) as broker:
        producer = confluent_kafka.Producer({
            "bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "linger.ms": 0, "log_level": 0,
            "retry.backoff.ms": 10, "reconnect.backoff.ms": 10})
        lost = broker.on_batch(TOPIC, nth=2).lose_answer()
        for value in (b"a", b"b", b"c"):
            producer.produce(TOPIC, value, partition=0,
                             on_delivery=lambda error, message: told.append((error, message.offset())))
            assert producer.flush(GIVE_UP_S) == 0
        assert broker.values(TOPIC) == [b"a", b"b", b"c"]
        assert [error for error, _ in told] == [None] * 3
        assert lost.count == 1
        del producer  # its threads end with it


def test_java_when_an_answer_is_lost_and_the_leader_moves_then_records_are_stored_once() -> None:
    with ScriptedBroker({TOPIC: 1}, node_count=2) as broker:
        lost = broker.on_batch(TOPIC, holding=b"b").lose_answer()
        for values in ("a\nb", "c"):
            run_tool(CONSOLE_PRODUCER, "--bootstrap-server", broker.bootstrap_servers, "--topic", TOPIC,
                     "--producer-property", "batch.size=1", "--producer-property", "enable.idempotence=true",
                     stdin=values)
            broker.move_leader(TOPIC, to=1)
        assert broker.values(TOPIC) == [b"a", b"b", b"c"]
        assert lost.count == 1
