"""Runs mutants: each in a copy of the tree, the nearest tests first, until one fails, twice, and passes without it.

Road:    mutants, coverage map -> [workers] -> verdicts -> report
Thread:  one for each worker process; they take mutants from one queue.
Shape:   the tree itself is never written to: every worker has a copy in a temporary folder.
Source:  ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from tests.mutants.coverage_map import CoverageMap, distance, environment, tier_of
from tests.mutants.generate import PACKAGE, Mutant

# A kill and a hang are seen twice. Whether what hangs would be noticed nobody can say: it counts as neither.
KILLED, SURVIVED, HUNG, EQUIVALENT, NOT_COVERED = "killed", "survived", "hung", "equivalent", "not covered"
VERDICTS = (KILLED, HUNG, SURVIVED, NOT_COVERED, EQUIVALENT)
UNNOTICED = (SURVIVED, NOT_COVERED, HUNG)

# One stage is one fork: what kills most comes first, and its files are few, so that it starts at once.
NEAR, UNIT, FAR = "near", "unit", "far"
UNIT_TEST_TIMEOUT_S = 20.0
FAR_TEST_TIMEOUT_S = 40.0
TIMED_OUT = "from pytest-timeout"  # in what a test says that took too long
Ask: TypeAlias = Callable[[str, Sequence[str]], dict[str, Any]]
SLOWNESS = 8.0  # of a loaded machine, beside the measured run
START_S = 60.0


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant."""

    mutant: Mutant
    outcome: str
    covering: int = 0
    test: str = ""  # that killed it, or ran when its time was over
    message: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    seeds: int = 0  # of the simulation: how many it took to find it, or were asked
    flakes: tuple[str, ...] = ()  # what failed once, and then passed with it or failed without it


@contextlib.contextmanager
def planted(copy: Path, path: str, text: str) -> Iterator[None]:
    """Have another text in a file of a copy."""
    file = copy / path
    before, times = file.read_text(), file.stat()
    try:
        file.write_text(text)
        # Another time of change than the compiled file knows, also within one tick of the file system's clock.
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + 10_000_000_000))
        yield
    finally:
        file.write_text(before)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def reason_for(mutant: Mutant, source: str, reasons: Mapping[tuple[str, str, str, str], str]) -> str | None:
    """Return why a mutant is no bug, if it is none."""
    old, new = mutant.changed_lines(source)
    return reasons.get((mutant.path.removeprefix(PACKAGE + "/"), mutant.function, old, new))


class Worker:
    """A copy of the tree and the process that runs tests in it."""

    def __init__(self, copy: Path, *, preload: bool = True, impl: str = "python") -> None:
        self.copy = copy
        (copy / "tmp").mkdir(exist_ok=True)
        command = [sys.executable, "-m", "tests.mutants.worker", *(() if preload else ("--bare",))]
        self._process = subprocess.Popen(
            command, cwd=copy, env=environment(copy) | {"PYPRODUCER_IMPL": impl}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self._answer()

    def run(self, tests: Sequence[str], *, seconds: float, timeout_s: float, may_write_bytecode: bool = False,
            environment: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Run tests of the copy until one fails; `seconds` is what they took when they were measured."""
        assert self._process.stdin is not None
        job = {"tests": list(tests), "timeout_s": timeout_s, "deadline_s": START_S + 2 * timeout_s + SLOWNESS * seconds,
               "may_write_bytecode": may_write_bytecode, "environment": environment or {}}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._process.terminate()  # its fork ends with it: it looks who its parent is
            self._process.wait()
        self._process.stdout.close()


@contextlib.contextmanager
def copies(root: Path, count: int) -> Iterator[list[Path]]:
    """Make copies of the tree as it stands: what git would take, and the compiled twin."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, check=True,
                            stdout=subprocess.PIPE, text=True).stdout.split("\0")
    names = [name for name in listed if name and (root / name).is_file()]
    names += [path.relative_to(root).as_posix() for path in (root / PACKAGE).rglob("*.so")]
    # No symbolic links in its name: coverage and pytest must agree on it.
    with tempfile.TemporaryDirectory(prefix="pyproducer-mutants-") as folder:
        made = []
        for number in range(count):
            copy = Path(folder).resolve() / f"copy-{number}"
            for name in names:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
            (copy / "tmp").mkdir()
            made.append(copy)
        yield made


class Runner:
    """Gives each mutant its verdict."""

    def __init__(self, covering: CoverageMap, reasons: Mapping[tuple[str, str, str, str], str], *,
                 far_budget_s: float) -> None:
        self._map = covering
        self._reasons = reasons
        self._far_budget_s = far_budget_s
        self._doubter = Doubter()

    def judge(self, worker: Worker, mutant: Mutant) -> Verdict:
        """Run what covers a mutant."""
        source = (worker.copy / mutant.path).read_text()
        reason = reason_for(mutant, source, self._reasons)
        if reason is not None:
            return Verdict(mutant, EQUIVALENT, message=reason)
        covering = self._map.covering(mutant)
        if not covering:
            return Verdict(mutant, NOT_COVERED)
        stages = self._stages(mutant, covering)

        def ask_without(stage: str, tests: Sequence[str]) -> dict[str, Any]:
            with planted(worker.copy, mutant.path, source):
                # This may leave the compiled files of the modules, which saves time later.
                return self._run(worker, stage, tests, may_write_bytecode=True)

        with planted(worker.copy, mutant.path, mutant.apply(source)):
            verdict = self._doubter.judge(mutant, len(covering), stages, partial(self._run, worker), ask_without)
        if verdict.outcome == SURVIVED and not self._map.is_covered(mutant):
            return replace(verdict, outcome=NOT_COVERED)
        return verdict

    def _run(self, worker: Worker, stage: str, tests: Sequence[str], *,
             may_write_bytecode: bool = False) -> dict[str, Any]:
        return worker.run(tests, seconds=sum(self._map.seconds.get(test, 1.0) for test in tests),
                          timeout_s=FAR_TEST_TIMEOUT_S if stage == FAR else UNIT_TEST_TIMEOUT_S,
                          may_write_bytecode=may_write_bytecode)

    def _stages(self, mutant: Mutant, covering: Sequence[str]) -> list[tuple[str, list[str]]]:
        near = [test for test in covering if distance(mutant.path, test) <= 1]
        unit = [test for test in covering if tier_of(test) == "unit" and distance(mutant.path, test) > 1]
        far, left_s = [], self._far_budget_s
        for test in (test for test in covering if tier_of(test) != "unit"):
            if self._map.seconds[test] <= left_s:
                far.append(test)
                left_s -= self._map.seconds[test]
        return [(stage, tests) for stage, tests in ((NEAR, near), (UNIT, unit), (FAR, far)) if tests]


class Doubter:
    """Believes no test that failed once: it is asked again, with the mutant and without.

    Thread:  any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _sound
        self._sound: dict[tuple[str, ...], bool] = {}  # tests that failed: whether they pass without any mutant

    def judge(self, mutant: Mutant, covering: int, stages: Sequence[tuple[str, list[str]]], ask: Ask,
              ask_without: Ask) -> Verdict:
        """Ask stage by stage until a test fails, twice, that passes without the mutant.

        Args:
            mutant: What is planted.
            covering: How many tests may notice it.
            stages: Tests in order, with a name for each stage.
            ask: Runs tests of a stage with the mutant until one fails.
            ask_without: The same without.
        """
        spent = Spent()
        flakes: list[str] = []
        for stage, tests in stages:
            left = tests
            while left:
                result = spent.add(ask(stage, left))
                if result["outcome"] == "passed":
                    break
                if result["outcome"] == "empty":
                    raise RuntimeError(f"no test was found for {mutant.mutant_id} in {left[:3]}...")
                asked = those_that_failed(result, left)
                again = spent.add(ask(stage, asked))
                if again["outcome"] != "passed" and self._is_sound(asked, partial(ask_without, stage, asked)):
                    return Verdict(mutant, HUNG if has_hung(result) or has_hung(again) else KILLED, covering,
                                   result["test"], result["message"], spent.seconds, spent.cpu_s, flakes=tuple(flakes))
                # Bad luck, as of a test with threads and sockets: go on behind it.
                flakes.append(result["test"])
                left = left[left.index(asked[-1]) + 1:]
        return Verdict(mutant, SURVIVED, sum(len(tests) for _, tests in stages), "", "", spent.seconds, spent.cpu_s,
                       flakes=tuple(flakes))

    def _is_sound(self, tests: Sequence[str], run_without: Callable[[], dict[str, Any]]) -> bool:
        key = tuple(tests)
        with self._lock:
            known = self._sound.get(key)
        if known is None:
            known = run_without()["outcome"] == "passed"
            with self._lock:
                self._sound[key] = known
            if not known:
                print(f"{tests[0]} fails without any mutant: it does not count", file=sys.stderr, flush=True)
        return known


class Spent:
    """What a mutant has cost."""

    def __init__(self) -> None:
        self._seconds = self._cpu_s = 0.0

    def add(self, result: dict[str, Any]) -> dict[str, Any]:
        """Add a run, and return it."""
        self._seconds += result["seconds"]
        self._cpu_s += result["cpu_s"]
        return result

    @property
    def seconds(self) -> float:
        """Of the clock on the wall."""
        return round(self._seconds, 2)

    @property
    def cpu_s(self) -> float:
        """Of all processes."""
        return round(self._cpu_s, 2)


def has_hung(result: Mapping[str, Any]) -> bool:
    """Whether a run of tests was ended because it took too long."""
    return result["outcome"] == "hung" or TIMED_OUT in result["message"]


def those_that_failed(result: Mapping[str, Any], ran: Sequence[str]) -> list[str]:
    """Return the tests to ask again: the one that failed, or those of the file that could not be imported."""
    failed = result["test"]
    by_name = [test for test in ran if test == failed]
    # A mutant may have renamed a parameter; a process that died before its first test names none.
    by_base = [test for test in ran if failed and test.split("[", 1)[0] == failed.split("[", 1)[0]]
    of_file = [test for test in ran if failed and test.startswith(failed + "::")]
    return by_name or by_base or of_file or list(ran[:1])


def run(mutants: Sequence[Mutant], copies_: Sequence[Path], covering: CoverageMap,
        reasons: Mapping[tuple[str, str, str, str], str], *, far_budget_s: float,
        tell: Callable[[Verdict], None]) -> list[Verdict]:
    """Judge mutants by tests, with one worker for each copy; tells each verdict as it comes, returns them in order."""
    runner = Runner(covering, reasons, far_budget_s=far_budget_s)

    @contextlib.contextmanager
    def judge_of(copy: Path) -> Iterator[Callable[[Mutant], Verdict]]:
        worker = Worker(copy)
        try:
            yield lambda mutant: runner.judge(worker, mutant)
        finally:
            worker.close()

    return share_out(mutants, copies_, judge_of, tell)


def share_out(mutants: Sequence[Mutant], copies_: Sequence[Path],
              judge_of: Callable[[Path], contextlib.AbstractContextManager[Callable[[Mutant], Verdict]]],
              tell: Callable[[Verdict], None]) -> list[Verdict]:
    """Judge mutants in a thread for each copy; tells each verdict as it comes, returns them in order."""
    left: queue.SimpleQueue[tuple[int, Mutant]] = queue.SimpleQueue()
    for index, mutant in enumerate(mutants):
        left.put((index, mutant))
    verdicts: dict[int, Verdict] = {}
    failures: list[BaseException] = []
    lock = threading.Lock()  # guards verdicts, failures and tell()

    def work(copy: Path) -> None:
        try:
            with judge_of(copy) as judge, contextlib.suppress(queue.Empty):
                while not failures:
                    index, mutant = left.get_nowait()
                    verdict = judge(mutant)
                    with lock:
                        verdicts[index] = verdict
                        tell(verdict)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(copy,), daemon=True) for copy in copies_]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [verdicts[index] for index in sorted(verdicts)]
