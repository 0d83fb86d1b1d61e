"""Which of the settings that a command is given wins."""

from __future__ import annotations

from pathlib import Path

from pyproducer.cli.client_settings import props_of, settings_of


def test_settings_when_several_places_have_one_then_the_nearest_to_the_command_line_wins(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nlinger.ms=1\nacks=1\nclient.id=file\n")
    assert settings_of("option:1", str(path), {"linger.ms": "2", "bootstrap.servers": "single:1"},
                       **{"client.id": "own", "batch.size": 9}) == {
        "bootstrap.servers": "option:1", "linger.ms": "2", "acks": "1", "client.id": "file", "batch.size": 9}
    assert settings_of(None, str(path), {"bootstrap.servers": "single:1"})["bootstrap.servers"] == "single:1"
    assert props_of("option:1", str(path), ["linger.ms=2", "bootstrap.servers=single:1"]) == {
        "bootstrap.servers": "option:1", "linger.ms": "2", "acks": "1", "client.id": "file"}
