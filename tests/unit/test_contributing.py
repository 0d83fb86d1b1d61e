"""What CONTRIBUTING.md and SECURITY.md name is there: files, targets of make, commands."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.unit.test_design import paths_in

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {name: (ROOT / name).read_text(encoding="ascii") for name in ("CONTRIBUTING.md", "SECURITY.md")}


@pytest.mark.parametrize("name", TEXTS)
def test_path_when_named_then_it_is_there(name: str) -> None:
    paths = paths_in(TEXTS[name])
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_target_when_named_then_make_has_it() -> None:
    targets = set(re.findall(r"(?:`|^    )make (\w+)", TEXTS["CONTRIBUTING.md"], re.MULTILINE))
    assert {"demo", "test", "near", "lint"} <= targets
    makefile = (ROOT / "Makefile").read_text(encoding="ascii")
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


@pytest.mark.parametrize("module", re.findall(r"python -m ([\w.]+)", "".join(TEXTS.values())))
def test_module_when_named_as_a_command_then_it_is_there(module: str) -> None:
    assert importlib.util.find_spec(module) is not None
