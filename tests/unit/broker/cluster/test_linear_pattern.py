"""Patterns of RE2: what they match, which are none, and that no pattern takes more than its share."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyproducer.broker.cluster.linear_pattern import MOST_INSTRUCTIONS, LinearPattern, PatternTooCostlyError
from pyproducer.broker.cluster.pattern_syntax import MOST_DEPTH


@pytest.mark.parametrize(("pattern", "matching", "others"), [
    ("", [""], ["a"]),
    ("orders-.*", ["orders-", "orders-1"], ["orders", "my-orders-1", "orders-\n"]),
    (r".*-v[0-9]+", ["a-v1", "-v20"], ["a-v", "a-v1 "]),
    ("(a|b)-[cd]", ["a-c", "b-d"], ["a-e", "ab-c"]),
    ("a|b|", ["a", "b", ""], ["ab"]),
    ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
    ("a{2}", ["aa"], ["a", "aaa"]),
    ("a{2,}", ["aa", "a" * 50], ["a"]),
    ("(?:ab)*?c", ["c", "ababc"], ["abac"]),
    ("(a*)*b", ["b", "aab"], ["a"]),
    ("(?:a{0}){3}", [""], ["a"]),
    ("a{,2}", ["a{,2}"], ["aa"]),
    ("{", ["{"], [""]),
    (r"\d\D\w\W\s\S", ["1aa- x", "1-_- -"], ["aaa- x", "\u0661aa- x"]),
    (r"\pL+\p{Nd}\PL\p{^L}", ["\u00e4b1--"], ["ab1a-", "ab1-a"]),
    (r"\p{Any}", ["\u6d88", "\n"], [""]),
    ("[^a-c]", ["d", "\n"], ["a", ""]),
    ("[]a]", ["]", "a"], ["b"]),
    ("[a-]", ["a", "-"], ["b"]),
    (r"[\d\-x]", ["5", "-", "x"], ["d"]),
    ("[[:alpha:]_][[:^alpha:]]", ["a1", "_1"], ["1a"]),
    (r"[^\D]", ["1"], ["a"]),
    ("(?i)OrDers", ["orders", "ORDERS"], ["order"]),
    ("a(?i:b)c", ["abc", "aBc"], ["ABc", "abC"]),
    ("(?i)[^a]", ["b"], ["a", "A"]),
    ("(?s)a.b", ["a\nb"], []),
    ("a.b", ["axb"], ["a\nb"]),
    ("(?m)a$\n^b", ["a\nb"], ["ab"]),
    ("a$\n^b", [], ["a\nb"]),
    (r"\Aab\z", ["ab"], ["abc"]),
    (r"a\b-\Bb?", ["a-"], ["a-b"]),
    (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
    (r"\Qa.", ["a."], ["ab"]),
    (r"\x41\x{1F600}\101\t\.", ["A\U0001f600A\t."], []),
    ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
    ("(?-s:.)(?U)a+", ["xa"], ["\na"]),
])
def test_pattern_when_it_is_one_of_re2_then_it_matches_what_re2_matches(
        pattern: str, matching: list[str], others: list[str]) -> None:
    found = LinearPattern(pattern)
    assert [text for text in (*matching, *others) if found.matches(text)] == matching


@pytest.mark.parametrize("pattern", [
    "(", ")", "[", "[a", "*a", "a**", "a{2}{3}", "a|*", "(?=a)a", "(?<!a)b", r"(a)\1", r"\8", r"\y", r"\pX",
    r"\p{Greek}",
    "[z-a]", "[[:nope:]]", "a{3,2}", "a{1001}", "a{10000000000}", "(?P<n>a)(?P<n>b)", "(?P<>a)", "(?P=n)", "(?k)a",
    "(?-)a", "\\", r"\x", r"\x{110000}", r"\xzz", "(?", "(?P<n", "(?:a", r"[\d-a]" + "[", r"\C", "(?#a)",
    "(" * (MOST_DEPTH + 2) + ")" * (MOST_DEPTH + 2), "a" * 2001, "\\Q" + "a" * 30_000, "|a" * 2001, "()" * 2001])
def test_pattern_when_re2_has_no_such_thing_then_it_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"at character \d+"):
        LinearPattern(pattern)


@pytest.mark.parametrize("pattern", [
    f"a{{{1000}}}" * 3, "(?:a{1000}){1000}", "(?:(?:ab){30}){40}", "(?:a?){1000}b{1000}"])
def test_pattern_when_it_has_too_many_instructions_then_it_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=f"more than {MOST_INSTRUCTIONS} instructions"):
        LinearPattern(pattern)


@pytest.mark.parametrize("pattern", [
    "(?:(?:(?:){1000}){1000}){1000}", "(" * MOST_DEPTH + "a" + ")*" * MOST_DEPTH, "[" + "a-z" * 10_000 + "]{1000}",
    "{," * 16_000 + "}", "[" + r"\pL\d" * 6_000 + "]*", "(?i)" * 8_000])
def test_pattern_when_it_is_large_or_deep_then_it_is_read_all_the_same(pattern: str) -> None:
    try:
        LinearPattern(pattern, 100_000).matches("a" * 100)
    except (ValueError, PatternTooCostlyError):
        pass  # each within its bounds


_PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^a]", ".", "^", "$", r"\b"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join), st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{0}", "{2}", "{1,2}", "{1,}", "*?"])).map(
            lambda two: f"(?:{two[0]}){two[1]}")), max_leaves=6)


@given(_PATTERNS, st.text("ab\n ", max_size=6))
@settings(max_examples=200)
def test_pattern_when_it_is_a_small_one_then_it_matches_what_pythons_own_matcher_matches(
        pattern: str, text: str) -> None:
    # In RE2 "$" is the end of the text; in Python also what stands before the last newline.
    expected = re.fullmatch(pattern.replace("$", r"\Z"), text) is not None
    assert LinearPattern(pattern).matches(text) == expected, (pattern, text)


@pytest.mark.parametrize(("pattern", "text", "matches"), [
    ("(?:a|aa)" * 40 + "x", "a" * 60, False),
    ("(a+)+b", "a" * 200, False),
    ("(a|a)*b", "a" * 200, False),
    ("(.*a){12}", "a" * 200, True),
    ("a*a*a*a*a*a*b", "a" * 200, False),
    ("(?:a?){200}a{200}", "a" * 200, True)])
def test_pattern_when_a_backtracking_matcher_would_need_for_ever_then_it_is_matched_all_the_same(
        pattern: str, text: str, matches: bool) -> None:
    """One request with the first of these held the whole broker, and the program that it was embedded in, for ever."""
    assert LinearPattern(pattern).matches(text) is matches


def test_pattern_when_it_has_cost_what_one_request_may_cost_then_it_says_so() -> None:
    pattern = LinearPattern("(?:a?){500}b", 50_000)
    with pytest.raises(PatternTooCostlyError):
        any(pattern.matches("a" * number) for number in range(1000))


def test_pattern_when_it_is_a_usual_one_then_it_costs_a_step_for_a_character() -> None:
    pattern = LinearPattern("orders-[0-9]+-.*", 6_000)
    for number in range(200):
        assert pattern.matches(f"orders-{number:03d}-abcdefghi")
