"""The command that installs the package again, by where it came from."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from shlex import quote
from types import SimpleNamespace

import pytest

from pyproducer.common import reinstall

PIP = f"{quote(sys.executable)} -m pip install --force-reinstall --no-deps --no-cache-dir"
INSTALLED = "/usr/lib/python3/site-packages/pyproducer/common/reinstall.py"
OF_AN_INDEX = f"{PIP} --no-binary pyproducer pyproducer"


@pytest.mark.parametrize(("text", "command"), [
    (None, OF_AN_INDEX), ("", OF_AN_INDEX), ("not json", OF_AN_INDEX), ("[]", OF_AN_INDEX),
    (json.dumps({"url": "https://example/pyproducer.tar.gz"}), OF_AN_INDEX),
    (json.dumps({"url": "file:///home/ada/my%20sources", "dir_info": {}}), f"{PIP} '/home/ada/my sources'"),
    (json.dumps({"url": "file:///sources", "dir_info": {"editable": True}}), f"{PIP} -e /sources"),
    (json.dumps({"url": "file:///dist/pyproducer-0.1.0-py3-none-any.whl", "archive_info": {}}),
     f"{PIP} --find-links /dist --no-binary pyproducer pyproducer"),
])
def test_command_when_the_package_came_from_somewhere_then_it_comes_from_there_again(
        text: str | None, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reinstall, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))
    assert reinstall.reinstall_command(file=INSTALLED) == command


def test_command_when_the_package_is_loaded_from_a_checkout_then_it_is_of_that_one_and_not_of_what_is_installed(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With PYTHONPATH at one checkout and another one installed, pip compiled the other, in vain."""
    other = json.dumps({"url": "file:///home/ada/other", "dir_info": {"editable": True}})
    monkeypatch.setattr(reinstall, "distribution", lambda name: SimpleNamespace(read_text=lambda file: other))
    (tmp_path / "my sources").mkdir()
    (tmp_path / "my sources" / "setup.py").touch()
    loaded = tmp_path / "my sources" / "pyproducer" / "common" / "reinstall.py"
    assert reinstall.reinstall_command(file=str(loaded)) == f"{PIP} -e {quote(str(tmp_path / 'my sources'))}"


def test_command_when_nothing_is_installed_then_it_is_that_of_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(reinstall, "distribution", distribution)
    assert reinstall.reinstall_command(file=INSTALLED) == OF_AN_INDEX
