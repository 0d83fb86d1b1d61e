"""What a stream's sink is given to be exactly once, and what its tasks do: no Spark, no broker."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from pyproducer.common.errors import ConfigError, IllegalStateError
from pyproducer.record.layout import ProducerIdAndEpoch
from pyproducer.spark import ColumnError, KafkaSink, RowsFailedError, TaskNumbers, WriteNumbers, exactly_once
from pyproducer.spark import sink as sink_module
from pyproducer.spark.pool import ProducerPool
from pyproducer.spark.running_digest import RunningDigest
from pyproducer.spark.settings import SinkSettings
from pyproducer.transaction.prepared_transaction import PreparedTransaction
from pyproducer.twophase import DecidedTask, Decision, LostTransactionsError, Plan, RefusedBatchError
from tests.unit.spark.doubles import FakeProducer, FakeRow

ONCE = {"bootstrap.servers": "a:9092", "exactly.once.id": "shop"}
PLAN = Plan("shop", "orders", ProducerIdAndEpoch(7, 0))


class TransactionalFake(FakeProducer):
    """One that notes its transactions."""

    def __init__(self, refuses: int = 0, **how: Any) -> None:
        super().__init__(**how)
        self.transactions: list[str] = []
        self._refuses = refuses

    def config(self) -> dict[str, str | None]:
        return {**super().config(), "transactional.id": "shop.p0"}

    def init_transactions(self, transactional_id: str | None = None) -> None:
        if self._refuses:
            self._refuses -= 1
            raise IllegalStateError("which is still open")
        self.transactions.append(f"init {transactional_id}")

    def begin_transaction(self) -> None:
        self.transactions.append("begin")

    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        self.transactions.append(f"offsets {offsets} {group_metadata.group_id}")

    def prepare_transaction(self) -> PreparedTransaction:
        self.transactions.append("prepare")
        return PreparedTransaction("shop.p0", 8, 1, has_offsets=True)

    def abort_transaction(self) -> None:
        self.transactions.append("abort")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[TransactionalFake]]:
    """The producers that a worker makes, each the next of those that a test has put there."""
    waiting: list[TransactionalFake] = []
    pool = ProducerPool(lambda _props: waiting.pop(0))
    monkeypatch.setattr(sink_module, "WORKER_POOL", pool)
    monkeypatch.setattr(exactly_once, "told_batch", lambda: (0, "3f0c"))
    yield waiting
    pool.close()


def sink() -> KafkaSink:
    return KafkaSink.with_settings(SinkSettings.of(ONCE, "orders"))


def test_settings_when_a_stream_is_exactly_once_then_its_producers_are_transactional() -> None:
    settings = SinkSettings.of({**ONCE, "kafka.exactly.once.on.lost": "fail"}, "orders")
    assert settings.exactly_once == exactly_once.ExactlyOnce("shop", "orders", "fail", "strict")
    assert settings.props["transactional.id"] == "shop.p0"
    assert settings.props["transaction.timeout.ms"] == 900_000
    assert SinkSettings.of({**ONCE, "transaction.timeout.ms": 5000}, "orders").props["transaction.timeout.ms"] == 5000
    two_phase = SinkSettings.of({**ONCE, "transaction.two.phase.commit.enable": "true"}, "orders")
    assert "transaction.timeout.ms" not in two_phase.props
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert SinkSettings.of({"bootstrap.servers": "a:9092"}, "orders").exactly_once is None
    placed = SinkSettings.of({**ONCE, "exactly.once.topic": " decisions "}, None).exactly_once
    assert placed is not None
    assert placed.topic == "decisions"


@pytest.mark.parametrize(("given", "topic", "words"), [
    ({"exactly.once.id": ""}, "orders", "must be a str that is not empty"),
    ({"exactly.once.id": "shop.p1"}, "orders", "must not end like"),
    ({"exactly.once.on.lost": "skip"}, "orders", "it is rewrite or fail"),
    ({"exactly.once.start": "now"}, "orders", "it is strict or current"),
    ({}, None, "rows name their topics, so name one here"),
    ({"acks": "1"}, "orders", r"value '1' for configuration acks: with exactly\.once\.id no row .*or set it to all"),
    ({"kafka.request.required.acks": 0}, "orders", r"'0' for configuration acks: with exactly\.once\.id"),
    ({"enable.idempotence": "false"}, "orders", r"configuration enable\.idempotence: with exactly\.once\.id"),
    ({"retries": 0}, "orders", r"configuration retries: with exactly\.once\.id .*or set it to 1 or more"),
    ({"pyproducer.fork": "rebuild"}, "orders", r"pyproducer\.fork: with exactly\.once\.id a child .*leave it out"),
    ({"acks": "1", "linger.ms": "x"}, "orders", r"acks: with exactly\.once\.id"),
    ({"exactly.once.ID": "shop"}, "orders", r"exactly\.once\.ID: unknown option; did you mean 'exactly\.once\.id'\?"),
    ({"kafka.exactly_once_start": "strict"}, "orders", r"did you mean 'exactly\.once\.start'\?"),
    ({"exactly.once.topics": "orders"}, "orders", r"did you mean 'exactly\.once\.topic'\?"),
    ({"pyproducer.pool.Size": 3}, "orders", r"did you mean 'pyproducer\.pool\.size'\?"),
    ({"exactly.once.topic": "no name"}, "orders", r"configuration exactly\.once\.topic: Topic name is invalid"),
    ({}, "t" * 300, r"configuration topic: Topic name is invalid"),
    ({"exactly.once.id": "s" * 33_000}, "orders", r"exactly\.once\.id: it is sent with a task's number .*it takes"),
    ({"transactional.id": "mine"}, "orders", r"exactly once with exactly\.once\.id")])
def test_settings_when_they_do_not_fit_exactly_once_then_they_are_refused(
        given: dict[str, str], topic: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SinkSettings.of({**ONCE, **given}, topic)


def test_settings_when_an_option_lacks_its_id_or_spark_would_run_ahead_then_they_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"set exactly\.once\.id, too"):
        SinkSettings.of({"bootstrap.servers": "a:9092", "exactly.once.start": "current"}, "orders")
    with pytest.raises(ConfigError, match="to repeat it with the same rows"):
        SinkSettings.of_options({**ONCE, "topic": "orders", "asyncprogresstrackingenabled": "true"})


def test_task_when_it_has_rows_then_it_prepares_them_with_a_marker(made: list[TransactionalFake]) -> None:
    made.append(producer := TransactionalFake())
    rows = [FakeRow(key=b"k", value=b"1"), FakeRow(key=b"k", value=None)]
    numbers, outcome = sink().send_rows_once(PLAN, rows)
    assert [record.value for record in producer.records] == [b"1", None]
    assert producer.transactions == ["init shop.p0", "begin",
                                     "offsets {TopicPartition(topic='orders', partition=0): 0} shop.p0", "prepare"]
    assert (numbers.row_count, numbers.is_exactly_once) == (2, True)
    assert outcome.prepared == PreparedTransaction("shop.p0", 8, 1, has_offsets=True)
    assert (outcome.digest.row_count, outcome.query_id) == (2, "3f0c")
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    running = RunningDigest("orders")
    for row in rows:
        running.add_row(row)
    assert running.digest == outcome.digest


def test_task_when_it_has_no_rows_then_it_opens_nothing(made: list[TransactionalFake]) -> None:
    numbers, outcome = sink().send_rows_once(PLAN, [])
    assert (numbers.row_count, outcome.prepared) == (0, None)


def test_task_when_a_row_fails_then_its_transaction_is_aborted_and_it_says_so(made: list[TransactionalFake]) -> None:
    made.append(producer := TransactionalFake())
    with pytest.raises(RowsFailedError, match="attempt 0 of the task is aborted: no reader of committed records sees"):
        sink().send_rows_once(PLAN, [FakeRow(value=b"1"), FakeRow(value=2)])
    assert producer.transactions == ["init shop.p0", "begin", "abort"]
    made.append(TransactionalFake())
    with pytest.raises(ColumnError):
        sink().send_rows_once(PLAN, [FakeRow(other=b"1")])


def test_task_when_an_attempt_of_this_process_is_still_open_then_another_producer_ends_it(
        made: list[TransactionalFake]) -> None:
    made += [first := TransactionalFake(refuses=1), second := TransactionalFake()]
    sink().send_rows_once(PLAN, [FakeRow(value=b"1")])
    assert (first.transactions, len(first.close_timeouts)) == ([], 1)
    assert second.transactions[0] == "init shop.p0"
    made += [TransactionalFake(refuses=1), TransactionalFake(refuses=1)]
    sink_module.WORKER_POOL.close()
    with pytest.raises(IllegalStateError, match="still open"):
        sink().send_rows_once(PLAN, [FakeRow(value=b"1")])


def test_task_when_its_batch_is_decided_then_it_only_reads_and_looks_at_the_rows_where_some_are_lost(
        made: list[TransactionalFake]) -> None:
    rows = [FakeRow(value=b"1")]
    running = RunningDigest("orders")
    running.add_row(rows[0])
    decided = Decision(0, "3f0c", (DecidedTask(0, 8, 1, *running.digest),))
    for lost in ([], [1]):
        plan = Plan("shop", "orders", PLAN.driver, decided, frozenset(lost))
        assert sink().send_rows_once(plan, rows)[1].prepared is None
    with pytest.raises(LostTransactionsError, match="task 0 had 1 with checksum"):
        sink().send_rows_once(plan, [FakeRow(value=b"2")])


def test_task_when_spark_does_not_tell_its_batch_then_it_is_refused(
        made: list[TransactionalFake], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exactly_once, "told_batch", lambda: (4, "3f0c"))
    with pytest.raises(RefusedBatchError):
        sink().send_rows_once(PLAN, [])
    monkeypatch.setattr(exactly_once, "told_batch", lambda: None)
    with pytest.raises(IllegalStateError, match="does not tell this task which micro-batch"):
        sink().send_rows_once(PLAN, [])


def test_numbers_when_a_task_was_repeated_then_they_do_not_say_that_rows_are_doubled() -> None:
    told = str(WriteNumbers.of([TaskNumbers(attempt=1, is_exactly_once=True)], 3, stage_again_count=1))
    assert "after 1 attempts that failed, whose rows nobody sees" in told
    assert "more than once" not in told
    assert "more than once" in str(WriteNumbers.of([TaskNumbers(attempt=1)], 3))
