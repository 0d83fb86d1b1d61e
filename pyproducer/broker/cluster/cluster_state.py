"""What all brokers of one cluster share: each thing of it has an owner, and this makes them, starts and ends them.

    topics            which topics there are; topic_life makes and deletes them, leaders says who leads
    brokers           which brokers live
    producer_ids      ids that nobody has had
    dynamic_configs   settings that were altered at runtime
    scram_credentials what is kept of the users' passwords
    acls              who may do what, where authorizer.class.name says that it counts
    store             what of all this is kept, and the lock of its changes

Road:    apis -> [cluster state] -> the owner of the thing
Thread:  made, started and closed by one; its owners are any thread's.
Source:  Java BrokerServer, ControllerServer (4.1): brokers of a cluster run in one process, so there is nothing to
         replicate.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyproducer.broker.cluster.acl_store import AclStore
from pyproducer.broker.cluster.authorizer import Authorizer, allow_everything
from pyproducer.broker.cluster.cluster_store import ClusterStore
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.coordinator.group.coordinator import GroupCoordinator
from pyproducer.broker.cluster.coordinator.internal_topics import InternalTopics
from pyproducer.broker.cluster.coordinator.transaction.coordinator import TransactionCoordinator
from pyproducer.broker.cluster.coordinator.transaction.markers import MarkerWriter
from pyproducer.broker.cluster.data_dir import DataDir
from pyproducer.broker.cluster.delayed_operation import DelayedFetches
from pyproducer.broker.cluster.dynamic_configs import DynamicConfigs
from pyproducer.broker.cluster.leaders import Leaders
from pyproducer.broker.cluster.living_brokers import LivingBrokers
from pyproducer.broker.cluster.log_manager import LogManager
from pyproducer.broker.cluster.producer_ids import ProducerIds
from pyproducer.broker.cluster.scram_credentials import ScramCredentials
from pyproducer.broker.cluster.standard_authorizer import StandardAuthorizer
from pyproducer.broker.cluster.timer import Timer
from pyproducer.broker.cluster.topic_life import TopicLife
from pyproducer.broker.cluster.topic_table import TopicTable
from pyproducer.common.clock import Clock


class ClusterState:
    """The state of one cluster, over one data directory.

    Args:
        data_dir: Where everything is kept; may hold what an earlier broker left.
        config: The settings of all brokers.
        clock: The clocks.
        node_ids: The brokers that there will be; replicas are spread over them.
        racks: The racks of some of them.

    Raises:
        ConfigError: Something in the data directory is damaged, or another broker uses it.
    """

    def __init__(self, data_dir: Path, config: BrokerConfig, clock: Clock, *, node_ids: tuple[int, ...] = (1,),
                 racks: Mapping[int, str | None] | None = None) -> None:
        self.config = config
        self.clock = clock
        self.authorizer: Authorizer = allow_everything
        self.timer: Timer = Timer(clock, name="kafka-expiration-reaper")
        self.delayed_fetches: DelayedFetches = DelayedFetches(self.timer)
        self.topics: TopicTable = TopicTable()
        self.brokers: LivingBrokers = LivingBrokers()
        self._is_closed = False
        self.data_dir: DataDir = DataDir(data_dir)
        try:
            self.store: ClusterStore = ClusterStore(data_dir)
            self.dynamic_configs: DynamicConfigs = DynamicConfigs(self.store, config, self.topics)
            self.scram_credentials: ScramCredentials = ScramCredentials(self.store)
            self.acls: AclStore = AclStore(self.store)
            if config.text("authorizer.class.name"):
                self.authorizer = StandardAuthorizer(config, self.acls)
            self.producer_ids: ProducerIds = ProducerIds(self.store)
            self.leaders: Leaders = Leaders(self.store, self.topics, self.brokers, self.delayed_fetches)
            self.topic_life: TopicLife = TopicLife(
                self.data_dir, self.store, self.topics, self.brokers, config,
                racks={node_id: (racks or {}).get(node_id) for node_id in node_ids},
                delayed_fetches=self.delayed_fetches, leaders=self.leaders,
                on_deleted=self._on_topic_deleted)
            self.store.write_first()
            self.topic_life.open_all()
        except BaseException:
            self._close_store()
            self.data_dir.close(clean=False)
            raise
        self.data_dir.opened()
        self.internal_topics: InternalTopics = InternalTopics(
            config, self.timer, self.topics, self.topic_life)
        self.group_coordinator: GroupCoordinator = GroupCoordinator(
            config, clock, self.timer, self.internal_topics, self.delayed_fetches)
        self.transactions: TransactionCoordinator = TransactionCoordinator(
            config, clock, self.timer, self.internal_topics, self.brokers, self.delayed_fetches, self.producer_ids,
            MarkerWriter(clock, self.topics, self.brokers, self.group_coordinator, self.delayed_fetches))
        self.log_manager: LogManager = LogManager(config, clock, self.topics, self.group_coordinator, self.transactions)

    @property
    def cluster_id(self) -> str:
        """Kafka's cluster id."""
        return self.store.content.cluster_id

    def start(self) -> None:
        """Start the timer, and read what the coordinators had."""
        self.timer.start()
        self.log_manager.start()
        self.group_coordinator.load()
        self.transactions.load()

    def run_due(self) -> None:
        """Do all that is due, now that the clock was moved: what waits, and what is done every few minutes."""
        self.timer.run_due()
        self.log_manager.run_due()
        self.timer.run_due()

    def close(self) -> None:
        """Stop the timer, close every log, give the directory back; harmless when closed. No handler may be running."""
        if self._is_closed:
            return
        self._is_closed = True
        self.log_manager.stop()
        self.timer.stop()
        is_clean = self.topic_life.close_all()
        self._close_store()
        self.data_dir.close(clean=is_clean)

    def _close_store(self) -> None:
        store: ClusterStore | None = getattr(self, "store", None)  # not yet where its file cannot be read
        if store is not None:
            with store.lock:
                store.close()

    def _on_topic_deleted(self, name: str) -> None:
        self.group_coordinator.on_topic_deleted(name)
