"""librdkafka's settings as KafkaProducer's, which takes many of those names by itself (docs/settings.md).

Here is the rest: what only the Python client has, defaults that decide where keys go and how long is tried, and names
that mean nothing here. Those are a line of the log, at WARNING where somebody would miss something; what has to be
written in another way is refused by KafkaProducer, with how.

Road:    Producer's arguments -> [translate] -> KafkaProducer
Thread:  reads two files at most; no state.
Source:  librdkafka CONFIGURATION.md (2.16); what confluent-kafka adds.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import ceil
from typing import Any, Final

import pyproducer as ours

log: logging.Logger = logging.getLogger(__name__)

MOST: Final = 2**31 - 1
"""For ever, in ms; and any number of records."""
_METRICS = "librdkafka's statistics are not here; kafka_producer.metrics() has numbers, under Java's names"
_MISSING = {
    "stats_cb": _METRICS, "statistics.interval.ms": _METRICS,
    "throttle_cb": "it is never called; kafka_producer.metrics() has produce-throttle-time-avg",
    "logger": "lines go to Python's logger 'pyproducer': give that your handlers",
    "debug": "logging.getLogger('pyproducer').setLevel(logging.DEBUG) says more",
    "batch.num.messages": "batches are bounded by batch.size, in bytes",
    "sticky.partitioning.linger.ms": "each record without a key has a partition of its own",
    "message.copy.max.bytes": "each value is copied into its batch"}
_NEEDLESS = frozenset({
    "log_level", "log.queue", "log.thread.name", "log.connection.close", "enabled_events", "opaque",
    "api.version.request", "api.version.request.timeout.ms", "api.version.fallback.ms", "broker.version.fallback",
    "broker.address.ttl", "broker.address.family", "socket.keepalive.enable", "socket.nagle.disable",
    "socket.max.fails", "socket.blocking.max.ms", "topic.metadata.refresh.sparse",
    "topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.fast.cnt", "topic.metadata.propagation.max.ms",
    "receive.message.max.bytes", "queue.buffering.backpressure.threshold", "queuing.strategy", "produce.offset.report",
    "reconnect.backoff.jitter.ms", "client.software.name", "client.software.version", "enable.random.seed",
    "internal.termination.signal"})


def _crc32(topic: str, _key: Any, key: bytes | None, _value: Any, _value_bytes: Any, cluster: ours.Cluster) -> int:
    return zlib.crc32(key or b"") % len(cluster.partitions_for_topic(topic))


def _hashing_all(hashing: ours.DefaultPartitioner | ours.Fnv1aPartitioner) -> Callable[..., int]:
    """Return a partitioner to which no key is the empty key, so that all records without one share a partition."""
    return lambda topic, key, key_bytes, value, value_bytes, cluster: hashing.partition(
        topic, key, key_bytes or b"", value, value_bytes, cluster)


_PARTITIONERS: dict[str, object] = {
    "consistent_random": "consistent_random", "fnv1a_random": "fnv1a_random", "random": "round_robin",
    "murmur2_random": "default",  # the same of keys, and compiled
    "consistent": _crc32, "murmur2": _hashing_all(ours.DefaultPartitioner()),
    "fnv1a": _hashing_all(ours.Fnv1aPartitioner())}


def _with_port(server: str) -> str:
    """Return a server with librdkafka's default port, where it has none."""
    host = server.strip()
    has_port = ":" in host.rpartition("/")[2].rpartition("]")[2]
    return f"{host}:9092" if host and not has_port else host


def _give_up_idempotence(props: dict[str, Any]) -> None:
    """Take more requests in flight than idempotence allows, which is off there where nothing is said of it."""
    if "enable.idempotence" in props or props.get("transactional.id") is not None:
        return
    for name in ("max.in.flight", "max.in.flight.requests.per.connection"):
        with suppress(TypeError, ValueError):
            if int(props.get(name)) > 5:  # type: ignore[arg-type]  # as above
                props["enable.idempotence"] = False
                log.warning("%s is above 5: so enable.idempotence is off, as it is in librdkafka, and what is retried "
                            "may be stored twice and in another order. Leave it out, or set it to 5", name)


def number_of(props: Mapping[str, Any], default: int, *names: str, least: int = 0) -> int:
    """Return the number that is given under the first of the names that is there.

    Raises:
        ConfigError: It is no number, or too small.
    """
    name = next((name for name in names if name in props), "")
    try:
        number = int(str(props.get(name, default)))
    except ValueError:
        number = least - 1
    if number < least:
        raise ours.ConfigError(name, props[name], f"it must be a whole number, {least} or more")
    return number


def translate(props: dict[str, Any]) -> None:
    """Turn librdkafka's names and defaults into settings of KafkaProducer, which knows most of the names by itself.

    Raises:
        ConfigError: A value is no number.
        OSError: A certificate or a key cannot be read.
    """
    needless = sorted(_NEEDLESS & props.keys())
    if needless:
        log.info("Nothing here has to be told by these settings: %s", ", ".join(needless))
    for name, instead in _MISSING.items():
        if props.get(name) not in (None, "", 0, "0"):
            log.warning("%s has no effect: %s", name, instead)
    for name in (*needless, *_MISSING):
        props.pop(name, None)
    for theirs, java in (("socket.timeout.ms", "request.timeout.ms"),
                         ("topic.metadata.refresh.interval.ms", "metadata.max.age.ms")):
        value = props.pop(theirs, None)
        if value is not None:
            props.setdefault(java, MOST if str(value) == "-1" else value)
    if str(props.get("connections.max.idle.ms")) == "0":  # never, there
        props["connections.max.idle.ms"] = -1
    for name in ("bootstrap.servers", "metadata.broker.list"):
        if isinstance(props.get(name), str):
            props[name] = ",".join(map(_with_port, props[name].split(",")))
    for name in ("linger.ms", "queue.buffering.max.ms"):  # a float there
        value = props.get(name)
        with suppress(TypeError, ValueError, OverflowError):
            if not isinstance(value, bool) and float(value) >= 0:  # type: ignore[arg-type]  # None is a TypeError
                props[name] = ceil(float(value))  # type: ignore[arg-type]  # as above
    _give_up_idempotence(props)
    if "ssl.certificate.location" in props and "ssl.key.location" in props:
        for theirs, java in (("ssl.certificate.location", "ssl.keystore.certificate.chain"),
                             ("ssl.key.location", "ssl.keystore.key")):
            with open(props.pop(theirs), encoding="utf-8") as pem:
                props[java] = pem.read()
        props["ssl.keystore.type"] = "PEM"
    if "partitioner.class" not in props and props.get("partitioner", "consistent_random") in _PARTITIONERS:
        props["partitioner.class"] = _PARTITIONERS[props.pop("partitioner", "consistent_random")]
    # What is tried for message.timeout.ms is tried no shorter for want of metadata; and Java wants it above the others.
    own_ms = number_of(props, 60_000, "transaction.timeout.ms") if props.get("transactional.id") else 300_000
    timeout_ms = number_of(props, own_ms, "message.timeout.ms", "delivery.timeout.ms") or MOST
    if "message.timeout.ms" not in props:
        props["delivery.timeout.ms"] = timeout_ms
    linger_ms = number_of(props, 5, "linger.ms", "queue.buffering.max.ms")
    props["request.timeout.ms"] = min(number_of(props, 30_000, "request.timeout.ms"), max(1, timeout_ms - linger_ms))
    props.setdefault("max.block.ms", timeout_ms)
