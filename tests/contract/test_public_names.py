"""The contract speaks the public API only, so that another core has to meet it unchanged."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
PUBLIC_MODULES = ("pyproducer", "pyproducer.aio", "pyproducer.broker", "pyproducer.testing")
NAMED_TUPLE_METHODS = {"_replace", "_asdict", "_fields"}


def problems_of(tree: ast.AST) -> list[str]:
    """What in a file is not public: imports of ours outside the lists, and private attributes of others."""
    problems = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            problems += [f"line {node.lineno}: import {alias.name}" for alias in node.names
                         if alias.name.split(".")[0] == "pyproducer" and alias.name not in PUBLIC_MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pyproducer":
            public = importlib.import_module(node.module).__all__ if node.module in PUBLIC_MODULES else ()
            problems += [f"line {node.lineno}: from {node.module} import {alias.name}" for alias in node.names
                         if alias.name not in public]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            of_itself = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not of_itself and node.attr not in NAMED_TUPLE_METHODS:
                problems.append(f"line {node.lineno}: the private attribute {node.attr}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr"):
            problems += [f"line {node.lineno}: the private attribute {argument.value}" for argument in node.args[1:2]
                         if isinstance(argument, ast.Constant) and str(argument.value).startswith("_")]
    return problems


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_file_when_read_then_it_uses_public_names_only(path: Path) -> None:
    assert problems_of(ast.parse(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("source", [
    "import pyproducer.accumulator", "from pyproducer.common.errors import KafkaError", "from pyproducer import log",
    "producer._runtime", "getattr(producer, '_runtime')"])
def test_check_when_something_private_is_used_then_it_is_found(source: str) -> None:
    assert len(problems_of(ast.parse(source))) == 1
