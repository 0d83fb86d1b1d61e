"""A process is told to end, or ends, with a producer in it: docs/process_life.md is run as it is printed."""

from __future__ import annotations

import re
import signal
from collections import Counter
from pathlib import Path

import pytest

from pyproducer.broker import EmbeddedBroker
from pyproducer.testing import read_topic
from tests.support.process_life import Program

TOPIC = "orders"
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "process_life.md"
(RECIPE,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="ascii"), re.DOTALL)
TELLING = """
from pyproducer import KafkaProducer
send = KafkaProducer.send

def telling(self, topic, value, **named):
    future = send(self, topic, value, **named)
    print(value.decode().strip(), flush=True)
    return future

KafkaProducer.send = telling
"""
ENDING = """
import sys
from pyproducer import KafkaProducer
producer = KafkaProducer({"bootstrap.servers": sys.argv[1], "linger.ms": 60_000})
for number in range(100):
    producer.send("orders", b"%d" % number, partition=0)
"""


def stored(broker: EmbeddedBroker) -> list[int]:
    return [int(record.value or b"") for record in read_topic(broker.bootstrap_servers, TOPIC)]


@pytest.mark.parametrize("accepted", [1, 7, 60, 400])
def test_sigterm_when_the_recipe_is_followed_then_every_accepted_record_is_in_the_log(accepted: int) -> None:
    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        broker.faults.on("Produce", times=None).delay(20)  # so that something is on its way
        with Program(TELLING + RECIPE, broker.bootstrap_servers) as program:
            program.feed("".join(f"{number}\n" for number in range(10_000)))
            told = [int(program.line()) for _ in range(accepted)]
            program.kill(signal.SIGTERM)
            told += [int(line) for line in program.rest()]
            assert program.wait() == 0, program.errors
        found = stored(broker)
    assert found in (told, [*told, len(told)]), "the send() in the middle of which it came may have handed over"
    assert told == list(range(len(told)))


def test_sigterm_when_the_broker_stores_nothing_then_close_ends_in_time_and_the_exit_code_says_so() -> None:
    recipe = RECIPE.replace("producer.close(20)", "producer.close(0.5)")
    assert recipe != RECIPE
    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        broker.faults.on("Produce", times=None).close("before_apply")
        with Program(TELLING + recipe, broker.bootstrap_servers) as program:
            program.feed("0\n1\n2\n")
            for _ in range(3):
                program.line()
            for _ in range(3):
                program.kill(signal.SIGTERM)
            assert program.wait() == 1, program.errors
            assert re.search(r"close\(\) gave up on 3 records", program.errors)
        assert stored(broker) == []


def test_sigterm_when_a_caller_waits_then_the_recipe_works_there_too() -> None:
    recipe = RECIPE.replace('line.encode())', 'line.encode()).result()')
    assert recipe != RECIPE
    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        broker.faults.on("Produce", times=None).delay(20)
        with Program(TELLING + recipe, broker.bootstrap_servers) as program:
            program.feed("".join(f"{number}\n" for number in range(10_000)))
            told = [int(program.line()) for _ in range(20)]
            program.kill(signal.SIGTERM)
            told += [int(line) for line in program.rest()]
            assert program.wait() == 0, program.errors
        assert stored(broker) in (told, [*told, len(told)])


@pytest.mark.parametrize(("end", "code"), [
    ("", 0), ("sys.exit(3)", 3), ("raise RuntimeError('the application failed')", 1),
    ("import threading; threading.Thread(target=lambda: producer.send('orders', b'100', partition=0)).start()", 0)])
def test_exit_when_nobody_closed_it_then_its_records_are_sent_and_that_is_said(end: str, code: int) -> None:
    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        with Program(ENDING + end, broker.bootstrap_servers, warnings_shown=True) as program:
            assert program.wait() == code, program.errors
            assert re.search(r"ResourceWarning: unclosed producer-1: close\(\) was not called, 10[01] records are on",
                             program.errors)
        counts = Counter(stored(broker))
    assert counts == Counter(range(101 if "100" in end else 100))


@pytest.mark.soak
def test_exit_when_the_broker_answers_nothing_then_it_ends_after_ten_seconds_and_says_what_is_lost() -> None:
    with EmbeddedBroker(topics={TOPIC: 1}) as broker:
        broker.faults.on("Produce", times=None).close("before_apply")
        with Program(ENDING, broker.bootstrap_servers, warnings_shown=True) as program:
            assert program.wait() == 0
            assert "100 records are on their way" in program.errors
            assert "close() gave up on 100 records" in program.errors
        assert stored(broker) == []
