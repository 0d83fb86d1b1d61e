"""The settings of brokers that were altered while they run.

Road:    IncrementalAlterConfigs, AlterConfigs -> [dynamic configs] -> cluster file, broker config, topics
Thread:  any; an alteration takes the store's lock.
Source:  Java ConfigurationControlManager, DynamicBrokerConfig (4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyproducer.broker.cluster.cluster_store import ClusterStore
from pyproducer.broker.cluster.config import BrokerConfig
from pyproducer.broker.cluster.topic_config import topic_config
from pyproducer.broker.cluster.topic_table import TopicTable


class DynamicConfigs:
    """What was altered, kept in the cluster file; it is in force as soon as this is made.

    Args:
        store: Where it is kept.
        config: The settings that it stands above.
        topics: Whose defaults change with it.
    """

    def __init__(self, store: ClusterStore, config: BrokerConfig, topics: TopicTable) -> None:
        self._store = store
        self._config = config
        self._topics = topics
        config.alter(store.content.dynamic_config())

    @property
    def by_broker(self) -> Mapping[str, Mapping[str, str]]:
        """What was altered, by broker id and by "" for all brokers."""
        return self._store.content.broker_configs

    def of(self, broker: str) -> Mapping[str, str]:
        """Return what was altered for one broker, by its id, or for all of them, by ""."""
        return self.by_broker.get(broker, {})

    def alter_broker_configs(self, broker: str, altered: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Replace what was altered for one broker, or for all of them with "".

        Args:
            broker: Its id, or "".
            altered: Returns what is to be altered of what was. Called under the lock, so that nobody alters something
                else meanwhile; what it raises is raised here, and nothing was changed.

        Raises:
            ConfigError: A setting cannot be altered or is wrong; nothing was changed.
            OSError: The cluster file could not be written; nothing was changed.
        """
        store = self._store
        with store.lock:
            configs = {**store.content.broker_configs, broker: dict(altered(self.of(broker)))}
            self._config.alter(replace(store.content, broker_configs=configs).dynamic_config())
            try:
                store.save(broker_configs=configs)
            except BaseException:
                self._config.alter(store.content.dynamic_config())
                raise
            for topic in self._topics.values():
                topic.configure(topic_config(topic.config.overrides, self._config))
