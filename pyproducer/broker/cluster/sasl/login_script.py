"""What a test may put between a client that logs in and the broker's half of its login.

Road:    server authenticator -> [login script]; implemented in control/login_faults.py
Thread:  the thread that polls the selector.
Source:  ours.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from pyproducer.broker.request.request_context import RequestContext
from pyproducer.protocol.buffer import Buffer


class LoginReply(NamedTuple):
    """What answers a frame of a login.

    Attributes:
        chunks: The answer without its size; empty where nothing is answered.
        is_torn: They are bytes as they are, size and all, behind which the connection ends.
        pause: What is to be waited for before the next frame is read; None for nothing.
    """

    chunks: Sequence[Buffer]
    is_torn: bool = False
    pause: Wait | None = None


Wait: TypeAlias = Callable[[Callable[[], None]], None]
"""Is given what to call, once and on any thread, when the login may go on."""
Exchange: TypeAlias = Generator[Wait, None, "LoginReply | None"]
"""One frame with all that happens to it: yields where the login has to wait, returns its answer or None for none."""


class LoginScript(Protocol):
    """Asked for each request of a login, and of its renewals."""

    @property
    def is_active(self) -> bool:
        """Whether it would do anything: a login costs one look where it would not."""

    def begin(self, context: RequestContext, payload: bytes,
              take: Callable[[], Sequence[Buffer] | None]) -> Exchange | None:
        """Return what happens to a frame, or None where nothing does.

        Args:
            context: Its header, and who sent it.
            payload: The frame, without its size.
            take: Does what is done without a script, and returns the answer.
        """
