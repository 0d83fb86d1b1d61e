"""A program whose calls to a producer are interrupted by a signal, again and again, at any line.

    python -m tests.support.interrupt_storm BOOTSTRAP COUNT exception|keyboard

Prints one line of JSON: how many exceptions were raised and caught, what the log must hold, and what is left over.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from pyproducer import KafkaError, KafkaProducer
from pyproducer.hotpath import ROLE_IS_SAFE
from tests.support.patience import GIVE_UP_S

TOPIC = "t"
_RECORDS_OF_A_TOPIC = 600  # then the next one is new


class SoftTimeLimit(Exception):
    """What a task queue raises in the middle of a task."""


class Storm:
    """Raises in the main thread, after random times, one exception for each arming."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind
        self.raised_count = 0
        self.caught_count = 0
        self.turn_count = 0  # of the exceptions, those in the middle of a caller's turn
        self.is_in_a_turn: Callable[[], bool] = lambda: False
        self.is_armed = False
        self.swallowed: list[str] = []  # where the exceptions were raised that did not come out
        self._where = ""
        self._draw = random.Random(7)
        signal.signal(signal.SIGALRM, self._on_alarm)

    def step(self, call: Any, *, delays_s: Sequence[float] = (2e-5, 1e-4, 3e-4, 1e-3, 3e-3)) -> None:
        """Make a call that may be interrupted after one of some delays."""
        try:
            self.is_armed = True
            signal.setitimer(signal.ITIMER_REAL, self._draw.choice(delays_s) * (
                0.5 + self._draw.random()))
            call()
            if not self.is_armed:
                self.swallowed.append(self._where)
            self.is_armed = False
        except self.kind:
            self.caught_count += 1

    def _on_alarm(self, _signal: int, frame: FrameType | None) -> None:
        if self.is_armed:
            self._where = "".join(traceback.format_stack(frame, 6))
            self.is_armed = False
            self.raised_count += 1
            self.turn_count += self.is_in_a_turn()
            raise self.kind("from outside")


def main(bootstrap: str, count: int, kind: str) -> None:
    unraisable: list[str] = []
    sys.unraisablehook = lambda told: unraisable.append(f"{told.object!r}: {told.exc_value!r}")
    storm = Storm(KeyboardInterrupt if kind == "keyboard" else SoftTimeLimit)
    props = {"bootstrap.servers": bootstrap, "buffer.memory": 400_000, "batch.size": 2000,
             "delivery.timeout.ms": 2**31 - 1}
    producer = KafkaProducer(props)
    row_by_row = KafkaProducer({**props, "partitioner.class": "round_robin"})
    # Their records wait: for topics that nobody knew before, and until brokers say that there is no such partition.
    waiting = KafkaProducer({**props, "max.block.ms": int(GIVE_UP_S * 1000)})
    hopeless = [KafkaProducer({**props, "max.block.ms": max_block_ms, "partitioner.class": lambda *_: 0})
                for max_block_ms in (20, int(GIVE_UP_S * 1000))]
    # Its callers wait for each record, and so take the sender's turns themselves.
    alone = KafkaProducer({**props, "linger.ms": 0})
    producer.send(TOPIC, b"first", key=b"first").result(GIVE_UP_S)
    futures: dict[int, Any] = {}
    number = 0
    errors: list[str] = []
    new: dict[str, dict[int, Any]] = {}
    given_up: list[Any] = []

    def work() -> None:
        nonlocal number
        for _ in range(10):
            number += 1
            futures[number] = producer.send(TOPIC, b"%d" % number, key=b"%d" % (number % 7))
        draw = number % 50
        topic = f"new-{number // _RECORDS_OF_A_TOPIC}"
        new.setdefault(topic, {})[number] = waiting.send(topic, b"%d" % number, key=b"k")
        nobody = hopeless[number // 10 % 2]
        given_up.append(nobody.send(TOPIC, b"never", partition=99))
        nobody.send_batch(TOPIC, [b"never"] * 3, partitions=[98] * 3)
        if draw < 20:
            futures[number].result(GIVE_UP_S)
        elif draw < 30:
            producer.flush(GIVE_UP_S)
        elif draw < 40:
            producer.send_batch(TOPIC, [b"row"] * 20).result(GIVE_UP_S)
        else:
            told = row_by_row.send_batch(TOPIC, [b"row"] * 5).result(GIVE_UP_S)
            errors.extend(map(repr, told.errors.values()))

    def work_alone() -> None:
        nonlocal number
        for _ in range(100):
            number += 1
            futures[number] = future = alone.send(TOPIC, b"%d" % number, partition=number % 3)
            future.result(GIVE_UP_S)

    role = alone._runtime.life.role
    storm.is_in_a_turn = lambda: bool(role.caller)
    if kind == "keyboard" and ROLE_IS_SAFE:  # it comes with a handler of ours, as it does with Python's
        alone._runtime.life.take_turn.__self__.is_safe_here = lambda: True
    while storm.raised_count < count:
        for _ in range(4):
            storm.step(work)
        storm.step(work_alone, delays_s=(5e-3, 1e-2, 2e-2))  # connections are made anew after each, which takes time
    signal.setitimer(signal.ITIMER_REAL, 0)
    producer.flush(GIVE_UP_S)
    for future in futures.values():
        error = future.exception(GIVE_UP_S)
        if error is not None:
            errors.append(repr(error))
    for one in (row_by_row, waiting, *hopeless, alone):
        one.flush(GIVE_UP_S)
    for told in (future for futures_of in new.values() for future in futures_of.values()):
        error = told.exception(GIVE_UP_S)
        if error is not None:
            errors.append(repr(error))
    refusals = {type(future.exception(GIVE_UP_S)).__name__ for future in given_up}
    for one in (row_by_row, waiting, *hopeless, alone):
        one.close()  # memory comes back after the futures are told
    left_bytes = sum(one.metrics()["buffer-total-bytes"] - one.metrics()["buffer-available-bytes"]
                     for one in (producer, row_by_row, waiting, *hopeless, alone))
    is_closed = False

    def close() -> None:
        nonlocal is_closed
        producer.close(GIVE_UP_S)
        is_closed = True

    producer.send(TOPIC, b"last", key=b"last")
    while not is_closed:
        storm.step(close)
    signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        producer.send(TOPIC, b"too late")
        errors.append("a closed producer took a record")
    except KafkaError:
        pass
    threads = [thread.name for thread in threading.enumerate() if "kafka-producer" in thread.name]
    print(json.dumps({"raised": storm.raised_count, "caught": storm.caught_count, "sent": sorted(futures),
                      "new": {topic: sorted(numbers) for topic, numbers in new.items()},
                      "refusals": sorted(refusals),
                      "highest": number, "errors": errors[:5], "left_bytes": left_bytes, "unraisable": unraisable[:5],
                      "swallowed": storm.swallowed[:3], "turns": storm.turn_count,
                      "threads": threads}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
