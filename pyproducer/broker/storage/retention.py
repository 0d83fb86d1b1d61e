"""Which of a log's oldest segments may go: by age, by size, or because its start has moved past them.

Road:    log manager, DeleteRecords -> log -> [retention]
Thread:  pure functions; the log calls them under its lock.
Source:  Java UnifiedLog.deleteOldSegments: retention time, retention size, log start offset (4.1).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyproducer.broker.storage.log_config import LogConfig
from pyproducer.broker.storage.segment import LogSegment


def deletable_count(segments: Sequence[LogSegment], config: LogConfig, *, log_start_offset: int,
                    timestamp_ms: int | None) -> int:
    """Return how many segments, counted from the oldest, are to be deleted.

    All of them may be: the log then starts a new one first. An empty last segment never is.

    Args:
        segments: All segments by base offset.
        config: The log's settings.
        log_start_offset: Nothing before it is served any more.
        timestamp_ms: The wall clock; None looks only at `log_start_offset`.
    """
    left_bytes = sum(segment.size_bytes for segment in segments)
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        is_before_start = not is_last and segments[number + 1].base_offset <= log_start_offset
        if is_last and segment.size_bytes == 0:
            return number
        if not (is_before_start or (timestamp_ms is not None and config.is_deleted
                                    and _is_expired(segment, config, left_bytes, timestamp_ms))):
            return number
        left_bytes -= segment.size_bytes
    return len(segments)


def _is_expired(segment: LogSegment, config: LogConfig, left_bytes: int, timestamp_ms: int) -> bool:
    if config.retention_ms >= 0 and timestamp_ms - segment.largest_timestamp_ms() > config.retention_ms:
        return True
    return config.retention_bytes >= 0 and left_bytes - segment.size_bytes >= config.retention_bytes
