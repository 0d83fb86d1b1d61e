"""A real Apache Kafka node (KRaft, broker and controller in one JVM) on loopback, started and killed by the tests.

Thread:  one test thread; the JVM is a child process.
Source:  ours; settings are Apache Kafka 4.1's, their reasons are beside them.

No import of pytest: benchmarks use this module too (with `jvm_options=BENCHMARK_JVM_OPTIONS`).
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.support.kafka_jars import (
    CACHE,
    SHORT_RUN,
    compile_java,
    fresh_folder,
    java,
    kafka_classpath,
    only_one_process,
    shared_classes,
)
from tests.support.patience import GIVE_UP_S, PROGRAM_S
from tests.support.ports import ReservedPorts

HERE = Path(__file__).resolve().parent / "kafka"
NODE_SOURCE = HERE / "KafkaNode.java"
READY_LINE = "Kafka Server started"
NODE_ID = 1
TLS_LISTENERS = ("SSL", "MTLS", "MISNAMED")
# Fast to start and quiet beside the client that is tested: one compiler tier, one collector thread.
TEST_JVM_OPTIONS = ("-Xmx512m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
BENCHMARK_JVM_OPTIONS = ("-Xmx1g", "-Xms1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xshare:auto")
ARCHIVE = "-XX:ArchiveClassesAtExit="


def new_cluster_id() -> str:
    """Return one that no other cluster has. Kafka's do not begin with "-" either: its tools take that for an option."""
    return base64.urlsafe_b64encode(b"k" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


class ServerCertificates(NamedTuple):
    """Files (PEM) of the listeners SSL, MTLS (which asks for a client's certificate of `client_ca`) and MISNAMED."""

    keystore: Path  # certificate chain and PKCS8 key in one file
    client_ca: Path
    misnamed_keystore: Path  # for another host name than the one that the broker has


class KafkaServer:
    """One Apache Kafka 4.1 node. A context manager; `start()` returns when it answers.

    Args:
        certificates: Opens the listeners with TLS.
        proxy_port: Opens one more listener that tells its clients to come to this port of loopback, where a proxy
            stands whose target is `proxied_port`.
        listeners: Further listeners, by name, with their security protocols. Those with TLS need `certificates`, and
            are told to clients as localhost.
        settings: Broker settings that replace or extend the ones below.
        jvm_options: Options of the JVM.
        folder: Where its log folder and its output are kept; a temporary folder, removed by stop(), when None.
        features: Feature levels, such as transaction.version; those of the release where none are named.
        cluster_id: Of a cluster that it belongs to; one of its own when None.
        plugins: Java files whose classes the settings name.

    Raises:
        MissingTool: Java or Kafka's jars are absent.
    """

    def __init__(self, *, certificates: ServerCertificates | None = None, proxy_port: int | None = None,
                 listeners: Mapping[str, str] | None = None,
                 settings: Mapping[str, object] | None = None, jvm_options: Sequence[str] = TEST_JVM_OPTIONS,
                 folder: Path | None = None, features: Mapping[str, int] | None = None,
                 cluster_id: str | None = None, plugins: Sequence[Path] = ()) -> None:
        self._java = java()
        self._classpath = kafka_classpath()
        node, *others = (str(compile_java(source, self._classpath)) for source in (NODE_SOURCE, *plugins))
        self._node_classpath = os.pathsep.join((node, self._classpath))
        self._plugins = others  # behind: what a JVM shares classes of has to come first
        self._certificates = certificates
        self._proxy_port = proxy_port
        self._settings = dict(settings or {})
        self._listeners = dict(listeners or {})
        self._jvm_options = tuple(jvm_options)
        self._archives = any(option.startswith(ARCHIVE) for option in jvm_options)
        self._features = dict(features or {})
        self._own_folder = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-server-")) if folder is None else folder
        self.log_dir = self.folder / "data"
        self.output = self.folder / "output.log"
        self._cluster_id = new_cluster_id() if cluster_id is None else cluster_id
        names = ["PLAINTEXT", "CONTROLLER", *(TLS_LISTENERS if certificates else ()),
                 *(("PROXIED",) if proxy_port else ()), *self._listeners]
        # Kafka is told its ports before it starts, and comes back to them after a kill.
        self._reserved = ReservedPorts(len(names))
        self._ports = dict(zip(names, self._reserved.numbers, strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        self._read_from = 0

    def __enter__(self) -> KafkaServer:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The listener without TLS."""
        return f"127.0.0.1:{self._ports['PLAINTEXT']}"

    @property
    def port(self) -> int:
        """The port of the listener without TLS."""
        return self._ports["PLAINTEXT"]

    @property
    def controller_address(self) -> str:
        """Where the other nodes of its cluster find its controller."""
        return f"127.0.0.1:{self._ports['CONTROLLER']}"

    def also_set(self, settings: Mapping[str, object]) -> None:
        """Change settings, from the next start on."""
        self._settings.update(settings)

    @property
    def ssl_bootstrap_servers(self) -> str:
        """The listener with TLS, by the name that its certificate has."""
        return f"localhost:{self._ports['SSL']}"

    @property
    def mtls_bootstrap_servers(self) -> str:
        """The listener with TLS that requires a certificate of the client."""
        return f"localhost:{self._ports['MTLS']}"

    @property
    def misnamed_bootstrap_servers(self) -> str:
        """The listener with TLS whose certificate is for another name."""
        return f"localhost:{self._ports['MISNAMED']}"

    def listener(self, name: str) -> str:
        """One of the further listeners."""
        return f"{'localhost' if self._has_tls(name) else '127.0.0.1'}:{self._ports[name]}"

    def _has_tls(self, name: str) -> bool:
        return name in TLS_LISTENERS or self._listeners.get(name, "").endswith("SSL")

    @property
    def proxied_port(self) -> int:
        """The port of the listener that lies behind a proxy."""
        return self._ports["PROXIED"]

    @property
    def pid(self) -> int:
        """The process id of the JVM."""
        return self._running().pid

    def start(self) -> KafkaServer:
        """Start the node (formatting its folder the first time) and wait until it serves."""
        properties = self._write_properties()
        sharing = () if self._archives else _sharing(self._node_classpath)
        command = [self._java, *sharing, *self._jvm_options, f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}",
                   "-Dlog4j2.disableJmx=true", "-cp", os.pathsep.join((self._node_classpath, *self._plugins)),
                   "KafkaNode", str(properties), str(self.log_dir), self._cluster_id,
                   *(f"{name}={level}" for name, level in self._features.items())]
        self._read_from = self.output.stat().st_size if self.output.exists() else 0
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                                             cwd=self.folder, start_new_session=True)
        self._await_ready()
        return self

    def kill(self) -> None:
        """Kill the JVM at once (SIGKILL), as a crash of the machine's process does."""
        process = self._running()
        process.kill()
        self._reap(process)

    def shut_down(self) -> None:
        """Stop the node as an administrator does (SIGTERM): it writes its snapshots, and `start()` lets it go on."""
        process = self._running()
        process.terminate()
        self._reap(process)

    def restart(self) -> KafkaServer:
        """Start again on the same ports and the same log folder; kills it first if it runs."""
        if self._process is not None:
            self.kill()
        return self.start()

    def pause(self) -> None:
        """Stop the JVM where it stands (SIGSTOP): its sockets stay open and nothing answers from the return on.

        A signal is only on its way when kill() returns, and the threads of a process stop one by one: the kernel tells
        the parent when the last of them has. WNOWAIT leaves the news there, so that pausing twice is no error.
        """
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a paused JVM go on (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the node and remove its temporary folder; again is no error. A test's log needs no clean shutdown."""
        if self._process is not None:
            self.kill()
        self._reserved.close()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic and wait until every partition's leader serves it; returns the name.

        The leader itself is the last to know: until then it refuses, and a producer with acks=0 is not told.
        """
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(configs or {}))
        admin.create_topics([topic], request_timeout=GIVE_UP_S)[name].result(timeout=GIVE_UP_S)
        deadline = time.monotonic() + GIVE_UP_S
        while time.monotonic() < deadline:
            known = admin.list_topics(timeout=GIVE_UP_S).topics.get(name)
            leaders = [partition.leader for partition in known.partitions.values()] if known else []
            if leaders == [NODE_ID] * partitions:
                asked = admin.list_offsets({TopicPartition(name, number): OffsetSpec.latest()
                                            for number in range(partitions)}, request_timeout=GIVE_UP_S)
                try:
                    for answer in asked.values():
                        answer.result(timeout=GIVE_UP_S)
                    return name
                except KafkaException:
                    pass  # not yet: asked again below
            time.sleep(0.05)
        raise TimeoutError(f"topic {name} has no leader for all of its {partitions} partitions after {GIVE_UP_S:g} s")

    def dump_log(self, topic: str, partition: int | None = None) -> str:
        """Return what Kafka's own DumpLogSegments says of every batch and record of a partition, or of all.

        Shape: `--deep-iteration --print-data-log`; the broker may run (the kernel has all that it wrote).
        """
        segments = sorted(self.log_dir.glob(f"{topic}-{'*' if partition is None else partition}/*.log"))
        if not segments:
            raise FileNotFoundError(f"topic {topic} has no segment in {self.log_dir}")
        return self.run_tool("kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log",
                             "--files", ",".join(str(segment) for segment in segments))

    def run_tool(self, main_class: str, *arguments: str) -> str:
        """Run one of Kafka's command line tools and return what it prints, errors included."""
        with shared_classes(self._classpath) as sharing:
            command = [self._java, *sharing, *SHORT_RUN, "-Dkafka.log.level=WARN",
                       f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}", "-cp", self._classpath, main_class,
                       *arguments]
            answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    errors="replace", timeout=PROGRAM_S, check=False, stdin=subprocess.DEVNULL)
        if answer.returncode != 0:
            raise RuntimeError(f"{main_class} ended with {answer.returncode}: {answer.stdout[-2000:]}")
        return answer.stdout

    def output_tail(self, characters: int = 4000) -> str:
        """The end of what the broker printed, for messages."""
        return self.output.read_text(errors="replace")[-characters:] if self.output.exists() else ""

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the Kafka node is not running")
        return self._process

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        process.wait(GIVE_UP_S)
        if process.stdin is not None:
            process.stdin.close()
        self._process = None

    def _await_ready(self) -> None:
        process = self._running()
        deadline = time.monotonic() + GIVE_UP_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                self._reap(process)
                raise RuntimeError(f"the Kafka node ended with {process.returncode} at start:\n{self.output_tail()}")
            with self.output.open("rb") as output:
                output.seek(self._read_from)
                if READY_LINE.encode() in output.read():
                    return
            time.sleep(0.05)
        raise TimeoutError(f"the Kafka node did not start within {GIVE_UP_S} s:\n{self.output_tail()}")

    def _write_properties(self) -> Path:
        path = self.folder / "server.properties"
        self.log_dir.mkdir(parents=True, exist_ok=True)
        settings = {**self._default_settings(), **self._settings}
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="ascii")
        return path

    def _default_settings(self) -> dict[str, object]:
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()]
        advertised = [f"{name}://{'localhost' if self._has_tls(name) else '127.0.0.1'}:"
                      f"{self._proxy_port if name == 'PROXIED' else port}"
                      for name, port in self._ports.items() if name != "CONTROLLER"]
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": NODE_ID,
            "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{self._ports['CONTROLLER']}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(
                f"{name}:{self._listeners.get(name, 'SSL' if name in TLS_LISTENERS else 'PLAINTEXT')}"
                for name in self._ports),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.log_dir,
            # One node: nothing can be replicated.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": False,  # a test that wants it asks for it
            # A killed node must be let in again soon: its old session has to end first (default 9 s).
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            # Quiet when idle: no cleaner, no no-op records, no retention checks within a test, few threads.
            "log.cleaner.enable": False,
            "log.retention.check.interval.ms": 3_600_000,
            "log.retention.ms": -1,  # timestamps of 0 are years past the retention
            "metadata.max.idle.interval.ms": 5000,
            "log.flush.scheduler.interval.ms": 3_600_000,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "num.recovery.threads.per.data.dir": 1,
            "background.threads": 2,
            "log.message.timestamp.before.max.ms": 2**63 - 1,
            "log.message.timestamp.after.max.ms": 2**63 - 1,
            # A quota counts from the last second on, not from the last eleven: tests of it are short.
            "quota.window.num": 2,
            "log.segment.bytes": 1024 * 1024 * 1024,
        }
        if self._certificates is not None:
            settings.update({
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self._certificates.keystore,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self._certificates.client_ca,
                "ssl.client.auth": "none",
                "listener.name.mtls.ssl.client.auth": "required",
                "listener.name.misnamed.ssl.keystore.type": "PEM",
                "listener.name.misnamed.ssl.keystore.location": self._certificates.misnamed_keystore,
            })
        return settings


@cache
def _sharing(classpath: str) -> tuple[str, ...]:
    """Return the options by which a node takes its classes from an archive: its start is half of the CPU then.

    A node that is started for that, and ended in order, writes the archive once (class data sharing, JDK 13 and newer).
    """
    archive = CACHE / "classes" / f"node-{hashlib.sha256(f'{java()}{classpath}'.encode()).hexdigest()[:16]}.jsa"
    if not archive.is_file():
        with only_one_process("node"), fresh_folder(archive) as fresh:
            made = Path(fresh) / archive.name
            if not archive.is_file():  # else another process was first
                with KafkaServer(jvm_options=(*TEST_JVM_OPTIONS, f"{ARCHIVE}{made}")) as node:
                    node.shut_down()
            if made.is_file():
                made.replace(archive)
    return (f"-XX:SharedArchiveFile={archive}",) if archive.is_file() else ()
