"""The score of the simulation: how many mutants of what it sees its seeds find, and how many seeds that takes.

Road:    mutants, a run of the seeds without any mutant -> [seeds.py, in a copy with the mutant] -> verdicts -> report
Shape:   the first seed that finds something is asked again, in another fork; without the mutant it found nothing. A
         seed that does not run a mutant's lines is as it is without the mutant, so it counts and is not run.
         The seeds without any mutant are measured once for a text of the package and the simulation, and kept in
         .cache/mutants.
Thread:  one for each copy of the tree.
Source:  ours.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.mutants.coverage_map import NotGreen, environment
from tests.mutants.generate import OF_THE_SIMULATION, PACKAGE, Mutant
from tests.mutants.run import (
    EQUIVALENT,
    HUNG,
    KILLED,
    NOT_COVERED,
    SURVIVED,
    Verdict,
    planted,
    reason_for,
    share_out,
)
from tests.mutants.seeds import WARM

CACHE = Path(".cache", "mutants")
FIRST_SEED = 0
# A seed takes a quarter of a second, and two million steps, where the simulation itself says that there is no end, a
# minute or two.
SEED_CPU_S = 150.0
STANDSTILL_S = 60.0  # without a line, and without CPU time
LEAST_CPU_S = 0.05
# As simulation/test_simulation.py has it: of seeds that were not empty without the mutant, so many may be with it.
_EMPTY_SHARE = 0.05
_MOST_EMPTY = 3
_SEEDS_OF_A_FORK = 50
PROMPT_S = 10.0  # in which a process ends that has closed its output


@dataclass
class Baseline:
    """The seeds without any mutant.

    Attributes:
        wrong: The seeds that find something without any mutant: they judge nobody.
        empty: Those in which too little happens to prove anything.
        cpu_s: What each takes.
        by_line: The seeds that run a line, by file and line.
    """

    wrong: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    cpu_s: dict[int, float] = field(default_factory=dict)
    by_line: dict[tuple[str, int], set[int | str]] = field(default_factory=dict)

    def covering(self, mutant: Mutant) -> list[int]:
        """Return the seeds that may find a mutant, in order."""
        sound = sorted(set(self.cpu_s) - self.wrong)
        if mutant.is_at_import:
            return sound
        found: set[int | str] = set()
        for line in mutant.lines:
            found |= self.by_line.get((mutant.path, line), set())
        if found == {WARM}:
            return sound  # run once, before the first seed, and its result kept
        return [seed for seed in sound if seed in found]


class Planted:
    """A process of seeds.py on a copy of the tree.

    Attributes:
        cpu_s: What it and its forks have used, when it has ended.
    """

    def __init__(self, copy: Path, *, may_write_bytecode: bool = False, folders: Sequence[str] = ()) -> None:
        watch = ["--watch", *folders] if folders else []
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.seeds", str(SEED_CPU_S), *watch], cwd=copy, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True,
            env=environment(copy) | {"PYTHONHASHSEED": "0", **({} if may_write_bytecode else
                                                               {"PYTHONDONTWRITEBYTECODE": "1"})})
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._unread = b""
        self.cpu_s = 0.0

    def __enter__(self) -> Planted:
        return self

    def __exit__(self, *_raised: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # nobody else is in its group
        self._wait(None)
        self._selector.close()
        self._errors.close()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def ask(self, seeds: Sequence[int]) -> None:
        """Have seeds run."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"seeds": list(seeds)}).encode() + b"\n")
        self._process.stdin.flush()

    def read(self) -> dict[str, Any] | None:
        """Return the next line; None when the process ended, or stands still."""
        while b"\n" not in self._unread:
            before_s = self._cpu_s()
            if not self._selector.select(STANDSTILL_S):
                if self._cpu_s() - before_s < LEAST_CPU_S:
                    return None
                continue
            assert self._process.stdout is not None
            read = os.read(self._process.stdout.fileno(), 1 << 20)
            if not read:
                return None
            self._unread += read
        line, self._unread = self._unread.split(b"\n", 1)
        said: dict[str, Any] = json.loads(line)
        return said

    def last_error(self) -> str | None:
        """Return what it said last when it ended by an error; None while it stands still, or was ended by a signal."""
        self._wait(PROMPT_S)
        if self._process.returncode is None or self._process.returncode < 0:
            return None
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return f"exit status {self._process.returncode}: {lines[-1][:160] if lines else ''}"

    def _wait(self, timeout_s: float | None) -> None:
        """Wait for its end, and note what it and its forks have used."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while self._process.returncode is None:
            pid, status, used = os.wait4(self._process.pid, 0 if until is None else os.WNOHANG)
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = used.ru_utime + used.ru_stime
            elif until is not None and time.monotonic() >= until:
                return
            else:
                time.sleep(0.05)

    def _cpu_s(self) -> float:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
            return float(sum(each.user + each.system for each in times))
        return 0.0


def judge(copy: Path, mutant: Mutant, baseline: Baseline, reasons: Mapping[tuple[str, str, str, str], str]) -> Verdict:
    """Run the seeds that may find a mutant until one does, twice."""
    source = (copy / mutant.path).read_text()
    reason = reason_for(mutant, source, reasons)
    if reason is not None:
        return Verdict(mutant, EQUIVALENT, message=reason)
    covering = baseline.covering(mutant)
    if not covering:
        return Verdict(mutant, NOT_COVERED, seeds=len(baseline.cpu_s))
    began, spent_s = time.monotonic(), 0.0
    flakes: list[str] = []

    def verdict(outcome: str, seeds: int, find: Find | None = None) -> Verdict:
        name, message = (find.name, find.message) if find is not None else ("", "")
        return Verdict(mutant, outcome, len(covering), name, message, round(time.monotonic() - began, 2),
                       round(spent_s, 2), seeds, tuple(flakes))

    left = covering
    with planted(copy, mutant.path, mutant.apply(source)):
        while left:
            find = search(copy, left, baseline.empty)
            spent_s += find.cpu_s
            if find.outcome is None:
                break
            seeds = 1 if find.seed is None else find.seed - FIRST_SEED + 1
            if find.outcome == KILLED and find.is_seen_again:
                return verdict(KILLED, seeds, find)
            if find.outcome == HUNG:
                again = search(copy, [left[0] if find.seed is None else find.seed], baseline.empty)
                spent_s += again.cpu_s
                if again.outcome is not None:
                    return verdict(HUNG, seeds, find)
            flakes.append(find.name)
            left = left[left.index(left[0] if find.seed is None else find.seed) + 1:]
    return verdict(SURVIVED, len(baseline.cpu_s))


class Find(NamedTuple):
    """What a search came to: nothing, or something wrong, or no end; at a seed, or before the first one."""

    outcome: str | None
    seed: int | None = None
    message: str = ""
    is_seen_again: bool = False
    cpu_s: float = 0.0

    @property
    def name(self) -> str:
        """Where that was."""
        return "import" if self.seed is None else f"seed {self.seed}"


def search(copy: Path, seeds: Sequence[int], empty: Collection[int] = ()) -> Find:
    """Run seeds on what lies in a copy of the tree until one finds something, and that one once more.

    Where too many are empty that are not without the mutant (`empty`), it is found, too: `make test` says so.
    """
    with Planted(copy) as process:
        find = _search(process, seeds, empty)
    return find._replace(cpu_s=process.cpu_s)


def _search(process: Planted, seeds: Sequence[int], empty: Collection[int]) -> Find:
    for _ in ("imported", WARM):
        if process.read() is None:
            error = process.last_error()
            return Find(HUNG, None, "no end") if error is None else Find(KILLED, None, error, is_seen_again=True)
    new_empty: list[int] = []
    for start in range(0, len(seeds), _SEEDS_OF_A_FORK):
        some = seeds[start:start + _SEEDS_OF_A_FORK]
        find = _run(process, some, new_empty)
        if find.outcome == KILLED and find.seed is not None:
            return find._replace(is_seen_again=_run(process, [find.seed], []).outcome == KILLED)
        if find.outcome is not None:
            return find
        new_empty = [seed for seed in new_empty if seed not in empty]
        if len(new_empty) > _MOST_EMPTY + (start + len(some)) * _EMPTY_SHARE:
            again: list[int] = []
            _run(process, new_empty, again)
            return Find(KILLED, new_empty[-1], f"{len(new_empty)} of {start + len(some)} seeds are empty that were not",
                        is_seen_again=again == new_empty)
    return Find(None)


def _run(process: Planted, seeds: Sequence[int], empty: list[int]) -> Find:
    """Run seeds in a fork until one finds something; adds those that are empty."""
    process.ask(seeds)
    left = list(seeds)
    find = Find(None)
    while True:
        said = process.read()
        if said is None:
            return Find(HUNG, left[0], "it stands still")
        if "ended" in said:
            # A signal ends what takes too much CPU time.
            return find if said["ended"] == 0 else Find(HUNG, left[0], f"it was ended with status {said['ended']}")
        if said["empty"]:
            empty.append(said["seed"])
        if said["wrong"]:
            find = Find(KILLED, said["seed"], said["wrong"][0].splitlines()[0][:200])
        else:
            left.remove(said["seed"])


def run(mutants: Sequence[Mutant], copies_: Sequence[Path], baseline: Baseline,
        reasons: Mapping[tuple[str, str, str, str], str], *, tell: Callable[[Verdict], None]) -> list[Verdict]:
    """Judge mutants by seeds, in a thread for each copy; tells each verdict as it comes, returns them in order."""
    @contextlib.contextmanager
    def judge_of(copy: Path) -> Iterator[Callable[[Mutant], Verdict]]:
        yield lambda mutant: judge(copy, mutant, baseline, reasons)

    return share_out(mutants, copies_, judge_of, tell)


# Without any mutant --------------------------------------------------------------------------------------------------

def measure(root: Path, copies_: Sequence[Path], seed_count: int) -> Baseline:
    """Return the seeds without any mutant, from the cache as far as they are there.

    Raises:
        NotGreen: The simulation cannot be run.
    """
    place = root / CACHE / f"simulation-{_hash(copies_[0])}-{FIRST_SEED}-{seed_count}.json"
    if not place.exists():
        print(f"running {seed_count} seeds without any mutant", file=sys.stderr, flush=True)
        # In turns: neither gets the long ones alone.
        shares = [range(FIRST_SEED + number, FIRST_SEED + seed_count, len(copies_)) for number in range(len(copies_))]
        with ThreadPoolExecutor(len(copies_)) as threads:
            parts = list(threads.map(_measure_some, copies_, shares))
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(".part")
        part.write_text(json.dumps(parts))
        part.replace(place)
    baseline = Baseline()
    for rows, lines in json.loads(place.read_text()):
        for row in rows:
            baseline.cpu_s[row["seed"]] = row["cpu_s"]
            if row["wrong"]:
                baseline.wrong.add(row["seed"])
            if row["empty"]:
                baseline.empty.add(row["seed"])
        for path, of_file in lines.items():
            for line, seeds in of_file.items():
                baseline.by_line.setdefault((path, int(line)), set()).update(seeds)
    return baseline


def _measure_some(copy: Path, seeds: Sequence[int]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if not seeds:
        return rows, {}
    folders = [f"{PACKAGE}/{folder.rstrip('/')}" for folder in OF_THE_SIMULATION]
    with Planted(copy, may_write_bytecode=True, folders=folders) as process:
        for _ in ("imported", WARM):
            process.read()
        process.ask(seeds)
        while (said := process.read()) is not None:
            if "lines" in said:
                return rows, said["lines"]
            rows.append(said)
        raise NotGreen(f"the simulation ended behind {len(rows)} seeds: {process.last_error()}")


def _hash(copy: Path) -> str:
    whole = hashlib.sha256(sys.version.encode())
    for folder in (copy / PACKAGE, copy / "tests" / "simulation"):
        for path in sorted(folder.rglob("*.py")):
            text = path.read_bytes()
            whole.update(f"{path.relative_to(copy)} {len(text)}".encode())
            whole.update(text)
    return whole.hexdigest()[:24]
