"""Mutants of the compiled twin: some twenty are built at once, each behind a switch, and one is on in each run.

Road:    *.pyx -> [lines, tokens] -> drawn mutants -> one build of them all -> [the twin's tests, PYPRODUCER_MUTANT=7]
Shape:   a mutant replaces one logical line. A statement stands in both branches of `if _mutant == 7`; a condition, or
         what a cdef declares, is a conditional expression. Headers of functions and loops, casts and declarations
         without a value are left alone.
Source:  ours. Cython is no part of the tests' environment: it is installed once, in .cache/mutants.
"""

from __future__ import annotations

import io
import os
import random
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants.coverage_map import NotGreen, environment
from tests.mutants.mutant import MODULE, PACKAGE, Mutant
from tests.mutants.run import Doubter, Verdict, Worker
from tests.mutants.score import CACHE

SWITCH = "PYPRODUCER_MUTANT"
MOST_OF_A_BUILD = 20
# What the compiled twin does is tested here; nobody knows which line of it a test runs.
TESTS = ("tests/unit/hotpath", "tests/unit/accumulator", "tests/unit/record", "tests/property/test_twins.py",
         "tests/property/test_columns.py", "tests/property/test_record.py", "tests/unit/producer")
TEST_S = 0.2  # what a test takes, about
LONGEST_TEST_S = 120.0  # those with drawn examples take seconds, on a loaded machine half a minute
BUILD_S = 1800.0

_OPPOSITES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "<<": ">>",
              ">>": "<<", "&": "|", "|": "&", "and": "or", "or": "and", "True": "False", "False": "True",
              "+=": "-=", "-=": "+="}
_BINARY = frozenset({"<", "<=", ">", ">=", "+", "-", "&", "|", "<<", ">>"})
_LEFT_ALONE = frozenset({"def", "cpdef", "class", "for", "with", "try", "else", "finally", "except", "raise", "import",
                         "from", "cimport", "ctypedef", "include", "pass", "global", "nonlocal", "assert", "@", "del",
                         "break", "continue", "DEF", "IF"})
_WORDS_BEFORE_OPERANDS = frozenset({"and", "or", "not", "in", "is", "if", "elif", "else", "while", "return", "yield",
                                    "lambda", "await"})
_FUNCTION = re.compile(r"(def|cpdef|cdef)\b[^=]*\(")
_DECLARATION = re.compile(r"cdef\s[^=(]*?(?<![=<>!])=(?!=)\s*")
_ASSIGNMENT = re.compile(r"[\w.\[\], ()+*-]+?\s*(?<![=<>!])=(?!=)\s*")


class Line(NamedTuple):
    """One logical line of a function."""

    function: str
    start: int  # where its first letter is
    end: int
    number: int
    tokens: list[tokenize.TokenInfo]
    text: str


def files(root: Path) -> list[str]:
    """Return the sources of the compiled twin."""
    return sorted(path.relative_to(root).as_posix() for path in (root / PACKAGE / "hotpath").glob("*.pyx"))


def draw(sources: Mapping[str, str], *, seed: int, count: int) -> list[Mutant]:
    """Draw mutants: each line alike, at most one of a line, every operator of a line alike."""
    tickets = []
    for path, source in sources.items():
        for line in lines(source):
            chance = random.Random(f"{seed} {path} {line.function} {line.text}")
            found = list(candidates(path, line))
            if found:
                tickets.append((chance.random(), path, line.start, chance.choice(found)))
    return [mutant for *_, mutant in sorted(tickets, key=lambda ticket: ticket[:3])[:count]]


def lines(source: str) -> Iterator[Line]:
    """Return the logical lines of functions."""
    starts = [0]
    for physical in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(physical))
    around: list[tuple[int, str, bool]] = []  # column, name, whether it is a function
    tokens: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            continue
        if token.type != tokenize.NEWLINE:
            tokens.append(token)
            continue
        if tokens:
            first, last = tokens[0], tokens[-1]
            start, end = starts[first.start[0] - 1] + first.start[1], starts[last.end[0] - 1] + last.end[1]
            text = source[start:end]
            while around and around[-1][0] >= first.start[1]:
                around.pop()
            if around and around[-1][2]:
                function = ".".join(name for _, name, _ in around)
                yield Line(function, start, end, first.start[0], tokens, text)
            if last.string == ":":
                is_function = _FUNCTION.match(text) is not None and "extern" not in text
                name = re.search(r"(\w+)\s*[(:]", text)
                if is_function or re.match(r"(cdef )?class\b", text):
                    around.append((first.start[1], name.group(1) if name else "", is_function))
        tokens = []


def candidates(path: str, line: Line) -> Iterator[Mutant]:
    """Return the mutants of a line."""
    tokens = line.tokens
    if tokens[0].string in _LEFT_ALONE or tokens[0].type == tokenize.STRING or (
            tokens[0].string == "cdef" and not _DECLARATION.match(line.text)):
        return
    if tokens[-1].string == ":" and tokens[0].string not in ("if", "elif", "while"):
        return
    is_compound = any(token.string == ":" for token in tokens[:-1]) and tokens[0].string in ("if", "elif", "while")
    if is_compound:
        return  # its body stands in the same line

    def mutant(operator: str, column: int, new: str) -> Mutant:
        return Mutant(path, line.function or MODULE, operator, line.number, column + 1, line.start, line.end, line.text,
                      new, (), "")

    for index, token in enumerate(tokens):
        at = _offset(line, token)
        after = at + len(token.string)
        old, new = token.string, _OPPOSITES.get(token.string)
        before = tokens[index - 1] if index else None
        if new is not None and not (old in _BINARY and (_is_in_cast(tokens, index) or not _is_operand(before))):
            yield mutant(f"{old}-{new}", at, line.text[:at] + new + line.text[after:])
        elif token.type == tokenize.NUMBER and re.fullmatch(r"\d+|0x[0-9a-fA-F]+", old):
            yield mutant("constant-plus", at, f"{line.text[:at]}{int(old, 0) + 1}{line.text[after:]}")
        elif old == "not" and index + 1 < len(tokens) and tokens[index + 1].string not in ("in", "None") and (
                before is None or before.string != "is"):
            yield mutant("drop-not", at, line.text[:at] + line.text[after:].lstrip())
        elif old == "is" and tokens[index + 1].string != "not":
            yield mutant("is-not", at, f"{line.text[:at]}is not{line.text[after:]}")
        elif old == "(" and _are_two_names(tokens[index + 1:index + 5]):
            one, other = tokens[index + 1], tokens[index + 3]
            begin, between = _offset(line, one), line.text[_offset(line, one) + len(one.string):_offset(line, other)]
            yield mutant("swap-arguments", begin, line.text[:begin] + other.string + between + one.string
                         + line.text[_offset(line, other) + len(other.string):])
    is_call = tokens[-1].string == ")" and "=" not in [token.string for token in tokens]
    is_item = any(token.string in ("+=", "-=", "|=", "&=") for token in tokens) or re.match(
        r"[\w.]+(\.\w+|\[[^=]*\])\s*=(?!=)", line.text) is not None
    if tokens[0].string not in ("if", "elif", "while", "cdef", "return") and (is_call or is_item):
        yield mutant("drop-statement", 0, "pass")


def _offset(line: Line, token: tokenize.TokenInfo) -> int:
    """Return where a token begins in the line's text."""
    row, column = token.start
    if row == line.number:
        return column - line.tokens[0].start[1]
    return [match.end() for match in re.finditer("\n", line.text)][row - line.number - 1] + column


def _is_operand(token: tokenize.TokenInfo | None) -> bool:
    return token is not None and (token.string in (")", "]") or token.type in (tokenize.NUMBER, tokenize.STRING) or (
        token.type == tokenize.NAME and token.string not in _WORDS_BEFORE_OPERANDS))


def _is_in_cast(tokens: Sequence[tokenize.TokenInfo], index: int) -> bool:
    """Whether a `>` ends a cast: what stands before its `<` is no operand."""
    for at in range(index - 1, -1, -1):
        if tokens[at].string == "<":
            return tokens[index].string == ">" and not _is_operand(tokens[at - 1] if at else None)
        if tokens[at].type != tokenize.NAME and tokens[at].string not in ("*", "."):
            return False
    return False


def _are_two_names(tokens: Sequence[tokenize.TokenInfo]) -> bool:
    return (len(tokens) == 4 and tokens[0].type == tokens[2].type == tokenize.NAME and tokens[1].string == ","
            and tokens[3].string in (",", ")") and tokens[0].string != tokens[2].string)


# Behind switches -----------------------------------------------------------------------------------------------------

def guarded(source: str, numbered: Mapping[int, Mutant]) -> str:
    """Return a source with all of its mutants in it, each behind its number; at most one of a line."""
    text = source
    for number, mutant in sorted(numbered.items(), key=lambda item: item[1].start, reverse=True):
        begin = source.rfind("\n", 0, mutant.start) + 1
        indent = source[begin:mutant.start]
        first = mutant.old.split(None, 1)[0]
        if first in ("if", "elif", "while"):
            old, new = (part.split(None, 1)[1].rstrip(":").rstrip() for part in (mutant.old, mutant.new))
            both = f"{first} (({new}) if _mutant == {number} else ({old})):"
        elif first == "cdef":
            head = _DECLARATION.match(mutant.old)
            assert head is not None
            both = (f"{head.group()}(({mutant.new[head.end():]}) if _mutant == {number} "
                    f"else ({mutant.old[head.end():]}))")
        else:
            both = f"if _mutant == {number}:\n{indent}    {mutant.new}\n{indent}else:\n{indent}    {mutant.old}"
        text = text[:mutant.start] + both + text[mutant.end:]
    # Before the first statement that is none of the directives in comments.
    place = re.search(r"^(from|import|cimport|cdef)\b", text, re.MULTILINE)
    assert place is not None
    switch = f'cdef int _mutant = int(__import__("os").environ.get("{SWITCH}", "0"))\n'
    return text[:place.start()] + switch + text[place.start():]


def build(copy: Path, builder: Path, numbered: Mapping[int, Mutant]) -> list[int]:
    """Build the twin with mutants in it; return the numbers of those that the compiler takes, and leave the rest out.

    Raises:
        NotGreen: It does not compile without them either.
    """
    sources = {path: (copy / path).read_text() for path in files(copy)}
    taken = dict(numbered)
    try:
        while True:
            for path, source in sources.items():
                mine = {number: mutant for number, mutant in taken.items() if mutant.path == path}
                (copy / path).write_text(guarded(source, mine) if mine else source)
            ended = subprocess.run(
                [sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=copy, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=BUILD_S, check=False,
                env=environment(copy) | {"PYPRODUCER_IMPL": "native", "PYTHONPATH": str(builder)})
            if ended.returncode == 0:
                return sorted(taken)
            refused = _refused(copy, ended.stdout, taken)
            if not refused:
                raise NotGreen(f"the compiled twin does not build:\n{ended.stdout[-3000:]}")
            for number in refused:
                del taken[number]
    finally:
        for path, source in sources.items():
            built = (copy / path).stat()
            (copy / path).write_text(source)
            os.utime(copy / path, ns=(built.st_atime_ns, built.st_mtime_ns))  # older than what was built of it


def _refused(copy: Path, said: str, taken: Mapping[int, Mutant]) -> set[int]:
    """Return the mutants that stand in the lines of which the compiler complains."""
    found = set()
    for path, row in re.findall(r"(pyproducer/hotpath/\w+\.pyx):(\d+):\d+: ", said):
        text = (copy / path).read_text().splitlines()
        # The number stands in the line, or where its block begins.
        for line in text[max(0, int(row) - 4):int(row)][::-1]:
            number = re.search(r"_mutant == (\d+)", line)
            if number is not None and int(number.group(1)) in taken:
                found.add(int(number.group(1)))
                break
    return found


def builder_of(root: Path) -> Path:
    """Return a folder with what pyproject.toml builds with; it is made once."""
    folder = root / CACHE / "builder"
    if not folder.exists():
        wanted = re.findall(r'"([^"]+)"', next(
            line for line in (root / "pyproject.toml").read_text().splitlines() if line.startswith("requires")))
        part = folder.with_suffix(".part")
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(part), *wanted], check=True)
        part.rename(folder)
    return folder


# Judging -------------------------------------------------------------------------------------------------------------

def run(mutants: Sequence[Mutant], root: Path, copy: Path, *, tell: Callable[[Verdict], None]) -> list[Verdict]:
    """Judge mutants of the compiled twin, a build for each twenty; what does not compile is left out.

    Raises:
        NotGreen: The twin's tests fail without any mutant.
    """
    builder = builder_of(root)
    doubter = Doubter()
    verdicts = []
    tests: list[str] = []
    for begin in range(0, len(mutants), MOST_OF_A_BUILD):
        numbered = dict(enumerate(mutants[begin:begin + MOST_OF_A_BUILD], 1))
        numbers = build(copy, builder, numbered)
        for number in sorted(set(numbered) - set(numbers)):
            print(f"does not compile: {numbered[number].mutant_id}", file=sys.stderr, flush=True)
        worker = Worker(copy, impl="native")
        try:
            ask = partial(_ask, worker)
            if not tests:
                tests = _tests(copy)
                result = ask(0, "", tests)
                if result["outcome"] != "passed":
                    raise NotGreen(f"{result['test']} {result['outcome']} without any mutant: {result['message']}")
            for number in numbers:
                verdict = doubter.judge(numbered[number], len(tests), [("", tests)], partial(ask, number),
                                        partial(ask, 0))
                verdicts.append(verdict)
                tell(verdict)
        finally:
            worker.close()
    return verdicts


def _ask(worker: Worker, number: int, _stage: str, tests: Sequence[str]) -> dict[str, Any]:
    return worker.run(tests, seconds=TEST_S * len(tests), timeout_s=LONGEST_TEST_S,
                      may_write_bytecode=True, environment={SWITCH: str(number)})


def _tests(copy: Path) -> list[str]:
    ended = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p",
                            "no:randomly", *TESTS], cwd=copy, stdout=subprocess.PIPE, text=True, check=False,
                           env=environment(copy) | {"PYPRODUCER_IMPL": "native"})
    return [line for line in ended.stdout.splitlines() if "::" in line]
