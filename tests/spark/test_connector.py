"""Spark's own Kafka source and sink on our broker: Java clients as Spark drives them, in batches and as a stream."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.kafka_jars import spark_connector_jars
from tests.support.patience import GIVE_UP_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyproducer.broker import EmbeddedBroker

ROW_COUNT = 20_000
PARTITIONS = 3


@pytest.fixture
def connector() -> None:
    spark_connector_jars()  # raises MissingTool


def rows(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    return spark.range(0, ROW_COUNT, numPartitions=2).select(
        f.concat(f.lit("k"), f.col("id") % 1000).alias("key"), f.col("id").cast("string").alias("value"),
        f.array(f.struct(f.lit("id").alias("key"), f.col("id").cast("string").cast("binary").alias("value")))
        .alias("headers"))


def write(frame: DataFrame, broker: EmbeddedBroker, topic: str) -> None:
    (frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
     .option("topic", topic).option("includeHeaders", "true").save())


@pytest.mark.usefixtures("connector")
def test_batch_sink_and_source_carry_every_row_once(spark: SparkSession, embedded: EmbeddedBroker,
                                                    topic_name: str) -> None:
    embedded.create_topic(topic_name, PARTITIONS)
    write(rows(spark), embedded, topic_name)
    stored = Counter((record.key, record.value, tuple(record.headers)) for record in embedded.records(topic_name))
    assert stored == Counter((b"k%d" % (n % 1000), b"%d" % n, (("id", b"%d" % n),)) for n in range(ROW_COUNT))
    read = (spark.read.format("kafka").option("kafka.bootstrap.servers", embedded.bootstrap_servers)
            .option("subscribe", topic_name).option("includeHeaders", "true").load())
    found = read.selectExpr("cast(cast(value as string) as int) as n", "partition", "offset",
                            "cast(headers[0].value as string) as header").collect()
    assert sorted(row.n for row in found) == list(range(ROW_COUNT))
    assert all(row.header == str(row.n) for row in found)
    assert {(row.partition, row.offset) for row in found} == {
        (partition, offset) for partition, end in embedded.log_end_offsets(topic_name).items()
        for offset in range(end)}


@pytest.mark.soak
@pytest.mark.usefixtures("connector")
def test_stream_from_topic_to_topic_goes_on_where_it_was(spark: SparkSession, embedded: EmbeddedBroker,
                                                         topic_name: str, tmp_path: Path) -> None:
    copy = f"{topic_name}-copy"
    embedded.create_topic(topic_name, PARTITIONS)
    embedded.create_topic(copy, PARTITIONS)
    for repeat in (1, 2):
        write(rows(spark), embedded, topic_name)
        source = (spark.readStream.format("kafka").option("kafka.bootstrap.servers", embedded.bootstrap_servers)
                  .option("subscribe", topic_name).option("startingOffsets", "earliest")
                  .option("maxOffsetsPerTrigger", ROW_COUNT // 2).option("kafka.isolation.level", "read_committed")
                  .load().select("key", "value"))
        query = (source.writeStream.format("kafka").option("kafka.bootstrap.servers", embedded.bootstrap_servers)
                 .option("topic", copy).option("checkpointLocation", str(tmp_path))
                 .trigger(availableNow=True).start())
        try:
            assert query.awaitTermination(GIVE_UP_S), query.status
            assert len(query.recentProgress) >= 2, "more than one batch"
        finally:
            query.stop()
        found = Counter(int(record.value or b"") for record in embedded.records(copy))
        assert found == Counter(dict.fromkeys(range(ROW_COUNT), repeat))
