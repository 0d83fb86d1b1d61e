"""format("pyproducer"): batch and streaming, as Spark finds it by itself."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyproducer.spark import ColumnError, KafkaSink, driver_log
from pyproducer.spark import sink as sink_module
from pyproducer.spark.datasource import NAME, PyProducerDataSource, StreamArrowWriter, StreamRowWriter
from pyproducer.spark.pool import ProducerPool
from tests.spark.conftest import REGISTRATION
from tests.spark.test_sink import many_rows
from tests.spark.test_write import all_columns, ended, stored, stream_of
from tests.support.log_checker import read_topic
from tests.unit.spark.doubles import FakeProducer, FakeRow, fake_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def save(frame: DataFrame, cluster: Any, topic: str | None = None, mode: str = "append", **options: str) -> None:
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **({"topic": topic} if topic else {}), **options}
    frame.write.format("pyproducer").mode(mode).options(**given).save()


def test_save_with_many_rows_stores_each_once(spark: SparkSession, kafka: Any, topic_name: str) -> None:
    kafka.create_topic(topic_name, 3)
    save(many_rows(spark, 20_000), kafka, topic_name, includeHeaders="true", **{"compression.type": "zstd"})
    found = Counter((record.key, record.value, record.headers)
                    for record in read_topic(kafka.bootstrap_servers, topic_name))
    assert found == Counter((b"key-%d" % (i % 1000), b"value-%d" % i, (("id", b"%d" % i),)) for i in range(20_000))


def test_save_with_all_columns_keeps_topic_partition_nulls_and_headers(spark: SparkSession, embedded: Any,
                                                                       topic_name: str) -> None:
    other = f"{topic_name}-other"
    embedded.create_topic(topic_name, 3)
    embedded.create_topic(other, 3)
    save(all_columns(spark, topic_name, other), embedded)
    assert stored(embedded, topic_name) == [(0, None, None, ()), (2, b"k", b"text", (("a", b"1"), ("a", None)))]
    assert stored(embedded, other) == [(1, b"", b"", ())]


def test_save_with_a_config_provider_whose_name_has_capitals_finds_its_settings(
        spark: SparkSession, embedded: Any, topic_name: str, tmp_path: Path) -> None:
    """Spark makes the names of options lower case, and not what they hold: each task failed."""
    embedded.create_topic(topic_name, 1)
    (tmp_path / "app.properties").write_text(f"id={topic_name}")
    save(spark.createDataFrame([("a",)], "value string"), embedded, topic_name, **{
        "kafka.config.providers": "appSecrets", "kafka.config.providers.appSecrets.class": "FileConfigProvider",
        "kafka.config.providers.appSecrets.param.allowed.paths": str(tmp_path),
        "kafka.client.id": f"${{appSecrets:{tmp_path / 'app.properties'}:id}}"})
    assert stored(embedded, topic_name) == [(0, None, b"a", ())]


def test_save_of_an_empty_frame_opens_nothing(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "value string")
    frame.write.format("pyproducer").mode("append").option("bootstrap.servers", "127.0.0.1:1").option(
        "topic", "nowhere").save()


@pytest.mark.parametrize(("options", "mode", "sentence"), [
    ({}, "overwrite", r"use \.mode\('append'\)"),
    ({"kafka.transactional.id": "t"}, "append", "a sink delivers at least once"),
    ({"kafka.linger.msec": "5"}, "append", r"linger\.ms"),
])
def test_save_with_options_that_do_not_fit_says_what_to_change(spark: SparkSession, options: dict[str, str], mode: str,
                                                               sentence: str) -> None:
    frame = spark.createDataFrame([("a",)], "value string")
    with pytest.raises(Exception, match=sentence):
        frame.write.format("pyproducer").mode(mode).options(
            **{"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", **options}).save()


def test_read_says_that_it_only_writes(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="it only writes"):
        spark.read.format("pyproducer").load()


def test_save_when_a_task_fails_tells_the_driver_and_stores_no_row_of_the_refused_batch(
        spark: SparkSession, embedded: Any, topic_name: str) -> None:
    embedded.create_topic(topic_name, 1)
    frame = spark.createDataFrame([("a", topic_name), ("b", None)], "value string, topic string").coalesce(1)
    with pytest.raises(Exception, match="null topic present in the data"):
        save(frame, embedded)
    assert read_topic(embedded.bootstrap_servers, topic_name) == []


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_stream_goes_on_where_it_was(spark: SparkSession, embedded: Any, topic_name: str, tmp_path: Path,
                                     mode: str) -> None:
    embedded.create_topic(topic_name, 1)
    frame = stream_of(spark, tmp_path / "in")
    if mode == "complete":
        frame = frame.groupBy().count().selectExpr("cast(count as string) as value")
    for _ in range(2 if mode == "append" else 1):  # the second finds nothing new
        query = ended(frame.coalesce(1).writeStream.format("pyproducer").outputMode(mode)
                      .option("kafka.bootstrap.servers", embedded.bootstrap_servers).option("topic", topic_name)
                      .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start())
        assert query.exception() is None
    values = [record.value for record in read_topic(embedded.bootstrap_servers, topic_name)]
    assert values == ([b"5", b"10"] if mode == "complete" else [b"v%d" % n for n in range(10)])


# What Spark's processes do, one at a time, without Spark. ---------------------------------------------------------

class Rows(list):
    """Rows of one task, and the record batch that they make."""

    def batch(self) -> Any:
        import pyarrow

        return pyarrow.record_batch([pyarrow.array([row[0] for row in self])], names=["value"])


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProducer]:
    made = FakeProducer()
    pool = ProducerPool(lambda _props: made)
    monkeypatch.setattr(sink_module, "WORKER_POOL", pool)
    yield made
    pool.close()


def source(**options: str) -> PyProducerDataSource:
    return PyProducerDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "orders", **options})


def test_writers_when_pickled_as_spark_does_send_and_tell(producer: FakeProducer,
                                                          caplog: pytest.LogCaptureFixture) -> None:
    from pyspark import cloudpickle

    schema = fake_schema(value="string")
    rows = Rows([FakeRow(value="a"), FakeRow(value="b")])
    batch = source().writer(schema, False)
    stream = source().streamWriter(schema=schema, overwrite=True)
    by_rows = StreamRowWriter(KafkaSink({"bootstrap.servers": "127.0.0.1:1"}, topic="orders"))  # Spark 4.0
    for writer, given in ((batch, [rows.batch()]), (by_rows, rows),
                          (stream, rows if StreamArrowWriter is None else [rows.batch()])):
        message = cloudpickle.loads(cloudpickle.dumps(writer)).write(iter(given))
        assert pickle.loads(pickle.dumps(message)).numbers.row_count == 2
    assert [record.value for record in producer.records] == [b"a", b"b"] * 3
    with caplog.at_level(logging.INFO, "pyproducer.spark"):
        batch.commit([message])
        by_rows.commit([message, message], 7)
        stream.abort([message, None], 8)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in lines] == ["INFO", "INFO", "WARNING"]
    assert lines[0][1].startswith("2 rows stored by 1 tasks: ")
    assert lines[1][1].startswith("micro-batch 7: 4 rows stored by 2 tasks: ")
    assert lines[2][1].startswith("the micro-batch failed, and what was stored stays: micro-batch 8: 2 rows stored")
    assert lines[2][1].endswith("; how many rows 1 other tasks stored is unknown")


def test_writer_without_rows_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_module, "WORKER_POOL", ProducerPool(lambda _props: pytest.fail("a producer was made")))
    writer = source().writer(fake_schema(value="string"), False)
    assert writer.write(iter([Rows().batch()])).numbers.row_count == 0


def test_look_up_of_data_sources_loads_nothing_of_ours() -> None:
    """Spark imports pyspark_* for each session that asks for any data source in Python: it was 0.1 s of CPU."""
    said = subprocess.run(
        [sys.executable, "-c", "import sys, pyspark_pyproducer as p; "
                               "print(p.DefaultSource.name(), 'pyproducer' in sys.modules)"],
        check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(REGISTRATION)}).stdout
    assert said.split() == [NAME, "False"]


def test_writers_when_columns_do_not_fit_refuse_in_the_planner() -> None:
    for make in (source().writer, source().streamWriter):
        with pytest.raises(ColumnError, match="value attribute unsupported type int"):
            make(fake_schema(value="int"), False)


def test_say_when_nobody_set_up_a_log_writes_to_stderr(monkeypatch: pytest.MonkeyPatch,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    """As in the processes that Spark starts."""
    bare = logging.Logger("pyproducer.spark", logging.WARNING)
    monkeypatch.setattr(driver_log, "log", bare)
    driver_log.say(logging.INFO, "%d rows", 7)
    driver_log.say(logging.INFO, "%d rows", 8)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [f"INFO pyproducer.spark: {count} rows" for count in (7, 8)]


def test_insert_into_a_table_says_what_to_write_instead(spark: SparkSession, embedded: Any, topic_name: str) -> None:
    """The planner said that bootstrap.servers was missing, which stands in the table's OPTIONS."""
    spark.sql(f"create table insert_table (key string, value string) using pyproducer options ("
              f"'kafka.bootstrap.servers' '{embedded.bootstrap_servers}', topic '{topic_name}')")
    try:
        with pytest.raises(Exception, match=r"(?s)hands the OPTIONS of a table to no writer.*use df\.write\.format"):
            spark.sql("insert into insert_table select 'k', 'v'")
    finally:
        spark.sql("drop table insert_table")
