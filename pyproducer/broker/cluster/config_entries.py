"""Settings as admin clients see them: value, where it comes from, and what it would be without that.

Road:    DescribeConfigs, CreateTopics -> [config entries] -> topic config, broker config
Thread:  any; reads one table of values after the other.
Source:  Java ConfigHelper, DescribeConfigsResponse.ConfigSource and ConfigType (4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from pyproducer.broker.cluster.config import (
    BROKER_CONFIG,
    BROKER_NAME_OF,
    DYNAMIC_CONFIG,
    TOPIC_CONFIG,
    BrokerConfig,
)
from pyproducer.broker.cluster.topic_config import TopicConfig
from pyproducer.common.settings.definition import Setting
from pyproducer.common.settings.parse import value_text


class ConfigSource(IntEnum):
    """Where a value comes from."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigType(IntEnum):
    """What kind of value it is."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Synonym(NamedTuple):
    """A setting that has, or would have, a say."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting; the first of `synonyms` is where `value` comes from."""

    name: str
    value: str | None
    source: ConfigSource
    config_type: ConfigType
    is_read_only: bool
    is_sensitive: bool
    doc: str
    synonyms: tuple[Synonym, ...]


def topic_entries(topic: TopicConfig, broker: BrokerConfig,
                  dynamic: Mapping[str, Mapping[str, str]]) -> list[ConfigEntry]:
    """Return all settings of a topic.

    Args:
        topic: Its settings.
        broker: The broker's, which are its defaults.
        dynamic: What was altered at runtime, by broker id and by "" for all.
    """
    entries = []
    for name, row in TOPIC_CONFIG.items():
        synonyms = (_broker_synonyms(BROKER_NAME_OF[name], broker, dynamic) if name in BROKER_NAME_OF
                    else [Synonym(name, value_text(row.default), ConfigSource.DEFAULT)])
        own = topic.overrides.get(name)
        if own is not None:
            synonyms = [Synonym(name, own, ConfigSource.DYNAMIC_TOPIC), *synonyms]
        entries.append(_entry(row, synonyms, is_read_only=False))
    return entries


def broker_entries(broker: BrokerConfig, dynamic: Mapping[str, Mapping[str, str]]) -> list[ConfigEntry]:
    """Return all settings of a broker."""
    return [_entry(row, _broker_synonyms(name, broker, dynamic), is_read_only=name not in DYNAMIC_CONFIG)
            for name, row in BROKER_CONFIG.items()]


def cluster_entries(dynamic: Mapping[str, str]) -> list[ConfigEntry]:
    """Return what was altered at runtime for all brokers, and nothing else."""
    return [_entry(BROKER_CONFIG[name], [Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)],
                   is_read_only=False) for name, value in dynamic.items()]


def _broker_synonyms(name: str, broker: BrokerConfig, dynamic: Mapping[str, Mapping[str, str]]) -> list[Synonym]:
    synonyms = [Synonym(name, configs[name], ConfigSource.DYNAMIC_BROKER)
                for broker_id, configs in sorted(dynamic.items(), reverse=True) if broker_id and name in configs]
    if name in dynamic.get("", {}):
        synonyms.append(Synonym(name, dynamic[""][name], ConfigSource.DYNAMIC_DEFAULT_BROKER))
    if name in broker.given:
        synonyms.append(Synonym(name, value_text(broker.static_value(name)), ConfigSource.STATIC_BROKER))
    synonyms.append(Synonym(name, value_text(BROKER_CONFIG[name].default), ConfigSource.DEFAULT))
    return synonyms


def _entry(row: Setting, synonyms: list[Synonym], *, is_read_only: bool) -> ConfigEntry:
    if row.is_secret:  # never told, whatever it is
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
    used = synonyms[0]
    return ConfigEntry(row.key, used.value, used.source, ConfigType[row.type.name], is_read_only, row.is_secret,
                       row.doc, tuple(synonyms))
