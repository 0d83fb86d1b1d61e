"""The settings of one topic: what was given at creation, over the broker's defaults.

Road:    CreateTopics, config -> [topic config] -> partition
Thread:  immutable.
Source:  Java LogConfig (4.1); validateTopicLogConfigValues and validateValues for what clients ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyproducer.broker.cluster.config import TOPIC_CONFIG, BrokerConfig
from pyproducer.broker.storage.log_config import LogConfig
from pyproducer.broker.storage.validation import BatchRules
from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.definition import Type
from pyproducer.common.settings.parse import parse_value, value_text
from pyproducer.common.settings.table import SettingTable
from pyproducer.record.compression import Compressor, compressor_for
from pyproducer.record.layout import CREATE_TIME, LOG_APPEND_TIME

_CONFLICT = "conflict topic config setting"
_NO_TIERED_STORAGE = ("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote "
                      "log storage.")
# What Kafka says without naming a value before it.
_WHOLE = (_CONFLICT, _NO_TIERED_STORAGE)


class TopicConfig(NamedTuple):
    """What partitions and logs need, read once.

    Attributes:
        overrides: What the topic itself sets.
        rules: Which batches are accepted.
        compressor: Makes what is stored (compression.type); None leaves batches as they came.
        min_insync_replicas: As many must be in sync for acks=all.
        allows_unclean_election: Whether a replica may lead that was not in sync.
        log: The settings of its logs.
    """

    overrides: Mapping[str, str]
    rules: BatchRules
    compressor: Compressor | None
    log: LogConfig
    min_insync_replicas: int
    allows_unclean_election: bool


def topic_config(overrides: Mapping[str, str | None], defaults: BrokerConfig) -> TopicConfig:
    """Check a topic's own settings and combine them with the broker's.

    A compacted topic refuses records without a key, which is found only where records are read: `strict.checks`.

    Raises:
        ConfigError: A setting is unknown or its value is not allowed; Kafka's code for it is INVALID_CONFIG.
    """
    values, kept = _values(overrides, defaults)
    policies = values["cleanup.policy"]
    strict_checks = defaults.switch("strict.checks")
    rules = BatchRules(
        max_message_bytes=values["max.message.bytes"],
        timestamp_type=LOG_APPEND_TIME if values["message.timestamp.type"] == "LogAppendTime" else CREATE_TIME,
        timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
        timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
        is_compacted="compact" in policies,
        is_strict=strict_checks,
        # Compressed records may not hold more than the largest request could have brought as they are.
        max_expanded_bytes=defaults.number("socket.request.max.bytes"),
        reads_records=strict_checks)
    log = LogConfig(
        segment_bytes=values["segment.bytes"], segment_ms=values["segment.ms"],
        index_interval_bytes=values["index.interval.bytes"], retention_ms=values["retention.ms"],
        retention_bytes=values["retention.bytes"], is_deleted="delete" in policies, is_compacted="compact" in policies,
        min_cleanable_ratio=values["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=values["min.compaction.lag.ms"], delete_retention_ms=values["delete.retention.ms"])
    return TopicConfig(kept, rules, _compressor(values), log, values["min.insync.replicas"],
                       values["unclean.leader.election.enable"])


def asked_topic_config(overrides: Mapping[str, str | None], defaults: BrokerConfig) -> TopicConfig:
    """Do as `topic_config` for settings that a client asks for: they must also agree with each other and with us.

    As in Kafka this is not looked at again where a topic is opened, or where a default of the broker changes.

    Raises:
        ConfigError: As `topic_config`; or the topic is to be on tiered storage, which there is none of; or records
            would have to be compacted before they may be.
    """
    config = topic_config(overrides, defaults)
    values, _ = _values(overrides, defaults)
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if shortest > longest:
        raise ConfigError("min.compaction.lag.ms", shortest, f"{_CONFLICT} min.compaction.lag.ms ({shortest}) > "
                                                             f"max.compaction.lag.ms ({longest})")
    if values["remote.storage.enable"]:
        raise ConfigError("remote.storage.enable", "true", _NO_TIERED_STORAGE)
    return config


def _values(overrides: Mapping[str, str | None], defaults: BrokerConfig) -> tuple[dict[str, Any], dict[str, str]]:
    """Return every setting in its type, and the text of those that the topic itself sets."""
    values: dict[str, Any] = {name: defaults.topic_default(name) for name in TOPIC_CONFIG}
    kept: dict[str, str] = {}
    for name, text in overrides.items():
        row = TOPIC_CONFIG.get(name)
        if row is None:
            raise TOPIC_CONFIG.unknown_key_error(name, text)
        if text is None:
            raise ConfigError(name, text, f"Null value not supported for topic configs: {name}")
        values[name] = parse_value(row, text)
        kept[name] = str(value_text(values[name])) if row.type is Type.LIST else text
    return values, kept


def _compressor(values: Mapping[str, Any]) -> Compressor | None:
    codec = values["compression.type"]
    if codec == "producer":
        return None
    return compressor_for("none" if codec == "uncompressed" else codec, values.get(f"compression.{codec}.level"))


def error_text(error: ConfigError, table: SettingTable) -> str:
    """Return what is wrong with a setting as Kafka says it to clients; of one that is not in the table, that only."""
    if error.key not in table or error.why.startswith(_WHOLE):
        return error.why
    return f"Invalid value {error.value} for configuration {error.key}: {error.why}"
