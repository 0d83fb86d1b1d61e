"""Write a DataFrame to Kafka from Spark's workers.

Run:     python -m examples.spark_sink          (needs pip install 'pyproducer[spark]' and Java 17)
"""

from __future__ import annotations

import os
import sys
from collections import Counter

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pyproducer.broker import EmbeddedBroker
from pyproducer.spark import KafkaSink
from pyproducer.testing import read_topic


def main() -> None:
    """Start a broker and a local Spark, write 10,000 rows, read them back."""
    # Spark starts `python3` of PATH unless told otherwise; its workers need pyproducer installed.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # In a process of its own, so that Spark's driver and the broker do not share one interpreter.
    with EmbeddedBroker(topics={"orders": 3}, separate_process=True) as broker:
        spark = (SparkSession.builder.master("local[2]").appName("spark_sink")
                 .config("spark.ui.enabled", "false")
                 .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
                 .getOrCreate())
        try:
            rows = spark.range(10_000).select(
                f.concat(f.lit("customer-"), (f.col("id") % 100).cast("string")).alias("key"),
                f.concat(f.lit("order "), f.col("id").cast("string")).alias("value"),
                f.array(f.struct(f.lit("source").alias("key"), f.lit(b"example").alias("value"))).alias("headers"))

            rows.foreachPartition(KafkaSink({"bootstrap.servers": broker.bootstrap_servers}, topic="orders"))

            stored = Counter(record.partition for record in read_topic(broker.bootstrap_servers, "orders"))
            print(f"{stored.total()} rows stored, by partition: {sorted(stored.items())}")
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
