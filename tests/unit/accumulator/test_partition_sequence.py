"""The numbers of one partition: each cell of the table, and who may go, step aside or is given up."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from pyproducer.accumulator.batch_state import BatchState
from pyproducer.accumulator.partition_sequence import (
    DISTURBED,
    REFUSALS,
    PartitionSequence,
    SequenceEvent,
    SequenceState,
)
from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.common.error_codes import ErrorCode
from pyproducer.common.errors import LocalProtocolError
from pyproducer.record.layout import MAX_SEQUENCE, NO_PRODUCER, ProducerIdAndEpoch, increment_sequence, is_earlier

TOPIC, OTHER_TOPIC = uuid.UUID(int=1), uuid.UUID(int=2)
OUT_OF_ORDER, UNKNOWN_ID, INVALID_EPOCH = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)
SILENCE_MS = 1000


class Batch:
    """What the sequence needs of a ProducerBatch."""

    def __init__(self, count: int) -> None:
        self.record_count = count
        self.state = BatchState.QUEUED
        self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.may_be_in_log = self.is_done = False
        self.first_sent_ms: int | None = None
        self.topic_id: uuid.UUID | None = TOPIC
        self.leader_epoch = 3
        self.parts_in_doubt: list[Any] = []

    @property
    def is_in_flight(self) -> bool:
        return self.state in (BatchState.ON_WIRE, BatchState.LATE)

    @property
    def place(self) -> tuple[int, int, int]:
        return self.producer_id, self.producer_epoch, self.base_sequence


class Setup:
    """A partition of a producer with id 7, stepped by its sender."""

    def __init__(self, *, epoch: int = 0) -> None:
        self.manager = TransactionManager(SILENCE_MS)
        self.manager.on_producer_id(7, epoch)
        self.batches: list[Any] = []
        self.sequence = PartitionSequence(self.batches, self.manager)
        self.now_ms = 10_000

    @property
    def state(self) -> SequenceState:
        return self.sequence.state

    def queue(self, count: int = 1) -> Any:
        self.batches.append(Batch(count))
        return self.batches[-1]

    def can_send(self, batch: Any) -> bool:
        return self.sequence.can_send(batch, self.now_ms)

    def drain(self, batch: Any, age_ms: int = 0) -> Any:
        assert self.can_send(batch)
        self.sequence.on_drained(batch, self.now_ms, age_ms)
        batch.state = BatchState.ON_WIRE
        return batch

    def send(self, count: int = 1) -> Any:
        return self.drain(self.queue(count))

    def store(self, batch: Any, age_ms: int = 0, base_offset: int = -1) -> None:
        self.sequence.on_stored(batch, self.now_ms, age_ms, base_offset)
        self.leave(batch)

    def leave(self, batch: Any) -> None:
        batch.is_done, batch.state = True, BatchState.DONE
        self.batches.remove(batch)

    def start(self, count: int = 1, age_ms: int = 0) -> None:
        """Have the broker know us."""
        self.store(self.send(count), age_ms)
        assert self.state is SequenceState.FLOWING

    def retry(self, batch: Any, code: ErrorCode | None = None, *, in_doubt: bool = False) -> None:
        """An attempt failed, and is to be repeated."""
        batch.may_be_in_log |= in_doubt
        batch.state = BatchState.RETRY
        self.sequence.on_retry(batch, code)

    def end(self, batch: Any, event: SequenceEvent, *, is_on_wire: bool = False) -> None:
        """A batch failed; where it expired on the wire, its request goes on."""
        self.sequence.on_end(batch, event)
        if is_on_wire:
            batch.is_done, batch.state = True, BatchState.LATE
        else:
            self.leave(batch)

    def settle(self) -> None:
        self.manager.settle()


@pytest.fixture
def setup() -> Setup:
    made = Setup()
    made.start()
    return made


# The table.

# In order of the states; a dot is what cannot be.
CELLS = {
    SequenceEvent.NUMBERED: "alone alone flowing . . . .",
    SequenceEvent.NUMBERED_FOR_SURE: "flowing flowing flowing . . . .",
    SequenceEvent.LOST_SIGHT: "fresh alone alone in_doubt hole refused bump_due",
    SequenceEvent.STORED: ". flowing flowing in_doubt hole refused .",
    SequenceEvent.REFUSED: ". refused refused refused refused refused .",
    SequenceEvent.FAILED: ". hole hole hole hole refused .",
    SequenceEvent.UNKNOWN: ". in_doubt in_doubt in_doubt hole refused .",
    SequenceEvent.WHOLE: ". . . flowing flowing bump_due .",
    SequenceEvent.BROKEN: ". . . bump_due bump_due bump_due .",
    SequenceEvent.BEGUN: "fresh fresh fresh . . . fresh",
}


@pytest.mark.parametrize("event", SequenceEvent)
@pytest.mark.parametrize("state", SequenceState)
def test_cell_when_an_event_meets_a_state_then_it_moves_or_raises_and_changes_nothing(
        state: SequenceState, event: SequenceEvent) -> None:
    sequence = Setup().sequence
    sequence.state = state
    cell = CELLS[event].split()[list(SequenceState).index(state)]
    if cell == ".":
        with pytest.raises(LocalProtocolError, match=event.value):
            sequence._move(event)
        assert sequence.state is state
        assert not sequence._manager.disturbed
    else:
        assert sequence._move(event).name == sequence.state.name == cell.upper()
        assert sequence.is_disturbed == (sequence in sequence._manager.disturbed) == (sequence.state in DISTURBED)


@pytest.mark.parametrize("event", [SequenceEvent.STORED, SequenceEvent.REFUSED, SequenceEvent.FAILED,
                                   SequenceEvent.UNKNOWN])
def test_end_when_the_batch_has_no_number_then_nothing_changes(setup: Setup, event: SequenceEvent) -> None:
    setup.end(setup.queue(), event)
    assert setup.state is SequenceState.FLOWING
    setup.settle()
    assert setup.send().place == (7, 0, 1)


# Numbers.

@pytest.mark.parametrize(("sequence", "increment", "expected"), [
    (0, 1, 1), (MAX_SEQUENCE, 1, 0), (MAX_SEQUENCE - 1, 3, 1), (MAX_SEQUENCE - 2, 2, MAX_SEQUENCE)])
def test_increment_when_it_passes_the_end_then_it_goes_on_at_0(sequence: int, increment: int, expected: int) -> None:
    assert increment_sequence(sequence, increment) == expected


def test_is_earlier_when_the_ring_closes_then_the_last_number_is_before_0() -> None:
    assert is_earlier(1, 2)
    assert not is_earlier(2, 2)
    assert not is_earlier(3, 2)
    assert is_earlier(MAX_SEQUENCE, 0)


def test_nothing_when_no_producer_id_came_then_no_batch_goes() -> None:
    setup = Setup()
    setup.manager = TransactionManager(SILENCE_MS)
    setup.sequence = PartitionSequence(setup.batches, setup.manager)
    assert setup.sequence.owner == NO_PRODUCER
    batch = setup.queue()
    assert not setup.can_send(batch)
    setup.manager.on_producer_id(7, 2)
    assert setup.drain(batch).place == (7, 2, 0)


def test_numbers_when_batches_follow_each_other_then_records_are_counted_and_five_are_on_their_way() -> None:
    setup = Setup()
    first = setup.send(3)
    assert first.place == (7, 0, 0)
    waiting = setup.queue(2)
    assert not setup.can_send(waiting), "a broker that does not know us takes any first number"
    setup.store(first)
    batches = [setup.drain(waiting), *(setup.send(2) for _ in range(4))]
    assert [batch.base_sequence for batch in batches] == [3, 5, 7, 9, 11]
    sixth = setup.queue()
    assert not setup.can_send(sixth)
    setup.store(batches[0])
    assert setup.can_send(sixth)


def test_window_when_the_oldest_one_is_the_fifth_back_then_nothing_is_numbered_before_it_is_decided(
        setup: Setup) -> None:
    lost = setup.send(3)
    for _ in range(4):
        setup.store(setup.send(2))  # by a new leader, which has the lost one, too
    waiting = setup.queue()
    assert not setup.can_send(waiting), "a broker would not know the lost one again"
    setup.retry(lost, in_doubt=True)
    setup.drain(lost)
    setup.store(lost)
    assert setup.can_send(waiting)


def test_ring_when_numbers_wrap_then_batches_on_their_way_stay_in_order() -> None:
    setup = Setup()
    setup.start(MAX_SEQUENCE - 1)
    batches = [setup.send(2) for _ in range(3)]
    assert [batch.base_sequence for batch in batches] == [MAX_SEQUENCE - 1, 0, 2]
    for batch in batches:
        setup.retry(batch, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert [setup.can_send(batch) for batch in batches] == [True, False, False]
    setup.store(batches[0])
    setup.store(batches[2])
    setup.store(batches[1])  # an answer of an older connection
    assert (setup.sequence.memory.last_acked_sequence, setup.sequence.next_sequence) == (3, 4)


def test_retry_when_it_is_not_the_oldest_on_its_way_then_it_waits(setup: Setup) -> None:
    first, second = setup.send(), setup.send()
    for batch in (first, second):
        setup.retry(batch, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert [setup.can_send(batch) for batch in (first, second)] == [True, False]
    setup.store(setup.drain(first))
    assert setup.drain(second).place == (7, 0, 2)


# Alone.

def strange(setup: Setup, what: str, batch: Any) -> None:
    """Let the broker be one that may have forgotten us when a batch goes."""
    if what == "silence":
        setup.now_ms += SILENCE_MS
    elif what == "topic":
        batch.topic_id = OTHER_TOPIC
    elif what == "leader":
        batch.leader_epoch += 1
    elif what == "recovered":
        setup.sequence.on_recovered()


STRANGE = pytest.mark.parametrize("what", ["silence", "topic", "leader", "recovered"])


@STRANGE
def test_first_batch_when_the_broker_may_have_forgotten_us_then_it_goes_alone(setup: Setup, what: str) -> None:
    """It took the second one as its first, when it had refused the first for a moment: stored behind it."""
    first, second = setup.queue(), setup.queue()
    for batch in (first, second):
        strange(setup, what, batch)
    setup.drain(first)
    assert setup.state is SequenceState.ALONE
    assert not setup.can_send(second)
    setup.retry(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not setup.can_send(second)
    setup.store(setup.drain(first))
    setup.drain(second)
    assert (first.place, second.place) == ((7, 0, 1), (7, 0, 2))
    assert setup.can_send(setup.queue(1)) == (what not in ("topic", "leader")), "the next one is for the old place"


@STRANGE
def test_new_batch_when_others_are_on_their_way_to_a_broker_that_may_not_know_us_then_it_waits_for_them(
        setup: Setup, what: str) -> None:
    before = setup.send()
    batch = setup.queue()
    strange(setup, what, batch)
    assert not setup.can_send(batch)
    setup.store(before)
    assert setup.can_send(batch)


def test_broker_when_one_ms_of_the_silence_is_left_then_it_knows_us(setup: Setup) -> None:
    setup.now_ms += SILENCE_MS - 1
    setup.send()
    assert setup.can_send(setup.queue())
    assert setup.state is SequenceState.FLOWING


def test_first_batch_when_the_last_one_had_old_timestamps_then_it_goes_alone_each_time() -> None:
    """A broker counts its silence from the newest timestamp of a batch: it forgets who backfills while he writes."""
    setup = Setup()
    setup.store(setup.send(), age_ms=86_400_000)
    for _ in range(3):
        batch, behind = setup.send(), setup.queue()
        assert not setup.can_send(behind)
        setup.store(batch, age_ms=86_400_000)
        setup.store(setup.drain(behind), age_ms=86_400_000)
    setup.store(setup.send(), age_ms=0)
    setup.send()
    assert setup.can_send(setup.queue())


def test_answer_when_it_is_of_an_older_batch_then_what_is_known_stays_that_of_the_newer(setup: Setup) -> None:
    first, second = setup.send(), setup.send()
    setup.store(second)
    until_ms = setup.sequence.memory.until_ms
    first.topic_id = OTHER_TOPIC
    setup.now_ms += 5
    setup.store(first)
    assert setup.sequence.memory.until_ms == until_ms
    setup.send()
    assert setup.can_send(setup.queue())


# Refused by its numbers.

def test_out_of_order_when_a_batch_before_is_undecided_then_it_keeps_its_number(setup: Setup) -> None:
    first, second = setup.send(), setup.send()
    setup.retry(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    setup.retry(second, OUT_OF_ORDER)
    setup.settle()
    assert setup.state is SequenceState.FLOWING
    assert [setup.can_send(batch) for batch in (first, second)] == [True, False]


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_refusal_when_the_batch_is_the_oldest_and_in_no_log_then_it_steps_aside_and_begins_the_next_epoch(
        setup: Setup, code: ErrorCode) -> None:
    batch, waiting = setup.send(4), setup.queue()
    setup.retry(batch, code)
    assert setup.state is SequenceState.REFUSED
    assert (batch.base_sequence, batch.first_sent_ms) == (-1, None)
    assert not setup.can_send(waiting)
    setup.settle()
    assert setup.drain(batch).place == (7, 1, 0)
    assert not setup.can_send(waiting), "the first of an epoch goes alone"
    setup.store(batch)
    assert setup.drain(waiting).place == (7, 1, 4)


@pytest.mark.parametrize("code", [UNKNOWN_ID, INVALID_EPOCH])
def test_refusal_of_id_or_epoch_when_others_are_before_it_then_it_steps_aside_all_the_same(
        setup: Setup, code: ErrorCode) -> None:
    first, second = setup.send(), setup.send()
    setup.retry(second, code)
    assert second.base_sequence == -1
    setup.store(first)
    setup.settle()
    assert setup.drain(second).place == (7, 1, 0)


def test_refused_batch_when_one_behind_it_is_on_the_wire_then_no_epoch_begins_before_that_is_answered(
        setup: Setup) -> None:
    first, second = setup.send(), setup.send(2)
    setup.retry(first, OUT_OF_ORDER)
    setup.settle()
    assert setup.manager.producer_id_and_epoch == (7, 0)
    assert setup.sequence.head() is None, "an answer comes first"
    setup.retry(second, OUT_OF_ORDER)
    setup.settle()
    assert setup.manager.producer_id_and_epoch == (7, 1)
    assert setup.drain(first).place == (7, 1, 0)
    setup.store(first)
    assert setup.drain(second).place == (7, 1, 1)


@pytest.mark.parametrize("refused", ["in passing", "for good"])
def test_batch_in_doubt_when_the_one_before_it_was_refused_then_it_keeps_its_numbers_until_they_decide_it(
        setup: Setup, refused: str) -> None:
    """It was numbered anew with the epoch that the refused one asked for, and a broker that had forgotten the producer
    stored it a second time."""
    first, second = setup.send(), setup.send()
    if refused == "in passing":
        setup.retry(first, OUT_OF_ORDER)
    else:
        setup.end(first, SequenceEvent.FAILED)
    setup.retry(second, in_doubt=True)
    setup.settle()
    assert setup.manager.producer_id_and_epoch == (7, 0)
    assert setup.sequence.head() is second, "what stepped aside stands before it, and waits"
    assert setup.drain(second).place == (7, 0, 2)
    setup.store(second)
    setup.settle()
    if refused == "in passing":
        assert setup.drain(first).place == (7, 1, 0)
    else:
        assert setup.send().place == (7, 0, 3), "the log goes on where it stored that one"


def test_batches_behind_a_hole_when_they_are_in_no_log_then_they_step_aside_without_being_sent(setup: Setup) -> None:
    first, second, third = (setup.send() for _ in range(3))
    setup.retry(second, ErrorCode.NOT_ENOUGH_REPLICAS)
    setup.retry(third, in_doubt=True)
    setup.end(first, SequenceEvent.FAILED)
    setup.settle()
    assert second.base_sequence == -1
    assert setup.sequence.head() is third
    setup.drain(third)
    third.may_be_in_log = False  # what the refusal proves
    setup.retry(third, OUT_OF_ORDER)
    setup.settle()
    assert setup.drain(second).place == (7, 1, 0)
    setup.store(second)
    assert setup.drain(third).place == (7, 1, 1)


def test_batch_before_a_hole_when_it_is_in_no_log_then_it_keeps_its_number_and_goes_first(setup: Setup) -> None:
    """It stepped aside, too, and the one behind it, which was in doubt, was stored first by a broker that forgot us."""
    first, second, third = (setup.send() for _ in range(3))
    setup.retry(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    setup.retry(second, in_doubt=True)
    setup.end(third, SequenceEvent.FAILED)
    setup.settle()
    assert setup.sequence.head() is first
    assert setup.drain(first).place == (7, 0, 1)
    setup.store(first)
    assert setup.drain(second).place == (7, 0, 2)
    setup.store(second)
    setup.settle()
    assert setup.send().place == (7, 1, 0)


def test_hole_when_the_log_turned_out_whole_then_the_next_one_is_another(setup: Setup) -> None:
    first, second = setup.send(), setup.send()
    setup.end(first, SequenceEvent.FAILED)
    setup.store(second)  # by a broker that had forgotten us
    setup.settle()
    assert setup.state is SequenceState.FLOWING
    third, fourth = setup.send(), setup.send()
    setup.retry(third, ErrorCode.NOT_ENOUGH_REPLICAS)
    setup.end(fourth, SequenceEvent.FAILED)
    setup.settle()
    assert setup.drain(third).place == (7, 0, 3)


def test_clean_batch_when_the_one_before_it_is_in_doubt_for_good_then_it_goes_by_its_number(setup: Setup) -> None:
    first, second = setup.send(), setup.send()
    setup.retry(second, ErrorCode.NOT_ENOUGH_REPLICAS)
    setup.end(first, SequenceEvent.UNKNOWN)
    setup.settle()
    assert setup.state is SequenceState.IN_DOUBT
    assert setup.drain(second).place == (7, 0, 2)
    setup.store(second)
    setup.settle()
    assert setup.state is SequenceState.FLOWING
    assert setup.send().place == (7, 0, 3), "the broker took it, so it expects the next number: no epoch is spent"


def test_stepped_aside_batch_when_it_expires_then_those_in_doubt_are_still_decided_by_their_numbers(
        setup: Setup) -> None:
    first, second = setup.send(), setup.send()
    setup.retry(first, OUT_OF_ORDER)
    setup.retry(second, in_doubt=True)
    setup.end(first, SequenceEvent.FAILED)
    setup.settle()
    assert setup.drain(second).place == (7, 0, 2)
    setup.end(second, SequenceEvent.UNKNOWN)
    setup.settle()
    assert setup.send().place == (7, 1, 0)


# Failed.

def test_failure_when_nothing_is_behind_it_then_a_new_epoch_begins(setup: Setup) -> None:
    setup.end(setup.send(), SequenceEvent.FAILED)
    setup.settle()
    assert setup.send().place == (7, 1, 0)


@pytest.mark.parametrize("is_stored", [True, False])
def test_expiry_on_the_wire_when_its_request_ends_then_that_decides_whether_an_epoch_begins(
        setup: Setup, *, is_stored: bool) -> None:
    late, waiting = setup.send(), setup.queue()
    setup.end(late, SequenceEvent.UNKNOWN, is_on_wire=True)
    setup.settle()
    assert setup.state is SequenceState.IN_DOUBT
    assert not setup.can_send(waiting)
    if is_stored:
        setup.store(late)
    else:
        setup.leave(late)
    setup.settle()
    assert setup.drain(waiting).place == ((7, 0, 2) if is_stored else (7, 1, 0))


def test_epoch_when_another_partition_began_it_then_batches_on_their_way_keep_theirs_and_new_ones_wait(
        setup: Setup) -> None:
    first, second, waiting = setup.send(2), setup.send(3), setup.queue()
    other = Setup()
    other.manager, other.sequence = setup.manager, PartitionSequence(other.batches, setup.manager)
    other.start()
    other.end(other.send(), SequenceEvent.FAILED)
    setup.settle()
    assert setup.manager.producer_id_and_epoch == (7, 1)
    assert not setup.can_send(waiting), "it would be of the new epoch, and is not to overtake"
    setup.retry(first, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert setup.drain(first).place == (7, 0, 1)
    for batch in (first, second):
        assert not setup.can_send(waiting)
        setup.store(batch)
    assert setup.drain(waiting).place == (7, 1, 0)


# What a refusal proves.

def doubtful(setup: Setup) -> Any:
    batch = setup.send()
    setup.retry(batch, in_doubt=True)
    return setup.drain(batch)


def test_doubt_when_every_attempt_was_answered_then_a_refusal_leaves_none(setup: Setup) -> None:
    batch = setup.send()
    assert [setup.sequence.doubt_left(batch, code) for code in sorted(REFUSALS)] == [None] * 3


def test_doubt_when_a_lower_number_was_stored_lately_then_out_of_order_leaves_none(setup: Setup) -> None:
    setup.now_ms += SILENCE_MS - 1
    assert setup.sequence.doubt_left(doubtful(setup), OUT_OF_ORDER) is None


def test_doubt_when_the_epoch_was_refused_then_it_stays(setup: Setup) -> None:
    assert "knows a later epoch of producer id 7" in str(setup.sequence.doubt_left(doubtful(setup), INVALID_EPOCH))


@pytest.mark.parametrize("log_start_offset", [-1, 0, 5, 6])
@pytest.mark.parametrize("is_silent", [True, False])
def test_doubt_when_the_id_is_unknown_then_it_goes_only_where_the_broker_must_know_it_and_the_batch_was_not_deleted(
        setup: Setup, *, is_silent: bool, log_start_offset: int) -> None:
    """Brokers before 2.4 forget a producer when retention removes all its records, a batch in doubt with them."""
    setup.store(setup.send(), base_offset=4)
    setup.now_ms += SILENCE_MS * is_silent
    doubt = setup.sequence.doubt_left(doubtful(setup), UNKNOWN_ID, log_start_offset)
    assert doubt == ("the broker has forgotten producer id 7" if is_silent or log_start_offset not in (0, 5) else None)


def test_doubt_when_nothing_was_stored_before_then_it_stays() -> None:
    setup = Setup()
    assert "may have forgotten producer id 7" in str(setup.sequence.doubt_left(doubtful(setup), OUT_OF_ORDER))


def test_doubt_when_a_later_number_was_stored_then_it_stays(setup: Setup) -> None:
    first, second = setup.send(), setup.send()
    setup.retry(first, in_doubt=True)
    setup.store(second)
    assert "the broker had forgotten producer id 7, for it has stored later numbers" in str(
        setup.sequence.doubt_left(first, OUT_OF_ORDER))


def test_doubt_when_the_topic_was_created_anew_then_it_stays(setup: Setup) -> None:
    batch = doubtful(setup)
    batch.topic_id = OTHER_TOPIC
    assert "may have forgotten" in str(setup.sequence.doubt_left(batch, OUT_OF_ORDER))


def test_doubt_when_it_was_sent_first_after_silence_then_it_stays(setup: Setup) -> None:
    setup.now_ms += SILENCE_MS
    assert "may have forgotten" in str(setup.sequence.doubt_left(doubtful(setup), OUT_OF_ORDER))


@pytest.mark.parametrize("behind", ["in doubt", "on the wire", "failed as unknown"])
def test_doubt_when_a_batch_behind_may_be_in_the_log_then_it_stays(setup: Setup, behind: str) -> None:
    """After a restart Kafka 4.1 knows a producer's last batch alone: it refuses the one before, which it has."""
    first, second = setup.send(), setup.send()
    setup.retry(first, in_doubt=True)
    if behind == "in doubt":
        setup.retry(second, in_doubt=True)
    elif behind == "failed as unknown":
        setup.end(second, SequenceEvent.UNKNOWN)
    assert "may be in the log" in str(setup.sequence.doubt_left(first, OUT_OF_ORDER))


def test_doubt_when_it_was_about_a_batch_of_the_epoch_before_then_it_goes(setup: Setup) -> None:
    """Nothing of the old epoch can come behind what a broker knows in the new one."""
    setup.end(setup.send(), SequenceEvent.UNKNOWN)
    setup.settle()
    known = setup.send()
    assert known.place == (7, 1, 0)
    setup.store(known)
    assert setup.sequence.doubt_left(doubtful(setup), OUT_OF_ORDER) is None


def test_doubt_when_those_behind_were_refused_then_it_goes(setup: Setup) -> None:
    first, second = setup.send(), setup.send()
    setup.retry(first, in_doubt=True)
    setup.retry(second, OUT_OF_ORDER)
    setup.queue()
    assert setup.sequence.doubt_left(first, OUT_OF_ORDER) is None


def test_doubt_when_the_whole_that_it_was_split_from_may_be_stored_then_it_stays(setup: Setup) -> None:
    part = doubtful(setup)
    part.parts_in_doubt = [part]
    assert "split from" in str(setup.sequence.doubt_left(part, OUT_OF_ORDER))


# Recovery.

def test_recovery_when_a_batch_was_numbered_and_not_counted_then_its_number_is_not_given_again(setup: Setup) -> None:
    batch = setup.queue(3)
    batch.producer_id, batch.producer_epoch, batch.base_sequence = 7, 0, 1
    for _ in range(2):
        setup.sequence.on_recovered()
        assert setup.sequence.next_sequence == 4
    assert setup.drain(batch).place == (7, 0, 1)
    setup.store(batch)
    assert setup.send().place == (7, 0, 4)


def test_recovery_when_batches_are_done_or_without_numbers_then_those_undecided_are_the_others(setup: Setup) -> None:
    done, first, second, late = (setup.send() for _ in range(4))
    done.is_done = True
    late.is_done, late.state = True, BatchState.LATE
    setup.queue()
    setup.sequence.on_recovered()
    assert setup.sequence.undecided() == [first, second, late]


def test_recovery_when_the_numbers_are_disturbed_then_they_stay_so(setup: Setup) -> None:
    batch = setup.send()
    setup.retry(batch, OUT_OF_ORDER)
    setup.manager.disturbed.clear()
    setup.sequence.is_disturbed = False  # as a turn that ended in the middle of a move
    setup.sequence.on_recovered()
    assert setup.sequence.is_disturbed
    setup.settle()
    assert setup.drain(batch).place == (7, 1, 0)


def test_owner_when_it_is_shown_then_all_that_counts_is_there(setup: Setup) -> None:
    assert repr(setup.sequence) == "<PartitionSequence flowing of (7, 0): next 1, acknowledged 0>"
    assert setup.sequence.owner == ProducerIdAndEpoch(7, 0)
