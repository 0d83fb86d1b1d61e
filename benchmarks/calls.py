"""How many calls of Python one synchronous send takes, from send() until result() has returned.

`python -m benchmarks.calls [--list]`

Counts calls of functions of this package on the caller's and the sender's thread, properties included; what is compiled
is not seen, so it counts the Python text unless PYPRODUCER_IMPL says otherwise. The smallest of 40 sends is shown: a
poll that wakes for something else makes more.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("PYPRODUCER_IMPL", "python")

import pyproducer
from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker

_PACKAGE = Path(pyproducer.__file__).parent
_SENDER = "kafka-producer-network-thread"
_SETTLE_S = 0.02  # between two sends: the sender's thread is asleep by then


class Counting:
    """What sys.setprofile is given: notes the calls while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls: list[tuple[str, str]] = []  # file and function

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Note a call."""
        if self.is_on and event == "call" and frame.f_code.co_filename.startswith(str(_PACKAGE)):
            thread = threading.current_thread()
            if thread is threading.main_thread() or thread.name.startswith(_SENDER):
                self.calls.append((os.path.relpath(frame.f_code.co_filename, _PACKAGE), frame.f_code.co_name))


def count() -> list[tuple[str, str]]:
    """Return the calls of the send that took fewest."""
    counting = Counting()
    threading.setprofile(counting)
    sys.setprofile(counting)
    fewest: list[tuple[str, str]] = []
    try:
        with EmbeddedBroker(topics={"t": 1}) as broker, KafkaProducer(
                {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}) as producer:
            for number in range(60):
                time.sleep(_SETTLE_S if number >= 20 else 0)
                counting.calls = []
                counting.is_on = True
                producer.send("t", b"value", key=b"key").result()
                counting.is_on = False
                if number >= 20 and (not fewest or len(counting.calls) < len(fewest)):
                    fewest = counting.calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return fewest


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls")
    parser.add_argument("--list", action="store_true", help="also each function with how often it was called")
    arguments = parser.parse_args()
    calls = count()
    print(f"one synchronous send: {len(calls)} calls in {len({file for file, _ in calls})} files "
          f"(hotpath {pyproducer.IMPL}, Python {sys.version.split()[0]})")
    if arguments.list:
        for (file, function), times in Counter(calls).items():
            print(f"{times:4}  {file} {function}")


if __name__ == "__main__":
    main()
