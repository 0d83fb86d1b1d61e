"""python -m tests.simulation --museum [NAME ...]: each planted bug, and how many seeds the simulation takes to find it.

Three ranges of seeds that have none in common are searched for each bug, from their beginnings; the median counts. What
found a bug must find nothing in the package as it is: else it is another bug that was found, and one of ours.

Source:  ours.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.simulation.museum import ROOT, Exhibit, exhibits, plant

RANGES = (0, 100_000, 200_000)
MOST_SEEDS = 1000
"""Searched of a range at most."""
MOST_MEDIAN = 500


class Find(NamedTuple):
    """What a search came to: how many seeds it took, the one that found, and what was wrong; no seed where none did."""

    seed_count: int
    seed: int | None
    wrong: str


class Visit(NamedTuple):
    """What became of one bug."""

    exhibit: Exhibit
    finds: tuple[Find, ...]
    false_alarms: tuple[int, ...]  # seeds that find something without the bug, too
    took_s: float

    @property
    def median(self) -> float:
        """How many seeds it takes; without end where that is more than were searched."""
        return statistics.median(find.seed_count if find.seed is not None else float("inf") for find in self.finds)

    @property
    def is_found(self) -> bool:
        """Whether it is found soon enough, and it is this bug that is found."""
        return self.median <= MOST_MEDIAN and not self.false_alarms


def search(directory: Path, first: int, seed_count: int) -> Find:
    """Run seeds on the package of a directory until one finds something.

    Raises:
        RuntimeError: The simulation itself ended.
    """
    command = [sys.executable, "-m", "tests.simulation", "--from", str(first), "--seeds", str(seed_count),
               "--jobs", "1", "--worker", "0", "--no-shrink"]
    environment = {**os.environ, "PYPRODUCER_IMPL": "python", "PYTHONHASHSEED": "0"}
    count = 0
    with subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        try:
            for text in worker.stdout:
                line = json.loads(text)
                if "seed" not in line:
                    return Find(count, None, "")
                count += 1
                if "wrong" in line:
                    return Find(count, line["seed"], line["wrong"][0])
        finally:
            worker.kill()
    raise RuntimeError(f"the simulation of {directory} ended behind {count} seeds from {first}")


def visit_one(exhibit: Exhibit, directory: Path, *, ranges: Sequence[int] = RANGES,
              most_seeds: int = MOST_SEEDS) -> Visit:
    """Search for one bug, planted in a directory."""
    began = time.monotonic()
    plant(exhibit, directory)
    finds = tuple(search(directory, first, most_seeds) for first in ranges)
    false_alarms = tuple(find.seed for find in finds if find.seed is not None and search(ROOT, find.seed, 1).wrong)
    return Visit(exhibit, finds, false_alarms, time.monotonic() - began)


def visit(names: Sequence[str], jobs: int, *, ranges: Sequence[int] = RANGES, most_seeds: int = MOST_SEEDS) -> int:
    """Search for all bugs, or those that are named by their beginnings; print a line for each.

    Returns:
        How many were not found, or not soon enough.
    """
    chosen = [exhibit for exhibit in exhibits() if not names or any(map(exhibit.name.startswith, names))]
    missed = 0
    with tempfile.TemporaryDirectory() as parent, ThreadPoolExecutor(jobs) as pool:
        def begin(exhibit: Exhibit) -> Visit:
            directory = Path(parent) / exhibit.name
            directory.mkdir()
            return visit_one(exhibit, directory, ranges=ranges, most_seeds=most_seeds)

        for visited in pool.map(begin, chosen):
            missed += not visited.is_found
            counts = ", ".join(str(find.seed_count) if find.seed is not None else f"> {find.seed_count}"
                               for find in visited.finds)
            wrong = next((find.wrong.splitlines()[0] for find in visited.finds if find.wrong), "nothing was found")
            alarm = f" FALSE ALARM of seeds {visited.false_alarms}" if visited.false_alarms else ""
            print(f"{'' if visited.is_found else 'MISSED '}{visited.exhibit.name}: {visited.median:g} seeds ({counts})"
                  f" in {visited.took_s:.0f} s: {wrong[:150]}{alarm}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} bugs were found")
    return missed
