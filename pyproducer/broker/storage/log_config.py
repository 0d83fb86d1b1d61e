"""What a log does of its own accord: when it starts a new segment, what it lets go, what it compacts.

Road:    topic config -> [log config] -> log, retention, compaction
Thread:  immutable; a log's settings change by replacing the whole value.
Source:  Java LogConfig (4.1); the names are the topic settings', with underscores for dots.
"""

from __future__ import annotations

from typing import NamedTuple

_WEEK_MS = 7 * 24 * 3_600_000
_DAY_MS = 24 * 3_600_000


class LogConfig(NamedTuple):
    """The settings of one log.

    Attributes:
        segment_bytes: When a segment is full.
        segment_ms: When a segment is too old to be appended to, by the timestamps of its records.
        index_interval_bytes: How far index entries lie apart.
        retention_ms: How old the newest record of a segment may become; -1 for any age.
        retention_bytes: How large the log may become; -1 for any size.
        is_deleted: cleanup.policy has delete: the two settings above count.
        is_compacted: cleanup.policy has compact: older records of a key go.
        min_cleanable_ratio: How much of the closed segments must be new before they are compacted again.
        min_compaction_lag_ms: How long a record stays at least, by its timestamp.
        delete_retention_ms: How long a record without a value stays, by its timestamp.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = _WEEK_MS
    index_interval_bytes: int = 4096
    retention_ms: int = _WEEK_MS
    retention_bytes: int = -1
    is_deleted: bool = True
    is_compacted: bool = False
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    delete_retention_ms: int = _DAY_MS
