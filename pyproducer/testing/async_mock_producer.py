"""AsyncMockProducer: a MockProducer with the methods of AsyncKafkaProducer.

    mock = MockProducer()
    await announce(order, mock.as_async())
    assert mock.history()[0].topic == "orders"

Road:    beside it.
Thread:  the event loop's; with auto_complete=False who awaits a record waits until complete_next() or error_next(),
         from any thread.
Source:  ours; Java's MockProducer has one facade.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, overload

from pyproducer.accumulator.batch_future import BatchMetadata
from pyproducer.accumulator.produce_result import OnCompletion
from pyproducer.common.cluster import PartitionInfo
from pyproducer.common.delivery_summary import DeliverySummary
from pyproducer.common.errors import KafkaError
from pyproducer.common.record_future import FutureRecordMetadata
from pyproducer.common.records import HeadersLike, ProducerRecord, RecordMetadata
from pyproducer.observe.why import Why
from pyproducer.producer.async_transaction_block import AsyncTransactionBlock
from pyproducer.producer.kafka_producer import K, V
from pyproducer.producer.live_view import PartitionState
from pyproducer.producer.metrics import ProducerMetrics
from pyproducer.producer.mistakes import takes_no_timeout
from pyproducer.transaction.prepared_transaction import PreparedTransaction

if TYPE_CHECKING:
    from datetime import datetime

    from pyproducer.testing.mock_producer import MockProducer


class AsyncMockProducer(Generic[K, V]):
    """Stands for an AsyncKafkaProducer in tests; see MockProducer, which `mock` is."""

    # What a test changes of the mock it changes of `mock`: an attribute that is set here would do nothing.
    __slots__ = ("__weakref__", "mock")

    def __init__(self, mock: MockProducer[K, V]) -> None:
        self.mock: MockProducer[K, V] = mock

    @overload
    async def send(self, topic: ProducerRecord, /, on_completion: OnCompletion | None = None) -> RecordMetadata: ...

    @overload
    async def send(self, topic: str, value: V | None = None, *, key: K | None = None, partition: int | None = None,
                   timestamp: int | datetime | None = None, headers: HeadersLike | None = None,
                   on_completion: OnCompletion | None = None) -> RecordMetadata: ...

    async def send(self, *arguments: Any, **named: Any) -> RecordMetadata:
        """Send one record and return where it was stored, once it is; see AsyncKafkaProducer.send."""
        self.mock._enter_loop()
        return await self.mock.send(*arguments, **named)

    @overload
    def send_nowait(self, topic: ProducerRecord, /,
                    on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

    @overload
    def send_nowait(self, topic: str, value: V | None = None, *, key: K | None = None, partition: int | None = None,
                    timestamp: int | datetime | None = None, headers: HeadersLike | None = None,
                    on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

    def send_nowait(self, *arguments: Any, **named: Any) -> FutureRecordMetadata:
        """Send one record and return its future, which can be awaited; see AsyncKafkaProducer.send_nowait."""
        self.mock._enter_loop()
        return self.mock.send(*arguments, **named)

    async def send_batch(self, topic: str, values: Any, **columns: Any) -> BatchMetadata:
        """Send rows; see MockProducer.send_batch."""
        self.mock._enter_loop()
        return await self.mock.send_batch(topic, values, **columns)

    async def flush(self, timeout: float | None = None, *, raise_on_error: bool = False) -> None:
        """Store all that is not done; see MockProducer.flush."""
        self.mock.flush(timeout, raise_on_error=raise_on_error)

    @takes_no_timeout
    async def init_transactions(self, transactional_id: str | None = None) -> None:
        """Bind the transactional id; see MockProducer.init_transactions."""
        self.mock.init_transactions(transactional_id)

    async def begin_transaction(self) -> None:
        """Begin a transaction; see MockProducer.begin_transaction."""
        self.mock.begin_transaction()

    @takes_no_timeout
    async def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        """Add offsets to the transaction; see MockProducer.send_offsets_to_transaction."""
        self.mock.send_offsets_to_transaction(offsets, group_metadata)

    async def prepare_transaction(self) -> PreparedTransaction:
        """Store all that is not done, and take no more; see MockProducer.prepare_transaction."""
        return self.mock.prepare_transaction()

    @takes_no_timeout
    async def commit_transaction(self) -> None:
        """Store all that is not done, and put it into the history; see MockProducer.commit_transaction."""
        self.mock.commit_transaction()

    @takes_no_timeout
    async def abort_transaction(self) -> None:
        """Fail what is not done, and forget what was sent; see MockProducer.abort_transaction."""
        self.mock.abort_transaction()

    def transaction(self) -> AsyncTransactionBlock:
        """Return an `async with` block that is one transaction; see KafkaProducer.transaction."""
        return AsyncTransactionBlock(self)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic; see MockProducer.partitions_for."""
        return self.mock.partitions_for(topic)

    async def check(self, timeout: float | None = None) -> None:
        """Do nothing: it can always be reached."""
        self.mock.check(timeout)

    async def close(self, timeout: float | None = None) -> DeliverySummary:
        """Take no more records, and store what is not done; see MockProducer.close."""
        return self.mock.close(timeout)

    def metrics(self) -> ProducerMetrics:
        """Return how many records were sent and how many failed; see MockProducer.metrics."""
        return self.mock.metrics()

    def waiting(self) -> list[PartitionState]:
        """Return of which partitions records are not done; see MockProducer.waiting."""
        return self.mock.waiting()

    def why(self, *, last: float = 60, save: str | os.PathLike[str] | None = None) -> Why:
        """Say that nothing stands out; see MockProducer.why."""
        return self.mock.why(last=last, save=save)

    def config(self) -> dict[str, str | None]:
        """Return every setting and its value; secrets are hidden. See MockProducer.config."""
        return self.mock.config()

    @property
    def client_id(self) -> str:
        """The setting client.id, or what stands for it."""
        return self.mock.client_id

    async def __aenter__(self) -> AsyncMockProducer[K, V]:
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                        traceback: TracebackType | None) -> None:
        self.mock.__exit__(exc_type, exc, traceback)

    # What a test says and asks.

    def history(self) -> list[ProducerRecord]:
        """Return what was sent; see MockProducer.history."""
        return self.mock.history()

    def clear(self) -> None:
        """Forget the history, and what is not done."""
        self.mock.clear()

    def complete_next(self) -> bool:
        """Store the oldest record that is not done; see MockProducer.complete_next."""
        return self.mock.complete_next()

    def error_next(self, error: KafkaError) -> bool:
        """Fail the oldest record that is not done; see MockProducer.error_next."""
        return self.mock.error_next(error)

    def fence_producer(self) -> None:
        """From now on each record fails; see MockProducer.fence_producer."""
        self.mock.fence_producer()

    def __repr__(self) -> str:
        return f"<Async{repr(self.mock)[1:]}"
