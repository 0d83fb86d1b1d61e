"""python -m tests.simulation: runs seeds, and tells the story of those that fail.

    python -m tests.simulation --seeds 200               # seeds 0 to 199, on all processors
    python -m tests.simulation --from 5000 --seeds 1000
    python -m tests.simulation --swarm --seeds 100        # threads are switched at any line, and struck by exceptions
    python -m tests.simulation --minutes 60               # as many as there is time for
    python -m tests.simulation --with transactions --seeds 1000   # those of the 1000 that have them
    python -m tests.simulation --replay 4711              # one seed, with its story; --swarm if it was one of those
    python -m tests.simulation --powers --seeds 2000      # and of each power, how often it was drawn, and judged
    python -m tests.simulation --museum                   # each bug of the museum, until seeds find it

PYPRODUCER_IMPL says which twin is simulated. A seed is the same again in any process: names are hashed alike
(PYTHONHASHSEED=0), and what Python keeps from one seed to the next is warm before the first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from typing import Any

from tests.simulation.plan import POWER_FAULTS, Plan, draw

_MOST_FAILURES = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulates producers, by seed.")
    parser.add_argument("--seeds", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first one (default 0)")
    parser.add_argument("--minutes", type=float, help="as many as there is time for, instead of --seeds")
    parser.add_argument("--swarm", action="store_true", help="switch threads and raise exceptions at any line")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one seed, with its story")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for a smaller failing plan")
    parser.add_argument("--with", metavar="POWER", dest="power", help="of those seeds the ones that have this power")
    parser.add_argument("--powers", action="store_true", help="say of each power how often it was drawn and judged, "
                        "and fail where one was not")
    parser.add_argument("--museum", nargs="*", metavar="NAME", help="the bugs of the museum, or some of them")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        return subprocess.call([sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
                               env={**os.environ, "PYTHONHASHSEED": "0"})
    if arguments.museum is not None:
        from tests.simulation.museum.__main__ import visit

        return visit(arguments.museum, arguments.jobs)
    if arguments.replay is not None:
        return _replay(Plan(arguments.replay, swarm=arguments.swarm), not arguments.no_shrink)
    if arguments.worker is not None:
        return _work(arguments)
    return _run(arguments)


def _warm_up(*, swarm: bool) -> None:
    from tests.simulation.world import run

    for seed in range(-4, 0):
        run(Plan(seed, swarm=swarm))


def _replay(plan: Plan, shrinks: bool) -> int:
    import dataclasses

    from tests.simulation.shrink import shrink
    from tests.simulation.world import run

    _warm_up(swarm=plan.swarm)
    report = run(dataclasses.replace(plan, is_telling=True))
    if report.wrong and shrinks:
        report = shrink(report)
    print("\n".join(report.story))
    print(f"\n{report.plan}\n{dict(report.fates)}\n{dict(report.fired)}")
    print("\n".join(report.wrong) or "nothing is wrong")
    sys.stdout.flush()
    os._exit(1 if report.wrong else 0)  # threads of a failed simulation stand still for ever


def _work(arguments: argparse.Namespace) -> int:
    """One of the processes: prints a line of JSON for each of its seeds."""
    from tests.simulation.coverage import Coverage, all_moves
    from tests.simulation.shrink import shrink
    from tests.simulation.world import run

    _warm_up(swarm=arguments.swarm)
    coverage = Coverage()
    coverage.watch()
    failures = 0
    seed = arguments.first + arguments.worker
    until = None if arguments.minutes is None else time.monotonic() + arguments.minutes * 60
    last = arguments.first + arguments.seeds
    while (seed < last) if until is None else (time.monotonic() < until):
        if arguments.power is not None and arguments.power not in draw(Plan(seed, swarm=arguments.swarm)).powers:
            seed += arguments.jobs
            continue
        report = run(Plan(seed, swarm=arguments.swarm))
        line: dict[str, Any] = {
            "seed": seed, "empty": report.is_empty, "fates": report.fates, "fired": report.fired,
            "checks": report.checks, "powers": report.powers,
            "requests": report.request_count, "unanswered": report.unanswered_count,
            "trace": report.trace, "ms": report.simulated_ms,
            "pauses": report.pauses, "switches": report.switches, "s": round(report.took_s, 4)}
        if report.wrong:
            line["wrong"] = report.wrong
            failures += 1
            if not arguments.no_shrink and failures <= _MOST_FAILURES:
                smallest = shrink(report)
                line.update(plan=repr(smallest.plan), smallest=smallest.wrong, story=smallest.story)
        print(json.dumps(line), flush=True)
        seed += arguments.jobs
    print(json.dumps({"moves": coverage.reached, "all": all_moves()}), flush=True)
    os._exit(0)  # threads of a failed simulation stand still for ever


def _run(arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    jobs = max(1, min(arguments.jobs, arguments.seeds))
    command = [sys.executable, "-m", "tests.simulation", "--from", str(arguments.first), "--seeds",
               str(arguments.seeds), "--jobs", str(jobs)]
    command += ["--swarm"] * arguments.swarm + ["--no-shrink"] * arguments.no_shrink
    if arguments.power is not None:
        command += ["--with", arguments.power]
    if arguments.minutes is not None:
        command += ["--minutes", str(arguments.minutes)]
    workers = [subprocess.Popen([*command, "--worker", str(number)], stdout=subprocess.PIPE, text=True)
               for number in range(jobs)]
    total = _Total()
    try:
        _read(workers, total)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    broken = [worker.returncode for worker in workers if worker.returncode not in (0, -9)]
    total.print(time.monotonic() - began, swarm=arguments.swarm)
    idle = total.print_powers() if arguments.powers else []
    if broken:
        print(f"a process ended with {broken}")
    return 1 if total.failed or broken or idle or total.ended != jobs else 0


def _read(workers: list[subprocess.Popen[str]], total: _Total) -> None:
    import selectors

    with selectors.DefaultSelector() as selector:
        for worker in workers:
            assert worker.stdout is not None
            selector.register(worker.stdout, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    total.add(json.loads(line))
                else:
                    selector.unregister(key.fileobj)


class _Total:
    """What all processes tell."""

    def __init__(self) -> None:
        self.seeds = self.empty = self.requests = self.unanswered = self.ms = self.ended = 0
        self.seconds = 0.0
        self.fates: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        self.checks: Counter[str] = Counter()
        self.powers: Counter[str] = Counter()
        self.checks_by_power: dict[str, Counter[str]] = defaultdict(Counter)
        self.moves: Counter[str] = Counter()
        self.all_moves: list[str] = []
        self.failed: list[int] = []

    def add(self, line: dict[str, Any]) -> None:
        if "moves" in line:
            self.moves.update(line["moves"])
            self.all_moves = line["all"]
            self.ended += 1
            return
        self.seeds += 1
        self.empty += line["empty"]
        self.requests += line["requests"]
        self.unanswered += line["unanswered"]
        self.ms += line["ms"]
        self.seconds += line["s"]
        self.fates.update(line["fates"])
        self.fired.update(line["fired"])
        self.checks.update(line["checks"])
        self.powers.update({*line["powers"], *line["fired"]})
        for power in {*line["powers"], *line["fired"]} - (set(POWER_FAULTS) - set(line["fired"])):
            self.checks_by_power[power].update(line["checks"])
        if "wrong" in line:
            self.failed.append(line["seed"])
            print(f"\n=== seed {line['seed']} fails", *line["wrong"][:5], sep="\n    ", flush=True)
            if "plan" in line:
                print(f"  smallest plan: {line['plan']}", *line["smallest"][:3], sep="\n    ")
                print("  its story:", *line["story"][-60:], sep="\n    ", flush=True)

    def print(self, took_s: float, *, swarm: bool) -> None:
        from pyproducer.hotpath import IMPL

        kind = f"{IMPL} twin{', swarm' if swarm else ''}"
        print(f"\n{self.seeds} seeds on the {kind} in {took_s:.0f} s: {self.seeds / took_s:.1f} a second, "
              f"{self.ms / 3_600_000:.1f} hours of simulated time; {self.requests} requests, {self.unanswered} never "
              f"answered; {self.empty} seeds were empty ({100 * self.empty / max(1, self.seeds):.1f} %)")
        print("records:", ", ".join(f"{fate} {count}" for fate, count in self.fates.most_common()))
        print("faults:", ", ".join(f"{kind} {count}" for kind, count in sorted(self.fired.items())))
        print("judged:", ", ".join(f"{check} {count}" for check, count in sorted(self.checks.items())))
        missing = [move for move in self.all_moves if not self.moves[move]]
        print(f"moves reached: {len(self.all_moves) - len(missing)} of {len(self.all_moves)}"
              + (f"; not: {', '.join(missing)}" if missing else ""))
        print(f"FAILED: {len(self.failed)} seeds: {sorted(self.failed)[:50]}" if self.failed else "nothing is wrong")


    def print_powers(self) -> list[str]:
        """Print of each power in how many seeds it was, how often it struck, and what the checks judged in these seeds.

        Returns:
            The powers that were in none, or that no check judged.
        """
        from tests.simulation.powers import judges

        idle = []
        print(f"\n{'power':<24}{'seeds':>7}{'fired':>8}  judged by")
        for power, checks in judges().items():
            counts = {check: self.checks_by_power[power][check] for check in checks}
            is_idle = not self.powers[power] or not all(counts.values())
            idle += [power] * is_idle
            print(f"{power:<24}{self.powers[power]:>7}{self.fired[power] or '':>8}  "
                  f"{', '.join(f'{check} {count}' for check, count in counts.items())}{'  IDLE' * is_idle}")
        print(f"IDLE: {', '.join(idle)}" if idle else "every power was drawn and judged")
        return idle


if __name__ == "__main__":
    sys.exit(main())
