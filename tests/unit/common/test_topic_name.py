"""Names that topics may have, and what is said of the others."""

from __future__ import annotations

import pytest

from pyproducer.common.errors import InvalidTopicError
from pyproducer.common.topic_name import ensure_topic_name, topic_name_fault


@pytest.mark.parametrize("name", ["orders", "a.b_c-D9", "...", "x" * 249])
def test_name_when_allowed_then_no_fault(name: str) -> None:
    assert topic_name_fault(name) is None
    ensure_topic_name(name)


@pytest.mark.parametrize(("name", "words"), [
    ("", "the empty string is not allowed"), (".", "'.' is not allowed"), ("..", "'..' is not allowed"),
    ("a/b", "'a/b' contains one or more characters other than ASCII"), ("a b", "'a b' contains"),
    ("x" * 250, f"'{'x' * 60}...' is 250, longer than the max allowed length 249"),
    ("gr\u00fcn", r"'gr\xfcn' contains"), ("bad\ud800", r"'bad\ud800' contains"), ("a\n", r"'a\n' contains"),
    ("\u0661", "contains")], ids=lambda text: ascii(text[:20]))
def test_name_when_not_allowed_then_the_error_names_it_the_limit_and_what_to_do(name: str, words: str) -> None:
    fault = topic_name_fault(name)
    assert fault is not None
    assert words in fault
    with pytest.raises(InvalidTopicError) as caught:
        ensure_topic_name(name)
    assert (caught.value.code, caught.value.outcome, caught.value.retriable) == (17, "not_sent", False)
    assert str(caught.value).startswith(fault)
    assert "Use a name of 1 to 249 characters out of a-z, A-Z, 0-9, '.', '_' and '-'" in str(caught.value)
    assert str(caught.value).isascii()
