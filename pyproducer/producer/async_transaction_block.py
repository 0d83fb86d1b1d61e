"""`async with producer.transaction()`: a block that is one transaction, also where its task is cancelled at its end.

Road:    AsyncKafkaProducer, its mock -> [block] -> their calls
Thread:  the event loop's.
Source:  ours.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Any

from pyproducer.common.errors import AbortableTransactionError, KafkaError
from pyproducer.producer.transaction_calls import NOT_ABORTED, TransactionCalls

log: logging.Logger = logging.getLogger(__name__)


class AsyncTransactionBlock:
    """An `async with` block that is one transaction; see TransactionBlock.

    Args:
        producer: Whose; its calls are awaited.
        calls: As there.
    """

    def __init__(self, producer: Any, calls: TransactionCalls | None = None) -> None:
        self._producer = producer
        self._calls = calls

    async def __aenter__(self) -> None:
        left = None if self._calls is None else self._calls.left
        if left is not None:
            try:
                await self._producer._make(left)
            except AbortableTransactionError as error:
                log.warning(_NOT_IN_ORDER, error)
                await self._producer.abort_transaction()
        await self._producer.begin_transaction()

    async def __aexit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                        traceback: TracebackType | None) -> None:
        ending = asyncio.ensure_future(self._commit() if exc is None else self._abort())
        cancelled: asyncio.CancelledError | None = None
        # It ends first, within max.block.ms, however often its task is cancelled: anyio's scopes do so in each turn of
        # the loop. Nobody else has a place to learn of it, and until it ended there is no other transaction.
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is None:
            return ending.result()
        if not ending.cancelled() and ending.exception() is not None:
            log.warning(_NOT_IN_ORDER, ending.exception())
        self._leave("commit_transaction()")
        try:
            raise cancelled
        finally:
            del cancelled  # else its traceback, with this frame, and it would keep each other

    async def _commit(self) -> None:
        try:
            await self._producer.commit_transaction()
        except AbortableTransactionError:
            await self._abort()
            raise

    async def _abort(self) -> None:
        try:
            await self._producer.abort_transaction()
        except KafkaError as error:  # another one is on its way, which is the one to be seen
            log.warning(NOT_ABORTED, error)
        finally:
            self._leave("abort_transaction()")

    def _leave(self, call: str) -> None:
        if self._calls is not None:
            self._calls.leave(call)


_NOT_IN_ORDER = "A transaction whose task was cancelled did not end in order: %s"
