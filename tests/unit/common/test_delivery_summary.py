"""The summary that close() returns: a value that says itself whether all went well."""

from __future__ import annotations

import pickle

import pytest

from pyproducer.common.delivery_summary import DeliverySummary, TopicDeliveries


def test_summary_when_nothing_failed_then_it_is_true_and_has_all_outcomes() -> None:
    empty = DeliverySummary()
    assert empty
    assert (empty.delivered, empty.failed, empty.topics) == (0, {"not_sent": 0, "rejected": 0, "unknown": 0}, {})
    assert repr(DeliverySummary(3)) == "<DeliverySummary delivered=3 failed: none; topics=0>"


def test_summary_when_a_record_failed_then_it_is_false_and_says_how() -> None:
    failed = {"not_sent": 0, "rejected": 2, "unknown": 1}
    summary = DeliverySummary(5, failed, {"t": TopicDeliveries(5, failed)})
    assert not summary
    assert repr(summary) == "<DeliverySummary delivered=5 failed: rejected=2, unknown=1; topics=1>"
    assert pickle.loads(pickle.dumps(summary)) == summary
    with pytest.raises(AttributeError):
        summary.delivered = 6  # type: ignore[misc]
