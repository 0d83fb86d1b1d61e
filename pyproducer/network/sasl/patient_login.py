"""A login for who asks one broker at a time and waits for its answers: what it needs is waited for, too.

Road:    settings -> [login_of] -> BlockingClient -> SaslClientAuthenticator
Thread:  the caller's, which is the one that polls.
Source:  ours.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyproducer.common.clock import NEVER_MS, SystemClock
from pyproducer.common.errors import AuthenticationError, KafkaTimeoutError
from pyproducer.network.sasl.login import login_for

if TYPE_CHECKING:
    from pyproducer.network.sasl.mechanism import Login, SaslClient

_LONGEST_WAIT_MS = 60_000  # the operating system's calls take no more than 2**31 - 1 ms


@contextmanager
def login_of(config: Mapping[str, Any], timeout_s: float | None) -> Iterator[Login | None]:
    """Fetch the credentials that the settings ask for, and forget them at the end; None where they ask for none.

    Args:
        config: Parsed settings under Java's keys.
        timeout_s: Longest wait for a token or ticket, in seconds; None for ever.

    Raises:
        ConfigError: The mechanism is unknown, or what it needs is missing. Not sent.
        AuthenticationError: Where they are fetched, they are refused to us. Not sent.
        KafkaTimeoutError: They did not come in time; `__cause__` is what the last attempt met. Not sent.
    """
    login = login_for(config)
    if login is None:
        yield None
        return
    patient = PatientLogin(login, timeout_s)
    try:
        patient.await_credentials()
        yield patient
    finally:
        login.close()


class PatientLogin:
    """A Login whose `new_client` waits for what it needs: here the thread that polls is the caller's, who waits anyway.

    Args:
        login: The login.
        timeout_s: Longest wait for credentials, and for what goes with them to a host, in seconds; None for ever.
    """

    def __init__(self, login: Login, timeout_s: float | None) -> None:
        self.mechanism: str = login.mechanism
        self._login = login
        self._timeout_s = timeout_s
        self._changed = threading.Event()

    @property
    def error(self) -> Exception | None:
        """See Login."""
        return self._login.error

    @property
    def is_ready(self) -> bool:
        """See Login."""
        return self._login.is_ready

    def start(self, on_change: Callable[[], None]) -> bool:
        """See Login; `await_credentials` starts this one."""
        return True

    def is_ready_for(self, host: str) -> bool:
        """Whether there are credentials; what else a host takes, `new_client` waits for."""
        return self._login.is_ready

    def await_credentials(self) -> None:
        """Begin to fetch, and wait.

        Raises:
            AuthenticationError: They are refused to us. Not sent.
            TransportError: No thread can be had. Not sent.
            KafkaTimeoutError: They did not come in time. Not sent.
        """
        login = self._login
        if not login.start(self._changed.set) and login.error is not None:
            raise login.error
        if not self._wait(lambda: login.is_ready or isinstance(login.error, AuthenticationError)):
            error = login.error
            raise KafkaTimeoutError(f"no credentials for {login.mechanism} within {self._timeout_s} s" + (
                f": {error}" if error else ""), phase="request") from error
        if not login.is_ready and login.error is not None:
            raise login.error

    def new_client(self, host: str) -> SaslClient:
        """See Login."""
        self._wait(lambda: self._login.is_ready_for(host) or not self._login.is_ready)
        return self._login.new_client(host)

    def _wait(self, is_done: Callable[[], bool]) -> bool:
        """Wait until something is so; False when it was not in time. News that it is not so are no reason to go on."""
        clock = SystemClock()
        deadline_ms = NEVER_MS if self._timeout_s is None else clock.now_ms() + math.ceil(self._timeout_s * 1000)
        while not is_done():
            left_ms = deadline_ms - clock.now_ms()
            if left_ms <= 0:
                return False
            self._changed.wait(min(left_ms, _LONGEST_WAIT_MS) / 1000)
            self._changed.clear()
        return True

    def close(self) -> None:
        """See Login."""
        self._login.close()
