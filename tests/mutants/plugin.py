"""What a run of chosen tests tells pytest, and what it remembers of it.

Road:    worker, measure -> [pytest.main(plugins=[...])] -> durations, the first failure
Source:  ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


def arguments(timeout_s: float | None = None) -> list[str]:
    """Return the arguments of every run: nothing from outside decides on order, number of processes, or luck."""
    given = ["-q", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist",
             "--hypothesis-seed=0", "--tb=short", "--no-header", "--no-summary",
             "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # workers import packages before pytest begins
    return [*given, f"--timeout={timeout_s}"] if timeout_s is not None else given


class Durations:
    """Remembers which tests passed, which failed, and how long they took."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take one phase of a test."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        before = self._outcomes.get(report.nodeid, "passed")
        self._outcomes[report.nodeid] = report.outcome if before == "passed" else before

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take a file that could not be imported."""
        if report.failed:
            self._outcomes[report.nodeid] = "failed"

    def of(self, file: str) -> dict[str, Any]:
        """Return what is known of one file's tests; `lines` is for the caller to fill."""
        own = [test for test in self._outcomes if test.split("::", 1)[0] == file]
        passed = [test for test in own if self._outcomes[test] == "passed"]
        return {"tests": [test.removeprefix(file + "::") for test in passed],
                "seconds": [round(self._seconds[test], 4) for test in passed],
                "failed": [test for test in own if self._outcomes[test] == "failed"], "lines": {}}


class Chosen:
    """Runs the tests of a list, in its order, and writes down the first one that fails."""

    def __init__(self, tests: Sequence[str], notes: Path) -> None:
        self._order = {test: place for place, test in enumerate(tests)}
        self._notes = notes
        self._current = ""
        self._ran = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Choose by id; where a mutant renamed a parameter, all parameters of that test."""
        missing = set(self._order) - {item.nodeid for item in items}
        bases = {test.split("[", 1)[0]: self._order[test] for test in missing}
        places = {item.nodeid: self._order.get(item.nodeid, bases.get(item.nodeid.split("[", 1)[0], -1))
                  for item in items}
        left_out = [item for item in items if places[item.nodeid] < 0]
        items[:] = sorted((item for item in items if places[item.nodeid] >= 0),
                          key=lambda item: places[item.nodeid])
        config.hook.pytest_deselected(items=left_out)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Remember what runs, for a process that is ended because it hangs."""
        self._current = nodeid
        self._ran += 1
        self._note("running", "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write down a failure."""
        if report.failed:
            self._note("failed", _last_line(report))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write down a file that could not be imported."""
        if report.failed:
            self._current = report.nodeid
            self._note("failed", _last_line(report))

    def _note(self, state: str, message: str) -> None:
        # In one step: who runs too long is killed at any moment, and what it wrote last is read.
        following = self._notes.with_suffix(".next")
        following.write_text(json.dumps({"test": self._current, "state": state, "message": message, "ran": self._ran}))
        following.replace(self._notes)


def _last_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return (lines[0] if crash is not None and lines else lines[-1] if lines else "")[:200]
