"""The broker's and the topics' settings under Kafka's names: one row each.

Road:    EmbeddedBroker, command line -> [config] -> every part of the broker
Thread:  any; an alteration at runtime replaces the table of values as a whole.
Source:  Java KafkaConfig, SocketServerConfigs, ServerLogConfigs, LogConfig, TopicConfig, ServerTopicConfigSynonyms
         (4.1), compared row by row by tests/kafka/test_broker_config_parity.py. A setting that Kafka has and that
         nothing here could act on is told once as without effect (inert_config.py); what no Kafka has is refused with
         the nearest name.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyproducer.broker.cluster.inert_config import INERT_NAMES, INERT_PREFIXES
from pyproducer.broker.cluster.listener import without
from pyproducer.broker.cluster.security_config import OF_LISTENER, SECURITY_ROWS
from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.definition import (
    Allowed,
    EachMatches,
    EachOneOf,
    OneOf,
    Range,
    Setting,
    Support,
    Synonym,
    Type,
)
from pyproducer.common.settings.parse import parse_value, value_text
from pyproducer.common.settings.table import OtherKeys, SettingTable

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

Value = int | float | bool | str | tuple[str, ...] | None

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_POSITIVE = Range(1)
_NOT_NEGATIVE = Range(0)
_REPLICAS = EachMatches(r"\*|(?:[0-9]+:[0-9]+)?", "a replica as partition:broker, or '*' for all")

_BROKER_ROWS = (
    Setting("num.network.threads", Type.INT, 3, "Processors per listener.", _POSITIVE),
    Setting("num.io.threads", Type.INT, 8, "Request handler threads.", _POSITIVE),
    Setting("queued.max.requests", Type.INT, 500,
            "Requests that wait for a handler before processors block.", _POSITIVE),
    # Kafka sends from its files and holds nothing.
    Setting("queued.max.response.bytes", Type.LONG, 64 * 1024 * 1024,
            "Bytes of large responses that wait for clients.", _POSITIVE, support=Support.OURS),
    Setting("socket.request.max.bytes", Type.INT, 100 * 1024 * 1024, "Largest request.", _POSITIVE),
    # An element may be two bytes on the wire, and costs ten microseconds and hundreds of bytes; Python's collector
    # looks at all of them at once, and no thread runs meanwhile. 10,000 topics with a partition each fit.
    Setting("socket.request.max.elements", Type.INT, 20_000,
            "Most topics, partitions, keys, ... of one request.", _POSITIVE, support=Support.OURS),
    Setting("socket.send.buffer.bytes", Type.INT, 100 * 1024,
            "SO_SNDBUF of accepted sockets; -1 is the system's.", Range(-1)),
    Setting("socket.receive.buffer.bytes", Type.INT, 100 * 1024,
            "SO_RCVBUF of accepted sockets; -1 is the system's.", Range(-1)),
    Setting("socket.listen.backlog.size", Type.INT, 50, "Connections the system queues before accept.", _POSITIVE),
    Setting("connections.max.idle.ms", Type.LONG, 600_000,
            "Close connections that are unused for this long.", Range(-1)),
    Setting("max.connections.per.ip", Type.INT, MAX_INT, "Connections that one address may have.", _NOT_NEGATIVE),
    Setting("max.connections.per.ip.overrides", Type.STRING, "", "Addresses with their own limit: address:count,..."),
    # Kafka's names of before 4.0; bytes in a second for each client id, 0 for no quota.
    Setting("quota.producer.default", Type.LONG, 0, "Bytes a client may produce in a second.", _NOT_NEGATIVE),
    Setting("quota.consumer.default", Type.LONG, 0, "Bytes a client may fetch in a second.", _NOT_NEGATIVE),
    Setting("quota.requests.per.second", Type.INT, 0,
            "Requests a client may send in a second.", _NOT_NEGATIVE, support=Support.OURS),
    Setting("listeners", Type.STRING, "PLAINTEXT://127.0.0.1:0", "Names, addresses and ports to listen on."),
    Setting("advertised.listeners", Type.STRING, None, "Addresses that clients are told; without, those of listeners."),
    Setting("controller.listener.names", Type.STRING, "",
            "Listeners that are not opened: there is no controller beside."),
    Setting("listener.security.protocol.map", Type.STRING,
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "Listener name to protocol."),
    *SECURITY_ROWS,
    Setting("ssl.keystore.location", Type.STRING, None, "PEM file of the broker's certificate chain and key."),
    Setting("ssl.key.password", Type.PASSWORD, None, "Password of the key in ssl.keystore.location."),
    Setting("ssl.truststore.location", Type.STRING, None, "PEM file of the authorities that sign clients."),
    Setting("ssl.keystore.type", Type.STRING, "PEM", "Form of the key store.", OneOf(("PEM",))),
    Setting("ssl.keystore.key", Type.PASSWORD, None, "The broker's private key itself, in PEM."),
    Setting("ssl.keystore.certificate.chain", Type.PASSWORD, None, "The certificates of ssl.keystore.key, in PEM."),
    Setting("ssl.truststore.type", Type.STRING, "PEM", "Form of the trust store.", OneOf(("PEM",))),
    Setting("ssl.truststore.certificates", Type.PASSWORD, None,
            "The authorities that sign clients themselves, in PEM."),
    Setting("ssl.enabled.protocols", Type.LIST, ("TLSv1.2", "TLSv1.3"), "Versions of TLS."),
    Setting("ssl.client.auth", Type.STRING, "none",
            "Whether clients must show a certificate.", OneOf(("none", "requested", "required"))),
    Setting("ssl.principal.mapping.rules", Type.STRING, "DEFAULT",
            "From the subject of a certificate to a name: RULE:pattern/replacement/[LU], ..."),
    Setting("broker.rack", Type.STRING, None, "Rack of every broker: for metadata, placement, fetches from followers."),
    Setting("replica.selector.class", Type.STRING, None,
            "Whom consumers fetch from: the leader, or with Kafka's RackAwareReplicaSelector a follower in their rack.",
            OneOf((RACK_AWARE_SELECTOR,))),
    Setting("log.dirs", Type.STRING, None,
            "Where the logs are, unless data_dir says it; of several directories the first alone."),
    Setting("log.dir", Type.STRING, None, "Where the logs are, unless data_dir or log.dirs says it."),
    Setting("auto.create.topics.enable", Type.BOOLEAN, True, "Create topics that clients ask metadata for."),
    Setting("delete.topic.enable", Type.BOOLEAN, True, "Let clients delete topics."),
    Setting("num.partitions", Type.INT, 1, "Partitions of topics that do not say.", _POSITIVE),
    Setting("default.replication.factor", Type.INT, 1, "Replicas of topics that do not say.", _POSITIVE),
    Setting("fetch.max.bytes", Type.INT, 55 * 1024 * 1024, "Most bytes in one Fetch response.", Range(1024)),
    Setting("log.retention.check.interval.ms", Type.LONG, 300_000, "How often old segments are looked for.", _POSITIVE),
    Setting("log.cleaner.enable", Type.BOOLEAN, True, "Compact the topics whose cleanup.policy says so."),
    Setting("log.cleaner.backoff.ms", Type.LONG, 15_000, "How often logs to compact are looked for.", _POSITIVE),
    Setting("offsets.topic.num.partitions", Type.INT, 50, "Partitions of __consumer_offsets.", _POSITIVE),
    Setting("offsets.topic.replication.factor", Type.SHORT, 1,
            "More than there are brokers: no group coordinator.", _POSITIVE),
    Setting("offsets.topic.segment.bytes", Type.INT, 100 * 1024 * 1024, "Segments of __consumer_offsets.", _POSITIVE),
    Setting("transaction.state.log.num.partitions", Type.INT, 50, "Partitions of __transaction_state.", _POSITIVE),
    Setting("transaction.state.log.replication.factor", Type.SHORT, 1,
            "More than there are brokers: no transaction coordinator.", _POSITIVE),
    Setting("transaction.state.log.min.isr", Type.INT, 1,
            "Replicas of __transaction_state in sync that a transaction needs.", _POSITIVE),
    Setting("transaction.state.log.segment.bytes", Type.INT, 100 * 1024 * 1024,
            "Segments of __transaction_state.", _POSITIVE),
    Setting("transaction.max.timeout.ms", Type.INT, 900_000, "Longest time a transaction may be open.", _POSITIVE),
    # A feature of the cluster in Kafka, not a setting: 2 is Transactions V2 (KIP-890), 0 is told to nobody.
    Setting("transaction.version", Type.INT, 2,
            "Level of the feature transaction.version.", Range(0, 2), support=Support.OURS),
    # How long a transaction stays in PrepareCommit or PrepareAbort, where clients are told 51, after EndTxn.
    Setting("transaction.marker.delay.ms", Type.INT, 0,
            "Time until the markers of an ended transaction are written.", _NOT_NEGATIVE, support=Support.OURS),
    Setting("group.min.session.timeout.ms", Type.INT, 6000, "Shortest session a member may ask for.", _POSITIVE),
    Setting("group.max.session.timeout.ms", Type.INT, 1_800_000, "Longest session a member may ask for.", _POSITIVE),
    # Kafka's default is 3000; its own quickstart sets 0, so that tests do not wait.
    Setting("group.initial.rebalance.delay.ms", Type.INT, 0,
            "Wait for more members before a group's first rebalance.", _NOT_NEGATIVE),
    Setting("group.max.size", Type.INT, MAX_INT, "Most members of a group.", _POSITIVE),
    Setting("offsets.retention.minutes", Type.INT, 10_080,
            "How long offsets are kept that no member of a group reads.", _POSITIVE),
    Setting("offsets.retention.check.interval.ms", Type.LONG, 600_000,
            "How often such offsets are looked for.", _POSITIVE),
    Setting("transactional.id.expiration.ms", Type.INT, 604_800_000,
            "How long a transactional id is kept unused.", _POSITIVE),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", Type.INT, 3_600_000,
            "How often unused transactional ids are looked for.", _POSITIVE),
    Setting("producer.id.expiration.ms", Type.INT, 86_400_000,
            "How long what a producer id wrote last is remembered.", _POSITIVE),
    Setting("producer.id.expiration.check.interval.ms", Type.INT, 600_000,
            "How often such ids are looked for.", _POSITIVE),
    Setting("offset.metadata.max.bytes", Type.INT, 4096, "Longest metadata of a committed offset.", _NOT_NEGATIVE),
    # How long the first FindCoordinator is answered with COORDINATOR_NOT_AVAILABLE, as a real cluster does.
    Setting("internal.topic.creation.delay.ms", Type.INT, 0,
            "Time that an internal topic takes to be made.", _NOT_NEGATIVE, support=Support.OURS),
    # Kafka always looks at each record.
    Setting("strict.checks", Type.BOOLEAN, True,
            "Decompress and walk the records of every batch before it is stored.", support=Support.OURS),
    Setting("salvage.damaged.logs", Type.BOOLEAN, False,
            "Set aside a damaged log and go on empty where it ended, instead of not starting.", support=Support.OURS),
)


def _inert(key: str, type_: Type, default: object, why: str, allowed: Allowed | None = None) -> Setting:
    return Setting(key, type_, default, f"Kept, with no effect: {why}", allowed, Support.INERT)


_TOPIC_ROWS = (
    Setting("max.message.bytes", Type.INT, 1048588, "Largest batch.", _NOT_NEGATIVE),
    Setting("message.timestamp.type", Type.STRING, "CreateTime",
            "Whose clock stamps records.", OneOf(("CreateTime", "LogAppendTime"))),
    Setting("message.timestamp.before.max.ms", Type.LONG, MAX_LONG, "How old a record may be.", _NOT_NEGATIVE),
    Setting("message.timestamp.after.max.ms", Type.LONG, 3_600_000,
            "How far in the future a record may be.", _NOT_NEGATIVE),
    Setting("segment.bytes", Type.INT, 1024 * 1024 * 1024, "Size of a segment.", Range(14)),
    Setting("segment.ms", Type.LONG, 604_800_000, "Age of a segment, by its records.", _POSITIVE),
    Setting("index.interval.bytes", Type.INT, 4096, "Distance between index entries.", _NOT_NEGATIVE),
    Setting("cleanup.policy", Type.LIST, ("delete",),
            "Delete old segments, or keep the newest record of each key.", EachOneOf(("compact", "delete"))),
    Setting("retention.ms", Type.LONG, 604_800_000, "Age of records that are deleted; -1 is never.", Range(-1)),
    Setting("retention.bytes", Type.LONG, -1,
            "Size of a partition above which segments are deleted; below 0 is never."),
    Setting("min.cleanable.dirty.ratio", Type.DOUBLE, 0.5,
            "Part of a log that must be new before it is compacted.", Range(0, 1)),
    Setting("min.compaction.lag.ms", Type.LONG, 0,
            "How long a record stays before it may be compacted.", _NOT_NEGATIVE),
    Setting("delete.retention.ms", Type.LONG, 86_400_000,
            "How long compaction keeps records without a value.", _NOT_NEGATIVE),
    Setting("compression.type", Type.STRING, "producer", "Codec that batches are stored with; producer: as they came.",
            OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))),
    Setting("min.insync.replicas", Type.INT, 1, "Replicas in sync that acks=all needs.", _POSITIVE),
    Setting("unclean.leader.election.enable", Type.BOOLEAN, False,
            "Let a replica lead that was not in sync where no other lives; records are lost."),
    Setting("compression.gzip.level", Type.INT, -1,
            "Level of gzip where compression.type says it.", Range(1, 9, also=(-1,))),
    Setting("compression.lz4.level", Type.INT, 9, "Level of lz4 where compression.type says it.", Range(1, 17)),
    Setting("compression.zstd.level", Type.INT, 3, "Level of zstd where compression.type says it.", Range(-131072, 22)),
    # From here on kept and shown, and nothing else: topics are brought with all that they have elsewhere.
    _inert("max.compaction.lag.ms", Type.LONG, MAX_LONG,
           "log.cleaner.backoff.ms is how often it is looked.", _POSITIVE),
    _inert("file.delete.delay.ms", Type.LONG, 60_000, "files are deleted at once.", _NOT_NEGATIVE),
    _inert("flush.messages", Type.LONG, MAX_LONG, "the system writes when it likes.", _POSITIVE),
    _inert("flush.ms", Type.LONG, MAX_LONG, "the system writes when it likes.", _NOT_NEGATIVE),
    _inert("preallocate", Type.BOOLEAN, False, "files grow."),
    _inert("segment.index.bytes", Type.INT, 10 * 1024 * 1024, "an index has the size that it needs.", Range(4)),
    _inert("segment.jitter.ms", Type.LONG, 0, "segments are as old as segment.ms says.", _NOT_NEGATIVE),
    _inert("leader.replication.throttled.replicas", Type.LIST, (), "nothing is copied.", _REPLICAS),
    _inert("follower.replication.throttled.replicas", Type.LIST, (), "nothing is copied.", _REPLICAS),
    _inert("remote.storage.enable", Type.BOOLEAN, False, "there is no tiered storage, so that it cannot be true."),
    _inert("local.retention.ms", Type.LONG, -2, "there is no tiered storage.", Range(-2)),
    _inert("local.retention.bytes", Type.LONG, -2, "there is no tiered storage.", Range(-2)),
    _inert("remote.log.copy.disable", Type.BOOLEAN, False, "there is no tiered storage."),
    _inert("remote.log.delete.on.disable", Type.BOOLEAN, False, "there is no tiered storage."),
)
BROKER_NAME_OF: Mapping[str, str] = {
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "cleanup.policy": "log.cleanup.policy",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "compression.type": "compression.type",
    "min.insync.replicas": "min.insync.replicas",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "preallocate": "log.preallocate",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "local.retention.ms": "log.local.retention.ms",
    "local.retention.bytes": "log.local.retention.bytes",
}
"""Settings of topics whose default is a setting of the broker, and what that is called."""

_SYNONYMS = {
    "queued.max.requests": (Synonym("queue.max.requests"),),
    "log.retention.ms": (Synonym("log.retention.minutes", 60_000), Synonym("log.retention.hours", 3_600_000)),
    "log.roll.ms": (Synonym("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (Synonym("log.roll.jitter.hours", 3_600_000),),
}
TOPIC_CONFIG = SettingTable(_TOPIC_ROWS, OtherKeys(meant={name: key for key, name in BROKER_NAME_OF.items()}),
                            unknown="Unknown topic config name: {key}")
BROKER_CONFIG = SettingTable(
    (row._replace(synonyms=_SYNONYMS.get(row.key, ())) for row in (
        *_BROKER_ROWS, *(TOPIC_CONFIG[key]._replace(key=name) for key, name in BROKER_NAME_OF.items()))),
    OtherKeys(INERT_NAMES, INERT_PREFIXES, meant=BROKER_NAME_OF), unknown="the embedded broker has no such setting")
# What can be altered while the broker runs: the defaults of topics.
DYNAMIC_CONFIG = frozenset(BROKER_NAME_OF.values())
# Settings that are a list with commas: they can be appended to and subtracted from.
LIST_CONFIG = frozenset(
    key for table in (BROKER_CONFIG, TOPIC_CONFIG) for key, row in table.items() if row.type is Type.LIST)


class BrokerConfig:
    """All settings of a broker, checked.

    Attributes:
        given: What was set at the start.
        inert: Settings of Kafka that were given and have no effect here.

    Raises:
        ConfigError: A name is unknown (the nearest one is named) or a value is not allowed.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        of_all: dict[str, object] = {}
        self._of_listeners: dict[str, object] = {}
        for key, value in (settings or {}).items():
            of_listener = OF_LISTENER.fullmatch(str(key))
            row = None if of_listener is None else BROKER_CONFIG.get(of_listener["setting"])
            if row is None:
                of_all[key] = value
            else:
                self._of_listeners[key.lower()] = parse_value(row._replace(key=key), value)
        self.inert: frozenset[str]
        self._static, explicit, self.inert = BROKER_CONFIG.read(of_all)
        self._values = self._static
        self.given: frozenset[str] = explicit.union(self._of_listeners)

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
        value: Value = self._values[name]
        return value

    def static_value(self, name: str) -> Value:
        """Return a setting as it was at the start."""
        value: Value = self._static[name]
        return value

    def number(self, name: str) -> int:
        """Return a whole number."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def switch(self, name: str) -> bool:
        """Return a switch."""
        return bool(self._values[name])

    def text(self, name: str) -> str:
        """Return a text; a list with commas."""
        return str(value_text(self._values[name]))

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None when it is not set."""
        return value_text(self._values[name])

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
        return value_text(self.listener_value(listener_name, name))

    def listener_value(self, listener_name: str, name: str, mechanism: str = "") -> Value:
        """Return a setting that one listener, or one mechanism of it, may have for itself, as it is now."""
        listener = f"listener.name.{listener_name.lower()}."
        for own_name in (f"{listener}{mechanism.lower()}.{name}", f"{listener}{name}"):
            if own_name in self._of_listeners:
                value: Value = self._of_listeners[own_name]  # type: ignore[assignment]
                return value
        return self.value(name)

    def topic_default(self, topic_setting: str) -> Value:
        """Return what a topic that does not set `topic_setting` has."""
        broker_name = BROKER_NAME_OF.get(topic_setting)
        value: Value = (TOPIC_CONFIG[topic_setting].default if broker_name is None  # type: ignore[assignment]
                        else self._values[broker_name])
        return value
