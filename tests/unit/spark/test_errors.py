"""The sink's own errors: drawn, picklable, and part of the one tree."""

from __future__ import annotations

import pickle

import pytest

from pyproducer.common.errors import KafkaError
from pyproducer.spark import errors
from pyproducer.spark.errors import ColumnError, RowsFailedError


@pytest.mark.parametrize("error", [
    ColumnError("what happened"), RowsFailedError("what happened", sent_count=5, failed_count=2)])
def test_every_error_pickles_and_keeps_what_it_knows(error: KafkaError) -> None:
    error.outcome = "unknown"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))
    assert len({error, error}) == 1


def test_the_drawing_at_the_top_names_every_class() -> None:
    here = [name for name, thing in vars(errors).items() if isinstance(thing, type) and thing is not KafkaError]
    assert sorted(here) == ["ColumnError", "RowsFailedError"]
    for name in here:
        assert f"      {name} " in (errors.__doc__ or "")
