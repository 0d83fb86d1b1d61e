"""What goes wrong with a batch: errors that travel, and are drawn."""

from __future__ import annotations

import pickle

import pytest

from pyproducer.twophase import ExactlyOnceError, errors

ALL = [ExactlyOnceError, *ExactlyOnceError.__subclasses__()]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_error_when_it_travels_then_it_is_the_same_and_the_drawing_names_it(cls: type[ExactlyOnceError]) -> None:
    error = cls("what happened")
    error.outcome = "unknown"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.outcome) == (cls, "what happened", "unknown")
    assert cls.__name__ in (errors.__doc__ or "")
