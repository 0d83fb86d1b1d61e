"""Mutants of the package: one place of a file is changed, and it still parses.

Road:    source text -> [candidates: this file's and people.py's] -> [draw] -> run
Shape:   half of what is drawn is what the text itself suggests (another comparison, a statement that is not there),
         half is what people get wrong (people.py). What is left alone stands in walk.py.
Source:  ours.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutant import MODULE, PACKAGE, Mutant, within
from tests.mutants.people import PEOPLES, PeoplesFinder
from tests.mutants.walk import (
    OPPOSITE_OUTCOMES,
    Finder,
    function_name,
    is_log_call,
    is_log_statement,
    is_not,
    is_outcome,
    is_text,
)

__all__ = ["LINES_PER_MUTANT", "MODULE", "MOST_OF_A_FUNCTION", "PACKAGE", "Mutant", "candidates", "draw",
           "target_files", "within"]

LEFT_OUT = (
    # Nothing but the fields of Kafka's messages: the tier protocol compares each with the JSON in Kafka's own jar, and
    # a drawn one would say once more that it does.
    "protocol/messages/", "broker/messages/",
)
# Where the simulation sees everything that a user sees.
OF_THE_SIMULATION = ("accumulator/", "client/", "sender/", "transaction/")

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
# Swapping the arguments of these says nothing about ours.
UNSWAPPED = frozenset({"cast", "isinstance", "issubclass", "getattr", "hasattr", "setattr", "TypeVar", "partial"})


def target_files(root: Path, only: str | tuple[str, ...] = "") -> list[str]:
    """Return the files to mutate, within the repository; `only` is a prefix of them within the package, or some."""
    files = sorted(path.relative_to(root).as_posix() for path in (root / PACKAGE).rglob("*.py"))
    return [file for file in files if file.removeprefix(PACKAGE + "/").startswith(only)
            and not file.removeprefix(PACKAGE + "/").startswith(LEFT_OUT)]


# Drawing -------------------------------------------------------------------------------------------------------------

def draw(sources: dict[str, str], *, seed: int, count: int) -> list[Mutant]:
    """Draw mutants: in proportion to the size of the code, at most a few of a function, every operator alike.

    One that people make and one of the text take turns, while there are both.

    Args:
        sources: Text by path.
        seed: The same seed gives the same mutants of the same text.
        count: How many; fewer come when there are no more.
    """
    found = {path: candidates(path, sources[path]) for path in sorted(sources)}
    # What people do is drawn from all functions that have a place for it, else tables alone would never be.
    both = [_tickets({path: [mutant for mutant in mutants if (mutant.operator in PEOPLES) is is_peoples]
                      for path, mutants in found.items()}, f"{seed}{' people' * is_peoples}")
            for is_peoples in (True, False)]
    taken: set[tuple[str, int]] = set()
    streams = [_draw_some(tickets, sources, taken) for tickets in both]
    drawn: list[Mutant] = []
    for mutant in chain.from_iterable(zip_longest(*streams)):
        if len(drawn) == count:
            break
        if mutant is not None:
            drawn.append(mutant)
    return drawn


def _tickets(found: dict[str, list[Mutant]], seed: str) -> list[_Ticket]:
    tickets: list[_Ticket] = []
    for path, of_file in found.items():
        by_function: dict[str, list[Mutant]] = {}
        for mutant in of_file:
            by_function.setdefault(mutant.function, []).append(mutant)
        for function, mutants in by_function.items():
            size = len({mutant.line for mutant in mutants})
            for turn in range(min(MOST_OF_A_FUNCTION, 1 + size // LINES_PER_MUTANT)):
                # Chance is each ticket's own, so that an edit of one function leaves what is drawn of the others.
                chance = random.Random(f"{seed} {path} {function} {turn}")
                tickets.append(_Ticket(chance.random() ** (2**turn / size), path, function, turn, chance, mutants))
    tickets.sort(key=lambda ticket: ticket[:4], reverse=True)
    return tickets


def _draw_some(tickets: Sequence[_Ticket], sources: dict[str, str], taken: set[tuple[str, int]]) -> Iterator[Mutant]:
    for ticket in tickets:
        mutants = [mutant for mutant in ticket.mutants if (mutant.path, mutant.start) not in taken]
        if not mutants:
            continue
        operator = ticket.chance.choice(sorted({mutant.operator for mutant in mutants}))
        mutant = ticket.chance.choice([mutant for mutant in mutants if mutant.operator == operator])
        # One bug for each place: the others there say much the same.
        taken.add((mutant.path, mutant.start))
        if _is_a_change(mutant, sources[mutant.path]):
            yield mutant


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
    tree = ast.parse(source)
    found: list[Mutant] = []
    for finder in (_Finder(path, source), PeoplesFinder(path, source, tree)):
        finder.visit(tree)
        found += finder.found
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.operator, mutant.new))


class _Finder(Finder):
    """Finds what the text itself suggests: another comparison, a statement that is not there."""

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

    def visit_real_expression(self, node: ast.Expr) -> None:
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
        if old_new is not None and not is_text(node.value):
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
        if is_text(node.value) or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool)):
            self._replace("return-none", node.value, "None")
        self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replace("drop-raise", node, "pass")
        # The words of the error are not tested; what it says of the record is.
        if isinstance(node.exc, ast.Call):
            for keyword in node.exc.keywords:
                if not is_text(keyword.value) or is_outcome(keyword.value):
                    self.visit(keyword.value)

    def visit_Break(self, node: ast.Break) -> None:
        self._replace("break-continue", node, "continue")
        self._replace("drop-break", node, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace("continue-break", node, "break")
        self._replace("drop-continue", node, "pass")

    def visit_real_if(self, node: ast.If) -> None:
        if not all(is_log_statement(statement) for statement in node.body) or node.orelse:
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
        if not isinstance(test, ast.Compare) and not is_not(test):
            self._replace("condition-negated", test, f"not ({self._text(test)})")

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if not all(isinstance(statement, ast.Pass) or is_log_statement(statement) for statement in node.body):
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

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if is_text(node.body) and is_text(node.orelse):
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
        if old_new is not None and not is_text(node.left) and not is_text(node.right) and not (
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
        elif is_outcome(node):
            self._replace("outcome", node, f'"{OPPOSITE_OUTCOMES[str(value)]}"')

    def visit_Call(self, node: ast.Call) -> None:
        if is_log_call(node):
            return
        if isinstance(node.func, ast.Name) and node.func.id in OPPOSITE_CALLS:
            new = OPPOSITE_CALLS[node.func.id]
            self._replace(f"{node.func.id}-{new}", node.func, new)
        elif function_name(node) not in UNSWAPPED:
            self._swap(node.args)
        self.generic_visit(node)

    def _swap(self, arguments: Sequence[ast.expr]) -> None:
        for index, (first, second) in enumerate(pairwise(arguments)):
            unlike = any(isinstance(argument, ast.Starred) or is_text(argument) for argument in (first, second))
            one, other = self._text(first), self._text(second)
            if unlike or one == other:
                continue
            (start, first_end), (second_start, end) = self._span(first), self._span(second)
            self._add(f"swap-arguments-{index + 1}", (start, end),
                      other + self._source[first_end:second_start] + one)


def _name_of(operation: ast.operator) -> str:
    return f"-{type(operation).__name__.lower()}"


