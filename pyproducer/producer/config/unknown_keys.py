"""What to do with keys that are not in the table.

Road:    properties -> [unknown keys] -> ProducerConfig
Thread:  pure functions.
Source:  ours; Java only warns. Other clients' names: librdkafka CONFIGURATION.md.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import HIDDEN
from pyproducer.producer.config.table import CONFIG_TABLE

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

_OTHER_NAMES = {
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
_SECRET_WORDS = ("password", "passwd", "pwd", "secret", "passphrase", "jaas", "token", "pem", "ssl.key", "sasl.user",
                 "certificate", "credential", "private.key", "api.key", "apikey")
# Where PEM text stands in a properties file without a backslash at each line's end, its lines are keys.
_LINE_OF_BASE64 = re.compile(r"[A-Za-z0-9+/=]{40,}")


def is_ignored(key: str) -> bool:
    """Whether a key is known but means nothing to a producer in Python."""
    return key in CONSUMER_KEYS or key in JVM_KEYS


def unknown_key_error(key: object, value: object) -> ConfigError:
    """Return the error for a key that nobody knows, with the nearest key that exists."""
    if not isinstance(key, str):
        shown = HIDDEN if any(word in repr(key).lower() for word in _SECRET_WORDS) else value
        return ConfigError(repr(key), shown, f"a key must be a string, got a {type(key).__name__}")
    if _LINE_OF_BASE64.fullmatch(key):
        return ConfigError(HIDDEN, HIDDEN, "unknown setting; it looks like a line of PEM text: in a properties file "
                                           "every line of a value but its last must end in \\n\\")
    dotted = key.strip().lower().replace("_", ".").replace("-", ".")
    nearest = nearest_key(dotted)
    is_secret = any(word in dotted for word in _SECRET_WORDS) or (
        nearest is not None and CONFIG_TABLE[nearest].is_secret)
    shown = HIDDEN if is_secret else value
    if dotted == "config.providers" or dotted.startswith("config.providers."):
        return ConfigError(key, shown, "variables of config providers (KIP-297) are not resolved here: put the values "
                                       "into the properties before making the producer")
    hint = "" if nearest is None else f"; did you mean {nearest!r}?"
    return ConfigError(key, shown, f"unknown setting{hint}")


def nearest_key(dotted: str) -> str | None:
    """Return the key that was probably meant, or None when no key is near."""
    if dotted in CONFIG_TABLE:
        return dotted
    if dotted in _OTHER_NAMES:
        return _OTHER_NAMES[dotted]
    near = get_close_matches(dotted, CONFIG_TABLE, n=1, cutoff=0.6)
    return near[0] if near else None
