"""Several brokers over one set of logs: nodes that stop and come back, leaders and coordinators that move.

All from outside, in this process and in one of its own.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.common.errors import ConfigError, IllegalStateError
from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_writer import build_batch
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, fetch_body, fetched, metadata_body, produce_body, produced

StartBroker = Callable[..., EmbeddedBroker]
both_kinds = pytest.mark.parametrize("separate_process", [False, True], ids=["in process", "separate process"])
GROUP = 0


def addresses(broker: EmbeddedBroker, listener_name: str = "PLAINTEXT") -> list[tuple[str, int]]:
    found = (server.rsplit(":", 1) for server in broker.bootstrap_servers_of(listener_name).split(","))
    return [(host, int(port)) for host, port in found]


def metadata(address: tuple[str, int], *topics: str) -> Struct:
    with RawClient(address) as client:
        return client.request(ApiKeys.METADATA, 12, metadata_body(*topics))


def leaders(address: tuple[str, int], topic: str) -> dict[int, tuple[int, int]]:
    (found,) = metadata(address, topic)["topics"]
    return {partition["partition_index"]: (partition["leader_id"], partition["leader_epoch"])
            for partition in found["partitions"]}


def produce(address: tuple[str, int], topic: str, partition: int, value: bytes = b"v", *, version: int = 10) -> Struct:
    with RawClient(address) as client:
        batch = build_batch([(int(time.time() * 1000), b"k", value, ())])
        return client.request(ApiKeys.PRODUCE, version, produce_body(topic, partition, bytes(batch)))


def find_coordinator(address: tuple[str, int], group: str) -> tuple[int, int, int]:
    with RawClient(address) as client:
        answer = client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": group, "key_type": GROUP})
    return answer["error_code"], answer["node_id"], answer["port"]


@both_kinds
def test_leaders_are_spread_and_every_node_tells_the_same(start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(brokers=3, topics={"orders": 6}, separate_process=separate_process)
    assert broker.nodes() == [1, 2, 3]
    for address in addresses(broker):
        answer = metadata(address, "orders")
        assert [(node["node_id"], node["port"]) for node in answer["brokers"]] == [
            (node_id, port) for node_id, (_, port) in zip((1, 2, 3), addresses(broker), strict=True)]
        assert answer["controller_id"] == 1
        assert {index: leader for index, (leader, _) in leaders(address, "orders").items()} == {
            0: 1, 1: 2, 2: 3, 3: 1, 4: 2, 5: 3}


@both_kinds
def test_a_leader_that_moved_is_named_and_the_new_one_serves(start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(brokers=3, topics={"orders": 3}, separate_process=separate_process)
    first, second, third = addresses(broker)
    assert produced(produce(first, "orders", 0))["base_offset"] == 0
    broker.move_leader("orders", 0, 3)
    assert broker.leader_of("orders", 0) == (3, 1)
    assert leaders(second, "orders")[0] == (3, 1)
    refused = produce(first, "orders", 0)
    assert produced(refused)["error_code"] == 6
    assert dict(produced(refused)["current_leader"]) == {"leader_id": 3, "leader_epoch": 1}
    assert [(node["node_id"], node["port"]) for node in refused["node_endpoints"]] == [(3, third[1])]
    assert produced(produce(third, "orders", 0))["base_offset"] == 1
    assert [record.offset for record in broker.records("orders")] == [0, 1]


def test_a_fetch_that_waits_is_answered_when_its_leader_moves(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=2, topics={"orders": 1})
    first = addresses(broker)[0]
    topic_id = metadata(first, "orders")["topics"][0]["topic_id"]
    with RawClient(first) as client:
        client.send_request(ApiKeys.FETCH, 16, fetch_body(16, topic_id, 0, 0, max_wait_ms=600_000))
        assert client.is_silent(for_s=0.1)
        broker.move_leader("orders", 0, 2)
        _, answer = client.receive_response(ApiKeys.FETCH, 16)
    assert fetched(answer)["error_code"] == 6
    assert [node["node_id"] for node in answer["node_endpoints"]] == [2]


def test_a_partition_without_a_leader_says_so(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=2, topics={"orders": 2})
    first, _ = addresses(broker)
    broker.move_leader("orders", 0, None)
    (topic,) = metadata(first, "orders")["topics"]
    partition = next(partition for partition in topic["partitions"] if partition["partition_index"] == 0)
    assert (partition["error_code"], partition["leader_id"], partition["leader_epoch"]) == (5, -1, 1)
    assert (partition["replica_nodes"], partition["offline_replicas"]) == ([1], [])
    refused = produce(first, "orders", 0)
    assert produced(refused)["error_code"] == 6
    assert refused["node_endpoints"] == []
    broker.move_leader("orders", 0, 1)
    assert produced(produce(first, "orders", 0))["error_code"] == 0


@both_kinds
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_node_that_stops_is_refused_and_comes_back_where_it_was(
        start_broker: StartBroker, separate_process: bool, kill: bool) -> None:
    broker = start_broker(brokers=3, topics={"orders": 3}, separate_process=separate_process)
    first, second, _ = addresses(broker)
    with RawClient(second) as client:
        broker.stop_node(2, kill=kill)
        assert client.is_closed()
    assert broker.nodes() == [1, 3]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(second, timeout=GIVE_UP_S)
    answer = metadata(first, "orders")
    assert [node["node_id"] for node in answer["brokers"]] == [1, 3]
    assert leaders(first, "orders") == {0: (1, 0), 1: (-1, 1), 2: (3, 0)}
    broker.start_node(2)
    assert addresses(broker)[1] == second
    assert leaders(second, "orders") == {0: (1, 0), 1: (2, 2), 2: (3, 0)}
    assert produced(produce(second, "orders", 1))["error_code"] == 0


def test_a_node_that_stops_may_give_its_leaders_away(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=3, topics={"orders": 6})
    first, _, third = addresses(broker)
    broker.stop_node(2, move_leaders=True)
    assert leaders(first, "orders") == {0: (1, 0), 1: (1, 1), 2: (3, 0), 3: (1, 0), 4: (3, 1), 5: (3, 0)}
    assert produced(produce(third, "orders", 4))["error_code"] == 0
    broker.start_node(2)
    assert leaders(first, "orders")[1] == (1, 1)
    broker.create_topic("later", 3)
    assert [leader for leader, _ in leaders(first, "later").values()] == [1, 2, 3]


def test_nodes_that_are_not_there_are_errors(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=2, topics={"orders": 1})
    with pytest.raises(ConfigError, match="there are 1, 2"):
        broker.stop_node(3)
    with pytest.raises(ConfigError, match="there are 1, 2"):
        broker.move_leader("orders", 0, 3)
    with pytest.raises(ConfigError, match="no such partition"):
        broker.move_leader("orders", 7, 1)
    with pytest.raises(IllegalStateError, match="running already"):
        broker.start_node(1)
    broker.stop_node(1)
    with pytest.raises(IllegalStateError, match="not running"):
        broker.stop_node(1)
    with pytest.raises(IllegalStateError, match="last one"):
        broker.stop_node(2, move_leaders=True)
    assert broker.nodes() == [2]


@contextmanager
def adjacent_ports(count: int) -> Iterator[int]:
    """Hold ports that follow each other, for brokers to listen on; give the first. See tests/support/ports.py."""
    for _ in range(1000):
        with ExitStack() as held:
            first = 0
            try:
                for number in range(count):
                    sock = held.enter_context(socket.socket())
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    sock.bind(("127.0.0.1", first + number if first else 0))
                    first = first or sock.getsockname()[1]
            except (OSError, OverflowError):  # the next one is somebody's, or above the last: look elsewhere
                continue
            yield first
            return
    pytest.fail(f"the system had no {count} adjacent ports")


def test_several_brokers_with_a_given_port_have_the_ports_after_it(start_broker: StartBroker) -> None:
    with adjacent_ports(3) as port:
        broker = start_broker(brokers=3, port=port)
        assert addresses(broker) == [("127.0.0.1", port + number) for number in range(3)]
        assert {node["port"] for node in metadata(("127.0.0.1", port + 2))["brokers"]} == {port, port + 1, port + 2}
        broker.stop()


@both_kinds
def test_coordinator_when_it_moves_or_its_node_stops_then_it_is_found_anew_or_missing(
        start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(brokers=3, separate_process=separate_process,
                          config={"offsets.topic.replication.factor": 1})
    first, second, third = addresses(broker)
    broker.move_coordinator("a-group", 3)
    for address in (first, second, third):
        assert find_coordinator(address, "a-group") == (0, 3, third[1])
    broker.stop_node(3)
    assert find_coordinator(first, "a-group") == (15, -1, -1)
    broker.move_coordinator("a-group", 2)
    assert find_coordinator(first, "a-group") == (0, 2, second[1])
    broker.move_coordinator("a-group", None)
    assert find_coordinator(first, "a-group") == (15, -1, -1)


def test_addresses_when_there_are_listeners_then_they_are_those_of_the_one_asked_on(start_broker: StartBroker) -> None:
    listeners = "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0"
    broker = start_broker(brokers=2, topics={"orders": 2}, config={
        "listeners": listeners, "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"},
        node_config={2: {"listeners": "INTERNAL://127.0.0.1:0", "broker.rack": "elsewhere"}})
    internal, external = addresses(broker, "INTERNAL"), addresses(broker, "EXTERNAL")
    assert len({*internal, *external}) == 3
    seen = metadata(internal[0])["brokers"]
    assert [(node["node_id"], node["port"], node["rack"]) for node in seen] == [
        (1, internal[0][1], None), (2, internal[1][1], "elsewhere")]
    assert [node["port"] for node in metadata(external[0])["brokers"]] == [external[0][1]]
    broker.move_coordinator("g", 2)
    assert find_coordinator(internal[0], "g") == (0, 2, internal[1][1])
    assert find_coordinator(external[0], "g") == (15, -1, -1)
    broker.move_coordinator("g", 1)
    assert find_coordinator(internal[1], "g") == (0, 1, internal[0][1])
    assert find_coordinator(external[0], "g") == (0, 1, external[0][1])
    # A leader that the client's listener does not have is not named either.
    broker.move_leader("orders", 0, 2)
    assert produce(external[0], "orders", 0)["node_endpoints"] == []


def test_nodes_differ_only_where_they_can() -> None:
    with pytest.raises(ConfigError, match="cannot differ"):
        EmbeddedBroker(brokers=2, node_config={2: {"num.partitions": 3}})
    with pytest.raises(ConfigError, match="there are nodes 1 to 2"):
        EmbeddedBroker(brokers=2, node_config={3: {}})


@both_kinds
def test_processors_when_they_are_resized_from_outside_then_connections_of_those_that_go_are_closed(
        start_broker: StartBroker, separate_process: bool) -> None:
    broker = start_broker(brokers=2, separate_process=separate_process, config={"num.network.threads": 2})
    clients = [RawClient(addresses(broker)[0]) for _ in range(4)]
    for client in clients:
        client.request(ApiKeys.METADATA, 1, metadata_body())
    assert sorted(connection.processor_id for connection in broker.connections()) == [0, 0, 1, 1]
    owners = {connection.remote_address: connection.processor_id for connection in broker.connections()}
    broker.resize_processors(1, node_id=1)
    assert [connection.processor_id for connection in broker.connections()] == [0, 0]
    for client in clients:
        if owners[f"127.0.0.1:{client.local_port}"] == 0:
            client.request(ApiKeys.METADATA, 1, metadata_body())
        else:
            assert client.is_closed(), "its processor is gone"
    broker.resize_processors(2)
    with pytest.raises(ConfigError, match=r"num\.network\.threads"):
        broker.resize_processors(5)
    for client in clients:
        client.close()
