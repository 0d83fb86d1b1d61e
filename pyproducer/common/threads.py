"""How a thread is started, and what may be raised in it from outside.

Road:    beside it; the sender's thread and those that look names up.
Thread:  any.
Source:  Java KafkaThread (4.1), always as a daemon; the other half is ours.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # CPython's; typeshed has none
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

StartThread = Callable[[Callable[[], None], str], object]
"""Starts a function on a thread of its own with a name; RuntimeError when no thread can be had."""


def start_daemon(run: Callable[[], None], name: str) -> None:
    """Start a function on a daemon thread, which nobody waits for."""
    threading.Thread(target=run, name=name, daemon=True).start()


# Handlers of theirs set a flag, or wake their loop; asyncio's of Ctrl-C raises KeyboardInterrupt in the end.
_ONLY_NOTE = frozenset({"asyncio", "uvloop", "uvicorn"})
_OTHER_SIGNALS = tuple(sorted(int(number) for number in signal.valid_signals() if number != signal.SIGINT))


def only_ctrl_c_comes() -> bool:
    """Whether signals raise nothing in the current thread but KeyboardInterrupt, which `except Exception` lets pass.

    Handlers run in the main thread. One that the application wrote may raise whatever it likes, an OSError for one
    (TimeoutError out of an alarm), which is not to be taken for a socket's.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return True
    # _signal's own: signal.getsignal makes an enum of each answer, which would take ten times as long.
    handler = _signal.getsignal
    if not all(map(_is_harmless, filter(callable, map(handler, _OTHER_SIGNALS)))):
        return False
    on_ctrl_c = handler(signal.SIGINT)
    return on_ctrl_c is signal.default_int_handler or not callable(on_ctrl_c) or _is_harmless(on_ctrl_c)


def _is_harmless(handler: Any) -> bool:
    """Whether a handler is an event loop's or a server's own, which notes the signal and raises nothing."""
    if type(handler) is partial:
        handler = handler.func
    return str(getattr(handler, "__module__", "")).partition(".")[0] in _ONLY_NOTE
