"""Skips with CI=true: what tests/skips.py lists is passed over, what it does not list makes the run red."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import skips
from tests.skips import MaySkip, Skip
from tests.support.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = '''
from tests.conftest import pytest_sessionfinish, pytest_terminal_summary  # noqa: F401
'''
TESTS = '''
import pytest

def test_one():
    pytest.skip("the tool is missing")

def test_two():
    pass
'''


def row(where: bool = True, tests: str = "tests/unit/", says: str = "missing") -> MaySkip:
    return MaySkip(lambda: where, tests, says, "the other run has it")


@pytest.mark.parametrize(("rows", "is_listed"), [
    ([row()], True), ([], False), ([row(where=False)], False), ([row(tests="tests/embedded/")], False),
    ([row(says="forbidden")], False), ([row(says="forbidden"), row()], True),
])
def test_skip_when_place_test_and_reason_fit_then_it_is_listed(
        monkeypatch: pytest.MonkeyPatch, rows: list[MaySkip], is_listed: bool) -> None:
    monkeypatch.setattr(skips, "MAY_SKIP", tuple(rows))
    skip = Skip("tests/unit/test_x.py::test_one", "the tool is missing")
    assert (skip.listed is not None) == is_listed
    (first, *others) = skips.told([skip], is_ci=True)
    if is_listed:
        assert first.startswith("1 skipped, 0 of them")
        assert others == ["  1: the other run has it"]
    else:
        assert first.startswith("1 skipped, 1 of them")
        assert others == ["  NOT LISTED: tests/unit/test_x.py::test_one: the tool is missing"]
        assert skips.told([skip], is_ci=False)[1:] == ["  1: the tool is missing"]


def test_skips_when_there_are_none_then_nothing_is_said() -> None:
    assert skips.told([], is_ci=True) == []


@pytest.mark.parametrize(("ci", "workers"), [("true", []), ("true", ["-p", "xdist", "-n", "1"]), ("", [])],
                         ids=["alone", "with workers", "not in CI"])
def test_run_when_a_skip_is_not_listed_then_it_is_red_in_ci_alone(tmp_path: Path, ci: str, workers: list[str]) -> None:
    (tmp_path / "conftest.py").write_text(PROGRAM, encoding="ascii")
    (tmp_path / "test_it.py").write_text(TESTS, encoding="ascii")
    # Only what is asked for is loaded: plugins take longer than these tests.
    variables = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, "--rootdir", str(tmp_path),
         str(tmp_path)], cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True, timeout=PROGRAM_S, check=False)
    assert ended.returncode == (1 if ci else 0), ended.stdout
    assert "1 skipped, 1 of them for a reason that tests/skips.py does not list" in ended.stdout
    assert ("NOT LISTED: test_it.py::test_one" in ended.stdout) == (ci == "true")
