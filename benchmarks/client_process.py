"""One client in a process of its own: `python -m benchmarks.client_process MODE NAME SERVERS TOPIC WORKLOAD`.

MODE is rate, latency, busy-latency or transactions. Prints one line, the measurement as JSON.
"""

from __future__ import annotations

import sys

from benchmarks.clients import CLIENTS
from benchmarks.latency_clients import waits_of
from benchmarks.stopwatch import Stopwatch, peak_memory_bytes
from benchmarks.transaction_clients import TRANSACTION_CLIENTS
from benchmarks.workload import Latency, Measurement, TransactionRun, Workload, percentiles_us


def main() -> None:
    """Run one client once."""
    mode, name, bootstrap_servers, topic, workload_json = sys.argv[1:]
    workload = Workload.from_json(workload_json)
    if mode == "transactions":
        stopwatch = Stopwatch()
        commits_ns = TRANSACTION_CLIENTS[name](bootstrap_servers, topic, workload, stopwatch)
        print(TransactionRun(name, workload.record_count, stopwatch.seconds, stopwatch.cpu_seconds, peak_memory_bytes(),
                             *percentiles_us(commits_ns, (0.5, 0.99))).to_json())
        return
    if mode != "rate":
        waits_ns = waits_of(name, bootstrap_servers, topic, workload, mode == "busy-latency")
        print(Latency.of(name, waits_ns).to_json())
        return
    stopwatch = Stopwatch()
    CLIENTS[name](bootstrap_servers, topic, workload, stopwatch)
    print(Measurement(name, workload.record_count, stopwatch.seconds, stopwatch.cpu_seconds,
                      peak_memory_bytes()).to_json())


if __name__ == "__main__":
    main()
