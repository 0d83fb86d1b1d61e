"""Walks a source file, and knows the function and the statement that it is in.

Shape:   what tests are not asked to notice is left alone: docstrings, log calls, annotations, words of messages,
         __repr__, __slots__, TYPE_CHECKING blocks, asserts (they speak to the type checker), Protocols.
Source:  ours.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from tests.mutants.mutant import MODULE, Mutant

LOGGERS = frozenset({"log", "logger", "logging", "warnings"})
UNTESTED_FUNCTIONS = frozenset({"__repr__", "__str__"})
OPPOSITE_OUTCOMES = {"not_sent": "unknown", "unknown": "not_sent", "rejected": "unknown"}


class Finder(ast.NodeVisitor):
    """What finders of mutants share; `found` is what they found."""

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
        if node.name in UNTESTED_FUNCTIONS or is_stub(node.body):
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
        for statement in body[1:] if is_docstring(body[0]) else body:
            self.visit(statement)

    def visit_Module(self, node: ast.Module) -> None:
        if node.body:
            self._visit_body(node.body)

    def visit_Assert(self, node: ast.Assert) -> None:
        return

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        return

    visit_ImportFrom = visit_Import  # type: ignore[assignment]  # the same for both

    def visit_If(self, node: ast.If) -> None:
        for statement in node.orelse if _is_for_type_checkers(node) else ():
            self.visit(statement)
        if not _is_for_type_checkers(node):
            self.visit_real_if(node)

    def visit_real_if(self, node: ast.If) -> None:
        """Visit an if that is run."""
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant) and not is_log_call(node.value):
            self.visit_real_expression(node)

    def visit_real_expression(self, node: ast.Expr) -> None:
        """Visit a statement that is an expression, and no log call."""
        self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return


def _is_for_type_checkers(node: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.unparse(node.test)


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_stub(body: Sequence[ast.stmt]) -> bool:
    return all(is_docstring(statement) or isinstance(statement, ast.Pass) for statement in body)


def is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return is_text(node.left) or is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def is_outcome(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in OPPOSITE_OUTCOMES


def is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def function_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_log_call(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return isinstance(node.func.value, ast.Name) and node.func.value.id in LOGGERS


def is_log_statement(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and is_log_call(node.value)
