"""What was decided, as texts that a group's metadata can hold."""

from __future__ import annotations

import pytest

from pyproducer.twophase import DecidedTask, Decision
from pyproducer.twophase.decision import METADATA_BYTES, more_texts

LONG = 2**31


def decision(count: int, query_id: str = "3f0c") -> Decision:
    return Decision(7, query_id, tuple(DecidedTask(number, LONG * LONG, 32_767, LONG, LONG) for number in range(count)))


@pytest.mark.parametrize("count", [0, 1, 80, 81, 82, 83, 1000])
@pytest.mark.parametrize("query_id", ["", "3f0c", "\u00e9" * 100])
def test_decision_when_it_is_read_back_then_it_is_the_same_and_no_text_is_too_long(count: int, query_id: str) -> None:
    texts = decision(count, query_id).texts()
    assert max(len(text.encode()) for text in texts) <= METADATA_BYTES
    assert more_texts(texts[0]) == len(texts) - 1
    assert Decision.of(7, texts) == decision(count, query_id)


def test_decision_when_one_text_is_nearly_full_then_the_next_task_goes_on_in_another() -> None:
    counts = [len(decision(count).texts()) for count in range(300)]
    assert counts == sorted(counts)
    assert counts[-1] == 4
    assert all(len(text) > METADATA_BYTES - 120 for text in decision(299).texts()[:-1])


@pytest.mark.parametrize("text", ["", "mine", "{}", "[]", '{"more":null}'])
def test_more_texts_when_a_consumer_wrote_it_then_it_is_no_decision(text: str) -> None:
    with pytest.raises(ValueError, match="this is no decision"):
        more_texts(text)


@pytest.mark.parametrize("form", ["", '"form":1,', '"form":3,'])
def test_more_texts_when_another_version_wrote_it_then_its_checksums_are_compared_with_none(form: str) -> None:
    """Equal rows would pass for others, and the advice is to go on without them."""
    with pytest.raises(ValueError, match="a decision of another version of pyproducer, which makes checksums of rows"):
        more_texts(f'{{{form}"query":"3f0c","more":0,"tasks":[[0,8,1,20,1724681180]]}}')
