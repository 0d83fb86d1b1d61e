"""Lines of a file to a topic: `pyproducer send` beside Apache Kafka's console producer, starts included.

`python -m benchmarks.send_lines [--lines 1000000] [--rounds 3] [--keep]`

Both as a user types them, in turns, on one real broker, with their own defaults; each is a process of its own, timed
from its start to its end. The lines are counted in the topic after the first round.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.rounds import fresh_topic, real_broker
from benchmarks.tables import keep, machine
from pyproducer.testing import read_topic
from tests.support.kafka_jars import java, kafka_tools_classpath
from tests.support.kafka_tools import CONSOLE_PRODUCER

# What kafka-run-class.sh gives a tool.
JVM_OPTIONS = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
               "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent")


def commands(servers: str, topic: str) -> dict[str, list[str]]:
    """Return what is compared, by name."""
    return {"pyproducer send": [sys.executable, "-m", "pyproducer", "send", "-q", "-b", servers, topic],
            "kafka-console-producer": [java(), *JVM_OPTIONS, "-cp", kafka_tools_classpath(), CONSOLE_PRODUCER,
                                       "--bootstrap-server", servers, "--topic", topic]}


def main() -> None:
    """Compare, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.send_lines")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--length", type=int, default=100, help="bytes of a line")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="also write the table to benchmarks/results")
    arguments = parser.parse_args()
    seconds: dict[str, list[float]] = {}
    with real_broker() as server, tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "lines.txt")
        lines.write_bytes(b"".join(b"%0*d\n" % (arguments.length, number) for number in range(arguments.lines)))
        for number in range(arguments.rounds):
            for name in commands("", ""):
                with fresh_topic(server, "lines", 3) as topic, lines.open("rb") as stream:
                    started = time.perf_counter()
                    subprocess.run(commands(server.bootstrap_servers, topic)[name], stdin=stream, check=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    seconds.setdefault(name, []).append(time.perf_counter() - started)
                    print(f"{name:<24}{arguments.lines / seconds[name][-1]:>12,.0f} lines/s", flush=True)
                    if number == 0:
                        stored = sum(1 for _ in read_topic(server.bootstrap_servers, topic))
                        assert stored == arguments.lines, (name, stored)
    ours, others = (statistics.median(seconds[name]) for name in commands("", ""))
    text = "\n".join([
        f"{arguments.lines:,} lines of {arguments.length} bytes, medians of {arguments.rounds} rounds; {machine()}",
        *(f"{name:<24}{arguments.lines / statistics.median(seconds[name]):>12,.0f} lines/s" for name in seconds),
        f"pyproducer send is {others / ours:.1f}x as fast"])
    print(text)
    if arguments.keep:
        keep("send-lines", "send_lines", text)


if __name__ == "__main__":
    main()
