"""What a sink was given, checked on the driver: the settings of its workers' producers, and the sink's own.

    topic                         the topic of every row; wins over the column
    pyproducer.pool.size          how many producers a worker process keeps, 8
    pyproducer.timestamp.column   which column has the records' timestamps; none
    exactly.once.*                for streams: see exactly_once.py
    kafka.NAME, NAME              a setting of KafkaProducer; both spellings are one setting

Road:    KafkaSink(...), options of a data source -> [settings] -> sink -> pool
Thread:  the driver's; immutable values.
Source:  refusals as in Spark's KafkaSourceProvider.validateBatchOptions (4.0). Differs from Spark: names that nobody
         knows are refused, with the nearest known one; a producer's settings may stand without `kafka.`.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import pickle
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyproducer.common.errors import ConfigError
from pyproducer.common.kafka_string import beginning
from pyproducer.common.secrets import SecretText, SecretValue
from pyproducer.common.settings.config_providers import KEY as PROVIDERS
from pyproducer.common.settings.config_providers import PREFIX as PROVIDER_PREFIX
from pyproducer.common.settings.parse import split_list
from pyproducer.common.topic_name import topic_name_fault
from pyproducer.producer.config import CONFIG_TABLE, ProducerConfig
from pyproducer.producer.config.other_names import translated
from pyproducer.spark.columns import COLUMNS, TIMESTAMP_COLUMN
from pyproducer.spark.exactly_once import ID, ON_LOST, START, TOPIC, ExactlyOnce

PREFIX = "kafka."
POOL_SIZE = "pyproducer.pool.size"
DEFAULT_POOL_SIZE = 8
"""More than one, as a worker serves several queries; few, as each has a thread and a connection for each broker."""

# By what a sink cannot take: why. The first two are Spark's sentences.
_REFUSED = {
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with "
                      "ByteArraySerializer.",
    "value.serializer": "Kafka option 'value.serializer' is not supported as values are serialized with "
                        "ByteArraySerializer.",
    "transactional.id": "a sink delivers at least once, or a stream exactly once with exactly.once.id; one "
                        "transactional id cannot serve several tasks",
    "topic": "producers have none: give it as KafkaSink(props, topic=...), or as the data source's option topic",
}
# Options that Spark gives every sink, and those of Spark's Kafka source, which people copy beside the sink's.
_NOT_FOR_US = frozenset({
    "_asyncprogresstrackingoverridesinksupportcheck", "assign", "asyncprogresstrackingcheckpointintervalms",
    "asyncprogresstrackingenabled", "checkpointlocation", "endingoffsets", "endingoffsetsbytimestamp",
    "endingtimestamp", "failondataloss", "fetchoffset.numretries", "fetchoffset.retryintervalms", "groupidprefix",
    "includeheaders", "kafkaconsumer.polltimeoutms", "maxoffsetspertrigger", "maxrecordsperpartition",
    "maxtriggerdelay", "minoffsetspertrigger", "minpartitions", "queryname", "startingoffsets",
    "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy", "startingtimestamp", "subscribe",
    "subscribepattern"})
_OPTIONS = (POOL_SIZE, TIMESTAMP_COLUMN, ID, TOPIC, ON_LOST, START)
_NEAR = 0.85  # exactly.once.ids is, and no other setting that there is
_ASYNC = "asyncprogresstrackingenabled"
_PLAIN = (str, int, float, bool, bytes, type(None))

log: logging.Logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SinkSettings:
    """The settings of one sink.

    Attributes:
        props: What each worker's producer is made with; nothing of the sink's own. Secrets are guarded.
        topic: The topic of every row, or None for the column.
        pool_size: How many producers a worker process keeps.
        pool_key: Equal for equal settings, however they are written; shows none of them.
        timestamp_name: The column of timestamps, or None.
        exactly_once: The options of a stream that is written exactly once, or None.
    """

    props: dict[str, object]
    topic: str | None
    pool_size: int
    pool_key: str
    timestamp_name: str | None = None
    exactly_once: ExactlyOnce | None = None

    def __getstate__(self) -> dict[str, object]:
        """What travels to the workers, secrets among it."""
        return {**self.__dict__, "props": {key: _plain(value) for key, value in self.props.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive there."""
        self.__dict__.update(state, props=guarded(state["props"]))

    @classmethod
    def of(cls, props: Mapping[str, object], topic: str | None) -> SinkSettings:
        """Check the arguments of a KafkaSink.

        Files that settings name are not looked at: they lie where the workers run.

        Raises:
            ConfigError: A setting is wrong, given twice, or one that a sink cannot take. Not sent.
        """
        props = {key: value for key, value in guarded(props).items()
                 if not (isinstance(key, str) and key.lower() in _NOT_FOR_US)}
        producer_props = _without_prefix(props)
        pool_size = _pool_size(producer_props.pop(POOL_SIZE, DEFAULT_POOL_SIZE))
        timestamp_name = _timestamp_name(producer_props.pop(TIMESTAMP_COLUMN, None))
        for key, value in producer_props.items():
            if key in _REFUSED:
                raise ConfigError(key, value, _REFUSED[key])
            if key not in CONFIG_TABLE and key not in _OPTIONS and (meant := _meant_option(key)) is not None:
                raise ConfigError(key, value, f"unknown option; did you mean {meant!r}?")
        if topic is not None:
            if not isinstance(topic, str):
                raise ConfigError("topic", topic, f"it must be a str, got {type(topic).__name__}")
            topic = topic.strip()
            if not topic:
                raise ConfigError("topic", topic, "it must not be empty; leave it out to use the column 'topic'")
            fault = topic_name_fault(topic)
            if fault is not None:
                raise ConfigError("topic", beginning(topic), fault)
        exactly_once = ExactlyOnce.taken_from(producer_props, topic)
        try:
            pool_key = _pool_key(producer_props)
        except ConfigError as error:
            if exactly_once is None:
                raise
            raise ConfigError.of_all([_in_its_words(each, producer_props) for each in (error, *error.others)]) from None
        if str(producer_props.get("acks")) == "0":
            _say_nobody_acknowledges()
        return cls(producer_props, topic, pool_size, pool_key, timestamp_name, exactly_once)

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> SinkSettings:
        """Check the options of a data source, whose names Spark makes lower case.

        Raises:
            ConfigError: An option is unknown or wrong. Not sent.
        """
        given = guarded(options)
        del options  # an error below shows variables
        if "path" in given:
            raise ConfigError("path", given["path"], "save() and start() take no path: name the topic with "
                                                     ".option('topic', ...)")
        topic: Any = given.pop("topic", None)
        settings = cls.of(_with_listed_providers(_without_prefix(given)), topic)
        is_ahead = next((value for key, value in given.items() if key.lower() == _ASYNC), "false")
        if settings.exactly_once is not None and str(is_ahead).lower() == "true":
            raise ConfigError(_ASYNC, is_ahead, "with exactly.once.id Spark must note what a batch reads before it is "
                                                "written, to repeat it with the same rows: leave it out")
        return settings


@functools.cache  # once in a process: the planner of a stream is asked for each micro-batch
def _say_nobody_acknowledges() -> None:
    log.warning("acks=0: no broker tells what it stored, so rows are counted as stored when they are written to a "
                "connection, and a job that ends well may have lost some")


def guarded(props: Mapping[str, object]) -> dict[str, object]:
    """Return a copy in which secrets do not show themselves, in a traceback's variables for one."""
    return {key: CONFIG_TABLE.guarded({_name(key): value})[_name(key)] for key, value in dict(props).items()}


def _meant_option(key: object) -> str | None:
    """Return the option of the sink's own that a name is near; None where it is near none."""
    if not isinstance(key, str):
        return None
    from difflib import get_close_matches  # here: few names are unknown

    dotted = key.strip().lower().replace("_", ".").replace("-", ".")
    return next(iter(get_close_matches(dotted, _OPTIONS, n=1, cutoff=_NEAR)), None)


def _in_its_words(error: ConfigError, props: Mapping[str, object]) -> ConfigError:
    """Return an error in the words of exactly.once.id: nobody wrote the transactional.id that is made of it."""
    if error.key == "pyproducer.fork":
        return ConfigError(error.key, error.value, f"with {ID} a child of a worker would write by the worker's ids, "
                                                   "and fence it: leave it out")
    if error.key != "transactional.id":
        return error
    values = CONFIG_TABLE.read_all(translated(props).props, [], []).values
    for name, is_lowered, instead in (
            ("enable.idempotence", not values["enable.idempotence"], "true"),
            ("acks", values["acks"] not in ("all", "-1"), "all"), ("retries", values["retries"] == 0, "1 or more")):
        if is_lowered:
            return ConfigError(name, values[name], f"with {ID} no row may be lost or stored twice: leave it out, or "
                                                   f"set it to {instead}")
    return error


def _plain(value: object) -> object:
    """Return what was guarded, as it was given."""
    if type(value) is list or type(value) is tuple:
        return type(value)(map(_plain, value))
    if isinstance(value, SecretText):
        return str(value)
    return value.value if isinstance(value, SecretValue) else value


def _name(key: Any) -> Any:
    return key[len(PREFIX):] if isinstance(key, str) and key.lower().startswith(PREFIX) else key


def _without_prefix(props: Mapping[str, object]) -> dict[str, object]:
    """Return the settings without `kafka.` before their names."""
    found: dict[str, object] = {}
    for key, value in props.items():
        name = _name(key)
        if name in found and found[name] != value:
            raise ConfigError(name, value, f"it is given twice, with '{PREFIX}' before it and without")
        found[name] = value
    return found


def _with_listed_providers(options: Mapping[str, object]) -> dict[str, object]:
    """Return options in which the settings of config providers have the names that config.providers lists.

    Spark has made the names of options lower case, and not what they hold.
    """
    listed = split_list(str(options.get(PROVIDERS, "")))
    found: dict[str, object] = {}
    for key, value in options.items():
        names = [name for name in listed if key.startswith(f"{PROVIDER_PREFIX}{name.lower()}.")]
        found.update({f"{PROVIDER_PREFIX}{name}{key[len(PROVIDER_PREFIX + name.lower()):]}": value for name in names}
                     or {key: value})
    return found


def _pool_size(value: object) -> int:
    try:
        size = int(str(value))
    except ValueError:
        size = 0
    if size < 1:
        raise ConfigError(POOL_SIZE, value, "it must be a whole number from 1 on")
    return size


def _timestamp_name(value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or not value or value in COLUMNS):
        raise ConfigError(TIMESTAMP_COLUMN, value, f"it must be a column's name, and none of {', '.join(COLUMNS)}")
    return value


def _pool_key(props: Mapping[str, object]) -> str:
    """Name a set of settings, as a digest: secrets are among them.

    Raises:
        ConfigError: A setting is wrong. Not sent.
    """
    # Variables are resolved where the producer is made: what they stand for is not here.
    has_variables = any(isinstance(key, str) and key.startswith(PROVIDERS) for key in props)
    config = None if has_variables else ProducerConfig(props, reads_files=False)
    values = props if config is None else {**{key: config[key] for key in config.explicit},
                                           **{key: props[key] for key in config.strangers}}
    digest = hashlib.sha256()
    for key in sorted(values):
        digest.update(f"{key}\0{_told_apart(values[key])}\0".encode())
    return digest.hexdigest()


def _told_apart(value: Any) -> str:
    """Return a text that is equal for equal values, also for those that are another object after each pickling."""
    value = _plain(value)
    if isinstance(value, _PLAIN):
        return str(value)
    if type(value) in (tuple, list):
        return f"[{','.join(map(_told_apart, value))}]"
    try:
        return f"{type(value).__qualname__}#{hashlib.sha256(_pickled(value)).hexdigest()}"
    except (pickle.PicklingError, TypeError, AttributeError):
        # It cannot be pickled, and so cannot travel: Spark says that better. Here it is only told apart.
        return f"{type(value).__qualname__}#{uuid.uuid4()}"


def _pickled(value: object) -> bytes:
    """Pickle as Spark does, where Spark is: functions of a notebook go by value."""
    if "pyspark" not in sys.modules:
        return pickle.dumps(value)
    from pyspark import cloudpickle

    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]  # it has no types
