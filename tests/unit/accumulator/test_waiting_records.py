"""The limit of records that wait for metadata, and who is woken when some have left."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.waiting_records import WaitingQueue, WaitingRecord, WaitingRecords
from pyproducer.common.errors import KafkaError
from tests.support.clock import ManualClock
from tests.support.serialized import record_of


class Room:
    def __init__(self, limit_bytes: int) -> None:
        clock = ManualClock()
        self.life = Life("a", clock)
        self.pool = BufferPool(100_000, clock, self.life, count_held=lambda: self.waiting.count_held())
        self.waiting = WaitingRecords(self.pool, limit_bytes, self.life, lambda _batch: False)
        self.queue = self.waiting.queues["u"] = WaitingQueue("u", None, 0)

    def enter(self, reserved_bytes: int) -> bool:
        if not self.waiting.has_room(reserved_bytes):
            return False
        record = WaitingRecord(record_of("u", 0, 0, b"v"), self.life)
        record.reserved_bytes = reserved_bytes
        return self.waiting.charge(record, self.queue)

    def fail_first(self) -> None:
        self.waiting.fail(self.queue, self.queue.records[0], KafkaError("the test"))


def test_limit_when_it_is_reached_then_it_takes_no_more_until_some_have_left() -> None:
    room = Room(100)
    assert [room.enter(size) for size in (60, 41, 40, 1)] == [True, False, True, False]
    room.fail_first()
    assert [room.enter(size) for size in (61, 60, 1)] == [False, True, False]
    assert room.waiting.held_bytes() == 100 == room.pool.total_bytes - room.pool.available_bytes


def test_limit_when_a_record_is_above_it_then_it_has_room_alone() -> None:
    room = Room(100)
    assert room.enter(10)
    assert not room.enter(400)
    room.fail_first()
    assert room.enter(400)
    assert not room.enter(1)


def test_limit_when_there_is_no_memory_for_records_then_they_do_not_count() -> None:
    room = Room(100)
    place = room.pool.enter(60, 1000)  # somebody waits before them
    for _ in range(5):
        assert not room.enter(60)
    place.leave()
    assert room.enter(100)


def test_limit_when_a_step_ended_half_way_then_what_is_held_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, between the record's way into its queue and the sum."""
    room = Room(100)
    real = room.pool.charge

    def charge(*arguments: Any) -> bool:
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(room.pool, "charge", charge)
    with pytest.raises(KeyboardInterrupt):
        room.enter(60)
    monkeypatch.undo()
    assert not room.enter(41)
    assert room.enter(40)
    assert room.waiting.held_bytes() == 100


def test_door_when_all_records_fail_then_who_waits_there_is_rung() -> None:
    room = Room(100)
    room.enter(60)
    door = room.waiting.door
    cell = door.enter()
    assert room.waiting.fail_all(lambda _topic: KafkaError("the test")) == 1
    assert not cell.locked()
    cell = door.enter()
    room.waiting.close()
    assert not cell.locked()
