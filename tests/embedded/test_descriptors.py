"""A process that may open few files: 256 is what a shell of macOS gives, and each partition's log takes one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyproducer.common.error_codes import ErrorCode
from tests.support.patience import PROGRAM_S

resource = pytest.importorskip("resource", reason="there are no such limits on Windows")
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import resource, sys
from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from tests.support.raw_client import RawClient
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256 if sys.argv[1] == "hard" else hard))
with EmbeddedBroker() as broker, RawClient(("127.0.0.1", broker.port)) as client:
    for number in range(30):
        answer = client.request(ApiKeys.CREATE_TOPICS, 5, {"timeout_ms": 1000, "topics": [
            {"name": f"t{number}", "num_partitions": 12, "replication_factor": 1, "assignments": [], "configs": []}]})
        (topic,) = answer["topics"]
        print(topic["error_code"], topic["error_message"])
"""


def create_topics(limit: str) -> tuple[list[str], str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, limit], cwd=ROOT, capture_output=True, text=True,
                          timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1024, reason="the hard limit is too low")
def test_broker_when_the_soft_limit_is_low_then_it_is_raised_and_topics_are_made() -> None:
    """After eleven topics of twelve partitions CreateTopics said UNKNOWN_SERVER_ERROR."""
    answers, _ = create_topics("soft")
    assert answers == ["0 None"] * 30


def test_broker_when_the_limit_cannot_be_raised_then_the_answer_says_what_is_missing() -> None:
    answers, errors = create_topics("hard")
    assert answers[0] == "0 None"
    code, _, message = answers[-1].partition(" ")
    assert int(code) == ErrorCode.KAFKA_STORAGE_ERROR
    assert "Too many open files (ulimit -n is 256, and each partition takes one)" in message
    assert "ulimit -n is 256" in errors
