"""Logging handlers that wait for the producer, which has something to log: nobody stands still."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from pyproducer import KafkaProducer, KafkaTimeoutError
from pyproducer.broker import EmbeddedBroker
from pyproducer.common.sender_log import drain
from tests.support.patience import GIVE_UP_S, PROGRAM_S

PATIENT_MS = 3_600_000


class KafkaLoggingHandler(logging.Handler):
    """As it is found in many places: lines go to a topic, but those of the client itself."""

    def __init__(self, producer: KafkaProducer) -> None:
        super().__init__()
        self.producer = producer
        self.own_lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("pyproducer"):
            self.own_lines += 1
            return
        self.producer.send("logs", self.format(record).encode())


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"logs": 1}) as running:
        yield running


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[KafkaProducer]:
    """One whose broker is gone, so that each record fails after a while and is told in the log."""
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "buffer.memory": 60_000, "batch.size": 2_000,
                        "max.block.ms": PATIENT_MS, "request.timeout.ms": 100, "delivery.timeout.ms": 150,
                        "linger.ms": 0}) as made:
        while made.send("logs", b"first").exception(GIVE_UP_S) is not None:
            pass  # on a loaded machine 150 ms may pass before it is connected
        broker.stop_node(broker.nodes()[0])
        yield made


@pytest.fixture
def handler(producer: KafkaProducer) -> Iterator[KafkaLoggingHandler]:
    made = KafkaLoggingHandler(producer)
    logging.getLogger().addHandler(made)
    yield made
    logging.getLogger().removeHandler(made)
    assert drain(GIVE_UP_S)


def test_handler_when_its_lines_wait_for_memory_then_the_sender_gives_it_back(
        producer: KafkaProducer, handler: KafkaLoggingHandler, caplog: pytest.LogCaptureFixture) -> None:
    """Each line stood still for max.block.ms: the sender waited for the handler's lock to say that records failed."""
    log = logging.getLogger("an application")
    for number in range(200):
        log.warning("%d %s", number, "x" * 1_000)
    producer.flush(GIVE_UP_S)
    assert drain(GIVE_UP_S)
    assert handler.own_lines > 0, "the producer had something to say meanwhile"
    assert "failed, outcome not_sent" in caplog.text


def test_handler_when_somebody_has_its_lock_and_waits_for_a_record_then_the_record_is_decided(
        producer: KafkaProducer, handler: KafkaLoggingHandler) -> None:
    handler.acquire()
    try:
        for _ in range(3):  # the failure of each but the last is a line
            assert isinstance(producer.send("logs", b"v").exception(GIVE_UP_S), KafkaTimeoutError)
    finally:
        handler.release()
    assert drain(GIVE_UP_S)
    assert handler.own_lines >= 2


def test_plain_handler_when_somebody_has_its_lock_then_the_record_is_decided(
        producer: KafkaProducer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.acquire()
    try:
        for _ in range(3):
            assert isinstance(producer.send("logs", b"v").exception(GIVE_UP_S), KafkaTimeoutError)
    finally:
        caplog.handler.release()
    assert drain(GIVE_UP_S)
    assert "failed, outcome not_sent" in caplog.text


def test_caller_when_he_waits_while_another_has_the_handlers_lock_then_both_go_on(
        broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A caller who waits for his record may take the sender's turn, and has its lines to write then."""
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        locked, done = threading.Event(), threading.Event()

        def hold() -> None:
            with caplog.handler.lock:  # type: ignore[union-attr]
                locked.set()
                done.wait(GIVE_UP_S)

        producer.send("logs", b"v").result(GIVE_UP_S)
        holder = threading.Thread(target=hold)
        holder.start()
        locked.wait(GIVE_UP_S)
        broker.faults.on("Produce", times=3).error(19)
        for _ in range(20):
            producer.send("logs", b"v").result(GIVE_UP_S)
        done.set()
        holder.join()


EXIT = """
import logging, sys, time
from pyproducer import KafkaProducer

class Slow(logging.Handler):
    def emit(self, record):
        time.sleep(0.2)
        print(record.getMessage(), file=sys.stderr)

logging.getLogger().addHandler(Slow())
producer = KafkaProducer({"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 3600000})
producer.send("logs", b"v")
producer.close(0.3)
print("closed", file=sys.stderr)
"""


def test_lines_when_the_program_ends_right_behind_them_then_its_exit_waits_for_them() -> None:
    ended = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=PROGRAM_S, check=True)
    assert "failed, outcome not_sent" in ended.stderr
