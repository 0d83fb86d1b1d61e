"""400 random frames, each by every road and by Spark's own sink: what is stored is the same, record by record.

A frame has some of the columns, of any lawful type, with nulls, texts of any length and any characters, headers, topics
and partitions, in some tasks of which some are empty. Where neither key nor partition says where a record goes, each
client chooses for itself; everywhere else the partition counts, too.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyproducer.spark import KafkaSink
from tests.support.kafka_jars import spark_connector_jars
from tests.support.log_checker import read_topic
from tests.support.patience import PROGRAM_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyproducer.broker import EmbeddedBroker

pytestmark = pytest.mark.soak

BLOCKS, ROUNDS = 20, 20
STREAM_FRAMES = 20
PARTITIONS = 3
ROADS = ("write", "format", "foreachPartition", "foreachBatch", "writer")
TEXTS = ("", "a", "\u00e9t\u00e9", "x" * 300, "\U0001f600", "line\nline", '{"a": 1}', "nul\0nul", " " * 5)
HEADERS = "array<struct<key:string,value:binary>>"
# What a row is, in the log: where where that is told, and its content.
Row = tuple[str, "int | None", "bytes | None", "bytes | None", "tuple[tuple[str, bytes | None], ...]"]


class Drawn:
    """A frame, and whether its rows name their topics."""

    def __init__(self, chance: random.Random) -> None:
        self.types = {"value": chance.choice(("string", "binary"))}
        for name, kinds in (("key", ("string", "binary")), ("partition", ("int",)), ("headers", (HEADERS,)),
                            ("topic", ("string",)), ("other", ("bigint", "string", "array<int>"))):
            if chance.random() < 0.5:
                self.types[name] = chance.choice(kinds)
        names = list(self.types)
        chance.shuffle(names)
        self.types = {name: self.types[name] for name in names}
        nulls = chance.choice((0.0, 0.1, 0.5))
        self.rows = [self._row(chance, names, nulls) for _ in range(chance.choice((0, 1, 5, 40, 200)))]
        self.task_count = chance.choice((1, 2, 5))

    @property
    def is_placed(self) -> bool:
        """Whether each row says where it goes: where its partition is null, its key is not."""
        return "partition" in self.types

    def _row(self, chance: random.Random, names: list[str], nulls: float) -> tuple[Any, ...]:
        row = {name: self._cell(chance, name, nulls) for name in names}
        if self.is_placed and row.get("key") is None and row["partition"] is None:
            row["partition"] = chance.randrange(PARTITIONS)
        return tuple(row.values())

    def _cell(self, chance: random.Random, name: str, nulls: float) -> Any:
        if name != "topic" and chance.random() < nulls:
            return None
        if name == "partition":
            return chance.randrange(PARTITIONS)
        if name == "topic":
            return chance.choice(("one", "two"))
        if name == "headers":
            return [(chance.choice(("h", "", "\u00e9")), chance.choice((None, b"", b"v"))) for _ in range(
                chance.choice((0, 1, 3)))]
        if name == "other":
            return {"bigint": 1, "string": "o", "array<int>": [1]}[self.types["other"]]
        text = chance.choice(TEXTS) + str(chance.randrange(50))
        return text if self.types[name] == "string" else bytearray(text.encode() + chance.choice((b"", b"\xff\x00")))

    def frame(self, spark: SparkSession, prefix: str) -> DataFrame:
        """As Spark has it, with topics that begin with `prefix`."""
        columns = ", ".join(f"{name} {kind}" for name, kind in self.types.items())
        topics = [name == "topic" for name in self.types]
        rows = [tuple(f"{prefix}-{cell}" if is_topic else cell for cell, is_topic in zip(row, topics, strict=True))
                for row in self.rows]
        return spark.createDataFrame(rows, columns).repartition(self.task_count)


def send(frame: DataFrame, road: str, props: dict[str, str], topic: str | None) -> None:
    if road == "kafka":
        to = frame.write.format("kafka").option("kafka.bootstrap.servers", props["bootstrap.servers"])
        (to if topic is None else to.option("topic", topic)).option("includeHeaders", "true").save()
    elif road == "format":
        (frame.write.format("pyproducer").mode("append").options(**props)
         .options(**{} if topic is None else {"topic": topic}).save())
    else:
        sink = KafkaSink(props, topic=topic)
        if road == "write":
            sink.write(frame)
        elif road == "foreachPartition":
            frame.foreachPartition(sink)
        elif road == "foreachBatch":
            sink.foreach_batch(frame, 1)
        else:
            frame.foreachPartition(through(sink.foreach_writer(frame.schema)))


def through(writer: Any) -> Any:
    """Return what does in a task of rows as `writeStream.foreach` does."""
    def task(rows: Any) -> None:
        writer.open(0, 0)
        for row in rows:
            writer.process(row)
        writer.close(None)

    return task


def stored(broker: EmbeddedBroker, prefix: str, *, is_placed: bool) -> Counter[Row]:
    """What is in the topics of a road; without where it is, but where its key or its row tells that."""
    rows: Counter[Row] = Counter()
    for topic in ("one", "two"):
        for record in read_topic(broker.bootstrap_servers, f"{prefix}-{topic}"):
            is_told = is_placed or record.key is not None
            rows[topic, record.partition if is_told else None, record.key, record.value, tuple(record.headers)] += 1
    return rows


def test_random_frames_when_each_road_takes_them_then_what_is_stored_is_what_sparks_own_sink_stores(
        spark: SparkSession, embedded: EmbeddedBroker, topic_name: str) -> None:
    spark_connector_jars()
    props = {"bootstrap.servers": embedded.bootstrap_servers}
    chance = random.Random(34)
    for block in range(BLOCKS):
        counts = {True: 0, False: 0}
        prefixes = {(road, is_placed): f"{topic_name}-{block}-{road}-{is_placed}"
                    for road in ("kafka", *ROADS) for is_placed in counts}
        for prefix in prefixes.values():
            for topic in ("one", "two"):
                embedded.create_topic(f"{prefix}-{topic}", PARTITIONS)
        for _ in range(ROUNDS):
            drawn = Drawn(chance)
            counts[drawn.is_placed] += len(drawn.rows)
            for road in ("kafka", *ROADS):
                prefix = prefixes[road, drawn.is_placed]
                send(drawn.frame(spark, prefix), road, props, None if "topic" in drawn.types else f"{prefix}-one")
        for is_placed, count in counts.items():
            theirs = stored(embedded, prefixes["kafka", is_placed], is_placed=is_placed)
            assert theirs.total() == count
            for road in ROADS:
                assert stored(embedded, prefixes[road, is_placed], is_placed=is_placed) == theirs, (block, road)


@pytest.mark.parametrize("road", ["foreach", "format"])
def test_random_frames_when_a_stream_has_them_then_every_row_is_stored(
        spark: SparkSession, embedded: EmbeddedBroker, topic_name: str, tmp_path: Path, road: str) -> None:
    if road == "format":
        pytest.importorskip("pyspark.sql.datasource")
    chance = random.Random(35)
    types = f"key string, value binary, partition int, headers {HEADERS}"
    expected: Counter[Any] = Counter()
    for number in range(STREAM_FRAMES):
        drawn = Drawn(chance)
        rows = []
        for place in range(len(drawn.rows)):
            row = (chance.choice((None, *TEXTS)), bytearray(b"%d %d" % (number, place)), place % PARTITIONS,
                   chance.choice((None, [], [("h", b"v"), ("h", None)])))
            rows.append(row)
            expected[None if row[0] is None else row[0].encode(), bytes(row[1]), row[2], tuple(row[3] or ())] += 1
        spark.createDataFrame(rows, types).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    embedded.create_topic(topic_name, PARTITIONS)
    props = {"bootstrap.servers": embedded.bootstrap_servers}
    stream = spark.readStream.schema(types).option("maxFilesPerTrigger", 3).parquet(str(tmp_path / "in"))
    to = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    if road == "foreach":
        query = to.foreach(KafkaSink(props, topic=topic_name).foreach_writer(stream.schema)).start()
    else:
        query = to.format("pyproducer").options(**props, topic=topic_name).start()
    assert query.awaitTermination(PROGRAM_S)
    assert Counter((record.key, record.value, record.partition, tuple(record.headers))
                   for record in read_topic(embedded.bootstrap_servers, topic_name)) == expected
