"""The commands that send: in a pipe, where only results are printed, and in a terminal, where progress is."""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import click
import pytest
from click.testing import CliRunner

from pyproducer import ErrorCode, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.cli.main import main
from pyproducer.testing import read_topic
from tests.support.patience import GIVE_UP_S, PROGRAM_S

StartBroker = Callable[..., EmbeddedBroker]
COMMAND = [sys.executable, "-m", "pyproducer"]


@pytest.fixture
def broker(start_broker: StartBroker) -> Iterator[EmbeddedBroker]:
    return start_broker(topics={"orders": 2})


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], input=text, capture_output=True, text=True, timeout=PROGRAM_S,
                          check=False)


def stored(broker: EmbeddedBroker) -> list[tuple[bytes | None, bytes | None]]:
    return sorted(((record.key, record.value) for record in read_topic(broker.bootstrap_servers, "orders")),
                  key=lambda pair: (pair[0] or b"", pair[1] or b""))


def test_send_when_lines_come_in_a_pipe_then_each_is_stored_and_stdout_is_empty(broker: EmbeddedBroker) -> None:
    done = run("send", "-b", broker.bootstrap_servers, "orders", text="one\ntwo\r\n\nlast without an end")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("4 stored, 0 failed in ")
    assert "\r" not in done.stderr
    assert stored(broker) == [(None, b""), (None, b"last without an end"), (None, b"one"), (None, b"two")]


def test_send_and_perf_when_no_broker_answers_then_nothing_is_called_stored(broker: EmbeddedBroker) -> None:
    """With acks=0 they said "3 stored" of what the topic had refused."""
    broker.create_topic("tiny", 1, configs={"max.message.bytes": "40"})
    there = ["-b", broker.bootstrap_servers, "-P", "acks=0"]
    sent = CliRunner().invoke(main, ["send", *there, "tiny"], input=b"one\ntwo\n")
    assert "2 sent, unconfirmed (acks=0), 0 failed in " in sent.output
    measured = CliRunner().invoke(main, ["perf", *there, "--records", "3", "tiny"])
    assert "3 records of 100 bytes sent, unconfirmed (acks=0), 0 failed" in measured.output


@pytest.mark.parametrize(("closed", "arguments", "said"), [
    ("<&-", [], "Error: standard input is closed: name FILES with the lines\n"),
    ("<&-", ["-"], "standard input is closed: name a file with the lines\n"),
    (">&-", ["--failed", "-"], "--failed -: standard output is closed: name a file\n")])
def test_send_when_a_standard_stream_that_it_needs_is_closed_says_so(
        broker: EmbeddedBroker, closed: str, arguments: list[str], said: str) -> None:
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *COMMAND, "send", "-b", broker.bootstrap_servers,
                           "orders", *arguments], input="one\n", capture_output=True, text=True, timeout=PROGRAM_S,
                          check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(said)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", [b"\x96junk", b'{"format": 1, "client_id": "producer-1'])
def test_why_when_the_file_is_none_of_its_own_says_so(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "saved").write_bytes(content)
    done = CliRunner().invoke(main, ["why", str(tmp_path / "saved")])
    assert done.exit_code == 1
    assert "it was not written by why(save=...), or is cut off: " in done.output


def test_send_when_lines_have_keys_and_headers_then_records_have_them(broker: EmbeddedBroker) -> None:
    done = CliRunner().invoke(main, ["send", "-b", broker.bootstrap_servers, "--key-separator", "\\t",
                                     "--headers-separator", "|", "--null-marker", "NULL", "orders"],
                              input="a:1,b:2|k\tv\n|k2\tNULL\n")
    assert done.exit_code == 0, done.output
    assert stored(broker) == [(b"k", b"v"), (b"k2", None)]
    (headers,) = [record.headers for record in read_topic(broker.bootstrap_servers, "orders") if record.key == b"k"]
    assert [(header[0], header[1]) for header in headers] == [("a", b"1"), ("b", b"2")]


@pytest.mark.parametrize(("form", "text", "expected"), [
    ("json", '{"key": "k", "value": {"n": 1}, "headers": {"h": "x"}}\n', [(b"k", b'{"n":1}')]),
    ("csv", 'id,name\n7,"a\nb"\n', [(b"7", b'{"id":"7","name":"a\\nb"}')])])
def test_send_when_lines_are_json_or_csv_then_fields_are_keys_and_values(
        broker: EmbeddedBroker, form: str, text: str, expected: list[tuple[bytes, bytes]]) -> None:
    more = ["--key-field", "id"] if form == "csv" else []
    done = CliRunner().invoke(main, ["send", "-b", broker.bootstrap_servers, "--format", form, *more, "orders"],
                              input=text)
    assert done.exit_code == 0, done.output
    assert stored(broker) == expected


def test_send_when_lines_make_no_records_then_they_are_named_kept_and_the_status_is_1(
        broker: EmbeddedBroker, tmp_path: Path) -> None:
    failed = tmp_path / "failed.txt"
    done = CliRunner().invoke(main, ["send", "-b", broker.bootstrap_servers, "--key-separator", ":", "--failed",
                                     str(failed), "orders"], input="a:1\nno separator\nb:2\n")
    assert done.exit_code == 1
    assert "line 2: it has no ':' between key and value" in done.output
    assert failed.read_bytes() == b"no separator\n"
    assert stored(broker) == [(b"a", b"1"), (b"b", b"2")]


def test_send_when_the_broker_refuses_lines_then_they_are_kept(broker: EmbeddedBroker, tmp_path: Path) -> None:
    failed, config = tmp_path / "failed.txt", tmp_path / "client.properties"
    config.write_text(f"bootstrap.servers={broker.bootstrap_servers}\nmax.request.size=1000\n")
    broker.faults.on("Produce", times=1).error(ErrorCode.INVALID_RECORD)
    done = CliRunner().invoke(main, ["send", "--config", str(config), "--failed", str(failed), "orders"],
                              input="x\ny\n")
    assert done.exit_code == 1
    assert "0 stored, 2 failed" in done.output
    assert re.findall(r"line (\d+):", done.output) == ["1", "2"]
    assert failed.read_bytes() == b"x\ny\n"


@pytest.mark.parametrize(("more", "text", "kept", "expected"), [
    ([], "one\n{}\ntwo\n", "{}\n", [(None, b"one"), (None, b"two")]),
    (["--key-separator", ":"], "k:one\nk:{}\nk:two\n", "k:{}\n", [(b"k", b"one"), (b"k", b"two")]),
    (["--format", "csv", "--value-field", "v"], "n,v\n1,one\n2,{}\n3,two\n", "n,v\n2,{}\n",
     [(None, b"one"), (None, b"two")]),
    (["--format", "json"], '{{"value": "one"}}\n{{"headers": {{"\\ud800": "{}"}}}}\n',
     '{{"headers": {{"\\ud800": "{}"}}}}\n', [(None, b"one")])])
def test_send_when_a_line_cannot_be_sent_then_it_alone_is_kept(
        broker: EmbeddedBroker, tmp_path: Path, more: list[str], text: str, kept: str,
        expected: list[tuple[bytes | None, bytes]]) -> None:
    """What send() and send_batch() raise for one record ended the command with a traceback, and its whole chunk."""
    failed, large = tmp_path / "failed.txt", "x" * 2_000
    done = CliRunner().invoke(main, ["send", "-b", broker.bootstrap_servers, "-P", "max.request.size=1000", *more,
                                     "--failed", str(failed), "orders"], input=text.format(large))
    assert done.exit_code == 1, done.output
    assert f"{len(expected)} stored, 1 failed" in done.output
    assert failed.read_text() == kept.format(large)
    assert stored(broker) == expected


@pytest.mark.parametrize("way", ["folder", "input"])
def test_send_when_failed_lines_cannot_be_kept_then_nothing_is_sent(
        broker: EmbeddedBroker, tmp_path: Path, way: str) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\n")
    failed = lines if way == "input" else tmp_path / "nowhere" / "failed.txt"
    done = CliRunner().invoke(main, ["send", "-b", broker.bootstrap_servers, "--failed", str(failed), "orders",
                                     str(lines)])
    assert done.exit_code == 2, done.output
    assert f"--failed {failed}: " in done.output
    assert lines.read_text() == "one\n"
    assert stored(broker) == []


@pytest.mark.parametrize(("failed", "files"), [
    ("lines.txt", []), ("link.txt", []), ("/dev/stdin", []), ("-", []), ("lines.txt", ["-"])])
def test_send_when_failed_lines_would_go_to_the_file_that_is_standard_input_then_it_is_refused_and_whole(
        broker: EmbeddedBroker, tmp_path: Path, files: list[str], failed: str) -> None:
    """Who sent failed lines again by `--failed failed.txt < failed.txt` had an empty file, and was told of no error."""
    lines = tmp_path / "lines.txt"
    lines.write_text("one\nbad:\n")
    (tmp_path / "link.txt").symlink_to(lines)
    path = failed if failed in ("-", "/dev/stdin") else str(tmp_path / failed)
    with lines.open("rb") as reading, lines.open("ab") as appending:
        done = subprocess.run([*COMMAND, "send", "-b", broker.bootstrap_servers, "--failed", path, "orders", *files],
                              stdin=reading, stdout=appending, stderr=subprocess.PIPE, text=True, timeout=PROGRAM_S,
                              check=False)
    assert done.returncode == 2, done.stderr
    assert f"--failed {path}: its lines are to be sent" in done.stderr
    assert lines.read_text() == "one\nbad:\n"
    assert stored(broker) == []


def test_send_when_nobody_reads_what_it_says_then_it_goes_on(broker: EmbeddedBroker, tmp_path: Path) -> None:
    failed, (reading, writing) = tmp_path / "failed.txt", os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([*COMMAND, "send", "-b", broker.bootstrap_servers, "--key-separator", ":", "--failed",
                               str(failed), "orders"], input=b"bad\n" * 3 + b"k:v\n", stderr=writing,
                              timeout=PROGRAM_S, check=False)
    finally:
        os.close(writing)
    assert done.returncode == 1
    assert failed.read_bytes() == b"bad\n" * 3
    assert stored(broker) == [(b"k", b"v")]


def test_send_when_it_is_told_to_end_then_what_was_read_is_sent_and_what_failed_is_kept(
        broker: EmbeddedBroker, tmp_path: Path) -> None:
    """SIGTERM, by which orchestrators and supervisors stop a program, lost both."""
    failed = tmp_path / "failed.txt"
    with subprocess.Popen([*COMMAND, "send", "-b", broker.bootstrap_servers, "-P", "linger.ms=60000", "-P",
                           "delivery.timeout.ms=120000", "--key-separator", ":", "--failed", str(failed), "orders"],
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                          preexec_fn=partial(signal.signal, signal.SIGTERM, signal.SIG_DFL)) as program:
        try:
            assert program.stdin is not None
            assert program.stderr is not None
            program.stdin.write(b"k:v\nbad\n")
            said = io.BufferedReader(cast("io.RawIOBase", program.stderr))
            assert said.readline().startswith(b"line 2: ")
            program.terminate()
            assert program.wait(PROGRAM_S) == 130
            assert b"interrupted: 1 stored, 1 failed in " in said.read()
        finally:
            program.kill()
    assert failed.read_bytes() == b"bad\n"
    assert stored(broker) == [(b"k", b"v")]


def test_send_when_the_settings_name_serializers_then_they_are_ignored_with_a_warning(broker: EmbeddedBroker) -> None:
    settings = ["-P", "value.serializer=json", "-P",
                "key.serializer=org.apache.kafka.common.serialization.ByteArraySerializer"]
    done = CliRunner().invoke(main, ["send", "-b", broker.bootstrap_servers, *settings, "orders"], input="one\n")
    assert done.exit_code == 0, done.output
    assert "value.serializer is ignored" in done.output
    assert "key.serializer" not in done.output
    assert stored(broker) == [(None, b"one")]


@pytest.mark.parametrize(("arguments", "said"), [
    (["send", "-b", "x:1", "--key-separator", "", "orders"], "it is empty"),
    (["send", "-b", "x:1", "-P", "transactional.id=x", "orders"], "begins no transaction"),
    (["perf", "-b", "x:1", "-P", "transactional.id=x", "orders"], "begins no transaction"),
    (["perf", "-b", "{broker}", "-P", "max.request.size=1000", "--record-size", "2000", "orders"],
     "max.request.size")])
def test_command_when_it_cannot_be_done_as_asked_then_one_sentence_and_status_2(
        broker: EmbeddedBroker, arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(main, [each.format(broker=broker.bootstrap_servers) for each in arguments])
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert stored(broker) == []


@pytest.mark.parametrize(("arguments", "said"), [
    (["send", "orders"], "no broker is named"),
    (["send", "-b", "x:1", "-P", "liner.ms=5", "orders"], "linger.ms"),
    (["perf", "-b", "x:1", "-P", "secret", "orders"], "it must be KEY=VALUE")])
def test_command_when_it_makes_no_sense_then_status_2_and_no_traceback(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 2
    assert said in done.output


def test_perf_when_it_is_done_then_rate_percentiles_chart_and_why_are_printed(broker: EmbeddedBroker) -> None:
    done = run("perf", "-b", broker.bootstrap_servers, "--records", "2000", "--why", "orders")
    assert done.returncode == 0, done.stderr
    assert "2,000 records of 100 bytes stored, 0 failed" in done.stdout
    assert "latency, ms: p50 " in done.stdout
    assert "#" in done.stdout
    assert "pyproducer-perf, the last" in done.stdout
    assert done.stderr == ""


def in_terminal(arguments: list[str], until: str = "",
                then: Callable[[subprocess.Popen[bytes]], object] = lambda _program: None) -> tuple[int, str]:
    """Run a command in a terminal; when it has said `until`, do something; return its status and all it said."""
    ours, theirs = pty.openpty()
    # Who runs the tests in the background of a shell has Ctrl-C ignored, and so would the command.
    program = subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=theirs, stderr=theirs,
                               preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL))
    os.close(theirs)
    said: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # nobody has the other end any more
                return
            if not chunk:
                return
            said.append(chunk)

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        ends = time.monotonic() + GIVE_UP_S
        while until.encode() not in b"".join(said):
            assert time.monotonic() < ends, b"".join(said)
            assert program.poll() is None, b"".join(said)
            time.sleep(0.02)
        then(program)
        assert program.stdin is not None
        program.stdin.close()
        status = program.wait(PROGRAM_S)
    finally:
        program.kill()
        program.wait()
        listener.join(GIVE_UP_S)
        os.close(ours)
    return status, b"".join(said).decode()


def test_perf_when_it_is_interrupted_in_a_terminal_then_it_ends_with_what_it_did(broker: EmbeddedBroker) -> None:
    status, said = in_terminal(
        ["perf", "-b", broker.bootstrap_servers, "--records", "100000000", "--rate", "2000", "orders"],
        "a second", lambda program: program.send_signal(signal.SIGINT))
    assert status == 130, said
    assert "interrupted: " in said
    assert "records of 100 bytes stored" in said
    assert "Traceback" not in said


COMMANDS = {
    "send": (["send", "-b", "{servers}", "orders"], b"one\ntwo\n", "2 stored, 0 failed in "),
    "perf": (["perf", "-b", "{servers}", "--records", "1000", "orders"], b"", "1,000 records of 100 bytes stored"),
    "config": (["config", "{folder}/client.properties"], b"", "linger.ms  "),
    "doctor": (["doctor", "-b", "{servers}", "--topic", "orders"], b"", "orders"),
    "txn": (["txn", "list", "-b", "{servers}"], b"", "shop  CompleteCommit"),
    "why": (["why", "{folder}/why.json"], b"", "1 batches"),
    "version": (["version"], b"", "pyproducer "),
}


@pytest.mark.parametrize("place", ["pipe", "terminal"])
@pytest.mark.parametrize("command", COMMANDS)
def test_command_when_it_runs_in_a_pipe_or_a_terminal_then_it_says_the_same(
        broker: EmbeddedBroker, tmp_path: Path, command: str, place: str) -> None:
    arguments, text, says = COMMANDS[command]
    (tmp_path / "client.properties").write_text(f"bootstrap.servers={broker.bootstrap_servers}\nlinger.ms=7\n")
    if command in ("txn", "why"):
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "shop"}) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("orders", b"v")
            producer.why(save=tmp_path / "why.json")
    given = [word.format(servers=broker.bootstrap_servers, folder=tmp_path) for word in arguments]
    if place == "pipe":
        done = run(*given, text=text.decode())
        status, said = done.returncode, done.stdout + done.stderr
        assert "\r" not in said  # nothing that draws over itself, for a log
        assert "\x1b" not in said
    else:
        def give(program: subprocess.Popen[bytes]) -> None:
            assert program.stdin is not None
            program.stdin.write(text)

        status, said = in_terminal(given, then=give)
    assert status == 0, said
    assert says in said
    assert "Traceback" not in said


def broker_in_a_pipe() -> tuple[int, str]:
    program = subprocess.Popen([*COMMAND, "broker", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL))
    assert program.stdout is not None
    said = program.stdout.readline()
    program.send_signal(signal.SIGINT)
    rest, _ = program.communicate(timeout=PROGRAM_S)
    return program.returncode, said + rest


def broker_in_a_terminal() -> tuple[int, str]:
    return in_terminal(["broker", "--port", "0"], "127.0.0.1:", lambda program: program.send_signal(signal.SIGINT))


@pytest.mark.parametrize("run_it", [broker_in_a_pipe, broker_in_a_terminal])
def test_broker_when_it_is_interrupted_in_a_pipe_or_a_terminal_then_it_ends_without_a_traceback(
        run_it: Callable[[], tuple[int, str]]) -> None:
    status, said = run_it()
    assert status == 0, said
    assert "127.0.0.1:" in said
    assert "Traceback" not in said


def test_broker_when_nobody_reads_where_it_listens_then_it_ends_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its folder of logs stayed, as did its threads until the interpreter's exit."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([*COMMAND, "broker", "--port", "0"], stdout=writing, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=PROGRAM_S, check=False)
    finally:
        os.close(writing)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_command_when_the_terminal_has_no_such_character_then_it_is_escaped(tmp_path: Path, encoding: str) -> None:
    """What could be told ended with the first value that could not: a traceback."""
    (tmp_path / "client.properties").write_text("client.id=caf\u00e9\u20ac\nbootstrap.servers=x:1\n", encoding="utf-8")
    done = subprocess.run([*COMMAND, "config", "--given", str(tmp_path / "client.properties"), "--property",
                           b"linger.ms=5", "--property", b"client.rack=\xff"], capture_output=True,
                          env={**os.environ, "PYTHONIOENCODING": encoding}, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stderr
    euro = b"\\u20ac" if encoding == "latin-1" else "\u20ac".encode()
    assert b"  caf" + "\u00e9".encode(encoding) + euro + b"  (line 1)" in done.stdout
    assert b"client.rack        \\udcff  " in done.stdout


def test_help_when_asked_for_then_each_command_has_an_example_of_its_own_options() -> None:
    """README promises one for each command that it names; broker, config, doctor and txn had none."""
    said = CliRunner().invoke(main, ["--help"]).output
    for command in ("broker", "config", "doctor", "perf", "send", "version", "why"):
        assert f"\n  {command} " in said
    of_txn = main.commands["txn"]
    assert isinstance(of_txn, click.Group)
    commands = {(name,): command for name, command in main.commands.items() if name != "version"}
    commands.update({("txn", name): command for name, command in of_txn.commands.items()})
    assert {name for name, *_ in commands} == {"broker", "config", "doctor", "perf", "send", "txn", "why"}
    for path, command in commands.items():
        text = CliRunner().invoke(main, [*path, "--help"]).output
        examples = [line.partition(f"pyproducer {' '.join(path)} ")[2]
                    for line in text.partition("\n  Example")[2].splitlines()[1:] if "pyproducer " in line]
        assert examples, path
        assert all(examples), path
        options = {name for param in command.params for name in param.opts}
        given = {word for example in examples for word in shlex.split(example) if re.match("--?[a-zA-Z]", word)}
        assert given <= options or command is of_txn, path
    for path in ([], ["version"], *commands):
        assert "\\b" not in CliRunner().invoke(main, [*path, "--help"]).output
