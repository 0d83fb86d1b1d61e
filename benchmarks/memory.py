"""Resident memory while a caller sends faster than the broker takes, for a minute.

`python -m benchmarks.memory [--seconds 60] [--value-sizes 10 100 1024] [--batch-size BYTES] [--keep]`

Two brokers that are too slow: one a second away (a delaying proxy), where records go on trickling through, and one that
is stopped (SIGSTOP), where every request times out and is sent again. The bound for pyproducer is buffer.memory, which
counts what is kept for each record, and 64 MiB for the interpreter, the modules and what malloc does not give back.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.back_pressure import BUFFER_MEMORY_BYTES, PRESSED
from benchmarks.rounds import ROOT, fresh_topic, real_broker
from benchmarks.tables import keep, machine
from benchmarks.workload import Workload
from tests.support.kafka_server import KafkaServer

MIB = 2**20
BOUND_BYTES = BUFFER_MEMORY_BYTES + 64 * MIB
ROUND_TRIP_MS = 1000
SAMPLE_S = 0.2
END_TIMEOUT_S = 120


@dataclass(frozen=True)
class Resident:
    """Resident sizes of one client's process, in bytes."""

    client: str
    before_bytes: int  # connected, its first records acknowledged
    last_bytes: int  # when the time was over
    peak_bytes: int
    record_count: int


def resident_bytes(pid: int, field: str = "VmRSS") -> int:
    """Return the resident size of a process (Linux); VmHWM for the largest so far."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no {field}: it has ended")


def press(name: str, server: KafkaServer, workload: Workload, seconds: float, *, stopped: bool) -> Resident:
    """Run one client against a broker that is too slow, and watch its size."""
    with ExitStack() as stack:
        topic = stack.enter_context(fresh_topic(server, name, 3))
        command = [sys.executable, "-m", "benchmarks.back_pressure", name, server.bootstrap_servers, topic,
                   workload.to_json(), str(seconds)]
        process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                       text=True, cwd=ROOT))
        stack.callback(process.kill)  # it may never end by itself, and a Popen's block waits for that
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{name} could not connect")
        before = last = resident_bytes(process.pid)
        with _paused(server) if stopped else nullcontext():
            process.stdin.write("go\n")
            process.stdin.flush()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(SAMPLE_S)
                last = resident_bytes(process.pid)
            peak = resident_bytes(process.pid, "VmHWM")
            process.stdin.write("end\n")
        output, _ = process.communicate(timeout=END_TIMEOUT_S)
    return Resident(name, before, last, peak, int(output))


@contextmanager
def _paused(server: KafkaServer) -> Iterator[None]:
    server.pause()
    try:
        yield
    finally:
        server.resume()


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--value-sizes", nargs="+", type=int, default=[10, 100, 1024], help="bytes")
    parser.add_argument("--batch-size", type=int, help="bytes, for every client; without it, each one's default")
    parser.add_argument("--clients", nargs="+", choices=list(PRESSED), default=list(PRESSED))
    parser.add_argument("--keep", action="store_true", help="also write the table to benchmarks/results")
    arguments = parser.parse_args()
    lines = [f"MiB resident after {arguments.seconds:g} s of sending faster than the broker takes; buffer of "
             f"{BUFFER_MEMORY_BYTES // MIB} MiB, bound for pyproducer {BOUND_BYTES // MIB} MiB; batch.size "
             f"{'of each client' if arguments.batch_size is None else arguments.batch_size}; {machine()}", "",
             f"{'broker':<18}{'value':>9}  {'client':<18}{'connected':>11}{'at the end':>12}{'peak':>8}"
             f"{'records':>12}"]
    print("\n".join(lines), flush=True)
    too_large = []
    for label, delay_ms, stopped in ((f"{ROUND_TRIP_MS / 1000:g} s away", ROUND_TRIP_MS, False), ("stopped", 0, True)):
        with real_broker(delay_ms) as server:
            for size in arguments.value_sizes:
                for name in arguments.clients:
                    workload = Workload(record_count=100_000, value_size_bytes=size,
                                        batch_size_bytes=arguments.batch_size or 0,
                                        out_of_the_box=arguments.batch_size is None)
                    one = press(name, server, workload, arguments.seconds, stopped=stopped)
                    lines.append(f"{label:<18}{size:>7} B  {name:<18}{one.before_bytes / MIB:>11.0f}"
                                 f"{one.last_bytes / MIB:>12.0f}{one.peak_bytes / MIB:>8.0f}"
                                 f"{one.record_count:>12,}")
                    print(lines[-1], flush=True)
                    if name == "pyproducer" and one.peak_bytes > BOUND_BYTES:
                        too_large.append(lines[-1])
    if arguments.keep:
        keep("memory", "memory", "\n".join(lines))
    if too_large:
        sys.exit("above the bound:\n" + "\n".join(too_large))


if __name__ == "__main__":
    main()
