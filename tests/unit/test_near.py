"""The tool behind `make near` (tests/near), and the map of tests that it and tests/mutants follow through edits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.coverage_map import CoverageMap, Ran, load, stale_files
from tests.mutants.drift import Drift
from tests.mutants.generate import candidates
from tests.mutants.measured import Measured, numbers, ranges
from tests.near.changes import Change, changes, compiled_names, earlier, places
from tests.near.choose import Choice, Chooser

ROOT = Path(__file__).resolve().parents[2]
TIERS = ("unit", "embedded")
TOY = """LIMIT = 5

def clamp(number):
    if number > LIMIT:
        return LIMIT
    return number


def twice(number):
    # Two of it.
    return number * 2
"""
TEST_TOY = """from pyproducer.part.toy import clamp, twice
from tests.unit.part.numbers import MANY

def test_clamp():
    assert clamp(MANY) == 5

def test_twice():
    assert twice(3) == 6
"""
TESTS = ["tests/unit/part/test_toy.py::test_clamp", "tests/unit/part/test_toy.py::test_twice"]
FAR = "tests/embedded/test_all.py::test_all"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree of the same shape, with one commit."""
    for name, text in {"pyproducer/__init__.py": "", "pyproducer/part/__init__.py": "", "pyproducer/part/toy.py": TOY,
                       "tests/__init__.py": "", "tests/unit/__init__.py": "", "tests/unit/part/__init__.py": "",
                       "tests/unit/part/numbers.py": "MANY = 7\n", "tests/unit/part/test_toy.py": TEST_TOY,
                       "tests/unit/part/test_other.py": "def test_other():\n    assert True\n",
                       "pytest.ini": "[pytest]\n", ".gitignore": "__pycache__/\n.cache/\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def git(tree: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tree, check=True)


def edit(tree: Path, old: str, new: str, path: str = "pyproducer/part/toy.py") -> None:
    text = (tree / path).read_text()
    assert text.count(old) == 1
    (tree / path).write_text(text.replace(old, new))


def measure(tree: Path) -> Measured:
    """Keep what a measured run of the toy's tests would say."""
    known = Measured(tree)
    lines = {"3": [0], "4": [0], "5": [0], "11": [1]}
    known.keep("tests/unit/part/test_toy.py", {
        "tests": ["test_clamp", "test_twice"], "seconds": [0.2, 0.1], "failed": [],
        "lines": {"pyproducer/part/toy.py": lines}}, Measured(tree))
    return known


def choose(tree: Path, covering: CoverageMap, *, seconds: float = 30.0) -> Choice:
    return Chooser(tree, covering, TIERS).choose(changes(tree, "HEAD"), seconds=seconds, count=100)


# The map -------------------------------------------------------------------------------------------------------------

def test_line_when_the_text_around_it_was_edited_then_it_is_found_where_it_was() -> None:
    then = "a = 1\nb = 2\n\n# words\nc = 3\nd = 4\ne = 5\n"
    drift = Drift(then, "new = 0\na = 1\nb = 22\n\n# words\nc = 3\ne = 5\n")
    assert drift.lines_then({2}) == {1}
    assert drift.lines_then({1}) == {1}, "a new line is known by its neighbour"
    assert drift.lines_then({3}) == {1, 2, 5}, "a line that took the place of another, and the code around it"
    assert drift.lines_then({7}) == {5, 6, 7}, "a deleted line is asked for by the one that stands there now"
    assert drift.gone == {1, 2, 6}
    assert numbers(ranges({1, 2, 3, 7})) == {1, 2, 3, 7}


def test_measurement_when_the_package_changes_then_it_stays_and_when_its_tests_or_their_aids_do_then_not(
        tree: Path) -> None:
    measure(tree)
    files = ["tests/unit/part/test_toy.py"]
    edit(tree, "LIMIT = 5", "LIMIT = 5\nMORE = 6\n")
    assert stale_files(Measured(tree), files) == []
    assert load(tree, ()).tests_of("pyproducer/part/toy.py", {13}) == {TESTS[1]}
    git(tree, "worktree", "add", "-q", str(tree / "further"))
    assert load(tree / "further", ()).tests_of("pyproducer/part/toy.py", {11}) == {TESTS[1]}
    edit(tree, "number * 2", "2 * number")
    assert stale_files(Measured(tree), files) == files, "one of the four lines that its tests ran is another one"
    edit(tree, "2 * number", "number * 2")
    edit(tree, "return LIMIT", "return LIMIT + 0")
    assert stale_files(Measured(tree), files, anew=True) == files
    edit(tree, "return LIMIT + 0", "return LIMIT")
    edit(tree, "MANY = 7", "MANY = 8", "tests/unit/part/numbers.py")
    assert stale_files(Measured(tree), files) == files


def test_mutant_when_nobody_is_known_to_run_it_then_its_folder_tries(tree: Path) -> None:
    measure(tree)
    mutant = next(each for each in candidates("pyproducer/part/toy.py", TOY) if each.line == 11)
    covering = load(tree, ())
    assert covering.is_covered(mutant)
    covering.ran.clear()
    assert not covering.is_covered(mutant)
    assert set(covering.covering(mutant)) == set(TESTS)


# What changed --------------------------------------------------------------------------------------------------------

def test_changes_when_files_are_edited_added_and_removed_then_each_is_told_with_its_lines(tree: Path) -> None:
    edit(tree, "        return LIMIT\n", "")
    edit(tree, "number * 2", "number + number")
    (tree / "pyproducer" / "part" / "new.py").write_text("one = 1\ntwo = 2\n")
    (tree / "tests" / "unit" / "part" / "numbers.py").unlink()
    found = {change.path: change for change in changes(tree, "HEAD")}
    assert found == {
        "pyproducer/part/toy.py": Change("pyproducer/part/toy.py", {4, 5, 10}),
        "pyproducer/part/new.py": Change("pyproducer/part/new.py", {1, 2}),
        "tests/unit/part/numbers.py": Change("tests/unit/part/numbers.py", is_gone=True)}
    assert earlier(tree, 20) is None
    git(tree, "commit", "-qam", "second")
    base = earlier(tree, 20)
    assert base is not None
    assert len(changes(tree, base)) == 3


def test_lines_when_they_changed_then_their_functions_are_told_and_words_are_not() -> None:
    def of(*lines: int) -> list[tuple[str, list[int], set[str]]]:
        return [(place.function, sorted(place.lines), set(place.names)) for place in places("toy.py", TOY, lines)]

    assert of(2, 7, 10) == [], "empty lines and a comment"
    assert of(1) == [("", [1], {"LIMIT"})]
    assert of(4) == [("clamp", [4], set())]
    assert of(3, 11) == [("clamp", [4, 5, 6], set()), ("twice", [11], set())], "its parameters are all of a function"
    assert compiled_names("cdef class A:\n    cdef int size(self) except -1:\n        return 1\n\n    def b(self, x):\n"
                          "        return x\n", {1, 3, 6}) == {"", "size", "b"}


# Which tests ---------------------------------------------------------------------------------------------------------

def test_choice_when_the_map_knows_the_lines_then_each_function_in_turn_gives_its_nearest_test(tree: Path) -> None:
    measure(tree)
    covering = load(tree, ())
    covering.seconds[FAR] = 0.01
    covering.ran["pyproducer/part/toy.py"].append(Ran([FAR], [("3-11", "0")]))
    edit(tree, "number > LIMIT", "number >= LIMIT")
    edit(tree, "number * 2", "number + number")
    assert choose(tree, covering).entries == [*TESTS, FAR]
    few = choose(tree, covering, seconds=0.25)
    assert (few.entries, few.left_out) == ([TESTS[0], FAR], [TESTS[1]])
    covering.seconds[TESTS[0]] = 3.0
    assert choose(tree, covering).entries == [FAR, TESTS[1], TESTS[0]], "who takes long waits"


def test_choice_when_a_constant_changed_then_who_runs_its_name_is_asked(tree: Path) -> None:
    measure(tree)
    edit(tree, "LIMIT = 5", "LIMIT = 6")
    assert choose(tree, load(tree, ())).entries == [TESTS[0]]


def test_choice_when_there_is_no_map_then_the_mirrored_file_its_users_and_its_folder_run(tree: Path) -> None:
    edit(tree, "number * 2", "number + number")
    (tree / "tests" / "unit" / "test_user.py").write_text("from pyproducer.part import toy\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "second")
    edit(tree, "number + number", "number * 2")
    assert choose(tree, CoverageMap()).entries == [
        "tests/unit/part/test_toy.py", "tests/unit/test_user.py", "tests/unit/part/test_other.py"]


def test_choice_when_tests_or_their_aids_changed_then_they_run_first_and_what_nobody_runs_is_said(tree: Path) -> None:
    edit(tree, "assert twice(3) == 6", "assert twice(4) == 8", "tests/unit/part/test_toy.py")
    assert choose(tree, CoverageMap()).entries == [TESTS[1], "tests/unit/part/test_toy.py"]
    edit(tree, "MANY = 7", "MANY = 8", "tests/unit/part/numbers.py")
    (tree / "pyproducer" / "alone.py").write_text("def alone():\n    return 1\n")
    (tree / "notes.txt").write_text("nobody reads it")
    choice = choose(tree, CoverageMap())
    assert choice.entries == [TESTS[1], "tests/unit/part/test_toy.py"]
    assert choice.unread == ["notes.txt"]
    assert choice.said == ["pyproducer/alone.py: no test is known to run it, and no file of tests mirrors it or "
                           "imports it (tests/unit/test_alone.py is not there)"]
    (tree / "pyproducer" / "alone.py").write_text("def alone(:\n")
    assert [sentence.split(":")[0] for sentence in choose(tree, CoverageMap()).broken] == ["pyproducer/alone.py"]


def test_near_when_an_edit_breaks_a_test_then_it_fails_there_and_else_passes(tree: Path) -> None:
    for name in ("mutants", "near"):
        shutil.copytree(ROOT / "tests" / name, tree / "tests" / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "tests" / "support").mkdir()
    shutil.copy(ROOT / "tests" / "support" / "compiler.py", tree / "tests" / "support")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "second")

    def near(*arguments: str) -> tuple[int, str]:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        ended = subprocess.run([sys.executable, "-m", "tests.near", *arguments], cwd=tree, stdout=subprocess.PIPE,
                               env={**variables, "PYPRODUCER_IMPL": "python"}, text=True, check=False)
        return ended.returncode, ended.stdout

    assert near() == (0, "near: nothing changed\n")
    edit(tree, "    if number > LIMIT", "    number += 0\n    if number > LIMIT")
    status, said = near("--seconds", "0")
    assert (status, "1 tests ran, 0 failed, 2 were not begun because the time was over" in said) == (0, True)
    edit(tree, "number * 2", "number * 3")
    status, said = near()
    assert (status, "FAILED tests/unit/part/test_toy.py::test_twice" in said) == (1, True)
    assert "2 tests ran, 1 failed" in said
    assert "nobody" not in said


def test_patience_when_it_is_set_then_a_wait_gives_up_sooner() -> None:
    def patience(**variables: str) -> str:
        code = "from tests.support.patience import GIVE_UP_S, PROGRAM_S; print(GIVE_UP_S, PROGRAM_S)"
        kept = {name: value for name, value in os.environ.items() if name != "PYPRODUCER_TEST_PATIENCE_S"}
        return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**kept, **variables}, text=True, check=True,
                              stdout=subprocess.PIPE).stdout

    assert patience() == "600.0 1800.0\n"
    assert patience(PYPRODUCER_TEST_PATIENCE_S="60") == "60.0 180.0\n"
