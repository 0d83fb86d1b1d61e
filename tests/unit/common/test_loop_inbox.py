"""The inbox of an event loop: woken once for all that came meanwhile, and never held up for long."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from pyproducer.common.loop_inbox import LoopInbox, Wake, inbox_of_running_loop


class CountedLoop(asyncio.SelectorEventLoop):
    """Counts how often another thread wakes it."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = 0

    def call_soon_threadsafe(self, *arguments: object, **named: object) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(*arguments, **named)  # type: ignore[arg-type]


def test_inbox_when_much_comes_at_once_then_the_loop_is_woken_once_and_all_is_called_in_order() -> None:
    loop = CountedLoop()
    inbox, seen = LoopInbox(loop), []
    for number in range(1000):
        inbox.put(lambda number=number: seen.append(number))  # type: ignore[misc]
    assert loop.woken == 1
    turns: list[int] = []

    async def main() -> None:
        while len(seen) < 1000:
            turns.append(len(seen))
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert seen == list(range(1000))
    assert len(turns) >= 4  # between which others run
    assert loop.woken == 1
    loop.close()


def test_inbox_when_it_was_emptied_then_the_next_item_wakes_the_loop_again() -> None:
    async def main() -> int:
        inbox, _ = inbox_of_running_loop()
        count = 0
        for _ in range(3):
            came = asyncio.Event()
            thread = threading.Thread(target=inbox.put, args=(came.set,))
            thread.start()
            await came.wait()
            thread.join()
            count += 1
        return count

    assert asyncio.run(main()) == 3


def test_inbox_when_a_call_raises_then_the_others_are_called_all_the_same() -> None:
    loop = asyncio.new_event_loop()
    inbox, seen = LoopInbox(loop), []

    def interrupt() -> None:
        raise KeyboardInterrupt

    for item in (interrupt, lambda: seen.append(1), lambda: seen.append(2)):
        inbox.put(item)
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(asyncio.sleep(0.1))
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    assert seen == [1, 2]
    loop.close()


def test_inbox_when_ctrl_c_comes_as_the_loop_is_woken_then_whoever_puts_next_wakes_it() -> None:
    """The loop was taken for woken, and nobody rang again: what was put from then on was never called."""
    class Interrupted(CountedLoop):
        left = 1

        def call_soon_threadsafe(self, *arguments: object, **named: object) -> asyncio.Handle:
            if self.left:
                self.left -= 1
                raise KeyboardInterrupt
            return super().call_soon_threadsafe(*arguments, **named)

    loop = Interrupted()
    inbox, seen = LoopInbox(loop), []
    with pytest.raises(KeyboardInterrupt):
        inbox.put(lambda: seen.append(1))
    inbox.put(lambda: seen.append(2))
    assert loop.woken == 1
    loop.run_until_complete(asyncio.sleep(0))
    assert seen == [1, 2]
    loop.close()


def test_inbox_when_ctrl_c_comes_before_a_task_is_released_then_it_is_when_the_loop_runs_again() -> None:
    """What was to be called was taken out first, and the task awaited its record for ever."""
    loop = asyncio.new_event_loop()

    class Interrupted(asyncio.Future[None]):
        left = 1

        def done(self) -> bool:
            if self.left:
                self.left -= 1
                raise KeyboardInterrupt
            return super().done()

    async def begin_to_wait() -> Wake:
        return Wake()

    wake = loop.run_until_complete(begin_to_wait())
    waiter = wake.waiter = Interrupted(loop=loop)
    wake()
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(asyncio.sleep(0.1))
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    assert waiter.done()
    loop.close()


def test_inbox_when_its_loop_is_closed_or_gone_then_nothing_is_kept() -> None:
    loop = asyncio.new_event_loop()
    inbox = LoopInbox(loop)
    loop.close()
    inbox.put(lambda: None)
    assert not inbox._items
    del loop
    gc.collect()
    inbox.put(lambda: None)
    assert not inbox._items


def test_inbox_when_it_is_asked_for_twice_then_it_is_one_for_each_loop() -> None:
    async def ask() -> tuple[LoopInbox, bool]:
        return inbox_of_running_loop()[0], inbox_of_running_loop()[0] is inbox_of_running_loop()[0]

    first, second = asyncio.run(ask()), asyncio.run(ask())
    assert first[1]
    assert first[0] is not second[0]


def test_inbox_when_its_loop_is_closed_before_it_looked_then_nothing_is_kept_and_all_is_counted() -> None:
    """The loop was woken, so nobody woke it again, and what came later was kept for the producer's life."""
    loop = asyncio.new_event_loop()
    inbox = LoopInbox(loop)
    inbox.put(lambda: None)
    loop.close()
    for _ in range(3):
        inbox.put(lambda: None)
    assert not inbox._items
    assert inbox.dropped_count == 4


def test_call_after_turn_when_many_tasks_ask_then_it_is_made_once_behind_them() -> None:
    async def main() -> list[str]:
        inbox, _ = inbox_of_running_loop()
        seen: list[str] = []

        def call() -> None:
            seen.append("call")

        async def ask(number: int) -> None:
            seen.append(f"task {number}")
            inbox.call_after_turn(call)

        await asyncio.gather(*(ask(number) for number in range(3)))
        await asyncio.sleep(0)
        inbox.call_after_turn(call)
        await asyncio.sleep(0)
        return seen

    assert asyncio.run(main()) == ["task 0", "task 1", "task 2", "call", "call"]


def test_call_after_turn_when_nobody_else_is_ready_then_it_is_made_at_once() -> None:
    async def main() -> list[str]:
        inbox, _ = inbox_of_running_loop()
        await asyncio.sleep(0)
        seen: list[str] = []
        inbox.call_after_turn(lambda: seen.append("call"))
        seen.append("task")
        await asyncio.sleep(0)
        return seen

    assert asyncio.run(main()) == ["call", "task"]
