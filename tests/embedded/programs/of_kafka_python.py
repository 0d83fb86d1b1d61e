"""Programs of kafka-python's users."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyproducer import Cluster, JsonSerializer, KafkaError, KafkaProducer, RecordMetadata


def wait_for_each(servers: str, topic: str) -> RecordMetadata:
    """A record that is waited for.

        producer = KafkaProducer(bootstrap_servers=[servers], retries=5)
        metadata = producer.send(topic, b"raw_bytes").get(timeout=10)
    """
    with KafkaProducer({"bootstrap.servers": servers, "retries": 5}) as producer:
        return producer.send(topic, b"raw_bytes").result(timeout=10)


def json_values(servers: str, topic: str, documents: Iterable[dict[str, Any]]) -> None:
    """Serializers of keys and values.

        producer = KafkaProducer(bootstrap_servers=servers, key_serializer=str.encode,
                                 value_serializer=lambda v: json.dumps(v).encode("utf-8"))
    """
    with KafkaProducer({"bootstrap.servers": servers}, key_serializer=str.encode,
                       value_serializer=JsonSerializer()) as producer:
        for document in documents:
            producer.send(topic, document, key=document["id"])
        producer.flush()


def callbacks_with_partial(servers: str, topic: str, orders: Iterable[int], paid: Callable[[int, RecordMetadata], None],
                           failed: Callable[[int, KafkaError], None]) -> None:
    """A callback for success and one for failure, which know the order.

        future = producer.send(topic, value)
        future.add_callback(partial(paid, order)).add_errback(partial(failed, order))
    """
    def on_completion(order: int, metadata: RecordMetadata | None, exception: KafkaError | None) -> None:
        if metadata is not None:
            paid(order, metadata)
        elif exception is not None:
            failed(order, exception)

    with KafkaProducer({"bootstrap.servers": servers}) as producer:
        for order in orders:
            producer.send(topic, b"order %d" % order, on_completion=partial(on_completion, order))


def custom_partitioner(servers: str, topic: str, keys: Iterable[bytes]) -> list[int]:
    """Where a record goes, by a function of its own; gives the partitions.

        def by_region(key_bytes, all_partitions, available):
            return all_partitions[key_bytes[0] % len(all_partitions)]
        producer = KafkaProducer(bootstrap_servers=servers, partitioner=by_region)
    """
    def by_region(topic: str, key: object, key_bytes: bytes | None, value: object, value_bytes: bytes | None,
                  cluster: Cluster) -> int:
        return (key_bytes or b"\0")[0] % len(cluster.partitions_for_topic(topic))

    with KafkaProducer({"bootstrap.servers": servers, "partitioner.class": by_region}) as producer:
        return [producer.send(topic, b"v", key=key).result().partition for key in keys]


class WebApp:
    """A web app whose threads share one producer: a request waits for its record.

        producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5)       # of the module
        metadata = producer.send(topic, body).get(timeout=5)
    """

    def __init__(self, servers: str, topic: str) -> None:
        producer = self._producer = KafkaProducer({"bootstrap.servers": servers, "linger.ms": 5})

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                metadata = producer.send(topic, body).result(timeout=30)
                answer = json.dumps({"partition": metadata.partition, "offset": metadata.offset}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def close(self) -> None:
        """End the server, then the producer."""
        self.server.server_close()
        self._producer.close()


def prefork(servers: str, topic: str, worker_count: int) -> None:
    """A server that makes its producer before it forks: kafka-python's hangs in the children, silently.

        def post_fork(server, worker):                                         # gunicorn's hook, where people found out
            app.producer = KafkaProducer(bootstrap_servers=servers)
    """
    producer = KafkaProducer({"bootstrap.servers": servers, "pyproducer.fork": "rebuild"})
    producer.send(topic, b"parent").result()
    children = []
    for number in range(worker_count):
        child = os.fork()
        if not child:
            code = 1
            try:
                producer.send(topic, b"worker %d" % number).result()
                producer.close()
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    producer.send(topic, b"parent again").result()
    producer.close()


SERVICE = """
import signal
import sys
import time

from pyproducer import KafkaProducer


def stop(number, frame):
    signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


signal.signal(signal.SIGTERM, stop)
servers, topic = sys.argv[1:]
producer = KafkaProducer({"bootstrap.servers": servers, "linger.ms": 60_000})
try:
    for number in range(1000):
        producer.send(topic, b"%d" % number)
    print("sent", flush=True)
    while True:
        time.sleep(0.1)  # not without an end: a signal that comes just before would wait for it
finally:
    print(producer.close(20).delivered, flush=True)
"""
"""A service that is told to end (SIGTERM) and loses nothing.

    signal.signal(signal.SIGTERM, lambda *_: running.clear())
    ...
    producer.flush(timeout=20)
    producer.close(timeout=20)
"""
