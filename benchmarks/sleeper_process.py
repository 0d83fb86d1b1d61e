"""A thread that sleeps a millisecond again and again while another sends synchronously, in a process of its own.

`python -m benchmarks.sleeper_process CLIENT SERVERS TOPIC WORKLOAD COUNT`: the sleeper wakes up COUNT times, and the
other thread sends all the while. Where CLIENT is `nothing`, nobody sends. Prints one line, a Lateness as JSON.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext

from benchmarks.latency_clients import CALLERS, SendAndWait
from benchmarks.workload import Lateness, Workload

NOTHING = "nothing"
SLEEP_S = 0.001
SLEEP_NS = 1_000_000


def late_wake_ups(client: str, send_and_wait: SendAndWait | None, records: Sequence[tuple[bytes | None, bytes]],
                  count: int) -> Lateness:
    """Let a thread sleep so many times; this one sends the records, one after the other and over again, until then.

    What a send raises ends both.
    """
    late_ns: list[int] = []
    stopped = threading.Event()

    def sleep_again_and_again() -> None:
        while len(late_ns) < count and not stopped.is_set():
            began_ns = time.perf_counter_ns()
            time.sleep(SLEEP_S)
            late_ns.append(time.perf_counter_ns() - began_ns - SLEEP_NS)

    sleeper = threading.Thread(target=sleep_again_and_again, name="sleeper")
    sent_count = 0
    began = time.perf_counter()
    sleeper.start()
    try:
        if send_and_wait is None:
            sleeper.join()
        else:
            for key, value in itertools.cycle(records):
                if not sleeper.is_alive():
                    break
                send_and_wait(key, value)
                sent_count += 1
    finally:
        stopped.set()
        sleeper.join()
    return Lateness.of(client, late_ns, sent_count, time.perf_counter() - began)


def main() -> None:
    """Run one client once."""
    client, bootstrap_servers, topic, workload_json, count = sys.argv[1:]
    records = Workload.from_json(workload_json).first_records()
    with nullcontext() if client == NOTHING else CALLERS[client](bootstrap_servers, topic) as send_and_wait:
        if send_and_wait is not None:
            for key, value in records:
                send_and_wait(key, value)
        print(late_wake_ups(client, send_and_wait, records, int(count)).to_json())


if __name__ == "__main__":
    main()
