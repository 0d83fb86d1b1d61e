"""Kafka's own command line tools against our broker: what they print is what somebody at a terminal sees."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from pyproducer.broker import EmbeddedBroker
from tests.support.kafka_tools import (
    CONFIGS,
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    CONSUMER_GROUPS,
    DELETE_RECORDS,
    GET_OFFSETS,
    LEADER_ELECTION,
    LOG_DIRS,
    METADATA_QUORUM,
    REASSIGN_PARTITIONS,
    TOPICS,
    TRANSACTIONS,
    run_tool,
)
from tests.support.log_checker import check_order
from tests.support.patience import GIVE_UP_S


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(separate_process=True, config={
            "offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}) as broker:
        yield broker


def tool(broker: EmbeddedBroker, main_class: str, *arguments: str, stdin: str = "") -> str:
    return run_tool(main_class, "--bootstrap-server", broker.bootstrap_servers, *arguments, stdin=stdin)


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_kafka_topics_creates_lists_describes_grows_and_deletes(broker: EmbeddedBroker) -> None:
    assert "Created topic fruits." in tool(broker, TOPICS, "--create", "--topic", "fruits", "--partitions", "3",
                                           "--config", "retention.ms=1000000")
    assert "fruits" in tool(broker, TOPICS, "--list").split()
    tool(broker, TOPICS, "--alter", "--topic", "fruits", "--partitions", "4")
    head, *partitions = tool(broker, TOPICS, "--describe", "--topic", "fruits").splitlines()
    assert re.search(r"PartitionCount: 4\s+ReplicationFactor: 1\s+Configs: retention.ms=1000000", head)
    assert [re.findall(r"(Partition|Leader|Replicas|Isr): (\d+)", line) for line in partitions] == [
        [("Partition", str(number)), ("Leader", "1"), ("Replicas", "1"), ("Isr", "1")] for number in range(4)]
    tool(broker, TOPICS, "--delete", "--topic", "fruits")
    assert "fruits" not in broker.topics()
    with pytest.raises(RuntimeError, match="Topic 'fruits' does not exist as expected"):
        tool(broker, TOPICS, "--describe", "--topic", "fruits")


def test_kafka_configs_describes_and_alters_topics_and_brokers(broker: EmbeddedBroker) -> None:
    broker.create_topic("nuts", 1, {"retention.ms": "1000000"})
    topic = ("--entity-type", "topics", "--entity-name", "nuts")
    assert "retention.ms=1000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000000, " in (
        tool(broker, CONFIGS, "--describe", *topic))
    tool(broker, CONFIGS, "--alter", *topic, "--add-config", "cleanup.policy=[compact,delete],segment.bytes=10000000",
         "--delete-config", "retention.ms")
    described = tool(broker, CONFIGS, "--describe", "--all", *topic)
    for line in ("cleanup.policy=compact,delete ", "segment.bytes=10000000 ", "retention.ms=604800000 "):
        assert line in described
    everyone = ("--entity-type", "brokers", "--entity-default")
    tool(broker, CONFIGS, "--alter", *everyone, "--add-config", "log.retention.bytes=12345678")
    assert "log.retention.bytes=12345678" in tool(broker, CONFIGS, "--describe", *everyone)
    described = tool(broker, CONFIGS, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    assert "num.io.threads=8" in described
    assert "synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.bytes=12345678, DEFAULT_CONFIG:" in described
    tool(broker, CONFIGS, "--alter", *everyone, "--delete-config", "log.retention.bytes")


def test_console_producer_and_consumer_groups_offsets_and_deleted_records(
        broker: EmbeddedBroker, tmp_path: Path) -> None:
    broker.create_topic("seeds", 2)
    lines = [f"{number % 7}:{number}" for number in range(500)]
    tool(broker, CONSOLE_PRODUCER, "--topic", "seeds", "--property", "parse.key=true",
         "--property", "key.separator=:", stdin="\n".join(lines) + "\n")
    stored = broker.records("seeds")
    assert sorted(int(record.value or b"") for record in stored) == list(range(500))
    check_order((record.key, int(record.value or b"")) for record in stored)
    ends = broker.log_end_offsets("seeds")
    assert words(tool(broker, GET_OFFSETS, "--topic", "seeds")) == [
        [f"seeds:{partition}:{end}"] for partition, end in sorted(ends.items())]

    consumed = tool(broker, CONSOLE_CONSUMER, "--topic", "seeds", "--group", "birds", "--from-beginning",
                    "--max-messages", "500", "--timeout-ms", str(int(GIVE_UP_S * 1000)))
    assert sorted(int(number) for number in re.findall(r"^\d+$", consumed, re.MULTILINE)) == list(range(500))
    assert "birds" in tool(broker, CONSUMER_GROUPS, "--list").split()
    described = [line for line in words(tool(broker, CONSUMER_GROUPS, "--describe", "--group", "birds"))
                 if line[0] == "birds"]
    assert sorted(line[1:6] for line in described) == [
        ["seeds", str(partition), str(end), str(end), "0"] for partition, end in sorted(ends.items())]
    assert "Empty" in tool(broker, CONSUMER_GROUPS, "--describe", "--group", "birds", "--state")

    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "seeds", "partition": 0, "offset": 3}]}))
    assert re.search(r"partition: seeds-0\s+low_watermark: 3", tool(
        broker, DELETE_RECORDS, "--offset-json-file", str(file)))
    assert words(tool(broker, GET_OFFSETS, "--topic", "seeds", "--time", "earliest")) == [["seeds:0:3"], ["seeds:1:0"]]


def test_kafka_transactions_lists_and_describes(broker: EmbeddedBroker) -> None:
    broker.create_topic("roots", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "digger",
                                         "transaction.timeout.ms": 900_000})  # a JVM may take a minute to start
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("roots", b"carrot")
    producer.flush(GIVE_UP_S)
    listed = words(tool(broker, TRANSACTIONS, "list"))
    assert [(line[0], line[3]) for line in listed if line[0] == "digger"] == [("digger", "Ongoing")]
    described = dict(zip(*words(tool(broker, TRANSACTIONS, "describe", "--transactional-id", "digger")), strict=False))
    assert (described["TransactionalId"], described["TransactionState"]) == ("digger", "Ongoing")
    (_, producer_line) = words(tool(broker, TRANSACTIONS, "describe-producers", "--topic", "roots", "--partition", "0"))
    assert (producer_line[0], producer_line[-1]) == (described["ProducerId"], "0")  # the transaction began at offset 0
    producer.commit_transaction(30)
    (line,) = [line for line in words(tool(broker, TRANSACTIONS, "list")) if line[0] == "digger"]
    assert line[3] == "CompleteCommit"


def test_tools_that_say_where_partitions_lie_and_move_them(tmp_path: Path) -> None:
    """Each ended with "The node does not support DESCRIBE_LOG_DIRS" and its like."""
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "leaves", "partition": 0, "replicas": [2]}]}))
    with EmbeddedBroker(brokers=2, topics={"leaves": 2}, separate_process=True) as two:
        answer = tool(two, LOG_DIRS, "--describe", "--topic-list", "leaves")
        told = json.loads(answer[answer.index("{"):])
        assert {(found["broker"], log_dir["logDir"], partition["partition"]) for found in told["brokers"]
                for log_dir in found["logDirs"] for partition in log_dir["partitions"]} == {
            (1, str(two.data_dir), "leaves-0"), (2, str(two.data_dir), "leaves-1")}
        plan = ("--reassignment-json-file", str(file))
        assert "Successfully started partition reassignment for leaves-0" in tool(
            two, REASSIGN_PARTITIONS, "--execute", *plan)
        assert "Reassignment of partition leaves-0 is completed." in tool(
            two, REASSIGN_PARTITIONS, "--verify", "--preserve-throttles", *plan)
        assert two.leader_of("leaves", 0) == (2, 1)
        two.move_leader("leaves", 1, None)
        assert "Successfully completed leader election (PREFERRED) for partitions leaves-1" in tool(
            two, LEADER_ELECTION, "--election-type", "preferred", "--all-topic-partitions")
        quorum = tool(two, METADATA_QUORUM, "describe", "--status")
        assert re.search(r"LeaderId:\s+1\n", quorum)
        assert re.search(r"CurrentObservers:.*\b2\b", quorum)
