r"""Patterns that a client may send: matched in time in proportion to the text, whatever they say.

    a  \.  \Qa.b\E  .  [a-z_] [^a]  \d \s \w \D \S \W   each also with * + or ? behind it

Python's own matcher tries one way after the other and lets no other thread run meanwhile: 2^40 tries hold every thread
of the process. Here all ways are followed at once, as the bits of one number, one character after the other.

Road:    ListTransactions -> [linear pattern]; transactional ids -> [linear pattern]
Thread:  one request's.
Source:  a part of RE2's syntax, which Kafka has the whole of. Omits: groups, alternatives, {n,m}, ^ and $, \b, flags,
         [:alpha:], \pL, and characters as numbers (\t, \x41); they are refused, and so are more than MOST_ITEMS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MOST_ITEMS = 1_000
"""Characters and ranges: each costs something for each character of a text that was not seen before."""

_TOKEN = re.compile(r"""
    \\Q (?P<quoted>.*?) (?:\\E|\Z)
    | \\ (?P<escaped>.)
    | \[ (?P<negated>\^|(?!\^)) (?P<set>(?:\]|[^\]\\]|\\.)(?:[^\]\\]|\\.)*) \]
    | (?P<repeat>[*+?]) \??  # lazy or not is the same where the whole must match
    | (?P<character>[^\\\[^$|(){])""", re.VERBOSE | re.DOTALL)
_RANGE = re.compile(r"(?P<low>\\?.)(?:-(?P<high>\\?.))?", re.DOTALL)
_CLASSES = {"d": ("09",), "s": ("\t\n", "\f\r", "  "), "w": ("09", "AZ", "__", "az")}


class _Item(NamedTuple):
    """One character: of one of these ranges, each a first and a last character; or of none of them."""

    ranges: tuple[str, ...]
    is_negated: bool = False


class LinearPattern:
    """A pattern that the whole of a text must match.

    Args:
        pattern: As above.

    Raises:
        ValueError: It is no such pattern, or has more than MOST_ITEMS.
    """

    def __init__(self, pattern: str) -> None:
        self._items: list[_Item] = []
        self._optional = self._repeated = 0  # bit n: item n may be left out; may come again
        is_repeatable = False
        size = 0
        for token in _tokens(pattern):
            repeat = token["repeat"]
            if repeat is None:
                added = _items(token)
                self._items += added
                size += sum(len(item.ranges) for item in added)
            elif not is_repeatable:
                raise ValueError(f"at character {token.start()}: {repeat} has nothing to repeat")
            else:
                last = 1 << len(self._items) - 1
                self._optional |= last if repeat in "*?" else 0
                self._repeated |= last if repeat in "*+" else 0
            is_repeatable = repeat is None and bool(self._items)
            if size > MOST_ITEMS:
                raise ValueError(f"at character {token.start()}: the pattern has more than {MOST_ITEMS} items")
        self._taken: dict[str, int] = {}  # by character: the items that it is one of

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        reached = self._with_left_out(1)
        for character in text:
            taken = self._taken.get(character)
            if taken is None:
                taken = 0
                for number, item in enumerate(self._items):
                    if any(part[0] <= character <= part[1] for part in item.ranges) is not item.is_negated:
                        taken |= 1 << number
                self._taken[character] = taken
            taken &= reached
            reached = self._with_left_out(taken << 1 | taken & self._repeated)
            if not reached:
                return False
        return bool(reached >> len(self._items))

    def _with_left_out(self, reached: int) -> int:
        """Add the items behind those that may be left out: the sum carries a bit through all that stand in a row."""
        return reached | (self._optional + (reached & self._optional) ^ self._optional)


def _tokens(pattern: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise ValueError(f"at character {position}: {pattern[position]} is not known here, or has no end")
        yield token
        position = token.end()


def _items(token: re.Match[str]) -> list[_Item]:
    if token["quoted"] is not None:
        return [_Item((character * 2,)) for character in token["quoted"]]
    if token["set"] is not None:
        if "[:" in token["set"]:
            raise ValueError(f"at character {token.start()}: [:names:] of classes are not known here")
        return [_Item(tuple(part for found in _RANGE.finditer(token["set"]) for part in _ranges(found)),
                      is_negated=bool(token["negated"]))]
    escaped = token["escaped"]
    if escaped is not None:
        return [_Item(_escaped(escaped.lower() if escaped in "DSW" else escaped), is_negated=escaped in "DSW")]
    return [_Item(("\n\n",), is_negated=True) if token["character"] == "." else _Item((token["character"] * 2,))]


def _ranges(found: re.Match[str]) -> tuple[str, ...]:
    """Return the ranges of a part of a set: of a character, of a class, or from one character to another."""
    low, high = (_escaped(end[1:]) if end[:1] == "\\" else (end * 2,) for end in (found["low"], found["high"] or ""))
    if not found["high"]:
        return low
    if len({*low, *high}) > 2 or low[0][0] != low[0][1] or high[0][0] != high[0][1] or low[0] > high[0]:
        raise ValueError(f"{found[0]} is no range of characters")
    return (low[0][0] + high[0][0],)


def _escaped(character: str) -> tuple[str, ...]:
    if character in _CLASSES:
        return _CLASSES[character]
    if character.isalnum() and character.isascii():
        raise ValueError(f"\\{character} is not known here")
    return (character * 2,)
