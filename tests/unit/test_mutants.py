"""The tool that plants bugs (tests/mutants): what it draws, what it leaves alone, and what its verdicts mean."""

from __future__ import annotations

import ast
import shutil
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import equivalent, kept, native, report, score
from tests.mutants.coverage_map import CoverageMap, Ran, distance
from tests.mutants.generate import LINES_PER_MUTANT, MOST_OF_A_FUNCTION, Mutant, candidates, draw, target_files
from tests.mutants.people import PEOPLES, Package
from tests.mutants.run import EQUIVALENT as IS_EQUIVALENT
from tests.mutants.run import HUNG, KILLED, NOT_COVERED, SURVIVED, Doubter, Runner, Verdict, Worker
from tests.simulation.museum import Edit, Exhibit, plant

ROOT = Path(__file__).resolve().parents[2]
SENDER = {path: (ROOT / path).read_text() for path in target_files(ROOT, "sender/requests/")}

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


@pytest.fixture(scope="module")
def toy() -> Mutant:
    """One of the toy's; found here and not at the top, for the whole package is read to find any."""
    return next(mutant for mutant in candidates("pyproducer/toy.py", TOY) if mutant.operator == "compare-gt-le")


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


def test_files_when_listed_then_the_whole_package_is_drawn_from_but_what_the_tool_says() -> None:
    folders = {path.split("/")[1] for path in target_files(ROOT)}
    assert folders >= {"network", "protocol", "record", "broker", "spark", "testing", "cli", "common", "aio"}
    assert any(path.startswith("pyproducer/network/sasl/") for path in target_files(ROOT))
    left_out = {path.relative_to(ROOT).as_posix() for path in (ROOT / "pyproducer").rglob("*.py")}
    left_out -= set(target_files(ROOT))
    folders = {path.rsplit("/", 1)[0] for path in left_out}
    assert folders == {"pyproducer/broker/messages", "pyproducer/protocol/messages"}


def test_mutants_when_drawn_then_people_make_every_other_one() -> None:
    drawn = draw(SENDER, seed=1, count=8)
    assert [mutant.operator in PEOPLES for mutant in drawn] == [True, False] * 4


def test_candidates_when_people_get_it_wrong_then_are_words_keywords_locks_errors_and_cells() -> None:
    source = '''
from pyproducer.common.errors import DisconnectedError, AuthenticationError
KINDS = {"acks": (1, "all"), "retries": (2, "none")}

def act(self, row):
    with self._lock:
        row.go(row["acks"], where="there and back", when=1)
    try:
        state = BatchState.RETRY
    except (OSError, ValueError):
        raise DisconnectedError("words")
'''
    found = {(mutant.operator, mutant.old, mutant.new) for mutant in candidates("pyproducer/x.py", source)
             if mutant.operator in PEOPLES}
    assert found >= {
        ("word", '"acks"', '"ack"'), ("word", '"retries"', '"retrie"'),
        ("table-cell", '(1, "all"), "retries": (2, "none")', '(2, "none"), "retries": (1, "all")'),
        ("table-cell", '1, "all"), "retries": (2', '2, "all"), "retries": (1'),
        ("drop-lock", "with self._lock", "if True"), ("drop-keyword", ", when=1", ""),
        ("except-class", "(OSError, ValueError)", "ValueError"), ("except-class", "(OSError, ValueError)", "OSError"),
        ("raise-class", "DisconnectedError", "AuthenticationError"), ("member", "BatchState.RETRY", "BatchState.LATE"),
    }
    assert not any("words" in old or "there and back" in new for _, old, new in found - {
        ("drop-keyword", 'where="there and back", ', "")})


def test_class_when_it_is_made_of_another_one_of_its_name_then_it_is_no_base_of_itself() -> None:
    package = Package([ast.parse("class Lost(errors.Lost, OSError): ...\nclass Future(native.Future): ...")])
    assert [package.is_error(name) for name in ("Lost", "Future")] == [True, False]


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
        raise ValueError(f"size is {size + 5}", "no", "word")
'''
    assert [(mutant.operator, mutant.old.split("(")[0]) for mutant in candidates("pyproducer/x.py", source)] == [
        ("drop-raise", "raise ValueError"), ("raise-class", "ValueError")]


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
    covering = CoverageMap({test: 0.1}, {"pyproducer/toy.py": [Ran([test], [("3", "0")])]})
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


FAILED, PASSED = ("failed", "it says so"), ("passed", "")
LATE = ("failed", "Failed: Timeout (>20.0s) from pytest-timeout.")


@pytest.mark.parametrize(("answers", "outcome", "flakes"), [
    pytest.param([FAILED, FAILED, PASSED], KILLED, (), id="fails twice"),
    pytest.param([FAILED, PASSED, PASSED], SURVIVED, ("a",), id="fails once"),
    pytest.param([FAILED, FAILED, FAILED, PASSED], SURVIVED, ("a",), id="fails without the mutant"),
    pytest.param([LATE, LATE, PASSED], HUNG, (), id="takes too long twice"),
    pytest.param([FAILED, LATE, PASSED], HUNG, (), id="takes too long once"),
])
def test_failure_when_it_is_asked_again_then_only_one_that_comes_again_counts(toy: Mutant,
        answers: list[tuple[str, str]], outcome: str, flakes: tuple[str, ...]) -> None:
    left = list(answers)

    def ask(stage: str, tests: Sequence[str]) -> dict[str, Any]:
        assert (stage, tests) in (("near", ["a", "b"]), ("near", ["a"]), ("near", ["b"]))
        said, message = left.pop(0)
        return {"outcome": said, "test": tests[0], "message": message, "seconds": 1.0, "cpu_s": 1.0}

    verdict = Doubter().judge(toy, 2, [("near", ["a", "b"])], ask, ask)
    assert (verdict.outcome, verdict.flakes, left) == (outcome, flakes, [])


def test_report_when_it_is_resumed_then_has_the_verdicts_of_what_was_not_edited_since(
        toy: Mutant, tmp_path: Path) -> None:
    other = next(mutant for mutant in candidates("pyproducer/toy.py", TOY) if mutant.line == 9)
    file = tmp_path / "report.jsonl"
    verdicts = [Verdict(toy, KILLED, 3, "seed 7", "wrong", 1.5, 1.25, 8, ("seed 3",)), Verdict(other, SURVIVED, 2)]
    for verdict in verdicts:
        report.write_row(file, verdict, TOY)
    mutants = [toy, other]
    assert report.read_rows(file, mutants, {toy.path: TOY}) == verdicts
    edited = TOY.replace("number + 1", "number + 2")
    assert report.read_rows(file, mutants, {toy.path: edited}) == verdicts[:1]
    assert report.read_rows(tmp_path / "none.jsonl", mutants, {toy.path: TOY}) == []


def test_score_when_seeds_judge_then_counts_what_is_found_twice_and_never_what_is_found_without(
        toy: Mutant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyproducer").mkdir()
    (tmp_path / toy.path).write_text(TOY)
    baseline = score.Baseline(wrong={4}, cpu_s=dict.fromkeys(range(8), 0.2),
                              by_line={(toy.path, 3): {1, 4, 5, 6, "warm"}})
    finds: list[score.Find] = []
    asked: list[list[int]] = []

    def search(_copy: Path, seeds: Sequence[int], _empty: Collection[int]) -> score.Find:
        asked.append(list(seeds))
        return finds.pop(0)

    monkeypatch.setattr(score, "search", search)
    once, twice = (score.Find(KILLED, 5, "lost", is_seen_again=again, cpu_s=1.0) for again in (False, True))
    late, nothing = score.Find(HUNG, 5, "no end", cpu_s=9.0), score.Find(None, cpu_s=1.0)
    for given, outcome, seeds, expected in (
            ([twice], KILLED, 6, [[1, 5, 6]]), ([once, nothing], SURVIVED, 8, [[1, 5, 6], [6]]),
            ([late, late], HUNG, 6, [[1, 5, 6], [5]]), ([late, nothing, nothing], SURVIVED, 8, [[1, 5, 6], [5], [6]]),
            ([score.Find(KILLED, None, "SyntaxError", is_seen_again=True)], KILLED, 1, [[1, 5, 6]])):
        finds[:], asked[:] = given, []
        verdict = score.judge(tmp_path, toy, baseline, {})
        assert (verdict.outcome, verdict.seeds, asked) == (outcome, seeds, expected)
    unreached = score.Baseline(cpu_s=baseline.cpu_s)
    assert score.judge(tmp_path, toy, unreached, {}).outcome == NOT_COVERED


def test_score_when_a_seed_runs_on_a_mutant_then_it_is_found_and_without_it_nothing_is(tmp_path: Path) -> None:
    path = "pyproducer/sender/completion.py"
    source = (ROOT / path).read_text()
    sure = next(mutant for mutant in candidates(path, source) if mutant.operator == "compare-not-is"
                and mutant.changed_lines(source)[0] == "if response.body is not None:")
    finds = []
    for name, text in (("sound", source + "# the same\n"), ("planted", sure.apply(source))):
        folder = tmp_path / name
        folder.mkdir()
        plant(Exhibit(name, "", (Edit(path.removeprefix("pyproducer/"), source, text),)), folder)
        finds.append(score.search(folder, [2]))
    assert finds[0].outcome is None
    find = finds[1]
    assert (find.outcome, find.seed, find.is_seen_again) == (KILLED, 2, True)


def test_compiled_twins_mutants_when_built_together_then_each_is_behind_its_number() -> None:
    source = '''# cython: language_level=3
from libc.stdint cimport uint8_t

cdef int limit(int size) except -1:
    cdef int most = size + 1
    if <int>size > most:
        return most
    log(size, most)
'''
    found = [mutant for line in native.lines(source) for mutant in native.candidates("pyproducer/hotpath/x.pyx", line)]
    assert {(mutant.line, mutant.operator) for mutant in found} == {
        (5, "+--"), (5, "constant-plus"), (6, ">->="), (8, "swap-arguments"), (8, "drop-statement")}
    chosen = {1: found[0], 2: next(mutant for mutant in found if mutant.line == 6), 3: found[-1]}
    assert native.guarded(source, chosen) == '''# cython: language_level=3
cdef int _mutant = int(__import__("os").environ.get("PYPRODUCER_MUTANT", "0"))
from libc.stdint cimport uint8_t

cdef int limit(int size) except -1:
    cdef int most = ((size - 1) if _mutant == 1 else (size + 1))
    if ((<int>size >= most) if _mutant == 2 else (<int>size > most)):
        return most
    if _mutant == 3:
        pass
    else:
        log(size, most)
'''
