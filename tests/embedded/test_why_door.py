"""pyproducer.why.socket: who may ask a process that runs, what is answered, and what becomes of the path."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyproducer import ConfigError, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.cli.main import main
from pyproducer.observe.why import from_json
from pyproducer.producer import why_door
from tests.support.patience import GIVE_UP_S, PROGRAM_S

KEY = "pyproducer.why.socket"


def asked(path: str | Path) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(GIVE_UP_S)
        connection.connect(os.fspath(path))
        return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()


@pytest.fixture
def props(tmp_path: Path) -> dict[str, object]:
    return {"bootstrap.servers": "127.0.0.1:1", KEY: str(tmp_path / "why")}


def test_door_when_a_producer_runs_then_the_command_explains_it(tmp_path: Path) -> None:
    path = tmp_path / "why"
    with EmbeddedBroker() as broker, KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, KEY: str(path),
                                                    "sasl.jaas.config": "", "client.id": "asked"}) as producer:
        producer.send("orders", b"a value", key=b"a key").result(GIVE_UP_S)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        text = asked(path)
        assert [(piece.topic, piece.values["records"]) for piece in from_json(text).pieces] == [("orders", 1)]
        assert "a value" not in text
        assert "a key" not in text
        said = CliRunner().invoke(main, ["why", str(path)])
        assert said.exit_code == 0, said.output
        assert "asked" in said.output
    assert not path.exists()
    said = CliRunner().invoke(main, ["why", str(path)])
    assert said.exit_code == 2
    assert "does not exist" in said.output


def test_door_when_who_asks_hangs_up_or_writes_then_the_next_one_is_answered(props: dict[str, object]) -> None:
    with KafkaProducer(props) as producer:
        for _ in range(20):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(props[KEY]))
                with contextlib.suppress(BrokenPipeError):  # it was answered already
                    connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        assert from_json(asked(str(props[KEY]))).client_id == producer.client_id


def test_path_when_a_process_that_is_gone_left_it_then_it_is_taken(props: dict[str, object]) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(props[KEY]))
    with KafkaProducer(props) as producer:
        assert from_json(asked(str(props[KEY]))).client_id == producer.client_id


def test_path_when_another_producer_answers_there_then_it_keeps_it_and_the_second_works_without(
        props: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    with KafkaProducer(props) as first:
        with KafkaProducer(props):
            assert "another producer answers there" in caplog.text
        assert from_json(asked(str(props[KEY]))).client_id == first.client_id


class OutOfDescriptors:
    """A listener that has no descriptor for the first who ask."""

    def __init__(self, listener: socket.socket, times: int) -> None:
        self.listener = listener
        self.times = times

    def accept(self) -> tuple[socket.socket, object]:
        if self.times:
            self.times -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self.listener.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self.listener, name)


def test_door_when_there_is_no_descriptor_for_a_moment_then_it_is_told_once_and_the_door_stays_open(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The first EMFILE ended the thread, and nobody was answered any more."""
    monkeypatch.setattr(why_door, "_PAUSE_S", 0)
    threads: list[threading.Thread] = []

    def start_thread(serve: Callable[[], None], name: str) -> None:
        opened = serve.__self__  # type: ignore[attr-defined]  # a method
        opened._socket = OutOfDescriptors(opened._socket, 3)
        threads.append(threading.Thread(target=serve, name=name))
        threads[0].start()

    door = why_door.WhyDoor(str(tmp_path / "why"), lambda: "answer", start_thread)
    assert asked(door.path) == "answer"
    door.close()
    threads[0].join(GIVE_UP_S)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "for now" in caplog.text


def test_path_when_it_is_another_s_by_now_then_close_leaves_it(props: dict[str, object]) -> None:
    """An operator moved the first socket away, and the next producer listens there."""
    path = Path(str(props[KEY]))
    with KafkaProducer(props):
        path.rename(path.with_name("moved"))
        path.write_text("another's")
    assert path.read_text() == "another's"


def test_path_when_it_is_relative_then_it_stays_in_the_folder_of_the_start(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with KafkaProducer({"bootstrap.servers": "127.0.0.1:1", KEY: "why"}):
        assert (tmp_path / "why").exists()
        monkeypatch.chdir("/")
    assert not (tmp_path / "why").exists()


@pytest.mark.parametrize(("name", "why"), [("file", "no socket"), ("x" * 200, "at most 107 bytes"),
                                           ("nowhere/why", "may write to"), ("a\0b", "null byte"),
                                           ("a\ud800", "surrogates")], ids=ascii)
def test_path_when_it_cannot_be_then_the_error_says_so_and_nothing_runs(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ConfigError, match=why) as caught:
        KafkaProducer({"bootstrap.servers": "127.0.0.1:1", KEY: str(tmp_path / name)})
    assert caught.value.key == KEY
    assert (tmp_path / "file").read_text() == "kept"


def test_path_when_it_names_the_process_then_each_worker_has_its_own(tmp_path: Path) -> None:
    """A producer that is made anew in a forked child opens its own door, and leaves its parent's alone."""
    program = f"""
import os, sys
from pyproducer import KafkaProducer
from pyproducer.observe.why import from_json
from tests.embedded.test_why_door import asked
producer = KafkaProducer({{"bootstrap.servers": "127.0.0.1:1", "{KEY}": {str(tmp_path)!r} + "/{{pid}}",
                          "pyproducer.fork": "rebuild", "max.block.ms": 1}})
child = os.fork()
if child == 0:
    assert producer.waiting() == []
    from_json(asked({str(tmp_path)!r} + f"/{{os.getpid()}}"))
    producer.close()
    os._exit(0 if os.listdir({str(tmp_path)!r}) == [str(os.getppid())] else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
from_json(asked({str(tmp_path)!r} + f"/{{os.getpid()}}"))
producer.close()
assert os.listdir({str(tmp_path)!r}) == []
"""
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", program], check=True, timeout=PROGRAM_S,
                   cwd=Path(__file__).parents[2])
