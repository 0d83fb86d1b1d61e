"""The tool that plants bugs (tests/mutants): what it draws, what it leaves alone, and what its verdicts mean."""

from __future__ import annotations

import ast
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import equivalent, kept
from tests.mutants.coverage_map import CoverageMap, distance
from tests.mutants.generate import LINES_PER_MUTANT, MOST_OF_A_FUNCTION, Mutant, candidates, draw, target_files
from tests.mutants.people import PEOPLES
from tests.mutants.run import EQUIVALENT as IS_EQUIVALENT
from tests.mutants.run import HUNG, KILLED, NOT_COVERED, SURVIVED, Runner, Verdict, Worker

ROOT = Path(__file__).resolve().parents[2]
SENDER = {path: (ROOT / path).read_text() for path in target_files(ROOT, "sender/p")}

TOY = '''
def clamp(number, highest):
    if number > highest:
        return highest
    return number


def unused(number):
    return number + 1
'''
TESTS = '''
from pyproducer.toy import clamp

def test_clamp():
    assert clamp(3, 5) == 3
    assert clamp(7, 5) == 5
'''


def test_mutants_when_drawn_then_each_parses_and_differs_in_one_place() -> None:
    drawn = draw(SENDER, seed=1, count=12)
    assert len({mutant.mutant_id for mutant in drawn}) == 12
    for mutant in drawn:
        source = SENDER[mutant.path]
        mutated = mutant.apply(source)
        assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(source)), mutant.mutant_id
        assert mutated[:mutant.start] == source[:mutant.start]
        assert mutated[mutant.start + len(mutant.new):] == source[mutant.end:]
        assert mutant.diff(source).startswith("@@")


def test_mutants_when_drawn_twice_then_the_same_and_of_another_seed_others() -> None:
    drawn = draw(SENDER, seed=1, count=10)
    assert drawn == draw(SENDER, seed=1, count=10)
    assert drawn == draw(SENDER, seed=1, count=15)[:10]
    assert drawn != draw(SENDER, seed=2, count=10)


def test_mutants_when_all_are_drawn_then_no_function_has_more_than_a_few() -> None:
    drawn = draw(SENDER, seed=1, count=10_000)
    of_functions = Counter((mutant.path, mutant.function) for mutant in drawn)
    assert max(of_functions.values()) <= MOST_OF_A_FUNCTION
    assert max(of_functions.values()) > 1, f"a function above {LINES_PER_MUTANT} lines is drawn more than once"


def test_candidates_leave_alone_what_tests_are_not_asked_to_notice() -> None:
    source = '''"""Docs of 1 thing."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import os

class Thing:
    """Docs of 2 things."""

    __slots__ = ("a",)
    size: int

    def __repr__(self) -> str:
        return f"{1 + 1}"

    def act(self, size: "list[int] | None") -> "int | None":
        """Docs of 3 things."""
        assert size is not None
        log.debug("it has %d", size + 4)
        raise ValueError(f"size is {size + 5}")
'''
    assert [(mutant.operator, mutant.old.split("(")[0]) for mutant in candidates("pyproducer/x.py", source)] == [
        ("drop-raise", "raise ValueError")]


def test_sources_when_looked_at_by_byte_then_are_ascii() -> None:
    # ast counts columns in bytes, the tool cuts text: the same only for ASCII.
    assert [path for path in target_files(ROOT) if not (ROOT / path).read_bytes().isascii()] == []


def test_kept_mutants_when_looked_up_then_all_apply_once_and_parse() -> None:
    mutants = kept.mutants(ROOT)
    assert len({mutant.operator for mutant in mutants}) == len(kept.KEPT)
    for mutant in mutants:
        ast.parse(mutant.apply((ROOT / mutant.path).read_text()))


def test_kept_mutant_when_its_text_is_gone_then_the_tool_fails_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = kept.Kept("gone", "sender/sender.py", "no such text", "", "nothing")
    monkeypatch.setattr(kept, "KEPT", (*kept.KEPT, gone))
    with pytest.raises(ValueError, match="the kept mutant gone no longer applies"):
        kept.mutants(ROOT)


def test_equivalent_mutants_when_looked_up_then_their_lines_still_stand_in_the_file() -> None:
    stale = [row for row in equivalent.EQUIVALENT
             if row.old not in " ".join((ROOT / "pyproducer" / row.path).read_text().split()) or not row.reason]
    assert stale == []


def test_tests_when_ordered_then_the_nearest_come_first() -> None:
    tests = ["tests/embedded/test_kill.py::test_a", "tests/unit/client/test_metadata.py::test_a",
             "tests/unit/sender/test_turns.py::test_a", "tests/unit/sender/test_sender.py::test_a"]
    assert sorted(tests, key=lambda test: distance("pyproducer/sender/sender.py", test)) == tests[::-1]


def test_a_mutant_when_run_then_is_killed_survives_is_not_covered_or_is_equivalent(tmp_path: Path) -> None:
    for name in ("tests/unit", "pyproducer"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("tests/__init__.py", "tests/unit/__init__.py", "pyproducer/__init__.py", "pytest.ini"):
        (tmp_path / name).write_text("")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "pyproducer" / "toy.py").write_text(TOY)
    (tmp_path / "tests" / "unit" / "test_toy.py").write_text(TESTS)
    shutil.copytree(ROOT / "tests" / "mutants", tmp_path / "tests" / "mutants",
                    ignore=shutil.ignore_patterns("__pycache__"))
    found = {(mutant.line, mutant.operator): mutant for mutant in candidates("pyproducer/toy.py", TOY)}
    obvious, boundary, unused = found[3, "compare-gt-le"], found[3, "compare-gt-ge"], found[9, "constant-plus"]
    test = "tests/unit/test_toy.py::test_clamp"
    covering = CoverageMap({test: 0.1}, {("pyproducer/toy.py", 3): {test}}, {"pyproducer/toy.py": {test}})
    reasons = {("toy.py", "clamp", *boundary.changed_lines(TOY)): "at the boundary both are the same number"}
    worker = Worker(tmp_path, preload=False)
    try:
        verdicts = [Runner(covering, known, far_budget_s=1).judge(worker, mutant)
                    for mutant, known in ((obvious, {}), (boundary, {}), (unused, {}), (boundary, reasons))]
    finally:
        worker.close()
    assert [verdict.outcome for verdict in verdicts] == [KILLED, SURVIVED, NOT_COVERED, IS_EQUIVALENT]
    assert verdicts[0].test == test
    assert "assert 5 == 3" in verdicts[0].message
    assert (tmp_path / "pyproducer" / "toy.py").read_text() == TOY
