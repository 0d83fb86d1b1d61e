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
from pyproducer.producer.transaction_calls import NOT_ABORTED

log: logging.Logger = logging.getLogger(__name__)


class AsyncTransactionBlock:
    """An `async with` block that is one transaction; see TransactionBlock.

    Args:
        producer: Whose; its calls are awaited.
    """

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    async def __aenter__(self) -> None:
        await self._producer.begin_transaction()

    async def __aexit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                        traceback: TracebackType | None) -> None:
        ending = asyncio.ensure_future(self._commit() if exc is None else self._abort())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            # It ends first, within max.block.ms: nobody else has a place to learn of it, and the next block would be
            # refused until somebody did.
            await asyncio.wait([ending])
            if not ending.cancelled() and ending.exception() is not None:
                log.warning("A transaction whose task was cancelled did not end in order: %s", ending.exception())
            raise

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
