"""Streams that are written exactly once: format("pyproducer") and foreachBatch, with failures and restarts."""

from __future__ import annotations

import importlib.util
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import inheritable_thread_target

from pyproducer import ConfigError
from pyproducer.spark import KafkaSink
from pyproducer.twophase import TwoPhase
from tests.spark.test_write import stream_of
from tests.support.log_checker import read_committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark 3.5 has no data sources in Python.
HAS_SOURCES = importlib.util.find_spec("pyspark.sql.datasource") is not None
ROADS = pytest.mark.parametrize("road", ["data source", "foreach_batch"] if HAS_SOURCES else ["foreach_batch"])
ONE_ROAD = pytest.mark.parametrize("road", [
    "data source", pytest.param("foreach_batch", marks=pytest.mark.soak)] if HAS_SOURCES else ["foreach_batch"])


class Stream:
    """A query of ten rows in two micro-batches of two partitions, that can be started again."""

    def __init__(self, spark: SparkSession, broker: Any, topic: str, folder: Path, road: str) -> None:
        self.spark = spark
        self.broker = broker
        self.topic = topic
        self.folder = folder
        self.road = road
        broker.create_topic(topic, 3)
        self.options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "exactly.once.id": topic}

    def start(self, frame: DataFrame | None = None, mode: str = "append") -> str:
        """Run up to the end of what there is; return why it failed."""
        if frame is None:
            frame = stream_of(self.spark, self.folder / "in").repartition(2, "key")
        writer = (frame.writeStream.outputMode(mode).trigger(availableNow=True)
                  .option("checkpointLocation", str(self.folder / "checkpoint")))
        if self.road == "data source":
            writer = writer.format("pyproducer").options(topic=self.topic, **self.options)
        else:
            writer = writer.foreachBatch(KafkaSink(self.options, topic=self.topic).foreach_batch)
        query = writer.start()
        try:
            query.awaitTermination()
        except Exception as error:
            return str(error)
        return ""

    def forget(self, batch_id: int, what: str = "commits") -> None:
        """As if Spark had been killed before it noted that a micro-batch is done."""
        notes = self.folder / "checkpoint" / what
        for path in (notes / str(batch_id), notes / f".{batch_id}.crc"):
            path.unlink(missing_ok=True)

    def seen(self) -> Counter[bytes | None]:
        return Counter(record.value for record in read_committed(self.broker.bootstrap_servers, self.topic))


ALL = Counter(b"v%d" % number for number in range(10))


@ROADS
def test_stream_when_spark_repeats_micro_batches_then_their_rows_are_there_once(
        spark: SparkSession, embedded: Any, topic_name: str, tmp_path: Path, road: str) -> None:
    stream = Stream(spark, embedded, topic_name, tmp_path, road)
    # Spark is killed when all is committed, and does not know.
    assert stream.start() == ""
    assert stream.seen() == ALL
    stream.forget(1)
    assert stream.start() == ""
    assert stream.seen() == ALL
    if road == "foreach_batch":
        return
    for batch_id in (1, 0):  # the checkpoint is rolled back to an older copy
        stream.forget(batch_id)
    stream.forget(1, "offsets")
    refused = stream.start()
    assert "the checkpoint was rolled back" in refused
    assert stream.seen() == ALL


@ONE_ROAD
def test_stream_when_the_commit_fails_behind_the_decision_then_the_next_start_finishes_it(
        spark: SparkSession, embedded: Any, topic_name: str, tmp_path: Path, road: str) -> None:
    """Spark calls abort() then, which must not abort what is decided; what timed out is written again.

    With other settings of Arrow the same rows passed for others, and were never written.
    """
    stream = Stream(spark, embedded, topic_name, tmp_path, road)
    fault = embedded.faults.on("EndTxn", after=1, times=1).error("INVALID_PRODUCER_EPOCH")
    failed = stream.start()
    assert fault.count == 1
    assert "is decided, and could not be committed everywhere" in failed
    embedded.clock.advance(minutes=16)
    assert sum(stream.seen().values()) < 5
    stream.spark = spark.newSession()
    stream.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    stream.spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    assert stream.start() == ""
    assert stream.seen() == ALL


@ONE_ROAD
def test_stream_when_a_task_fails_then_nothing_of_its_micro_batch_is_seen_until_it_is_repeated(
        spark: SparkSession, embedded: Any, topic_name: str, tmp_path: Path, road: str) -> None:
    from pyspark.sql import functions as f

    stream = Stream(spark, embedded, topic_name, tmp_path, road)
    flag = str(tmp_path / "fails")

    @f.udf("string", useArrow=False)
    def value(text: str) -> str:
        if text == "v9" and Path(flag).exists():
            raise ZeroDivisionError("as it is told")
        return text

    def frame() -> DataFrame:
        return stream_of(spark, tmp_path / "in").repartition(2, "key").select("key", value("value").alias("value"))

    Path(flag).touch()
    assert "as it is told" in stream.start(frame())
    assert stream.seen() == Counter(b"v%d" % number for number in range(5))
    Path(flag).unlink()
    assert stream.start(frame()) == ""
    assert stream.seen() == ALL


@ROADS
def test_stream_when_a_micro_batch_has_no_task_with_rows_then_numbers_go_on(
        spark: SparkSession, embedded: Any, topic_name: str, tmp_path: Path, road: str) -> None:
    stream = Stream(spark, embedded, topic_name, tmp_path, road)
    frame = stream_of(spark, tmp_path / "in")
    assert stream.start(frame.where("false")) == ""  # an empty relation, which has no partition at all
    assert stream.seen() == Counter()
    for _ in range(2):
        with TwoPhase({"bootstrap.servers": embedded.bootstrap_servers}, topic_name, topic_name) as driver:
            last = driver.last_decision()
        assert last is not None
        assert (last.batch_id, last.tasks) == (1, ())
        stream.forget(1)
        assert stream.start(frame.where("false")) == ""


@ROADS
def test_stream_when_the_topic_of_decisions_is_not_there_then_the_option_is_named_before_any_task_runs(
        spark: SparkSession, embedded: Any, topic_name: str, tmp_path: Path, road: str) -> None:
    stream = Stream(spark, embedded, topic_name, tmp_path, road)
    stream.options["exactly.once.topic"] = "nowhere"
    failed = stream.start()
    assert "value 'nowhere' for configuration exactly.once.topic: there is no such topic" in failed
    assert stream.seen() == Counter()


@pytest.mark.parametrize(("thread", "words"), [
    (None, r"micro-batch 0 was written with exactly\.once\.id .* before, in this run"),
    ("that inherits", r"micro-batch 0 was written with exactly\.once\.id .* before, in this run"),
    ("of its own", r"batch 0 of .* was decided with 5 rows, and has 4 others now, .*Nothing was written")])
def test_foreach_batch_when_it_is_called_twice_for_a_micro_batch_then_it_is_refused(
        spark: SparkSession, embedded: Any, topic_name: str, tmp_path: Path, thread: str | None, words: str) -> None:
    """The second DataFrame passed for a repetition of the first: its rows were lost, and nobody said so.

    In a thread of the application's Spark does not tell the query: there that went on.
    """
    stream = Stream(spark, embedded, topic_name, tmp_path, "foreach_batch")
    sinks = [KafkaSink(stream.options, topic=topic_name) for _ in range(2)]

    def write_parts(frame: DataFrame, batch_id: int) -> None:
        for most, sink in zip(("v9", "v3"), sinks, strict=True):
            call: Any = sink.foreach_batch
            if thread == "that inherits":  # Spark 3.5 takes no session here
                call = inheritable_thread_target(spark)(call) if HAS_SOURCES else inheritable_thread_target(call)
            part = frame.where(f"value <= '{most}'")
            if thread is None:
                call(part, batch_id)
            else:
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(call, part, batch_id).result()

    query = (stream_of(spark, tmp_path / "in").writeStream.trigger(availableNow=True).foreachBatch(write_parts)
             .option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    with pytest.raises(Exception, match=words):
        query.awaitTermination()


def test_stream_in_update_mode_when_it_is_repeated_then_each_state_is_there_once(
        spark: SparkSession, embedded: Any, topic_name: str, tmp_path: Path) -> None:
    stream = Stream(spark, embedded, topic_name, tmp_path, "foreach_batch")

    def counted() -> DataFrame:
        return stream_of(spark, tmp_path / "in").groupBy().count().selectExpr("cast(count as string) as value")

    for _ in range(2):
        assert stream.start(counted(), "update") == ""
        assert stream.seen() == Counter([b"5", b"10"])
        stream.forget(1)


def test_sink_with_exactly_once_when_it_is_no_stream_then_it_is_refused(spark: SparkSession, topic_name: str) -> None:
    sink = KafkaSink({"bootstrap.servers": "127.0.0.1:1", "exactly.once.id": topic_name}, topic="orders")
    frame = spark.createDataFrame([("a",)], "value string")
    with pytest.raises(ConfigError, match=r"exactly\.once\.id: write\(\) cannot be exactly once"):
        sink.write(frame)
    with pytest.raises(ConfigError, match="foreach cannot be exactly once"):
        sink.foreach_writer(frame.schema)
    with pytest.raises(Exception, match="foreachPartition cannot be exactly once"):
        frame.foreachPartition(pickle.loads(pickle.dumps(sink)))
    if HAS_SOURCES:
        with pytest.raises(Exception, match="a batch cannot be exactly once"):
            frame.write.format("pyproducer").mode("append").option("bootstrap.servers", "127.0.0.1:1").option(
                "topic", "orders").option("exactly.once.id", topic_name).save()
