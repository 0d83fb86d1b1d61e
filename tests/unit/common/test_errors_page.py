"""docs/errors.md has every exception of pyproducer's, with outcomes that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pyproducer
from pyproducer.common.errors import OUTCOMES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "errors.md"
ERRORS = {name: error for name in pyproducer.__all__
          if isinstance(error := getattr(pyproducer, name), type) and issubclass(error, BaseException)}
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="docs are not in an installed package")


def rows() -> dict[str, list[str]]:
    """Return the cells of each row of an exception: what stands behind its name, when, outcome, what to do."""
    text = PAGE.read_text("ascii") if PAGE.exists() else ""
    lines = re.findall(r"^\| `(\w+Error)`(.*)\|$", text, re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in lines}


def test_page_when_compared_with_the_exports_then_each_exception_has_its_row() -> None:
    bases = set(re.findall(r"`(\w+ProtocolError)`", PAGE.read_text("ascii")))
    assert bases == {"LocalProtocolError", "RemoteProtocolError"}  # in the row of their own base
    assert {*rows(), *bases} == set(ERRORS)


@pytest.mark.parametrize("name", sorted(name for name, cells in rows().items() if len(cells) == 4))
def test_row_when_it_says_outcomes_then_that_of_the_class_is_among_them(name: str) -> None:
    cell = rows()[name][2]
    if cell in {"by the phase", "the worst of all"}:
        assert "outcome" in ERRORS[name].__init__.__code__.co_names
        return
    assert ERRORS[name].outcome in re.findall("|".join(OUTCOMES), cell)


def test_phases_when_compared_with_the_source_then_each_has_its_row() -> None:
    tree = pyproducer.common.errors.__doc__ or ""
    phases = re.search(r"phase = ((?:\"\w+\"[\s|]*)+)", tree)
    assert phases is not None
    table = PAGE.read_text("ascii").partition("## The phases")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \| \w+ ", table, re.MULTILINE)) - {"phase"} == set(
        re.findall(r"\w+", phases[1]))
