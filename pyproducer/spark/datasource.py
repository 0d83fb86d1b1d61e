"""The data source "pyproducer": df.write.format and df.writeStream.format.

Spark calls it in processes of its own, which share nothing but what they pickle: one makes the data source and its
writer (the planner), each task unpickles the writer and writes, another process commits. So all that commit() knows
comes in the messages of the tasks.

Road:    Spark -> [datasource] -> settings, schema in the planner; sink in the workers -> producer
Thread:  one call at a time in each process.
Source:  pyspark.sql.datasource (4.0; DataSourceStreamArrowWriter 4.1). Refusals as in Spark's KafkaSourceProvider.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark import SparkFiles

try:
    from pyspark.sql import datasource
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceStreamWriter,
        WriterCommitMessage,
    )
except ImportError as _cause:
    import pyspark

    raise ImportError(f"Spark {pyspark.__version__} has no data sources in Python, which came with 4.0: use "
                      "KafkaSink(props, topic=...).write(df), or for a stream "
                      "writeStream.foreachBatch(sink.foreach_batch)") from _cause

from pyproducer.common.errors import ConfigError
from pyproducer.spark.driver_log import say
from pyproducer.spark.exactly_once import abort_batch, driver_of, ensure_at_least_once
from pyproducer.spark.schema import check_schema
from pyproducer.spark.settings import SinkSettings
from pyproducer.spark.sink import KafkaSink
from pyproducer.spark.task_numbers import TaskNumbers, WriteNumbers
from pyproducer.spark.wheels import wheel_warning

if TYPE_CHECKING:
    from pyspark.sql.types import Row, StructType

    from pyproducer.twophase import Plan, TaskOutcome

NAME = "pyproducer"


@dataclass
class TaskCommit(WriterCommitMessage):
    """What a task tells the driver."""

    numbers: TaskNumbers
    outcome: TaskOutcome | None = None
    """Of a stream that is written exactly once."""


class PyProducerDataSource(DataSource):
    """Writes DataFrames to Kafka: `df.write.format("pyproducer").mode("append").options(...).save()`.

    Options: those of Spark's own Kafka sink, `topic` and `kafka.NAME`, where `kafka.` may be left out,
    `pyproducer.pool.size` and `pyproducer.timestamp.column`. Columns as in Spark's own. Delivery is at least once; of a
    stream with `exactly.once.id` it is exactly once.
    """

    @classmethod
    def name(cls) -> str:
        """Return what format() takes."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Check options and columns, in the planner.

        Raises:
            ConfigError: An option or the save mode is wrong. Not sent.
            ColumnError: The columns do not fit the contract. Not sent.
        """
        if overwrite:
            raise ConfigError("mode", "overwrite", "rows of a topic cannot be replaced: use .mode('append')")
        sink = self._checked_sink(schema)
        ensure_at_least_once(sink.settings, "a batch")
        return BatchWriter(sink)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Check options and columns, in the planner of each micro-batch and in the process that commits it.

        `overwrite` is the complete output mode: each micro-batch appends the whole result, as with Spark's own sink.

        Raises:
            ConfigError: An option is wrong. Not sent.
            ColumnError: The columns do not fit the contract. Not sent.
        """
        sink = self._checked_sink(schema)
        return StreamRowWriter(sink) if StreamArrowWriter is None else StreamArrowWriter(sink)

    def schema(self) -> NoReturn:
        """Refuse to be read.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError("format", NAME, "it only writes: read topics with format('kafka')")

    def _checked_sink(self, schema: StructType) -> KafkaSink:
        _say_wheel_once()
        if not self.options:
            raise ConfigError("options", None, "none arrived here. Spark hands the OPTIONS of a table to no writer in "
                              "Python: instead of INSERT INTO use df.write.format('pyproducer').mode('append')"
                              ".options(**options).save()")
        settings = SinkSettings.of_options(self.options)
        check_schema(schema, settings.topic, settings.timestamp_name)
        return KafkaSink.with_settings(settings)


class BatchWriter(DataSourceArrowWriter):
    """One batch write, by columns."""

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[Any]) -> TaskCommit:
        """Send the record batches of one task.

        Raises:
            RowsFailedError: Some rows were not stored. The others are, or may be, in the log.
        """
        return TaskCommit(self._sink.send_record_batches(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what was written."""
        say(logging.INFO, "%s", numbers_of(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what is in the log all the same."""
        say(logging.WARNING, "the write failed, and what was stored stays: %s", numbers_of(messages))


class _OfStream(DataSourceStreamWriter):
    """What the two writers of a stream share.

    Spark makes one in the planner of each micro-batch, which pickles it for the tasks, and another one, which nobody
    pickles, in the process that commits: so a micro-batch that is written exactly once is planned where it is pickled.
    """

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink
        self._plan: Plan | None = None

    def __getstate__(self) -> dict[str, object]:
        """What travels to the tasks.

        Raises:
            KafkaError: As TwoPhase.plan(). Spark tells it as a PicklingError. Not sent.
        """
        if self._plan is None and self._sink.settings.exactly_once is not None:  # it is pickled twice
            with driver_of(self._sink.settings) as driver:
                self._plan = driver.plan()
        return self.__dict__

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Say what was written; exactly once, decide and commit it first.

        Raises:
            KafkaError: As TwoPhase.commit().
        """
        outcomes = _outcomes_of(messages)
        if outcomes:
            with driver_of(self._sink.settings) as driver:
                driver.commit(outcomes[0].plan, batchId, outcomes)
        say(logging.INFO, "%s", numbers_of(messages, batchId))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Say what is in the log all the same; exactly once, abort it, unless it is decided."""
        stays = "what was stored stays"
        if self._sink.settings.exactly_once is not None:
            outcomes = _outcomes_of(messages)
            with driver_of(self._sink.settings) as driver:
                abort_batch(driver, outcomes[0].plan if outcomes else None, batchId, outcomes)
            stays = "when the query is started again it is finished where it is decided, or else repeated"
        say(logging.WARNING, f"the micro-batch failed, and {stays}: %s", numbers_of(messages, batchId))


class StreamRowWriter(_OfStream):
    """One micro-batch, row by row: Spark 4.0 gives a stream's rows in no other way."""

    def write(self, iterator: Iterator[Row]) -> TaskCommit:
        """Send the rows of one task.

        Raises:
            RowsFailedError: Some rows were not stored. The others are, or may be, in the log.
        """
        if self._plan is not None:
            return TaskCommit(*self._sink.send_rows_once(self._plan, iterator))
        return TaskCommit(self._sink.send_rows(iterator))


StreamArrowWriter: Any = None
if hasattr(datasource, "DataSourceStreamArrowWriter"):  # Spark 4.1
    class _StreamArrowWriter(_OfStream, datasource.DataSourceStreamArrowWriter):
        """One micro-batch, by columns."""

        def write(self, iterator: Iterator[Any]) -> TaskCommit:
            """Send the record batches of one task.

            Raises:
                RowsFailedError: Some rows were not stored. The others are, or may be, in the log.
            """
            if self._plan is not None:
                return TaskCommit(*self._sink.send_record_batches_once(self._plan, iterator))
            return TaskCommit(self._sink.send_record_batches(iterator))

    StreamArrowWriter = _StreamArrowWriter


def _outcomes_of(messages: Sequence[WriterCommitMessage | None]) -> list[TaskOutcome]:
    """Return what the tasks of a micro-batch that is written exactly once did; nothing for another."""
    return [message.outcome for message in messages
            if isinstance(message, TaskCommit) and message.outcome is not None]


def numbers_of(messages: Sequence[WriterCommitMessage | None], batch_id: int | None = None) -> WriteNumbers:
    """Put together what tasks told; None is the message of one that failed or was killed."""
    return WriteNumbers.of((message.numbers if isinstance(message, TaskCommit) else None for message in messages),
                           batch_id)


@functools.cache  # once in a process: the planner of a stream is asked for each micro-batch
def _say_wheel_once() -> None:
    """Say what the driver's own roads refuse: a process that plans a write knows only which files Spark sends."""
    if SparkFiles._is_running_on_worker:
        told = wheel_warning(os.listdir(SparkFiles.getRootDirectory()))
        if told is not None:
            say(logging.WARNING, "%s", told)
