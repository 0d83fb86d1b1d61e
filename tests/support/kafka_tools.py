"""Kafka's command line tools, as somebody at a terminal runs them; each run is a JVM of about a second.

Source:  the main classes that kafka-topics.sh and its like start (4.1).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.kafka_jars import java, kafka_tools_classpath, shared_classes

_LOGGING = Path(__file__).resolve().parent / "kafka" / "log4j2.xml"
_TIMEOUT_S = 120

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


def run_tool(main_class: str, *arguments: str, stdin: str = "") -> str:
    """Run a tool and return what it printed.

    Raises:
        MissingTool: Java or the jars are absent.
        RuntimeError: The tool ended with an error.
    """
    classpath = kafka_tools_classpath()
    with shared_classes(classpath) as sharing:
        command = [java(), *sharing, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                   "-Dkafka.log.level=WARN", f"-Dlog4j2.configurationFile={_LOGGING}", "-cp", classpath, main_class,
                   *arguments]
        answer = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace", timeout=_TIMEOUT_S, check=False)
    if answer.returncode != 0:
        raise RuntimeError(f"{main_class} ended with {answer.returncode}: {answer.stdout[-2000:]}")
    return answer.stdout
