"""Things that make records slow, each at three strengths: for the tests of why().

`python -m tests.support.why_causes [CAUSE ...]` prints what why() says of each, at each strength.

No import of pytest: people run it, too.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyproducer import ErrorCode, KafkaProducer, Why
from pyproducer.broker import EmbeddedBroker
from tests.support.delay_proxy import DelayProxyProcess
from tests.support.ports import ReservedPorts

TOPIC = "orders"
SLOW_NAME = "slow.example"
LOAD_S = 1.2
STRENGTHS = (0, 1, 2)
ONE_WAY_MS = {"far": (15, 40, 100), "batches": (10, 10, 10)}


class Scene:
    """A broker, what is wrong with it, and a producer that is loaded for a while.

    Attributes:
        props: The producer's settings.
        interval_s: How long the load waits between records; None where it waits for each record instead.
        on_completion: The load's callback.
        value: What it sends.
    """

    def __init__(self, broker: EmbeddedBroker, port: int, stack: contextlib.ExitStack) -> None:
        self.broker = broker
        self.port = port
        self.stack = stack
        self.props: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{port}"}
        self.interval_s: float | None = 0.01
        self.on_completion: Callable[..., object] | None = None
        self.value = b"v" * 100
        self.threads = 1
        self.topics: Sequence[str] = (TOPIC,)
        self.partition: int | None = None
        self.warms_up = True
        self.load_s = LOAD_S

    def run(self) -> Why:
        """Load the producer, and ask it why."""
        with KafkaProducer(self.props) as producer:
            if self.warms_up:
                for _ in range(3):
                    producer.send(TOPIC, b"first").result(60)
                began = time.monotonic()
            else:
                began = time.monotonic()
            ends = time.monotonic() + self.load_s
            workers = [threading.Thread(target=self._load, args=(producer, ends)) for _ in range(self.threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            answer = producer.why(last=time.monotonic() - began + 0.05)
            self.broker.faults.clear()
            producer.close(10)
        return answer

    def _load(self, producer: KafkaProducer, ends: float) -> None:
        number = 0
        while time.monotonic() < ends:
            topic = self.topics[number % len(self.topics)]
            number += 1
            future = producer.send(topic, self.value, partition=self.partition, on_completion=self.on_completion)
            if self.interval_s is None:
                with contextlib.suppress(Exception):
                    future.exception(max(0.01, ends - time.monotonic()))
            elif self.interval_s:
                time.sleep(self.interval_s)


@contextlib.contextmanager
def scene(one_way_ms: float = 0) -> Iterator[Scene]:
    """Make one without anything wrong, but for the length of the way to the broker."""
    with contextlib.ExitStack() as stack:
        (port,) = stack.enter_context(ReservedPorts(1)).numbers
        advertised = port
        if one_way_ms:  # a process of its own: a thread would share our interpreter, which is one of the causes
            advertised = stack.enter_context(
                DelayProxyProcess(("127.0.0.1", port), one_way_delay_ms=one_way_ms)).port
        broker = stack.enter_context(EmbeddedBroker(
            topics={TOPIC: 4}, separate_process=True,
            config={"listeners": f"PLAINTEXT://127.0.0.1:{port}",
                    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{advertised}"}))
        yield Scene(broker, advertised, stack)


def memory(one: Scene, strength: int) -> None:
    one.props.update({"buffer.memory": 60_000, "linger.ms": 0})
    one.value, one.interval_s, one.threads = b"v" * 16_000, 0, (12, 24, 48)[strength]
    one.broker.faults.on("Produce", times=None).delay(5)  # or the fastest machine never lets one wait for long


def batches(one: Scene, strength: int) -> None:
    one.props["batch.size"] = (500, 350, 250)[strength]
    one.interval_s, one.threads = 0.0002, 3


def linger(one: Scene, strength: int) -> None:
    one.props["linger.ms"] = (100, 250, 500)[strength]


def far(one: Scene, strength: int) -> None:
    one.interval_s = None


def broker(one: Scene, strength: int) -> None:
    one.broker.faults.on("Produce", times=None).delay((40, 100, 250)[strength])
    one.interval_s = None


def throttle(one: Scene, strength: int) -> None:
    one.broker.faults.on("Produce", times=None).throttle((50, 150, 400)[strength])
    one.interval_s = None


def dns(one: Scene, strength: int) -> None:
    one.props["bootstrap.servers"] = f"{SLOW_NAME}:{one.port}"
    one.warms_up = False
    real, delay_s = socket.getaddrinfo, (0.3, 0.6, 1.1)[strength]

    def slow(host: Any, *parts: Any, **options: Any) -> Any:
        if host == SLOW_NAME and not options.get("flags", 0) & socket.AI_NUMERICHOST:
            time.sleep(delay_s)
            host = "127.0.0.1"
        return real(host, *parts, **options)

    socket.getaddrinfo = slow
    one.load_s = delay_s + 0.1

    def back() -> None:
        socket.getaddrinfo = real

    one.stack.callback(back)


def metadata(one: Scene, strength: int) -> None:
    one.broker.faults.on("Metadata", times=None).delay((150, 400, 900)[strength])
    one.warms_up, one.interval_s = False, None
    one.topics = [f"new-{number}" for number in range(1000)]


def partition(one: Scene, strength: int) -> None:
    one.broker.faults.on("Produce", partition=2, times=None, probability=(0.5, 0.7, 0.9)[strength]).error(
        ErrorCode.NOT_ENOUGH_REPLICAS)


def slots(one: Scene, strength: int) -> None:
    one.props.update({"max.in.flight.requests.per.connection": 1, "linger.ms": 0})
    one.broker.faults.on("Produce", times=None).delay((20, 40, 80)[strength])
    one.interval_s, one.partition, one.value, one.threads = 0.0005, 0, b"v" * 3000, 2


def interpreter(one: Scene, strength: int) -> None:
    ends = threading.Event()
    for _ in range((2, 3, 5)[strength]):
        hog = threading.Thread(target=_compute, args=(ends,))
        hog.start()
        one.stack.callback(hog.join)
    one.stack.callback(ends.set)
    one.interval_s = 0.02


def _compute(ends: threading.Event) -> None:
    number = 1
    while not ends.is_set():
        for _ in range(2000):
            number = number * 31 % 1_000_003


def callback(one: Scene, strength: int) -> None:
    pause_s = (0.03, 0.06, 0.15)[strength]
    one.on_completion = lambda *_: time.sleep(pause_s)
    one.interval_s = 0.05


def codec(one: Scene, strength: int) -> None:
    one.props.update({"compression.type": "zstd", "compression.zstd.level": 20, "batch.size": 1_000_000,
                      "linger.ms": 0, "max.request.size": 4_000_000})
    one.value = os.urandom((150_000, 300_000, 450_000)[strength]).hex().encode()
    one.interval_s = 0.05


def retries(one: Scene, strength: int) -> None:
    one.broker.faults.on("Produce", times=None, probability=(0.4, 0.6, 0.8)[strength]).error(
        ErrorCode.NOT_ENOUGH_REPLICAS)
    one.interval_s = 0.02


CAUSES: dict[str, Callable[[Scene, int], None]] = {
    injected.__name__: injected for injected in (memory, batches, linger, far, broker, throttle, dns, metadata,
                                                 partition, slots, interpreter, callback, codec, retries)}


def told(strength: int, *causes: str) -> Why:
    """Return what why() says where these are wrong."""
    with scene(max((ONE_WAY_MS[cause][strength] for cause in causes if cause in ONE_WAY_MS), default=0)) as one:
        for cause in causes:
            CAUSES[cause](one, strength)
        return one.run()


def main() -> None:
    """Print what is said of each cause."""
    for cause in sys.argv[1:] or CAUSES:
        for strength in STRENGTHS:
            why = told(strength, cause)
            first = why.findings[0].cause if why.findings else "nothing"
            print(f"{'ok ' if first == cause else 'NOT'} {cause} {strength}: {why}")


if __name__ == "__main__":
    main()
