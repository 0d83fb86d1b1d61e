"""The producer of an event loop beside aiokafka's, and a web app whose Kafka goes away.

`python -m benchmarks.event_loop [--rounds 5] [--away-s 60] [--keep]`

Clients take turns on one real Apache Kafka broker. Then a web app under uvicorn (web_app.py) is asked for its health a
hundred times a second while requests wait for their records: with Kafka there, killed, and stopped without a word.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from benchmarks.loop_process import HOLD_MS, LOOP_CLIENTS, LoopRun
from benchmarks.rounds import ROOT, fresh_topic, last_line, real_broker
from benchmarks.tables import keep, machine
from tests.support.kafka_server import KafkaServer

PARTITION_COUNT = 3
HEALTH_PERIOD_S = 0.01
SEND_PERIOD_S = 0.2


class Measure(NamedTuple):
    """What one mode of loop_process.py is about.

    Attributes:
        label: The table's.
        record_count: How many records; aiokafka sends fewer where it is slow.
        fewer: So many times.
        figure: The figure of a run.
        form: How it is written.
        target: What the ratio of ours to aiokafka's should be.
    """

    label: str
    record_count: int
    fewer: int
    figure: Callable[[LoopRun], float]
    form: str
    target: str


MEASURES: dict[str, Measure] = {
    "one": Measure("await send(), each one's defaults: p50 us", 1000, 1, lambda run: run.p50_us, "{:,.0f}", "<= 1.2"),
    "nowait": Measure("send_nowait() and flush: records/s", 300_000, 3, lambda run: run.rate, "{:,.0f}", ">= 5"),
    "tasks": Measure("1,000 tasks that await send(): records/s", 10_000, 1, lambda run: run.rate, "{:,.0f}", ">= 1.5"),
    "watched": Measure("longest call of the loop: ms", 10_000, 1, lambda run: run.longest_ms, "{:.1f}", "-"),
}


def run_once(mode: str, name: str, server: KafkaServer, record_count: int) -> LoopRun:
    """Run one client once, in a process of its own and on a topic of its own."""
    with fresh_topic(server, name, PARTITION_COUNT) as topic:
        return LoopRun.from_json(last_line([sys.executable, "-m", "benchmarks.loop_process", mode, name,
                                            server.bootstrap_servers, topic, str(record_count)], {}))


def compare(server: KafkaServer, rounds: int) -> dict[str, list[dict[str, LoopRun]]]:
    """Return what each client measured in each round, by mode; the first round does not count."""
    found: dict[str, list[dict[str, LoopRun]]] = {mode: [] for mode in MEASURES}
    for number in range(rounds + 1):
        names = list(LOOP_CLIENTS)[::-1 if number % 2 else 1]  # nobody always comes first
        for mode, measure in MEASURES.items():
            one = {}
            for name in names:
                fewer = measure.fewer if name == "aiokafka" else 1
                one[name] = run_once(mode, name, server, measure.record_count // fewer)
                print(f"  round {number}  {mode:<8} {name:<12}{measure.form.format(measure.figure(one[name]))}",
                      flush=True)
            if number:
                found[mode].append(one)
    return found


def report(found: Mapping[str, Sequence[Mapping[str, LoopRun]]]) -> str:
    """Return the table: medians, and the median of the ratios within each round."""
    names = "".join(f"{name:>14}" for name in LOOP_CLIENTS)
    lines = [f"{'':<46}{names}{'ratio (lowest-highest)':>26}{'target':>10}"]
    for mode, measure in MEASURES.items():
        rounds = found[mode]
        cells = "".join(f"{measure.form.format(statistics.median(measure.figure(one[name]) for one in rounds)):>14}"
                        for name in LOOP_CLIENTS)
        ratios = [measure.figure(one["pyproducer"]) / measure.figure(one["aiokafka"]) for one in rounds]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        lines.append(f"{measure.label:<46}{cells}{ratio:>26}{measure.target:>10}")
    for name in LOOP_CLIENTS:
        watched = [one[name] for one in found["watched"]]
        lines.append(f"{name}: {sum(run.hold_count for run in watched)} calls of the loop above {HOLD_MS:.0f} ms in "
                     f"{len(watched)} runs; the longest by the thread's own CPU time "
                     f"{max(run.longest_cpu_ms for run in watched):.1f} ms")
    return "\n".join(lines)


class Health(NamedTuple):
    """What the web app's askers saw.

    Attributes:
        waits_ms: How long each GET /health took.
        answers: How often a POST /send had which end: an answer's status, and the error's class.
        words: The first error's text.
        holds: What the app says of its loop.
    """

    waits_ms: list[float]
    answers: Counter[str]
    words: str
    holds: str

    def describe(self) -> str:
        """Return it for the table."""
        ordered = sorted(self.waits_ms)
        ends = ", ".join(f"{count} x {end}" for end, count in sorted(self.answers.items()))
        return (f"/health asked {len(ordered):,} times: p50 {ordered[len(ordered) // 2]:.1f} ms, p99 "
                f"{ordered[int(len(ordered) * 0.99)]:.1f} ms, longest {ordered[-1]:.1f} ms, "
                f"{sum(wait > 50 for wait in ordered)} above 50 ms; {self.holds}; /send: {ends}")


@contextmanager
def web_app(servers: str, topic: str) -> Iterator[int]:
    """Run the web app; gives its port."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks.web_app", servers, topic], stdout=subprocess.PIPE,
                          text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, str]:
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    size = next(int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length"))
    return int(head.split()[1]), (await reader.readexactly(size)).decode()


async def watch_health(port: int, seconds: float) -> Health:
    """Ask for the app's health, and send records, for so long; then wait for the answers that are open."""
    waits_ms: list[float] = []
    answers: Counter[str] = Counter()
    words = ""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds

    async def send() -> None:
        nonlocal words
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            status, body = await _ask(reader, writer, b"POST /send HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nv")
        finally:
            writer.close()
        answers[f"{status} {body.split(':')[0] if status != 200 else 'stored'}"] += 1
        if status != 200:
            words = words or body

    async def send_all() -> None:
        sends = []
        while loop.time() < end:
            sends.append(asyncio.create_task(send()))
            await asyncio.sleep(SEND_PERIOD_S)
        await asyncio.gather(*sends)

    sending = asyncio.create_task(send_all())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while not sending.done():
            began = time.perf_counter()
            status, _ = await _ask(reader, writer, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            waits_ms.append((time.perf_counter() - began) * 1000)
            assert status == 200
            await asyncio.sleep(HEALTH_PERIOD_S)
        await sending
        _, holds = await _ask(reader, writer, b"GET /holds HTTP/1.1\r\nHost: a\r\n\r\n")
    finally:
        writer.close()
    return Health(waits_ms, answers, words, holds)


def serve(server: KafkaServer, away_s: float) -> list[str]:
    """Return what the web app did with Kafka there and away, line by line."""
    topic = server.create_topic(f"web-{uuid.uuid4().hex[:8]}", PARTITION_COUNT)
    lines = []
    with web_app(server.bootstrap_servers, topic) as port:
        for label, leave, come_back in (("there", None, None), ("killed", server.kill, server.restart),
                                        ("stopped", server.pause, server.resume)):
            if leave is not None:
                leave()
            try:
                health = asyncio.run(watch_health(port, away_s if leave is not None else min(away_s, 10)))
            finally:
                if come_back is not None:
                    come_back()
            lines.append(f"Kafka {label}: {health.describe()}")
            if health.words:
                lines.append(f"    {health.words}")
            print(lines[-1] if not health.words else "\n".join(lines[-2:]), flush=True)
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.event_loop")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--away-s", type=float, default=60, help="how long Kafka is away; 0 leaves the web app out")
    parser.add_argument("--keep", action="store_true", help="also write the table to benchmarks/results")
    arguments = parser.parse_args()
    with real_broker() as server:
        text = report(compare(server, arguments.rounds)) if arguments.rounds else ""
        lines = serve(server, arguments.away_s) if arguments.away_s else []
    load = "unknown"
    with suppress(OSError):
        load = f"{os.getloadavg()[0]:.1f}"
    title = (f"100 B, no keys, {PARTITION_COUNT} partitions, {arguments.rounds} rounds; Apache Kafka on the same "
             f"machine; load {load}; {machine()}")
    text = "\n".join([title, "", text, "", *lines])
    print("\n" + text)
    if arguments.keep:
        keep("event_loop", "event_loop", text)


if __name__ == "__main__":
    main()
