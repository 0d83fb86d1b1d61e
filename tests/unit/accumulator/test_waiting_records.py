"""The limit of records that wait for metadata, and who is woken when some have left."""

from __future__ import annotations

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
        self.pool = BufferPool(100_000, clock, self.life, count_held=lambda: self.waiting.held_bytes())
        self.waiting = WaitingRecords(self.pool, limit_bytes, self.life, lambda _batch: False)
        self.queue = self.waiting.queues["u"] = WaitingQueue("u", None, 0)

    def enter(self, reserved_bytes: int) -> bool:
        if not self.waiting.has_room(reserved_bytes):
            return False
        record = WaitingRecord(record_of("u", 0, 0, b"v"), self.life)
        record.reserved_bytes = reserved_bytes
        return self.pool.charge(record, self.queue.records)

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


def test_limit_when_records_did_not_come_after_all_then_they_do_not_count() -> None:
    """There was no memory for them, or Ctrl-C came before they were charged."""
    room = Room(100)
    for _ in range(5):
        assert room.waiting.has_room(60)
    assert room.enter(100)


def test_door_when_records_have_left_then_it_is_opened_once_for_all_of_them() -> None:
    room = Room(100)
    door = room.waiting.door
    room.enter(60)
    first, second = door.enter(), door.enter()
    room.waiting.open_door()
    assert len(door) == 2, "nobody has left"
    door.leave(second)
    door.leave(second)
    room.fail_first()
    assert first.locked()
    room.waiting.open_door()
    assert not first.locked()
    assert second.locked(), "he waits no more"
    assert len(door) == 0
    third = door.enter()
    room.waiting.open_door()
    assert third.locked()
    room.waiting.close()
    assert not third.locked()
