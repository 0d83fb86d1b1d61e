"""One namespace, and it is a list."""

from __future__ import annotations

import ast
import enum
import inspect
import subprocess
import sys
import types

import pytest

import pyproducer
from tests.support.patience import PROGRAM_S


def test_all_is_complete_and_has_no_duplicates():
    # That it is sorted is checked by ruff (RUF022).
    for name in pyproducer._LATER:
        getattr(pyproducer, name)
    public = {name for name, member in vars(pyproducer).items()
              if not name.startswith("_") and not isinstance(member, types.ModuleType)
              and name not in {"annotations", "import_module", "TYPE_CHECKING"}}
    assert len(set(pyproducer.__all__)) == len(pyproducer.__all__)
    assert set(pyproducer.__all__) == public


def test_name_when_it_is_loaded_later_then_type_checkers_find_it_where_it_is_loaded_from():
    tree = ast.parse(inspect.getsource(pyproducer))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    told = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == pyproducer._LATER


def test_name_when_there_is_none_then_an_attribute_error_says_so():
    with pytest.raises(AttributeError, match="module 'pyproducer' has no attribute 'KafkaConsumer'"):
        _ = pyproducer.KafkaConsumer


def test_class_when_its_module_is_loaded_by_another_then_it_has_the_public_name_and_is_pickled_by_it():
    code = ("import pickle; from pyproducer.producer.kafka_producer import KafkaProducer; import pyproducer; "
            "print(KafkaProducer.__module__, pickle.loads(pickle.dumps(KafkaProducer)) is pyproducer.KafkaProducer)")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PROGRAM_S, check=True)
    assert found.stdout.split() == ["pyproducer", "True"]


@pytest.mark.parametrize("module", ["pyproducer", "pyproducer.spark", "pyproducer.spark.datasource"])
def test_import_when_no_producer_is_made_then_none_is_loaded(module: str) -> None:
    """Settings and errors are all that Spark's driver, and the processes in which it plans and commits, need."""
    if module == "pyproducer.spark.datasource":
        pytest.importorskip("pyspark.sql.datasource")
    code = (f"import sys, {module}; "
            "print(*(name for name in sys.modules if name.startswith(('pyproducer.accumulator', 'pyproducer.client', "
            "'pyproducer.network', 'pyproducer.protocol', 'pyproducer.sender'))))")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PROGRAM_S, check=True)
    assert found.stdout.split() == []


def test_annotations_when_they_name_what_is_loaded_later_then_they_are_found():
    code = "import typing, pyproducer; print(len(typing.get_type_hints(pyproducer.Why)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PROGRAM_S, check=True)
    assert int(found.stdout) == len(pyproducer.Why._fields)


def test_members_show_the_public_name():
    for name in pyproducer.__all__:
        member = getattr(pyproducer, name)
        if isinstance(member, type) and member.__module__ != "pyproducer.hotpath._native":
            assert member.__module__ == "pyproducer", name


def test_members_of_enumerations_are_written_as_they_are_named() -> None:
    """What an application wrote down of one, by its value or by pickle, finds the same one again."""
    found = [member for name in pyproducer.__all__ if isinstance(kind := getattr(pyproducer, name), enum.EnumMeta)
             for member in kind if isinstance(member.value, str)]
    assert {member.value: member.name for member in found} == {member.name.lower(): member.name for member in found}
    assert pyproducer.TransactionOutcome("committed") is pyproducer.TransactionOutcome.COMMITTED


def test_import_when_nothing_is_used_yet_then_costly_modules_are_not_loaded():
    rare = ["javaproperties", "http.client", "asyncio", "importlib.metadata", "json", "mmh3", "lz4", "zstandard",
            "cramjam", "crc32c", "isal", "pyarrow", "pandas", "ssl", "hashlib", "hmac", "difflib",
            "pyproducer.network.ssl_context", "pyproducer.network.sasl.scram",
            "pyproducer.protocol.straight_line", "pyproducer.protocol.messages.fetch",
            "pyproducer.broker", "pyproducer.spark"]
    # What the interpreter loaded by itself, for an installation in place, is not ours.
    code = (f"import sys; before = set(sys.modules); import pyproducer; "
            f"print(*[name for name in {rare} if name in sys.modules and name not in before])")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PROGRAM_S, check=True)
    assert found.stdout.split() == []
