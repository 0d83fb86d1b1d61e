"""A Kafka broker for tests, demonstrations and laptops, in this process or in one of its own.

Road:    user -> [EmbeddedBroker] -> InProcessCluster, ChildProcessCluster
Thread:  any; start and stop from one.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyproducer.broker.cluster.authorizer import Authorizer
from pyproducer.broker.cluster.listener import address_text
from pyproducer.broker.control import broker_view
from pyproducer.broker.control.broker_view import TopicSize
from pyproducer.broker.control.child_process import ChildProcessCluster
from pyproducer.broker.control.cluster_control import ClusterControl
from pyproducer.broker.control.commands import run_command
from pyproducer.broker.control.in_process import ClusterOptions, InProcessCluster
from pyproducer.broker.control.stored_record import StoredRecord, read_topic_records
from pyproducer.common.errors import ConfigError, IllegalStateError

if TYPE_CHECKING:
    from typing_extensions import Self


class EmbeddedBroker(ClusterControl):
    """A broker that speaks Kafka's protocol and keeps Kafka's files.

    with EmbeddedBroker(topics={"orders": 3}) as broker:
        producer = KafkaProducer({"bootstrap.servers": broker.bootstrap_servers})

    Args:
        brokers: How many brokers the cluster has: nodes 1, 2, ... over one set of logs. Partition i is led by node
            i mod n + 1 until something is moved, and with default.replication.factor in `config` the nodes after that
            one have it, too: the ISR is those that live, another of them leads when one goes, and acks=all asks for
            min.insync.replicas.
        data_dir: Where the logs are kept. Without it `log.dirs` of `config` names it, and without that it is a
            temporary folder, removed at stop. What an earlier broker left there is served again.
        topics: Topics to create: names, or names with their number of partitions. One that `data_dir` has with fewer
            gets the others; with more it keeps those.
        separate_process: Run in a child process, so that the broker does not share this process's GIL. The child ends
            with its parent.
        port: Port of the first listener; 0 is any free one. Further brokers have the ports after it.
        host: Address of the first listener.
        auto_create_topics: Create topics that clients ask for (auto.create.topics.enable).
        num_partitions: Partitions of topics that do not say (num.partitions).
        strict_checks: Look at every record that arrives, as Kafka does; without, batches are stored unopened, which
            saves about a microsecond for each record.
        config: Any broker setting under Kafka's name; stands above the arguments.
        node_config: Node id to settings in which it differs: listeners, broker.rack, ssl.*, sasl.*, its
            threads.
        log_requests: Keep the newest requests for `requests()`.

    Raises:
        ConfigError: An argument or setting makes no sense. Nothing was started.
    """

    def __init__(self, brokers: int = 1, data_dir: str | Path | None = None,
                 topics: Mapping[str, int] | Iterable[str] = (), *, separate_process: bool = False, port: int = 0,
                 host: str = "127.0.0.1", auto_create_topics: bool = True, num_partitions: int = 1,
                 strict_checks: bool = True, config: Mapping[str, object] | None = None,
                 node_config: Mapping[int, Mapping[str, object]] | None = None, log_requests: bool = False) -> None:
        settings: dict[str, object] = {
            "listeners": f"PLAINTEXT://{address_text(host)}:{port}",
            "auto.create.topics.enable": auto_create_topics,
            "num.partitions": num_partitions,
            "strict.checks": strict_checks,
            **(config or {}),
        }
        if isinstance(topics, (str, bytes)):
            raise ConfigError("topics", topics, f"each letter would be a topic: write topics=[{topics!r}]")
        partition_counts = (dict(topics) if isinstance(topics, Mapping)
                            else {name: int(str(settings["num.partitions"])) for name in topics})
        options = ClusterOptions(brokers, None if data_dir is None else str(data_dir), partition_counts, settings,
                                 node_config or {}, log_requests)
        # Checks the options, also for a child.
        in_process = InProcessCluster(options)
        self._cluster: InProcessCluster | ChildProcessCluster = (
            ChildProcessCluster(options) if separate_process else in_process)
        self._is_running = False

    # ---- life

    def start(self) -> Self:
        """Start; return when clients can connect.

        Raises:
            ConfigError: The address or the data directory is in use. Nothing is left running.
            IllegalStateError: It is running already.
        """
        if self._is_running:
            raise IllegalStateError("The embedded broker is running already")
        self._cluster.start()
        self._is_running = True
        return self

    def stop(self) -> None:
        """Stop, close every connection and file; harmless when it is not running."""
        self._is_running = False
        self._cluster.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.stop()

    # ---- where it is

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the first listener, for bootstrap.servers.

        Raises:
            IllegalStateError: The broker is not running.
        """
        return self.bootstrap_servers_of(next(iter(self._running().addresses())))

    def bootstrap_servers_of(self, listener_name: str) -> str:
        """Return `host:port` of one listener, for bootstrap.servers.

        Raises:
            IllegalStateError: The broker is not running, or has no such listener.
        """
        addresses = self._running().addresses()
        if listener_name not in addresses:
            raise IllegalStateError(f"There is no listener {listener_name}; there are {', '.join(addresses)}")
        return ",".join(f"{address_text(host)}:{port}" for host, port in addresses[listener_name])

    @property
    def port(self) -> int:
        """Port of the first listener.

        Raises:
            IllegalStateError: The broker is not running.
        """
        return next(iter(self._running().addresses().values()))[0][1]

    @property
    def data_dir(self) -> Path:
        """Where the logs are.

        Raises:
            IllegalStateError: The broker is not running and its folder was a temporary one.
        """
        if self._cluster.data_dir is None:
            raise IllegalStateError("The embedded broker is not running")
        return self._cluster.data_dir

    def __repr__(self) -> str:
        return broker_view.line(*self._shown())

    def _repr_html_(self) -> str:
        return broker_view.table(*self._shown())

    def _shown(self) -> tuple[str | None, dict[str, TopicSize]]:
        """Return address and topics; None and nothing when it does not run, or just ended."""
        try:
            return self.bootstrap_servers, self.topic_sizes()
        except IllegalStateError:
            return None, {}

    # ---- records

    def records(self, topic: str) -> list[StoredRecord]:
        """Return all records of a topic that are not deleted, by partition and offset, read from the log's files.

        Raises:
            IllegalStateError: The broker is not running.
        """
        return read_topic_records(self.data_dir, topic, lambda: {
            int(index): int(offset) for index, offset in self._ask("log_start_offsets", topic=topic).items()})

    def _ask(self, command: str, **arguments: Any) -> Any:
        cluster = self._running()
        if isinstance(cluster, InProcessCluster):
            return run_command(cluster, command, arguments)
        return cluster.ask(command, arguments)

    # ---- permissions

    def set_authorizer(self, authorizer: Authorizer) -> None:
        """Let every API ask this function before it does or tells anything, as Kafka asks its authorizer; until stop.

        What it says no to is answered with Kafka's codes: 29 for topics, 30 groups, 31 the cluster, 53 transactions.

        Raises:
            IllegalStateError: The broker is not running, or runs in a process of its own, where no function can go.
        """
        cluster = self._running()
        if not isinstance(cluster, InProcessCluster):
            raise IllegalStateError("A broker in a process of its own cannot ask an authorizer here")
        cluster.state.authorizer = authorizer

    def _running(self) -> InProcessCluster | ChildProcessCluster:
        if not self._is_running:
            raise IllegalStateError("The embedded broker is not running")
        return self._cluster
