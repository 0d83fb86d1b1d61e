"""A cluster inside this process: the shared state and its brokers.

Road:    EmbeddedBroker, child process, command line -> [cluster] -> BrokerServer
Thread:  start and stop from one; the questions from any.
Source:  ours.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyproducer.broker.broker_server import BrokerServer
from pyproducer.broker.cluster_state import ClusterState
from pyproducer.broker.config import BrokerConfig
from pyproducer.broker.listener import parse_listeners
from pyproducer.broker.topic_name import topic_name_fault
from pyproducer.common.clock import SystemClock
from pyproducer.common.errors import ConfigError, IllegalStateError

_FIRST_NODE_ID = 1


@dataclass(frozen=True)
class ClusterOptions:
    """How to run a cluster; only plain values, so that they can go to another process.

    Attributes:
        brokers: How many.
        data_dir: Where the logs are; None is a temporary folder that is removed at the end.
        topics: Name to number of partitions; made when they are missing.
        config: Settings under Kafka's names.
    """

    brokers: int = 1
    data_dir: str | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)


class InProcessCluster:
    """The brokers of one cluster, on threads of this process.

    Raises:
        ConfigError: An option makes no sense; nothing was started.
    """

    def __init__(self, options: ClusterOptions) -> None:
        if options.brokers != 1:
            raise ConfigError("brokers", options.brokers, "the embedded cluster has exactly one broker")
        self._options = options
        self._config = BrokerConfig(options.config)
        self._end_points = parse_listeners(self._config.text("listeners"),
                                           self._config.text("listener.security.protocol.map"))
        for name, partition_count in options.topics.items():
            reason = topic_name_fault(name)
            if reason is not None or partition_count < 1:
                raise ConfigError("topics", {name: partition_count}, reason or "there must be at least one partition")
        self.data_dir: Path | None = None
        self._state: ClusterState | None = None
        self.servers: list[BrokerServer] = []

    def start(self) -> None:
        """Open the logs and listen.

        Raises:
            ConfigError: The data directory is in use or a listener's address is; nothing is left running.
        """
        directory = self._options.data_dir
        self.data_dir = Path(tempfile.mkdtemp(prefix="pyproducer-broker-") if directory is None else directory)
        try:
            self._state = ClusterState(self.data_dir, self._config, SystemClock(), node_ids=(_FIRST_NODE_ID,))
            self._state.start()
            self._create_topics(self._state)
            self.servers.append(BrokerServer(_FIRST_NODE_ID, self._state, self._end_points))
            for server in self.servers:
                server.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop and close everything; a temporary folder is removed."""
        for server in self.servers:
            server.shutdown()
        self.servers.clear()
        if self._state is not None:
            self._state.close()
            self._state = None
        if self.data_dir is not None and self._options.data_dir is None:
            shutil.rmtree(self.data_dir, ignore_errors=True)
            self.data_dir = None

    @property
    def state(self) -> ClusterState:
        """The running cluster's state.

        Raises:
            IllegalStateError: It is not running.
        """
        if self._state is None:
            raise IllegalStateError("The embedded broker is not running")
        return self._state

    def addresses(self) -> dict[str, list[tuple[str, int]]]:
        """Return where clients may connect: listener name to (host, port) of each broker."""
        found: dict[str, list[tuple[str, int]]] = {}
        for server in self.servers:
            for name, end_point in server.end_points.items():
                found.setdefault(name, []).append((end_point.host, end_point.port))
        return found

    def create_topic(self, name: str, partition_count: int, configs: Mapping[str, str]) -> bool:
        """Create a topic; return False when it exists.

        Raises:
            ConfigError: The name, the number of partitions or a setting is not allowed.
        """
        reason = topic_name_fault(name)
        if reason is not None or partition_count < 1:
            raise ConfigError("topic", name, reason or f"{partition_count} partitions; there must be at least one")
        return self.state.create_topic(name, partition_count, configs) is not None

    def topics(self) -> dict[str, int]:
        """Return all topics with their number of partitions."""
        return {name: len(topic.partitions) for name, topic in self.state.topics.items()}

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """Return the offset of the next record of each partition; empty when there is no such topic."""
        found = self.state.topic(topic)
        partitions = () if found is None else found.partitions
        return {partition.topic_partition.partition: partition.log.log_end_offset for partition in partitions}

    def _create_topics(self, state: ClusterState) -> None:
        for name, partition_count in self._options.topics.items():
            existing = state.topic(name)
            if existing is None:
                state.create_topic(name, partition_count, {})
            elif len(existing.partitions) != partition_count:
                raise ConfigError("topics", {name: partition_count},
                                  f"the data directory has it with {len(existing.partitions)} partitions")
