"""Kafka's command line tools, as somebody at a terminal runs them, but all in one JVM: its start is most of a run.

Thread:  any; one run at a time, because a JVM has one standard output.
Source:  the main classes that kafka-topics.sh and its like start (4.1).
"""

from __future__ import annotations

import atexit
import select
import struct
import subprocess
import threading
from pathlib import Path
from typing import IO

from tests.support.kafka_jars import SHORT_RUN, compile_java, java, kafka_tools_classpath
from tests.support.patience import GIVE_UP_S

_HERE = Path(__file__).resolve().parent
_LOGGING = _HERE / "kafka" / "log4j2.xml"
_RUNNER = _HERE / "java" / "ToolRunner.java"

TOPICS = "org.apache.kafka.tools.TopicCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
DUMP_LOG = "kafka.tools.DumpLogSegments"


class _ToolRunner:
    """The JVM of java/ToolRunner.java; it ends when its standard input does, so with this process at the latest."""

    def __init__(self) -> None:
        classpath = kafka_tools_classpath()
        classes = compile_java(_RUNNER, classpath)
        self._process = subprocess.Popen(
            [java(), *SHORT_RUN, "-Dkafka.log.level=WARN", f"-Dlog4j2.configurationFile={_LOGGING}", "-cp",
             f"{classes}:{classpath}", _RUNNER.stem],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def run(self, command: tuple[str, ...], stdin: str) -> tuple[int, str]:
        """Run a main class with arguments; return its exit code and what it printed.

        Raises:
            RuntimeError: It did not end in time, or the JVM has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        texts = [text.encode() for text in (*command, stdin)]
        request = struct.pack(">i", len(command)) + b"".join(struct.pack(">i", len(text)) + text for text in texts)
        while request:
            request = request[self._process.stdin.write(request) or 0:]
        if not select.select([self._process.stdout], [], [], GIVE_UP_S)[0]:
            raise RuntimeError(f"{command[0]} has not ended within {GIVE_UP_S} s")
        status, length = struct.unpack(">ii", self._read(self._process.stdout, 8))
        return status, self._read(self._process.stdout, length).decode(errors="replace")

    def _read(self, stdout: IO[bytes], count: int) -> bytes:
        read = b""
        while len(read) < count:
            more = stdout.read(count - len(read))
            if not more:
                raise RuntimeError(f"the JVM of the tools has ended with {self._process.wait()}")
            read += more
        return read

    def end(self) -> None:
        """End the JVM, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


_lock = threading.Lock()
_runner: _ToolRunner | None = None  # guarded by _lock


def run_tool(main_class: str, *arguments: str, stdin: str = "") -> str:
    """Run a tool and return what it printed.

    Raises:
        MissingTool: Java or the jars are absent.
        RuntimeError: The tool ended with an error, or not at all.
    """
    global _runner
    with _lock:
        if _runner is None:
            _runner = _ToolRunner()
            atexit.register(_runner.end)
        try:
            status, printed = _runner.run((main_class, *arguments), stdin)
        except BaseException:  # what it would answer belongs to nobody
            atexit.unregister(_runner.end)
            _runner.end()
            _runner = None
            raise
    if status != 0:
        raise RuntimeError(f"{main_class} ended with {status}: {printed[-2000:]}")
    return printed
