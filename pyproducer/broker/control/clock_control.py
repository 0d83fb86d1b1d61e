"""broker.clock: how a test lets time pass for the broker.

    broker.clock.advance(minutes=15)     sessions, transactions, retention, producer ids: what would be over then is

Road:    user -> [clock control] -> commands -> InProcessCluster -> MovableClock
Thread:  any.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyproducer.common.errors import ConfigError

_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000, "ms": 1}


class BrokerClock:
    """The clock of a cluster: all its brokers have the same. It goes by itself as the system's does."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0,
                ms: float = 0) -> None:
        """Let so much time pass at once; return when what is due then was done.

        Members whose session ends are evicted, transactions that are open too long aborted, delays and throttles are
        over, tokens and logins end; old segments, offsets, transactional ids and producer ids go, where
        log.retention.check.interval.ms and its like have passed, too. The clients notice nothing of it: they have
        their own clocks, and a member that could have sent a heartbeat meanwhile has sent none.

        Raises:
            ConfigError: Time does not go back.
            IllegalStateError: The broker is not running.
        """
        given = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds, "ms": ms}
        for name, value in given.items():
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 2**52:
                raise ConfigError(name, value, "a broker's clock goes forward: a number, not below 0")
        self._ask("advance_clock", ms=round(sum(_MS[name] * value for name, value in given.items())))

    @property
    def timestamp_ms(self) -> int:
        """What time it is for the broker, in ms since 1970.

        Raises:
            IllegalStateError: The broker is not running.
        """
        return int(self._ask("timestamp_ms"))
