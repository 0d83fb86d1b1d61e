"""Arrow columns of send_batch: which types are taken, and what of them comes to the broker."""

from __future__ import annotations

import importlib.util
import os
import time
from array import array
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from pyproducer import BufferExhaustedError, ProducerInterceptor
from pyproducer.hotpath import binary_column
from pyproducer.producer import arrow_columns
from pyproducer.record.record_reader import Record
from pyproducer.testing import MockProducer
from tests.conftest import refuse
from tests.support.patience import GIVE_UP_S
from tests.unit.producer.facade import Facade, Facades

NO_PYARROW = "the package pyarrow is not installed: pip install -e '.[spark,test]'"
if importlib.util.find_spec("pyarrow") is None and not os.environ.get("PYPRODUCER_TEST_ENVIRONMENT"):
    refuse(NO_PYARROW, whole_module=True)
pyarrow = pytest.importorskip("pyarrow", reason=NO_PYARROW)  # other Pythons run the unit tests without it
pytest.importorskip("pyarrow.compute", reason=NO_PYARROW)

INDEX_TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def stored(facade: Facade) -> list[bytes | None]:
    """Return the values of t-0, in their order; how many batches they go in is the clock's to say."""
    assert {(topic, partition) for topic, partition, _ in facade.broker.sent} == {("t", 0)}
    return [value for *_, values in facade.broker.sent for value in values]


@pytest.mark.parametrize("index_type", INDEX_TYPES)
def test_dictionary_when_its_indices_are_of_any_width_and_sign_then_its_values_are_sent(
        facades: Facades, index_type: str) -> None:
    indices = pyarrow.array([2, 0, None, 1, 2], getattr(pyarrow, index_type)())
    column = pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array([b"a", b"b", b"c"]))
    facade = facades()
    facade.producer.send_batch("t", column, partitions=[0] * 5).result(GIVE_UP_S)
    assert stored(facade) == [b"c", b"a", None, b"b", b"c"]


@pytest.mark.parametrize(("index_type", "highest"), [("uint8", 255), ("uint16", 40_000), ("int8", 127)])
def test_dictionary_when_an_index_has_the_highest_bit_then_it_is_not_taken_for_negative(
        facades: Facades, index_type: str, highest: int) -> None:
    indices = pyarrow.array([highest, 0], getattr(pyarrow, index_type)())
    values = pyarrow.array([b"%d" % number for number in range(highest + 1)])
    facade = facades()
    column = pyarrow.DictionaryArray.from_arrays(indices, values)
    facade.producer.send_batch("t", column, partitions=[0, 0]).result(GIVE_UP_S)
    assert stored(facade) == [b"%d" % highest, b"0"]


def test_dictionary_when_its_values_are_of_the_null_type_then_its_rows_are_null(facades: Facades) -> None:
    """The compiled text looked for the offsets of a dictionary that has none: the process ended by a signal."""
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, None, 0]), pyarrow.nulls(1))
    facade = facades()
    facade.producer.send_batch("t", column, keys=column, partitions=[0] * 3).result(GIVE_UP_S)
    assert stored(facade) == [None, None, None]


def test_chunks_when_the_first_finds_no_memory_then_all_rows_are_refused_once(facades: Facades) -> None:
    facade = facades(**{"buffer.memory": 20_000, "batch.size": 20_000, "max.block.ms": 0, "linger.ms": 0})
    facade.know()
    facade.broker.holds = True
    facade.producer.send("t", b"first", partition=0)  # holds all there is
    values = pyarrow.chunked_array([[b"a", b"b"], [b"c"], [b"d", b"e"]])
    future = facade.producer.send_batch("t", values, partitions=[1] * 5)
    metadata = future.result(0)
    assert {row: type(error) for row, error in metadata.errors.items()} == dict.fromkeys(range(5), BufferExhaustedError)
    facade.broker.await_requests(1)
    facade.broker.answer()
    assert facade.broker.sent == [("t", 0, [b"first"])]
    facade.await_whole_memory()


@pytest.mark.parametrize(("column", "number", "words"), [
    ("partitions", -1, "partitions, row 1: -1 is out of range: it must be from 0 to 2147483647, or null"),
    ("partitions", 2**31, "partitions, row 1: 2147483648 is out of range"),
    ("timestamps", -5, "timestamps, row 1: -5 is out of range"),
])
def test_numbers_when_one_is_out_of_range_then_its_row_is_named_and_nothing_is_sent(
        facades: Facades, column: str, number: int, words: str) -> None:
    facade = facades()
    with pytest.raises(ValueError, match=words):
        facade.producer.send_batch("t", [b"a", b"b"], **{column: pyarrow.array([0, number], pyarrow.int64())})
    facade.producer.flush(GIVE_UP_S)
    assert facade.broker.sent == []


def header_type(key: Any, value: Any, *names: str) -> Any:
    fields = [pyarrow.field(name, kind) for name, kind in zip(names or ("key", "value"), (key, value), strict=True)]
    return pyarrow.list_(pyarrow.struct(fields))


@pytest.mark.parametrize("kind", [
    header_type(pyarrow.string(), pyarrow.int64()), header_type(pyarrow.string(), pyarrow.list_(pyarrow.int8())),
    header_type(pyarrow.binary(), pyarrow.binary()), header_type(pyarrow.int32(), pyarrow.binary()),
    header_type(pyarrow.string(), pyarrow.binary(), "name", "value"),
    header_type(pyarrow.string(), pyarrow.binary(), "value", "key"),
    pyarrow.list_(pyarrow.string()), pyarrow.string(),
], ids=str)
def test_headers_when_their_type_is_another_then_refused_by_its_name(facades: Facades, kind: Any) -> None:
    facade = facades()
    with pytest.raises(TypeError, match="headers must be an Arrow array of list<struct<key: string, value: binary>>"):
        facade.producer.send_batch("t", [b"v"], headers=pyarrow.array([None], kind))
    facade.producer.flush(GIVE_UP_S)
    assert facade.broker.sent == []


@pytest.mark.parametrize("key", ["string", "large_string"])
@pytest.mark.parametrize("value", ["binary", "large_binary", "string", "null"])
def test_headers_when_key_and_value_are_of_a_known_type_then_taken(facades: Facades, key: str, value: str) -> None:
    kind = header_type(getattr(pyarrow, key)(), getattr(pyarrow, value)())
    facade = facades()
    headers = pyarrow.array([[{"key": "h", "value": None}], None], kind)
    facade.producer.send_batch("t", [b"a", b"b"], headers=headers, partitions=[0, 0]).result(GIVE_UP_S)
    assert [value for *_, values in facade.broker.sent for value in values] == [b"a", b"b"]


@pytest.mark.parametrize("serializer", [None, lambda _topic, _headers, data: data], ids=["columns", "rows"])
def test_headers_when_a_key_is_not_utf_8_then_its_row_is_named_and_nothing_is_sent(
        facades: Facades, serializer: Any) -> None:
    """It went into the batch, which could then not be split: the sender met the same key in each of its turns."""
    offsets, data = array("i", [0, 1, 3, 4]), b"a\xff\xfea"
    keys = pyarrow.Array.from_buffers(pyarrow.string(), 3, [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(data)])
    pairs = pyarrow.StructArray.from_arrays([keys, pyarrow.array([b"x"] * 3)], ["key", "value"])
    facade = facades(serializers=(None, serializer))
    with pytest.raises(ValueError, match=r"headers, row 1: .*UTF-8.*: invalid start byte \(position 0\)"):
        facade.producer.send_batch("t", [b"v"] * 3, headers=pyarrow.ListArray.from_arrays([0, 1, 2, 3], pairs))
    facade.producer.flush(GIVE_UP_S)
    assert facade.broker.sent == []


@pytest.mark.parametrize(("name", "allowed"), [
    ("timestamps", "int64 or timestamp"), ("partitions", "int32 or int64")])
@pytest.mark.parametrize("kind", ["float64", "string", "bool_", "date32"])
def test_numbers_when_their_type_is_another_then_refused_by_its_name(
        facades: Facades, name: str, allowed: str, kind: str) -> None:
    facade = facades()
    column: dict[str, Any] = {name: pyarrow.array([None], getattr(pyarrow, kind)())}
    with pytest.raises(TypeError, match=f"{name} must be a list of int or None, or an Arrow array of {allowed}, got"):
        facade.producer.send_batch("t", [b"v"], **column)
    assert facade.broker.sent == []


class BrokenArray:
    """An array of another library that cannot be handed over."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __arrow_c_array__(self, _requested_schema: object = None) -> object:
        raise self._error


class BrokenStream:
    """The same in chunks."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __arrow_c_stream__(self, _requested_schema: object = None) -> object:
        raise self._error


@pytest.mark.parametrize("serializer", [None, lambda _topic, _headers, data: data], ids=["columns", "rows"])
@pytest.mark.parametrize("error", [
    TypeError("no"), pyarrow.ArrowInvalid("no"), pyarrow.ArrowNotImplementedError("no")], ids=repr)
@pytest.mark.parametrize("make", [BrokenArray, BrokenStream])
@pytest.mark.parametrize("name", ["values", "keys", "headers", "timestamps", "partitions"])
def test_array_when_its_library_cannot_hand_it_over_then_refused_by_the_name_of_its_type(
        facades: Facades, name: str, make: type[Any], error: Exception, serializer: Any) -> None:
    facade = facades(serializers=(None, serializer))
    words = f"^{name} must be a list or an Arrow array, got {make.__name__}$"
    with pytest.raises(TypeError, match=words) as refused:
        facade.producer.send_batch("t", **{"values": [b"v"], name: make(error)})
    assert refused.value.__cause__ is error
    assert facade.broker.sent == []


class Nothing(ProducerInterceptor):
    """Changes no record."""


ROADS: dict[str, dict[str, Any]] = {
    "columns": {}, "an interceptor": {"interceptor.classes": [Nothing()]},
    "another partitioner": {"partitioner.class": "UniformStickyPartitioner"}}
TEXTS = [["paid", None, "caf\u00e9"], ["pa", "id"]]


@pytest.fixture(params=[*ROADS, "MockProducer"])
def send(request: pytest.FixtureRequest, facades: Facades) -> Callable[..., list[Record]]:
    """Sends columns to t-0, by columns or row by row, and returns what was stored."""
    if request.param == "MockProducer":
        mock = MockProducer()

        def to_mock(values: Any, **columns: Any) -> list[Record]:
            mock.send_batch("t", values, **columns).result(GIVE_UP_S)
            return [Record(0, record.timestamp or 0, record.key, record.value, tuple(record.headers), -1)
                    for record in mock.history()]
        return to_mock
    facade = facades(**ROADS[request.param])

    def to_broker(values: Any, **columns: Any) -> list[Record]:
        facade.producer.send_batch("t", values, partitions=[0] * len(values), **columns).result(GIVE_UP_S)
        return facade.broker.records
    return to_broker


@pytest.mark.parametrize("make", [
    lambda: pyarrow.chunked_array(TEXTS), lambda: pyarrow.chunked_array(TEXTS, pyarrow.large_string()),
    lambda: pyarrow.chunked_array(TEXTS).dictionary_encode(),
    lambda: pyarrow.chunked_array(TEXTS, pyarrow.string_view()),
    lambda: pyarrow.chunked_array(TEXTS).cast(pyarrow.binary())],
    ids=["string", "large_string", "dictionary", "string_view", "binary"])
def test_text_when_no_serializer_is_given_then_it_is_utf_8_whatever_road_it_takes(
        send: Callable[..., list[Record]], make: Callable[[], Any]) -> None:
    """With an interceptor, another partitioner or a MockProducer the same column was refused."""
    utf8 = [b"paid", None, "caf\u00e9".encode(), b"pa", b"id"]
    records = send(make(), keys=make())
    assert [record.value for record in records] == utf8
    assert [record.key for record in records] == utf8


class Once:
    """A stream of another library that is gone when it was read."""

    def __init__(self, column: Any) -> None:
        self._columns = [column]
        self._length = len(column)

    def __len__(self) -> int:
        return self._length

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._columns.pop().__arrow_c_stream__(requested_schema)


def test_stream_when_it_can_be_read_once_then_that_is_enough_whatever_road_it_takes(
        send: Callable[..., list[Record]]) -> None:
    pair = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    headers = pyarrow.chunked_array([[[{"key": "a", "value": b"1"}]], [None]], pyarrow.list_(pair))
    records = send(Once(pyarrow.chunked_array([["a"], ["b"]])), keys=Once(pyarrow.chunked_array([["c", "d"]])),
                   headers=Once(headers), timestamps=Once(pyarrow.chunked_array([[10**13, 10**13 + 1]])))
    assert [(record.value, record.key, tuple(record.headers), record.timestamp) for record in records] == [
        (b"a", b"c", (("a", b"1"),), 10**13), (b"b", b"d", (), 10**13 + 1)]


@pytest.mark.parametrize("column", [
    lambda: pyarrow.array([1, 2]), lambda: pyarrow.compute.run_end_encode(pyarrow.array(["a", "a"]))],
    ids=["int64", "run_end_encoded"])
def test_column_when_it_is_neither_bytes_nor_text_then_it_is_refused_whatever_road_it_takes(
        send: Callable[..., list[Record]], column: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="values must be an Arrow array of binary"):
        send(column())
    with pytest.raises(TypeError, match="keys must be an Arrow array of binary"):
        send([b"a", b"b"], keys=column())


def test_type_when_pyarrow_knows_no_views_then_a_wrong_one_is_refused_all_the_same(
        send: Callable[..., list[Record]], monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow 15 has no function that asks for them: AttributeError, where a TypeError says what a column must be."""
    for name in ("is_string_view", "is_binary_view"):
        monkeypatch.delattr(pyarrow.types, name, raising=False)
    with pytest.raises(TypeError, match="values must be an Arrow array of binary"):
        send(pyarrow.array([1, 2]))
    for pair in ((pyarrow.int32(), pyarrow.binary()), (pyarrow.string(), pyarrow.int64())):
        with pytest.raises(TypeError, match="headers must be an Arrow array of list"):
            send([b"v"], headers=pyarrow.nulls(1, header_type(*pair)))


def test_headers_when_they_are_arrows_then_the_same_are_taken_and_refused_whatever_road_they_take(
        send: Callable[..., list[Record]]) -> None:
    pair = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    rows = [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None, []]
    for wrong in (pyarrow.map_(pyarrow.string(), pyarrow.binary()), pyarrow.list_(pyarrow.struct([pair[1], pair[0]])),
                  pyarrow.int64()):
        with pytest.raises(TypeError, match="headers must be an Arrow array of list"):
            send([b"v"] * 3, headers=pyarrow.nulls(3, wrong))
    records = send([b"v"] * 3, headers=pyarrow.array(rows, pyarrow.list_(pair)))
    assert [tuple(record.headers) for record in records] == [(("a", b"1"), ("b", None)), (), ()]
    records = send([b"w"] * 3, headers=pyarrow.nulls(3))[-3:]
    assert [(record.value, tuple(record.headers)) for record in records] == [(b"w", ())] * 3


@pytest.mark.parametrize("value", ["binary", "large_binary", "string", "large_string", "string_view", "binary_view"])
@pytest.mark.parametrize("key", ["string", "large_string", "string_view"])
def test_headers_when_they_are_text_or_views_then_they_are_utf_8_whatever_road_they_take(
        send: Callable[..., list[Record]], key: str, value: str) -> None:
    """Values of text were sent by columns, and refused with an interceptor and by MockProducer; views, which polars
    gives, were refused by both."""
    kind = header_type(getattr(pyarrow, key)(), getattr(pyarrow, value)())
    rows = [[{"key": "a", "value": "caf\u00e9"}, {"key": "b", "value": None}], None, []]
    plain = pyarrow.array(rows, header_type(pyarrow.string(), pyarrow.string()))
    records = send([b"v"] * 3, headers=plain.cast(kind))
    assert [tuple(record.headers) for record in records] == [
        (("a", "caf\u00e9".encode()), ("b", None)), (), ()]


@pytest.mark.parametrize("row", [[None], [{"key": None, "value": b"x"}]], ids=["pair", "key"])
def test_headers_when_a_pair_or_a_key_is_null_then_its_row_is_named_whatever_road_it_takes(
        send: Callable[..., list[Record]], row: Any) -> None:
    """A pair that is null was "'NoneType' object is not subscriptable" where rows go one by one."""
    with pytest.raises(TypeError, match=r"^headers, row 1: a header's key must be str, got NoneType: None$"):
        send([b"v"] * 2, headers=pyarrow.array([[], row], header_type(pyarrow.string(), pyarrow.binary())))


def one_piece_for_many(rows: int) -> dict[str, Any]:
    """Return columns of one piece each, which say the row's number in each row."""
    return {"keys": pyarrow.array([b"%d" % row for row in range(rows)]).dictionary_encode(),
            "headers": pyarrow.array([[{"key": "h", "value": b"%d" % row}] for row in range(rows)],
                                     header_type(pyarrow.string(), pyarrow.binary()))}


def slices(column: Any, rows: int) -> Any:
    """Cut a column into slices of two rows, which share its buffers."""
    return pyarrow.chunked_array([column.slice(first, 2) for first in range(0, rows, 2)])


@pytest.mark.parametrize("cut", ["values", "all"])
def test_columns_when_cut_into_many_pieces_then_a_dictionary_and_headers_are_read_once(
        monkeypatch: pytest.MonkeyPatch, facades: Facades, cut: str) -> None:
    """With each piece the whole dictionary, and all headers of the column, were read and copied anew."""
    read = []

    def counting(*arguments: Any) -> Any:
        read.append(arguments[-1])
        return binary_column(*arguments)

    monkeypatch.setattr(arrow_columns, "binary_column", counting)
    rows = 100
    values = pyarrow.array([b"v"] * rows)
    columns = one_piece_for_many(rows)
    facade = facades()
    facade.know()
    facade.producer.send_batch("t", slices(values, rows), partitions=[0] * rows, **{
        name: slices(column, rows) if cut == "all" else column for name, column in columns.items()}).result(GIVE_UP_S)
    assert [(record.key, tuple(record.headers)) for record in facade.broker.records] == [
        (b"%d" % row, (("h", b"%d" % row),)) for row in range(rows)]
    assert sum(read) == 4 * rows, "each value, each of the dictionary, and each header's key and value: once"


def test_timestamps_when_they_must_be_in_seconds_then_the_row_is_refused_whatever_road_it_takes(
        send: Callable[..., list[Record]]) -> None:
    """In an Arrow column they were stored as 1970, and retention deleted the records."""
    with pytest.raises(ValueError, match=r"timestamps, row 2: timestamp 1700000000 is in seconds, it seems"):
        send([b"v"] * 3, timestamps=pyarrow.array([10**13, None, 1_700_000_000]))
    in_1970 = pyarrow.array([1_700_000_000], pyarrow.timestamp("ms"))
    assert [record.timestamp for record in send([b"v"], timestamps=in_1970)] == [1_700_000_000], "it says what it is"


@pytest.mark.parametrize(("number", "kind", "words"), [
    (2**62, pyarrow.timestamp("s"), "4611686018427387904 s is out of range: it must be from 0 to 9223372036854775, or"),
    (-2**62, pyarrow.timestamp("s", "UTC"), "-4611686018427387904 s is out of range"),
    (-1, pyarrow.timestamp("ns"), "-1 ns is out of range"), (-999, pyarrow.timestamp("us"), "-999 us is out of range"),
    (-1, pyarrow.timestamp("ms"), "-1 ms is out of range"),
    (2**63, pyarrow.uint64(), "9223372036854775808 is out of range: it must be from 0 to 9223372036854775807, or null"),
], ids=str)
def test_timestamps_when_arrows_do_not_fit_then_the_row_is_refused_whatever_road_it_takes(
        send: Callable[..., list[Record]], number: int, kind: Any, words: str) -> None:
    """Those of seconds wrapped around, and became any time; a little before 1970 became 1970."""
    with pytest.raises(ValueError, match=f"timestamps, row 1: {words}"):
        send([b"v"] * 2, timestamps=pyarrow.array([0, number], kind))


def test_timestamps_when_arrows_are_the_last_that_fit_then_they_are_sent(send: Callable[..., list[Record]]) -> None:
    fit = [pyarrow.array([number], kind) for number, kind in (
        (2**63 // 1000, pyarrow.timestamp("s")), (2**63 - 1, pyarrow.uint64()), (2**63 - 1, pyarrow.timestamp("ns")))]
    told = [send([b"v"], timestamps=column)[-1].timestamp for column in fit]
    assert told == [9_223_372_036_854_775_000, 2**63 - 1, 9_223_372_036_854]


def test_partitions_when_one_of_64_bits_without_sign_does_not_fit_then_its_row_is_named(
        facades: Facades) -> None:
    with pytest.raises(ValueError, match="partitions, row 1: 9223372036854775808 is out of range"):
        facades().producer.send_batch("t", [b"v"] * 2, partitions=pyarrow.array([0, 2**63], pyarrow.uint64()))


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is that of Tokyo, nine hours before UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_when_they_are_arrows_without_a_zone_then_they_are_utc_and_datetimes_of_a_list_are_local(
        send: Callable[..., list[Record]], unit: str) -> None:
    midnight = datetime(2025, 1, 1)
    columns = [pyarrow.array([midnight], pyarrow.timestamp(unit)),
               pyarrow.array([midnight], pyarrow.timestamp(unit, "Asia/Tokyo")), [midnight]]
    stored = [send([b"v"], timestamps=column)[-1].timestamp for column in columns]
    assert stored == [1_735_689_600_000, 1_735_689_600_000, 1_735_689_600_000 - 9 * 3_600_000]


@pytest.mark.usefixtures("in_tokyo")
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "D", "h"])
def test_timestamps_when_they_are_numpys_then_they_are_utc_in_whatever_unit_as_arrows_are(
        send: Callable[..., list[Record]], unit: str) -> None:
    """Nanoseconds were taken for milliseconds, and the others for local time."""
    numpy = pytest.importorskip("numpy")
    records = send([b"v"] * 2, timestamps=numpy.array(["2025-01-01T00", "1970-01-02"], f"datetime64[{unit}]"))
    assert [record.timestamp for record in records] == [1_735_689_600_000, 86_400_000]


def test_timestamps_when_one_of_numpys_is_none_or_far_away_then_it_is_now_or_refused(
        send: Callable[..., list[Record]]) -> None:
    numpy = pytest.importorskip("numpy")
    [record] = send([b"v"], timestamps=numpy.array(["NaT"], "datetime64[ms]"))
    assert record.timestamp == 0 or record.timestamp > 1_700_000_000_000
    for wrong, why in (("1969-12-31", "row 0: timestamp .* is out of range"), ("20000-01-01", "beyond the year 9999")):
        with pytest.raises(ValueError, match=why):
            send([b"v"], timestamps=numpy.array([wrong], "datetime64[ms]"))


@pytest.mark.parametrize("unit", ["Y", "D", "s", "ms"])
def test_timestamps_when_numpys_wrap_around_then_the_row_is_refused_whatever_road_it_takes(
        send: Callable[..., list[Record]], unit: str) -> None:
    """NumPy's cast to a finer unit is silent, and 2**62 seconds became 1970."""
    numpy = pytest.importorskip("numpy")
    far = numpy.array([0, 2**62], "int64").view(f"datetime64[{unit}]")
    with pytest.raises(ValueError, match=r"timestamps, row 1: the datetime64 \S+ is beyond the year 9999"):
        send([b"v"] * 2, timestamps=far)
