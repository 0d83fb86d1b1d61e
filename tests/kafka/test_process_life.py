"""A producer in a process: idle, forked, forgotten."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from pyproducer import KafkaProducer
from tests.support.kafka_server import KafkaServer
from tests.support.log_checker import read_topic
from tests.support.patience import GIVE_UP_S, PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]

FORGETFUL = """
import sys
from pyproducer import KafkaProducer
producer = KafkaProducer({"bootstrap.servers": sys.argv[1], "linger.ms": 1000})
for number in range(1000):
    producer.send(sys.argv[2], b"%d" % number, partition=0)
"""

FORKING = """
import os, sys
from pyproducer import ForkedProducerError, KafkaProducer
producer = KafkaProducer({"bootstrap.servers": sys.argv[1]})
producer.send(sys.argv[2], b"parent").result(600)
child = os.fork()
if child == 0:
    try:
        producer.send(sys.argv[2], b"never")
    except ForkedProducerError:
        producer.close()
        with KafkaProducer({"bootstrap.servers": sys.argv[1]}) as own:
            own.send(sys.argv[2], b"child").result(600)
        os._exit(0)
    os._exit(1)
_, status = os.waitpid(child, 0)
producer.send(sys.argv[2], b"parent again").result(600)
producer.close()
sys.exit(status)
"""


def run(script: str, *arguments: str) -> str:
    answer = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True,
                            timeout=PROGRAM_S, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert answer.returncode == 0, answer.stderr
    return answer.stderr


def test_producer_when_nobody_closes_it_then_its_records_are_sent_at_exit(kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    run(FORGETFUL, kafka.bootstrap_servers, topic)
    stored = [record.value for record in read_topic(kafka.bootstrap_servers, topic)]
    assert stored == [b"%d" % number for number in range(1000)]


def test_producer_when_the_process_forks_then_the_child_is_told_and_the_parent_goes_on(
        kafka: KafkaServer, topic_name: str) -> None:
    topic = kafka.create_topic(topic_name)
    run(FORKING, kafka.bootstrap_servers, topic)
    stored = [record.value for record in read_topic(kafka.bootstrap_servers, topic)]
    assert stored == [b"parent", b"child", b"parent again"]


def test_producer_when_idle_or_waiting_then_it_uses_no_cpu(own_kafka: KafkaServer) -> None:
    topic = own_kafka.create_topic("quiet", 3)

    def measure(state: str) -> None:
        """Wait for half a second in which hardly anything runs: what was begun before has to end first."""
        used: list[float] = []
        while not used or used[-1] >= 0.15:
            assert len(used) < 60, f"{state}: the share of a processor was {used}"
            began, began_cpu = time.monotonic(), time.process_time()
            time.sleep(0.5)
            used.append((time.process_time() - began_cpu) / (time.monotonic() - began))

    with KafkaProducer({"bootstrap.servers": own_kafka.bootstrap_servers}) as producer:
        measure("never used")
        producer.send(topic, b"v").result(GIVE_UP_S)
        measure("connected")
        own_kafka.pause()
        futures = [producer.send(topic, b"x" * 1000) for _ in range(1000)]
        measure("requests in flight up to the limit, and more waiting")
        own_kafka.resume()
        for future in futures:
            future.result(GIVE_UP_S)
        own_kafka.kill()
        producer.send(topic, b"v")
        measure("no broker")
        producer.close(0)
