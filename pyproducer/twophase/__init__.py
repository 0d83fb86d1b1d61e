"""Exactly once for whoever has a driver and workers: a batch is decided in one step, and finished whoever dies.

    with TwoPhase(props, "orders-stream", "orders") as driver:                   # driver
        plan = driver.plan()
        ...                                                                      # the plan goes to the workers
        work = plan.work(index, batch_id)                                        # each worker
        if not work.is_done:
            with work.transaction(producer) as transaction:
                ...                                                              # send the rows
                outcome = transaction.prepare(digest)                            # it goes back to the driver
        else:
            work.ensure_same(digest)                                             # of the rows, which are only read
            outcome = TaskOutcome.of(work, digest=digest)
        ...
        driver.commit(plan, batch_id, outcomes)                                  # driver

Who calls it must be able to repeat a batch that failed with the same number, the same rows in the same parts:
docs/spark.md tells the protocol and what becomes of each failure.

Road:    Spark's sink -> [two phases] -> producer, CoordinatorClient
Thread:  one at a time; plans and outcomes are values that travel.
Source:  ours.
"""

from __future__ import annotations

from pyproducer.twophase.decision import DecidedTask, Decision
from pyproducer.twophase.errors import (
    ExactlyOnceError,
    LostTransactionsError,
    RefusedBatchError,
    UndecidedError,
    UnfinishedError,
)
from pyproducer.twophase.plan import Plan, Work
from pyproducer.twophase.task import RowsDigest, TaskOutcome, TaskTransaction
from pyproducer.twophase.two_phase import Leftover, TwoPhase

__all__ = ["DecidedTask", "Decision", "ExactlyOnceError", "Leftover", "LostTransactionsError", "Plan",
           "RefusedBatchError", "RowsDigest", "TaskOutcome", "TaskTransaction", "TwoPhase", "UndecidedError",
           "UnfinishedError", "Work"]
