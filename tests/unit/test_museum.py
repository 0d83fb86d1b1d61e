"""The museum of planted bugs (tests/simulation/museum): each applies, differs, and works while nothing goes wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import museum
from tests.simulation.museum import ROOT, TESTS, Edit, Exhibit
from tests.simulation.museum.__main__ import Find, Visit, search
from tests.support.patience import PROGRAM_S

EXHIBITS = museum.exhibits()
HEADINGS = ["Reference", "Seen", "Planted"]


def test_exhibits_when_read_then_each_says_where_it_was_what_was_seen_and_how_it_is_planted() -> None:
    assert len(EXHIBITS) >= 25
    for exhibit in EXHIBITS:
        assert re.findall(r"^([A-Z][a-z]+): ", exhibit.story, re.MULTILINE) == HEADINGS, exhibit.name
        assert exhibit.title.endswith("."), exhibit.name


def test_exhibits_when_planted_then_all_apply_and_no_two_make_the_same() -> None:
    made: dict[str, str] = {}
    for exhibit in EXHIBITS:
        texts = museum.patched(exhibit)
        for path, text in texts.items():
            assert text != (ROOT / museum.PACKAGE / path).read_text(), exhibit.name
        other = made.setdefault(repr(sorted(texts.items())), exhibit.name)
        assert other == exhibit.name, f"{exhibit.name} is {other}"


@pytest.mark.parametrize(("old", "why"), [("no such text", "0 times, not once"), ("import", "times, not once")])
def test_exhibit_when_its_text_is_not_there_once_then_it_says_so(tmp_path: Path, old: str, why: str) -> None:
    gone = Exhibit("gone", "", (Edit("sender/sender.py", old, ""),))
    with pytest.raises(ValueError, match=f"gone no longer applies: .* {why}"):
        museum.plant(gone, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_exhibit_when_what_it_makes_does_not_compile_then_it_says_so() -> None:
    broken = Exhibit("broken", "", (Edit("sender/sender.py", "class Sender:", "class Sender"),))
    with pytest.raises(ValueError, match="broken does not compile"):
        museum.patched(broken)


def test_exhibits_when_nothing_goes_wrong_then_records_are_stored_with_each(tmp_path: Path) -> None:
    directories = []
    for exhibit in EXHIBITS:
        directories.append(tmp_path / exhibit.name)
        directories[-1].mkdir()
        museum.plant(exhibit, directories[-1])
    smoke = subprocess.run([sys.executable, "-m", "tests.simulation.museum._smoke", *map(str, directories)],
                           cwd=TESTS.parent, env={**os.environ, "PYPRODUCER_IMPL": "python"}, capture_output=True,
                           text=True, timeout=PROGRAM_S)
    assert smoke.stdout.split("\n") == [*(f"{exhibit.name} ok" for exhibit in EXHIBITS), ""], smoke.stderr[-3000:]


@pytest.mark.parametrize(("lines", "find"), [
    ('{"seed": 7}\n{"seed": 8, "wrong": ["lost", "late"]}\n{"seed": 9}', Find(2, 8, "lost")),
    ('{"seed": 7}\n{"seed": 8}\n{"moves": {}}', Find(2, None, ""))])
def test_search_when_a_seed_finds_something_or_none_does_then_it_says_after_how_many(
        tmp_path: Path, lines: str, find: Find) -> None:
    simulate(tmp_path, lines)
    assert search(tmp_path, 7, 3) == find


def test_search_when_the_simulation_ends_by_itself_then_that_is_not_taken_for_a_find(tmp_path: Path) -> None:
    simulate(tmp_path, '{"seed": 7}')
    with pytest.raises(RuntimeError, match="ended behind 1 seeds from 7"):
        search(tmp_path, 7, 3)


def simulate(directory: Path, lines: str) -> None:
    """Have a directory with a simulation that says this."""
    (directory / "tests" / "simulation").mkdir(parents=True)
    (directory / "tests" / "__init__.py").touch()
    (directory / "tests" / "simulation" / "__init__.py").touch()
    (directory / "tests" / "simulation" / "__main__.py").write_text(f"print({lines!r})\n")


def test_visit_when_most_ranges_find_it_then_the_median_counts_and_false_alarms_do_too() -> None:
    finds = (Find(3, 5, "lost"), Find(1000, None, ""), Find(40, 200_039, "lost"))
    assert Visit(EXHIBITS[0], finds, (), 1.0).median == 40
    assert Visit(EXHIBITS[0], finds, (), 1.0).is_found
    assert not Visit(EXHIBITS[0], finds, (5,), 1.0).is_found
    assert Visit(EXHIBITS[0], (finds[1], finds[1], finds[2]), (), 1.0).median == float("inf")
