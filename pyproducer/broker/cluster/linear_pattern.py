"""Patterns that a client may send: matched in time in proportion to pattern and text, whatever they say.

Python's own matcher tries one way after the other and lets no other thread run meanwhile, so that 2^40 tries hold
every thread of the process. Here all ways are followed at once, one character after the other:

    pattern -> instructions -> the set of instructions that may come next -> character -> the next set ...

What a set becomes by a character is kept, so that most characters cost one look into a table.

Road:    ListTransactions -> [linear pattern]; transactional ids -> [linear pattern]
Thread:  one request's. It is all Python, so other threads have their turns.
Source:  Thompson's construction, as in RE2/J, which Kafka uses; where the whole must match, greedy and lazy are the
         same, and so nothing is remembered of how it matched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyproducer.broker.cluster.pattern_syntax import (
    MOST_ITEMS,
    Alternation,
    Assertion,
    Char,
    Node,
    Repeat,
    Test,
    is_word,
    parse_pattern,
)

MOST_INSTRUCTIONS = MOST_ITEMS
# What all texts of one request may cost: some seconds of one thread. A usual pattern costs one step for a character.
MOST_STEPS = 5_000_000
# Instructions in all sets that are kept, with what they become: some megabytes.
_MOST_KEPT = 100_000


class PatternTooCostlyError(Exception):
    """A pattern has cost more steps than one request may take."""


class _Accept(NamedTuple):
    """The text may end here."""


class _Read(NamedTuple):
    """A character that passes a test, then on to the next instruction."""

    test: Test


class _Check(NamedTuple):
    """No character: on to the next instruction where the place is such a one."""

    kind: str


class _Split(NamedTuple):
    """On to all of these."""

    targets: tuple[int, ...]


_Instruction = _Accept | _Read | _Check | _Split


class _State(NamedTuple):
    """What may come next, and what stands before it: two characters tell the assertions all."""

    positions: frozenset[int]
    before: str  # "" at the begin; else a letter, a newline or something else, each standing for its kind


class LinearPattern:
    """A pattern that the whole of a text must match.

    Args:
        pattern: In RE2's syntax.
        most_steps: What all calls of `matches` together may cost.

    Raises:
        ValueError: It is no pattern, or has more than MOST_INSTRUCTIONS.
    """

    def __init__(self, pattern: str, most_steps: int = MOST_STEPS) -> None:
        self._program = _compiled(parse_pattern(pattern))
        self._steps_left = most_steps
        self._kept: dict[tuple[_State, str], _State] = {}
        self._kept_size = 0

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches.

        Raises:
            PatternTooCostlyError: All texts together cost too much.
        """
        state = _State(frozenset((0,)), "")
        for character in text:
            key = state, character
            following = self._kept.get(key)
            if following is None:
                following = self._step(state, character)
                self._keep(key, following)
            self._pay(1)
            if not following.positions:
                return False
            state = following
        return any(isinstance(self._program[position], _Accept)
                   for position in self._reachable(state.positions, state.before, ""))

    def _step(self, state: _State, character: str) -> _State:
        program = self._program
        reached = set()
        for position in self._reachable(state.positions, state.before, character):
            instruction = program[position]
            if isinstance(instruction, _Read) and instruction.test(character):
                reached.add(position + 1)
        return _State(frozenset(reached), "\n" if character == "\n" else "a" if is_word(character) else " ")

    def _reachable(self, positions: Iterable[int], before: str, after: str) -> set[int]:
        """Return where one may be without reading a character; `before` and `after` are "" at the text's ends."""
        program = self._program
        found = set(positions)
        left = list(found)
        while left:
            position = left.pop()
            instruction = program[position]
            if isinstance(instruction, _Split):
                targets: tuple[int, ...] = instruction.targets
            elif isinstance(instruction, _Check) and _holds(instruction.kind, before, after):
                targets = (position + 1,)
            else:
                continue
            for target in targets:
                if target not in found:
                    found.add(target)
                    left.append(target)
        self._pay(len(found))
        return found

    def _keep(self, key: tuple[_State, str], following: _State) -> None:
        self._kept_size += len(following.positions) + 1
        if self._kept_size > _MOST_KEPT:
            self._kept.clear()
            self._kept_size = 0
        self._kept[key] = following

    def _pay(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise PatternTooCostlyError("the pattern takes too many steps for these texts")


def _holds(kind: str, before: str, after: str) -> bool:
    if kind == "^":
        return before == ""
    if kind == "$":
        return after == ""
    if kind == "(^":
        return before in ("", "\n")
    if kind == "$)":
        return after in ("", "\n")
    is_boundary = (before != "" and is_word(before)) != (after != "" and is_word(after))
    return is_boundary == (kind == "b")


def _compiled(tree: Node) -> list[_Instruction]:
    """Return the instructions of a tree; each goes on to the one behind it, unless it says another.

    Raises:
        ValueError: They are more than MOST_INSTRUCTIONS.
    """
    program: list[_Instruction] = []

    def emit(instruction: _Instruction) -> int:
        if len(program) >= MOST_INSTRUCTIONS:
            raise ValueError(f"the pattern has more than {MOST_INSTRUCTIONS} instructions")
        program.append(instruction)
        return len(program) - 1

    def add(node: Node) -> None:
        if isinstance(node, Char):
            emit(_Read(node.test))
        elif isinstance(node, Assertion):
            emit(_Check(node.kind))
        elif isinstance(node, Repeat):
            add_repeat(node)
        elif isinstance(node, Alternation):
            split = emit(_Split(()))
            starts, ends = [], []
            for item in node.items:
                starts.append(len(program))
                add(item)
                ends.append(emit(_Split(())))
            program[split] = _Split(tuple(starts))
            for end in ends:
                program[end] = _Split((len(program),))
        else:
            for item in node.items:
                add(item)

    def add_repeat(node: Repeat) -> None:
        for _ in range(node.least):
            begin = len(program)
            add(node.item)
            if len(program) == begin:
                break  # of nothing there is nothing more, however often
        if node.most is None:
            split = emit(_Split(()))
            add(node.item)
            emit(_Split((split,)))
            program[split] = _Split((split + 1, len(program)))
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(emit(_Split(())))
            add(node.item)
        for split in splits:
            program[split] = _Split((split + 1, len(program)))

    add(tree)
    emit(_Accept())
    return program
