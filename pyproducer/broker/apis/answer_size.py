"""How much one answer may tell: a small request can name the same thing very often.

Road:    DescribeConfigs, DescribeGroups, DescribeProducers, OffsetFetch -> [answer size]
Thread:  one request's.
Source:  ours; Kafka has no limit.
"""

from __future__ import annotations

# Settings, members, producers, offsets: 1,500 topics with all their settings. Each costs twenty microseconds and, with
# its documentation, half a kilobyte.
MOST_ELEMENTS = 50_000


class AnswerSize:
    """What an answer still has room for."""

    def __init__(self) -> None:
        self._left = MOST_ELEMENTS

    @property
    def is_full(self) -> bool:
        """Whether what is asked for next is to be refused; the first thing never is, however large."""
        return self._left <= 0

    def add(self, count: int) -> None:
        """Count what was told."""
        self._left -= count
