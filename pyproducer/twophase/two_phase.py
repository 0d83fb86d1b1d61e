"""The driver's part: what was left is repaired, a batch is decided in one step, and its transactions are ended.

    plan      the topic is there; fence other drivers; read the last decision; commit what it decided, abort the rest
    (tasks)   each prepares a transaction: see task.py
    decide    all of them are open, the topic is the same; then the decision: offsets of the driver's groups in a
              transaction of P.driver
    finish    commit each
    abort     where a batch failed: abort each that is not decided

Names, for the prefix P, as many as there are tasks whatever happens:

    P.driver  transactional id of the driver      P.p<i>  of task i, and the group of its marker
    P         group of the decision               P.d<k>  groups of what the decision has more

The decision is what counts. Before it nothing of the batch is committed; after it all of it is, by this driver or by
the next one's plan(). Nobody but the newest plan() can decide: it has initialised P.driver, by which decisions of all
plans before are aborted, and can be committed no more.

Road:    Spark's driver, `txn leftovers` -> [two phases] -> CoordinatorClient
Thread:  the caller's, one at a time.
Source:  ours; Flink's KafkaSink for bounded names and for what it loses: a transaction that is gone is no success here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

from pyproducer.client.coordinator_client import (
    CoordinatorClient,
    EndRequest,
    KeptCoordinators,
    TransactionDescription,
)
from pyproducer.common.clock import SystemClock
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.consumer_offsets import OffsetAndMetadata
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import UNKNOWN, ApiError, ConfigError, KafkaError
from pyproducer.common.kafka_string import beginning, string_fault
from pyproducer.common.topic_name import topic_name_fault
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from pyproducer.record.layout import ProducerIdAndEpoch
from pyproducer.twophase.decision import DecidedTask, Decision, more_texts
from pyproducer.twophase.errors import LostTransactionsError, RefusedBatchError, UndecidedError, UnfinishedError
from pyproducer.twophase.plan import Plan
from pyproducer.twophase.task import RowsDigest, TaskOutcome, task_id

if TYPE_CHECKING:
    from uuid import UUID

ID, TOPIC, ON_LOST, START = "exactly.once.id", "exactly.once.topic", "exactly.once.on.lost", "exactly.once.start"
TIMEOUT = "transaction.timeout.ms"
DEFAULT_TIMEOUT_MS = 900_000
"""transaction.max.timeout.ms of brokers by default: a transaction is to outlast the whole batch, and a restart."""
REWRITE, FAIL = "rewrite", "fail"
STRICT, CURRENT = "strict", "current"

ONGOING = "Ongoing"
_ENDED_OTHERWISE: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED,
                                     ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
_FENCED: Final = _ENDED_OTHERWISE - {ErrorCode.INVALID_TXN_STATE}
_FINISHED_LATER = "Start again: what is still open is committed then, and what timed out is written again"
# Not re.escape(), which writes a backslash before spaces, too: brokers have another dialect, and refuse some of that.
_SPECIAL, _QUOTED = re.compile(r"[\\.+*?()|\[\]{}^$]"), r"\\\g<0>"
_CHOICES: Final = {ON_LOST: (REWRITE, FAIL), START: (STRICT, CURRENT)}
_LAST_TASK = 2**31 - 1
_TAKEN = re.compile(r"\.(driver|[pd][0-9]+)$")

log: logging.Logger = logging.getLogger(__name__)


class Leftover(NamedTuple):
    """A transaction of a prefix that is open.

    Attributes:
        transactional_id: Its id.
        start_ms: When it began, in epoch ms.
        is_decided: Whether it belongs to the last decision, and is to be committed.
    """

    transactional_id: str
    start_ms: int
    is_decided: bool


class TwoPhase:
    """Decides batches, and ends their transactions. A context manager; the constructor touches no network.

    Args:
        props: The producer's settings; max.block.ms is the longest time of each step, transaction.timeout.ms (900000
            here, unless it is set) that of a batch from its first row to its end.
        prefix: What all ids and groups begin with; whoever repeats the batches after a crash has the same.
        topic: An existing topic; what was decided is kept as offsets of its partition 0. None, to look at what is left
            and to end it, takes the one that there is.
        awaits_topic: It may come with the first rows, where brokers create topics that are asked for.
        on_lost: "rewrite" has decided transactions that timed out written again where their batch is repeated; "fail"
            raises in plan().
        start: "strict" refuses a first batch above 0, and gaps; "current" takes them.

    Raises:
        ConfigError: A setting is wrong.
    """

    def __init__(self, props: Mapping[str, object], prefix: str, topic: str | None, *, awaits_topic: bool = False,
                 on_lost: str = REWRITE, start: str = STRICT) -> None:
        check_prefix(prefix)
        check_choices(on_lost, start)
        if topic is not None:
            check_topic(topic)
        self._config = ProducerConfig(CONFIG_TABLE.guarded({
            **({} if is_two_phase(props) else {TIMEOUT: DEFAULT_TIMEOUT_MS}), **props,
            "transactional.id": driver_id(prefix)}))
        self._prefix = prefix
        self._place = None if topic is None else TopicPartition(topic, 0)
        self._awaits_topic = awaits_topic
        self._on_lost = on_lost
        self._start = start
        self._coordinators = KeptCoordinators(self._config, SystemClock())

    # ---- the protocol

    def plan(self) -> Plan:
        """Take over, repair what was left, and return what the tasks need. Batches of drivers before this are void.

        Raises:
            ConfigError: The topic is not there, or transaction.timeout.ms is above what brokers allow. Not sent.
            LostTransactionsError: With on_lost="fail": decided rows are lost. Or nobody knows whether they are.
            RefusedBatchError: Another driver has planned meanwhile.
            KafkaError: A broker refuses, or does not answer in time. Nothing of a batch was written.
        """
        topic_id = self._known_topic()
        driver = self._init(driver_id(self._prefix))
        last = self.last_decision()
        gone = [] if last is None else self._commit_again(last)
        left = self._open()
        # Whatever is open now, and was so before a look by which nobody has planned since, nobody has decided. What a
        # newer driver has decided must not be aborted by this one, which may have slept since its first line.
        self._ensure_newest(driver)
        self._client().abort_and_fence(left)
        lost = [] if last is None else self._lost_of(last, gone, driver)
        if lost and self._on_lost == FAIL:
            raise LostTransactionsError(
                f"batch {0 if last is None else last.batch_id} of exactly.once.id {self._prefix!r} was decided, and "
                f"{sum(task.row_count for task in lost)} rows of tasks {[task.number for task in lost]} are not in the "
                "topic: their transactions were aborted before they were committed (transaction.timeout.ms). "
                "exactly.once.on.lost=rewrite has them written again, as the batch is repeated. Nothing was written")
        rows = RowsDigest.of_all(RowsDigest(task.row_count, task.checksum) for task in (last.tasks if last else ()))
        return Plan(self._prefix, "" if self._place is None else self._place.topic, driver,
                    last if last is None or lost else last._replace(tasks=()),
                    frozenset(task.number for task in lost), adopts=self._start == CURRENT, topic_id=topic_id,
                    rows=rows)

    def commit(self, plan: Plan, batch_id: int, outcomes: Sequence[TaskOutcome]) -> None:
        """Decide a batch, and commit what its tasks have prepared.

        Args:
            plan: By which the tasks worked.
            batch_id: Number of the batch.
            outcomes: Of all tasks.

        Raises:
            RefusedBatchError: The batch does not follow the last one, or an outcome is of another batch. Or it is the
                last one, and has more rows, was written once more, or has other rows while nobody told a query id.
            UndecidedError: It is not decided, or with outcome "unknown" nobody knows: the next plan() finds out.
            UnfinishedError: It is decided, and not all of it is committed: the next plan() does that.
        """
        self.finish(self.decide(plan, batch_id, outcomes))

    def decide(self, plan: Plan, batch_id: int, outcomes: Sequence[TaskOutcome]) -> Decision:
        """Make a batch's transactions those that are to be committed, in one step; see commit()."""
        query_id = next((outcome.query_id for outcome in outcomes if outcome.query_id), "")
        plan.ensure_follows(batch_id, query_id)
        others = {outcome.batch_id for outcome in outcomes} - {batch_id}
        if others:
            raise RefusedBatchError(f"batch {batch_id} of exactly.once.id {self._prefix!r} is given what tasks did for "
                                    f"batch {min(others)}. Nothing of it is visible")
        written = {outcome.index: outcome for outcome in outcomes if outcome.prepared is not None}
        tasks = [DecidedTask(index, outcome.prepared.producer_id, outcome.prepared.epoch, *outcome.digest)
                 for index, outcome in written.items() if outcome.prepared is not None]
        last = plan.last
        if last is not None and batch_id == last.batch_id:
            again = set(written) - plan.lost
            if again:
                raise RefusedBatchError(
                    f"batch {batch_id} of exactly.once.id {self._prefix!r} was decided, and tasks {sorted(again)} have "
                    "written rows again, though Work.is_done or by another plan. Nothing of this attempt is visible")
            if not plan.lost:
                _ensure_written(plan, last, RowsDigest.of_all(outcome.digest for outcome in outcomes),
                                is_same_query=bool(query_id and last.query_id))
                return last  # without tasks: it was decided, and plan() has finished it
            left = plan.lost - set(written)
            if left:
                raise UndecidedError(
                    f"batch {batch_id} of exactly.once.id {self._prefix!r} is repeated, and no task has written the "
                    f"rows of tasks {sorted(left)} again, which are lost: it has fewer tasks than before. Nothing of "
                    "this attempt is visible. Repeat it in as many parts")
            tasks += [task for task in last.tasks if task.number not in written]
        self._ensure_open(plan, batch_id, list(written.values()))
        decision = Decision(batch_id, query_id or (last.query_id if last else ""), tuple(sorted(tasks)))
        self._keep(plan, decision)
        return decision

    def finish(self, decision: Decision) -> None:
        """Commit the transactions of a decision; see commit()."""
        if not decision.tasks:
            return
        what = f"batch {decision.batch_id} of exactly.once.id {self._prefix!r} is decided, and"
        try:
            not_ended = self._commit_all(decision)
        except KafkaError as error:
            raise UnfinishedError(f"{what} may not be committed everywhere: {error} {_FINISHED_LATER}") from error
        if not_ended:
            names = ", ".join(f"task {task.number}: {ErrorCode.name_of(code)}" for task, code in not_ended)
            raise UnfinishedError(f"{what} could not be committed everywhere ({names}). {_FINISHED_LATER}")

    def abort(self, plan: Plan | None, batch_id: int, outcomes: Sequence[TaskOutcome]) -> bool:
        """Abort what the tasks of a batch have prepared or left open, unless it is decided.

        Args:
            plan: By which the tasks worked. None where no task told any: then it is not seen whether another driver has
                taken over, whose batch fails by this.
            batch_id: Number of the batch.
            outcomes: Of the tasks that told any.

        Returns:
            Whether it was aborted; False where the batch is decided, or another driver has taken over.

        Raises:
            KafkaError: A broker refuses, or does not answer in time. The next plan() aborts what is left.
        """
        driver = self._init(driver_id(self._prefix)) if plan is None else plan.driver
        # What is aborted below was open before a look by which nobody has planned since: see plan().
        left = self._open()
        if plan is None:
            if not self._is_newest(driver):
                return False
        else:
            # First the decision, if it is on its way: from here on it can come no more. Only then it is read.
            (code,) = self._client().end_transactions([EndRequest(driver_id(self._prefix), *driver, False)])
            if code in _FENCED:
                return False
        last = self.last_decision()
        decided = _transactions_of(self._prefix, last)
        prepared = [outcome.prepared for outcome in outcomes if outcome.prepared is not None]
        self._client().end_transactions([EndRequest(*each[:3], False) for each in prepared if each[:3] not in decided])
        self._client().abort_and_fence([each for each in left if _transaction(each) not in decided])
        return last is None or last.batch_id < batch_id or bool(plan and plan.lost and last == plan.last)

    # ---- what is left

    def last_decision(self, *, waits: bool = True) -> Decision | None:
        """Return what was decided last; None where nothing was.

        Args:
            waits: While somebody decides, wait for the end of that; else what was decided before is told.

        Raises:
            KafkaError: A broker refuses, or does not answer in time, or what it answers was not written here.
        """
        client, place = self._client(), self._place
        # By its name first: of all that the group has, brokers leave out what is being committed for the first time.
        (found,) = client.fetch_offsets([self._prefix], place, is_stable=waits)
        if not found and place is not None:
            (others,) = client.fetch_offsets([self._prefix], None, is_stable=waits)
            topics = sorted(other.topic for other, offset in others.items()
                            if other != place and _is_decision(offset.metadata))
            if topics:
                raise ConfigError(TOPIC, place.topic, f"decisions of {self._prefix!r} are kept for {', '.join(topics)}"
                                  ": name that here as long as the checkpoint lives, whatever topic the rows go to. "
                                  "Another query needs an id of its own. Nothing was written")
        if not found:
            return None
        if place is None and len(found) > 1:
            raise ConfigError(TOPIC, ", ".join(sorted(place.topic for place in found)), "decisions of "
                              f"{self._prefix!r} are kept for more than one topic: name the one that the query has now")
        place = self._place = place or next(iter(found))
        batch_id, first, _ = found[place]
        try:
            more_groups = [f"{self._prefix}.d{number + 1}" for number in range(more_texts(first or ""))]
        except ValueError as error:
            raise KafkaError(f"the group {self._prefix!r} has an offset for {place}, and {error} Use another "
                             "exactly.once.id") from error
        more = client.fetch_offsets(more_groups, place, is_stable=waits) if more_groups else []
        texts = [each[place] for each in more if place in each]
        if len(texts) < len(more_groups) or any(text.offset != batch_id for text in texts):
            # A newer driver may have decided between the questions.
            if not waits or client.fetch_offsets([self._prefix], place) != [found]:
                return self.last_decision()
            raise KafkaError(f"the decision of batch {batch_id} of exactly.once.id {self._prefix!r} is not whole: "
                             f"{len(more_groups)} groups {self._prefix}.d* belong to it. Were they deleted?")
        return Decision.of(batch_id, [first or "", *(text.metadata or "" for text in texts)])

    def leftovers(self) -> list[Leftover]:
        """Return the transactions of the tasks that are open; nothing is changed.

        Raises:
            KafkaError: A broker refuses, or does not answer in time.
        """
        decided = _transactions_of(self._prefix, self.last_decision(waits=False))
        return [Leftover(each.transactional_id, each.start_ms, _transaction(each) in decided) for each in self._open()]

    # ---- steps

    def _known_topic(self) -> UUID | None:
        """Return the id of the topic of decisions; None where it may come, or is to be found.

        Raises:
            ConfigError: It is not there. A task's marker would wait for it, until max.block.ms.
        """
        if self._place is None:
            return None
        topic_id = self._client().topic_id(self._place.topic)
        if topic_id is None and not self._awaits_topic:
            raise ConfigError(TOPIC, self._place.topic, "there is no such topic, and what was decided is kept as "
                              "offsets of its partition 0: create it, or name one that exists. Nothing was written")
        return topic_id

    def _commit_again(self, last: Decision) -> list[tuple[DecidedTask, int]]:
        """Commit what was decided; return the tasks whose transactions are committed, or gone, and by which code."""
        gone = self._commit_all(last)
        for task, code in gone:
            if code not in _ENDED_OTHERWISE:
                raise error_for_code(code, message=f"The transaction of {task_id(self._prefix, task.number)!r}, which "
                                                   "was decided:", api="EndTxn")
        return gone

    def _lost_of(self, last: Decision, gone: Sequence[tuple[DecidedTask, int]],
                 driver: ProducerIdAndEpoch) -> list[DecidedTask]:
        """Return which of these have not been committed.

        Where one was, its marker has the batch's number. A higher one is of another life of the id, whose decisions
        somebody has deleted: the next batch is decided only when all of this one is committed.

        Raises:
            LostTransactionsError: Of one its coordinator has forgotten the id, and its group the marker, if it had one.
        """
        found = self._client().fetch_offsets([task_id(self._prefix, task.number) for task, _ in gone], self._place)
        lost: list[DecidedTask] = []
        forgotten: list[int] = []
        for (task, code), markers in zip(gone, found):  # noqa: B905 - one for each
            if not markers and code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                forgotten.append(task.number)
            elif all(marker.offset != last.batch_id for marker in markers.values()):
                lost.append(task)
        if lost or forgotten:
            self._ensure_newest(driver)  # or the markers may be those of a newer one's batches
        if forgotten:
            unknown = (f"batch {last.batch_id} of exactly.once.id {self._prefix!r} was decided, and nobody knows any "
                       f"more whether the rows of tasks {forgotten} are in the topic: their transactional ids were "
                       "forgotten (transactional.id.expiration.ms), and so were the markers "
                       "(offsets.retention.minutes)")
            if self._start != CURRENT:
                raise LostTransactionsError(f"{unknown}. Look whether they are there. exactly.once.start=current, for "
                                            "one start, takes them for committed. Nothing was written")
            log.warning("%s. They are taken for committed", unknown)
        if lost:
            log.warning("Batch %d of exactly.once.id %s was decided, and %d rows of tasks %s are not in the topic: "
                        "their transactions timed out before they were committed", last.batch_id, self._prefix,
                        sum(task.row_count for task in lost), [task.number for task in lost])
        return lost

    def _open(self) -> list[TransactionDescription]:
        """Return the transactions of tasks that are open."""
        client = self._client()
        rows = client.list_transactions(states=[ONGOING], pattern=rf"{_SPECIAL.sub(_QUOTED, self._prefix)}\.p[0-9]+")
        found = client.describe_transactions([row.transactional_id for row in rows])
        return [each for each in found if each.state == ONGOING]

    def _is_newest(self, driver: ProducerIdAndEpoch) -> bool:
        """Whether nobody has planned since a plan's driver was initialised."""
        (found,) = self._client().describe_transactions([driver_id(self._prefix)])
        return (found.producer_id, found.epoch) == driver

    def _ensure_newest(self, driver: ProducerIdAndEpoch) -> None:
        if not self._is_newest(driver):
            raise RefusedBatchError(f"another driver has begun with exactly.once.id {self._prefix!r} meanwhile: run "
                                    "one query for each. Nothing was written")

    def _commit_all(self, decision: Decision) -> list[tuple[DecidedTask, int]]:
        """Commit each transaction of a decision, again where it was; return those that are not, with the codes."""
        codes = self._client().end_transactions([
            EndRequest(task_id(self._prefix, task.number), task.producer_id, task.epoch, True)
            for task in decision.tasks])
        return [(task, code) for task, code in zip(decision.tasks, codes) if code]  # noqa: B905 - one for each

    def _ensure_open(self, plan: Plan, batch_id: int, outcomes: Sequence[TaskOutcome]) -> None:
        """Check that what is about to be decided is still there.

        Raises:
            UndecidedError: A transaction is not open, or is another attempt's; or the topic is another one.
        """
        prepared = [outcome.prepared for outcome in outcomes if outcome.prepared is not None]
        try:
            found = self._client().describe_transactions([each.transactional_id for each in prepared])
            topic_id = self._client().topic_id(plan.topic) if prepared and plan.topic_id is not None else None
        except KafkaError as error:
            raise UndecidedError(f"batch {batch_id} of exactly.once.id {self._prefix!r} is not decided: {error} "
                                 "Nothing of it is visible; start again to repeat it") from error
        gone = [f"{each.transactional_id}: {now.state or ErrorCode.name_of(now.error_code)}, producer id "
                f"{now.producer_id}, epoch {now.epoch} in place of {each.producer_id}, {each.epoch}"
                for each, now in zip(prepared, found)  # noqa: B905 - one for each
                if (now.state, now.producer_id, now.epoch) != (ONGOING, each.producer_id, each.epoch)]
        if gone:
            raise UndecidedError(
                f"batch {batch_id} of exactly.once.id {self._prefix!r} is not decided: of {len(prepared)} prepared "
                f"transactions {len(gone)} are gone ({'; '.join(gone[:5])}). Either the batch took longer than "
                f"transaction.timeout.ms, which is {self._config.transaction_timeout_ms}, or the id was initialised "
                "since: by a copy of the task (leave spark.speculation off), or by another query of this id. Nothing "
                "of the batch is visible; start again to repeat it")
        if topic_id is not None and topic_id != plan.topic_id:  # a transaction is committed without what was deleted
            raise UndecidedError(
                f"batch {batch_id} of exactly.once.id {self._prefix!r} is not decided: topic {plan.topic!r} was "
                f"deleted and made anew while it ran ({plan.topic_id} is {topic_id} now), and rows that were in it "
                "before are gone. Nothing of the batch is visible; start again to repeat it, with "
                "exactly.once.start=current where the brokers have forgotten with the topic what was decided before")

    def _keep(self, plan: Plan, decision: Decision) -> None:
        """Take the decision: one transaction, which only the driver of this plan can commit."""
        texts = decision.texts()
        groups = [self._prefix, *(f"{self._prefix}.d{number}" for number in range(1, len(texts)))]
        whose = driver_id(self._prefix)
        what = f"batch {decision.batch_id} of exactly.once.id {self._prefix!r}"
        try:
            self._client().commit_offsets(whose, plan.driver, plan.place, {
                group: OffsetAndMetadata(decision.batch_id, text)
                for group, text in zip(groups, texts)})  # noqa: B905 - one for each
        except KafkaError as error:
            raise UndecidedError(f"{what} is not decided: {error} {_why(error)}Nothing of it is visible; start again "
                                 "to repeat it") from error
        try:
            (code,) = self._client().end_transactions([EndRequest(whose, *plan.driver, True)])
            if code:
                raise error_for_code(code, api="EndTxn")
        except KafkaError as error:  # an answer may have been lost before
            unknown = UndecidedError(f"it is not known whether {what} is decided: {error} {_why(error)}Start again: "
                                     "the next start finds out, and finishes or repeats the batch")
            unknown.outcome = UNKNOWN
            raise unknown from error

    def _init(self, transactional_id: str) -> ProducerIdAndEpoch:
        timeout_ms = self._config.transaction_timeout_ms
        try:
            return self._client().init_producer_id(transactional_id, timeout_ms)
        except ApiError as error:
            if error.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise
            raise ConfigError(TIMEOUT, timeout_ms, "the brokers allow at most their "
                              "transaction.max.timeout.ms (900000 by default): lower it, or raise that. It must be "
                              "longer than a batch takes and than a restart. Nothing was written") from error

    # ---- connections

    def _client(self) -> CoordinatorClient:
        return self._coordinators.client()

    def close(self) -> None:
        """Close the connections; another call makes new ones."""
        self._coordinators.close()

    def __enter__(self) -> TwoPhase:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()


def is_two_phase(props: Mapping[str, object]) -> bool:
    """Whether the cluster has two-phase commit (KIP-939), and transactions no timeout."""
    return str(props.get("transaction.two.phase.commit.enable", False)).strip().lower() == "true"


def driver_id(prefix: str) -> str:
    """Return the driver's transactional id."""
    return f"{prefix}.driver"


def check_prefix(prefix: object) -> None:
    """Do nothing where it can be one.

    Raises:
        ConfigError: It cannot.
    """
    if not isinstance(prefix, str) or not prefix.strip():
        raise ConfigError(ID, prefix, "it must be a str that is not empty")
    if _TAKEN.search(prefix):
        raise ConfigError(ID, prefix, "it must not end like what is made of an id: .driver, .p0, .d1")
    fault = string_fault(task_id(prefix, _LAST_TASK))
    if fault is not None:
        raise ConfigError(ID, beginning(prefix), f"it is sent with a task's number behind it: {fault}")


def check_topic(topic: str) -> None:
    """Do nothing where a topic can have the name.

    Raises:
        ConfigError: None can.
    """
    fault = topic_name_fault(topic)
    if fault is not None:
        raise ConfigError(TOPIC, beginning(topic), fault)


def check_choices(on_lost: object, start: object) -> None:
    """Do nothing where each is one of those that there are.

    Raises:
        ConfigError: One is not.
    """
    for name, value in ((ON_LOST, on_lost), (START, start)):
        if value not in _CHOICES[name]:
            raise ConfigError(name, value, f"it is {' or '.join(_CHOICES[name])}")


def _transaction(found: TransactionDescription) -> tuple[str, int, int]:
    return found.transactional_id, found.producer_id, found.epoch


def _transactions_of(prefix: str, decision: Decision | None) -> set[tuple[str, int, int]]:
    return set() if decision is None else {
        (task_id(prefix, task.number), task.producer_id, task.epoch) for task in decision.tasks}


def _ensure_written(plan: Plan, last: Decision, rows: RowsDigest, *, is_same_query: bool) -> None:
    """Check that a batch that is decided, and of which nothing is written again, has no rows that nobody wrote.

    Those that were decided count: others in their place, of a query with rand(), are told in the log. But where nobody
    tells which query it is they may be another one's, or of a second call for this batch.
    """
    if not rows.row_count or rows == plan.rows:
        return
    if not plan.adopts:
        batch = (f"batch {last.batch_id} of exactly.once.id {plan.prefix!r} was decided with {plan.rows.row_count} "
                 f"rows, and has {rows.row_count}")
        if rows.row_count > plan.rows.row_count:
            raise RefusedBatchError(
                f"{batch} now, of which some were never written. Either the checkpoint was rolled back by this one "
                "batch, which was made anew with what had come since; or the query has other rows each time. "
                "exactly.once.start=current, for one start, goes on without those. A new exactly.once.id with it has "
                "all of this batch written: what was decided of it is in the topic twice then. Nothing was written")
        if not is_same_query:
            raise RefusedBatchError(
                f"{batch} others now, or in another order, and it is not known of which query they are: of another "
                "one, of a checkpoint that was deleted, or of a second call for this batch they were never written. "
                "Call foreach_batch once for each micro-batch; a thread of your own knows the query by "
                "pyspark.inheritable_thread_target, and Spark Connect tells none. With a new checkpoint use a new id. "
                "If it is the same query, which has other rows each time or other partitions, "
                "exactly.once.start=current, for one start, takes what was decided for them. Nothing was written")
    log.warning("Batch %d of exactly.once.id %s was decided with other rows, which are in the topic: %d, and it has %d "
                "now. Was the checkpoint rolled back, or has the query other rows each time?", last.batch_id,
                plan.prefix, plan.rows.row_count, rows.row_count)


def _is_decision(metadata: str | None) -> bool:
    try:
        more_texts(metadata or "")
    except ValueError:
        return False
    return True


def _why(error: KafkaError) -> str:
    code = error.code if isinstance(error, ApiError) else 0
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return "What is decided is kept as offsets of that partition: exactly.once.topic names a topic that exists. "
    if code == ErrorCode.OFFSET_METADATA_TOO_LARGE:
        return "offset.metadata.max.bytes of the brokers must be 4096, which it is by default, or more. "
    return "Another driver has begun with this id since: run one query for each. " if code in _FENCED else ""
