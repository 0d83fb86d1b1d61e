"""Records of a transaction and the marker that ends it, in two handlers at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.apis import produce
from pyproducer.broker.apis.services import Services
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.coordinator.internal_topics import TRANSACTION_STATE_TOPIC_NAME
from pyproducer.broker.cluster.coordinator.transaction.append_guard import AppendGuard
from pyproducer.broker.cluster.coordinator.transaction.coordinator import ProducerAnswer
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.cluster.partition import Partition
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import read_batches
from pyproducer.record.batch_writer import build_batch
from tests.support.broker_request import broker_request
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.support.raw_client import produce_body

ORDERS = TopicPartition("orders", 0)
SHOP = "shop"
# Produce 11 and EndTxn 4 are of a client whose partitions are added by a request; 12 and 5 of Transactions V2.
IMPLICIT_ADD = 12


class Shop:
    """A cluster with one topic, and one transactional producer that has begun."""

    def __init__(self, state: ClusterState, clock: ManualClock) -> None:
        self.state = state
        self.clock = clock
        state.brokers.register(BrokerInfo(1, {}, None))
        state.topic_life.create_topic(ORDERS.topic, 1, {})
        assert state.internal_topics.get_or_create(TRANSACTION_STATE_TOPIC_NAME) is not None
        self.services = Services(1, state, state.config, clock, lambda _request, _answer: None, {})
        code, self.producer_id, self.producer_epoch = state.transactions.initialize(SHOP, 60_000, None)
        assert code is ErrorCode.NONE

    @property
    def partition(self) -> Partition:
        partition = self.state.topics.partition(*ORDERS)
        assert partition is not None
        return partition

    def records(self) -> bytes:
        return bytes(build_batch([(self.clock.timestamp_ms(), b"k", b"v", ())], producer_id=self.producer_id,
                                 producer_epoch=self.producer_epoch, base_sequence=0, is_transactional=True))

    def produce(self, version: int) -> int:
        """Handle one Produce request of the producer; return its partition's code."""
        if version < IMPLICIT_ADD:
            assert self.state.transactions.add_partitions(
                SHOP, self.producer_id, self.producer_epoch, (ORDERS,),
                client_transaction_version=1) is ErrorCode.NONE
        body = {**produce_body(ORDERS.topic, 0, self.records()), "transactional_id": SHOP}
        answer: Any = produce.handle(self.services, broker_request(ApiKeys.PRODUCE, version, body))
        code: int = answer["responses"][0]["partition_responses"][0]["error_code"]
        return code

    def end(self, version: int) -> ProducerAnswer:
        return self.state.transactions.end(SHOP, self.producer_id, self.producer_epoch, commit=True,
                                           client_transaction_version=2 if version >= IMPLICIT_ADD else 1)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    clock = ManualClock()
    state = ClusterState(tmp_path, BrokerConfig({"transaction.state.log.num.partitions": 1}), clock)
    state.start()
    yield Shop(state, clock)
    state.close()


@pytest.mark.parametrize("version", [11, 12])
def test_append_when_its_transaction_is_ended_in_the_middle_of_it_then_the_marker_comes_behind_it(
        shop: Shop, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """A commit came between the look at the transaction and the append, in another handler.

    Without the id's lock the batch was stored behind its marker, or refused although its transaction was told to be
    committed; stored, it opened the transaction again, for ever, and who reads committed records stood still there.
    """
    partition = shop.partition
    append = partition.append
    ended: list[ProducerAnswer] = []
    ending = threading.Thread(target=lambda: ended.append(shop.end(version)))

    def append_while_it_ends(*arguments: Any, **fields: Any) -> Any:
        ending.start()
        ending.join(0.2)  # in vain: it waits for the append
        return append(*arguments, **fields)

    monkeypatch.setattr(partition, "append", append_while_it_ends)
    assert shop.produce(version) == 0
    ending.join()
    assert [answer.error_code for answer in ended] == [ErrorCode.NONE]
    log = partition.log
    assert [batch.is_control for batch in read_batches(log.read(0, 1 << 20, at_least_one=True))] == [False, True]
    assert log.last_stable_offset == log.log_end_offset == 2


def test_append_when_the_transaction_has_ended_before_then_it_is_refused(shop: Shop) -> None:
    assert shop.produce(11) == 0
    assert shop.end(11).error_code is ErrorCode.NONE
    guard = AppendGuard(shop.state.transactions, SHOP, 11)
    with guard:
        fault = guard.check_batch(shop.partition, shop.records(), shop.clock.timestamp_ms())
    assert fault is not None
    assert fault.error_code is ErrorCode.TRANSACTION_ABORTABLE
    assert shop.partition.log.log_end_offset == 2


def test_guard_when_what_it_guards_raises_then_the_transaction_can_still_be_ended(shop: Shop) -> None:
    assert shop.produce(11) == 0
    with pytest.raises(OSError, match="disk"), AppendGuard(shop.state.transactions, SHOP, 11):
        raise OSError("the disk is full")
    ended: list[ProducerAnswer] = []
    ending = threading.Thread(target=lambda: ended.append(shop.end(11)), daemon=True)
    ending.start()
    ending.join(GIVE_UP_S)
    assert [answer.error_code for answer in ended] == [ErrorCode.NONE]


def test_guard_when_the_transactional_id_is_unknown_then_its_records_are_refused(shop: Shop) -> None:
    with AppendGuard(shop.state.transactions, "stranger", 11) as guard:
        fault = guard.check_batch(shop.partition, shop.records(), shop.clock.timestamp_ms())
    assert fault is not None
    assert fault.error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(("version", "code"), [
    (11, ErrorCode.NOT_ENOUGH_REPLICAS), (12, ErrorCode.CONCURRENT_TRANSACTIONS),
    (13, ErrorCode.CONCURRENT_TRANSACTIONS)])
def test_guard_when_the_transaction_before_is_not_complete_then_a_client_that_knows_the_code_is_told_so(
        shop: Shop, monkeypatch: pytest.MonkeyPatch, version: int, code: ErrorCode) -> None:
    monkeypatch.setattr(shop.state.transactions, "check_available", lambda _id: ErrorCode.CONCURRENT_TRANSACTIONS)
    with AppendGuard(shop.state.transactions, SHOP, version) as guard:
        fault = guard.check_batch(shop.partition, shop.records(), shop.clock.timestamp_ms())
    assert fault is not None
    assert fault.error_code is code
