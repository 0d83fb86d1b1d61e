"""The system's clocks, and what the monotonic one misses while the machine sleeps."""

from __future__ import annotations

import time

import pytest

from pyproducer.common import clock
from pyproducer.common.clock import SystemClock


def test_suspended_ms_when_a_clock_goes_on_then_it_is_what_the_other_one_missed(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_GOES_ON", 7)
    monkeypatch.setattr(time, "clock_gettime_ns", {7: 65_000_000_000}.__getitem__, raising=False)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_000_000_000)
    assert SystemClock().suspended_ms() == 60_000


def test_suspended_ms_when_no_clock_tells_then_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_GOES_ON", None)
    assert SystemClock().suspended_ms() == 0
