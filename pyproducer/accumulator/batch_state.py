"""Where a batch is between its first record and its end: the one table of its states, and the one way to move.

    OPEN      takes records
    QUEUED    sealed; it has no sequence number yet
    DRAINED   its bytes are ready, with number and header
    ON_WIRE   a request reads its bytes; set before the client gets it
    RETRY     keeps its place and its number, and waits out its backoff; the parts of a split batch begin here
    LATE      told as expired while a request reads its bytes: its memory is given back when that ended
    SPLIT     its records go on in the batches that took its place
    DONE      decided, told, and out of its partition's list

A batch is in its partition's list from its first record until it is DONE, whatever its state: nothing else holds it.

Road:    every stretch of the accumulator and the sender asks; nobody else writes
Thread:  OPEN to QUEUED: any caller, with the partition's lock held. All other moves: the sender thread.
Source:  Java ProducerBatch.FinalState, RecordAccumulator's deques, Sender.inFlightBatches and IncompleteBatches (4.1),
         which are four places that can disagree.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pyproducer.common.errors import LocalProtocolError

if TYPE_CHECKING:
    from pyproducer.accumulator.producer_batch import ProducerBatch


class BatchState(enum.Enum):
    """See the table above."""

    OPEN = "open"
    QUEUED = "queued"
    DRAINED = "drained"
    ON_WIRE = "on the wire"
    RETRY = "retry"
    LATE = "late"
    SPLIT = "split"
    DONE = "done"

    # By identity, in C: Enum's own is a Python call, and the sender asks for the state of every batch in each turn.
    __hash__: ClassVar[Callable[[object], int]] = object.__hash__


_MOVES: dict[BatchState, frozenset[BatchState]] = {
    BatchState.OPEN: frozenset({BatchState.QUEUED, BatchState.DONE}),
    BatchState.QUEUED: frozenset({BatchState.DRAINED, BatchState.DONE}),
    BatchState.DRAINED: frozenset({BatchState.ON_WIRE, BatchState.RETRY, BatchState.DONE}),
    BatchState.ON_WIRE: frozenset({BatchState.RETRY, BatchState.SPLIT, BatchState.LATE, BatchState.DONE}),
    BatchState.RETRY: frozenset({BatchState.DRAINED, BatchState.DONE}),
    BatchState.LATE: frozenset({BatchState.DONE}),
    BatchState.SPLIT: frozenset({BatchState.DONE}),
    BatchState.DONE: frozenset(),
}

WAITING = frozenset({BatchState.OPEN, BatchState.QUEUED, BatchState.RETRY})
"""It may be drained, when it is its partition's turn."""

READ_BY_A_REQUEST = frozenset({BatchState.ON_WIRE, BatchState.LATE})
"""A socket may still read its bytes."""


def move(batch: ProducerBatch, to: BatchState) -> None:
    """Move a batch to another state.

    Raises:
        LocalProtocolError: The table has no such move; nothing was changed.
    """
    if to not in _MOVES[batch.state]:
        raise LocalProtocolError(f"{batch!r} cannot move from {batch.state.name} to {to.name}")
    batch.state = to
