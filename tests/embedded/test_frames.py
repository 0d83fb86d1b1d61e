"""frames.write: rows of frames in a topic, read back."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from pyproducer import ConfigError, DeliveryFailedError, KafkaProducer, SerializationError
from pyproducer.aio import AsyncKafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.spark import ColumnError, RowsFailedError
from pyproducer.testing import read_topic

pyarrow = pytest.importorskip("pyarrow")

from pyproducer import frames  # noqa: E402 - pyarrow may not be there


class Frame:
    """Any library's frame: nothing but the stream."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def rows_of(broker: EmbeddedBroker, topic: str) -> list[Any]:
    return sorted(read_topic(broker.bootstrap_servers, topic), key=lambda record: (record.partition, record.offset))


@pytest.fixture
def broker() -> Any:
    with EmbeddedBroker() as started:
        started.create_topic("orders", 3)
        started.create_topic("audit", 1)
        yield started


def test_rows_become_objects_by_default_with_a_key_of_any_type(broker: EmbeddedBroker) -> None:
    rows = [{"id": row, "name": f"n{row}" if row % 3 else None, "price": row / 8} for row in range(200_000)]
    table = pyarrow.Table.from_pylist(rows)
    told = frames.write({"bootstrap.servers": broker.bootstrap_servers}, Frame(table), "orders", key="id")
    assert told.row_count == len(rows)
    found = rows_of(broker, "orders")
    assert sorted((json.loads(record.value) for record in found), key=lambda row: row["id"]) == rows
    assert all(record.key == str(json.loads(record.value)["id"]).encode() for record in found)
    places = [(record.partition, int(record.key)) for record in found]
    assert places == sorted(places), "rows of a partition are in the frame's order"


def test_columns_as_they_are_with_headers_and_partitions_by_a_producer_that_stays_open(broker: EmbeddedBroker) -> None:
    table = pyarrow.table({
        "payload": [b"one", None], "k": ["a", None], "part": pyarrow.array([2, None], pyarrow.int32()),
        "h": pyarrow.array([[{"key": "source", "value": b"shop"}], None],
                           pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])))})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        frames.write(producer, table, "orders", key="k", value="payload", headers="h", partition="part")
        producer.send("orders", b"still open", partition=0).result()
    found = {record.value: record for record in rows_of(broker, "orders")}
    assert set(found) == {b"one", None, b"still open"}
    assert (found[b"one"].key, found[b"one"].partition) == (b"a", 2)
    assert [(header.key, header.value) for header in found[b"one"].headers] == [("source", b"shop")]


def test_objects_of_some_columns_in_their_order(broker: EmbeddedBroker) -> None:
    table = pyarrow.table({"a": [1], "b": ["x"], "c": [None]})
    frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, "orders", value=["c", "a"])
    assert [record.value for record in rows_of(broker, "orders")] == [b'{"c":null,"a":1}']


def test_the_index_of_pandas_that_has_no_name_is_no_column_unless_it_is_named(broker: EmbeddedBroker) -> None:
    """pandas gives it as one where rows were filtered or put together: each object had "__index_level_0__"."""
    table = pyarrow.table({"a": [1], "__index_level_0__": [7], "__index_level_10__": [8]})
    of_pandas = table.replace_schema_metadata({"pandas": "{}"})
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    frames.write(settings, of_pandas, "audit", key="__index_level_0__")
    frames.write(settings, of_pandas, "audit", value=lambda row: repr(row).encode())
    frames.write(settings, of_pandas, "audit", value=["a", "__index_level_0__"])
    frames.write(settings, table, "audit")
    assert [(record.key, record.value) for record in rows_of(broker, "audit")] == [
        (b"7", b'{"a":1}'), (None, b"{'a': 1}"), (None, b'{"a":1,"__index_level_0__":7}'),
        (None, b'{"a":1,"__index_level_0__":7,"__index_level_10__":8}')]


@pytest.mark.parametrize(("given", "error", "says"), [
    ({"key": "idd"}, ConfigError, "idd.*the frame has 0 columns of that name; there are id, blob"),
    ({}, TypeError, "column 'blob' is binary, which is no JSON"),
    ({"value": "id"}, TypeError, r"column 'id' is int64: .* write value=\['id'\]"),
    ({"value": ["id"], "partition": "blob"}, TypeError, "column 'blob' is binary: partitions are int32 or int64"),
    ({"value": ["id"], "headers": "id"}, TypeError, "column 'id' is int64: headers are list<struct<key"),
    ({"value": ["id", "id"]}, ConfigError, "a column is named twice"),
    ({"value": None}, TypeError, 'value must be "json", the name of a column, names of columns or a serializer'),
    ({"value": ["id"], "timestamp": "blob"}, TypeError, "column 'blob' is binary: timestamps are of Arrow's timestamp"),
    ({"value": lambda one, two: b""}, ConfigError, "a serializer takes"),
    ({"value": []}, ConfigError, "no column is left"),
    *[({"value": ["id"], role: given}, TypeError, f"^{role} must be the name of one column, or None, got {shown}")
      for role in ("key", "headers", "partition", "timestamp") for given, shown in ((["id"], r"\['id'\]"), (0, "0"))],
    ({"value": ["id", "id2"]}, ConfigError, "id2"),
])
def test_what_cannot_be_written_is_told_before_anything_is_sent(
        given: dict[str, Any], error: type[Exception], says: str, broker: EmbeddedBroker) -> None:
    table = pyarrow.table({"id": [1, 2], "blob": [b"1", b"2"]})
    with pytest.raises(error, match=says):
        frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, "orders", **given)
    assert rows_of(broker, "orders") == []


def test_what_is_no_frame_is_told(broker: EmbeddedBroker) -> None:
    table = pyarrow.table({"id": [1]})
    with pytest.raises(TypeError, match=r"topic must be a str, got None"):
        frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, None)  # type: ignore[arg-type]  # on purpose
    for producer in (AsyncKafkaProducer, "broker:9092", None):
        with pytest.raises(TypeError, match=r"rows are written by a KafkaProducer, or by one that is made of settings"):
            frames.write(producer, table, "orders")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError, match=r"a frame has __arrow_c_stream__ .*, and list has not"):
        frames.write({"bootstrap.servers": broker.bootstrap_servers}, [{"id": 1}], "orders")
    with pytest.raises(TypeError, match=r"and LazyFrame has not: call its collect\(\)"):
        frames.write({"bootstrap.servers": broker.bootstrap_servers},
                     type("LazyFrame", (), {"collect": lambda self: table})(), "orders")


def test_one_column_is_no_frame(broker: EmbeddedBroker) -> None:
    """It was an ArrowInvalid; a Series has the stream, too, of pandas and of polars."""
    with pytest.raises(TypeError, match=r"a frame has columns .*, and this ChunkedArray has not: .*int64"):
        frames.write({"bootstrap.servers": broker.bootstrap_servers}, pyarrow.chunked_array([[1, 2]]), "orders")


def test_what_is_no_json_is_told_of_a_frame_without_rows_too(broker: EmbeddedBroker) -> None:
    """A job went well as long as there was nothing to send."""
    kind = pyarrow.schema([("id", pyarrow.int64()), ("blob", pyarrow.binary())])
    for rows in ([], [pyarrow.record_batch([[], []], kind)]):
        with pytest.raises(TypeError, match="column 'blob' is binary, which is no JSON"):
            frames.write({"bootstrap.servers": broker.bootstrap_servers},
                         pyarrow.RecordBatchReader.from_batches(kind, rows), "orders")
        told = frames.write({"bootstrap.servers": broker.bootstrap_servers},
                            pyarrow.RecordBatchReader.from_batches(kind, rows), "orders", value=["id"], key="blob")
        assert told.row_count == 0


def test_what_is_no_serializer_is_told_by_the_name_of_the_argument(broker: EmbeddedBroker) -> None:
    class OfSchema:
        def __init__(self, schema: str) -> None:
            self.schema = schema

        def __call__(self, row: object) -> bytes:
            return self.schema.encode()

    with pytest.raises(ConfigError, match=r"for configuration value: OfSchema\(\) failed") as caught:
        frames.write({"bootstrap.servers": broker.bootstrap_servers}, pyarrow.table({"id": [1]}), "orders",
                     value=OfSchema)
    assert caught.value.key == "value"


def test_rows_are_given_to_a_serializer_which_may_add_headers(broker: EmbeddedBroker) -> None:
    fastavro = pytest.importorskip("fastavro")
    schema = fastavro.parse_schema({"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}]})

    def avro(topic: str, headers: Any, row: dict[str, Any]) -> bytes | None:
        if row["name"] == "gone":
            return None
        headers.append(("schema", topic.encode()))
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        return out.getvalue()

    pair = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    table = pyarrow.table({
        "id": [1, 2, 3], "name": ["a", None, "gone"], "part": [0, 0, 0],
        "h": pyarrow.array([[{"key": "source", "value": b"shop"}], None, None], pyarrow.list_(pair)),
        "at": pyarrow.array([1_700_000_000_123, None, 5], pyarrow.timestamp("ms"))})
    told = frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, "orders", key="id", value=avro,
                        headers="h", partition="part", timestamp="at")
    assert told.row_count == 3
    found = rows_of(broker, "orders")
    assert [None if record.value is None else fastavro.schemaless_reader(io.BytesIO(record.value), schema, schema)
            for record in found] == [{"id": 1, "name": "a"}, {"id": 2, "name": None}, None]
    assert [record.key for record in found] == [b"1", b"2", b"3"]
    assert [list(record.headers) for record in found] == [
        [("source", b"shop"), ("schema", b"orders")], [("schema", b"orders")], []]
    assert (found[0].timestamp, found[2].timestamp) == (1_700_000_000_123, 5)
    assert found[1].timestamp > 1_700_000_000_123


@pytest.mark.parametrize("with_headers", [{5}, {70_000}, {5, 70_000}])
def test_headers_that_a_serializer_adds_to_some_rows_only_are_kept(
        with_headers: set[int], broker: EmbeddedBroker) -> None:
    """All headers were left out where the first piece had none; the other way round the write ended half way."""
    def marked(topic: str, headers: Any, row: dict[str, Any]) -> bytes:
        if row["id"] in with_headers:
            headers.append(("marked", topic.encode()))
        return b"%d" % row["id"]

    table = pyarrow.table({"id": pyarrow.array(range(70_001))})
    told = frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, "audit", value=marked)
    assert told.row_count == 70_001
    assert {int(record.value or b""): list(record.headers) for record in rows_of(broker, "audit")
            if record.headers} == {row: [("marked", b"audit")] for row in with_headers}


def test_headers_that_a_serializer_takes_away_from_all_rows_are_not_sent(broker: EmbeddedBroker) -> None:
    def bare(topic: str, headers: Any, row: dict[str, Any]) -> bytes:
        headers.clear()
        return b"%d" % row["id"]

    kind = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
    table = pyarrow.table({"id": [1, 2], "h": pyarrow.array([[{"key": "source", "value": b"shop"}], None], kind)})
    frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, "audit", value=bare, headers="h")
    assert [(record.value, list(record.headers)) for record in rows_of(broker, "audit")] == [(b"1", []), (b"2", [])]


@pytest.mark.parametrize("pair", [None, {"key": None, "value": b""}])
@pytest.mark.parametrize("with_serializer", [False, True])
def test_headers_without_a_key_are_refused_on_both_roads(
        pair: dict[str, Any] | None, with_serializer: bool, broker: EmbeddedBroker) -> None:
    kind = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
    table = pyarrow.table({"id": ["1", "2"], "h": pyarrow.array([[{"key": "a", "value": b"1"}], [pair]], kind)})
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    if with_serializer:
        with pytest.raises(ColumnError, match=r"Row 1: Null header keys are not permitted"):
            frames.write(settings, table, "audit", value=lambda row: b"x", headers="h")
    else:
        with pytest.raises(RowsFailedError, match=r"ColumnError: Null header keys are not permitted"):
            frames.write(settings, table, "audit", value="id", headers="h")
    assert rows_of(broker, "audit") == []


def test_headers_of_text_are_bytes_for_a_serializer(broker: EmbeddedBroker) -> None:
    seen: list[Any] = []

    def serializer(topic: str, headers: Any, row: dict[str, Any]) -> bytes:
        seen.extend(headers)
        return b"x"

    key = pyarrow.dictionary(pyarrow.int8(), pyarrow.string())
    kind = pyarrow.list_(pyarrow.struct([("key", key), ("value", pyarrow.string())]))
    table = pyarrow.table({"id": [1], "h": pyarrow.array([[{"key": "a", "value": "text"}]], kind)})
    frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, "audit", value=serializer, headers="h")
    assert seen == [("a", b"text")]
    (record,) = rows_of(broker, "audit")
    assert list(record.headers) == [("a", b"text")]


@pytest.mark.parametrize("header", [("a", 1), (None, b""), "abc", ("\ud800", b"")])
def test_headers_that_are_none_are_told_with_the_row_whose_serializer_left_them(
        header: Any, broker: EmbeddedBroker) -> None:
    def serializer(topic: str, headers: Any, row: dict[str, Any]) -> bytes:
        headers.extend([header] * (row["id"] == 2))
        return b"x"

    with pytest.raises(SerializationError, match=r"failed on row 1 for topic 'audit': .*header"):
        frames.write({"bootstrap.servers": broker.bootstrap_servers}, pyarrow.table({"id": [1, 2]}), "audit",
                     value=serializer)
    assert rows_of(broker, "audit") == []


def test_headers_that_arrow_cannot_make_text_of_are_refused_before_anything_is_sent(broker: EmbeddedBroker) -> None:
    views = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0], pyarrow.uint32()),
                                                pyarrow.array(["a"], pyarrow.string_view()))
    for key in (views, pyarrow.RunEndEncodedArray.from_arrays([1], ["a"])):
        pairs = pyarrow.StructArray.from_arrays([key, pyarrow.array([b"1"])], ["key", "value"])
        table = pyarrow.table({"v": ["x"], "h": pyarrow.ListArray.from_arrays(pyarrow.array([0, 1], pyarrow.int32()),
                                                                              pairs)})
        with pytest.raises(TypeError, match=r"column 'h' is list<.*: headers are list<struct<key: string"):
            frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, "audit", value="v", headers="h")
    assert rows_of(broker, "audit") == []


def test_maps_are_dicts_for_a_serializer_wherever_they_stand(broker: EmbeddedBroker) -> None:
    """They were lists of pairs, of which Avro makes no map and JSON no object; by columns they are objects."""
    kind = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    deep = pyarrow.map_(pyarrow.string(), pyarrow.list_(pyarrow.struct([("m", kind), ("n", pyarrow.int8())])))
    rows = [{"m": [("x", 1), ("y", None)], "d": [("z", [{"m": [("x", 1)], "n": 2}, None]), ("w", None)],
             "f": [[], None], "s": [({"x": 1}, 2)]},
            {"m": None, "d": [], "f": None, "s": None}]
    table = pyarrow.Table.from_pylist(rows, pyarrow.schema([
        ("m", kind), ("d", deep), ("f", pyarrow.list_(kind, 2)),
        ("s", pyarrow.map_(pyarrow.struct([("x", pyarrow.int8())]), pyarrow.int8()))]))
    seen: list[Any] = []

    def serializer(row: dict[str, Any]) -> bytes:
        seen.append(row)
        return json.dumps(row, separators=(",", ":")).encode()

    settings = {"bootstrap.servers": broker.bootstrap_servers}
    frames.write(settings, table.drop_columns(["s"]), "audit", value=serializer)
    assert seen == [{"m": {"x": 1, "y": None}, "d": {"z": [{"m": {"x": 1}, "n": 2}, None], "w": None}, "f": [{}, None]},
                    {"m": None, "d": {}, "f": None}]
    frames.write(settings, table.drop_columns(["s"]), "audit")
    values = [record.value for record in rows_of(broker, "audit")]
    assert values[:2] == values[2:]
    frames.write(settings, table.select(["s"]), "audit", value=serializer)
    assert seen[2:] == [{"s": [({"x": 1}, 2)]}, {"s": None}]  # nothing that can be a key of a dict


def test_rows_that_a_serializer_refuses_are_told_with_their_number(broker: EmbeddedBroker) -> None:
    table = pyarrow.table({"id": [1, 2]})
    for serializer, says in ((lambda row: b"%d" % (1 // (2 - row["id"])), "failed on row 1 for topic 'audit'"),
                             (lambda row: "text", "failed on row 0 for topic 'audit': it gave a str")):
        with pytest.raises(SerializationError, match=says):
            frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, "audit", value=serializer)
    assert rows_of(broker, "audit") == []


def test_rows_that_are_not_stored_are_told_without_a_word_of_sparks(broker: EmbeddedBroker) -> None:
    table = pyarrow.table({"v": ["a", "x" * 10_000, "b"], "p": pyarrow.array([0, 0, 0], pyarrow.int32())})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "max.request.size": 5_000}) as producer:
        frames.write(producer, table.slice(0, 1), "orders", value="v", partition="p")
        with pytest.raises(RowsFailedError, match=r"3 of 3 rows sent were not stored.*Of them no rows are known"):
            frames.write(producer, table, "orders", value="v", partition="p")
    assert [record.value for record in rows_of(broker, "orders")] == [b"a"]


@pytest.mark.parametrize("value", [["id"], lambda row: b"x"])
def test_a_headers_key_that_is_no_utf_8_is_told_with_its_column(value: Any, broker: EmbeddedBroker) -> None:
    kind = pyarrow.list_(pyarrow.struct([("key", pyarrow.binary()), ("value", pyarrow.binary())]))
    table = pyarrow.table({"id": [1], "h": pyarrow.array([[{"key": b"\xff", "value": b""}]], kind)})
    with pytest.raises(ValueError, match=r"column 'h' has a header's key that is no UTF-8, as Kafka wants it"):
        frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, "audit", value=value, headers="h")
    assert rows_of(broker, "audit") == []


@pytest.mark.parametrize("settings", [{}, {"partitioner.class": "RoundRobinPartitioner"}])
@pytest.mark.parametrize(("change", "says"), [
    ({"v": b"x" * 10_000}, "RecordTooLargeError: Row 66000: The record for topic 'orders' takes"),
    ({"t": 1_700_000_000}, "ValueError: timestamps, row 66000: "),
    ({"p": -1}, "ValueError: partitions, row 66000: -1 is out of range"),
])
def test_the_row_that_is_told_is_the_frames(
        settings: dict[str, str], change: dict[str, Any], says: str, broker: EmbeddedBroker) -> None:
    """It was counted from the first row of the piece: by columns, and row by row for a partitioner that needs rows."""
    count = 66_011
    columns: dict[str, list[Any]] = {"v": [b"x" * 100] * count, "t": [None] * count, "p": [0] * count}
    for name, item in change.items():
        columns[name][66_000] = item
    table = pyarrow.table({"v": columns["v"], "t": pyarrow.array(columns["t"], pyarrow.int64()), "p": columns["p"]})
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "max.request.size": 5_000,
                        **settings}) as producer, pytest.raises(RowsFailedError, match=says):
        frames.write(producer, table, "orders", value="v", timestamp="t", partition="p")


@pytest.mark.parametrize("kind", ["dictionary of views", "runs", "views", "large"])
def test_text_in_any_form_of_arrows_is_a_key_and_a_value_as_it_is(kind: str, broker: EmbeddedBroker) -> None:
    """polars gives categories as dictionaries of views, and views for text."""
    column = {
        "dictionary of views": lambda: pyarrow.DictionaryArray.from_arrays(
            pyarrow.array([0, None, 2], pyarrow.uint32()), pyarrow.array(["a", "b", None], pyarrow.string_view())),
        "runs": lambda: pyarrow.RunEndEncodedArray.from_arrays([1, 3], ["a", None]),
        "views": lambda: pyarrow.array(["a", None, None], pyarrow.string_view()),
        "large": lambda: pyarrow.array(["a", None, None], pyarrow.large_string())}[kind]()
    table = pyarrow.table({"v": column, "unused": pyarrow.array([b"1", b"2", b"3"])})
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    frames.write(settings, table, "orders", value="v", key="v")
    assert sorted((record.key or b"", record.value or b"") for record in rows_of(broker, "orders")) == [
        (b"", b""), (b"", b""), (b"a", b"a")]
    assert [record.value for record in rows_of(broker, "orders")].count(None) == 2
    frames.write(settings, table, "audit", value=["v"])
    assert sorted(record.value or b"" for record in rows_of(broker, "audit")) == [
        b'{"v":"a"}', b'{"v":null}', b'{"v":null}']


def test_headers_of_large_lists_and_views_are_headers(broker: EmbeddedBroker) -> None:
    kind = pyarrow.large_list(pyarrow.struct([("key", pyarrow.string_view()), ("value", pyarrow.large_binary())]))
    table = pyarrow.table({"v": ["x"], "h": pyarrow.array([[{"key": "source", "value": b"shop"}]], kind)})
    frames.write({"bootstrap.servers": broker.bootstrap_servers}, table, "orders", value="v", headers="h")
    (record,) = rows_of(broker, "orders")
    assert [(header.key, header.value) for header in record.headers] == [("source", b"shop")]


def test_failures_of_others_on_the_same_producer_are_told(broker: EmbeddedBroker) -> None:
    """With pyproducer.on.unretrieved=raise flush() tells of them, and it was flush() here."""
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "pyproducer.on.unretrieved": "raise",
                        "max.block.ms": 500}) as producer:
        producer.send("orders", b"x", partition=99)
        with pytest.raises(DeliveryFailedError, match="orders"):
            frames.write(producer, pyarrow.table({"v": ["y"]}), "orders", value="v")
    assert [record.value for record in rows_of(broker, "orders")] == [b"y"]
