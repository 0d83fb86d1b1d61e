"""buffer.memory is bounded, fair, and never lost."""

from __future__ import annotations

import threading
import time

import pytest

from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.common.clock import SystemClock
from pyproducer.common.errors import BufferExhaustedError, ProducerClosedError


def _wait_for(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_allocate_when_there_is_room_takes_the_bytes_and_deallocate_gives_them_back():
    pool = BufferPool(100, SystemClock())
    pool.allocate(60, 0)
    assert pool.available_bytes == 40
    pool.deallocate(60)
    assert pool.available_bytes == 100


def test_allocate_when_exhausted_raises_with_the_figures_and_takes_nothing():
    pool = BufferPool(100, SystemClock())
    pool.allocate(90, 0)
    with pytest.raises(BufferExhaustedError, match=r"No 20 bytes.*max\.block\.ms = 10 ms.*90 of 100") as raised:
        pool.allocate(20, 10)
    assert raised.value.phase == "buffer"
    assert raised.value.outcome == "not_sent"
    assert pool.available_bytes == 10
    assert pool.queued_count == 0


def test_allocate_when_others_wait_serves_in_order_of_arrival_so_a_large_request_does_not_starve():
    pool = BufferPool(100, SystemClock())
    pool.allocate(100, 0)
    served: list[str] = []

    def take(name: str, size: int) -> None:
        pool.allocate(size, 5000)
        served.append(name)

    large = threading.Thread(target=take, args=("large", 80))
    large.start()
    _wait_for(lambda: pool.queued_count == 1)
    small = threading.Thread(target=take, args=("small", 20))
    small.start()
    _wait_for(lambda: pool.queued_count == 2)
    pool.deallocate(30)  # enough for the small one, but it came later
    time.sleep(0.05)
    assert served == []
    pool.deallocate(70)
    large.join(5)
    small.join(5)
    assert sorted(served) == ["large", "small"]
    assert pool.available_bytes == 0


def test_close_when_a_caller_waits_raises_in_it():
    pool = BufferPool(10, SystemClock())
    pool.allocate(10, 0)
    errors: list[BaseException] = []

    def take() -> None:
        try:
            pool.allocate(5, 60_000)
        except ProducerClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    _wait_for(lambda: pool.queued_count == 1)
    pool.close()
    thread.join(5)
    assert len(errors) == 1
    with pytest.raises(ProducerClosedError):
        pool.allocate(1, 0)


def test_many_threads_leave_the_pool_as_it_was():
    pool = BufferPool(1000, SystemClock())

    def work() -> None:
        for size in range(1, 200):
            pool.allocate(size, 10_000)
            pool.deallocate(size)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert pool.available_bytes == 1000
    assert pool.queued_count == 0
