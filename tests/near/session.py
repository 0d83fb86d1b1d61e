"""One run of pytest over chosen tests, in their order, until one fails or the time is over.

Road:    run -> [python -m tests.near.session job.json] -> a JSON file: what ran, what failed, what is left
Source:  ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest


class InOrder:
    """Runs the tests of a list, which names tests or whole files; begins none when the time is over."""

    def __init__(self, entries: Sequence[str], seconds: float) -> None:
        self._places = {entry: place for place, entry in reversed(list(enumerate(entries)))}
        self._seconds = seconds
        self._begun: float | None = None
        self._left: list[str] = []
        self.ran = 0
        self.failed: list[str] = []
        self.not_run: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
        """Choose and sort, after everybody else has."""
        yield
        places = {item: place for item in items if (place := self._place(item.nodeid)) is not None}
        left_out = [item for item in items if item not in places]
        items[:] = sorted(places, key=places.__getitem__)
        self._left = [item.nodeid for item in items]
        config.hook.pytest_deselected(items=left_out)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Count, take off the list; the first one starts the clock."""
        self._begun = self._begun or time.monotonic()
        self.ran += 1
        self._left.remove(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a failure."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember a file that could not be imported."""
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Look at the clock between two tests."""
        result = yield
        if self._left and self.took() > self._seconds and not item.session.shouldfail:
            self.not_run, self._left = self._left, []
            item.session.shouldstop = "the time is over"
        return result

    def took(self) -> float:
        """Return the seconds since the first test began; what pytest needs before is not counted."""
        return 0.0 if self._begun is None else time.monotonic() - self._begun

    def _place(self, test: str) -> int | None:
        # The test, all its parameters (an edit may have renamed them), its class, its file.
        base = test.split("[", 1)[0]
        names = base.split("::")
        found = [self._places[name] for name in (test, *("::".join(names[:end]) for end in range(1, len(names) + 1)))
                 if name in self._places]
        return min(found, default=None)


def main(job_file: str) -> int:
    """Run a job; 0 when nothing failed."""
    job: dict[str, Any] = json.loads(Path(job_file).read_text())
    session = InOrder(job["entries"], job["seconds"])
    files = list(dict.fromkeys(entry.split("::", 1)[0] for entry in job["entries"]))
    given = ["-q", "-o", "addopts=", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider", "--no-header",
             "--tb=short", "-W", "ignore::pytest.PytestAssertRewriteWarning", *(["-x"] if job["stop"] else [])]
    status = pytest.main([*given, *files], plugins=[session])
    Path(job["result"]).write_text(json.dumps(
        {"ran": session.ran, "failed": list(dict.fromkeys(session.failed)), "not_run": session.not_run,
         "seconds": session.took()}))
    if status == pytest.ExitCode.NO_TESTS_COLLECTED or (
            status == pytest.ExitCode.INTERRUPTED and session.not_run):
        return 1 if session.failed else 0
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
