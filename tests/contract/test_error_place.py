"""A failed record's error says where it was to go: what an operator counts failures by."""

from __future__ import annotations

import pickle

from pyproducer import ErrorCode, KafkaError
from tests.contract.conftest import Connect
from tests.support.fault_proxy import FaultProxy
from tests.support.patience import GIVE_UP_S


def test_error_when_a_broker_refuses_a_batch_then_it_names_topic_and_partition(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    told: list[KafkaError] = []
    with connect(through=proxy) as producer:
        producer.partitions_for(topic)
        proxy.on("Produce").error(ErrorCode.INVALID_RECORD)
        future = producer.send(topic, b"v", partition=0, on_completion=lambda _, error: told.append(error))
        error = future.exception(GIVE_UP_S)
    assert isinstance(error, KafkaError)
    assert (error.topic, error.partition) == (told[0].topic, told[0].partition) == (topic, 0)
    again = pickle.loads(pickle.dumps(error))
    assert (again.topic, again.partition) == (topic, 0)


def test_error_when_the_record_waited_for_an_unknown_topic_then_it_names_the_topic_alone(connect: Connect) -> None:
    with connect(max_block_ms=300, delivery_timeout_ms=2000, request_timeout_ms=1000) as producer:
        error = producer.send("not.a topic!", b"v").exception(GIVE_UP_S)
        assert isinstance(error, KafkaError)
        assert (error.topic, error.partition) == ("not.a topic!", None)


def test_error_when_close_gives_up_on_several_partitions_then_each_record_has_its_own(
        topic: str, connect: Connect, proxy: FaultProxy) -> None:
    """One error ends them all; it must not carry the first one's partition for the others."""
    producer = connect(through=proxy)
    count = len(producer.partitions_for(topic))
    proxy.on("Produce").swallow_request()
    futures = [producer.send(topic, b"v", partition=index) for index in range(count)]
    producer.close(0)
    errors = [future.exception(GIVE_UP_S) for future in futures]
    assert [(error.topic, error.partition) for error in errors if isinstance(error, KafkaError)] == [
        (topic, index) for index in range(count)]
