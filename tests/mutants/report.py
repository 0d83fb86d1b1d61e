"""What is printed of verdicts, and what is written for other programs.

Road:    verdicts -> [report] -> stdout, JSON lines
Source:  ours.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutants.run import EQUIVALENT, HUNG, KILLED, UNNOTICED, VERDICTS, Verdict


def as_row(verdict: Verdict, source: str) -> dict[str, Any]:
    """Return a verdict as what a line of the report file holds."""
    mutant = verdict.mutant
    old, new = mutant.changed_lines(source)
    return {"id": mutant.mutant_id, "outcome": verdict.outcome, "path": mutant.path, "line": mutant.line,
            "function": mutant.function, "operator": mutant.operator, "old": old, "new": new, "why": mutant.why,
            "diff": mutant.diff(source), "covering": verdict.covering, "test": verdict.test,
            "message": verdict.message, "seconds": verdict.seconds}


def write_row(file: Path, verdict: Verdict, source: str) -> None:
    """Add a verdict to the report file."""
    with file.open("a") as lines:
        lines.write(json.dumps(as_row(verdict, source)) + "\n")


def describe(verdict: Verdict, source: str) -> str:
    """Return a mutant that nobody noticed, with its diff; or one that is no bug, with the reason."""
    mutant = verdict.mutant
    head = f"{verdict.outcome}: {mutant.mutant_id}   in {mutant.function}"
    if verdict.outcome == EQUIVALENT:
        return f"{head}\n    because {verdict.message}"
    tests = f"{verdict.covering} covering tests passed" if verdict.covering else "no test runs this line"
    why = f"\n    {mutant.why}" if mutant.why else ""
    return f"{head}: {tests}{why}\n" + "\n".join("    " + line for line in mutant.diff(source).splitlines())


def one_line(verdict: Verdict) -> str:
    """Return a verdict in one line, for who watches."""
    by = f" by {verdict.test}" if verdict.test else ""
    return f"{verdict.outcome:11} {verdict.seconds:6.1f} s  {verdict.mutant.mutant_id}{by}"


def totals(verdicts: Sequence[Verdict]) -> str:
    """Return the counts and the share of real bugs that were noticed."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    noticed, real = counts[KILLED] + counts[HUNG], len(verdicts) - counts[EQUIVALENT]
    share = f"; {100 * noticed / real:.1f} % of {real} noticed" if real else ""
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in VERDICTS) + share


def unnoticed(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the mutants that the tests let pass."""
    return [verdict for verdict in verdicts if verdict.outcome in UNNOTICED]
