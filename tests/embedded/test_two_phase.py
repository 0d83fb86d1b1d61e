"""Exactly once: whoever is killed wherever, each row of each batch is there once for who reads committed records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from pyproducer import ConfigError, KafkaError, KafkaProducer, KafkaTimeoutError
from pyproducer.broker import EmbeddedBroker
from pyproducer.cli.main import main
from pyproducer.common.consumer_offsets import OffsetAndMetadata
from pyproducer.twophase import (
    Decision,
    LostTransactionsError,
    RefusedBatchError,
    TwoPhase,
    UndecidedError,
    UnfinishedError,
)
from pyproducer.twophase.decision import METADATA_BYTES
from tests.support.patience import GIVE_UP_S
from tests.support.two_phase_query import (
    ALL_HAVE_PREPARED,
    DECIDED,
    IN_THE_DECISION,
    ONE_IS_COMMITTED,
    POINTS,
    UNDECIDED,
    Killed,
    Query,
)

AdminClient = pytest.importorskip("confluent_kafka.admin").AdminClient
NewTopic = pytest.importorskip("confluent_kafka.admin").NewTopic

StartBroker = Callable[..., EmbeddedBroker]
StartQuery = Callable[..., Query]
LEVELS = pytest.mark.parametrize("level", [0, 2])
FEW = {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}


@pytest.fixture
def broker(start_broker: StartBroker, request: pytest.FixtureRequest) -> EmbeddedBroker:
    level = request.node.callspec.params.get("level", 2) if hasattr(request.node, "callspec") else 2
    return start_broker(topics={"orders": 3}, config={**FEW, "transaction.version": level})


@pytest.fixture
def start(broker: EmbeddedBroker) -> Iterator[StartQuery]:
    """A query on that broker."""
    with ExitStack() as ends:
        yield lambda **settings: ends.enter_context(
            Query(broker.bootstrap_servers, "orders", settings.pop("prefix", "shop"), **settings))


@pytest.mark.parametrize(("point", "level"), [*((point, 2) for point in POINTS), (IN_THE_DECISION, 0), (DECIDED, 0)])
def test_query_when_it_is_killed_then_after_a_restart_each_row_is_there_once(
        start: StartQuery, point: str, level: int) -> None:
    query = start()
    query.run(0)
    query.run(1, dies_at=point)
    if point in UNDECIDED:
        assert not any(row.startswith(b"1-") for row in query.committed()), "nothing that is not decided is visible"
    query.run(2)
    query.check()


@pytest.mark.parametrize("point", [DECIDED, ONE_IS_COMMITTED])
def test_query_when_it_is_down_for_longer_than_the_timeout_then_what_is_lost_is_written_again(
        broker: EmbeddedBroker, start: StartQuery, point: str) -> None:
    """Flink logs that and goes on without the rows."""
    query = start()
    query.run(0)
    query.run(1, dies_at=point)
    broker.clock.advance(minutes=16)
    with pytest.raises(LostTransactionsError, match=r"(30|20) rows of tasks \[.*\] are not in the topic.*Nothing was"):
        TwoPhase(query.props, "shop", "orders", on_lost="fail").plan()
    assert len(query.committed()) == (30 if point == DECIDED else 40)
    # And whoever repairs may be killed himself.
    query.run(1, dies_at=ALL_HAVE_PREPARED)
    query.run(1, dies_at=ONE_IS_COMMITTED)
    query.run(2)
    query.check()


def test_query_when_what_is_lost_cannot_be_repeated_then_it_stops_and_names_the_task(
        broker: EmbeddedBroker, start: StartQuery) -> None:
    query = start()
    query.run(0, dies_at=ONE_IS_COMMITTED)
    broker.clock.advance(minutes=16)
    query.version = b" of another run"
    with pytest.raises(LostTransactionsError, match=r"task 0 had 10 with checksum \w{8}, and has 10 with"):
        query.run(0)
    query.version = b""
    query.tasks = 2
    with pytest.raises(UndecidedError, match=r"the rows of tasks \[2\] again.*it has fewer tasks than before"):
        query.run(0)
    query.tasks = 3
    query.run(1)
    query.check()


def test_query_when_nothing_is_lost_then_a_batch_that_is_decided_may_have_other_rows(start: StartQuery) -> None:
    """Those that are committed count: a query with rand() could never start again."""
    query = start()
    query.run(0, dies_at=ONE_IS_COMMITTED)
    query.version = b" of another run"
    query.run(0)
    query.version = b""
    query.check()


@LEVELS
def test_driver_when_another_has_planned_then_it_decides_nothing_and_aborts_nothing_of_the_others(
        start: StartQuery, level: int) -> None:
    query = start()
    old, new = query.driver(), query.driver()
    old_plan = old.plan()
    old_outcomes = [query.task(old_plan, task, 0) for task in range(3)]
    query._producer = None
    new_plan = new.plan()
    with pytest.raises(UndecidedError, match="3 prepared transactions 3 are gone"):
        old.commit(old_plan, 0, old_outcomes)
    new_outcomes = [query.task(new_plan, task, 0) for task in range(3)]
    with pytest.raises(UndecidedError, match=r"not decided: .*Another driver has begun with this id since"):
        old.decide(old_plan, 0, [])  # the last moment, in which it still finds all in order
    assert not old.abort(old_plan, 0, old_outcomes)
    new.commit(new_plan, 0, new_outcomes)
    assert not old.abort(old_plan, 0, old_outcomes)
    query.done = 0
    query.run(1)
    query.check()


class SleepyDriver(TwoPhase):
    """A driver that sleeps before a request, while others go on."""

    def sleep_before(self, request: str, number: int, meanwhile: Callable[[], None]) -> None:
        client: Any = self._client()
        ask = getattr(client, request)
        seen: list[str] = []

        def sleep_and_ask(*arguments: Any, **named: Any) -> Any:
            seen.append(request)
            if len(seen) == number + 1:
                meanwhile()
            return ask(*arguments, **named)

        setattr(client, request, sleep_and_ask)


@pytest.mark.parametrize("level", [pytest.param(0, marks=pytest.mark.soak), pytest.param(1, marks=pytest.mark.soak), 2])
@pytest.mark.parametrize(("request_name", "number"), [
    ("fetch_offsets", 0), ("end_transactions", 0), ("list_transactions", 0), ("describe_transactions", 0),
    ("describe_transactions", 1), ("abort_and_fence", 0), ("end_transactions", 1)])
@pytest.mark.parametrize("step", ["plan", "abort", "abort without a plan"])
def test_driver_when_it_sleeps_until_another_has_decided_then_it_aborts_nothing_of_that(
        start: StartQuery, level: int, request_name: str, number: int, step: str) -> None:
    """It had the decision before in hand, listed the newer one's transactions, and aborted rows that were decided."""
    query = start(max_block_ms=1000, request_timeout_ms=500, delivery_timeout_ms=1000)
    query.run(0)
    old, new = SleepyDriver(query.props, "shop", "orders"), query.driver()
    decided: list[Decision] = []

    def decide() -> None:
        plan = new.plan()
        query._producer = None
        decided.append(new.decide(plan, 1, [query.task(plan, task, 1) for task in range(3)]))

    with old:
        plan = old.plan() if step == "abort" else None
        outcomes = [query.task(plan, task, 1) for task in range(3)] if plan else []
        if plan is None:
            query.run(1, dies_at=ALL_HAVE_PREPARED)
        old.sleep_before(request_name, number, decide)
        with suppress(KafkaError):
            if step == "plan":
                old.plan()
            else:
                old.abort(plan, 1, outcomes)
    for decision in decided:
        new.finish(decision)
    query.done += len(decided)
    query.check() if decided else query.run(1)


def test_driver_when_another_plans_while_it_does_then_it_is_told_so(start: StartQuery) -> None:
    query = start()
    with SleepyDriver(query.props, "shop", "orders") as old, query.driver() as new:
        old.sleep_before("list_transactions", 0, lambda: [new.plan()].clear())
        with pytest.raises(RefusedBatchError, match=r"another driver has begun with .*'shop' meanwhile: run one query"):
            old.plan()


def test_driver_when_a_copy_of_a_task_has_fenced_it_then_the_batch_is_not_decided(start: StartQuery) -> None:
    query = start()
    driver = query.driver()
    plan = driver.plan()
    outcomes = [query.task(plan, task, 0) for task in range(3)]
    query._producer = None
    query.task(plan, 1, 0)  # the copy
    with pytest.raises(UndecidedError, match=r"shop\.p1: Ongoing, producer id .*leave spark\.speculation off"):
        driver.commit(plan, 0, outcomes)
    assert driver.abort(None, 0, [])
    assert query.committed() == set()
    assert driver.leftovers() == []
    query.run(1)
    query.check()


@LEVELS
@pytest.mark.parametrize("is_decided", [True, False])
def test_abort_when_commit_failed_then_what_is_decided_stays_and_the_rest_is_aborted(
        start: StartQuery, level: int, is_decided: bool) -> None:
    """Spark calls abort() after a commit() that raised, whatever that had done."""
    query = start()
    driver = query.driver()
    plan = driver.plan()
    outcomes = [query.task(plan, task, 0) for task in range(3)]
    driver.dies_at = ONE_IS_COMMITTED if is_decided else "in the middle of the decision"
    with pytest.raises(Killed):
        driver.commit(plan, 0, outcomes)
    other = query.driver()  # it is another process that Spark has abort
    assert other.abort(plan, 0, outcomes) is not is_decided
    assert len(other.leftovers()) == (2 if is_decided else 0)
    query.run(1)
    query.check()


def test_abort_when_the_batch_is_decided_then_what_no_attempt_has_told_is_aborted_all_the_same(
        start: StartQuery) -> None:
    query = start()
    driver = query.driver()
    plan = driver.plan()
    driver.commit(plan, 0, [query.task(plan, task, 0) for task in range(2)])
    query._producer = None
    query.task(plan, 2, 0)  # too late
    assert not query.driver().abort(None, 0, [])
    assert driver.leftovers() == []


def test_task_when_an_attempt_failed_or_was_killed_then_the_next_one_aborts_what_it_left(start: StartQuery) -> None:
    query = start()
    driver = query.driver()
    plan = driver.plan()
    with pytest.raises(Killed):
        query.task(plan, 2, 0, dies_at="a task has sent")
    with pytest.raises(ZeroDivisionError), plan.work(0, 0).transaction(query.new_producer()):
        raise ZeroDivisionError
    query._producer = None
    outcomes = [query.task(plan, task, 0) for task in range(3)]
    # And Spark may want one again that ended well, of the same process: the first has promised not to abort it.
    outcomes[0] = query.task(plan, 0, 0)
    driver.commit(plan, 0, outcomes)
    query.done = 0
    query.check()


def test_query_when_it_has_fewer_tasks_than_the_one_that_was_killed_then_their_leftovers_are_aborted(
        start: StartQuery) -> None:
    query = start(tasks=5)
    query.run(0, dies_at=ALL_HAVE_PREPARED)
    assert [each.transactional_id for each in query.driver().leftovers()] == [f"shop.p{task}" for task in range(5)]
    other = start(prefix="shopping", tasks=1)
    other.run(0, dies_at=ALL_HAVE_PREPARED)
    query.tasks = 2
    query.run(0)
    assert len(other.driver().leftovers()) == 1, "only its own"
    other.run(-1)
    other.driver().plan()
    query.check()


def test_batch_when_it_has_no_rows_then_numbers_go_on(start: StartQuery) -> None:
    query = start(rows=0)
    query.run(1)
    query.rows = 5
    query.run(2)
    query.rows = 0
    query.run(3)
    assert len(query.committed()) == 15


def test_decision_when_it_is_longer_than_one_metadata_then_it_is_kept_in_several_and_repaired_by_them(
        start: StartQuery) -> None:
    query = start(tasks=190, rows=1)
    query.run(0, dies_at=ONE_IS_COMMITTED)
    last = query.driver().last_decision()
    assert last is not None
    assert len(last.texts()) > 1
    assert max(map(len, last.texts())) <= METADATA_BYTES
    assert [task.number for task in last.tasks] == list(range(190))
    query.run(1)
    query.check()


def test_query_when_it_goes_on_behind_rows_that_are_lost_then_it_is_stopped(
        broker: EmbeddedBroker, start: StartQuery) -> None:
    """Whoever catches the error of a batch in foreachBatch has Spark note it as done: its rows went missing unsaid."""
    query = start()
    query.run(0, dies_at=ONE_IS_COMMITTED)
    broker.clock.advance(minutes=16)
    query.done = 0
    with pytest.raises(LostTransactionsError, match=r"of batch 0, which was decided, the rows of tasks \[1, 2\] are "
                                                    r"not in the topic.*exactly\.once\.start=current\. Nothing"):
        query.run(1)
    query.options = {"start": "current"}
    query.run(1)
    assert len(query.committed()) == 40


def test_query_when_decisions_of_its_id_were_deleted_then_markers_of_that_life_count_for_nothing(
        broker: EmbeddedBroker, start: StartQuery) -> None:
    """A task's marker of batch 4 made a new batch 0 pass for committed, and its rows were lost."""
    query = start()
    query.run(4)
    admin = AdminClient({"bootstrap.servers": query.servers})
    admin.delete_consumer_groups(["shop"])["shop"].result()
    query.done, query.query_id, query.version = -1, "another", b" of another life"
    query.run(0, dies_at=DECIDED)
    broker.clock.advance(minutes=16)
    assert query.driver().plan().lost == {0, 1, 2}
    query.run(0)
    assert len(query.committed()) == 180


def test_query_when_its_topic_is_another_one_then_what_is_decided_is_found_and_not_aborted(
        broker: EmbeddedBroker, start: StartQuery) -> None:
    """Nothing was known of the new topic, so what was decided was swept, and advice given that lost or doubled it."""
    broker.create_topic("returns", 3)
    query = start()
    query.run(0, dies_at=ONE_IS_COMMITTED)
    with TwoPhase(query.props, "shop", "returns") as other, pytest.raises(
            ConfigError, match=r"exactly\.once\.topic: decisions of .* are kept for orders: name that.*id of its own"):
        other.plan()
    assert len(query.driver().leftovers()) == 2
    query.run(1)
    query.check()


@pytest.mark.parametrize(("query_id", "batch_id", "words"), [
    ("3f0c", 0, "the checkpoint was rolled back"), ("3f0c", 3, "does not follow batch 1"),
    ("another", 2, "is that of query 3f0c, which has written up to batch 1"), ("another", 0, "needs an id of its own")])
def test_task_when_its_batch_does_not_follow_then_it_is_refused_and_nothing_is_written(
        start: StartQuery, query_id: str, batch_id: int, words: str) -> None:
    query = start()
    query.run(1)
    plan = query.driver().plan()
    with pytest.raises(RefusedBatchError, match=f"{words}.*Nothing was written"):
        plan.work(0, batch_id, query_id)
    assert plan.work(0, 2).is_done is plan.work(0, 2, "3f0c").is_done is False
    query.check()


def test_query_when_it_ran_without_exactly_once_before_then_it_is_adopted_where_that_is_said(
        start: StartQuery) -> None:
    query = start()
    query.done = 6
    with pytest.raises(RefusedBatchError, match=r"exactly\.once\.start=current; or what was decided was forgotten"):
        query.run(7)
    query.options = {"start": "current"}
    query.run(8)
    assert {row.partition(b"-")[0] for row in query.committed()} == {b"7", b"8"}


def test_commit_when_answers_are_lost_then_it_is_repeated(broker: EmbeddedBroker, start: StartQuery) -> None:
    query = start()
    for api in ("TxnOffsetCommit", "EndTxn", "InitProducerId", "OffsetFetch"):
        broker.faults.on(api, times=1).close("after_apply")
    query.run(1)
    query.check()


def test_commit_when_nobody_answers_then_it_says_that_the_batch_may_be_decided(
        broker: EmbeddedBroker, start: StartQuery) -> None:
    query = start(max_block_ms=1000, request_timeout_ms=500, delivery_timeout_ms=1000)
    driver = query.driver()
    plan = driver.plan()
    outcomes = [query.task(plan, task, 0) for task in range(3)]
    fault = broker.faults.on("EndTxn", times=None).close("after_apply")
    with pytest.raises(UndecidedError, match=r"not known whether batch 0 of .* is decided") as caught:
        driver.commit(plan, 0, outcomes)
    assert caught.value.outcome == "unknown"
    fault.remove()
    query.run(1)
    query.check()


@pytest.mark.parametrize(("api", "kind", "words"), [
    ("DescribeTransactions", UndecidedError, "batch 0 of .* is not decided: .*Nothing of it is visible; start again"),
    ("EndTxn", UnfinishedError, "batch 0 of .* is decided, and may not be committed everywhere: .*Start again")])
def test_commit_when_nobody_answers_beside_the_decision_then_it_says_what_became_of_the_batch(
        broker: EmbeddedBroker, start: StartQuery, api: str, kind: type[KafkaError], words: str) -> None:
    query = start(max_block_ms=1000, request_timeout_ms=500, delivery_timeout_ms=1000)
    driver = query.driver()
    plan = driver.plan()
    outcomes = [query.task(plan, task, 0) for task in range(3)]
    decided = [driver.decide(plan, 0, outcomes)] if api == "EndTxn" else []
    fault = broker.faults.on(api, times=None).close("before_apply")
    with pytest.raises(kind, match=words):
        driver.finish(decided[0]) if decided else driver.commit(plan, 0, outcomes)
    fault.remove()
    query.run(1)
    query.check()


def test_plan_when_the_topic_of_decisions_is_not_there_then_the_option_is_named(start: StartQuery) -> None:
    """Each attempt of each task waited for it, a minute long, and named a group that nobody knows."""
    with TwoPhase(start().props, "shop", "nowhere") as driver, pytest.raises(ConfigError, match=(
            r"value 'nowhere' for configuration exactly\.once\.topic: there is no such topic.*create it, or name")):
        driver.plan()


@pytest.mark.parametrize("topic", ["", "no name", "..", "t" * 40_000])
def test_two_phase_when_no_topic_can_have_the_name_then_it_is_refused(topic: str) -> None:
    with pytest.raises(ConfigError, match=r"configuration exactly\.once\.topic: Topic name is invalid") as caught:
        TwoPhase({"bootstrap.servers": "127.0.0.1:1"}, "shop", topic)
    assert len(str(caught.value)) < 400


def test_commit_when_the_topic_of_the_rows_has_not_come_then_the_option_is_named(start: StartQuery) -> None:
    with TwoPhase(start().props, "shop", "nowhere", awaits_topic=True) as driver:
        plan = driver.plan()
        with pytest.raises(UndecidedError, match=r"nowhere-0.*exactly\.once\.topic names a topic that exists"):
            driver.commit(plan, 0, [])


def test_query_when_its_topic_comes_with_the_first_rows_then_it_runs(broker: EmbeddedBroker) -> None:
    with Query(broker.bootstrap_servers, "new", "shop", options={"awaits_topic": True}) as query:
        query.run(1)
        query.check()


def make_anew(query: Query, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": query.servers})
    admin.delete_topics([topic])[topic].result()
    admin.create_topics([NewTopic(topic, 3)])[topic].result()


@LEVELS
def test_batch_when_its_topic_is_made_anew_before_the_decision_then_it_is_told_and_can_be_written_again(
        start: StartQuery, level: int) -> None:
    """It was decided and committed, without the rows that had gone with the topic, and nobody was told."""
    query = start()
    query.run(0)
    driver = query.driver()
    plan = driver.plan()
    outcomes = [query.task(plan, task, 1) for task in range(3)]
    make_anew(query, "orders")
    with pytest.raises(UndecidedError, match=r"batch 1 of .* not decided: topic 'orders' was deleted and made anew.*"
                                             r"start again to repeat it, with exactly\.once\.start=current"):
        driver.commit(plan, 1, outcomes)
    assert driver.abort(plan, 1, outcomes)
    query.options = {"start": "current"}
    query.run(1)
    assert query.committed() == {row for task in range(3) for row in query.rows_of(1, task)}


def test_query_when_its_checkpoint_is_older_by_one_batch_then_rows_that_came_since_are_not_passed_over(
        start: StartQuery, caplog: pytest.LogCaptureFixture) -> None:
    """The batch passed for a repetition, and what it had more was in no batch at all."""
    query = start()
    query.run(1)
    query.done, query.rows = 0, 11
    with pytest.raises(RefusedBatchError, match=r"batch 1 of .* was decided with 30 rows, and has 33 now.*rolled back "
                                                r"by this one batch.*exactly\.once\.start=current.*Nothing was"):
        query.run(1)
    query.options = {"start": "current"}
    caplog.clear()
    query.run(1)
    assert "decided with other rows, which are in the topic: 30, and it has 33 now" in caplog.text
    query.rows = 10
    query.check()


def test_batch_when_it_is_repeated_then_rows_that_are_others_are_told_and_the_same_ones_are_not(
        start: StartQuery, caplog: pytest.LogCaptureFixture) -> None:
    query = start()
    query.run(0)
    query.done = -1
    query.run(0)
    assert "other rows" not in caplog.text
    query.done, query.version = -1, b" of another run"
    query.run(0)
    assert "Batch 0 of exactly.once.id shop was decided with other rows, which are in the topic: 30" in caplog.text


@pytest.mark.parametrize("rows", [10, 9])
@pytest.mark.parametrize("knows", ["never", "later"])
def test_batch_when_nobody_tells_its_query_then_other_rows_pass_for_no_repetition(
        start: StartQuery, caplog: pytest.LogCaptureFixture, rows: int, knows: str) -> None:
    """As with Spark Connect, or in a thread of the application's: a second call for a batch, or another query with the
    id, ended well, and its rows were nowhere."""
    query = start()
    query.query_id = ""
    query.run(0)
    query.done = -1
    query.run(0)  # the same rows
    query.done, query.rows, query.version = -1, rows, b" of another query"
    query.query_id = "3f0c" if knows == "later" else ""
    with pytest.raises(RefusedBatchError, match=rf"batch 0 of .* decided with 30 rows, and has {3 * rows} others now.*"
                                                r"inheritable_thread_target.*start=current, for one start.*Nothing"):
        query.run(0)
    query.options = {"start": "current"}
    caplog.clear()
    query.run(0)
    assert "decided with other rows, which are in the topic: 30" in caplog.text
    query.rows, query.version = 0, b""
    query.options, query.done = {}, -1
    query.run(0)  # a second call without rows loses none
    query.rows = 10
    query.check()


def test_commit_when_outcomes_are_of_another_batch_then_they_pass_for_no_repetition(start: StartQuery) -> None:
    """Batch 1 was committed as batch 0, and written again as batch 1."""
    query = start()
    query.run(0)
    driver = query.driver()
    plan = driver.plan()
    outcomes = [query.task(plan, task, 1) for task in range(3)]
    with pytest.raises(RefusedBatchError, match=r"batch 0 of .* is given what tasks did for batch 1\. Nothing"):
        driver.commit(plan, 0, outcomes)
    driver.commit(plan, 1, outcomes)
    query.done = 1
    query.check()


def test_commit_when_tasks_wrote_a_batch_that_is_decided_then_it_is_there_once(start: StartQuery) -> None:
    query = start()
    driver = query.driver()
    old_plan = driver.plan()
    driver.commit(old_plan, 0, [query.task(old_plan, task, 0) for task in range(3)])
    plan = driver.plan()
    query._producer = None
    outcomes = [query.task(old_plan, task, 0) for task in range(2)]
    with pytest.raises(RefusedBatchError, match=r"was decided, and tasks \[0, 1\] have written rows again"):
        driver.commit(plan, 0, outcomes)
    query.done = 0
    query.run(1)
    query.check()


def test_commit_when_a_task_wrote_though_only_others_are_lost_then_its_rows_are_there_once(
        broker: EmbeddedBroker, start: StartQuery) -> None:
    """They were committed beside those of the first attempt: it was looked at only where no task's rows are lost."""
    query = start()
    query.run(0, dies_at=ONE_IS_COMMITTED)
    broker.clock.advance(minutes=16)
    query._producer = None
    driver = query.driver()
    plan = driver.plan()
    assert plan.lost == {1, 2}
    outcomes = [query.task(replace(plan, lost=frozenset(range(3))), task, 0) for task in range(3)]
    with pytest.raises(RefusedBatchError, match=r"was decided, and tasks \[0\] have written rows again"):
        driver.commit(plan, 0, outcomes)
    with suppress(UnfinishedError):  # task 0 has fenced itself, and its commit is not acknowledged once more
        query.run(0)
    query.run(1)
    query.check()


def test_plan_when_ids_and_markers_are_forgotten_then_nobody_takes_what_is_committed_for_lost(
        start_broker: StartBroker) -> None:
    """It was written a second time: the transactions were unknown, and so was that they had been committed."""
    broker = start_broker(topics={"orders": 3}, config={
        **FEW, "transactional.id.expiration.ms": 3_600_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 50})
    with Query(broker.bootstrap_servers, "orders", "shop") as query:
        query.run(0)
        groups = [f"shop.p{task}" for task in range(3)]
        admin = AdminClient({"bootstrap.servers": query.servers})
        for done in admin.delete_consumer_groups(groups).values():
            done.result()
        broker.clock.advance(minutes=61)
        await_forgotten(query, groups)
        with pytest.raises(LostTransactionsError, match=r"nobody knows any more whether the rows of tasks \[0, 1, 2\] "
                                                        r"are in the topic.*exactly\.once\.start=current.*Nothing was"):
            query.driver().plan()
        query.options = {"start": "current"}
        query.run(1)
        query.check()


def await_forgotten(query: Query, transactional_ids: list[str]) -> None:
    give_up_s, client = time.monotonic() + GIVE_UP_S, query.driver()._client()
    while any(not each.error_code for each in client.describe_transactions(transactional_ids)):
        assert time.monotonic() < give_up_s, "the coordinator does not forget"
        time.sleep(0.02)


def test_plan_when_the_first_decision_is_being_committed_then_it_is_waited_for(start: StartQuery) -> None:
    """Of all offsets of a group brokers leave out what is committed first: nothing seemed to be decided."""
    query = start(max_block_ms=500, request_timeout_ms=500, delivery_timeout_ms=1000)
    (text,) = Decision(0, "3f0c").texts()
    with KafkaProducer({**query.props, "transactional.id": "else", "max.block.ms": 60_000}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({("orders", 0): OffsetAndMetadata(0, text)}, "shop")
        with pytest.raises(KafkaTimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
            query.driver().last_decision()
        assert query.driver().last_decision(waits=False) is None
        producer.commit_transaction()
    assert query.driver().last_decision() == Decision(0, "3f0c")


def test_decision_when_another_is_taken_while_it_is_read_then_the_newer_one_is_told(start: StartQuery) -> None:
    """Somebody looks at a query that runs: groups of two decisions seemed to be one that is not whole."""
    query = start(tasks=190, rows=1)
    query.run(0)
    with SleepyDriver(query.props, "shop", "orders") as looker:
        looker.sleep_before("fetch_offsets", 1, lambda: query.run(1))
        last = looker.last_decision()
    assert last is not None
    assert (last.batch_id, len(last.tasks)) == (1, 190)
    admin = AdminClient({"bootstrap.servers": query.servers})
    admin.delete_consumer_groups(["shop.d1"])["shop.d1"].result()
    for waits in (True, False):
        with pytest.raises(KafkaError, match=r"decision of batch 1 of .* is not whole: 1 groups .*Were they deleted"):
            query.driver().last_decision(waits=waits)


@pytest.mark.parametrize(("options", "words"), [
    ({"on_lost": "skip"}, r"'skip' for configuration exactly\.once\.on\.lost: it is rewrite or fail"),
    ({"start": "Current"}, r"'Current' for configuration exactly\.once\.start: it is strict or current")])
def test_two_phase_when_a_choice_is_none_of_those_that_there_are_then_it_is_refused(
        options: dict[str, Any], words: str) -> None:
    """It was passed over: on_lost="Fail" had what was lost written again."""
    with pytest.raises(ConfigError, match=words):
        TwoPhase({"bootstrap.servers": "127.0.0.1:1"}, "shop", "orders", **options)


def test_finish_when_a_transaction_timed_out_behind_the_decision_then_it_says_what_helps(
        broker: EmbeddedBroker, start: StartQuery) -> None:
    query = start()
    driver = query.driver()
    plan = driver.plan()
    decision = driver.decide(plan, 0, [query.task(plan, task, 0) for task in range(3)])
    broker.clock.advance(minutes=16)
    with pytest.raises(UnfinishedError, match=r"batch 0 of .* is decided.*task 0: INVALID_TXN_STATE.*written again"):
        driver.finish(decision)
    query.run(1)
    query.check()


def test_batch_when_it_takes_longer_than_the_timeout_then_it_is_not_decided(
        broker: EmbeddedBroker, start: StartQuery) -> None:
    query = start()
    driver = query.driver()
    plan = driver.plan()
    outcomes = [query.task(plan, task, 0) for task in range(3)]
    broker.clock.advance(minutes=16)
    with pytest.raises(UndecidedError, match=r"took longer than transaction\.timeout\.ms, which is 900000"):
        driver.commit(plan, 0, outcomes)
    query.run(1)
    query.check()


def test_plan_when_the_timeout_is_longer_than_brokers_allow_then_the_setting_is_named(start: StartQuery) -> None:
    with pytest.raises(ConfigError, match=r"900001.*transaction\.timeout\.ms.*transaction\.max\.timeout\.ms"):
        start(transaction_timeout_ms=900_001).driver().plan()


@pytest.mark.parametrize("prefix", ["", " ", "shop.p3", "shop.d1", "shop.driver", 7, "s" * 32_760, "\ud800"])
def test_two_phase_when_the_prefix_could_be_mistaken_then_it_is_refused(prefix: Any) -> None:
    with pytest.raises(ConfigError, match=r"exactly\.once\.id") as caught:
        TwoPhase({"bootstrap.servers": "127.0.0.1:1"}, prefix, "orders")
    assert len(str(caught.value)) < 300


def test_plan_when_the_group_is_a_consumers_then_it_says_so(broker: EmbeddedBroker, start: StartQuery) -> None:
    query = start(prefix="readers")
    with KafkaProducer({**query.props, "transactional.id": "else"}) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send_offsets_to_transaction({("orders", 0): OffsetAndMetadata(5, "mine")}, "readers")
    with pytest.raises(KafkaError, match=r"this is no decision: 'mine'. Is it a consumer's"):
        query.driver().plan()


@pytest.mark.parametrize("prefix", ["a b", "a#b-c~d", "a(b|c)*.x", "\xe4\\{0}", "$a&&^[b]", "a\nb"])
def test_query_when_its_id_has_odd_characters_then_what_it_left_is_found(start: StartQuery, prefix: str) -> None:
    query = start(prefix=prefix, tasks=2)
    query.run(0, dies_at=ONE_IS_COMMITTED)
    query.run(1, dies_at=ALL_HAVE_PREPARED)
    query.run(1)
    query.check()


def leftovers(broker: EmbeddedBroker, *arguments: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(main, ["txn", "leftovers", *arguments, "--bootstrap-server", broker.bootstrap_servers])
    return result.exit_code, result.output.splitlines()


def test_leftovers_when_a_query_was_killed_then_the_command_commits_what_is_decided_and_aborts_the_rest(
        broker: EmbeddedBroker, start: StartQuery) -> None:
    query = start()
    query.run(0, dies_at=ONE_IS_COMMITTED)
    assert leftovers(broker, "nobody") == (0, ["nobody: nothing is decided"])
    code, lines = leftovers(broker, "shop")
    assert (code, lines[0]) == (0, "shop: the last decision is batch 0, 3 transactions, query 3f0c")
    assert [line.partition(": ")[0] for line in lines[1:]] == ["shop.p1", "shop.p2"]
    assert all(line.endswith("decided, to be committed") and "not" not in line for line in lines[1:])
    assert leftovers(broker, "shop", "--end")[1][-1] == "shop: what was decided is committed, and nothing is open"
    query.done = 0
    query.check()
    query.run(1, dies_at=ALL_HAVE_PREPARED)
    code, lines = leftovers(broker, "shop", "--end")
    assert [line.endswith(", not decided, to be aborted") for line in lines] == [False, True, True, True, False]
    query.check()
    query.run(1, dies_at=DECIDED)
    broker.clock.advance(minutes=16)
    assert "task 2: its 10 rows are lost" in leftovers(broker, "shop", "--end", "--topic", "orders")[1][3]
    query.run(2)
    query.check()
    assert leftovers(broker, "shop.p1")[0] == 2, "that is no id of a stream"


def test_leftovers_when_the_driver_was_killed_in_the_decision_then_the_command_waits_for_nobody(
        broker: EmbeddedBroker, start: StartQuery) -> None:
    """It waited for the end of that, which nobody would bring about, and gave up; with --end, too."""
    query = start()
    query.run(0)
    query.run(1, dies_at=IN_THE_DECISION)
    code, lines = leftovers(broker, "shop", "--timeout", "2")
    assert (code, lines[0]) == (0, "shop: the last decision is batch 0, 3 transactions, query 3f0c")
    assert [line.endswith(", not decided, to be aborted") for line in lines] == [False, True, True, True]
    assert leftovers(broker, "shop", "--end")[1][-1] == "shop: what was decided is committed, and nothing is open"
    query.check()
