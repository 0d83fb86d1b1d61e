"""The other APIs of transactions, and reading committed records, as they were measured on Apache Kafka 4.1.

The same tests run against it with KAFKA_REFERENCE=host:port.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import build_batch
from tests.embedded.conftest import WireTarget
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, fetch_body, fetched, list_offsets_body, produced
from tests.support.raw_transactions import (
    READ_COMMITTED,
    RawTransactions,
    read_committed,
    settled,
    txn_offset_commit,
)

INVALID_EPOCH = 47
INVALID_STATE = 48
INVALID_MAPPING = 49
NOT_ATTEMPTED = 55
FENCED = 90
ABORTABLE = 120
OFFSETS_TOPIC = "__consumer_offsets"

Begin = Callable[..., RawTransactions]


def await_group_coordinator(client: RawClient, group: str) -> None:
    settled(lambda: client.request(ApiKeys.FIND_COORDINATOR, 3, {"key": group, "key_type": 0}))


def batches(answer: Struct) -> list[tuple[int, bool]]:
    return [(batch.base_offset, batch.is_control) for batch in read_batches(answer["records"])]


def aborted(answer: Struct) -> list[tuple[int, int]]:
    return [(entry["producer_id"], entry["first_offset"]) for entry in answer["aborted_transactions"]]


# ---- AddPartitionsToTxn

def test_add_partitions_adds_all_or_none(begin: Begin, topic: str) -> None:
    transactions = begin()
    assert transactions.add_partitions({"nope": [0], topic: [2]}) == {("nope", 0): 3, (topic, 2): NOT_ATTEMPTED}
    assert transactions.add_partitions({topic: [0, 17]}) == {(topic, 0): NOT_ATTEMPTED, (topic, 17): 3}
    assert transactions.add_partitions({"__transaction_state": [0]}) == {("__transaction_state", 0): 29}
    assert transactions.describe()["transaction_state"] == "Empty"
    assert transactions.add_partitions({topic: [0]}) == {(topic, 0): 0}
    assert transactions.add_partitions({topic: [0, 2]}) == {(topic, 0): 0, (topic, 2): 0}
    assert transactions.topics() == {topic: [0, 2]}


def test_add_partitions_of_others_is_refused(begin: Begin, topic: str) -> None:
    transactions = begin()
    one = {topic: [0]}

    def code(version: int = 3, **fields: object) -> int:
        return transactions.add_partitions(one, version=version, **{
            f"v3_and_below_{name}": value for name, value in fields.items()})[topic, 0]

    assert code(producer_epoch=77) == FENCED
    assert code(version=1, producer_epoch=77) == INVALID_EPOCH
    assert code(producer_id=transactions.producer_id + 77_777) == INVALID_MAPPING
    assert code(transactional_id="nobody") == INVALID_MAPPING
    assert code(transactional_id="") == 42


def test_add_partitions_in_batches_adds_or_only_verifies(begin: Begin, topic: str) -> None:
    transactions = begin()

    def codes(verify_only: bool, indexes: list[int], version: int = 4, **fields: object) -> dict[int, int]:
        answer = transactions.client.request(ApiKeys.ADD_PARTITIONS_TO_TXN, version, {"transactions": [{
            "transactional_id": transactions.transactional_id, "producer_id": transactions.producer_id,
            "producer_epoch": transactions.epoch, "verify_only": verify_only,
            "topics": [{"name": topic, "partitions": indexes}], **fields}]})
        assert answer["error_code"] == 0
        (found,) = answer["results_by_transaction"]
        (of_topic,) = found["topic_results"]
        return {one["partition_index"]: one["partition_error_code"] for one in of_topic["results_by_partition"]}

    assert codes(True, [0]) == {0: ABORTABLE}
    assert codes(False, [0, 1]) == {0: 0, 1: 0}
    assert codes(True, [0, 2]) == {0: 0, 2: ABORTABLE}
    assert codes(False, [2], version=5) == {2: 0}
    assert codes(True, [2], version=5, producer_epoch=9) == {2: FENCED}
    assert codes(True, [2], transactional_id="nobody") == {2: INVALID_MAPPING}
    assert codes(True, [2], transactional_id="") == {2: 42}
    assert transactions.topics() == {topic: [0, 1, 2]}


# ---- offsets

def committed_offset(client: RawClient, group: str, topic: str, *, stable: bool = True) -> tuple[int, int]:
    """Return code and offset of partition 0."""
    answer = client.request(ApiKeys.OFFSET_FETCH, 7, {
        "group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}], "require_stable": stable})
    (partition,) = answer["topics"][0]["partitions"]
    return partition["error_code"], partition["committed_offset"]


@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_offsets_count_when_the_transaction_is_committed(
        begin: Begin, wire_client: RawClient, topic: str, version: int) -> None:
    transactions = begin()
    group = f"group-{topic}"
    await_group_coordinator(wire_client, group)
    end_version = 5 if version == 5 else min(version, 4)
    for commit, expected in ((False, -1), (True, 8)):
        if version < 5:
            assert transactions.add_offsets(group, version=min(version, 3)) == 0
        assert txn_offset_commit(transactions, group, topic, 0, 8, version=version) == 0
        assert list(transactions.topics()) == [OFFSETS_TOPIC]
        assert committed_offset(wire_client, group, topic) == (88, -1), "an open transaction may change it"
        assert committed_offset(wire_client, group, topic, stable=False) == (0, -1)
        assert transactions.end(commit=commit, version=end_version) == 0
        transactions.await_state("CompleteCommit" if commit else "CompleteAbort")
        deadline = time.monotonic() + GIVE_UP_S
        while (found := committed_offset(wire_client, group, topic))[0] == 88 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert found == (0, expected)


def test_offsets_outside_of_a_transaction_are_refused(begin: Begin, wire_client: RawClient, topic: str) -> None:
    transactions = begin()
    group = f"group-{topic}"
    await_group_coordinator(wire_client, group)
    assert txn_offset_commit(transactions, group, topic, 0, 8, version=3) == INVALID_STATE
    assert txn_offset_commit(transactions, group, topic, 0, 8, version=4) == ABORTABLE
    for version in (3, 4, 5):
        def code(group_id: str = group, name: str = topic, index: int = 0, version: int = version,
                 **fields: object) -> int:
            return txn_offset_commit(transactions, group_id, name, index, 8, version=version, **fields)

        assert code(transactional_id="nobody") == INVALID_MAPPING
        assert code(transactional_id="") == 42
        assert code(producer_id=transactions.producer_id + 987_654) == INVALID_MAPPING
        assert code(producer_epoch=transactions.epoch + 4) == INVALID_EPOCH
        assert code(group_id="") == 24
        assert code(index=33) == 3
        assert code(name="nope") == 3
    stranger = {"version": 5, "generation_id": 5, "member_id": "x"}
    assert txn_offset_commit(transactions, group, topic, 0, 8, **stranger) == 22, "there is no group"
    assert txn_offset_commit(transactions, group, topic, 0, 8, version=5) == 0
    assert txn_offset_commit(transactions, group, topic, 0, 8, **stranger) == 25


def test_add_offsets_codes(begin: Begin, topic: str) -> None:
    transactions = begin()
    group = f"group-{topic}"
    assert [transactions.add_offsets(group, version=version) for version in range(5)] == [0] * 5
    assert transactions.add_offsets("") == 0
    transactions.epoch += 5
    assert [transactions.add_offsets(group, version=version) for version in range(5)] == [
        INVALID_EPOCH, INVALID_EPOCH, FENCED, FENCED, FENCED]


# ---- reading

def test_committed_reading_stops_before_open_transactions_and_lists_aborted_ones(
        begin: Begin, wire_client: RawClient, topic: str) -> None:
    first, second = begin(), begin()
    assert [first.produce(topic, 0, 0), second.produce(topic, 0, 0), first.produce(topic, 0, 1)] == [
        (0, 0), (0, 1), (0, 2)]
    answer = read_committed(wire_client, topic)
    assert (answer["error_code"], answer["high_watermark"], answer["last_stable_offset"]) == (0, 3, 0)
    assert (batches(answer), aborted(answer)) == ([], [])
    assert batches(read_committed(wire_client, topic, 0, 1)) == []
    assert second.end(commit=True) == 0
    second.await_state("CompleteCommit")
    assert read_committed(wire_client, topic)["last_stable_offset"] == 0
    assert first.end(commit=False) == 0
    first.await_state("CompleteAbort")
    answer = read_committed(wire_client, topic)
    assert answer["last_stable_offset"] == answer["high_watermark"] == 5
    everything = [(0, False), (1, False), (2, False), (3, True), (4, True)]
    assert batches(answer) == everything
    assert aborted(answer) == [(first.producer_id, 0)]
    assert aborted(read_committed(wire_client, topic, 0, 4)) == [(first.producer_id, 0)]
    assert aborted(read_committed(wire_client, topic, 0, 5)) == []
    first.produce(topic, 0, 0)
    answer = read_committed(wire_client, topic)
    assert (batches(answer), answer["last_stable_offset"], answer["high_watermark"]) == (everything, 5, 6)
    uncommitted = fetched(wire_client.request(ApiKeys.FETCH, 11, fetch_body(11, topic, 0, 0)))
    assert batches(uncommitted) == [*everything, (5, False)]
    assert uncommitted["aborted_transactions"] is None
    assert uncommitted["last_stable_offset"] == 5


def test_a_waiting_committed_fetch_is_answered_by_the_marker(
        begin: Begin, wire: WireTarget, wire_client: RawClient, topic: str) -> None:
    transactions = begin()
    transactions.produce(topic, 0, 0)
    with wire.connect() as reader:
        body = fetch_body(11, topic, 0, 0, max_wait_ms=600_000)
        reader.send_request(ApiKeys.FETCH, 11, {**body, "isolation_level": READ_COMMITTED})
        assert reader.is_silent(for_s=0.3)
        assert transactions.end(commit=True) == 0
        _, answer = reader.receive_response(ApiKeys.FETCH, 11)  # gives up long before the fetch does
    assert batches(fetched(answer)) == [(0, False), (1, True)]


def test_committed_offsets_by_time_end_at_the_last_stable_offset(
        begin: Begin, wire_client: RawClient, topic: str) -> None:
    def offset(timestamp: int, isolation_level: int) -> int:
        answer = wire_client.request(ApiKeys.LIST_OFFSETS, 7, list_offsets_body(
            topic, 0, timestamp, isolation_level=isolation_level))
        found: int = answer["topics"][0]["partitions"][0]["offset"]
        return found

    transactions = begin()
    transactions.produce(topic, 0, 0)
    transactions.end(commit=True)
    transactions.await_state("CompleteCommit")
    time.sleep(0.02)
    start_ms = int(time.time() * 1000)
    transactions.produce(topic, 0, 0)
    latest, earliest, newest = -1, -2, -3
    assert [offset(timestamp, 0) for timestamp in (latest, earliest, newest, 0, start_ms)] == [3, 0, 2, 0, 2]
    assert [offset(timestamp, 1) for timestamp in (latest, earliest, newest, 0, start_ms)] == [2, 0, -1, 0, -1]


# ---- looking at them

def test_describe_transactions_of_unknown_ids(begin: Begin) -> None:
    transactions = begin()
    answer = transactions.client.request(ApiKeys.DESCRIBE_TRANSACTIONS, 0, {
        "transactional_ids": ["nobody", "", transactions.transactional_id]})
    assert [(state["error_code"], state["transaction_state"], state["producer_id"])
            for state in answer["transaction_states"]] == [
        (105, "", 0), (42, "", 0), (0, "Empty", transactions.producer_id)]
    assert answer["transaction_states"][2]["transaction_start_time_ms"] == -1


def test_list_transactions_filters(begin: Begin, topic: str) -> None:
    idle, busy = begin(), begin()
    busy.produce(topic, 0, 0)
    own = [idle.producer_id, busy.producer_id]

    def listed(version: int, states: list[str], **fields: object) -> list[tuple[str, str]]:
        answer = idle.client.request(ApiKeys.LIST_TRANSACTIONS, version, {
            "state_filters": states, "producer_id_filters": own, **fields})
        assert answer["error_code"] == 0
        return sorted((found["transactional_id"], found["transaction_state"])
                      for found in answer["transaction_states"])

    both = [(idle.transactional_id, "Empty"), (busy.transactional_id, "Ongoing")]
    assert listed(0, []) == both
    assert listed(0, ["Ongoing"]) == both[1:]
    assert listed(1, [], duration_filter=3_600_000) == both[:1], "without a start it is as old as can be"
    assert listed(1, [], duration_filter=-1) == both
    assert listed(2, [], transactional_id_pattern=f"{idle.transactional_id[:-1]}.") == both
    assert listed(2, [], transactional_id_pattern=idle.transactional_id[:-1]) == []
    assert listed(2, [], transactional_id_pattern=None) == both
    answer = idle.client.request(ApiKeys.LIST_TRANSACTIONS, 0, {
        "state_filters": ["Foo", "Dead", "PrepareEpochFence"], "producer_id_filters": []})
    assert (answer["unknown_state_filters"], answer["transaction_states"]) == (["Foo"], [])
    answer = idle.client.request(ApiKeys.LIST_TRANSACTIONS, 2, {
        "state_filters": [], "producer_id_filters": [], "transactional_id_pattern": "(["})
    assert answer["error_code"] == 128


def test_describe_producers(begin: Begin, topic: str) -> None:
    open_one, ended = begin(), begin()
    open_one.produce(topic, 0, 0, count=2)
    ended.produce(topic, 0, 0)
    ended.end(commit=True)
    ended.await_state("CompleteCommit")
    answer = open_one.client.request(ApiKeys.DESCRIBE_PRODUCERS, 0, {"topics": [
        {"name": topic, "partition_indexes": [0, 9]}, {"name": "nope", "partition_indexes": [0]}]})
    found, unknown_partition, unknown_topic = (
        partition for of_topic in answer["topics"] for partition in of_topic["partitions"])
    assert [(producer["producer_id"], producer["producer_epoch"], producer["last_sequence"],
             producer["current_txn_start_offset"]) for producer in found["active_producers"]] == [
        (open_one.producer_id, 0, 1, 0), (ended.producer_id, 1, -1, -1)]
    assert all(producer["last_timestamp"] > 0 for producer in found["active_producers"])
    assert (unknown_partition["error_code"], unknown_partition["error_message"]) == (3, None)
    assert (unknown_topic["error_code"], unknown_topic["error_message"]) == (
        3, "This server does not host this topic-partition.")


@pytest.mark.parametrize(("version", "supported"), [(3, []), (4, [("transaction.version", 0, 2)])])
def test_api_versions_tells_the_feature(wire_client: RawClient, version: int,
                                        supported: list[tuple[str, int, int]]) -> None:
    answer = wire_client.request(ApiKeys.API_VERSIONS, version, {
        "client_software_name": "probe", "client_software_version": "1"})
    assert [(feature["name"], feature["min_version"], feature["max_version"])
            for feature in answer["supported_features"] if feature["name"] == "transaction.version"] == supported
    assert [(feature["min_version_level"], feature["max_version_level"])
            for feature in answer["finalized_features"] if feature["name"] == "transaction.version"] == [(2, 2)]
    assert answer["finalized_features_epoch"] >= 0


def test_two_partitions_of_one_request_are_one_transaction(begin: Begin, wire_client: RawClient, topic: str) -> None:
    transactions = begin()
    records = build_batch([(int(time.time() * 1000), None, b"v", ())], producer_id=transactions.producer_id,
                          producer_epoch=0, base_sequence=0, is_transactional=True)
    body = {"transactional_id": transactions.transactional_id, "acks": -1, "timeout_ms": 5000, "topic_data": [
        {"name": topic, "partition_data": [{"index": index, "records": records} for index in (0, 1)]}]}
    answer = wire_client.request(ApiKeys.PRODUCE, 12, body)
    assert produced(answer)["error_code"] == 0
    assert transactions.topics() == {topic: [0, 1]}
    transactions.end(commit=False)
    transactions.await_state("CompleteAbort")
    for index in (0, 1):
        assert aborted(read_committed(wire_client, topic, index)) == [(transactions.producer_id, 0)]
