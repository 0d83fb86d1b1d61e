"""Runs mutants: each in a copy of the tree, the nearest tests first, until one fails.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutants.coverage_map import CoverageMap, NotGreen, distance, environment, tier_of
from tests.mutants.generate import PACKAGE, Mutant

KILLED, SURVIVED, HUNG, EQUIVALENT, NOT_COVERED = "killed", "survived", "timeout", "equivalent", "not covered"
VERDICTS = (KILLED, HUNG, SURVIVED, NOT_COVERED, EQUIVALENT)
UNNOTICED = (SURVIVED, NOT_COVERED)

# One stage is one fork: what kills most comes first, and its files are few, so that it starts at once.
NEAR, UNIT, FAR = "near", "unit", "far"
UNIT_TEST_TIMEOUT_S = 20.0
FAR_TEST_TIMEOUT_S = 40.0
TIMED_OUT = "from pytest-timeout"  # in what a test says that took too long
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


class Worker:
    """A copy of the tree and the process that runs tests in it."""

    def __init__(self, copy: Path, *, preload: bool = True) -> None:
        self.copy = copy
        (copy / "tmp").mkdir(exist_ok=True)
        command = [sys.executable, "-m", "tests.mutants.worker", *(() if preload else ("--bare",))]
        self._process = subprocess.Popen(command, cwd=copy, env=environment(copy), stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        self._answer()

    def run(self, tests: Sequence[str], *, seconds: float, timeout_s: float, is_first: bool = False) -> dict[str, Any]:
        """Run tests of the copy until one fails; `seconds` is what they took when they were measured."""
        assert self._process.stdin is not None
        job = {"tests": list(tests), "timeout_s": timeout_s, "deadline_s": START_S + 2 * timeout_s + SLOWNESS * seconds,
               "may_write_bytecode": is_first}
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

    @contextlib.contextmanager
    def planted(self, path: str, text: str) -> Iterator[None]:
        """Have another text in a file of the copy."""
        file = self.copy / path
        before, times = file.read_text(), file.stat()
        try:
            file.write_text(text)
            # Another time of change than the compiled file knows, also within one tick of the file system's clock.
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + 10_000_000_000))
            yield
        finally:
            file.write_text(before)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

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
        self._lock = threading.Lock()  # guards _sound
        self._sound: dict[str, bool] = {}  # tests beyond unit: whether they pass alone without any mutant

    def judge(self, worker: Worker, mutant: Mutant) -> Verdict:
        """Run what covers a mutant."""
        source = (worker.copy / mutant.path).read_text()
        old, new = mutant.changed_lines(source)
        reason = self._reasons.get((mutant.path.removeprefix(PACKAGE + "/"), mutant.function, old, new))
        if reason is not None:
            return Verdict(mutant, EQUIVALENT, message=reason)
        covering = self._map.covering(mutant)
        if not covering:
            return Verdict(mutant, NOT_COVERED)
        seconds = 0.0
        stages = self._stages(mutant, covering)
        with worker.planted(mutant.path, mutant.apply(source)):
            for stage, tests in stages:
                left = tests
                while left:
                    result = self._run(worker, stage, left)
                    seconds += result["seconds"]
                    if result["outcome"] == "passed":
                        break
                    if result["outcome"] == "empty":
                        raise RuntimeError(f"no test was found for {mutant.mutant_id} in {left[:3]}...")
                    if stage != FAR or self._fails_again(worker, mutant, source, result["test"]):
                        hung = result["outcome"] == "hung" or TIMED_OUT in result["message"]
                        return Verdict(mutant, HUNG if hung else KILLED, len(covering), result["test"],
                                       result["message"], round(seconds, 2))
                    # Bad luck, of a test with threads and sockets: go on behind it.
                    left = left[left.index(result["test"]) + 1:]
        outcome = SURVIVED if self._map.is_covered(mutant) else NOT_COVERED
        return Verdict(mutant, outcome, sum(len(tests) for _, tests in stages), seconds=round(seconds, 2))

    def _run(self, worker: Worker, stage: str, tests: Sequence[str]) -> dict[str, Any]:
        return worker.run(tests, seconds=sum(self._map.seconds.get(test, 1.0) for test in tests),
                          timeout_s=FAR_TEST_TIMEOUT_S if stage == FAR else UNIT_TEST_TIMEOUT_S)

    def _stages(self, mutant: Mutant, covering: Sequence[str]) -> list[tuple[str, list[str]]]:
        near = [test for test in covering if distance(mutant.path, test) <= 1]
        unit = [test for test in covering if tier_of(test) == "unit" and distance(mutant.path, test) > 1]
        far, left_s = [], self._far_budget_s
        for test in (test for test in covering if tier_of(test) != "unit"):
            if self._map.seconds[test] <= left_s:
                far.append(test)
                left_s -= self._map.seconds[test]
        return [(stage, tests) for stage, tests in ((NEAR, near), (UNIT, unit), (FAR, far)) if tests]

    def _fails_again(self, worker: Worker, mutant: Mutant, source: str, test: str) -> bool:
        """Whether a test beyond unit fails because of the mutant: once more with it, and not without it."""
        if "::" not in test or test not in self._map.seconds:
            return True  # a file that cannot be imported any more
        if self._run(worker, FAR, [test])["outcome"] == "passed":
            return False
        with self._lock:
            known = self._sound.get(test)
        if known is None:
            with worker.planted(mutant.path, source):
                known = self._run(worker, FAR, [test])["outcome"] == "passed"
            with self._lock:
                self._sound[test] = known
            if not known:
                print(f"{test} fails without any mutant: it does not count", file=sys.stderr, flush=True)
        return known


def run(mutants: Sequence[Mutant], copies_: Sequence[Path], covering: CoverageMap,
        reasons: Mapping[tuple[str, str, str, str], str], *, far_budget_s: float,
        tell: Callable[[Verdict], None]) -> list[Verdict]:
    """Judge mutants, with one worker for each copy; tells each verdict as it comes, returns them in order.

    Raises:
        NotGreen: The unit tests fail without any mutant.
    """
    left: queue.SimpleQueue[tuple[int, Mutant]] = queue.SimpleQueue()
    for index, mutant in enumerate(mutants):
        left.put((index, mutant))
    runner = Runner(covering, reasons, far_budget_s=far_budget_s)
    verdicts: dict[int, Verdict] = {}
    failures: list[BaseException] = []
    lock = threading.Lock()  # guards verdicts, failures and tell()
    unit = sorted(test for test in covering.seconds if tier_of(test) == "unit")

    def work(number: int, copy: Path) -> None:
        try:
            worker = Worker(copy)
            try:
                # Each copy runs a share; that also writes the compiled files of the modules, which saves time later.
                share = unit[number::len(copies_)]
                result = worker.run(share, seconds=sum(covering.seconds[test] for test in share),
                                    timeout_s=UNIT_TEST_TIMEOUT_S, is_first=True)
                if share and result["outcome"] != "passed":
                    raise NotGreen(f"{result['test']} {result['outcome']} without any mutant: {result['message']}")
                while not failures:
                    index, mutant = left.get_nowait()
                    verdict = runner.judge(worker, mutant)
                    with lock:
                        verdicts[index] = verdict
                        tell(verdict)
            except queue.Empty:
                pass
            finally:
                worker.close()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=numbered, daemon=True) for numbered in enumerate(copies_)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [verdicts[index] for index in sorted(verdicts)]
