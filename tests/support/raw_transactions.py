"""A transactional producer without a client: each request as the test wants it, in the version it wants.

No import of pytest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyproducer.protocol.apis import ApiKeys
from pyproducer.protocol.schema import Struct
from pyproducer.record.batch_writer import build_batch
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import RawClient, fetch_body, fetched, produce_body, produced

READ_COMMITTED = 1
CONCURRENT_TRANSACTIONS = 51
# Coordinator loading, not available, not coordinator; and a transaction that is being completed.
NOT_YET = (14, 15, 16, CONCURRENT_TRANSACTIONS)
# 19: what Kafka makes of those in a Produce response.
PRODUCE_NOT_YET = (19, CONCURRENT_TRANSACTIONS)


class ProducerId(NamedTuple):
    """What a coordinator gave."""

    producer_id: int
    epoch: int


def settled(call: Callable[[], Struct], *, code: Callable[[Struct], int] = lambda answer: answer["error_code"],
            not_yet: Sequence[int] = NOT_YET, within_s: float = GIVE_UP_S) -> Struct:
    """Ask again while the answer says to."""
    deadline = time.monotonic() + within_s
    while code(answer := call()) in not_yet:
        assert time.monotonic() < deadline, f"still {answer}"
        time.sleep(0.02)
    return answer


class RawTransactions:
    """The requests of one transactional id, over one connection."""

    def __init__(self, client: RawClient, transactional_id: str) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1

    @property
    def identity(self) -> ProducerId:
        return ProducerId(self.producer_id, self.epoch)

    # ---- coordinator

    def find_coordinator(self) -> None:
        """Wait until there is one; in Kafka the first question makes the topic."""
        settled(lambda: self.client.request(ApiKeys.FIND_COORDINATOR, 3, {
            "key": self.transactional_id, "key_type": 1}))

    def init_once(self, version: int = 5, *, timeout_ms: int = 30_000, **fields: Any) -> Struct:
        return self.client.request(ApiKeys.INIT_PRODUCER_ID, version, {
            "transactional_id": self.transactional_id, "transaction_timeout_ms": timeout_ms, **fields})

    def init(self, version: int = 5, **fields: Any) -> ProducerId:
        """Take a producer id and epoch, and use them from now on."""
        answer = settled(lambda: self.init_once(version, **fields))
        assert answer["error_code"] == 0, answer
        self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        return self.identity

    def add_partitions(self, partitions: dict[str, list[int]], version: int = 3,
                       **fields: Any) -> dict[tuple[str, int], int]:
        """Return the codes by topic and partition."""
        def ask() -> Struct:
            return self.client.request(ApiKeys.ADD_PARTITIONS_TO_TXN, version, {
                "v3_and_below_transactional_id": self.transactional_id, "v3_and_below_producer_id": self.producer_id,
                "v3_and_below_producer_epoch": self.epoch, "v3_and_below_topics": [
                    {"name": topic, "partitions": indexes} for topic, indexes in partitions.items()], **fields})

        def first_code(answer: Struct) -> int:
            code: int = answer["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"]
            return code

        answer = settled(ask, code=first_code)
        return {(topic["name"], partition["partition_index"]): partition["partition_error_code"]
                for topic in answer["results_by_topic_v3_and_below"] for partition in topic["results_by_partition"]}

    def add_offsets(self, group: str, version: int = 3) -> int:
        answer = settled(lambda: self.client.request(ApiKeys.ADD_OFFSETS_TO_TXN, version, {
            "transactional_id": self.transactional_id, "producer_id": self.producer_id,
            "producer_epoch": self.epoch, "group_id": group}))
        code: int = answer["error_code"]
        return code

    def end_once(self, *, commit: bool, version: int = 5, **fields: Any) -> Struct:
        return self.client.request(ApiKeys.END_TXN, version, {
            "transactional_id": self.transactional_id, "producer_id": self.producer_id,
            "producer_epoch": self.epoch, "committed": commit, **fields})

    def end(self, *, commit: bool, version: int = 5, **fields: Any) -> int:
        """End it; from version 5 go on with the identity that the answer has. Returns the code."""
        answer = settled(lambda: self.end_once(commit=commit, version=version, **fields))
        if version >= 5 and answer["error_code"] == 0:
            self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        code: int = answer["error_code"]
        return code

    def describe(self) -> Struct:
        (state,) = self.client.request(ApiKeys.DESCRIBE_TRANSACTIONS, 0, {
            "transactional_ids": [self.transactional_id]})["transaction_states"]
        found: Struct = state
        return found

    def topics(self) -> dict[str, list[int]]:
        """Return what is in the open transaction."""
        return {topic["topic"]: sorted(topic["partitions"]) for topic in self.describe()["topics"]}

    def await_state(self, name: str) -> Struct:
        """Wait until the coordinator tells this state."""
        deadline = time.monotonic() + GIVE_UP_S
        while (found := self.describe())["transaction_state"] != name:
            assert time.monotonic() < deadline, f"{found}, expected {name}"
            time.sleep(0.02)
        return found

    # ---- records

    def produce_once(self, topic: str, partition: int, sequence: int, *, count: int = 1, version: int = 12,
                     is_transactional: bool = True, epoch: int | None = None,
                     transactional_id: str | None = "", value: bytes = b"v") -> Struct:
        at = int(time.time() * 1000)
        records = build_batch([(at, b"k", value, ())] * count, producer_id=self.producer_id,
                              producer_epoch=self.epoch if epoch is None else epoch, base_sequence=sequence,
                              is_transactional=is_transactional)
        body = produce_body(topic, partition, records)
        body["transactional_id"] = self.transactional_id if transactional_id == "" else transactional_id
        return produced(self.client.request(ApiKeys.PRODUCE, version, body))

    def produce(self, topic: str, partition: int, sequence: int, **fields: Any) -> tuple[int, int]:
        """Append once the last transaction is complete; return code and base offset."""
        answer = settled(lambda: self.produce_once(topic, partition, sequence, **fields), not_yet=PRODUCE_NOT_YET)
        return answer["error_code"], answer["base_offset"]


def txn_offset_commit(transaction: RawTransactions, group: str, topic: str, partition: int, offset: int, *,
                      version: int = 3, **fields: Any) -> int:
    """Stage an offset; return its code."""
    def ask() -> Struct:
        answer = transaction.client.request(ApiKeys.TXN_OFFSET_COMMIT, version, {
            "transactional_id": transaction.transactional_id, "group_id": group,
            "producer_id": transaction.producer_id, "producer_epoch": transaction.epoch, "topics": [
                {"name": topic, "partitions": [{"partition_index": partition, "committed_offset": offset,
                                                "committed_metadata": "m"}]}], **fields})
        found: Struct = answer["topics"][0]["partitions"][0]
        return found

    code: int = settled(ask)["error_code"]
    return code


def read_committed(client: RawClient, topic: str, partition: int = 0, offset: int = 0, *, version: int = 11,
                   **fields: Any) -> Struct:
    """Fetch with isolation level read_committed; the partition's answer."""
    body = fetch_body(version, topic, partition, offset, **fields)
    return fetched(client.request(ApiKeys.FETCH, version, {**body, "isolation_level": READ_COMMITTED}))
