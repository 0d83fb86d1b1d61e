"""KafkaSink: what a Spark program holds; write(df), foreachPartition, foreachBatch, foreach.

Road:    df -> [sink] -> settings, schema on the driver; pool, rows or arrow in the workers -> producer
Thread:  made on the driver, called in the workers; only settings travel between them.
Source:  ours; refusals as in Spark's KafkaSourceProvider.validateBatchOptions (4.0).
"""

from __future__ import annotations

import functools
import itertools
import logging
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import pyproducer
from pyproducer.common.errors import ConfigError
from pyproducer.spark.arrow import send_record_batches
from pyproducer.spark.columns import HEADERS_TYPE, TIMESTAMP_COLUMN, ColumnContract
from pyproducer.spark.driver_account import DriverAccount, TaskAccount
from pyproducer.spark.exactly_once import Told, ensure_at_least_once, run_batch, send_once
from pyproducer.spark.foreach_writer import ForeachWriter
from pyproducer.spark.pool import Lent, ProducerPool
from pyproducer.spark.rows import field_names, send_rows
from pyproducer.spark.running_digest import RunningDigest
from pyproducer.spark.schema import check_schema
from pyproducer.spark.session import active_context, again_count, described, query_run, warn_of_copies
from pyproducer.spark.settings import SinkSettings, guarded
from pyproducer.spark.task_numbers import DeliveredNumbers, TaskNumbers, WriteNumbers, this_task
from pyproducer.spark.wheels import refuse_wheel

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from pyproducer.spark.row_producer import RowProducer
    from pyproducer.twophase import Plan

_T = TypeVar("_T")


def _make_producer(props: Mapping[str, object]) -> RowProducer:
    # It is loaded by that: the driver, and the processes in which Spark plans and commits a write, make none.
    return pyproducer.KafkaProducer(props)


WORKER_POOL = ProducerPool(_make_producer)
"""The producers of this process. On the driver it stays empty."""

_TIMESTAMP = "timestamp"
"""What the column of timestamps is called on its way to the tasks of a write."""

_PLAIN = ("string", "binary")
_NESTED = ("struct<", "array<", "map<")
# Spark's own formats, which stop at milliseconds.
_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
         "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]"}

log: logging.Logger = logging.getLogger(__name__)


class KafkaSink:
    """Writes DataFrames to Kafka.

        sink = KafkaSink({"bootstrap.servers": "broker:9092"}, topic="orders")
        sink.write(df)                                        # the fast road: Arrow, the schema checked first
        df.foreachPartition(sink)                             # row by row; needs no pyarrow
        stream.writeStream.foreachBatch(sink.foreach_batch)   # each micro-batch by the fast road
        stream.writeStream.foreach(sink.foreach_writer(stream.schema))    # update mode and real-time mode

    Columns: `value` (required), `key`, `topic`, `partition`, `headers`, as in Spark's own Kafka sink; and one of
    timestamps, whichever `pyproducer.timestamp.column` names. Each worker process keeps one producer for all its tasks
    of equal settings. A task ends after every one of its rows was acknowledged, or fails with the count of those that
    were not; Spark then runs it again: delivery is at least once. With `exactly.once.id` foreach_batch is exactly once.

    Args:
        props: Settings of KafkaProducer, `bootstrap.servers` among them, with or without `kafka.` before their names;
            `pyproducer.pool.size`, how many producers a worker process keeps (8); `pyproducer.timestamp.column`; and
            those of streams that are written exactly once, `exactly.once.id` and more (docs/spark.md).
        topic: The topic of every row; wins over a column `topic`.
        schema: `df.schema`, to be checked now: rows that come one by one show no type where they are null. Without it
            those whose value is null wait, as foreach_writer() tells.

    Attributes:
        props: The settings, without `kafka.` and the sink's own.
        topic: The topic of every row, or None.
        last_commit: What the last write() or micro-batch did, of several at a time the one that ended last; None
            before, and where it failed.
        delivered: What all tasks of this sink did up to now, those of df.foreachPartition(sink) among them.

    Raises:
        ConfigError: A setting is wrong, or is one that a sink cannot take. Not sent.
        ColumnError: The schema does not fit. Not sent.
        TypeError: A producer was given, which cannot travel to the workers. Not sent.
    """

    def __init__(self, props: Mapping[str, object], topic: str | None = None, *,
                 schema: StructType | None = None) -> None:
        refusal = _refusal(props)
        if refusal is not None:
            del props  # they may hold secrets, and a traceback shows variables
            raise refusal
        props = guarded(props)
        self._begin(SinkSettings.of(props, topic))
        if schema is not None:
            self._check_schema(schema)
            self._has_schema = True

    @classmethod
    def with_settings(cls, settings: SinkSettings) -> KafkaSink:
        """Make a sink of settings that were checked, for rows whose schema was checked against them."""
        sink = cls.__new__(cls)
        sink._begin(settings)
        sink._has_schema = True
        return sink

    def _begin(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._has_schema = False
        self.last_commit: WriteNumbers | None = None
        self._account: DriverAccount | TaskAccount = DriverAccount()

    @property
    def delivered(self) -> DeliveredNumbers:
        """What all tasks of this sink that ended well did, by rows and by columns, in all writes up to now.

        An accumulator of Spark's brings it here: `df.foreachPartition(sink)` returns nothing. Zero in a worker, in a
        copy of the sink, and of rows with Spark Connect, which has no accumulators.
        """
        return self._account.total

    @property
    def settings(self) -> SinkSettings:
        """What the sink was given, checked."""
        return self._settings

    @property
    def props(self) -> dict[str, object]:
        """The settings of the workers' producers."""
        return dict(self._settings.props)

    @property
    def topic(self) -> str | None:
        """The topic of every row, or None for the column `topic`."""
        return self._settings.topic

    def __call__(self, rows: Iterable[Any]) -> None:
        """Send the rows of one partition, or a single row, and wait until all are acknowledged.

        A single row is what `df.foreach(sink)` gives: it is right, and slow, for each row waits for its own answer.

        Raises:
            ColumnError: The columns do not fit the contract. Not sent.
            RowsFailedError: Some rows were not stored. The others of the partition are, or may be, in the log.
        """
        if hasattr(rows, "__fields__"):
            _say_slow_once()
            rows = (rows,)
        self.send_rows(rows)

    def send_rows(self, rows: Iterable[Any]) -> TaskNumbers:
        """Send the rows of one partition: as calling the sink does, and return what that took.

        Raises:
            ColumnError: The columns do not fit the contract. Not sent.
            RowsFailedError: Some rows were not stored. The others of the partition are, or may be, in the log.
        """
        ensure_at_least_once(self._settings, "foreachPartition")
        iterator = iter(rows)
        for first in iterator:
            contract = self.contract_of(first)
            with self.lease() as lent:
                return self.tell(send_rows(itertools.chain((first,), iterator), lent.producer, contract, lent.window,
                                           is_typed=self._has_schema))
        return self.tell(this_task())  # an empty partition opens nothing

    def write(self, df: DataFrame, *, key: str | None = None, value: str | Sequence[str] | None = None,
              topic: str | None = None, partition: str | None = None, headers: str | None = None) -> WriteNumbers:
        """Write a DataFrame by columns, and wait until every row is acknowledged.

        Args:
            df: With the columns of the contract, or of any columns where `value` is given.
            key: Name of the column of keys, where `value` is given. Text and bytes go as they are, structs, arrays and
                maps as JSON, anything else as Spark's cast to text.
            value: "json" for a JSON object of each row's columns, without those that are named as topic, partition or
                headers; names of columns for an object of these; or the name of one column of text or bytes, which
                goes as it is. JSON is Spark's own to_json; fields that are null are in it.
            topic: Name of the column of topics, where `value` is given and the sink has none.
            partition: Name of the column of partitions, where `value` is given.
            headers: The same for headers.

        Returns:
            What the tasks did; `last_commit` keeps it.

        Raises:
            ColumnError: The columns do not fit the contract. No task ran, nothing was sent.
            ConfigError: A name is given that no column has, or a key without a value; or a column called topic,
                partition or headers would be in no record. Nothing was sent.
            TypeError: It is a stream.
            PySparkException: A task failed in its last attempt; the text has the RowsFailedError with what is in the
                log. The rows of other tasks are, or may be, in the log.
        """
        ensure_at_least_once(self._settings, "write()")
        others = {"key": key, "topic": topic, "partition": partition, "headers": headers}
        if value is None and not any(name is not None for name in others.values()):
            return self._write(df, None)
        return self._write(_by_names(df, value, others, self._settings), None)

    def foreach_batch(self, df: DataFrame, batch_id: int) -> None:
        """Write a micro-batch, for `writeStream.foreachBatch(sink.foreach_batch)`.

        With `exactly.once.id` it is exactly once: call it once for each micro-batch, with what depends on it alone. A
        second call in the same run of a query is refused. Spark Connect tells neither run nor query, and a thread of
        the application's knows them by pyspark.inheritable_thread_target alone: where they are not known a second call
        is refused when its rows are others.

        Raises:
            ExactlyOnceError: With `exactly.once.id`: the batch does not follow the last one, or was not committed.
            ColumnError: The columns do not fit the contract. No task ran, nothing was sent.
            PySparkException: A task failed in its last attempt; Spark ends the query, which repeats this batch when it
                is started again.
        """
        self._write(df, batch_id)

    def foreach_writer(self, schema: StructType | None = None) -> ForeachWriter:
        """Return what `writeStream.foreach` takes: rows are sent while they come, and all awaited when a task ends.

        Args:
            schema: `df.schema`, to be checked now. Without one, here or in KafkaSink(), rows whose value is null wait,
                up to 10,000 of them, 32 MiB or the end of the task, until a value shows that the column's type fits.

        Raises:
            ColumnError: The schema does not fit. Not sent.
        """
        ensure_at_least_once(self._settings, "foreach")
        if schema is not None:
            self._check_schema(schema)
        return ForeachWriter(self, is_typed=schema is not None or self._has_schema)

    def send_record_batches(self, batches: Iterable[Any]) -> TaskNumbers:
        """Send the Arrow record batches of one task; their schema was checked on the driver.

        Raises:
            RowsFailedError: Some rows were not stored. The others of the partition are, or may be, in the log.
        """
        return self._send_record_batches(batches, self._settings.timestamp_name)

    def _send_record_batches(self, batches: Iterable[Any], timestamp_name: str | None) -> TaskNumbers:
        iterator = (batch for batch in batches if batch.num_rows)
        for first in iterator:
            with self.lease() as lent:
                return self.tell(send_record_batches(itertools.chain((first,), iterator), lent.producer, self.topic,
                                                     lent.window, timestamp_name=timestamp_name))
        return self.tell(this_task())

    def send_rows_once(self, plan: Plan, rows: Iterable[Any]) -> Told:
        """Send the rows of one task of a stream exactly once; see exactly_once.py.

        Raises:
            KafkaError: As send_once().
        """
        def send(rows: Iterable[Any], lent: Lent) -> TaskNumbers:
            iterator = iter(rows)
            first = next(iterator)
            return send_rows(itertools.chain((first,), iterator), lent.producer, self.contract_of(first), lent.window,
                             is_typed=self._has_schema)

        return send_once(self, plan, rows, RunningDigest.add_row, send)

    def send_record_batches_once(self, plan: Plan, batches: Iterable[Any]) -> Told:
        """Send the record batches of one task of a stream exactly once; see exactly_once.py.

        Raises:
            KafkaError: As send_once().
        """
        return self._send_record_batches_once(batches, plan, self._settings.timestamp_name, None)

    def _send_record_batches_once(self, batches: Iterable[Any], plan: Plan, timestamp_name: str | None,
                                  batch_id: int | None) -> Told:
        def send(batches: Iterable[Any], lent: Lent) -> TaskNumbers:
            return send_record_batches(batches, lent.producer, self.topic, lent.window, timestamp_name=timestamp_name)

        return send_once(self, plan, (batch for batch in batches if batch.num_rows), RunningDigest.add_batch, send,
                         batch_id)

    def tell(self, numbers: TaskNumbers) -> TaskNumbers:
        """Tell the worker's log and the driver what a task did, and return it."""
        log.info("partition %d, attempt %d: %s", numbers.spark_partition, numbers.attempt, WriteNumbers.of([numbers]))
        self._account.add(numbers)
        return numbers

    def contract_of(self, row: Any) -> ColumnContract:
        """Return which column of a row is what.

        Raises:
            ColumnError: The columns do not fit the contract. Not sent.
        """
        return ColumnContract.of(field_names(row), self.topic, self._settings.timestamp_name)

    def _check_schema(self, schema: Any) -> list[str]:
        return check_schema(schema, self.topic, self._settings.timestamp_name)

    def lease(self) -> AbstractContextManager[Lent]:
        """Lend this process's producer of these settings; made if there is none."""
        settings = self._settings
        return WORKER_POOL.lease(settings.pool_key, settings.props, pool_size=settings.pool_size)

    def _write(self, df: DataFrame, batch_id: int | None) -> WriteNumbers:
        if df.isStreaming:
            other = "format('pyproducer')" if _has_data_sources() else "foreach(sink.foreach_writer(df.schema))"
            raise TypeError("this DataFrame is a stream: use df.writeStream.foreachBatch(sink.foreach_batch), or "
                            f"df.writeStream.{other}")
        self.last_commit = None
        names = self._check_schema(df.schema)
        refuse_wheel(df.sparkSession)
        # What is ignored need not travel to the workers. What is sent has plain names there.
        by_place, places = _by_place(df)
        timestamp_name = self._settings.timestamp_name
        taken = by_place.selectExpr(
            *(f"cast({places[name]} as {HEADERS_TYPE}) as `{name}`" if name == "headers"
              else f"{places[name]} as `{_TIMESTAMP if name == timestamp_name else name}`" for name in names))
        timestamp_name = timestamp_name and _TIMESTAMP
        context = active_context() if hasattr(df, "_jdf") else None
        batch = "" if batch_id is None else f", micro-batch {batch_id}"
        with described(context, f"pyproducer: {self.topic or 'topics of a column'}{batch}",
                       overrules=batch_id is not None):
            if batch_id is not None and self._settings.exactly_once is not None:
                told = run_batch(self._settings, batch_id, lambda plan: _map_in_arrow(taken, functools.partial(
                    self._send_record_batches_once, plan=plan, timestamp_name=timestamp_name, batch_id=batch_id)),
                                 query_run=query_run(context))
            else:
                told = _map_in_arrow(taken, functools.partial(self._send_record_batches, timestamp_name=timestamp_name))
        if context is None:  # Spark Connect, which has no accumulators
            for task in told:
                self._account.add(task)
        # Not read back: another thread may write with the same sink.
        self.last_commit = numbers = WriteNumbers.of(told, batch_id,
                                                     again_count(context, (task.stage for task in told)))
        log.info("%s", numbers)
        return numbers

    def __getstate__(self) -> dict[str, object]:
        """What travels to the workers: the settings, and the way back to the driver.

        Raises:
            ConfigError: The workers would not find pyproducer. Spark tells it as a PicklingError. Not sent.
        """
        refuse_wheel()
        warn_of_copies(active_context(), is_exactly_once=self._settings.exactly_once is not None)
        return {**self.__dict__, "last_commit": None}

    def __repr__(self) -> str:
        servers = self._settings.props.get("bootstrap.servers")
        return f"KafkaSink(bootstrap.servers={servers!r}, topic={self.topic!r})"


def _refusal(props: object) -> TypeError | None:
    """Return why something is no settings of a sink; None where it is."""
    if not isinstance(props, Mapping):
        return TypeError(f"KafkaSink takes the settings of a producer, not {type(props).__name__}: each Spark worker "
                         "process builds its own producer from them")
    for key, value in props.items():
        if _is_producer(value):
            return TypeError(f"the setting {key!r} holds a producer, which cannot travel to Spark's workers")
    return None


def _is_producer(value: object) -> bool:
    # Whoever has one has loaded its class; another thread may be about to.
    producer_class = getattr(sys.modules.get("pyproducer.producer.kafka_producer"), "KafkaProducer", None)
    return producer_class is not None and isinstance(value, producer_class)


def _by_names(df: DataFrame, value: str | Sequence[str] | None, others: Mapping[str, str | None],
              settings: SinkSettings) -> DataFrame:
    """Return a DataFrame with the columns of the contract, and in them what columns of other names hold.

    Args:
        df: Of any columns.
        value: As in write().
        others: The other columns' names by those of the contract, or None.
        settings: The sink's, which may have a topic, and name a column of timestamps.
    """
    if value is None:
        raise ConfigError("value", value, 'it is "json", names of columns, or the name of one; without value= the '
                                          "columns are those of the contract")
    taken = {role: name for role, name in others.items() if name is not None}
    if settings.topic is not None and "topic" in taken:
        raise ConfigError("topic", taken["topic"], f"the sink's topic {settings.topic!r} wins: make one without")
    beside = {name for role, name in taken.items() if role != "key"}
    is_json = value == "json" or not isinstance(value, str)
    names = ([name for name in df.columns if name not in beside] if value == "json"
             else [value] if isinstance(value, str) else list(value))
    if not names or len(set(names)) < len(names):
        raise ConfigError("value", value, "it names no column, or one twice")
    if settings.timestamp_name is not None:
        taken[TIMESTAMP_COLUMN] = settings.timestamp_name
    for role, name in (*(("value", name) for name in names), *taken.items()):
        if df.columns.count(name) != 1:
            raise ConfigError(role, name, f"the DataFrame has {df.columns.count(name)} columns of that name; there are "
                              + ", ".join(df.columns))
    for role in ("topic", "partition", "headers"):
        if role == "topic":
            is_lost = settings.topic is None and role not in taken
        else:
            is_lost = role not in names and role not in taken.values()
        if is_lost and role in df.columns:
            raise ConfigError(role, None, f"the DataFrame has a column {role!r}, which no record would have: write "
                                          f"{role}={role!r}, or drop it")
    from pyspark.sql import functions

    types = dict(df.dtypes)
    by_place, places = _by_place(df)

    def text(column: Column, kind: str) -> Column:
        return functions.to_json(column, _JSON) if kind.startswith(_NESTED) else column.cast("string")

    if is_json:
        made = functions.to_json(functions.struct(*(by_place[places[name]].alias(name) for name in names)), _JSON)
    elif types[names[0]] in _PLAIN:
        made = by_place[places[names[0]]]
    else:
        raise ConfigError("value", value, f"column {value!r} is {types[names[0]]}: one that goes as it is has text or "
                                          f"bytes; for a JSON object of it write value=[{value!r}]")
    columns = [made.alias("value")]
    for role, name in taken.items():
        column = by_place[places[name]]
        columns.append(text(column, types[name]).alias(role) if role == "key" and types[name] not in _PLAIN
                       else column.alias(name if role == TIMESTAMP_COLUMN else role))
    return by_place.select(*columns)


def _has_data_sources() -> bool:
    """Whether this Spark has data sources in Python, which came with 4.0."""
    try:
        import pyspark.sql.datasource  # noqa: F401 - whether it can be
    except ImportError:
        return False
    return True


def _by_place(df: DataFrame) -> tuple[DataFrame, dict[str, str]]:
    """Return a DataFrame whose columns are called by their places, and those names by the columns' own.

    Spark finds a name without regard to case, and refuses `value` where there is a `VALUE`, too; `event.time` is a path
    to it where it is not quoted.
    """
    return (df.toDF(*(f"c{place}" for place in range(len(df.columns)))),
            {name: f"c{place}" for place, name in enumerate(df.columns)})


def _map_in_arrow(df: DataFrame, send: Callable[[Iterable[Any]], _T]) -> list[_T]:
    """Run a function over the record batches of each task, and return what the tasks told."""
    def task(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        numbers = pyarrow.array([pickle.dumps(send(batches))], pyarrow.binary())
        yield pyarrow.record_batch([numbers], names=["numbers"])

    frame = _without_pandas(df, task) or df.mapInArrow(task, "numbers binary")
    return [pickle.loads(row[0]) for row in frame.collect()]


def _without_pandas(df: DataFrame, task: Callable[[Iterator[Any]], Iterator[Any]]) -> DataFrame | None:
    """Do what df.mapInArrow does, but that asks for pandas first, which nothing here uses.

    None where Spark is another: 3.5, Connect, whose client has pandas, or a vendor's.
    """
    if not hasattr(df, "_jdf"):
        return None
    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
        from pyspark.sql import DataFrame
        from pyspark.sql.udf import UserDefinedFunction
        from pyspark.util import PythonEvalType
    except ImportError as error:
        log.debug("df.mapInArrow, which needs pandas: %s", error)
        return None
    try:
        function = UserDefinedFunction(task, "numbers binary", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
        columns = function(*(df[name] for name in df.columns))
        return DataFrame(df._jdf.mapInArrow(columns._jc, False, None), df.sparkSession)
    except (AttributeError, TypeError, Py4JError) as error:
        log.debug("df.mapInArrow, which needs pandas: %s", error)
        return None


@functools.cache  # once in a worker
def _say_slow_once() -> None:
    log.warning("df.foreach(sink) gives one row at a time, and each waits for its own answer: use sink.write(df), "
                "df.foreachPartition(sink), or for a stream writeStream.foreach(sink.foreach_writer(df.schema))")
