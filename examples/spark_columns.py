"""Write DataFrames to Kafka by columns: topics and headers by row, numbers, a stream in micro-batches.

Run:     python -m examples.spark_columns       (needs pip install 'pyproducer[spark]' and Java 17)
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pyproducer.broker import EmbeddedBroker
from pyproducer.spark import KafkaSink
from pyproducer.spark.datasource import PyProducerDataSource
from pyproducer.testing import read_topic


def main() -> None:
    """Start a broker and a local Spark, write the same rows by three roads, count what is stored."""
    # Spark starts `python3` of PATH unless told otherwise; its workers need pyproducer installed.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with (EmbeddedBroker(topics={"orders": 3, "orders-ch": 1}, separate_process=True) as broker,
          tempfile.TemporaryDirectory() as folder):
        spark = (SparkSession.builder.master("local[2]").appName("spark_columns")
                 .config("spark.ui.enabled", "false")
                 .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
                 .getOrCreate())
        try:
            servers = {"bootstrap.servers": broker.bootstrap_servers}
            rows = orders(spark)

            sink = KafkaSink(servers)
            print(sink.write(rows))

            # Spark finds the data source by itself where pyproducer is installed, and not merely linked.
            spark.dataSource.register(PyProducerDataSource)
            rows.write.format("pyproducer").mode("append").options(**servers).save()

            rows.write.parquet(f"{folder}/rows")
            stream(spark, sink, Path(folder))

            for topic in ("orders", "orders-ch"):
                print(f"{sum(1 for _ in read_topic(broker.bootstrap_servers, topic))} rows stored in {topic}")
        finally:
            spark.stop()


def orders(spark: SparkSession) -> DataFrame:
    """Return rows whose columns say where each goes."""
    return spark.range(10_000).selectExpr(
        "if(id % 10 = 0, 'orders-ch', 'orders') as topic",
        "concat('customer-', id % 100) as key",
        "concat('order ', id) as value",
        "array(struct('source' as key, cast('example' as binary) as value)) as headers")


def stream(spark: SparkSession, sink: KafkaSink, folder: Path) -> None:
    """Write what a folder holds, in micro-batches, and go on there next time."""
    source = spark.readStream.schema(spark.read.parquet(f"{folder}/rows").schema).parquet(f"{folder}/rows")
    query = (source.writeStream.foreachBatch(sink.foreach_batch).option("checkpointLocation", f"{folder}/checkpoint")
             .trigger(availableNow=True).start())
    query.awaitTermination()
    print(f"the last micro-batch: {sink.last_commit}")


if __name__ == "__main__":
    main()
