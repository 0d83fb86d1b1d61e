"""The fixtures for users, in a pytest run of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USERS_TESTS = '''
from pyproducer import KafkaProducer

def send(broker, topic):
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send(topic, b"paid", key=b"42").result(60)

def test_own_broker(kafka_broker):
    send(kafka_broker, "orders")
    assert [(record.key, record.value) for record in kafka_broker.records("orders")] == [(b"42", b"paid")]

def test_own_broker_is_empty(kafka_broker):
    assert "orders" not in kafka_broker.topics()

def test_shared_broker(kafka_broker_session):
    send(kafka_broker_session, "shared")

def test_shared_broker_is_the_same(kafka_broker_session):
    assert [record.value for record in kafka_broker_session.records("shared")] == [b"paid"]

def test_mock(mock_producer):
    assert mock_producer.send("orders", b"paid").result().offset == 0
    assert [record.value for record in mock_producer.history()] == [b"paid"]

def test_mock_is_an_own_one(mock_producer):
    assert mock_producer.history() == []
'''


def test_fixtures_give_an_own_broker_and_a_shared_one(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TESTS)
    # By its module, whether or not the installation that runs this has the entry point; in the order written, because
    # a broker that tests share shows one what another did.
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:pyproducer", "-p", "pyproducer.testing.pytest_plugin",
         "-p", "no:randomly", "-p", "no:cacheprovider", "test_users.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "6 passed" in run.stdout, run.stdout + run.stderr
