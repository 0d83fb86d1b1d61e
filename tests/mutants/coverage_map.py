"""Which tests run which line, and how long each takes: measured once for each test file and kept in .cache/mutants.

Road:    tests/<tier>/test_*.py -> [one measured run, without any mutant] -> line -> tests -> run
Shape:   one JSON file for each test file, named by a hash of that file, of the sources and of what all tests share; so
         an edited test file is measured alone.
Source:  ours; coverage.py's contexts, one for each test.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutants.generate import PACKAGE, Mutant

CACHE = Path(".cache", "mutants")
FORMAT = 1  # of the cache files
TIERS = ("unit", "protocol", "property", "contract", "embedded")
# What starts other programs or many processes, waits long, or reads the tree: no word about a line of ours.
LEFT_OUT = frozenset({
    "tests/protocol/test_coordinator_json.py", "tests/protocol/test_kafka_json.py",
    "tests/embedded/test_examples.py", "tests/embedded/test_group_timing.py", "tests/embedded/test_idle.py",
    "tests/embedded/test_kill.py", "tests/embedded/test_makefile.py", "tests/unit/test_readme.py",
    "tests/unit/test_mutants.py",
})
ONLY_OF_TIER = {"contract": "embedded"}  # what -k selects there
LONGEST_TEST_S = {"unit": 60.0, "protocol": 60.0, "property": 60.0, "contract": 10.0, "embedded": 5.0}  # measured
FILES_OF_A_RUN = {"unit": 60, "protocol": 4, "property": 2, "contract": 4, "embedded": 4}  # few, to keep them early
MEASURE_DEADLINE_S = 1800.0


class NotGreen(Exception):
    """Tests fail without any mutant: a killed mutant would mean nothing."""


@dataclass
class CoverageMap:
    """Tests by line, with their durations in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)
    by_line: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    by_file: dict[str, set[str]] = field(default_factory=dict)
    importers: dict[str, set[str]] = field(default_factory=dict)

    def covering(self, mutant: Mutant) -> list[str]:
        """Return the tests that may notice a mutant, nearest file first, fastest first."""
        if mutant.is_at_import:
            # Run once for each process, not once for each test: whoever uses the file or what imports it.
            found = set(self.by_file.get(mutant.path, ()))
            for importer in self._users(mutant.path):
                found |= self.by_file[importer]
            folder = own_test_file(mutant.path).rsplit("/", 1)[0]
            found |= {test for test in self.seconds if file_of(test).startswith(folder + "/")}
        else:
            found = set()
            for line in mutant.lines:
                found |= self.by_line.get((mutant.path, line), set())
        own = own_test_file(mutant.path)
        if found or mutant.is_at_import:
            found |= {test for test in self.seconds if file_of(test) == own}
        return sorted(found, key=lambda test: (distance(mutant.path, test), self.seconds[test], test))

    def _users(self, path: str) -> set[str]:
        """Return the files that import one, and run in a test; through those that only hold data or pass it on."""
        seen, found, left = {path}, set(), [path]
        while left:
            for importer in sorted(self.importers.get(left.pop(), set()) - seen):
                seen.add(importer)
                if self.by_file.get(importer):
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


def load(root: Path, copies: Sequence[Path], *, tiers: Sequence[str] = TIERS,
         left_out: Collection[str] = ()) -> CoverageMap:
    """Return the map of a tree; measures what is not in the cache, in copies of the tree, all at once.

    Args:
        root: The tree, whose cache is used.
        copies: Its copies.
        tiers: Folders of tests/.
        left_out: Test files of theirs that are not to run.

    Raises:
        NotGreen: Tests fail without any mutant. What could be measured is in the cache all the same.
    """
    shared = _hash_of_shared(root)
    cached = {file: root / CACHE / f"{_hash(shared, (root / file).read_bytes(), file.encode())}.json"
              for file in files_of_tiers(root, tiers, left_out)}
    stale = [file for file, place in cached.items() if not place.exists()]
    if stale:
        (root / CACHE).mkdir(parents=True, exist_ok=True)
        print(f"measuring which lines {len(stale)} test files run", file=sys.stderr, flush=True)
        failed = sorted(_measure_all(copies, stale, lambda file, measured: _keep(cached[file], measured)))
        if failed:
            raise NotGreen("these fail without any mutant, twice in a row:\n  " + "\n  ".join(failed))
    found = CoverageMap()
    for file, place in cached.items():
        _add(found, file, json.loads(place.read_text()))
    found.importers = _importers(root)
    return found


def _keep(place: Path, measured: dict[str, Any]) -> None:
    part = place.with_suffix(".part")
    part.write_text(json.dumps(measured))
    part.replace(place)


def _measure_all(copies: Sequence[Path], files: Sequence[str],
                 keep: Callable[[str, dict[str, Any]], None]) -> set[str]:
    """Measure files, in one thread for each copy; return the tests that fail, also when their file runs once more."""
    chunks: queue.SimpleQueue[tuple[list[str], str | None]] = queue.SimpleQueue()
    for tier, most in FILES_OF_A_RUN.items():
        of_tier = [file for file in files if file.split("/")[1] == tier]
        for begin in range(0, len(of_tier), most):
            chunks.put((of_tier[begin:begin + most], ONLY_OF_TIER.get(tier)))

    def measure(copy: Path) -> set[str]:
        failed: set[str] = set()
        with contextlib.suppress(queue.Empty):
            while True:
                chunk, only = chunks.get_nowait()
                measured = _run_measured(copy, chunk, only)
                again = [file for file in chunk if measured[file]["failed"]]
                if again:
                    measured |= _run_measured(copy, again, only)
                for file in chunk:
                    failed.update(measured[file]["failed"])
                    if not measured[file]["failed"]:
                        keep(file, measured[file])
        return failed

    with ThreadPoolExecutor(len(copies)) as threads:
        return set().union(*threads.map(measure, copies))


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


def _add(found: CoverageMap, file: str, measured: dict[str, Any]) -> None:
    tests = [f"{file}::{name}" for name in measured["tests"]]
    kept = {index for index, seconds in enumerate(measured["seconds"]) if seconds <= LONGEST_TEST_S[tier_of(file)]}
    for index in kept:
        found.seconds[tests[index]] = measured["seconds"][index]
    for path, lines in measured["lines"].items():
        for line, indices in lines.items():
            those = {tests[index] for index in indices if index in kept}
            found.by_line.setdefault((path, int(line)), set()).update(those)
            found.by_file.setdefault(path, set()).update(those)


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


def _hash_of_shared(root: Path) -> bytes:
    # What test files share: conftest.py, doubles, harnesses; of this tool only what measures.
    shared = [path for path in sorted((root / "tests").rglob("*.py"))
              if not path.name.startswith("test_") and path.parent.name != "mutants"]
    files = [*sorted((root / PACKAGE).rglob("*.py")), *shared, root / "tests" / "mutants" / "measure.py",
             root / "tests" / "mutants" / "plugin.py", root / "setup.cfg"]
    return _hash(f"{FORMAT} {sys.version}".encode(), *(path.read_bytes() for path in files)).encode()


def _hash(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in _with_lengths(parts):
        whole.update(part)
    return whole.hexdigest()[:24]


def _with_lengths(parts: Iterable[bytes]) -> Iterable[bytes]:
    for part in parts:
        yield str(len(part)).encode()
        yield part
