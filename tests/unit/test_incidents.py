"""docs/incidents.md has every alert, and what it names is there: metrics, settings, errors, lines of the log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pyproducer
from pyproducer.producer.config import CONFIG_TABLE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "incidents.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="docs are not in an installed package")
BEGINNINGS = ("starts, pyproducer", "record(s) for %s failed, outcome", "and nobody looked at their futures ",
              "attempts, the oldest record waits %d s", "no leader is known", "throttles this producer",
              "The broker found a batch of %d records", "close() gave up on %d records", "is closed: %d record(s) were",
              "on_completion of a record for %s raised", "The sender thread of %s cannot go on",
              "The process could not run for %d ms", "The producer with transactional.id %s cannot go on",
              "These settings have no effect on a producer in Python")
"""What the page's lines of the log have of the source; their values stand for %s and %d."""


def section(title: str) -> str:
    return PAGE.read_text("ascii").partition(f"## {title}")[2].partition("\n## ")[0]


def test_alerts_when_compared_with_the_rules_then_each_is_there_and_no_other() -> None:
    rules = (ROOT / "docs" / "grafana" / "alerts.yml").read_text("ascii")
    assert set(re.findall(r"`(Kafka\w+)`", section("Alerts"))) == set(re.findall(r"- alert: (\w+)", rules))


def test_metrics_when_named_then_they_are_there() -> None:
    known = set(re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "docs" / "metrics.md").read_text("ascii"), re.MULTILINE))
    named = set(re.findall(r"`([a-z]+(?:-[a-z0-9]+)+)`", PAGE.read_text("ascii")))
    assert len(named) > 15
    assert named - known == set()


def test_errors_and_settings_when_named_then_they_are_there() -> None:
    text = PAGE.read_text("ascii")
    assert {name for name in re.findall(r"`(\w+Error)`", text) if not hasattr(pyproducer, name)} == set()
    settings = set(re.findall(r"`((?:pyproducer|delivery|buffer|batch|enable)\.[a-z.]+)", text))
    assert len(settings) > 5
    assert settings - set(CONFIG_TABLE) == set()


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_line_of_the_log_when_the_page_has_it_then_so_has_the_source(beginning: str) -> None:
    words = re.compile(re.sub(r"%[sd]", r"[\\w-]+", re.sub(r"[().+]", r"\\\g<0>", beginning.strip())))
    assert words.search(section("Lines of the log"))
    package = Path(pyproducer.__file__).parent
    assert any(beginning in path.read_text("ascii") for path in package.rglob("*.py"))
