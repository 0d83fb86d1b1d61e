"""Exceptions from outside, out of a signal's handler, at any line of send(), result(), flush() and close()."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.hotpath import IMPL
from pyproducer.testing import read_topic
from tests.support.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
COUNTS = [1000, pytest.param(20_000, marks=pytest.mark.soak)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals that interrupt are of POSIX")
@pytest.mark.parametrize("kind", ["exception", "keyboard"])
@pytest.mark.parametrize("count", COUNTS)
def test_callers_when_interrupted_anywhere_then_nothing_is_swallowed_lost_doubled_or_stuck(
        count: int, kind: str) -> None:
    """In a caller's turn most exceptions were swallowed, and after some tens of them the producer was stuck for good.

    An interrupted wait left a lock taken that the sender wanted, and a batch between two tables was never sent.
    """
    with EmbeddedBroker(topics={"t": 3}) as broker:
        done = subprocess.run([sys.executable, "-m", "tests.support.interrupt_storm", broker.bootstrap_servers,
                               str(count), kind], cwd=ROOT, capture_output=True, text=True, check=False,
                              timeout=PROGRAM_S)
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(done.stdout)
        stored = Counter(record.value for record in read_topic(broker.bootstrap_servers, "t"))
        new = {topic: [int(record.value or b"") for record in read_topic(broker.bootstrap_servers, topic)]
               for topic in told["new"]}
    assert told["swallowed"] == told["unraisable"] == []
    assert told["raised"] == told["caught"] >= count
    assert told["errors"] == []
    assert told["left_bytes"] == 0, "memory is given back to the byte"
    assert told["threads"] == []
    # Callers take the sender's turns, and are interrupted in them; not where an exception may be mistaken.
    assert bool(told["turns"]) == (IMPL == "native" and kind == "keyboard")
    numbers = {int(value): times for value, times in stored.items() if value.isdigit()}
    missing = [number for number in told["sent"] if numbers.get(number) != 1]
    assert missing == [], "each record whose send() returned is there once"
    for topic, numbers_sent in told["new"].items():
        assert new[topic] == sorted(set(new[topic])), "each once, in order"
        assert set(numbers_sent) <= set(new[topic]), "each record that waited for its topic is there"
    # By the brokers' word, or because max.block.ms ended before it came.
    assert "UnknownTopicOrPartitionError" in told["refusals"]
    assert set(told["refusals"]) <= {"KafkaTimeoutError", "UnknownTopicOrPartitionError"}
    # A send() that was interrupted may have handed its record over before.
    assert set(numbers.values()) == {1}
    assert max(numbers) <= told["highest"]
    assert (stored[b"first"], stored[b"last"], stored[b"too late"]) == (1, 1, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals that interrupt are of POSIX")
@pytest.mark.parametrize("count", [50, pytest.param(3000, marks=pytest.mark.soak)])
def test_transactional_calls_when_interrupted_anywhere_and_called_again_then_each_transaction_is_as_its_calls_say(
        count: int) -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        done = subprocess.run([sys.executable, "-m", "tests.support.interrupted_transactions", broker.bootstrap_servers,
                               "t", str(count)], cwd=ROOT, capture_output=True, text=True, check=False,
                              timeout=PROGRAM_S)
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(done.stdout)
        stored = [(record.value or b"").decode() for record in read_topic(
            broker.bootstrap_servers, "t", isolation_level="read_committed")]
    assert told["swallowed"] == []
    assert told["raised"] == told["caught"] >= count
    assert told["state"] == "READY"
    assert stored == [f"{number} {index}" for number in told["committed"] for index in range(3)]
