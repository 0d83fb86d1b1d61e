"""The roads to KafkaSink: write(df), foreachBatch, foreach; and what each does with rows that do not fit."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyproducer import ConfigError, KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.spark import ColumnError, KafkaSink, RowsFailedError, WriteNumbers
from pyproducer.spark import sink as sink_module
from pyproducer.spark.pool import ProducerPool
from tests.spark.test_sink import many_rows
from tests.support.log_checker import read_topic
from tests.support.patience import GIVE_UP_S, PROGRAM_S
from tests.unit.spark.doubles import FakeRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

HEADERS = "array<struct<key:string,value:binary>>"
ALL_COLUMNS = "topic string, partition int, key binary, value string, headers array<struct<key:string,value:binary>>"


def test_write_with_many_rows_stores_each_once_and_tells_the_numbers(spark: SparkSession, kafka: Any,
                                                                     topic_name: str) -> None:
    kafka.create_topic(topic_name, 3)
    sink = KafkaSink({"kafka.bootstrap.servers": kafka.bootstrap_servers, "compression.type": "lz4"},
                     topic=topic_name)
    numbers = sink.write(many_rows(spark, 20_000))
    found = Counter((record.key, record.value, record.headers)
                    for record in read_topic(kafka.bootstrap_servers, topic_name))
    assert found == Counter((b"key-%d" % (i % 1000), b"value-%d" % i, (("id", b"%d" % i),)) for i in range(20_000))
    assert sink.last_commit is numbers
    assert sink.delivered == numbers.total  # one by an accumulator, one with the result
    assert numbers.total.slowest_node >= 0
    assert (numbers.row_count, len(numbers.tasks), numbers.retry_count, numbers.repeated_task_count) == (
        20_000, 4, 0, 0)
    assert sorted(task.spark_partition for task in numbers.tasks) == [0, 1, 2, 3]
    assert 0 < numbers.request_count <= numbers.batch_count
    assert numbers.byte_count > 20_000


def all_columns(spark: SparkSession, topic: str, other: str) -> DataFrame:
    return spark.createDataFrame([
        (topic, 2, b"k", "text", [("a", b"1"), ("a", None)]),
        (other, 1, b"", "", None),
        (topic, 0, None, None, [])], ALL_COLUMNS).coalesce(1)


def stored(cluster: Any, topic: str) -> list[Any]:
    return [record[0:1] + record[3:] for record in read_topic(cluster.bootstrap_servers, topic)]


def test_write_with_all_columns_keeps_topic_partition_nulls_and_headers(spark: SparkSession, kafka: Any,
                                                                        topic_name: str) -> None:
    other = f"{topic_name}-other"
    kafka.create_topic(topic_name, 3)
    kafka.create_topic(other, 3)
    KafkaSink({"bootstrap.servers": kafka.bootstrap_servers}).write(all_columns(spark, topic_name, other))
    assert stored(kafka, topic_name) == [(0, None, None, ()), (2, b"k", b"text", (("a", b"1"), ("a", None)))]
    assert stored(kafka, other) == [(1, b"", b"", ())]


def test_write_when_a_row_cannot_be_stored_fails_the_job_with_counts(spark: SparkSession, embedded: Any,
                                                                     topic_name: str) -> None:
    from pyspark.sql import functions as f

    embedded.create_topic(topic_name, 1)
    rows = spark.range(0, 100, numPartitions=1).select(
        f.when(f.col("id") == 60, f.repeat(f.lit("x"), 5000)).otherwise(f.col("id").cast("string")).alias("value"))
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers, "max.request.size": 2000}, topic=topic_name)
    sink.write(rows.limit(0))
    assert sink.last_commit is not None
    with pytest.raises(Exception, match=r"RowsFailedError: 100 of 100 rows .*RecordTooLargeError: Row 60") as caught:
        sink.write(rows)
    assert "Of attempt 0 of the task no rows are known to be in the log" in str(caught.value)
    assert sink.last_commit is None
    assert read_topic(embedded.bootstrap_servers, topic_name) == []


@pytest.mark.parametrize("select", ["'k' as key, cast(null as int) as value", "'k' as key, null as value",
                                    "cast(null as int) as key, 'v' as value"])
def test_write_when_a_column_of_nulls_has_a_wrong_type_sends_nothing(spark: SparkSession, embedded: Any,
                                                                    topic_name: str, select: str) -> None:
    """On a compacted topic a null deletes its key; Spark's own sink refuses these by their type."""
    embedded.create_topic(topic_name, 1)
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name)
    rows = spark.range(0, 10).selectExpr(*select.split(", "))
    with pytest.raises(ColumnError, match=r"attribute unsupported type (int|void)\."):
        sink.write(rows)
    with pytest.raises(ColumnError, match="attribute unsupported type"):
        KafkaSink(sink.props, topic=topic_name, schema=rows.schema)
    assert read_topic(embedded.bootstrap_servers, topic_name) == []


def test_foreach_partition_when_nulls_come_before_a_wrong_value_sends_no_tombstone(
        spark: SparkSession, embedded: Any, topic_name: str) -> None:
    """999 null ints and a 7 stored 999 tombstones in each attempt of the task."""
    embedded.create_topic(topic_name, 1)
    rows = spark.range(0, 1000, numPartitions=1).selectExpr("cast(id as string) as key",
                                                            "if(id = 999, 7, null) as value")
    with pytest.raises(Exception, match="value attribute unsupported type int"):
        rows.foreachPartition(KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name))
    assert read_topic(embedded.bootstrap_servers, topic_name) == []


def test_write_when_another_column_differs_only_in_case_ignores_it(spark: SparkSession, embedded: Any,
                                                                   topic_name: str) -> None:
    """Names are case-sensitive here, as in Spark's sink; Spark's own look-up called `value` ambiguous."""
    embedded.create_topic(topic_name, 1)
    rows = spark.createDataFrame([("no", "yes", [("h", b"1")])], "VALUE string, value string, "
                                 "headers array<struct<key:string,value:binary>>").coalesce(1)
    KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name).write(rows)
    assert stored(embedded, topic_name) == [(0, None, b"yes", (("h", b"1"),))]


def test_foreach_with_a_null_in_front_stores_the_row(spark: SparkSession, embedded: Any, topic_name: str) -> None:
    """df.foreach gives single rows. Where the first column was null the job was green, and the row was gone."""
    embedded.create_topic(topic_name, 1)
    rows = spark.createDataFrame([(None, "a"), ("k", "b"), (None, "c")], "key string, value string").coalesce(1)
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name)
    rows.foreach(sink)
    assert stored(embedded, topic_name) == [(0, None, b"a", ()), (0, b"k", b"b", ()), (0, None, b"c", ())]
    assert (sink.delivered.row_count, sink.delivered.task_count) == (3, 1)


def ended(query: StreamingQuery) -> StreamingQuery:
    """Wait until a query has read all there is; nothing of it stays behind a failure."""
    try:
        assert query.awaitTermination(GIVE_UP_S), query.status
    finally:
        query.stop()
    return query


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of two files, one in each micro-batch: keys k0 to k4, then k5 to k9."""
    folder.mkdir(exist_ok=True)
    for part in range(2):
        (folder / f"{part}.csv").write_text("".join(f"k{n},v{n}\n" for n in range(5 * part, 5 * part + 5)))
    return (spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1).csv(str(folder)))


def test_foreach_batch_writes_each_micro_batch_with_one_producer(spark: SparkSession, embedded: Any, topic_name: str,
                                                                 tmp_path: Path) -> None:
    """A list or an object among the settings made another producer in each micro-batch, which nothing closed."""
    embedded.create_topic(topic_name, 1)
    batches: list[tuple[int, int]] = []

    def write(df: DataFrame, batch_id: int) -> None:
        # A sink for each micro-batch, as it is usually written.
        sink = KafkaSink({"bootstrap.servers": [embedded.bootstrap_servers], "client.id": topic_name,
                          "partitioner.class": FirstPartition()}, topic=topic_name)
        sink.foreach_batch(df.coalesce(1), batch_id)
        df.coalesce(1).foreachPartition(sink)
        assert sink.last_commit is not None
        batches.append((batch_id, sink.last_commit.row_count))

    ended(stream_of(spark, tmp_path / "in").writeStream.foreachBatch(write)
          .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start())
    assert batches == [(0, 5), (1, 5)]
    assert len(read_topic(embedded.bootstrap_servers, topic_name)) == 20

    def pooled(_part: Any) -> list[tuple[int, int]]:
        from pyproducer.spark.sink import WORKER_POOL

        mine = [pooled for pooled in WORKER_POOL._pooled.values() if pooled.producer.client_id == topic_name]
        return [(threading.get_native_id(), len(mine))]

    counts = dict(spark.sparkContext.parallelize(range(8), 8).mapPartitions(pooled).collect())
    assert set(counts.values()) <= {0, 1}
    assert 1 in counts.values()


class FirstPartition:
    """A partitioner of the application's: another object after each pickling."""

    def partition(self, *_arguments: object) -> int:
        return 0


def test_foreach_writer_takes_the_rows_of_a_stream_in_update_mode(spark: SparkSession, embedded: Any, topic_name: str,
                                                                  tmp_path: Path) -> None:
    """Spark refuses update mode for data sources in Python: this is the door to it."""
    embedded.create_topic(topic_name, 1)
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name)
    totals = stream_of(spark, tmp_path / "in").selectExpr("value").groupBy().count().selectExpr(
        "cast(null as string) as key", "cast(count as string) as value")
    ended(totals.writeStream.outputMode("update").foreach(sink.foreach_writer(totals.schema))
          .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start())
    assert stored(embedded, topic_name) == [(0, None, b"5", ()), (0, None, b"10", ())]
    assert sink.delivered.row_count == 2


def test_write_of_a_stream_says_what_to_use(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"foreachBatch\(sink\.foreach_batch\)"):
        KafkaSink({"bootstrap.servers": "127.0.0.1:1"}, topic="t").write(stream_of(spark, tmp_path / "in"))


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProducerPool]:
    """The pool of a worker that is this process: a task without Spark."""
    own = ProducerPool(KafkaProducer)
    monkeypatch.setattr(sink_module, "WORKER_POOL", own)
    yield own
    own.close()


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize("road", ["rows", "columns"])
def test_task_when_brokers_are_slower_than_its_rows_waits_for_room_and_tells_how_long(road: str,
                                                                                      topic_name: str) -> None:
    import pyarrow

    with EmbeddedBroker() as broker:
        broker.create_topic(topic_name, 1)
        sink = KafkaSink({"bootstrap.servers": broker.bootstrap_servers, "buffer.memory": 100_000,
                          "batch.size": 10_000, "max.in.flight.requests.per.connection": 1}, topic=topic_name)
        broker.faults.on("Produce", times=5).delay(60)
        values = [b"%04d" % number * 100 for number in range(1000)]
        if road == "rows":
            numbers = sink.send_rows(FakeRow(value=value) for value in values)
        else:
            numbers = sink.send_record_batches([pyarrow.record_batch([pyarrow.array(values)], names=["value"])])
        assert [record.value for record in read_topic(broker.bootstrap_servers, topic_name)] == values
    assert numbers.row_count == 1000
    assert 0 < numbers.buffer_wait_ms <= numbers.hand_over_ms
    assert (f"the tasks waited {numbers.buffer_wait_ms} ms until brokers had taken earlier rows"
            in str(WriteNumbers.of([numbers])))
    assert numbers.slowest_node == 1
    assert numbers.slowest_node_ms > 0


@pytest.mark.usefixtures("pool")
def test_task_when_there_is_no_room_within_max_block_ms_fails_and_says_what_holds_it(topic_name: str) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic(topic_name, 1)
        sink = KafkaSink({"bootstrap.servers": broker.bootstrap_servers, "buffer.memory": 100_000, "max.block.ms": 300},
                         topic=topic_name)
        sink.send_rows([FakeRow(value="first")])  # what is known of the topic is not waited for below
        broker.faults.on("Produce").delay(1000)
        with pytest.raises(RowsFailedError, match=r"No \d+ bytes of buffer\.memory became free within max\.block\.ms = "
                                                  r"300 ms: .*Send more slowly, or raise buffer\.memory"):
            # Smaller rows are held back until answers come, and wait for no room.
            sink.send_rows(FakeRow(value="x" * 60_000) for _ in range(3))


@pytest.mark.soak
def test_foreach_batch_when_there_are_200_micro_batches_then_nothing_grows(
        spark: SparkSession, embedded: Any, topic_name: str, tmp_path: Path) -> None:
    embedded.create_topic(topic_name, 3)
    (tmp_path / "in").mkdir()
    for part in range(200):
        (tmp_path / "in" / f"{part}.csv").write_text("".join(f"k{n},v{part}-{n}\n" for n in range(50)))
    seen: list[dict[int, tuple[int, int, int]]] = []

    def measured(_part: Any) -> list[tuple[int, tuple[int, int, int]]]:
        import psutil

        me = psutil.Process()
        return [(me.pid, (me.num_threads(), len(me.net_connections()), me.memory_info().rss))]

    def write(df: DataFrame, batch_id: int) -> None:
        KafkaSink({"bootstrap.servers": [embedded.bootstrap_servers], "client.id": topic_name}, topic=topic_name
                  ).foreach_batch(df, batch_id)
        if batch_id % 50 == 49:
            seen.append(dict(spark.sparkContext.parallelize(range(8), 8).mapPartitions(measured).collect()))

    stream = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1).csv(
        str(tmp_path / "in"))
    query = (stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
             .trigger(availableNow=True).start())
    try:
        assert query.awaitTermination(PROGRAM_S), query.status
    finally:
        query.stop()
    assert len(read_topic(embedded.bootstrap_servers, topic_name)) == 200 * 50
    assert len(seen) == 4
    for pid, (threads, connections, resident) in seen[-1].items():
        if pid in seen[0]:
            assert threads <= seen[0][pid][0]
            assert connections <= seen[0][pid][1]
            assert resident < seen[0][pid][2] + (30 << 20)


def told_of_jobs(spark: SparkSession) -> list[tuple[str, str | None]]:
    """Name and description of each job, as Spark's UI has them; the newest first."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(place) for place in range(jobs.length())]
    return [(job.name(), job.description().get() if job.description().isDefined() else None) for job in found]


def test_write_is_told_in_sparks_ui_with_the_users_line(spark: SparkSession, embedded: EmbeddedBroker,
                                                        topic_name: str) -> None:
    """It was "collect at .../site-packages/pyproducer/spark/sink.py:277", for every write of every program."""
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name)
    frame = many_rows(spark, 10)
    sink.write(frame)
    name, description = told_of_jobs(spark)[0]
    assert name.startswith(f"write at {__file__}:")
    assert description == f"pyproducer: {topic_name}"
    sink.foreach_batch(frame, 7)
    assert told_of_jobs(spark)[0][1] == f"pyproducer: {topic_name}, micro-batch 7"
    spark.sparkContext.setJobDescription("the user's own")
    try:
        sink.write(frame)
        assert told_of_jobs(spark)[0][1] == "the user's own"
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "the user's own"
    finally:
        spark.sparkContext.setJobDescription(None)  # type: ignore[arg-type]  # it takes it
    assert frame.count() == 10
    assert told_of_jobs(spark)[0][1] is None


def test_write_as_json_takes_a_frame_of_any_columns(spark: SparkSession, embedded: EmbeddedBroker,
                                                    topic_name: str) -> None:
    frame = spark.createDataFrame([(1, "x", None), (2, None, 0.5)], "id int, `a``b.c` string, price double")
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name)
    assert sink.write(frame, key="id", value="json").row_count == 2
    assert sink.write(frame, value=["price", "id"]).row_count == 2
    found = {(record.key, record.value) for record in read_topic(embedded.bootstrap_servers, topic_name)}
    assert found == {(b"1", b'{"id":1,"a`b.c":"x","price":null}'), (b"2", b'{"id":2,"a`b.c":null,"price":0.5}'),
                     (None, b'{"price":null,"id":1}'), (None, b'{"price":0.5,"id":2}')}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"value": "price"}, r"is double: .* write value=\['price'\]"),
        ({"key": "id"}, '"json", names of columns, or the'),
        ({"partition": "id"}, '"json", names of columns, or the'), ({"value": "no"}, "0 columns of that name"),
        ({"value": "json", "topic": "id"}, "the sink's topic '.*' wins"),
        ({"value": "json", "headers": "no"}, "there are id, "),
        ({"value": ["no"]}, "0 columns of that name"), ({"value": "json", "key": "no"}, "there are id, ")]
    for given, says in wrong:
        with pytest.raises(ConfigError, match=says):
            sink.write(frame, **given)


def test_write_as_json_keeps_each_digit_of_times_and_tells_structs_apart(
        spark: SparkSession, embedded: EmbeddedBroker, topic_name: str) -> None:
    """Spark's to_json ends at milliseconds, and its cast of a struct to text is {1, x}, whatever the types."""
    pandas_free = spark.sql(
        "select timestamp'2020-01-01 01:02:03.123456' ts, timestamp_ntz'2020-01-01 01:02:03.000001' ntz, "
        "struct(1 as a, 'x' as b) st, array('x', null) ar, map('k', 1) ma")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "+02:00")
    try:
        sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name)
        for key in ("st", "ar", "ma"):
            sink.write(pandas_free, key=key, value=["ts", "ntz"])
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    found = read_topic(embedded.bootstrap_servers, topic_name)
    assert {record.key for record in found} == {b'{"a":1,"b":"x"}', b'["x",null]', b'{"k":1}'}
    assert all(re.fullmatch(rb'\{"ts":"2020-01-0.T..:02:03.123456\+02:00","ntz":"2020-01-01T01:02:03.000001"\}',
                            record.value) for record in found), found


def test_write_when_one_column_is_the_value_then_it_goes_as_it_is_and_its_nulls_are_tombstones(
        spark: SparkSession, embedded: EmbeddedBroker, topic_name: str) -> None:
    """docs/frames.md said that the sink takes the same words, and it refused these."""
    frame = spark.createDataFrame([(1, bytearray(b"\0a"), "A"), (2, None, None)],
                                  "id int, payload binary, PAYLOAD string")
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name)
    sink.write(frame, key="id", value="payload")
    sink.write(frame.limit(1), value="PAYLOAD")
    found = {(record.key, record.value) for record in read_topic(embedded.bootstrap_servers, topic_name)}
    assert found == {(b"1", b"\0a"), (b"2", None), (None, b"A")}


def test_write_as_json_when_columns_are_named_as_topic_partition_and_headers_then_they_are_those_of_records(
        spark: SparkSession, embedded: EmbeddedBroker, topic_name: str) -> None:
    """They were thrown away without a word."""
    embedded.create_topic(topic_name, 3)
    frame = spark.createDataFrame([(7, topic_name, 2, [("h", b"1")])],
                                  f"id int, topic string, place int, headers {HEADERS}")
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers})
    sink.write(frame, value="json", topic="topic", partition="place", headers="headers")
    assert stored(embedded, topic_name) == [(2, None, b'{"id":7}', (("h", b"1"),))]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"value": "json"}, "a column 'topic'"), ({"value": ["id"], "topic": "topic"}, "a column 'headers'"),
        ({"value": ["id"], "headers": "headers"}, "a column 'topic'")]
    for given, says in wrong:
        with pytest.raises(ConfigError, match=f"{says}, which no record would have"):
            sink.write(frame, **given)
    fixed = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name)
    fixed.write(frame, value=["id", "headers"], partition="place")  # the sink's topic wins, as by the contract
    assert len(stored(embedded, topic_name)) == 2


def test_write_as_json_when_names_differ_only_in_case_takes_each_for_itself(
        spark: SparkSession, embedded: EmbeddedBroker, topic_name: str) -> None:
    """Names are case-sensitive here, by the contract's columns as well; Spark's own look-up called `id` ambiguous."""
    frame = spark.createDataFrame([(1, "x"), (2, "y")], "id int, ID string")
    props = {"bootstrap.servers": embedded.bootstrap_servers}
    KafkaSink(props, topic=topic_name).write(frame, key="ID", value="json")
    KafkaSink({**props, "pyproducer.timestamp.column": "id"}, topic=topic_name).write(
        frame.selectExpr("cast(0 as bigint) as id", "'x' as ID").limit(1), value=["ID"])
    found = {(record.key, record.value) for record in read_topic(embedded.bootstrap_servers, topic_name)}
    assert found == {(b"x", b'{"id":1,"ID":"x"}'), (b"y", b'{"id":2,"ID":"y"}'), (None, b'{"ID":"x"}')}


@pytest.mark.parametrize("name", ["at", "event.`time"])
@pytest.mark.parametrize("road", ["write", "json", "foreachPartition", "foreachBatch", "format"])
def test_roads_take_timestamps_of_the_column_that_the_settings_name(spark: SparkSession, embedded: EmbeddedBroker,
                                                                    topic_name: str, road: str, name: str) -> None:
    """One called `timestamp`, which a frame that was read from a topic has, is ignored as by Spark's own sink. A name
    with a dot was taken for the path of a field, and one with a backtick for the end of the name, by write() and
    foreach_batch().
    """
    if road == "format":
        pytest.importorskip("pyspark.sql.datasource")
    quoted = name.replace("`", "``")
    frame = spark.sql(f"""select * from values ('a', timestamp_millis(1700000000123), timestamp_millis(5)),
                                              ('b', cast(null as timestamp), timestamp_millis(5))
                         as t(value, `{quoted}`, timestamp)""")
    props = {"bootstrap.servers": embedded.bootstrap_servers, "pyproducer.timestamp.column": name}
    sink = KafkaSink(props, topic=topic_name)
    before_ms = int(time.time() * 1000)
    if road == "write":
        sink.write(frame)
    elif road == "json":
        sink.write(frame, value=["value"])
    elif road == "foreachPartition":
        frame.foreachPartition(sink)
    elif road == "foreachBatch":
        sink.foreach_batch(frame, 1)
    else:
        frame.write.format("pyproducer").mode("append").options(**props, topic=topic_name).save()
    a, b = sorted(read_topic(embedded.bootstrap_servers, topic_name), key=lambda record: record.value or b"")
    assert a.timestamp == 1700000000123
    assert before_ms <= b.timestamp <= time.time() * 1000
    with pytest.raises(ColumnError, match=r"cast\(name as timestamp\)"):
        KafkaSink({**props, "pyproducer.timestamp.column": "name"}, topic=topic_name).write(
            frame.selectExpr("value", "value as name"))
