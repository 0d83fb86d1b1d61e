"""`pyproducer why FILE`: times with an offset, and files that are damaged."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyproducer.cli.main import main
from pyproducer.cli.why_command import _timestamp_ms
from pyproducer.observe.why import Material, Setting, to_json


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    file = tmp_path / "why.json"
    file.write_text(to_json(Material("app", 1_000, 1_795_000_000_000, 60_000, (), 0, 0, (), Setting(1, 2, 3, 4, "none"),
                                     {}, {})))
    return file


def why(file: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(main, ["why", str(file), *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.parametrize("moment", ["02:47", "02:47+01:00", "02:47:10-11:30", "2026-11-24T02:47+01:00"])
def test_at_when_the_time_has_an_offset_then_it_is_understood(saved: Path, moment: str) -> None:
    done = why(saved, "--at", moment)
    assert (done.exit_code, done.output) == (0, "Nothing is kept of that time.\n")


@pytest.mark.parametrize(("moment", "day"), [("02:46", 24), ("02:47", 24), ("02:47:00.000001", 23), ("02:48", 23)])
def test_at_when_it_is_a_time_of_day_then_the_last_one_before_it_was_saved(moment: str, day: int) -> None:
    asked = _timestamp_ms(moment, datetime.datetime(2026, 11, 24, 2, 47))
    time = datetime.time.fromisoformat(moment).replace(microsecond=0)
    assert datetime.datetime.fromtimestamp(asked // 1000) == datetime.datetime.combine(
        datetime.date(2026, 11, day), time)


def test_at_when_it_is_no_time_then_status_2(saved: Path) -> None:
    assert why(saved, "--at", "25:00").exit_code == 2


@pytest.mark.parametrize("text", ["[]", "{}", "3", "[" * 100_000, "\xff"])
def test_file_when_it_is_none_of_ours_then_one_sentence_and_status_1(tmp_path: Path, text: str) -> None:
    file = tmp_path / "why.json"
    file.write_text(text, encoding="latin-1")
    done = why(file)
    assert done.exit_code == 1
    assert done.output.startswith(f"pyproducer why: {file}: ")
    assert done.output.count("\n") == 1


@pytest.mark.parametrize(("name", "value", "arguments"), [
    ("pieces", [[1, "t", 0, *["x"] * 99]], []), ("timestamp_ms", "x", ["--at", "02:47"]), ("setting", None, []),
    ("timestamp_ms", 10**30, ["--at", "02:47"]), ("spans", [[1]], []), ("nodes", [], [])])
def test_file_when_it_is_damaged_then_one_sentence_and_status_1(
        saved: Path, name: str, value: object, arguments: list[str]) -> None:
    read = json.loads(saved.read_text())
    if name == "pieces":
        read["columns"] = [f"c{number}" for number in range(99)]
    saved.write_text(json.dumps({**read, name: value}))
    done = why(saved, *arguments)
    assert done.exit_code == 1
    assert done.output.count("\n") == 1
