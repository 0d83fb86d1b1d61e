"""A broker that listens on all addresses, and one that clients are told another address of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, metadata_body


@pytest.mark.parametrize("separate_process", [False, True], ids=["in process", "child"])
def test_broker_when_it_listens_on_all_addresses_then_a_producer_can_use_it(
        start_broker: Callable[..., EmbeddedBroker], separate_process: bool) -> None:
    broker = start_broker(host="0.0.0.0", brokers=2, topics={"orders": 2}, separate_process=separate_process)
    assert broker.bootstrap_servers.startswith("127.0.0.1:")
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for partition in (0, 1):
            assert producer.send("orders", b"paid", partition=partition).result(GIVE_UP_S).offset == 0


@pytest.mark.parametrize("separate_process", [False, True], ids=["in process", "child"])
def test_broker_when_its_address_is_advertised_then_bootstrap_and_metadata_say_it(
        start_broker: Callable[..., EmbeddedBroker], separate_process: bool) -> None:
    broker = start_broker(brokers=2, separate_process=separate_process, config={
        "listeners": "PLAINTEXT://127.0.0.1:0", "advertised.listeners": "PLAINTEXT://localhost:0"})
    first, second = broker.bootstrap_servers.split(",")
    assert first.startswith("localhost:")
    with RawClient(("127.0.0.1", broker.port)) as client:
        told = client.request(ApiKeys.METADATA, 9, metadata_body())["brokers"]
    assert [f"{node['host']}:{node['port']}" for node in told] == [first, second]
