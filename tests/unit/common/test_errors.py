"""Every error pickles, hashes and answers the three questions."""

from __future__ import annotations

import copy
import pickle

import pytest

from pyproducer.common import errors
from pyproducer.common.error_codes import ErrorCode, error_for_code


def _subclasses(cls):
    yield cls
    for sub in cls.__subclasses__():
        yield from _subclasses(sub)


def _make(cls):
    if issubclass(cls, errors.ApiError):
        return cls("what happened", code=6, api="Produce", node_id=3)
    if issubclass(cls, errors.BufferExhaustedError):
        return cls("what happened")
    if issubclass(cls, errors.KafkaTimeoutError):
        return cls("what happened", phase="delivery", outcome="unknown")
    if issubclass(cls, errors.ConfigError):
        return cls("acks", "2", "it must be one of all, -1, 0, 1")
    return cls("what happened")


# pyproducer.spark and pyproducer.twophase have small trees of their own (test_errors.py in tests/unit/spark and
# tests/unit/twophase), there only once they are imported, and so has the embedded broker; that is of who starts it.
OURS = [cls for cls in _subclasses(errors.KafkaError)
        if cls.__module__.startswith("pyproducer.") and not cls.__module__.startswith((
            "pyproducer.spark", "pyproducer.twophase", "pyproducer.broker"))]


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_every_error_pickles_copies_and_hashes(cls):
    error = _make(cls)
    error.outcome = "unknown"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is cls
        assert str(again) == str(error)
        assert again.__dict__ == error.__dict__
    assert len({error, error}) == 1
    assert isinstance(error.retriable, bool)
    assert isinstance(error.refresh_metadata, bool)
    assert error.outcome in ("not_sent", "unknown", "rejected")


def test_the_drawing_at_the_top_names_every_class():
    drawn = {word for line in errors.__doc__.splitlines() for word in line.split() if word.endswith("Error")}
    assert {cls.__name__ for cls in OURS} <= drawn


def test_config_error_names_key_value_and_what_to_do():
    error = errors.ConfigError("acks", "2", "it must be one of all, -1, 0, 1")
    assert "acks" in str(error)
    assert "'2'" in str(error)
    assert isinstance(error, ValueError)


def test_error_for_code_carries_the_rows_answers():
    error = error_for_code(ErrorCode.NOT_LEADER_OR_FOLLOWER, message="orders-1:", api="Produce", node_id=2)
    assert (error.retriable, error.refresh_metadata, error.outcome) == (True, True, "unknown")
    assert str(error).startswith("NOT_LEADER_OR_FOLLOWER: orders-1: ")
    assert error_for_code(20).outcome == "unknown"


def test_codes_that_may_come_after_an_append_say_unknown_and_all_others_of_the_table_rejected():
    """Who sends again what was rejected must not store it twice."""
    unknown = {code.name for code in ErrorCode if error_for_code(code).outcome == "unknown"}
    assert unknown == {
        "UNKNOWN_SERVER_ERROR", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "OUT_OF_ORDER_SEQUENCE_NUMBER", "KAFKA_STORAGE_ERROR",
        "UNKNOWN_PRODUCER_ID"}
    assert {error_for_code(code).outcome for code in ErrorCode} == {"unknown", "rejected"}


def test_error_for_code_when_unknown_keeps_the_number():
    error = error_for_code(4711)
    assert isinstance(error, errors.UnknownApiError)
    assert error.code == 4711
    assert ErrorCode.of(4711) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_table_covers_codes_without_gap():
    assert sorted(ErrorCode) == list(range(-1, max(ErrorCode) + 1))


def test_with_outcome_when_an_error_says_something_else_then_that_of_the_others_is_left_alone() -> None:
    refusal = errors.AuthorizationError("no", code=29)
    refusal.__cause__ = cause = ValueError()
    own = errors.with_outcome(refusal, "not_sent")
    assert (type(own), own.args, own.code, own.outcome, own.__cause__) == (
        errors.AuthorizationError, ("no",), 29, "not_sent", cause)
    assert refusal.outcome == "rejected"
    assert errors.with_outcome(own, "not_sent") is own
