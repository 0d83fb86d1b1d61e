"""What one batch costs between its first record and its end, without the request and without threads.

`python -m benchmarks.per_batch [--partitions 50] [--batches 20000] [--pairs 7] [--profile]`

Each round appends one record to each partition (so each opens a batch), asks which nodes are ready, drains them, has
all batches stored and lets them go: RecordAccumulator.append, ready, drain, Completion.on_response, finish. CPU time of
the process, a child process for each figure, the two texts of the hotpath by turns; the minimum and the median of the
pairs. Wall time is not shown: nothing here waits.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import pstats
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from pyproducer.accumulator.batch_state import BatchState, move
from pyproducer.accumulator.buffer_pool import BufferPool
from pyproducer.accumulator.life import Life
from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.accumulator.serialized_record import SerializedRecord
from pyproducer.accumulator.transaction_manager import TransactionManager
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.common.clock import SystemClock
from pyproducer.common.cluster import Cluster, Node, PartitionInfo
from pyproducer.hotpath import IMPL, record_size_upper_bound
from pyproducer.observe.registry import STORIES, Registry
from pyproducer.record.compression import compressor_for
from pyproducer.sender.completion import Completion
from pyproducer.sender.produce_request import BatchesByPartition

TOPIC = "orders"
NODES = [Node(number, "127.0.0.1", 9092 + number) for number in range(3)]
VALUE = b"v" * 100
PHASES = ("append", "ready", "drain", "complete")


class Stand:
    """The accumulator and the completion of one producer, as wiring.py makes them, and nobody else.

    Args:
        partition_count: How many partitions there are, led by three nodes.
    """

    def __init__(self, partition_count: int) -> None:
        self.clock = SystemClock()
        backoff = ExponentialBackoff(100, 1000, jitter=0)
        life = Life("bench", self.clock)
        life.sender_ident = -1  # nobody's: callbacks do not count as such
        pool = BufferPool(1 << 30, self.clock, life, count_held=lambda: self.accumulator.count_held())
        manager = TransactionManager()
        manager.on_producer_id(7, 0)
        self.registry = Registry(capacity=STORIES)
        self.accumulator = RecordAccumulator(
            batch_size_bytes=16384, linger_ms=0, delivery_timeout_ms=120_000, pool=pool,
            compressor=compressor_for("none", None), retry_backoff=backoff, clock=self.clock, life=life,
            transaction_manager=manager, ledger=self.registry.ledger)
        metadata = ProducerMetadata(refresh_backoff=backoff, metadata_max_age_ms=300_000, metadata_max_idle_ms=300_000,
                                    clock=self.clock, bootstrap=[("127.0.0.1", 9092)])
        self.completion = Completion(accumulator=self.accumulator, metadata=metadata, transaction_manager=manager,
                                     retries=2**31 - 1, delivery_timeout_ms=120_000, registry=self.registry,
                                     clock=self.clock)
        self.cluster = Cluster(cluster_id="c", nodes=NODES, partitions=[
            PartitionInfo(TOPIC, index, NODES[index % 3], (), (), (), 0) for index in range(partition_count)])
        self.partition_count = partition_count
        self.base_offset = 0
        self.spent_s = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is done here."""
        begin = time.perf_counter()  # not process_time: a system call, dearer than a batch
        yield
        self.spent_s[name] += time.perf_counter() - begin

    def round(self) -> int:
        """Have each partition's batch opened, sent and stored; return how many batches that was."""
        accumulator, now_ms = self.accumulator, self.clock.now_ms()
        timestamp = self.clock.timestamp_ms()
        with self.phase("append"):
            record = SerializedRecord(TOPIC, None, timestamp, None, None, VALUE, VALUE, (), None,
                                      record_size_upper_bound(None, VALUE, ()))
            for index in range(self.partition_count):
                accumulator.append(record, index, 0)
        with self.phase("ready"):
            check = accumulator.ready(self.cluster, now_ms)
        requests: list[BatchesByPartition] = []
        with self.phase("drain"):
            for node_id in check.ready_nodes:
                batches, _ = accumulator.drain(node_id, check.partitions[node_id], 1 << 20, now_ms)
                for batch in batches:
                    move(batch, BatchState.ON_WIRE)
                self.registry.ledger.on_sent(self.registry.node(node_id), batches, now_ms, 0)
                requests.append({batch.topic_partition: batch for batch in batches})
        answers = [self._answer(batches) for batches in requests]
        with self.phase("complete"):
            for answer, request in zip(answers, requests, strict=True):
                self.completion.on_response(answer, request, {})
        return sum(map(len, requests))

    def _answer(self, batches: dict[Any, Any]) -> Any:
        self.base_offset += 1
        body = {"responses": [{"name": TOPIC, "partition_responses": [
            {"index": index, "error_code": 0, "base_offset": self.base_offset, "log_append_time_ms": -1,
             "log_start_offset": 0} for _topic, index in batches]}]}
        return SimpleNamespace(body=body, api_version=9, destination=0, received_ms=self.clock.now_ms(),
                               version_mismatch=None, timed_out=False, latency_ms=1)


def measure(partition_count: int, batch_count: int) -> dict[str, float]:
    """Return CPU microseconds for each batch, by phase and in all."""
    stand = Stand(partition_count)
    stand.round()  # a partition's first batch goes alone, and its objects are made
    stand.spent_s = dict.fromkeys(PHASES, 0.0)
    gc.collect()
    gc.disable()  # its pauses would fall on one phase or the other
    done = 0
    begin, cpu_begin = time.perf_counter(), time.process_time()
    while done < batch_count:
        done += stand.round()
    cpu_share = (time.process_time() - cpu_begin) / (time.perf_counter() - begin)  # other processes run, too
    figures = {name: 1e6 * cpu_share * spent / done for name, spent in stand.spent_s.items()}
    return {**figures, "all": sum(figures.values())}


def _in_child(impl: str, arguments: argparse.Namespace) -> dict[str, float]:
    output = subprocess.run(
        [sys.executable, "-m", "benchmarks.per_batch", "--once", "--partitions", str(arguments.partitions),
         "--batches", str(arguments.batches)],
        env={**os.environ, "PYPRODUCER_IMPL": impl}, stdout=subprocess.PIPE, check=True).stdout
    figures: dict[str, float] = json.loads(output)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.per_batch")
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--once", action="store_true", help="measure in this process and print JSON")
    parser.add_argument("--profile", action="store_true", help="show where the time goes, by function")
    arguments = parser.parse_args()
    if arguments.profile:
        profile = cProfile.Profile()
        profile.runcall(measure, arguments.partitions, arguments.batches)
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    if arguments.once:
        json.dump(measure(arguments.partitions, arguments.batches), sys.stdout)
        return
    pairs = [(_in_child("python", arguments), _in_child("native", arguments)) for _ in range(arguments.pairs)]
    print(f"CPU us for each batch of one record, {arguments.partitions} partitions, {arguments.pairs} pairs "
          f"(minimum, median); Python {sys.version.split()[0]}, {IMPL} in this process")
    for phase in (*PHASES, "all"):
        text, native = ([pair[side][phase] for pair in pairs] for side in (0, 1))
        ratio = statistics.median(after / before for before, after in zip(text, native, strict=True))
        print(f"  {phase:<9} text {min(text):6.2f} {statistics.median(text):6.2f}   "
              f"compiled {min(native):6.2f} {statistics.median(native):6.2f}   compiled / text {ratio:.2f}")


if __name__ == "__main__":
    main()
