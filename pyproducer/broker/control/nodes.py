"""The brokers of a cluster, each running or stopped, and who leads what.

Road:    InProcessCluster -> [nodes] -> BrokerServer, ClusterState
Thread:  any; one change at a time, under a lock.
Source:  ours; leaders as in Java ReplicationControlManager (4.1), with one difference: there is one log for all
         brokers, so that any of them can be made the leader of any partition.

A stopped node keeps its ports: clients that know them are refused, and nobody else gets them meanwhile.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.coordinator.internal_topics import (
    GROUP_METADATA_TOPIC_NAME,
    TRANSACTION_STATE_TOPIC_NAME,
)
from pyproducer.broker.cluster.listener import EndPoint, advertised_end_points
from pyproducer.broker.cluster.replicas import NO_LEADER
from pyproducer.broker.control.broker_server import BrokerServer
from pyproducer.broker.control.scripted import Scripted
from pyproducer.common.cluster import TopicPartition
from pyproducer.common.errors import ConfigError, IllegalStateError


class PartitionView(NamedTuple):
    """A partition as it is now; `leader_id` is -1 while nobody leads."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


COORDINATOR_TOPICS = {"group": GROUP_METADATA_TOPIC_NAME, "transaction": TRANSACTION_STATE_TOPIC_NAME}


class Nodes:
    """Starts, stops and moves.

    Args:
        state: What the brokers share.
        scripted: What tests want of them.
        listeners: Node to its listeners; a port 0 becomes the port that was found at the first start.
        configs: Node to its settings.
        port_offsets: Node to what is added to the ports of advertised.listeners.
    """

    def __init__(self, state: ClusterState, scripted: Scripted, listeners: Mapping[int, Sequence[EndPoint]],
                 configs: Mapping[int, BrokerConfig], port_offsets: Mapping[int, int] | None = None) -> None:
        self._state = state
        self._scripted = scripted
        self._listeners = {node_id: list(end_points) for node_id, end_points in listeners.items()}
        self._configs = configs
        self._port_offsets = port_offsets or {}
        self._lock = threading.Lock()  # guards everything below, and the order of changes
        self._servers: dict[int, BrokerServer] = {}
        self._reserved: dict[int, list[socket.socket]] = {}

    @property
    def servers(self) -> list[BrokerServer]:
        """The running brokers."""
        return [server for _, server in sorted(self._servers.items())]

    @property
    def end_points(self) -> dict[int, list[EndPoint]]:
        """The listeners of all nodes, stopped ones too."""
        return {node_id: list(end_points) for node_id, end_points in self._listeners.items()}

    @property
    def advertised(self) -> dict[int, list[EndPoint]]:
        """The addresses that clients are told, of all nodes, stopped ones too."""
        return {node_id: advertised_end_points(self._configs[node_id].advertised_listeners, end_points,
                                               self._port_offsets.get(node_id, 0))
                for node_id, end_points in self._listeners.items()}

    def start_all(self) -> None:
        """Start every node.

        Raises:
            ConfigError: A listener cannot be opened; those that were are left to `stop_all`.
        """
        with self._lock:
            for node_id in self._listeners:
                self._start(node_id)

    def stop_all(self) -> None:
        """Stop every node; harmless when none runs."""
        with self._lock:
            for server in self._servers.values():
                server.shutdown()
            self._servers.clear()
            for node_id in list(self._reserved):
                self._release(node_id)

    def start(self, node_id: int) -> None:
        """Start a stopped node on the ports that it had; it is in sync again, and leads what nobody else does.

        Raises:
            ConfigError: There is no such node.
            IllegalStateError: It is running.
        """
        with self._lock:
            self._ensure_known(node_id)
            if node_id in self._servers:
                raise IllegalStateError(f"Node {node_id} is running already")
            self._start(node_id)
            self._state.leaders.elect()

    def stop(self, node_id: int, *, move_leaders: bool, kill: bool) -> None:
        """Stop a running node; another replica in sync leads what it led.

        Args:
            node_id: Which.
            move_leaders: Give partitions that no other replica can lead to the others in turn; else they are without a
                leader until it is back.
            kill: Close its connections first, so that what it is doing is done and never answered.

        Raises:
            ConfigError: There is no such node.
            IllegalStateError: It is not running, or there is no other node to lead.
        """
        with self._lock:
            self._ensure_known(node_id)
            if node_id not in self._servers:
                raise IllegalStateError(f"Node {node_id} is not running")
            others = sorted(set(self._servers) - {node_id})
            if move_leaders and not others:
                raise IllegalStateError(f"Node {node_id} is the last one: no other can lead")
            self._state.brokers.unregister(node_id)
            if move_leaders:
                alone = [partition.topic_partition for topic in self._state.topics.values()
                         for partition in topic.partitions if partition.leadership.leader_id == node_id
                         and not any(other in partition.replicas.isr for other in others)]
                self._state.leaders.change_leaders({
                    topic_partition: others[number % len(others)] for number, topic_partition in enumerate(alone)})
            self._state.leaders.elect()
            server = self._servers.pop(node_id)
            if kill:
                server.kill()
            else:
                server.shutdown()
            self._reserve(node_id)

    def move_leader(self, topic: str, index: int, node_id: int | None) -> None:
        """Make a node lead a partition, or nobody.

        Raises:
            ConfigError: There is no such partition or node.
        """
        with self._lock:
            if node_id is not None:
                self._ensure_known(node_id)
            self._state.leaders.change_leaders({
                TopicPartition(topic, index): NO_LEADER if node_id is None else node_id})

    def stall(self, node_id: int, topic: str | None, index: int | None, *, is_stalled: bool) -> None:
        """Let a follower fetch no more, or again: of one partition, of a topic, or of all that it has.

        Raises:
            ConfigError: There is no such node or partition, it is not a replica, or it leads.
        """
        with self._lock:
            self._ensure_known(node_id)
            if topic is None and index is not None:
                raise ConfigError("partition", index, "it is of which topic?")
            topics = self._state.topics
            found = topics.values() if topic is None else filter(None, (topics.find(topic),))
            partitions = [partition for one in found for partition in one.partitions
                          if node_id in partition.replicas.assigned
                          and index in (None, partition.topic_partition.partition)
                          and (topic is not None or partition.leadership.leader_id != node_id)]
            if not partitions and topic is not None:
                raise ConfigError("partition", f"{topic}-{'*' if index is None else index}",
                                  f"there is no such partition, or node {node_id} has no replica of it")
            for partition in partitions:
                if is_stalled and partition.leadership.leader_id == node_id:
                    raise ConfigError("node_id", node_id, f"it leads {partition.topic_partition}: only a follower lags")
            self._state.leaders.stall(node_id, [partition.topic_partition for partition in partitions],
                                      is_stalled=is_stalled)

    def move_coordinator(self, key: str, node_id: int | None, key_type: str) -> None:
        """Make a node coordinate a group or a transactional id, and with it all that live in the same partition.

        Raises:
            ConfigError: There is no such node or type of key.
            IllegalStateError: The internal topic cannot be made.
        """
        name = COORDINATOR_TOPICS.get(key_type)
        if name is None:
            raise ConfigError("key_type", key_type, f"must be one of {', '.join(COORDINATOR_TOPICS)}")
        internal_topics = self._state.internal_topics
        if internal_topics.get_or_create(name) is None:
            raise IllegalStateError(f"There is no {name} yet")
        partition = internal_topics.partition_of(name, key)
        assert partition is not None
        self.move_leader(*partition.topic_partition, node_id)

    # ---- under the lock

    def _start(self, node_id: int) -> None:
        server = BrokerServer(node_id, self._state, self._scripted, self._listeners[node_id],
                              self._configs[node_id], self._port_offsets.get(node_id, 0))
        self._release(node_id)
        self._servers[node_id] = server
        found = server.end_points
        self._listeners[node_id] = [found[end_point.listener_name] for end_point in self._listeners[node_id]]
        server.start()

    def _ensure_known(self, node_id: int) -> None:
        if node_id not in self._listeners:
            raise ConfigError("node_id", node_id, f"there are {', '.join(map(str, self._listeners))}")

    def _reserve(self, node_id: int) -> None:
        """Bind the ports without listening: connects are refused, and the system gives the ports to nobody."""
        reserved = self._reserved.setdefault(node_id, [])
        for end_point in self._listeners[node_id]:
            sock = socket.socket(socket.AF_INET6 if ":" in end_point.host else socket.AF_INET, socket.SOCK_STREAM)
            reserved.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the listener that comes back has it
            with contextlib.suppress(OSError):  # it is only a precaution
                sock.bind((end_point.host, end_point.port))

    def _release(self, node_id: int) -> None:
        for sock in self._reserved.pop(node_id, ()):
            sock.close()
