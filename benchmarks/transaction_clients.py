"""One function per client: connect, start the stopwatch, send the workload in transactions, stop it at the last commit.

Each returns how long every commit took. No record has a callback: the commit tells. `pyproducer-flush` sends the same
without transactions, and flushes where the others commit: what it costs more to be transactional shows beside it.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.clients import tuning
from benchmarks.stopwatch import Stopwatch
from benchmarks.workload import MOST_REHEARSED, Workload

Record = tuple["bytes | None", bytes]


def groups(workload: Workload) -> Iterator[list[Record]]:
    """Yield the records of each transaction; the lists are made before the time runs."""
    records = list(itertools.islice(itertools.cycle(workload.records()), workload.per_transaction))
    return itertools.repeat(records, workload.record_count // workload.per_transaction)


def perform(workload: Workload, commit_all: Callable[[Iterator[list[Record]]], list[int]],
            stopwatch: Stopwatch) -> list[int]:
    """Rehearse for as long as the workload's warm-up lasts, once at least, then measure; return the commits' times."""
    end = time.perf_counter() + workload.warm_up_s
    rehearsed = dataclasses.replace(
        workload, record_count=max(workload.per_transaction, min(workload.record_count, MOST_REHEARSED)))
    commit_all(groups(rehearsed))
    while time.perf_counter() < end:
        commit_all(groups(rehearsed))
    todo = groups(workload)
    stopwatch.start()
    commits_ns = commit_all(todo)
    stopwatch.stop()
    return commits_ns


def _pyproducer(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch, *,
                is_transactional: bool) -> list[int]:
    from pyproducer import KafkaProducer

    settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, **tuning(workload, {
        "linger.ms": workload.linger_ms, "batch.size": workload.batch_size_bytes,
        "compression.type": workload.compression})}
    if is_transactional:
        settings["transactional.id"] = topic
    with KafkaProducer(settings) as producer:
        send = producer.send
        begin: Callable[[], Any] = producer.begin_transaction if is_transactional else int
        commit: Callable[[], Any] = producer.commit_transaction if is_transactional else producer.flush
        if is_transactional:
            producer.init_transactions()

        def commit_all(todo: Iterator[list[Record]]) -> list[int]:
            commits_ns: list[int] = []
            for records in todo:
                begin()
                for key, value in records:
                    send(topic, value, key=key)
                started = time.perf_counter_ns()
                commit()
                commits_ns.append(time.perf_counter_ns() - started)
            return commits_ns

        return perform(workload, commit_all, stopwatch)


def run_pyproducer(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch) -> list[int]:
    """This project's producer."""
    return _pyproducer(bootstrap_servers, topic, workload, stopwatch, is_transactional=True)


def run_pyproducer_flush(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch) -> list[int]:
    """The same without transactions."""
    return _pyproducer(bootstrap_servers, topic, workload, stopwatch, is_transactional=False)


def run_confluent_kafka(bootstrap_servers: str, topic: str, workload: Workload, stopwatch: Stopwatch) -> list[int]:
    """The Python client of librdkafka."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic, **tuning(workload, {
        "linger.ms": workload.linger_ms, "batch.size": workload.batch_size_bytes,
        "compression.type": workload.compression, "partitioner": "murmur2_random"})})
    produce, poll = producer.produce, producer.poll
    producer.init_transactions(60)

    def commit_all(todo: Iterator[list[Record]]) -> list[int]:
        commits_ns: list[int] = []
        for records in todo:
            producer.begin_transaction()
            for number, (key, value) in enumerate(records):
                while True:
                    try:
                        produce(topic, value, key)
                        break
                    except BufferError:
                        poll(0.01)
                if number % 100 == 0:
                    poll(0)
            started = time.perf_counter_ns()
            producer.commit_transaction(60)
            commits_ns.append(time.perf_counter_ns() - started)
        return commits_ns

    return perform(workload, commit_all, stopwatch)


TRANSACTION_CLIENTS: dict[str, Callable[[str, str, Workload, Stopwatch], list[int]]] = {
    "pyproducer": run_pyproducer, "pyproducer-flush": run_pyproducer_flush, "confluent-kafka": run_confluent_kafka}
