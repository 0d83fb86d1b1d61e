"""What is printed of verdicts, and what is written for other programs.

Road:    verdicts -> [report] -> stdout, JSON lines
Source:  ours.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.mutants.mutant import Mutant
from tests.mutants.run import EQUIVALENT, HUNG, KILLED, UNNOTICED, VERDICTS, Verdict


def as_row(verdict: Verdict, source: str) -> dict[str, Any]:
    """Return a verdict as what a line of the report file holds."""
    mutant = verdict.mutant
    old, new = mutant.changed_lines(source)
    return {"id": mutant.mutant_id, "outcome": verdict.outcome, "path": mutant.path, "line": mutant.line,
            "function": mutant.function, "operator": mutant.operator, "old": old, "new": new, "why": mutant.why,
            "diff": mutant.diff(source), "covering": verdict.covering, "test": verdict.test,
            "message": verdict.message, "seconds": verdict.seconds, "cpu_s": verdict.cpu_s, "seeds": verdict.seeds,
            "flakes": list(verdict.flakes)}


def write_row(file: Path, verdict: Verdict, source: str) -> None:
    """Add a verdict to the report file."""
    with file.open("a") as lines:
        lines.write(json.dumps(as_row(verdict, source)) + "\n")


def read_rows(file: Path, mutants: Sequence[Mutant], sources: Mapping[str, str]) -> list[Verdict]:
    """Return the verdicts that a report file has of these mutants; one whose lines were edited since has none."""
    by_key = {(mutant.mutant_id, *mutant.changed_lines(sources[mutant.path])): mutant for mutant in mutants}
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    found: dict[str, Verdict] = {}
    for row in rows:
        mutant = by_key.get((row["id"], row["old"], row["new"]))
        if mutant is not None and row["outcome"] != EQUIVALENT:  # which is asked again: it costs nothing
            found[mutant.mutant_id] = Verdict(
                mutant, row["outcome"], row["covering"], row["test"], row["message"], row["seconds"], row["cpu_s"],
                row["seeds"], tuple(row["flakes"]))
    return list(found.values())


def describe(verdict: Verdict, source: str) -> str:
    """Return a mutant that nobody noticed, with its diff; or one that is no bug, with the reason."""
    mutant = verdict.mutant
    head = f"{verdict.outcome}: {mutant.mutant_id}   in {mutant.function}"
    if verdict.outcome == EQUIVALENT:
        return f"{head}\n    because {verdict.message}"
    judges = "seeds" if verdict.seeds else "tests"
    tests = f"{verdict.covering} covering {judges} passed" if verdict.covering else f"no {judges[:-1]} runs this line"
    if verdict.outcome == HUNG:
        tests = f"{verdict.test} was ended, twice"
    why = f"\n    {mutant.why}" if mutant.why else ""
    return f"{head}: {tests}{why}\n" + "\n".join("    " + line for line in mutant.diff(source).splitlines())


def one_line(verdict: Verdict) -> str:
    """Return a verdict in one line, for who watches."""
    by = f" by {verdict.test}" if verdict.test else ""
    flakes = f", not by {len(verdict.flakes)} that failed once" if verdict.flakes else ""
    return f"{verdict.outcome:11} {verdict.cpu_s:6.1f} CPU s  {verdict.mutant.mutant_id}{by}{flakes}"


def totals(verdicts: Sequence[Verdict]) -> str:
    """Return the counts and the share of real bugs that were noticed."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    real = len(verdicts) - counts[EQUIVALENT]
    share = f"; {100 * counts[KILLED] / real:.1f} % of {real} noticed" if real else ""
    hung = f", {100 * counts[HUNG] / real:.1f} % hung, which is neither" if real and counts[HUNG] else ""
    cpu_s = statistics.fmean(verdict.cpu_s for verdict in verdicts) if verdicts else 0.0
    return (", ".join(f"{counts[outcome]} {outcome}" for outcome in VERDICTS) + share + hung
            + f"; {cpu_s:.1f} CPU seconds for each")


def score(verdicts: Sequence[Verdict]) -> str:
    """Return how many the simulation found, how many seeds that took, and a line for each of the others."""
    real = [verdict for verdict in verdicts if verdict.outcome != EQUIVALENT]
    found = [verdict for verdict in real if verdict.outcome == KILLED]
    median = f", by {statistics.median(verdict.seeds for verdict in found):g} seeds in the middle" if found else ""
    lines = [f"    {verdict.outcome:11} {verdict.mutant.mutant_id}" for verdict in real if verdict.outcome != KILLED]
    return "\n".join([f"found {len(found)} of {len(real)}{median}", *lines])


def unnoticed(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the mutants that the tests let pass."""
    return [verdict for verdict in verdicts if verdict.outcome in UNNOTICED]
