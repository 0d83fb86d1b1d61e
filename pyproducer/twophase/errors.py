"""What goes wrong with a batch that is to be written exactly once.

    ExactlyOnceError (KafkaError)
      RefusedBatchError       the batch does not follow what was decided: nothing was written
      LostTransactionsError   decided rows are not in the log, and are not, or cannot be, written again
      UndecidedError          the batch is not decided: no reader of committed records sees a row of it
      UnfinishedError         it is decided, and not all of it is committed yet: the next plan() does that

Each may be answered in the same way: begin again with plan(), and repeat the batch. The text says what else helps.

Road:    plan, task, two_phase -> [errors]
Thread:  values.
Source:  ours.
"""

from __future__ import annotations

from pyproducer.common.errors import KafkaError


class ExactlyOnceError(KafkaError):
    """Base of what goes wrong with a batch."""


class RefusedBatchError(ExactlyOnceError):
    """The batch does not follow what was decided before. Nothing was written."""


class LostTransactionsError(ExactlyOnceError):
    """Rows that were decided are not in the log: their transactions timed out. They are not written again."""


class UndecidedError(ExactlyOnceError):
    """The batch is not decided. No reader of committed records sees a row of it."""


class UnfinishedError(ExactlyOnceError):
    """The batch is decided, and not all of it is committed. The next plan() finishes it."""
