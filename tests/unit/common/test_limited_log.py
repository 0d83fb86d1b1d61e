"""A flood of warnings writes a few lines, and says how many were left out."""

from __future__ import annotations

import pytest

from pyproducer.common.clock import NEVER_MS
from pyproducer.common.limited_log import MOST_LINES, WINDOW_MS, LimitedLog
from pyproducer.common.sender_log import sender_log

LOG = sender_log("test_limited_log")


def test_warning_when_a_flood_comes_then_its_first_lines_are_written_and_the_others_counted(
        caplog: pytest.LogCaptureFixture) -> None:
    limited = LimitedLog(LOG, "%d more, %d records")
    for number in range(10_000):
        limited.warning(number // 10, 3, "line %d", number)
    assert caplog.messages == [f"line {number}" for number in range(MOST_LINES)]
    assert limited.step(999) == WINDOW_MS - 999
    assert limited.step(WINDOW_MS) == NEVER_MS
    assert caplog.messages[MOST_LINES:] == [f"{10_000 - MOST_LINES} more, {3 * (10_000 - MOST_LINES)} records"]
    assert limited.left_out_count == 0
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_warning_when_the_next_window_begins_then_the_last_one_is_summed_up_first(
        caplog: pytest.LogCaptureFixture) -> None:
    limited = LimitedLog(LOG, "%d more, %d records")
    for _ in range(MOST_LINES + 2):
        limited.warning(0, 1, "old")
    limited.warning(WINDOW_MS, 1, "new")
    assert caplog.messages[MOST_LINES:] == ["2 more, 2 records", "new"]


def test_step_when_nothing_was_left_out_then_it_need_not_be_called_again(caplog: pytest.LogCaptureFixture) -> None:
    limited = LimitedLog(LOG, "%d more, %d records")
    assert limited.step(0) == NEVER_MS
    limited.warning(5, 1, "line")
    assert limited.step(5) == NEVER_MS
    limited.tell_left_out()
    assert caplog.messages == ["line"]
