"""How long somebody may wait, in what a thread can wait.

Road:    result(), flush(), close() -> [timeouts] -> cells, threads
Thread:  pure.
Source:  ours. Java waits up to Long.MAX_VALUE ms; CPython's locks raise OverflowError above threading.TIMEOUT_MAX,
         which is 292 years on Linux and 49 days on Windows.
"""

from __future__ import annotations

from threading import TIMEOUT_MAX


def checked_timeout(timeout: float | None) -> float | None:
    """Return a caller's timeout in seconds, 0 where it is negative, and None, which is for ever, where it is huge.

    Raises:
        TypeError: It is not a number.
        ValueError: It is NaN.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not hasattr(timeout, "__float__"):
        raise TypeError(f"timeout must be a number of seconds or None, got {type(timeout).__name__}: {timeout!r}")
    if timeout > TIMEOUT_MAX:  # asked first: an int may be too large for a float
        return None
    seconds = float(timeout)
    if seconds != seconds:
        raise ValueError("timeout nan is not a number of seconds: give 0 or more, or None to wait until all is done")
    return max(0.0, seconds)
