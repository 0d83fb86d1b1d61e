"""The column contract, with Spark's own sentences."""

from __future__ import annotations

import logging
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from pyproducer.common.records import Header
from pyproducer.spark.columns import (
    ColumnContract,
    column_bytes,
    column_headers,
    column_partition,
    column_timestamp,
    column_topic,
)
from pyproducer.spark.errors import ColumnError
from tests.unit.spark.doubles import FakeRow


def test_contract_with_all_columns_finds_each_by_name() -> None:
    contract = ColumnContract.of(["id", "headers", "key", "partition", "value", "topic"], None)
    assert contract == ColumnContract(value=4, key=2, topic=5, partition=3, headers=1)


def test_contract_with_topic_option_ignores_the_topic_column() -> None:
    contract = ColumnContract.of(["topic", "value"], "orders")
    assert contract.fixed_topic == "orders"


@pytest.mark.parametrize(("names", "topic", "sentence"), [
    (["key"], "orders", "Required attribute 'value' not found"),
    (["VALUE"], "orders", "Required attribute 'value' not found (there is 'VALUE': names are case-sensitive)"),
    (["value"], None, "topic option required when no 'topic' attribute is present. "
                      "Use the topic option for setting a topic."),
    (["value", "value"], "orders", "Reference 'value' is ambiguous: the DataFrame has 2 columns of that name"),
])
def test_contract_when_columns_do_not_fit_says_sparks_sentence(names: list[str], topic: str | None,
                                                               sentence: str) -> None:
    with pytest.raises(ColumnError) as caught:
        ColumnContract.of(names, topic)
    assert str(caught.value) == sentence


def test_contract_when_a_name_differs_in_case_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        contract = ColumnContract.of(["KEY", "value"], "orders")
    assert contract.key is None
    assert "no column 'key' (there is 'KEY': names are case-sensitive)" in caplog.text


@pytest.mark.parametrize(("value", "expected"), [
    (None, None), (0, 0), (1_700_000_000_123, 1_700_000_000_123),
    (datetime(2023, 11, 14, 22, 13, 20, 123_999, timezone.utc), 1_700_000_000_123),
    (datetime.fromtimestamp(1_700_000_000).replace(microsecond=1000), 1_700_000_000_001),
    (2_678_400_000, 2_678_400_000),
    (datetime(1970, 2, 1, 0, 0, 0, 1999, timezone.utc), datetime(1970, 2, 1, 0, 0, 0, 1000, timezone.utc))])
def test_column_timestamp_with_an_instant_or_epoch_ms_gives_epoch_ms(value: Any, expected: object) -> None:
    assert column_timestamp("at", value) == expected


@pytest.mark.parametrize(("value", "sentence"), [
    ("x", "at attribute unsupported type string. at must be a(n) timestamp or bigint"),
    (True, "at attribute unsupported type boolean. at must be a(n) timestamp or bigint"),
    (date(2023, 1, 1), "at attribute unsupported type date. at must be a(n) timestamp or bigint"),
    (-1, "at is -1: a record's timestamp is not before 1970; or null for now"),
    (datetime(1969, 12, 31, 23, 59, 59, 999_999, timezone.utc),
     "at is 1969-12-31 23:59:59.999999+00:00: a record's timestamp is not before 1970; or null for now")])
def test_column_timestamp_when_it_is_none_says_so(value: Any, sentence: str) -> None:
    with pytest.raises(ColumnError) as caught:
        column_timestamp("at", value)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(("value", "expected"), [
    ("a\u00e9", b"a\xc3\xa9"), (b"b", b"b"), (bytearray(b"c"), b"c"), (None, None), ("", b"")])
def test_column_bytes_with_string_or_binary_gives_bytes(value: Any, expected: bytes | None) -> None:
    result = column_bytes("value", value)
    assert result == expected
    assert result is None or type(result) is bytes


@pytest.mark.parametrize(("value", "name"), [
    (1, "int"), (1.0, "double"), (True, "boolean"), (Decimal(1), "decimal"), ({}, "map"), ([], "array"),
    (FakeRow(a=1), "struct"), (object(), "object")])
def test_column_bytes_with_another_type_says_sparks_sentence(value: Any, name: str) -> None:
    with pytest.raises(ColumnError) as caught:
        column_bytes("value", value)
    assert str(caught.value) == f"value attribute unsupported type {name}. value must be a(n) string or binary"


@pytest.mark.parametrize(("value", "sentence"), [
    (None, "null topic present in the data. Use the topic option for setting a default topic."),
    ("", "empty topic present in the data. Use the topic option for setting a default topic."),
    (b"orders", "topic attribute unsupported type binary. topic must be a(n) string"),
])
def test_column_topic_when_unusable_says_sparks_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(ColumnError) as caught:
        column_topic(value)
    assert str(caught.value) == sentence


def test_column_partition_with_null_lets_the_partitioner_choose() -> None:
    assert column_partition(None) is None
    assert column_partition(7) == 7


@pytest.mark.parametrize(("value", "sentence"), [
    ("1", "partition attribute unsupported type string. partition must be a(n) int"),
    (True, "partition attribute unsupported type boolean. partition must be a(n) int"),
    (-1, "partition -1 is out of range: it must be from 0 to 2147483647, or null"),
    (2**31, "partition 2147483648 is out of range: it must be from 0 to 2147483647, or null"),
])
def test_column_partition_when_not_an_int_says_sparks_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(ColumnError) as caught:
        column_partition(value)
    assert str(caught.value) == sentence


def test_column_headers_with_structs_keeps_order_and_nulls() -> None:
    headers = [FakeRow(key="a", value=bytearray(b"1")), FakeRow(key="a", value=None), ("b", b"2")]
    assert column_headers(headers) == (Header("a", b"1"), Header("a", None), Header("b", b"2"))
    assert type(column_headers(headers)[0].value) is bytes
    assert column_headers(None) == column_headers([]) == ()


@pytest.mark.parametrize(("value", "sentence"), [
    ([("a", "text")], "headers attribute unsupported type array<struct<key:string,value:string>>. "
                      "headers must be a(n) array<struct<key:string,value:binary>>"),
    ([(None, b"1")], "Null header keys are not permitted"),
    ([("a", b"1"), None], "Null header keys are not permitted"),  # as by Arrow; it blamed the column's type
    ([("a",)], "headers attribute unsupported type array. headers must be a(n) array<struct<key:string,value:binary>>"),
    ([FakeRow(name="a", value=b"1")], "headers attribute unsupported type array<struct<name,value>>. "
                                      "headers must be a(n) array<struct<key:string,value:binary>>"),
    ("text", "headers attribute unsupported type string. headers must be a(n) array<struct<key:string,value:binary>>"),
    ({}, "headers attribute unsupported type map. headers must be a(n) array<struct<key:string,value:binary>>"),
])
def test_column_headers_when_of_another_shape_says_sparks_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(ColumnError) as caught:
        column_headers(value)
    assert str(caught.value) == sentence
