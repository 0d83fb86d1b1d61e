"""Workers that pass a topic on to another one, exactly once, while they are killed and their group is divided anew.

No import of pytest.
"""

from __future__ import annotations

import collections
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyproducer import KafkaProducer
from tests.support.log_checker import LogProblem
from tests.support.patience import GIVE_UP_S, PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]


class Story(NamedTuple):
    """How a run went.

    Attributes:
        sent: The values of the source's partitions.
        kills: How many workers were killed.
        told: How often a worker said what: "passed" transactions, "again", "anew".
    """

    sent: list[list[bytes]]
    kills: int
    told: Mapping[str, int]


class Worker:
    """One of the processes, and what it says."""

    def __init__(self, job: Mapping[str, Any], told: collections.Counter[str]) -> None:
        self.job = job
        self.process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", "tests.support.passing_on_worker", json.dumps(job)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ})
        self.reader = threading.Thread(target=self._read, args=[told], daemon=True)
        self.reader.start()

    def _read(self, told: collections.Counter[str]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told[line.split()[0]] += 1

    def kill(self) -> None:
        """Kill it at once."""
        self.process.kill()
        self._ended()

    def end(self) -> int:
        """Tell it to end, and return its code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(PROGRAM_S)
        self.reader.join(GIVE_UP_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        return code


def run(bootstrap_servers: str, source: str, target: str, read: Callable[[], Sequence[tuple[int, bytes]]], *,
        consumers: Sequence[str], partitions: int, seconds: float, kill_every_s: float, per_s: int, seed: int,
        session_ms: int = 6000) -> Story:
    """Send into the source for some seconds, while workers pass it on and are killed; then wait until all is there.

    Args:
        bootstrap_servers: The cluster.
        source: The topic that is passed on.
        target: The one it is passed on to.
        read: Return (partition, value) of what is committed in the target.
        consumers: What each worker consumes with: "confluent" or "kafka-python".
        partitions: How many both topics have.
        seconds: For how long.
        kill_every_s: After about so long another one is killed; another one begins with its id.
        per_s: So many records are sent into the source in a second.
        seed: Of whom is killed when.
        session_ms: After which the group takes a killed one for gone.
    """
    chance = random.Random(seed)
    told: collections.Counter[str] = collections.Counter()
    sent: list[list[bytes]] = [[] for _ in range(partitions)]
    workers = [Worker({"bootstrap": bootstrap_servers, "source": source, "target": target, "group": source,
                       "consumer": consumer, "id": f"{source}-{number}", "session_ms": session_ms}, told)
               for number, consumer in enumerate(consumers)]
    kills = 0
    try:
        with KafkaProducer({"bootstrap.servers": bootstrap_servers}) as producer:
            began = now = time.monotonic()
            next_kill = began + kill_every_s
            while now < began + seconds:
                while sum(map(len, sent)) < (now - began) * per_s:
                    partition = chance.randrange(partitions)
                    value = b"%d %d" % (partition, len(sent[partition]))
                    producer.send(source, value, partition=partition)
                    sent[partition].append(value)
                if now >= next_kill:
                    index = chance.randrange(len(workers))
                    workers[index].kill()
                    kills += 1
                    workers[index] = Worker(workers[index].job, told)
                    next_kill = now + kill_every_s * chance.uniform(0.5, 1.5)
                time.sleep(0.02)
                now = time.monotonic()
        _await(lambda: len(read()) >= sum(map(len, sent)), workers)
        codes = [worker.end() for worker in workers]
    except BaseException:
        for worker in workers:
            worker.kill()
        raise
    if any(codes):
        raise AssertionError(f"workers ended with {codes}")
    return Story(sent, kills, told)


def _await(is_there: Callable[[], bool], workers: Sequence[Worker]) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while not is_there() and time.monotonic() < deadline:
        if any(worker.process.poll() is not None for worker in workers):
            return
        time.sleep(0.5)


def check(story: Story, seen: Sequence[tuple[int, bytes]]) -> None:
    """Compare the target with the source.

    Raises:
        LogProblem: A record is missing, is there twice, or is out of order.
    """
    problems = []
    for partition, sent in enumerate(story.sent):
        found = [value for where, value in seen if where == partition]
        if found != sent:
            counts = collections.Counter(found)
            twice = [value for value, count in counts.items() if count > 1]
            missing = [value for value in sent if value not in counts]
            problems.append(f"partition {partition} has {len(found)} of {len(sent)} records, {len(twice)} of them more "
                            f"than once ({twice[:3]}), {len(missing)} missing ({missing[:3]})")
    if problems:
        raise LogProblem("; ".join(problems))
