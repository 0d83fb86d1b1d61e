"""Topics that brokers do not know: who said it, when, and what a time in which nobody ran is to that."""

from __future__ import annotations

import pytest

from pyproducer.client.unknown_topics import UnknownTopics


def said_by(*answers: tuple[int, int]) -> UnknownTopics:
    """Answers that do not know the topic, each a node and when it came."""
    found = UnknownTopics()
    for node_id, now_ms in answers:
        found.note(["t"], [], {"t"}, node_id, now_ms)
    return found


@pytest.mark.parametrize("gap_ms", [0, 60_000])
def test_witnesses_when_nobody_ran_meanwhile_then_what_they_said_before_counts_as_if_just_said(gap_ms: int) -> None:
    unknown = said_by((1, 0), (2, 5_000))
    unknown.move(gap_ms)
    assert unknown.witnesses("t", gap_ms, 5_000) == [1, 2]
    assert unknown.witnesses("t", gap_ms + 1, 4_999) == [2]
    assert unknown.witnesses("t", gap_ms, 5_001) is None
    assert unknown.only_witness() == 2


def test_witnesses_when_a_broker_knows_the_topic_or_nobody_asks_for_it_then_there_are_none() -> None:
    unknown = said_by((1, 0), (2, 5_000))
    unknown.note([], ["t"], {"t"}, 3, 6_000)
    assert unknown.witnesses("t", 0, 1) is None
    assert not unknown
    unknown = said_by((1, 0), (1, 5_000))
    unknown.note([], [], set(), 1, 6_000)
    assert unknown.only_witness() is None
    assert not unknown


def test_witnesses_when_bootstrap_addresses_said_it_then_they_are_nobody() -> None:
    unknown = said_by((-1, 0), (-2, 5_000))
    assert unknown.witnesses("t", 0, 5_000) == []
    assert unknown.only_witness() is None
