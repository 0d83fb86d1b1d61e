"""The Spark example runs as it is."""

from __future__ import annotations

import pytest

from tests.embedded.test_examples import run_example


@pytest.mark.soak  # a Spark of its own
def test_spark_sink_example_stores_its_rows() -> None:
    # Python inside the JVM's workers warns on its own account; only ours is under -W error.
    assert "10000 rows stored" in run_example("examples.spark_sink", warnings_are_errors=False)


@pytest.mark.soak  # a Spark of its own
def test_spark_columns_example_stores_its_rows_by_three_roads() -> None:
    told = run_example("examples.spark_columns", warnings_are_errors=False)
    assert "27000 rows stored in orders\n" in told
    assert "3000 rows stored in orders-ch" in told
    assert "the last micro-batch: micro-batch 0: 10000 rows stored by" in told


@pytest.mark.soak  # a Spark of its own
def test_spark_exactly_once_example_has_each_row_once() -> None:
    told = run_example("examples.spark_exactly_once", warnings_are_errors=False)
    assert "3000 rows seen, 3000 of them different" in told
