"""How transactions end: markers that cannot be written yet, and who hears of those that are. A timer that tests run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer.broker.apis.kafka_apis import HANDLERS
from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.coordinator.internal_topics import TRANSACTION_STATE_TOPIC_NAME
from pyproducer.broker.cluster.coordinator.transaction.metadata import TransactionMetadata
from pyproducer.broker.cluster.coordinator.transaction.state import STATES_BY_ID, TransactionState
from pyproducer.broker.cluster.coordinator.transaction.transaction_records import transaction_record
from pyproducer.broker.cluster.delayed_operation import DelayedOperation
from pyproducer.broker.cluster.living_brokers import BrokerInfo
from pyproducer.broker.cluster.timer import TimerTask
from pyproducer.common.error_codes import ErrorCode
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.batch_writer import build_batch
from tests.support.broker_request import broker_request
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.unit.broker.cluster.coordinator.transaction.test_append_guard import IMPLICIT_ADD, ORDERS, SHOP, Shop


class LateShop(Shop):
    """A shop whose timer runs nothing by itself: what was scheduled is run by the test."""

    def __init__(self, state: ClusterState, clock: ManualClock) -> None:
        super().__init__(state, clock)
        self.scheduled: list[tuple[int, Callable[[], None]]] = []

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> TimerTask:
        self.scheduled.append((delay_ms, callback))
        return TimerTask(0, callback)

    def take_scheduled(self) -> Callable[[], None]:
        """Take what was scheduled last."""
        return self.scheduled.pop()[1]

    def write_state(self, *records: tuple[bytes | None, bytes | None]) -> None:
        """Put records into __transaction_state, as another broker may have."""
        (partition,) = self.state.internal_topics.partitions(TRANSACTION_STATE_TOPIC_NAME)
        partition.log.append(RecordBatch(build_batch([(0, key, value, ()) for key, value in records])), leader_epoch=0)

    def listed(self, *state_filters: str) -> Any:
        """Return what ListTransactions tells of these states, or of all."""
        return HANDLERS[ApiKeys.LIST_TRANSACTIONS].handle(self.services, broker_request(
            ApiKeys.LIST_TRANSACTIONS, 0, {"state_filters": list(state_filters), "producer_id_filters": []}))

    @property
    def transaction_state(self) -> TransactionState:
        found = self.state.transactions.describe(SHOP)
        assert found is not None
        return found.state

    @property
    def has_open_records(self) -> bool:
        """Whether readers of committed records wait for a marker."""
        return self.partition.log.last_stable_offset < self.partition.log.log_end_offset


@pytest.fixture
def open_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LateShop]]:
    states: list[ClusterState] = []

    def make(**settings: int) -> LateShop:
        clock = ManualClock()
        config = {name.replace("_", "."): value for name, value in settings.items()}
        state = ClusterState(tmp_path, BrokerConfig({"transaction.state.log.num.partitions": 1, **config}), clock)
        states.append(state)
        state.start()
        shop = LateShop(state, clock)
        monkeypatch.setattr(state.timer, "schedule", shop.schedule)
        return shop

    yield make
    for state in states:
        state.close()


def test_marker_when_the_disk_refuses_it_then_it_is_tried_again_until_it_is_written(
        open_shop: Callable[..., LateShop], monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that was full for a moment left the transaction open for ever, and its readers standing."""
    shop = open_shop()
    assert shop.produce(IMPLICIT_ADD) == 0

    def refuse(*_arguments: Any, **_fields: Any) -> None:
        raise OSError("no space left, by the test")

    with monkeypatch.context() as full:
        full.setattr(shop.partition.log, "append_marker", refuse)
        assert shop.end(IMPLICIT_ADD).error_code is ErrorCode.NONE
        shop.take_scheduled()()
    assert shop.transaction_state is TransactionState.PREPARE_COMMIT
    assert shop.has_open_records
    shop.take_scheduled()()
    assert shop.transaction_state is TransactionState.COMPLETE_COMMIT
    assert not shop.has_open_records


def test_end_when_a_topic_of_the_transaction_was_deleted_then_it_needs_no_marker(
        open_shop: Callable[..., LateShop]) -> None:
    shop = open_shop()
    assert shop.produce(IMPLICIT_ADD) == 0
    shop.state.topic_life.delete_topic(ORDERS.topic)
    assert shop.end(IMPLICIT_ADD).error_code is ErrorCode.NONE
    assert shop.transaction_state is TransactionState.COMPLETE_COMMIT


def test_marker_when_it_is_written_then_the_fetches_that_wait_for_its_partition_look_again(
        open_shop: Callable[..., LateShop]) -> None:
    shop = open_shop()
    assert shop.produce(IMPLICIT_ADD) == 0
    completed: list[bool] = []

    class Reading(DelayedOperation):
        def can_complete(self) -> bool:
            return not shop.has_open_records

        def on_complete(self, *, expired: bool) -> None:
            completed.append(expired)

    shop.state.delayed_fetches.try_complete_else_watch(Reading(60_000), [ORDERS])
    assert completed == []
    shop.end(IMPLICIT_ADD)
    assert completed == [False]


def test_marker_when_records_of_the_id_are_being_appended_then_it_waits_for_them(
        open_shop: Callable[..., LateShop]) -> None:
    """Markers that come later come on the timer's thread: the id's lock keeps them, too, from overtaking records."""
    shop = open_shop(transaction_marker_delay_ms=1000)
    assert shop.produce(IMPLICIT_ADD) == 0
    assert shop.end(IMPLICIT_ADD).error_code is ErrorCode.NONE
    timer = threading.Thread(target=shop.take_scheduled())
    lock = shop.state.transactions.lock_of(SHOP)
    assert lock is not None
    with lock:
        timer.start()
        timer.join(0.2)  # in vain: it waits for the lock
        assert shop.has_open_records
    timer.join(GIVE_UP_S)
    assert not timer.is_alive()
    assert not shop.has_open_records


class WatchedLock:
    """The lock of a transactional id; `reached` is set when somebody asks for it."""

    def __init__(self, lock: threading.RLock, reached: threading.Event) -> None:
        self._lock, self._reached = lock, reached

    def __enter__(self) -> None:
        self._reached.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize(("ask", "code", "state"), [
    (lambda shop: shop.state.transactions.verify_partition(SHOP, shop.producer_id, shop.producer_epoch, ORDERS),
     ErrorCode.TRANSACTION_ABORTABLE, TransactionState.COMPLETE_ABORT),
    (lambda shop: shop.state.transactions.add_partitions(
        SHOP, shop.producer_id, shop.producer_epoch, (ORDERS,), client_transaction_version=1),
     ErrorCode.NONE, TransactionState.ONGOING),
    (lambda shop: shop.end(11).error_code, ErrorCode.INVALID_TXN_STATE, TransactionState.COMPLETE_ABORT),
    (lambda shop: shop.state.transactions.initialize(SHOP, 60_000, None).error_code,
     ErrorCode.NONE, TransactionState.EMPTY),
    (lambda shop: shop.take_scheduled()(), None, TransactionState.COMPLETE_ABORT),
], ids=["verify", "add", "commit", "initialize", "timeout"])
def test_request_when_another_one_is_at_work_on_the_id_then_it_is_answered_by_what_that_one_leaves(
        open_shop: Callable[..., LateShop], ask: Callable[[LateShop], ErrorCode | None], code: ErrorCode | None,
        state: TransactionState) -> None:
    """The other one aborts: who looks at the transaction in the middle of that sees one that is still open."""
    shop = open_shop()
    assert shop.produce(11) == 0
    entry = shop.state.transactions._entries[SHOP]
    lock, reached, answers = entry.lock, threading.Event(), []
    entry.lock = WatchedLock(lock, reached)  # type: ignore[assignment]  # all that is asked of it

    def run() -> None:
        answers.append(ask(shop))
        reached.set()

    asking = threading.Thread(target=run)
    with lock:
        asking.start()
        assert reached.wait(GIVE_UP_S)
        aborted = shop.state.transactions.end(SHOP, shop.producer_id, shop.producer_epoch, commit=False,
                                              client_transaction_version=1)
        assert (aborted.error_code, answers) == (ErrorCode.NONE, [])
    asking.join(GIVE_UP_S)
    assert (answers, shop.transaction_state) == ([code], state)


@pytest.mark.parametrize("away_ms", [0, 20_000, 60_000, 10_000_000])
def test_transaction_when_the_broker_is_restarted_while_it_is_open_then_it_still_times_out_when_it_would_have(
        open_shop: Callable[..., LateShop], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away_ms: int) -> None:
    """Its producer died with the broker: the transaction was open for ever, and readers of committed records stood."""
    shop = open_shop()
    assert shop.produce(IMPLICIT_ADD) == 0
    shop.clock.advance(5_000)
    shop.state.close()
    shop.clock.advance(away_ms)
    scheduled: list[tuple[int, Callable[[], None]]] = []

    def schedule(delay_ms: int, callback: Callable[[], None]) -> TimerTask:
        scheduled.append((delay_ms, callback))
        return TimerTask(0, callback)

    again = ClusterState(tmp_path, BrokerConfig({"transaction.state.log.num.partitions": 1}), shop.clock)
    try:
        monkeypatch.setattr(again.timer, "schedule", schedule)
        again.start()
        again.brokers.register(BrokerInfo(1, {}, None))
        left_ms = max(0, 60_000 - 5_000 - away_ms)
        due = [callback for delay_ms, callback in scheduled if delay_ms == left_ms]
        assert due, f"nothing ends it after {left_ms} ms"
        shop.clock.advance(left_ms)
        for callback in due:
            callback()
        found = again.transactions.describe(SHOP)
        partition = again.topics.partition(*ORDERS)
        assert found is not None
        assert partition is not None
        assert found.state is TransactionState.COMPLETE_ABORT
        assert partition.log.last_stable_offset == partition.log.log_end_offset
    finally:
        again.close()


# ---- what is in the log

@pytest.mark.parametrize("what", ["initialize", "add", "end"])
def test_change_when_the_disk_refuses_it_then_nothing_has_changed_and_the_producer_comes_again(
        open_shop: Callable[..., LateShop], monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    shop = open_shop()
    if what == "end":
        assert shop.produce(IMPLICIT_ADD) == 0
    (state_partition,) = shop.state.internal_topics.partitions(TRANSACTION_STATE_TOPIC_NAME)
    changes: dict[str, Callable[[], ErrorCode]] = {
        "initialize": lambda: shop.state.transactions.initialize(SHOP, 60_000, None).error_code,
        "add": lambda: shop.state.transactions.add_partitions(
            SHOP, shop.producer_id, shop.producer_epoch, (ORDERS,), client_transaction_version=2),
        "end": lambda: shop.end(IMPLICIT_ADD).error_code}

    def refuse(*_arguments: Any, **_fields: Any) -> None:
        raise OSError("no space left, by the test")

    before = shop.state.transactions.describe(SHOP)
    with monkeypatch.context() as full:
        full.setattr(state_partition.log, "append", refuse)
        assert changes[what]() is ErrorCode.NOT_COORDINATOR
    assert shop.state.transactions.describe(SHOP) == before
    assert changes[what]() is ErrorCode.NONE
    assert shop.state.transactions.describe(SHOP) != before


def test_log_when_it_has_records_of_no_transactional_id_then_they_are_passed_over(
        open_shop: Callable[..., LateShop]) -> None:
    """A later Kafka may write records of other kinds there, too."""
    shop = open_shop()
    _, value = transaction_record(TransactionMetadata("other", 8, 0, 1000), transaction_version=1)
    shop.write_state((b"\0\1\0\5other", value), (b"\0\1\0\5other", b"of another kind"), (b"\0\1\0\5other", None),
                     (None, value), (None, None))
    shop.state.transactions.load()
    assert [found.transactional_id for found in shop.state.transactions.list_transactions()] == [SHOP]


# Java's TransactionState: the number in the log, and the name that admin clients show and ask for.
TITLES = {0: "Empty", 1: "Ongoing", 2: "PrepareCommit", 3: "PrepareAbort", 4: "CompleteCommit", 5: "CompleteAbort",
          6: "Dead", 7: "PrepareEpochFence"}


def test_states_when_they_are_listed_then_they_have_kafkas_names(open_shop: Callable[..., LateShop]) -> None:
    shop = open_shop()
    shop.write_state((b"\0\0\0\4shop", None), *(
        transaction_record(TransactionMetadata(f"in {number}", number, 0, 1000, STATES_BY_ID[number]),
                           transaction_version=1) for number in TITLES))
    shop.state.transactions.load()
    listed = shop.listed()["transaction_states"]
    assert {found["producer_id"]: found["transaction_state"] for found in listed} == TITLES
    asked = shop.listed(*TITLES.values())
    assert (asked["unknown_state_filters"], asked["transaction_states"]) == ([], listed)
