"""pyproducer.why.socket: a door at which a process that runs is asked where the time of its records goes.

    wiring opens it -> `pyproducer why SOCKET` connects -> it is written what producer.why(save=...) writes, and no more

Off unless the application chose a path. Only the process's own user (and root) can connect: the mode is 0600 before the
path is there. No key, value or secret goes through it, and nothing that is sent to it is read.

Road:    registry, accumulator -> why.gather -> [why_door] -> who connects
Thread:  one of its own, which sleeps in accept(); an answer takes some ms of this process, one at a time.
Source:  ours.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import stat
from collections.abc import Callable

from pyproducer.common.clock import SystemClock
from pyproducer.common.errors import ConfigError
from pyproducer.common.waiting import SYSTEM_LOCKS

log: logging.Logger = logging.getLogger(__name__)

_KEY = "pyproducer.why.socket"
_MODE = 0o600
_BACKLOG = 64
_LONGEST_WRITE_S = 10.0
"""Who asks and does not read is left."""
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
"""What accept() may say and take another connection soon: no descriptors or memory for a moment, or it hung up."""
_PAUSE_S = 0.1

_Place = tuple[int, int]
"""Device and inode."""


def open_door(path: str, answer: Callable[[], str],
              start_thread: Callable[[Callable[[], None], str], object]) -> WhyDoor | None:
    """Open one; None, and a WARNING, where another producer has the path: for this alone no worker is to stand still.

    Args:
        path: See WhyDoor.
        answer: See WhyDoor.
        start_thread: See WhyDoor.

    Raises:
        ConfigError: There is no such socket to be had; nothing was left behind.
    """
    try:
        return WhyDoor(path, answer, start_thread)
    except _AnsweredError:
        log.warning("%s=%s has no effect: another producer answers there. Each needs a path of its own; {pid} in it "
                    "stands for the number of the process", _KEY, path)
        return None


class _AnsweredError(Exception):
    """The path is another's."""


class WhyDoor:
    """A Unix socket that answers each connection with one text.

    Args:
        path: Where; `{pid}` stands for the number of the process, and a relative one is of the folder that is the
            working directory now. What a process that is gone left there is replaced.
        answer: Gives the text.
        start_thread: Starts the thread of it.

    Raises:
        ConfigError: There is no such socket to be had; nothing was left behind.
        _AnsweredError: Another producer has the path.
    """

    def __init__(self, path: str, answer: Callable[[], str],
                 start_thread: Callable[[Callable[[], None], str], object]) -> None:
        path = path.replace("{pid}", str(os.getpid()))
        self.path: str = os.path.abspath(path)
        self._answer = answer
        self._is_closed = False
        self._socket, self._place = _listen(path)  # as it was given: a relative one may be short enough alone
        try:
            start_thread(self._serve, "pyproducer-why")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Take the path away, and end the thread."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(OSError):  # somebody else took it away
            if _place_of(self.path) == self._place:  # else it is another's, which was put there since
                os.unlink(self.path)
        with contextlib.suppress(OSError):  # wakes accept()
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def abandon(self) -> None:
        """In a child process: let go of what the parent goes on to listen at."""
        self._is_closed = True
        self._socket.close()

    def _serve(self) -> None:
        is_told = False  # once for each time that nobody is answered
        while not self._is_closed:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if not self._is_closed and error.errno in _PASSING:
                    if not is_told:
                        log.warning("Nobody is answered at %s for now: %s", self.path, error)
                        is_told = True
                    SystemClock().wait(SYSTEM_LOCKS.cell(), _PAUSE_S)
                    continue
                if not self._is_closed:
                    log.warning("Nobody is answered at %s any more: %s", self.path, error)
                return
            is_told = False
            with connection:
                try:
                    connection.settimeout(_LONGEST_WRITE_S)
                    connection.sendall(self._answer().encode())
                except OSError as error:  # it hung up, or does not read
                    log.debug("Who asked at %s was not answered: %s", self.path, error)
                except Exception:  # the door stays open for the next one
                    log.exception("Who asked at %s was not answered", self.path)


def _place_of(path: str) -> _Place:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _listen(path: str) -> tuple[socket.socket, _Place]:
    if not hasattr(socket, "AF_UNIX"):
        raise ConfigError(_KEY, path, "this system has no Unix sockets: leave it out, and call producer.why(save=...)")
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        os.fchmod(listener.fileno(), _MODE)  # Linux gives the path this mode; it is there with no other in between
        listener.bind(path)
        place = _place_of(path)
        os.chmod(path, _MODE)  # the others
        listener.listen(_BACKLOG)
    except (OSError, ValueError) as error:  # the latter of NUL, and of what the file system's encoding has not
        listener.close()
        raise ConfigError(_KEY, path, f"nobody can listen there ({error}): name a path of at most 107 bytes, in a "
                                      "folder that this process may write to") from error
    return listener, place


def _remove_stale(path: str) -> None:
    """Take away what a process that is gone left at a path.

    Raises:
        ConfigError: It is no socket.
        _AnsweredError: Somebody answers there.
    """
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return  # nothing is there, or bind() says what is wrong
    if not is_socket:
        raise ConfigError(_KEY, path, "there is a file that is no socket: name another path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)
        try:
            probe.connect(path)
        except BlockingIOError:  # so many ask there already
            pass
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return
    raise _AnsweredError(path)
