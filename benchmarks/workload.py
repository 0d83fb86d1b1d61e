"""What is sent in a comparison, the same for every client.

Source:  ours; the settings that a client does not have are named beside it in clients.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FIRST_COUNT = 500
MOST_REHEARSED = 50_000
WORDS = ("order", "paid", "shipped", "returned", "customer", "item", "price", "city", "street", "2026")


@dataclass(frozen=True)
class Workload:
    """Records of one size, each with a callback, acknowledged by all replicas, idempotent where offered."""

    record_count: int = 300_000
    value_size_bytes: int = 100
    key_count: int = 1_000
    keyed: bool = True
    has_header: bool = False
    compression: str = "none"
    linger_ms: int = 5
    batch_size_bytes: int = 64 * 1024
    out_of_the_box: bool = False  # each client's own batching and compression; acks and idempotence stay forced
    warm_up_s: float = 5.0  # every client sends for so long before it is measured
    trusted_file: str = ""  # PEM: TLS, and whom to trust; empty: plaintext
    per_transaction: int = 0  # so many records are one; without callbacks, for the commit tells

    def to_json(self) -> str:
        """Return a form that travels on a command line."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Workload:
        """Return the workload that `to_json` wrote."""
        return cls(**json.loads(text))

    def keys(self) -> list[bytes]:
        """Return the keys, 8 bytes each; records take them in turn."""
        return [b"k%07d" % number for number in range(self.key_count)]

    def values(self) -> list[bytes]:
        """Return the values, all different, of words that compress to about half; records take them in turn."""
        words = random.Random(7)  # any seed, but always the same
        return [" ".join(f"{words.randrange(1 << 20):05x}" if words.random() < 0.5 else words.choice(WORDS)
                         for _ in range(self.value_size_bytes // 4 + 1)).encode()[:self.value_size_bytes]
                for _ in range(self.key_count)]

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the headers of every record, one list for all."""
        return [("trace", b"0123456789abcdef")] if self.has_header else []

    def records(self) -> Iterator[tuple[bytes | None, bytes]]:
        """Return (key, value) for each record; the lists are made by the call."""
        keys: Sequence[bytes | None] = self.keys() if self.keyed else [None] * self.key_count
        return itertools.islice(itertools.cycle(zip(keys, self.values(), strict=True)), self.record_count)

    def first_records(self) -> list[tuple[bytes | None, bytes]]:
        """Return what is sent before anything is measured: every partition's leader has answered once.

        A topic that was created a moment ago may still refuse a record; waiting for that is not what is measured.
        """
        return list(itertools.islice(self.records(), FIRST_COUNT))

    def rehearsals(self, most: int = MOST_REHEARSED) -> Iterator[list[tuple[bytes | None, bytes]]]:
        """Yield what is sent and awaited before anything is measured, again for as long as the warm-up lasts.

        Every client's: it is not the code of a JVM alone that gets warm. The broker makes a new topic's files at its
        first records, and takes several times as long for these: who alone comes later is measured on another broker.

        Args:
            most: Records at a time.
        """
        end = time.perf_counter() + self.warm_up_s
        count = max(FIRST_COUNT, min(self.record_count, most))
        records = list(itertools.islice(dataclasses.replace(self, record_count=count).records(), count))
        yield records
        while time.perf_counter() < end:
            yield records

    def describe(self) -> str:
        """Return what one record is and how it is sent, for a table's title."""
        keys = f"{self.key_count:,} keys of 8 B" if self.keyed else "no keys"
        if self.has_header:
            keys += ", a header of 21 B"
        if self.trusted_file:
            keys += ", TLS"
        if self.out_of_the_box:
            return f"{self.value_size_bytes} B, {keys}, every client's own defaults but acks=all and idempotence"
        return (f"{self.value_size_bytes} B, {keys}, compression {self.compression}, acks=all, idempotent, "
                f"linger {self.linger_ms} ms, batches of {self.batch_size_bytes // 1024} KiB")

    def slug(self) -> str:
        """Return the same for a file name."""
        return "-".join([f"{self.value_size_bytes}B", "defaults" if self.out_of_the_box else self.compression,
                         *([] if self.keyed else ["nokeys"]), *(["header"] if self.has_header else []),
                         *(["tls"] if self.trusted_file else [])])


@dataclass(frozen=True)
class Measurement:
    """What one run of one client cost, from its first send to its last answer."""

    client: str
    record_count: int
    seconds: float
    cpu_seconds: float
    peak_memory_bytes: int

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.record_count / self.seconds

    @property
    def cpu_us(self) -> float:
        """The client's user and system time per record, in microseconds."""
        return self.cpu_seconds / self.record_count * 1e6

    @property
    def peak_memory_mib(self) -> float:
        """Largest resident size of the client's process, the interpreter and its modules included."""
        return self.peak_memory_bytes / 2**20

    def to_json(self) -> str:
        """Return a form that travels through a pipe."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Measurement:
        """Return the measurement that `to_json` wrote."""
        return cls(**json.loads(text))


def percentiles_us(times_ns: Sequence[int], shares: Sequence[float]) -> list[float]:
    """Return these percentiles in microseconds, by nearest rank."""
    ordered = sorted(times_ns)
    return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1000 for share in shares]


@dataclass(frozen=True)
class TransactionRun(Measurement):
    """What one run cost, and how long its commits took in microseconds, from the call to its return."""

    commit_p50_us: float
    commit_p99_us: float

    @classmethod
    def from_json(cls, text: str) -> TransactionRun:
        """Return the measurement that `to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Latency:
    """How long one caller waited for the acknowledgement of each of its records, in microseconds."""

    client: str
    record_count: int
    p50_us: float
    p99_us: float
    p999_us: float

    @classmethod
    def of(cls, client: str, waits_ns: Sequence[int]) -> Latency:
        """Return the percentiles of these waits, by nearest rank."""
        p50_us, p99_us, p999_us = percentiles_us(waits_ns, (0.5, 0.99, 0.999))
        return cls(client, len(waits_ns), p50_us, p99_us, p999_us)

    def to_json(self) -> str:
        """Return a form that travels through a pipe."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Latency:
        """Return the measurement that `to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Lateness:
    """How much later than asked for a sleeping thread woke up, in microseconds, and what was sent beside it."""

    client: str
    wake_up_count: int
    p50_us: float
    p90_us: float
    p99_us: float
    sends_per_s: float

    @classmethod
    def of(cls, client: str, late_ns: Sequence[int], sent_count: int, seconds: float) -> Lateness:
        """Return the percentiles of these wake-ups, by nearest rank; so much was sent in so many seconds."""
        p50_us, p90_us, p99_us = percentiles_us(late_ns, (0.5, 0.9, 0.99))
        return cls(client, len(late_ns), p50_us, p90_us, p99_us, sent_count / seconds)

    def to_json(self) -> str:
        """Return a form that travels through a pipe."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Lateness:
        """Return the measurement that `to_json` wrote."""
        return cls(**json.loads(text))
