"""What mypy, pyright and jedi see of the package: all its types, its public names, and the mistakes of who uses it.

mypy reads typed_user_code.py, examples/ and the package itself in `make lint`; here is what that does not ask.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import pyproducer
from tests.support.patience import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
USER_CODE = Path(__file__).with_name("typed_user_code.py")
PUBLIC_MODULES = ("pyproducer", "pyproducer.aio", "pyproducer.broker", "pyproducer.compat.confluent_kafka",
                  "pyproducer.spark", "pyproducer.testing")
IGNORED = re.compile(r"  # type: ignore\[.*\]$")


def public_names(module: str) -> set[str]:
    return set(importlib.import_module(module).__all__)


# pyright -------------------------------------------------------------------------------------------------------------

def pyright(*arguments: str, cwd: Path) -> Any:
    """What pyright reports as JSON.

    Its JavaScript is called without the package's own command, which asks for newer versions over the network and
    fetches node where there is none.
    """
    found = importlib.util.find_spec("pyright")
    if found is None or found.origin is None:
        pytest.skip("pyright is not installed: pip install -e '.[dev]'")
    node = shutil.which("node")
    if node is None:
        pytest.skip("pyright needs node, which is not installed (Debian: apt-get install nodejs)")
    # It asks the first `python` where other packages are.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    told = subprocess.run([node, str(Path(found.origin).with_name("dist") / "index.js"), "--outputjson", *arguments],
                          cwd=cwd, env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert told.stdout.startswith("{"), told.stdout + told.stderr
    return json.loads(told.stdout)


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What `pyright --verifytypes` says of the package."""
    report = pyright("--verifytypes", "pyproducer", "--ignoreexternal", cwd=tmp_path_factory.mktemp("verify"))
    completeness = report["typeCompleteness"]
    assert Path(completeness["packageRootDirectory"]) == Path(pyproducer.__file__).parent
    return completeness


def test_package_when_pyright_verifies_its_types_then_each_is_known(verified: Any) -> None:
    """What has no type is inferred by each checker as it likes; 72.8 % were known once."""
    unknown = {symbol["name"]: [one["message"] for one in symbol["diagnostics"]] for symbol in verified["symbols"]
               if symbol["isExported"] and (symbol["isTypeAmbiguous"] or not symbol["isTypeKnown"])}
    assert unknown == {}
    assert verified["completenessScore"] == 1


def test_user_code_when_pyright_reads_it_then_it_finds_the_wrong_lines_and_no_other(tmp_path: Path) -> None:
    """The lines in which mypy is told to ignore an error; without that, in a folder outside the sources."""
    lines = USER_CODE.read_text(encoding="utf-8").splitlines()
    wrong = [line.strip() for line in lines if IGNORED.search(line)]
    plain = [IGNORED.sub("", line) for line in lines]
    (tmp_path / USER_CODE.name).write_text("\n".join(plain), encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "strict", "pythonVersion": "3.10", "extraPaths": [str(ROOT)]}))
    errors: dict[tuple[str, int], str] = {}
    for one in pyright("-p", str(tmp_path), cwd=tmp_path)["generalDiagnostics"]:
        errors[Path(one["file"]).name, one["range"]["start"]["line"]] = f"{one.get('rule')}: {one['message']}"
    found = {lines[number].strip(): text for (name, number), text in errors.items() if name == USER_CODE.name}
    assert sorted(found) == sorted(wrong), errors
    assert {name for name, _ in errors} == {USER_CODE.name}, errors
    for mistake, said in [(".ofset)", 'Cannot access attribute "ofset"'),
                          ('send("topic", "text")', '"Literal[\'text\']"'),
                          ("on_completion=told_the_wrong_way_round)", '"KafkaError | None"')]:
        assert any(said in text for line, text in found.items() if mistake in line), (mistake, found)


# Public names --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_public_names_when_pyright_lists_them_then_they_are_pythons(module: str, verified: Any) -> None:
    if module == "pyproducer.spark":
        pytest.importorskip("pyspark", reason="pyspark is not installed: pip install -e '.[spark]'")
    seen = {symbol["name"].rpartition(".")[2] for symbol in verified["symbols"]
            if symbol["isExported"] and symbol["name"].rpartition(".")[0] == module}
    assert {name for name in seen if not name.startswith("__")} == public_names(module)


def test_public_names_when_mypy_is_asked_for_each_name_that_python_has_then_it_lets_them_through(
        tmp_path: Path) -> None:
    """By the cache of `make lint`: without it this takes as long as mypy takes to read the package."""
    pytest.importorskip("mypy", reason="mypy is not installed: pip install -e '.[dev]'")
    asked = []
    for module in PUBLIC_MODULES:
        if module == "pyproducer.spark" and importlib.util.find_spec("pyspark") is None:
            continue
        for name, member in vars(importlib.import_module(module)).items():
            if not name.startswith("_") and not isinstance(member, types.ModuleType):
                asked.append((module, name))
    program = tmp_path / "names.py"
    program.write_text("".join(f"from {module} import {name} as name_{number}\n"
                               for number, (module, name) in enumerate(asked)))
    said = subprocess.run([sys.executable, "-m", "mypy", "--config-file", str(ROOT / "setup.cfg"), "--no-color-output",
                           str(program)], cwd=ROOT, capture_output=True, text=True, timeout=PROGRAM_S,
                          check=False).stdout
    refused = {int(number) - 1 for number in re.findall(r"names\.py:(\d+): error: .*does not explicitly export", said)}
    assert said.splitlines()[-1].startswith(f"Found {len(refused)} error"), said
    let_through = {asked[number] for number in range(len(asked)) if number not in refused}
    assert let_through == {(module, name) for module, name in asked if name in public_names(module)}


def test_public_names_when_jedi_completes_them_then_they_are_pythons(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typed in an editor, and in a notebook or IPython, which asks dir()."""
    jedi = pytest.importorskip("jedi", reason="jedi is not installed: pip install -e '.[dev]'")
    monkeypatch.setattr(jedi.settings, "cache_directory", str(tmp_path))
    project = jedi.Project(ROOT, sys_path=[str(ROOT), *sys.path])
    in_this_process = jedi.InterpreterEnvironment()

    def names(completions: Any) -> set[str]:
        return {found.name for found in completions if not found.name.startswith("_")}

    assert names(jedi.Interpreter("pyproducer.", [{"pyproducer": pyproducer}]).complete()) == set(dir(pyproducer))
    assert set(dir(pyproducer)) == public_names("pyproducer")
    for module in PUBLIC_MODULES:
        if module == "pyproducer.spark" and importlib.util.find_spec("pyspark") is None:
            continue
        seen = names(jedi.Script(f"from {module} import ", project=project, environment=in_this_process).complete())
        assert public_names(module) <= seen
        if module == "pyproducer":  # of others jedi shows what they import, too
            folders = {found.name for found in pkgutil.iter_modules(pyproducer.__path__)}
            assert seen - folders - {"annotations"} == public_names(module)
