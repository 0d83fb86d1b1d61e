"""Which of the settings that a command is given wins, and what is no number."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyproducer.cli.client_settings import props_of, settings_of
from pyproducer.cli.main import main


def test_settings_when_several_places_have_one_then_the_nearest_to_the_command_line_wins(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nlinger.ms=1\nacks=1\nclient.id=file\n")
    assert settings_of("option:1", str(path), {"linger.ms": "2", "bootstrap.servers": "single:1"},
                       **{"client.id": "own", "batch.size": 9}) == {
        "bootstrap.servers": "option:1", "linger.ms": "2", "acks": "1", "client.id": "file", "batch.size": 9}
    assert settings_of(None, str(path), {"bootstrap.servers": "single:1"})["bootstrap.servers"] == "single:1"
    assert props_of("option:1", str(path), ["linger.ms=2", "bootstrap.servers=single:1"]) == {
        "bootstrap.servers": "option:1", "linger.ms": "2", "acks": "1", "client.id": "file"}


def test_settings_when_the_file_has_them_by_librdkafkas_names_then_the_nearest_wins_all_the_same(
        tmp_path: Path) -> None:
    """A file with metadata.broker.list named no broker, and --bootstrap-server beside it was an error."""
    path = tmp_path / "client.properties"
    path.write_text("metadata.broker.list=file:1\nqueue.buffering.max.ms=1\n")
    in_file = {"metadata.broker.list": "file:1", "queue.buffering.max.ms": "1"}
    assert settings_of(None, str(path), {}) == props_of(None, str(path), []) == in_file
    nearest = {"bootstrap.servers": "option:1", "linger.ms": "2"}
    assert settings_of("option:1", str(path), {"linger.ms": "2"}) == nearest
    assert props_of("option:1", str(path), ["linger.ms=2"]) == nearest


@pytest.mark.parametrize("command", [
    ["doctor", "-b", "x:1", "--timeout"], ["txn", "list", "-b", "x:1", "--timeout"],
    ["txn", "describe", "-b", "x:1", "shop", "--timeout"], ["txn", "abort", "-b", "x:1", "shop", "--timeout"],
    ["perf", "-b", "x:1", "orders", "--rate"]])
def test_number_when_it_is_nan_then_it_is_refused(command: list[str]) -> None:
    """It is in every range: a traceback of txn, and perf sent as fast as it could."""
    done = CliRunner().invoke(main, [*command, "nan"])
    assert done.exit_code == 2, done.output
    assert f"Invalid value for '{command[-1]}': nan is no number" in done.output
