"""How long a caller waits, in what a thread can wait."""

from __future__ import annotations

import threading
from decimal import Decimal
from fractions import Fraction

import pytest

from pyproducer.common.clock import SystemClock
from pyproducer.common.timeouts import checked_timeout
from pyproducer.common.waiting import new_cell


@pytest.mark.parametrize(("timeout", "seconds"), [
    (None, None), (0, 0.0), (1.5, 1.5), (threading.TIMEOUT_MAX, threading.TIMEOUT_MAX), (Decimal("0.5"), 0.5),
    (Fraction(1, 4), 0.25), (-1, 0.0), (-0.001, 0.0), (float("-inf"), 0.0), (float("inf"), None), (1e300, None),
    (10**400, None), (threading.TIMEOUT_MAX + 1000, None)])
def test_timeout_when_it_is_a_number_then_seconds_that_a_thread_can_wait(timeout, seconds):
    assert checked_timeout(timeout) == seconds
    assert threading.Event().wait(0 if seconds is None else seconds and 0.001) is False


def test_wait_when_it_is_longer_than_a_thread_can_wait_then_there_is_no_overflow() -> None:
    cell = new_cell()
    cell.release()
    assert SystemClock().wait(cell, (2**63 - 1) / 1000)
