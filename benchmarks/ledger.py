"""What the ledger costs for each batch, in ns of CPU, the best of many: a story, on_sent for 17 of a request, on_end.

python -m benchmarks.ledger
"""

from __future__ import annotations

import gc
import importlib
import time
from types import ModuleType
from typing import Any

from pyproducer.common.cluster import TopicPartition
from pyproducer.hotpath import IMPL

_BATCHES = 1020
_IN_REQUEST = 17
_ROUNDS = 200


class _Open:
    __slots__ = ("size_bytes",)


class _Result:
    __slots__ = ("failure",)


class _Batch:
    __slots__ = ("attempts", "encoded", "open", "parts", "record_count", "result", "story", "topic_partition")


def _batches() -> list[Any]:
    found = []
    for number in range(_BATCHES):
        batch: Any = _Batch()
        batch.topic_partition = TopicPartition("orders", number % 50)
        batch.encoded, batch.record_count, batch.attempts, batch.parts = bytearray(8), 100, 0, []
        batch.open, batch.result = _Open(), _Result()
        batch.open.size_bytes, batch.result.failure = 16_000, None
        found.append(batch)
    return found


def measure(twin: ModuleType) -> dict[str, float]:
    """Return ns of CPU for each batch, by step."""
    ledger, node, batches = twin.Ledger(2048, 0, 100, "(others)"), twin.NodeRow(1), _batches()
    node.on_answer(2, 100, 0)
    best = dict.fromkeys(("story", "sent", "end"), float("inf"))
    clock = time.thread_time_ns
    gc.disable()
    for _ in range(_ROUNDS):
        begin = clock()
        for batch in batches:
            batch.story = twin.Story(1000)
        made = clock()
        for index in range(0, _BATCHES, _IN_REQUEST):
            ledger.on_sent(node, batches[index:index + _IN_REQUEST], 1000, 0)
        sent = clock()
        ledger.now_ms = 1004
        for batch in batches:
            ledger.on_end(batch.story, batch.topic_partition, batch.encoded, batch.record_count, batch.attempts,
                          batch.open.size_bytes, batch.result.failure is None)
        ended = clock()
        for step, spent in (("story", made - begin), ("sent", sent - made), ("end", ended - sent)):
            best[step] = min(best[step], spent / _BATCHES)
    gc.enable()
    return best


def main() -> None:
    """Measure and print."""
    for name in ("_native_ledger", "_python_ledger") if IMPL == "native" else ("_python_ledger",):
        found = measure(importlib.import_module(f"pyproducer.hotpath.{name}"))
        print(f"{name}: {sum(found.values()):.0f} ns a batch, "
              + ", ".join(f"{step} {spent:.0f}" for step, spent in found.items()))


if __name__ == "__main__":
    main()
