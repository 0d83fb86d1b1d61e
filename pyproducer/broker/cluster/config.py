"""The broker's settings under Kafka's names: one row each.

Road:    EmbeddedBroker, command line -> [config] -> every part of the broker
Thread:  any; an alteration at runtime replaces the table of values as a whole.
Source:  Java KafkaConfig, SocketServerConfigs, ServerLogConfigs, LogConfig, TopicConfig (4.1). A setting that Kafka has
         and that nothing here could act on is told once as without effect (inert_config.py); what no Kafka has is
         refused with the nearest name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import NamedTuple

from pyproducer.broker.cluster.inert_config import is_inert
from pyproducer.broker.cluster.listener import without
from pyproducer.common.errors import ConfigError

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

Value = int | float | bool | str | None


class ConfigRow(NamedTuple):
    """One setting: its type, default, bounds or allowed values, and what it does."""

    name: str
    kind: type
    default: Value
    doc: str
    low: int | None = None
    high: int | None = None
    allowed: tuple[str, ...] = ()
    is_list: bool = False  # a text with commas, each part of which must be allowed
    also: int | None = None  # a number outside of the bounds
    pattern: str | None = None  # what each part must match


_BROKER_ROWS = (
    ConfigRow("num.network.threads", int, 3, "Processors per listener", 1),
    ConfigRow("num.io.threads", int, 8, "Request handler threads", 1),
    ConfigRow("queued.max.requests", int, 500, "Requests that wait for a handler before processors block", 1),
    # Ours; Kafka sends from its files and holds nothing.
    ConfigRow("queued.max.response.bytes", int, 64 * 1024 * 1024, "Bytes of large responses that wait for clients", 1),
    ConfigRow("socket.request.max.bytes", int, 100 * 1024 * 1024, "Largest request", 1),
    # Ours: an element may be two bytes on the wire, and costs ten microseconds and hundreds of bytes.
    ConfigRow("socket.request.max.elements", int, 100_000, "Most topics, partitions, keys, ... of one request", 1),
    ConfigRow("socket.send.buffer.bytes", int, 100 * 1024, "SO_SNDBUF of accepted sockets; -1 is the system's", -1),
    ConfigRow("socket.receive.buffer.bytes", int, 100 * 1024, "SO_RCVBUF of accepted sockets; -1 is the system's", -1),
    ConfigRow("socket.listen.backlog.size", int, 50, "Connections the system queues before accept", 1),
    ConfigRow("connections.max.idle.ms", int, 600_000, "Close connections that are unused for this long", -1),
    ConfigRow("max.connections.per.ip", int, MAX_INT, "Connections that one address may have", 0, MAX_INT),
    ConfigRow("max.connections.per.ip.overrides", str, "", "Addresses with their own limit: address:count,..."),
    # Kafka's names of before 4.0; bytes in a second for each client id, 0 for no quota. The third is ours.
    ConfigRow("quota.producer.default", int, 0, "Bytes a client may produce in a second", 0),
    ConfigRow("quota.consumer.default", int, 0, "Bytes a client may fetch in a second", 0),
    ConfigRow("quota.requests.per.second", int, 0, "Requests a client may send in a second", 0),
    ConfigRow("listeners", str, "PLAINTEXT://127.0.0.1:0", "Names, addresses and ports to listen on"),
    ConfigRow("advertised.listeners", str, None, "Addresses that clients are told; without, those of listeners"),
    ConfigRow("controller.listener.names", str, "", "Listeners that are not opened: there is no controller beside"),
    ConfigRow("listener.security.protocol.map", str, "PLAINTEXT:PLAINTEXT,SSL:SSL", "Listener name to protocol"),
    ConfigRow("ssl.keystore.location", str, None, "PEM file of the broker's certificate chain and key"),
    ConfigRow("ssl.key.password", str, None, "Password of the key in ssl.keystore.location"),
    ConfigRow("ssl.truststore.location", str, None, "PEM file of the authorities that sign clients"),
    ConfigRow("ssl.keystore.type", str, "PEM", "Form of the key store", allowed=("PEM",)),
    ConfigRow("ssl.keystore.key", str, None, "The broker's private key itself, in PEM"),
    ConfigRow("ssl.keystore.certificate.chain", str, None, "The certificates of ssl.keystore.key, in PEM"),
    ConfigRow("ssl.truststore.type", str, "PEM", "Form of the trust store", allowed=("PEM",)),
    ConfigRow("ssl.truststore.certificates", str, None, "The authorities that sign clients themselves, in PEM"),
    ConfigRow("ssl.enabled.protocols", str, "TLSv1.2,TLSv1.3", "Versions of TLS"),
    ConfigRow("ssl.client.auth", str, "none", "Whether clients must show a certificate", allowed=(
        "none", "requested", "required")),
    ConfigRow("broker.rack", str, None, "Rack of every broker, for metadata"),
    ConfigRow("log.dirs", str, None, "Where the logs are, unless data_dir says it; of several the first alone"),
    ConfigRow("log.dir", str, None, "Where the logs are, unless data_dir or log.dirs says it"),
    ConfigRow("auto.create.topics.enable", bool, True, "Create topics that clients ask metadata for"),
    ConfigRow("delete.topic.enable", bool, True, "Let clients delete topics"),
    ConfigRow("num.partitions", int, 1, "Partitions of topics that do not say", 1),
    ConfigRow("default.replication.factor", int, 1, "Replicas of topics that do not say", 1),
    ConfigRow("fetch.max.bytes", int, 55 * 1024 * 1024, "Most bytes in one Fetch response", 1024),
    ConfigRow("log.retention.check.interval.ms", int, 300_000, "How often old segments are looked for", 1),
    ConfigRow("log.cleaner.enable", bool, True, "Compact the topics whose cleanup.policy says so"),
    ConfigRow("log.cleaner.backoff.ms", int, 15_000, "How often logs to compact are looked for", 1),
    ConfigRow("offsets.topic.num.partitions", int, 50, "Partitions of __consumer_offsets", 1),
    ConfigRow("offsets.topic.replication.factor", int, 1, "More than there are brokers: no group coordinator", 1),
    ConfigRow("offsets.topic.segment.bytes", int, 100 * 1024 * 1024, "Segments of __consumer_offsets", 1),
    ConfigRow("transaction.state.log.num.partitions", int, 50, "Partitions of __transaction_state", 1),
    ConfigRow("transaction.state.log.replication.factor", int, 1,
              "More than there are brokers: no transaction coordinator", 1),
    ConfigRow("transaction.state.log.segment.bytes", int, 100 * 1024 * 1024, "Segments of __transaction_state", 1),
    ConfigRow("transaction.max.timeout.ms", int, 900_000, "Longest time a transaction may be open", 1, MAX_INT),
    # A feature of the cluster in Kafka, not a setting: 2 is Transactions V2 (KIP-890), 0 is told to nobody.
    ConfigRow("transaction.version", int, 2, "Level of the feature transaction.version", 0, 2),
    # Ours: how long a transaction stays in PrepareCommit or PrepareAbort, where clients are told 51, after EndTxn.
    ConfigRow("transaction.marker.delay.ms", int, 0, "Time until the markers of an ended transaction are written", 0),
    ConfigRow("group.min.session.timeout.ms", int, 6000, "Shortest session a member may ask for", 1),
    ConfigRow("group.max.session.timeout.ms", int, 1_800_000, "Longest session a member may ask for", 1),
    # Kafka's default is 3000; its own quickstart sets 0, so that tests do not wait.
    ConfigRow("group.initial.rebalance.delay.ms", int, 0, "Wait for more members before a group's first rebalance", 0),
    ConfigRow("group.max.size", int, MAX_INT, "Most members of a group", 1),
    ConfigRow("offsets.retention.minutes", int, 10_080, "How long offsets are kept that no member of a group reads", 1,
              MAX_INT),
    ConfigRow("offsets.retention.check.interval.ms", int, 600_000, "How often such offsets are looked for", 1),
    ConfigRow("transactional.id.expiration.ms", int, 604_800_000, "How long a transactional id is kept unused", 1,
              MAX_INT),
    ConfigRow("transaction.remove.expired.transaction.cleanup.interval.ms", int, 3_600_000,
              "How often unused transactional ids are looked for", 1),
    ConfigRow("producer.id.expiration.ms", int, 86_400_000, "How long what a producer id wrote last is remembered", 1,
              MAX_INT),
    ConfigRow("producer.id.expiration.check.interval.ms", int, 600_000, "How often such ids are looked for", 1),
    ConfigRow("offset.metadata.max.bytes", int, 4096, "Longest metadata of a committed offset", 0),
    # Ours: how long the first FindCoordinator is answered with COORDINATOR_NOT_AVAILABLE, as a real cluster does.
    ConfigRow("internal.topic.creation.delay.ms", int, 0, "Time that an internal topic takes to be made", 0),
    # Ours, not Kafka's: Kafka always looks at each record.
    ConfigRow("strict.checks", bool, True, "Decompress and walk the records of every batch before it is stored"),
)

_INERT = "Kept, with no effect:"

# Settings of a topic; the broker-wide default has its own name, which is the second column, where there is one.
_TOPIC_ROWS: tuple[tuple[ConfigRow, str | None], ...] = (
    (ConfigRow("max.message.bytes", int, 1048588, "Largest batch", 0, MAX_INT), "message.max.bytes"),
    (ConfigRow("message.timestamp.type", str, "CreateTime", "Whose clock stamps records", allowed=(
        "CreateTime", "LogAppendTime")), "log.message.timestamp.type"),
    (ConfigRow("message.timestamp.before.max.ms", int, MAX_LONG, "How old a record may be", 0),
     "log.message.timestamp.before.max.ms"),
    (ConfigRow("message.timestamp.after.max.ms", int, 3_600_000, "How far in the future a record may be", 0),
     "log.message.timestamp.after.max.ms"),
    (ConfigRow("segment.bytes", int, 1024 * 1024 * 1024, "Size of a segment", 14, MAX_INT), "log.segment.bytes"),
    (ConfigRow("segment.ms", int, 604_800_000, "Age of a segment, by its records", 1), "log.roll.ms"),
    (ConfigRow("index.interval.bytes", int, 4096, "Distance between index entries", 0), "log.index.interval.bytes"),
    (ConfigRow("cleanup.policy", str, "delete", "Delete old segments, or keep the newest record of each key", allowed=(
        "compact", "delete"), is_list=True), "log.cleanup.policy"),
    (ConfigRow("retention.ms", int, 604_800_000, "Age of records that are deleted; -1 is never", -1),
     "log.retention.ms"),
    (ConfigRow("retention.bytes", int, -1, "Size of a partition above which segments are deleted; below 0 is never"),
     "log.retention.bytes"),
    (ConfigRow("min.cleanable.dirty.ratio", float, 0.5, "Part of a log that must be new before it is compacted", 0, 1),
     "log.cleaner.min.cleanable.ratio"),
    (ConfigRow("min.compaction.lag.ms", int, 0, "How long a record stays before it may be compacted", 0),
     "log.cleaner.min.compaction.lag.ms"),
    (ConfigRow("delete.retention.ms", int, 86_400_000, "How long compaction keeps records without a value", 0),
     "log.cleaner.delete.retention.ms"),
    (ConfigRow("compression.type", str, "producer", "Codec that batches are stored with; producer: as they came",
               allowed=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")), "compression.type"),
    (ConfigRow("min.insync.replicas", int, 1, "There is one replica", 1), "min.insync.replicas"),
    (ConfigRow("compression.gzip.level", int, -1, "Level of gzip where compression.type says it", 1, 9, also=-1),
     "compression.gzip.level"),
    (ConfigRow("compression.lz4.level", int, 9, "Level of lz4 where compression.type says it", 1, 17),
     "compression.lz4.level"),
    (ConfigRow("compression.zstd.level", int, 3, "Level of zstd where compression.type says it", -131072, 22),
     "compression.zstd.level"),
    # From here on kept and shown, and nothing else: topics are brought with all that they have elsewhere.
    (ConfigRow("max.compaction.lag.ms", int, MAX_LONG, f"{_INERT} log.cleaner.backoff.ms is how often it is looked", 1),
     "log.cleaner.max.compaction.lag.ms"),
    (ConfigRow("file.delete.delay.ms", int, 60_000, f"{_INERT} files are deleted at once", 0),
     "log.segment.delete.delay.ms"),
    (ConfigRow("flush.messages", int, MAX_LONG, f"{_INERT} the system writes when it likes", 1),
     "log.flush.interval.messages"),
    (ConfigRow("flush.ms", int, MAX_LONG, f"{_INERT} the system writes when it likes", 0), "log.flush.interval.ms"),
    (ConfigRow("preallocate", bool, False, f"{_INERT} files grow"), "log.preallocate"),
    (ConfigRow("segment.index.bytes", int, 10 * 1024 * 1024, f"{_INERT} an index has the size that it needs", 4),
     "log.index.size.max.bytes"),
    (ConfigRow("segment.jitter.ms", int, 0, f"{_INERT} segments are as old as segment.ms says", 0),
     "log.roll.jitter.ms"),
    (ConfigRow("unclean.leader.election.enable", bool, False, f"{_INERT} there is one replica"),
     "unclean.leader.election.enable"),
    (ConfigRow("leader.replication.throttled.replicas", str, "", f"{_INERT} there is one replica", is_list=True,
               pattern=r"\*|\d+:\d+"), None),
    (ConfigRow("follower.replication.throttled.replicas", str, "", f"{_INERT} there is one replica", is_list=True,
               pattern=r"\*|\d+:\d+"), None),
    (ConfigRow("remote.storage.enable", bool, False,
               f"{_INERT} there is no tiered storage, so that it cannot be true"), None),
    (ConfigRow("local.retention.ms", int, -2, f"{_INERT} there is no tiered storage", -2), "log.local.retention.ms"),
    (ConfigRow("local.retention.bytes", int, -2, f"{_INERT} there is no tiered storage", -2),
     "log.local.retention.bytes"),
    (ConfigRow("remote.log.copy.disable", bool, False, f"{_INERT} there is no tiered storage"), None),
    (ConfigRow("remote.log.delete.on.disable", bool, False, f"{_INERT} there is no tiered storage"), None),
)

BROKER_CONFIG: dict[str, ConfigRow] = {row.name: row for row in _BROKER_ROWS}
BROKER_CONFIG.update({name: row._replace(name=name) for row, name in _TOPIC_ROWS if name is not None})
TOPIC_CONFIG: dict[str, ConfigRow] = {row.name: row for row, _ in _TOPIC_ROWS}
BROKER_NAME_OF = {row.name: name for row, name in _TOPIC_ROWS if name is not None}
# What can be altered while the broker runs: the defaults of topics.
DYNAMIC_CONFIG = frozenset(BROKER_NAME_OF.values())
# Settings that are a list with commas: they can be appended to and subtracted from.
LIST_CONFIG = frozenset(row.name for row in (*BROKER_CONFIG.values(), *TOPIC_CONFIG.values()) if row.is_list)
# Older and seed names of a setting.
_OF_LISTENER = re.compile(r"listener\.name\.[a-z0-9_-]+\.(?P<setting>ssl\..+)", re.IGNORECASE)
_ALIASES = {"queue.max.requests": "queued.max.requests"}
# Coarser units of a time, the finest first: it counts where finer ones are not given.
_UNITS = (
    ("log.retention.minutes", "log.retention.ms", 60_000),
    ("log.retention.hours", "log.retention.ms", 3_600_000),
    ("log.roll.hours", "log.roll.ms", 3_600_000),
    ("log.roll.jitter.hours", "log.roll.jitter.ms", 3_600_000),
)


class BrokerConfig:
    """All settings of a broker, checked; attributes replace the dots by underscores.

    Attributes:
        given: What was set at the start.
        inert: Settings of Kafka that were given and have no effect here.

    Raises:
        ConfigError: A name is unknown (the nearest one is named) or a value is not allowed.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self._values: dict[str, Value] = {row.name: row.default for row in BROKER_CONFIG.values()}
        self._of_listeners: dict[str, Value] = {}
        given = _in_milliseconds(settings or {})
        self.inert = frozenset(name for name in given if name not in BROKER_CONFIG and is_inert(name))
        for given_name, value in given.items():
            if given_name in self.inert:
                continue
            name = _ALIASES.get(given_name, given_name)
            of_listener = _OF_LISTENER.match(given_name)
            if of_listener is not None and of_listener["setting"] in BROKER_CONFIG:
                self._of_listeners[given_name.lower()] = parse_value(BROKER_CONFIG[of_listener["setting"]], value)
                continue
            row = BROKER_CONFIG.get(name)
            if row is None:
                raise ConfigError(given_name, value, f"the embedded broker has no such setting{_nearest(name)}")
            self._values[name] = parse_value(row, value)
        self._static = dict(self._values)
        self.given = frozenset(_ALIASES.get(name, name) for name in given) - self.inert

    def alter(self, dynamic: Mapping[str, str]) -> None:
        """Replace what was altered at runtime by these settings, which stand above those from the start.

        Raises:
            ConfigError: A name is not in DYNAMIC_CONFIG or a value is not allowed; nothing was changed.
        """
        values = dict(self._static)
        for name, text in dynamic.items():
            if name not in DYNAMIC_CONFIG:
                raise ConfigError(name, text, f"Cannot update these configs dynamically: Set({name})")
            values[name] = parse_value(BROKER_CONFIG[name], text)
        self._values = values

    def value(self, name: str) -> Value:
        """Return a setting as it is now."""
        return self._values[name]

    def static_value(self, name: str) -> Value:
        """Return a setting as it was at the start."""
        return self._static[name]

    def number(self, name: str) -> int:
        """Return a whole number."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def switch(self, name: str) -> bool:
        """Return a switch."""
        return bool(self._values[name])

    def text(self, name: str) -> str:
        """Return a text."""
        return str(self._values[name])

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None when it is not set."""
        value = self._values[name]
        return None if value is None else str(value)

    @property
    def advertised_listeners(self) -> str | None:
        """`advertised.listeners` without those of the controller; None when it is not given."""
        text = self.optional_text("advertised.listeners")
        return None if text is None else without(self.text("controller.listener.names"), text)

    @property
    def log_directories(self) -> list[str]:
        """The directories of `log.dirs`, or without it of `log.dir`; empty when neither is given."""
        text = self.optional_text("log.dirs") or self.optional_text("log.dir") or ""
        return [directory for directory in map(str.strip, text.split(",")) if directory]

    def listener_text(self, listener_name: str, name: str) -> str | None:
        """Return a text that one listener may have for itself: `listener.name.{listener}.{setting}` comes first."""
        own_name = f"listener.name.{listener_name.lower()}.{name}"
        if own_name not in self._of_listeners:
            return self.optional_text(name)
        value = self._of_listeners[own_name]
        return None if value is None else str(value)

    def topic_default(self, topic_setting: str) -> Value:
        """Return what a topic that does not set `topic_setting` has."""
        broker_name = BROKER_NAME_OF.get(topic_setting)
        return TOPIC_CONFIG[topic_setting].default if broker_name is None else self._values[broker_name]


def parse_value(row: ConfigRow, value: object) -> Value:
    """Return a value in the row's type.

    Raises:
        ConfigError: The value is not of the type, or out of bounds, or not among those allowed.
    """
    if row.kind is bool:
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text not in ("true", "false"):
            raise ConfigError(row.name, value, "must be true or false")
        return text == "true"
    if row.kind is int:
        if isinstance(value, bool):
            raise ConfigError(row.name, value, "must be a whole number")
        try:
            number = int(str(value).strip())
        except ValueError:
            raise ConfigError(row.name, value, "must be a whole number") from None
        if number != row.also and ((row.low is not None and number < row.low)
                                   or (row.high is not None and number > row.high)):
            bounds = f"at least {row.low}" if row.high is None else f"from {row.low} to {row.high}"
            raise ConfigError(row.name, value, f"must be {bounds}")
        return number
    if row.kind is float:
        try:
            fraction = float(str(value).strip())
        except ValueError:
            raise ConfigError(row.name, value, "must be a number") from None
        if not (row.low is None or row.high is None or row.low <= fraction <= row.high):
            raise ConfigError(row.name, value, f"must be from {row.low} to {row.high}")
        return fraction
    if value is None:
        return None
    text = str(value)
    if row.is_list:
        return _parse_list(row, text)
    if row.allowed and text not in row.allowed:
        raise ConfigError(row.name, value, f"must be one of {', '.join(row.allowed)}")
    return text


def _parse_list(row: ConfigRow, text: str) -> str:
    parts = [part for part in map(str.strip, text.split(",")) if part]
    for part in parts:
        if row.allowed and part not in row.allowed:
            raise ConfigError(row.name, text, f"must be a list of {', '.join(row.allowed)}")
        if row.pattern is not None and re.fullmatch(row.pattern, part) is None:
            raise ConfigError(row.name, text, "must be the literal '*' or a list of replicas: "
                                              "[partitionId]:[brokerId],[partitionId]:[brokerId],...")
    return ",".join(parts)


def _in_milliseconds(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings with times under their names in milliseconds."""
    found = dict(settings)
    for coarse, name, factor in _UNITS:
        if coarse in found:
            value = parse_value(ConfigRow(coarse, int, None, ""), found.pop(coarse))
            if name not in found:
                found[name] = value * factor if isinstance(value, int) and value >= 0 else value
    return found


def value_text(value: Value) -> str:
    """Return a value as Kafka writes it: true and false in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, BROKER_CONFIG, n=1)
    return f"; did you mean {near[0]}?" if near else ""
