"""What happened in each of the last seconds, and in each of the last minutes before.

The ring of stories says all of each batch, and at ten thousand batches a second it says it of a fifth of a second. Here
are sums of the same, for two minutes by the second and for nine hours by the minute: what `why` falls back to, and what
answers "what happened at 02:47".

Road:    ledger -> [history] -> why
Thread:  `take`: the sender thread. `rows`: any.
Source:  ours.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

from pyproducer.hotpath import COLUMNS, Ledger
from pyproducer.observe.rows import ProducerRow

SECONDS = 130
MINUTES = 550
SUMMED = ("memory_ms", "room_ms", "linger_ms", "codec_us", "wire_ms", "tell_ms", "retry_ms", "attempts", "records",
          "bytes", "busy_ms", "floor_ms")
"""Of the stories' columns, those whose sums mean something; bytes are kept in KiB."""
WAITS = ("name_ms", "connection_ms", "metadata_ms", "throttle_ms", "slot_ms", "order_ms", "late_ms", "callback_wait_ms",
         "codec_wait_ms")
"""Waits of batches by reason, as numbered in the ledger from 1 on."""
OTHERS = ("batches", "errors", "retries", "callback_ms", "cpu_ms", "sender_cpu_ms", "pool_wait_ms")
FIELDS = (*SUMMED, *WAITS, *OTHERS)
_WIDTH = len(FIELDS)
_INDICES = tuple(COLUMNS.index(name) for name in SUMMED)
_MOST = 2**31 - 1
SECOND_MS, MINUTE_MS = 1000, 60_000


class Span(NamedTuple):
    """Sums of some time.

    Attributes:
        from_ms: When it began, monotonic.
        to_ms: When it ended.
        sums: A value for each of FIELDS.
    """

    from_ms: int
    to_ms: int
    sums: dict[str, int]


class _Rows:
    """A ring of spans of about the same length."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._ends = array("q", bytes(8 * capacity))
        self._values = array("i", bytes(4 * _WIDTH * capacity))
        self._used = 0

    def append(self, to_ms: int, values: list[int]) -> None:
        slot = self._used % self._capacity
        self._ends[slot] = to_ms
        self._values[slot * _WIDTH:(slot + 1) * _WIDTH] = array("i", [
            max(-_MOST, min(value, _MOST)) for value in values])
        self._used += 1

    def rows(self, began_ms: int) -> list[Span]:
        """Return the spans, oldest first; the first of all began at `began_ms`."""
        used = self._used
        found = []
        before_ms = began_ms
        for number in range(max(0, used - self._capacity), used):
            slot = number % self._capacity
            to_ms = self._ends[slot]
            if number and number == used - self._capacity:
                before_ms = to_ms  # its beginning is forgotten: it only says where the next begins
            else:
                values = self._values[slot * _WIDTH:(slot + 1) * _WIDTH]
                found.append(Span(before_ms, to_ms, dict(zip(FIELDS, values, strict=True))))
                before_ms = to_ms
        return found


class History:
    """Spans of a second, and of a minute.

    Args:
        now_ms: When it begins, monotonic ms.

    """

    def __init__(self, now_ms: int) -> None:
        self._cpu_ms: Callable[[], tuple[int, int]] = _unknown
        self._pool_wait_ms: Callable[[], int] = _nothing
        self._began_ms = now_ms
        self._seconds = _Rows(SECONDS)
        self._minutes = _Rows(MINUTES)
        self._last = [0] * _WIDTH
        self._last_ms = now_ms
        self._last_of_minute = [0] * _WIDTH
        self._minute_ms = now_ms

    def watch(self, cpu_ms: Callable[[], tuple[int, int]], pool_wait_ms: Callable[[], int]) -> None:
        """Have samples with more in them, from now on.

        Args:
            cpu_ms: Gives the CPU time of the process and that of the sender thread, in ms; 0 where it is not known.
            pool_wait_ms: Gives how long callers waited for memory in all.
        """
        self._cpu_ms, self._pool_wait_ms = cpu_ms, pool_wait_ms
        for values in (self._last, self._last_of_minute):
            values[FIELDS.index("cpu_ms")], values[FIELDS.index("sender_cpu_ms")] = cpu_ms()

    def take(self, now_ms: int, ledger: Ledger, producer: ProducerRow) -> int:
        """Take a sample, where a second has passed; return when to come again.

        Where nobody came for long, the sender slept or was busy, and the span is as long as that.
        """
        if now_ms - self._last_ms < SECOND_MS:
            return self._last_ms + SECOND_MS
        values = self._read(ledger, producer)
        self._seconds.append(now_ms, _difference(values, self._last))
        self._last, self._last_ms = values, now_ms
        if now_ms - self._minute_ms >= MINUTE_MS:
            self._minutes.append(now_ms, _difference(values, self._last_of_minute))
            self._last_of_minute, self._minute_ms = values, now_ms
        return now_ms + SECOND_MS

    def spans(self, now_ms: int, ledger: Ledger, producer: ProducerRow) -> list[Span]:
        """Return all that is kept, oldest first, and what came since the last sample. Thread: any."""
        seconds = self._seconds.rows(self._began_ms)
        last, last_ms = self._last, self._last_ms
        values = self._read(ledger, producer)
        first_ms = seconds[0].from_ms if seconds else last_ms
        minutes = self._minutes.rows(self._began_ms)
        joint_ms = first_ms
        if first_ms > self._began_ms:  # the oldest second may be in the middle of a minute: seconds count from its end
            joint_ms = min((span.to_ms for span in minutes if span.to_ms >= first_ms), default=first_ms)
        spans = [span for span in minutes if span.to_ms <= joint_ms]
        spans.extend(span for span in seconds if span.from_ms >= joint_ms)
        spans.append(Span(last_ms, now_ms, dict(zip(FIELDS, _difference(values, last), strict=True))))
        return spans

    def _read(self, ledger: Ledger, producer: ProducerRow) -> list[int]:
        sums = ledger.sums()
        cpu_ms, sender_cpu_ms = self._cpu_ms()
        values = [sums[index] for index in _INDICES]
        values[SUMMED.index("bytes")] >>= 10
        values.extend(sums[len(COLUMNS) + 1:])
        values.extend((ledger.ended_total, producer.record_error_total, producer.record_retry_total,
                       producer.callback_ms_total, cpu_ms, sender_cpu_ms, self._pool_wait_ms()))
        return values


def _difference(values: list[int], before: list[int]) -> list[int]:
    return [now - then for now, then in zip(values, before, strict=True)]


def _unknown() -> tuple[int, int]:
    return 0, 0


def _nothing() -> int:
    return 0
