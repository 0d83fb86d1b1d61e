"""A producer in a process: idle, forked, forgotten."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyproducer import KafkaProducer
from pyproducer.common.clock import NEVER_MS
from pyproducer.sender.sender import Sender
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


def test_producer_when_idle_or_waiting_then_its_thread_sleeps(
        own_kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted are the sender's turns: one that spins takes thousands of them in half a second, on a busy machine too,
    where its share of a processor may be as small as that of one that sleeps."""
    topic = own_kafka.create_topic("quiet", 3)
    turns: list[None] = []
    run_once = Sender.run_once

    def counted(sender: Sender, now_ms: int, longest_wait_ms: int = NEVER_MS) -> None:
        turns.append(None)
        run_once(sender, now_ms, longest_wait_ms)

    monkeypatch.setattr(Sender, "run_once", counted)

    def check(state: str, most: int) -> None:
        """Two half seconds, one after the other, have so few turns; what was begun before ends before them."""
        counts: list[int] = []
        while len(counts) < 2 or max(counts[-2:]) > most:
            assert len(counts) < 60, f"{state}: the turns of each half second were {counts}"
            before = len(turns)
            time.sleep(0.5)
            counts.append(len(turns) - before)

    with KafkaProducer({"bootstrap.servers": own_kafka.bootstrap_servers}) as producer:
        check("never used", 2)
        producer.send(topic, b"v").result(GIVE_UP_S)
        check("connected", 2)
        own_kafka.pause()
        futures = [producer.send(topic, b"x" * 1000) for _ in range(1000)]
        check("requests in flight up to the limit, and more waiting", 2)
        own_kafka.resume()
        for future in futures:
            future.result(GIVE_UP_S)
        own_kafka.kill()
        producer.send(topic, b"v")
        check("no broker", 60)  # it is tried again: after 50 ms, and less and less often
        assert turns, "nobody was counted"
        producer.close(0)
