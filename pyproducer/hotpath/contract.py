"""What the two twins have in common with the rest: what they ask of it.

Names, arguments and results of the twins' own classes are those of their Python text (_python.py, _python_road.py,
_python_columns.py); tests compare the compiled ones with them.

Road:    hotpath -> [contract] -> RecordSender, ProduceRequestResult
Thread:  any caller.
Source:  ours. Imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyproducer.hotpath._python import FutureRecordMetadata
    from pyproducer.hotpath._python_road import Route

Callback = Callable[[Any, Any], object]


class Upcalls(Protocol):
    """What a Road asks of the rest of the producer; RecordSender in producer/do_send.py. Anything may raise."""

    def checked(self, topic: Any, value: Any, key: Any, partition: Any, timestamp: Any, headers: Any,
                on_completion: Any) -> tuple[Any, Callback | None]:
        """Return a record, and its callback, from arguments of send() that are not plain; or refuse them."""

    def ensure_callback(self, callback: Any) -> bool:
        """Look at a callback that can be called, or refuse it; whether each with the same code, or type, is alike."""

    def foreign(self, count: int, name: str) -> Exception:
        """Return the error for more than two arguments by position, or for a name that send() does not have."""

    def intercept(self, record: Any, on_completion: Callback | None) -> tuple[Any, Callback]:
        """Return what the interceptors make of a record, and what tells them of its outcome."""

    def serialize(self, topic: str, headers: tuple[Any, ...], key: Any,
                  value: Any) -> tuple[bytes | None, bytes | None, tuple[Any, ...]]:
        """Return the bytes of key and value, and the headers as serializers left them."""

    def too_large(self, topic: str, size_bytes: int) -> Exception:
        """Return the error for a record above the limit."""

    def find_route(self, topic: str) -> Route | None:
        """Make a route from what metadata knows now; None when it does not know the topic."""

    def await_topic(self, topic: str, partition: int | None, timestamp: int, key: Any, key_bytes: bytes | None,
                    value: Any, value_bytes: bytes | None, headers: tuple[Any, ...], on_completion: Callback | None,
                    size_bytes: int) -> FutureRecordMetadata:
        """Take a record whose topic, or partition, the road does not know; it may have to wait."""

    def ensure_outside(self) -> None:
        """Raise where the current thread is in the middle of another call of this producer."""

    def choose(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None) -> int:
        """Ask the partitioner; return an index below the topic's count, or -1 where the topic is gone by now."""

    def append(self, topic: str, partition: int, timestamp: int, key_bytes: bytes | None, value_bytes: bytes | None,
               headers: tuple[Any, ...], on_completion: Callback | None, size_bytes: int) -> FutureRecordMetadata:
        """Append a record to its partition's open batch, or open one; which takes the next ones is told the routes."""

    def switch(self, topic: str) -> None:
        """Choose another sticky partition: this one got enough."""

    def wakeup(self) -> None:
        """Wake the sender: a batch is full."""

    def failed(self, error: Exception, topic: str, partition: int | None,
               on_completion: Callback | None) -> FutureRecordMetadata:
        """Return a future that tells why a record was not handed over, or raise the error, as send() does."""
