"""The table of a batch's states: every move that it has, none that it has not, and one function that makes them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pyproducer
from pyproducer.accumulator.batch_state import READ_BY_A_REQUEST, WAITING, BatchState, move
from pyproducer.accumulator.producer_batch import ProducerBatch
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import LocalProtocolError

OPEN, QUEUED, DRAINED, ON_WIRE, RETRY, LATE, SPLIT, DONE = BatchState
WAYS: dict[BatchState, tuple[BatchState, ...]] = {  # to each state by the shortest lawful way
    OPEN: (), QUEUED: (QUEUED,), DRAINED: (QUEUED, DRAINED), ON_WIRE: (QUEUED, DRAINED, ON_WIRE),
    RETRY: (QUEUED, DRAINED, ON_WIRE, RETRY), LATE: (QUEUED, DRAINED, ON_WIRE, LATE),
    SPLIT: (QUEUED, DRAINED, ON_WIRE, SPLIT), DONE: (DONE,)}
EVENTS = {  # what may happen to a batch, and from where it may lead there
    "full or due": ({OPEN}, QUEUED),
    "compressed, numbered, with a header": ({QUEUED, RETRY}, DRAINED),
    "handed to the client": ({DRAINED}, ON_WIRE),
    "failed attempt, or a turn that ended half way": ({DRAINED, ON_WIRE}, RETRY),
    "expired on the wire": ({ON_WIRE}, LATE),
    "too large": ({ON_WIRE}, SPLIT),
    "stored, failed, expired, aborted, given up": (set(BatchState) - {DONE}, DONE),
}


def batch_in(state: BatchState) -> ProducerBatch:
    batch = ProducerBatch(TopicPartition("t", 0), created_ms=0, write_limit_bytes=100, reserved_bytes=0)
    for to in WAYS[state]:
        move(batch, to)
    assert batch.state is state
    return batch


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", BatchState)
def test_move_when_an_event_comes_then_it_leads_where_the_table_says_or_is_refused(
        state: BatchState, event: str) -> None:
    lawful, to = EVENTS[event]
    batch = batch_in(state)
    if state in lawful:
        move(batch, to)
        assert batch.state is to
        return
    with pytest.raises(LocalProtocolError, match=f"cannot move from {state.name} to {to.name}"):
        move(batch, to)
    assert batch.state is state


def test_states_when_grouped_then_each_is_in_one_group_at_most() -> None:
    assert not WAITING & READ_BY_A_REQUEST
    assert {state: batch_in(state).is_in_flight for state in BatchState} == {
        state: state in (ON_WIRE, LATE) for state in BatchState}
    assert {state for state in BatchState if batch_in(state).is_done} == {SPLIT, DONE}, "no outcome is decided here"


def test_sealing_when_a_batch_takes_no_records_any_more_then_nothing_changes() -> None:
    for state in BatchState:
        batch = batch_in(state)
        batch.seal()
        assert batch.state is (QUEUED if state is OPEN else state)
        assert batch.open.try_append(0, None, b"", (), None) is None


def test_state_when_the_sources_are_read_then_one_function_writes_it() -> None:
    package = Path(pyproducer.__file__).parent
    writers = []
    folders = [package / folder for folder in ("accumulator", "sender", "transaction")]
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if ".state" in text else ():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(
                node, (ast.AugAssign, ast.AnnAssign)) else []
            if any(isinstance(target, ast.Attribute) and target.attr == "state" for target in targets):
                writers.append(path.relative_to(package).as_posix())
    # Not the producer's, and not a partition's numbers'.
    of_batches = [writer for writer in writers
                  if writer not in ("accumulator/life.py", "accumulator/partition_sequence.py")]
    assert of_batches == ["accumulator/batch_state.py", "accumulator/producer_batch.py"], "the second one: its birth"
