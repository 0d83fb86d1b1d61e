"""How long to wait before the next try.

Road:    beside it; used by the accumulator (retries) and the client (reconnects, metadata).
Thread:  any; holds no state.
Source:  Java org.apache.kafka.common.utils.ExponentialBackoff (4.1), KIP-580.
"""

from __future__ import annotations

import random
from collections.abc import Callable


class ExponentialBackoff:
    """A wait that doubles with each failed attempt up to a ceiling, spread by jitter.

    Shape: initial_ms * multiplier ** attempts, at most max_ms, times a random factor in [1 - jitter, 1 + jitter].
    An initial wait that is not below the ceiling stays constant, without doubling, as in Java.

    Args:
        initial_ms: The first wait.
        max_ms: The ceiling.
        multiplier: How much longer each wait is than the one before.
        jitter: How far the factor may be from 1.
        uniform: Draws the factor, from a lowest to a highest.
    """

    def __init__(self, initial_ms: int, max_ms: int, *, multiplier: int = 2, jitter: float = 0.2,
                 uniform: Callable[[float, float], float] = random.uniform) -> None:
        self.initial_ms: int = min(initial_ms, max_ms)
        self.max_ms = max_ms
        self._multiplier = multiplier
        self._jitter = jitter
        self._uniform = uniform
        # Beyond this many attempts the ceiling is reached; keeps the power small.
        self._max_attempts = 64 if initial_ms > 0 else 0

    def backoff_ms(self, attempts: int) -> int:
        """Return the wait before attempt number `attempts + 1`, in ms; attempts counts failures so far, from 0."""
        if self.initial_ms <= 0:
            return 0
        wait_ms = self.initial_ms * self._multiplier ** min(max(attempts, 0), self._max_attempts)
        bounded_ms = min(wait_ms, self.max_ms)
        if self._jitter:
            bounded_ms *= self._uniform(1 - self._jitter, 1 + self._jitter)
        return int(min(bounded_ms, self.max_ms))
