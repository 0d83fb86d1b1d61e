"""Every row of the checklist of a broker's behaviour, C1 to C41, has a test that is named after it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROWS = range(1, 42)


def rows_with_a_test() -> set[int]:
    """Return the numbers in names like test_c6_c8_what_then; several rows may share a test."""
    return {int(row) for file in TESTS.rglob("test_*.py")
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            for row in re.findall(r"_c(\d+)(?=_)", node.name)}


def test_every_row_of_the_checklist_has_a_test() -> None:
    missing = sorted(set(ROWS) - rows_with_a_test())
    assert not missing, f"no test is named after {', '.join(f'C{row}' for row in missing)}"
