"""A DataFrame to Kafka: the data source, KafkaSink by columns and by rows, and others, in turns on one broker.

The others are Spark's own sink and, by rows, confluent-kafka's producer.

`python -m benchmarks.spark [--rows 2000000] [--rounds 3] [--warm-up 1] [--routes kafka,pyproducer,...] [--keep]`

Cached rows with keys of 8 to 16 bytes and values of 100, four tasks on two cores, three partitions, acks=all and
idempotent. CPU is of all processes together: Spark's JVM, its Python workers, the broker. After each write the topic is
read by Spark: it has as many rows as were written. A session's first write is benchmarks.spark_cold's.

`--stretches` tells where on the road the CPU goes: of Spark's JVM, of each worker's own thread, which runs the task, of
its other threads, which send, and of the broker. The route `count` hands the same rows to Python and drops them: what
it takes is Spark's and PySpark's share.

Needs: Java, and Maven for Kafka's jars and those of Spark's connector; psutil. Source:  ours.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from benchmarks.rounds import real_broker
from benchmarks.tables import keep
from pyproducer import IMPL
from pyproducer.spark import KafkaSink
from tests.support.kafka_jars import spark_connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[1]
PARTITION_COUNT = 3
TASK_COUNT = 4
BASE = "kafka"
STRETCHES = ("Spark's JVM", "task's thread", "sender's threads", "broker")

Route = Callable[["DataFrame", str, str], None]


class Turn(NamedTuple):
    """One write: seconds, and CPU seconds of all processes."""

    seconds: float
    cpu_seconds: float


def by_format(form: str) -> Route:
    """Return the route through a data source."""
    def write(df: DataFrame, servers: str, topic: str) -> None:
        df.write.format(form).mode("append").option("kafka.bootstrap.servers", servers).option("topic", topic).save()
    return write


def by_columns(df: DataFrame, servers: str, topic: str) -> None:
    """Write through KafkaSink.write."""
    KafkaSink({"bootstrap.servers": servers}, topic=topic).write(df)


def by_rows(df: DataFrame, servers: str, topic: str) -> None:
    """Write row by row."""
    df.foreachPartition(KafkaSink({"bootstrap.servers": servers}, topic=topic))


def by_nothing(df: DataFrame, _servers: str, _topic: str) -> None:
    """Bring the rows to Python as KafkaSink.write does, and count them there."""
    def count(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        rows = sum(batch.num_rows for batch in batches)
        yield pyarrow.record_batch([pyarrow.array([rows])], names=["rows"])

    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    # As KafkaSink.write: df.mapInArrow would ask for pandas.
    function = UserDefinedFunction(count, "rows bigint", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    columns = function(*(df[name] for name in df.columns))
    DataFrame(df._jdf.mapInArrow(columns._jc, False, None), df.sparkSession).collect()


def by_confluent(df: DataFrame, servers: str, topic: str) -> None:
    """Write row by row with confluent-kafka's producer, as its users do: one for each task."""
    def write(rows: Iterator[Any]) -> None:
        from confluent_kafka import Producer

        errors: list[object] = []

        def on_delivery(error: object, _message: object) -> None:
            if error is not None:
                errors.append(error)

        producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
        for row in rows:
            while True:
                try:
                    producer.produce(topic, row.value, row.key, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush()
        if errors:
            raise RuntimeError(f"{len(errors)} rows were not stored: {errors[0]}")

    df.foreachPartition(write)


STORES_NOTHING = "count"
ROUTES: Mapping[str, Route] = {BASE: by_format("kafka"), "pyproducer": by_format("pyproducer"), "write": by_columns,
                               "foreachPartition": by_rows, "confluent": by_confluent, STORES_NOTHING: by_nothing}


def session(*folders: Path) -> SparkSession:
    """Start Spark with its connector, and our registration where the workers look, in other folders as well."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    found_in = [ROOT, ROOT / "pyproducer" / "spark" / "registration", *folders]
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, found_in))
    spark = (SparkSession.builder.master("local[2]").appName("benchmark").config("spark.ui.enabled", "false")
             .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
             .config("spark.driver.memory", "2g").config("spark.jars", ",".join(map(str, spark_connector_jars())))
             .config("spark.ui.showConsoleProgress", "false").getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def cached_rows(spark: SparkSession, count: int) -> DataFrame:
    """Return rows that lie in memory."""
    rows = spark.range(0, count, numPartitions=TASK_COUNT).selectExpr(
        "substr(concat('key-', xxhash64(id)), 1, 8 + cast(id % 9 as int)) as key",
        "cast(rpad(cast(id as string), 100, 'x') as binary) as value").cache()
    rows.count()
    return rows


def cpu_seconds() -> float:
    """Return what this process and all below it have used, those that ended included."""
    total = 0.0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue  # its parent has its time
        total += times.user + times.system + times.children_user + times.children_system
    return total


def cpu_by_stretch() -> Counter[str]:
    """Return the CPU seconds so far of each part of the road, by its name in STRETCHES."""
    found: Counter[str] = Counter()
    for process in psutil.Process().children(recursive=True):
        try:
            if process.name() == "java":
                times = process.cpu_times()
                name = "Spark's JVM" if "org.apache.spark" in " ".join(process.cmdline()) else "broker"
                found[name] += times.user + times.system
                continue
            for thread in process.threads():
                name = "task's thread" if thread.id == process.pid else "sender's threads"
                found[name] += thread.user_time + thread.system_time
        except psutil.NoSuchProcess:
            continue
    return found


def stretch_table(spent: Mapping[str, Sequence[Mapping[str, float]]], count: int) -> list[str]:
    """Return lines: microseconds of CPU for each row and stretch, medians of the rounds."""
    lines = ["CPU us/row".ljust(20) + "".join(f"{name:>20}" for name in STRETCHES)]
    for route, rounds in spent.items():
        medians = [statistics.median(each[name] / count * 1e6 for each in rounds) for name in STRETCHES]
        lines.append(f"{route:<20}" + "".join(f"{median:>20.2f}" for median in medians))
    return lines


def table(turns: Mapping[str, Sequence[Turn]], count: int) -> list[str]:
    """Return lines: medians, and the median of the ratios within each round."""
    lines = [f"{'route':<20}{'rows/s':>12}{'CPU us/row':>12}{'rate, of kafka':>30}{'CPU, of kafka':>30}"]
    for name, mine in turns.items():
        rate = statistics.median(count / turn.seconds for turn in mine)
        cpu = statistics.median(turn.cpu_seconds / count * 1e6 for turn in mine)
        beside = turns.get(BASE, ())
        rates = [base.seconds / turn.seconds for base, turn in zip(beside, mine, strict=False)]
        cpus = [turn.cpu_seconds / base.cpu_seconds for base, turn in zip(beside, mine, strict=False)]
        lines.append(f"{name:<20}{rate:>12,.0f}{cpu:>12.2f}{_spread(rates):>30}{_spread(cpus):>30}")
    return lines


def _spread(ratios: Sequence[float]) -> str:
    if not ratios:
        return "-"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    """Measure and print; --keep writes the table to benchmarks/results/ too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1, help="rounds that do not count")
    parser.add_argument("--routes", default="kafka,pyproducer,write", help=f"of {', '.join(ROUTES)}")
    parser.add_argument("--stretches", action="store_true", help="where on the road the CPU goes")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    routes = {name: ROUTES[name] for name in arguments.routes.split(",")}
    turns: dict[str, list[Turn]] = {name: [] for name in routes}
    spent: dict[str, list[Counter[str]]] = {name: [] for name in routes}
    with real_broker() as broker:
        spark = session()
        try:
            rows = cached_rows(spark, arguments.rows)
            for number in range(arguments.warm_up + arguments.rounds):
                for name, route in routes.items():
                    topic = f"{name.lower()}-{number}"
                    broker.create_topic(topic, PARTITION_COUNT)
                    parts, before, began = cpu_by_stretch(), cpu_seconds(), time.perf_counter()
                    route(rows, broker.bootstrap_servers, topic)
                    turn = Turn(time.perf_counter() - began, cpu_seconds() - before)
                    parts = cpu_by_stretch() - parts
                    wanted = 0 if name == STORES_NOTHING else arguments.rows
                    stored = (spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
                              .option("subscribe", topic).load().count())
                    if stored != wanted:
                        sys.exit(f"{name} stored {stored} of {wanted} rows")
                    print(f"round {number}, {name}: {arguments.rows / turn.seconds:,.0f} rows/s", flush=True)
                    if number >= arguments.warm_up:
                        turns[name].append(turn)
                        spent[name].append(parts)
            version = spark.version
        finally:
            spark.stop()
    lines = [f"{arguments.rows} rows in {TASK_COUNT} tasks; Spark {version}, hotpath {IMPL}, Python "
             f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs; medians of "
             f"{arguments.rounds} rounds in turns after {arguments.warm_up} that do not count", "",
             *table(turns, arguments.rows), *(["", *stretch_table(spent, arguments.rows)] * arguments.stretches)]
    print("\n".join(lines))
    if arguments.keep:
        keep(f"spark-{arguments.rows}", "spark", "\n".join(lines))


if __name__ == "__main__":
    main()
