"""JSON text of Arrow columns: the meaning of json.dumps, row by row."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyproducer.producer.json_serializer import JsonSerializer

pyarrow = pytest.importorskip("pyarrow")

from pyproducer.frames.json_text import json_objects, json_values  # noqa: E402 - pyarrow may not be there

UTC = datetime.timezone.utc
NOON = datetime.datetime(2026, 11, 26, 12, 30, 15, 123456)


def told(rows: Any) -> list[Any]:
    return [json.loads(text) for text in json_objects(rows).to_pylist()]


TEXT = st.text("ab\"\\\n\t\r\x00\x1f\x7f\u2028é\U0001f600", max_size=9)
WHATEVER = {
    "int8": (pyarrow.int8(), st.integers(-128, 127)),
    "int64": (pyarrow.int64(), st.integers(-2**63, 2**63 - 1)),
    "uint64": (pyarrow.uint64(), st.integers(0, 2**64 - 1)),
    "float": (pyarrow.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "double": (pyarrow.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "bool": (pyarrow.bool_(), st.booleans()),
    "text": (pyarrow.string(), TEXT),
    "large text": (pyarrow.large_string(), TEXT),
    "coded": (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), st.sampled_from(["a", 'b"', "\x01"])),
    "list": (pyarrow.list_(pyarrow.int64()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "fixed": (pyarrow.list_(pyarrow.int64(), 2), st.lists(st.none() | st.integers(-9, 9), min_size=2, max_size=2)),
    "lists": (pyarrow.large_list(pyarrow.list_(pyarrow.string())),
              st.lists(st.none() | st.lists(st.none() | TEXT, max_size=2), max_size=2)),
    "struct": (pyarrow.struct([("x", pyarrow.int64()), ("y\"", pyarrow.list_(pyarrow.string()))]),
               st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "y\"": st.none() | st.lists(TEXT)})),
    "structs": (pyarrow.list_(pyarrow.struct([("x", pyarrow.string())])),
                st.lists(st.none() | st.fixed_dictionaries({"x": st.none() | TEXT}), max_size=2)),
    "map": (pyarrow.map_(pyarrow.string(), pyarrow.list_(pyarrow.int64())),
            st.dictionaries(TEXT, st.none() | st.lists(st.integers(0, 9), max_size=2), max_size=3).map(
                lambda pairs: list(pairs.items()))),
    "maps": (pyarrow.list_(pyarrow.map_(pyarrow.large_string(), pyarrow.string())),
             st.lists(st.none() | st.dictionaries(TEXT, st.none() | TEXT, max_size=2).map(
                 lambda pairs: list(pairs.items())), max_size=2)),
    "maps of nothing": (pyarrow.map_(pyarrow.string(), pyarrow.null()),
                        st.dictionaries(TEXT, st.none(), max_size=2).map(lambda pairs: list(pairs.items()))),
    "views": (pyarrow.list_view(pyarrow.string()), st.lists(st.none() | TEXT, max_size=3)),
    "large views": (pyarrow.large_list_view(pyarrow.int64()), st.lists(st.none() | st.integers(0, 9), max_size=3)),
    "coded numbers": (pyarrow.dictionary(pyarrow.int8(), pyarrow.int64()), st.integers(0, 5)),
    "nothing": (pyarrow.struct([]), st.just({})),
    "null": (pyarrow.null(), st.none()),
}


def plain(value: Any, kind: Any) -> Any:
    """Arrow gives a map as a list of pairs."""
    if value is not None and pyarrow.types.is_map(kind):
        return {key: plain(item, kind.item_type) for key, item in value}
    if value is not None and pyarrow.types.is_list(kind):
        return [plain(item, kind.value_type) for item in value]
    return value


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # a loaded machine
@given(st.data(), st.lists(st.sampled_from(sorted(WHATEVER)), min_size=1, max_size=4), st.integers(0, 5),
       st.integers(0, 2))
def test_rows_have_the_meaning_of_json_dumps(data: st.DataObject, kinds: list[str], count: int, first: int) -> None:
    columns = {f"{kind} {place}": pyarrow.array(
        data.draw(st.lists(st.none() | WHATEVER[kind][1], min_size=count, max_size=count)), WHATEVER[kind][0])
        for place, kind in enumerate(kinds)}
    # Of a slice of a batch lists and maps do not begin with their first element; a table's are put together anew.
    rows = data.draw(st.sampled_from([pyarrow.table, pyarrow.record_batch]))(columns).slice(first)
    objects = [{name: plain(value, rows.field(name).type) for name, value in row.items()} for row in rows.to_pylist()]
    assert told(rows) == [json.loads(json.dumps(row)) for row in objects]
    for row, text in zip(objects, json_objects(rows).to_pylist(), strict=True):
        serialized = JsonSerializer()("t", [], row)
        assert serialized is not None
        assert json.loads(text) == json.loads(serialized)


@pytest.mark.parametrize(("kind", "value", "text"), [
    (pyarrow.timestamp("us"), NOON, "2026-11-26T12:30:15.123456"),
    (pyarrow.timestamp("s"), NOON.replace(microsecond=0), "2026-11-26T12:30:15"),
    (pyarrow.timestamp("ms", "Europe/Zurich"), 0, "1970-01-01T00:00:00.000+00:00"),
    (pyarrow.timestamp("s"), 253402300800, "10000-01-01T00:00:00"),
    (pyarrow.date32(), NOON.date(), "2026-11-26"),
    (pyarrow.time64("us"), NOON.time(), "12:30:15.123456"),
    (pyarrow.decimal128(10, 2), decimal.Decimal("1.20"), "1.20"),
    (pyarrow.timestamp("ns"), 1, "1970-01-01T00:00:00.000000001"),
    (pyarrow.decimal256(40, 2), decimal.Decimal("-0.01"), "-0.01"),
    (pyarrow.map_(pyarrow.string(), pyarrow.decimal128(3, 1)), [("a\"", decimal.Decimal("1.5")), ("b", None)],
     {"a\"": "1.5", "b": None}),
])
def test_what_json_dumps_cannot_write_is_as_the_json_serializer_writes_it(kind: Any, value: Any, text: Any) -> None:
    assert told(pyarrow.table({"a": pyarrow.array([value, None], kind)})) == [{"a": text}, {"a": None}]


def test_slice_of_maps_has_its_own_rows_pairs_only() -> None:
    rows: list[Any] = [[("a", 1)], [("b", 2), ("c", 3)], None, [("d", 4)]]
    maps = pyarrow.array(rows, pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    assert told(pyarrow.record_batch({"m": maps}).slice(1)) == [{"m": {"b": 2, "c": 3}}, {"m": None}, {"m": {"d": 4}}]


def test_runs_and_uuids_are_what_they_stand_for() -> None:
    runs = pyarrow.RunEndEncodedArray.from_arrays([2, 3], ["a", None])
    assert told(pyarrow.table({"a": runs})) == [{"a": "a"}, {"a": "a"}, {"a": None}]
    if hasattr(pyarrow, "uuid"):
        uuids = pyarrow.array([uuid.UUID(int=5).bytes, None], pyarrow.uuid())
        assert told(pyarrow.table({"a": uuids})) == [{"a": str(uuid.UUID(int=5))}, {"a": None}]


def test_what_is_below_a_null_is_not_looked_at() -> None:
    hidden = pyarrow.StructArray.from_arrays([pyarrow.array([math.nan, 2.0])], ["x"], mask=pyarrow.array([True, False]))
    assert told(pyarrow.table({"a": hidden})) == [{"a": None}, {"a": {"x": 2}}]
    lists = pyarrow.ListArray.from_arrays(pyarrow.array([0, 1, 2]), pyarrow.array([math.nan, 5]),
                                          mask=pyarrow.array([True, False]))
    assert told(pyarrow.table({"a": lists})) == [{"a": None}, {"a": [5]}]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_number_that_is_no_json_is_refused_with_its_column(value: float) -> None:
    with pytest.raises(ValueError, match=r"column 'a\[\]\.x' has .*, which is no JSON: fill it, or make it null"):
        json_objects(pyarrow.table({"a": [[{"x": 1.0}, {"x": value}], None]}))


@pytest.mark.parametrize(("kind", "name"), [
    (pyarrow.binary(), "a"), (pyarrow.duration("s"), "a"), (pyarrow.list_(pyarrow.binary()), r"a\[\]"),
    (pyarrow.map_(pyarrow.int64(), pyarrow.int64()), "a"), (pyarrow.map_(pyarrow.string(), pyarrow.binary()), r"a\{\}"),
    (pyarrow.struct([("x", pyarrow.binary())]), r"a\.x")])
def test_type_that_is_no_json_is_refused_also_without_rows(kind: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"column '{name}' is .*, which is no JSON: leave it out, or cast it to text"):
        json_objects(pyarrow.table({"a": pyarrow.array([], kind)}))


def test_values_alone_keep_their_nulls() -> None:
    assert json_values(pyarrow.chunked_array([[1, None], [3]]), "id").to_pylist() == ["1", None, "3"]
    assert json_values(pyarrow.array([1, 2]), "id").to_pylist() == ["1", "2"]
    coded = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, None]), pyarrow.array([5, None]))
    assert json_values(coded, "id").to_pylist() == ["5", None, None]
    assert json_values(pyarrow.RunEndEncodedArray.from_arrays([1, 2], [7, None]), "id").to_pylist() == ["7", None]


def test_slice_of_a_large_dictionary_is_as_cheap_as_its_rows() -> None:
    unused = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 0]), pyarrow.array([1.5, math.nan]))
    assert told(pyarrow.table({"a": unused})) == [{"a": 1.5}, {"a": 1.5}]
    coded = pyarrow.array([str(number) for number in range(1000)]).dictionary_encode()
    assert told(pyarrow.table({"a": coded}).slice(997)) == [{"a": "997"}, {"a": "998"}, {"a": "999"}]
    views = pyarrow.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pyarrow.string_view()))
    assert told(pyarrow.table({"a": views}).slice(999)) == [{"a": "999"}]


@pytest.mark.parametrize("kind", [pyarrow.timestamp("s"), pyarrow.timestamp("s", "UTC"), pyarrow.date64()])
def test_time_that_no_text_stands_for_is_refused(kind: Any) -> None:
    """Arrow writes "<value out of range: ...>", which was stored."""
    with pytest.raises(ValueError, match="column 'a' has a time that no text stands for"):
        json_objects(pyarrow.table({"a": pyarrow.array([None, 2**62], pyarrow.int64()).cast(kind, safe=False)}))
