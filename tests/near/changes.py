"""What an edit changed: lines of files, and the statements and functions that they belong to.

Road:    git diff, git ls-files -> [changes] -> choose
Shape:   lines are numbered from 1, in today's text. Of deleted lines those beside them stay.
Source:  ours; `git diff -U0`.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.drift import is_code

HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
COMPILED_NAME = re.compile(r"\s*(?:cp?def|def)\b[^(=]*?(\w+)\s*\(")  # a function of Cython


class NoRepository(Exception):
    """There is nothing to compare with."""


@dataclass
class Change:
    """A file that is not what it was."""

    path: str
    lines: set[int] = field(default_factory=set)  # that are new or stand beside deleted ones
    is_gone: bool = False


@dataclass(frozen=True)
class Place:
    """Lines of one function that changed, with all of their statements."""

    path: str
    function: str  # qualified name; empty outside of functions
    lines: frozenset[int]
    names: frozenset[str] = frozenset()  # outside of functions: what is given a value there

    def __str__(self) -> str:
        lines = sorted(self.lines)
        return f"{self.path}:{lines[0]}" + (f" ({self.function})" if self.function else "")


def changes(root: Path, base: str) -> list[Change]:
    """Return what differs between a commit and the work tree; files that git does not know count as new.

    Raises:
        NoRepository: This is no work tree of git, or it has no such commit.
    """
    patch = _git(root, "diff", "-U0", "--no-renames", "--no-ext-diff", "--no-color", "--relative",
                 "--src-prefix=a/", "--dst-prefix=b/", base, "--")
    found = [change for part in re.split(r"^diff --git ", patch, flags=re.MULTILINE)[1:]
             if (change := _change_of(root, part)) is not None]
    for path in _git(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0"):
        if path:
            found.append(Change(path, set(range(1, len(_text(root / path).splitlines()) + 1))))
    return found


def merge_base(root: Path, ref: str) -> str:
    """Return where the work tree's branch left another.

    Raises:
        NoRepository: There is no such commit.
    """
    return _git(root, "merge-base", ref, "HEAD").strip()


def earlier(root: Path, count: int) -> str | None:
    """Return the commit so many before HEAD, or the first that is there; None when HEAD is the only one."""
    try:
        known = _git(root, "rev-list", "--first-parent", f"--max-count={count + 1}", "HEAD").split()
    except NoRepository:
        return None
    return known[-1] if len(known) > 1 else None


def places(path: str, text: str, lines: Collection[int]) -> list[Place]:
    """Return the functions of a Python file in which lines changed; comments, empty lines and docstrings do not count.

    Raises:
        SyntaxError: The file does not parse.
    """
    found: dict[str, set[int]] = {}
    names: set[str] = set()
    for function, those, named in _statements(ast.parse(text).body, "", text.splitlines(), set(lines)):
        found.setdefault(function, set()).update(those)
        names |= named
    return [Place(path, function, frozenset(those), frozenset(() if function else names))
            for function, those in found.items()]


def compiled_names(text: str, lines: Iterable[int]) -> set[str]:
    """Return the functions of Cython's text that lines lie in; an empty name for lines outside of any."""
    rows = text.splitlines()
    found = set()
    for line in lines:
        above = (COMPILED_NAME.match(row) for row in reversed(rows[:line]) if is_code(row))
        found.add(next((match[1] for match in above if match), ""))
    return found


def _change_of(root: Path, part: str) -> Change | None:
    head, _, hunks = part.partition("\n@@ ")
    is_gone = "\n+++ /dev/null" in head or "\ndeleted file mode" in head
    named = re.search(r"^--- a/(.*?)\t?$" if is_gone else r"^\+\+\+ b/(.*?)\t?$", head, re.MULTILINE)
    if named is None:  # no text: a binary file, an empty one, or another mode
        return Change(head.splitlines()[0].rpartition(" b/")[2], is_gone=is_gone)
    change = Change(named[1], is_gone=is_gone)
    rows = [] if is_gone else _text(root / change.path).splitlines()
    for old, begin, new in HUNK.findall("@@ " + hunks):
        start = int(begin)
        count = int(new or 1)
        change.lines.update(range(start, start + count))
        if old != "0" and not count:
            change.lines.update(_beside(rows, start))
    return change


def _beside(rows: Sequence[str], line: int) -> Iterator[int]:
    """Return the lines of code around a gap behind a line; what begins below it is not about what was there."""
    above = next((number for number in range(line, 0, -1) if is_code(rows[number - 1])), None)
    below = next((number for number in range(line + 1, len(rows) + 1) if is_code(rows[number - 1])), None)
    if above is not None:
        yield above
    if below is not None and (above is None or not re.match(r"\s*(@|def |class |async def )", rows[below - 1])):
        yield below


def _statements(body: Sequence[ast.stmt], function: str, rows: Sequence[str],
                lines: set[int]) -> Iterator[tuple[str, set[int], set[str]]]:
    """Return (function, lines, names outside of functions) of each statement that changed."""
    for statement in body:
        begin = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
        end = statement.end_lineno or begin
        changed = lines & set(range(begin, end + 1))
        if not changed or _is_text(statement):
            continue
        inner = [part for part in _bodies(statement) if part]
        within = {line for part in inner for line in range(part[0].lineno, (part[-1].end_lineno or 0) + 1)}
        head = {line for line in range(begin, end + 1) if line not in within and is_code(rows[line - 1])}
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{function}.{statement.name}".lstrip(".")
            if changed & head:  # its parameters or decorators: whoever calls it
                yield name, within, set()
            else:
                yield from _statements(statement.body, name, rows, changed)
        elif isinstance(statement, ast.ClassDef):
            if changed & head:
                yield "", head, {statement.name}
            yield from _inside_class(statement, function, rows, changed)
        elif inner:
            if changed & head:
                yield function, head & changed, set()
            for part in inner:
                yield from _statements(part, function, rows, changed)
        else:
            yield function, set(range(begin, end + 1)), set() if function else _targets(statement)


def _inside_class(statement: ast.ClassDef, function: str, rows: Sequence[str],
                  changed: set[int]) -> Iterator[tuple[str, set[int], set[str]]]:
    for each in statement.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            prefix = f"{function}.{statement.name}".lstrip(".")
            yield from _statements([each], prefix, rows, changed)
        else:
            for _, those, names in _statements([each], "", rows, changed):
                yield "", those, names or {statement.name}


def _bodies(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, ())
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _targets(statement: ast.stmt) -> set[str]:
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return {node.id for target in targets if target is not None for node in ast.walk(target)
            if isinstance(node, ast.Name)}


def _is_text(statement: ast.stmt) -> bool:
    return (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str))


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _git(root: Path, *arguments: str) -> str:
    try:
        ended = subprocess.run(["git", "-c", "core.quotePath=false", *arguments], cwd=root, capture_output=True,
                               text=True, errors="replace", check=False)
    except FileNotFoundError:
        raise NoRepository("git is not installed") from None
    if ended.returncode:
        raise NoRepository(ended.stderr.strip().partition("\n")[0])
    return ended.stdout
