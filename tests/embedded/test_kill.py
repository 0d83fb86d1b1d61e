"""The broker's process is killed again and again under load: what it acknowledged is there, once, and in order."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyproducer import KafkaProducer, ProducerRecord, RecordMetadata
from pyproducer.broker import EmbeddedBroker, StoredRecord
from pyproducer.broker.control.child_process import ChildProcessCluster
from tests.support.patience import GIVE_UP_S
from tests.support.ports import reserved_port
from tests.support.sending import Outcomes

TOPIC = "orders"
PARTITIONS = 3
ACKNOWLEDGED_BEFORE_A_KILL = 100
BURST = 50
# One kill and restart takes about a second; after this the test gives up.


class Load:
    """Sends numbers, one after the other, for as long as it is let."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.sent = 0
        self.outcomes = Outcomes()
        self._stop = threading.Event()
        self._producer = KafkaProducer({
            "bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 2,
            "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20,
            "request.timeout.ms": 5000, "delivery.timeout.ms": 60_000, "compression.type": "lz4"})
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            for number in range(self.sent, self.sent + BURST):
                self._producer.send(ProducerRecord(TOPIC, b"%d" % number, partition=number % PARTITIONS),
                                    on_completion=self.outcomes.callback(number))
            self.sent += BURST


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with reserved_port() as port, EmbeddedBroker(
            data_dir=tmp_path, topics={TOPIC: PARTITIONS}, separate_process=True, port=port,
            config={"log.segment.bytes": 200_000}) as broker:
        yield broker


def kill_and_restart(broker: EmbeddedBroker) -> None:
    cluster = broker._cluster
    assert isinstance(cluster, ChildProcessCluster)
    assert cluster.pid is not None
    os.kill(cluster.pid, signal.SIGKILL)
    broker.stop()  # takes note of the end
    broker.start()


def check(stored: list[StoredRecord], acknowledged: dict[int, RecordMetadata]) -> None:
    numbers = [int(record.value or b"") for record in stored]
    assert len(set(numbers)) == len(numbers), "a record is there twice"
    places = {number: (record.partition, record.offset) for number, record in zip(numbers, stored, strict=True)}
    lost = [number for number in acknowledged if number not in places]
    assert not lost, f"{len(lost)} acknowledged records are gone, for example {lost[:5]}"
    moved = [number for number, metadata in acknowledged.items()
             if metadata.has_offset and places[number] != (metadata.partition, metadata.offset)]
    assert not moved, f"{len(moved)} records lie elsewhere than was acknowledged, for example {moved[:5]}"
    for partition in range(PARTITIONS):
        in_order = [number for number, record in zip(numbers, stored, strict=True) if record.partition == partition]
        assert in_order == sorted(in_order)


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.soak)])
def test_broker_when_killed_again_and_again_under_load_then_every_acknowledged_record_is_there_once(
        broker: EmbeddedBroker, kills: int) -> None:
    seeded = random.Random(20)
    load = Load(broker.bootstrap_servers)
    try:
        for _ in range(kills):
            enough = len(load.outcomes.metadata) + ACKNOWLEDGED_BEFORE_A_KILL
            deadline = time.monotonic() + GIVE_UP_S
            while len(load.outcomes.metadata) < enough:
                assert time.monotonic() < deadline, f"no answers after a restart: {load.outcomes.errors}"
                time.sleep(0.005)
            time.sleep(seeded.random() * 0.1)
            acknowledged = dict(load.outcomes.metadata)
            kill_and_restart(broker)
            check(broker.records(TOPIC), acknowledged)
    finally:
        load.stop()
    load.outcomes.ensure_all_acknowledged(load.sent)
    stored = broker.records(TOPIC)
    check(stored, load.outcomes.metadata)
    assert len(stored) == load.sent
