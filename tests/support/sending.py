"""What tests of delivery share: keep what was told of every record, and find the error of a send wherever it appears.

Thread:  callbacks come on the producer's sender thread; `Outcomes` is filled there and read after flush() or close().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.support.patience import GIVE_UP_S

if TYPE_CHECKING:
    from pyproducer import KafkaProducer, RecordMetadata

CompletionCallback = Callable[["RecordMetadata | None", "BaseException | None"], None]


class Outcomes:
    """What the callbacks said, by the number that the test gave each record; `order` is the order of the calls."""

    def __init__(self) -> None:
        self.metadata: dict[int, RecordMetadata] = {}
        self.errors: dict[int, BaseException] = {}
        self.order: list[int] = []

    def __len__(self) -> int:
        return len(self.order)

    def callback(self, number: int) -> CompletionCallback:
        """The callback to send record `number` with."""
        def on_completion(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
            self.order.append(number)
            if exception is not None:
                self.errors[number] = exception
            elif metadata is not None:
                self.metadata[number] = metadata
        return on_completion

    def ensure_all_acknowledged(self, count: int) -> None:
        """Check that `count` records were answered, each once and without an error."""
        if self.errors:
            number, error = next(iter(self.errors.items()))
            raise AssertionError(f"{len(self.errors)} of {count} records failed, one is {number}") from error
        assert len(self.order) == count, f"{len(self.order)} callbacks for {count} records"
        assert len(self.metadata) == count, f"{len(self.metadata)} records answered, {count} sent"


def error_of_send(producer: KafkaProducer, *arguments: Any, timeout_s: float = GIVE_UP_S,
                  **named: Any) -> BaseException:
    """Send and return the error: misuse is raised by send(), what happens after hand-over is in the future."""
    try:
        future = producer.send(*arguments, **named)
    except Exception as error:
        return error
    error = future.exception(timeout_s)
    assert error is not None, f"the record was accepted: {future.result(0)}"
    return error
