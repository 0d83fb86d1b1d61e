"""PreparedTransaction: a value that goes through pickle and JSON to whoever ends the transaction."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pyproducer import PreparedTransaction, TopicPartition, TransactionCompleter

FULL = PreparedTransaction("shop\u00e9", 2**40, 32767, (TopicPartition("orders", 0), TopicPartition("orders", 3)), True)
EMPTY = PreparedTransaction("shop", 7, 0)


@pytest.mark.parametrize("prepared", [FULL, EMPTY])
def test_prepared_transaction_when_it_travels_then_it_is_the_same(prepared: PreparedTransaction) -> None:
    assert pickle.loads(pickle.dumps(prepared)) == prepared
    again = PreparedTransaction.from_json(prepared.to_json())
    assert again == prepared
    assert all(type(place) is TopicPartition for place in again.partitions)
    assert "\n" not in prepared.to_json()


@pytest.mark.parametrize(("prepared", "is_empty"), [
    (EMPTY, True), (FULL, False), (EMPTY._replace(has_offsets=True), False),
    (EMPTY._replace(partitions=(TopicPartition("t", 0),)), False)])
def test_prepared_transaction_when_nothing_is_in_it_then_it_is_empty(
        prepared: PreparedTransaction, is_empty: bool) -> None:
    assert prepared.is_empty is is_empty


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"transactional_id": "x"}', FULL.to_json()[:-5],
                                  '{"transactional_id": "x", "producer_id": "a", "epoch": 0, "partitions": []}'])
def test_from_json_when_it_is_none_then_it_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="this is no prepared transaction"):
        PreparedTransaction.from_json(text)


def test_from_json_when_a_database_has_nothing_then_that_is_said() -> None:
    with pytest.raises(ValueError, match="this is no prepared transaction: None"):
        PreparedTransaction.from_json(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [FULL.to_json(), None, 7, [FULL.to_json()]])
def test_completer_when_it_is_given_something_else_then_it_says_what_makes_one(wrong: Any) -> None:
    with TransactionCompleter({"bootstrap.servers": "127.0.0.1:1"}) as completer:
        for end in (completer.commit, completer.abort, completer.commit_all, completer.abort_all):
            with pytest.raises(TypeError, match=r"PreparedTransaction\.from_json"):
                end(wrong)
