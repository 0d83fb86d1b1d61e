"""What was written to a connection and gets no answer of its own (acks=0): how far the broker has come with it.

A broker handles the requests of a connection one after the other. So each of its answers, whatever was asked, says that
it has handled all that was written before; where nothing else is asked, a marker is: ApiVersions.

    written     P P P P M P P P P P M P P       P: Produce with acks=0, M: a marker
    confirmed   ------->|                       the first marker is answered; what is behind it may be gone when the
                                                connection ends now, and nobody else would say so

    every second                          a marker, so that little is unconfirmed when a connection ends
    where sessions end (KIP-368)          a marker more often, for it shows how fast the broker is; and no more is
                                          written than it can handle before the session's end: at the first request
                                          that it reaches after that it closes the connection, and what lies behind in
                                          the sockets is gone
    before a session is renewed           nothing is written until all is confirmed; where nothing is by
                                          request.timeout.ms behind its end, the connection is given up

Road:    Connections.send -> [unconfirmed writes] -> Connections.can_send_request, and the log when a connection ends
Thread:  sender thread only; reads no clock.
Source:  ours. Java counts such a record as sent when its bytes are with the system, and renews behind them.
"""

from __future__ import annotations

from typing import NamedTuple

from pyproducer.common.clock import NEVER_MS
from pyproducer.common.cluster import Node
from pyproducer.common.limited_log import LimitedLog
from pyproducer.common.sender_log import SenderLog, sender_log

log: SenderLog = sender_log(__name__)

# How often it is asked how far the broker is: that much is unconfirmed, as a rule, when a connection ends.
MARKER_INTERVAL_MS = 1_000
# The part of a session's life between two markers.
_SESSION_PARTS = 32
# By how much a broker may turn out slower than at the last marker.
_MARGIN = 2


class Position(NamedTuple):
    """How much was written to a connection before something.

    Attributes:
        requests: Produce requests without an answer.
        records: The records in them.
    """

    requests: int
    records: int


class UnconfirmedWrites:
    """Those of one connection.

    Args:
        lifetime_ms: For how long the broker takes our proof of who we are, in ms; 0 for ever.
        session_ends_ms: When that is over; NEVER_MS where it never is.

    Attributes:
        last_write_ms: When something was last written.
    """

    __slots__ = ("_confirmed", "_interval_ms", "_is_marker_out", "_marked_ms", "_ms_of_a_request", "_news_ms",
                 "_session_ends_ms", "_written", "last_write_ms")

    def __init__(self, lifetime_ms: int, session_ends_ms: int) -> None:
        self._written = Position(0, 0)
        self._confirmed = Position(0, 0)
        self._marked_ms = -NEVER_MS
        self._is_marker_out = False
        self._news_ms = 0  # when the broker began with what is unconfirmed, as far as we know
        self._ms_of_a_request: float | None = None  # how long it takes for one; not known before the first answer
        self.last_write_ms: int = 0
        self.begin_session(lifetime_ms, session_ends_ms)

    def begin_session(self, lifetime_ms: int, session_ends_ms: int) -> None:
        """The broker took our proof, for so long."""
        self._session_ends_ms = session_ends_ms
        if self._written == self._confirmed:
            self._ms_of_a_request = None  # of the session before: one pause of the broker is not to rule out all others
        self._interval_ms = (MARKER_INTERVAL_MS if lifetime_ms <= 0
                             else max(1, min(MARKER_INTERVAL_MS, lifetime_ms // _SESSION_PARTS)))

    @property
    def position(self) -> Position:
        """How much was written by now."""
        return self._written

    @property
    def unconfirmed(self) -> Position:
        """How much of it is not confirmed."""
        written, confirmed = self._written, self._confirmed
        return Position(written.requests - confirmed.requests, written.records - confirmed.records)

    def wrote(self, record_count: int, now_ms: int) -> None:
        """A request without an answer is handed to the connection."""
        written = self._written
        if written == self._confirmed:
            self._news_ms = now_ms
        self._written = Position(written.requests + 1, written.records + record_count)
        self.last_write_ms = now_ms

    def may_write(self, now_ms: int) -> bool:
        """Whether the broker is likely to reach one more request before the session ends."""
        if self._session_ends_ms == NEVER_MS:
            return True
        waiting = self._written.requests - self._confirmed.requests
        if self._ms_of_a_request is None:
            return not waiting  # the first one shows how fast it is
        return now_ms + (waiting + 1) * self._ms_of_a_request * _MARGIN <= self._session_ends_ms

    # Markers.

    def marker_delay_ms(self, now_ms: int, *, at_once: bool) -> int:
        """Return how long until it is to be asked how far the broker is, in ms; NEVER_MS when an event will tell.

        Args:
            now_ms: Monotonic time, in ms.
            at_once: Whether somebody waits for it.
        """
        if self._is_marker_out or self._written == self._confirmed:
            return NEVER_MS
        if at_once or not self.may_write(now_ms):
            return 0
        return max(self._marked_ms + self._interval_ms - now_ms, 0)

    def on_marker_sent(self, now_ms: int) -> None:
        """It is asked."""
        self._is_marker_out = True
        self._marked_ms = now_ms

    def on_answer(self, position: Position, now_ms: int, *, is_marker: bool) -> None:
        """The broker has answered something before which so much was written."""
        if is_marker:
            self._is_marker_out = False
        count = position.requests - self._confirmed.requests
        if count > 0:
            self._ms_of_a_request = max(now_ms - self._news_ms, 1) / count
            self._confirmed = position
            self._news_ms = now_ms


class UnconfirmedRecords:
    """Counts and logs the records of a producer of which nobody knows whether a broker reached them.

    Attributes:
        total: How many so far. Thread: read by any.
        lines: What is written of it.
    """

    def __init__(self) -> None:
        self.total: int = 0
        self.lines: LimitedLog = LimitedLog(log, "%d more connections ended so, with %d records that may be gone")

    def on_end(self, node: Node, count: int, now_ms: int) -> None:
        """A connection ended."""
        self.total += count
        self.lines.warning(
            now_ms, count, "%s: %d record(s) may be gone: they were sent with acks=0, and the connection ended before "
            "the broker showed that it had come so far. With acks=1 or all they would have been sent again", node,
            count)
