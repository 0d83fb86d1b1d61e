"""Values as they are now, and as they were a while ago: what rates, averages, maxima and percentiles are made of.

Road:    registry -> [window] -> catalog
Thread:  `roll`: the sender thread. `between`: any.
Source:  Java SampledStat, Rate, Avg, Max (4.1): metrics.num.samples windows of metrics.sample.window.ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyproducer.hotpath import BUCKETS, Histogram, bucket_end

ENDS = tuple(bucket_end(index) for index in range(BUCKETS))
"""The largest value of each bucket of a histogram."""


class Distribution(NamedTuple):
    """A histogram as it was at one moment, or what came into it between two.

    Attributes:
        number: How many values.
        total: Their sum.
        peak: The largest since the last roll.
        counts: How many values each bucket has.
    """

    number: int
    total: int
    peak: int
    counts: tuple[int, ...]

    @classmethod
    def of(cls, histogram: Histogram) -> Distribution:
        """Copy a histogram that goes on."""
        return cls(histogram.count, histogram.total, histogram.peak, tuple(histogram.counts()))

    def plus(self, other: Distribution) -> Distribution:
        """Return both together."""
        return Distribution(self.number + other.number, self.total + other.total, max(self.peak, other.peak),
                            tuple(map(int.__add__, self.counts, other.counts)))

    def minus(self, before: Distribution) -> Distribution:
        """Return what came since `before`; its peak is this one's."""
        return Distribution(self.number - before.number, self.total - before.total, self.peak,
                            tuple(map(int.__sub__, self.counts, before.counts)))

    def quantile(self, share: float) -> float:
        """Return a value that `share` of all are not above, within 6 %; 0 where there is none.

        The last bucket has no end but the largest value.
        """
        count = sum(self.counts)
        wanted = share * count
        seen = 0
        for index, number in enumerate(self.counts):
            seen += number
            if number and seen >= wanted:
                return float(self.peak if index == BUCKETS - 1 else min(ENDS[index], self.peak))
        return 0.0

    @property
    def mean(self) -> float:
        """Their mean; 0 where there is none."""
        return self.total / self.number if self.number else 0.0


EMPTY = Distribution(0, 0, 0, (0,) * BUCKETS)
Values = Mapping[str, "int | Distribution"]


class View(NamedTuple):
    """What a row has, and what came since the window began.

    Attributes:
        now: Its values.
        before: Those at the window's beginning.
        samples: Those in between, oldest first.
        elapsed_s: How long ago that was.
    """

    now: Values
    before: Values
    samples: tuple[Values, ...]
    elapsed_s: float

    def total(self, field: str) -> int:
        """Return a number as it is now."""
        value = self.now[field]
        assert isinstance(value, int), field
        return value

    def delta(self, field: str) -> int:
        """Return what a number grew by."""
        before = self.before.get(field, 0)
        assert isinstance(before, int), field
        return self.total(field) - before

    def rate(self, field: str) -> float:
        """Return what a number grew by, for each second."""
        return self.delta(field) / self.elapsed_s if self.elapsed_s > 0 else 0.0

    def ratio(self, field: str, by: str) -> float:
        """Return the growth of one number by that of another; 0 where that is 0."""
        divisor = self.delta(by)
        return self.delta(field) / divisor if divisor else 0.0

    def peak(self, field: str) -> int:
        """Return the largest value in the window, of a number that the roll sets to 0."""
        return max(int(values[field]) for values in (*self.samples, self.now) if field in values)  # type: ignore[arg-type]  # a number

    def distribution(self, field: str) -> Distribution:
        """Return what came into a histogram."""
        now, before = self.now[field], self.before.get(field, EMPTY)
        assert isinstance(now, Distribution), field
        assert isinstance(before, Distribution), field
        peaks = [value.peak for values in (*self.samples, self.now)
                 if isinstance(value := values.get(field), Distribution)]
        return now.minus(before)._replace(peak=max(peaks))

    def whole(self, field: str) -> Distribution:
        """Return a histogram since the beginning."""
        now = self.now[field]
        assert isinstance(now, Distribution), field
        return now


class Windows:
    """The samples of one row.

    Args:
        read: Gives its values.
        num_samples: metrics.num.samples.
        window_ms: metrics.sample.window.ms.
        now_ms: When the row began.
    """

    __slots__ = ("_read", "_samples", "_window_ms")

    def __init__(self, read: Callable[[], Values], num_samples: int, window_ms: int, now_ms: int) -> None:
        self._read = read
        self._window_ms = window_ms
        self._samples: deque[tuple[int, Values]] = deque([(now_ms, {})], maxlen=num_samples)

    def roll(self, now_ms: int) -> None:
        """Take a sample; whoever calls this sets peaks to 0."""
        self._samples.append((now_ms, self._read()))

    def view(self, now_ms: int) -> View:
        """Return the values now, and since the window began.

        Source: Java SampledStat.purgeObsoleteSamples: what is older than all windows together does not count.
        """
        now = self._read()  # first: what comes meanwhile is not older than the samples
        samples = list(self._samples)
        oldest_ms = now_ms - self._window_ms * (self._samples.maxlen or 1)
        while len(samples) > 1 and samples[1][0] <= oldest_ms:
            samples.pop(0)
        began_ms, before = samples[0]
        return View(now, before, tuple(values for _, values in samples[1:]), max(now_ms - began_ms, 0) / 1000)
