"""One million records to an embedded broker, read back and checked: what `make demo` runs.

Run:     python -m examples.demo [--records 1000000]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from tqdm import tqdm

from pyproducer import KafkaProducer, RecordMetadata
from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic

TOPIC = "demo"
PARTITION_COUNT = 3
KEY_COUNT = 1_000
VALUE_SIZE_BYTES = 100
SAMPLE_EVERY = 50  # timing each record would cost more than some of the work that is timed
ROUND_TRIP_COUNT = 1_000

Callback = Callable[["RecordMetadata | None", "BaseException | None"], None]


class Answers:
    """Counts what the producer's thread tells, and keeps the time that sampled records took."""

    def __init__(self) -> None:
        self.stored_count = 0
        self.failures: list[BaseException] = []
        self.latencies_ms: list[float] = []

    def on_completion(self, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        """Count one answer."""
        if exception is None:
            self.stored_count += 1
        else:
            self.failures.append(exception)

    def on_sampled(self, sent_ns: int, metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        """Count one answer and how long it took from send()."""
        self.latencies_ms.append((time.perf_counter_ns() - sent_ns) / 1e6)
        self.on_completion(metadata, exception)


def key_of(number: int) -> bytes:
    """Return the key of a record: 8 bytes."""
    return b"key-%04d" % (number % KEY_COUNT)


def value_of(number: int) -> bytes:
    """Return the value of a record: its number, filled up to 100 bytes."""
    return (b"%012d " % number).ljust(VALUE_SIZE_BYTES, b".")


def send_all(producer: KafkaProducer, record_count: int, answers: Answers) -> float:
    """Send every record with a callback and wait for all answers; return the seconds it took."""
    started = time.perf_counter()
    with tqdm(total=record_count, unit=" records", unit_scale=True, desc="sending", mininterval=0.2) as bar:
        for number in range(record_count):
            on_completion: Callback = answers.on_completion
            if number % SAMPLE_EVERY == 0:
                on_completion = partial(answers.on_sampled, time.perf_counter_ns())
                bar.update(answers.stored_count - bar.n)
            producer.send(TOPIC, value_of(number), key=key_of(number), on_completion=on_completion)
        producer.flush()
        bar.update(answers.stored_count - bar.n)
    return time.perf_counter() - started


def check_all(bootstrap_servers: str, record_count: int) -> list[str]:
    """Read the topic and return what is wrong with it: loss, duplicates, order within a key, or nothing."""
    expected_by_key = {key_of(number): number for number in range(min(KEY_COUNT, record_count))}
    partition_of: dict[bytes | None, int] = {}
    wrong: list[str] = []
    read_count = 0
    records = read_topic(bootstrap_servers, TOPIC)
    for record in tqdm(records, total=record_count, unit=" records", unit_scale=True, desc="reading", mininterval=0.2):
        read_count += 1
        key, value = record.key or b"", record.value or b""
        # The records of one key must come as they were sent: each number is the one before plus KEY_COUNT.
        expected = expected_by_key.get(key, -1)
        if value != value_of(expected):
            wrong.append(f"{record.topic}-{record.partition} at offset {record.offset}: key {key!r} has "
                         f"{value[:12]!r}, expected number {expected}")
        expected_by_key[key] = int(value[:12] or b"0") + KEY_COUNT
        if partition_of.setdefault(record.key, record.partition) != record.partition:
            wrong.append(f"key {key!r} is in partitions {partition_of[record.key]} and {record.partition}")
    if read_count != record_count:
        wrong.append(f"{read_count:,} records read, {record_count:,} sent")
    return wrong


def measure_round_trips(producer: KafkaProducer) -> list[float]:
    """Send one record after the other, each waited for; return the ms that each took."""
    latencies_ms: list[float] = []
    for _ in range(ROUND_TRIP_COUNT):
        sent_ns = time.perf_counter_ns()
        producer.send("round-trips", b"x" * VALUE_SIZE_BYTES).result(timeout=10)
        latencies_ms.append((time.perf_counter_ns() - sent_ns) / 1e6)
    return latencies_ms


def percentiles(latencies_ms: list[float]) -> str:
    """Return the median and the 99th percentile for a line of the report."""
    cuts = statistics.quantiles(latencies_ms, n=100)
    return f"p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms"


def main() -> int:
    """Run the demonstration; return 0 when every record was found as it was sent."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="how many to send (1000000)")
    record_count = max(parser.parse_args().records, 2 * SAMPLE_EVERY)
    answers = Answers()
    topics = {TOPIC: PARTITION_COUNT, "round-trips": 1}
    with EmbeddedBroker(topics=topics, separate_process=True) as broker:
        print(f"an embedded broker listens on {broker.bootstrap_servers}, in a process of its own")
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            seconds = send_all(producer, record_count, answers)
        wrong = [f"not stored: {failure}" for failure in answers.failures]
        wrong += check_all(broker.bootstrap_servers, record_count)
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}) as producer:
            round_trips_ms = measure_round_trips(producer)
    megabytes = record_count * (VALUE_SIZE_BYTES + len(key_of(0))) / 1e6
    print(f"sent      {record_count:,} records of {VALUE_SIZE_BYTES} bytes, {min(KEY_COUNT, record_count):,} keys, "
          f"{PARTITION_COUNT} partitions, acks=all, idempotent, a callback each")
    print(f"rate      {record_count / seconds:,.0f} records/s, {megabytes / seconds:.1f} MB/s ({seconds:.2f} s)")
    print(f"latency   {percentiles(answers.latencies_ms)} from send() to callback at full load "
          "(most of it is waiting in the full buffer)")
    print(f"latency   {percentiles(round_trips_ms)} for one record at a time, linger.ms=0")
    print("          That is with a broker in Python on the same processors, and Java's default batches of 16 KiB;\n"
          "          raise batch.size to 65536 first. README.md, Speed, has the rates against Apache Kafka.")
    if wrong:
        print(f"WRONG     {len(wrong):,} findings, the first: " + "\n          ".join(wrong[:10]))
        return 1
    print(f"checked   {record_count:,} records read back: none lost, none twice, in order for each key")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
