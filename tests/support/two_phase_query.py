"""A streaming query without Spark: numbered batches of the same rows, a checkpoint, tasks, and a driver that is killed.

No import of pytest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from pyproducer import IllegalStateError, KafkaProducer
from pyproducer.twophase import Decision, Plan, RowsDigest, TaskOutcome, TwoPhase
from pyproducer.twophase.two_phase import driver_id
from tests.support.log_checker import check_log, read_committed

A_TASK_HAS_SENT = "a task has sent"
ALL_HAVE_PREPARED = "all tasks have prepared"
ABOUT_TO_DECIDE = "about to decide"
IN_THE_DECISION = "in the middle of the decision"
DECIDED = "decided, nothing is committed"
ONE_IS_COMMITTED = "one task is committed"
ALL_ARE_COMMITTED = "all are committed, and the checkpoint does not know"
POINTS = (A_TASK_HAS_SENT, ALL_HAVE_PREPARED, ABOUT_TO_DECIDE, IN_THE_DECISION, DECIDED, ONE_IS_COMMITTED,
          ALL_ARE_COMMITTED)
UNDECIDED = POINTS[:4]


class Killed(BaseException):  # no KafkaError and no Exception: nothing may clean up behind it
    """The process is dead."""


class MortalDriver(TwoPhase):
    """A driver that dies at a point of the first batch it commits."""

    dies_at: str | None = None

    def _die(self, point: str) -> None:
        if self.dies_at == point:
            raise Killed(point)

    def decide(self, plan: Plan, batch_id: int, outcomes: Sequence[TaskOutcome]) -> Decision:
        self._die(ALL_HAVE_PREPARED)
        return super().decide(plan, batch_id, outcomes)

    def _keep(self, plan: Plan, decision: Decision) -> None:
        self._die(ABOUT_TO_DECIDE)
        client: Any = self._client()
        end = client.end_transactions

        def end_or_die(requests: Sequence[Any]) -> list[int]:
            if requests and requests[0].transactional_id == driver_id(plan.prefix):
                self._die(IN_THE_DECISION)
            return list(end(requests))

        client.end_transactions = end_or_die
        super()._keep(plan, decision)

    def finish(self, decision: Decision) -> None:
        self._die(DECIDED)
        if self.dies_at == ONE_IS_COMMITTED:
            super().finish(decision._replace(tasks=decision.tasks[:1]))
            raise Killed(self.dies_at)
        super().finish(decision)
        self._die(ALL_ARE_COMMITTED)


class Query:
    """The query; what survives a kill is `done`, its checkpoint, and what is in the cluster.

    Args:
        servers: Of the cluster.
        topic: Where it writes.
        prefix: exactly.once.id.
        tasks: How many.
        rows: Of each task in each batch.
        options: Of TwoPhase.
        props: Of the producers.
    """

    def __init__(self, servers: str, topic: str, prefix: str, *, tasks: int = 3, rows: int = 10,
                 options: dict[str, Any] | None = None, **props: object) -> None:
        self.servers = servers
        self.topic = topic
        self.prefix = prefix
        self.tasks = tasks
        self.rows = rows
        self.options = options or {}
        self.props = {"bootstrap.servers": servers, "linger.ms": 0, "transaction.timeout.ms": 900_000, **{
            name.replace("_", "."): value for name, value in props.items()}}
        self.query_id = "3f0c"
        self.version = b""  # of the rows: another one is a query that is not deterministic
        self.done = -1
        self._ends = ExitStack()
        self._producer: KafkaProducer | None = None

    def __enter__(self) -> Query:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._ends.close()

    # ---- what runs

    def run(self, last: int, *, dies_at: str | None = None) -> None:
        """Start, and go on up to a batch; with `dies_at` it is killed in the first one, as a process is."""
        driver = self.driver()
        self._producer = None  # of the processes that were
        try:
            for batch_id in range(self.done + 1, last + 1):
                plan = driver.plan()
                outcomes = [self.task(plan, task, batch_id, dies_at=dies_at) for task in range(self.tasks)]
                driver.dies_at = dies_at
                driver.commit(plan, batch_id, outcomes)
                self.done = batch_id
        except Killed:
            return
        assert dies_at is None, "it lived on"

    def driver(self) -> MortalDriver:
        """A driver; it is closed at the end of the test."""
        return self._ends.enter_context(MortalDriver(self.props, self.prefix, self.topic, **self.options))

    def task(self, plan: Plan, task: int, batch_id: int, *, dies_at: str | None = None) -> TaskOutcome:
        """One task of a batch."""
        rows = list(self.rows_of(batch_id, task))
        digest = RowsDigest()
        for row in rows:
            digest = digest.plus(row)
        work = plan.work(task, batch_id, self.query_id)
        if work.is_done or not rows:
            work.ensure_same(digest)
            return TaskOutcome.of(work, digest=digest)
        producer = self._producer or self.new_producer()
        transaction = work.transaction(producer)
        try:
            transaction.__enter__()
        except IllegalStateError:
            producer = self.new_producer()
            transaction = work.transaction(producer)
            transaction.__enter__()
        self._producer = producer
        try:
            for row in rows:
                producer.send(self.topic, row)
            if dies_at == A_TASK_HAS_SENT and task == self.tasks - 1:
                producer.flush()
                raise Killed(dies_at)
            outcome = transaction.prepare(digest)
        except Exception as error:
            transaction.__exit__(type(error), error, error.__traceback__)
            raise
        return outcome

    def new_producer(self) -> KafkaProducer:
        """A producer; it is closed at the end of the test, when what it has left open has been ended."""
        return self._ends.enter_context(KafkaProducer({**self.props, "transactional.id": f"{self.prefix}.p0"}))

    def rows_of(self, batch_id: int, task: int) -> Iterator[bytes]:
        """The rows of a task: as many as ever, whoever asks."""
        for row in range(self.rows):
            yield b"%d-%d-%d%s" % (batch_id, task, row, self.version)

    # ---- what is there

    def check(self, last: int | None = None) -> None:
        """Each row of each batch is there once, nothing else is, and nobody's transaction is open."""
        expected = [row for batch_id in range((self.done if last is None else last) + 1) for task in range(self.tasks)
                    for row in self.rows_of(batch_id, task)]
        assert self.driver().leftovers() == []
        check_log(expected, [record.value or b"" for record in read_committed(self.servers, self.topic)])

    def committed(self) -> set[bytes]:
        """What readers of committed records see now, whatever is open."""
        return {record.value or b"" for record in read_committed(self.servers, self.topic, is_one_open=True)}
