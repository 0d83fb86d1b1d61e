"""Producer: what code that sends records needs of a producer, for annotations.

    def announce(order: Order, producer: Producer[bytes, bytes]) -> None: ...

KafkaProducer and pyproducer.testing.MockProducer have it all, and so can a wrapper of yours. Code that begins and ends
transactions asks for a TransactionalProducer.

Road:    beside it.
Thread:  see KafkaProducer.
Source:  Java Producer (4.1), divided: who only sends needs no transactions.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable

from pyproducer.accumulator.batch_future import BatchFuture
from pyproducer.accumulator.produce_result import OnCompletion
from pyproducer.common.cluster import PartitionInfo
from pyproducer.common.delivery_summary import DeliverySummary
from pyproducer.common.public import public
from pyproducer.common.record_future import FutureRecordMetadata
from pyproducer.common.records import HeadersLike, ProducerRecord
from pyproducer.transaction.prepared_transaction import PreparedTransaction

if TYPE_CHECKING:  # checkers bring typing_extensions with them
    from datetime import datetime

    from typing_extensions import Self, TypeVar

    K_contra = TypeVar("K_contra", contravariant=True, default=bytes)
    V_contra = TypeVar("V_contra", contravariant=True, default=bytes)
else:
    from typing import TypeVar

    K_contra = TypeVar("K_contra", contravariant=True)
    V_contra = TypeVar("V_contra", contravariant=True)


@public
@runtime_checkable
class Producer(Protocol[K_contra, V_contra]):
    """Takes records for a Kafka cluster; what its methods do is said by KafkaProducer's."""

    if not TYPE_CHECKING:

        def __new__(cls, *arguments: object, **named: object) -> object:  # noqa: D102 - nobody is to call it
            if cls._is_protocol:  # confluent-kafka's Producer has this name
                raise TypeError(f"{cls.__name__} is a Protocol, for annotations: make a KafkaProducer; "
                                "confluent-kafka's Producer is pyproducer.compat.confluent_kafka.Producer")
            new = super().__new__
            return new(cls) if new is object.__new__ else new(cls, *arguments, **named)

    @overload
    def send(self, record: ProducerRecord, /, on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

    @overload
    def send(self, topic: str, value: V_contra | None = None, *, key: K_contra | None = None,
             partition: int | None = None, timestamp: int | datetime | None = None,
             headers: HeadersLike | None = None, on_completion: OnCompletion | None = None) -> FutureRecordMetadata: ...

    def send(self, *arguments: Any, **named: Any) -> FutureRecordMetadata:
        """Hand over one record."""

    def send_batch(self, topic: str, values: Any, *, keys: Any = None, headers: Any = None, timestamps: Any = None,
                   partitions: Any = None) -> BatchFuture:
        """Hand over many records of one topic."""

    def flush(self, timeout: float | None = None, *, raise_on_error: bool = False) -> None:
        """Wait until all that was handed over is done."""

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic."""

    def metrics(self) -> dict[str, float]:
        """Return counters and gauges under Java's names."""

    @property
    def client_id(self) -> str:
        """The name that this producer tells the brokers."""

    def close(self, timeout: float | None = None) -> DeliverySummary:
        """Send what was handed over, then end."""

    def __enter__(self) -> Self: ...

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None: ...


@public
@runtime_checkable
class TransactionalProducer(Producer[K_contra, V_contra], Protocol[K_contra, V_contra]):
    """A Producer with transactions; what its methods do is said by KafkaProducer's."""

    def init_transactions(self, transactional_id: str | None = None) -> None:
        """Get a producer id and an epoch for the transactional id."""

    def begin_transaction(self) -> None:
        """Begin a transaction."""

    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        """Have the transaction commit what a consumer has consumed, too."""

    def commit_transaction(self) -> None:
        """Send what is left of the transaction, and commit it."""

    def abort_transaction(self) -> None:
        """Give up the transaction."""

    def prepare_transaction(self) -> PreparedTransaction:
        """Send what is left of the transaction, take no more, and return what another process needs to end it."""

    def transaction(self) -> AbstractContextManager[None]:
        """Return a `with` block that is one transaction."""
