"""Calls that may block, each on a thread of its own, in the context of the task that awaits it.

Road:    beside it; send_batch(), which encodes, check() and close().
Thread:  made in the event loop; calls run on threads.
Source:  ours.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from pyproducer.common.loop_inbox import LoopInbox
from pyproducer.common.threads import start_daemon

_T = TypeVar("_T")


class Threads:
    """Makes calls on threads; those that say so one after the other.

    Args:
        name: Of the threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # The one on its thread first, and what their tasks await.
        self._in_order: deque[tuple[Callable[[], None], asyncio.Future[Any]]] = deque()

    async def call(self, inbox: LoopInbox, call: Callable[[], _T], *, in_order: bool = False,
                   goes_on: bool = True) -> _T:
        """Make a call that may block on a thread, in the task's context; a cancelled await lets it go on.

        Args:
            inbox: The running loop's.
            call: What may block.
            in_order: Whether it waits until those before it were made.
            goes_on: Whether it is made though its task was cancelled before the thread had begun.
        """
        done: asyncio.Future[_T] = get_running_loop().create_future()
        context = copy_context()

        def run() -> None:
            if done.cancelled() and not goes_on:
                return
            try:
                result = context.run(call)
            except StopIteration as error:  # which no future takes: it would end the coroutine that awaits
                raised = RuntimeError(f"{error!r} was raised")
                raised.__cause__ = error
                inbox.put(partial(_fail, done, raised))
            except BaseException as error:
                inbox.put(partial(_fail, done, error))
            else:
                inbox.put(partial(_finish, done, result))

        if in_order:
            self._in_order.append((run, done))
            if len(self._in_order) == 1:
                self._make_next(inbox)
        else:
            start_daemon(run, self._name)
        return await done

    def _make_next(self, inbox: LoopInbox) -> None:
        """Make the first call of those in order, on a thread; the next one when it was made."""
        in_order = self._in_order

        def on_made() -> None:
            if in_order and in_order[0] is first:  # else that was told before: Ctrl-C came when its thread had begun
                in_order.popleft()
                if in_order:
                    self._make_next(inbox)

        def run_first() -> None:
            try:
                run()
            finally:
                inbox.put(on_made)

        first = run, done = in_order[0]  # of a task that was cancelled, it returns at once
        try:
            start_daemon(run_first, self._name)
        except BaseException as error:  # no thread can be had, or it is Ctrl-C: those behind it are made all the same
            inbox.put(partial(_fail, done, error) if isinstance(error, Exception) else done.cancel)
            inbox.put(on_made)
            if not isinstance(error, Exception):
                raise


def _finish(done: asyncio.Future[_T], result: _T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
