"""A client's process is stopped, for longer than every timeout, and goes on (SIGSTOP, SIGCONT)."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time

import pytest

from pyproducer.broker import EmbeddedBroker
from tests.support.log_checker import read_topic
from tests.support.process_life import Program

TOPIC = "orders"
LOAD = """
import json, sys, threading, time
from pyproducer import KafkaProducer

bootstrap, topic, way, request_ms = sys.argv[1:]
producer = KafkaProducer({"bootstrap.servers": bootstrap, "request.timeout.ms": request_ms, "linger.ms": 0,
                          "delivery.timeout.ms": int(request_ms) + 500, "batch.size": 200})
is_over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
futures = []
while not is_over.is_set():
    future = producer.send(topic, b"%d" % len(futures), partition=len(futures) % 2)
    futures.append(future)
    if way == "waits":
        future.exception()
    else:
        time.sleep(0.002)
    if len(futures) % 5 == 0:
        print(len(futures), flush=True)
producer.flush()
outcomes = [None if (error := future.exception(0)) is None else f"{error.outcome}: {error}" for future in futures]
print(json.dumps([outcomes, [(f.result(0).partition, f.result(0).offset) for f, o in zip(futures, outcomes) if not o]]))
producer.close()
"""


def stop_for(program: Program, freeze_s: float) -> None:
    program.kill(signal.SIGSTOP)
    _, status = os.waitpid(program.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    time.sleep(freeze_s)
    program.kill(signal.SIGCONT)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
@pytest.mark.parametrize("way", ["pipelines", "waits"])
@pytest.mark.parametrize(("request_timeout_ms", "freezes_s"), [
    (1000, [2.5]), pytest.param(30_000, [60.0], marks=pytest.mark.soak)])
def test_client_when_its_process_is_stopped_under_load_then_no_record_is_lost_doubled_or_expires(
        way: str, request_timeout_ms: int, freezes_s: list[float]) -> None:
    """All that was on its way expired at the thaw, with outcome unknown, though its answer lay in the socket.

    It still does where the stop comes while the sender computes, and does not sleep; then what is told of it is so.
    """
    with EmbeddedBroker(topics={TOPIC: 2}) as broker:
        broker.faults.on("Produce", times=None).delay(20)  # so that something is always on its way
        with Program(LOAD, broker.bootstrap_servers, TOPIC, way, request_timeout_ms) as program:
            for freeze_s in freezes_s:
                for _ in range(5):
                    program.line()
                stop_for(program, freeze_s)
            for _ in range(5):
                program.line()
            program.end_input()
            told = next(line for line in iter(program.line, "") if line.startswith("[["))
            assert program.wait() == 0, program.errors
        stored = read_topic(broker.bootstrap_servers, TOPIC)
    outcomes, places = json.loads(told)
    if "deadlines are moved by that" in program.errors:
        assert [outcome for outcome in outcomes if outcome is not None] == []
    by_place = {(record.partition, record.offset): int(record.value or b"") for record in stored}
    assert [by_place[partition, offset] for partition, offset in places] == [
        number for number, outcome in enumerate(outcomes) if outcome is None]
    assert len(stored) == len(set(by_place.values())), "none is there twice"
    assert [outcomes[number] for number in by_place.values() if (outcomes[number] or "").startswith("not_sent")] == []
    for partition, records in itertools.groupby(stored, lambda record: record.partition):
        numbers = [int(record.value or b"") for record in records]
        assert numbers == sorted(numbers), partition
