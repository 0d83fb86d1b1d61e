"""A row without pyspark and a producer without a network."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from pyproducer.accumulator.batch_future import BatchMetadata
from pyproducer.common.records import ProducerRecord, RecordMetadata


class FakeRow(tuple):
    """What a sink needs of pyspark's Row: a tuple with `__fields__`."""

    __fields__: list[str]

    def __new__(cls, **columns: Any) -> FakeRow:
        row = super().__new__(cls, columns.values())
        row.__fields__ = list(columns)
        return row


def fake_schema(**types: str) -> Any:
    """What a sink needs of a StructType: names, and Spark's names of types."""
    return SimpleNamespace(fields=[
        SimpleNamespace(name=name, dataType=SimpleNamespace(simpleString=lambda kind=kind: kind))
        for name, kind in types.items()])


class FakeAnswer:
    """Done when it is made."""

    def done(self) -> bool:
        return True

    def exception(self) -> BaseException | None:
        return None


class FakeRowsFuture(FakeAnswer):
    """Of a send_batch."""

    def __init__(self, metadata: BatchMetadata) -> None:
        self._metadata = metadata

    def result(self) -> BatchMetadata:
        return self._metadata


class FakeProducer:
    """Keeps records; answers them at flush, or at once with `fail_when`."""

    def __init__(self, props: Any = None, *, fail_when: Callable[[ProducerRecord], Exception | None] | None = None,
                 raise_when: Callable[[ProducerRecord], BaseException | None] | None = None,
                 forgets_answers: bool = False) -> None:
        self.props = props
        self.records: list[ProducerRecord] = []
        self.calls: list[tuple[str, int]] = []
        self.flush_count = 0
        self.close_timeouts: list[float | None] = []
        self._fail_when = fail_when
        self._raise_when = raise_when
        self._forgets_answers = forgets_answers
        self._waiting: list[tuple[ProducerRecord, Any]] = []

    def send(self, topic: str, value: Any = None, *, key: Any = None, partition: int | None = None,
             headers: Any = None, timestamp: int | datetime | None = None, on_completion: Any = None) -> FakeAnswer:
        record = ProducerRecord(topic, value, key, partition=partition, headers=headers, timestamp=timestamp)
        error = self._raise_when(record) if self._raise_when else None
        if error:
            raise error
        self.records.append(record)
        self._waiting.append((record, on_completion))
        return FakeAnswer()

    def send_batch(self, topic: str, values: Any, *, keys: Any = None, headers: Any = None, timestamps: Any = None,
                   partitions: Any = None) -> FakeRowsFuture:
        """Rows of Arrow columns, kept as records; `fail_when` fails rows, `raise_when` the call."""
        count = len(values)
        columns = [[None] * count if column is None else column.to_pylist()
                   for column in (values, keys, partitions, timestamps, headers)]
        records = [ProducerRecord(topic, value, key, partition=partition, timestamp=timestamp,
                                  headers=[(pair["key"], pair["value"]) for pair in pairs or ()])
                   for value, key, partition, timestamp, pairs in zip(*columns, strict=True)]
        for record in records:
            error = self._raise_when(record) if self._raise_when else None
            if error:
                raise error
        self.records += records
        self.calls.append((topic, count))
        errors: dict[int, Any] = {  # of whatever class a test has
            row: error for row, record in enumerate(records)
            if self._fail_when and (error := self._fail_when(record))}
        return FakeRowsFuture(BatchMetadata(
            topic, array("q", range(count)), array("i", (record.partition or 0 for record in records)),
            array("q", bytes(8 * count)), errors))

    def metrics(self) -> dict[str, float]:
        return {"batch-total": float(len(self.calls))}

    def config(self) -> dict[str, str | None]:
        return {"delivery.timeout.ms": "120000", "buffer.memory": "33554432", "linger.ms": "5"}

    def flush(self) -> None:
        self.flush_count += 1
        waiting, self._waiting = self._waiting, []
        for offset, (record, on_completion) in enumerate(() if self._forgets_answers else waiting):
            error = self._fail_when(record) if self._fail_when else None
            # As the producer's callbacks: of a record that failed there is no metadata.
            on_completion(None if error else RecordMetadata(record.topic, record.partition or 0, offset, 0, -1, -1),
                          error)

    def close(self, timeout: float | None = None) -> None:
        self.close_timeouts.append(timeout)
