"""FutureRecordMetadata as the application sees it: what it gives has types.

hotpath imports nothing of ours, so it cannot say that `result()` is a RecordMetadata; a type checker is told here.

Road:    send() -> [future] -> the application
Thread:  see hotpath/_python.py.
Source:  Java FutureRecordMetadata (4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from pyproducer import hotpath
from pyproducer.common.errors import KafkaError
from pyproducer.common.records import RecordMetadata

if TYPE_CHECKING:
    from concurrent.futures import Future
    from threading import Condition

    class FutureRecordMetadata(hotpath.FutureRecordMetadata, Future[RecordMetadata]):
        """The promise of one record's `RecordMetadata`; taken where a concurrent.futures.Future is."""

        _condition: Condition
        _state: str
        _waiters: list[Any]

        def result(self, timeout: float | None = None) -> RecordMetadata:
            """Wait for the record and return where it was stored, or raise its error."""

        def exception(self, timeout: float | None = None) -> KafkaError | None:
            """Wait for the record and return its error, or None when it was stored."""

        def add_done_callback(self, fn: Callable[[FutureRecordMetadata], object]) -> None:
            """Call `fn(future)` once the record is done."""

        def remove_done_callback(self, fn: Callable[[FutureRecordMetadata], object]) -> int:
            """Forget a callback that was added and not called; return how many times it was there."""

        def __await__(self) -> Generator[Any, None, RecordMetadata]: ...
else:
    FutureRecordMetadata = hotpath.FutureRecordMetadata
