"""Mutants that no test can notice, because they change nothing that anybody can see; each with its reason.

Shape:   keyed by what stands in the file, not by line numbers: the file, the function, the changed lines before and
         after (runs of blanks are one). A row whose old lines are gone is stale; the unit test of this tool says so.
Source:  ours.
"""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """One mutant that is no bug."""

    path: str  # within the package
    function: str
    old: str
    new: str
    reason: str


EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent("broker/storage/segment.py", "LogSegment.headers",
               "if position + HEADER_SIZE_BYTES > chunk_start + len(chunk):", "if True:",
               "the file is read anew for every header: slower, but the same headers"),
    Equivalent("sender/turns.py", "SenderTurns.__init__", "self._seen_count = 0", "self._seen_count = (-1)",
               "a caller counts itself when it takes the role, so the first look finds another number either way"),
)


def reasons() -> dict[tuple[str, str, str, str], str]:
    """Return the reasons by what identifies a mutant."""
    return {(row.path, row.function, row.old, row.new): row.reason for row in EQUIVALENT}
