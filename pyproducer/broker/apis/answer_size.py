"""How much one answer may tell: a small request can name the same thing very often.

Road:    DescribeConfigs, DescribeGroups, DescribeProducers, OffsetFetch -> [answer size]
Thread:  one request's.
Source:  ours; Kafka has no limit.
"""

from __future__ import annotations

# Members, producers, offsets: each costs twenty microseconds and half a kilobyte.
MOST_ELEMENTS = 50_000
# Settings are told by their bytes, for equal ones are in memory once: 10,000 topics with all that they have.
MOST_CONFIG_BYTES = 64 * 1024 * 1024


class AnswerSize:
    """What an answer still has room for.

    Args:
        most: How much at most; None for MOST_ELEMENTS.
    """

    def __init__(self, most: int | None = None) -> None:
        self._left = MOST_ELEMENTS if most is None else most

    @property
    def is_full(self) -> bool:
        """Whether what is asked for next is to be refused; the first thing never is, however large."""
        return self._left <= 0

    def add(self, count: int) -> None:
        """Count what was told."""
        self._left -= count
