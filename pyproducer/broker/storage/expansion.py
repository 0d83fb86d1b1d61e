"""How much of compressed records may be in memory at once, and how much one request may ask for.

A batch of a few kilobytes may hold hundreds of megabytes, and millions of records. Two things bound them:

    Expansion   over all threads of the process: what expands to little is expanded at once; of large ones only one is
                in memory at a time, few wait for their turn, and further ones are told to come again
    Allowance   of one request: what its compressed batches may hold together, in proportion to its own size

Road:    validation, recompression, look-up by time -> [expansion] -> batch_reader -> decompression
Thread:  any; one lock.
Source:  ours; Kafka has no limit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyproducer.common.errors import CorruptRecordError
from pyproducer.record.batch_reader import RecordBatch
from pyproducer.record.decompression import DEFAULT_LIMIT_BYTES

# Nearly every batch: producers fill 16 KiB to 1 MiB before they compress. With it num.io.threads of 8 hold 64 MiB.
SMALL_BYTES = 8 * 1024 * 1024
# Of 8 handlers one works on a large batch and two wait for it; the others go on with what else there is.
MOST_WAITING = 2
# What a request may always hold; larger ones in proportion. Text compresses by 10 to 30, records have tens of bytes.
LEAST_RECORDS = 500_000
LEAST_BYTES = 100 * 1024 * 1024
BYTES_FOR_A_RECORD = 2
LARGEST_RATIO = 64


class ExpansionBusyError(Exception):
    """Large batches are being expanded, and enough wait for it already: another time it will work."""


class Allowance:
    """What the compressed batches of one request may hold together.

    Args:
        request_bytes: The request's size.
    """

    def __init__(self, request_bytes: int) -> None:
        self.bytes_left: int = max(LEAST_BYTES, LARGEST_RATIO * request_bytes)
        self.records_left: int = max(LEAST_RECORDS, request_bytes // BYTES_FOR_A_RECORD)

    def spend(self, size_bytes: int, record_count: int) -> None:
        """Take off what one batch held."""
        self.bytes_left -= size_bytes
        self.records_left -= record_count


class Expansion:
    """Expands the records of batches for many threads.

    Args:
        small_bytes: Up to here nobody waits.
        most_waiting: Threads that wait for the turn to expand a large one.
    """

    def __init__(self, small_bytes: int = SMALL_BYTES, most_waiting: int = MOST_WAITING) -> None:
        self._small_bytes = small_bytes
        self._most_waiting = most_waiting
        self._turn = threading.Condition()  # guards the two below
        self._is_taken = False
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """How many threads wait for their turn."""
        return self._waiting

    @contextmanager
    def expanded(self, batch: RecordBatch, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Iterator[bytes]:
        """Give the encoded records of a batch, uncompressed; they must not be used behind the block.

        A large one is begun twice: what comes out is only known when it is there.

        Args:
            batch: Whose.
            limit_bytes: The most that may come out.

        Raises:
            CorruptRecordError: They cannot be decompressed, or expand beyond the limit.
            ExpansionBusyError: Too many large ones at once.
        """
        if limit_bytes <= self._small_bytes or not batch.codec_id:
            yield batch.expanded_records(limit_bytes)
            return
        found: bytes | None
        try:
            found = batch.expanded_records(self._small_bytes)
        except CorruptRecordError:
            found = None  # or it is large
        if found is not None:
            yield found
            return
        with self._own_turn():
            yield batch.expanded_records(limit_bytes)

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        with self._turn:
            if self._is_taken and self._waiting >= self._most_waiting:
                raise ExpansionBusyError(f"{self._waiting + 1} batches that expand to more than {self._small_bytes} "
                                         "bytes are being looked at")
            self._waiting += 1
            try:
                while self._is_taken:
                    self._turn.wait()
            finally:
                self._waiting -= 1
            self._is_taken = True
        try:
            yield
        finally:
            with self._turn:
                self._is_taken = False
                self._turn.notify()


EXPANSION = Expansion()
"""The one of this process: it is the process that runs out of memory, however many brokers it has."""
