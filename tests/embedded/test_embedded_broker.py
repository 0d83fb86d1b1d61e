"""EmbeddedBroker as its users see it: both kinds of process, restart, crash, misuse."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker, StoredRecord
from pyproducer.broker.control.child_process import ChildProcessCluster
from pyproducer.common.errors import ConfigError, IllegalStateError
from pyproducer.common.records import Header
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from tests.support.patience import GIVE_UP_S, PROGRAM_S
from tests.support.raw_client import RawClient, metadata_body, produce_body, produced

ROOT = Path(__file__).resolve().parents[2]
START_MS = 1_700_000_000_000
both_kinds = pytest.mark.parametrize("separate_process", [False, True], ids=["in process", "separate process"])


def connect(broker: EmbeddedBroker) -> RawClient:
    return RawClient(("127.0.0.1", broker.port))


def produce(client: RawClient, topic: str, partition: int, *values: bytes, **fields: int) -> int:
    records = build_batch([(START_MS, b"k", value, (Header("h", b"1"),)) for value in values], **fields)
    answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body(topic, partition, bytes(records))))
    assert answer["error_code"] == 0
    offset: int = answer["base_offset"]
    return offset


@pytest.mark.parametrize("topics", ["orders", b"orders"])
def test_topics_when_one_name_stands_for_a_list_then_the_error_says_what_to_write(topics: Any) -> None:
    """They were six topics of a letter each."""
    with pytest.raises(ConfigError, match="write topics=") as caught:
        EmbeddedBroker(topics=topics)
    assert caught.value.key == "topics"


@both_kinds
def test_broker_serves_shows_its_records_and_leaves_nothing(separate_process: bool) -> None:
    with EmbeddedBroker(topics={"orders": 3}, separate_process=separate_process) as broker:
        host, port = broker.bootstrap_servers.split(":")
        assert (host, int(port)) == ("127.0.0.1", broker.port)
        data_dir = broker.data_dir
        with connect(broker) as client:
            produce(client, "orders", 1, b"a", b"b")
            produce(client, "orders", 2, b"c")
        assert broker.create_topic("more", 2)
        assert not broker.create_topic("more", 2)
        assert broker.topics() == {"orders": 3, "more": 2}
        assert broker.log_end_offsets("orders") == {0: 0, 1: 2, 2: 1}
        assert broker.log_end_offsets("no such topic") == {}
        header = (Header("h", b"1"),)
        assert broker.records("orders") == [
            StoredRecord("orders", 1, 0, START_MS, b"k", b"a", header),
            StoredRecord("orders", 1, 1, START_MS, b"k", b"b", header),
            StoredRecord("orders", 2, 0, START_MS, b"k", b"c", header)]
        with pytest.raises(ConfigError, match="Unknown topic config"):
            broker.create_topic("bad", 1, {"no.such": "1"})
        with pytest.raises(ConfigError, match="is invalid"):
            broker.create_topic("bad/name")
    assert not data_dir.exists()
    with pytest.raises(IllegalStateError):
        broker.bootstrap_servers  # noqa: B018 - the property is what is tested


@both_kinds
def test_broker_starts_again_with_everything_it_had(tmp_path: Path, separate_process: bool) -> None:
    data_dir = tmp_path / "data"
    for run in range(3):
        with EmbeddedBroker(data_dir=data_dir, topics={"orders": 1}, separate_process=separate_process) as broker:
            with connect(broker) as client:
                assert produce(client, "orders", 0, b"%d" % run, producer_id=5, producer_epoch=0,
                               base_sequence=run) == run
                # The batch of the run before is still known as a duplicate.
                if run:
                    assert produce(client, "orders", 0, b"%d" % (run - 1), producer_id=5, producer_epoch=0,
                                   base_sequence=run - 1) == run - 1
            assert [record.value for record in broker.records("orders")] == [b"%d" % number
                                                                            for number in range(run + 1)]


def test_broker_may_start_again_after_stop() -> None:
    broker = EmbeddedBroker(topics=["orders"], num_partitions=2)
    for _ in range(2):
        with broker:
            assert broker.topics() == {"orders": 2}
    broker.stop()
    with broker, pytest.raises(IllegalStateError, match="running already"):
        broker.start()


@pytest.mark.parametrize(("arguments", "why"), [
    ({"brokers": 0}, "at least one"),
    ({"topics": {"orders": 0}}, "at least one partition"),
    ({"topics": {"a/b": 1}}, "is invalid"),
    ({"config": {"num.io.thread": 1}}, r"did you mean 'num\.io\.threads'"),
    ({"config": {"listeners": "SSL://127.0.0.1:0"}}, "needs a certificate"),
])
def test_arguments_that_make_no_sense_are_refused_and_nothing_runs(arguments: dict[str, object], why: str) -> None:
    before = threading.active_count()
    with pytest.raises(ConfigError, match=why):
        EmbeddedBroker(**arguments).start()  # type: ignore[arg-type]  # wrong on purpose
    assert threading.active_count() == before


@both_kinds
def test_log_dirs_when_there_is_no_data_dir_then_everything_is_there_and_stays(
        tmp_path: Path, separate_process: bool) -> None:
    config = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    for topics in ({"orders": 1}, {}):
        broker = EmbeddedBroker(topics=topics, config=config, separate_process=separate_process)
        with broker:
            assert broker.topics() == {"orders": 1}
        assert broker.data_dir == tmp_path / "a"
    assert not (tmp_path / "b").exists()


@both_kinds
def test_data_dir_when_apache_kafka_made_it_then_it_is_refused_and_nothing_in_it_changes(
        tmp_path: Path, separate_process: bool) -> None:
    """A server.properties names Kafka's own: a topic that was made here would have set Kafka's logs aside."""
    (tmp_path / "orders-0").mkdir()
    for name in ("meta.properties", "orders-0/00000000000000000000.log"):
        (tmp_path / name).write_text("Kafka's", encoding="ascii")
    broker = EmbeddedBroker(topics=["orders"], config={"log.dirs": str(tmp_path)}, separate_process=separate_process)
    with pytest.raises(ConfigError, match=r"Apache Kafka's own: it has a meta\.properties"):
        broker.start()
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "00000000000000000000.log", "meta.properties", "orders-0"]


@both_kinds
def test_data_dir_of_a_running_broker_is_refused(tmp_path: Path, separate_process: bool) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        with pytest.raises(ConfigError, match="another broker uses this directory"):
            EmbeddedBroker(data_dir=tmp_path, separate_process=separate_process).start()
        assert broker.topics() == {}


def test_topic_when_it_was_given_more_partitions_then_the_same_arguments_start_again(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(data_dir=tmp_path, topics={"orders": 3}) as broker, connect(broker) as client:
        (answer,) = client.request(ApiKeys.CREATE_PARTITIONS, 3, {
            "timeout_ms": 1000, "validate_only": False,
            "topics": [{"name": "orders", "count": 6, "assignments": None}]})["results"]
        assert answer["error_code"] == 0
    for _ in range(2):
        with EmbeddedBroker(data_dir=tmp_path, topics={"orders": 3}) as broker:
            assert broker.topics() == {"orders": 6}
    assert [record.getMessage() for record in caplog.records] == [
        "The data directory has orders with 6 partitions, and it was asked for with 3: it keeps those that it has"] * 2


def test_topic_when_it_has_fewer_partitions_than_asked_for_then_it_is_given_more(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(3, tmp_path, {"orders": 1}, config={"default.replication.factor": 2}):
        pass
    for brokers, count in ((3, 3), (1, 4), (1, 4)):  # it has more replicas than there are brokers then
        with EmbeddedBroker(brokers, tmp_path, {"orders": count}) as broker:
            assert broker.topics() == {"orders": count}
            partition = broker.describe_partition("orders", count - 1)
            assert partition is not None
            assert len(partition.replicas) == min(brokers, 2)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        f"The data directory had orders with {had} partitions, and it was asked for with {had_to}"
        for had, had_to in ((1, 3), (3, 4))]


def test_auto_create_can_be_switched_off() -> None:
    with EmbeddedBroker(auto_create_topics=False) as broker:
        with connect(broker) as client:
            answer = client.request(ApiKeys.METADATA, 12, metadata_body("orders"))
        assert answer["topics"][0]["error_code"] == 3
        assert broker.topics() == {}


def test_without_strict_checks_records_stay_unopened() -> None:
    batch = bytearray(build_batch([(START_MS, b"k", b"v", ())]))
    with EmbeddedBroker(topics={"orders": 1}, strict_checks=False) as broker, connect(broker) as client:
        answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, bytes(batch))))
        assert answer["error_code"] == 0
        batch[-1] ^= 0xFF  # the checksum is checked all the same
        answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body("orders", 0, bytes(batch))))
        assert answer["error_code"] == 2


def test_twenty_starts_and_stops_leave_no_descriptor_and_no_thread() -> None:
    process = psutil.Process()
    with EmbeddedBroker():
        pass
    before = process.num_fds(), threading.active_count()
    for _ in range(20):
        with EmbeddedBroker(topics={"orders": 5}) as broker, connect(broker) as client:
            produce(client, "orders", 0, b"v")
    assert (process.num_fds(), threading.active_count()) == before


def test_stop_with_clients_connected_does_not_wait_for_them(start_broker: Callable[..., EmbeddedBroker]) -> None:
    broker = start_broker(separate_process=True, topics={"orders": 1})
    clients = [connect(broker) for _ in range(20)]
    for client in clients:
        client.request(ApiKeys.METADATA, 1, metadata_body())
    broker.stop()
    for client in clients:
        assert client.is_closed()
        client.close()


# ---- the child process

def pid_of(broker: EmbeddedBroker) -> int:
    cluster = broker._cluster
    assert isinstance(cluster, ChildProcessCluster)
    assert cluster.pid is not None
    return cluster.pid


def await_gone(pid: int) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the process is still there"
        time.sleep(0.02)


@pytest.mark.parametrize("separate_process", [False, True])
def test_records_when_some_are_deleted_then_they_are_not_told(separate_process: bool) -> None:
    """They were, as long as their segment was there: who cleans a topic between tests saw those of the last one."""
    with EmbeddedBroker(topics={"orders": 1}, separate_process=separate_process) as broker:
        with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            for number in range(4):
                producer.send("orders", b"%d" % number)
        with connect(broker) as client:
            client.request(ApiKeys.DELETE_RECORDS, 1, {"timeout_ms": 10_000, "topics": [
                {"name": "orders", "partitions": [{"partition_index": 0, "offset": 2}]}]})
        assert [record.value for record in broker.records("orders")] == [b"2", b"3"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals that interrupt are of POSIX")
@pytest.mark.parametrize("words", [1, 20_000], ids=["its answer", "half of it written"])
def test_child_when_a_question_is_given_up_then_its_answer_is_not_the_next_ones(words: int) -> None:
    """A signal's handler raises, as pytest-timeout's does: from then on each question got the answer of the one before.

    The question that is longer than what a pipe holds is half written then.
    """
    class Interrupted(Exception):
        pass

    def interrupt(*_arguments: object) -> None:
        raise Interrupted

    with EmbeddedBroker(topics={"orders": 3}, separate_process=True) as broker:
        before = signal.signal(signal.SIGALRM, interrupt)
        os.kill(pid_of(broker), signal.SIGSTOP)
        try:
            with pytest.raises(Interrupted):  # noqa: PT012 - the timer must not come before
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                broker.leader_of("orders " * words, 0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            os.kill(pid_of(broker), signal.SIGCONT)
        assert broker.log_end_offsets("orders") == {0: 0, 1: 0, 2: 0}
        assert broker.topics() == {"orders": 3}
        assert broker.create_topic("orders") is False


class LosesAPiece:
    """A pipe with a signal whose handler raises when a piece has left the pipe, and nobody has it yet."""

    def __init__(self, pipe: Any, piece: int) -> None:
        self._pipe, self._left = pipe, piece

    def read(self, size: int) -> bytes:
        data: bytes = self._pipe.read(size) if self._left else b""
        if self._left <= 1:
            raise KeyboardInterrupt
        self._left -= 1
        return data


def give_up(broker: EmbeddedBroker, piece: int) -> subprocess.Popen[bytes]:
    """Ask for an answer of three pieces, which is longer than what a pipe holds, and lose the one with that number.

    With 0 none is read.
    """
    cluster = broker._cluster
    assert isinstance(cluster, ChildProcessCluster)
    process = cluster._process
    assert process is not None
    pipe = process.stdout
    process.stdout = LosesAPiece(pipe, piece)  # type: ignore[assignment]
    try:
        with pytest.raises(KeyboardInterrupt):
            broker.create_topic("x" * 150_000)  # the error repeats it
    finally:
        process.stdout = pipe
    return process


@pytest.mark.parametrize("piece", [1, 2, 3])
def test_child_when_a_piece_of_an_answer_is_lost_then_the_next_answer_is_heard(piece: int) -> None:
    """The next answer began in the line of the one whose end was lost: neither was any, and who waited for it waited
    for ever.
    """
    with EmbeddedBroker(topics={"orders": 3}, separate_process=True) as broker:
        give_up(broker, piece)
        assert broker.topics() == {"orders": 3}
        assert broker.create_topic("orders") is False


def test_stop_when_the_child_writes_an_answer_that_nobody_reads_then_it_ends_and_leaves_nothing() -> None:
    """It stood still in the pipe, was killed after 15 s, and its temporary directory stayed."""
    broker = EmbeddedBroker(separate_process=True).start()
    process, data_dir = give_up(broker, 0), broker.data_dir
    assert data_dir is not None
    broker.stop()
    assert process.returncode == 0
    assert not data_dir.exists()


def test_child_that_was_killed_is_named_and_its_log_is_whole(tmp_path: Path) -> None:
    broker = EmbeddedBroker(data_dir=tmp_path, topics={"orders": 1}, separate_process=True).start()
    acknowledged = 0
    with connect(broker) as client:
        for number in range(200):
            acknowledged = produce(client, "orders", 0, b"%d" % number) + 1
        os.kill(pid_of(broker), signal.SIGKILL)
    with pytest.raises(IllegalStateError, match="has ended"):
        broker.log_end_offsets("orders")
    broker.stop()
    with EmbeddedBroker(data_dir=tmp_path) as again:
        assert again.log_end_offsets("orders") == {0: acknowledged}
        assert [record.value for record in again.records("orders")] == [b"%d" % number for number in range(200)]


def test_child_stops_cleanly_on_sigterm(tmp_path: Path) -> None:
    broker = EmbeddedBroker(data_dir=tmp_path, topics={"orders": 1}, separate_process=True).start()
    os.kill(pid_of(broker), signal.SIGTERM)
    await_gone(pid_of(broker))
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    broker.stop()


def test_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys, time
        from pyproducer.broker import EmbeddedBroker
        broker = EmbeddedBroker(separate_process=True).start()
        print(broker._cluster.pid, broker.data_dir, flush=True)
        time.sleep(60)
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, data_dir = parent.stdout.readline().split()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await_gone(int(pid))
    assert not Path(data_dir).exists(), "the child removes its temporary folder"


# ---- the command line

def start_command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-W", "error", "-m", "pyproducer", "broker", *arguments], cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_line_serves_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    command = start_command("--port", "0", "--data-dir", str(tmp_path), "--topic", "orders:3", "--topic", "events",
                            "--config", "num.io.threads=2")
    assert command.stdout is not None
    line = command.stdout.readline()
    assert line.startswith("pyproducer broker listens on PLAINTEXT://127.0.0.1:")
    assert "topics: events:1, orders:3" in line
    port = int(line.split("PLAINTEXT://127.0.0.1:")[1].split(";")[0])
    with RawClient(("127.0.0.1", port)) as client:
        assert produce(client, "orders", 2, b"v") == 0
    command.send_signal(number)
    printed, complaints = command.communicate(timeout=PROGRAM_S)
    assert (command.returncode, printed, complaints) == (0, "", "")
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        assert [record.value for record in broker.records("orders")] == [b"v"]


def test_command_line_runs_three_brokers_with_the_settings_of_a_file(tmp_path: Path) -> None:
    """What a container runs: all addresses, the name that others know it by, a server.properties as it is elsewhere."""
    path = tmp_path / "server.properties"
    path.write_text(f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path}/a\nnum.partitions=4\n"
                    "inter.broker.listener.name=PLAINTEXT\nlog.retention.hours=168\n", encoding="ascii")
    command = start_command("--brokers", "3", "--host", "0.0.0.0", "--port", "0", "--advertised-host", "localhost",
                            "--config", str(path), "--topic", "orders:3")
    assert command.stdout is not None
    line = command.stdout.readline()
    ports = [int(port) for port in re.findall(r"PLAINTEXT://localhost:(\d+)", line)]
    assert len(ports) == 3, line
    with RawClient(("127.0.0.1", ports[0])) as client:
        told = client.request(ApiKeys.METADATA, 9, metadata_body("orders", "new"))
    assert [(node["host"], node["port"]) for node in told["brokers"]] == [("localhost", port) for port in ports]
    assert [len(topic["partitions"]) for topic in told["topics"]] == [3, 4]
    with KafkaProducer({"bootstrap.servers": f"localhost:{ports[0]}"}) as producer:
        for partition in range(3):
            assert producer.send("orders", b"v", partition=partition).result(GIVE_UP_S).offset == 0
    command.send_signal(signal.SIGINT)
    printed, complaints = command.communicate(timeout=PROGRAM_S)
    assert (command.returncode, printed) == (0, "")
    assert complaints.count("have no effect") == 1
    assert "inter.broker.listener.name, node.id, process.roles" in complaints
    assert (tmp_path / "a" / "orders-2").is_dir()  # where log.dirs says, and still there


@pytest.mark.parametrize(("arguments", "why"), [
    (("--topic", "orders:many"), "is not NAME:PARTITIONS"),
    (("--config", "nonsense"), "is neither KEY=VALUE nor a file of settings"),
    (("--config", "num.io.thread=3"), "did you mean 'num.io.threads'?"),
    (("--topic", "a/b"), "is invalid"),
])
def test_command_line_says_what_is_wrong(arguments: tuple[str, ...], why: str) -> None:
    command = start_command("--port", "0", *arguments)
    _, complaints = command.communicate(timeout=PROGRAM_S)
    assert command.returncode == 2
    assert why in complaints
    assert "Traceback" not in complaints


def test_a_disk_that_is_full_is_a_storage_error_and_nothing_is_stored(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_arguments: object) -> int:
        raise OSError(28, "No space left on device")

    with EmbeddedBroker(topics={"orders": 1}) as broker, connect(broker) as client:
        produce(client, "orders", 0, b"before")
        with monkeypatch.context() as patch:
            patch.setattr(os, "writev", fail)
            answer = produced(client.request(ApiKeys.PRODUCE, 9, produce_body(
                "orders", 0, build_batch([(START_MS, None, b"lost", ())]))))
            assert (answer["error_code"], answer["base_offset"]) == (56, -1)
        assert produce(client, "orders", 0, b"after") == 1
        assert [record.value for record in broker.records("orders")] == [b"before", b"after"]
    assert "No space left on device" in caplog.text
