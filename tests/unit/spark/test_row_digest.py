"""What tells the rows of a repeated micro-batch from others, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.spark.exactly_once import digest_of_row
from pyproducer.twophase import RowsDigest
from tests.unit.spark.doubles import FakeRow


def digest_of(*rows: Any) -> RowsDigest:
    digest = RowsDigest()
    for row in rows:
        digest = digest_of_row(row, digest)
    return digest


def test_digest_when_only_columns_differ_that_are_not_sent_then_it_is_equal() -> None:
    """A column that nobody sends, and that is another at each attempt, stopped a query on Spark 4.0."""
    assert digest_of(FakeRow(value="a", at=1.5, key=None)) == digest_of(FakeRow(value="a", at=2.5, key=None))


@pytest.mark.parametrize("other", [
    FakeRow(key="k", value=None), FakeRow(key="k", value=""), FakeRow(key=None, value="v"), FakeRow(key="", value="v"),
    FakeRow(key="kv", value=""), FakeRow(key="v", value="k"), FakeRow(key="k", value="v", topic="t")])
def test_digest_when_key_value_or_topic_differ_then_it_does(other: Any) -> None:
    assert digest_of(other) != digest_of(FakeRow(key="k", value="v"))


def test_digest_when_the_order_differs_then_it_does() -> None:
    assert digest_of(FakeRow(value="a"), FakeRow(value="b")) != digest_of(FakeRow(value="b"), FakeRow(value="a"))
