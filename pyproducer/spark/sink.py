"""KafkaSink, the function for df.foreachPartition.

Road:    df.foreachPartition -> [sink] -> pool, rows -> producer
Thread:  made on the driver, called in the workers; only settings travel between them.
Source:  ours; refusals as in Spark's KafkaSourceProvider.validateBatchOptions (4.0).
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from pyproducer.common.errors import ConfigError
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from pyproducer.producer.kafka_producer import KafkaProducer
from pyproducer.spark.columns import ColumnContract
from pyproducer.spark.pool import ProducerPool
from pyproducer.spark.rows import field_names, send_rows

WORKER_POOL = ProducerPool(KafkaProducer)
"""The producers of this process. On the driver it stays empty."""

_REFUSED = {
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with "
                      "ByteArraySerializer.",
    "value.serializer": "Kafka option 'value.serializer' is not supported as values are serialized with "
                        "ByteArraySerializer.",
    "transactional.id": "a sink delivers at least once; one transactional id cannot serve several tasks",
}


class KafkaSink:
    """Writes the rows of a DataFrame to Kafka: `df.foreachPartition(KafkaSink(props, topic="orders"))`.

    Columns: `value` (required), `key`, `topic`, `partition`, `headers`, as in Spark's own Kafka sink. Each worker
    process keeps one producer for all its tasks. A task ends after every one of its rows was acknowledged, or fails
    with the count of those that were not; Spark then runs it again, so delivery is at least once.

    Args:
        props: Settings of KafkaProducer, `bootstrap.servers` among them.
        topic: The topic of every row; wins over a column `topic`.

    Raises:
        ConfigError: A setting is wrong, or is one that a sink cannot take. Not sent.
        TypeError: A producer was given, which cannot travel to the workers. Not sent.
    """

    def __init__(self, props: Mapping[str, object], topic: str | None = None) -> None:
        refusal = _refusal(props)
        if refusal is not None:
            del props  # they may hold secrets, and a traceback shows variables
            raise refusal
        if topic is not None:
            topic = topic.strip()
            if not topic:
                raise ConfigError("topic", topic, "it must not be empty; leave it out to use the column 'topic'")
        self.props = dict(props)
        self.topic = topic
        self._pool_key = _pool_key(self.props)

    def __call__(self, rows: Iterable[Any]) -> None:
        """Send the rows of one partition and wait until all are acknowledged.

        Raises:
            ColumnError: The columns do not fit the contract. Not sent.
            RowsFailedError: Some rows were not stored. The others of the partition are, or may be, in the log.
        """
        iterator = iter(rows)
        first = next(iterator, None)
        if first is None:
            return  # an empty partition opens nothing
        contract = ColumnContract.of(field_names(first), self.topic)
        with WORKER_POOL.lease(self._pool_key, CONFIG_TABLE.guarded(self.props)) as producer:
            send_rows(itertools.chain((first,), iterator), producer, contract)

    def __repr__(self) -> str:
        return f"KafkaSink(bootstrap.servers={self.props.get('bootstrap.servers')!r}, topic={self.topic!r})"


def _refusal(props: object) -> ConfigError | TypeError | None:
    """Return why a sink cannot take settings; None where it can."""
    if isinstance(props, KafkaProducer) or not isinstance(props, Mapping):
        return TypeError(f"KafkaSink takes the settings of a producer, not {type(props).__name__}: each Spark worker "
                         "process builds its own producer from them")
    props = CONFIG_TABLE.guarded(props)
    for key, value in props.items():
        if isinstance(value, KafkaProducer):
            return TypeError(f"the setting {key!r} holds a producer, which cannot travel to Spark's workers")
        if key in _REFUSED:
            return ConfigError(key, value, _REFUSED[key])
    try:
        ProducerConfig(props)
    except ConfigError as error:
        return error
    return None


def _pool_key(props: Mapping[str, object]) -> str:
    """Name a set of properties; equal plain settings share a producer, in every job of a worker.

    A value that is not plain (a callable, an object) is another one after each pickling: it gets a name of its own
    here on the driver, which travels with the sink.
    """
    parts = []
    for key in sorted(props):
        value = props[key]
        plain = value is None or isinstance(value, (str, int, float, bool, bytes))
        parts.append(f"{key}={value!r}" if plain else f"{key}={type(value).__qualname__}#{uuid.uuid4()}")
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()  # they may hold secrets
