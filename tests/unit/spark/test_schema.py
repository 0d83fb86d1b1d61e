"""The contract against a schema: Spark's own sentences, and what to write instead."""

from __future__ import annotations

import pytest

from pyproducer.spark.errors import ColumnError
from pyproducer.spark.schema import check_schema
from tests.unit.spark.doubles import fake_schema


def test_schema_that_fits_gives_the_columns_that_are_taken_in_order() -> None:
    schema = fake_schema(id="bigint", headers="array<struct<KEY:string,value:binary>>", key="binary", partition="int",
                         value="string", topic="string")
    assert check_schema(schema, None) == ["headers", "key", "partition", "value", "topic"]
    assert check_schema(schema, "orders") == ["headers", "key", "partition", "value"]


@pytest.mark.parametrize(("types", "sentence"), [
    ({"value": "int"}, "value attribute unsupported type int. value must be a(n) string or binary: "
                       "cast(value as string)"),
    ({"value": "void"}, "value attribute unsupported type void. value must be a(n) string or binary: "
                        "cast(value as string)"),
    ({"value": "struct<a:int>"}, "value attribute unsupported type struct<a:int>. value must be a(n) string or binary: "
                                 "to_json(value)"),
    ({"value": "string", "key": "int"}, "key attribute unsupported type int. key must be a(n) string or binary: "
                                        "cast(key as string)"),
    ({"value": "string", "partition": "bigint"}, "partition attribute unsupported type bigint. partition must be a(n) "
                                                 "int: cast(partition as int)"),
    ({"value": "string", "headers": "array<struct<name:string,value:binary>>"},
     "headers attribute unsupported type array<struct<name:string,value:binary>>. headers must be a(n) "
     "array<struct<key:string,value:binary>>: cast(headers as array<struct<key:string,value:binary>>), where its "
     "fields are a key and a value"),
    ({"value": "string", "headers": "array<struct<key:string,value:string>>"},
     "headers attribute unsupported type array<struct<key:string,value:string>>. headers must be a(n) "
     "array<struct<key:string,value:binary>>: cast(headers as array<struct<key:string,value:binary>>), where its "
     "fields are a key and a value"),
    ({"key": "string"}, "Required attribute 'value' not found"),
])
def test_schema_that_does_not_fit_says_sparks_sentence(types: dict[str, str], sentence: str) -> None:
    with pytest.raises(ColumnError) as caught:
        check_schema(fake_schema(**types), "orders")
    assert str(caught.value) == sentence


def test_schema_when_a_column_of_timestamps_is_named_then_it_is_taken_or_refused() -> None:
    schema = fake_schema(value="string", at="timestamp", since="bigint", word="string", timestamp="timestamp")
    assert check_schema(schema, "orders") == ["value"]
    assert check_schema(schema, "orders", "at") == ["value", "at"]
    assert check_schema(schema, "orders", "since") == ["value", "since"]
    with pytest.raises(ColumnError, match=r"^word attribute unsupported type string. word must be a\(n\) timestamp or "
                                          r"bigint: cast\(word as timestamp\)$"):
        check_schema(schema, "orders", "word")
    with pytest.raises(ColumnError, match=r"timestamp or bigint: cast\(`event\.``time` as timestamp\)$"):
        check_schema(fake_schema(**{"value": "string", "event.`time": "string"}), "orders", "event.`time")
    with pytest.raises(ColumnError, match=r"column is 'AT', and there is no such column \(there is 'at': names are "
                                          r"case-sensitive\)"):
        check_schema(schema, "orders", "AT")


def test_schema_when_the_topic_is_neither_option_nor_column_says_sparks_sentence() -> None:
    with pytest.raises(ColumnError, match="topic option required when no 'topic' attribute is present"):
        check_schema(fake_schema(value="string"), None)
    with pytest.raises(ColumnError, match=r"topic attribute unsupported type binary\. topic must be a\(n\) string"):
        check_schema(fake_schema(value="string", topic="binary"), None)
