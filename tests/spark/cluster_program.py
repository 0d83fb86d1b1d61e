"""What the tests submit to their cluster: a write by columns, or a stream, which something happens to meanwhile.

`python cluster_program.py MASTER ARCHIVE PYTHON STORY SERVERS TOPIC ROWS TASKS [CHECKPOINT | JARS]`, where nothing
of the tests can be imported. A line on stdin is the sign for what the story waits for; each line on stdout is JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

ROWS_A_MICRO_BATCH = 20_000
CLIENT_ID = "cluster-program"


def settings_of(servers: str) -> dict[str, str]:
    """Return the settings of the workers' producers."""
    return {"bootstrap.servers": servers, "client.id": CLIENT_ID}


def say(**told: object) -> None:
    """Print a line of JSON."""
    print(json.dumps(told), flush=True)


def where(_rows: object) -> list[tuple[str, str, str]]:
    """Tell in a task which Python runs, where ours comes from, and which twin."""
    import pyproducer

    return [(sys.executable, os.path.realpath(pyproducer.__file__), pyproducer.IMPL)]


def at_a_sign(act: Any) -> None:
    """Do something when a line comes on stdin."""
    threading.Thread(target=lambda: (sys.stdin.readline(), act()), daemon=True).start()


def write(sink: Any, frame: Any) -> None:
    """Write all rows, and say what was told of them."""
    numbers = sink.write(frame)
    say(rows=numbers.row_count, total=numbers.total.row_count, is_delivered=sink.delivered == numbers.total,
        line=str(numbers), attempts={task.spark_partition: task.attempt for task in numbers.tasks})


def stream(spark: Any, servers: str, topic: str, road: str, checkpoint: str) -> None:
    """Write micro-batches until the sign."""
    from pyproducer.spark import KafkaSink
    from pyproducer.spark.datasource import PyProducerDataSource

    spark.dataSource.register(PyProducerDataSource)
    rows = (spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_MICRO_BATCH)
            .option("numPartitions", 4).load().selectExpr("cast(value as string) as key",
                                                           "cast(value as string) as value"))
    writer = rows.writeStream.option("checkpointLocation", checkpoint).trigger(processingTime="100 milliseconds")
    if road == "format":
        writer = writer.format("pyproducer").option("kafka.bootstrap.servers", servers).option("topic", topic)
    else:
        writer = writer.foreachBatch(KafkaSink(settings_of(servers), topic=topic).foreach_batch)
    query = writer.start()
    sys.stdin.readline()
    done = query.lastProgress
    query.stop()
    say(batch_id=done["batchId"])


def main() -> None:
    """Run the program."""
    master, archive, python, story, servers, topic, rows, tasks, *rest = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    from pyproducer.spark import KafkaSink

    builder = (SparkSession.builder.master(master).appName("rows")
               .config("spark.ui.enabled", "false")
               .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
               .config("spark.driver.memory", "512m").config("spark.executor.memory", "512m")
               .config("spark.archives", f"{archive}#dep").config("spark.executorEnv.PYTHONPATH", "dep")
               .config("spark.ui.showConsoleProgress", "false"))
    if story == "copies":
        builder = builder.config("spark.speculation", "true").config("spark.speculation.quantile", "0.5")
    if story == "connector":
        builder = builder.config("spark.jars", rest[0])
    spark = builder.getOrCreate()
    try:
        if story in ("format", "foreachBatch"):
            stream(spark, servers, topic, story, rest[0])
            return
        frame = spark.range(0, int(rows), numPartitions=int(tasks)).selectExpr(
            "cast(id as string) as key", "cast(rpad(cast(id as string), 100, 'x') as binary) as value")
        if story == "connector":
            options = {f"kafka.{key}": value for key, value in settings_of(servers).items()}
            frame.write.format("kafka").options(topic=topic, **options).save()
            return
        sink = KafkaSink(settings_of(servers), topic=topic)
        if story == "places":
            say(places=spark.sparkContext.parallelize(range(16), 16).mapPartitions(where).distinct().collect())
        if story == "cancel":
            at_a_sign(spark.sparkContext.cancelAllJobs)
        try:
            write(sink, frame)
        except KeyboardInterrupt:
            say(ended_by="KeyboardInterrupt")
        except Exception as error:
            say(ended_by=str(error)[:1000])
            write(sink, frame)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
