"""Freeze and thaw: the sender could not run for longer than request.timeout.ms, and goes on.

A laptop sleeps, a function's container is frozen between two calls, a process is stopped (SIGSTOP). Meanwhile brokers
and everything on the way may have forgotten its connections without a word, and deadlines passed that nobody could
meet. Whatever was meant to take time is none of that; so sleeps are short against that time, also when all is idle.

    where the time went                      how it is seen                             deadlines   connections
    in the poll, beyond its timeout          NetworkClient.poll                         move        made anew
    between two turns, aside (turns.py)      the next turn's time and `rested_ms`       move        made anew
    within a turn, but not in the poll       time between polls                         move, once  kept
    the machine slept, the clock, too        Clock.suspended_ms, once a second          stay        made anew

Callbacks run within turns, so they may take that long, and then the brokers and the network were there all the time:
their answers lie in the sockets, which are not to be dropped for that. A process that was stopped just then looks the
same; whichever of its connections is dead is found so by request.timeout.ms, as ever. What happens again within
delivery.timeout.ms is no stop, but callbacks that take that long: then the deadlines hold, or no record would ever meet
one.

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
        delivery_timeout_ms: delivery.timeout.ms: a second long turn within it moves no deadline.

    Attributes:
        rested_ms: When a turn ended after which nothing of the application's could run. Written by who ends it.
        longest_pause_ms: How long the sender may not run.
        due_ms: From when on `has_thawed` has something to say, whether or not the sender could run. Written here only.
    """

    def __init__(self, wire: Wire, metadata: ProducerMetadata, accumulator: RecordAccumulator, clock: Clock,
                 request_timeout_ms: int, delivery_timeout_ms: int) -> None:
        self._wire = wire
        self._metadata = metadata
        self._accumulator = accumulator
        self._clock = clock
        self.longest_pause_ms: int = longest_pause_ms(request_timeout_ms)
        self.rested_ms: int = -NEVER_MS
        self.due_ms: int = -NEVER_MS
        self._delivery_timeout_ms = delivery_timeout_ms
        self._long_turn_ms = -NEVER_MS  # when the last one ended
        self._told_ms = -NEVER_MS  # until when pauses were told
        self._has_thawed = False
        self._suspended_ms = clock.suspended_ms()

    def has_thawed(self, now_ms: int) -> bool:
        """Whether the connections are to be made anew before anything else.

        To be asked at the beginning of a turn, when it is due or the last poll was over for longer than the longest
        pause: the sender looks at that by itself, for it is the case in few turns.
        """
        woke_ms = self._wire.client.woke_ms
        gap_ms = now_ms - max(woke_ms, self.rested_ms, self._told_ms)
        if gap_ms > self.longest_pause_ms:
            self._told_ms = now_ms  # once; the turn that begins is no rest, so this is not `rested_ms`
            self.on_pause(gap_ms, now_ms, self.rested_ms >= woke_ms)
        if now_ms >= self.due_ms and not self._has_thawed:
            self._look_for_suspend(now_ms)
        return self._has_thawed

    def end_rest(self, now_ms: int) -> None:
        """Say that somebody has the sender's role again, which nobody had since `rested_ms`. Before his first turn."""
        self._wire.client.rest_ms = now_ms - self.rested_ms

    def on_pause(self, gap_ms: int, now_ms: int, was_asleep: bool) -> None:
        """Move the deadlines: the sender could not run; but a turn that took long once more, so soon, moves none.

        Args:
            gap_ms: For how long.
            now_ms: Monotonic time, in ms.
            was_asleep: Whether that was no callback of the application's.
        """
        if not was_asleep:
            is_alone = now_ms - self._long_turn_ms > self._delivery_timeout_ms
            self._long_turn_ms = now_ms
            what = "are moved by that" if is_alone else "hold: it is not the first within delivery.timeout.ms"
            log.warning("A turn of the sender thread took %d ms, above request.timeout.ms: deadlines %s. Keep "
                        "callbacks short, unless the process was stopped", gap_ms, what)
            if not is_alone:
                return
        self._wire.client.move_deadlines(gap_ms)
        self._metadata.move_deadlines(gap_ms)
        self._accumulator.move_deadlines(gap_ms, now_ms)
        if was_asleep:
            self._has_thawed = True
            self.due_ms = -NEVER_MS
            log.warning("The process could not run for %d ms: deadlines are moved by that, and connections are made "
                        "anew", gap_ms)

    def acknowledge(self) -> None:
        """Say that the connections are made anew."""
        self._has_thawed = False

    def _look_for_suspend(self, now_ms: int) -> None:
        self.due_ms = now_ms + _LOOK_MS
        suspended_ms = self._clock.suspended_ms()
        slept_ms, self._suspended_ms = suspended_ms - self._suspended_ms, suspended_ms
        if slept_ms > self.longest_pause_ms:
            self._has_thawed = True
            self.due_ms = -NEVER_MS
            self._accumulator.on_suspended(slept_ms)
            log.warning("The machine slept for %d ms: connections are made anew", slept_ms)
