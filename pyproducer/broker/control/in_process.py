"""A cluster inside this process: the shared state and its brokers.

Road:    EmbeddedBroker, child process, command line -> [cluster] -> BrokerServer
Thread:  start and stop from one; the questions from any.
Source:  ours.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyproducer.broker.cluster.cluster_state import ClusterState
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.listener import EndPoint, advertised_end_points, parse_listeners, without
from pyproducer.broker.cluster.movable_clock import MovableClock
from pyproducer.broker.cluster.sasl.scram_credential import MAX_ITERATIONS, generate_credential
from pyproducer.broker.cluster.sasl_listener import SaslListener, is_sasl
from pyproducer.broker.control.broker_server import BrokerServer
from pyproducer.broker.control.broker_view import TopicSize
from pyproducer.broker.control.nodes import Nodes
from pyproducer.broker.control.observations import RequestLog
from pyproducer.broker.control.scripted import Scripted
from pyproducer.broker.storage.descriptors import raise_descriptor_limit
from pyproducer.common.clock import SystemClock
from pyproducer.common.errors import ConfigError, IllegalStateError
from pyproducer.common.topic_name import topic_name_fault
from pyproducer.network.sasl.scram_formatter import FORMATTERS, MIN_ITERATIONS

_logger = logging.getLogger(__name__)
_FIRST_NODE_ID = 1
_OWN_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
# What one node may have otherwise than the rest; everything else is the cluster's.
_NODE_SETTINGS = ("listeners", "advertised.listeners", "listener.security.protocol.map", "broker.rack",
                  "num.network.threads", "num.io.threads", "queued.max.requests")


@dataclass(frozen=True)
class ClusterOptions:
    """How to run a cluster; only plain values, so that they can go to another process.

    Attributes:
        brokers: How many.
        data_dir: Where the logs are; None is what `log.dirs` or `log.dir` of `config` names, and without either a
            temporary folder that is removed at the end.
        topics: Name to number of partitions; made when they are missing, and given more where they have fewer.
        config: Settings under Kafka's names.
        node_config: Node id to what it has otherwise: listeners, rack, threads, ssl.*, sasl.*.
        log_requests: Keep the newest requests from the start.
    """

    brokers: int = 1
    data_dir: str | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict, repr=False)  # passwords may be in it
    node_config: Mapping[int, Mapping[str, object]] = field(default_factory=dict, repr=False)
    log_requests: bool = False


class InProcessCluster:
    """The brokers of one cluster, on threads of this process.

    Raises:
        ConfigError: An option makes no sense; nothing was started.
    """

    def __init__(self, options: ClusterOptions) -> None:
        if options.brokers < 1:
            raise ConfigError("brokers", options.brokers, "there must be at least one")
        options = replace(options, config={**_replication_of_internal_topics(options.brokers), **options.config})
        self._options = options
        self._config = BrokerConfig(options.config)
        node_ids = range(_FIRST_NODE_ID, _FIRST_NODE_ID + options.brokers)
        for node_id, settings in options.node_config.items():
            if node_id not in node_ids:
                raise ConfigError("node_config", node_id, f"there are nodes {node_ids[0]} to {node_ids[-1]}")
            for key in settings:
                if not (key in _NODE_SETTINGS or key.startswith(("ssl.", "sasl.", "listener.name."))):
                    raise ConfigError(key, settings[key], "the nodes of a cluster cannot differ in this setting")
        self._node_configs = {
            node_id: BrokerConfig({**options.config, **options.node_config.get(node_id, {})}) for node_id in node_ids}
        # Each further node has the next ports, where the first one's are given at all.
        own = {key: {node_id for node_id, settings in options.node_config.items() if key in settings}
               for key in ("listeners", "advertised.listeners")}
        self._listeners = {node_id: _listeners(config, 0 if node_id in own["listeners"] else node_id - _FIRST_NODE_ID)
                           for node_id, config in self._node_configs.items()}
        self._port_offsets = {node_id: 0 if node_id in own["advertised.listeners"] else node_id - _FIRST_NODE_ID
                              for node_id in node_ids}
        for node_id, config in self._node_configs.items():  # a mistake is told before anything is opened
            advertised_end_points(config.advertised_listeners, self._listeners[node_id])
            for end_point in filter(is_sasl, self._listeners[node_id]):
                SaslListener(config, end_point, lambda _mechanism, _user: None, SystemClock())
        for name, partition_count in options.topics.items():
            reason = topic_name_fault(name)
            if reason is not None or partition_count < 1:
                raise ConfigError("topics", {name: partition_count}, reason or "there must be at least one partition")
        self._directory = directory_of(options)
        self._clock = MovableClock()  # goes on where it was when the cluster is started again
        self.data_dir: Path | None = None
        self.scripted: Scripted = Scripted()  # another one for each start
        self._state: ClusterState | None = None
        self._nodes: Nodes | None = None
        self._process_id = 0  # whose threads they run on

    def start(self) -> None:
        """Open the logs and listen; the process may open as many files as the system allows from now on.

        Raises:
            ConfigError: The data directory is in use or a listener's address is; nothing is left running.
        """
        self._process_id = os.getpid()
        raise_descriptor_limit()
        self.warn_of_inert_settings()
        directory = self._directory
        self.data_dir = Path(tempfile.mkdtemp(prefix="pyproducer-broker-") if directory is None else directory)
        try:
            self._state = ClusterState(self.data_dir, self._config, self._clock, node_ids=tuple(self._listeners),
                                       racks={node_id: config.optional_text("broker.rack")
                                              for node_id, config in self._node_configs.items()})
            self._state.start()
            self.scripted = Scripted()
            if self._options.log_requests:
                self.scripted.request_log = RequestLog()
            self._create_topics(self._state)
            self._nodes = Nodes(self._state, self.scripted, self._listeners, self._node_configs, self._port_offsets)
            self._nodes.start_all()
        except BaseException:
            self.stop()
            raise

    def advance_clock(self, ms: int) -> None:
        """Let time pass for the brokers; return when all that is due then was done.

        Raises:
            ConfigError: Time does not go back.
        """
        state = self.state
        self._clock.advance(ms)
        state.run_due()

    def timestamp_ms(self) -> int:
        """Return the brokers' wall clock."""
        return self._clock.timestamp_ms()

    def warn_of_inert_settings(self) -> None:
        """Say which settings were taken and change nothing, and which of several directories is used."""
        inert = self._config.inert.union(*(config.inert for config in self._node_configs.values()))
        directories = self._config.log_directories
        if self._options.data_dir is not None:
            inert |= self._config.given & {"log.dirs", "log.dir"}
        elif len(directories) > 1:
            _logger.warning("An embedded broker keeps its logs in one directory: %s, the first of log.dirs; it does "
                            "not look at %s", directories[0], ", ".join(directories[1:]))
        if inert:
            _logger.warning("These settings have no effect on an embedded broker: %s", ", ".join(sorted(inert)))

    def stop(self) -> None:
        """Stop and close everything; a temporary folder is removed.

        In a process that was forked since the start all that is the parent's, and goes on there.
        """
        if self._process_id != os.getpid():
            self._nodes = self._state = None
            if self._directory is None:
                self.data_dir = None
            return
        if self._nodes is not None:
            self._nodes.stop_all()
            self._nodes = None
        if self._state is not None:
            self._state.close()
            self._state = None
        if self.data_dir is not None and self._directory is None:
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

    @property
    def nodes(self) -> Nodes:
        """The running cluster's brokers.

        Raises:
            IllegalStateError: It is not running.
        """
        if self._nodes is None:
            raise IllegalStateError("The embedded broker is not running")
        return self._nodes

    @property
    def servers(self) -> list[BrokerServer]:
        """The running brokers; none when the cluster is not running."""
        return [] if self._nodes is None else self._nodes.servers

    def addresses(self) -> dict[str, list[tuple[str, int]]]:
        """Return where clients may connect: listener name to (host, port) of each broker, stopped ones too.

        Of a broker that listens on all addresses it is this machine's own.
        """
        found: dict[str, list[tuple[str, int]]] = {}
        for end_points in self.nodes.advertised.values():
            for end_point in end_points:
                host = _OWN_ADDRESS.get(end_point.host, end_point.host)
                found.setdefault(end_point.listener_name, []).append((host, end_point.port))
        return found

    def create_topic(self, name: str, partition_count: int, configs: Mapping[str, str],
                     replication_factor: int | None = None) -> bool:
        """Create a topic; return False when it exists.

        Raises:
            ConfigError: The name, the number of partitions or a setting is not allowed.
        """
        reason = topic_name_fault(name)
        if reason is not None or partition_count < 1:
            raise ConfigError("topic", name, reason or f"{partition_count} partitions; there must be at least one")
        if replication_factor is not None and replication_factor < 1:
            raise ConfigError("replication_factor", replication_factor, "there must be at least one replica")
        return self.state.topic_life.create_topic(
            name, partition_count, configs, replication_factor=replication_factor) is not None

    def add_scram_user(self, name: str, password: str, iterations: int) -> None:
        """Let a user log in with each mechanism of SCRAM.

        Raises:
            ConfigError: There is no name or no password, or the iterations are not allowed.
        """
        if not name or not password:
            raise ConfigError("user", name, "a user needs a name and a password")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ConfigError("iterations", iterations, f"must be between {MIN_ITERATIONS} and {MAX_ITERATIONS}")
        self.state.scram_credentials.alter({
            (name, mechanism): generate_credential(formatter, password, iterations)
            for mechanism, formatter in FORMATTERS.items()})

    def topics(self) -> dict[str, int]:
        """Return all topics with their number of partitions."""
        return {name: len(topic.partitions) for name, topic in self.state.topics.items()}

    def topic_sizes(self) -> dict[str, TopicSize]:
        """Return how much each topic holds."""
        return {name: TopicSize(len(topic.partitions), sum(
            partition.log.log_end_offset - partition.log.log_start_offset for partition in topic.partitions),
            sum(partition.log.size_bytes for partition in topic.partitions))
            for name, topic in self.state.topics.items()}

    def log_end_offsets(self, topic: str) -> dict[int, int]:
        """Return the offset of the next record of each partition; empty when there is no such topic."""
        found = self.state.topics.find(topic)
        partitions = () if found is None else found.partitions
        return {partition.topic_partition.partition: partition.log.log_end_offset for partition in partitions}

    def log_start_offsets(self, topic: str) -> dict[int, int]:
        """Return the first offset of each partition that is not deleted; empty when there is no such topic."""
        found = self.state.topics.find(topic)
        partitions = () if found is None else found.partitions
        return {partition.topic_partition.partition: partition.log.log_start_offset for partition in partitions}

    def _create_topics(self, state: ClusterState) -> None:
        for name, partition_count in self._options.topics.items():
            existing = state.topics.find(name)
            if existing is None:
                state.topic_life.create_topic(name, partition_count, {})
                continue
            present = len(existing.partitions)
            if present > partition_count:
                _logger.warning("The data directory has %s with %d partitions, and it was asked for with %d: it keeps "
                                "those that it has", name, present, partition_count)
            elif present < partition_count:
                # As many replicas as its first partition has, which may be of a cluster with more brokers.
                replicas = min(len(existing.partitions[0].replicas.assigned), len(state.topic_life.registered))
                state.topic_life.create_partitions(name, partition_count, state.topic_life.place(
                    partition_count - present, replicas, first=present))
                _logger.warning("The data directory had %s with %d partitions, and it was asked for with %d: it was "
                                "given the others, and keys may have another partition than before", name, present,
                                partition_count)


def _replication_of_internal_topics(brokers: int) -> dict[str, object]:
    """Return what the coordinators' topics have in a cluster of several brokers: what they have in Kafka."""
    if brokers == 1:
        return {}
    factor = min(brokers, 3)
    return {"offsets.topic.replication.factor": factor, "transaction.state.log.replication.factor": factor,
            "transaction.state.log.min.isr": factor - 1}


def directory_of(options: ClusterOptions) -> str | None:
    """Return where the logs are to be kept; None is a temporary folder.

    Raises:
        ConfigError: A setting makes no sense.
    """
    if options.data_dir is not None:
        return options.data_dir
    return next(iter(BrokerConfig(options.config).log_directories), None)


def _listeners(config: BrokerConfig, port_offset: int) -> Sequence[EndPoint]:
    """Return a node's listeners; each further node of a cluster has the next ports, where they are given at all."""
    listeners = without(config.text("controller.listener.names"), config.text("listeners"))
    return [end_point._replace(port=end_point.port + port_offset) if end_point.port else end_point
            for end_point in parse_listeners(listeners, config.text("listener.security.protocol.map"))]
