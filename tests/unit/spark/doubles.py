"""A row without pyspark and a producer without a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyproducer.common.records import ProducerRecord, RecordMetadata


class FakeRow(tuple):
    """What a sink needs of pyspark's Row: a tuple with `__fields__`."""

    __fields__: list[str]

    def __new__(cls, **columns: Any) -> FakeRow:
        row = super().__new__(cls, columns.values())
        row.__fields__ = list(columns)
        return row


class FakeProducer:
    """Keeps records; answers them at flush, or at once with `fail_when`."""

    def __init__(self, props: Any = None, *, fail_when: Callable[[ProducerRecord], Exception | None] | None = None,
                 raise_when: Callable[[ProducerRecord], Exception | None] | None = None,
                 forgets_answers: bool = False) -> None:
        self.props = props
        self.records: list[ProducerRecord] = []
        self.flush_count = 0
        self.close_timeouts: list[float | None] = []
        self._fail_when = fail_when
        self._raise_when = raise_when
        self._forgets_answers = forgets_answers
        self._waiting: list[tuple[ProducerRecord, Any]] = []

    def send(self, topic: str, value: Any = None, *, key: Any = None, partition: int | None = None,
             headers: Any = None, on_completion: Any = None) -> object:
        record = ProducerRecord(topic, value, key, partition=partition, headers=headers)
        error = self._raise_when(record) if self._raise_when else None
        if error:
            raise error
        self.records.append(record)
        self._waiting.append((record, on_completion))
        return object()

    def flush(self) -> None:
        self.flush_count += 1
        waiting, self._waiting = self._waiting, []
        for offset, (record, on_completion) in enumerate(() if self._forgets_answers else waiting):
            error = self._fail_when(record) if self._fail_when else None
            metadata = RecordMetadata(record.topic, record.partition or 0, -1 if error else offset, 0, -1, -1)
            on_completion(metadata, error)

    def close(self, timeout: float | None = None) -> None:
        self.close_timeouts.append(timeout)
