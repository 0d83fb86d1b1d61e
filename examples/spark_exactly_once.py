"""A stream of which each row is in Kafka once, though Spark forgets that it has written a micro-batch.

Run:     python -m examples.spark_exactly_once  (needs pip install 'pyproducer[spark]' and Java 17)
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from pyproducer.broker import EmbeddedBroker
from pyproducer.spark import KafkaSink
from pyproducer.testing import read_topic


def write(spark: SparkSession, folder: Path, sink: KafkaSink) -> None:
    """Start the query, and let it go on to the end of what there is."""
    orders = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1).csv(str(folder / "in"))
    # On Spark 4 .format("pyproducer").option("exactly.once.id", "orders-stream") is the same.
    (orders.writeStream.foreachBatch(sink.foreach_batch).option("checkpointLocation", str(folder / "checkpoint"))
     .trigger(availableNow=True).start().awaitTermination())


def main() -> None:
    """Write three micro-batches, have Spark repeat the last, and count what readers see."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (SparkSession.builder.master("local[2]").appName("spark_exactly_once")
             .config("spark.ui.enabled", "false")
             .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
             .getOrCreate())
    try:
        with (EmbeddedBroker(topics={"orders": 3}, separate_process=True) as broker,
              tempfile.TemporaryDirectory() as name):
            folder = Path(name)
            (folder / "in").mkdir()
            for part in range(3):
                (folder / "in" / f"{part}.csv").write_text("".join(
                    f"customer-{number},order {number}\n" for number in range(1000 * part, 1000 * part + 1000)))
            sink = KafkaSink({"bootstrap.servers": broker.bootstrap_servers, "exactly.once.id": "orders-stream"},
                             topic="orders")
            write(spark, folder, sink)

            # As if the driver had been killed behind its commit: Spark does not know of the last micro-batch.
            for note in (folder / "checkpoint" / "commits").glob("*2*"):
                note.unlink()
            write(spark, folder, sink)

            seen = Counter(record.value for record in read_topic(
                broker.bootstrap_servers, "orders", isolation_level="read_committed"))
            print(f"{seen.total()} rows seen, {len(seen)} of them different")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
