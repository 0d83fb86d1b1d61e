"""What test_cluster.py submits to its cluster: writes rows by columns, and prints what the tasks told as JSON.

`python cluster_program.py MASTER ARCHIVE PYTHON SERVERS TOPIC ROWS TASKS`, where nothing of the tests can be imported.
"""

from __future__ import annotations

import json
import os
import sys


def where(_rows: object) -> list[tuple[str, str, str]]:
    """Tell in a task which Python runs, where ours comes from, and which twin."""
    import pyproducer

    return [(sys.executable, os.path.realpath(pyproducer.__file__), pyproducer.IMPL)]


def main() -> None:
    """Run the program."""
    master, archive, python, servers, topic, rows, tasks = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    from pyproducer.spark import KafkaSink

    spark = (SparkSession.builder.master(master).appName("rows")
             .config("spark.ui.enabled", "false")
             .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
             .config("spark.driver.memory", "512m").config("spark.executor.memory", "512m")
             .config("spark.archives", f"{archive}#dep").config("spark.executorEnv.PYTHONPATH", "dep")
             .config("spark.ui.showConsoleProgress", "false").getOrCreate())
    try:
        places = spark.sparkContext.parallelize(range(16), 16).mapPartitions(where).distinct().collect()
        frame = spark.range(0, int(rows), numPartitions=int(tasks)).selectExpr(
            "cast(id as string) as key", "cast(rpad(cast(id as string), 100, 'x') as binary) as value")
        sink = KafkaSink({"bootstrap.servers": servers}, topic=topic)
        numbers = sink.write(frame)
        print(json.dumps({"places": places, "line": str(numbers), "rows": numbers.row_count,
                          "retries": numbers.retry_count, "is_delivered": sink.delivered == numbers.total,
                          "attempts": {task.spark_partition: task.attempt for task in numbers.tasks}}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
