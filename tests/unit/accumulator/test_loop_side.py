"""Whether the event loop of a producer runs here."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from pyproducer.accumulator.loop_side import LoopSide
from pyproducer.common.loop_inbox import LoopInbox


def side_of(loop: asyncio.AbstractEventLoop) -> LoopSide:
    side = LoopSide()
    assert not side.is_here
    side.ident = threading.get_ident()
    assert not side.is_here, "an inbox comes later, and may be what an interrupt left out"
    side.inbox = LoopInbox(loop)
    return side


def test_loop_when_it_runs_in_this_thread_then_it_is_here_and_else_not() -> None:
    loop = asyncio.new_event_loop()
    side = side_of(loop)
    assert not side.is_here, "it does not run yet"

    async def ask() -> tuple[bool, bool]:
        with ThreadPoolExecutor(1) as pool:
            return side.is_here, pool.submit(lambda: side.is_here).result()

    assert loop.run_until_complete(ask()) == (True, False)
    assert not side.is_here, "it runs no more"
    loop.close()
    assert not side.is_here


def test_loop_when_the_process_was_forked_then_it_is_nowhere() -> None:
    loop = asyncio.new_event_loop()
    side = side_of(loop)

    async def ask() -> tuple[bool, bool]:
        is_here = side.is_here
        side.leave()
        return is_here, side.is_here

    assert loop.run_until_complete(ask()) == (True, False)
    loop.close()
