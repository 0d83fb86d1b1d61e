"""The three ways to learn what became of a record: a future, a callback, or `await`.

Run:     python -m examples.callbacks_and_futures
"""

from __future__ import annotations

import asyncio
import threading

from pyproducer import KafkaError, KafkaProducer, RecordMetadata
from pyproducer.broker import EmbeddedBroker


def wait_for_each(producer: KafkaProducer) -> None:
    """Send and wait: the simplest, and the slowest, as each record travels alone."""
    metadata = producer.send("orders", b"one at a time").result(timeout=10)
    print(f"future: {metadata.topic}-{metadata.partition} at offset {metadata.offset}")


def count_in_callbacks(producer: KafkaProducer) -> None:
    """Send many and be told of each: callbacks run on the producer's own thread, so they must be short."""
    stored = 0
    failures: list[BaseException] = []

    def on_completion(metadata: RecordMetadata | None, exception: BaseException | None) -> None:
        nonlocal stored
        if exception is None:
            stored += 1
        else:
            failures.append(exception)

    for number in range(1000):
        producer.send("orders", b"%d" % number, key=b"%d" % (number % 10), on_completion=on_completion)
    producer.flush()  # returns when every callback has run
    print(f"callbacks: {stored} stored, {len(failures)} failed, all on another thread than "
          f"{threading.current_thread().name}")


async def await_some(producer: KafkaProducer) -> None:
    """Futures can be awaited from asyncio."""
    futures = [producer.send("orders", b"awaited %d" % number) for number in range(3)]
    for future in futures:
        metadata = await future
        print(f"await: {metadata.topic}-{metadata.partition} at offset {metadata.offset}")


def learn_of_a_failure(producer: KafkaProducer) -> None:
    """An error says whether the record may be in the log, and whether the same call may succeed later."""
    try:
        producer.send("a topic name with spaces", b"never stored").result(timeout=10)
    except KafkaError as error:
        print(f"failed: {type(error).__name__} (outcome {error.outcome}, retriable {error.retriable}): {error}")


def main() -> None:
    """Run each of them against one broker."""
    with EmbeddedBroker(topics={"orders": 3}) as broker, \
            KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        wait_for_each(producer)
        count_in_callbacks(producer)
        asyncio.run(await_some(producer))
        learn_of_a_failure(producer)


if __name__ == "__main__":
    main()
