"""What tests of the network layer look at instead of a watch: what was asked of the system, and what has arrived."""

from __future__ import annotations

import fcntl
import select
import selectors
import socket
import struct
import termios
import time
from typing import Any, NamedTuple

import pytest

from tests.support.patience import GIVE_UP_S


class Sleep(NamedTuple):
    """One call of the system's select: how long it was told to wait at most, and how many events it gave."""

    timeout_s: float
    event_count: int


def watch_sleeps(monkeypatch: pytest.MonkeyPatch) -> list[Sleep]:
    """Return the list that every later call of select is written to."""
    sleeps: list[Sleep] = []
    real = selectors.DefaultSelector.select

    def watched(selector: Any, timeout: float | None = None) -> Any:
        events = real(selector, timeout)
        assert timeout is not None
        sleeps.append(Sleep(timeout, len(events)))
        return events

    monkeypatch.setattr(selectors.DefaultSelector, "select", watched)
    return sleeps


def await_delivery(*senders: socket.socket) -> None:
    """Wait until the peer's system has every byte that was written to these sockets."""
    deadline_s = time.monotonic() + GIVE_UP_S
    for sock in senders:
        while struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]:
            assert time.monotonic() < deadline_s, "the bytes did not arrive"


def await_end(sock: socket.socket) -> None:
    """Wait until the system knows that the peer of this socket is gone."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    assert poll.poll(GIVE_UP_S * 1000), "the end of the connection did not arrive"
