"""A caller who takes the sender's turn may be interrupted anywhere in it; nothing may be lost, doubled or left hanging.

Ctrl-C raises KeyboardInterrupt in the main thread between any two of its bytecodes, and so, when a caller waits for its
record, inside the sender's work. Here a trace function raises it at every line, call and return of such a turn, one by
one (each fifth or seventh where time is short), in a real exchange with the embedded broker.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import pyproducer
from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.sender.turns import SenderTurns
from tests.support.log_checker import check_log, read_topic

PACKAGE = os.path.dirname(pyproducer.__file__)
TURNS = SenderTurns._take_turns.__code__


class Interrupter:
    """Raises KeyboardInterrupt at the n-th event of a caller's turn."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.where = ""

    def __call__(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        # A with statement's line comes again at its end, before __exit__: there the interpreter itself looks for no
        # signal, and a lock would stay locked.
        if not frame.f_code.co_filename.startswith(PACKAGE) or not self._is_in_turn(frame):
            return self
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if not line.startswith("with ") and event in ("call", "line", "return"):
            self.left -= 1
            if self.left == 0:
                self.where = f"{frame.f_code.co_name}:{frame.f_lineno} ({event}): {line}"
                sys.settrace(None)
                raise KeyboardInterrupt(self.where)
        return self

    def _is_in_turn(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code is TURNS:
                return True
            frame = frame.f_back
        return False


@contextmanager
def traced(tracer: Callable[..., Any]) -> Iterator[None]:
    """Trace a block; the tracer that was there, such as that of coverage, comes back."""
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)


def await_parked(producer: KafkaProducer) -> None:
    """Make the producer expect callers who wait: its thread stands aside."""
    deadline = time.monotonic() + 60
    while not producer._runtime.turns._is_parked:
        assert time.monotonic() < deadline, "the sender's thread never stood aside"
        producer.send("t", b"warm").result(60)
        time.sleep(0.001)


@pytest.mark.parametrize(("compression", "step"), [
    ("none", 5), ("gzip", 7), pytest.param("none", 1, marks=pytest.mark.soak)])
def test_a_turn_when_interrupted_anywhere_then_every_record_is_stored_once(compression: str, step: int) -> None:
    sent: list[bytes] = []
    places: list[str] = []
    with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "reconnect.backoff.ms": 0, "retry.backoff.ms": 0,
             "reconnect.backoff.max.ms": 0, "retry.backoff.max.ms": 0, "compression.type": compression}) as producer:
        pool = producer._runtime.accumulator._pool
        at = 1
        while True:
            await_parked(producer)
            interrupter = Interrupter(at)
            told: list[object] = []
            future = producer.send("t", b"%d" % at, on_completion=lambda metadata, error, told=told: told.append(
                error or metadata))
            sent.append(b"%d" % at)
            was_interrupted = False
            try:
                with traced(interrupter):
                    future.result(30)
            except KeyboardInterrupt:
                was_interrupted = True
            assert future.result(30).offset >= 0, interrupter.where
            producer.flush(30)
            assert len(told) == 1, f"{told} after {interrupter.where}"
            if was_interrupted:
                places.append(interrupter.where)
            elif interrupter.left > 0 and len(places) * step > 300:
                break  # the whole turn was taken undisturbed
            at += step
        assert len(places) * step > 300
        assert not producer._runtime.accumulator.has_incomplete()
        # The one thing that an interruption may cost: the share of a batch whose memory was just being given back.
        missing = pool.total_bytes - pool.available_bytes
        assert 0 <= missing <= 4 * 16_384, missing
        stored = [record.value for record in read_topic(broker.bootstrap_servers, "t") if record.value != b"warm"]
    check_log(sent, stored)
    assert stored == sent


def test_a_caller_when_it_leaves_without_giving_the_role_back_then_the_thread_takes_it() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers}) as producer:
        await_parked(producer)
        turns = producer._runtime.turns
        gone = threading.Thread(target=lambda: setattr(turns, "_caller", threading.get_ident()))
        gone.start()
        gone.join()
        assert producer.send("t", b"v").result(60).offset >= 0


def test_a_turn_when_a_callback_raises_or_closes_then_the_caller_gets_its_result() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers})
        await_parked(producer)
        ran_in: list[str] = []

        def close(metadata: object, error: object) -> None:
            ran_in.append(threading.current_thread().name)
            with pytest.raises(pyproducer.IllegalStateError):
                producer.flush()
            producer.close()

        assert producer.send("t", b"v", on_completion=close).result(60).offset >= 0
        assert ran_in == [threading.current_thread().name]
        producer._runtime.io_thread.join(60)
        with pytest.raises(pyproducer.ProducerClosedError):
            producer.send("t", b"v")
        producer._runtime.close_parts()


def test_a_batch_that_is_too_large_when_a_caller_takes_the_turn_then_the_thread_splits_it() -> None:
    with EmbeddedBroker(topics={"t": 1}, config={"message.max.bytes": 400}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50}) as producer:
        await_parked(producer)
        futures = [producer.send("t", bytes(100)) for _ in range(8)]
        offsets = [future.result(60).offset for future in futures]
    assert offsets == list(range(offsets[0], offsets[0] + 8))


def test_many_callers_when_they_wait_at_once_then_all_records_are_stored_in_each_ones_order() -> None:
    with EmbeddedBroker(topics={"t": 2}) as broker, KafkaProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}) as producer:
        failures: list[BaseException] = []

        def call(number: int) -> None:
            try:
                for index in range(150):
                    producer.send("t", b"%d" % index, key=b"%d" % number).result(60)
                    if index % 10 == number:
                        time.sleep(0.006)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failures
        stored = read_topic(broker.bootstrap_servers, "t")
    for number in range(4):
        assert [record.value for record in stored if record.key == b"%d" % number] == [
            b"%d" % index for index in range(150)]
