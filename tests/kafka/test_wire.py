"""The wire tests of tests/embedded are what Apache Kafka does: they pass against it too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.kafka_server import KafkaServer

ROOT = Path(__file__).resolve().parents[2]
WIRE_TESTS = sorted(str(path) for path in (ROOT / "tests" / "embedded").glob("test_wire_*.py"))
# Kafka's defaults, which the server of the other tests changes.
DEFAULTS = {"auto.create.topics.enable": "true", "log.message.timestamp.after.max.ms": "3600000",
            "log.retention.ms": "-1"}


def test_wire_tests_pass_against_apache_kafka() -> None:
    with KafkaServer(settings=DEFAULTS) as server:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *WIRE_TESTS], cwd=ROOT, text=True,
            env={**os.environ, "KAFKA_REFERENCE": server.bootstrap_servers}, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
