"""One planted bug: where it is, what it replaces, and how it looks.

Shape:   a mutant replaces `source[start:end]`; everything else stays as it is, so that it prints as a small diff.
Source:  ours.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

PACKAGE = "pyproducer"
MODULE = "<module>"


@dataclass(frozen=True)
class Mutant:
    """One planted bug."""

    path: str  # within the repository
    function: str  # qualified name; "<module>" outside of functions
    operator: str
    line: int
    column: int
    start: int
    end: int
    old: str
    new: str
    lines: tuple[int, ...]  # who runs one of these lines may notice
    why: str = ""  # what it breaks, where somebody knows

    @property
    def mutant_id(self) -> str:
        """Stable while the file is not edited: `sender/completion.py:98:5:drop-raise`."""
        return f"{self.path.removeprefix(PACKAGE + '/')}:{self.line}:{self.column}:{self.operator}"

    @property
    def is_at_import(self) -> bool:
        """Whether the line runs when the module is imported, so that no single test can be found for it."""
        return self.function == MODULE or not self.lines

    def apply(self, source: str) -> str:
        """Return the source with the bug in it."""
        if source[self.start:self.end] != self.old:
            raise ValueError(f"{self.mutant_id} is not a mutant of this text")
        return source[:self.start] + self.new + source[self.end:]

    def changed_lines(self, source: str) -> tuple[str, str]:
        """Return the lines that the bug touches, before and after, as one line each: what equivalent.py is keyed by."""
        first = source.rfind("\n", 0, self.start) + 1
        last = source.find("\n", self.end)
        last = len(source) if last < 0 else last
        after = source[first:self.start] + self.new + source[self.end:last]
        return _one_line(source[first:last]), _one_line(after)

    def diff(self, source: str) -> str:
        """Return the bug as a small diff."""
        lines = list(difflib.unified_diff(source.splitlines(), self.apply(source).splitlines(), self.path, self.path,
                                          f"in {self.function}", lineterm="", n=1))
        return "\n".join(lines[2:])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def within(path: str, source: str, old: str, new: str, name: str, why: str) -> Mutant:
    """Return a mutant given as text.

    Raises:
        ValueError: The old text is not there, or not once.
    """
    if source.count(old) != 1:
        raise ValueError(f"the kept mutant {name} no longer applies: its old text is {source.count(old)} times in "
                         f"{path}, not once")
    start = source.index(old)
    # From the first letter that differs: covering tests are those of the changed lines.
    differs = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(new))
    line = source.count("\n", 0, start + differs) + 1
    last = source.count("\n", 0, start + len(old)) + 1
    around = list(_names_around(ast.parse(source), line))
    is_inside = any(kind == "function" for kind, _ in around)
    return Mutant(path, ".".join(name for _, name in around) if is_inside else MODULE, name, line, 1, start,
                  start + len(old), old, new, tuple(range(line, max(line, last) + 1)) if is_inside else (), why)


def _names_around(node: ast.AST, line: int) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if child.lineno <= line <= (child.end_lineno or child.lineno):
                yield ("class" if isinstance(child, ast.ClassDef) else "function"), child.name
                yield from _names_around(child, line)
                return
        elif isinstance(child, ast.stmt) and child.lineno <= line <= (child.end_lineno or child.lineno):
            yield from _names_around(child, line)
