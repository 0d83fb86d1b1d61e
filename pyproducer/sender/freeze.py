"""Freeze and thaw: the sender could not run for longer than request.timeout.ms, and goes on.

A laptop sleeps, a function's container is frozen between two calls, a process is stopped (SIGSTOP). Meanwhile brokers
and everything on the way may have forgotten its connections without a word, and deadlines passed that nobody could
meet. Whatever was meant to take time is none of that; so sleeps are short against that time, also when all is idle.

    where the time went                      how it is seen                             deadlines   connections
    in the poll, beyond its timeout          NetworkClient.poll                         move        made anew
    aside, between two turns (turns.py)      `end_rest`, by who takes the role again    move        made anew
    the machine slept, the clock, too        Clock.suspended_ms, once a second          stay        made anew

Time within a turn is no freeze, however long it is: callbacks run there, and meanwhile the brokers and the network were
there. A process that was stopped just then looks the same: its deadlines hold, and whichever of its connections is dead
is found so by request.timeout.ms, as ever.

Deadlines that move: delivery.timeout.ms, request.timeout.ms, socket.connection.setup.timeout.ms, max.block.ms of a
record that waits for metadata, what leads to a new bootstrap, how long brokers may not know a topic. Those that callers
gave, or wait for themselves, do not: result(timeout), flush(timeout), close(timeout), max.block.ms in send().

Road:    NetworkClient, IoThread, a caller's turn -> [freeze] -> Sender
Thread:  whoever takes the sender's turns.
Source:  ours. Differs from Java, which finds all deadlines passed at once: records expire that were never tried, and
         requests time out whose answers are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyproducer.accumulator.record_accumulator import RecordAccumulator
from pyproducer.client.metadata import ProducerMetadata
from pyproducer.common.clock import NEVER_MS, Clock
from pyproducer.common.sender_log import SenderLog, sender_log

if TYPE_CHECKING:
    from pyproducer.client.wire import Wire

log: SenderLog = sender_log(__name__)

# Below that a busy machine is no freeze, however short request.timeout.ms is.
_SHORTEST_FREEZE_MS = 1000
_LOOK_MS = 1000  # how often the clock is asked whether the machine slept


def longest_pause_ms(request_timeout_ms: int) -> int:
    """Return how long the sender may not run, in ms, before that counts as a freeze."""
    return max(request_timeout_ms, _SHORTEST_FREEZE_MS)


class Freeze:
    """Sees that the sender could not run, and moves the deadlines by that time.

    Args:
        wire: Whose client sleeps; its requests are given more time.
        metadata: Topics that are not known are given more time.
        accumulator: Records are given more time.
        clock: Asked whether the machine slept.
        request_timeout_ms: request.timeout.ms.

    Attributes:
        rested_ms: When a turn ended after which nobody has the sender's role. Written by who ends it.
        due_ms: From when on `has_thawed` has something to say. Written here only.
    """

    def __init__(self, wire: Wire, metadata: ProducerMetadata, accumulator: RecordAccumulator, clock: Clock,
                 request_timeout_ms: int) -> None:
        self._wire = wire
        self._metadata = metadata
        self._accumulator = accumulator
        self._clock = clock
        self._longest_pause_ms = longest_pause_ms(request_timeout_ms)
        self.rested_ms: int = NEVER_MS
        self.due_ms: int = -NEVER_MS
        self._has_thawed = False
        self._suspended_ms = clock.suspended_ms()

    def has_thawed(self, now_ms: int) -> bool:
        """Whether the connections are to be made anew before anything else.

        To be asked at the beginning of a turn, when it is due: the sender looks at that by itself, for it is the case
        in few turns.
        """
        if now_ms >= self.due_ms and not self._has_thawed:
            self._look_for_suspend(now_ms)
        return self._has_thawed

    def end_rest(self, now_ms: int) -> None:
        """Say that somebody has the sender's role again, which nobody had since `rested_ms`. Before his first turn."""
        gap_ms = max(0, now_ms - self.rested_ms)
        self.rested_ms = now_ms  # it counts once, also where the turn is not for who took the role
        self._wire.client.rest_ms += gap_ms
        if gap_ms > self._longest_pause_ms:
            self.on_pause(gap_ms, now_ms)

    def on_pause(self, gap_ms: int, now_ms: int) -> None:
        """Move the deadlines, and have connections made anew: the sender could not run for so long, in ms."""
        self._wire.client.move_deadlines(gap_ms)
        self._metadata.move_deadlines(gap_ms)
        self._accumulator.move_deadlines(gap_ms, now_ms)
        self._has_thawed = True
        self.due_ms = -NEVER_MS
        log.warning("The process could not run for %d ms: deadlines are moved by that, and connections are made anew",
                    gap_ms)

    def acknowledge(self) -> None:
        """Say that the connections are made anew."""
        self._has_thawed = False

    def _look_for_suspend(self, now_ms: int) -> None:
        self.due_ms = now_ms + _LOOK_MS
        suspended_ms = self._clock.suspended_ms()
        slept_ms, self._suspended_ms = suspended_ms - self._suspended_ms, suspended_ms
        if slept_ms > self._longest_pause_ms:
            self._has_thawed = True
            self.due_ms = -NEVER_MS
            self._accumulator.on_suspended(slept_ms)
            log.warning("The machine slept for %d ms: connections are made anew", slept_ms)
