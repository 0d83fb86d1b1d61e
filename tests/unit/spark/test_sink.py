"""What a sink refuses on the driver, and what travels to the workers."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from pyproducer.common.errors import ConfigError, SerializationError
from pyproducer.producer.kafka_producer import KafkaProducer
from pyproducer.spark import ColumnError, KafkaSink, RowsFailedError, WriteNumbers, task_numbers
from pyproducer.spark import rows as rows_module
from pyproducer.spark import sink as sink_module
from pyproducer.spark.foreach_writer import ForeachWriter
from pyproducer.spark.pool import ProducerPool
from pyproducer.spark.task_numbers import TaskNumbers
from tests.support.secret_hunt import SecretHunt
from tests.unit.spark.doubles import FakeProducer, FakeRow, fake_schema

PROPS = {"bootstrap.servers": "127.0.0.1:9092", "linger.ms": 5}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeProducer]]:
    producers: list[FakeProducer] = []

    def make(props: Any) -> FakeProducer:
        producers.append(FakeProducer(props))
        return producers[-1]

    pool = ProducerPool(make)
    monkeypatch.setattr(sink_module, "WORKER_POOL", pool)
    yield producers
    pool.close()


def test_call_with_rows_sends_them_with_the_props(made: list[FakeProducer]) -> None:
    KafkaSink(PROPS, topic=" orders ")([FakeRow(value="a"), FakeRow(value=b"b")])
    assert [(record.topic, record.value) for record in made[0].records] == [("orders", b"a"), ("orders", b"b")]
    assert made[0].props == PROPS


def test_sink_when_another_thread_loads_the_producer_meanwhile_then_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is there before its class: AttributeError."""
    monkeypatch.setitem(sys.modules, "pyproducer.producer.kafka_producer", ModuleType("half loaded"))
    assert KafkaSink(PROPS, topic="orders").topic == "orders"


@pytest.mark.parametrize("wrong", [{"linger.ms": "x"}, {"transactional.id": "t"}, {"sasl.jaas.config": b"never-shown"}],
                         ids=str)
def test_sink_when_a_setting_is_wrong_then_error_and_its_frames_show_no_secret(wrong: dict[str, Any]) -> None:
    with SecretHunt("never-shown") as hunt, hunt.errors(ConfigError):
        KafkaSink({**PROPS, "ssl.key.password": "never-shown", **wrong})


def test_call_when_a_file_is_not_on_the_worker_then_error_and_its_frames_show_no_secret() -> None:
    sink = KafkaSink({**PROPS, "security.protocol": "SSL", "ssl.keystore.location": "/absent",
                      "ssl.keystore.type": "PEM", "ssl.key.password": "never-shown"}, topic="orders")
    with SecretHunt("never-shown") as hunt, hunt.errors(ConfigError):
        sink([FakeRow(value="a")])


def test_call_when_the_workers_producer_cannot_be_made_then_error_and_its_frames_show_no_secret(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def make(props: Any) -> FakeProducer:
        raise ConfigError("ssl.keystore.location", "/absent", "it is not on this worker")

    monkeypatch.setattr(sink_module, "WORKER_POOL", ProducerPool(make))
    sink = KafkaSink({**PROPS, "ssl.key.password": "never-shown"}, topic="orders")
    with SecretHunt("never-shown") as hunt, hunt.errors(ConfigError):
        sink([FakeRow(value="a")])


def test_call_without_rows_makes_no_producer(made: list[FakeProducer]) -> None:
    KafkaSink(PROPS, topic="orders")(iter([]))
    assert made == []


def test_call_when_columns_do_not_fit_makes_no_producer(made: list[FakeProducer]) -> None:
    with pytest.raises(ColumnError, match="Required attribute 'value' not found"):
        KafkaSink(PROPS, topic="orders")([FakeRow(key="a")])
    assert made == []


def test_call_twice_with_equal_plain_props_shares_the_producer(made: list[FakeProducer]) -> None:
    KafkaSink(PROPS, topic="a")([FakeRow(value="a")])
    pickle.loads(pickle.dumps(KafkaSink(dict(reversed(PROPS.items())), topic="b")))([FakeRow(value="a")])
    assert len(made) == 1


def test_call_gives_the_pool_its_size(made: list[FakeProducer]) -> None:
    for number in range(3):
        KafkaSink({**PROPS, "client.id": str(number), "pyproducer.pool.size": 2}, topic="a")([FakeRow(value="a")])
    assert [len(producer.close_timeouts) for producer in made] == [1, 0, 0]


def test_pickle_carries_settings_only() -> None:
    sink = KafkaSink(PROPS, topic="orders")
    sink.last_commit = WriteNumbers(())
    again = pickle.loads(pickle.dumps(sink))
    assert (again.props, again.topic, again.last_commit) == (PROPS, "orders", None)


def test_write_when_it_is_refused_then_the_numbers_are_not_those_of_the_write_before() -> None:
    sink = KafkaSink(PROPS, topic="orders")
    sink.last_commit = WriteNumbers(())
    frame: Any = SimpleNamespace(isStreaming=False, schema=fake_schema(value="int"))
    with pytest.raises(ColumnError):
        sink.write(frame)
    assert sink.last_commit is None


class FakeSession:
    """Of Connect: a session with some settings and without a SparkContext."""

    conf: ClassVar[dict[str, str]] = {}


class FakeFrame:
    """What a write asks of a DataFrame; it notes what is selected."""

    isStreaming = False

    def __init__(self, **types: str) -> None:
        self.schema = fake_schema(**types)
        self.columns = list(types)
        self.sparkSession = FakeSession()
        self.selected: list[str] = []

    def toDF(self, *_names: str) -> FakeFrame:
        return self

    def selectExpr(self, *expressions: str) -> FakeFrame:
        self.selected += expressions
        return self


@pytest.mark.parametrize("name", ["at", "event.time", "a`b", "VALUE", "c0"])
def test_write_when_the_column_of_timestamps_has_any_name_then_it_travels_by_a_plain_one(
        made: list[FakeProducer], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Spark read `event.time` as a field of a column `event`, and a backtick ended the name."""
    pyarrow = pytest.importorskip("pyarrow")

    def run(frame: FakeFrame, send: Callable[[Any], TaskNumbers]) -> list[TaskNumbers]:
        assert frame.selected == ["c1 as `timestamp`", "c2 as `value`"]
        return [pickle.loads(pickle.dumps(send))([pyarrow.record_batch(
            [pyarrow.array([7], pyarrow.timestamp("ms", "UTC")), pyarrow.array(["v"])], names=["timestamp", "value"])])]

    monkeypatch.setattr(sink_module, "_map_in_arrow", run)
    frame: Any = FakeFrame(**{"timestamp": "int", name: "timestamp", "value": "string"})
    sink = KafkaSink({**PROPS, "pyproducer.timestamp.column": name}, topic="orders")
    assert sink.write(frame).row_count == 1
    assert [record.timestamp for record in made[0].records] == [7]


@pytest.mark.parametrize("has_data_sources", [True, False])
def test_write_when_it_is_a_stream_then_what_this_spark_has_is_advised(monkeypatch: pytest.MonkeyPatch, *,
                                                                      has_data_sources: bool) -> None:
    """Spark 3.5 knows no format("pyproducer"), and its users were sent there."""
    monkeypatch.setitem(sys.modules, "pyspark", ModuleType("pyspark"))
    monkeypatch.setitem(sys.modules, "pyspark.sql", ModuleType("pyspark.sql"))
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource",
                        ModuleType("pyspark.sql.datasource") if has_data_sources else None)  # type: ignore[arg-type]
    frame: Any = SimpleNamespace(isStreaming=True)
    with pytest.raises(TypeError, match=r"foreachBatch\(sink\.foreach_batch\), or df\.writeStream\."
                       + (r"format\('pyproducer'\)" if has_data_sources else r"foreach\(sink\.foreach_writer")):
        KafkaSink(PROPS, topic="orders").write(frame)


def test_init_when_options_of_sparks_source_are_given_then_they_are_left_aside_as_for_the_format() -> None:
    assert KafkaSink({**PROPS, "includeHeaders": "true", "startingOffsets": "earliest"}, topic="orders").props == PROPS


@pytest.mark.parametrize("key", ["", "ID"])
def test_write_as_json_when_no_column_has_the_name_of_the_key_says_so(key: str) -> None:
    """An empty name, as of a setting that is not there, was a KeyError."""
    frame: Any = FakeFrame(id="int")
    with pytest.raises(ConfigError, match="the DataFrame has 0 columns of that name; there are id"):
        KafkaSink(PROPS, topic="orders").write(frame, key=key, value="json")


def test_write_when_two_threads_share_the_sink_then_each_gets_its_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One got the other's numbers, or None where the other had only begun."""
    one, other = FakeFrame(value="string"), FakeFrame(value="string")
    counts = {one: 1, other: 2}
    monkeypatch.setattr(sink_module, "_map_in_arrow", lambda frame, _send: [TaskNumbers(row_count=counts[frame])])
    sink = KafkaSink(PROPS, topic="orders")
    returned: dict[str, WriteNumbers] = {}
    lines: list[str] = []

    def write(name: str, frame: Any) -> None:
        returned[name] = sink.write(frame)

    def info(_form: str, numbers: WriteNumbers) -> None:
        lines.append(str(numbers))
        if len(lines) == 1:  # the other thread's whole write comes between the numbers of this one and its return
            thread = threading.Thread(target=write, args=("other", other))
            thread.start()
            thread.join()

    monkeypatch.setattr(sink_module.log, "info", info)
    write("one", one)
    assert {name: numbers.row_count for name, numbers in returned.items()} == {"one": 1, "other": 2}
    assert [line.split(" ", 1)[0] for line in lines] == ["1", "2"]


def test_call_with_a_single_row_sends_it_though_its_first_column_is_null(
        made: list[FakeProducer], caplog: pytest.LogCaptureFixture) -> None:
    """df.foreach(sink) gives single rows, which are tuples; a null in front was taken for an empty partition."""
    sink_module._say_slow_once.cache_clear()
    sink = KafkaSink(PROPS, topic="orders")
    for number in range(2):
        sink(FakeRow(key=None, value=str(number)))
        assert made[0].flush_count == number + 1
    assert [(record.key, record.value) for record in made[0].records] == [(None, b"0"), (None, b"1")]
    assert caplog.text.count("use sink.write(df), df.foreachPartition(sink)") == 1


def test_call_when_the_first_element_is_none_does_not_take_the_partition_for_empty(made: list[FakeProducer]) -> None:
    with pytest.raises(ColumnError, match="got NoneType"):
        KafkaSink(PROPS, topic="orders")([None])


def test_init_with_a_schema_checks_it(made: list[FakeProducer]) -> None:
    KafkaSink(PROPS, topic="orders", schema=fake_schema(value="string"))  # type: ignore[arg-type]  # needs no pyspark
    with pytest.raises(ColumnError, match="value attribute unsupported type int"):
        KafkaSink(PROPS, topic="orders", schema=fake_schema(value="int"))  # type: ignore[arg-type]


@pytest.mark.parametrize("made_by", ["schema", "settings"])
def test_call_when_the_schema_was_checked_sends_nulls_as_they_come(made: list[FakeProducer], made_by: str) -> None:
    """docs/spark.md says that they wait for nothing, and 10,000 of them waited; so did those of a data source."""
    sink = KafkaSink(PROPS, topic="orders", schema=fake_schema(key="string", value="string"))  # type: ignore[arg-type]
    if made_by == "settings":  # as the data source does, which has checked the schema
        sink = KafkaSink.with_settings(sink._settings)

    def rows() -> Iterator[FakeRow]:
        for number in range(3):
            assert number == (len(made[0].records) if made else 0)
            yield FakeRow(key=None, value=None)

    pickle.loads(pickle.dumps(sink))(rows())
    assert len(made[0].records) == 3


def test_foreach_writer_sends_while_rows_come_and_close_waits_for_all(made: list[FakeProducer]) -> None:
    writer = pickle.loads(pickle.dumps(KafkaSink(PROPS, topic="orders").foreach_writer()))
    assert not callable(writer)  # Spark would call it for each row
    for epoch in range(2):
        assert writer.open(0, epoch)
        writer.process(FakeRow(key=None, value="a"))
        writer.process(FakeRow(key="k", value="b"))
        assert made[0].flush_count == epoch
        writer.close(None)
    assert [record.value for record in made[0].records] == [b"a", b"b"] * 2
    assert (len(made), made[0].flush_count, made[0].close_timeouts) == (1, 2, [])


def test_foreach_writer_without_rows_makes_no_producer(made: list[FakeProducer]) -> None:
    writer = KafkaSink(PROPS, topic="orders").foreach_writer()
    writer.open(0, 0)
    writer.close(None)
    assert made == []


def test_foreach_writer_when_a_row_fails_raises_and_gives_the_producer_up(made: list[FakeProducer]) -> None:
    writer = KafkaSink(PROPS).foreach_writer()
    writer.open(0, 0)
    writer.process(FakeRow(topic="orders", value="a"))
    with pytest.raises(RowsFailedError, match="1 of 2 rows sent were not stored, and what follows them in the "
                                              "partition was not sent; the first failure: ColumnError") as caught:
        writer.process(FakeRow(topic=None, value="b"))
    writer.close(caught.value)
    assert len(made[0].close_timeouts) == 1


def test_foreach_writer_when_a_held_row_cannot_be_sent_sends_none_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was held went out behind it, and each of these rows is stored again by the next attempt."""
    producer = FakeProducer(raise_when=lambda record: SerializationError("bad") if record.key == b"1" else None)
    monkeypatch.setattr(sink_module, "WORKER_POOL", ProducerPool(lambda _props: producer))
    writer = KafkaSink(PROPS, topic="orders").foreach_writer()
    writer.open(0, 0)
    for number in range(4):
        writer.process(FakeRow(key=str(number), value=None))
    with pytest.raises(RowsFailedError, match="1 of 2 rows sent were not stored, and what follows them in the "
                                              "partition was not sent") as caught:
        writer.process(FakeRow(key="4", value="v"))
    writer.close(caught.value)
    assert [record.key for record in producer.records] == [b"0"]


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("road", ["foreachPartition", "foreach_writer", "foreach_writer, rows held"])
def test_rows_of_a_long_task_are_told_now_and_then(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
                                                   road: str) -> None:
    """Of a foreach_writer(), whose task lasts minutes in real-time mode, there was no line at all."""
    monkeypatch.setattr(rows_module, "_ROWS_PER_TICK", 3)
    monkeypatch.setattr(task_numbers, "PROGRESS_MS", 0)
    sink = KafkaSink(PROPS, topic="orders")
    rows = [FakeRow(value=None if road.endswith("held") else "v") for _ in range(7)]
    with caplog.at_level(logging.INFO, "pyproducer.spark"):
        if road == "foreachPartition":
            sink(rows)
        else:
            as_spark(sink.foreach_writer(), iter(rows))
    told = [record.getMessage().split(": ", 1)[1] for record in caplog.records if "handed over in" in record.msg]
    assert [line.split(" in ", 1)[0] for line in told] == ["3 rows handed over", "6 rows handed over"]


def test_foreach_writer_when_an_answer_never_comes_raises_at_close(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = FakeProducer(forgets_answers=True)
    monkeypatch.setattr(sink_module, "WORKER_POOL", ProducerPool(lambda _props: producer))
    writer = KafkaSink(PROPS, topic="orders").foreach_writer()
    writer.open(0, 0)
    writer.process(FakeRow(value="a"))
    with pytest.raises(RowsFailedError, match=r"no answer came before flush\(\) returned"):
        writer.close(None)
    assert len(producer.close_timeouts) == 1


def test_foreach_writer_when_the_query_fails_flushes_and_leaves_its_error_alone(made: list[FakeProducer]) -> None:
    writer = KafkaSink(PROPS, topic="orders").foreach_writer()
    writer.open(0, 0)
    writer.process(FakeRow(value="a"))
    writer.close(ArithmeticError("in the query"))
    assert (made[0].flush_count, len(made[0].close_timeouts)) == (1, 1)


def test_foreach_writer_when_nulls_come_before_a_value_of_the_wrong_type_sends_no_tombstone(
        made: list[FakeProducer]) -> None:
    """Each null was stored before the first int failed the task: on a compacted topic it deletes its key."""
    writer = KafkaSink(PROPS, topic="orders").foreach_writer()
    writer.open(0, 0)
    for number in range(5):
        writer.process(FakeRow(key=str(number), value=None))
    with pytest.raises(RowsFailedError, match=r"value attribute unsupported type int\..* no rows are known to be in "
                                              "the log") as caught:
        writer.process(FakeRow(key="5", value=7))
    writer.close(caught.value)
    assert made[0].records == []


def test_foreach_writer_when_a_value_shows_its_type_sends_what_was_held_in_order(made: list[FakeProducer]) -> None:
    writer = KafkaSink(PROPS, topic="orders").foreach_writer()
    writer.open(0, 0)
    for number in range(2):
        writer.process(FakeRow(key=str(number), value=None))
    assert made[0].records == []
    writer.process(FakeRow(key="2", value="v"))
    writer.process(FakeRow(key="3", value=None))
    assert [record.key for record in made[0].records] == [b"0", b"1", b"2", b"3"]
    writer.close(None)


def test_foreach_writer_when_all_values_are_null_sends_them_at_the_end(made: list[FakeProducer]) -> None:
    writer = KafkaSink(PROPS, topic="orders").foreach_writer()
    writer.open(0, 0)
    writer.process(FakeRow(key="a", value=None))
    writer.close(None)
    assert [(record.key, record.value) for record in made[0].records] == [(b"a", None)]


def test_foreach_writer_when_the_query_fails_sends_nothing_of_what_it_holds(made: list[FakeProducer]) -> None:
    writer = KafkaSink(PROPS, topic="orders").foreach_writer()
    writer.open(0, 0)
    writer.process(FakeRow(key="a", value=None))
    writer.close(ArithmeticError("in the query"))
    assert made[0].records == []


def as_spark(writer: ForeachWriter, rows: Iterator[FakeRow]) -> None:
    """Run a task as DataStreamWriter._construct_foreach_function does (4.3)."""
    writer.open(0, 0)
    error = None
    try:
        for row in rows:
            writer.process(row)
    except Exception as raised:
        error = raised
    finally:
        writer.close(error)


def test_foreach_writer_when_a_task_is_interrupted_sends_nothing_of_what_it_holds(made: list[FakeProducer]) -> None:
    """Spark calls close(None) for what is no Exception: held rows were sent as tombstones by a task that failed."""
    def interrupted() -> Iterator[FakeRow]:
        yield FakeRow(key="a", value=None)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        as_spark(KafkaSink(PROPS, topic="orders").foreach_writer(), interrupted())
    assert (made[0].records, len(made[0].close_timeouts)) == ([], 1)


def test_foreach_writer_when_a_partitioner_exits_keeps_that_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same close(None) told of an answer that never came, in the place of what had happened."""
    producer = FakeProducer(raise_when=lambda record: SystemExit(3) if record.value == b"b" else None)
    monkeypatch.setattr(sink_module, "WORKER_POOL", ProducerPool(lambda _props: producer))
    sink = KafkaSink(PROPS, topic="orders")
    with pytest.raises(SystemExit):
        as_spark(sink.foreach_writer(), iter([FakeRow(value="a"), FakeRow(value="b")]))
    assert (producer.flush_count, len(producer.close_timeouts), sink.delivered.task_count) == (1, 1, 0)


def test_foreach_writer_when_it_is_closed_while_an_exception_is_handled_looks_at_its_answers_all_the_same(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wraps the writer may close it in an except block: close(None) says that all is well, and is to be checked."""
    producer = FakeProducer(forgets_answers=True)
    monkeypatch.setattr(sink_module, "WORKER_POOL", ProducerPool(lambda _props: producer))
    writer = KafkaSink(PROPS, topic="orders").foreach_writer()
    writer.open(0, 0)
    writer.process(FakeRow(value="a"))
    try:
        raise ArithmeticError
    except ArithmeticError:
        with pytest.raises(RowsFailedError):
            writer.close(None)


def test_foreach_writer_does_not_wait_for_the_type_of_a_key(made: list[FakeProducer]) -> None:
    """A null key deletes nothing, and in real-time mode a row that waits is late."""
    writer = KafkaSink(PROPS, topic="orders").foreach_writer()
    writer.open(0, 0)
    writer.process(FakeRow(key=None, value="v"))
    assert len(made[0].records) == 1
    writer.close(None)


@pytest.mark.parametrize("where", ["sink", "writer"])
def test_foreach_writer_with_a_schema_checks_it_on_the_driver_and_sends_nulls_as_they_come(
        made: list[FakeProducer], where: str) -> None:
    def writer_of(schema: Any) -> Any:
        if where == "writer":
            return KafkaSink(PROPS, topic="orders").foreach_writer(schema)
        return KafkaSink(PROPS, topic="orders", schema=schema).foreach_writer()

    with pytest.raises(ColumnError, match="value attribute unsupported type int"):
        writer_of(fake_schema(key="string", value="int"))
    writer = pickle.loads(pickle.dumps(writer_of(fake_schema(key="string", value="string"))))
    writer.open(0, 0)
    writer.process(FakeRow(key="a", value=None))
    assert len(made[0].records) == 1
    writer.close(None)


@pytest.mark.usefixtures("made")
def test_rows_that_come_slowly_are_told_now_and_then(monkeypatch: pytest.MonkeyPatch,
                                                     caplog: pytest.LogCaptureFixture) -> None:
    """The clock was looked at after each 4096 rows: with ten rows a second there was a line in seven minutes."""
    monkeypatch.setattr(task_numbers, "PROGRESS_MS", 0)
    with caplog.at_level(logging.INFO, "pyproducer.spark"):
        KafkaSink(PROPS, topic="orders")(FakeRow(value="v") for _ in range(300))  # half a minute's
    assert any("rows handed over in" in record.msg for record in caplog.records)


@pytest.mark.parametrize(("key", "sentence"), [
    ("key.serializer", "keys are serialized with ByteArraySerializer"),
    ("value.serializer", "values are serialized with ByteArraySerializer"),
    ("transactional.id", "delivers at least once")])
def test_init_with_a_setting_a_sink_cannot_take_refuses_it(key: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        KafkaSink({**PROPS, key: "string"})


def test_init_with_a_wrong_setting_fails_on_the_driver() -> None:
    with pytest.raises(ConfigError, match=r"linger\.ms"):
        KafkaSink({**PROPS, "linger.msec": 5})
    with pytest.raises(ConfigError, match="topic"):
        KafkaSink(PROPS, topic=" ")


@pytest.mark.parametrize("topic", [5, b"orders", ["orders"]], ids=str)
def test_init_with_a_topic_that_is_no_text_says_so_on_the_driver(topic: Any) -> None:
    """Bytes passed, and each attempt of each task failed."""
    with pytest.raises(ConfigError, match=r"topic: .*must be a str, got "):
        KafkaSink(PROPS, topic=topic)


@pytest.mark.parametrize("schema", ["value string", [("value", "string")]], ids=str)
def test_a_schema_that_is_none_says_what_to_pass(schema: Any) -> None:
    with pytest.raises(TypeError, match=r"pass df\.schema, a StructType, got "):
        KafkaSink(PROPS, topic="orders", schema=schema)
    with pytest.raises(TypeError, match=r"pass df\.schema, a StructType, got "):
        KafkaSink(PROPS, topic="orders").foreach_writer(schema)


def test_init_with_a_producer_says_that_workers_build_their_own() -> None:
    with KafkaProducer(PROPS) as producer:
        with pytest.raises(TypeError, match="each Spark worker process builds its own producer"):
            KafkaSink(producer)  # type: ignore[arg-type]  # the mistake under test
        with pytest.raises(TypeError, match=r"'client\.id' holds a producer"):
            KafkaSink({**PROPS, "client.id": producer})


def test_repr_shows_no_secret() -> None:
    sink = KafkaSink({**PROPS, "ssl.key.password": "hidden"}, topic="orders")
    assert repr(sink) == "KafkaSink(bootstrap.servers='127.0.0.1:9092', topic='orders')"


def test_import_of_the_sink_loads_nothing_of_the_drivers_commands() -> None:
    """Each worker process loads the sink; that packing came along cost it tens of milliseconds."""
    said = subprocess.run([sys.executable, "-c", "import sys, pyproducer.spark; "
                           "print(*{'tarfile', 'importlib.metadata', 'pyproducer.spark.packing', 'click'} "
                           "& {*sys.modules})"], check=True, capture_output=True, text=True).stdout
    assert said.split() == []
