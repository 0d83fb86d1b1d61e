"""What a peer told goes into a log as one line of bounded length, and paints nothing."""

from __future__ import annotations

import pytest

from pyproducer.common.cluster import Node, address_text
from pyproducer.common.error_codes import ErrorCode, error_for_code
from pyproducer.common.printable import LONGEST_MESSAGE, printable

EVIL = "fine\n2026-01-01 CRITICAL root fake\r\x1b[31m\x07\0\u2028\u202e\x85\ud800"


@pytest.mark.parametrize("text", ["", "plain", "caf\u00e9 \u4e2d\u6587 \U0001f600", "a\\n is two characters",
                                  "x" * LONGEST_MESSAGE])
def test_text_when_it_is_printable_then_it_is_left(text):
    assert printable(text) is text


def test_text_when_characters_control_something_then_they_are_escaped():
    assert printable(EVIL) == ("fine\\n2026-01-01 CRITICAL root fake\\r\\x1b[31m\\x07\\x00\\u2028\\u202e\\x85\\ud800")
    assert printable(EVIL).isprintable()


def test_text_when_it_is_long_then_its_end_is_cut_off():
    assert printable("abcdef", 3) == "abc... (6 characters)"
    assert printable("a\nc\nef", 4) == "a\\nc\\n... (6 characters)"
    assert len(printable("\0" * 10_000_000)) < 5 * LONGEST_MESSAGE


def test_address_when_the_host_holds_what_is_not_printable_then_escaped():
    assert address_text("host", 1) == "host:1"
    assert address_text("::1", 1) == "[::1]:1"
    assert address_text(EVIL, 9092).isprintable()
    assert str(Node(1, EVIL, 9092)) == f"{printable(EVIL)}:9092 (node 1)"
    assert repr(Node(1, EVIL, 9092, EVIL)).isprintable()
    assert len(str(Node(1, "h" * 30_000, 9092))) < 400


@pytest.mark.parametrize("code", [ErrorCode.INVALID_RECORD, 4711])
def test_error_when_the_brokers_words_are_not_printable_then_escaped(code):
    error = error_for_code(code, message=f"t-0: {EVIL}")
    assert f"t-0: {printable(EVIL)}" in str(error)
    assert str(error).isprintable()
    assert len(str(error_for_code(code, message="x" * 1_000_000))) < 3000
