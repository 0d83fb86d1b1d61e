"""Settings that people bring in a server.properties and that have nothing to act on here.

One process without a controller quorum, replication, reporters of metrics and tiered storage takes them, says
once that they have no effect, and goes on. What is neither here nor in config.py is a mistake.

Road:    [inert config] -> config
Thread:  constants.
Source:  Java AbstractKafkaConfig.CONFIG_DEF (4.1), and what releases before had.
"""

from __future__ import annotations

# Whole families, with whatever a class that is named in them brings.
INERT_PREFIXES = (
    "zookeeper.", "sasl.", "controller.", "metadata.", "metric.", "metrics.", "remote.log.", "replica.",
    "replication.", "group.consumer.", "group.coordinator.", "group.share.", "group.streams.", "share.",
    "delegation.token.", "confluent.",
)
INERT_NAMES = frozenset((
    "add.partitions.to.txn.retry.backoff.max.ms", "add.partitions.to.txn.retry.backoff.ms", "advertised.host.name",
    "advertised.port", "alter.config.policy.class.name", "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds", "auto.leader.rebalance.enable",
    "background.threads", "broker.heartbeat.interval.ms", "broker.id", "broker.id.generation.enable",
    "broker.session.timeout.ms", "client.quota.callback.class", "control.plane.listener.name",
    "controlled.shutdown.enable", "controlled.shutdown.max.retries", "controlled.shutdown.retry.backoff.ms",
    "create.topic.policy.class.name", "delete.records.purgatory.purge.interval.requests", "early.start.listeners",
    "fetch.purgatory.purge.interval.requests", "host.name", "initial.broker.registration.timeout.ms",
    "inter.broker.listener.name", "inter.broker.protocol.version", "kafka.metrics.polling.interval.secs",
    "kafka.metrics.reporters", "leader.imbalance.check.interval.seconds", "leader.imbalance.per.broker.percentage",
    "log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.load.factor", "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second", "log.cleaner.threads", "log.dir.failure.timeout.ms",
    "log.flush.offset.checkpoint.interval.ms", "log.flush.scheduler.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms", "log.initial.task.delay.ms", "log.message.downconversion.enable",
    "log.message.format.version", "log.message.timestamp.difference.max.ms", "max.connection.creation.rate",
    "max.connections", "max.incremental.fetch.session.cache.slots", "max.request.partition.size.limit", "node.id",
    "num.recovery.threads.per.data.dir", "num.replica.alter.log.dirs.threads", "num.replica.fetchers",
    "offsets.commit.timeout.ms", "offsets.load.buffer.size", "offsets.topic.compression.codec", "port",
    "principal.builder.class", "process.roles", "producer.purgatory.purge.interval.requests",
    "queued.max.request.bytes", "quota.window.num", "quota.window.size.seconds", "remote.fetch.max.wait.ms",
    "remote.list.offsets.request.timeout.ms", "request.timeout.ms", "reserved.broker.max.id",
    "security.inter.broker.protocol", "security.providers", "server.max.startup.time.ms",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms", "ssl.allow.dn.changes",
    "ssl.allow.san.changes", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm", "ssl.engine.factory.class",
    "ssl.keymanager.algorithm", "ssl.keystore.password", "ssl.protocol", "ssl.provider",
    "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.password", "telemetry.max.bytes",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms", "transaction.partition.verification.enable",
    "transaction.state.log.load.buffer.size", "transaction.two.phase.commit.enable",
    "unclean.leader.election.interval.ms", "unstable.api.versions.enable", "unstable.feature.versions.enable",
))
