"""The samples behind rates, means and peaks."""

from __future__ import annotations

import pytest

from pyproducer.hotpath import Histogram
from pyproducer.observe.window import Distribution, Windows


@pytest.mark.parametrize(("num_samples", "growth", "elapsed_s", "peak"), [
    (1, 10, 0.5, 10), (2, 30, 1.5, 20), (3, 60, 2.5, 30)])
def test_view_when_samples_were_taken_then_it_goes_back_as_far_as_all_windows_together(
        num_samples: int, growth: int, elapsed_s: float, peak: int) -> None:
    values = {"records": 0, "largest": 0}
    windows = Windows(lambda: dict(values), num_samples, window_ms=1000, now_ms=0)
    for time_ms, count in ((1000, 100), (2000, 30), (3000, 20)):
        values["records"] += count
        values["largest"] = count
        windows.roll(time_ms)
    values["records"] += 10
    values["largest"] = 10
    view = windows.view(3500)
    assert (view.delta("records"), view.elapsed_s, view.peak("largest")) == (growth, elapsed_s, peak)


def test_quantile_when_values_are_beyond_the_buckets_then_it_is_the_largest() -> None:
    """8.4 s of 20: the last bucket has an end only on paper."""
    histogram = Histogram()
    for value in (20_000_000, 20_100_000):
        histogram.add(value)
    assert Distribution.of(histogram).quantile(0.5) == 20_100_000
