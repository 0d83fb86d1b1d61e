"""What was decided of the last batch: which transactions are committed, whoever does it.

It is kept as offsets of consumer groups, whose metadata are text of 4,096 bytes at most (offset.metadata.max.bytes); a
decision that is longer goes on in further groups, all of one transaction.

    group       offset       metadata
    P           batch        {"form":2,"query":"...","more":1,"tasks":[[task,producer id,epoch,rows,checksum],...]}
    P.d1        batch        [[task,producer id,epoch,rows,checksum],...]

Road:    two_phase -> [decision] -> TxnOffsetCommit, OffsetFetch
Thread:  values and pure functions.
Source:  ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

METADATA_BYTES = 4096
_HEAD_BYTES = 60  # of the first text, beside the query's id and the tasks
NO_BATCH = -1
FORM = 2
"""Of what is above, and of the checksums: equal rows have equal ones in decisions of one form alone."""


class DecidedTask(NamedTuple):
    """One task's transaction.

    Attributes:
        number: Of the task, its index.
        producer_id: With the epoch, which transaction.
        epoch: See there.
        row_count: How many rows it has.
        checksum: Of them.
    """

    number: int
    producer_id: int
    epoch: int
    row_count: int
    checksum: int


class Decision(NamedTuple):
    """The last batch that was decided.

    Attributes:
        batch_id: Its number.
        query_id: Whose; "" where nobody said.
        tasks: Those that wrote something.
    """

    batch_id: int
    query_id: str = ""
    tasks: tuple[DecidedTask, ...] = ()

    def texts(self, limit_bytes: int = METADATA_BYTES) -> list[str]:
        """Return it as texts, none of which is longer than the limit."""
        pieces = list(_pieces(self.tasks, limit_bytes - _HEAD_BYTES - len(json.dumps(self.query_id))))
        first = {"form": FORM, "query": self.query_id, "more": len(pieces) - 1, "tasks": pieces[0]}
        return [json.dumps(each, separators=(",", ":")) for each in (first, *pieces[1:])]

    @classmethod
    def of(cls, batch_id: int, texts: Sequence[str]) -> Decision:
        """Return what `texts` made texts of."""
        first = json.loads(texts[0])
        rows = [*first["tasks"], *(row for text in texts[1:] for row in json.loads(text))]
        return cls(batch_id, first["query"], tuple(DecidedTask(*row) for row in rows))


def more_texts(first: str) -> int:
    """Return how many texts follow the first.

    Raises:
        ValueError: It is none of ours, or one of another form.
    """
    try:
        told = json.loads(first)
        count = int(told["more"])
    except (KeyError, TypeError, ValueError) as cause:
        raise ValueError(f"this is no decision: {first[:200]!r}. Is it a consumer's?") from cause
    if told.get("form") != FORM:
        raise ValueError("this is a decision of another version of pyproducer, which makes checksums of rows "
                         "otherwise: have that one commit what it decided.")
    return count


def _pieces(tasks: Sequence[DecidedTask], room_bytes: int) -> Iterator[list[DecidedTask]]:
    piece: list[DecidedTask] = []
    left_bytes = room_bytes
    for task in tasks:
        task_bytes = len(json.dumps(task, separators=(",", ":"))) + 1
        if task_bytes > left_bytes and piece:
            yield piece
            piece, left_bytes = [], room_bytes
        piece.append(task)
        left_bytes -= task_bytes
    yield piece
