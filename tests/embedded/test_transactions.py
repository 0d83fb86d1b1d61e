"""Transactions of our own broker: restarts, several nodes, levels of the feature, and the time between."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import read_batches
from tests.support.raw_client import RawClient, produce_body, produced
from tests.support.raw_transactions import RawTransactions, read_committed, txn_offset_commit

StartBroker = Callable[..., EmbeddedBroker]
CONCURRENT = 51
NOT_COORDINATOR = 16
NOT_ENOUGH_REPLICAS = 19
OUT_OF_ORDER = 45


def connect(broker: EmbeddedBroker, port: int | None = None) -> RawClient:
    return RawClient(("127.0.0.1", broker.port if port is None else port))


def transactions_of(client: RawClient, transactional_id: str = "shop") -> RawTransactions:
    transactions = RawTransactions(client, transactional_id)
    transactions.find_coordinator()
    return transactions


def find_group(client: RawClient, group: str) -> None:
    assert client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": group, "key_type": 0})["error_code"] == 0


def shape(client: RawClient, topic: str = "orders", partition: int = 0) -> tuple[int, int, list[int]]:
    """Return high watermark, last stable offset and the first offsets of aborted transactions."""
    answer = read_committed(client, topic, partition)
    return (answer["high_watermark"], answer["last_stable_offset"],
            [entry["first_offset"] for entry in answer["aborted_transactions"]])


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_a_transaction_goes_on_after_a_restart(
        start_broker: StartBroker, tmp_path: Path, kill: bool, commit: bool) -> None:
    broker = start_broker(data_dir=tmp_path, topics={"orders": 2}, separate_process=True)
    with connect(broker) as client:
        transactions = transactions_of(client)
        transactions.init()
        for partition in (0, 1):
            assert transactions.produce("orders", partition, 0) == (0, 0)
        before = transactions.describe()
    if kill:
        broker._cluster._process.kill()  # type: ignore[union-attr]  # the child process
    broker.stop()
    broker = start_broker(data_dir=tmp_path, separate_process=True)
    with connect(broker) as client:
        transactions.client = client
        assert transactions.describe() == before
        assert shape(client) == (1, 0, [])
        assert transactions.produce("orders", 0, 1) == (0, 1)
        assert transactions.end(commit=commit) == 0
        assert shape(client) == (3, 3, [] if commit else [0])
        assert shape(client, partition=1) == (2, 2, [] if commit else [0])


def test_what_was_decided_is_carried_out_after_a_kill(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker(data_dir=tmp_path, topics=["orders"], separate_process=True,
                          config={"transaction.marker.delay.ms": 60_000})
    with connect(broker) as client:
        transactions = transactions_of(client)
        transactions.init()
        transactions.produce("orders", 0, 0)
        find_group(client, "readers")
        txn_offset_commit(transactions, "readers", "orders", 0, 5, version=5)
        assert transactions.end(commit=True) == 0
        assert transactions.describe()["transaction_state"] == "PrepareCommit"
        assert transactions.end_once(commit=True, producer_epoch=0)["error_code"] == CONCURRENT
        assert transactions.init_once()["error_code"] == CONCURRENT
        assert transactions.produce_once("orders", 0, 0)["error_code"] == CONCURRENT
        answer = transactions.produce_once("orders", 0, 0, version=11)
        assert (answer["error_code"], answer["error_message"]) == (
            NOT_ENOUGH_REPLICAS, "Unable to verify the partition has been added to the transaction. Underlying error: "
                                 "CONCURRENT_TRANSACTIONS")
        assert shape(client) == (1, 0, [])
    broker._cluster._process.kill()  # type: ignore[union-attr]  # the child process
    broker.stop()
    broker = start_broker(data_dir=tmp_path, separate_process=True)
    with connect(broker) as client:
        transactions.client = client
        transactions.await_state("CompleteCommit")
        assert shape(client) == (2, 2, [])
        answer = client.request(ApiKeys.OFFSET_FETCH, 7, {
            "group_id": "readers", "topics": [{"name": "orders", "partition_indexes": [0]}], "require_stable": True})
        (partition,) = answer["topics"][0]["partitions"]
        assert (partition["error_code"], partition["committed_offset"]) == (0, 5)
        assert transactions.produce("orders", 0, 0) == (0, 2)


def test_time_runs_out_while_the_broker_is_down(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker(data_dir=tmp_path, topics=["orders"])
    with connect(broker) as client:
        transactions = transactions_of(client)
        transactions.init(timeout_ms=2000)
        transactions.produce("orders", 0, 0)
    broker.stop()
    time.sleep(2.1)
    broker = start_broker(data_dir=tmp_path)
    with connect(broker) as client:
        transactions.client = client
        transactions.await_state("CompleteAbort")
        assert shape(client) == (2, 2, [0])


def test_epochs_are_not_given_twice_over_a_restart(start_broker: StartBroker, tmp_path: Path) -> None:
    identities = []
    for _ in range(3):
        broker = start_broker(data_dir=tmp_path)
        with connect(broker) as client:
            transactions = transactions_of(client)
            identities += [transactions.init(), transactions.init()]
        broker.stop()
    producer_id = identities[0].producer_id
    assert identities == [(producer_id, epoch) for epoch in range(6)]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_level_of_the_feature_is_told_and_old_clients_are_served_at_each(
        start_broker: StartBroker, level: int) -> None:
    broker = start_broker(topics=["orders"], config={"transaction.version": level})
    with connect(broker) as client:
        answer = client.request(ApiKeys.API_VERSIONS, 4, {
            "client_software_name": "probe", "client_software_version": "1"})
        assert [(feature["name"], feature["max_version_level"]) for feature in answer["finalized_features"]] == (
            [] if level == 0 else [("transaction.version", level)])
        transactions = transactions_of(client)
        transactions.init(version=4)
        transactions.add_partitions({"orders": [0]})
        assert transactions.produce("orders", 0, 0, version=11) == (0, 0)
        assert transactions.end(commit=False, version=4) == 0
        assert shape(client) == (2, 2, [0])
        # Fenced below level 2 means fenced: the producer cannot take its epoch up again.
        transactions.init(timeout_ms=100)
        transactions.add_partitions({"orders": [0]})
        identity = transactions.identity
        transactions.await_state("CompleteAbort")
        answer = transactions.init_once(producer_id=identity.producer_id, producer_epoch=identity.epoch)
        assert answer["error_code"] == (0 if level == 2 else 90)


def test_an_older_release_has_no_feature(start_broker: StartBroker) -> None:
    broker = start_broker()
    broker.set_api_versions("3.6")
    with connect(broker) as client:
        answer = client.request(ApiKeys.API_VERSIONS, 3, {
            "client_software_name": "probe", "client_software_version": "1"})
    assert list(answer["finalized_features"]) == []


def test_nodes_share_transactions_and_one_speaks_for_them(start_broker: StartBroker) -> None:
    broker = start_broker(brokers=2, topics={"orders": 2})
    ports = [int(address.rpartition(":")[2]) for address in broker.bootstrap_servers.split(",")]
    broker.move_leader("orders", 0, 1)
    broker.move_leader("orders", 1, 2)
    with connect(broker, ports[0]) as first, connect(broker, ports[1]) as second:
        transactions_of(first)
        broker.move_coordinator("shop", 1, key_type="transaction")
        transactions, other = RawTransactions(first, "shop"), RawTransactions(second, "shop")
        assert other.init_once()["error_code"] == NOT_COORDINATOR
        other.producer_id, other.epoch = transactions.init()
        assert transactions.produce("orders", 0, 0) == (0, 0)
        assert other.produce("orders", 1, 0) == (0, 0)
        broker.move_coordinator("shop", 2, key_type="transaction")
        assert transactions.describe()["error_code"] == NOT_COORDINATOR
        assert other.topics() == {"orders": [0, 1]}
        assert other.end(commit=False) == 0
        assert shape(first) == (2, 2, [0])
        assert shape(second, partition=1) == (2, 2, [0])


def test_markers_wait_for_a_partition_without_a_leader(start_broker: StartBroker) -> None:
    broker = start_broker(topics={"orders": 2})
    with connect(broker) as client:
        transactions = transactions_of(client)
        transactions.init()
        for partition in (0, 1):
            transactions.produce("orders", partition, 0)
        broker.move_leader("orders", 1, None)
        assert transactions.end(commit=True) == 0
        assert shape(client) == (2, 2, [])
        assert transactions.describe()["transaction_state"] == "PrepareCommit"
        broker.move_leader("orders", 1, 1)
        transactions.await_state("CompleteCommit")
        assert shape(client, partition=1) == (2, 2, [])


@pytest.mark.parametrize("reason", ["too few in sync", "coordinator away", "scripted", "scripted for the partition"])
@pytest.mark.parametrize("version", [11, 12])
def test_the_first_batch_when_it_is_refused_for_a_while_then_the_second_does_not_overtake_it(
        start_broker: StartBroker, reason: str, version: int) -> None:
    """The second was stored, for an unknown producer may begin anywhere; the first was out of order then.

    librdkafka, which has Transactions V1, takes that for "stored before": it committed without the record.
    """
    broker = start_broker(brokers=2, config={"default.replication.factor": 2})
    broker.create_topic("orders", 1, {"min.insync.replicas": "2"})
    broker.move_leader("orders", 0, 1)
    broker.move_coordinator("shop", 1, key_type="transaction")
    with connect(broker) as client:
        transactions = RawTransactions(client, "shop")
        transactions.init()
        assert transactions.add_partitions({"orders": [0]}) == {("orders", 0): 0}
        if reason == "too few in sync":
            broker.stop_following(2, "orders", 0)
        elif reason == "coordinator away":
            broker.move_coordinator("shop", None, key_type="transaction")
        else:
            topic = None if reason == "scripted" else "orders"
            broker.faults.on("Produce", topic=topic).error("NOT_ENOUGH_REPLICAS")
        assert transactions.produce_once("orders", 0, 0, version=version)["error_code"] == NOT_ENOUGH_REPLICAS
        if reason == "too few in sync":
            broker.resume_following(2, "orders", 0)
        elif reason == "coordinator away":
            broker.move_coordinator("shop", 1, key_type="transaction")
        codes = [transactions.produce_once("orders", 0, sequence, version=version)["error_code"]
                 for sequence in (2, 1, 0, 1)]
        assert codes == [OUT_OF_ORDER, OUT_OF_ORDER, 0, 0]
        assert transactions.end(commit=True, version=5 if version == 12 else 4) == 0
    assert broker.log_end_offsets("orders")[0] == 3


def test_a_topic_that_is_deleted_does_not_hold_its_transaction(start_broker: StartBroker) -> None:
    broker = start_broker(topics=["orders", "extra"])
    with connect(broker) as client:
        transactions = transactions_of(client)
        transactions.init()
        transactions.produce("orders", 0, 0)
        transactions.produce("extra", 0, 0)
        client.request(ApiKeys.DELETE_TOPICS, 3, {"topic_names": ["extra"], "timeout_ms": 5000})
        assert transactions.end(commit=True) == 0
        transactions.await_state("CompleteCommit")
        assert shape(client) == (2, 2, [])


def test_what_the_authorizer_denies(start_broker: StartBroker) -> None:
    broker = start_broker(topics=["orders"])
    state = broker._cluster.state  # type: ignore[union-attr]  # in this process
    with connect(broker) as client:
        transactions = transactions_of(client)
        transactions.init()
        state.authorizer = lambda _context, _operation, resource_type, _name: (
            resource_type.value != "TRANSACTIONAL_ID")
        assert transactions.init_once()["error_code"] == 53
        assert transactions.add_partitions({"orders": [0]}) == {("orders", 0): 53}
        assert transactions.produce("orders", 0, 0) == (53, -1)
        assert transactions.produce("orders", 0, 0, is_transactional=False) == (0, 0), "no transaction"
        assert transactions.add_offsets("readers") == 53
        assert txn_offset_commit(transactions, "readers", "orders", 0, 1) == 53
        assert transactions.end(commit=False) == 53
        assert transactions.describe()["error_code"] == 53
        state.authorizer = lambda _context, _operation, resource_type, _name: resource_type.value != "GROUP"
        assert transactions.add_offsets("readers") == 30
        assert txn_offset_commit(transactions, "readers", "orders", 0, 1) == 30
        state.authorizer = lambda _context, operation, _resource_type, _name: operation.value != "CLUSTER_ACTION"
        assert client.request(ApiKeys.ADD_PARTITIONS_TO_TXN, 4, {"transactions": []})["error_code"] == 31


def test_acks_0_of_an_old_epoch_closes_the_connection(start_broker: StartBroker) -> None:
    broker = start_broker(topics=["orders"])
    with connect(broker) as client, connect(broker) as other:
        transactions = transactions_of(client)
        transactions.init()
        transactions.produce("orders", 0, 0)
        transactions.end(commit=True)
        (batch,) = list(read_batches(bytes(read_committed(client, "orders", max_bytes=1)["records"])))[:1]
        other.send_request(ApiKeys.PRODUCE, 12, {
            **produce_body("orders", 0, bytes(batch.data), acks=0), "transactional_id": "shop"})
        assert other.is_closed()
        again = client.request(ApiKeys.PRODUCE, 12, {
            **produce_body("orders", 0, bytes(batch.data)), "transactional_id": "shop"})
        assert produced(again)["error_code"] == 47
