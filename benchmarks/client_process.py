"""One client in a process of its own: `python -m benchmarks.client_process NAME SERVERS TOPIC WORKLOAD`.

Prints one line, the measurement as JSON.
"""

from __future__ import annotations

import sys

from benchmarks.clients import CLIENTS
from benchmarks.stopwatch import Stopwatch, peak_memory_bytes
from benchmarks.workload import Measurement, Workload


def main() -> None:
    """Run one client once."""
    name, bootstrap_servers, topic, workload_json = sys.argv[1:]
    workload = Workload.from_json(workload_json)
    stopwatch = Stopwatch()
    CLIENTS[name](bootstrap_servers, topic, workload, stopwatch)
    print(Measurement(name, workload.record_count, stopwatch.seconds, stopwatch.cpu_seconds,
                      peak_memory_bytes()).to_json())


if __name__ == "__main__":
    main()
