"""Which patterns Python may match: those that take time in proportion, as all do in Java, whose matcher is RE2.

Python's matcher tries one way after the other, and no other thread runs meanwhile: (a+)+b against sixty letters holds
the whole process for ever.

Road:    ListTransactions -> [safe pattern]
Thread:  pure.
Source:  ours.
"""

from __future__ import annotations

import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as opcodes  # type: ignore[attr-defined]  # not public, and where patterns are parsed
    from re import _parser as parser  # type: ignore[attr-defined]
else:  # pragma: no cover - older Pythons
    import sre_constants as opcodes
    import sre_parse as parser

MOST_REPEATS = 3
# Steps that one match may take: a hundredth of a second.
MOST_STEPS = 4_000_000
_REPEATS = (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT)
# What RE2 does not know either: looks to the side, references to groups, conditions.
_UNKNOWN = (opcodes.ASSERT, opcodes.ASSERT_NOT, opcodes.GROUPREF, opcodes.GROUPREF_EXISTS)


class SafePattern:
    """A pattern that the whole of a text must match.

    Raises:
        ValueError: It is no pattern, or could be matched for ever.
    """

    def __init__(self, pattern: str) -> None:
        try:
            repeats = _repeats(parser.parse(pattern))
            self._pattern = re.compile(pattern, re.DOTALL)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"{pattern!r} is no pattern: {error}") from error
        if repeats > MOST_REPEATS:
            raise ValueError(f"{pattern!r} repeats {repeats} times something of any length")
        self._longest = len(pattern) + int(MOST_STEPS ** (1 / max(repeats, 1)))

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches; a text for which that could take too long does not."""
        return len(text) <= self._longest and self._pattern.fullmatch(text) is not None


def _repeats(items: Any) -> int:
    """Count what may match in more than one length.

    Raises:
        ValueError: One is in another, or a choice is repeated, or the pattern has what RE2 does not know.
    """
    count = 0
    for operation, argument in items:
        if operation in _UNKNOWN:
            raise ValueError("it looks to the side or back")
        if operation in _REPEATS:
            least, most, inner = argument
            inside = _repeats(inner)
            if most > 1 and (inside or _has_choice(inner)):
                raise ValueError("it repeats what has several ways to match")
            count += inside + (most != least)
        elif operation is opcodes.BRANCH:
            count += sum(_repeats(branch) for branch in argument[1])
        elif operation is opcodes.SUBPATTERN:
            count += _repeats(argument[-1])
        elif operation not in (opcodes.LITERAL, opcodes.NOT_LITERAL, opcodes.ANY, opcodes.IN, opcodes.AT):
            raise ValueError(f"{operation} is not known here")
    return count


def _has_choice(items: Any) -> bool:
    return any(operation is opcodes.BRANCH or (operation is opcodes.SUBPATTERN and _has_choice(argument[-1]))
               for operation, argument in items)
