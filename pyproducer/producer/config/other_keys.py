"""Keys that a producer does not have and that people give it: those of consumers, of the JVM, of other clients.

Road:    [other keys] -> table
Thread:  constants.
Source:  Java ConsumerConfig (4.1); other clients' names: librdkafka CONFIGURATION.md.
"""

from __future__ import annotations

from pyproducer.common.settings.table import OtherKeys

CONSUMER_KEYS = frozenset({
    "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "check.crcs", "client.rack",
    "default.api.timeout.ms", "enable.auto.commit", "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms",
    "fetch.min.bytes", "group.id", "group.instance.id", "group.protocol", "group.remote.assignor",
    "heartbeat.interval.ms", "isolation.level", "key.deserializer", "max.partition.fetch.bytes",
    "max.poll.interval.ms", "max.poll.records", "partition.assignment.strategy", "session.timeout.ms",
    "share.acknowledgement.mode", "value.deserializer",
})
"""Keys of Java's ConsumerConfig (4.1) that a producer does not have: shared property files hold them."""

JVM_KEYS = frozenset({"auto.include.jmx.reporter"})
"""Keys of older Java producers that only a JVM can use."""

MEANT = {
    "metadata.broker.list": "bootstrap.servers",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.messages": "buffer.memory",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "compression.level": "compression.zstd.level",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "partitioner": "partitioner.class",
    "batch.num.messages": "batch.size",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "sasl.plain.username": "sasl.jaas.config",
    "sasl.plain.password": "sasl.jaas.config",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.cafile": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certfile": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.keyfile": "ssl.keystore.location",
    "ssl.context": "ssl.engine.factory.class",
    "ssl.check.hostname": "ssl.endpoint.identification.algorithm",
    "max.batch.size": "batch.size",
}
"""Other clients' names, and what they are here."""

OTHER_KEYS = OtherKeys(ignored=CONSUMER_KEYS | JVM_KEYS, meant=MEANT)
