"""Every road on Spark Connect: the client has no JVM of its own, and what it holds goes to a server.

Runs in an environment of its own: Connect needs grpc and pandas, and a process has either a classic session or this
one. `python -m tests.environments sparks`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyproducer.spark import ColumnError, KafkaSink
from tests.spark.conftest import ROOT
from tests.spark.test_write import ended, stream_of
from tests.support.log_checker import read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_COUNT = 2_000
# Connect warns of settings that a running server does not take, of type hints that nobody asked for, and of sockets.
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}")
              for kind in ("UserWarning", "FutureWarning", "DeprecationWarning", "ResourceWarning")]


@pytest.fixture(scope="session")
def connect() -> Iterator[SparkSession]:
    """A client and its server, which starts workers with this interpreter."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("SPARK_TESTING", "1")  # the server's port is the system's choice, and not always 15002
        session = (SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
                   .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
                   .config("spark.driver.memory", "512m").getOrCreate())
        yield session
        session.stop()


def rows(connect: SparkSession) -> DataFrame:
    return connect.range(0, ROW_COUNT, numPartitions=4).selectExpr(
        "concat('k', id % 100) as key", "cast(cast(id as string) as binary) as value", "id",
        "array(struct('id' as key, cast(cast(id as string) as binary) as value)) as headers")


EXPECTED = Counter((b"k%d" % (n % 100), b"%d" % n, (("id", b"%d" % n),)) for n in range(ROW_COUNT))


def found(cluster: Any, topic: str) -> Counter[Any]:
    return Counter((record.key, record.value, record.headers)
                   for record in read_topic(cluster.bootstrap_servers, topic))


def test_the_session_is_one_of_connect(connect: SparkSession) -> None:
    assert type(connect).__module__ == "pyspark.sql.connect.session"


def test_write_stores_each_row_once_and_tells_the_numbers(connect: SparkSession, embedded: Any,
                                                          topic_name: str) -> None:
    embedded.create_topic(topic_name, 3)
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name)
    numbers = sink.write(rows(connect))
    assert found(embedded, topic_name) == EXPECTED
    assert sink.last_commit is numbers
    assert (numbers.row_count, sorted(task.spark_partition for task in numbers.tasks)) == (ROW_COUNT, [0, 1, 2, 3])


def test_foreach_partition_and_foreach_store_each_row_once(connect: SparkSession, embedded: Any,
                                                           topic_name: str) -> None:
    embedded.create_topic(topic_name, 3)
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic_name)
    rows(connect).where("id >= 10").foreachPartition(sink)
    rows(connect).where("id < 10").foreach(sink)
    assert found(embedded, topic_name) == EXPECTED


def test_save_by_format_stores_each_row_once(connect: SparkSession, embedded: Any, topic_name: str) -> None:
    embedded.create_topic(topic_name, 3)
    rows(connect).write.format("pyproducer").mode("append").option(
        "kafka.bootstrap.servers", embedded.bootstrap_servers).option("topic", topic_name).save()
    assert found(embedded, topic_name) == EXPECTED


def test_write_when_columns_do_not_fit_raises_on_the_client_before_any_task(connect: SparkSession) -> None:
    sink = KafkaSink({"bootstrap.servers": "127.0.0.1:1"}, topic="nowhere")
    with pytest.raises(ColumnError, match="value attribute unsupported type int"):
        sink.write(connect.range(3).selectExpr("cast(null as int) as value"))


def test_write_when_a_row_cannot_be_stored_fails_with_counts(connect: SparkSession, embedded: Any,
                                                             topic_name: str) -> None:
    embedded.create_topic(topic_name, 1)
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers, "max.request.size": 2000}, topic=topic_name)
    with pytest.raises(Exception, match=r"RowsFailedError: 100 of 100 rows .*RecordTooLargeError: Row 60"):
        sink.write(connect.range(0, 100, numPartitions=1).selectExpr("if(id = 60, repeat('x', 5000), 'v') as value"))
    assert sink.last_commit is None
    assert read_topic(embedded.bootstrap_servers, topic_name) == []


STREAMS: dict[str, Callable[[Any, KafkaSink], Any]] = {
    "foreachBatch": lambda stream, sink: stream.foreachBatch(sink.foreach_batch),
    "foreach writer": lambda stream, sink: stream.foreach(sink.foreach_writer()),
    "format": lambda stream, sink: stream.format("pyproducer").options(topic=sink.topic, **sink.props),
}


@pytest.mark.parametrize("road", STREAMS)
def test_stream_stores_each_row_once(connect: SparkSession, embedded: Any, topic_name: str, tmp_path: Path,
                                     road: str) -> None:
    topic = topic_name
    embedded.create_topic(topic, 1)
    sink = KafkaSink({"bootstrap.servers": embedded.bootstrap_servers}, topic=topic)
    query = ended(STREAMS[road](stream_of(connect, tmp_path / "in").coalesce(1).writeStream, sink)
                  .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start())
    assert query.exception() is None
    assert [record.value for record in read_topic(embedded.bootstrap_servers, topic)] == [b"v%d" % n for n in range(10)]
