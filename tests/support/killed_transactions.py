"""Transactions of processes that are killed at random moments, and what a reader of committed records must see then.

Each record says which transaction it is of, which one of its records, and how many it has. A transaction is seen whole
and once, in order, or not at all:

    committed N was told    it is seen
    aborted N was told      it is not
    killed before commit N  it is not: the next process with the id aborts it
    killed after commit N   one or the other

No import of pytest.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.log_checker import LogProblem
from tests.support.transaction_worker import is_aborted, size_of

ROOT = Path(__file__).resolve().parents[2]


class Fate(NamedTuple):
    """What may be seen of a transaction: True it is, False it is not, None nobody knows."""

    is_seen: bool | None


# By what a worker said last of a transaction.
FATES = {"begin": Fate(False), "commit": Fate(None), "committed": Fate(True), "aborted": Fate(False)}


class Story(NamedTuple):
    """How a run went.

    Attributes:
        fates: By the number of each transaction.
        kills: How many processes were killed.
        in_doubt: How many were killed while a commit was on its way.
    """

    fates: dict[int, Fate]
    kills: int
    in_doubt: int


def run(bootstrap_servers: str, topic: str, transactional_id: str, *, count: int, partitions: int,
        seed: int) -> Story:
    """Run transactions in processes that are killed in a third of those which are not aborted.

    Args:
        bootstrap_servers: The cluster.
        topic: Where to.
        transactional_id: Of all processes, one after the other.
        count: How many transactions.
        partitions: How many the topic has.
        seed: Of sizes, aborts, kills and moments.
    """
    chance = random.Random(f"{seed} kills")
    fates: dict[int, Fate] = {}
    killed = in_doubt = first = 0
    while first < count:
        job = {"bootstrap": bootstrap_servers, "topic": topic, "id": transactional_id, "first": first, "last": count,
               "partitions": partitions, "seed": seed}
        last_line = ""
        dies_at = _moment(first, count, seed, chance)
        with subprocess.Popen([sys.executable, "-m", "tests.support.transaction_worker", json.dumps(job)],
                              stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:  # after the kill, what it told before
                    last_line = line.strip()
                    word, _, number = last_line.partition(" ")
                    if word in FATES:
                        fates[int(number)] = FATES[word]
                    if dies_at and last_line == dies_at:
                        # From here to the end of the commit: at once, or some moments later.
                        time.sleep(chance.choice((0, 0, 0.001, 0.002, 0.005, 0.01)))
                        process.kill()
            except BaseException:
                process.kill()
                raise
        code = process.returncode
        if code == 0:
            break
        if code != -signal.SIGKILL:
            raise AssertionError(f"the worker ended with {code} after {last_line!r}")
        killed += 1
        in_doubt += fates[max(fates)].is_seen is None
        first = max(fates) + 1
    return Story(fates, killed, in_doubt)


def _moment(first: int, count: int, seed: int, chance: random.Random) -> str:
    """The line at which the process that begins with a transaction is killed: in a third of those not aborted."""
    for number in range(first, count):
        if not is_aborted(number, seed) and chance.random() < 1 / 3:
            return f"{chance.choice(('begin', 'commit', 'commit'))} {number}"
    return ""


def check(story: Story, seen: Iterable[tuple[int, bytes]], seed: int) -> None:
    """Compare what a reader of committed records saw, in order of each partition, with what is allowed.

    Args:
        story: How the run went.
        seen: (partition, value) of each record, in the order of each partition.
        seed: Of the run.

    Raises:
        LogProblem: A transaction is there that must not be, is missing, is torn, or stands out of order.
    """
    found: dict[int, list[int]] = {}
    last: dict[int, Sequence[int]] = {}
    for partition, value in seen:
        number, index, size = map(int, value.split())
        if size != size_of(number, seed):
            raise LogProblem(f"a record of transaction {number} says that it has {size} records")
        if (number, index) <= tuple(last.get(partition, (-1, -1))):
            raise LogProblem(f"partition {partition}: record {index} of transaction {number} lies behind "
                             f"{last[partition]}")
        last[partition] = number, index
        found.setdefault(number, []).append(index)
    problems = []
    for number, fate in story.fates.items():
        indexes = sorted(found.pop(number, []))
        whole = list(range(size_of(number, seed)))
        if indexes not in ([], whole):
            problems.append(f"{number} is torn: {len(indexes)} of {len(whole)} records, {indexes[:5]} ...")
        elif fate.is_seen is not None and bool(indexes) != fate.is_seen:
            problems.append(f"{number} was {'committed' if fate.is_seen else 'not committed'}, and is "
                            f"{'not ' if fate.is_seen else ''}there")
    problems.extend(f"{number} was never begun" for number in found)
    if problems:
        raise LogProblem(f"of {len(story.fates)} transactions: {'; '.join(problems[:10])}")
