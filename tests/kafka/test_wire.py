"""The wire tests of tests/embedded are what Apache Kafka does: they pass against it too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.kafka_server import KafkaServer
from tests.support.patience import GIVE_UP_S

ROOT = Path(__file__).resolve().parents[2]
WIRE_TESTS = sorted(str(path) for path in (ROOT / "tests" / "embedded").glob("test_wire_*.py"))
SHORT = [path for path in WIRE_TESTS
         if Path(path).stem in ("test_wire_produce", "test_wire_idempotence")]
# Kafka's defaults, which the server of the other tests changes.
DEFAULTS = {"auto.create.topics.enable": "true", "log.message.timestamp.after.max.ms": "3600000",
            "log.retention.ms": "-1"}


def check_against_kafka(paths: list[str]) -> None:
    with KafkaServer(settings=DEFAULTS) as server:
        # A broker that has just started has no producer ids yet, and says so: wait until it gives one.
        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
        producer.produce("warm-up", b"v")
        assert producer.flush(GIVE_UP_S) == 0
        # One process and one order: this one may itself be a worker of a parallel run.
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly",
             *paths], cwd=ROOT, text=True, env={**os.environ, "KAFKA_REFERENCE": server.bootstrap_servers},
            capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= len(paths), done.stdout[-6000:]


def test_wire_tests_of_produce_pass_against_apache_kafka() -> None:
    check_against_kafka(SHORT)


@pytest.mark.soak
def test_all_wire_tests_pass_against_apache_kafka() -> None:
    check_against_kafka(WIRE_TESTS)
