r"""What a pattern of RE2 says, as a tree: the syntax that Kafka's admin clients may use.

    literals  \Q...\E  .  [a-z] [^a] [[:alpha:]]  \d \s \w \pL \p{Lu}  ^ $ \A \z \b \B
    a|b  (a)  (?:a)  (?P<name>a)  (?i) (?m) (?s) (?-i:a)  a* a+ a? a{2} a{2,} a{2,5}, each lazy with a ? behind it

Road:    ListTransactions -> [pattern syntax] -> linear pattern
Thread:  pure.
Source:  RE2's syntax page and RE2/J, which Kafka uses. Omits: \C and Unicode scripts, which are refused; groups deeper
         than MOST_DEPTH.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_REPEATS = 1000
"""RE2's: the highest number in {n,m}."""
MOST_DEPTH = 100
MOST_ITEMS = 2_000
"""Characters, classes and places: each costs something however it is read. RE2's longest repetition fits twice."""

Test = Callable[[str], bool]
"""Whether one character is meant."""


class Char(NamedTuple):
    """One character, of those that pass a test."""

    test: Test


class Assertion(NamedTuple):
    r"""A place between two characters.

    Attributes:
        kind: "^" and "$" of the text, "(^" and "$)" of a line, "b" and "B" as in \b and \B.
    """

    kind: str


class Concatenation(NamedTuple):
    """One after the other."""

    items: tuple[Node, ...]


class Alternation(NamedTuple):
    """One of several."""

    items: tuple[Node, ...]


class Repeat(NamedTuple):
    """Something, at least and at most so often; None is without end."""

    item: Node
    least: int
    most: int | None


Node = Char | Assertion | Concatenation | Alternation | Repeat

_Range = tuple[str, str]
_COUNTS = re.compile(r"(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\}")
_SPECIAL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
_OCTAL = frozenset("01234567")
_WORD = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_LAST = "\U0010ffff"
_ANY: tuple[_Range, ...] = (("\0", _LAST),)
_ANY_BUT_NEWLINE: tuple[_Range, ...] = (("\0", "\t"), ("\v", _LAST))
# Perl's classes mean ASCII alone in RE2, and so do Posix'.
_PERL: dict[str, tuple[_Range, ...]] = {
    "d": (("0", "9"),), "s": (("\t", "\n"), ("\f", "\r"), (" ", " ")),
    "w": (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")),
}
_POSIX: dict[str, tuple[_Range, ...]] = {
    "alnum": (("0", "9"), ("A", "Z"), ("a", "z")), "alpha": (("A", "Z"), ("a", "z")), "ascii": (("\0", "\x7f"),),
    "blank": (("\t", "\t"), (" ", " ")), "cntrl": (("\0", "\x1f"), ("\x7f", "\x7f")), "digit": (("0", "9"),),
    "graph": (("!", "~"),), "lower": (("a", "z"),), "print": ((" ", "~"),),
    "punct": (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")), "space": (("\t", "\r"), (" ", " ")),
    "upper": (("A", "Z"),), "word": _PERL["w"], "xdigit": (("0", "9"), ("A", "F"), ("a", "f")),
}
_CATEGORIES = frozenset((
    "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P",
    "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs"))


def is_word(character: str) -> bool:
    r"""Whether \w and \b count a character to a word."""
    return character in _WORD


@dataclass
class _Flags:
    ignores_case: bool = False
    is_multi_line: bool = False
    dot_is_all: bool = False


@dataclass
class _Group:
    """What was read since an open parenthesis."""

    flags: _Flags  # what counts again behind it
    alternatives: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    def end_alternative(self) -> None:
        self.alternatives.append(Concatenation(tuple(self.items)))
        self.items = []

    def whole(self) -> Node:
        self.end_alternative()
        return self.alternatives[0] if len(self.alternatives) == 1 else Alternation(tuple(self.alternatives))


def parse_pattern(pattern: str) -> Node:
    """Return what a pattern says.

    Raises:
        ValueError: It is none of RE2, or has what is not known here.
    """
    return _Parser(pattern).parse()


class _Parser:
    """Reads one pattern from left to right; groups lie on a stack, so that no depth of them can exhaust Python's."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._flags = _Flags()
        self._groups: list[_Group] = [_Group(self._flags)]
        self._names: set[str] = set()
        self._items_left = MOST_ITEMS

    def _fail(self, why: str) -> ValueError:
        return ValueError(f"{why} at character {self._position}")

    @property
    def _has_more(self) -> bool:
        return self._position < len(self._pattern)

    def _looks_at(self, text: str) -> bool:
        return self._pattern.startswith(text, self._position)

    def _take(self) -> str:
        if not self._has_more:
            raise self._fail("the pattern ends too early")
        self._position += 1
        return self._pattern[self._position - 1]

    def _take_until(self, end: str) -> str:
        found = self._pattern.find(end, self._position)
        if found < 0:
            raise self._fail(f"{end} is missing")
        text = self._pattern[self._position:found]
        self._position = found + len(end)
        return text

    # ---- the pattern

    def parse(self) -> Node:
        while self._has_more:
            self._next()
        if len(self._groups) > 1:
            raise self._fail("a ) is missing")
        return self._groups[0].whole()

    def _add(self, node: Node) -> None:
        self._items_left -= 1
        if self._items_left < 0:
            raise self._fail(f"there are more than {MOST_ITEMS} items")
        self._groups[-1].items.append(node)

    def _next(self) -> None:
        character = self._take()
        if character == "|":
            self._groups[-1].end_alternative()
        elif character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character in "*+?":
            self._repeat(*{"*": (0, None), "+": (1, None), "?": (0, 1)}[character])
        elif character == "{":
            counts = self._counts()
            if counts is None:
                self._add(self._literal("{"))
            else:
                self._repeat(*counts)
        elif character == "[":
            self._add(self._class())
        elif character == ".":
            self._add(Char(_Class(_ANY if self._flags.dot_is_all else _ANY_BUT_NEWLINE).test()))
        elif character in "^$":
            line = {"^": "(^", "$": "$)"}[character]
            self._add(Assertion(line if self._flags.is_multi_line else character))
        elif character == "\\":
            self._escape()
        else:
            self._add(self._literal(character))

    def _literal(self, character: str) -> Char:
        return self._char(_Class([(character, character)]))

    def _char(self, characters: _Class) -> Char:
        test = characters.test()
        return Char(_folded(test) if self._flags.ignores_case else test)

    # ---- groups

    def _open(self) -> None:
        outer = self._flags
        if self._looks_at("?"):
            self._position += 1
            if not self._open_special():
                return  # only flags, which are set
        if len(self._groups) > MOST_DEPTH:
            raise self._fail(f"groups are deeper than {MOST_DEPTH}")
        self._groups.append(_Group(outer))

    def _open_special(self) -> bool:
        """Read what follows `(?`; return whether a group begins."""
        for opening in ("P<", "<"):
            if self._looks_at(opening):
                self._position += len(opening)
                name = self._take_until(">")
                if not name or not set(name) <= _WORD or name in self._names:
                    raise self._fail("this is no name of a group, or that of another one")
                self._names.add(name)
                return True
        flags = _Flags(self._flags.ignores_case, self._flags.is_multi_line, self._flags.dot_is_all)
        is_on = True
        has_flag = False
        while (character := self._take()) not in ":)":
            if character == "-" and is_on:
                is_on, has_flag = False, False
                continue
            if character == "i":
                flags.ignores_case = is_on
            elif character == "m":
                flags.is_multi_line = is_on
            elif character == "s":
                flags.dot_is_all = is_on
            elif character != "U":  # lazy or greedy: the same where the whole must match
                raise self._fail("RE2 knows no such group")
            has_flag = True
        if not is_on and not has_flag:
            raise self._fail("a flag is missing")
        self._flags = flags
        return character == ":"

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise self._fail("there is a ) without its (")
        group = self._groups.pop()
        self._flags = group.flags
        self._add(group.whole())

    # ---- repetitions

    def _counts(self) -> tuple[int, int | None] | None:
        """Read what follows `{`; None, and nothing is read, where it is no repetition."""
        found = _COUNTS.match(self._pattern, self._position)
        if found is None:
            return None
        self._position = found.end()
        if any(len(text or "") > len(str(MOST_REPEATS)) for text in found.groups()):
            raise self._fail(f"something is repeated more than {MOST_REPEATS} times")
        least = int(found["least"])
        most = least if found["most"] is None else int(found["most"]) if found["most"] else None
        if max(least, most or 0) > MOST_REPEATS:
            raise self._fail(f"something is repeated more than {MOST_REPEATS} times")
        if most is not None and most < least:
            raise self._fail("something is repeated less than its least")
        return least, most

    def _repeat(self, least: int, most: int | None) -> None:
        items = self._groups[-1].items
        if not items or isinstance(items[-1], Repeat):
            raise self._fail("there is nothing to repeat")
        if self._looks_at("?"):  # lazy or greedy: the same where the whole must match
            self._position += 1
        items[-1] = Repeat(items[-1], least, most)

    # ---- escapes

    def _escape(self) -> None:
        character = self._take()
        if character in "AzbB":
            self._add(Assertion({"A": "^", "z": "$"}.get(character, character)))
        elif character == "Q":
            end = self._pattern.find("\\E", self._position)
            text = self._pattern[self._position:end if end >= 0 else None]
            self._position = len(self._pattern) if end < 0 else end + 2
            for literal in text:
                self._add(self._literal(literal))
        elif character == "E":
            pass  # of no \Q: nothing, as in RE2
        else:
            found = self._escaped_class(character)
            self._add(self._char(found) if found else self._literal(self._escaped(character)))

    def _escaped_class(self, character: str) -> _Class | None:
        r"""Return what \d, \pL and their like mean, or None where it is a single character."""
        if character.lower() in _PERL:
            ranges = _PERL[character.lower()]
            return _Class(_complement(ranges) if character.isupper() else ranges)
        if character not in "pP":
            return None
        name = self._take()
        if name == "{":
            name = self._take_until("}")
        is_negated = name.startswith("^") != (character == "P")
        name = name.removeprefix("^")
        if name == "Any":
            return _Class(() if is_negated else _ANY)
        if name not in _CATEGORIES:
            raise self._fail("this class of Unicode is not known here")
        return _Class((), [(name, is_negated)])

    def _escaped(self, character: str) -> str:
        if character in _PUNCTUATION:
            return character
        if character in _SPECIAL:
            return _SPECIAL[character]
        if character in _OCTAL and (character == "0" or (self._has_more and self._pattern[self._position] in _OCTAL)):
            digits = character
            while len(digits) < 3 and self._has_more and self._pattern[self._position] in _OCTAL:
                digits += self._take()
            return chr(int(digits, 8))
        if character == "x":
            digits = self._take()
            digits = self._take_until("}") if digits == "{" else digits + self._take()
            if digits and len(digits) <= 8 and set(digits) <= _HEXADECIMAL and int(digits, 16) <= 0x10FFFF:
                return chr(int(digits, 16))
        raise self._fail("this is no escape of RE2")

    # ---- classes of characters

    def _class(self) -> Char:
        """Read what follows `[`."""
        is_negated = self._looks_at("^")
        self._position += is_negated
        found = _Class()
        is_first = True
        while is_first or not self._looks_at("]"):
            is_first = False
            if self._looks_at("[:"):
                self._position += 2
                name = self._take_until(":]")
                ranges = _POSIX.get(name.removeprefix("^"))
                if ranges is None:
                    raise self._fail("RE2 knows no such class of characters")
                found.add(_Class(_complement(ranges) if name.startswith("^") else ranges))
                continue
            first = self._take()
            if first == "\\":
                first = self._take()
                escaped = self._escaped_class(first)
                if escaped is not None:
                    found.add(escaped)
                    continue
                first = self._escaped(first)
            last = first
            if self._looks_at("-") and not self._looks_at("-]"):
                self._position += 1
                last = self._take()
                if last == "\\":
                    last = self._escaped(self._take())
                if last < first:
                    raise self._fail("this range of characters ends before it begins")
            found.ranges.append((first, last))
        self._position += 1
        char = self._char(found)
        return Char(_negated(char.test)) if is_negated else char


# ---- tests of characters

class _Class:
    """Which characters are meant: some ranges of them, and some of Unicode's categories, or all but those.

    A test costs the same whatever was written: ranges are merged, and there are few categories.
    """

    def __init__(self, ranges: Iterable[_Range] = (), categories: Iterable[tuple[str, bool]] = ()) -> None:
        self.ranges: list[_Range] = list(ranges)
        self.categories: set[tuple[str, bool]] = set(categories)  # name, and whether all but it are meant

    def add(self, other: _Class) -> None:
        self.ranges += other.ranges
        self.categories |= other.categories

    def test(self) -> Test:
        ranges = _merged(self.ranges)
        firsts, lasts = [first for first, _ in ranges], [last for _, last in ranges]
        categories = tuple(self.categories)

        def is_meant(character: str) -> bool:
            at = bisect_right(firsts, character) - 1
            if at >= 0 and character <= lasts[at]:
                return True
            if not categories:
                return False
            found = unicodedata.category(character)
            return any(found.startswith(name) != is_negated for name, is_negated in categories)

        return is_meant


def _merged(ranges: Iterable[_Range]) -> list[_Range]:
    """Return the same characters in ranges that do not overlap, in order."""
    found: list[_Range] = []
    for first, last in sorted(ranges):
        if found and ord(first) <= ord(found[-1][1]) + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def _complement(ranges: Iterable[_Range]) -> list[_Range]:
    found: list[_Range] = []
    begin = 0
    for first, last in _merged(ranges):
        if begin < ord(first):
            found.append((chr(begin), chr(ord(first) - 1)))
        begin = ord(last) + 1
    return [*found, (chr(begin), _LAST)] if begin <= ord(_LAST) else found


def _negated(test: Test) -> Test:
    return lambda character: not test(character)


def _folded(test: Test) -> Test:
    def is_meant(character: str) -> bool:
        return test(character) or any(
            len(other) == 1 and test(other) for other in (character.lower(), character.upper()))
    return is_meant
