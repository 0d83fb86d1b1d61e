"""Which tests an edit asks for, in which order.

Road:    changes, coverage map -> [choose] -> run
Shape:   an entry is what pytest takes: a test's id, or a file. Changed tests come first, the
         rest of their files last. Between them are the covering ones: each changed function in turn gives its next one,
         its nearest and fastest first, so that none waits for another's; then those of changed aids of tests, and of
         files that are no source.
         Where the map knows nothing, or there is none, the files that mirror the source stand for it.
Source:  ours.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from tests.mutants.coverage_map import LEFT_OUT, CoverageMap, distance, file_of, own_test_file, tier_of
from tests.mutants.generate import PACKAGE
from tests.mutants.measured import Measured
from tests.near.changes import Change, Place, compiled_names, places

HOTPATH = f"{PACKAGE}/hotpath/"
SLOW_S = 1.0  # a test that takes longer waits for the others


@dataclass
class Choice:
    """What to run."""

    changed: list[str] = field(default_factory=list)  # tests that changed themselves
    covering: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # that would cover it, too
    rest: list[str] = field(default_factory=list)  # files of changed tests, whole
    slow: list[str] = field(default_factory=list)  # changed files of tests that may take long, and do not run
    unread: list[str] = field(default_factory=list)  # other files that no file of tests is known to import or read
    said: list[str] = field(default_factory=list)  # what whoever edits should know of the package
    broken: list[str] = field(default_factory=list)  # files that do not parse
    text_changed: bool = False  # of the twin: its Python text
    compiled_changed: bool = False  # its compiled half

    @property
    def entries(self) -> list[str]:
        """All that is to run, in order."""
        return list(dict.fromkeys([*self.changed, *self.covering, *self.rest]))


class Chooser:
    """Knows the tree and its map."""

    def __init__(self, root: Path, covering: CoverageMap, tiers: Sequence[str]) -> None:
        self._root = root
        self._map = covering
        self._tiers = tiers
        self._imports = covering.measured or Measured(root)
        self._files = sorted(path.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py"))

    def choose(self, changes: Iterable[Change], *, seconds: float, count: int) -> Choice:
        """Return what to run, so much of it as takes these seconds by the map."""
        choice = Choice()
        wanted: list[list[str]] = []
        further: list[list[str]] = []
        for change in changes:
            path = change.path
            try:
                if path in self._files:
                    self._take_changed_tests(change, choice)
                elif path.startswith("tests/") and path.endswith(".py"):
                    further.append(self._users_of_harness(path, choice))
                elif path.startswith(f"{PACKAGE}/") and path.endswith((".py", ".pyx", ".pxd")):
                    wanted += self._of_source(change, choice)
                elif not change.is_gone:
                    further.append(self._mentioning(path, choice))
            except SyntaxError as error:
                choice.broken.append(f"{path}:{error.lineno}: {error.msg}")
        merged = [*_in_turn(wanted), *_in_turn(further)]
        left_s = max(seconds / 2, seconds - sum(map(self._seconds, choice.changed)))
        # A file without a measured test costs what it costs: whoever runs it looks at the clock, too.
        for entry in dict.fromkeys(merged):
            if len(choice.covering) < count and (self._seconds(entry) <= left_s or not choice.entries):
                choice.covering.append(entry)
                left_s -= self._seconds(entry)
            else:
                choice.left_out.append(entry)
        return choice

    # Changed source --------------------------------------------------------------------------------------------------

    def _of_source(self, change: Change, choice: Choice) -> Iterator[list[str]]:
        path = change.path
        if path.startswith(HOTPATH):
            choice.text_changed |= path.endswith(".py")
            choice.compiled_changed |= not path.endswith(".py")
        if change.is_gone:
            yield self._mirrored(path)
            return
        text = (self._root / path).read_text()
        if not path.endswith(".py"):
            yield self._of_compiled(path, text, change.lines)
            return
        mirrored = self._mirrored(path)
        found = places(path, text, change.lines)
        if found and not mirrored and not self._map.tests_of_file(path):
            choice.said.append(f"{path}: no test is known to run it, and no file of tests mirrors it or imports it "
                               f"({own_test_file(path)} is not there)")
        for place in found:
            tests = self._of_function(place) if place.function else self._of_names(place)
            if tests:
                yield self._in_order(path, tests)
            elif place.function:
                if self._map.seconds and mirrored:
                    choice.said.append(f"{place}: nobody is known to run it; the tests nearest to it run")
                yield mirrored
            else:
                yield [*mirrored, *self._in_order(path, self._of_importers(path))]

    def _of_function(self, place: Place) -> set[str]:
        return self._map.tests_of(place.path, place.lines)

    def _of_names(self, place: Place) -> set[str]:
        """Return who runs the names of lines that ran when the file was imported, for all tests at once."""
        found: set[str] = set()
        for path in (place.path, *sorted(self._map.importers.get(place.path, ()))):
            lines = _mentioning_lines((self._root / path).read_text(), place.names)
            found |= self._map.tests_of(path, lines - place.lines if path == place.path else lines)
        return found

    def _of_importers(self, path: str) -> set[str]:
        return self._map.tests_of_file(path).union(*map(self._map.tests_of_file, self._map.users(path)))

    def _of_compiled(self, path: str, text: str, lines: Collection[int]) -> list[str]:
        """Return the tests of the same functions in the Python text of the twin, or of all of it."""
        twin = path.replace("/_native", "/_python").rsplit(".", 1)[0] + ".py"
        if not (self._root / twin).exists():
            return self._mirrored(path)
        names = compiled_names(text, lines)
        rows = (self._root / twin).read_text().splitlines()
        found: set[str] = set()
        for name in names - {"", "__cinit__", "__dealloc__"}:
            defined = [number for number, row in enumerate(rows, 1) if re.match(rf"\s*def {name}\(", row)]
            for number in defined:
                for place in places(twin, "\n".join(rows), {number}):
                    found |= self._map.tests_of(twin, place.lines)
        found = found or self._map.tests_of_file(twin)
        return self._in_order(twin, found) if found else self._mirrored(twin)

    def _in_order(self, path: str, tests: Iterable[str]) -> list[str]:
        nearest = self._map.nearest_first(path, (test for test in tests if tier_of(test) in self._tiers))
        return sorted(nearest, key=lambda test: self._map.seconds[test] > SLOW_S)

    def _mirrored(self, path: str) -> list[str]:
        """Return the unit test file of a source file, those of its folder that import it, others, the folder."""
        own = own_test_file(path)
        folder = own.rsplit("/", 1)[0] + "/"
        module = path.rsplit(".", 1)[0].removesuffix("/__init__").replace("/", ".")
        parent, _, name = module.rpartition(".")
        imported = re.compile(rf"\b{re.escape(module)}\b|from {re.escape(parent)} import [^\n]*\b{name}\b")
        unit = [file for file in self._files if file.startswith("tests/unit/") and file not in LEFT_OUT]
        users = {file for file in unit if imported.search((self._root / file).read_text())}
        # A folder of the package's top has many who import it, and no folder of tests of its own.
        near = {file for file in unit if file.startswith(folder)} if folder != "tests/unit/" else set()
        return sorted({*users, *near, *({own} & set(unit))},
                      key=lambda file: (file != own, file not in users, distance(path, file), file))

    # Changed tests ---------------------------------------------------------------------------------------------------

    def _take_changed_tests(self, change: Change, choice: Choice) -> None:
        path = change.path
        if change.is_gone:
            return
        if not self._is_run(path):
            choice.slow.append(path)
            return
        functions = [place.function.split(".") for place in places(path, (self._root / path).read_text(), change.lines)]
        tests = ["::".join([path, *names]) for names in functions if names[-1].startswith("test")]
        # An aid of theirs, or a constant, is about all of them.
        choice.changed += tests if len(tests) == len(functions) and tests else [*tests, path]
        choice.rest.append(path)

    def _is_run(self, file: str) -> bool:
        return tier_of(file) in self._tiers and (tier_of(file) == "unit" or file not in LEFT_OUT)

    def _users_of_harness(self, path: str, choice: Choice) -> list[str]:
        users = [file for file in self._files if self._is_run(file) and path in self._imports.imports(file)]
        if not users:
            choice.unread.append(path)
        by_file: dict[str, list[str]] = {file: [] for file in users}
        for test in sorted(self._map.seconds, key=self._map.seconds.__getitem__):
            if file_of(test) in by_file:
                by_file[file_of(test)].append(test)
        return list(_in_turn([tests or [file] for file, tests in by_file.items()]))

    def _mentioning(self, path: str, choice: Choice) -> list[str]:
        """Return the unit tests that read a file which is no source."""
        name = re.compile(rf"\"{re.escape(path.rsplit('/', 1)[-1])}\"")
        found = [file for file in self._files
                 if file.startswith("tests/unit/") and name.search((self._root / file).read_text())]
        if not found:
            choice.unread.append(path)
        return found

    def _seconds(self, entry: str) -> float:
        if entry in self._map.seconds:
            return self._map.seconds[entry]
        return sum(seconds for test, seconds in self._map.seconds.items() if test.startswith(entry + "::"))


def _in_turn(lists: Iterable[Sequence[str]]) -> Iterator[str]:
    return (entry for turn in zip_longest(*lists) for entry in turn if entry is not None)


def _mentioning_lines(text: str, names: Collection[str]) -> set[int]:
    if not names:
        return set()
    any_of = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
    return {number for number, row in enumerate(text.splitlines(), 1) if any_of.search(row)}
