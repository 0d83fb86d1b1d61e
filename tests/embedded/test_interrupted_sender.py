"""An exception at any line of the sender's turn: the wire is thrown away, and each record is stored and told once."""

from __future__ import annotations

import linecache
import random
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import pyproducer
from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.sender import io_thread
from pyproducer.testing import read_topic
from tests.contract.witness import await_memory_back
from tests.support.patience import GIVE_UP_S

PACKAGE = Path(pyproducer.__file__).parent
FOLDERS = tuple(str(PACKAGE / folder) for folder in ("accumulator", "client", "network", "sender", "transaction"))
LOOP = str(PACKAGE / "sender" / "io_thread.py")
MOST_ROUNDS = 1000  # some 60 are needed


class Injected(BaseException):
    """None of ours: whatever catches it is the one recovery, or hides a failure."""


class LineFaults:
    """Traces one thread, and raises at lines drawn by a seed: one in each few turns, and none while it recovers."""

    def __init__(self, seed: int, count: int) -> None:
        self.left = count
        self.where: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._lines_to_go = 0
        self._is_recovering = False

    def trace_this_thread(self, *_: object) -> None:
        """Begin with the next turn; a callback of the producer's. Python stops to trace when a trace raises."""
        if sys.gettrace() is None:
            sys.settrace(self.on_call)

    def on_call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if code.co_filename == LOOP or not code.co_filename.startswith(FOLDERS):
            return None
        if code.co_name == "recover":
            self._is_recovering = True
            return self._until_return
        if code.co_name == "run_once" and not self._is_recovering:
            # Not in every turn: ten failed ones in a row are the end.
            self._lines_to_go = self._random.randrange(1, 700) if self._random.random() < 0.5 else -1
        return self._on_line

    def _until_return(self, _frame: FrameType, event: str, _argument: object) -> Any:
        if event == "return":
            self._is_recovering = False
        return self._until_return

    def _on_line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line" and self.left and not self._is_recovering and self._lines_to_go > 0:
            self._lines_to_go -= 1
            # A `with` is traced once more before its lock is given back: no exception of the interpreter comes there.
            if not self._lines_to_go and linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith(
                    "with "):
                self._lines_to_go = 1
            if not self._lines_to_go:
                self._lines_to_go = -1
                self.left -= 1
                self.where[_name(frame.f_code)] += 1
                raise Injected(f"{_name(frame.f_code)}:{frame.f_lineno}")
        if event == "return" and frame.f_code.co_name == "run_once":
            self._lines_to_go = -1  # what the loop does between two turns is not a turn
        return self._on_line


def _name(code: CodeType) -> str:
    return f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_name}"


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 40))])
def test_sender_when_any_line_of_its_turn_raises_then_each_record_is_stored_once_in_order_and_told_once(
        seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_thread, "_PAUSE_AFTER_BUG_SECONDS", 0)
    faults = LineFaults(seed, 60)
    told: Counter[bytes] = Counter()
    failed: list[BaseException] = []

    def telling(value: bytes) -> Any:
        def on_completion(_metadata: object, error: BaseException | None) -> None:
            faults.trace_this_thread()
            told[value] += 1
            if error is not None:
                failed.append(error)
        return on_completion

    sent = 0
    with EmbeddedBroker(topics={"t": 3}) as broker:
        producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 400, "linger.ms": 0,
                                  "retry.backoff.ms": 1, "reconnect.backoff.ms": 1})
        producer.send("t", b"first", on_completion=faults.trace_this_thread).result(GIVE_UP_S)
        for _ in range(MOST_ROUNDS):
            if not faults.left:
                break
            for _ in range(40):
                value = b"%d" % sent
                producer.send("t", value, partition=sent % 3, on_completion=telling(value))
                sent += 1
            producer.flush(GIVE_UP_S)
        producer.flush(GIVE_UP_S)
        await_memory_back(producer)  # records are told first, batches let go then; flush() waits for the first alone
        assert producer.metrics()["requests-in-flight"] == 0
        producer.close()
        stored: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}
        for record in read_topic(broker.bootstrap_servers, "t"):
            if record.value != b"first":
                stored[record.partition].append(record.value)
    assert failed == []
    assert set(told.values()) == {1}
    assert len(told) == sent
    assert stored == {partition: [b"%d" % number for number in range(partition, sent, 3)] for partition in range(3)}
    assert faults.where.total() == 60
    assert len(faults.where) > 5
    assert not any(thread.name.startswith("kafka-producer-network") for thread in threading.enumerate())


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 40))])
def test_sender_when_any_line_raises_before_it_has_its_id_then_each_record_is_stored_once_all_the_same(
        seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that was half taken in could not be sent with, and nothing asked for another one: each record expired."""
    monkeypatch.setattr(io_thread, "_PAUSE_AFTER_BUG_SECONDS", 0)
    with EmbeddedBroker(topics={"t": 1}) as broker:
        for number in range(20):
            faults = LineFaults(100 * seed + number, 3)
            threading.settrace(faults.on_call)
            try:
                producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0,
                                          "retry.backoff.ms": 1, "reconnect.backoff.ms": 1})
            finally:
                threading.settrace(None)  # type: ignore[arg-type]  # None ends it
            producer.send("t", b"%d" % number).result(GIVE_UP_S)
            producer.close()
        assert [record.value for record in read_topic(broker.bootstrap_servers, "t")] == [
            b"%d" % number for number in range(20)]
