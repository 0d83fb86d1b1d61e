"""What is sent in a comparison, the same for every client.

Source:  ours; the settings that a client does not have are named beside it in clients.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

WORDS = ("order", "paid", "shipped", "returned", "customer", "item", "price", "city", "street", "2026")


@dataclass(frozen=True)
class Workload:
    """Keyed records of one size, each with a callback, acknowledged by all replicas, idempotent where offered."""

    record_count: int = 300_000
    value_size_bytes: int = 100
    key_count: int = 1_000
    compression: str = "none"
    linger_ms: int = 5
    batch_size_bytes: int = 64 * 1024

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

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) for each record; the lists are made at the first one."""
        return itertools.islice(itertools.cycle(zip(self.keys(), self.values(), strict=True)), self.record_count)


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
