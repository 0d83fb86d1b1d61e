"""A partition that this broker does not lead: the answers name who does (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.broker.cluster.listener import EndPoint
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.cluster.replicas import Leadership, Replicas
from pyproducer.broker.control.in_process import InProcessCluster
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.raw_client import RawClient, fetch_body, fetched, metadata_body, produce_body, produced

OTHER = 2
EPOCH = 5


@pytest.fixture
def client(start_broker: Callable[..., EmbeddedBroker]) -> RawClient:
    """A client of a broker that has just lost partition 0 of "orders" to another one."""
    broker = start_broker(topics={"orders": 2})
    cluster = broker._cluster
    assert isinstance(cluster, InProcessCluster)
    cluster.state.brokers.register(BrokerInfo(OTHER, {"PLAINTEXT": EndPoint("PLAINTEXT", "PLAINTEXT", "h", 9)}, None))
    partition = cluster.state.topics.partition("orders", 0)
    assert partition is not None
    partition.leadership, partition.replicas = Leadership(OTHER, EPOCH), Replicas((OTHER,), (OTHER,))
    return RawClient(("127.0.0.1", broker.port))


@pytest.mark.parametrize("version", [9, 10, 12])
def test_produce_names_the_leader_from_10(client: RawClient, version: int) -> None:
    with client:
        answer = client.request(ApiKeys.PRODUCE, version,
                                produce_body("orders", 0, build_batch([(1, b"k", b"v", ())])))
    partition = produced(answer)
    assert (partition["error_code"], partition["base_offset"]) == (6, -1)
    if version >= 10:
        assert dict(partition["current_leader"]) == {"leader_id": OTHER, "leader_epoch": EPOCH}
        assert [dict(node) for node in answer["node_endpoints"]] == [
            {"node_id": OTHER, "host": "h", "port": 9, "rack": None}]


def test_fetch_names_the_leader_and_does_not_wait(client: RawClient) -> None:
    with client:
        topic_id = client.request(ApiKeys.METADATA, 12, metadata_body("orders"))["topics"][0]["topic_id"]
        answer = client.request(ApiKeys.FETCH, 16, fetch_body(16, topic_id, 0, 0, max_wait_ms=20_000))
    assert fetched(answer)["error_code"] == 6
    assert dict(fetched(answer)["current_leader"]) == {"leader_id": OTHER, "leader_epoch": EPOCH}
    assert [node["node_id"] for node in answer["node_endpoints"]] == [OTHER]


def test_metadata_shows_the_new_leader(client: RawClient) -> None:
    with client:
        answer = client.request(ApiKeys.METADATA, 12, metadata_body("orders"))
    partitions = {partition["partition_index"]: partition for partition in answer["topics"][0]["partitions"]}
    assert (partitions[0]["leader_id"], partitions[0]["leader_epoch"]) == (OTHER, EPOCH)
    assert partitions[1]["leader_id"] == 1
    assert sorted(node["node_id"] for node in answer["brokers"]) == [1, OTHER]
