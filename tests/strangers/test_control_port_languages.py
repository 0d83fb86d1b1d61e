"""The examples in other languages (examples/control_port), each by its own test runner against our broker."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.http_broker import HttpBroker
from tests.support.patience import PROGRAM_S

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "control_port"
RUNNERS: dict[str, Sequence[Sequence[str]]] = {
    "go": (("go", "test", "-count=1", "./..."),),
    "java": (("mvn", "-q", "-B", "test"),),
    "node": (("npm", "install", "--no-audit", "--no-fund", "--no-package-lock"), ("npm", "test")),
}


@pytest.mark.soak  # each fetches what its language needs
@pytest.mark.parametrize("language", RUNNERS)
def test_example_when_its_runner_runs_it_then_it_passes_and_the_broker_saw_it(language: str, tmp_path: Path) -> None:
    folder = tmp_path / language
    shutil.copytree(EXAMPLES / language, folder)
    with HttpBroker(log_requests=True) as broker:
        for command in RUNNERS[language]:
            done = subprocess.run(command, cwd=folder, env={**os.environ, "CONTROL": f"http://{broker.control.address}"},
                                  capture_output=True, text=True, timeout=PROGRAM_S, check=False)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert len(broker.requests("Produce")) == 5, "four records, and one of them twice"
        assert broker.faults.unused() == []
