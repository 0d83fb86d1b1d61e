"""buffer.memory is bounded, fair, and never lost.

Who waits asks the clock under the pool's lock, after it took its place and each time it looks again. `WatchedClock`
tells that to the test, so no test guesses how long a thread needs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.common.errors import BufferExhaustedError, ProducerClosedError
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S

FOREVER_MS = 3_600_000


class Held:
    """Stands for a batch: what holds memory."""

    def __init__(self, reserved_bytes: int) -> None:
        self.reserved_bytes = reserved_bytes


class Pool(BufferPool):
    """A pool whose memory is asked for as the accumulator does it, and given back by the byte."""

    def __init__(self, total_bytes: int, clock: ManualClock) -> None:
        self.held: list[Held] = []
        self.lists: list[list[Held]] = [self.held]
        super().__init__(total_bytes, clock, count_held=lambda: sum(
            held.reserved_bytes for one in self.lists for held in one))

    def allocate(self, size_bytes: int, max_block_ms: int) -> Held:
        held, place = Held(size_bytes), None
        try:
            while not self.charge(held, self.held, place):
                place = place or self.enter(size_bytes, max_block_ms)
                place.wait()
        finally:
            if place is not None:
                place.leave()
        return held

    def deallocate(self, size_bytes: int) -> None:
        """Give back what somebody holds. From one thread: two would find the same holder."""
        for held in list(self.held):
            if held.reserved_bytes == size_bytes:
                self.release(held, self.held)
                return
        for held in [held for held in self.held if held.reserved_bytes == 1][:size_bytes]:
            self.release(held, self.held)

    def fill(self) -> None:
        """Hold all there is, byte by byte."""
        for _ in range(self.total_bytes):
            self.allocate(1, 0)


class WatchedClock(ManualClock):
    """Stands still, and counts how often each thread asks."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, threading.Semaphore] = {}

    def now_ms(self) -> int:
        asked = self.asked.get(threading.current_thread().name)
        if asked is not None:
            asked.release()
        return super().now_ms()


class Waiters:
    """A pool with nothing left, and threads that wait for it, by name."""

    def __init__(self, total_bytes: int = 100) -> None:
        self.clock = WatchedClock()
        self.pool = Pool(total_bytes, self.clock)
        self.pool.fill()
        self.served: list[str] = []
        self.errors: dict[str, BaseException] = {}
        self.threads: dict[str, threading.Thread] = {}

    def wait(self, name: str, size_bytes: int, max_block_ms: int = FOREVER_MS) -> None:
        """Start a thread that asks for bytes; return when it has its place in the line and is about to sleep."""
        self.clock.asked[name] = threading.Semaphore(0)
        self.threads[name] = threading.Thread(target=self._take, args=(name, size_bytes, max_block_ms), name=name,
                                              daemon=True)
        self.threads[name].start()
        # Once for the deadline, once for what is left of it. It holds the lock then, until it sleeps.
        self.looked(name, 2)

    def looked(self, name: str, times: int) -> None:
        """Wait until a thread has asked the clock so many times more."""
        deadline = time.monotonic() + GIVE_UP_S
        for _ in range(times):
            while not self.clock.asked[name].acquire(timeout=0.1):
                assert self.threads[name].is_alive(), f"{name} does not wait any more; served are {self.served}"
                assert time.monotonic() < deadline, f"{name} does not look at the pool"

    def looked_again(self, name: str) -> None:
        """Wait until a thread whose sleep is short has looked at the pool as it is now."""
        while self.clock.asked[name].acquire(blocking=False):
            pass
        self.looked(name, 2)

    def end(self, *names: str) -> None:
        """Wait for the end of threads."""
        for name in names:
            self.threads[name].join(GIVE_UP_S)
            assert not self.threads[name].is_alive(), f"{name} still waits; served are {self.served}"

    def _take(self, name: str, size_bytes: int, max_block_ms: int) -> None:
        try:
            self.pool.allocate(size_bytes, max_block_ms)
        except (BufferExhaustedError, ProducerClosedError) as error:
            self.errors[name] = error
        else:
            self.served.append(name)


def test_allocate_when_there_is_room_then_takes_the_bytes_and_deallocate_gives_them_back() -> None:
    pool = Pool(100, ManualClock())
    pool.allocate(60, 0)
    assert pool.available_bytes == 40
    pool.allocate(40, 0)
    assert pool.available_bytes == 0
    pool.deallocate(60)
    pool.deallocate(40)
    assert pool.available_bytes == 100


def test_allocate_when_exhausted_then_raises_with_the_figures_and_takes_nothing() -> None:
    clock = ManualClock()
    pool = Pool(100, clock)
    pool.allocate(90, 0)
    with pytest.raises(BufferExhaustedError, match=r"No 20 bytes.*= 0 ms: 90 of 100.*1 callers wait") as raised:
        pool.allocate(20, 0)
    assert raised.value.phase == "buffer"
    assert raised.value.outcome == "not_sent"
    assert pool.available_bytes == 10
    assert pool.queued_count == 0


def test_pool_when_a_caller_is_interrupted_between_two_writes_then_the_lists_are_counted() -> None:
    """Ctrl-C between the entry into a list and the count lost memory for ever, or gave it out twice."""
    class Interrupting(list[Held]):
        def append(self, held: Held) -> None:
            super().append(held)
            raise KeyboardInterrupt

    pool = Pool(100, ManualClock())
    pool.allocate(30, 0)
    lists = pool.lists
    lists.append(Interrupting())
    with pytest.raises(KeyboardInterrupt):
        pool.charge(Held(50), lists[1])
    assert pool.available_bytes == 20
    pool.release(lists[1][0], lists[1])
    assert pool.available_bytes == 70


def test_allocate_when_its_time_is_over_then_raises_not_before_and_takes_nothing() -> None:
    waiters = Waiters()
    waiters.wait("late", 10, max_block_ms=2)
    waiters.looked_again("late")  # it woke after 2 ms of the real clock, and the pool's clock stands still
    waiters.clock.advance(1)
    waiters.looked_again("late")
    assert waiters.errors == {}
    waiters.clock.advance(1)
    waiters.end("late")
    assert str(waiters.errors["late"]).startswith("No 10 bytes of buffer.memory became free within max.block.ms = 2 ms")
    assert (waiters.pool.available_bytes, waiters.pool.queued_count) == (0, 0)


def test_waiters_when_memory_comes_back_bit_by_bit_then_are_served_in_order_of_arrival() -> None:
    waiters = Waiters()
    names = [f"w{index}" for index in range(6)]
    for count, name in enumerate(names, start=1):
        waiters.wait(name, 10)
        assert waiters.pool.queued_count == count
    for index, name in enumerate(names):
        waiters.pool.deallocate(10)
        waiters.end(name)
        assert waiters.served == names[:index + 1]
        assert (waiters.pool.available_bytes, waiters.pool.queued_count) == (0, 5 - index)


def test_waiters_when_the_first_wants_more_than_is_there_then_a_later_small_one_does_not_overtake_it() -> None:
    """A large record starved: small ones behind it took each byte that came back."""
    waiters = Waiters()
    waiters.wait("large", 80)
    waiters.wait("small", 20, max_block_ms=1)  # on the real clock it looks again each ms
    waiters.pool.deallocate(30)  # enough for the small one, but it came later
    waiters.looked("large", 1)
    waiters.looked_again("small")
    assert waiters.served == []
    assert waiters.pool.available_bytes == 30
    waiters.pool.deallocate(50)
    waiters.end("large")
    assert waiters.served == ["large"]
    waiters.looked_again("small")
    assert (waiters.pool.available_bytes, waiters.pool.queued_count) == (0, 1)
    waiters.pool.deallocate(20)
    waiters.end("small")
    assert waiters.served == ["large", "small"]
    assert waiters.pool.available_bytes == 0


def test_newcomer_when_somebody_waits_then_does_not_take_what_is_there() -> None:
    waiters = Waiters()
    waiters.wait("large", 80)
    waiters.pool.deallocate(30)
    with pytest.raises(BufferExhaustedError, match="2 callers wait"):
        waiters.pool.allocate(10, 0)
    assert waiters.pool.available_bytes == 30
    waiters.pool.deallocate(50)
    waiters.end("large")
    assert waiters.pool.available_bytes == 0


def test_waiters_when_enough_for_several_comes_back_at_once_then_each_wakes_the_next() -> None:
    waiters = Waiters()
    for name in ("a", "b", "c", "d"):
        waiters.wait(name, 30)
    waiters.pool.deallocate(100)
    waiters.end("a", "b", "c")
    assert set(waiters.served) == {"a", "b", "c"}
    assert (waiters.pool.available_bytes, waiters.pool.queued_count) == (10, 1)
    waiters.pool.deallocate(30)
    waiters.end("d")
    assert waiters.pool.available_bytes == 10


def test_waiters_when_the_first_gives_up_then_what_is_there_goes_to_the_next() -> None:
    waiters = Waiters()
    waiters.wait("large", 80, max_block_ms=1)
    waiters.wait("small", 20)
    waiters.pool.deallocate(30)
    waiters.clock.advance(1)
    waiters.end("large", "small")
    assert list(waiters.errors) == ["large"]
    assert waiters.served == ["small"]
    assert (waiters.pool.available_bytes, waiters.pool.queued_count) == (10, 0)


def test_waiters_when_one_in_the_middle_gives_up_then_the_order_of_the_others_stays() -> None:
    waiters = Waiters()
    waiters.wait("a", 50)
    waiters.wait("b", 50, max_block_ms=1)
    waiters.wait("c", 50)
    waiters.clock.advance(1)
    waiters.end("b")
    waiters.pool.deallocate(50)
    waiters.end("a")
    assert waiters.served == ["a"]
    waiters.pool.deallocate(50)
    waiters.end("c")
    assert waiters.served == ["a", "c"]
    assert waiters.pool.available_bytes == 0


def test_close_when_callers_wait_then_raises_in_each_of_them_and_memory_may_still_come_back() -> None:
    waiters = Waiters()
    for name in ("a", "b", "c"):
        waiters.wait(name, 5)
    waiters.pool.close()
    waiters.end("a", "b", "c")
    assert {name: type(error) for name, error in waiters.errors.items()} == dict.fromkeys("abc", ProducerClosedError)
    assert {getattr(error, "outcome", None) for error in waiters.errors.values()} == {"not_sent"}
    assert waiters.pool.queued_count == 0
    waiters.pool.deallocate(100)
    assert waiters.pool.available_bytes == 100
    with pytest.raises(ProducerClosedError):
        waiters.pool.allocate(1, 0)
    assert waiters.pool.available_bytes == 100


def test_many_threads_when_they_take_and_give_back_then_the_pool_is_as_it_was_and_never_below_zero() -> None:
    pool = Pool(1000, ManualClock())
    lowest: list[int] = []

    def work() -> None:
        for size in range(1, 200):
            held = pool.allocate(size, FOREVER_MS)
            lowest.append(pool.available_bytes)
            pool.release(held, pool.held)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GIVE_UP_S)
        assert not thread.is_alive()
    assert len(lowest) == 8 * 199
    assert min(lowest) >= 0
    assert pool.available_bytes == 1000
    assert pool.queued_count == 0


def test_wait_when_max_block_is_the_longest_time_then_the_memory_that_comes_ends_it():
    """`max.block.ms = Long.MAX_VALUE`, Java's "for ever", came out of send() as an OverflowError of `threading`."""
    waiters = Waiters()
    waiters.wait("patient", 50, 2**63 - 1)
    waiters.pool.deallocate(100)
    waiters.threads["patient"].join(GIVE_UP_S)
    assert waiters.served == ["patient"]
    assert waiters.errors == {}


def test_memory_when_it_comes_back_before_the_caller_has_his_place_then_he_does_not_sleep() -> None:
    """The give-back rang nobody, and the caller slept for max.block.ms beside free memory."""
    pool = Pool(100, ManualClock())
    pool.fill()
    assert not pool.charge(Held(10), pool.held)
    pool.deallocate(100)
    place = pool.enter(10, FOREVER_MS)
    assert not place.cell.locked(), "his first wait returns at once"


@pytest.mark.parametrize(("step", "left_bytes"), [
    (lambda pool: pool.deallocate(10), 70), (lambda pool: pool.allocate(5, 0), 55),
    (lambda pool: pool.extend(pool.held[0], 5), 55),
    (lambda pool: pool.split_reservation(pool.held[0], [Held(6), Held(4)], pool.held), 60)],
    ids=["release", "charge", "extend", "hand down"])
def test_step_when_a_caller_was_interrupted_while_he_was_charged_then_his_batch_is_counted(
        step: Callable[[Pool], object], left_bytes: int) -> None:
    """The step said that all was counted: what the interrupted caller had put into the list was never charged."""
    pool = Pool(100, ManualClock())
    pool.allocate(10, 0)

    class Interrupted(list[Held]):
        def append(self, held: Held) -> None:
            pool.held.append(held)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.charge(Held(30), Interrupted())
    step(pool)
    assert pool.available_bytes == left_bytes


class Handler(list[Held]):
    """A list in whose changes a signal's handler comes, and looks how much memory is left."""

    def __init__(self, look: Callable[[], object]) -> None:
        super().__init__()
        self._look = look

    def append(self, held: Held, /) -> None:
        super().append(held)
        self._look()

    def remove(self, held: Held, /) -> None:
        super().remove(held)
        self._look()


@pytest.mark.parametrize("step", ["charge", "release"])
def test_memory_when_a_signals_handler_looks_in_the_middle_of_a_step_then_the_sum_is_right_after_it(step: str) -> None:
    pool = Pool(100, ManualClock())
    first = Held(30)
    assert pool.charge(first, pool.held)
    other = Handler(lambda: pool.available_bytes)
    pool.lists.append(other)
    if step == "charge":
        assert pool.charge(Held(20), other)
        assert pool.available_bytes == 100 - 30 - 20
    else:
        list.append(other, held := Held(20))
        pool._is_dirty = True
        pool.release(held, other)
        assert pool.available_bytes == 100 - 30


def test_pool_when_a_caller_is_gone_but_his_place_is_kept_then_the_next_is_served_after_his_time() -> None:
    """Ctrl-C came while he left, and sys.last_traceback keeps his frames: nobody would ever be served again."""
    clock = ManualClock()
    pool = Pool(100, clock)
    pool.allocate(100, 0)
    kept = pool.enter(50, 5000)  # and never left
    pool.deallocate(100)
    clock.advance(4000)
    assert not pool.charge(Held(10), pool.held)  # he may still come
    mine = pool.enter(10, 5000)
    clock.advance(2001)
    assert pool.charge(Held(10), pool.held, mine)
    mine.leave()
    assert pool.charge(Held(10), pool.held)
    assert pool.queued_count == 0
    kept.leave()
    assert pool.charge(Held(10), pool.held)


def test_pool_when_an_interrupted_caller_could_not_leave_his_place_then_the_next_is_served_at_once() -> None:
    """Ctrl-C came as he entered or as he left. His time is for ever, as max.block.ms may be."""
    pool = Pool(100, ManualClock())
    pool.allocate(100, 0)
    pool.enter(50, 2**63 - 1)
    mine = pool.enter(10, 5000)
    assert pool.queued_count == 1
    pool.deallocate(100)
    assert not mine.cell.locked(), "it is he who was rung"
    assert pool.charge(Held(10), pool.held, mine)
    mine.leave()
    assert pool.charge(Held(10), pool.held)


class InterruptedClock(ManualClock):
    """A signal's handler comes as somebody asks what time it is, once."""

    handler: Callable[[], object] | None = None

    def now_ms(self) -> int:
        handler, self.handler = self.handler, None
        if handler is not None:
            handler()
        return super().now_ms()


def test_pool_when_a_caller_who_is_gone_leaves_as_he_is_found_to_be_then_the_next_is_served() -> None:
    clock = InterruptedClock()
    pool = Pool(100, clock)
    pool.allocate(100, 0)
    gone, mine = pool.enter(50, 5000), pool.enter(10, 60_000)
    pool.deallocate(100)
    clock.advance(6001)
    clock.handler = gone.leave
    assert pool.charge(Held(10), pool.held, mine)
    assert clock.handler is None
    mine.leave()
    assert pool.queued_count == 0


def test_pool_when_a_caller_is_a_little_late_then_the_turn_is_still_his() -> None:
    clock = ManualClock()
    pool = Pool(100, clock)
    pool.allocate(100, 0)
    late, next_one = pool.enter(50, 5000), pool.enter(10, 60_000)
    pool.deallocate(100)
    clock.advance(5500)
    assert not pool.charge(Held(10), pool.held, next_one)
    assert pool.charge(Held(50), pool.held, late)
    late.leave()
    assert pool.charge(Held(10), pool.held, next_one)
    next_one.leave()


def test_pool_tells_how_long_callers_waited_also_those_who_got_nothing() -> None:
    clock = ManualClock()
    pool = Pool(100, clock)
    pool.allocate(100, 0)
    assert pool.waited_ms == 0
    served, refused = pool.enter(50, 5000), pool.enter(10, 300)
    clock.advance(300)
    with pytest.raises(BufferExhaustedError):
        refused.wait()
    for _ in range(2):  # again is no error
        refused.leave()
    clock.advance(700)
    pool.deallocate(100)
    assert pool.charge(Held(50), pool.held, served)
    served.leave()
    assert pool.waited_ms == 300 + 1000
