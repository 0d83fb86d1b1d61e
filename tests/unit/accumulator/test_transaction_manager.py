"""Producer id and epoch: who gives them, and when a new epoch begins. The numbers are test_partition_sequence.py's."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pyproducer.accumulator import transaction_manager
from pyproducer.accumulator.transaction_manager import ID_EXPIRATION_MS, SILENCE_LIMIT_MS, TransactionManager
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.record.layout import MAX_EPOCH, NO_PRODUCER, ProducerIdAndEpoch

if TYPE_CHECKING:
    from pyproducer.accumulator.partition_sequence import PartitionSequence
else:
    PartitionSequence = object


class Sequence(PartitionSequence):
    """PartitionSequence that is told what its state is."""

    def __init__(self, owner: ProducerIdAndEpoch, *, due: bool = True) -> None:
        self.owner = owner
        self.is_disturbed = True
        self.is_due = due
        self.settled_count = 0

    def settle(self) -> None:
        self.settled_count += 1

    @property
    def is_bump_due(self) -> bool:
        return self.is_due

    def begin(self, owner: ProducerIdAndEpoch) -> None:
        self.owner = owner
        self.is_disturbed = self.is_due = False


def manager_of(epoch: int = 0, *sequences: Sequence) -> TransactionManager:
    manager = TransactionManager()
    manager.on_producer_id(7, epoch)
    manager.disturbed.update(dict.fromkeys(sequences))
    return manager


def of_epoch(epoch: int, *, due: bool = True) -> Sequence:
    return Sequence(ProducerIdAndEpoch(7, epoch), due=due)


def test_producer_id_when_none_came_then_one_is_needed_and_nothing_is_begun() -> None:
    manager = TransactionManager()
    assert (manager.needs_producer_id, manager.has_producer_id, manager.is_undisturbed) == (True, False, False)
    sequence = Sequence(NO_PRODUCER)
    manager.disturbed[sequence] = None
    manager.settle()
    assert (sequence.owner, sequence.settled_count) == (NO_PRODUCER, 1)
    manager.on_producer_id(7, 3)
    assert (manager.needs_producer_id, manager.has_producer_id, manager.is_undisturbed) == (False, True, False)
    assert manager.producer_id_and_epoch == (7, 3)


def test_settle_when_partitions_are_due_then_one_epoch_serves_all_and_they_leave() -> None:
    first, second = of_epoch(0), of_epoch(0)
    manager = manager_of(0, first, second)
    manager.settle()
    assert (first.owner, second.owner, manager.producer_id_and_epoch) == ((7, 1), (7, 1), (7, 1))
    assert manager.is_undisturbed
    manager.settle()
    assert manager.producer_id_and_epoch == (7, 1), "asked for once, done once"


def test_settle_when_a_newer_epoch_has_begun_meanwhile_then_the_partition_takes_it_and_none_is_spent() -> None:
    sequence = of_epoch(0)
    manager = manager_of(4, sequence)
    manager.settle()
    assert (sequence.owner, manager.producer_id_and_epoch) == ((7, 4), (7, 4))


def test_settle_when_a_partition_waits_for_a_batch_then_it_stays_and_the_others_begin() -> None:
    waiting, due = of_epoch(0, due=False), of_epoch(0)
    manager = manager_of(0, waiting, due)
    manager.settle()
    assert (waiting.owner, due.owner) == ((7, 0), (7, 1))
    assert list(manager.disturbed) == [waiting]


def test_settle_when_a_partition_turns_out_whole_then_it_leaves_and_no_epoch_is_spent() -> None:
    sequence = of_epoch(0, due=False)
    manager = manager_of(0, sequence)
    sequence.is_disturbed = False
    manager.settle()
    assert manager.is_undisturbed
    assert manager.producer_id_and_epoch == (7, 0)


def test_settle_when_it_was_the_last_epoch_then_a_new_id_is_asked_for_and_what_is_due_begins_with_that() -> None:
    sequence = of_epoch(MAX_EPOCH)
    manager = manager_of(MAX_EPOCH, sequence)
    manager.settle()
    assert manager.needs_producer_id
    assert list(manager.disturbed) == [sequence]
    manager.settle()
    manager.on_producer_id(8, 0)
    manager.settle()
    assert (sequence.owner, manager.producer_id_and_epoch, manager.is_undisturbed) == ((8, 0), (8, 0), True)


def test_fatal_error_when_it_came_then_nothing_is_sent_no_id_is_asked_for_and_no_epoch_begins() -> None:
    manager = manager_of(0, of_epoch(0))
    manager.on_fatal_error(error_for_code(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    manager.settle()
    assert (manager.has_producer_id, manager.needs_producer_id) == (False, False)
    assert manager.producer_id_and_epoch == (7, 0)


@pytest.mark.parametrize(("age_ms", "known_ms"), [
    (0, 300_000), (-3_600_000, 300_000), (86_400_000 - 600_000, 300_000), (86_400_000 - 599_999, 299_999),
    (86_400_000 - 300_001, 1), (86_400_000 - 300_000, 0), (2**62, 0)])
def test_known_when_timestamps_are_old_then_for_no_longer_than_a_broker_keeps_ids_by_them(
        age_ms: int, known_ms: int) -> None:
    assert (SILENCE_LIMIT_MS, ID_EXPIRATION_MS) == (300_000, 86_400_000)
    assert TransactionManager().known_for_ms(age_ms) == known_ms


def test_limits_when_they_are_given_then_they_hold() -> None:
    manager = TransactionManager(500, 2000)
    assert [manager.known_for_ms(age_ms) for age_ms in (0, 1000, 1200, 1500)] == [500, 500, 300, 0]


def test_producer_id_when_any_line_that_takes_it_in_raises_then_it_is_there_or_asked_for_again() -> None:
    """Half taken in, it could not be sent with, and nothing asked for another one."""
    for line in range(20):
        manager, left = TransactionManager(), [line]

        def trace(frame: Any, event: str, _: object, left: list[int] = left) -> Any:
            if frame.f_code.co_filename != transaction_manager.__file__:
                return None
            if event == "line":
                left[0] -= 1
                if left[0] == 0:
                    raise MemoryError
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with contextlib.suppress(MemoryError):
                manager.on_producer_id(7, 3)
        finally:
            sys.settrace(before)
        assert manager.needs_producer_id != manager.has_producer_id, line
