"""Which lines of a text that was measured are those of today's text.

Road:    coverage_map -> [drift] -> lines as they were when a test was measured
Shape:   lines are numbered from 1. A line that is in both texts is itself; one that is new, or stands beside deleted
         ones, has those that it replaced and the nearest lines of code around them.
Source:  ours; difflib finds what both texts have.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class Drift:
    """What became of a text, line by line."""

    def __init__(self, then: str, now: str) -> None:
        self._then = then.splitlines()
        new = now.splitlines()
        same = _same_at_begin(self._then, new)
        end = _same_at_begin(self._then[same:][::-1], new[same:][::-1])
        between = difflib.SequenceMatcher(None, self._then[same:len(self._then) - end], new[same:len(new) - end],
                                          autojunk=False)
        self._same = {line: line for line in range(1, same + 1)}  # today's line -> the line then
        self._same |= {len(new) - offset: len(self._then) - offset for offset in range(end)}
        self._others: dict[int, set[int]] = {}
        self.gone: set[int] = set()  # lines then that are not there today, or have new ones in front of them
        for kind, old_from, old_to, new_from, new_to in between.get_opcodes():
            old = range(same + old_from + 1, same + old_to + 1)
            of_now = range(same + new_from + 1, same + new_to + 1)
            if kind == "equal":
                self._same |= dict(zip(of_now, old, strict=True))
                continue
            around = {*old, *self._code_around(old)}
            self.gone |= set(old) or {min(old.start, len(self._then))}
            # Whoever ran a deleted line is asked about the lines beside it, too.
            beside = of_now or (of_now.start - 1, of_now.start)
            for line in beside:
                self._others[line] = self._others.get(line, set()) | around

    def lines_then(self, lines: Iterable[int]) -> set[int]:
        """Return the lines that some of today's lines were, or took the place of."""
        found: set[int] = set()
        for line in lines:
            if line in self._same:
                found.add(self._same[line])
            found |= self._others.get(line, set())
        return found

    def _code_around(self, lines: range) -> Iterable[int]:
        for numbers in (range(lines.start - 1, 0, -1), range(lines.stop, len(self._then) + 1)):
            for number in numbers:
                if is_code(self._then[number - 1]):
                    yield number
                    break


def is_code(line: str) -> bool:
    """Whether a line is neither empty nor a comment."""
    return not line.isspace() and not line.lstrip().startswith("#") and line != ""


def _same_at_begin(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
