"""At which offset each leader epoch of a partition begins: how a client finds out where two histories part.

Road:    log -> [leader epochs] -> leader-epoch-checkpoint; OffsetForLeaderEpoch <- [leader epochs]
Thread:  changes under the partition's lock, by replacing the whole table; reading takes none.
Shape:   the file is Kafka's: "0", the number of entries, then "<epoch> <start offset>" on each line. It is written for
         others: at start the epochs are read from the batches themselves.
Source:  Java LeaderEpochFileCache, LeaderEpochCheckpointFile (4.1).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1


class EpochEntry(NamedTuple):
    """One epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._entries: tuple[EpochEntry, ...] = ()
        self._written: tuple[EpochEntry, ...] = ()

    @property
    def latest_epoch(self) -> int:
        """The newest epoch that has an entry, or -1."""
        entries = self._entries
        return entries[-1].epoch if entries else NO_EPOCH

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return self._entries

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Enter an epoch that begins at an offset; return whether that was new.

        Entries of the same offset go: their epochs have no record.
        """
        if epoch <= self.latest_epoch or epoch < 0:
            return False
        kept = tuple(entry for entry in self._entries if entry.start_offset < start_offset)
        self._entries = (*kept, EpochEntry(epoch, start_offset))
        return True

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that lie wholly before the log's new start."""
        older = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if older:
            newer = self._entries[len(older):]
            self._entries = (EpochEntry(older[-1].epoch, start_offset), *newer)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """Return the largest epoch not above the one asked for, and the offset where it ends; -1 and -1 if unknown."""
        entries = self._entries
        if not entries or epoch < 0 or epoch > entries[-1].epoch:
            return EpochEntry(NO_EPOCH, NO_OFFSET)
        if epoch == entries[-1].epoch:
            return EpochEntry(epoch, log_end_offset)
        higher = next(entry for entry in entries if entry.epoch > epoch)
        floor = max((entry.epoch for entry in entries if entry.epoch <= epoch), default=epoch)
        return EpochEntry(floor, higher.start_offset)

    def write(self) -> None:
        """Bring the file up to date, if anything changed."""
        entries = self._entries
        if entries == self._written:
            return
        lines = ["0", str(len(entries)), *(f"{entry.epoch} {entry.start_offset}" for entry in entries)]
        temporary = self._path.with_name(FILE_NAME + ".tmp")
        temporary.write_text("\n".join(lines) + "\n", "ascii")
        os.replace(temporary, self._path)
        self._written = entries
