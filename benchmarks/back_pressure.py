"""A caller that sends faster than the broker takes, in a process of its own; benchmarks.memory looks at its size.

`python -m benchmarks.back_pressure CLIENT SERVERS TOPIC WORKLOAD SECONDS`: prints `ready` when its first records are
acknowledged, waits for a line on standard input, sends for that many seconds, and prints how many records it handed
over. Nothing is kept of a record but what the client keeps: a callback each, no future is held.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from benchmarks.workload import Workload

BUFFER_MEMORY_BYTES = 32 * 1024 * 1024
"""buffer.memory's default, and the same for a client that has another one."""

FIRST_TIMEOUT_S = 90  # records of 10 KiB fill a batch each, and five batches a second reach a partition a second away
MAX_BLOCK_MS = 600_000  # a stopped broker stays stopped longer than the default of max.block.ms


def hand_over(send: Callable[[bytes | None, bytes], object], workload: Workload, seconds: float) -> int:
    """Send until the time is over; return how many records were taken."""
    count = 0
    end = time.monotonic() + seconds
    while True:
        for key, value in workload.records():
            if time.monotonic() >= end:
                sys.stdin.readline()  # the parent looks until it says so
                return count
            send(key, value)
            count += 1


def announce_and_wait() -> None:
    """Tell the parent that the client is connected; begin when it says so."""
    print("ready", flush=True)
    sys.stdin.readline()


def batch_size(workload: Workload) -> dict[str, object]:
    """Return the setting of batches' size; nothing where each client's own default is wanted."""
    return {} if workload.out_of_the_box else {"batch.size": workload.batch_size_bytes}


def press_pyproducer(bootstrap_servers: str, topic: str, workload: Workload, seconds: float) -> int:
    """This project's producer with its defaults, but for batch.size where one is asked for."""
    from pyproducer import KafkaProducer

    def on_completion(metadata: object, exception: BaseException | None) -> None:
        pass

    producer = KafkaProducer({"bootstrap.servers": bootstrap_servers, "buffer.memory": BUFFER_MEMORY_BYTES,
                              "max.block.ms": MAX_BLOCK_MS, "compression.type": workload.compression,
                              **batch_size(workload)})
    try:
        for key, value in workload.first_records():
            producer.send(topic, value, key=key)
        producer.flush(FIRST_TIMEOUT_S)
        announce_and_wait()
        return hand_over(lambda key, value: producer.send(topic, value, key=key, on_completion=on_completion),
                         workload, seconds)
    finally:
        producer.close(timeout=1)


def press_confluent_kafka(bootstrap_servers: str, topic: str, workload: Workload, seconds: float) -> int:
    """The Python client of librdkafka with a queue of the same size in bytes; idempotent as ours."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True,
                         "queue.buffering.max.kbytes": BUFFER_MEMORY_BYTES // 1024,
                         "queue.buffering.max.messages": 0, "compression.type": workload.compression,
                         **batch_size(workload)})

    def on_delivery(error: object, message: object) -> None:
        pass

    end = time.monotonic() + seconds

    def send(key: bytes | None, value: bytes) -> None:
        while time.monotonic() < end:
            try:
                producer.produce(topic, value, key, on_delivery=on_delivery)
                return
            except BufferError:
                producer.poll(0.05)

    for key, value in workload.first_records():
        producer.produce(topic, value, key)
    producer.flush(FIRST_TIMEOUT_S)
    announce_and_wait()
    end = time.monotonic() + seconds
    return hand_over(send, workload, seconds)


PRESSED: dict[str, Callable[[str, str, Workload, float], int]] = {
    "pyproducer": press_pyproducer,
    "confluent-kafka": press_confluent_kafka,
}


def main() -> None:
    """Run one client once."""
    name, bootstrap_servers, topic, workload_json, seconds = sys.argv[1:]
    print(PRESSED[name](bootstrap_servers, topic, Workload.from_json(workload_json), float(seconds)), flush=True)


if __name__ == "__main__":
    main()
