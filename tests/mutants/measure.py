"""One run of tests under coverage, with a context for each test; started by coverage_map as a process of its own.

Road:    coverage_map -> [python -m tests.mutants.measure job.json] -> a JSON file
Source:  ours. Nothing of the package is imported before coverage listens.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutants.plugin import Durations, arguments


class _Contexts(Durations):
    """Tells coverage which test runs; starts it again after a test that set a trace function of its own."""

    def __init__(self, measuring: coverage.Coverage) -> None:
        super().__init__()
        self._measuring = measuring
        self._tracer = sys.gettrace()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if sys.gettrace() is not self._tracer:
            self._measuring.stop()
            self._measuring.start()
            self._tracer = sys.gettrace()
        self._measuring.switch_context(nodeid)


def main(job_file: str) -> int:
    """Run a job's test files and write what they ran."""
    job: dict[str, Any] = json.loads(Path(job_file).read_text())
    root = Path.cwd()
    measuring = coverage.Coverage(data_file=None, source=[str(root / "pyproducer")], config_file=False)
    measuring.start()
    contexts = _Contexts(measuring)
    only = ["-k", job["only"]] if job["only"] else []
    status = pytest.main([*arguments(), *only, *job["files"]], plugins=[contexts])
    measuring.stop()
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        return int(status)
    data = measuring.get_data()
    result = {file: contexts.of(file) for file in job["files"]}
    numbers = {f"{file}::{name}": (file, index) for file, found in result.items()
               for index, name in enumerate(found["tests"])}
    for path in data.measured_files():
        name = Path(path).relative_to(root).as_posix()
        for line, tests in data.contexts_by_lineno(path).items():
            by_file: dict[str, list[int]] = defaultdict(list)
            for test in tests:
                if test in numbers:
                    file, index = numbers[test]
                    by_file[file].append(index)
            for file, indices in by_file.items():
                result[file]["lines"].setdefault(name, {})[str(line)] = sorted(indices)
    Path(job["result"]).write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
