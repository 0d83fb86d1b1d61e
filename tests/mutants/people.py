"""Mutants as people make them: another word, a keyword that is not given, a lock that is not taken, another error.

Road:    source text -> [PeoplesFinder] -> generate
Shape:   a word is a text without blanks: the name of a setting, of a state, of an API, a key. Words of messages and of
         logs are none. It becomes the word of the same file that looks most like it, else it is misspelt.
         What fails wherever the line runs (a keyword that the function demands) is left alone: it is no measure.
Source:  ours.
"""

from __future__ import annotations

import ast
import builtins
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.mutants.mutant import PACKAGE
from tests.mutants.walk import Finder, function_name, is_log_call, is_text

WORD, MEMBER, KEYWORD, LOCK = "word", "member", "drop-keyword", "drop-lock"
RAISED, CAUGHT, CELL = "raise-class", "except-class", "table-cell"
PEOPLES = frozenset({WORD, MEMBER, KEYWORD, LOCK, RAISED, CAUGHT, CELL})

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*([._-][A-Za-z0-9]+)*")
_LOCK = re.compile(r"(lock|condition|mutex|not_full|_turn)$")
# Calls whose words name types or encodings, or make messages.
_WORDLESS = frozenset({"TypeVar", "NewType", "NamedTuple", "namedtuple", "cast", "encode", "decode", "getLogger",
                       "getattr", "hasattr", "setattr", "format", "warn"})
_TEXTS = frozenset({"help", "doc", "prog", "description", "epilog", "metavar", "usage"})  # the values are shown
# Another class that people take for one of Python's own; on the left what is caught or raised.
_CAUGHT = {
    "BaseException": "Exception", "Exception": "RuntimeError", "OSError": "ConnectionError", "ValueError": "TypeError",
    "TypeError": "ValueError", "KeyError": "IndexError", "IndexError": "KeyError", "AttributeError": "KeyError",
    "RuntimeError": "ValueError", "BlockingIOError": "InterruptedError", "InterruptedError": "BlockingIOError",
    "ImportError": "ModuleNotFoundError", "FileNotFoundError": "PermissionError", "LookupError": "KeyError",
    "ConnectionError": "ConnectionResetError", "TimeoutError": "BlockingIOError", "EOFError": "OSError",
    "UnicodeError": "UnicodeDecodeError", "UnicodeDecodeError": "UnicodeEncodeError",
    "ArithmeticError": "OverflowError",
    "UnicodeEncodeError": "UnicodeDecodeError", "OverflowError": "ValueError", "MemoryError": "OverflowError",
    "StopIteration": "IndexError", "RecursionError": "MemoryError", "NotImplementedError": "TypeError",
}
_RAISED = {**_CAUGHT, "OSError": "ValueError", "Exception": "ValueError", "BaseException": "Exception",
           "ImportError": "OSError", "ConnectionError": "TimeoutError", "TimeoutError": "OSError",
           "RecursionError": "RuntimeError", "StopIteration": "StopAsyncIteration"}


class Package:
    """What is known of all files together.

    Attributes:
        required: Parameters without a default, by the name of the function or class.
        bases: The names of a class's bases.
        members: The members of an enumeration, in their order.
    """

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        self.required: dict[str, set[str]] = {}
        self.bases: dict[str, tuple[str, ...]] = {}
        self.members: dict[str, Sequence[str]] = {}
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self._add_class(node)
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self.required.setdefault(node.name, set()).update(_required(node.args))

    def _add_class(self, node: ast.ClassDef) -> None:
        # Of two classes of one name those of both: in compat/ another client's KafkaError is no exception.
        # One that is made of another module's class of its name is no base of itself.
        above = [base for base in map(ast.unparse, node.bases) if base.rpartition(".")[2] != node.name]
        self.bases[node.name] = (*self.bases.get(node.name, ()), *above)
        if any(base.endswith(("Enum", "Flag")) for base in self.bases[node.name]):
            self.members[node.name] = [target.id for statement in node.body if isinstance(statement, ast.Assign)
                                       for target in statement.targets if isinstance(target, ast.Name)]
        required = self.required.setdefault(node.name, set())
        made_by = [statement for statement in node.body if isinstance(statement, ast.FunctionDef)
                   and statement.name in ("__init__", "__new__")]
        for function in made_by:
            required.update(_required(function.args))
        if not made_by:
            required.update(statement.target.id for statement in node.body if isinstance(statement, ast.AnnAssign)
                            and isinstance(statement.target, ast.Name) and statement.value is None)

    def is_error(self, name: str) -> bool:
        """Whether a name is that of an exception's class."""
        if name in self.bases:
            return any(self.is_error(base.rpartition(".")[2]) for base in self.bases[name])
        builtin = getattr(builtins, name, None)
        return isinstance(builtin, type) and issubclass(builtin, BaseException)

    def kinship(self, name: str, other: str) -> int:
        """How near two of our errors are: 0 the other is below, 1 beside, 2 above, 3 anything else."""
        if name in self.bases.get(other, ()):
            return 0
        if set(self.bases.get(name, ())) & set(self.bases.get(other, ())):
            return 1
        return 2 if other in self.bases.get(name, ()) else 3


@cache
def package() -> Package:
    """Return what is known of the package beside these tests."""
    root = Path(__file__).resolve().parents[2] / PACKAGE
    return Package([ast.parse(path.read_text()) for path in sorted(root.rglob("*.py"))])


def _required(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    yield from (each.arg for each in positional[:len(positional) - len(arguments.defaults)])
    yield from (each.arg for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
                if default is None)


class PeoplesFinder(Finder):
    """Finds what people get wrong."""

    def __init__(self, path: str, source: str, tree: ast.Module) -> None:
        super().__init__(path, source)
        self._package = package()
        self._words = sorted({node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)
                              and isinstance(node.value, str) and _WORD.fullmatch(node.value)})
        self._errors = sorted(name for name in _names_of(tree) if self._package.is_error(name))
        self._is_silent = 0  # inside of what is only said

    # Words.

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if self._is_silent or not isinstance(value, str) or len(value) < 2 or not _WORD.fullmatch(value):
            return
        if value in self._package.bases:
            return  # the name of a type, which type checkers read
        self._replace(WORD, node, f'"{self._other_word(value)}"')

    def _other_word(self, word: str) -> str:
        at = bisect_left(self._words, word)
        beside = [self._words[index] for index in (at - 1, at + 1) if 0 <= index < len(self._words)]
        alike = max(beside, key=lambda other: _common_length(word, other), default="")
        return alike if _common_length(word, alike) >= max(3, len(word) // 2) else word[:-1]

    def visit_Attribute(self, node: ast.Attribute) -> None:
        owner = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
        members = self._package.members.get(owner, ())
        if node.attr in members and len(members) > 1:
            at = members.index(node.attr)
            other = members[at + 1 if at + 1 < len(members) else at - 1]
            self._replace(MEMBER, node, f"{self._text(node.value)}.{other}")
            return
        self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not is_text(node):  # a message in the making
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Name) and target.id.startswith("__") for target in node.targets):
            return
        if not self._function_depth:
            self._find_cells(node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            if not self._function_depth:
                self._find_cells(node.value)
            self.visit(node.value)

    # Calls.

    def visit_Call(self, node: ast.Call) -> None:
        if is_log_call(node):
            return
        name = function_name(node)
        is_error = isinstance(node.func, ast.Name) and self._package.is_error(name)
        if isinstance(node.func, ast.Name) and is_error:
            self._other_raised(node.func)
        if name == "suppress":
            for argument in node.args:
                self._other_caught(argument)
        self._find_keywords(node, name)
        self.visit(node.func)
        is_silent = is_error or name in _WORDLESS
        self._is_silent += is_silent
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            self._is_silent += keyword.arg in _TEXTS
            self.visit(keyword.value)
            self._is_silent -= keyword.arg in _TEXTS
        self._is_silent -= is_silent

    def _find_keywords(self, node: ast.Call, name: str) -> None:
        required = self._package.required.get(name, set())
        given = sorted([*((self._span(argument), None) for argument in node.args),
                        *(((self._at(keyword.lineno, keyword.col_offset), self._span(keyword.value)[1]), keyword.arg)
                          for keyword in node.keywords)])
        for index, ((start, end), keyword) in enumerate(given):
            if keyword is None or keyword in required or keyword in _TEXTS:
                continue
            if index + 1 < len(given):
                end = given[index + 1][0][0]
            elif index:
                start = self._source.rindex(",", given[index - 1][0][1], start)
            self._add(KEYWORD, (start, end), "")

    # Errors.

    def visit_Raise(self, node: ast.Raise) -> None:
        if isinstance(node.exc, ast.Name) and self._package.is_error(node.exc.id):
            self._other_raised(node.exc)
        self._is_silent += 1
        self.generic_visit(node)
        self._is_silent -= 1

    def _other_raised(self, node: ast.Name) -> None:
        other = self._relative(node.id) or _RAISED.get(node.id)
        if other is not None:
            self._replace(RAISED, node, other)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        before, self._lines = self._lines, (node.lineno,)
        if isinstance(node.type, ast.Tuple):
            for index in range(len(node.type.elts)):
                left = [self._text(other) for at, other in enumerate(node.type.elts) if at != index]
                self._replace(CAUGHT, node.type, left[0] if len(left) == 1 else f"({', '.join(left)})")
        elif node.type is not None:
            self._other_caught(node.type)
        self._lines = before
        for statement in node.body:
            self.visit(statement)

    def _other_caught(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            other = self._relative(node.id) or _CAUGHT.get(node.id) or "ValueError"
            self._replace(CAUGHT, node, other)

    def _relative(self, name: str) -> str | None:
        """Return the error of this file that is nearest to one of ours."""
        if name not in self._package.bases:
            return None
        others = [other for other in self._errors if other != name and other in self._package.bases]
        return min(others, key=lambda other: (self._package.kinship(name, other), other), default=None)

    # Locks.

    def visit_With(self, node: ast.With) -> None:
        for index, item in enumerate(node.items):
            if item.optional_vars is None and _LOCK.search(ast.unparse(item.context_expr)):
                start, end = self._span(item.context_expr)
                if len(node.items) == 1:
                    self._add(LOCK, (self._span(node)[0], self._source.index(":", end)), "if True")
                elif index + 1 < len(node.items):
                    self._add(LOCK, (start, self._span(node.items[index + 1].context_expr)[0]), "")
                else:
                    self._add(LOCK, (self._span(node.items[index - 1].context_expr)[1], end), "")
        self.generic_visit(node)

    # Tables.

    def _find_cells(self, node: ast.expr) -> None:
        for table in ast.walk(node):
            if isinstance(table, ast.Dict):
                values = [value for key, value in zip(table.keys, table.values, strict=True) if key is not None]
                self._exchange(values)
                self._exchange_columns(values)
            elif isinstance(table, ast.Tuple | ast.List | ast.Set):
                self._exchange_columns(table.elts)

    def _exchange_columns(self, rows: Sequence[ast.expr]) -> None:
        for row, following in pairwise(rows):
            cells, others = _cells(row), _cells(following)
            for column in cells.keys() & others.keys():
                self._exchange([cells[column], others[column]])

    def _exchange(self, cells: Sequence[ast.expr]) -> None:
        for one, other in pairwise(cells):
            if self._text(one) == self._text(other) or _is_sentence(one) or _is_sentence(other):
                continue
            (start, first_end), (second_start, end) = self._span(one), self._span(other)
            if first_end < second_start:
                self._add(CELL, (start, end),
                          self._text(other) + self._source[first_end:second_start] + self._text(one))


def _common_length(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _names_of(tree: ast.Module) -> Iterator[str]:
    """Return the names that a file imports or gives to classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ClassDef):
            yield node.name


def _cells(row: ast.expr) -> Mapping[int | str | None, ast.expr]:
    """Return the cells of a row by column: a tuple's, or those of a call of the row's type; none of anything else."""
    if isinstance(row, ast.Tuple | ast.List):
        return dict(enumerate(row.elts))
    if isinstance(row, ast.Call):
        return {**dict(enumerate(row.args)), **{keyword.arg: keyword.value for keyword in row.keywords}}
    return {}


def _is_sentence(cell: ast.expr) -> bool:
    return is_text(cell) and not (isinstance(cell, ast.Constant) and isinstance(cell.value, str)
                                  and _WORD.fullmatch(cell.value) is not None)
