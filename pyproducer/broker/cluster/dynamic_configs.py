"""The settings of brokers that were altered while they run.

Road:    IncrementalAlterConfigs -> [dynamic configs] -> cluster file, broker config, topics
Thread:  any; an alteration takes the store's lock.
Source:  Java ConfigurationControlManager, DynamicBrokerConfig (4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
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

    def alter_broker_configs(self, broker: str, configs: Mapping[str, str]) -> None:
        """Replace what was altered for one broker, or for all of them with "".

        Raises:
            ConfigError: A setting cannot be altered or is wrong; nothing was changed.
            OSError: The cluster file could not be written; nothing was changed.
        """
        store = self._store
        with store.lock:
            altered = {**store.content.broker_configs, broker: dict(configs)}
            self._config.alter(replace(store.content, broker_configs=altered).dynamic_config())
            try:
                store.save(broker_configs=altered)
            except BaseException:
                self._config.alter(store.content.dynamic_config())
                raise
            for topic in self._topics.values():
                topic.configure(topic_config(topic.config.overrides, self._config))
