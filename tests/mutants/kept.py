"""The bugs that some version of the tests let pass, kept so that none does again.

Shape:   exact text, found once in its file; a row that no longer applies makes the tool fail loudly, because a mutant
         that silently vanishes would count as noticed.
Source:  ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.mutants.generate import PACKAGE, Mutant, within


class Kept(NamedTuple):
    """One bug."""

    name: str
    path: str  # within the package
    old: str
    new: str
    breaks: str


KEPT: tuple[Kept, ...] = ()


def mutants(root: Path, only: str = "") -> list[Mutant]:
    """Return the kept mutants.

    Raises:
        ValueError: One does not apply any more.
    """
    found = []
    for kept in KEPT:
        if kept.path.startswith(only):
            path = f"{PACKAGE}/{kept.path}"
            found.append(within(path, (root / path).read_text(), kept.old, kept.new, kept.name, kept.breaks))
    return found
