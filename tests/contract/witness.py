"""What the tests of the contract share: a witness that keeps what callbacks say, and comparisons with the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from pyproducer import FutureRecordMetadata, KafkaError, KafkaProducer, KafkaTimeoutError, RecordMetadata
from pyproducer.testing import ConsumedRecord
from tests.contract.clusters import POLL_S, Cluster
from tests.support.patience import GIVE_UP_S

ROUNDING_S = 0.002  # times are kept in whole milliseconds
NEVER_IN_THE_LOG = ("not_sent", "rejected")


class Told(NamedTuple):
    """One call of a callback."""

    number: int
    metadata: RecordMetadata | None
    error: BaseException | None
    at: float


class Witness:
    """Sends numbered records, the number being the value, and keeps what their callbacks are told, in order."""

    def __init__(self, producer: KafkaProducer, topic: str) -> None:
        self.told: list[Told] = []
        self.futures: dict[int, FutureRecordMetadata] = {}
        self.sent_at: dict[int, float] = {}
        self.partitions: dict[int, int] = {}
        self._producer = producer
        self._topic = topic

    def callback(self, number: int) -> Callable[[RecordMetadata | None, BaseException | None], None]:
        def on_completion(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
            self.told.append(Told(number, metadata, exception, time.monotonic()))
        return on_completion

    def change(self, producer: KafkaProducer) -> None:
        """Send with another producer from here on."""
        self._producer = producer

    def send(self, numbers: int | Iterable[int], *, partition: int = 0, padding: int = 0) -> None:
        """Send one number or several; each value is the number, followed by `padding` bytes."""
        for number in (numbers,) if isinstance(numbers, int) else numbers:
            self.sent_at[number] = time.monotonic()
            self.partitions[number] = partition
            self.futures[number] = self._producer.send(
                self._topic, b"%d " % number + b"." * padding, key=b"key", partition=partition,
                on_completion=self.callback(number))

    def await_all(self) -> None:
        """Wait until every record is decided, then check that each callback was called, and called once."""
        for number, future in self.futures.items():
            self.await_decided(future, f"record {number}")
        wait_until(lambda: len(self.told) >= len(self.futures), "every callback is called")
        assert Counter(told.number for told in self.told) == Counter(list(self.futures))

    def deliver_one(self) -> int:
        """Send until a record is delivered, and return its number: on a slow machine a third of a second may not be
        enough for the first."""
        number = max(self.futures, default=-1) + 1
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            self.send(number)
            self.await_all()
            if number in self.metadata:
                return number
            number += 1
            assert time.monotonic() < deadline, "nothing is delivered any more"

    @staticmethod
    def await_decided(future: FutureRecordMetadata, what: str = "a record") -> BaseException | None:
        """Return the error of a record, or None; fail when it is not decided."""
        try:
            error: BaseException | None = future.exception(GIVE_UP_S)
        except KafkaError as undecided:
            raise AssertionError(f"{what} is not decided") from undecided
        return error

    @property
    def order(self) -> list[int]:
        """The numbers in the order in which they were told."""
        return [told.number for told in self.told]

    @property
    def errors(self) -> dict[int, BaseException]:
        return {told.number: told.error for told in self.told if told.error is not None}

    @property
    def metadata(self) -> dict[int, RecordMetadata]:
        return {told.number: told.metadata for told in self.told if told.error is None and told.metadata is not None}

    def told_of(self, number: int) -> Told:
        (told,) = [told for told in self.told if told.number == number]
        return told

    def error_of(self, number: int) -> Any:
        """The error of a record that must have failed; its future and its callback agree."""
        error = self.await_decided(self.futures[number], f"record {number}")
        assert error is not None, f"record {number} was stored"
        wait_until(lambda: number in self.errors, f"the callback of record {number} is called")
        told = self.errors[number]
        assert type(told) is type(error)
        assert getattr(told, "outcome", None) == getattr(error, "outcome", None)
        return error

    def check_age(self, number: int, delivery_ms: int) -> None:
        """A record that failed was not given up before its time: it was the machine that was slow, and not we hasty."""
        self.error_of(number)
        age = self.told_of(number).at - self.sent_at[number]
        assert age >= delivery_ms / 1000 - ROUNDING_S, f"record {number} was given up after {age} s: {self.errors}"

    def check_log(self, cluster: Cluster) -> list[ConsumedRecord]:
        """Wait until all is decided, and compare what was told with the log, which is returned.

        An acknowledged record is there once, at its offset; a failed one as its outcome says.
        """
        self.await_all()
        records = cluster.log(self._topic)
        stored = Counter(numbers_of(records))
        places = {(record.partition, record.offset): number_of(record) for record in records}
        for number, metadata in self.metadata.items():
            assert stored[number] == 1, f"record {number} was acknowledged and is in the log {stored[number]} times"
            if metadata.has_offset:
                assert places.get((metadata.partition, metadata.offset)) == number
        for number, error in self.errors.items():
            outcome = getattr(error, "outcome", None)
            assert outcome in (*NEVER_IN_THE_LOG, "unknown"), f"record {number} failed with {error!r}, {outcome}"
            most = 0 if outcome in NEVER_IN_THE_LOG else 1
            assert stored[number] <= most, f"record {number} is {outcome} and {stored[number]} times in the log"
        assert not stored.keys() - self.futures.keys(), "the log has records that were not sent"
        return records


def number_of(record: ConsumedRecord) -> int:
    assert record.value is not None
    return int(record.value.split(b" ")[0])


def numbers_of(records: Iterable[ConsumedRecord]) -> list[int]:
    """The numbers in a log, in its order."""
    return [number_of(record) for record in records]


def free_bytes(producer: KafkaProducer) -> float:
    """How much of buffer.memory is not in use."""
    return producer.metrics()["buffer-available-bytes"]


def await_memory_back(producer: KafkaProducer) -> None:
    """Wait until all memory was given back, to the byte. It comes back when a batch is done and off the wire."""
    total = producer.metrics()["buffer-total-bytes"]
    wait_until(lambda: free_bytes(producer) == total,
               lambda: f"{total} bytes are free; there are {free_bytes(producer)}")


def longer_and_longer(first_ms: int) -> Iterator[int]:
    """Yield a time, and each time twice as much: for what is to happen before delivery.timeout.ms on any machine."""
    ms = first_ms
    while ms < GIVE_UP_S * 1000:
        yield ms
        ms *= 2
    pytest.fail(f"{ms // 2} ms were not enough")


def await_known(producer: KafkaProducer, topic: str) -> None:
    """Wait until the topic's metadata are there, for a producer whose max.block.ms a slow machine may pass."""
    deadline = time.monotonic() + GIVE_UP_S
    while True:
        try:
            producer.partitions_for(topic)
            return
        except KafkaTimeoutError:
            assert time.monotonic() < deadline, f"{topic} is not known"


def wait_until(condition: Callable[[], object], what: str | Callable[[], str]) -> None:
    """Wait for something that happens on another thread; fail when it does not."""
    deadline = time.monotonic() + GIVE_UP_S
    while not condition():
        assert time.monotonic() < deadline, f"not yet: {what if isinstance(what, str) else what()}"
        time.sleep(POLL_S / 10)
