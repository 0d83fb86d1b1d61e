"""Java's clients, franz-go and the console tools on our broker: 50,000 records through a group, and transactions."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import confluent_kafka
import pytest

from pyproducer.broker import EmbeddedBroker
from tests.support.go_program import build_go
from tests.support.kafka_jars import SHORT_RUN, compile_java, java, kafka_classpath
from tests.support.kafka_tools import CONSOLE_CONSUMER, CONSOLE_PRODUCER, run_tool
from tests.support.patience import GIVE_UP_S, PROGRAM_S

SUPPORT = Path(__file__).resolve().parents[1] / "support"
JAVA_SOURCE = SUPPORT / "java" / "GroupsAndTransactions.java"
LOG_SETTINGS = SUPPORT / "kafka" / "log4j2.xml"
COUNT = 50_000
PARTITIONS = 4
EXTRA = 100


def java_command() -> list[str]:
    classes, classpath = compile_java(JAVA_SOURCE), kafka_classpath()
    return [java(), *SHORT_RUN, "-Dkafka.log.level=OFF",
            f"-Dlog4j2.configurationFile={LOG_SETTINGS}", "-cp", os.pathsep.join((str(classes), classpath)),
            JAVA_SOURCE.stem]


def go_command() -> list[str]:
    return [str(build_go(SUPPORT / "go"))]


COMMANDS: Mapping[str, Callable[[], list[str]]] = {"java": java_command, "franz-go": go_command}


def committed_offsets(broker: EmbeddedBroker, group: str, topic: str) -> dict[int, int]:
    """Return what a group has committed for each partition of a topic."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        found = consumer.committed([confluent_kafka.TopicPartition(topic, index) for index in range(PARTITIONS)],
                                   GIVE_UP_S)
        return {one.partition: one.offset for one in found}
    finally:
        consumer.close()


@pytest.mark.parametrize("language", COMMANDS)
def test_50000_records_are_carried_by_a_group_in_transactions(language: str) -> None:
    command = COMMANDS[language]()
    with EmbeddedBroker(topics={"orders": PARTITIONS, "copy": PARTITIONS}, separate_process=True) as broker:
        done = subprocess.run([*command, broker.bootstrap_servers, "orders", "copy", str(COUNT)], capture_output=True,
                              text=True, timeout=PROGRAM_S, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        read = done.stdout.split()
        expected = {f"v{number}" for number in range(COUNT)} | {f"kept{number}" for number in range(EXTRA)}
        assert len(read) == len(expected)
        assert set(read) == expected
        stored = [record.value or b"" for record in broker.records("copy")]
        assert len(stored) == COUNT + 2 * EXTRA, "what was aborted is in the log too, and nothing twice"
        assert committed_offsets(broker, "carriers", "orders") == broker.log_end_offsets("orders")
        assert {record.key for record in broker.records("orders")} == {b"k%d" % number for number in range(1000)}


@pytest.mark.soak  # tests/strangers/test_java_tools.py has it with fewer lines
def test_50000_lines_through_the_console_tools_and_a_group() -> None:
    with EmbeddedBroker(topics={"orders": PARTITIONS}, separate_process=True) as broker:
        server = ("--bootstrap-server", broker.bootstrap_servers)
        run_tool(CONSOLE_PRODUCER, *server, "--topic", "orders", stdin="".join(f"{n}\n" for n in range(COUNT)))
        consumed = run_tool(CONSOLE_CONSUMER, *server, "--topic", "orders", "--group", "readers", "--from-beginning",
                            "--isolation-level", "read_committed", "--max-messages", str(COUNT),
                            "--timeout-ms", str(int(GIVE_UP_S * 1000)))
        assert sorted(map(int, re.findall(r"^\d+$", consumed, re.MULTILINE))) == list(range(COUNT))
        assert committed_offsets(broker, "readers", "orders") == broker.log_end_offsets("orders")
