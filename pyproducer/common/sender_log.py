"""The log of code that runs in the sender's turns: a line never waits for a lock of the application's.

A logging handler may wait for the sender. One that sends its lines to Kafka has its own lock, which `logging` gives
every handler, while it waits for buffer.memory; if the sender waited for that lock to write a line of its own, nobody
would give memory back, and both would stand still until max.block.ms is over. So who takes the sender's turns writes

    at once               where every handler that is asked is one of logging's own kind and its lock is free, which is
                          the case nearly always: the order of lines, and pytest's caplog, are as everywhere
    by a thread           where a handler is the application's, or has work of another thread in its hands; the thread
                          begins with the first such line and ends with the last
    after his turn        where he is a caller who takes one (sender/turns.py)

Everybody else writes at once. A level is asked for without logging's own lock, too: the application may hold that
while it makes a handler, with a producer in it that is asked to connect.

Of lines that a thread has to write 1,000 are kept; more are counted. The interpreter's exit waits two seconds for them.
In a forked child those of the parent are forgotten.

Road:    beside it.
Thread:  any. What is shared are a deque, a dict that changes in single steps, and a lock that nobody waits for but the
         exit: it belongs to the thread that writes.
Source:  ours; Java's loggers block.
"""

from __future__ import annotations

import atexit
import io
import logging
import os
import sys
import traceback
import weakref
from _thread import LockType, RLock, allocate_lock, get_ident
from collections import deque
from typing import NamedTuple, Protocol

from pyproducer.common.clock import SystemClock
from pyproducer.common.threads import start_daemon

MOST_LINES = 1_000
"""So many lines wait for the thread that writes them."""
EXIT_WAIT_S = 2.0
"""How long the interpreter's exit waits for them."""

INLINE_HANDLERS: set[type] = {logging.StreamHandler, logging.FileHandler, logging.NullHandler,
                              type(logging.lastResort)}
"""Handlers that wait for nothing but the file that they write to."""
_INLINE_MODULES = ("_pytest.", "unittest._log")  # of handlers, formatters and streams
_PLAIN_STREAMS: set[type] = {io.TextIOWrapper, io.StringIO, type(None)}
_PLAIN_FORMATTERS: set[type] = {logging.Formatter, type(None)}

class TurnRole(Protocol):
    """Who takes a turn as a caller; hotpath's Role."""

    @property
    def caller(self) -> int:
        """The ident of that thread; 0 for none."""


class Owner(Protocol):
    """Whose turns they are: a producer's Life."""

    @property
    def is_on_sender_thread(self) -> bool:
        """Whether the current thread takes the sender's turns."""

    @property
    def role(self) -> TurnRole:
        """Who takes a turn as a caller."""


class _Line(NamedTuple):
    """A line that is to be written."""

    logger: logging.Logger
    record: logging.LogRecord

    def write(self) -> None:
        """Give it to the handlers."""
        self.logger.handle(self.record)


_owners: set[weakref.ref[Owner]] = set()  # changed in single steps
_waiting: deque[_Line] = deque()  # for the thread
_kept: dict[int, list[_Line]] = {}  # of callers in a turn, by ident
_left_out = 0  # written by whoever finds `_waiting` full; what is lost there is a count
_writing: LockType = allocate_lock()  # the writing thread's, from its start to its end


class SenderLog:
    """A logger, as far as our code uses one.

    Args:
        name: Its name; the `logging.Logger` of this name has the level, the handlers and the filters.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger: logging.Logger = logging.getLogger(name)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's name
        """Whether a line of this level would be written. Asked without logging's own lock."""
        logger = self._logger
        return (not logger.disabled and logger.manager.disable < level
                and level >= logger.getEffectiveLevel())

    def debug(self, text: str, *arguments: object) -> None:
        """Write a line for those who debug."""
        self._write(logging.DEBUG, text, arguments)

    def info(self, text: str, *arguments: object) -> None:
        """Write a line of what happened."""
        self._write(logging.INFO, text, arguments)

    def warning(self, text: str, *arguments: object, exc_info: bool | BaseException = False) -> None:
        """Write a line of what somebody should look at."""
        self._write(logging.WARNING, text, arguments, exc_info)

    def error(self, text: str, *arguments: object, exc_info: bool | BaseException = False) -> None:
        """Write a line of what failed."""
        self._write(logging.ERROR, text, arguments, exc_info)

    def exception(self, text: str, *arguments: object) -> None:
        """Write a line of what failed, with the exception that is being handled."""
        self._write(logging.ERROR, text, arguments, exc_info=True)

    def log(self, level: int, text: str, *arguments: object, exc_info: bool | BaseException = False) -> None:
        """Write a line of this level."""
        self._write(level, text, arguments, exc_info)

    def _write(self, level: int, text: str, arguments: tuple[object, ...],
               exc_info: bool | BaseException = False) -> None:
        if not self.isEnabledFor(level):
            return
        logger, frame = self._logger, sys._getframe(2)
        raised = (sys.exc_info() if exc_info is True
                  else (type(exc_info), exc_info, exc_info.__traceback__) if isinstance(exc_info, BaseException)
                  else None)
        line = _Line(logger, logger.makeRecord(
            logger.name, level, frame.f_code.co_filename, frame.f_lineno, text, arguments, raised,
            frame.f_code.co_name))
        del frame, raised
        owner = _owner_of_this_turn()
        if owner is None:
            line.write()
        elif owner.role.caller == get_ident():
            _kept.setdefault(get_ident(), []).append(line)
        elif _waiting or not _write_at_once(line):
            _write_later(line)


def sender_log(name: str) -> SenderLog:
    """Return the log of a module whose code runs in the sender's turns."""
    return SenderLog(name)


def watch(owner: Owner) -> None:
    """Know of a producer, whose turns are the sender's."""
    _owners.add(weakref.ref(owner, _owners.discard))


def _owner_of_this_turn() -> Owner | None:
    for reference in list(_owners):
        owner = reference()
        if owner is not None and owner.is_on_sender_thread:
            return owner
    return None


# At once.

def _write_at_once(line: _Line) -> bool:
    """Write a line where no handler makes us wait; False where one may."""
    logger, record = line
    if logger.filters:
        return False
    handlers = _handlers_of(logger, record.levelno)
    if not all(map(_is_plain, handlers)):
        return False
    taken: list[RLock] = []  # `handle` takes each once more
    try:
        for handler in handlers:
            if handler.lock is not None:
                if not handler.lock.acquire(blocking=False):
                    return False
                taken.append(handler.lock)
        line.write()
        return True
    finally:
        for lock in taken:
            lock.release()


def _handlers_of(logger: logging.Logger, level: int) -> list[logging.Handler]:
    """Return the handlers that a line goes to, as Logger.callHandlers finds them."""
    found: list[logging.Handler] = []
    has_any = False
    following: logging.Logger | None = logger
    while following is not None:
        has_any = has_any or bool(following.handlers)
        found += [handler for handler in following.handlers if level >= handler.level]
        following = following.parent if following.propagate else None
    if not has_any and logging.lastResort is not None:
        found.append(logging.lastResort)
    return found


def _is_plain(handler: logging.Handler) -> bool:
    return (_is_one_of(type(handler), INLINE_HANDLERS) and not handler.filters
            and _is_one_of(type(handler.formatter), _PLAIN_FORMATTERS)
            and _is_one_of(type(getattr(handler, "stream", None)), _PLAIN_STREAMS))


def _is_one_of(kind: type, plain: set[type]) -> bool:
    return kind in plain or kind.__module__.startswith(_INLINE_MODULES)


# By a thread.

def _write_later(line: _Line) -> None:
    global _left_out
    if len(_waiting) >= MOST_LINES:
        _left_out += 1
        return
    _waiting.append(line)  # first: who is about to end looks once more after he gave the lock back
    writing = _writing
    if writing.acquire(blocking=False):
        try:
            start_daemon(_write_all, "kafka-producer-log")
        except RuntimeError:  # no thread can be had: the next line tries again, or the exit writes it
            writing.release()


def _write_all() -> None:
    """Write what waits, and what comes meanwhile; the thread has the lock."""
    writing = _writing
    while True:
        try:
            _write_waiting()
        finally:
            writing.release()
        if not _waiting or not writing.acquire(blocking=False):
            return


def _write_waiting() -> None:
    global _left_out
    while _waiting:
        _write_safely(_waiting.popleft())
        if _left_out and not _waiting:
            count, _left_out = _left_out, 0
            own = logging.getLogger(__name__)
            _write_safely(_Line(own, own.makeRecord(
                own.name, logging.WARNING, __file__, 0, "%d lines were left out here: the log's handlers took too long",
                (count,), None)))


def _write_safely(line: _Line) -> None:
    try:
        line.write()
    except Exception:  # a filter's or a handler's, which nobody else hears of
        if logging.raiseExceptions and sys.stderr is not None:
            traceback.print_exc()


def drain(timeout_s: float) -> bool:
    """Wait until all lines so far are written; False when the time is over first. Never from a turn of the sender."""
    clock = SystemClock()
    deadline_ms = clock.now_ms() + int(timeout_s * 1000)
    while _waiting or _writing.locked():
        writing = _writing
        if not writing.acquire(timeout=max(deadline_ms - clock.now_ms(), 0) / 1000):
            return False
        try:
            _write_waiting()  # no thread could be had
        finally:
            writing.release()
    return True


# Afterwards.

def write_kept() -> None:
    """Write what the current thread had to say in a turn that it took as a caller."""
    for line in _kept.pop(get_ident(), ()):
        line.write()


def has_kept() -> bool:
    """Whether any caller has something to write."""
    return bool(_kept)


def _drain_at_exit() -> None:
    drain(EXIT_WAIT_S)


def _forget_in_child() -> None:
    """In a child process: what the parent had to say is the parent's, and its thread is not here."""
    global _writing, _left_out
    _waiting.clear()
    _kept.clear()
    _left_out = 0
    _writing = allocate_lock()


atexit.register(_drain_at_exit)
os.register_at_fork(after_in_child=_forget_in_child)
