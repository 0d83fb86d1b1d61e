"""What makes a stream's sink deliver each row exactly once: options, the batch on the driver, the task in a worker.

    exactly.once.id         what all transactional ids and groups begin with; none is at least once
    exactly.once.topic      whose partition 0 keeps what was decided; the topic option, unless rows name their topics
    exactly.once.on.lost    rewrite, or fail
    exactly.once.start      strict, or current
    transaction.timeout.ms  900000 here

Road:    sink, datasource -> [exactly once] -> pyproducer.twophase
Thread:  the driver's; the task's.
Source:  ours. Nothing here loads the two phases, which need a client, before a stream wants them.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyproducer.common.errors import ConfigError, IllegalStateError, KafkaError
from pyproducer.spark.driver_log import say
from pyproducer.spark.running_digest import RunningDigest
from pyproducer.spark.task_numbers import TaskNumbers, this_task

if TYPE_CHECKING:
    from pyproducer.spark.pool import Lent
    from pyproducer.spark.settings import SinkSettings
    from pyproducer.spark.sink import KafkaSink
    from pyproducer.twophase import Plan, TaskOutcome, TaskTransaction, TwoPhase, Work

ID, TOPIC, ON_LOST, START = "exactly.once.id", "exactly.once.topic", "exactly.once.on.lost", "exactly.once.start"

_WRITTEN: dict[tuple[str, str], tuple[str, int]] = {}
"""On the driver, by brokers and id: the run of a query, and the micro-batch it has committed last. Spark repeats a
micro-batch in another run only. One entry for each id."""

Told = tuple[TaskNumbers, "TaskOutcome"]
Send = Callable[[Iterable[Any], "Lent"], TaskNumbers]


@dataclass(frozen=True)
class ExactlyOnce:
    """The options of one stream's sink.

    Attributes:
        prefix: exactly.once.id.
        topic: Whose partition 0 keeps what was decided.
        on_lost: See the option.
        start: See the option.
    """

    prefix: str
    topic: str
    on_lost: str
    start: str

    @classmethod
    def taken_from(cls, props: dict[str, object], topic: str | None) -> ExactlyOnce | None:
        """Take the options out of a sink's settings, and put in what its producers need; None where there is no id.

        Raises:
            ConfigError: An option is wrong, or the others are there without an id. Not sent.
        """
        given = {name: props.pop(name) for name in (ID, TOPIC, ON_LOST, START) if name in props}
        if ID not in given:
            for name, value in given.items():
                raise ConfigError(name, value, f"it is for streams that are written exactly once: set {ID}, too")
            return None
        from pyproducer.twophase.two_phase import (
            DEFAULT_TIMEOUT_MS,
            REWRITE,
            STRICT,
            TIMEOUT,
            check_choices,
            check_prefix,
            check_topic,
            is_two_phase,
        )

        prefix: Any = given[ID]
        check_prefix(prefix)
        place = given.get(TOPIC, topic)
        if not isinstance(place, str) or not place.strip():
            raise ConfigError(TOPIC, place, "rows name their topics, so name one here that exists: what was decided is "
                                            "kept as offsets of its partition 0")
        check_topic(place.strip())
        on_lost, start = given.get(ON_LOST, REWRITE), given.get(START, STRICT)
        check_choices(on_lost, start)
        props["transactional.id"] = f"{prefix}.p0"  # each task binds its own
        if not is_two_phase(props):
            props.setdefault(TIMEOUT, DEFAULT_TIMEOUT_MS)
        return cls(prefix, place.strip(), str(on_lost), str(start))


def driver_of(settings: SinkSettings) -> TwoPhase:
    """Return the driver's part for a sink that has the options."""
    from pyproducer.twophase import TwoPhase

    once = settings.exactly_once
    if once is None:
        raise IllegalStateError(f"the sink has no {ID}")
    return TwoPhase(settings.props, once.prefix, once.topic, awaits_topic=once.topic == settings.topic,
                    on_lost=once.on_lost, start=once.start)


def ensure_at_least_once(settings: SinkSettings, how: str) -> None:
    """Check that a sink has not the options, where they cannot be kept.

    Raises:
        ConfigError: It has. Not sent.
    """
    once = settings.exactly_once
    if once is not None:
        raise ConfigError(ID, once.prefix, f"{how} cannot be exactly once, for Spark tells it no number of a batch: "
                          "use writeStream.format('pyproducer'), or writeStream.foreachBatch(sink.foreach_batch)")


def run_batch(settings: SinkSettings, batch_id: int, run: Callable[[Plan], list[Told]], *,
              query_run: str | None = None) -> list[TaskNumbers]:
    """Plan a micro-batch, have its tasks run, and commit it; abort it where that fails. All on the driver.

    Args:
        settings: Of a sink that has the options.
        batch_id: Number of the micro-batch.
        run: Has the tasks run.
        query_run: Which run of the query calls, where that is known.

    Raises:
        RefusedBatchError: This run of the query has written the micro-batch already: the rows of now would pass for
            written. Not sent.
        KafkaError: As TwoPhase.plan() and TwoPhase.commit().
    """
    once = settings.exactly_once
    this = once and (str(settings.props.get("bootstrap.servers")), once.prefix)
    if this and query_run is not None and _WRITTEN.get(this) == (query_run, batch_id):
        from pyproducer.twophase import RefusedBatchError

        raise RefusedBatchError(f"micro-batch {batch_id} was written with {ID} {this[1]!r} before, in this run of the "
                                "query: call foreach_batch once for each micro-batch, with one DataFrame (union), or "
                                "give each sink an id of its own. Nothing was written by this call")
    with driver_of(settings) as driver:
        plan = driver.plan()
        told: list[Told] = []
        try:
            plan.ensure_follows(batch_id)
            told = run(plan)
            driver.commit(plan, batch_id, [outcome for _, outcome in told])
            if this and query_run is not None:
                _WRITTEN[this] = query_run, batch_id
        except BaseException:
            abort_batch(driver, plan, batch_id, [outcome for _, outcome in told])
            raise
        return [numbers for numbers, _ in told]


def abort_batch(driver: TwoPhase, plan: Plan | None, batch_id: int, outcomes: list[TaskOutcome]) -> None:
    """Abort a micro-batch that failed; the failure is on its way already, so what goes wrong here is only told.

    Where what a task reads fails, Spark ends its worker without a word, and the transaction stays open: readers of
    committed records would wait for it. So what is left is looked for, also where no task told any.
    """
    try:
        driver.abort(plan, batch_id, outcomes)
    except KafkaError as error:
        say(logging.WARNING, "micro-batch %d failed, and its transactions could not be aborted: the next start does "
                             "that, or their coordinator: %s", batch_id, error)


def told_batch() -> tuple[int, str] | None:
    """Return which micro-batch this task belongs to, and the id of its query; None where Spark does not tell it.

    It tells none to the tasks of a foreachBatch on Spark Connect.
    """
    from pyspark.taskcontext import TaskContext

    context = TaskContext.get()
    batch_id = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if context is None or batch_id is None:
        return None
    return int(batch_id), context.getLocalProperty("sql.streaming.queryId") or ""


def send_once(sink: KafkaSink, plan: Plan, parts: Iterable[Any], add: Callable[[RunningDigest, Any], None],
              send: Send, batch_id: int | None = None) -> Told:
    """Write the rows of one task in a transaction, and prepare it; or, where they are written already, only read them.

    Args:
        sink: Whose task it is.
        plan: Of the micro-batch.
        parts: Rows, or record batches.
        add: Adds one of these to a digest.
        send: Sends them with a producer.
        batch_id: Number of the micro-batch; None has Spark tell it.

    Raises:
        IllegalStateError: Nobody tells which micro-batch this is. Not sent.
        RefusedBatchError: The batch does not follow what was decided. Not sent.
        LostTransactionsError: The rows of a repeated batch are others. The transaction is aborted.
        KafkaError: A row was not stored. The transaction is aborted.
    """
    from pyproducer.twophase import TaskOutcome

    told_id, query_id = told_batch() or (None, "")
    batch_id = told_id if batch_id is None else batch_id
    if batch_id is None:
        raise IllegalStateError(f"{ID} is set, and Spark does not tell this task which micro-batch it belongs to")
    task = this_task()
    work = plan.work(max(task.spark_partition, 0), batch_id, query_id)
    running = RunningDigest(sink.topic)

    def digested() -> Iterator[Any]:
        for part in parts:
            add(running, part)
            yield part

    iterator = digested()
    if not work.is_done:
        for first in iterator:
            with ExitStack() as stack:
                lent, transaction = _begun(sink, work, stack)
                numbers = send(itertools.chain((first,), iterator), lent)
                outcome = transaction.prepare(running.digest)
            return sink.tell(replace(numbers, is_exactly_once=True)), outcome
    for _ in iterator:
        pass
    work.ensure_same(running.digest)
    return sink.tell(replace(task, is_exactly_once=True)), TaskOutcome.of(work, digest=running.digest)


def _begun(sink: KafkaSink, work: Work, stack: ExitStack) -> tuple[Lent, TaskTransaction]:
    """Lend a producer and begin the task's transaction, both up to the end of a stack."""
    with ExitStack() as trial:
        try:
            lent = trial.enter_context(sink.lease())
            transaction = trial.enter_context(_transaction(work, lent))
        except IllegalStateError as error:
            # An earlier attempt of the task in this very process has prepared, and Spark wants it again. That producer
            # keeps its promise; another one ends what it has prepared.
            trial.__exit__(type(error), error, error.__traceback__)
        else:
            stack.push(trial.pop_all())
            return lent, transaction
    lent = stack.enter_context(sink.lease())
    return lent, stack.enter_context(_transaction(work, lent))


def _transaction(work: Work, lent: Lent) -> TaskTransaction:
    producer: Any = lent.producer  # it was made with a transactional.id
    return work.transaction(producer)
