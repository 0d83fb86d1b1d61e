"""Whether this working tree is slower than a commit: base, candidate, base again, on one machine and one broker.

`python -m benchmarks.gate BASE [--cells plain header ...] [--rounds 5] [--keep]`

BASE is a commit. It is checked out into a folder of its own and its compiled twin is built there; what runs on both is
the benchmarks of this working tree. A round runs base, candidate and base again, one after the other, so that a drift
of the machine shows: the two runs of the base differ. Per cell and figure the candidate is compared with the mean of
the two, and the verdict is

    REGRESSION    worse than the mean by more than the figure's tolerance, in the median of the rounds, and worse than
                  both runs of the base in three rounds of four
    INCONCLUSIVE  worse by the tolerance, but not so often; or the base differed from itself by more than that in the
                  median; or too few rounds counted: one does while all other processes take less than a tenth of the
                  machine
    PASS          else; also where the candidate is better than both runs of the base in three rounds of four

CPU and memory are judged in every round, rate and waits in those that count. The exit status is 0 for PASS, 3 for
REGRESSION and 4 for INCONCLUSIVE; any other says that it did not run to its end. Needs Java, Maven and a C compiler.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.rounds import ROOT, real_broker, run_client, run_latency
from benchmarks.tables import keep, machine
from benchmarks.workload import Workload
from tests.support.kafka_server import KafkaServer

CLIENT = "pyproducer"
WARM_UP_S = 2.0
MOST_BY_OTHERS = 0.1  # of all processors
BYTES_PER_RUN = 150_000_000  # of values
PASS, REGRESSION, INCONCLUSIVE = "PASS", "REGRESSION", "INCONCLUSIVE"
EXIT_STATUS = {PASS: 0, REGRESSION: 3, INCONCLUSIVE: 4}


class Figure(NamedTuple):
    """What is compared.

    Attributes:
        name: For the table.
        form: How it is printed.
        of: Reads it from a measurement.
        is_better_high: Whether more is better.
        tolerance: How much worse is still the same.
        needs_quiet: Whether others' work falsifies it.
    """

    name: str
    form: str
    of: Callable[[Any], float]
    is_better_high: bool
    tolerance: float
    needs_quiet: bool


RATES = (
    Figure("records/s", "{:,.0f}", lambda one: one.rate, True, 0.05, True),
    Figure("CPU us/record", "{:.3f}", lambda one: one.cpu_us, False, 0.05, False),
    Figure("peak MiB", "{:.0f}", lambda one: one.peak_memory_mib, False, 0.1, False),
)
WAITS = (
    Figure("p50 us", "{:,.0f}", lambda one: one.p50_us, False, 0.05, True),
    Figure("p99 us", "{:,.0f}", lambda one: one.p99_us, False, 0.2, True),
)


class Cell(NamedTuple):
    """One workload, and the figures that are compared for it."""

    workload: Workload
    partitions: int = 3
    figures: tuple[Figure, ...] = RATES


def _sized(size_bytes: int, **changes: Any) -> Workload:
    workload = Workload(record_count=BYTES_PER_RUN // size_bytes, value_size_bytes=size_bytes, warm_up_s=WARM_UP_S)
    return dataclasses.replace(workload, **changes)


CELLS: Mapping[str, Cell] = {
    "plain": Cell(_sized(100)),
    "header": Cell(_sized(100, has_header=True)),
    "50-partitions": Cell(_sized(100), 50),
    "own-defaults": Cell(_sized(100, out_of_the_box=True)),
    "10KiB": Cell(_sized(10 * 1024)),
    "lz4": Cell(_sized(1024, compression="lz4")),
    "synchronous": Cell(_sized(100, record_count=5000, linger_ms=0), 3, WAITS),
}


class Round(NamedTuple):
    """What was measured one after the other, and how much of the machine others took meanwhile (0 to 1)."""

    base: Any
    candidate: Any
    base_again: Any
    by_others: float


class Judgement(NamedTuple):
    """A figure of a cell: medians, candidate / base, how far the base was from itself (1 or more), and the verdict."""

    base: float
    candidate: float
    ratio: float
    drift: float
    counted: int
    verdict: str


def judge(figure: Figure, rounds: Sequence[Round]) -> Judgement:
    """Compare one figure over the rounds of a cell."""
    counted = [one for one in rounds if not figure.needs_quiet or one.by_others < MOST_BY_OTHERS]
    used = counted or list(rounds)
    sides = [(figure.of(one.base), figure.of(one.candidate), figure.of(one.base_again)) for one in used]
    means = [(base + again) / 2 for base, _, again in sides]
    ratio = statistics.median(own / mean for (_, own, _), mean in zip(sides, means, strict=True))
    drift = statistics.median(max(base, again) / min(base, again) for base, _, again in sides)
    loss = 1 / ratio - 1 if figure.is_better_high else ratio - 1
    above = sum(own > max(base, again) for base, own, again in sides)
    below = sum(own < min(base, again) for base, own, again in sides)
    worse, better = (below, above) if figure.is_better_high else (above, below)
    if len(counted) <= len(rounds) // 2:
        verdict = INCONCLUSIVE
    elif loss > figure.tolerance:
        verdict = REGRESSION if 4 * worse >= 3 * len(used) else INCONCLUSIVE
    elif drift - 1 > figure.tolerance and 4 * better < 3 * len(used):
        verdict = INCONCLUSIVE
    else:
        verdict = PASS
    return Judgement(statistics.median(means), statistics.median(own for _, own, _ in sides), ratio, drift,
                     len(counted), verdict)


def overall(verdicts: Sequence[str]) -> str:
    """Return the worst: a regression first, then what could not be told."""
    return next((worst for worst in (REGRESSION, INCONCLUSIVE) if worst in verdicts), PASS)


@contextmanager
def checkout(base: str) -> Iterator[Path]:
    """Yield a folder with that commit, its compiled twin built, and this working tree's benchmarks."""
    with tempfile.TemporaryDirectory(prefix="gate-base-") as folder:
        root = Path(folder) / "base"
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(root)], check=True)
        subprocess.run(["git", "checkout", "--quiet", "--detach", _commit(base)], check=True, cwd=root)
        for what, where in ((base, root), ("this working tree", ROOT)):
            print(f"building {what}", flush=True)
            _build(where)
        for name in ("benchmarks", "tests"):
            shutil.rmtree(root / name)
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
        yield root


def _build(root: Path) -> None:
    """Build the compiled twin where it lies, as far as it is older than its sources."""
    done = subprocess.run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], check=False, cwd=root,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "PYPRODUCER_IMPL": "native"})
    if done.returncode:
        raise SystemExit(f"gate: the compiled twin of {root} could not be built:\n{done.stdout}")


def _commit(base: str) -> str:
    done = subprocess.run(["git", "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(f"gate: {base!r} is no commit here: name one of `git log`")
    return done.stdout.strip()


class Bystanders:
    """Tells which share of the machine other processes took, since it was asked last."""

    def __init__(self, server: KafkaServer) -> None:
        self._broker = psutil.Process(server.pid)
        self._last = self._now()

    def take(self) -> float:
        """Return the share of all processors that was busy, or stolen, and is neither the broker's nor a client's."""
        last, self._last = self._last, self._now()
        busy, idle, own = (now - before for now, before in zip(self._last, last, strict=True))
        return max(0.0, (busy - own) / (busy + idle)) if busy + idle > 0 else 0.0

    def _now(self) -> tuple[float, float, float]:
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        # A guest's time is in user's.
        busy = sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))
        own = sum(usage.ru_utime + usage.ru_stime for usage in (
            resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)))
        broker = self._broker.cpu_times()
        return busy, idle, own + broker.user + broker.system


def measure(cell: Cell, server: KafkaServer, base: Path, round_count: int) -> list[Round]:
    """Run a cell; one round more warms the broker, and is not counted."""
    def run(root: Path) -> Any:
        if cell.figures is WAITS:
            return run_latency(CLIENT, server, cell.partitions, cell.workload, busy=False, root=root)
        return run_client(CLIENT, server, cell.partitions, cell.workload, root)

    rounds: list[Round] = []
    bystanders = Bystanders(server)
    for number in range(round_count + 1):
        bystanders.take()
        one = Round(run(base), run(ROOT), run(base), bystanders.take())
        shown = "   ".join(f"{figure.name} " + " ".join(
            figure.form.format(figure.of(side)) for side in (one.base, one.candidate, one.base_again))
            for figure in cell.figures)
        print(f"  {f'round {number}' if number else 'warm-up':<8} {shown}   others {one.by_others:.0%}", flush=True)
        if number:
            rounds.append(one)
    return rounds


def main() -> None:
    """Run the gate."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate")
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--cells", nargs="+", choices=tuple(CELLS), default=tuple(CELLS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="also write the table to benchmarks/results")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: one or more")
    title = (f"base {arguments.base} ({_commit(arguments.base)[:10]}), candidate this working tree, base again; "
             f"{arguments.rounds} rounds; Apache Kafka on the same machine; {machine()}")
    lines = [title, "", f"{'':<32}{'base':>12}{'candidate':>12}{'ratio':>8}{'drift':>8}{'rounds':>8}  verdict"]
    verdicts: list[str] = []
    with checkout(arguments.base) as base, real_broker() as server:
        for name in arguments.cells:
            cell = CELLS[name]
            print(f"{name}: {cell.workload.record_count:,} records", flush=True)
            rounds = measure(cell, server, base, arguments.rounds)
            for figure in cell.figures:
                found = judge(figure, rounds)
                verdicts.append(found.verdict)
                lines.append(f"{f'{name}, {figure.name}':<32}{figure.form.format(found.base):>12}"
                             f"{figure.form.format(found.candidate):>12}{found.ratio:>8.3f}{found.drift:>8.3f}"
                             f"{found.counted:>8}  {found.verdict}")
    verdict = overall(verdicts)
    text = "\n".join([*lines, "", verdict])
    print("\n" + text)
    if arguments.keep:
        keep("gate", "gate", text)
    raise SystemExit(EXIT_STATUS[verdict])


if __name__ == "__main__":
    main()
