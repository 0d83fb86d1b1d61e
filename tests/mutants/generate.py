"""Mutants of a source file: one place is changed, and the file still parses.

Road:    source text -> [candidates] -> [draw] -> run
Shape:   a mutant replaces `source[start:end]`; everything else stays as it is, so that it prints as a small diff.
         What tests are not asked to notice is left alone: docstrings, log calls, annotations, words of messages,
         __repr__, __slots__, TYPE_CHECKING blocks, asserts (they speak to the type checker).
Source:  ours.
"""

from __future__ import annotations

import ast
import difflib
import random
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

PACKAGE = "pyproducer"
TARGETS = ("accumulator", "sender", "client", "transaction", "producer", "broker/storage", "common/settings",
           "hotpath/_python.py", "hotpath/_python_columns.py")
MODULE = "<module>"

LINES_PER_MUTANT = 10  # a function of so many lines is drawn once more
MOST_OF_A_FUNCTION = 4

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[tuple[str, str], ...]]] = {
    ast.Lt: ("<", (("lt-le", "<="), ("lt-ge", ">="))),
    ast.LtE: ("<=", (("le-lt", "<"), ("le-gt", ">"))),
    ast.Gt: (">", (("gt-ge", ">="), ("gt-le", "<="))),
    ast.GtE: (">=", (("ge-gt", ">"), ("ge-lt", "<"))),
    ast.Eq: ("==", (("eq-ne", "!="),)),
    ast.NotEq: ("!=", (("ne-eq", "=="),)),
    ast.Is: ("is", (("is-not", "is not"),)),
    ast.IsNot: ("is not", (("not-is", "is"),)),
    ast.In: ("in", (("in-not", "not in"),)),
    ast.NotIn: ("not in", (("not-in", "in"),)),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
}
OPPOSITE_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
OPPOSITE_OUTCOMES = {"not_sent": "unknown", "unknown": "not_sent", "rejected": "unknown"}
# Swapping the arguments of these says nothing about ours.
UNSWAPPED = frozenset({"cast", "isinstance", "issubclass", "getattr", "hasattr", "setattr", "TypeVar", "partial"})
LOGGERS = frozenset({"log", "logger", "logging", "warnings"})
UNTESTED_FUNCTIONS = frozenset({"__repr__", "__str__"})


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


def target_files(root: Path, only: str = "") -> list[str]:
    """Return the files to mutate, within the repository; `only` is a prefix of them within the package."""
    files: set[Path] = set()
    for target in TARGETS:
        place = root / PACKAGE / target
        files.update(place.rglob("*.py") if place.is_dir() else [place])
    names = sorted(path.relative_to(root).as_posix() for path in files)
    return [name for name in names if name.removeprefix(PACKAGE + "/").startswith(only)]


# Drawing -------------------------------------------------------------------------------------------------------------

def draw(sources: dict[str, str], *, seed: int, count: int) -> list[Mutant]:
    """Draw mutants: in proportion to the size of the code, at most a few of a function, every operator alike.

    Args:
        sources: Text by path.
        seed: The same seed gives the same mutants of the same text.
        count: How many; fewer come when there are no more.
    """
    tickets: list[_Ticket] = []
    for path in sorted(sources):
        by_function: dict[str, list[Mutant]] = {}
        for mutant in candidates(path, sources[path]):
            by_function.setdefault(mutant.function, []).append(mutant)
        for function, mutants in by_function.items():
            size = len({mutant.line for mutant in mutants})
            for turn in range(min(MOST_OF_A_FUNCTION, 1 + size // LINES_PER_MUTANT)):
                # Chance is each ticket's own, so that an edit of one function leaves what is drawn of the others.
                chance = random.Random(f"{seed} {path} {function} {turn}")
                tickets.append(_Ticket(chance.random() ** (2**turn / size), path, function, turn, chance, mutants))
    tickets.sort(key=lambda ticket: ticket[:4], reverse=True)
    drawn: list[Mutant] = []
    for ticket in tickets:
        if len(drawn) == count:
            break
        mutants = ticket.mutants
        if not mutants:
            continue
        operator = ticket.chance.choice(sorted({mutant.operator for mutant in mutants}))
        mutant = ticket.chance.choice([mutant for mutant in mutants if mutant.operator == operator])
        # One bug for each place: the others there say much the same.
        mutants[:] = [other for other in mutants if other.start != mutant.start]
        if _is_a_change(mutant, sources[mutant.path]):
            drawn.append(mutant)
    return drawn


class _Ticket(NamedTuple):
    """One chance of a function to be drawn: the highest come first, long functions are high more often."""

    height: float
    path: str
    function: str
    turn: int
    chance: random.Random
    mutants: list[Mutant]  # of the function; its tickets share them


def _is_a_change(mutant: Mutant, source: str) -> bool:
    try:
        mutated = ast.parse(mutant.apply(source))
    except SyntaxError:
        return False
    return ast.dump(mutated) != _dump(source)


@cache
def _dump(source: str) -> str:
    return ast.dump(ast.parse(source))


# Candidates ----------------------------------------------------------------------------------------------------------

def candidates(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its text."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda mutant: (mutant.start, mutant.end, mutant.operator, mutant.new))


class _Finder(ast.NodeVisitor):
    """Walks a file; knows the function and the statement that it is in."""

    def __init__(self, path: str, source: str) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._source = source
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._names: list[str] = []
        self._function_depth = 0
        self._lines: tuple[int, ...] = ()

    # Places.

    def _at(self, line: int, column: int) -> int:
        # ast counts bytes of UTF-8: sources are ASCII, which generate's own test makes sure of.
        return self._line_starts[line - 1] + column

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return (self._at(node.lineno, node.col_offset),
                self._at(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset))

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._source[start:end]

    def _add(self, operator: str, span: tuple[int, int], new: str, lines: Iterable[int] | None = None) -> None:
        start, end = span
        line = bisect_right(self._line_starts, start)
        is_inside = bool(self._function_depth)
        self.found.append(Mutant(
            self._path, ".".join(self._names) if is_inside else MODULE, operator, line,
            start - self._line_starts[line - 1] + 1, start, end, self._source[start:end], new,
            tuple(self._lines if lines is None else lines) if is_inside else ()))

    def _replace(self, operator: str, node: ast.expr | ast.stmt, new: str, lines: Iterable[int] | None = None) -> None:
        self._add(operator, self._span(node), new, lines)

    def _replace_between(self, operator: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Replace the operator that stands between two operands."""
        begin, end = self._span(left)[1], self._span(right)[0]
        pattern = r"\s+".join(map(re.escape, old.split()))
        if old[0].isalpha():
            pattern = rf"\b{pattern}\b"
        found = re.search(pattern, self._source[begin:end])
        if found is not None:
            self._add(operator, (begin + found.start(), begin + found.end()), new)

    # Statements.

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        before = self._lines
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        self._lines = tuple(range(node.lineno, max(last, node.lineno) + 1))
        super().visit(node)
        self._lines = before

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in UNTESTED_FUNCTIONS or _is_stub(node.body):
            return
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                lines, self._lines = self._lines, ()
                self.visit(default)
                self._lines = lines
        self._names.append(node.name)
        self._function_depth += 1
        self._visit_body(node.body)
        self._function_depth -= 1
        self._names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # the same for both

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any("Protocol" in ast.unparse(base) for base in node.bases):
            return
        self._names.append(node.name)
        depth, self._function_depth = self._function_depth, 0
        self._visit_body(node.body)
        self._function_depth = depth
        self._names.pop()

    def _visit_body(self, body: Sequence[ast.stmt]) -> None:
        for statement in body[1:] if _is_docstring(body[0]) else body:
            self.visit(statement)

    def visit_Module(self, node: ast.Module) -> None:
        if node.body:
            self._visit_body(node.body)

    def visit_Assert(self, node: ast.Assert) -> None:
        return

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        return

    visit_ImportFrom = visit_Import  # type: ignore[assignment]  # the same for both

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or _is_log_call(node.value):
            return
        if isinstance(node.value, ast.Call | ast.Await):
            self._drop(node)
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Name) and target.id.startswith("__") for target in node.targets):
            return
        if self._is_droppable(node.targets):
            self._drop(node)
        for target in node.targets:
            self.visit(target)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        if self._is_droppable([node.target]):
            self._drop(node)
        self.visit(node.value)

    def _is_droppable(self, targets: Sequence[ast.expr]) -> bool:
        # A name or a new object's attribute that is never set is noticed by whatever runs the line: no measure.
        return bool(self._function_depth and self._names[-1] != "__init__"
                    and not any(isinstance(target, ast.Name) for target in targets))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._drop(node)
        old_new = ARITHMETIC.get(type(node.op))
        if old_new is not None and not _is_text(node.value):
            old, new = old_new
            self._replace_between(f"augmented{_name_of(node.op)}", node.target, node.value, old + "=", new + "=")
        self.visit(node.target)
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._drop(node)

    def _drop(self, node: ast.stmt) -> None:
        if self._function_depth:
            self._replace("drop-statement", node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._replace("drop-return", node, "pass")
            return
        if _is_text(node.value) or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool)):
            self._replace("return-none", node.value, "None")
        self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replace("drop-raise", node, "pass")
        # The words of the error are not tested; what it says of the record is.
        if isinstance(node.exc, ast.Call):
            for keyword in node.exc.keywords:
                if not _is_text(keyword.value) or _is_outcome(keyword.value):
                    self.visit(keyword.value)

    def visit_Break(self, node: ast.Break) -> None:
        self._replace("break-continue", node, "continue")
        self._replace("drop-break", node, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace("continue-break", node, "break")
        self._replace("drop-continue", node, "pass")

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.orelse:
                self.visit(statement)
            return
        if not all(_is_log_statement(statement) for statement in node.body) or node.orelse:
            self._force(node.test, ("True", "False"))
            self.visit(node.test)
        for statement in [*node.body, *node.orelse]:
            self.visit(statement)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._force(node.test, ("False",))
            self.visit(node.test)
        for statement in [*node.body, *node.orelse]:
            self.visit(statement)

    def _force(self, test: ast.expr, values: Sequence[str]) -> None:
        for value in values:
            self._replace(f"condition-{value.lower()}", test, value)
        if not isinstance(test, ast.Compare) and not _is_not(test):
            self._replace("condition-negated", test, f"not ({self._text(test)})")

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if not all(isinstance(statement, ast.Pass) or _is_log_statement(statement) for statement in node.body):
            start, end = self._span(node.body[0])[0], self._span(node.body[-1])[1]
            self._add("drop-except-body", (start, end), "pass", [node.body[0].lineno])
        for statement in node.body:
            self.visit(statement)

    def visit_Try(self, node: ast.Try) -> None:
        if node.finalbody:
            start, end = self._span(node.finalbody[0])[0], self._span(node.finalbody[-1])[1]
            self._add("drop-finally", (start, end), "pass", [node.finalbody[0].lineno])
        self.generic_visit(node)

    # Expressions.

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if _is_text(node.body) and _is_text(node.orelse):
            return
        self._force(node.test, ())
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._force(test, ("True",))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operation, right in zip(node.ops, node.comparators, strict=True):
            old, news = COMPARISONS[type(operation)]
            for name, new in news:
                self._replace_between(f"compare-{name}", left, right, old, new)
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            self._replace_between(f"{old}-{new}", left, right, old, new)
        for index, value in enumerate(node.values):
            # Its neutral value stands for it, so that parentheses stay as they are.
            self._replace(f"drop-{old}-{index + 1}", value, "True" if old == "and" else "False")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        old_new = ARITHMETIC.get(type(node.op))
        if old_new is not None and not _is_text(node.left) and not _is_text(node.right) and not (
                isinstance(node.op, ast.BitOr) and not self._function_depth):
            self._replace_between(f"arithmetic{_name_of(node.op)}", node.left, node.right, *old_new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace("drop-not", node, f"({self._text(node.operand)})")
        elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._replace("drop-minus", node, f"({self._text(node.operand)})")
        self.visit(node.operand)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace("bool", node, str(not value))
        elif isinstance(value, int | float):
            self._replace("constant-plus", node, f"{value + 1}")
            self._replace("constant-minus", node, f"({value - 1})" if value < 1 else f"{value - 1}")
        elif _is_outcome(node):
            self._replace("outcome", node, f'"{OPPOSITE_OUTCOMES[str(value)]}"')

    def visit_Call(self, node: ast.Call) -> None:
        if _is_log_call(node):
            return
        if isinstance(node.func, ast.Name) and node.func.id in OPPOSITE_CALLS:
            new = OPPOSITE_CALLS[node.func.id]
            self._replace(f"{node.func.id}-{new}", node.func, new)
        elif _function_name(node) not in UNSWAPPED:
            self._swap(node.args)
        self.generic_visit(node)

    def _swap(self, arguments: Sequence[ast.expr]) -> None:
        for index, (first, second) in enumerate(pairwise(arguments)):
            unlike = any(isinstance(argument, ast.Starred) or _is_text(argument) for argument in (first, second))
            one, other = self._text(first), self._text(second)
            if unlike or one == other:
                continue
            (start, first_end), (second_start, end) = self._span(first), self._span(second)
            self._add(f"swap-arguments-{index + 1}", (start, end),
                      other + self._source[first_end:second_start] + one)


def _name_of(operation: ast.operator) -> str:
    return f"-{type(operation).__name__.lower()}"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_stub(body: Sequence[ast.stmt]) -> bool:
    return all(_is_docstring(statement) or isinstance(statement, ast.Pass) for statement in body)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_outcome(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in OPPOSITE_OUTCOMES


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _function_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_log_call(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return isinstance(node.func.value, ast.Name) and node.func.value.id in LOGGERS


def _is_log_statement(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and _is_log_call(node.value)


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
