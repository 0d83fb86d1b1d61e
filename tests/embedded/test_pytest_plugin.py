"""The fixtures for users, in a pytest run of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

from tests.support.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
PLUGIN = SETUP["options.entry_points"]["pytest11"].partition(" = ")[2]
FOLDER = ROOT / dict(line.split(" = ") for line in SETUP["options"]["package_dir"].strip().splitlines())[PLUGIN]
USERS_TESTS = '''
from pyproducer import KafkaProducer

def send(broker, topic):
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send(topic, b"paid", key=b"42").result(600)

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


TESTS_OF_WHOMEVER = '''
import sys

def loaded():
    return [name for name in sys.modules if name.partition(".")[0] == "pyproducer"]

def test_nothing():
    assert loaded() == []

def test_mock(mock_producer):
    assert "pyproducer.testing" in loaded()
    assert "pyproducer.broker" not in loaded()
'''


def pytest_of_users(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin of these sources."""
    (folder / "test_users.py").write_text(tests)
    path = os.pathsep.join([str(ROOT), str(FOLDER.parent)])
    # By its module, whether or not the installation that runs this has the entry point; without other plugins, one of
    # which draws the order: a broker that tests share shows one what another did.
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", "test_users.py"],
        cwd=folder, env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, capture_output=True,
        text=True, timeout=PROGRAM_S, check=False)


def test_fixtures_give_an_own_broker_and_a_shared_one(tmp_path: Path) -> None:
    run = pytest_of_users(tmp_path, USERS_TESTS)
    assert "6 passed" in run.stdout, run.stdout + run.stderr


TESTS_WITH_FAULTS = '''
import pytest

def test_met(kafka_broker):
    kafka_broker.faults.on("Metadata", times=None).delay(0)
    from pyproducer import KafkaProducer
    with KafkaProducer({"bootstrap.servers": kafka_broker.bootstrap_servers}) as producer:
        producer.send("orders", b"paid").result(600)

def test_not_met(kafka_broker):
    kafka_broker.faults.on("Produce", topic="orders", after=2).error("NOT_LEADER_OR_FOLLOWER")

def test_optional(kafka_broker):
    kafka_broker.faults.on("Produce", optional=True).close()

def test_removed(kafka_broker):
    kafka_broker.faults.on("Produce").close().remove()

def test_stopped(kafka_broker):
    kafka_broker.faults.on("Produce").close()
    kafka_broker.stop()

def test_failed(kafka_broker):
    kafka_broker.faults.on("Produce").close()
    assert 1 == 2
'''


def test_fault_when_no_request_has_met_it_then_its_test_fails_unless_that_is_allowed(tmp_path: Path) -> None:
    run = pytest_of_users(tmp_path, TESTS_WITH_FAULTS)
    assert "1 failed, 5 passed, 1 error" in run.stdout, run.stdout + run.stderr
    assert ("No request has met these faults: on(\"Produce\", topic='orders', after=2).error(code=6, "
            "when='before_apply'). What may not be met is optional=True.") in run.stdout
    (tmp_path / "pytest.ini").write_text("[pytest]\npyproducer_strict_faults = false\n")
    run = pytest_of_users(tmp_path, TESTS_WITH_FAULTS)
    assert "1 failed, 5 passed" in run.stdout, run.stdout + run.stderr
    assert "error" not in run.stdout.rpartition("1 failed")[2]


def test_plugin_when_no_fixture_is_used_then_it_imports_nothing_of_ours(tmp_path: Path) -> None:
    """It was a module of the package: each run of pytest, of any project beside it, imported the whole producer."""
    run = pytest_of_users(tmp_path, TESTS_OF_WHOMEVER)
    assert "2 passed" in run.stdout, run.stdout + run.stderr
