"""What docs/design.md lists is there, and what is there is listed: files, import order, states of a batch, locks."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

import pyproducer
from pyproducer.accumulator.batch_state import _MOVES, BatchState

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(pyproducer.__file__).parent
ROAD = ("cli", "compat", "frames", "spark", "testing", "twophase", "producer", "sender", "accumulator", "client",
        "transaction", "network", "protocol", "record", "observe", "hotpath", "common")
SUFFIXES = (".py", ".pyx", ".pxd")
TEXT = (ROOT / "docs" / "design.md").read_text(encoding="ascii")
PATH = re.compile(r"(?<![\w./*])(?:\w+/)*(?:\w+\.(?:py|pyx|pxd|cfg|md)\b|(?<=/)(?![\w/]))")


def section(number: int) -> str:
    """The text below a heading of the second level."""
    return re.split(r"^## ", TEXT, flags=re.MULTILINE)[number].partition("\n")[2]


def paths_in(text: str) -> set[str]:
    """Every file and folder that a text names; in the file map, below the folder that stands over them."""
    paths: set[str] = set()
    folder = ""
    for line in text.splitlines():
        if re.fullmatch(r"(\w+/)+", line):
            folder = line
        elif not line.startswith("  "):
            folder = ""
        paths.update(path if "/" in path else folder + path for path in PATH.findall(line))
    return paths


def sources(folder: str) -> list[Path]:
    """The source files of a folder of the package and of those in it, but for what makes them packages."""
    return [path for path in (PACKAGE / folder).rglob("*") if path.suffix in SUFFIXES and path.name != "__init__.py"]


def test_path_when_design_names_it_then_it_is_there() -> None:
    paths = paths_in(TEXT)
    assert {"setup.cfg", "broker/apis/", "accumulator/life.py", "unit/sender/stepped_producer.py"} <= paths
    if not (PACKAGE / "hotpath/_native.pyx").exists():  # an installed package has what was compiled of it
        paths = {path for path in paths if not path.endswith((".pyx", ".pxd")) and "/registration/" not in path}
    homes = (ROOT, PACKAGE, ROOT / "tests")
    assert [path for path in sorted(paths) if not any((home / path).exists() for home in homes)] == []


def test_name_when_the_page_of_kafkas_words_has_it_then_it_is_in_its_file() -> None:
    page = (ROOT / "docs" / "words_of_kafka.md").read_text(encoding="ascii")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines()
            if line.startswith("| ") and not line.startswith("| in Kafka")]
    assert len(rows) > 20
    for _, files, names in rows:
        text = "".join((PACKAGE / file).read_text("ascii") for file in re.findall(r"`([\w/]+\.py)`", files))
        missing = [name for name in re.findall(r"`(\w+)`", names)
                   if not re.search(rf"(def|class) {name}\b|^ *{name}\b.*[:=]", text, re.MULTILINE)]
        assert missing == [], files


@pytest.mark.parametrize("folder", ROAD)
def test_module_of_the_road_when_it_is_there_then_the_file_map_names_it(folder: str) -> None:
    named = paths_in(section(2))
    assert sources(folder)
    assert [path.name for path in sources(folder) if str(path.relative_to(PACKAGE)) not in named] == []


def test_import_order_when_compared_with_the_contract_then_it_is_the_same() -> None:
    contract = configparser.ConfigParser()
    contract.read(ROOT / "setup.cfg", encoding="ascii")
    layers = contract["importlinter:contract:layers"]["layers"].split("\n")
    assert " > ".join(filter(None, layers)) in " ".join(section(2).split())
    assert {folder for layer in layers for folder in layer.split(" | ")} == {*ROAD, "__main__", "aio", "broker", ""}


def test_states_of_a_batch_when_compared_with_the_table_then_they_are_the_same() -> None:
    rows = {state: re.search(rf"^{state.name} +((?:[A-Z_]+(?:, )?)+|-)  ", section(3), re.MULTILINE)
            for state in BatchState}
    told = {state: row and set(re.findall(r"[A-Z_]+", row[1])) for state, row in rows.items()}
    assert told == {state: {to.name for to in moves} for state, moves in _MOVES.items()}


def test_file_when_it_makes_a_lock_then_the_list_of_locks_names_it() -> None:
    makers = {str(path.relative_to(PACKAGE)) for folder in ROAD for path in sources(folder)
              if re.search(r"locks\.r?lock\(\)|make_lock\(\)|threading\.R?Lock\(\)", path.read_text(encoding="ascii"))}
    assert makers == paths_in(section(4).split("```")[1])


def test_file_of_the_broker_when_it_is_there_then_its_map_names_it_unless_it_is_an_api() -> None:
    named = paths_in(section(7).partition("**Locks.**")[0])
    files = {str(path.relative_to(PACKAGE)) for path in sources("broker")
             if path.parent.name != "apis" or "\ndef handle(services" not in path.read_text(encoding="ascii")}
    assert len(files) > 60
    assert sorted(files - named) == []


def test_order_of_the_brokers_folders_when_compared_with_the_contract_then_it_is_the_same() -> None:
    contract = configparser.ConfigParser()
    contract.read(ROOT / "setup.cfg", encoding="ascii")
    layers = contract["importlinter:contract:broker"]["layers"].split()
    assert " > ".join(layers) in section(7)
    assert {path.parent for path in (PACKAGE / "broker").glob("*/__init__.py")} == {
        PACKAGE / "broker" / layer for layer in layers}


def test_file_of_the_broker_when_it_makes_a_lock_then_the_list_of_locks_names_it() -> None:
    makers = {str(path.relative_to(PACKAGE)) for path in sources("broker")
              if re.search(r"threading\.(R?Lock|Condition)\(\)", path.read_text(encoding="ascii"))}
    assert makers == paths_in(section(7).partition("**Locks.**")[2])


def test_broad_except_when_below_callers_then_only_those_who_take_turns_have_it() -> None:
    """One that logs and goes on hides a failure from the one recovery, which follows a turn that ended half way.

    Key stores are read by other people's code, which meets a damaged file with whatever comes to it. Metrics for
    brokers are written by another package's, which may not fit what it needs; no record is to wait for them.
    """
    broad = {str(path.relative_to(PACKAGE)) for folder in ("sender", "client", "network") for path in sources(folder)
             if re.search(r"except( \(?(Base)?Exception\b.*)?:", path.read_text(encoding="ascii"))}
    assert broad == {"sender/io_thread.py", "sender/turns.py", "sender/telemetry.py", "network/key_store.py",
                     "network/sasl/refreshing_login.py"}
