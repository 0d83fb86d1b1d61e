"""The aborted transactions of one partition, which readers of committed records must skip.

    .txnindex, one for each segment with such a marker, as Kafka has it; an entry of 34 bytes:
    version INT16 = 0, producer id INT64, first offset INT64, last offset INT64 (the marker), last stable offset INT64

Road:    markers -> [transaction index] -> Fetch
Thread:  changes under the log's lock; reading takes none: a reader works on the list that it found.
Source:  Java TransactionIndex, AbortedTxn, UnifiedLog.collectAbortedTransactions (4.1). The files are written when a
         segment is rolled or closed, and never read: the index is made anew from the log at start.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction; its `last_stable_offset` is the one that the log had when it ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Aborted transactions by the offsets of their markers."""

    def __init__(self) -> None:
        # Replaced together when old ones are removed; else both only grow.
        self._view: tuple[list[AbortedTransaction], list[int]] = ([], [])

    def append(self, aborted: AbortedTransaction) -> None:
        """Enter one; its marker is the newest."""
        entries, last_offsets = self._view
        # Readers bisect the offsets: the entry must be there before.
        entries.append(aborted)
        last_offsets.append(aborted.last_offset)

    def collect(self, fetch_offset: int, up_to_offset: int) -> list[AbortedTransaction]:
        """Return those that touch the records from one offset to (without) the other."""
        entries, last_offsets = self._view
        found = []
        for number in range(bisect_left(last_offsets, fetch_offset), len(last_offsets)):
            entry = entries[number]
            if entry.first_offset < up_to_offset:
                found.append(entry)
            if entry.last_stable_offset >= up_to_offset:
                break  # whatever ended later began behind that
        return found

    def has_any(self, fetch_offset: int) -> bool:
        """Whether one ends at this offset or behind it."""
        _, last_offsets = self._view
        return bool(last_offsets) and last_offsets[-1] >= fetch_offset

    def remove_before(self, offset: int) -> None:
        """Forget those that ended before the log's new start."""
        entries, last_offsets = self._view
        first = bisect_left(last_offsets, offset)
        if first:
            self._view = (entries[first:], last_offsets[first:])

    def forget(self, last_offsets: Collection[int]) -> None:
        """Forget those whose markers are gone, by the markers' offsets."""
        entries, offsets = self._view
        kept = [number for number, offset in enumerate(offsets) if offset not in last_offsets]
        if len(kept) < len(offsets):
            self._view = ([entries[number] for number in kept], [offsets[number] for number in kept])

    def write(self, path: Path, base_offset: int) -> None:
        """Write the file of the last segment, which begins at `base_offset`; none when nothing was aborted there."""
        entries, last_offsets = self._view
        own = entries[bisect_left(last_offsets, base_offset):]
        if own:
            path.write_bytes(b"".join(_ENTRY.pack(_VERSION, *entry) for entry in own))
