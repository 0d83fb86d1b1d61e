"""What a reached broker says: of the other brokers, of its clock, of a topic, of what we may do with it, of quotas.

Nothing is written and nothing is created here; who asks for that gets it in round_trip.py.

Road:    examination -> [cluster steps] -> BlockingClient
Thread:  the main thread.
Source:  ours; Kafka's LeaderState.describeReplicaState (4.1) gives its own time for the leader, by which the clocks
         are compared; Java AclOperation's codes for what we may do.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyproducer.cli.doctor.reach import without_place
from pyproducer.client.coordinator_client import CoordinatorClient
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.errors import KafkaError
from pyproducer.common.loopback import is_loopback
from pyproducer.protocol.apis import ApiKeys

if TYPE_CHECKING:
    from pyproducer.cli.doctor.reach import Reach
    from pyproducer.cli.doctor.report import Report
    from pyproducer.client.blocking_client import BlockingClient, Connection
    from pyproducer.common.clock import Clock
    from pyproducer.producer.config import ProducerConfig
    from pyproducer.protocol.schema import Struct

METADATA, ADVERTISED, CLOCK, TOPIC, PARTITIONS, AUTHORIZATION, TRANSACTIONAL_ID, QUOTA = (
    "metadata", "advertised", "clock", "topic", "partitions", "authorization", "transactional id", "quota")
# What the coordinator says to a producer that is nobody, once it has found that we may write by the id.
_MAY_WRITE = frozenset({
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS})
_WRITE_BIT = 1 << 4
_NOT_TOLD = -(2**31)
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_AUTO_CREATE = "auto.create.topics.enable"
_MAX_TIMESTAMP = -3  # ListOffsets v7: the offset of the record with the newest time
_MAX_TIMESTAMP_VERSION = 7
_METADATA_LOG = "__cluster_metadata"
# Tokens are usually refused beyond a minute (Kafka's sasl.oauthbearer.clock.skew.seconds is 30), and records from the
# future beyond an hour (message.timestamp.after.max.ms).
_SKEW_WARN_MS = 5_000
_SKEW_FAIL_MS = 3_600_000
_NAME_FOR_CLIENTS = "let its advertised.listeners have the name that clients reach it by"
_SET_CLOCK = "set the clock of this machine by NTP, or that of the broker"


class ClusterSteps:
    """Asks one broker, and writes what it finds into a report.

    Args:
        client: Asks.
        broker: Whom.
        config: The producer's settings.
        clock: This machine's.
        report: Where the lines go.
    """

    def __init__(self, client: BlockingClient, broker: Connection, config: ProducerConfig, clock: Clock,
                 report: Report) -> None:
        self._client = client
        self._broker = broker
        self._config = config
        self._clock = clock
        self._report = report
        self._throttle_ms = 0
        self._answer_count = 0

    def metadata(self, topic: str | None) -> Struct | None:
        """Ask for the brokers and the topic; None, with a line, when the answer tells of neither."""
        where = self._broker.where
        try:
            answer = self._ask(ApiKeys.METADATA, lambda version: {
                "topics": [{"name": topic}] if topic is not None else [], "allow_auto_topic_creation": False,
                "include_topic_authorized_operations": version >= 8})
        except KafkaError as error:
            self._report.fail(METADATA, f"{where}: {without_place(where, error)}",
                              "use the security.protocol of this listener, or the port of another one")
            return None
        code = answer.get("error_code", 0)
        if code or not answer["brokers"]:
            why = error_for_code(code, api="Metadata") if code else "the answer names no broker"
            self._report.fail(METADATA, f"{where}: {why}", "wait until the broker has joined its cluster; see its log")
            return None
        if topic is not None and [row["name"] for row in answer["topics"]] != [topic]:
            self._report.fail(METADATA, f"{where}: the answer does not tell of the topic that was asked for, {topic}",
                              "see what is between this machine and the broker: Kafka answers for each topic")
            return None
        return answer

    def advertised(self, metadata: Struct, reach: Reach, bootstrap_hosts: set[str]) -> dict[int, Connection]:
        """Connect to every broker by the address that it tells."""
        reached = {}
        for broker in metadata["brokers"]:
            node_id, host, port = broker["node_id"], broker["host"], broker["port"]
            if _is_no_address(host):
                self._report.warn(ADVERTISED, f"broker {node_id} tells clients to come to {host}, which is no address: "
                                  "only on its own machine it may do", _NAME_FOR_CLIENTS)
            elif is_loopback(host) and not any(is_loopback(name) for name in bootstrap_hosts):
                self._report.warn(ADVERTISED, f"broker {node_id} tells clients to come to {host}, which is their own "
                                  "machine", _NAME_FOR_CLIENTS)
            connection = reach.advertised(f"{ADVERTISED} {node_id}", host, port)
            if connection is not None:
                reached[node_id] = connection
        return reached

    def clock_skew(self, metadata: Struct, topic: str | None, leaders: Mapping[int, Connection]) -> None:
        """Compare this machine's clock with the cluster's, or with the newest record of the topic."""
        skew_ms = self._quorum_skew_ms()
        if skew_ms is not None:
            how = "behind" if skew_ms > 0 else "ahead of"
            detail = f"this machine is {abs(skew_ms) / 1000:.1f} s {how} the cluster's controller"
            if abs(skew_ms) >= _SKEW_FAIL_MS:
                self._report.fail(CLOCK, f"{detail}: records are refused for their time, and tokens and certificates",
                                  _SET_CLOCK)
            elif abs(skew_ms) >= _SKEW_WARN_MS:
                self._report.warn(CLOCK, f"{detail}: tokens and certificates may be refused", _SET_CLOCK)
            else:
                self._report.ok(CLOCK, detail)
            return
        newest_ms = self._newest_record_ms(metadata, topic, leaders)
        if newest_ms is None:
            self._report.skip(CLOCK, "the cluster does not tell its time to us (Describe on the cluster), and there is "
                                     "no record to compare with")
            return
        ahead_ms = newest_ms - self._clock.timestamp_ms()
        if ahead_ms >= _SKEW_WARN_MS:
            self._report.warn(CLOCK, f"the newest record of {topic} is {ahead_ms / 1000:.1f} s in the future: this "
                              "machine's clock is behind, or that of another producer is ahead", _SET_CLOCK)
        else:
            self._report.ok(CLOCK, f"no record of {topic} is in the future")

    def topic(self, metadata: Struct, topic: str, reached: Mapping[int, Connection]) -> Struct | None:
        """Return the topic's part of the metadata; None, with a line, when it is not there or cannot be used.

        Args:
            metadata: The answer that has it.
            topic: Its name.
            reached: Brokers by their ids: one is asked whether it creates topics.
        """
        described: Struct = metadata["topics"][0]
        code = described["error_code"]
        if not code:
            self._report.ok(TOPIC, f"{topic}: {len(described['partitions'])} partitions")
            return described
        create = (f"create it: kafka-topics --create --topic {topic}; or correct its name; without Describe or Write "
                  "on it, too, brokers say so")
        auto_creates: str | None = "false"
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and reached:
            node_id, broker = next(iter(reached.items()))
            auto_creates = self._config_value(_BROKER_RESOURCE, str(node_id), _AUTO_CREATE, broker)
        if auto_creates != "false":
            self._report.warn(TOPIC, f"{topic}: there is none; the first record makes it, with the brokers' defaults"
                              f"{'' if auto_creates else f', if {_AUTO_CREATE} is true, which they do not tell us'}",
                              create)
            return None
        changes = {
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: create,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED: _grant(f"--topic {topic}"),
            ErrorCode.INVALID_TOPIC_EXCEPTION: "correct its name: 1 to 249 characters out of a-z, A-Z, 0-9, '.', '_' "
                                               "and '-'",
        }
        self._report.fail(TOPIC, f"{topic}: {error_for_code(code, message='Metadata:', api='Metadata')}",
                          changes.get(code, ""))
        return None

    def partitions(self, metadata: Struct, described: Struct, topic: str) -> None:
        """Look for partitions without a leader that we know, and for those that have too few replicas in sync."""
        rows = described["partitions"]
        known = {broker["node_id"] for broker in metadata["brokers"]}
        headless = [row["partition_index"] for row in rows if row["leader_id"] not in known]
        if headless or not rows:
            self._report.fail(PARTITIONS, f"{topic}: no leader for {_numbers(headless)}" if rows else
                              f"{topic}: it has none", "start the brokers that hold their replicas")
            return
        needed = self._min_insync_replicas(topic)
        # Brokers that are new enough ask for no more replicas than a partition has.
        short = [row["partition_index"] for row in rows if needed is not None and len(row["isr_nodes"]) < min(
            needed, len(row["replica_nodes"]))]
        few = [row["partition_index"] for row in rows if needed is not None and len(row["replica_nodes"]) < needed]
        behind = [row["partition_index"] for row in rows if len(row["isr_nodes"]) < len(row["replica_nodes"])]
        if short and self._config.acks == "-1":
            self._report.fail(PARTITIONS, f"{topic}: fewer than min.insync.replicas = {needed} replicas are in sync of "
                              f"{_numbers(short)}, so acks=all is refused",
                              "start the brokers that hold the other replicas, or lower its min.insync.replicas")
        elif few and self._config.acks == "-1":
            self._report.warn(PARTITIONS, f"{topic}: min.insync.replicas = {needed} is more than the replicas of "
                              f"{_numbers(few)}: older brokers refuse acks=all",
                              "give it more replicas, or lower its min.insync.replicas")
        elif behind:
            self._report.warn(PARTITIONS, f"{topic}: not all replicas are in sync of {_numbers(behind)}",
                              "see why these brokers are behind")
        else:
            leaders = sorted({row["leader_id"] for row in rows})
            self._report.ok(PARTITIONS, f"{topic}: {len(rows)} with leaders {_numbers(leaders)}, replicas in sync")

    def authorization(self, described: Struct, topic: str) -> None:
        """Look whether we may write to the topic."""
        operations = described.get("topic_authorized_operations", _NOT_TOLD)
        if operations == _NOT_TOLD:
            self._report.skip(AUTHORIZATION, f"{topic}: the broker does not tell what we may do (before Kafka 2.3)")
        elif operations & _WRITE_BIT:
            self._report.ok(AUTHORIZATION, f"{topic}: we may write")
        else:
            self._report.fail(AUTHORIZATION, f"{topic}: we may not write", _grant(f"--topic {topic}"))

    def transactional_id(self, metadata: Struct, described: Struct, topic: str, reached: Mapping[int, Connection],
                         timeout_ms: int) -> None:
        """Look whether transactional.id has a coordinator and we may write by it; nothing becomes of its producer.

        The first question makes the topic of transactions where the cluster has none yet.
        """
        name = str(self._config.transactional_id)
        coordinators = CoordinatorClient(
            self._client, [(row["host"], row["port"]) for row in metadata["brokers"] if row["node_id"] in reached],
            timeout_s=timeout_ms / 1000, clock=self._clock)
        try:
            code = coordinators.ask_for_write(
                name, TopicPartition(topic, described["partitions"][0]["partition_index"]))
        except KafkaError as error:
            refused = getattr(error, "code", 0) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            self._report.fail(TRANSACTIONAL_ID, f"{name}: {error}", _grant(f"--transactional-id {name}") if refused else
                              "see that __transaction_state has leaders, and the log of its brokers")
            return
        finally:
            self._client.until_ms = None  # this question's end is no other's
        if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            self._report.fail(TRANSACTIONAL_ID, f"{name}: we may not write by it", _grant(f"--transactional-id {name}"))
        elif code in _MAY_WRITE:
            self._report.ok(TRANSACTIONAL_ID, f"{name}: its coordinator is there, and we may write by it; no "
                                              "transaction was begun")
        else:
            why = error_for_code(code, api="AddPartitionsToTxn") if code else "it takes a producer that there is not"
            self._report.warn(TRANSACTIONAL_ID, f"{name}: nobody knows whether we may write by it: {why}")

    def quota(self) -> None:
        """Tell whether any answer so far asked for a pause."""
        if self._throttle_ms:
            self._report.warn(QUOTA, f"the broker asked for a pause of {self._throttle_ms} ms: a quota is used up",
                              "raise the quota of this user or client.id (kafka-configs), or send less")
        else:
            self._report.ok(QUOTA, f"no pause was asked for in {self._answer_count} answers")

    # ---- questions

    def _ask(self, api_key: ApiKeys, build: Callable[[int], Mapping[str, Any]],
             broker: Connection | None = None) -> Struct:
        body = self._client.ask(self._client.renewed(broker or self._broker), api_key, build).body
        self._answer_count += 1
        self._throttle_ms = max(self._throttle_ms, body.get("throttle_time_ms", 0))
        return body

    def _quorum_skew_ms(self) -> int | None:
        """Return by how much this machine's clock is behind that of the controller; None when it does not tell."""
        before_ms = self._clock.timestamp_ms()
        try:
            body = self._ask(ApiKeys.DESCRIBE_QUORUM, lambda _version: {
                "topics": [{"topic_name": _METADATA_LOG, "partitions": [{"partition_index": 0}]}]})
        except KafkaError:
            return None
        middle_ms = (before_ms + self._clock.timestamp_ms()) // 2
        for topic in body["topics"]:
            for partition in topic["partitions"]:
                for voter in partition["current_voters"]:
                    if voter["replica_id"] == partition["leader_id"] and voter.get("last_caught_up_timestamp", -1) > 0:
                        return int(voter["last_caught_up_timestamp"]) - middle_ms
        return None

    def _newest_record_ms(self, metadata: Struct, topic: str | None, leaders: Mapping[int, Connection]) -> int | None:
        newest: list[int] = []
        for row in (metadata["topics"][0]["partitions"] if topic is not None else ()):
            leader = leaders.get(row["leader_id"])
            if leader is None:
                continue
            index = row["partition_index"]
            try:
                if leader.versions.latest_usable_version(ApiKeys.LIST_OFFSETS) < _MAX_TIMESTAMP_VERSION:
                    return None
                answer = self._ask(ApiKeys.LIST_OFFSETS, _newest_record_question(topic, index), leader)
            except KafkaError:
                return None
            newest.extend(int(found["timestamp"]) for told in answer["topics"] for found in told["partitions"]
                          if not found["error_code"] and found["timestamp"] >= 0)
        return max(newest, default=None)

    def _min_insync_replicas(self, topic: str) -> int | None:
        value = self._config_value(_TOPIC_RESOURCE, topic, "min.insync.replicas") or ""
        return int(value) if value.isdecimal() else None

    def _config_value(self, resource_type: int, name: str, key: str, broker: Connection | None = None) -> str | None:
        """Return a setting of a topic or a broker; None where we may not know it. A broker tells only of itself."""
        try:
            body = self._ask(ApiKeys.DESCRIBE_CONFIGS, lambda _version: {"resources": [
                {"resource_type": resource_type, "resource_name": name, "configuration_keys": [key]}]}, broker)
        except KafkaError:
            return None
        for result in body["results"]:
            for entry in result["configs"]:
                if entry["name"] == key:
                    return str(entry["value"] or "")
        return None


def _newest_record_question(topic: str | None, index: int) -> Callable[[int], Mapping[str, Any]]:
    return lambda _version: {
        "replica_id": -1, "isolation_level": 0, "timeout_ms": 10_000, "topics": [{"name": topic, "partitions": [
            {"partition_index": index, "current_leader_epoch": -1, "timestamp": _MAX_TIMESTAMP}]}]}


def _grant(resource: str) -> str:
    return ("let somebody allow it: kafka-acls --add --allow-principal User:... --operation Write --operation Describe "
            f"{resource}")


def _numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")


def _is_no_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
