"""partitioner.rack.aware on a cluster of two racks, for every way to hand over a record."""

from __future__ import annotations

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from tests.support.patience import GIVE_UP_S


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker(brokers=2, topics={"orders": 4},
                        node_config={1: {"broker.rack": "north"}, 2: {"broker.rack": "south"}}) as broker:
        for partition in range(4):
            broker.move_leader("orders", partition, 1 + partition % 2)
        yield broker


@pytest.mark.parametrize(("rack", "expected"), [("north", {0, 2}), ("south", {1, 3}), ("west", {0, 1, 2, 3})])
@pytest.mark.parametrize("partitioner", [None, "uniform_sticky"])
def test_records_when_rack_aware_then_they_go_to_leaders_of_the_rack(
        broker: EmbeddedBroker, rack: str, expected: set[int], partitioner: str | None) -> None:
    props = {"bootstrap.servers": broker.bootstrap_servers, "partitioner.rack.aware": True, "client.rack": rack,
             "partitioner.class": partitioner, "batch.size": 200,
             "partitioner.adaptive.partitioning.enable": False}  # a partition with a queue would be left out
    with KafkaProducer(props) as producer:
        producer.partitions_for("orders")
        one_by_one = [producer.send("orders", b"v" * 100) for _ in range(200)]
        columns = producer.send_batch("orders", [b"v" * 100] * 200).result(timeout=GIVE_UP_S)
        assert {future.result(timeout=GIVE_UP_S).partition for future in one_by_one} == expected
        assert set(columns.partitions) == expected
        keyed = [producer.send("orders", b"v", key=b"%d" % number) for number in range(50)]
        assert {future.result(timeout=GIVE_UP_S).partition for future in keyed} == {0, 1, 2, 3}
