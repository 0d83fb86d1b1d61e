"""Patterns of RE2: what they match, which are refused, and that no pattern takes more than its share."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyproducer.broker.cluster.linear_pattern import MOST_ITEMS, LinearPattern


@pytest.mark.parametrize(("pattern", "matching", "others"), [
    ("", [""], ["a"]),
    ("orders-.*", ["orders-", "orders-1"], ["orders", "my-orders-1", "orders-\n"]),
    (r"quoted\.p[0-9]+", ["quoted.p0", "quoted.p12"], ["quotedxp0", "quoted.p"]),
    (r".*-v[0-9]+", ["a-v1", "-v20"], ["a-v", "a-v1 "]),
    ("ab?c", ["abc", "ac"], ["abbc", "a"]),
    ("a*?b+?c??", ["b", "aabbc"], ["a", "bcc"]),
    (r"\d\D\w\W\s\S", ["1aa- x", "1-_- -"], ["aaa- x", "\u0661aa- x"]),
    ("[^a-c]", ["d", "\n"], ["a", ""]),
    ("[]a]", ["]", "a"], ["b"]),
    ("[^]a]", ["b"], ["]", "a"]),
    ("[a-]", ["a", "-"], ["b"]),
    (r"[\d\-x]", ["5", "-", "x"], ["d"]),
    (r"[\.-\[]", ["A", ".", "["], ["-", "a"]),
    (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
    (r"\Qa.", ["a."], ["ab"]),
    (r"\$\{\}]\\", ["${}]\\"], ["$"]),
])
def test_pattern_when_it_is_one_of_re2_then_it_matches_what_re2_matches(
        pattern: str, matching: list[str], others: list[str]) -> None:
    found = LinearPattern(pattern)
    assert [text for text in (*matching, *others) if found.matches(text)] == matching


@pytest.mark.parametrize("pattern", [
    "(", ")", "(a)", "a|b", "a{2}", "^a", "a$", "[", "[a", "[]", "[^]", "*a", r"\Q\E*", "a**", "a?+", r"\8", r"\y",
    r"\pL", r"\t", r"a\b", r"\x41", "\\", "[z-a]", r"[\d-a]", r"[a-\d]", r"[\D]", "[[:alpha:]]", "[a-",
    "a" * (MOST_ITEMS + 1), "[" + "a-z" * MOST_ITEMS + "_]", "\\Q" + "a" * 30_000])
def test_pattern_when_it_has_what_is_not_known_here_then_it_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"at character \d+|is not known here|is no range"):
        LinearPattern(pattern)


_ITEMS = st.tuples(st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\w", r"\S"]),
                   st.sampled_from(["", "*", "+", "?", "*?"])).map("".join)


@given(st.lists(_ITEMS, max_size=8).map("".join), st.text("ab\n ", max_size=8))
@settings(max_examples=200)
def test_pattern_when_it_is_a_small_one_then_it_matches_what_pythons_own_matcher_matches(
        pattern: str, text: str) -> None:
    assert LinearPattern(pattern).matches(text) == (re.fullmatch(pattern, text) is not None), (pattern, text)


@pytest.mark.parametrize(("pattern", "text", "matches"), [
    ("a*" * 500 + "b", "a" * 20_000, False),
    (".*a" * 300, "a" * 20_000, True),
    ("a?" * 400 + "a" * 400, "a" * 400, True)])
def test_pattern_when_a_backtracking_matcher_would_need_for_ever_then_it_is_matched_all_the_same(
        pattern: str, text: str, matches: bool) -> None:
    """One request with such a pattern held the whole broker, and the program that it was embedded in, for ever."""
    assert LinearPattern(pattern).matches(text) is matches
