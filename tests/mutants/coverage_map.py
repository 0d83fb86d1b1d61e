"""Which tests run which line, and how long each takes: measured once for each test file and kept in .cache/mutants.

Road:    tests/<tier>/test_*.py -> [one measured run, without any mutant] -> line -> tests -> run, tests/near
Shape:   an approximation, so that an edit costs seconds and not a measurement of everything (measured.py). A test file
         is measured again when it changed, or what it imports of tests/; where the package changed, lines are followed
         from the text that was measured into today's. So the map may not know that a test runs a line since an edit
         elsewhere in the package, and it knows new lines by their neighbours. Nobody is left out for that: a line that
         nobody is known to run is tried with its own test file and its folder; a test file is measured again when more
         than a tenth of the lines that it ran are others now; and `--measure` does so for each that ran a changed one.
         Not measured is what runs in other processes: the seeds of the simulation, brokers of their own.
Source:  ours; coverage.py's contexts, one for each test.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants.generate import PACKAGE, Mutant
from tests.mutants.measured import Measured, numbers

TIERS = ("unit", "protocol", "property", "contract", "embedded", "simulation")
# What starts other programs or many processes, waits long, or reads the tree: no word about a line of ours.
LEFT_OUT = frozenset({
    "tests/protocol/test_coordinator_json.py", "tests/protocol/test_kafka_json.py",
    "tests/embedded/test_examples.py", "tests/embedded/test_group_timing.py", "tests/embedded/test_idle.py",
    "tests/embedded/test_kill.py", "tests/embedded/test_makefile.py", "tests/simulation/test_simulation.py",
    "tests/unit/test_contributing.py", "tests/unit/test_mutants.py", "tests/unit/test_near.py",
    "tests/unit/test_readme.py", "tests/unit/test_type_checkers.py",
})
ONLY_OF_TIER = {"contract": "embedded"}  # what -k selects there
LONGEST_TEST_S = {"unit": 60.0, "protocol": 60.0, "property": 60.0, "contract": 10.0, "embedded": 5.0,
                  "simulation": 5.0}  # measured
# Few, to keep them early.
FILES_OF_A_RUN = {"unit": 40, "protocol": 4, "property": 2, "contract": 4, "embedded": 4, "simulation": 4}
MEASURE_DEADLINE_S = 1800.0
MOST_GONE = 0.1  # of the lines that a test file ran


class NotGreen(Exception):
    """Tests fail without any mutant: a killed mutant would mean nothing."""


class Ran(NamedTuple):
    """What the tests of a file ran of one source file."""

    tests: Sequence[str]  # ids, of all tests of the file
    rows: Sequence[Sequence[str]]  # (lines, places in `tests`), both as ranges
    text: str = ""  # hash of the source file as it was measured; empty: as it is


@dataclass
class CoverageMap:
    """Tests by line, with their durations in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)
    ran: dict[str, list[Ran]] = field(default_factory=dict)  # by source file
    importers: dict[str, set[str]] = field(default_factory=dict)
    measured: Measured | None = None  # knows the texts that were measured

    def covering(self, mutant: Mutant) -> list[str]:
        """Return the tests that may notice a mutant, nearest file first, fastest first."""
        own = own_test_file(mutant.path)
        folder = own.rsplit("/", 1)[0] + "/"
        if mutant.is_at_import:
            # Run once for each process, not once for each test: whoever uses the file or what imports it.
            found = self.tests_of_file(mutant.path)
            for importer in self.users(mutant.path):
                found |= self.tests_of_file(importer)
        else:
            found = self.tests_of(mutant.path, mutant.lines)
        if mutant.is_at_import or not found:
            found |= {test for test in self.seconds if file_of(test).startswith(folder)}
        found |= {test for test in self.seconds if file_of(test) == own}
        return self.nearest_first(mutant.path, found)

    def is_covered(self, mutant: Mutant) -> bool:
        """Whether some test is known to run a mutant's lines."""
        return bool(self.tests_of_file(mutant.path) if mutant.is_at_import
                    else self.tests_of(mutant.path, mutant.lines))

    def nearest_first(self, path: str, tests: Iterable[str]) -> list[str]:
        """Return tests in the order in which they are to run for a source file."""
        return sorted(tests, key=lambda test: (distance(path, test), self.seconds[test], test))

    def tests_of(self, path: str, lines: Collection[int]) -> set[str]:
        """Return the tests that run some of a file's lines."""
        found: set[str] = set()
        then: dict[str, Collection[int]] = {}
        for ran in self.ran.get(path, ()):
            if ran.text not in then:
                then[ran.text] = self._lines_then(path, ran.text, lines)
            for those, tests in ran.rows:
                if not numbers(those).isdisjoint(then[ran.text]):
                    found.update(ran.tests[place] for place in numbers(tests))
        return found & self.seconds.keys()

    def tests_of_file(self, path: str) -> set[str]:
        """Return the tests that run anything in a file."""
        found = {ran.tests[place] for ran in self.ran.get(path, ())
                 for _, tests in ran.rows for place in numbers(tests)}
        return found & self.seconds.keys()

    def _lines_then(self, path: str, text: str, lines: Collection[int]) -> Collection[int]:
        if not text or self.measured is None or self.measured.is_as_measured(path, text):
            return lines
        drift = self.measured.drift(path, text)
        return () if drift is None else drift.lines_then(lines)

    def users(self, path: str) -> set[str]:
        """Return the files that import one, and run in a test; through those that only hold data or pass it on."""
        seen, found, left = {path}, set(), [path]
        while left:
            for importer in sorted(self.importers.get(left.pop(), set()) - seen):
                seen.add(importer)
                if self.ran.get(importer):
                    found.add(importer)
                else:
                    left.append(importer)
        return found


def file_of(test: str) -> str:
    """Return the file of a test's id."""
    return test.split("::", 1)[0]


def tier_of(test: str) -> str:
    """Return the folder of tests/ that a test lies in."""
    return test.split("/")[1]


def own_test_file(path: str) -> str:
    """Return the unit test file that mirrors a source file: a/b.py -> tests/unit/a/test_b.py."""
    parts = Path(path).relative_to(PACKAGE)
    return Path("tests", "unit", parts.parent, f"test_{parts.stem.lstrip('_')}.py").as_posix()


def distance(path: str, test: str) -> int:
    """Return how far a test is from a source file: 0 its own file, 1 its folder, 2 its package, 3 unit, 4.. tiers."""
    tier = tier_of(test)
    if tier != "unit":
        return 3 + TIERS.index(tier)
    file = file_of(test)
    own = own_test_file(path)
    if file == own:
        return 0
    folder = own.rsplit("/", 1)[0]
    if file.startswith(folder + "/"):
        return 1
    return 2 if file.startswith("/".join(own.split("/")[:3]) + "/") else 3


# Measuring -----------------------------------------------------------------------------------------------------------

def files_of_tiers(root: Path, tiers: Sequence[str], left_out: Collection[str] = ()) -> list[str]:
    """Return the test files that are measured."""
    files = [path.relative_to(root).as_posix() for tier in tiers for path in (root / "tests" / tier).rglob("test_*.py")]
    return sorted(file for file in files if file not in LEFT_OUT and file not in left_out)


def load(root: Path, copies: Sequence[Path], *, tiers: Sequence[str] = TIERS, left_out: Collection[str] = (),
         anew: bool = False) -> CoverageMap:
    """Return the map of a tree; measures the test files that need it, in copies of the tree, all at once.

    Args:
        root: The tree, whose cache is used.
        copies: Its copies; without any nothing is measured, and the map is what is known.
        tiers: Folders of tests/.
        left_out: Test files of theirs that are not to run.
        anew: Also measure the test files that ran a line which is another one now.

    Raises:
        NotGreen: Tests fail without any mutant. What could be measured is in the cache all the same.
    """
    known = Measured(root, copies[0] if copies else None)
    files = files_of_tiers(root, tiers, left_out)
    if copies:
        stale = stale_files(known, files, anew=anew)
        if stale:
            failed = sorted(measure(known, copies, stale))
            if failed:
                raise NotGreen("these fail without any mutant, twice in a row:\n  " + "\n  ".join(failed))
    found = CoverageMap(importers=_importers(root), measured=known)
    for file in files:
        record = known.record(file)
        if record is not None:
            _add(found, file, record)
    return found


def stale_files(known: Measured, files: Iterable[str], *, anew: bool = False) -> list[str]:
    """Return the test files that are to be measured: new, changed, failed, or too far from what they ran."""
    stale = []
    for file in files:
        record = known.record(file)
        if record is None or record["failed"] or not known.is_valid(file, record) or (
                known.share_gone(record) > (0.0 if anew else MOST_GONE)):
            stale.append(file)
    return stale


def measure(known: Measured, copies: Sequence[Path], files: Sequence[str]) -> set[str]:
    """Measure test files and keep it, in one thread for each copy; return the tests that fail, twice in a row."""
    print(f"measuring which lines {len(files)} test files run", file=sys.stderr, flush=True)
    chunks: queue.SimpleQueue[tuple[list[str], str | None]] = queue.SimpleQueue()
    for tier, most in FILES_OF_A_RUN.items():
        of_tier = [file for file in files if tier_of(file) == tier]
        for begin in range(0, len(of_tier), most):
            chunks.put((of_tier[begin:begin + most], ONLY_OF_TIER.get(tier)))
    left = len(files)
    lock = threading.Lock()  # guards left

    def measure_some(copy: Path) -> set[str]:
        nonlocal left
        failed: set[str] = set()
        as_copied = Measured(copy)
        with contextlib.suppress(queue.Empty):
            while True:
                chunk, only = chunks.get_nowait()
                found = _run_measured(copy, chunk, only)
                again = [file for file in chunk if found[file]["failed"]]
                if again:
                    found |= _run_measured(copy, again, only)
                for file in chunk:
                    failed.update(found[file]["failed"])
                    known.keep(file, found[file], as_copied)
                with lock:
                    left -= len(chunk)
                    print(f"  {left} left", file=sys.stderr, flush=True)
        return failed

    with ThreadPoolExecutor(len(copies)) as threads:
        failed = set().union(*threads.map(measure_some, copies))
    known.forget_texts()
    return failed


def _run_measured(copy: Path, files: Sequence[str], only: str | None) -> dict[str, Any]:
    job = copy / "measure.json"
    result = copy / "measured.json"
    result.unlink(missing_ok=True)
    job.write_text(json.dumps({"files": list(files), "only": only, "result": str(result)}))
    ended = subprocess.run([sys.executable, "-m", "tests.mutants.measure", str(job)], cwd=copy,
                           env=environment(copy), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=MEASURE_DEADLINE_S, check=False)
    if not result.exists():
        raise NotGreen(f"the tests could not be run without any mutant:\n{ended.stdout[-4000:]}")
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def environment(copy: Path) -> dict[str, str]:
    """Return what a process needs that runs tests of a copy: its sources, the Python text, places of its own."""
    kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    return {**kept, "PYTHONPATH": str(copy), "PYPRODUCER_IMPL": "python", "COVERAGE_CORE": "ctrace",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "tmp" / "hypothesis"), "TMPDIR": str(copy / "tmp"),
            "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _add(found: CoverageMap, file: str, record: dict[str, Any]) -> None:
    tests = [f"{file}::{name}" for name in record["tests"]]
    longest = LONGEST_TEST_S[tier_of(file)]
    found.seconds.update((test, seconds) for test, seconds in zip(tests, record["seconds"], strict=True)
                         if seconds <= longest)
    for path, rows in record["lines"].items():
        found.ran.setdefault(path, []).append(Ran(tests, rows["ran"], rows["text"]))


def _importers(root: Path) -> dict[str, set[str]]:
    """Return, for each source file, the files that import it."""
    found: dict[str, set[str]] = {}
    for path in (root / PACKAGE).rglob("*.py"):
        name = path.relative_to(root).as_posix()
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) > 1 and words[0] == "from" and words[1].startswith(PACKAGE):
                imported = words[1].replace(".", "/")
                found.setdefault(f"{imported}.py", set()).add(name)
                found.setdefault(f"{imported}/__init__.py", set()).add(name)
    return found
