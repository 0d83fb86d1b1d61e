"""DataFrames through KafkaSink to both brokers, read back by librdkafka."""

from __future__ import annotations

import os
import socket
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from pyproducer.spark import DeliveredNumbers, KafkaSink
from tests.support.log_checker import StoredRecord, read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_COUNT = 4


@pytest.fixture(params=["embedded", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Any:
    """Both brokers; each has `bootstrap_servers` and `create_topic(name, partitions)`."""
    return request.getfixturevalue(request.param)


def many_rows(spark: SparkSession, count: int) -> DataFrame:
    from pyspark.sql import functions as f

    return spark.range(0, count, numPartitions=TASK_COUNT).select(
        f.concat(f.lit("key-"), (f.col("id") % 1000).cast("string")).alias("key"),
        f.concat(f.lit("value-"), f.col("id").cast("string")).cast("binary").alias("value"),
        f.array(f.struct(f.lit("id").alias("key"), f.col("id").cast("string").cast("binary").alias("value")))
        .alias("headers"))


@pytest.mark.parametrize("count", [20_000, pytest.param(200_000, marks=pytest.mark.soak)])
def test_foreach_partition_with_many_rows_stores_each_once(spark: SparkSession, cluster: Any, topic_name: str,
                                                           count: int) -> None:
    cluster.create_topic(topic_name, 3)
    sink = KafkaSink({"bootstrap.servers": cluster.bootstrap_servers, "compression.type": "lz4"}, topic=topic_name)
    assert sink.delivered == DeliveredNumbers()
    many_rows(spark, count).foreachPartition(sink)
    told = sink.delivered
    assert (told.row_count, told.task_count, told.retry_count, told.failed_attempt_count) == (count, TASK_COUNT, 0, 0)
    assert 0 < told.request_count <= told.batch_count < told.byte_count
    assert told.slowest_node >= 0
    stored = read_topic(cluster.bootstrap_servers, topic_name)
    found = Counter((record.key, record.value, record.headers) for record in stored)
    assert found == Counter((b"key-%d" % (i % 1000), b"value-%d" % i, (("id", b"%d" % i),)) for i in range(count))
    assert_keys_in_order(stored, count)


def assert_keys_in_order(stored: list[StoredRecord], count: int) -> None:
    """A key lies in one partition, and the rows of one Spark task in the order of the task."""
    partitions: defaultdict[bytes | None, set[int]] = defaultdict(set)
    last: dict[tuple[bytes | None, int], int] = {}
    for record in stored:
        partitions[record.key].add(record.partition)
        number = int((record.value or b"")[len(b"value-"):])
        task = number // (count // TASK_COUNT)
        assert last.get((record.key, task), -1) < number
        last[record.key, task] = number
    assert {len(used) for used in partitions.values()} == {1}


def test_foreach_partition_with_all_columns_keeps_topic_partition_nulls_and_headers(
        spark: SparkSession, cluster: Any, topic_name: str) -> None:
    other = f"{topic_name}-other"
    cluster.create_topic(topic_name, 3)
    cluster.create_topic(other, 3)
    rows = spark.createDataFrame([
        (topic_name, 2, b"k", "text", [("a", b"1"), ("a", None)]),
        (topic_name, 0, None, None, []),
        (other, 1, b"", "", None)],
        "topic string, partition int, key binary, value string, "
        "headers array<struct<key:string,value:binary>>").coalesce(1)
    rows.foreachPartition(KafkaSink({"bootstrap.servers": cluster.bootstrap_servers}))
    assert [record[0:1] + record[3:] for record in read_topic(cluster.bootstrap_servers, topic_name)] == [
        (0, None, None, ()), (2, b"k", b"text", (("a", b"1"), ("a", None)))]
    assert [record[0:1] + record[3:] for record in read_topic(cluster.bootstrap_servers, other)] == [(1, b"", b"", ())]


def test_foreach_partition_when_a_row_cannot_be_stored_fails_the_job_with_counts(
        spark: SparkSession, cluster: Any, topic_name: str) -> None:
    from pyspark.sql import functions as f

    cluster.create_topic(topic_name, 1)
    rows = spark.range(0, 100, numPartitions=1).select(
        f.when(f.col("id") == 60, f.repeat(f.lit("x"), 5000)).otherwise(f.col("id").cast("string")).alias("value"))
    sink = KafkaSink({"bootstrap.servers": cluster.bootstrap_servers, "max.request.size": 2000}, topic=topic_name)
    with pytest.raises(Exception, match=r"RowsFailedError: 1 of 61 rows sent were not stored.*RecordTooLargeError"):
        rows.foreachPartition(sink)
    assert len(read_topic(cluster.bootstrap_servers, topic_name)) == 60


def test_foreach_partition_when_the_broker_refuses_fails_the_job(spark: SparkSession, kafka: Any,
                                                                 topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    rows = spark.createDataFrame([("a", 0), ("b", 9)], "value string, partition int").coalesce(1)
    sink = KafkaSink({"bootstrap.servers": kafka.bootstrap_servers, "max.block.ms": 2000}, topic=topic_name)
    with pytest.raises(Exception, match=r"RowsFailedError: 1 of 2 rows sent were not stored.* for .*-9: .*no "
                                         "partition 9"):
        rows.foreachPartition(sink)


@pytest.mark.parametrize(("columns", "schema", "sentence"), [
    (("a", "t"), "value string, topic string", "null topic present in the data. Use the topic option for setting a "
                                               "default topic."),
    (("a",), "value string", "topic option required when no 'topic' attribute is present."),
    ((1, "t"), "value int, topic string", r"value attribute unsupported type int. value must be a\(n\) string or "
                                          "binary"),
])
def test_foreach_partition_when_columns_do_not_fit_says_sparks_sentence(
        spark: SparkSession, embedded: Any, columns: tuple[Any, ...], schema: str, sentence: str) -> None:
    if sentence.startswith("null topic"):
        columns = (columns[0], None)
    rows = spark.createDataFrame([columns], schema)
    with pytest.raises(Exception, match=sentence):
        rows.foreachPartition(KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}))


def test_tasks_of_one_worker_when_run_again_share_a_producer(spark: SparkSession, embedded: Any,
                                                             topic_name: str) -> None:
    embedded.create_topic(topic_name, 1)
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers, "client.id": topic_name}, topic=topic_name)
    rows = spark.createDataFrame([("a",), ("b",), ("c",), ("d",)], "value string").repartition(4)

    def send_and_tell(part: Any) -> list[tuple[int, int]]:
        sink(part)
        with sink.lease() as lent:
            return [(os.getpid(), id(lent.producer))]

    used = [pair for _ in range(2) for pair in rows.rdd.mapPartitions(send_and_tell).collect()]
    assert len(used) == 8
    assert len(set(used)) == len({pid for pid, _ in used})


def test_empty_dataframe_makes_no_producer_and_opens_no_connection(spark: SparkSession) -> None:
    """It was only seen that nothing fails, which holds for a producer that is made and never used, too."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        sink = KafkaSink({"bootstrap.servers": address, "max.block.ms": 1000}, topic="nowhere")

        def write_and_tell(part: Any) -> list[bool]:
            from pyproducer.spark.sink import WORKER_POOL

            sink(part)
            return [sink._settings.pool_key in WORKER_POOL._pooled]

        empty = spark.createDataFrame([], "value string").repartition(2)
        assert empty.rdd.getNumPartitions() == 2
        assert empty.rdd.mapPartitions(write_and_tell).collect() == [False, False]
        empty.foreachPartition(sink)
        nobody.setblocking(False)
        with pytest.raises(BlockingIOError):
            nobody.accept()
