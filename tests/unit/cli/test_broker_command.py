"""What the options of `python -m pyproducer broker` become; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyproducer import __version__
from pyproducer.cli import broker_command
from pyproducer.cli.broker_command import cluster_settings
from pyproducer.cli.main import main
from pyproducer.common.errors import ConfigError
from pyproducer.record.compression import PACKAGES

FILE = {"listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
        "controller.listener.names": "CONTROLLER",
        "advertised.listeners": "PLAINTEXT://elsewhere:19092", "num.partitions": "4"}


def test_addresses_when_nothing_is_said_then_they_are_this_machines_and_kafkas_port() -> None:
    assert cluster_settings({}, None, None, None) == {"listeners": "PLAINTEXT://127.0.0.1:9092"}
    assert cluster_settings({}, "::1", 0, None) == {"listeners": "PLAINTEXT://[::1]:0"}


def test_addresses_when_a_file_says_them_then_they_are_the_files() -> None:
    assert cluster_settings(FILE, None, None, None) == FILE


def test_addresses_when_an_option_says_them_then_it_stands_above_the_file() -> None:
    found = cluster_settings(FILE, "0.0.0.0", None, None)
    assert found["listeners"] == "PLAINTEXT://0.0.0.0:9092"
    assert "advertised.listeners" not in found
    assert found["num.partitions"] == "4"


def test_advertised_host_when_it_is_given_then_every_listener_but_the_controllers_has_it() -> None:
    assert cluster_settings(FILE, None, None, "kafka")["advertised.listeners"] == "PLAINTEXT://kafka:0"
    assert cluster_settings({}, "0.0.0.0", None, "::1")["advertised.listeners"] == "PLAINTEXT://[::1]:0"


def test_advertised_host_when_the_listeners_make_no_sense_then_that_is_said() -> None:
    with pytest.raises(ConfigError, match="is not of the form"):
        cluster_settings({"listeners": "kafka"}, None, None, "kafka")


def test_config_when_files_and_settings_are_given_then_the_later_counts(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# of a cluster\nnum.partitions=4\nlog.retention.hours = 5\n", encoding="ascii")
    asked: list[dict[str, str]] = []

    def note(settings: dict[str, str], *_: object) -> dict[str, object]:
        asked.append(dict(settings))
        raise ConfigError("nothing", "", "is to start")

    monkeypatch.setattr(broker_command, "cluster_settings", note)
    runner = CliRunner()
    for arguments, partitions in (((f"--config={path}", "--config", "num.partitions=7"), "7"),
                                  (("--config", "num.partitions=7", "--config", str(path)), "4")):
        assert runner.invoke(main, ["broker", *arguments]).exit_code == 2
        assert asked.pop() == {"num.partitions": partitions, "log.retention.hours": "5"}


@pytest.mark.parametrize("arguments", [
    ("--config", "nonsense"), ("--topic", "orders:many"), ("--topic", "orders:-1"), ("--brokers", "0"),
    ("--port", "99999"), ("--log-level", "loud")])
def test_command_line_when_it_is_wrong_then_it_says_so_and_ends_with_2(arguments: tuple[str, str]) -> None:
    result = CliRunner().invoke(main, ["broker", *arguments])
    assert result.exit_code == 2
    assert arguments[1] in result.output


def test_version_when_asked_for_then_it_is_told() -> None:
    result = CliRunner().invoke(main, ["version"])
    assert (result.exit_code, result.output.split()[:2]) == (0, ["pyproducer", __version__])


def test_version_when_asked_for_then_what_serves_each_codec_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "zstd", ("there_is_no_such_package",))
    told = dict(line.split(": ", 1) for line in CliRunner().invoke(main, ["version"]).output.splitlines()[2:])
    assert told["crc32c"].startswith("fastcrc ")
    assert told["snappy"].startswith("cramjam ")
    assert told["gzip"].startswith(("isal ", "zlib, Python's own"))
    assert "pip install there_is_no_such_package" in told["zstd"]


def test_help_when_asked_for_then_it_names_the_commands() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "broker" in result.output
    assert "version" in result.output


def test_control_port_when_it_cannot_be_had_then_nothing_is_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends then; but its brokers held their ports, and a temporary folder, until it did."""
    steps: list[str] = []

    class Cluster:
        def __init__(self, _options: object) -> None:
            pass

        def start(self) -> None:
            steps.append("start")

        def stop(self) -> None:
            steps.append("stop")

    def refuse(*_: object) -> None:
        raise ConfigError("control host", "0.0.0.0", "it needs a token")

    monkeypatch.setattr(broker_command, "InProcessCluster", Cluster)
    monkeypatch.setattr(broker_command, "ControlPort", refuse)
    monkeypatch.setattr(broker_command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(broker_command.signal, "set_wakeup_fd", lambda *_, **__: None)
    done = CliRunner().invoke(main, ["broker", "--control-port", "0"])
    assert (done.exit_code, steps) == (2, ["start", "stop"])
    assert "it needs a token" in done.output


def test_salvage_when_it_is_asked_for_then_the_broker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def note(settings: dict[str, str], *_: object) -> dict[str, object]:
        asked.append(settings.get("salvage.damaged.logs"))
        raise ConfigError("nothing", "", "is to start")

    monkeypatch.setattr(broker_command, "cluster_settings", note)
    for arguments in ([], ["--salvage"]):
        assert CliRunner().invoke(main, ["broker", *arguments]).exit_code == 2
    assert asked == [None, "true"]
