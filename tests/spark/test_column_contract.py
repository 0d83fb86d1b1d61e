"""The contract of Spark's own Kafka sink, case by case: what format("kafka") does, format("pyproducer") does.

Each case is told here. Spark's sink is asked beside ours where its jars are, so that the table is not only ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pyproducer.spark import KafkaSink
from tests.support.kafka_jars import MissingTool, spark_connector_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADERS = "array<struct<key:string,value:binary>>"
MUST_BE_BYTES = "must be a(n) string or binary"


class Case(NamedTuple):
    """One case.

    Attributes:
        name: For people.
        columns: Of the only row, as SQL; TOPIC stands for the case's topic.
        stored: partition, key, value, headers of what is stored then; None when it is refused.
        refusal: What the error says. What comes out of a task is a matter of each client's words: see `theirs`.
        theirs: What Spark's sink says where it is not the same.
        options: Of the write; `topic` is the case's topic unless it is given.
    """

    name: str
    columns: tuple[str, ...]
    stored: tuple[Any, ...] | None = None
    refusal: str = ""
    theirs: str = ""
    options: dict[str, str | None] = {}  # noqa: RUF012 - never changed


V = "'v' as value"
STORED = (0, None, b"v", ())
CASES = [
    Case("value string", (V,), STORED),
    Case("value binary", ("cast('v' as binary) as value",), STORED),
    Case("value null string", ("cast(null as string) as value",), (0, None, None, ())),
    Case("value null binary", ("cast(null as binary) as value",), (0, None, None, ())),
    Case("value empty", ("'' as value",), (0, None, b"", ())),
    Case("value int", ("7 as value",), None, f"value attribute unsupported type int. value {MUST_BE_BYTES}"),
    Case("value null int", ("cast(null as int) as value",), None,
         f"value attribute unsupported type int. value {MUST_BE_BYTES}"),
    Case("value void", ("null as value",), None, f"value attribute unsupported type void. value {MUST_BE_BYTES}"),
    Case("value struct", ("struct(1 as a) as value",), None,
         f"value attribute unsupported type struct<a:int>. value {MUST_BE_BYTES}"),
    Case("no value", ("'k' as key",), None, "Required attribute 'value' not found"),
    Case("VALUE", ("'v' as VALUE",), None, "Required attribute 'value' not found"),
    Case("key string", ("'k' as key", V), (2, b"k", b"v", ())),
    Case("key binary", ("cast('k' as binary) as key", V), (2, b"k", b"v", ())),
    Case("key null", ("cast(null as string) as key", V), STORED),
    Case("key int", ("7 as key", V), None, f"key attribute unsupported type int. key {MUST_BE_BYTES}"),
    Case("key void", ("null as key", V), None, f"key attribute unsupported type void. key {MUST_BE_BYTES}"),
    Case("KEY", ("'k' as KEY", V), STORED),
    Case("partition int", ("2 as partition", V), (2, None, b"v", ())),
    Case("partition null", ("cast(null as int) as partition", "'k' as key", V), (2, b"k", b"v", ())),
    Case("partition bigint", ("cast(2 as bigint) as partition", V), None,
         "partition attribute unsupported type bigint. partition must be a(n) int"),
    Case("partition string", ("'2' as partition", V), None,
         "partition attribute unsupported type string. partition must be a(n) int"),
    Case("partition below 0", ("-1 as partition", V), None, "-1 is out of range", "Invalid partition: -1"),
    Case("partition not there", ("99 as partition", V), None, "has no partition 99", "not present in metadata after",
         options={"kafka.max.block.ms": "3000"}),
    Case("headers", (f"cast(array(struct('h', 'x'), struct('h', null)) as {HEADERS}) as headers", V),
         (0, None, b"v", (("h", b"x"), ("h", None)))),
    Case("headers null", (f"cast(null as {HEADERS}) as headers", V), STORED),
    Case("headers empty", (f"cast(array() as {HEADERS}) as headers", V), STORED),
    Case("headers with includeHeaders=false", (f"cast(array(struct('h', 'x')) as {HEADERS}) as headers", V),
         (0, None, b"v", (("h", b"x"),)), options={"includeHeaders": "false"}),
    Case("headers with a null key", (f"cast(array(struct(null, 'x')) as {HEADERS}) as headers", V), None,
         "Null header keys are not permitted", "NullPointerException"),
    Case("headers of other names", ("cast(array(struct('h', 'x')) as array<struct<name:string,value:binary>>) as "
                                    "headers", V), None,
         f"headers attribute unsupported type array<struct<name:string,value:binary>>. headers must be a(n) {HEADERS}"),
    Case("headers KEY", ("cast(array(struct('h', 'x')) as array<struct<KEY:string,value:binary>>) as headers", V),
         (0, None, b"v", (("h", b"x"),))),
    Case("headers map", ("map('h', 'x') as headers", V), None,
         f"headers attribute unsupported type map<string,string>. headers must be a(n) {HEADERS}"),
    Case("headers of strings", ("array(struct('h' as key, 'x' as value)) as headers", V), None,
         f"headers attribute unsupported type array<struct<key:string,value:string>>. headers must be a(n) {HEADERS}"),
    Case("topic column", ("'TOPIC' as topic", V), STORED, options={"topic": None}),
    Case("topic option wins", ("'nowhere' as topic", V), STORED),
    Case("topic option is trimmed", (V,), STORED, options={"topic": " TOPIC "}),
    Case("no topic", (V,), None, "topic option required when no 'topic' attribute is present. Use the topic option for "
                                 "setting a topic.", options={"topic": None}),
    Case("topic null", ("cast(null as string) as topic", V), None, "null topic present in the data. Use the topic "
         "option for setting a default topic.", "null topic", options={"topic": None}),
    Case("topic binary", ("cast('TOPIC' as binary) as topic", V), None,
         "topic attribute unsupported type binary. topic must be a(n) string", options={"topic": None}),
    Case("other columns", ("1 as id", "current_timestamp() as timestamp", V), STORED),
    Case("key.serializer", (V,), None, "Kafka option 'key.serializer' is not supported as keys are serialized with "
         "ByteArraySerializer.", options={"kafka.key.serializer": "x"}),
]


def run(spark: SparkSession, cluster: Any, form: str, topic: str, case: Case) -> None:
    """Write the row of a case through a data source; what it refuses is raised.

    Ours only where options matter: else KafkaSink.write, the same code without the processes that Spark starts.
    """
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic, **case.options}
    frame = spark.range(1).selectExpr(*(column.replace("TOPIC", topic) for column in case.columns))
    if form == "pyproducer" and not case.options:
        KafkaSink({name: value for name, value in options.items() if name != "topic"}, topic).write(frame)
        return
    (frame.write.format(form).mode("append")
     .options(**{name: value.replace("TOPIC", topic) for name, value in options.items() if value is not None}).save())


def has_connector() -> bool:
    try:
        return bool(spark_connector_jars())
    except MissingTool:
        return False


# What differs from another case in a way that both clients are known to treat alike.
RARE = {"value binary", "value null binary", "value empty", "key binary", "key null", "headers empty"}


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=[pytest.mark.soak] * (case.name in RARE))
                                  for case in CASES])
def test_case_ends_as_with_sparks_own_sink(spark: SparkSession, embedded: Any, topic_name: str, case: Case) -> None:
    for form in ("pyproducer", *(["kafka"] if has_connector() else [])):
        topic = re.sub("[^a-z0-9-]", "", f"{topic_name}-{form}")
        embedded.create_topic(topic, 3)
        refusal = (case.theirs if form == "kafka" else "") or case.refusal
        ends_as(case, refusal, lambda form=form, topic=topic: run(spark, embedded, form, topic, case))
        # Without a key each client begins with a partition of its own choice.
        chooses = case.stored is not None and case.stored[1] is None and case.name != "partition int"
        found = [(0 if chooses else record.partition, record.key, record.value, tuple(record.headers))
                 for record in embedded.records(topic)]
        assert found == ([] if case.stored is None else [case.stored]), form


def ends_as(case: Case, refusal: str, write: Callable[[], None]) -> None:
    if case.stored is not None:
        write()
    else:
        with pytest.raises(Exception, match=re.escape(refusal)):
            write()


def test_the_table_has_all_cases() -> None:
    assert len(CASES) >= 35
    assert len({case.name for case in CASES}) == len(CASES)
