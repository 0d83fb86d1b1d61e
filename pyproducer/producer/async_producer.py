"""AsyncProducer: what code in an event loop needs of a producer, for annotations; as Producer is for other code.

    async def announce(order: Order, producer: AsyncProducer[bytes, bytes]) -> None: ...

AsyncKafkaProducer and MockProducer.as_async() have it all. Code that begins and ends transactions asks for an
AsyncTransactionalProducer.

Road:    beside it.
Thread:  the event loop's.
Source:  ours; see producer.py.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable

from pyproducer.accumulator.batch_future import BatchMetadata
from pyproducer.accumulator.produce_result import OnCompletion
from pyproducer.common.cluster import PartitionInfo
from pyproducer.common.delivery_summary import DeliverySummary
from pyproducer.common.public import public
from pyproducer.common.record_future import FutureRecordMetadata
from pyproducer.common.records import HeadersLike, ProducerRecord, RecordMetadata
from pyproducer.producer.producer import K_contra, V_contra
from pyproducer.transaction.prepared_transaction import PreparedTransaction

if TYPE_CHECKING:  # checkers bring typing_extensions with them
    from datetime import datetime

    from typing_extensions import Self


@public
@runtime_checkable
class AsyncProducer(Protocol[K_contra, V_contra]):
    """Takes records for a Kafka cluster, in an event loop; what its methods do is said by AsyncKafkaProducer's."""

    @overload
    async def send(self, record: ProducerRecord, /, *, on_completion: OnCompletion | None = None) -> RecordMetadata: ...

    @overload
    async def send(self, topic: str, value: V_contra | None = None, *, key: K_contra | None = None,
                   partition: int | None = None, timestamp: int | datetime | None = None,
                   headers: HeadersLike | None = None,
                   on_completion: OnCompletion | None = None) -> RecordMetadata: ...

    async def send(self, *arguments: Any, **named: Any) -> RecordMetadata:
        """Send one record, and return where it was stored."""

    @overload
    def send_nowait(self, record: ProducerRecord, /, *,
                    on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

    @overload
    def send_nowait(self, topic: str, value: V_contra | None = None, *, key: K_contra | None = None,
                    partition: int | None = None, timestamp: int | datetime | None = None,
                    headers: HeadersLike | None = None,
                    on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

    def send_nowait(self, *arguments: Any, **named: Any) -> FutureRecordMetadata:
        """Hand over one record."""

    async def send_batch(self, topic: str, values: Any, *, keys: Any = None, headers: Any = None,
                         timestamps: Any = None, partitions: Any = None) -> BatchMetadata:
        """Send many records of one topic, and return where they were stored."""

    async def flush(self, timeout: float | None = None, *, raise_on_error: bool = False) -> None:
        """Await until all that was handed over is done."""

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic."""

    def metrics(self) -> dict[str, float]:
        """Return counters and gauges under Java's names."""

    @property
    def client_id(self) -> str:
        """The name that this producer tells the brokers."""

    async def close(self, timeout: float | None = None) -> DeliverySummary:
        """Send what was handed over, then end."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                        traceback: TracebackType | None) -> None: ...


@public
@runtime_checkable
class AsyncTransactionalProducer(AsyncProducer[K_contra, V_contra], Protocol[K_contra, V_contra]):
    """An AsyncProducer with transactions; what its methods do is said by AsyncKafkaProducer's."""

    async def init_transactions(self, transactional_id: str | None = None) -> None:
        """Get a producer id and an epoch for the transactional id."""

    async def begin_transaction(self) -> None:
        """Begin a transaction."""

    async def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        """Have the transaction commit what a consumer has consumed, too."""

    async def commit_transaction(self) -> None:
        """Await what is left of the transaction, and commit it."""

    async def abort_transaction(self) -> None:
        """Give up the transaction."""

    async def prepare_transaction(self) -> PreparedTransaction:
        """Await what is left of the transaction, and return what another process needs to end it."""

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Return an `async with` block that is one transaction."""
