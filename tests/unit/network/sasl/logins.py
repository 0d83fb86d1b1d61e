"""What the tests of logins share: a source of credentials that the test answers for, and threads that it steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyproducer.network.sasl.refreshing_login import RefreshingLogin, RefreshTimes
from tests.support.clock import ManualClock


@dataclass(frozen=True)
class Pass:
    """Credentials."""

    value: str
    expires_at_ms: int | None = None
    started_at_ms: int | None = None


class ScriptedSource:
    """Where credentials come from.

    Attributes:
        answers: What the next fetches return, or raise; the last one stays.
        fetched_at_ms: When it was asked, by the wall's clock.
        closed_count: How often it was closed.
    """

    def __init__(self, clock: ManualClock, *answers: object) -> None:
        self._clock = clock
        self.answers = list(answers)
        self.fetched_at_ms: list[int] = []
        self.closed_count = 0

    def fetch(self) -> Any:
        self.fetched_at_ms.append(self._clock.timestamp_ms())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    def close(self) -> None:
        self.closed_count += 1


class NoThread:
    """A StartThread that keeps what it was given for the test to run."""

    def __init__(self) -> None:
        self.runs: list[tuple[Callable[[], None], str]] = []

    def __call__(self, run: Callable[[], None], name: str) -> None:
        self.runs.append((run, name))


class Client:
    """A SaslClient that says nothing."""

    mechanism = "TEST"
    complete = False

    def __init__(self, credential: Any, host: str) -> None:
        self.credential, self.host = credential, host

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        return None


def least(low: float, high: float) -> float:
    """Draw the middle for backoffs, whose jitter goes both ways, and nothing for a refresh's."""
    return (low + high) / 2 if low > 0 else low


def stepped_login(source: ScriptedSource, clock: ManualClock, **options: Any) -> RefreshingLogin[Any]:
    """Return a login that was started and whose thread is the test."""
    threads = NoThread()
    login = RefreshingLogin("TEST", source.fetch, Client, "the token of the test", close=source.close, clock=clock,
                            start_thread=threads, uniform=least, **{"times": RefreshTimes(), **options})
    login.start(lambda: None)
    return login


def run_until(login: RefreshingLogin, clock: ManualClock, ms: int) -> None:
    """Let the thread do what it does in so long: look, sleep, look."""
    while ms > 0:
        slept_ms = min(login.run_once(), ms)
        clock.advance(slept_ms)
        ms -= slept_ms
