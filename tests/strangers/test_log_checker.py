"""The checker that all delivery tests trust: it must complain."""

from __future__ import annotations

import pytest

from tests.support.log_checker import LogProblem, check_log, check_order


def test_log_when_it_holds_each_record_once_then_nothing_is_said() -> None:
    check_log([1, 2, 3], [3, 1, 2])
    check_log(range(3), [0, 1, 2, 9], may_be_lost=[8, 9])
    check_order([("a", 0), ("b", 0), ("a", 5), ("b", 1)])


@pytest.mark.parametrize(("stored", "word"), [
    ([1, 2], "1 lost"), ([1, 2, 3, 3], "1 stored more than once"), ([1, 2, 3, 4], "1 never sent"),
    ([1, 2, 3, 9, 9], "1 stored more than once")])
def test_log_when_a_record_is_lost_doubled_or_strange_then_it_says_so(stored: list[int], word: str) -> None:
    with pytest.raises(LogProblem, match=word):
        check_log([1, 2, 3], stored, may_be_lost=[9])


def test_log_when_one_of_two_equal_records_is_lost_then_it_says_so() -> None:
    check_log([1, 1, 2], [1, 2, 1])
    with pytest.raises(LogProblem, match=r"1 lost \(for example \[1\]\)"):
        check_log([1, 1, 2], [1, 2])


@pytest.mark.parametrize("numbers", [[0, 2, 1], [0, 0]])
def test_order_when_a_number_does_not_rise_then_it_says_so(numbers: list[int]) -> None:
    with pytest.raises(LogProblem, match="key 'k'"):
        check_order([("k", number) for number in numbers])
