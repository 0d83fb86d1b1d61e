"""How a thread is started.

Road:    beside it; the sender's thread and those that look names up.
Thread:  any.
Source:  Java KafkaThread (4.1), always as a daemon.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

StartThread = Callable[[Callable[[], None], str], object]
"""Starts a function on a thread of its own with a name; RuntimeError when no thread can be had."""


def start_daemon(run: Callable[[], None], name: str) -> None:
    """Start a function on a daemon thread, which nobody waits for."""
    threading.Thread(target=run, name=name, daemon=True).start()
